//! This node's own observations of a member: times of packets, round trip, packets sent to it.
//!
//! Nothing here is in a record, and nothing here is ever hashed.
//!
//! Invariants: what is remembered of one peer has a greatest size, whatever it sends.
//!
//! Must not know: what follows from an observation.

#[cfg(test)]
mod tests;

use super::refutations::Refutations;
use std::time::Duration;

use crate::limits::{DUPLICATE_WINDOW, MAX_ECHO_HOLD};
use crate::member::DetectionMethod;
use crate::settings::Timing;
use crate::time::Time;
use crate::window::{Novelty, Window};
use crate::wire::{Echo, Heartbeat};

/// One observer's state of one run of one member. There is one for every member, so rarely needed state is kept apart:
/// in a large cluster most members are never heard directly.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The freshest evidence that the member lived: a packet heard, the age in a note, a raised incarnation. It never moves
    /// back, except that a departure has a date of its own.
    last_sign: Time,
    /// The state learnt from its packets; empty until the first one.
    pub(crate) session: Option<Box<Session>>,
    rare: Option<Box<RareState>>,
    /// The way in which its silence or death was detected, as first learnt.
    pub(crate) method: Option<DetectionMethod>,
    /// True if its address has echoed a nonce of ours.
    proven: bool,
}

/// State of members that have sent us packets.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// Time of the last packet.
    pub(crate) heard: Time,
    /// Time of the last packet that counts as a sign of life (see `detection::heartbeat`).
    pub(crate) sign: Time,
    /// The stamp of this node's that it echoed last.
    echo: Option<u16>,
    /// Time of the first packet to it since it last showed that it received one.
    unanswered_since: Option<Time>,
    /// Time of the last packet that came as a datagram.
    pub(crate) datagram: Option<Time>,
    /// The view's fingerprint in its last packet.
    pub(crate) fingerprint: u64,
    /// True if the last packet was sent after all others that came.
    is_in_order: bool,
    /// Time of its last heartbeat, if there was one.
    stamped_at: Option<Time>,
    /// The stamp on its last heartbeat.
    stamp: u16,
    rtt: Rtt,
    /// The sequence numbers of its packets: a packet comes twice by the network, or by a datagram and a link, and late.
    numbers: Window<{ (DUPLICATE_WINDOW / 64) as usize }>,
}

impl Session {
    /// Notes that it has received a packet of ours.
    pub(crate) fn answered(&mut self) {
        self.unanswered_since = None;
    }

    /// Returns true if for so long it has not shown that it received a packet.
    pub(crate) fn is_answer_missing(&self, now: Time, patience: Duration) -> bool {
        self.unanswered_since.is_some_and(|since| now.since(since) >= patience)
    }
}

/// Rarely needed state; mostly the last time of rate-limited actions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RareState {
    /// Time of the last packet to it, if it is an observer of this node: only those have to hear from this node
    /// regularly.
    pub(crate) last_sent: Option<Time>,
    /// Time of the last answer to its differing fingerprint.
    pub(crate) last_answer: Option<Time>,
    /// Time of the last `HeldStatus` sent to it.
    pub(crate) last_told: Option<Time>,
    /// Time at which a fresher note about it was last passed on.
    pub(crate) last_passed_on: Option<Time>,
    /// Time of the last probe sent because others cannot reach its process.
    pub(crate) last_hearsay: Option<Time>,
    /// Time at which it was last looked into because a program asked for that.
    pub(crate) last_doubt: Option<Time>,
    /// Time at which a case was last opened on another's report.
    pub(crate) last_case: Option<Time>,
    /// Time since which others accuse it of a silence although this node hears it.
    pub(crate) contradicted_since: Option<Time>,
    /// Time since which this node holds it as accused, or gone, at its incarnation.
    pub(crate) accused_since: Option<Time>,
    /// Time until which the parts of numbered views that it was sent are paid for.
    pub(crate) view_parts_paid_until: Option<Time>,
    /// Time until which the packets of broadcasts and records that it was answered with are paid for.
    pub(crate) answers_paid_until: Option<Time>,
    /// Time at which it was last answered who leads.
    pub(crate) last_led: Option<Time>,
    /// The refutations of its suspicions that are still remembered.
    pub(crate) refutations: Refutations,
    /// The reports of the end of its process that it refuted, as far as they are still remembered.
    pub(crate) false_death_reports: Refutations,
    /// True if its accusation is this node's own, made while this node heard nobody (see `detection::health`).
    pub(crate) is_judged_unheard: bool,
    /// Its host's kernel, as far as it was asked.
    pub(crate) host: Host,
    /// Time from which its silence counts at the earliest, if this node took it over from others.
    pub(crate) watched_since: Option<Time>,
    /// Its next heartbeat, if this node observes it and has heard it.
    expected: Option<Expected>,
}

