//! The bound up to which the word of others raises incarnations, those of others and this node's own: exactly so far, and
//! not by one more.

use std::time::Duration;

use super::limits::{Alone, TELLER, member};
use super::net::{address, ms};
use crate::core::doors::Input;
use crate::core::limits::{
    HEARSAY_JUMP_INTERVAL, LARGE_JUMP_INTERVAL, MAX_FIRST_INCARNATION, MAX_HEARSAY_JUMP, MAX_INCARNATION_JUMP,
    MAX_RUN_JUMP, MAX_TOLD_JUMP, RUN_JUMP_INTERVAL, UNLIMITED_INCARNATION_JUMP,
};
use crate::core::member::{DetectionMethod, Record, Run, Status};
use crate::core::wire::{Message, Note};

fn held(alone: &Alone, host: usize) -> Option<u64> {
    alone.core.record(&member(host, Status::Up).id).map(|record| record.incarnation)
}

/// Has the teller say that a member is Up at an incarnation; returns the one that is held then.
fn told(alone: &mut Alone, host: usize, incarnation: u64) -> Option<u64> {
    alone.told_by(TELLER, &[(None, Record { incarnation, ..member(host, Status::Up) })]);
    held(alone, host)
}

#[test]
fn a_small_step_is_believed_at_any_time_and_a_larger_one_once_in_a_while() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let mut at = 5;
    for _ in 0..3 {
        at += UNLIMITED_INCARNATION_JUMP;
        assert_eq!(told(&mut alone, 0, at), Some(at), "so far at any time");
    }
    let farther = at + UNLIMITED_INCARNATION_JUMP + 1;
    assert_eq!(told(&mut alone, 0, farther), Some(farther), "one more once");
    assert_eq!(told(&mut alone, 0, farther + UNLIMITED_INCARNATION_JUMP + 1), Some(farther), "and not again at once");
    alone.now = alone.now + HEARSAY_JUMP_INTERVAL;
    assert_eq!(
        told(&mut alone, 0, farther + UNLIMITED_INCARNATION_JUMP + 1),
        Some(farther + UNLIMITED_INCARNATION_JUMP + 1)
    );
}

#[test]
fn the_widest_step_of_a_known_run_is_believed_and_not_one_more() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..2, Status::Up);
    assert_eq!(told(&mut alone, 0, 5 + MAX_HEARSAY_JUMP), Some(5 + MAX_HEARSAY_JUMP));
    assert_eq!(told(&mut alone, 1, 5 + MAX_HEARSAY_JUMP + 1), Some(5));
}

#[test]
fn a_name_that_nobody_knew_is_believed_up_to_the_last_clock() {
    let mut alone = Alone::with_teller();
    assert_eq!(told(&mut alone, 0, MAX_FIRST_INCARNATION), Some(MAX_FIRST_INCARNATION));
    assert_eq!(told(&mut alone, 1, MAX_FIRST_INCARNATION + 1), None);
}

#[test]
fn another_run_of_a_name_is_believed_so_far_ahead_once_in_a_while() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..2, Status::Up);
    // They should have been heard by now.
    alone.pass(alone.core.settings.heartbeat_interval + alone.core.settings.probe_timeout + ms(1));
    let restarted = |alone: &mut Alone, host: usize, run: u64, incarnation: u64| {
        // On its own port, as a restart is.
        alone.told_by(TELLER, &[(None, Record { run: Run(run), incarnation, ..member(host, Status::Up) })]);
        held(alone, host)
    };
    assert_eq!(restarted(&mut alone, 0, 0x71, 5 + MAX_RUN_JUMP + 1), Some(5), "too far");
    assert_eq!(restarted(&mut alone, 0, 0x71, 5 + MAX_RUN_JUMP), Some(5 + MAX_RUN_JUMP));
    let next = 5 + MAX_RUN_JUMP + MAX_HEARSAY_JUMP + 1;
    assert_eq!(restarted(&mut alone, 0, 0x72, next), Some(5 + MAX_RUN_JUMP), "not again at once");
    alone.now = alone.now + RUN_JUMP_INTERVAL;
    assert_eq!(restarted(&mut alone, 0, 0x72, next), Some(next));
}

