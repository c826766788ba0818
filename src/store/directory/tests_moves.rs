//! Copies that were moved, by an operator's word.

use std::fs;

use super::tests_copies::{Place, assert_refused, copy_later, open, say_that_it_was_moved, starts, voted};
use super::{MOVED_FILE, STATE_FILE};

#[test]
fn a_copy_is_refused_with_any_times_and_taken_for_one_start_once_it_is_said_to_be_moved() {
    for keeps_times in [false, true] {
        let place = Place::with_a_state();
        let moved = place.fresh("moved");
        copy_later(&place.state(), &moved.join(STATE_FILE), keeps_times);
        let text = assert_refused(&moved).to_string();
        assert!(text.contains(&moved.join(MOVED_FILE).display().to_string()), "{text}");
        fs::write(moved.join(MOVED_FILE), "").expect("written");
        assert_refused(&moved);
        say_that_it_was_moved(&moved);
        assert_eq!(open(&moved).expect("opens").remembered.ballot, voted(1).ballot);
        assert_eq!(starts(&moved), 1, "until the state is written anew");
        assert!(!moved.join(MOVED_FILE).exists());
        assert_eq!(starts(&moved), 1, "its own file");
        copy_later(&place.state(), &moved.join(STATE_FILE), keeps_times);
        assert_refused(&moved);
    }
}

#[test]
fn of_what_was_said_no_more_is_read_than_a_word_may_have() {
    let place = Place::with_a_state();
    let said = |said: &str| {
        fs::write(place.data.join(MOVED_FILE), said).expect("written");
        super::Directory::open(&place.data).expect("opens").0.word_of_operator()
    };
    let most = super::MAX_WORD_BYTES as usize;
    assert_eq!(said(&"x".repeat(most)), Some("x".repeat(most)));
    assert_eq!(said(&"x".repeat(most + 1)), Some("x".repeat(most)));
}

#[test]
fn what_was_said_while_the_agent_ran_admits_no_copy_later() {
    let place = Place::with_a_state();
    let backup = place.fresh("backup").join(STATE_FILE);
    fs::write(&backup, fs::read(place.state()).expect("is there")).expect("copied");
    let running = open(&place.data).expect("opens").store;
    say_that_it_was_moved(&place.data);
    drop(running);
    copy_later(&backup, &place.state(), true);
    assert_refused(&place.data);
}

#[test]
fn what_was_said_of_one_copy_admits_no_other_one_and_no_link() {
    let place = Place::with_a_state();
    let moved = place.fresh("moved");
    copy_later(&place.state(), &moved.join(STATE_FILE), true);
    say_that_it_was_moved(&moved);
    copy_later(&place.state(), &moved.join(STATE_FILE), true);
    assert_refused(&moved);
    say_that_it_was_moved(&moved);
    fs::hard_link(moved.join(STATE_FILE), place.fresh("backup").join(STATE_FILE)).expect("linked");
    let word = fs::read(moved.join(MOVED_FILE)).expect("is there");
    assert_eq!(starts(&moved), 1);
    fs::rename(place.parent.path().join("backup").join(STATE_FILE), moved.join(STATE_FILE)).expect("put back");
    fs::write(moved.join(MOVED_FILE), word).expect("written");
    assert_refused(&moved);
}

#[test]
fn a_word_that_is_no_file_or_has_no_end_is_none() {
    for target in ["/dev/zero", "/dev/stdin", "."] {
        let place = Place::with_a_state();
        let moved = place.fresh("moved");
        copy_later(&place.state(), &moved.join(STATE_FILE), true);
        std::os::unix::fs::symlink(target, moved.join(MOVED_FILE)).expect("linked");
        assert_refused(&moved);
    }
    let place = Place::with_a_state();
    let moved = place.fresh("moved");
    copy_later(&place.state(), &moved.join(STATE_FILE), true);
    for garbage in [vec![0xff; 100], vec![b'0'; 1 << 20], Vec::new()] {
        fs::write(moved.join(MOVED_FILE), garbage).expect("written");
        assert_refused(&moved);
    }
    fs::remove_file(moved.join(MOVED_FILE)).expect("removed");
    fs::create_dir(moved.join(MOVED_FILE)).expect("created");
    assert_refused(&moved);
    assert_eq!(starts(&place.data), 1);
}

#[test]
fn what_was_said_inside_of_a_backup_admits_nothing() {
    let place = Place::with_a_state();
    let moved = place.fresh("moved");
    copy_later(&place.state(), &moved.join(STATE_FILE), true);
    say_that_it_was_moved(&moved);
    let backup = place.fresh("backup");
    for file in [STATE_FILE, MOVED_FILE] {
        copy_later(&moved.join(file), &backup.join(file), true);
    }
    assert_eq!(starts(&moved), 1);
    assert_refused(&backup);
}
