//! What is watched in every run of a parliament, beside claims and leaders: terms at each voter, what was agreed in each
//! term, and the moments at which a fault hurts most.
//!
//! Must not know: which rules make it hold.

use std::collections::BTreeMap;

use crate::core::election::{Election, NumberedView, Role, Term};

/// The highest and the lowest number agreed in a term.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: u64,
    most: u64,
}

/// How often each of these happened: a fault may wait for the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Moments {
    /// Somebody has won its votes.
    pub(super) elected: u64,
    /// A voter has accepted a view with a number, or an electorate, that it had not before.
    pub(super) accepted: u64,
    /// A view was agreed.
    pub(super) agreed: u64,
    /// The electorate that somebody goes by changed by a voter.
    pub(super) electorates: u64,
    /// Somebody went over to a later generation, or began it.
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
    /// Who won the votes of each term, and in which life.
    elected: BTreeMap<Term, (usize, u64)>,
    /// By where the generation began, and the term.
    agreed: BTreeMap<(Term, Term), Range>,
    pub(super) moments: Moments,
}

impl Watch {
    /// A process starts with this term.
    pub(super) fn starts(&mut self, node: usize, term: Term) {
        let life = self.seen.get(&node).map_or(0, |seen| seen.life + 1);
        self.seen.insert(node, Seen { life, term, ..Seen::default() });
    }

    /// A voter came out of a step; says what is wrong with it.
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
            let first = *self.elected.entry(won).or_insert(me);
            if first != me {
                return Some(format!("{first:?} and {me:?} are elected in term {won}"));
            }
        }
        (term < before).then(|| format!("term of {node} falls from {before} to {term}"))
    }

    /// Somebody says that this view is agreed. What was agreed in a term, every later term of its generation keeps.
    pub(super) fn agreed(&mut self, view: &NumberedView) -> Option<String> {
        let (began, term, number) = (view.electorate.began, view.term, view.number);
        self.moments.agreed += 1;
        let range = self.agreed.entry((began, term)).or_insert(Range { least: number, most: number });
        (range.least, range.most) = (range.least.min(number), range.most.max(number));
        let of_generation = || self.agreed.range((began, Term(0))..=(began, Term(u64::MAX)));
        let lost = of_generation().find(|((_, earlier), range)| *earlier < term && range.most > number);
        let is_lost_later = of_generation().find(|((_, later), range)| *later > term && range.least < number);
        lost.or(is_lost_later).map(|((_, other), range)| {
            format!("number {number} of term {term} beside {} to {} of term {other}", range.least, range.most)
        })
    }
}