/// The kernel of a member's host, by its answers at the member's address (see `detection::host`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Host {
    /// True if it has answered this node.
    pub(crate) has_answered: bool,
    /// Time of the last question to it.
    pub(crate) asked: Option<Time>,
    /// Time of the first question after which no answer came, while the member is silent.
    pub(crate) unanswered_since: Option<Time>,
    /// Time of the last answer that any observer had.
    pub(crate) answered: Option<Time>,
}

/// A heartbeat that is to come.
#[derive(Debug, Clone, Copy)]
struct Expected {
    /// The time at which it comes at the latest.
    at: Time,
    /// The time from the one before to it.
    interval: Duration,
    /// The time since which a sign is awaited besides, because another member is missed.
    besides: Option<Time>,
}

impl Peer {
    /// Returns the state of a member that was first seen alive at `last_sign`.
    pub(crate) fn new(last_sign: Time) -> Self {
        Self { last_sign, session: None, rare: None, method: None, proven: false }
    }

    /// Returns the state of a new acquaintance whose address has echoed a nonce already, or has not.
    pub(crate) fn with_proof(self, proven: bool) -> Self {
        Self { proven, ..self }
    }

    /// Returns the time of the freshest evidence that it lived.
    pub(crate) fn last_sign(&self) -> Time {
        self.last_sign
    }

    /// Notes that it lived at this time.
    pub(crate) fn lived_at(&mut self, at: Time) {
        self.last_sign = self.last_sign.max(at);
    }

    /// Notes that it has left, at this time: everybody forgets it at the same age.
    pub(crate) fn left_at(&mut self, at: Time) {
        self.last_sign = at;
    }

    /// Returns true if its address has echoed a nonce of ours.
    pub(crate) fn is_proven(&self) -> bool {
        self.proven
    }

    /// Notes that its address has echoed a nonce.
    pub(crate) fn prove(&mut self) {
        self.proven = true;
    }

    /// Forgets that its address has echoed a nonce, and its host has answered: it is said to be at another one.
    pub(crate) fn unprove(&mut self) {
        self.proven = false;
        if let Some(rare) = &mut self.rare {
            rare.host = Host::default();
        }
    }

    pub(crate) fn rare(&self) -> RareState {
        self.rare.as_deref().copied().unwrap_or_default()
    }

    pub(crate) fn rare_mut(&mut self) -> &mut RareState {
        self.rare.get_or_insert_default()
    }

    /// Postpones forgetting its refutations, if there are any: it was silent for long.
    pub(crate) fn renew_refutations(&mut self, now: Time, timing: Timing) {
        if let Some(rare) = &mut self.rare {
            rare.refutations.renew(now, timing);
        }
    }

    /// Notes that others accuse it wrongly; returns for how long they have.
    pub(crate) fn contradict(&mut self, now: Time) -> Duration {
        now.since(*self.rare_mut().contradicted_since.get_or_insert(now))
    }

