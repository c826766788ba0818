//! The leader, the voters, and the agreed view.
//!
//! Invariant: all keys are always present; unknown values are `null`.

#[cfg(test)]
mod tests;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::patterns;
use super::time::millis;
use crate::agent::AgreedView;
use crate::config::LeadershipMode;
use crate::core::election::Electorate;
#[cfg(feature = "agent")]
use crate::core::{Time, election::VoterStandings};

/// The leader, as one node knows it at the time of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Leader {
    /// The leader's name.
    pub leader: Option<String>,
    /// The latest term known: the fencing token, if this node leads. It never falls while the agent runs. A restarted agent
    /// begins with the term on its disk (0 without a data directory, or if it does not vote) until it has heard of the
    /// leader: whoever compares terms over restarts of an agent keeps the highest one itself.
    pub term: u64,
    /// True if the node that was asked leads.
    pub is_me: bool,
    /// `none`, `quorum` or `lease`.
    #[cfg_attr(test, schemars(extend("enum" = ["none", "quorum", "lease"])))]
    pub mode: String,
    /// `disabled`, `vacant`, `led` or `unavailable`.
    #[cfg_attr(test, schemars(extend("enum" = ["disabled", "vacant", "led", "unavailable"])))]
    pub state: String,
    /// The time for which this stays true without news, in milliseconds, rounded down: counted from before the request
    /// was sent, it never outlives the claim, unless the leader gives its claim up (it leaves, resigns, is voted out):
    /// then another node may lead at once. A caller that acts on it for longer than a moment uses
    /// `POST /v1/leader/work`, for which a hand-over waits.
    pub lease_remaining_ms: Option<u64>,
    /// True if the node that was asked contends for the lease; `null` where none leads.
    #[serde(default)]
    pub contends: Option<bool>,
}

impl Leader {
    /// Returns a node's knowledge of the leader, judged by the clock at the time of the call.
    pub fn new(leadership: &crate::agent::Leadership, mode: LeadershipMode) -> Self {
        let now = leadership.clone().now();
        Self {
            leader: now.leader.as_ref().map(ToString::to_string),
            term: now.term,
            is_me: now.is_me,
            mode: mode.name().to_owned(),
            state: now.state.name().to_owned(),
            lease_remaining_ms: now.valid_until.map(|until| millis(until.remaining())),
            contends: None,
        }
    }
}

impl Leader {
    /// Returns a leader that a majority, or a database, has confirmed; the remaining time is judged by the clock at the
    /// time of the call.
    pub fn confirmed(me: &str, confirmed: &crate::agent::Confirmed, mode: LeadershipMode) -> Self {
        Self {
            leader: Some(me.to_owned()),
            term: confirmed.term,
            is_me: true,
            mode: mode.name().to_owned(),
            state: crate::agent::LeadershipState::Led.name().to_owned(),
            lease_remaining_ms: Some(millis(confirmed.valid_until.remaining())),
            contends: None,
        }
    }

    /// Adds that the node contends for the lease, or that it does not.
    #[must_use]
    pub fn contending(mut self, contends: Option<bool>) -> Self {
        self.contends = contends;
        self
    }
}

/// A piece of work that a caller does while the agent's node leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct LedWork {
    /// The name of the piece of work.
    pub id: String,
    /// The name of the node that leads.
    pub node: String,
    /// The term that the work is done in: the fencing token.
    pub term: u64,
    /// The time for which the work may go on without a further word, in milliseconds, counted from before the request
    /// was sent; `null`: it has to end now.
    pub lease_remaining_ms: Option<u64>,
}

impl LedWork {
    /// Returns a piece of work; `remaining` is the time that it has left at the time of the call.
    pub fn new(id: super::EventId, node: &str, term: u64, remaining: Option<std::time::Duration>) -> Self {
        Self { id: id.to_string(), node: node.to_owned(), term, lease_remaining_ms: remaining.map(millis) }
    }
}

/// The request that the leader give leadership up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Resign {
    /// The voter to hand over to; `null` for any.
    #[serde(default)]
    #[cfg_attr(test, schemars(regex(pattern = patterns::NAME)))]
    pub to: Option<String>,
}

