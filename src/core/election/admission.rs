//! Admission: which voters' messages count.
//!
//! Invariants: a sender that is known under another identity does not count, nor one that uses this node's own
//! identity, nor one of another lineage (but a voter that has never voted looks whether it is in the electorate of a
//! leader). To a node that knows no electorate, only messages that tell it of one count; so it is for messages under a
//! known name and an unknown identity that name a newer view: the electorate may have changed while this node was away.
//!
//! Must not know: what the messages do.

use super::electorate::Electorate;
use super::message::{Body, ElectionMessage};
use super::view::NumberedView;
use super::{Action, Alarm, Context, Election, Rules};
use crate::member::NodeId;

impl<R: Rules> Election<R> {
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
        let has_led = self.leader == Some(message.from) && is_former == Some(true);
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