    /// Notes that nobody accuses it wrongly any more.
    pub(crate) fn end_contradiction(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.contradicted_since = None;
        }
    }

    /// Sets whether its accusation is this node's own, made while this node heard nobody.
    pub(crate) fn judged_unheard(&mut self, is_unheard: bool) {
        if is_unheard || self.rare.is_some() {
            self.rare_mut().is_judged_unheard = is_unheard;
        }
    }

    /// Returns the time at which its next heartbeat, or another sign that is awaited, comes at the latest, and the time from the one before to it; `None` if it was
    /// never heard as an observed member.
    pub(crate) fn expected(&self) -> Option<(Time, Duration)> {
        let Expected { at, interval, besides } = self.rare.as_ref()?.expected?;
        Some((besides.map_or(at, |besides| at.min(besides)), interval))
    }

    /// Notes that its next heartbeat comes after so long, as it says.
    pub(crate) fn expect(&mut self, now: Time, interval: Duration) {
        if self.session.as_ref().is_some_and(|session| session.is_in_order) {
            self.rare_mut().expected = Some(Expected { at: now + interval, interval, besides: None });
        }
    }

    /// Notes another sign of life, which says nothing about its heartbeats: one that is late by then was lost, and the next one
    /// comes an interval later. Returns true if one was.
    pub(crate) fn expect_another(&mut self, now: Time, interval: Duration, tolerance: Duration) -> bool {
        let expected = &mut self.rare_mut().expected;
        let before = expected.unwrap_or(Expected { at: now, interval, besides: None });
        let is_late = expected.is_some_and(|expected| expected.at + tolerance < now);
        let at = if is_late || expected.is_none() { now.max(before.at + before.interval) } else { before.at };
        *expected = Some(Expected { at, besides: None, ..before });
        is_late
    }

    /// Expects a sign of it now: another member is missed.
    pub(crate) fn expect_now(&mut self, now: Time) {
        if let Some(expected) = self.rare.as_mut().and_then(|rare| rare.expected.as_mut()) {
            expected.besides.get_or_insert(now);
        }
    }

    /// Expects no heartbeats any more: it is not observed.
    pub(crate) fn expect_nothing(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.expected = None;
            rare.watched_since = None;
        }
    }

    /// Notes that a packet is sent to it; a gap of `pause` since the last one counts as a pause.
    pub(crate) fn sent(&mut self, now: Time, pause: Duration) {
        let before = self.rare_mut().last_sent.replace(now);
        if let Some(session) = &mut self.session
            && (session.unanswered_since.is_none() || is_due(now, before, pause))
        {
            session.unanswered_since = Some(now);
        }
    }

    /// Sets the time since which it is held as accused; `None` if it is not.
    pub(crate) fn accused(&mut self, since: Option<Time>) {
        if since.is_some() || self.rare.is_some() {
            self.rare_mut().accused_since = since;
        }
    }

    /// Returns the smoothed round-trip time; `None` if it was never measured.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.session.as_ref()?.rtt.get()
    }

    /// Returns the time that a packet takes from it to this node, as far as is known: an age that it tells of is older by that here,
    /// or the same silence would look fresher at each hop.
    pub(crate) fn travelling_time(&self) -> Duration {
        self.rtt().unwrap_or_default() / 2
    }

    /// Returns the highest sequence number received; 0 before the first packet.
    pub(crate) fn highest_sequence(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.numbers.highest())
    }

    /// Judges a packet by its sequence number.
    pub(crate) fn judge(&self, sequence: u64) -> Novelty {
        self.session.as_ref().map_or(Novelty::New, |session| session.numbers.judge(sequence))
    }

    /// Counts sequence numbers anew, from this one on.
    pub(crate) fn count_from(&mut self, sequence: u64) {
        if let Some(session) = &mut self.session {
            session.numbers = Window::around(sequence);
        }
    }

    /// Notes a packet that is new.
    pub(crate) fn receive(&mut self, now: Time, sequence: u64, fingerprint: u64) {
        let session = self.session.get_or_insert_with(|| {
            Box::new(Session {
                heard: now,
                sign: now,
                echo: None,
                unanswered_since: None,
                datagram: None,
                fingerprint,
                is_in_order: true,
                stamped_at: None,
                stamp: 0,
                rtt: Rtt::UNMEASURED,
                numbers: Window::around(0),
            })
        });
        session.numbers.accept(sequence);
        session.is_in_order = session.numbers.highest() == sequence;
        session.heard = now;
        session.fingerprint = fingerprint;
    }

    /// Notes a datagram, even if it is a later copy of a packet that came by a link.
    pub(crate) fn heard_by_datagram(&mut self, now: Time) {
        if let Some(session) = &mut self.session {
            session.datagram = Some(now);
        }
    }

    /// Learns the round-trip time from an echo, and keeps the stamp to echo it.
    ///
    /// An echo that was held for long is not measured: over seconds, two clocks disagree by more than a round trip. An
    /// echo that by the same disagreement seems to come back before it was sent counts as a round trip of zero. Nor is one
    /// measured that came by a link, where a segment that was lost is sent again, as long as datagrams come.
    pub(crate) fn heartbeat(&mut self, now: Time, heartbeat: Heartbeat, is_datagram: bool) -> Echoed {
        let Some(session) = &mut self.session else { return Echoed::default() };
        let before = session.stamped_at.replace(now).filter(|_| session.is_in_order);
        session.stamp = heartbeat.stamp;
        let Some(Echo { stamp, hold }) = heartbeat.echo else { return Echoed::default() };
        let mut round_trip = None;
        let is_measured = is_datagram || session.datagram.is_none();
        if is_measured && u128::from(hold) <= MAX_ECHO_HOLD.as_nanos() / u128::from(NANOS_PER_TICK) {
            let tenths = ticks(now).wrapping_sub(stamp).wrapping_sub(hold);
            let tenths = if tenths > MAX_TICKS { 0 } else { tenths };
            session.rtt.learn(tenths);
            round_trip = Some(Duration::from_nanos(u64::from(tenths) * NANOS_PER_TICK));
        }
        let is_new = session.echo.replace(stamp) != Some(stamp);
        if is_new {
            session.answered();
        }
        Echoed { is_new, before, round_trip }
    }

    /// Returns the heartbeat to put into a packet to this member.
    pub(crate) fn stamp(&self, now: Time) -> Heartbeat {
        let echo = self.session.as_ref().and_then(|session| {
            let held = now.as_nanos().saturating_sub(session.stamped_at?.as_nanos());
            Some(Echo { stamp: session.stamp, hold: u16::try_from(held / NANOS_PER_TICK).unwrap_or(u16::MAX) })
        });
        Heartbeat { stamp: ticks(now), echo }
    }
}

