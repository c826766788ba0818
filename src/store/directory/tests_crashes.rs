//! Writes that end between two steps, and the state at the next start.

use std::fs;
use std::path::Path;

use super::replace::{Replacement, Step};
use super::tests_copies::{Place, open, starts, voted};
use super::{LOCK_FILE, NEXT_FILE, STATE_FILE};

/// Starts the agent, writes the state that a voter stores in this term, and kills the agent after this many steps.
fn killed_after(steps: usize, directory: &Path, term: u64) {
    let (store, durable) = (open(directory).expect("opens").store, voted(term));
    let mut replacement = Replacement::new(&store.directory, |origin| store.encode(&durable, origin));
    for step in &Step::ALL[..steps] {
        replacement.take(*step).expect("taken");
    }
}

/// Returns the number of steps up to and including this one.
fn until(step: Step) -> usize {
    1 + Step::ALL.iter().position(|other| *other == step).expect("a step")
}

#[track_caller]
fn assert_starts_with(directory: &Path, term: u64, steps: usize) {
    let ballot = open(directory).expect("opens").remembered.ballot.expect("a ballot");
    assert_eq!(ballot.term.0, term, "after {steps} steps");
}

#[test]
fn a_crash_between_any_two_steps_leaves_the_old_state_or_the_new_one_and_none_that_is_refused() {
    for steps in 0..=Step::ALL.len() {
        let place = Place::with_a_state();
        let is_new = steps >= until(Step::Rename);
        for term in [2, 3] {
            killed_after(steps, &place.data, term);
            assert_starts_with(&place.data, if is_new { term } else { 1 }, steps);
        }
        starts(&place.data);
        assert_starts_with(&place.data, if is_new { 3 } else { 1 }, steps);
        assert!(!place.data.join(NEXT_FILE).exists());
    }
}

#[test]
fn a_power_loss_that_takes_what_was_not_synced_leaves_a_state_that_is_taken() {
    for steps in 0..=Step::ALL.len() {
        let place = Place::with_a_state();
        let (lock, next) = (place.data.join(LOCK_FILE), place.data.join(NEXT_FILE));
        let note = fs::read(&lock).expect("is there");
        let old = place.linked(&[STATE_FILE]).join(STATE_FILE);
        killed_after(steps, &place.data, 2);
        // The lock file's note is never synced; the new file's contents and its name are, each at a step of its own.
        fs::write(&lock, &note).expect("lost");
        if steps < until(Step::Sync) && next.exists() {
            let length = fs::metadata(&next).expect("is there").len();
            fs::File::options().write(true).open(&next).and_then(|file| file.set_len(length / 2)).expect("lost");
        }
        let is_named = steps >= until(Step::SyncName);
        if steps >= until(Step::Rename) && !is_named {
            fs::rename(&old, place.state()).expect("the old name is back");
        }
        assert_starts_with(&place.data, if is_named { 2 } else { 1 }, steps);
        starts(&place.data);
        starts(&place.data);
    }
}
