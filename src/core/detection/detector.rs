//! Judging silence: the failure detector.
//!
//! Each member is judged by its *own* timing, from its last sign of life (of any kind, by any path), exactly at the
//! deadline and inclusively: age ≥ timeout.
//!
//! ```text
//! last heartbeat ──its next one is late──▶ probes, others are asked ◀──some time before suspect_timeout──┐
//! last sign ─────────────────────────────────────────────────────────────────────────────────────────────┴─▶ Suspect
//!     ──down_timeout──▶ Down ──reap_after──▶ reaped
//! ```
//!
//! The timeouts are fixed, and not learnt from arrivals as by a phi accrual detector (Hayashibara and others, 2004): they are
//! part of the record, so that all observers reach the same verdict at the same moment, and an attacker or a calm hour
//! cannot teach them another one.
//!
//! Where a member's turns are further apart than its suspect timeout (as in the profile `fast`), the last sign says little beyond a
//! cut: others may have heard it since. There silence counts from the heartbeat that this node expected and that did not come; and
//! the first member that is missed has all others looked at, so that a cut is seen whole.
//!
//! Two things lengthen the wait. A member that keeps refuting is suspected later, but not Down later (see `view::refutations`).
//! A node in poor health multiplies both of the timeouts by which it accuses, and does not count silence that it
//! slept through (see `health`).
//!
//! Invariants:
//! - No member is accused before six probes were sent, and all other observers asked four times, and the last of them had its
//!   time to be answered, however late this node comes.
//! - No member stays Suspect for longer than a down timeout, heard or not: one that lives and hears has refuted by
//!   then.
//! - An accusation claims no more silence than was demanded for it. The silence that the accuser forgave or slept
//!   through would otherwise count against the accused everywhere else, and take its chance to refute: others reach
//!   Down `down_timeout` after the last sign that the accusation tells of.
//!
//! A machine: it is lent what it judges by ([`DetectorFacts`]) and says what follows ([`DetectorStep`]); the core does it
//! (see `wiring::judging`).
//!
//! Must not know: the way a sign of life took.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::health::forgiving_step;
use super::{Inquiries, LocalHealth};
use crate::limits::{MAX_DAMPING, MIN_CRASH_PROBE_GAP, MIN_PAUSE, TOLD_INTERVAL};
use crate::member::{DetectionMethod, Run, Status};
use crate::observers::Observers;
use crate::packet::Outbox;
use crate::settings::Settings;
use crate::time::Time;
use crate::view::{Entry, Slot, View, is_due};

/// The least number of probes before a suspicion. With the second some of the other observers are asked, with each later one all:
/// where a quarter of all packets is lost, four times are what makes a false suspicion rare (see `benches/alarms`).
const PROBES: u32 = 6;

/// The failure detector's own state.
#[derive(Debug, Clone)]
pub(crate) struct Detector {
    pub(super) rng: ChaCha8Rng,
    /// The inquiries under way, and bad links.
    pub(crate) inquiries: Inquiries,
    /// Time at which all observed members were last looked at because one was missed.
    looked_around: Option<Time>,
}

/// The facts by which members are judged, lent for one judgement: the time, the table of members, who is observed, the settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DetectorFacts<'a> {
    pub(crate) now: Time,
    pub(crate) view: &'a View,
    pub(crate) observers: &'a Observers,
    pub(crate) health: &'a LocalHealth,
    pub(crate) settings: &'a Settings,
}

/// The times that questions before a suspicion take.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// From one probe to the next.
    probes: Duration,
    /// The time in which an answer comes.
    answer: Duration,
}

/// The step that a member's silence, or its age, calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetectorStep {
    /// It is judged again then.
    Wait(Time),
    /// It was heard meanwhile: its deadlines are set anew.
    Watch,
    /// It is probed, the `nth` time from 0, and from the second time on others are asked about it.
    Probe { nth: u32, next: Time },
    /// It is suspected by this node, which has probed it since then, for silence since `claimed`.
    Suspect { probed_since: Option<Time>, claimed: Time },
    /// It had the time to refute, and did not; it was found out by this method.
    Confirm(DetectionMethod),
    /// It said that it leaves, and is silent.
    Depart,
    /// It has been gone for long enough.
    Reap,
}

