//! The bound up to which the word of others raises incarnations: exactly so far, and not by one more.

use super::limits::{Alone, TELLER, member};
use super::net::ms;
use crate::core::limits::{
    HEARSAY_JUMP_INTERVAL, MAX_FIRST_INCARNATION, MAX_HEARSAY_JUMP, MAX_RUN_JUMP, RUN_JUMP_INTERVAL,
    UNLIMITED_INCARNATION_JUMP,
};
use crate::core::member::{Record, Run, Status};

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
