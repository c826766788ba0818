//! The promises of electorates that meet: what ended stays ended, and a store outside of the cluster is led by one of them.
//!
//! The store takes a write if no higher token was used before. Whoever leads writes at every step of its own, with its term;
//! and every token that was ever used is used again at every look, as by writes that were under way for long. Until two
//! electorates have met, and a while longer, the store may hear both; from the moment on at which all must be well
//! ([`Electorates::belongs_to`]) it takes every write of the one leader, and none of another electorate.
//!
//! Must not know: how one of two electorates gives way.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use super::leaders::Standing;
use super::run_checker::Finding;
use headcount_core::election::{Ballot, Body, Descent, ElectionMessage, Identity, Lineage, Term};

/// Figures of electorates that met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElectoratesReached {
    /// The number of electorates whose leader wrote.
    pub led: usize,
    /// Electorates that ended for one of another root, and those that ended for a recovery apart.
    pub ended: [usize; 2],
    /// The number of voters whose electorate ended.
    pub voters: usize,
    /// True if the store had taken writes of an electorate that ended, and of the one for which it ended, before that.
    pub both_wrote: bool,
    /// Writes that the store took once it belonged to one electorate, and those that it refused to all others then.
    pub settled: [u64; 2],
}

/// Watches all electorates of a world.
#[derive(Debug, Default)]
pub(crate) struct Electorates {
    /// The electorates that have ended for each voter, on its disk.
    ended: BTreeSet<(Identity, Lineage)>,
    /// The electorates that have ended for any voter, each with the number of writes taken of it and of the other one before,
    /// and true if it ended for another root.
    ends: BTreeMap<Lineage, ([u64; 2], bool)>,
    store: Store,
}

/// A store that takes a write if no higher token was used before.
#[derive(Debug, Default)]
struct Store {
    highest: Term,
    /// All tokens that were ever used, and by which electorates.
    used: BTreeSet<(Term, Lineage)>,
    /// The number of writes by valid claims that were taken of each electorate.
    taken: BTreeMap<Lineage, u64>,
    /// The only electorate that it is to hear.
    owner: Option<Lineage>,
    settled: [u64; 2],
}

impl Store {
    fn write(&mut self, token: Term, of: Lineage, is_late: bool) -> Option<Finding> {
        let is_taken = token >= self.highest;
        self.highest = self.highest.max(token);
        *self.taken.entry(of).or_default() += u64::from(is_taken && !is_late);
        self.used.insert((token, of));
        let owner = self.owner?;
        self.settled[0] += u64::from(is_taken);
        self.settled[1] += u64::from(!is_taken && of != owner);
        let wrong = match (of == owner, is_taken) {
            (true, false) if !is_late => "refuses the leader",
            (false, true) => "takes a write of an electorate that ended",
            _ => return None,
        };
        let detail = format!("the store {wrong}: token {token} of {of:?}, up to {} were used", self.highest);
        Some((Invariant::FencesHold, detail))
    }
}

impl Electorates {
    /// Takes note of a new process, whose disk holds this ballot.
    pub(crate) fn born(&self, ballot: &Ballot) -> Option<Finding> {
        let lineage = ballot.accepted.as_ref().map(|view| view.electorate.lineage)?;
        self.is_over(ballot.identity, lineage, "it starts as a voter")
    }

    /// Takes note that a voter says that its electorate has ended.
    pub(crate) fn ended(&mut self, ballot: &Ballot) -> Option<Finding> {
        let (ended, by) = (ballot.ended.as_ref()?, ballot.founded()?);
        let descent = ended.electorate.descent();
        self.ended.insert((ballot.identity, descent.lineage));
        let writes = |of: &Descent| self.store.taken.get(&of.lineage).copied().unwrap_or_default();
        let before = ([writes(&descent), writes(&by)], descent.root != by.root);
        self.ends.entry(descent.lineage).or_insert(before);
        // A voter that never voted may go over to any other one.
        let is_lower = by.stands_over(&descent) || ended.term == Term(0);
        (!is_lower).then(|| (Invariant::EndedStaysEnded, format!("{descent:?} has ended for {by:?}")))
    }

    /// Takes note of a message between voters.
    pub(super) fn said(&self, word: &ElectionMessage) -> Option<Finding> {
        match word.body {
            Body::VoteReply { is_granted: true, .. } => self.is_over(word.from, word.lineage, "it votes"),
            Body::RenewalAck { .. } => self.is_over(word.from, word.lineage, "it acknowledges"),
            _ => None,
        }
    }

    /// Takes note that a node leads, and writes.
    pub(super) fn leads(&mut self, term: Term, standing: &Standing) -> Option<Finding> {
        let (Some(lineage), Some(identity)) = (standing.lineage, standing.identity) else {
            let detail = format!("it leads in {term}, and votes in no electorate");
            return Some((Invariant::EndedStaysEnded, detail));
        };
        let written = self.store.write(term, lineage, false);
        self.is_over(identity, lineage, "it leads").or(written)
    }

    /// Uses all tokens once more.
    pub(super) fn write_late(&mut self) -> Option<Finding> {
        let used: Vec<(Term, Lineage)> = self.store.used.iter().copied().collect();
        used.into_iter().find_map(|(token, of)| self.store.write(token, of, true))
    }

    fn is_over(&self, voter: Identity, lineage: Lineage, does: &str) -> Option<Finding> {
        let detail = || format!("{does} in electorate {lineage:?}, which has ended for it");
        self.ended.contains(&(voter, lineage)).then(|| (Invariant::EndedStaysEnded, detail()))
    }

    /// From now on the store is to hear this electorate alone.
    pub(crate) fn belongs_to(&mut self, lineage: Lineage) {
        self.store.owner.get_or_insert(lineage);
    }

    /// Returns true if the store takes the writes of this term.
    pub(crate) fn takes(&self, term: Term) -> bool {
        term >= self.store.highest
    }

    /// Returns the figures so far.
    pub(crate) fn reached(&self) -> ElectoratesReached {
        let led = |lineage: &Lineage| self.store.taken.contains_key(lineage);
        let ends = || self.ends.iter().filter(|(lineage, _)| led(lineage)).map(|(_, end)| end);
        let of = |is_other: bool| ends().filter(|(_, is_of_other)| *is_of_other == is_other).count();
        ElectoratesReached {
            led: self.store.taken.len(),
            ended: [of(true), of(false)],
            voters: self.ended.len(),
            both_wrote: ends().any(|([ended, stands], _)| *ended > 0 && *stands > 0),
            settled: self.store.settled,
        }
    }
}
