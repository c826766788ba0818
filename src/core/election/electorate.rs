//! The electorate: one to seven voters, each known by the identity that it drew at its first start.
//!
//! Invariants: voters are sorted by name, names and identities are unique, a majority is more than half of *all*
//! voters. A voter is its identity, which is in its data directory: a node that comes back under its name without that
//! directory is a stranger, since it may have forgotten a vote or a promise.
//!
//! Must not know: who is up.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::raw::{Identity, Lineage};
use super::term::Term;
use crate::limits::MAX_VOTERS;
use crate::member::NodeId;

/// A voter: a name and the identity behind it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Voter {
    /// The voter's name.
    pub id: NodeId,
    /// The voter's identity.
    pub identity: Identity,
}

/// The voters of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Electorate {
    /// The electorate's own name: changes of voters keep it, a recovery draws another one.
    pub lineage: Lineage,
    /// The lineage of the first electorate, from which this one descends; the same as `lineage` in the first
    /// electorate.
    pub root: Lineage,
    /// The term at which its generation began: nobody leads in it, and all terms of the generation are above it. Of two
    /// electorates with one root, the one that began at the higher term stands, wherever they meet.
    pub began: Term,
    /// The voters, sorted by name.
    pub voters: Vec<Voter>,
}

/// The name and the origin of an electorate: all that a node can know of one without knowing its voters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Descent {
    /// The lineage, see [`Electorate::lineage`].
    pub lineage: Lineage,
    /// The root, see [`Electorate::root`].
    pub root: Lineage,
    /// The term at which the generation began, see [`Electorate::began`]. All terms of the generation lie between this
    /// one and the next generation: a recovery begins the next generation above every term that was ever led in this
    /// one.
    pub began: Term,
}

impl Descent {
    /// Returns true if an operator put this electorate in the place of `other`, or of one from which both descend.
    pub fn succeeds(&self, other: &Descent) -> bool {
        self.root == other.root && self.began > other.began
    }

    /// Returns true if the invariants hold. Asked of everything that is received or read from a disk.
    pub fn is_well_formed(&self) -> bool {
        let is_of_its_root = (self.began == Term(0)) == (self.lineage == self.root);
        is_of_its_root && self.began.is_beginning() && self.lineage != Lineage(0)
    }
}

/// The difference between an electorate and the one before it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VoterChange {
    /// This voter was added.
    Added(Voter),
    /// This voter was removed.
    Removed(Voter),
}

impl Electorate {
    /// Returns the first electorate. All nodes that form it of the same voters get the same lineage.
    pub fn founded_by(mut voters: Vec<Voter>) -> Self {
        voters.sort_unstable();
        let mut electorate = Self { lineage: Lineage(0), root: Lineage(0), began: Term(0), voters };
        electorate.lineage = Lineage(electorate.hash());
        electorate.root = electorate.lineage;
        electorate
    }

    /// Returns the electorate's name and origin.
    pub fn descent(&self) -> Descent {
        Descent { lineage: self.lineage, root: self.root, began: self.began }
    }

    /// Returns true if an operator put this electorate in the place of `other`, or of one from which both descend.
    pub fn succeeds(&self, other: &Electorate) -> bool {
        self.descent().succeeds(&other.descent())
    }

    /// Returns true if the invariants hold. Asked of everything that is received.
    pub fn is_well_formed(&self) -> bool {
        let is_sorted = self.voters.windows(2).all(|pair| pair[0].id < pair[1].id);
        let mut identities: Vec<Identity> = self.voters.iter().map(|voter| voter.identity).collect();
        identities.sort_unstable();
        identities.dedup();
        let is_of_its_root = (self.began == Term(0)) == (self.lineage == self.root);
        is_sorted
            && is_of_its_root
            && self.began.is_beginning()
            && identities.len() == self.voters.len()
            && (1..=MAX_VOTERS).contains(&self.voters.len())
    }

    /// Returns the hash of everything in it.
    pub fn hash(&self) -> u64 {
        let mut bytes = [self.lineage.0, self.root.0, self.began.0].map(u64::to_le_bytes).concat();
        for voter in &self.voters {
            bytes.push(voter.id.as_str().len() as u8);
            bytes.extend_from_slice(voter.id.as_str().as_bytes());
            bytes.extend_from_slice(&voter.identity.0.to_le_bytes());
        }
        xxh3_64(&bytes)
    }

    /// Returns the number of voters that make a majority.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Returns true if `is_such` holds for a majority of all voters.
    pub fn has_majority(&self, mut is_such: impl FnMut(Identity) -> bool) -> bool {
        self.voters.iter().filter(|voter| is_such(voter.identity)).count() >= self.majority()
    }

    /// Returns the largest figure that a majority has reached.
    pub fn reached_by_majority(&self, figure: impl Fn(Identity) -> u64) -> u64 {
        let mut figures: Vec<u64> = self.voters.iter().map(|voter| figure(voter.identity)).collect();
        figures.sort_unstable();
        figures[figures.len() - self.majority()]
    }

