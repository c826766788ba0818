//! The promises of contenders for leases: seen by true time, across nodes, runs and restarts.
//!
//! A claim counts for as long as the clock of the process that holds it says, whether or not that process runs. Two at
//! one time are a violation, but for what the rules do not reach after lost commits: a second one whose node saw
//! nothing of the grant that was lost, and had not heard of the term that it began, as the highest one.
//!
//! Must not know: how a contender decides. It looks at what contenders tell, and at what the database grants and loses.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::time::Duration;

use super::Invariant;
use super::run_checker::Finding;
use headcount_contender::{Claim, LeaseName, Outcome, Seen, Token};
use headcount_core::Time;
use headcount_core::election::LossReason;
use headcount_sim::Clock;
use headcount_sim::network::Nanos;
use headcount_sim::watch::LeaseEvent;

/// The time after its end for which a claim may be shown: the rounding of clocks of different rates.
const ROUNDING: Duration = Duration::from_micros(1);

/// A claim of a process, as it sees it.
#[derive(Debug, Clone)]
struct Held {
    term: u64,
    until: Time,
    /// The token of the row that it stands on, if there was one.
    grant: Option<Token>,
}

/// One run of one contender.
#[derive(Debug)]
struct Process {
    number: u64,
    clock: Clock,
    held: BTreeMap<LeaseName, Held>,
    /// Terms whose led work has not ended.
    work: BTreeSet<(LeaseName, u64)>,
    /// Terms that it has heard of, from others, its disk or the database.
    knew: BTreeSet<(LeaseName, u64)>,
    /// Tokens that it has seen in the database.
    sighted: BTreeSet<Token>,
    shown: BTreeMap<LeaseName, Claim>,
}

impl Process {
    fn holds(&self, now: Nanos, lease: &LeaseName) -> Option<&Held> {
        self.held.get(lease).filter(|held| self.clock.local(now) < held.until)
    }
}

/// Figures of contenders, in a run or in many.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LeaseReached {
    /// Claims that began.
    pub claims: u64,
    /// Expired leases that were taken over.
    pub takeovers: u64,
    /// Acquisitions whose answer was lost and that were led by all the same.
    pub adoptions: u64,
    /// Grants whose answer was lost.
    pub lost_answers: u64,
    /// Fail-overs to a replica that lacked commits.
    pub fail_overs: u64,
    /// Grants that were lost by that.
    pub lost_commits: u64,
    /// Databases that were replaced by an empty one.
    pub emptied: u64,
    /// Claims that ran out.
    pub expired: u64,
    /// Claims that the database rejected, or a higher term ended.
    pub rejected: u64,
    /// Claims that were given up.
    pub resigned: u64,
    /// Leases that were released.
    pub releases: u64,
    /// Leaders that stood still past the end of their claim.
    pub paused: u64,
    /// Words of others that were heard.
    pub words: u64,
    /// Claims beside another one that the rules do not reach.
    pub beyond: u64,
    /// Claims beside another one by another database.
    pub apart: u64,
}

impl AddAssign for LeaseReached {
    fn add_assign(&mut self, other: Self) {
        self.claims += other.claims;
        self.takeovers += other.takeovers;
        self.adoptions += other.adoptions;
        self.lost_answers += other.lost_answers;
        self.fail_overs += other.fail_overs;
        self.lost_commits += other.lost_commits;
        self.emptied += other.emptied;
        self.expired += other.expired;
        self.rejected += other.rejected;
        self.resigned += other.resigned;
        self.releases += other.releases;
        self.paused += other.paused;
        self.words += other.words;
        self.beyond += other.beyond;
        self.apart += other.apart;
    }
}

/// Watches all leases of a world.
#[derive(Debug, Default)]
pub(crate) struct LeaseWatch {
    processes: BTreeMap<usize, Process>,
    /// Grants of the database; true for those that began a term.
    granted: BTreeMap<Token, bool>,
    /// The database that made each grant.
    granted_by: BTreeMap<Token, usize>,
    /// Grants that the database has lost; true for those that began a term.
    erased: BTreeMap<Token, bool>,
    /// The first claim in each term: whose, of which process, and on what grant.
    leaders: BTreeMap<(LeaseName, u64), (usize, u64, Option<Token>)>,
    given: BTreeSet<(LeaseName, u64)>,
    /// Terms that were given again after the commit was lost that gave them first: word of them may be of either.
    twice: BTreeSet<(LeaseName, u64)>,
    /// The terms in which a contender led before it was handed the answers that it is being handed.
    answering: Vec<Option<u64>>,
    /// The times at which new claims began.
    starts: Vec<(Nanos, LeaseName)>,
    pub(crate) reached: LeaseReached,
}