/// The electorate, as one node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Voters {
    /// The voters, sorted by name; empty if there is no electorate yet, or if nobody has led or told of them since this
    /// agent started.
    pub voters: Vec<Voter>,
    /// The lineage of the electorate: a random number drawn when it was founded or last recovered, 16 hex digits;
    /// `null` if there is no electorate yet.
    pub lineage: Option<String>,
    /// The number of voters that form a majority.
    pub majority: Option<usize>,
    /// The latest term known, as `GET /v1/leader` has it.
    pub term: u64,
    /// The number of further voters that may fail before nobody can lead, judged by those that acknowledge now; known
    /// to the leader, `null` elsewhere.
    pub failure_tolerance: Option<usize>,
    /// The number of voters that acknowledge their leader now, itself included; `null` if it is not known.
    pub acknowledging: Option<usize>,
    /// Another electorate in this cluster, if a member has reported one within ten seconds: two may lead until one of them
    /// ends, by itself. `null` if none was.
    #[serde(default)]
    pub other_electorate: Option<OtherElectorate>,
    /// The electorate in which this node voted until it ended for another one, as its data directory keeps it; `null` if none
    /// has ended.
    #[serde(default)]
    pub ended_electorate: Option<EndedElectorate>,
}

/// An electorate that ended for another one that it met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct EndedElectorate {
    /// Its lineage, 16 hex digits.
    pub lineage: String,
    /// The highest term in which it was led, as far as this node knows.
    pub term: u64,
    /// The names of its voters.
    pub voters: Vec<String>,
}

/// An electorate beside the one that a node follows, as a member reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct OtherElectorate {
    /// The name of the member that reported it last.
    pub reported_by: String,
    /// The lineage of its first generation, 16 hex digits.
    pub root: String,
    /// Its leader; `null` if none is known.
    pub leader: Option<String>,
    /// The term of that leader; without one, a term that is not above its newest.
    pub term: u64,
    /// True if both were recovered from one electorate, apart; false if they were founded apart.
    #[serde(default)]
    pub recovered: bool,
}

/// One voter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Voter {
    /// The voter's name.
    pub id: String,
    /// The identity that it drew at its first start, kept in its data directory: 16 hex digits.
    pub identity: String,
    /// Its status as a member; `null` if it is not listed as a member.
    pub status: Option<String>,
    /// Its role: `leader`, `follower`, `learner` (it is being added) or `unreachable` (the leader has not heard it for
    /// a lease); `null` if it is not known.
    pub role: Option<String>,
    /// The time since it last acknowledged its leader, in milliseconds; `null` if it is not known.
    pub last_ack_ms: Option<u64>,
    /// The number of agreed views that it is behind; `null` if it is not known.
    pub lag: Option<u64>,
    /// True if its vote counts now: false if it stands aside, has lost its disk, is a learner or is not heard; `null`
    /// if it is not known.
    pub votes: Option<bool>,
    /// True if the node of this name has another identity than the voter: the voter's data directory is lost, or was
    /// exchanged. The node says so itself, to all.
    #[serde(default)]
    pub lost_disk: bool,
    /// True if the voter stands aside until its disk takes its ballot: the disk is full, read-only or broken. The node says so
    /// itself, to all.
    #[serde(default)]
    pub disk_refused: bool,
}

#[cfg(feature = "agent")]
impl Voter {
    fn is_heard(&self) -> bool {
        matches!(self.status.as_deref(), Some("up" | "suspect"))
    }
}

impl Voters {
    /// Returns an electorate; `status` looks up the status of a member.
    pub fn new(
        electorate: Option<&Electorate>,
        leader: Option<&crate::NodeId>,
        term: u64,
        status: impl Fn(&crate::NodeId) -> Option<String>,
    ) -> Self {
        let voter = |voter: &crate::core::election::Voter| Voter {
            id: voter.id.to_string(),
            identity: format!("{:016x}", voter.identity.0),
            status: status(&voter.id),
            role: leader.filter(|leader| **leader == voter.id).map(|_| "leader".to_owned()),
            last_ack_ms: None,
            lag: None,
            votes: None,
            lost_disk: false,
            disk_refused: false,
        };
        Self {
            voters: electorate.map(|electorate| electorate.voters.iter().map(voter).collect()).unwrap_or_default(),
            lineage: electorate.map(|electorate| format!("{:016x}", electorate.lineage.0)),
            majority: electorate.map(Electorate::majority),
            term,
            failure_tolerance: None,
            acknowledging: None,
            other_electorate: None,
            ended_electorate: None,
        }
    }

    /// Returns the voters that are not heard here, in words: they may live behind a cut. `None` if all are heard.
    #[cfg(feature = "agent")]
    pub(crate) fn unheard(&self) -> Option<String> {
        if self.voters.is_empty() {
            return Some("all (their names are not known)".to_owned());
        }
        let unheard: Vec<_> =
            self.voters.iter().filter(|voter| !voter.is_heard()).map(|voter| voter.id.as_str()).collect();
        (!unheard.is_empty()).then(|| unheard.join(", "))
    }

    /// Returns the voters that are heard here, and have not lost their data as far as is known.
    #[cfg(feature = "agent")]
    pub(crate) fn left(&self) -> Vec<String> {
        let is_left = |voter: &&Voter| voter.is_heard() && voter.votes != Some(false);
        self.voters.iter().filter(is_left).map(|voter| voter.id.clone()).collect()
    }