    /// Returns true if this identity is a voter's.
    pub fn contains(&self, identity: Identity) -> bool {
        self.voters.iter().any(|voter| voter.identity == identity)
    }

    /// Returns the voter of this name.
    pub fn named(&self, id: &NodeId) -> Option<&Voter> {
        self.voters.iter().find(|voter| voter.id == *id)
    }

    /// Returns the voter of this identity.
    pub fn identified(&self, identity: Identity) -> Option<&Voter> {
        self.voters.iter().find(|voter| voter.identity == identity)
    }

    /// Returns this electorate with one voter more or less; `None` if nothing would change or a bound would be broken.
    pub fn changed(&self, change: &VoterChange) -> Option<Self> {
        let mut voters = self.voters.clone();
        match change {
            VoterChange::Added(voter) => voters.push(voter.clone()),
            VoterChange::Removed(voter) => voters.retain(|held| held != voter),
        }
        voters.sort_unstable();
        let changed = Self { voters, ..*self };
        (changed.voters.len() != self.voters.len() && changed.is_well_formed()).then_some(changed)
    }

    /// Returns the electorate before this change; `None` if the change cannot have led to this one.
    pub fn before(&self, change: &VoterChange) -> Option<Self> {
        let undone = match change {
            VoterChange::Added(voter) => VoterChange::Removed(voter.clone()),
            VoterChange::Removed(voter) => VoterChange::Added(voter.clone()),
        };
        self.changed(&undone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voter(name: &str, identity: u64) -> Voter {
        Voter { id: NodeId::new(name).expect("a name"), identity: Identity(identity) }
    }

    fn electorate(size: u64) -> Electorate {
        Electorate::founded_by((0..size).map(|i| voter(&format!("v{i}"), i + 1)).collect())
    }

    #[test]
    fn a_majority_is_more_than_half_of_all_voters() {
        for (size, majority) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)] {
            let electorate = electorate(size);
            assert_eq!(electorate.majority(), majority);
            assert!(electorate.has_majority(|identity| identity.0 <= majority as u64));
            assert!(!electorate.has_majority(|identity| identity.0 < majority as u64));
        }
    }

    #[test]
    fn what_a_majority_has_reached_is_the_median_or_below() {
        let figures = [0, 9, 3, 7, 5, 1];
        assert_eq!(electorate(5).reached_by_majority(|identity| figures[identity.0 as usize]), 5);
        assert_eq!(electorate(4).reached_by_majority(|identity| figures[identity.0 as usize]), 5);
        assert_eq!(electorate(2).reached_by_majority(|identity| figures[identity.0 as usize]), 3);
    }

    #[test]
    fn the_lineage_depends_on_the_identities_and_not_on_the_order_in_which_they_were_learnt() {
        let (a, b) = (voter("a", 1), voter("b", 2));
        let founded = Electorate::founded_by(vec![b.clone(), a.clone()]);
        assert_eq!(founded, Electorate::founded_by(vec![a.clone(), b]));
        assert_ne!(founded.lineage, Electorate::founded_by(vec![a, voter("b", 3)]).lineage);
    }

    #[test]
    fn a_change_adds_or_removes_one_and_can_be_undone() {
        let three = electorate(3);
        let change = VoterChange::Added(voter("x", 77));
        let four = three.changed(&change).expect("a change");
        assert_eq!((four.voters.len(), four.lineage), (4, three.lineage));
        assert_eq!(four.before(&change), Some(three.clone()));
        assert_eq!(three.changed(&VoterChange::Removed(voter("x", 77))), None, "was never in it");
        assert_eq!(three.changed(&VoterChange::Added(voter("v1", 78))), None, "the name is taken");
        assert_eq!(electorate(1).changed(&VoterChange::Removed(voter("v0", 1))), None, "somebody must vote");
        assert_eq!(electorate(7).changed(&change), None, "seven are enough");
    }

    #[test]
    fn a_hostile_electorate_is_not_well_formed() {
        let mut twice = electorate(2);
        twice.voters[1].identity = twice.voters[0].identity;
        assert!(!twice.is_well_formed());
        let mut unsorted = electorate(3);
        unsorted.voters.reverse();
        assert!(!unsorted.is_well_formed());
        let nobody = Electorate { voters: Vec::new(), ..electorate(1) };
        assert!(!nobody.is_well_formed());
        let of_no_root = Electorate { root: Lineage(9), ..electorate(2) };
        assert!(!of_no_root.is_well_formed(), "founded first, and of another root");
        let own_heir = Electorate { began: Term::beginning_of(1, 5), ..electorate(2) };
        assert!(!own_heir.is_well_formed(), "recovered, under its own lineage");
        let heir = Electorate { lineage: Lineage(9), ..own_heir };
        assert!(heir.is_well_formed() && heir.succeeds(&electorate(2)) && !electorate(2).succeeds(&heir));
        assert!(!electorate(8).is_well_formed());
    }
}
