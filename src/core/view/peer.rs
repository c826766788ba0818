//! What this node alone knows of a member: when it was heard, how far away it is, what was sent to it.
//!
//! Nothing here is in a record, and nothing here is ever hashed.

use super::Hearing;
use super::refutations::Refutations;
use std::net::SocketAddr;
use std::time::Duration;

use crate::core::limits::{MAX_ECHO_HOLD, MAX_SEQUENCE, REPLAY_WINDOW, SEQUENCE_BURST, SEQUENCES_PER_MS};
use crate::core::member::DetectionMethod;
use crate::core::settings::Timing;
use crate::core::time::Time;
use crate::core::window::{Sight, Window};
use crate::core::wire::{Echo, Heartbeat};

/// One observer's side of the acquaintance with one run of one member. There is one for every member, so what only some
/// need is kept apart: in a large cluster most members are never heard directly.
#[derive(Debug)]
pub(in crate::core) struct Peer {
    /// The freshest evidence that the member lived: own hearing, the age in a note, a raised incarnation.
    pub(in crate::core) last_sign: Time,
    /// What its packets taught; empty until the first one.
    pub(in crate::core) session: Option<Box<Session>>,
    errands: Option<Box<Errands>>,
    /// How its silence or death was found out, as first learnt.
    pub(in crate::core) method: Option<DetectionMethod>,
    /// Its address has echoed a nonce of ours.
    pub(in crate::core) proven: bool,
    /// It has been live for long (see `settled`).
    pub(in crate::core) settled: bool,
    /// How it came to be where it is.
    pub(in crate::core) tie: Tie,
    /// When it came to live, in whole seconds, if it is not settled.
    pub(in crate::core) live_since: u32,
}

/// How a member came to be where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum Tie {
    /// It came there, or proved that it moved there.
    Plain,
    /// It has just proven that it is at another address, most often by its keepsake: what it says of its address now is believed.
    Reminded,
    /// Others were believed that it moved there.
    Told,
    /// It was gone, and came back elsewhere without a keepsake.
    Stray,
}

/// What only members that have sent us packets need.
#[derive(Debug)]
pub(in crate::core) struct Session {
    /// When the last packet came.
    pub(in crate::core) heard: Time,
    /// When the last packet came that counts as a sign of life (see `echo`).
    pub(in crate::core) sign: Time,
    /// Whether it hears this node.
    pub(in crate::core) hearing: Hearing,
    /// When the last one came as a datagram.
    pub(in crate::core) datagram: Option<Time>,
    /// The view's fingerprint in its last packet.
    pub(in crate::core) fingerprint: u64,
    /// When its last heartbeat came, if one ever did …
    stamped_at: Option<Time>,
    /// … and the stamp on it.
    stamp: u16,
    rtt: Rtt,
    replay: ReplayWindow,
}

/// Rarely needed state; mostly the last time of rate-limited actions.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::core) struct Errands {
    /// The last packet to it, if it is an observer of this node: others are owed none.
    pub(in crate::core) last_sent: Option<Time>,
    /// The last answer to its differing fingerprint.
    pub(in crate::core) last_answer: Option<Time>,
    /// The last `Told`.
    pub(in crate::core) last_told: Option<Time>,
    /// The last time a fresher note about it was passed on.
    pub(in crate::core) last_passed_on: Option<Time>,
    /// The last probe, and the last case, because others cannot reach its process.
    pub(in crate::core) last_hearsay: Option<Time>,
    /// When a case was last opened on another's word.
    pub(in crate::core) last_case: Option<Time>,
    /// Since when others accuse it of a silence that this node knows to be none.
    pub(in crate::core) contradicted_since: Option<Time>,
    /// Since when this node holds it accused, or gone, at its incarnation.
    pub(in crate::core) accused_since: Option<Time>,
    /// The last time its incarnation was believed to be far higher, on the word of others.
    pub(in crate::core) last_jump: Option<Time>,
    /// Where it said that it is by now, from where it is held, and when.
    pub(in crate::core) announced: Option<(SocketAddr, Time)>,
    /// How often it was suspected and said otherwise.
    pub(in crate::core) refutations: Refutations,
    /// Its accusation is this node's own, made while this node heard nobody (see `deaf`).
    pub(in crate::core) is_judged_unheard: bool,
}

