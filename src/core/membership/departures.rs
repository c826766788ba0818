//! Departures: a report that a member leaves, or has left, is believed if it comes from the member itself, or from an
//! elder.
//!
//! A leaving member tells its observers, and repeats it over every link that it closes; from them it spreads. A member
//! that has just joined (every member but elders, see `elders`; being the only other member is not enough) may be
//! invented: its report is kept for a while, and the member itself is asked, and elders that observe it:
//!
//! ```text
//! a newcomer reports it ──▶ the member itself says so, or an elder ───────────────────▶ believed at once
//!                      │
//!                      └──DEPARTURE_PATIENCE──▶ this node observes it, or it was heard,
//!                                               or an elder that observes it was ─────▶ forgotten
//!                                               it is Down for as long ───────────────▶ believed to have left
//!                                               another run has its name by then ─────▶ believed to have left
//!                                               none of these, and several report it ─▶ believed
//! ```
//!
//! An elder may lie, too: a false departure is shown for the moment in which its subject refutes it. After
//! [`MAX_FALSE_DEPARTURES`] of them in [`FALSE_DEPARTURES_INTERVAL`], whoever told them and of whomever, the word of an
//! elder about somebody else must outlast [`DEPARTURE_PATIENCE`], in which the subject is asked: only if it is not heard
//! is it believed to have left. The elder is named. It may have passed on what another told it.
//!
//! A crash is decided within a second, and is reported as one everywhere before a false report of leaving could be
//! believed.
//!
//! Invariants:
//! - No member that answers, and none that this node or an elder observes, leaves on the word of newcomers; and any
//!   other only on that of [`DEPARTURE_REPORTERS`] or more.
//! - At most [`MAX_DEPARTURES`] reports are kept, one for each member.
//! - A member's own word that it leaves is believed at once, whatever was told before.
//!
//! Must not know: other reasons for doubt (see `belief`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rand::seq::IndexedRandom;

use crate::core::counters::DropReason;
use crate::core::doors::Notice;
use crate::core::limits::{
    DEPARTURE_ASK_AGAIN, DEPARTURE_PATIENCE, DEPARTURE_REPORTERS, DEPARTURE_WITNESSES, FALSE_DEPARTURES_INTERVAL,
    MAX_DEPARTURES, MAX_FALSE_DEPARTURES,
};
use crate::core::member::{LeaveReason, Record, Run, Status};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::Slot;
use crate::core::wire::{Message, Note};
use crate::core::{Core, Phase};

/// Reports of others that members leave, by the run that is reported to leave.
#[derive(Debug, Default)]
pub(in crate::core) struct Departures {
    /// The reports that are not believed yet.
    said: BTreeMap<Run, Said>,
    /// The elders whose reports were believed last, to name them if a report is refuted. At most [`MAX_DEPARTURES`].
    tellers: BTreeMap<Run, Run>,
    /// The times of the last reports that were refuted. At most [`MAX_FALSE_DEPARTURES`].
    refuted: VecDeque<Time>,
}

#[derive(Debug)]
struct Said {
    record: Arc<Record>,
    note: Option<Note>,
    /// The members that report it: at most [`DEPARTURE_REPORTERS`].
    by: BTreeSet<Run>,
    /// True if an elder is among them.
    is_of_elder: bool,
    since: Time,
}

impl Departures {
    /// Returns the number of reports that are kept.
    pub(in crate::core) fn size(&self) -> usize {
        self.said.len()
    }

    /// Keeps a report, or a later one of the same departure; returns true if it is the first one about this member.
    /// `None`: there is no room.
    fn keep(&mut self, said: Said) -> Option<bool> {
        let run = said.record.run;
        if let Some(kept) =
            self.said.get_mut(&run).filter(|kept| said.since.since(kept.since) <= DEPARTURE_PATIENCE * 2)
        {
            if kept.record.incarnation == said.record.incarnation && said.record.supersedes(&kept.record) {
                (kept.record, kept.note) = (said.record, said.note);
            }
            kept.is_of_elder |= said.is_of_elder;
            if kept.by.len() < DEPARTURE_REPORTERS {
                kept.by.extend(said.by);
            }
            return Some(false);
        }
        if self.said.len() >= MAX_DEPARTURES && !self.said.contains_key(&run) {
            return None;
        }
        self.said.insert(run, said);
        Some(true)
    }

    /// Remembers the elder whose word is believed about a run.
    fn note_teller(&mut self, run: Run, teller: Run) {
        if self.tellers.len() >= MAX_DEPARTURES && !self.tellers.contains_key(&run) {
            self.tellers.pop_first();
        }
        self.tellers.insert(run, teller);
    }

    fn note_refuted(&mut self, now: Time) {
        if self.refuted.len() >= MAX_FALSE_DEPARTURES {
            self.refuted.pop_front();
        }
        self.refuted.push_back(now);
    }