impl Detector {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        Self { rng, inquiries: Inquiries::default(), looked_around: None }
    }

    /// Judges a member whose deadline has come: most often it was heard meanwhile and gets a new one. Silence is forgiven
    /// for now if two processes of this node's name met within the silence that is demanded (`are_rivals_met`).
    pub(crate) fn judge(
        &mut self,
        facts: DetectorFacts<'_>,
        slot: Slot,
        is_up: bool,
        are_rivals_met: impl Fn(Duration) -> bool,
    ) -> Option<DetectorStep> {
        let threshold = facts.threshold(slot)?;
        if !is_up {
            // A joiner has no view yet by which it could judge; it looks again when it is Up. To a node that is leaving
            // nobody sends any more, and so it judges nobody.
            return Some(DetectorStep::Wait(threshold.max(facts.now + MIN_PAUSE)));
        }
        if threshold > facts.now {
            return Some(DetectorStep::Watch);
        }
        match facts.view.record(slot).status {
            Status::Up => Some(self.probe_or_suspect(facts, slot, are_rivals_met)),
            Status::Suspect => Some(DetectorStep::Confirm(facts.method_of_death(facts.view.entry(slot)))),
            Status::Leaving => Some(DetectorStep::Depart),
            Status::Down | Status::Left(_) => Some(DetectorStep::Reap),
            Status::Joining => None,
        }
    }

    /// Has a silent member probed, and suspects it at the end of its timeout.
    fn probe_or_suspect(
        &mut self,
        facts: DetectorFacts<'_>,
        slot: Slot,
        are_rivals_met: impl Fn(Duration) -> bool,
    ) -> DetectorStep {
        let (now, entry) = (facts.now, facts.view.entry(slot));
        let run = entry.record.run;
        let demanded = entry.demanded_silence(now);
        let silent_since = facts.silent_since(entry).max(facts.missed_since(entry).unwrap_or(Time::ORIGIN));
        let mut suspect_at = silent_since + demanded * facts.health.stretch();
        let is_heard_out = || self.inquiries.are_heard(run, facts.observers.observers_of(facts.view, slot).len());
        if facts.is_heard_in_vain(slot) && !is_heard_out() {
            suspect_at = suspect_at + demanded / 2;
        }
        let Pace { probes: pace, answer } = facts.pace(entry);
        let probed = self.inquiries.probed(run);
        // On for as long as there is time: where packets are lost, each probe is another chance.
        if probed < PROBES || now + answer <= suspect_at {
            self.inquiries.probe_sent(run, now);
            // Most often a heartbeat was lost, and the first probe is answered.
            return DetectorStep::Probe { nth: probed, next: now + if probed == 0 { answer } else { pace } };
        }
        let ready_at = self.inquiries.last_probe(run).map_or(suspect_at, |last| suspect_at.max(last + answer));
        if now < ready_at {
            return DetectorStep::Wait(ready_at);
        }
        if are_rivals_met(demanded) {
            // Members hear one of two processes of a name: the other one hears nobody, and none of them is ill.
            return DetectorStep::Wait(now + facts.settings.probe_timeout);
        }
        let probed_since = self.inquiries.began(run);
        self.inquiries.close(run);
        // Questions that began in time delay Suspect, not Down; what this node came late otherwise is the accused's time to refute.
        let in_time = facts.late_at(entry).map_or(suspect_at, |late| suspect_at.max(late));
        let since = if probed_since.is_some_and(|began| began <= in_time) { suspect_at } else { now };
        DetectorStep::Suspect { probed_since, claimed: since - demanded }
    }

    /// Begins to look at all observed members, once in a suspect timeout; returns false if that is not due.
    pub(crate) fn begin_to_look_around(&mut self, now: Time, settings: &Settings) -> bool {
        let is_due = is_due(now, self.looked_around, settings.suspect_timeout);
        if is_due {
            self.looked_around = Some(now);
        }
        is_due
    }

    /// Tells the members that were accused while nothing got through, so that they refute it (Lifeguard's buddy system): most of
    /// them are not observed otherwise, and would learn it from members that believe it. One that was told in vain is told
    /// again, and one that does not refute is told by a bootstrap link as well.
    pub(crate) fn tell_the_accused(&mut self, out: &mut Outbox<'_>) {
        let counts = out.view.counts();
        let is_anybody = counts[Status::Suspect.index()] + counts[Status::Down.index()] > 0;
        if !is_anybody || !out.health.is_telling(out.cx.now, &out.cx.settings) {
            return;
        }
        let accused = out.view.iter().filter(|(_, entry)| entry.status.is_accused());
        let accused: Vec<Slot> =
            accused.filter(|(_, entry)| entry.peer.rare().is_judged_unheard).map(|(slot, _)| slot).collect();
        if out.cx.now.since(out.health.heard_again()) >= TOLD_INTERVAL {
            // Those whose datagrams do not pass were told in vain. At random: the dead must not keep the others from it.
            let addresses: Vec<_> = accused.iter().map(|slot| out.view.record(*slot).address).collect();
            let shuffled: Vec<_> = addresses.sample(&mut self.rng, addresses.len()).copied().collect();
            out.open_bootstraps(&shuffled);
            // There may be more of them than bootstrap links at one time.
            out.paths.end_bootstraps_soon(out.cx.now, |_| true);
        }
        for slot in accused {
            if out.must_be_told(slot) {
                let packet = out.packet_to(slot);
                out.send_to(slot, packet);
            }
        }
    }

    /// Notes a sign of life of a member that is judged at a later time; returns true if that ends an inquiry.
    pub(crate) fn end_inquiry(&mut self, now: Time, run: Run, threshold: Time) -> bool {
        threshold > now && self.inquiries.end(run)
    }
}

