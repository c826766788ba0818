//! The checks that hold at every instant of true time, and the counts of a run.
//!
//! A claim counts as valid for as long as its holder's clock says so, whether or not that process runs. Two at one time
//! are a violation, but for those that the rules do not reach after lost commits: a second one whose node saw nothing
//! of the grant that was lost, and had not heard of the term that it began, as the highest one.

use std::time::Duration;

use super::world::World;
use crate::Claim;
use crate::{Answer, LeaseName, Outcome, Token};
use headcount_core::Time;
use headcount_core::election::LossReason;

/// The time for which a claim may still be shown after its end: the rounding of clocks of different rates.
const ROUNDING: Duration = Duration::from_micros(1);

/// A claim of a process, as it sees it.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) term: u64,
    pub(super) until: Time,
    /// The token of the row that it stands on.
    pub(super) grant: Token,
}

/// The counts of a run, or of many of them.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Reached {
    pub(super) claims: u64,
    pub(super) takeovers: u64,
    pub(super) adoptions: u64,
    pub(super) lost_grants: u64,
    pub(super) late_grants: u64,
    pub(super) lost_commits: u64,
    pub(super) emptied: u64,
    pub(super) deleted: u64,
    pub(super) expired: u64,
    pub(super) rejected: u64,
    pub(super) superseded: u64,
    pub(super) resigned: u64,
    pub(super) releases: u64,
    pub(super) namesakes: u64,
    pub(super) clock_steps: u64,
    pub(super) fallen_terms: u64,
    pub(super) stale_wakes: u64,
    /// The number of overlaps beyond what the rules reach.
    pub(super) beyond: u64,
    pub(super) terms_twice: u64,
}

impl Reached {
    pub(super) fn add(&mut self, other: &Reached) {
        self.claims += other.claims;
        self.takeovers += other.takeovers;
        self.adoptions += other.adoptions;
        self.lost_grants += other.lost_grants;
        self.late_grants += other.late_grants;
        self.lost_commits += other.lost_commits;
        self.emptied += other.emptied;
        self.deleted += other.deleted;
        self.expired += other.expired;
        self.rejected += other.rejected;
        self.superseded += other.superseded;
        self.resigned += other.resigned;
        self.releases += other.releases;
        self.namesakes += other.namesakes;
        self.clock_steps += other.clock_steps;
        self.fallen_terms += other.fallen_terms;
        self.stale_wakes += other.stale_wakes;
        self.beyond += other.beyond;
        self.terms_twice += other.terms_twice;
    }
}

impl World {
    pub(super) fn claim(&mut self, at: usize, claim: &Claim, answer: Option<(&[LeaseName], &Answer)>) {
        if let Some(before) = self.nodes[at].shown.insert(claim.lease.clone(), claim.clone())
            && before.term > claim.term
        {
            self.violations.push(format!("the term shown at {at} falls from {} to {}", before.term, claim.term));
        }
        if !claim.is_me {
            self.nodes[at].held.remove(&claim.lease);
            return;
        }
        let until = claim.valid_until.expect("own claims have an end");
        let seen = answer.and_then(|(names, answer)| {
            names.iter().zip(&answer.steps).find(|(name, _)| **name == claim.lease).map(|(_, seen)| seen)
        });
        let Some(holder) = seen.and_then(|seen| seen.holder.as_ref()) else {
            return self.violations.push(format!("{at} leads without an answer"));
        };
        let held = Held { term: claim.term, until, grant: holder.token };
        self.ends.insert((at, claim.lease.clone(), held.term), until);
        let before = self.nodes[at].held.insert(claim.lease.clone(), held.clone());
        if before.is_none_or(|before| before.term != held.term) {
            let is_adopted = seen.is_some_and(|seen| seen.outcome != Outcome::Acquired);
            self.reached.adoptions += u64::from(is_adopted);
            self.begins(at, &claim.lease, &held);
        }
    }