    /// Returns true if so many were refuted lately that the next one has to wait.
    fn are_often_false(&self, now: Time) -> bool {
        let is_recent = |at: &&Time| now.since(**at) < FALSE_DEPARTURES_INTERVAL;
        self.refuted.iter().filter(is_recent).count() >= MAX_FALSE_DEPARTURES
    }
}

/// Returns true if a record reports that its member leaves, or has left, by its own decision.
pub(in crate::core) fn is_departure(status: Status) -> bool {
    matches!(status, Status::Leaving | Status::Left(LeaveReason::Graceful))
}

fn is_here_or_down(status: Status) -> bool {
    matches!(status, Status::Up | Status::Suspect | Status::Down)
}

impl Core {
    /// Returns true if another member's report that a member leaves is not believed (yet).
    pub(in crate::core) fn doubts_departure(
        &mut self,
        subject: Slot,
        record: &Record,
        note: Option<Note>,
        from: Slot,
    ) -> bool {
        if !is_here_or_down(self.view.record(subject).status) {
            return false;
        }
        let (by, is_of_elder) = (self.view.record(from).run, self.is_elder_beside_others(from));
        let is_believed_at_once = !matches!(self.phase, Phase::Up) || !self.departures.are_often_false(self.now);
        if is_of_elder && is_believed_at_once {
            self.departures.note_teller(record.run, by);
            return false;
        }
        if !matches!(self.phase, Phase::Up) {
            // A leaving node asks no more questions, and must not vouch for reports of others.
            return true;
        }
        let (run, by) = (record.run, BTreeSet::from([by]));
        let said = Said { record: Arc::new(record.clone()), note, by, is_of_elder, since: self.now };
        match self.departures.keep(said) {
            Some(true) => {
                self.timers.set(Timer::Departure(run), self.now + DEPARTURE_ASK_AGAIN);
                if self.may_ask_about(run) {
                    self.ask_for_sign(subject);
                }
            }
            Some(false) => {}
            None => self.counters.drop(DropReason::TableFull),
        }
        true
    }

    /// Asks again about a member that is reported to leave, or decides.
    pub(in crate::core) fn review_departure(&mut self, run: Run) {
        let Some(said) = self.departures.said.get(&run) else { return };
        let (since, record, is_of_elder) = (said.since, Arc::clone(&said.record), said.is_of_elder);
        let are_few = said.by.len() < DEPARTURE_REPORTERS;
        let is_open = |slot: &Slot| {
            let held = self.view.record(*slot);
            is_here_or_down(held.status) && record.supersedes(held)
        };
        let subject = self.view.slot_of_run(run).filter(|_| matches!(self.phase, Phase::Up)).filter(is_open);
        let Some(subject) = subject else {
            // The member itself or an elder has confirmed it; or the member refuted it, or is gone.
            self.departures.said.remove(&run);
            let held = self.view.slot_of_run(run).map(|slot| self.view.record(slot));
            let is_refuted =
                held.is_some_and(|held| held.status == Status::Up && held.incarnation > record.incarnation);
            if is_of_elder && is_refuted {
                self.departures.note_refuted(self.now);
            }
            return;
        };
        if self.view.record(subject).status == Status::Down {
            if record.status == Status::Leaving {
                // A leaving member is live, and says so itself.
                self.departures.said.remove(&run);
                return self.counters.drop(DropReason::Unproven);
            }
            // Every member has reported it as Down by then.
            let accused_since = self.view.entry(subject).peer.rare().accused_since.unwrap_or(since);
            let decide_at = accused_since.max(since) + DEPARTURE_PATIENCE;
            if self.now < decide_at {
                return self.timers.set(Timer::Departure(run), decide_at);
            }
            return self.believe_departure(subject);
        }
        let observers = self.observers_of(subject);
        let elders: Vec<Slot> = observers.into_iter().filter(|slot| self.is_elder_beside_others(*slot)).collect();
        if self.now < since + DEPARTURE_PATIENCE {
            self.timers.set(Timer::Departure(run), (self.now + DEPARTURE_ASK_AGAIN).min(since + DEPARTURE_PATIENCE));
            self.ask_for_sign(subject);
            if !self.observes(subject) {
                // The elders know better, and say so: the member's own words to them are among their updates.
                let asked: Vec<Slot> = elders.sample(&mut self.rng, DEPARTURE_WITNESSES).copied().collect();
                for elder in asked {
                    self.ask_for_sign(elder);
                }
            }
            return;
        }
        let was_heard = |slot: &Slot| {
            let session = self.view.entry(*slot).peer.session.as_ref();
            session.is_some_and(|session| session.heard > since)
        };
        // Elders that observe it and tell of it are not believed at once, so that they are heard is no evidence against it.
        let is_doubtful = !is_of_elder && (are_few || self.observes(subject) || elders.iter().any(was_heard));
        if is_doubtful || was_heard(&subject) || self.is_deaf() {
            self.departures.said.remove(&run);
            if is_of_elder {
                self.departures.note_refuted(self.now);
            }
            return self.counters.drop(DropReason::Unproven);
        }
        self.believe_departure(subject);
    }

