//! From a broken link to a verdict: a process that died is reported within a second, in every profile.
//!
//! ```text
//! link broke ─▶ opened again at once ──connected──▶ nothing happened
//!                    │ refused  (as the first link to a newcomer may be, too)
//!                    ▼
//!      three probes, and at each "I cannot reach it" to the other observers
//!                    │                          ├── heard by anybody since the refusal ──▶ it lives; looked into again
//!                    │ none answered                                                      twice, a moment later
//!                    ▼
//!      sure ── and a second observer is sure, or there is no other ──▶ Suspect, and at once Down (`connection_lost`)
//! ```
//!
//! Each step needs positive evidence: a connection that breaks is no verdict, nor is one that cannot be opened because
//! nobody answers (a firewall does that), and a refused one is none alone (a proxy that died refuses for a living node,
//! whose datagrams then refute it).
//!
//! Invariants:
//! - Only an observer that was refused itself, and whose own probes stayed unanswered, may pronounce.
//! - An observer that is alone has nobody to ask, and probes longer.
//! - One packet of the subject's run that this node, or any member, received after the refusal ends the case.
//! - Silence is judged by the timeouts as always if nothing is decided.
//! - A case convicts only if another observer is sure, too, and said so lately, or if no other could have heard the
//!   subject.
//! - Each sign of life that is news takes it back to the beginning,
//!   [`CRASH_REVIEWS`](crate::limits::CRASH_REVIEWS) times; then it is closed.
//!
//! Signs of life are compared with the moment of the refusal, not of the break: packets may still have been under way
//! then. And each has to be news: a packet's number above all that were known. On a busy machine the last packets of a
//! dead process are read late, by one observer after the other, and the reports of that arrive later still; but it
//! sends no new ones.
//!
//! A machine: input are outcomes of links, the reports of other observers and signs of life; output are steps, which
//! `wiring::judging` carries out in order. It knows members by their runs.
//!
//! Must not know: how links are opened, how packets find their way, or the timers of the core.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::DetectorFacts;
use crate::limits::{CRASH_PATIENCE, CRASH_REVIEW, CRASH_REVIEWS, MANY_CRASHES_PATIENCE, MAX_CRASH_WITNESSES};
use crate::member::{Run, Status};
use crate::time::Time;
use crate::view::Slot;

/// The number of probes that must stay unanswered before an observer is sure.
pub(crate) const PROBES: u32 = 3;
/// The number of probes that must stay unanswered if no other member could have heard the subject.
pub(crate) const PROBES_ALONE: u32 = 5;

/// The cases of members that may have crashed, by run. At most one per neighbour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Crashes {
    cases: BTreeMap<Run, Case>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Case {
    stage: Stage,
    /// The observers that cannot reach it either, and ask if this one heard it, and the times at which they last said that
    /// they are sure. At most [`MAX_CRASH_WITNESSES`].
    askers: BTreeMap<Run, Option<Time>>,
    /// The highest sequence number of its packets that any member is known to have received.
    sequence: u64,
    /// The number of reviews that are left after signs of life.
    reviews: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// A link is being opened.
    Reopening,
    /// The port refused; this many rounds of probes and questions are over.
    Refused { at: Time, rounds: u32 },
    /// The process seemed to live: the case is reviewed in a moment.
    Reviewing,
}

/// A step of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashStep {
    /// Opens a link to the subject, or waits for the one that is being opened.
    Reopen,
    /// Asks the subject for a sign of life.
    Probe,
    /// Tells the walk along the rings that the subject is unresponsive now.
    Walk,
    /// Asks the other observers: see [`Crashes::ask`].
    Ask,
    /// Calls [`Crashes::investigate`] at once.
    Investigate,
    /// Calls [`Crashes::investigate`] after this time.
    Wait(Duration),
    /// Counts a refutation, and tells the walk along the rings.
    Refuted,
    /// Waits for nothing more: the case is closed.
    Close,
    /// Pronounces the verdict; the case is closed.
    Convict,
}