    /// Notes a claim that has begun.
    fn begins(&mut self, at: usize, lease: &LeaseName, held: &Held) {
        self.reached.claims += 1;
        self.starts.push((self.now, at, held.term));
        let (node, term) = (&self.nodes[at], held.term);
        let mut violations = Vec::new();
        if node.is_draining {
            violations.push(format!("{at} leads while it is drained"));
        }
        if node.knew.range((lease.clone(), term)..).any(|(known, _)| known == lease) {
            violations.push(format!("{at} leads in term {term}, and knew of it or a higher one"));
        }
        if node.work.iter().any(|(of, _)| of == lease) {
            violations.push(format!("{at} leads while work of an earlier term goes on"));
        }
        for (other, rival) in self.rivals(at, lease) {
            // The rules reach a node that saw a grant, or heard of the term that it began, as the highest.
            let erased = self.erased.get(&rival.grant);
            let highest = node.knew.iter().filter(|(known, _)| known == lease).map(|(_, term)| *term).max();
            let is_heard = highest == Some(rival.term);
            let is_twice = self.twice.contains(&(lease.clone(), rival.term));
            // Nor do they reach a leader whose own grant was lost while its answer was under way, and that the other
            // never saw.
            let is_own_lost = self.erased.contains_key(&held.grant) && !self.nodes[other].sighted.contains(&held.grant);
            let is_beyond = is_own_lost
                || erased.is_some_and(|is_acquisition| {
                    is_twice || !(node.sighted.contains(&rival.grant) || (*is_acquisition && is_heard))
                });
            if is_beyond {
                self.reached.beyond += 1;
            } else {
                let why = format!("grant {:?} erased {erased:?}, heard of {is_heard}", rival.grant);
                violations.push(format!("{at} leads in term {term} beside {other} in term {}: {why}", rival.term));
            }
        }
        let key = (lease.clone(), term);
        match self.leaders.get(&key) {
            Some((first, life, grant)) if (*first, *life) != (at, node.life) => {
                if [grant, &held.grant].iter().any(|grant| self.erased.get(grant) == Some(&true)) {
                    self.reached.terms_twice += 1;
                } else {
                    violations.push(format!("{first} and {at} lead in term {term}"));
                }
            }
            Some(_) => violations.push(format!("{at} leads again in term {term}")),
            None => drop(self.leaders.insert(key, (at, node.life, held.grant))),
        }
        self.nodes[at].work.insert((lease.clone(), term));
        self.violations.extend(violations);
    }

    fn rivals(&self, at: usize, lease: &LeaseName) -> Vec<(usize, Held)> {
        let valid = |other: usize| self.valid(other, lease).cloned().map(|held| (other, held));
        (0..self.nodes.len()).filter(|other| *other != at).filter_map(valid).collect()
    }

    /// Returns a claim that its holder thinks valid, whether or not it runs at this moment.
    pub(super) fn valid(&self, at: usize, lease: &LeaseName) -> Option<&Held> {
        let held = self.nodes[at].held.get(lease)?;
        (self.local(at) < held.until).then_some(held)
    }

    pub(super) fn lost(&mut self, at: usize, lease: &LeaseName, term: u64, reason: LossReason) {
        self.losses.push((self.now, at, reason));
        match reason {
            LossReason::Expired => self.reached.expired += 1,
            LossReason::Rejected => self.reached.rejected += 1,
            LossReason::Superseded => self.reached.superseded += 1,
            _ => self.reached.resigned += 1,
        }
        if reason == LossReason::Expired {
            let until = self.ends.get(&(at, lease.clone(), term)).copied();
            if until.is_some_and(|until| self.local(at) + ROUNDING < until) {
                self.violations.push(format!("{at} is deposed of term {term} before its time"));
            }
        }
    }

    pub(super) fn check(&mut self) {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            if node.is_paused || node.held.is_empty() {
                continue;
            }
            let now = self.local(at);
            if node.held.values().any(|held| held.until + ROUNDING < now) {
                self.violations.push(format!("{at} shows a claim that is over"));
            }
        }
    }
}