#[expect(clippy::unnecessary_wraps, reason = "reads as what its callers return")]
fn broken(invariant: Invariant, detail: String) -> Option<Finding> {
    Some((invariant, detail))
}

impl LeaseWatch {
    /// Judges what happens to the contender of a node.
    pub(crate) fn judge(&mut self, now: Nanos, node: usize, event: LeaseEvent<'_>) -> Option<Finding> {
        match event {
            LeaseEvent::Birth { process, clock, terms } => self.born(node, process, clock, terms),
            LeaseEvent::End => drop(self.processes.remove(&node)),
            LeaseEvent::Wake => self.wakes(now, node),
            LeaseEvent::Granted { process, database, lease, before, is_takeover, seen } => {
                return self.answers(node, process, (lease, database), (before, is_takeover), seen);
            }
            LeaseEvent::LostAnswers(grants) => self.reached.lost_answers += grants,
            LeaseEvent::Answering(steps) => {
                self.answering = steps.iter().map(|(lease, _)| self.led(node, lease)).collect();
            }
            LeaseEvent::Answered(steps) => return self.answered(node, steps),
            LeaseEvent::Hearing(lease, term) => self.hears(node, lease, term),
            LeaseEvent::Heard(lease, term) => return self.heard(node, lease, term),
            LeaseEvent::Claimed(claim, seen) => return self.claim(now, node, claim, seen),
            LeaseEvent::Lost(reason) => self.lost(reason),
            LeaseEvent::WorkEnded(lease, term) => self.work_ended(node, lease, term),
            LeaseEvent::Drained => return self.look(now, node),
        }
        None
    }

    /// Takes note that a contender starts with these terms on its disk.
    fn born(&mut self, node: usize, number: u64, clock: Clock, disk: &BTreeMap<LeaseName, u64>) {
        let knew = disk.iter().map(|(lease, term)| (lease.clone(), *term)).collect();
        let process = Process {
            number,
            clock,
            held: BTreeMap::new(),
            work: BTreeSet::new(),
            knew,
            sighted: BTreeSet::new(),
            shown: BTreeMap::new(),
        };
        self.processes.insert(node, process);
    }

    /// Judges an answer of the database about a lease in which the token `before` stood; `is_takeover` is true if it
    /// was asked to take the lease.
    fn answers(
        &mut self,
        node: usize,
        process: u64,
        (lease, database): (&LeaseName, usize),
        (before, is_takeover): (Option<Token>, bool),
        seen: &Seen,
    ) -> Option<Finding> {
        if let (Outcome::Acquired | Outcome::Renewed, Some(holder)) = (seen.outcome, &seen.holder) {
            let is_acquisition = seen.outcome == Outcome::Acquired;
            self.granted.insert(holder.token, is_acquisition);
            self.granted_by.insert(holder.token, database);
            let term = (lease.clone(), seen.term);
            if is_acquisition && !self.given.insert(term.clone()) {
                self.twice.insert(term);
            }
            self.reached.takeovers += u64::from(is_acquisition && is_takeover && before.is_some());
        }
        if seen.outcome != Outcome::Released {
            return None;
        }
        self.reached.releases += 1;
        let process = self.processes.get(&node).filter(|there| there.number == process)?;
        let is_at_work = process.work.contains(&(lease.clone(), seen.term));
        let detail = || format!("term {} of {lease} is released while its work goes on", seen.term);
        if is_at_work { broken(Invariant::LedWorkEndsFirst, detail()) } else { None }
    }

    /// Takes note that the database has lost these grants; all of them, if it was replaced.
    pub(crate) fn loses(&mut self, lost: impl IntoIterator<Item = (Token, bool)>, is_replaced: bool) {
        let before = self.erased.len();
        self.erased.extend(lost);
        if is_replaced {
            self.erased.extend(&self.granted);
            self.reached.emptied += 1;
        } else {
            self.reached.lost_commits += (self.erased.len() - before) as u64;
            self.reached.fail_overs += u64::from(self.erased.len() > before);
        }
    }

    /// Takes note that a contender is about to be handed word of this term.
    fn hears(&mut self, node: usize, lease: &LeaseName, term: u64) {
        self.reached.words += 1;
        if let Some(process) = self.processes.get_mut(&node) {
            process.knew.insert((lease.clone(), term));
        }
    }

    /// Judges a contender that was handed word of this term, and has done what it makes of it.
    fn heard(&mut self, node: usize, lease: &LeaseName, term: u64) -> Option<Finding> {
        let held = self.processes.get(&node)?.held.get(lease).filter(|held| held.term < term)?;
        broken(Invariant::DeposedLeadersStop, format!("it leads {lease} in {}, and has heard of {term}", held.term))
    }