/// The facts about the other observers by which a case is decided.
#[derive(Debug, Default)]
pub(crate) struct CrashFacts {
    /// The time for which an answer to a probe is awaited.
    pub(crate) gap: Duration,
    /// True while members elsewhere are missing, too, who may be the observers whose report is awaited.
    pub(crate) is_walking: bool,
    /// The other observers of the subject. Asked for only if [`Crashes::is_decided_next`].
    pub(crate) others: Vec<Observer>,
}

/// Another observer of a subject.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observer {
    pub(crate) run: Run,
    pub(crate) is_suspect: bool,
}

/// The observers that are told of a sign of life.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The members that asked this node about the subject.
    Askers(BTreeSet<Run>),
    /// All observers, since this node asked them.
    Observers,
}

impl DetectorFacts<'_> {
    /// Returns what a case is decided by.
    pub(crate) fn crash_facts(&self, crashes: &Crashes, subject: Slot) -> CrashFacts {
        let observer = |slot: &Slot| {
            let entry = self.view.entry(*slot);
            Observer { run: entry.record.run, is_suspect: entry.status == Status::Suspect }
        };
        let others = if crashes.is_decided_next(self.view.record(subject).run) {
            let observers = self.observers.observers_of(self.view, subject);
            let unresponsive = self.observers.walk.unresponsive().iter().filter(|slot| **slot != subject);
            observers.iter().chain(unresponsive).map(observer).collect()
        } else {
            Vec::new()
        };
        let gap = self.patience_with(std::iter::once(subject));
        CrashFacts { gap, is_walking: self.observers.walk.is_on(), others }
    }
}

impl Case {
    fn new(sequence: u64, reviews: u8) -> Self {
        Self { stage: Stage::Reopening, askers: BTreeMap::new(), sequence, reviews }
    }

    fn refused_at(&self) -> Option<Time> {
        match self.stage {
            Stage::Refused { at, .. } => Some(at),
            Stage::Reopening | Stage::Reviewing => None,
        }
    }

    /// Returns true if the port refused and this many probes were in vain.
    fn were_in_vain(&self, probes: u32) -> bool {
        matches!(self.stage, Stage::Refused { rounds, .. } if rounds > probes)
    }
}

impl Crashes {
    /// Returns the number of cases.
    pub(crate) fn size(&self) -> usize {
        self.cases.len()
    }

    /// Opens a case at the beginning: a link to the subject is being opened. `sequence`: the highest number of its
    /// packets that this node received.
    pub(crate) fn open(&mut self, run: Run, sequence: u64, reviews: u8) {
        self.cases.insert(run, Case::new(sequence, reviews));
    }

    /// Closes the case of a member that is gone, whose process is another one, or whose process answered.
    pub(crate) fn close(&mut self, run: Run) {
        self.cases.remove(&run);
    }

    /// Closes a case that waits for a link that is not wanted any more: it would wait for ever.
    pub(crate) fn await_no_link(&mut self, run: Run) {
        if self.cases.get(&run).is_some_and(|case| case.stage == Stage::Reopening) {
            self.close(run);
        }
    }

    pub(crate) fn is_case(&self, run: Run) -> bool {
        self.cases.contains_key(&run)
    }

    /// Returns true if the port refused, and a probe was in vain.
    pub(crate) fn is_in_vain(&self, run: Run) -> bool {
        self.cases.get(&run).is_some_and(|case| case.were_in_vain(1))
    }

    /// Returns the members whose ports refused while a probe was in vain.
    pub(crate) fn in_vain(&self) -> impl Iterator<Item = Run> {
        self.cases.iter().filter(|(_, case)| case.were_in_vain(1)).map(|(run, _)| *run)
    }

    fn is_sure(&self, run: Run) -> bool {
        self.cases.get(&run).is_some_and(|case| case.were_in_vain(PROBES))
    }