impl Peer {
    /// A member first seen alive at `last_sign`.
    pub(in crate::core) fn new(last_sign: Time) -> Self {
        Self {
            last_sign,
            session: None,
            errands: None,
            method: None,
            proven: false,
            settled: false,
            tie: Tie::Plain,
            live_since: 0,
        }
    }

    pub(in crate::core) fn errands(&self) -> Errands {
        self.errands.as_deref().copied().unwrap_or_default()
    }

    pub(in crate::core) fn errands_mut(&mut self) -> &mut Errands {
        self.errands.get_or_insert_default()
    }

    /// Reads all that is kept apart (see `ahead`).
    pub(in crate::core) fn touch(&self) -> u64 {
        let session = self
            .session
            .as_ref()
            .map_or(0, |session| session.fingerprint ^ session.heard.as_nanos() ^ session.replay.touch());
        session ^ self.errands.as_ref().and_then(|errands| errands.last_sent).map_or(0, Time::as_nanos)
    }

    /// It was silent for long: its refutations, if there were any, stay in memory.
    pub(in crate::core) fn renew_refutations(&mut self, now: Time, timing: Timing) {
        if let Some(errands) = &mut self.errands {
            errands.refutations.renew(now, timing);
        }
    }

    /// Remembers since when others accuse it wrongly, or that nobody does.
    pub(in crate::core) fn contradicted(&mut self, since: Option<Time>) {
        if since.is_some() || self.errands.is_some() {
            self.errands_mut().contradicted_since = since;
        }
    }

    /// Remembers whether its accusation is this node's own, made while this node heard nobody.
    pub(in crate::core) fn judged_unheard(&mut self, is_unheard: bool) {
        if is_unheard || self.errands.is_some() {
            self.errands_mut().is_judged_unheard = is_unheard;
        }
    }

    /// Something is sent to it; `after_pause` if nothing was for a while.
    pub(in crate::core) fn sent(&mut self, now: Time, pause: Duration) {
        let before = self.errands_mut().last_sent.replace(now);
        if let Some(session) = &mut self.session {
            session.hearing.sent(now, is_due(now, before, pause));
        }
    }

    /// Remembers since when it is held accused, or that it is not.
    pub(in crate::core) fn accused(&mut self, since: Option<Time>) {
        if since.is_some() || self.errands.is_some() {
            self.errands_mut().accused_since = since;
        }
    }

    /// Smoothed round trip time, if it was ever measured.
    pub(in crate::core) fn rtt(&self) -> Option<Duration> {
        self.session.as_ref()?.rtt.get()
    }

    /// The highest sequence number received; 0 before the first packet.
    pub(in crate::core) fn highest_sequence(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.replay.highest())
    }

    /// What a packet's sequence number says of it, before anything else of it is looked at.
    ///
    /// All packets of a process are numbered in one row, so this node sees gaps: as large as what was sent to others
    /// since the last packet that came here. That is [`SEQUENCES_PER_MS`] at the very most; and packets that waited
    /// together (in a kernel, while this process stood still) are read at one moment, which the burst allows for.
    pub(in crate::core) fn freshness(&self, now: Time, sequence: u64) -> Freshness {
        let Some(session) = &self.session else {
            return if sequence <= MAX_SEQUENCE { Freshness::Fresh } else { Freshness::Jumped };
        };
        let highest = session.replay.highest();
        let farthest = || {
            let elapsed = now.since(session.heard).as_millis() as u64;
            highest + SEQUENCE_BURST + elapsed.saturating_mul(SEQUENCES_PER_MS)
        };
        let is_near = sequence <= highest + SEQUENCE_BURST || sequence <= farthest();
        if !is_near || sequence > MAX_SEQUENCE {
            return Freshness::Jumped;
        }
        match session.replay.judge(sequence) {
            Sight::New | Sight::Far => Freshness::Fresh,
            Sight::Seen => Freshness::Seen,
            Sight::Behind => Freshness::Old,
        }
    }

    /// Takes note of a packet that is fresh.
    pub(in crate::core) fn receive(&mut self, now: Time, sequence: u64, fingerprint: u64) {
        let session = self.session.get_or_insert_with(|| {
            Box::new(Session {
                heard: now,
                sign: now,
                hearing: Hearing::default(),
                datagram: None,
                fingerprint,
                stamped_at: None,
                stamp: 0,
                rtt: Rtt::UNMEASURED,
                replay: ReplayWindow::around(0),
            })
        });
        session.replay.accept(sequence);
        session.heard = now;
        session.fingerprint = fingerprint;
    }

    /// The member proved that this is the number it is at: what came before counts as seen.
    pub(in crate::core) fn restart_window(&mut self, sequence: u64) {
        if let Some(session) = &mut self.session {
            session.replay = ReplayWindow::seen_up_to(sequence - 1);
        }
    }

    /// A datagram came, be it the later copy of what came by a link.
    pub(in crate::core) fn heard_by_datagram(&mut self, now: Time) {
        if let Some(session) = &mut self.session {
            session.datagram = Some(now);
        }
    }

    /// Learns the round trip time from an echo, and keeps the stamp to echo it. Says whether the echo is news: the member
    /// has received something of ours since its last one.
    ///
    /// An echo that was held for long teaches nothing: over seconds, two clocks disagree by more than a round trip. One
    /// that comes back before it was sent, by the same disagreement, took no time.
    pub(in crate::core) fn heartbeat(&mut self, now: Time, heartbeat: Heartbeat) -> bool {
        let Some(session) = &mut self.session else { return false };
        (session.stamp, session.stamped_at) = (heartbeat.stamp, Some(now));
        let Some(Echo { stamp, hold }) = heartbeat.echo else { return false };
        if u128::from(hold) <= MAX_ECHO_HOLD.as_nanos() / u128::from(NANOS_PER_TICK) {
            let tenths = ticks(now).wrapping_sub(stamp).wrapping_sub(hold);
            session.rtt.learn(if tenths > MAX_TICKS { 0 } else { tenths });
        }
        session.hearing.echoed(stamp)
    }

    /// The heartbeat to put into a packet to this member.
    pub(in crate::core) fn stamp(&self, now: Time) -> Heartbeat {
        let echo = self.session.as_ref().and_then(|session| {
            let held = now.as_nanos().saturating_sub(session.stamped_at?.as_nanos());
            Some(Echo { stamp: session.stamp, hold: u16::try_from(held / NANOS_PER_TICK).unwrap_or(u16::MAX) })
        });
        Heartbeat { stamp: ticks(now), echo }
    }
}

