//! The messages between voters: their form, of which the doc comments are the specification; their sending; and which of them
//! count.
//!
//! Every message carries its sender's identity and the lineage of its electorate; a message of another lineage, or from
//! a sender that is not in the receiver's electorate, does not count. Forming the first electorate is the exception,
//! since it has no lineage yet.
//!
//! Invariants: a sender that is known under another identity does not count, nor one that uses this node's own
//! identity, nor one of another lineage (but a voter that has never voted looks whether it is in the electorate of a
//! leader). To a node that knows no electorate, only messages that tell it of one count; so it is for messages under a
//! known name and an unknown identity that name a newer view: the electorate may have changed while this node was away.
//!
//! Must not know: how messages are acted upon.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::campaign::Stage;
use super::electorate::{Descent, Electorate, Identity, Lineage, Voter};
use super::term::Term;
use super::view::{Delta, NumberedView, ViewRef};
use super::{Action, Alarm, Context, Election, Rules};
use crate::member::NodeId;

/// A message from one voter to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ElectionMessage {
    /// The sender's identity.
    pub from: Identity,
    /// The lineage of the sender's electorate; zero while it has none.
    pub lineage: Lineage,
    /// The contents of the message.
    pub body: Body,
}

/// The contents of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Body {
    /// "I am such and such a voter, and this is the identity that I hold of you." Forms the first electorate, and
    /// introduces a voter to be added to a later one.
    Roster(Roster),
    /// A status query: "I have not heard the leader for a lease: have you?"
    Query {
        /// The number of the sender's attempt, to be echoed.
        attempt: u32,
        /// The newest view that the sender accepted: a voter that knows no electorate fetches it.
        newest: ViewRef,
    },
    /// The answer to a status query.
    QueryReply {
        /// The attempt of the query.
        attempt: u32,
        /// True if a leader was heard within its lease.
        hears_leader: bool,
        /// The sender's term. A candidate stands above all the terms that it heard of, if it stands.
        term: Term,
    },
    /// A pre-vote: "Would you vote for me in this term?" Moves nobody's term.
    PreVote {
        /// The number of the sender's attempt, to be echoed.
        attempt: u32,
        /// The term that the candidate would stand in.
        term: Term,
        /// The newest view that the candidate accepted.
        newest: ViewRef,
    },
    /// The answer to a pre-vote.
    PreVoteReply {
        /// The attempt of the question.
        attempt: u32,
        /// True if the candidate would get the vote.
        is_granted: bool,
        /// The sender's term.
        term: Term,
    },
    /// A vote request: "Vote for me."
    Vote {
        /// The term that the candidate stands in.
        term: Term,
        /// The newest view that the candidate accepted.
        newest: ViewRef,
    },
    /// The answer to a vote request; a granted vote is on the sender's disk.
    VoteReply {
        /// The term of the vote request.
        term: Term,
        /// True if the candidate gets the vote.
        is_granted: bool,
        /// The newest view that the sender accepted.
        newest: ViewRef,
    },
    /// A renewal: "I lead: renew my lease."
    Renew(Renewal),
    /// An acknowledgement: "I shall not vote for as long as the renewal says."
    RenewalAck {
        /// The renewal's term.
        term: Term,
        /// The renewal's sequence number.
        sequence: u64,
        /// The newest view that the sender has on its disk.
        newest: ViewRef,
        /// The sender's priority as a leader; 0 while it would not stand.
        priority: u8,
    },
    /// A release: "I lead no more, and all that I led has ended: you are free of your promise."
    Release {
        /// The sender's term.
        term: Term,
        /// The voter that is to stand first.
        successor: Identity,
    },
    /// "A generation has begun": the first one, by its founder, or another one, by an operator. Sent to the voters of that
    /// generation and, of an operator's, to senders of an earlier electorate.
    Generation {
        /// The electorate of the generation: its voters, and the term at which it began.
        electorate: Electorate,
        /// The number of its founding view.
        number: u64,
    },
    /// "I am above the term of this renewal, and cannot acknowledge it." Sent to a leader, which goes on above that
    /// term.
    Behind {
        /// The sender's term.
        term: Term,
    },
    /// A farewell: "I leave, and acknowledge nothing any more: can you do without my promise?"
    Farewell {
        /// The sender's term.
        term: Term,
        /// The sequence number of the renewal that the sender acknowledged last.
        sequence: u64,
    },
    /// The answer to a farewell: "Your promise is not needed: you are free of it."
    Freed {
        /// The sender's term.
        term: Term,
        /// The sequence number of the farewell, echoed: a voter that has acknowledged another renewal since is not
        /// meant.
        sequence: u64,
    },
}

