//! The joiner's machine alone, in virtual time: transitions, and what holds after any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::machine::{Ask, MIN_PAGE_WAIT, PAGES_BEFORE_HURRY, Transfer, TransferStep};
use crate::limits::{MAX_PULL_RETRIES, PAGES_IN_FLIGHT};
use crate::member::{NodeId, Run};
use crate::time::Time;

const SPONSOR: Run = Run(1);

fn name(nth: usize) -> NodeId {
    NodeId::new(&format!("n{nth:04}")).expect("a name")
}

fn at(ms: u64) -> Time {
    Time::ORIGIN + Duration::from_millis(ms)
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

/// Returns a transfer that began at 0 ms.
fn transfer() -> Transfer {
    Transfer::begin(address(1), SPONSOR, at(0)).0
}

/// Hands in the page of the names from `after` (0: the first page) to `next` (0: to the end).
fn page(transfer: &mut Transfer, ms: u64, after: usize, next: usize) -> TransferStep {
    let named = |nth: usize| (nth > 0).then(|| name(nth));
    transfer.page(at(ms), named(after).as_ref(), named(next))
}

/// Returns the question for so many pages after a name (0: from the first one).
fn ask(after: usize, pages: u8) -> TransferStep {
    TransferStep::Ask(Ask { after: (after > 0).then(|| name(after)), pages })
}

#[test]
fn it_begins_with_as_many_pages_as_may_be_in_flight_from_the_first_name() {
    let (transfer, first) = Transfer::begin(address(1), SPONSOR, at(0));
    assert_eq!(TransferStep::Ask(first), ask(0, PAGES_IN_FLIGHT));
    assert_eq!(transfer.sponsor(), (address(1), SPONSOR));
    assert_eq!(transfer.deadline(), at(0) + MIN_PAGE_WAIT * 4, "before any round trip is known");
}

#[test]
fn the_next_pages_are_asked_for_when_all_that_were_asked_for_came() {
    let mut transfer = transfer();
    let most = usize::from(PAGES_IN_FLIGHT);
    for nth in 0..most - 1 {
        assert_eq!(page(&mut transfer, 1, nth * 10, nth * 10 + 10), TransferStep::Wait, "page {nth}");
    }
    assert_eq!(page(&mut transfer, 1, most * 10 - 10, most * 10), ask(most * 10, PAGES_IN_FLIGHT));
    assert_eq!(page(&mut transfer, 2, most * 10, 0), TransferStep::Complete);
}

#[test]
fn an_empty_page_to_the_end_is_a_whole_view() {
    assert_eq!(page(&mut transfer(), 1, 0, 0), TransferStep::Complete);
}

#[test]
fn the_last_page_completes_nothing_while_one_before_it_is_missing() {
    let mut transfer = transfer();
    assert_eq!(page(&mut transfer, 1, 20, 0), TransferStep::Wait);
    assert_eq!(page(&mut transfer, 1, 0, 10), TransferStep::Wait);
    assert_eq!(page(&mut transfer, 1, 10, 20), TransferStep::Complete);
}

#[test]
fn a_gap_is_asked_for_alone_and_once_when_several_pages_came_after_it() {
    let mut transfer = transfer();
    let due = transfer.deadline();
    for nth in 1..PAGES_BEFORE_HURRY {
        assert_eq!(page(&mut transfer, 1, nth * 10, nth * 10 + 10), TransferStep::Wait, "it may be late");
    }
    let last = PAGES_BEFORE_HURRY * 10;
    assert_eq!(page(&mut transfer, 1, last, last + 10), ask(0, 1));
    assert_eq!(page(&mut transfer, 1, last + 10, last + 20), TransferStep::Wait, "once");
    assert_eq!(transfer.deadline(), due, "all of them are asked for no later");
    // The gap is closed; the next one is hurried again.
    assert_eq!(page(&mut transfer, 2, 0, 10), TransferStep::Wait);
    let next = last + 20;
    for nth in 1..PAGES_BEFORE_HURRY {
        assert_eq!(page(&mut transfer, 2, next + nth * 10, next + nth * 10 + 10), TransferStep::Wait);
    }
    assert_eq!(page(&mut transfer, 2, next + PAGES_BEFORE_HURRY * 10, 0), ask(next, 1));
}

#[test]
fn pages_that_do_not_come_are_asked_for_again_from_the_first_missing_one_with_growing_patience() {
    let mut transfer = transfer();
    assert_eq!(page(&mut transfer, 10, 0, 10), TransferStep::Wait);
    assert_eq!(page(&mut transfer, 10, 20, 30), TransferStep::Wait);
    for nth in 1..=u32::from(MAX_PULL_RETRIES) {
        let now = transfer.deadline();
        assert_eq!(transfer.overdue(now), ask(10, PAGES_IN_FLIGHT), "try {nth}");
        assert_eq!(transfer.deadline().since(now), MIN_PAGE_WAIT * (1 + nth).min(4), "try {nth}");
        assert_eq!(transfer.is_stalled(), nth >= 2, "try {nth}");
    }
    let now = transfer.deadline();
    assert_eq!(transfer.overdue(now), TransferStep::GiveUp);
}

#[test]
fn a_page_that_closes_the_gap_ends_the_tries_in_vain_and_one_beyond_it_does_not() {
    let mut transfer = transfer();
    for nth in 1..=u64::from(MAX_PULL_RETRIES) {
        transfer.overdue(at(nth * 1_000));
    }
    page(&mut transfer, 60_000, 10, 20);
    assert!(transfer.is_stalled(), "nothing that was missing has come");
    assert_eq!(page(&mut transfer, 60_000, 0, 10), TransferStep::Wait);
    assert!(!transfer.is_stalled());
    assert_eq!(transfer.overdue(at(61_000)), ask(20, PAGES_IN_FLIGHT));
}

#[test]
fn while_a_gap_is_left_nothing_more_is_asked_for_before_the_deadline() {
    let mut transfer = transfer();
    page(&mut transfer, 1, 0, 10);
    for _ in 2..PAGES_IN_FLIGHT {
        assert_eq!(page(&mut transfer, 1, 20, 30), TransferStep::Wait);
    }
    // As many came as were asked for, copies among them; what is missing may be late.
    assert_eq!(page(&mut transfer, 1, 10, 15), TransferStep::Wait);
    assert_eq!(transfer.overdue(at(500)), ask(15, PAGES_IN_FLIGHT));
}

#[test]
fn a_late_copy_of_a_page_changes_nothing() {
    let mut transfer = transfer();
    page(&mut transfer, 1, 0, 20);
    transfer.overdue(at(500));
    transfer.overdue(at(1_000));
    let due = transfer.deadline();
    assert_eq!(page(&mut transfer, 1_001, 0, 20), TransferStep::Wait);
    assert_eq!(page(&mut transfer, 1_001, 0, 10), TransferStep::Wait, "with other bounds, too");
    assert!(transfer.is_stalled() && transfer.deadline() == due);
}

#[test]
fn a_page_that_leads_backwards_is_malformed_and_changes_nothing() {
    let mut transfer = transfer();
    page(&mut transfer, 1, 0, 10);
    for next in [5, 20] {
        assert_eq!(page(&mut transfer, 2, 20, next), TransferStep::Malformed);
    }
    assert_eq!(transfer.beyond(), 0);
    assert_eq!(page(&mut transfer, 3, 10, 0), TransferStep::Complete);
}

#[test]
fn patience_is_twice_the_round_trip_and_answers_to_repeated_questions_measure_none() {
    let mut transfer = transfer();
    page(&mut transfer, 100, 0, 10);
    // It may answer either question: no one can tell how long it took (Karn's algorithm).
    transfer.overdue(at(200));
    page(&mut transfer, 900, 20, 30);
    transfer.overdue(at(1_000));
    assert_eq!(transfer.deadline().since(at(1_000)), Duration::from_millis(200) * 3);
    page(&mut transfer, 1_000, 10, 20);
    let mut near = self::transfer();
    page(&mut near, 1, 0, 10);
    near.overdue(at(300));
    assert_eq!(near.deadline().since(at(300)), MIN_PAGE_WAIT * 2, "at least so long");
}

#[test]
fn pages_asked_for_again_may_overlap_since_the_view_changes_meanwhile() {
    let mut transfer = transfer();
    page(&mut transfer, 1, 10, 20);
    page(&mut transfer, 1, 20, 30);
    // Names between were added: the first page now ends earlier, and the next one reaches into what has come.
    assert_eq!(page(&mut transfer, 2, 0, 7), TransferStep::Wait);
    assert_eq!(page(&mut transfer, 2, 7, 15), TransferStep::Wait, "on to 30 by those that came before");
    assert_eq!(transfer.beyond(), 0);
    assert_eq!(page(&mut transfer, 2, 30, 0), TransferStep::Complete);
    // Or removed: one page now covers what several did.
    let mut transfer = self::transfer();
    page(&mut transfer, 1, 10, 20);
    page(&mut transfer, 1, 30, 40);
    assert_eq!(page(&mut transfer, 2, 0, 25), TransferStep::Wait);
    assert_eq!(transfer.beyond(), 1, "25 to 30 is still missing");
    assert_eq!(page(&mut transfer, 2, 25, 0), TransferStep::Complete);
}

#[test]
fn so_many_pages_beyond_a_gap_are_remembered() {
    let mut transfer = transfer();
    for nth in 1..=usize::from(PAGES_IN_FLIGHT) + 1 {
        page(&mut transfer, 1, nth, 0);
        assert_eq!(transfer.beyond(), nth.min(usize::from(PAGES_IN_FLIGHT)), "to the last place and not one more");
    }
}

/// The fate of a page on its way.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Lost,
    After(u64),
    Twice(u64, u64),
}