    /// Returns true if the next step of the case may be the verdict.
    pub(crate) fn is_decided_next(&self, run: Run) -> bool {
        self.cases.get(&run).is_some_and(|case| case.were_in_vain(PROBES - 1))
    }

    /// Returns true if the port of the subject has refused, and no sign of life has come since.
    pub(crate) fn is_refused(&self, run: Run) -> bool {
        self.cases.get(&run).is_some_and(|case| case.refused_at().is_some())
    }

    /// Notes that the port of a member refused a link. `is_first`: no other attempt has failed since a link stood, or ever; that
    /// may be how the end of a process shows that had no link yet. `sequence`: as for [`Crashes::open`]; `None` if the member is
    /// not worth a case.
    pub(crate) fn refused(&mut self, now: Time, run: Run, is_first: bool, sequence: Option<u64>) -> Vec<CrashStep> {
        if sequence.is_none() {
            self.close(run);
        }
        self.open_first(run, is_first, sequence);
        let Some(case) = self.cases.get_mut(&run) else { return Vec::new() };
        case.stage = Stage::Refused { at: now, rounds: 0 };
        vec![CrashStep::Investigate]
    }

    fn open_first(&mut self, run: Run, is_first: bool, sequence: Option<u64>) {
        if let Some(sequence) = sequence.filter(|_| is_first && !self.is_case(run)) {
            self.open(run, sequence, CRASH_REVIEWS);
        }
    }

    /// Notes that a link to the subject could not be opened, but nobody refused it, which is no evidence. If another process
    /// answered there, it is asked for its identity, which ends the old one.
    pub(crate) fn no_link(&mut self, run: Run) -> Vec<CrashStep> {
        match self.cases.remove(&run) {
            Some(_) => vec![CrashStep::Close, CrashStep::Probe],
            None => Vec::new(),
        }
    }

    /// Notes that a link was opened, and closed before the process answered over it. That is a proxy, another run, or a
    /// process that is just dying: a kernel may close its connections before the port that still takes new ones. So the
    /// case is reviewed in a moment. `is_first` and `sequence` are as for [`Crashes::refused`].
    pub(crate) fn closed_unanswered(&mut self, run: Run, is_first: bool, sequence: Option<u64>) -> Vec<CrashStep> {
        self.open_first(run, is_first, sequence);
        match self.cases.get_mut(&run) {
            Some(case) if case.reviews > 0 => {
                case.reviews -= 1;
                case.stage = Stage::Reviewing;
                vec![CrashStep::Wait(CRASH_REVIEW), CrashStep::Probe]
            }
            _ => self.no_link(run),
        }
    }

    /// Takes the next step of a case.
    pub(crate) fn investigate(&mut self, now: Time, run: Run, facts: &CrashFacts) -> Vec<CrashStep> {
        let Some(case) = self.cases.get_mut(&run) else { return Vec::new() };
        let over = match &mut case.stage {
            Stage::Reopening => return Vec::new(),
            Stage::Reviewing => {
                case.stage = Stage::Reopening;
                return vec![CrashStep::Reopen];
            }
            Stage::Refused { rounds, .. } => {
                *rounds += 1;
                *rounds - 1
            }
        };
        let verdict = self.judge(now, run, facts);
        if !verdict.is_empty() {
            return verdict;
        }
        // An observer that may be gone itself is awaited until that is known: its case may have begun later, or be reviewed.
        let are_missing = facts.is_walking || facts.others.iter().any(|other| self.is_case(other.run));
        let patience = if are_missing { MANY_CRASHES_PATIENCE } else { CRASH_PATIENCE };
        if over >= PROBES + patience {
            // No other observer is sure: the member's silence will tell.
            self.close(run);
            return vec![CrashStep::Close];
        }
        let mut steps = vec![CrashStep::Probe];
        if over == 1 {
            steps.push(CrashStep::Walk);
        }
        steps.extend([CrashStep::Ask, CrashStep::Wait(facts.gap)]);
        steps
    }

