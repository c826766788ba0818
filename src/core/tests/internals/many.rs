//! Thousands of members, live and gone: what is taken, told and remembered of them.

use super::alone::{Alone, TELLER, member};
use super::net::ms;
use crate::limits::{MAX_GONE, MAX_TOMBSTONES};
use crate::member::{DetectionMethod, Record, Status};
use crate::wire::Note;

fn reap_the_longest_gone(alone: &mut Alone) {
    for slot in alone.core.arrivals.longest_gone(&alone.core.view) {
        alone.core.reap(slot);
    }
}

#[test]
fn the_larger_side_of_a_cut_is_remembered_by_the_smaller_one() {
    let mut alone = Alone::with_teller();
    let count = MAX_GONE + 1_000;
    let held = |alone: &Alone| alone.core.records().filter(|(record, _)| record.id.as_str().starts_with('m')).count();
    alone.introduces(0..count);
    reap_the_longest_gone(&mut alone);
    for host in 0..count {
        let note = Note { age_ms: 0, method: DetectionMethod::HeartbeatTimeout };
        let dead = Record { incarnation: 1_000_000, ..member(host, Status::Down) };
        alone.told_by(TELLER, &[(Some(Note { method: DetectionMethod::ConnectionLost, ..note }), dead)]);
    }
    let gone = alone.core.records().filter(|(record, _)| !record.status.is_live()).count();
    assert!(gone > MAX_GONE, "{gone}");
    let before = held(&alone);
    reap_the_longest_gone(&mut alone);
    assert_eq!(held(&alone), before);
}

#[test]
fn as_many_tombstones_as_there_may_be_fit_into_sixteen_megabytes() {
    let mut tombstones = crate::view::Tombstones::default();
    let used = allocation_counter::measure(|| {
        for host in 0..2 * MAX_TOMBSTONES {
            tombstones.insert(crate::time::Time::ORIGIN + ms(host as u64), &member(host, Status::Down));
        }
    });
    assert!(used.bytes_current <= 16 << 20, "{} KiB", used.bytes_current >> 10);
}
