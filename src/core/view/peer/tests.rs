//! The bounds of what is remembered of one peer.

use proptest::prelude::*;

use super::*;

#[test]
fn a_packet_counts_once_and_not_when_it_is_so_late_that_nobody_knows() {
    let mut peer = Peer::new(Time::ORIGIN);
    assert!(peer.judge(50_000).is_new());
    for sequence in [50_000, 50_002] {
        peer.receive(Time::ORIGIN, sequence, 0);
    }
    for (sequence, expected) in
        [(50_000, false), (50_001, true), (50_003, true), (50_002 - DUPLICATE_WINDOW, false), (u64::MAX, true)]
    {
        assert_eq!(peer.judge(sequence).is_new(), expected, "{sequence}");
    }
    peer.count_from(7);
    assert!(peer.judge(7).is_new() && peer.judge(8).is_new());
}

#[test]
fn a_member_that_is_heard_costs_two_hundred_bytes() {
    assert!(size_of::<Session>() <= 200, "{} bytes", size_of::<Session>());
}

#[test]
fn a_new_echo_is_no_older_than_the_heartbeat_before_unless_that_has_overtaken_it() {
    let at = |ms| Time::ORIGIN + Duration::from_millis(ms);
    let echo = |stamp| Heartbeat { stamp: 0, echo: Some(Echo { stamp, hold: u16::MAX }) };
    let mut peer = Peer::new(Time::ORIGIN);
    let mut take = |now, sequence, stamp| {
        peer.receive(at(now), sequence, 0);
        peer.heartbeat(at(now), echo(stamp), true).before
    };
    assert_eq!(take(1_000, 5, 1), None, "nothing tells how old the first one is");
    assert_eq!(take(9_000, 7, 2), Some(at(1_000)));
    assert_eq!(take(9_001, 6, 3), None, "it was sent before the last one");
    assert_eq!(take(9_500, 8, 4), Some(at(9_001)));
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
    for (hold, is_learnt) in [(0, true), (3, true), (most, true), (most + 1, false), (6_600, false), (70_000, false)] {
        let (mut a, mut b) = (Peer::new(Time::ORIGIN), Peer::new(Time::ORIGIN));
        let sent = Time::ORIGIN + Duration::from_secs(1);
        b.receive(sent + one_way, 1, 0);
        a.receive(sent, 1, 0);
        b.heartbeat(sent + one_way, a.stamp(sent), true);
        let answered = sent + one_way + Duration::from_millis(hold);
        a.heartbeat(answered + one_way, b.stamp(answered), true);
        assert_eq!(a.rtt(), is_learnt.then_some(one_way * 2), "held for {hold} ms");
    }
}

#[test]
fn a_round_trip_over_a_link_is_learnt_only_where_no_datagrams_come() {
    for is_datagram_heard in [false, true] {
        let mut peer = Peer::new(Time::ORIGIN);
        peer.receive(Time::ORIGIN, 1, 0);
        if is_datagram_heard {
            peer.heard_by_datagram(Time::ORIGIN);
        }
        let stamp = peer.stamp(Time::ORIGIN).stamp;
        let slow = Duration::from_millis(600);
        peer.heartbeat(Time::ORIGIN + slow, Heartbeat { stamp: 0, echo: Some(Echo { stamp, hold: 0 }) }, false);
        assert_eq!(peer.rtt(), (!is_datagram_heard).then_some(slow));
    }
}

proptest! {
    /// Tests with clocks that run one in a hundred too fast or too slow, for hours, whatever the stamps are held.
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
            b.heartbeat(local(now, fast), stamp, true);
            now += Duration::from_millis(hold);
            let answer = b.stamp(local(now, fast));
            now += one_way;
            a.receive(local(now, 1.0), nth, 0);
            a.heartbeat(local(now, 1.0), answer, true);
        }
        let error = MAX_ECHO_HOLD / 100 + Duration::from_micros(200);
        if let Some(rtt) = a.rtt() {
            prop_assert!(rtt <= one_way * 2 + error && rtt + error >= one_way * 2, "{rtt:?} for {:?}", one_way * 2);
        }
    }
}