    /// Decides a case, if there is enough evidence.
    pub(crate) fn judge(&mut self, now: Time, run: Run, facts: &CrashFacts) -> Vec<CrashStep> {
        let Some(case) = self.cases.get(&run).filter(|case| case.were_in_vain(PROBES)) else { return Vec::new() };
        // An observer that is sure says so again and again; one that has stopped saying so is sure no more.
        let fresh = now - facts.gap * 2;
        let is_confirmed = case.askers.values().flatten().any(|said| *said >= fresh);
        let is_silenced = |other: &Observer| other.is_suspect || self.is_sure(other.run);
        let is_alone = || case.were_in_vain(PROBES_ALONE) && facts.others.iter().all(is_silenced);
        if is_confirmed || is_alone() {
            self.close(run);
            vec![CrashStep::Convict]
        } else {
            Vec::new()
        }
    }

    /// Returns the time since the refusal, and whether this observer is sure, which is what the others are told when they
    /// are asked; `None` if there is nothing to ask.
    pub(crate) fn ask(&self, now: Time, run: Run) -> Option<(Duration, bool)> {
        let age = now.since(self.cases.get(&run)?.refused_at()?);
        Some((age, self.is_sure(run)))
    }

    /// Takes another observer's report that it cannot reach the subject either. Returns true if the case is to be judged.
    pub(crate) fn told_severed(&mut self, now: Time, run: Run, by: Run, is_sure: bool) -> bool {
        let Some(case) = self.cases.get_mut(&run) else { return false };
        if case.askers.len() >= MAX_CRASH_WITNESSES && !case.askers.contains_key(&by) {
            return false;
        }
        let said = case.askers.entry(by).or_default();
        *said = if is_sure { Some(now) } else { *said };
        is_sure
    }

    /// Notes that this node itself heard the subject. Returns whom to tell, after the steps.
    pub(crate) fn heard(&mut self, run: Run, sequence: u64) -> Option<(Vec<CrashStep>, Audience)> {
        let case = self.cases.get_mut(&run)?;
        // Whoever is sure says so again if the packet is an old one.
        let askers = std::mem::take(&mut case.askers).into_keys().collect();
        let audience = if case.refused_at().is_some() { Audience::Observers } else { Audience::Askers(askers) };
        Some((self.told_alive(run, sequence), audience))
    }

    /// Takes a packet of the subject that this node, or a member that says so, received after a refusal: if no higher
    /// number was known, the subject lives, or did so when that packet left.
    pub(crate) fn told_alive(&mut self, run: Run, sequence: u64) -> Vec<CrashStep> {
        let Some(case) = self.cases.get_mut(&run).filter(|case| sequence > case.sequence) else { return Vec::new() };
        case.sequence = sequence;
        // An observer that was sure before was wrong.
        case.askers.values_mut().for_each(|said| *said = None);
        if case.refused_at().is_some() { self.review(run) } else { Vec::new() }
    }

    /// Reviews the case in a moment, since the subject seems to live, or closes it after the last review.
    fn review(&mut self, run: Run) -> Vec<CrashStep> {
        match self.cases.get_mut(&run) {
            Some(case) if case.reviews > 0 => {
                case.reviews -= 1;
                case.stage = Stage::Reviewing;
                vec![CrashStep::Refuted, CrashStep::Wait(CRASH_REVIEW)]
            }
            _ => {
                self.close(run);
                vec![CrashStep::Refuted, CrashStep::Close]
            }
        }
    }

    /// Returns the numbers of observers that are kept as sure, and as asking.
    #[cfg(test)]
    pub(crate) fn reports_about(&self, run: Run) -> (usize, usize) {
        self.cases.get(&run).map_or((0, 0), |case| (case.askers.values().flatten().count(), case.askers.len()))
    }
}
