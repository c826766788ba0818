//! Whose words count.
//!
//! Invariants: who is known under another identity does not count, nor who speaks under the own one, nor anybody of
//! another lineage (but who has never voted looks whether it is in the electorate of a leader). To a node that knows no
//! electorate nothing counts but what tells it of one.
//!
//! Must not know: what the words do.

use super::electorate::Electorate;
use super::message::{Body, Word};
use super::view::NumberedView;
use super::{Action, Alarm, Election, Surroundings};
use crate::core::member::NodeId;

impl Election {
    /// Whether a word comes from a voter of the own electorate, or may come from a leader that is ahead of it.
    pub(super) fn counts(&mut self, around: &Surroundings<'_>, from: &NodeId, word: &Word) -> bool {
        if word.from == self.ballot.identity {
            self.actions.push_back(Action::Alarm(Alarm::Copied { id: from.clone() }));
            return false;
        }
        let Some(electorate) = self.electorate() else {
            return self.hear_while_blank(from, word);
        };
        if word.lineage != electorate.lineage {
            if let (Body::Renew(renewal), true) = (&word.body, self.has_never_voted()) {
                // Where a voter's disk was lost while all formed, some may have formed an electorate with who it was before,
                // which leads nowhere. Nobody counts on us in ours: if we are in theirs, we go over.
                self.actions.push_back(Action::Wanted { view: renewal.newest, from: from.clone() });
                return false;
            }
            self.meet_other_lineage(from, word.lineage);
            return false;
        }
        // An identity is no secret: it is its voter's under the voter's name alone.
        let speaks_for_itself =
            |electorate: &Electorate| electorate.identified(word.from).map(|voter| voter.id == *from);
        match speaks_for_itself(electorate) {
            Some(true) => return true,
            None if electorate.named(from).is_none() => {}
            _ => {
                self.actions.push_back(Action::Alarm(Alarm::StrangeVoter { id: from.clone() }));
                return false;
            }
        }
        let former = self.ballot.accepted.as_ref().and_then(NumberedView::former_electorate);
        let is_former = former.and_then(|former| speaks_for_itself(&former));
        // A leader may be ahead of us, or have been voted out by the view that it had agreed last.
        let has_led = self.leader == Some(word.from) && is_former == Some(true);
        if has_led || matches!(word.body, Body::Renew(_)) && is_former != Some(false) {
            return true;
        }
        // Who is on its way out counts until the electorate has changed.
        let is_leaving = self.is_proposing() && is_former == Some(true);
        if (is_leaving || self.is_learner(word.from)) && matches!(word.body, Body::Acked { .. }) {
            return true;
        }
        if matches!(word.body, Body::Query { .. }) {
            self.inform(around, from);
        }
        // Whom the own electorate leaves out may be needed to lead us out of it: it is by the candidate's electorate that
        // votes are counted (Raft, section 4.2.2). Promises, and what it has accepted, keep it from deposing anybody.
        matches!(word.body, Body::Query { .. } | Body::PreVote { .. } | Body::Vote { .. })
    }

    /// A word that came before any electorate was known. A leader's counts; a candidate says which view it stands by, and
    /// whoever is named in that one, under its own identity, becomes a voter by having it: a candidate may need its answer.
    fn hear_while_blank(&mut self, from: &NodeId, word: &Word) -> bool {
        let view = match word.body {
            Body::Renew(_) => return true,
            Body::Query { newest, .. } | Body::PreVote { newest, .. } | Body::Vote { newest, .. } => newest,
            _ => return false,
        };
        self.actions.push_back(Action::Wanted { view, from: from.clone() });
        false
    }
}