/// What a sequence number says of its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum Freshness {
    /// Not seen before.
    Fresh,
    /// Seen before.
    Seen,
    /// Behind the window: perhaps seen before.
    Old,
    /// Further ahead than the member can be.
    Jumped,
}

const NANOS_PER_TICK: u64 = 100_000;
/// A difference of two stamps that is larger is a negative one.
const MAX_TICKS: u16 = u16::MAX / 2;

/// Tenths of a millisecond, modulo 2^16.
fn ticks(now: Time) -> u16 {
    (now.as_nanos() / NANOS_PER_TICK) as u16
}

/// A smoothed round trip time in nanoseconds: a quarter of the room of an optional [`Duration`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rtt(u32);

impl Rtt {
    const UNMEASURED: Rtt = Rtt(u32::MAX);

    fn get(self) -> Option<Duration> {
        (self != Self::UNMEASURED).then(|| Duration::from_nanos(self.0.into()))
    }

    /// Another sample, of at most [`MAX_TICKS`].
    fn learn(&mut self, ticks: u16) {
        const { assert!(MAX_TICKS as u64 * NANOS_PER_TICK < u32::MAX as u64, "every sample has room") };
        let sample = u64::from(ticks.min(MAX_TICKS)) * NANOS_PER_TICK;
        let smoothed = if *self == Self::UNMEASURED { sample } else { (u64::from(self.0) * 7 + sample) / 8 };
        self.0 = smoothed as u32;
    }
}

/// Whether at least `pause` passed since `last`, or there was no last time.
pub(in crate::core) fn is_due(now: Time, last: Option<Time>, pause: Duration) -> bool {
    last.is_none_or(|last| now.since(last) >= pause)
}

