//! Agents that start on hard links to one state file, in directories with locks of their own.

use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use super::STATE_FILE;
use super::tests_copies::{Place, open, starts, voted};
use crate::store::StoreError;

/// Returns directories whose state files are hard links to one file.
fn links(place: &Place, count: usize) -> Vec<PathBuf> {
    let link = |nth| {
        let directory = place.fresh(&format!("link{nth}"));
        fs::hard_link(place.state(), directory.join(STATE_FILE)).expect("linked");
        directory
    };
    (0..count).map(link).collect()
}

#[test]
fn of_hard_links_to_one_state_one_is_taken_while_its_agent_runs_and_none_once_it_has_written() {
    let place = Place::with_a_state();
    let links = links(&place, 2);
    let first = open(&links[0]).expect("opens").store;
    for other in [&place.data, &links[1]] {
        let error = open(other).expect_err("in use");
        assert!(matches!(error, StoreError::StateInUse { .. }), "{error}");
        assert!(error.to_string().contains("hard link"), "{error}");
    }
    drop(first);
    // It has written nothing: the next agent may have the file.
    let second = open(&links[1]).expect("opens").store;
    assert!(matches!(open(&links[0]), Err(StoreError::StateInUse { .. })));
    second.write(&voted(2)).expect("written");
    for other in [&place.data, &links[0]] {
        assert!(matches!(open(other), Err(StoreError::Superseded { .. })), "marked, and no more locked");
    }
    // The lock follows the newest file.
    for term in [3, 4] {
        let link = place.fresh(&format!("newest{term}"));
        fs::hard_link(links[1].join(STATE_FILE), link.join(STATE_FILE)).expect("linked");
        assert!(matches!(open(&link), Err(StoreError::StateInUse { .. })));
        second.write(&voted(term)).expect("written");
        assert!(matches!(open(&link), Err(StoreError::Superseded { .. })));
    }
    drop(second);
    assert_eq!(starts(&links[1]), 4);
}

#[test]
fn of_agents_that_start_at_once_on_links_to_one_state_one_stores_anything() {
    for _ in 0..50 {
        let place = Place::with_a_state();
        let links = links(&place, 4);
        let barrier = Barrier::new(links.len());
        let runs = thread::scope(|scope| {
            let start = |directory: &'_ PathBuf| {
                let (directory, barrier) = (directory.clone(), &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let store = open(&directory).ok()?.store;
                    store.write(&voted(2)).expect("written");
                    Some(store)
                })
            };
            let threads: Vec<_> = links.iter().map(start).collect();
            threads.into_iter().filter_map(|thread| thread.join().expect("ends")).collect::<Vec<_>>().len()
        });
        assert_eq!(runs, 1);
    }
}