impl Body {
    /// Returns the newest view of a leader or candidate that speaks as one.
    pub(super) fn newest(&self) -> Option<ViewRef> {
        match self {
            Body::Renew(renewal) => Some(renewal.newest),
            Body::Query { newest, .. } | Body::PreVote { newest, .. } | Body::Vote { newest, .. } => Some(*newest),
            _ => None,
        }
    }
}

/// The contents of [`Body::Roster`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Roster {
    /// The hash of the names configured as voters.
    pub names: u64,
    /// The identity that the sender holds under the receiver's name, if any.
    pub holds: Option<Identity>,
    /// True if an answer is wanted.
    pub asks: bool,
    /// The electorate that the sender knows of, if any: where there is one, no other is formed.
    pub founded: Option<ElectorateReport>,
    /// The newest view that the sender accepted, if it votes: a node that is named in it, and has accepted none, asks
    /// for it.
    pub newest: Option<ViewRef>,
}

/// A report of an electorate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ElectorateReport {
    /// The electorate.
    pub descent: Descent,
    /// True if the sender is sure of it, false if it was told by one member only. A report that is not sure is passed
    /// on once, and makes nobody sure.
    pub is_sure: bool,
}

/// The contents of [`Body::Renew`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Renewal {
    /// The leader's term.
    pub term: Term,
    /// The number of the renewal within its term; the claim lasts from when the acknowledged renewal was sent.
    pub sequence: u64,
    /// The length of the promise that an acknowledgement makes, in milliseconds from its receipt.
    pub lease_ms: u64,
    /// The claim as it stands, if it has begun.
    pub claim: Option<Claim>,
    /// The view that the leader proposes to the voters, or that is agreed.
    pub newest: ViewRef,
    /// The difference from a view that the receiver may hold, if it is short enough.
    pub delta: Option<Delta>,
    /// The newest view that was agreed in this term.
    pub agreed: Option<ViewRef>,
}

/// A leader's claim as others hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The sequence number of the renewal that a majority acknowledged last.
    pub sequence: u64,
    /// The time since that renewal was sent, in milliseconds.
    pub age_ms: u64,
}

/// Messages in.
impl<R: Rules> Election<R> {
    /// Takes a message of another voter.
    pub fn receive(&mut self, context: &Context<'_>, from: &NodeId, message: ElectionMessage) {
        self.expire(context);
        // Whoever leaves may still be freed of its promise, and may still have voters to free.
        let is_farewell = matches!(message.body, Body::Release { .. } | Body::Freed { .. } | Body::Farewell { .. });
        if !context.is_up && !is_farewell {
            return self.ignore();
        }
        if let Body::Roster(roster) = message.body {
            return self.hear_roster(context, from, message.from, &roster);
        }
        if let Body::Generation { ref electorate, number } = message.body {
            return self.hear_of_recovery(context, from, electorate, number);
        }
        if !self.counts(context, from, &message) {
            return self.ignore();
        }
        let speaker = message.from;
        self.note_informed(speaker);
        match message.body {
            Body::Roster(_) | Body::Generation { .. } => {}
            Body::Query { attempt, newest: _ } => self.answer_query(context, from, attempt),
            Body::QueryReply { attempt, hears_leader, term } => {
                self.survivor_answered(speaker, from, hears_leader);
                self.hear_answer(context, (speaker, from), (Stage::Query, attempt), !hears_leader, term);
            }
            Body::PreVote { attempt, term, newest } => {
                self.answer_pre_vote(context, speaker, from, (attempt, term, newest));
            }
            Body::PreVoteReply { attempt, is_granted, term } => {
                self.hear_answer(context, (speaker, from), (Stage::PreVote, attempt), is_granted, term);
            }
            Body::Vote { term, newest } => self.answer_vote(context, speaker, from, term, newest),
            Body::VoteReply { term, is_granted, newest } => self.hear_vote(context, speaker, term, is_granted, newest),
            Body::Renew(renewal) => self.renewed(context, speaker, from, &renewal),
            Body::RenewalAck { term, sequence, newest, priority } => {
                self.acknowledged(context, speaker, (term, sequence), newest, priority);
            }
            Body::Release { term, successor } => self.released(context, speaker, term, successor),
            Body::Farewell { term, sequence } => self.bid_farewell(speaker, from, term, sequence),
            Body::Freed { term, sequence } => self.freed(context, speaker, term, sequence),
            Body::Behind { term } => self.renewal_rejected_as_stale(context, speaker, from, term),
        }
    }