impl DetectorFacts<'_> {
    /// Returns the time at which the member's silence or age reaches the next threshold of its status.
    pub(crate) fn threshold(&self, slot: Slot) -> Option<Time> {
        let entry = self.view.entry(slot);
        let silent_since = self.silent_since(entry);
        let (timing, stretch) = (entry.record.timing, self.health.stretch());
        match entry.record.status {
            Status::Joining => None,
            // Silence means something only to an observer, which should have been sent packets.
            Status::Up if !self.observers.observes(slot) => None,
            // A member of which a longer silence is demanded is probed no later than others: if it was not heard for
            // long before a cut, it would be judged before any other member is missed.
            Status::Up => {
                let Pace { probes, answer } = self.pace(entry);
                // The last questions are in time, unless its heartbeats are further apart.
                let questions = answer * 2 + probes * (PROBES - 2);
                let patience = (timing.suspect_timeout() * stretch).saturating_sub(questions);
                self.late_at(entry).into_iter().chain([silent_since + patience]).max()
            }
            Status::Leaving => Some(silent_since + timing.suspect_timeout()),
            Status::Suspect => {
                let patience = self.down_timeout(entry) * stretch;
                // A suspect that is heard is told, and refutes; one that does not in all this time does not hear.
                let accused_since = entry.peer.rare().accused_since.unwrap_or(silent_since);
                let at_last = accused_since.max(self.health.awake_since()) + patience;
                let deadline = (silent_since + patience).min(at_last);
                // Even an overdue suspect gets its refutation time.
                let chances = [entry.refutation_deadline(), self.health.may_refute_until(entry)];
                chances.into_iter().flatten().chain([deadline]).max()
            }
            Status::Down | Status::Left(_) => Some(entry.peer.last_sign() + self.settings.reap_after),
        }
    }

    /// Returns the time from which a member's next heartbeat is late, if one is expected.
    fn late_at(&self, entry: &Entry) -> Option<Time> {
        Some(entry.peer.expected()?.0 + self.tolerance(entry))
    }

    /// Returns the time from which this node surely misses a member whose turns are further apart than its suspect timeout: a little
    /// before the heartbeat that did not come. Another observer may miss it earlier, and says so; beyond a cut there are others,
    /// which may have heard it until then.
    fn missed_since(&self, entry: &Entry) -> Option<Time> {
        let (expected, turn) = entry.peer.expected().filter(|_| entry.record.timing.is_rarely_heard())?;
        // It has about as many observers as this node observes members.
        let beat = turn / self.observers.neighbours().count().max(1) as u32;
        Some(expected - beat * 3 / 2)
    }

    /// Returns the time by which a member's heartbeat may be late.
    pub(super) fn tolerance(&self, entry: &Entry) -> Duration {
        self.pace(entry).probes
    }

    /// Returns the times that questions to a member, and about it, take.
    fn pace(&self, entry: &Entry) -> Pace {
        // Of a member that is quicker than this node, too, they are over in time.
        let probes = self.settings.probe_timeout.min(entry.record.timing.suspect_timeout() / 15);
        let round_trip = entry.peer.rtt().unwrap_or_default();
        Pace { probes, answer: probes.max(round_trip * 3 / 2).min(entry.record.timing.suspect_timeout() / 4) }
    }

    /// Returns the time from which a member's silence counts.
    pub(crate) fn silent_since(&self, entry: &Entry) -> Time {
        let watched_since = entry.peer.rare().watched_since.filter(|_| entry.record.status == Status::Up);
        let looking_since = self.health.awake_since().max(watched_since.unwrap_or(Time::ORIGIN));
        entry.peer.last_sign().max(looking_since)
    }

    /// Returns the time at which a member is judged whose next threshold is reached then.
    pub(crate) fn look_at(&self, threshold: Time) -> Time {
        // A note may be older than its deadline: the deadline is due now, which is no pause of this node.
        let at = threshold.max(self.now);
        // A node in poor health looks again when it may be in better health.
        let is_stretched = self.health.stretch() > 1;
        if is_stretched { at.min(self.now + forgiving_step(self.settings)) } else { at }
    }

    /// Returns the members that are Suspect, or were `probed` in vain until their time was over, or whose port `refused` a link
    /// while a probe was in vain.
    pub(crate) fn unresponsive(
        &self,
        probed: impl Iterator<Item = Run>,
        refused: impl Iterator<Item = Run>,
    ) -> BTreeSet<Slot> {
        let is_any_suspect = self.view.counts()[Status::Suspect.index()] > 0;
        let is_suspect = |slot: &Slot| is_any_suspect && self.view.entry(*slot).status == Status::Suspect;
        let suspects = self.view.live().iter().copied().filter(is_suspect);
        let slot_of = |run| self.view.slot_of_run(run);
        let is_silent = |slot: &Slot| self.threshold(*slot).is_some_and(|threshold| threshold <= self.now);
        let silent = probed.filter_map(slot_of).filter(is_silent).chain(refused.filter_map(slot_of));
        let is_live = |slot: &Slot| *slot != View::ME && self.view.entry(*slot).status.is_live();
        suspects.chain(silent).filter(is_live).collect()
    }

    /// Returns the time for which an answer of these members is awaited where a crash may be found: it must be decided within a
    /// second in every profile, also over round trips of a tenth of a second.
    pub(crate) fn patience_with(&self, asked: impl Iterator<Item = Slot>) -> Duration {
        let rtt = asked.filter_map(|slot| self.view.entry(slot).peer.rtt()).max().unwrap_or_default();
        self.settings.probe_timeout.min(MIN_CRASH_PROBE_GAP.max(rtt * 3 / 2))
    }

    /// Returns true if this node reaches a verdict while it is deaf, or withholds the one before. A member that refused a connection
    /// was heard.
    pub(crate) fn is_judged_unheard(&self, slot: Slot, status: Status, method: Option<DetectionMethod>) -> bool {
        let is_silence = status.is_accused() && method != Some(DetectionMethod::ConnectionLost);
        is_silence && (self.health.is_deaf(self.now, self.settings) || self.is_withheld(slot))
    }

    /// Returns true if a verdict of this node is not to be told (yet).
    pub(crate) fn is_withheld(&self, slot: Slot) -> bool {
        self.health.is_withheld(self.now, self.view.entry(slot), self.settings)
    }
}

