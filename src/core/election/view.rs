//! Numbered views: a leader proposes them to the voters, and one is agreed once a majority of them has it on disk.
//!
//! Invariants:
//! - Views are ordered by `(term, number)`. One number has one content for ever once it was agreed: a new leader writes
//!   the view that it took over again under its own term, with the same number and the same members (Raft's figure 8).
//! - A view that changes the electorate changes it by one voter, and needs a majority of the electorate before *and* of
//!   the one after it.
//!
//! Must not know: which of the views is agreed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::electorate::{Electorate, Identity, VoterChange};
use super::term::Term;
use crate::limits::MAX_MEMBERS;
use crate::member::NodeId;

/// The highest number that is accepted. Numbers count up by one, so a node that names a higher one is mistaken or lies.
/// Every JSON reader holds it exactly.
pub(super) const MAX_NUMBER: u64 = 1 << 53;

/// The hash of a numbered view's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(#[serde(with = "postcard::fixint::le")] pub u64);

/// A membership and an electorate under a number. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NumberedView {
    /// The term in which it was proposed to the voters last.
    pub term: Term,
    /// The number of the view, counting up by one; the number of a view that was taken back is left out. The view with
    /// number 0 is the founding one, without members.
    pub number: u64,
    /// The members, sorted.
    pub members: Arc<[NodeId]>,
    /// The voters from this view on.
    pub electorate: Arc<Electorate>,
    /// The difference from the electorate of the view before, if there is one.
    pub change: Option<Arc<VoterChange>>,
    /// The hash of number, members, electorate and change, but not of the term.
    digest: u64,
}

/// The name of a view: a node that holds a view with this reference holds all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ViewRef {
    /// The view's term.
    pub term: Term,
    /// The view's number.
    pub number: u64,
    /// The hash of the view's contents.
    pub digest: Digest,
}

/// The difference between a view's members and those of another view, its base.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delta {
    /// The digest of the base.
    pub base: Digest,
    /// The members added, sorted.
    pub added: Vec<NodeId>,
    /// The members removed, sorted.
    pub removed: Vec<NodeId>,
    /// The change of the electorate, if there is one.
    pub change: Option<VoterChange>,
}

impl Delta {
    /// Returns true if its names take at most so many bytes, with their lengths.
    pub(crate) fn fits(&self, most: usize) -> bool {
        self.added.iter().chain(&self.removed).map(|id| id.as_str().len() + 1).sum::<usize>() <= most
    }
}

impl NumberedView {
    /// Returns the view that an electorate begins with.
    pub fn founding(electorate: Electorate) -> Self {
        Self::new(electorate.began, 0, Arc::new([]), Arc::new(electorate), None)
    }