    /// Adds the lineage of an electorate whose voters are not known.
    #[must_use]
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the agent makes it, others read it"))]
    pub(crate) fn of(mut self, known: Option<crate::core::election::Lineage>) -> Self {
        self.lineage = self.lineage.or_else(|| known.map(|lineage| format!("{:016x}", lineage.0)));
        self
    }

    /// Adds another electorate that members report.
    #[must_use]
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the agent makes it, others read it"))]
    pub(crate) fn beside(mut self, other: Option<&crate::core::OtherElectorate>) -> Self {
        self.other_electorate = other.map(|other| OtherElectorate {
            reported_by: other.by.to_string(),
            root: format!("{:016x}", other.root.0),
            leader: other.leader.as_ref().map(ToString::to_string),
            term: other.term.0,
            recovered: other.is_recovery,
        });
        self
    }

    /// Adds the electorate in which this node voted until it ended.
    #[must_use]
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the agent makes it, others read it"))]
    pub(crate) fn after(mut self, ended: Option<&crate::core::election::EndedElectorate>) -> Self {
        self.ended_electorate = ended.map(|ended| EndedElectorate {
            lineage: format!("{:016x}", ended.electorate.lineage.0),
            term: ended.term.0,
            voters: ended.electorate.voters.iter().map(|voter| voter.id.to_string()).collect(),
        });
        self
    }

    /// Adds the standing of each voter, as of this time.
    #[must_use]
    #[cfg(feature = "agent")]
    pub(crate) fn standing(
        mut self,
        standings: &VoterStandings,
        now: Time,
        status: impl Fn(&crate::NodeId) -> Option<String>,
    ) -> Self {
        for standing in &standings.voters {
            let identity = format!("{:016x}", standing.voter.identity.0);
            if standing.is_learner && self.voters.iter().all(|voter| voter.id != standing.voter.id.as_str()) {
                self.voters.push(Voter {
                    id: standing.voter.id.to_string(),
                    identity: identity.clone(),
                    status: status(&standing.voter.id),
                    role: None,
                    last_ack_ms: None,
                    lag: None,
                    votes: None,
                    lost_disk: false,
                    disk_refused: false,
                });
            }
            let Some(voter) = self.voters.iter_mut().find(|voter| voter.identity == identity) else { continue };
            voter.votes = standings.votes(standing, now);
            voter.lost_disk = standing.has_lost_disk && !standing.is_learner;
            voter.disk_refused = standing.is_aside;
            voter.last_ack_ms = standing.acknowledged.map(|at| millis(now.since(at)));
            voter.lag = standing.lag;
            if standings.are_heard {
                let role = match voter.votes {
                    _ if standing.is_learner => "learner",
                    _ if standing.is_leader => "leader",
                    Some(true) => "follower",
                    _ => "unreachable",
                };
                voter.role = Some(role.to_owned());
            }
        }
        self.failure_tolerance = standings.failure_tolerance(now);
        self.acknowledging = standings.acknowledging(now);
        self
    }
}

/// The request to add a voter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AddVoter {
    /// The name of the node that is to vote.
    #[cfg_attr(test, schemars(regex(pattern = patterns::NAME)))]
    pub id: String,
    /// The voter that it is to replace, if any: the old one is removed as soon as the new one votes.
    #[serde(default)]
    #[cfg_attr(test, schemars(regex(pattern = patterns::NAME)))]
    pub replaces: Option<String>,
}

/// The request for a new generation of the electorate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Recover {
    /// The names of the voters that are left; the node that is asked is always one of them.
    #[cfg_attr(test, schemars(length(min = 1, max = 7), inner(regex(pattern = patterns::NAME))))]
    pub voters: Vec<String>,
    /// True if none of them has its data; the node that is asked need not have been a voter.
    #[serde(default)]
    pub anew: bool,
    /// With `anew`: true if the old electorate is to end although not all of its voters are heard here. Those that live
    /// behind a cut, and whoever follows them, give way to the new one when they hear of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_unheard: bool,
}

/// The view that the voters agreed on last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct View {
    /// The term in which it was put to the voters last.
    pub term: Option<u64>,
    /// The view's number. No other members are ever agreed under this number.
    pub number: Option<u64>,
    /// The names of the members, sorted.
    pub members: Option<Vec<String>>,
}

impl From<Option<AgreedView>> for View {
    fn from(view: Option<AgreedView>) -> Self {
        let Some(AgreedView { term, number, members }) = view else {
            return Self { term: None, number: None, members: None };
        };
        let members = members.iter().map(ToString::to_string).collect();
        Self { term: Some(term), number: Some(number), members: Some(members) }
    }
}