/// A change of the sponsor's view.
#[derive(Debug, Clone, Copy)]
enum Change {
    Added(usize),
    Removed(usize),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Lost),
        5 => (1..400_u64).prop_map(Fate::After),
        1 => (1..400_u64, 1..400_u64).prop_map(|(first, second)| Fate::Twice(first, second)),
    ]
}

fn change() -> impl Strategy<Value = Option<Change>> {
    prop_oneof![
        2 => Just(None),
        1 => (1..400_usize).prop_map(|nth| Some(Change::Added(nth))),
        1 => (1..400_usize).prop_map(|nth| Some(Change::Removed(nth))),
    ]
}

/// A page: the name after which it begins, its last name if more follow, and the names between.
#[derive(Debug, Clone)]
struct Page {
    after: Option<NodeId>,
    next: Option<NodeId>,
    names: Vec<NodeId>,
}

/// Returns the page after a name, of so many names at the most.
fn served(view: &BTreeSet<NodeId>, after: Option<NodeId>, size: usize) -> Page {
    let rest = || view.iter().filter(|name| Some(*name) > after.as_ref());
    let names: Vec<NodeId> = rest().take(size).cloned().collect();
    let next = names.last().cloned().filter(|_| rest().count() > names.len());
    Page { after, next, names }
}

