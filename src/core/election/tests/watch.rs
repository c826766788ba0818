//! The checks of every run of a cluster, beside claims and leaders: terms at each voter, the numbers agreed in each
//! term, and the moments at which a fault hurts most.
//!
//! Must not know: which rules make them hold.

use std::collections::BTreeMap;

use crate::election::tests::Election;
use crate::election::{Lineage, NumberedView, Role, Term};

/// The highest and the lowest number agreed in a term.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: u64,
    most: u64,
}

/// The number of times that each of these happened: a fault may wait for the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Moments {
    /// A candidate has won its votes.
    pub(super) elected: u64,
    /// A voter has accepted a view with a number, or an electorate, that it did not have before.
    pub(super) accepted: u64,
    /// A view was agreed.
    pub(super) agreed: u64,
    /// The electorate that a node goes by changed by a voter.
    pub(super) electorates: u64,
    /// A node went over to a later generation, or began it.
    pub(super) generations: u64,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    life: u64,
    term: Term,
    led: Option<Term>,
    newest: Option<(Term, u64, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Watch {
    seen: BTreeMap<usize, Seen>,
    /// The winner of the votes in each term of a root, and in which life of its process.
    elected: BTreeMap<(Lineage, Term), (usize, u64)>,
    /// The numbers agreed, by the lineage and the term.
    agreed: BTreeMap<(Lineage, Term), Range>,
    pub(super) moments: Moments,
}

impl Watch {
    /// Notes that a process starts with this term.
    pub(super) fn starts(&mut self, node: usize, term: Term) {
        let life = self.seen.get(&node).map_or(0, |seen| seen.life + 1);
        self.seen.insert(node, Seen { life, term, ..Seen::default() });
    }

    /// Checks a voter after a step; returns what is wrong with it.
    pub(super) fn looks_at(&mut self, node: usize, election: &Election) -> Option<String> {
        let seen = self.seen.entry(node).or_default();
        let (before, term) = (seen.term, election.term());
        seen.term = term;
        let led = match &election.role {
            Role::Leading(leading) => Some(leading.term),
            _ => None,
        };
        let won = led.filter(|_| led != seen.led);
        seen.led = led.or(seen.led);
        self.moments.elected += u64::from(won.is_some());
        let newest = election.ballot.accepted.as_ref();
        let newest = newest.map(|view| (view.electorate.began, view.number, view.electorate.hash()));
        if newest != seen.newest {
            self.moments.accepted += 1;
            if let (Some(old), Some(new)) = (seen.newest, newest) {
                self.moments.generations += u64::from(old.0 != new.0);
                self.moments.electorates += u64::from(old.0 == new.0 && old.2 != new.2);
            }
            seen.newest = newest;
        }
        if let Some(won) = won {
            let me = (node, seen.life);
            let root = election.electorate().expect("it leads it").root;
            let first = *self.elected.entry((root, won)).or_insert(me);
            if first != me {
                return Some(format!("{first:?} and {me:?} are elected in term {won}"));
            }
        }
        (term < before).then(|| format!("term of {node} falls from {before} to {term}"))
    }

    /// Checks a view that a node reports as agreed: what was agreed in a term, every later term of its generation
    /// keeps.
    pub(super) fn agreed(&mut self, view: &NumberedView) -> Option<String> {
        let (lineage, term, number) = (view.electorate.lineage, view.term, view.number);
        self.moments.agreed += 1;
        let range = self.agreed.entry((lineage, term)).or_insert(Range { least: number, most: number });
        (range.least, range.most) = (range.least.min(number), range.most.max(number));
        let of_generation = || self.agreed.range((lineage, Term(0))..=(lineage, Term(u64::MAX)));
        let lost = of_generation().find(|((_, earlier), range)| *earlier < term && range.most > number);
        let is_lost_later = of_generation().find(|((_, later), range)| *later > term && range.least < number);
        lost.or(is_lost_later).map(|((_, other), range)| {
            format!("number {number} of term {term} beside {} to {} of term {other}", range.least, range.most)
        })
    }
}
