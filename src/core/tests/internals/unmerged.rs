//! Words that are not merged, and what is done about them instead; and what is counted of those that are.

use super::alone::{Alone, TELLER, member};
use super::net::{address, ms};
use crate::counters::DropReason;
use crate::limits::MAX_DAMPING;
use crate::member::{DetectionMethod, LeaveReason, Record, Run, Status};
use crate::wire::{Message, Note};

fn held(alone: &Alone, host: usize) -> Option<Record> {
    alone.core.record(&member(host, Status::Up).id).map(|record| Record::clone(record))
}

fn silence(age_ms: u64) -> Note {
    Note { age_ms, method: DetectionMethod::HeartbeatTimeout }
}

/// Has a member tell of a silence of this age; returns true if anything is sent to the one that it is about.
fn asks_about(alone: &mut Alone, record: &Record, age_ms: u64) -> bool {
    let sent =
        alone.hand_in(address(19_999), TELLER, |packet| assert!(packet.push_update(Some(silence(age_ms)), record)));
    sent.iter().any(|(to, _)| *to == record.address)
}

#[test]
fn an_old_word_is_dropped_and_who_is_said_to_live_although_it_was_reaped_is_asked() {
    let mut alone = Alone::with_teller();
    let suspect = member(0, Status::Suspect);
    let too_old = alone.core.cx.settings.reap_after.as_millis() as u64;
    assert!(!asks_about(&mut alone, &suspect, too_old));
    alone.core.view.tombstones.insert(alone.now, &member(0, Status::Down));
    assert!(!asks_about(&mut alone, &suspect, too_old));
    assert!(asks_about(&mut alone, &suspect, 1_000));
    assert_eq!(alone.core.counters().dropped(DropReason::Outdated), 3);
    assert_eq!(alone.core.counters().updates_received, 1 + 3);
    assert_eq!(alone.core.record(&suspect.id), None);
}

#[test]
fn one_process_has_one_name() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..2, Status::Up);
    let merged = alone.core.counters().updates_merged;
    for (host, other) in [(0, 1), (1, 0), (2, 0)] {
        for run in [member(other, Status::Up).run, alone.core.me().run] {
            let before = held(&alone, host);
            alone.told_by(TELLER, &[(None, Record { run, incarnation: 9, ..member(host, Status::Up) })]);
            assert_eq!(held(&alone, host), before, "{run:?}");
        }
    }
    assert_eq!(alone.core.counters().dropped(DropReason::Malformed), 6);
    assert_eq!(alone.core.counters().updates_merged, merged);
    for host in [1, 2] {
        let own = Record { run: Run(90 + host as u64), incarnation: 9, ..member(host, Status::Up) };
        alone.told_by(TELLER, &[(None, own.clone())]);
        assert_eq!(held(&alone, host), Some(own));
    }
    assert_eq!(alone.core.counters().updates_merged, merged + 2);
}

#[test]
fn what_becomes_of_suspicions_is_counted() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..7, Status::Up);
    let suspect = |host| (Some(silence(1)), member(host, Status::Suspect));
    alone.told_by(TELLER, &[suspect(0), suspect(1), suspect(2), suspect(3), suspect(5)]);
    let crash = Some(Note { age_ms: 1, method: DetectionMethod::ConnectionLost });
    let up_again = |host| (None, Record { incarnation: 6, ..member(host, Status::Up) });
    let another = Record { run: Run(3), incarnation: 6, ..member(3, Status::Up) };
    alone.told_by(TELLER, &[(crash, member(0, Status::Down)), (None, member(1, Status::Leaving)), (None, another)]);
    alone.told_by(TELLER, &[up_again(2), up_again(5)]);
    alone.told_by(TELLER, &[(crash, member(4, Status::Down)), (crash, member(6, Status::Down))]);
    let counters = alone.core.counters();
    assert_eq!((counters.suspicions_confirmed, counters.suspicions_refuted), (1, 2));
}

#[test]
fn the_age_of_a_silence_counts_for_the_record_that_it_is_told_with() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    alone.pass(ms(3_000));
    let suspect = member(0, Status::Suspect);
    let slot = alone.core.view.slot_of_run(suspect.run).expect("a member");
    // When the packet is opened, neither is held.
    alone.told_by(TELLER, &[(Some(silence(2_500)), suspect.clone()), (Some(silence(1_000)), suspect.clone())]);
    let sign = alone.now - ms(1_000);
    assert_eq!(alone.core.view.entry(slot).peer.last_sign(), sign);
    alone.told_by(TELLER, &[(Some(silence(0)), Record { incarnation: suspect.incarnation - 1, ..suspect })]);
    assert_eq!(alone.core.view.entry(slot).peer.last_sign(), sign);
}