/// Has the disk take what it is given; returns by how much this node's own incarnation has risen since it was so much.
fn risen(alone: &mut Alone, since: u64) -> u64 {
    alone.core.handle(alone.now, Input::Persisted { incarnation_bound: Record::INCARNATION_LIMIT, ballot_version: 0 });
    alone.core.me().incarnation - since
}

/// Has the teller accuse this node's own run so far ahead of its incarnation; returns by how much it raises that.
fn accused(alone: &mut Alone, ahead: u64) -> u64 {
    let Record { run, incarnation, .. } = **alone.core.me();
    alone.hand_in(address(19_999), TELLER, |packet| {
        let word = Message::HeldStatus { run, incarnation: incarnation + ahead, status: Status::Suspect, age_ms: 0 };
        assert!(packet.push(&word));
    });
    risen(alone, incarnation)
}

/// Has the teller say so far ahead that an earlier run of this name is dead; returns by how much this node raises its
/// incarnation.
fn succeeds(alone: &mut Alone, ahead: u64) -> u64 {
    let mine = Record::clone(alone.core.me());
    let earlier =
        Record { run: Run(0x71), incarnation: mine.incarnation + ahead, status: Status::Down, ..mine.clone() };
    let note = Note { age_ms: 0, method: DetectionMethod::ConnectionLost };
    alone.told_by(TELLER, &[(Some(note), earlier)]);
    risen(alone, mine.incarnation)
}

#[test]
fn an_accusation_raises_this_run_so_far_and_as_far_again_for_each_quiet_second() {
    let mut alone = Alone::with_teller();
    assert_eq!(accused(&mut alone, MAX_TOLD_JUMP + 1), 0, "too far");
    assert_eq!(accused(&mut alone, MAX_TOLD_JUMP), MAX_TOLD_JUMP + 1, "above what was said");
    assert_eq!(accused(&mut alone, MAX_TOLD_JUMP + 1), 0, "too far again");
    alone.now = alone.now + Duration::from_secs(3);
    assert_eq!(accused(&mut alone, 4 * MAX_TOLD_JUMP + 1), 0, "too far after three seconds");
    assert_eq!(accused(&mut alone, 4 * MAX_TOLD_JUMP), 4 * MAX_TOLD_JUMP + 1);
    // Long after the time that would allow more than the most.
    alone.now = alone.now + Duration::from_secs(4 * MAX_INCARNATION_JUMP / MAX_TOLD_JUMP);
    assert_eq!(accused(&mut alone, MAX_INCARNATION_JUMP + 1), 0, "never farther than that");
    assert_eq!(accused(&mut alone, MAX_INCARNATION_JUMP), MAX_INCARNATION_JUMP + 1);
}

#[test]
fn an_earlier_run_of_this_name_raises_this_one_far_once_in_a_while() {
    let mut alone = Alone::with_teller();
    assert_eq!(succeeds(&mut alone, MAX_INCARNATION_JUMP + 1), 0, "too far");
    assert_eq!(succeeds(&mut alone, MAX_INCARNATION_JUMP), MAX_INCARNATION_JUMP + 1);
    // So far that the quiet time alone does not allow it.
    let far = MAX_INCARNATION_JUMP / 2;
    assert_eq!(succeeds(&mut alone, far), 0, "not again at once");
    assert_eq!(succeeds(&mut alone, MAX_TOLD_JUMP), MAX_TOLD_JUMP + 1, "a step as for this run at any time");
    alone.now = alone.now + (LARGE_JUMP_INTERVAL - ms(1));
    assert_eq!(succeeds(&mut alone, far), 0, "nor a moment too soon");
    alone.now = alone.now + ms(1);
    assert_eq!(succeeds(&mut alone, far), far + 1);
    assert_eq!(succeeds(&mut alone, far), 0, "and from then on as before");
}
