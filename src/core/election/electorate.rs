//! The electorate: one to seven voters, each known by the identity that it drew at its first start.
//!
//! Invariants: voters are sorted by name, names and identities are unique, a majority is more than half of *all*
//! voters. A voter is its identity, which is in its data directory: a node that comes back under its name without that
//! directory is a stranger, since it may have forgotten a vote or a promise.
//!
//! **Of two electorates that meet in one cluster one stands**, for everybody and for ever: so they are compared by what
//! never changes, and not by the term that each happens to be in, by which two could end each other. The later generation
//! stands, since an operator began it; of recoveries the one that began at the higher term; of first electorates the one
//! that was founded earlier; then the lineage decides ([`Descent::stands_over`]).
//!
//! Must not know: who is up.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::term::Term;
use super::view::MAX_NUMBER;
use crate::limits::MAX_VOTERS;
use crate::member::NodeId;

/// 64 random bits drawn by a voter at its first start, and kept in its data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity(#[serde(with = "postcard::fixint::le")] pub u64);

/// The name of an electorate, kept when its voters change: the hash of the first electorate, or a number drawn at a
/// recovery. Electorates of different lineages refuse each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lineage(#[serde(with = "postcard::fixint::le")] pub u64);

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
    /// The term at which its generation began: nobody leads in it, and all terms of the generation are above it.
    pub began: Term,
    /// The wall clock of the founder when it formed the first electorate, in milliseconds since 1970.
    pub founded: u64,
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
    /// The founding of the first electorate, see [`Electorate::founded`].
    pub founded: u64,
}

/// The place of an electorate in the order of all.
pub(crate) type Rank = (Term, Reverse<u64>, Lineage);

impl Descent {
    /// Returns true if this electorate stands where the two meet, and the other one ends: of two different ones always
    /// the same.
    pub fn stands_over(&self, other: &Descent) -> bool {
        self.rank() > other.rank()
    }

    /// Returns the place in the order of all electorates: a first one began at term 0, and a later generation at a
    /// higher term than any of those before.
    pub(crate) fn rank(&self) -> Rank {
        (self.began, Reverse(self.founded), self.lineage)
    }

    /// Returns true if the invariants hold. Asked of everything that is received or read from a disk.
    pub fn is_well_formed(&self) -> bool {
        let is_of_its_root = (self.began == Term(0)) == (self.lineage == self.root);
        is_of_its_root && self.founded < 1 << 53 && self.began.is_beginning() && self.lineage != Lineage(0)
    }
}

/// An electorate that ended, as one of its voters keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EndedElectorate {
    /// The electorate.
    pub electorate: Electorate,
    /// The voter's term in it: the highest one that was led, as far as this voter knows.
    pub term: Term,
    /// The number of the newest view that the voter accepted.
    pub number: u64,
}

impl EndedElectorate {
    /// Returns true if the invariants hold. Asked of what was read from a disk.
    pub fn is_well_formed(&self) -> bool {
        self.electorate.is_well_formed() && self.term.is_in_bounds() && self.number <= MAX_NUMBER
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
    /// Returns the first electorate, of these voters, founded at this time on the wall clock of one of them.
    pub fn founded_by(mut voters: Vec<Voter>, founded: u64) -> Self {
        voters.sort_unstable();
        let mut electorate = Self { lineage: Lineage(0), root: Lineage(0), began: Term(0), founded, voters };
        electorate.lineage = Lineage(electorate.hash());
        electorate.root = electorate.lineage;
        electorate
    }

    /// Returns the electorate's name and origin.
    pub fn descent(&self) -> Descent {
        Descent { lineage: self.lineage, root: self.root, began: self.began, founded: self.founded }
    }

    /// Returns true if an operator put this electorate in the place of `other`, or of one from which both descend.
    pub fn succeeds(&self, other: &Electorate) -> bool {
        self.root == other.root && self.descent().stands_over(&other.descent())
    }

    /// Returns true if the invariants hold. Asked of everything that is received.
    pub fn is_well_formed(&self) -> bool {
        let is_sorted = self.voters.windows(2).all(|pair| pair[0].id < pair[1].id);
        let mut identities: Vec<Identity> = self.voters.iter().map(|voter| voter.identity).collect();
        identities.sort_unstable();
        identities.dedup();
        is_sorted
            && self.descent().is_well_formed()
            && identities.len() == self.voters.len()
            && (1..=MAX_VOTERS).contains(&self.voters.len())
    }

    /// Returns the hash of everything in it.
    pub fn hash(&self) -> u64 {
        let mut bytes = [self.lineage.0, self.root.0, self.began.0, self.founded].map(u64::to_le_bytes).concat();
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
    use crate::limits::EARLIEST_FOUNDING;

    fn voter(name: &str, identity: u64) -> Voter {
        Voter { id: NodeId::new(name).expect("a name"), identity: Identity(identity) }
    }

    fn electorate(size: u64) -> Electorate {
        Electorate::founded_by((0..size).map(|i| voter(&format!("v{i}"), i + 1)).collect(), EARLIEST_FOUNDING)
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
    fn the_lineage_depends_on_the_identities_and_the_founding_and_not_on_the_order_in_which_they_were_learnt() {
        let (a, b) = (voter("a", 1), voter("b", 2));
        let founded = |voters| Electorate::founded_by(voters, EARLIEST_FOUNDING);
        let first = founded(vec![b.clone(), a.clone()]);
        assert_eq!(first, founded(vec![a.clone(), b.clone()]));
        assert_ne!(first.lineage, founded(vec![a.clone(), voter("b", 3)]).lineage);
        assert_ne!(first.lineage, Electorate::founded_by(vec![a, b], EARLIEST_FOUNDING + 1).lineage);
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
        assert!(!Electorate { founded: 1 << 53, ..electorate(2) }.is_well_formed());
    }

    #[test]
    fn of_two_electorates_one_stands_by_generation_then_beginning_or_founding_then_lineage() {
        let of = |generation, draw, founded, lineage| {
            let began = if generation == 0 { Term(0) } else { Term::beginning_of(generation, draw) };
            Descent { lineage: Lineage(lineage), root: Lineage(9), began, founded: EARLIEST_FOUNDING + founded }
        };
        // From the one that gives way to all others to the one that stands over all.
        let ordered = [
            of(0, 0, 50, 8),
            of(0, 0, 7, 1),
            of(0, 0, 7, 2),
            of(0, 0, 0, 1),
            of(1, 5, 0, 9),
            of(1, 6, 90, 1),
            of(1, 6, 3, 1),
            of(1, 6, 3, 2),
            of(2, 1, 60, 1),
        ];
        for (at, one) in ordered.iter().enumerate() {
            for (other_at, other) in ordered.iter().enumerate() {
                assert_eq!(one.stands_over(other), at > other_at, "{one:?} and {other:?}");
            }
        }
    }
}
