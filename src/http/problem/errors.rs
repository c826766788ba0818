//! Errors of the agent and of the HTTP library as refusals, each with its status, its word and a thing to try.
//!
//! Must not know: how a refusal is written.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::StatusCode;

use super::Refusal;
use crate::agent::{AgentError, ConfirmError, LeaseNodesError, MessageError};
use crate::core::election::ChangeError;
use crate::core::{CommandError, InvalidTags};

impl From<InvalidTags> for Refusal {
    fn from(error: InvalidTags) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "tags", "Tags refused", error.to_string())
            .hint("nothing was changed")
    }
}

impl From<AgentError> for Refusal {
    fn from(error: AgentError) -> Self {
        let detail = error.to_string();
        match error {
            AgentError::Refused(CommandError::NoSuchMember { id }) => Self::no_such_member(id.as_str()),
            AgentError::Refused(CommandError::NotDown { .. }) => {
                Self::new(StatusCode::CONFLICT, "not-down", "Member is not down", detail)
                    .hint("add ?force=true to remove it all the same: its process will stop")
            }
            AgentError::Refused(CommandError::Oneself) => {
                let detail = "a node does not remove itself";
                Self::new(StatusCode::CONFLICT, "oneself", "A node does not remove itself", detail)
                    .hint("POST /v1/leave, or `headcount leave`")
            }
            AgentError::Refused(CommandError::Joining) => {
                Self::new(StatusCode::CONFLICT, "joining", "Not a member yet", detail).hint("see GET /readyz")
            }
            AgentError::Refused(CommandError::Busy | CommandError::TooManyRemovals | CommandError::Unconfirmed(_)) => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", "Too much at once", detail)
            }
            AgentError::Refused(CommandError::Electorate(ChangeError::LeaderSilent { .. })) => {
                Self::new(StatusCode::GATEWAY_TIMEOUT, "leader-silent", "The leader did not answer", detail)
            }
            AgentError::Refused(CommandError::Electorate(
                ChangeError::NotVoter { .. }
                | ChangeError::NotCaughtUp { .. }
                | ChangeError::Draining { .. }
                | ChangeError::LeadsAlready { .. }
                | ChangeError::LedByOther { .. },
            )) => Self::new(StatusCode::CONFLICT, "resignation", "Leadership not handed over", detail),
            AgentError::NotLeader { leader } => Self::not_leader(leader.as_ref()),
            AgentError::NobodyLeads => Self::new(
                StatusCode::CONFLICT,
                "nobody-leads",
                "Nobody leads",
                "nobody leads, so there is nobody to resign",
            )
            .hint("GET /v1/leader (`headcount leader`) says why; try again when somebody leads"),
            AgentError::NotGivenUp { .. } => Self::new(
                StatusCode::GATEWAY_TIMEOUT,
                "resigning",
                "The leader has not given leadership up yet",
                detail,
            )
            .hint("GET /v1/leader (`headcount leader`) says who follows; the leader's log names the work it waits for"),
            AgentError::NotBelieved { .. } => {
                Self::new(StatusCode::CONFLICT, "not-believed", "The leader does not believe this node yet", detail)
            }
            AgentError::NoSuccessor => Self::value(detail),
            AgentError::TooManyAddresses { .. }
            | AgentError::Refused(CommandError::Unreachable { .. } | CommandError::NotReached { .. }) => {
                Self::value(detail)
            }
            AgentError::Refused(CommandError::NoLink { .. } | CommandError::NoLinks) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "no-link", "No link", detail)
            }
            AgentError::Refused(CommandError::NotLive { .. }) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-live", "Member is not live", detail)
                    .hint("GET /v1/members/{id} (`headcount members --status down,left`) says since when")
            }
            AgentError::Refused(CommandError::TooFast) => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too-fast", "Too many broadcasts", detail)
            }
            AgentError::Refused(CommandError::NoAnswer { .. }) => {
                Self::new(StatusCode::GATEWAY_TIMEOUT, "no-answer", "No answer in time", detail)
            }
            AgentError::Refused(CommandError::NoSuchRequest { id }) => Self::no_such_request(&id.to_string()),
            AgentError::Refused(CommandError::NoRoomToDrain) => {
                Self::new(StatusCode::CONFLICT, "no-room", "No room to say that it drains", detail)
            }
            AgentError::Refused(CommandError::Leaving) | AgentError::Stopped => Self::stopping(detail),
            AgentError::Refused(CommandError::NoQuorumMode | CommandError::Electorate(_)) => {
                Self::new(StatusCode::CONFLICT, "electorate", "Electorate not changed", detail)
            }
            AgentError::Refused(_) => Self::new(StatusCode::CONFLICT, "refused", "Refused", detail),
        }
    }
}

impl From<LeaseNodesError> for Refusal {
    fn from(error: LeaseNodesError) -> Self {
        let detail = error.to_string();
        match error {
            LeaseNodesError::NotLeaseMode => Self::new(StatusCode::CONFLICT, "no-leases", "No leases here", detail),
            LeaseNodesError::Store(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "database", "The database cannot be used", detail)
            }
            LeaseNodesError::Busy => Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", "Too many ask", detail),
            LeaseNodesError::Stopped => Self::stopping(detail),
        }
    }
}

impl From<MessageError> for Refusal {
    fn from(error: MessageError) -> Self {
        let detail = error.to_string();
        match error {
            MessageError::Topic(_) => Self::value(detail).hint("nothing was sent"),
            // Programs' values: HTTP has bytes.
            MessageError::Unwritable { .. } | MessageError::Unreadable { .. } => Self::value(detail),
            MessageError::TooLarge(_) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "Body too large", detail)
            }
            MessageError::NoAnswer { id } => AgentError::Refused(CommandError::NoAnswer { id }).into(),
            MessageError::Refused(error) => AgentError::Refused(error).into(),
            MessageError::Stopped => Self::stopping(detail),
        }
    }
}

impl From<ConfirmError> for Refusal {
    fn from(error: ConfirmError) -> Self {
        let detail = error.to_string();
        match error {
            ConfirmError::NotLeader { leader } => {
                let mut refusal =
                    Self::new(StatusCode::CONFLICT, "not-leader", "Not the leader", "this node does not lead")
                        .hint("GET /v1/leader (`headcount leader`) says who leads, or why nobody does");
                refusal.0.leader = leader.as_ref().map(Into::into);
                refusal
            }
            ConfirmError::Lost | ConfirmError::TimedOut => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-confirmed", "Leadership not confirmed", detail)
            }
            ConfirmError::Disabled => Self::new(StatusCode::CONFLICT, "electorate", "Nobody is elected here", detail)
                .hint("set leadership.mode = \"quorum\" or \"lease\""),
            ConfirmError::Busy => Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", "Too many commands", detail),
            ConfirmError::Stopped => Self::stopping(detail),
        }
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        let detail = rejection.body_text();
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Self::body_too_large(detail),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", "Not JSON", detail)
                    .hint("send the header `Content-Type: application/json`")
            }
            StatusCode::UNPROCESSABLE_ENTITY => Self::value(detail),
            status => Self::new(status, "syntax", "Malformed JSON", detail),
        }
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::query(rejection.body_text())
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "path", "Path not understood", rejection.body_text())
    }
}