    /// Returns true if a message comes from a voter of this node's electorate, or may come from a leader that is ahead
    /// of it.
    pub(super) fn counts(&mut self, context: &Context<'_>, from: &NodeId, message: &ElectionMessage) -> bool {
        if message.from == self.ballot.identity {
            self.actions.push_back(Action::Alarm(Alarm::DuplicateIdentity { id: from.clone() }));
            return false;
        }
        let Some(electorate) = self.electorate() else {
            return self.hear_who_is_ahead(from, message);
        };
        if message.lineage != electorate.lineage {
            if let (Body::Renew(renewal), true) = (&message.body, self.has_never_voted()) {
                // A voter's disk may have been lost while all were forming; then some may have formed an electorate
                // with its former identity, which leads nowhere. Nobody counts on this node in its own electorate: if
                // the leader's electorate names it, it goes over.
                self.actions.push_back(Action::Wanted { view: renewal.newest, from: from.clone() });
                return false;
            }
            self.meet_other_lineage(from, message.lineage);
            return false;
        }
        // An identity is no secret: it counts only under the name of the voter that it belongs to.
        let speaks_for_itself =
            |electorate: &Electorate| electorate.identified(message.from).map(|voter| voter.id == *from);
        match speaks_for_itself(electorate) {
            Some(true) => return true,
            None if electorate.named(from).is_none() => {}
            // A voter that lost its disk, and was voted out and in again meanwhile.
            None if message.body.newest() > self.newest() => return self.hear_who_is_ahead(from, message),
            // Whoever only answers may be ahead as well.
            speaks => {
                if speaks == Some(false) || message.body.newest().is_some() {
                    self.actions.push_back(Action::Alarm(Alarm::StrangeVoter { id: from.clone() }));
                }
                return false;
            }
        }
        let former = self.ballot.accepted.as_ref().and_then(NumberedView::former_electorate);
        let is_former = former.and_then(|former| speaks_for_itself(&former));
        // A leader may be ahead of this node, or have been voted out by the view that it had agreed last.
        let has_led = self.volatile.leader == Some(message.from) && is_former == Some(true);
        if has_led || matches!(message.body, Body::Renew(_)) && is_former != Some(false) {
            return true;
        }
        // A voter that is being removed counts until the electorate has changed.
        let is_leaving = self.is_proposing() && is_former == Some(true);
        if (is_leaving || self.is_learner(message.from)) && matches!(message.body, Body::RenewalAck { .. }) {
            return true;
        }
        if matches!(message.body, Body::Query { .. }) {
            self.inform(context, from);
        }
        // A candidate that this node's electorate leaves out may be needed to lead it to a newer one: votes are counted
        // by the candidate's electorate (Raft, section 4.2.2). Promises, and the views that this node has accepted,
        // keep such a candidate from deposing anybody.
        matches!(message.body, Body::Query { .. } | Body::PreVote { .. } | Body::Vote { .. })
    }

    /// Judges a message that tells of an electorate that this node does not know. A leader's counts. A candidate's
    /// names its newest view; a node that is named in that view, under its own identity, becomes a voter by fetching
    /// it, or learns whom it names, and the candidate may need its answer.
    fn hear_who_is_ahead(&mut self, from: &NodeId, message: &ElectionMessage) -> bool {
        if matches!(message.body, Body::Renew(_)) {
            return true;
        }
        if let Some(view) = message.body.newest() {
            self.actions.push_back(Action::Wanted { view, from: from.clone() });
        }
        false
    }
}

/// Messages out.
impl<R: Rules> Election<R> {
    /// Sends messages to all other voters that count: those of the electorate, and of the one before while it is changing.
    pub(super) fn send_to_all(&mut self, body: &Body) {
        for voter in self.others() {
            self.send(&voter.id, body.clone());
        }
    }

    pub(super) fn send(&mut self, to: &NodeId, body: Body) {
        let lineage = self.lineage().unwrap_or(Lineage(0));
        let message = ElectionMessage { from: self.ballot.identity, lineage, body };
        self.actions.push_back(Action::Send { to: to.clone(), message });
    }

    pub(super) fn others(&self) -> Vec<Voter> {
        let Some(view) = &self.ballot.accepted else { return Vec::new() };
        let former = view.former_electorate();
        let voters = former.iter().flat_map(|former| &former.voters).chain(&view.electorate.voters);
        let by_identity: BTreeMap<Identity, &Voter> = voters.map(|voter| (voter.identity, voter)).collect();
        by_identity.into_values().filter(|voter| voter.identity != self.ballot.identity).cloned().collect()
    }
}