/// What an echo shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Echoed {
    /// True if the echo is a new one: the member has received a packet of ours since its last one.
    pub(crate) is_new: bool,
    /// The time at which the heartbeat before came: a new echo is of something that the member received after it sent that one.
    /// `None` if a later one has overtaken this one.
    pub(crate) before: Option<Time>,
    /// The round trip that it shows; `None` if it was held for too long.
    pub(crate) round_trip: Option<Duration>,
}

const NANOS_PER_TICK: u64 = 100_000;
/// The largest positive difference of two stamps: a larger one is negative.
const MAX_TICKS: u16 = u16::MAX / 2;

/// Returns a time in tenths of a millisecond, modulo 2^16.
fn ticks(now: Time) -> u16 {
    (now.as_nanos() / NANOS_PER_TICK) as u16
}

/// A smoothed round-trip time in nanoseconds: a quarter of the size of an optional [`Duration`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rtt(u32);

impl Rtt {
    const UNMEASURED: Rtt = Rtt(u32::MAX);

    fn get(self) -> Option<Duration> {
        (self != Self::UNMEASURED).then(|| Duration::from_nanos(self.0.into()))
    }

    /// Learns from another sample, of at most [`MAX_TICKS`].
    fn learn(&mut self, ticks: u16) {
        const { assert!(MAX_TICKS as u64 * NANOS_PER_TICK < u32::MAX as u64, "every sample has room") };
        let sample = u64::from(ticks.min(MAX_TICKS)) * NANOS_PER_TICK;
        let smoothed = if *self == Self::UNMEASURED { sample } else { (u64::from(self.0) * 7 + sample) / 8 };
        self.0 = smoothed as u32;
    }
}

/// Returns true if at least `pause` passed since `last`, or if there was no last time.
pub(crate) fn is_due(now: Time, last: Option<Time>, pause: Duration) -> bool {
    last.is_none_or(|last| now.since(last) >= pause)
}