    /// Returns a view with its hash.
    pub fn new(
        term: Term,
        number: u64,
        members: Arc<[NodeId]>,
        electorate: Arc<Electorate>,
        change: Option<Arc<VoterChange>>,
    ) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&number.to_le_bytes());
        hash.update(&electorate.hash().to_le_bytes());
        if let Some(change) = &change {
            let (kind, voter) = match &**change {
                VoterChange::Added(voter) => (1, voter),
                VoterChange::Removed(voter) => (2, voter),
            };
            hash.update(&[kind]);
            hash.update(&voter.identity.0.to_le_bytes());
            hash.update(voter.id.as_str().as_bytes());
        }
        for member in members.iter() {
            hash.update(&[0]);
            hash.update(member.as_str().as_bytes());
        }
        Self { term, number, members, electorate, change, digest: hash.digest() }
    }

    /// Returns the same view under another number.
    pub(super) fn numbered(&self, number: u64) -> Self {
        let Self { term, members, electorate, change, .. } = self.clone();
        Self::new(term, number, members, electorate, change)
    }

    /// Returns the same view under another term.
    #[must_use]
    pub fn under(&self, term: Term) -> Self {
        Self { term, ..self.clone() }
    }

    /// Returns the reference that names it.
    pub fn reference(&self) -> ViewRef {
        ViewRef { term: self.term, number: self.number, digest: Digest(self.digest) }
    }

    /// Returns true if the invariants hold. Asked of everything that is received or read from a disk.
    pub fn is_well_formed(&self) -> bool {
        self.electorate.is_well_formed()
            && self.term.is_in_bounds()
            && self.number <= MAX_NUMBER
            && self.members.len() <= MAX_MEMBERS
            && self.members.windows(2).all(|pair| pair[0] < pair[1])
            && self.change.as_ref().is_none_or(|change| self.electorate.before(change).is_some())
    }

    /// Returns the electorate before this view, if the view changes it.
    pub fn former_electorate(&self) -> Option<Electorate> {
        self.change.as_ref().and_then(|change| self.electorate.before(change))
    }

    /// Returns true if the voters for which `is_such` holds are enough to agree on this view: a majority of its
    /// electorate, and of the one before while it is `proposed` for the first time. A later leader takes it for agreed
    /// or never agreed, and settles it by the newer electorate alone (Raft, section 4.1).
    pub fn is_carried_by(&self, is_proposed: bool, is_such: impl Fn(Identity) -> bool) -> bool {
        let former = self.former_electorate().filter(|_| is_proposed);
        self.electorate.has_majority(&is_such) && former.is_none_or(|former| former.has_majority(&is_such))
    }

    /// Returns the difference between this view and another one.
    pub fn since(&self, base: &NumberedView) -> Delta {
        let not_in = |other: &[NodeId]| {
            let other = other.to_vec();
            move |id: &&NodeId| other.binary_search(id).is_err()
        };
        Delta {
            base: Digest(base.digest),
            added: self.members.iter().filter(not_in(&base.members)).cloned().collect(),
            removed: base.members.iter().filter(not_in(&self.members)).cloned().collect(),
            change: self.change.as_deref().cloned(),
        }
    }

    /// Returns the view that this reference names, if the difference leads to it.
    pub fn changed_by(&self, delta: &Delta, reference: ViewRef) -> Option<Self> {
        if delta.base != Digest(self.digest) {
            return None;
        }
        let electorate = match &delta.change {
            Some(change) => Arc::new(self.electorate.changed(change)?),
            None => Arc::clone(&self.electorate),
        };
        let kept = self.members.iter().filter(|id| delta.removed.binary_search(id).is_err());
        let mut members: Vec<NodeId> = kept.chain(&delta.added).cloned().collect();
        members.sort_unstable();
        let change = delta.change.clone().map(Arc::new);
        let view = Self::new(reference.term, reference.number, members.into(), electorate, change);
        (view.reference() == reference && view.is_well_formed()).then_some(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::electorate::Voter;
    use crate::limits::{EARLIEST_FOUNDING, MAX_DELTA_BYTES, MAX_FLOODED_DELTA_BYTES};

    fn id(name: &str) -> NodeId {
        NodeId::new(name).expect("a name")
    }

    fn voter(name: &str, identity: u64) -> Voter {
        Voter { id: id(name), identity: Identity(identity) }
    }

    fn view(number: u64, members: &[&str]) -> NumberedView {
        let electorate = Electorate::founded_by(vec![voter("a", 1), voter("b", 2), voter("c", 3)], EARLIEST_FOUNDING);
        NumberedView::new(Term(1), number, members.iter().map(|name| id(name)).collect(), Arc::new(electorate), None)
    }

    #[test]
    fn a_difference_is_as_long_as_its_names_added_and_removed_with_a_byte_for_the_length_of_each() {
        for most in [MAX_DELTA_BYTES, MAX_FLOODED_DELTA_BYTES] {
            let name = |letter: &str, length: usize| letter.repeat(length);
            let (whole, rest) = (most / 50, most % 50);
            assert_eq!((whole % 2, rest), (0, 0), "names of fifty bytes fill it");
            let names: Vec<String> = (0..whole).map(|nth| format!("{nth:02}{}", name("x", 47))).collect();
            let (one, other) = names.split_at(whole / 2);
            let view =
                |number, members: &[String]| view(number, &members.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(view(5, one).since(&view(4, other)).fits(most), "{most} bytes");
            let mut longer = one.to_vec();
            longer[0].push('x');
            assert!(!view(5, &longer).since(&view(4, other)).fits(most), "one more than {most} bytes");
        }
    }

    #[test]
    fn a_difference_leads_from_one_view_to_the_next_and_to_no_other() {
        let (old, new) = (view(4, &["a", "b", "x"]), view(5, &["a", "b", "c", "d"]));
        let delta = new.since(&old);
        assert_eq!((delta.added.len(), delta.removed.len()), (2, 1));
        assert_eq!(old.changed_by(&delta, new.reference()), Some(new.clone()));
        assert_eq!(view(3, &["a"]).changed_by(&delta, new.reference()), None, "another base");
        let wrong = ViewRef { digest: Digest(7), ..new.reference() };
        assert_eq!(old.changed_by(&delta, wrong), None, "another view");
    }

    #[test]
    fn a_view_keeps_its_digest_under_another_term() {
        let old = view(4, &["a"]);
        assert_eq!(old.under(Term(9)).reference().digest, old.reference().digest);
        assert!(old.under(Term(9)).reference() > view(5, &["a"]).reference(), "the term comes first");
    }

    #[test]
    fn a_change_of_the_electorate_needs_a_majority_before_and_after_it() {
        let old = view(4, &["a"]);
        let change = VoterChange::Added(voter("d", 4));
        let electorate = Arc::new(old.electorate.changed(&change).expect("a change"));
        let new = NumberedView::new(Term(1), 5, Arc::clone(&old.members), electorate, Some(Arc::new(change)));
        let carried = |voters: &[u64]| new.is_carried_by(true, |identity| voters.contains(&identity.0));
        assert!(carried(&[1, 2, 4]) && carried(&[1, 2, 3]));
        assert!(!carried(&[1, 4]), "one of three before");
        assert!(!carried(&[1, 2]), "two of four after");
        assert!(new.is_carried_by(false, |identity| [1, 3, 4].contains(&identity.0)));
        assert_eq!(old.changed_by(&new.since(&old), new.reference()), Some(new));
    }
}