    /// Judges a contender that was handed these answers, and has done what it makes of them.
    fn answered(&mut self, node: usize, steps: &[(LeaseName, Seen)]) -> Option<Finding> {
        let process = self.processes.get_mut(&node)?;
        let mut found = None;
        for ((lease, seen), before) in steps.iter().zip(&self.answering) {
            let terms = [seen.term, seen.holder.as_ref().map_or(0, |holder| holder.term)];
            process.knew.extend(terms.into_iter().filter(|term| *term > 0).map(|term| (lease.clone(), term)));
            process.sighted.extend(seen.holder.as_ref().map(|holder| holder.token));
            let goes_on = process.held.get(lease).map(|held| held.term) == *before;
            if seen.outcome == Outcome::Rejected && before.is_some() && goes_on {
                found = broken(Invariant::DeposedLeadersStop, format!("it leads {lease}, and was rejected"));
            }
        }
        found
    }

    /// Returns the term in which a process leads, as it says.
    fn led(&self, node: usize, lease: &LeaseName) -> Option<u64> {
        Some(self.processes.get(&node)?.held.get(lease)?.term)
    }

    /// Judges a contender's word of a lease, after what it saw of the lease, if it was answered.
    fn claim(&mut self, now: Nanos, node: usize, claim: &Claim, seen: Option<&Seen>) -> Option<Finding> {
        let process = self.processes.get_mut(&node)?;
        let before = process.shown.insert(claim.lease.clone(), claim.clone());
        if let Some(before) = before.filter(|before| before.term > claim.term) {
            let detail = format!("the term of {} falls from {} to {}", claim.lease, before.term, claim.term);
            return broken(Invariant::LeaseTermsNeverFall, detail);
        }
        let Some(until) = claim.valid_until.filter(|_| claim.is_me) else {
            process.held.remove(&claim.lease);
            return None;
        };
        let grant = seen.and_then(|seen| seen.holder.as_ref()).map(|holder| holder.token);
        let held = Held { term: claim.term, until, grant };
        let before = process.held.insert(claim.lease.clone(), held.clone());
        if before.is_some_and(|before| before.term == held.term) {
            return None;
        }
        self.reached.adoptions += u64::from(seen.is_some_and(|seen| seen.outcome != Outcome::Acquired));
        self.begins(now, node, &claim.lease, &held)
    }

    /// Judges a claim that was not there before.
    fn begins(&mut self, now: Nanos, node: usize, lease: &LeaseName, held: &Held) -> Option<Finding> {
        self.reached.claims += 1;
        self.starts.push((now, lease.clone()));
        let process = self.processes.get(&node)?;
        let key = (lease.clone(), held.term);
        let mut found = None;
        if process.knew.range(key.clone()..).any(|(known, _)| known == lease) {
            let detail = format!("it leads {lease} in term {}, and knew of that or a higher one", held.term);
            found = broken(Invariant::OneLeaderPerLeaseTerm, detail);
        }
        if process.work.iter().any(|(of, _)| of == lease) {
            found = broken(Invariant::LedWorkEndsFirst, format!("it leads {lease} while earlier work goes on"));
        }
        let rivals = self.processes.iter().filter(|(other, _)| **other != node);
        for (other, rival) in rivals.filter_map(|(other, process)| Some((other, process.holds(now, lease)?))) {
            if self.are_apart(held.grant, rival.grant) {
                self.reached.apart += 1;
            } else if self.is_beyond(process, *other, lease, held, rival) {
                self.reached.beyond += 1;
            } else {
                let detail = format!("it claims term {} of {lease} beside {other} in {}", held.term, rival.term);
                found = broken(Invariant::OneLeaseClaimAtATime, detail);
            }
        }
        let is_erased = |grant: &Option<Token>| grant.is_some_and(|grant| self.erased.get(&grant) == Some(&true));
        match self.leaders.get(&key) {
            Some((first, number, grant)) if (*first, *number) != (node, process.number) => {
                if !is_erased(grant) && !is_erased(&held.grant) && !self.are_apart(*grant, held.grant) {
                    let detail = format!("term {} of {lease} is led by {first} and by {node}", held.term);
                    found = broken(Invariant::OneLeaderPerLeaseTerm, detail);
                }
            }
            Some(_) => {
                let detail = format!("it leads {lease} again in term {}", held.term);
                found = broken(Invariant::OneLeaderPerLeaseTerm, detail);
            }
            None => drop(self.leaders.insert(key.clone(), (node, process.number, held.grant))),
        }
        self.processes.get_mut(&node)?.work.insert(key);
        found
    }