proptest! {
    #[test]
    fn whatever_is_lost_late_doubled_or_changed_everybody_who_stayed_has_come_when_it_is_complete(
        members in 0..200_usize,
        size in 1..12_usize,
        on_the_way in prop::collection::vec((fate(), change()), 0..120),
    ) {
        let mut view: BTreeSet<NodeId> = (0..members).map(|nth| name(nth * 2)).collect();
        let (mut stayed, mut came) = (view.clone(), BTreeSet::new());
        let (mut on_the_way, mut lost) = (on_the_way.into_iter(), 0);
        let mut flying: BTreeMap<(Time, usize), Page> = BTreeMap::new();
        let (mut now, mut sent) = (at(0), 0);
        let (mut transfer, first) = Transfer::begin(address(1), SPONSOR, now);
        let mut step = TransferStep::Ask(first);
        loop {
            match step {
                TransferStep::Wait => {}
                TransferStep::Ask(Ask { mut after, pages }) => {
                    prop_assert!((1..=PAGES_IN_FLIGHT).contains(&pages));
                    for _ in 0..pages {
                        let page = served(&view, after, size);
                        after = page.next.clone();
                        let (fate, change) = on_the_way.next().unwrap_or((Fate::After(1), None));
                        let ways = match fate {
                            Fate::Lost => vec![],
                            Fate::After(ms) => vec![ms],
                            Fate::Twice(first, second) => vec![first, second],
                        };
                        lost += usize::from(ways.is_empty());
                        for ms in ways {
                            sent += 1;
                            flying.insert((now + Duration::from_millis(ms), sent), page.clone());
                        }
                        match change {
                            Some(Change::Added(nth)) => drop(view.insert(name(nth))),
                            Some(Change::Removed(nth)) => {
                                view.remove(&name(nth));
                                stayed.remove(&name(nth));
                            }
                            None => {}
                        }
                        if after.is_none() {
                            break;
                        }
                    }
                }
                TransferStep::Malformed => prop_assert!(false, "an honest sponsor's page is refused"),
                TransferStep::GiveUp => {
                    prop_assert!(lost > usize::from(MAX_PULL_RETRIES), "a sponsor that answers is given up");
                    break;
                }
                TransferStep::Complete => {
                    prop_assert!(stayed.is_subset(&came), "missing: {:?}", stayed.difference(&came).collect::<Vec<_>>());
                    break;
                }
            }
            prop_assert!(transfer.beyond() <= usize::from(PAGES_IN_FLIGHT));
            prop_assert!(transfer.deadline().since(now) <= Duration::from_secs(4), "it cannot wait for ever");
            let due = transfer.deadline();
            step = if let Some(next) = flying.first_entry().filter(|next| next.key().0 <= due) {
                now = next.key().0.max(now);
                let Page { after, next, names } = next.remove();
                came.extend(names);
                transfer.page(now, after.as_ref(), next)
            } else {
                now = due.max(now);
                transfer.overdue(now)
            };
        }
    }
}
