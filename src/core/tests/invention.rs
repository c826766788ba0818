//! Members that do not exist, named by one that does, by the thousand: budgets of names, and the memory that they cost.

use std::time::Duration;

use super::liars::{Liar, old_cluster, update};
use super::limits::{Alone, TELLER, member};
use super::net::{Net, address, ms};
use crate::core::counters::DropReason;
use crate::core::doors::Notice;
use crate::core::limits::{
    FORGET_GHOSTS_AFTER, MAX_GHOSTS, MAX_TOMBSTONES, MAX_UNSETTLED_BYTES, MAX_UNSETTLED_NAMES, NAMES_AT_ONCE,
    NAMES_PER_SECOND, SETTLE,
};
use crate::core::member::tests::record;
use crate::core::member::{DetectionMethod, Record, Run, Status, Tags};
use crate::core::packet::News;
use crate::core::settings::Profile;
use crate::core::wire::Note;

pub(super) const AT_ONCE: usize = NAMES_AT_ONCE as usize;
const PER_SECOND: usize = NAMES_PER_SECOND as usize;
/// The bytes that invented members may cost: what a process of 64 MiB has left.
const MAX_BYTES: i64 = 40 << 20;

fn invented(alone: &Alone) -> u64 {
    alone.core.counters().dropped(DropReason::Invented)
}

/// Has one more member introduce itself, which tells of others from now on; returns its run.
pub(super) fn teller(alone: &mut Alone, number: usize) -> Run {
    let mut teller = member(number, Status::Up);
    (teller.run, teller.address) = (Run(0x7e_1100 + number as u64), address(19_999));
    introduce(alone, teller.clone());
    teller.run
}

fn introduce(alone: &mut Alone, record: Record) {
    alone.core.learn(News::told(record), None);
    while alone.core.poll().is_some() {}
}

pub(super) fn tells(alone: &mut Alone, teller: Run, members: std::ops::Range<usize>) {
    for first in members.clone().step_by(10) {
        let some: Vec<_> = (first..members.end.min(first + 10)).map(|i| (None, member(i, Status::Up))).collect();
        alone.told_by(teller, &some);
    }
}

#[test]
fn a_member_tells_of_an_island_at_once_and_of_a_few_names_a_second_after_that() {
    let mut alone = Alone::with_teller();
    let known = alone.core.records().count();
    alone.told_of(100_000..100_000 + AT_ONCE + 100, Status::Up);
    assert_eq!((alone.core.records().count() - known, invented(&alone)), (AT_ONCE, 100));
    // A second later; and what was left out before is news again.
    alone.now = alone.now + Duration::from_secs(1);
    alone.told_of(100_000 + AT_ONCE..100_000 + AT_ONCE + 100, Status::Up);
    assert_eq!(alone.core.records().count() - known, AT_ONCE + PER_SECOND);
    assert_eq!(invented(&alone), 100 + 100 - PER_SECOND as u64);
    // Names that are known cost nothing, and another member has a budget of its own.
    alone.told_of(100_000..101_000, Status::Up);
    let other = teller(&mut alone, 7);
    tells(&mut alone, other, 200_000..200_500);
    assert_eq!(alone.core.records().count() - known, AT_ONCE + PER_SECOND + 501);
    assert_eq!(invented(&alone), 200 - PER_SECOND as u64);
}

#[test]
fn who_restarts_has_no_new_budget() {
    let mut alone = Alone::with_teller();
    let run = teller(&mut alone, 7);
    tells(&mut alone, run, 100_000..100_000 + AT_ONCE);
    let mut again = member(7, Status::Up);
    (again.run, again.address, again.incarnation) = (Run(0x7e_2222), address(19_999), again.incarnation + 1);
    introduce(&mut alone, again);
    assert!(alone.core.view.slot_of_run(Run(0x7e_2222)).is_some(), "it took its name over");
    tells(&mut alone, Run(0x7e_2222), 200_000..200_100);
    assert_eq!(invented(&alone), 100);
}

#[test]
fn the_names_that_all_members_together_invent_are_bounded_and_newcomers_that_are_there_come_in() {
    let mut alone = Alone::with_teller();
    let used = allocation_counter::measure(|| {
        for number in 0..=MAX_UNSETTLED_NAMES / AT_ONCE {
            let teller = teller(&mut alone, number);
            let first = 100_000 + number * AT_ONCE;
            tells(&mut alone, teller, first..first + AT_ONCE);
        }
    });
    assert_eq!(alone.core.view.unsettled_names(), MAX_UNSETTLED_NAMES);
    assert_eq!(invented(&alone), AT_ONCE as u64);
    assert!(used.bytes_current <= MAX_BYTES, "{} MiB", used.bytes_current >> 20);
    let known = alone.core.records().count();
    alone.introduces(50..60);
    assert_eq!(alone.core.records().count(), known + 10);
}