#[test]
fn a_live_process_is_told_of_one_elsewhere_that_has_its_name_and_no_other_is() {
    for (status, is_elsewhere) in [(Status::Up, true), (Status::Up, false), (Status::Down, true)] {
        let mut alone = Alone::with_teller();
        alone.told_of(0..1, status);
        let mut another = Record { run: Run(9), incarnation: 9, ..member(0, Status::Up) };
        let home = another.address;
        if is_elsewhere {
            another.address = address(7);
        }
        let sent = alone.hand_in(address(19_999), TELLER, |packet| assert!(packet.push_update(None, &another)));
        let is_told = |(to, message): &(_, Message)| {
            *to == home && matches!(message, Message::Update(update) if update.record == another)
        };
        assert_eq!(sent.iter().any(is_told), status == Status::Up && is_elsewhere, "{status:?}: {sent:?}");
    }
}

#[test]
fn whoever_is_said_to_be_dead_of_silence_is_suspected_first() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let merged = alone.core.counters().updates_merged;
    let mut tells_of_death = |incarnation| {
        alone.told_by(TELLER, &[(Some(silence(20_000)), Record { incarnation, ..member(0, Status::Down) })]);
        let held = held(&alone, 0).expect("a member");
        (held.status, held.incarnation, alone.core.counters().updates_merged - merged)
    };
    assert_eq!(tells_of_death(5), (Status::Suspect, 5, 1));
    assert_eq!(tells_of_death(5), (Status::Suspect, 5, 1));
    assert_eq!(tells_of_death(6), (Status::Suspect, 6, 2));
}

#[test]
fn who_returns_again_and_again_from_reports_of_its_end_is_believed_dead_no_more_at_once() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..3, Status::Up);
    let crash = Some(Note { age_ms: 1, method: DetectionMethod::ConnectionLost });
    for incarnation in (5..).step_by(3).take(2 * usize::from(MAX_DAMPING)) {
        let record = |host, status, later| Record { incarnation: incarnation + later, ..member(host, status) };
        let accused = [
            (crash, record(0, Status::Down, 0)),
            (crash, record(1, Status::Suspect, 0)),
            (crash, record(2, Status::Down, 0)),
        ];
        alone.told_by(TELLER, &accused);
        alone.told_by(TELLER, &[(Some(silence(1)), record(2, Status::Suspect, 1))]);
        let back = [0, 1, 2].map(|host| (None, record(host, Status::Up, 1 + u64::from(host == 2))));
        alone.told_by(TELLER, &back);
    }
    // What was only suspected, or first suspected again, was no end.
    let is_at_the_bound = |host| {
        let slot = alone.core.view.slot_of_run(member(host, Status::Up).run).expect("a member");
        let entry = alone.core.view.entry(slot);
        entry.peer.rare().false_death_reports.are_at_the_bound(alone.now, entry.record.timing)
    };
    assert_eq!([0, 1, 2].map(is_at_the_bound), [true, false, false]);
}

#[test]
fn a_death_is_dated_by_the_silence_that_was_told_before() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..3, Status::Up);
    alone.pass(ms(3_000));
    let suspect = |host| (Some(silence(1_500)), member(host, Status::Suspect));
    alone.told_by(TELLER, &[suspect(0), suspect(1)]);
    let crash = Some(Note { age_ms: 1, method: DetectionMethod::ConnectionLost });
    let down = |host, incarnation| (crash, Record { incarnation, ..member(host, Status::Down) });
    alone.told_by(TELLER, &[down(0, 5), down(1, 6), down(2, 5)]);
    let silent_for = |host| {
        let slot = alone.core.view.slot_of_run(member(host, Status::Up).run).expect("a member");
        alone.now.since(alone.core.view.entry(slot).peer.last_sign())
    };
    assert_eq!([0, 1, 2].map(silent_for), [ms(1_500), ms(1), ms(1)]);
}

#[test]
fn a_departure_that_is_told_late_is_dated_by_what_was_told() {
    let mut alone = Alone::with_teller();
    alone.pass(ms(3_000));
    alone.told_of(0..1, Status::Up);
    let record = member(0, Status::Left(LeaveReason::Graceful));
    let slot = alone.core.view.slot_of_run(record.run).expect("a member");
    let told = (alone.core.view.entry(slot).peer.last_sign(), alone.now - ms(2_000));
    assert!(told.1 < told.0, "a sign of life came after it");
    alone.told_by(TELLER, &[(Some(silence(2_000)), record)]);
    assert_eq!(alone.core.view.entry(slot).peer.last_sign(), told.1);
}
