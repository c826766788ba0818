//! Whose words count.
//!
//! Invariants: who is known under another identity does not count, nor who speaks under the own one, nor anybody of
//! another lineage (but who has never voted looks whether it is in the electorate of a leader). To a node that knows no
//! electorate nothing counts but what tells it of one.
//!
//! Must not know: what the words do.

use super::message::{Body, Word};
use super::view::NumberedView;
use super::{Action, Alarm, Election, Surroundings};
use crate::core::id::NodeId;

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
        // A leader may be ahead of us, or have been voted out by the view that it had agreed last.
        let may_lead = matches!(word.body, Body::Renew(_)) || self.leader == Some(word.from);
        if electorate.identified(word.from).is_some_and(|voter| voter.id == *from) || may_lead {
            return true;
        }
        if electorate.named(from).is_some() {
            self.actions.push_back(Action::Alarm(Alarm::StrangeVoter { id: from.clone() }));
            return false;
        }
        // Who is on its way out counts until the electorate has changed.
        let former = self.ballot.accepted.as_ref().filter(|_| self.is_proposing());
        let former = former.and_then(NumberedView::former_electorate);
        let is_leaving =
            former.is_some_and(|former| former.identified(word.from).is_some_and(|voter| voter.id == *from));
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