/// Returns a member with texts as long as they may be.
fn wordy(number: usize, incarnation: u64) -> Record {
    let pad = |key: &str, length| (key.to_owned(), "x".repeat(length));
    let tags: Vec<_> = (0..31).map(|nth| pad(&format!("k{nth:02}"), 13)).chain([pad("rest", 12)]).collect();
    Record {
        incarnation,
        tags: Tags::new(tags.into_iter().collect()).expect("within bounds"),
        api_address: Some("h".repeat(Record::MAX_API_ADDRESS_BYTES).into()),
        version: format!("{number:032}").into(),
        ..member(number, Status::Up)
    }
}

fn tells_of_wordy(alone: &mut Alone, teller: Run, members: std::ops::Range<usize>, incarnation: u64) {
    for number in members {
        alone.told_by(teller, &[(None, wordy(number, incarnation))]);
    }
}

/// Returns the bytes of texts of all members that others named and that have not settled.
fn unsettled_texts(alone: &Alone) -> usize {
    let unsettled = alone.core.view.iter().filter(|(_, entry)| entry.is_unsettled_name());
    unsettled.map(|(_, entry)| entry.record.text_bytes()).sum()
}

#[test]
fn the_texts_of_invented_names_are_bounded_and_newcomers_that_are_there_come_in() {
    let mut alone = Alone::with_teller();
    let used = allocation_counter::measure(|| {
        for number in 0..3 {
            let teller = teller(&mut alone, number);
            let first = 100_000 + number * AT_ONCE;
            tells_of_wordy(&mut alone, teller, first..first + AT_ONCE, 5);
        }
    });
    let one = wordy(1, 5).text_bytes();
    assert!((MAX_UNSETTLED_BYTES - one..=MAX_UNSETTLED_BYTES).contains(&unsettled_texts(&alone)));
    assert!(used.bytes_current <= MAX_BYTES, "{} MiB", used.bytes_current >> 20);
    let known = alone.core.records().count();
    assert_eq!(invented(&alone), (3 * AT_ONCE - MAX_UNSETTLED_BYTES / one) as u64);
    introduce(&mut alone, wordy(50, 5));
    assert_eq!(alone.core.records().count(), known + 1, "a member's own word");
}

#[test]
fn names_that_were_short_when_they_were_told_do_not_outgrow_the_room_either() {
    let mut alone = Alone::with_teller();
    let teller = teller(&mut alone, 1);
    let (first, count) = (100_000, AT_ONCE);
    tells(&mut alone, teller, first..first + count);
    let other = self::teller(&mut alone, 2);
    tells(&mut alone, other, first + count..first + 2 * count);
    let all = first..first + 2 * count;
    tells_of_wordy(&mut alone, teller, all.clone(), 6);
    assert!(unsettled_texts(&alone) <= MAX_UNSETTLED_BYTES);
    assert_eq!(alone.core.view.unsettled_names(), 2 * count, "all of them are still there");
    let held = |alone: &Alone, number: usize| alone.core.record(&member(number, Status::Up).id).map(|r| r.incarnation);
    let last = all.end - 1;
    assert_eq!((held(&alone, first), held(&alone, last)), (Some(6), Some(5)));
    // Whoever is there says it for itself; and what needs no more room is news like any other.
    introduce(&mut alone, wordy(last, 7));
    assert_eq!(held(&alone, last), Some(7));
    alone.told_by(teller, &[(None, Record { incarnation: 8, ..member(last - 1, Status::Up) })]);
    assert_eq!(held(&alone, last - 1), Some(8));
    alone.told_by(teller, &[(None, wordy(first, 9))]);
    assert_eq!(held(&alone, first), Some(9));
}

#[test]
fn what_is_told_of_a_member_that_came_by_itself_may_be_as_long_as_it_is() {
    let mut alone = Alone::with_teller();
    introduce(&mut alone, member(60, Status::Up));
    alone.told_by(TELLER, &[(None, wordy(60, 6))]);
    assert_eq!(alone.core.record(&member(60, Status::Up).id).map(|record| record.incarnation), Some(6));
    assert_eq!(alone.core.view.unsettled_bytes(), 0, "it is not one that others named");
}

#[test]
fn a_view_of_ten_thousand_with_usual_tags_that_is_told_by_several_fits() {
    let mut alone = Alone::with_teller();
    let tags = [("zone", "eu-central-1b"), ("rack", "r17-u22"), ("role", "frontend"), ("release", "2026-11-26.3")];
    let tags: std::collections::BTreeMap<_, _> = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let tags = Tags::new(tags).expect("within bounds");
    for number in 0..2 {
        let teller = teller(&mut alone, number);
        for host in 0..5_000 {
            let record = member(100_000 + number * 5_000 + host, Status::Up);
            let api_address = Some("http://10.0.0.1:8080/".into());
            alone.told_by(teller, &[(None, Record { tags: tags.clone(), api_address, ..record })]);
        }
    }
    assert_eq!((alone.core.view.unsettled_names(), invented(&alone)), (10_000, 0));
    assert!(unsettled_texts(&alone) < MAX_UNSETTLED_BYTES / 2, "{}", unsettled_texts(&alone));
}