/// The sequence numbers of a run, by which replays are recognised.
type ReplayWindow = Window<{ (REPLAY_WINDOW / 64) as usize }>;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_go_no_further_than_time_allows() {
        let mut peer = Peer::new(Time::ORIGIN);
        assert_eq!(peer.freshness(Time::ORIGIN, MAX_SEQUENCE + 1), Freshness::Jumped, "the first one, too");
        assert_eq!(peer.freshness(Time::ORIGIN, MAX_SEQUENCE), Freshness::Fresh);
        peer.receive(Time::ORIGIN, 10, 0);
        assert_eq!(peer.freshness(Time::ORIGIN, 10 + SEQUENCE_BURST), Freshness::Fresh, "at the same moment");
        assert_eq!(peer.freshness(Time::ORIGIN, 11 + SEQUENCE_BURST), Freshness::Jumped);
        let later = Time::ORIGIN + Duration::from_secs(1);
        let farthest = 10 + SEQUENCE_BURST + 1_000 * SEQUENCES_PER_MS;
        assert_eq!(peer.freshness(later, farthest), Freshness::Fresh);
        assert_eq!(peer.freshness(later, farthest + 1), Freshness::Jumped);
        let much_later = Time::ORIGIN + Duration::from_secs(u64::from(u32::MAX));
        assert_eq!(peer.freshness(much_later, MAX_SEQUENCE + 1), Freshness::Jumped);
    }

    #[test]
    fn a_restarted_window_takes_what_follows_and_nothing_before() {
        let mut peer = Peer::new(Time::ORIGIN);
        peer.receive(Time::ORIGIN, 50_000, 0);
        peer.restart_window(2_000);
        for (sequence, expected) in [
            (2_000, Freshness::Fresh),
            (1_999, Freshness::Seen),
            (1_999 - REPLAY_WINDOW, Freshness::Old),
            (2_001, Freshness::Fresh),
        ] {
            assert_eq!(peer.freshness(Time::ORIGIN, sequence), expected, "{sequence}");
        }
    }

    #[test]
    fn a_member_that_is_heard_costs_two_hundred_bytes() {
        assert!(size_of::<Session>() <= 200, "{} bytes", size_of::<Session>());
    }

    #[test]
    fn the_longest_round_trip_that_a_stamp_can_tell_is_learnt() {
        let mut rtt = Rtt::UNMEASURED;
        for _ in 0..3 {
            rtt.learn(MAX_TICKS);
            assert_eq!(rtt.get(), Some(Duration::from_micros(u64::from(MAX_TICKS) * 100)));
        }
        rtt.learn(0);
        assert_eq!(rtt.get(), Some(Duration::from_micros(u64::from(MAX_TICKS) * 100) * 7 / 8));
    }

    #[test]
    fn both_ends_learn_the_round_trip_unless_a_stamp_is_held_for_long() {
        let one_way = Duration::from_millis(20);
        let most = MAX_ECHO_HOLD.as_millis() as u64;
        for (hold, is_learnt) in
            [(0, true), (3, true), (most, true), (most + 1, false), (6_600, false), (70_000, false)]
        {
            let (mut a, mut b) = (Peer::new(Time::ORIGIN), Peer::new(Time::ORIGIN));
            let sent = Time::ORIGIN + Duration::from_secs(1);
            b.receive(sent + one_way, 1, 0);
            a.receive(sent, 1, 0);
            b.heartbeat(sent + one_way, a.stamp(sent));
            let answered = sent + one_way + Duration::from_millis(hold);
            a.heartbeat(answered + one_way, b.stamp(answered));
            assert_eq!(a.rtt(), is_learnt.then_some(one_way * 2), "held for {hold} ms");
        }
    }

    proptest! {
        /// Clocks that run one in a hundred too fast or too slow, for hours, whatever the stamps are held.
        #[test]
        fn clocks_that_drift_invent_no_round_trip(
            fast in 0.99..1.01_f64,
            began in 0..100_000_u64,
            trip in 0..100_u64,
            holds in prop::collection::vec(0..30_000_u64, 1..50),
        ) {
            let one_way = Duration::from_micros(trip * 500);
            let (mut a, mut b) = (Peer::new(Time::ORIGIN), Peer::new(Time::ORIGIN));
            let mut now = Duration::from_secs(began);
            let local = |now: Duration, rate: f64| Time::ORIGIN + now.mul_f64(rate);
            for (nth, hold) in (1..).zip(holds) {
                let stamp = a.stamp(local(now, 1.0));
                now += one_way;
                b.receive(local(now, fast), nth, 0);
                b.heartbeat(local(now, fast), stamp);
                now += Duration::from_millis(hold);
                let answer = b.stamp(local(now, fast));
                now += one_way;
                a.receive(local(now, 1.0), nth, 0);
                a.heartbeat(local(now, 1.0), answer);
            }
            let error = MAX_ECHO_HOLD / 100 + Duration::from_micros(200);
            if let Some(rtt) = a.rtt() {
                prop_assert!(rtt <= one_way * 2 + error && rtt + error >= one_way * 2, "{rtt:?} for {:?}", one_way * 2);
            }
        }
    }
}