    /// Counts a departure that was shown here and that its subject refutes, and names who told it.
    pub(super) fn note_false_departure(&mut self, slot: Slot) {
        let Some(teller) = self.departures.tellers.remove(&self.view.record(slot).run) else { return };
        self.departures.note_refuted(self.now);
        if let Some(by) = self.view.slot_of_run(teller) {
            let (id, by) = (self.view.record(slot).id.clone(), self.view.record(by).id.clone());
            self.notice("false departure", Notice::FalseDeparture { id, by });
        }
    }

    /// Believes that a run has left that was reported to, if another one has its name now: it is gone in any case, and was
    /// perhaps started again before its own word came here.
    pub(super) fn believe_departure_of_predecessor(&mut self, subject: Slot, successor: &Record) {
        let held = self.view.record(subject);
        let said = self.departures.said.get(&held.run).map(|said| &said.record).filter(|_| held.run != successor.run);
        let is_open = matches!(held.status, Status::Up | Status::Suspect);
        if is_open && said.is_some_and(|said| said.supersedes(held) && successor.supersedes(said)) {
            self.believe_departure(subject);
        }
    }

    fn believe_departure(&mut self, subject: Slot) {
        let Some(said) = self.departures.said.remove(&self.view.record(subject).run) else { return };
        let waited_ms = self.now.since(said.since).as_millis() as u64;
        let note = said.note.map(|note| Note { age_ms: note.age_ms.saturating_add(waited_ms), ..note });
        let (hash, from) = (said.record.hash(), said.by.first().and_then(|by| self.view.slot_of_run(*by)));
        self.supersede(subject, said.record, hash, note, from);
    }

    /// Asks a member for an answer, which brings its updates along.
    fn ask_for_sign(&mut self, slot: Slot) {
        let nonce = self.prover.nonce(self.view.record(slot).address, self.now);
        self.send_both_ways(slot, &Message::Probe { nonce, doubted: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::member::tests::record;

    const GRACEFUL: Status = Status::Left(LeaveReason::Graceful);

    fn said(run: u64, incarnation: u64, status: Status, since: Time) -> Said {
        let record = Record { run: Run(run), ..record("n1", incarnation, status) };
        Said { record: Arc::new(record), note: None, by: [Run(9)].into(), is_of_elder: false, since }
    }

    #[test]
    fn so_many_words_are_kept_and_no_more() {
        let mut departures = Departures::default();
        for run in 1..=MAX_DEPARTURES as u64 {
            assert_eq!(departures.keep(said(run, 1, Status::Leaving, Time::ORIGIN)), Some(true));
        }
        assert_eq!(departures.keep(said(0, 1, Status::Leaving, Time::ORIGIN)), None);
        assert_eq!(departures.keep(said(1, 1, GRACEFUL, Time::ORIGIN)), Some(false), "it is kept already");
        assert_eq!(departures.size(), MAX_DEPARTURES);
    }

    #[test]
    fn so_many_false_departures_are_counted_and_forgotten_in_time() {
        let mut departures = Departures::default();
        for round in 0..MAX_FALSE_DEPARTURES + 5 {
            assert_eq!(departures.are_often_false(Time::ORIGIN), round >= MAX_FALSE_DEPARTURES);
            departures.note_refuted(Time::ORIGIN);
        }
        assert_eq!(departures.refuted.len(), MAX_FALSE_DEPARTURES);
        assert!(!departures.are_often_false(Time::ORIGIN + FALSE_DEPARTURES_INTERVAL));
        for run in 0..=MAX_DEPARTURES as u64 {
            departures.note_teller(Run(run), Run(9));
        }
        assert_eq!(departures.tellers.len(), MAX_DEPARTURES);
    }

    #[test]
    fn what_is_said_of_a_departure_goes_on_and_is_not_outdone() {
        let mut departures = Departures::default();
        departures.keep(said(1, 5, Status::Leaving, Time::ORIGIN));
        departures.keep(said(1, 5, GRACEFUL, Time::ORIGIN));
        departures.keep(said(1, 900, GRACEFUL, Time::ORIGIN));
        let kept = &departures.said[&Run(1)].record;
        assert_eq!((kept.incarnation, kept.status), (5, GRACEFUL));
        let later = Time::ORIGIN + DEPARTURE_PATIENCE * 3;
        assert_eq!(departures.keep(said(1, 900, GRACEFUL, later)), Some(true), "another one");
    }
}