impl Entry {
    /// Returns the silence after which this node would accuse the member, if this node is healthy (see `view::refutations`).
    pub(crate) fn demanded_silence(&self, now: Time) -> Duration {
        self.peer.rare().refutations.demanded_silence(now, self.record.timing)
    }

    /// Returns the time from which the silence of a member counts that is observed from now on: it is probed at once, since what
    /// this node has not heard itself must not count as heard, and an orphan of a mass failure must not be forgiven a whole
    /// timeout once more. A member that `lived` at a certain time, because nobody accused it until then, is not forgiven
    /// more than that.
    pub(crate) fn taken_over_at(&self, now: Time, lived: Option<Time>) -> Option<Time> {
        let is_new = self.peer.session.is_none() && self.peer.last_sign() == now;
        if is_new || self.record.status != Status::Up {
            return None;
        }
        let demanded = self.demanded_silence(now);
        // Whoever is heard by turns that are further apart than that was not missed by anybody until a moment ago.
        if self.record.timing.is_rarely_heard() {
            return Some(now - demanded * 2 / 5);
        }
        // A time long ago says nothing of this silence.
        let lived = lived.filter(|lived| now.since(*lived) <= demanded * 5 / 4);
        Some(lived.unwrap_or(now - demanded * 4 / 5))
    }

    /// Returns the shortest time between a suspicion and its confirmation that any accuser leaves (see `view::refutations`).
    fn refutation_time(&self) -> Duration {
        let timing = self.record.timing;
        timing.down_timeout().saturating_sub(timing.suspect_timeout()) / (1 << MAX_DAMPING)
    }

    /// Returns the time until which an accused member may refute, whatever the age of its silence.
    pub(crate) fn refutation_deadline(&self) -> Option<Time> {
        Some(self.peer.rare().accused_since? + self.refutation_time())
    }
}