    /// Returns true if two databases made these grants. At most one claim stands by each.
    fn are_apart(&self, one: Option<Token>, other: Option<Token>) -> bool {
        let by = |grant: Option<Token>| self.granted_by.get(&grant?);
        by(one).zip(by(other)).is_some_and(|(one, other)| one != other)
    }

    /// Returns true if the rules do not reach a claim beside this rival: they reach a process that saw a grant, or
    /// heard of the term that it began, as the highest; no other claim counts against it once the commit is lost.
    fn is_beyond(&self, process: &Process, other: usize, lease: &LeaseName, held: &Held, rival: &Held) -> bool {
        let highest = process.knew.iter().filter(|(known, _)| known == lease).map(|(_, term)| *term).max();
        let is_heard = highest == Some(rival.term);
        let is_twice = self.twice.contains(&(lease.clone(), rival.term));
        let has_seen = |node: usize, grant: &Option<Token>| {
            let process = self.processes.get(&node);
            grant.is_some_and(|grant| process.is_some_and(|process| process.sighted.contains(&grant)))
        };
        // Nor do they reach a claim whose own grant was lost while its answer was under way, and that the other never
        // saw.
        let is_own_lost =
            held.grant.is_some_and(|grant| self.erased.contains_key(&grant)) && !has_seen(other, &held.grant);
        let has_seen_rival = rival.grant.is_some_and(|grant| process.sighted.contains(&grant));
        let erased = rival.grant.and_then(|grant| self.erased.get(&grant));
        let is_rival_lost =
            erased.is_some_and(|is_acquisition| is_twice || !(has_seen_rival || (*is_acquisition && is_heard)));
        is_own_lost || is_rival_lost
    }

    /// Counts a leader that leads no more, by the reason.
    fn lost(&mut self, reason: LossReason) {
        match reason {
            LossReason::Expired => self.reached.expired += 1,
            LossReason::Rejected | LossReason::Superseded => self.reached.rejected += 1,
            _ => self.reached.resigned += 1,
        }
    }

    /// Takes note that all that was led in this term has ended.
    fn work_ended(&mut self, node: usize, lease: &LeaseName, term: u64) {
        if let Some(process) = self.processes.get_mut(&node) {
            process.work.remove(&(lease.clone(), term));
        }
    }

    /// Takes note that a process that stood still goes on.
    fn wakes(&mut self, now: Nanos, node: usize) {
        let Some(process) = self.processes.get(&node) else { return };
        let local = process.clock.local(now);
        self.reached.paused += u64::from(process.held.values().any(|held| held.until <= local));
    }

    /// Judges a contender after a step.
    fn look(&self, now: Nanos, node: usize) -> Option<Finding> {
        let process = self.processes.get(&node)?;
        let local = process.clock.local(now);
        let (lease, held) = process.held.iter().find(|(_, held)| held.until + ROUNDING < local)?;
        let detail = format!("it leads {lease} until {:?}, and its clock shows {local:?}", held.until);
        broken(Invariant::LeaseClaimsEndInTime, detail)
    }

    /// Returns the node with the only valid claim to a lease.
    pub(crate) fn leader(&self, now: Nanos, lease: &LeaseName) -> Option<usize> {
        let mut holders = self.processes.iter().filter(|(_, process)| process.holds(now, lease).is_some());
        let leader = holders.next()?.0;
        holders.next().is_none().then_some(*leader)
    }

    /// Returns the nodes with a valid claim to a lease, and their terms.
    pub(crate) fn leaders(&self, now: Nanos, lease: &LeaseName) -> Vec<(usize, u64)> {
        let held = |(node, process): (&usize, &Process)| Some((*node, process.holds(now, lease)?.term));
        self.processes.iter().filter_map(held).collect()
    }

    /// Returns the time at which the first claim since then began.
    pub(crate) fn first_claim_since(&self, since: Nanos, lease: &LeaseName) -> Option<Nanos> {
        self.starts.iter().find(|(at, of)| *at >= since && of == lease).map(|(at, _)| *at)
    }

    /// Returns the claim that a contender tells of.
    pub(crate) fn shown(&self, node: usize, lease: &LeaseName) -> Option<&Claim> {
        self.processes.get(&node)?.shown.get(lease)
    }

    /// Returns the highest term that a contender has heard of; 0 if it has heard of none.
    pub(crate) fn highest_known(&self, node: usize, lease: &LeaseName) -> u64 {
        let knew = self.processes.get(&node).into_iter().flat_map(|process| &process.knew);
        knew.filter(|(known, _)| known == lease).map(|(_, term)| *term).max().unwrap_or(0)
    }
}