#[test]
fn ghosts_that_nobody_reached_are_forgotten_before_their_time_if_there_are_many_and_stay_so() {
    let mut alone = Alone::with_teller();
    let teller = teller(&mut alone, 7);
    let dead = |i: usize| {
        let note = Note { age_ms: 0, method: DetectionMethod::ConnectionLost };
        (Some(note), member(i, Status::Down))
    };
    let ghosts: Vec<_> = (100_000..100_000 + AT_ONCE).map(dead).collect();
    let tell = |alone: &mut Alone| ghosts.chunks(10).for_each(|some| alone.told_by(teller, some));
    tell(&mut alone);
    let down = |alone: &Alone| alone.core.counts()[Status::Down.index()];
    assert_eq!(down(&alone), AT_ONCE);
    alone.pass(FORGET_GHOSTS_AFTER - Duration::from_secs(1));
    assert!(down(&alone) >= AT_ONCE, "they have time to refute");
    alone.pass(Duration::from_secs(300));
    let ghosts_left = || {
        let view = &alone.core.view;
        view.iter().filter(|(_, entry)| entry.is_unsettled_name() && !entry.peer.is_proven()).count()
    };
    assert_eq!(ghosts_left(), MAX_GHOSTS);
    let left = alone.core.records().count();
    tell(&mut alone);
    assert_eq!(alone.core.records().count(), left, "their tombstones hold");
    assert_eq!(invented(&alone), 0, "and they cost no budget");
}

#[test]
fn tombstones_of_ghosts_fit_into_what_is_left() {
    let mut tombstones = crate::core::view::Tombstones::default();
    let used = allocation_counter::measure(|| {
        for host in 0..2 * MAX_TOMBSTONES {
            tombstones.insert(crate::core::time::Time::ORIGIN + ms(host as u64), &member(host, Status::Down));
        }
    });
    assert!(used.bytes_current <= 16 << 20, "{} KiB", used.bytes_current >> 10);
}

/// Somebody names members all the time, as many as the budgets of all take: who is really silent is found out in time.
#[test]
fn a_crash_is_seen_within_a_second_while_names_are_invented_without_pause() {
    let mut net = Net::linked(Profile::Local, 6);
    net.run(SETTLE);
    let node = net.add("liar", 90, &[0]);
    net.run_until(ms(3_000), "the liar is in", Net::all_agree);
    let (liar, timing) = (Liar::new(node), net.settings.timing().expect("good settings"));
    let mut named = 0;
    let mut invent = |net: &mut Net| {
        for to in 0..5 {
            let some = (0..14).map(|_| {
                named += 1;
                let mut record = record(&format!("z{named:06}"), 1_000_000, Status::Up);
                (record.run, record.timing) = (Run(0xe_0000 + named), timing);
                record.address = std::net::SocketAddr::from(([127, 9, (named / 250) as u8, (named % 250) as u8], 7117));
                update(record)
            });
            liar.says(net, to, &some.collect::<Vec<_>>());
        }
    };
    for _ in 0..220 {
        (0..3).for_each(|_| invent(&mut net));
        net.run(ms(5));
    }
    let dropped = |net: &Net| net.nodes[0].core.counters().dropped(DropReason::Invented);
    assert!(net.nodes[0].core.view.unsettled_names() <= MAX_UNSETTLED_NAMES);
    net.kill(5);
    let mut waited = 0;
    while !(0..5).all(|node| net.status(node, "n5") == Some(Status::Down)) {
        waited += 5;
        assert!(waited <= 1_000, "found out too late");
        invent(&mut net);
        net.run(ms(5));
    }
    assert!(dropped(&net) > 0, "the budget was used up");
    let named = |notice: &Notice| matches!(notice, Notice::TooManyNames { id } if id.as_str() == "liar");
    assert!(net.nodes[0].notices.iter().any(named), "and the liar is named");
}

/// A view that a newcomer is served has more names than any member may tell of later.
#[test]
fn a_newcomer_takes_a_view_of_ten_thousand_at_once() {
    let mut net = old_cluster(Profile::Default, 1);
    for host in 100_000..110_000 {
        let mut record: Record = member(host, Status::Up);
        record.timing = net.settings.timing().expect("good settings");
        net.nodes[0].core.learn(News::told(record), None);
    }
    net.drain(0);
    let newcomer = net.add("n1", 1, &[0]);
    net.run_until(ms(3_000), "it is up", |net| net.nodes[newcomer].core.is_up());
    assert_eq!(net.nodes[newcomer].core.records().count(), 10_002);
    assert_eq!(net.nodes[newcomer].core.counters().dropped(DropReason::Invented), 0);
}
