//! Properties of merging, and of the changes that are reported for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use headcount_core::testing::record;
use headcount_core::{Change, ChangeKind, DetectionMethod, LeaveReason, Record, Run, Status};

pub(super) fn any_status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Up),
        Just(Status::Suspect),
        Just(Status::Leaving),
        Just(Status::Down),
        Just(Status::Left(LeaveReason::Graceful)),
        Just(Status::Left(LeaveReason::Forced)),
    ]
}

fn any_record() -> impl Strategy<Value = Record> {
    (0..4u64, any_status(), 0..3u64, 0..3u16).prop_map(|(incarnation, status, run, port)| {
        let mut record = record("a", incarnation, status);
        record.run = Run(run);
        record.address.set_port(7000 + port);
        record
    })
}

fn merge(held: &Record, new: &Record) -> Record {
    if new.supersedes(held) { new.clone() } else { held.clone() }
}

proptest! {
    #[test]
    fn merging_is_commutative_associative_and_idempotent(a in any_record(), b in any_record(), c in any_record()) {
        prop_assert_eq!(merge(&a, &b), merge(&b, &a));
        prop_assert_eq!(merge(&merge(&a, &b), &c), merge(&a, &merge(&b, &c)));
        prop_assert_eq!(merge(&a, &a), a);
    }

    #[test]
    fn folding_the_changes_gives_the_record_and_a_right_live_set(records in prop::collection::vec(any_record(), 1..12)) {
        let mut held: Option<Arc<Record>> = None;
        let mut folded = BTreeMap::new();
        let mut live = false;
        for new in records {
            let new = Arc::new(new);
            if held.as_ref().is_some_and(|held| !new.supersedes(held)) {
                continue;
            }
            let method = (new.status == Status::Down).then_some(DetectionMethod::HeartbeatTimeout);
            let mut before = held.clone();
            for change in Change::between(held.as_ref(), &new, method) {
                prop_assert_eq!(&change.previous, &before);
                match change.kind {
                    ChangeKind::Joined => live = true,
                    ChangeKind::Left(_) => live = false,
                    ChangeKind::DetectedDown(_) => {
                        let already = folded.get("a").is_some_and(|r: &Arc<Record>| r.status == Status::Down);
                        prop_assert!(!already, "a Down member does not report Down again");
                        live = false;
                    }
                    _ => {}
                }
                before = Some(Arc::clone(&change.record));
                folded.insert("a", change.record);
            }
            prop_assert_eq!(folded.get("a"), Some(&new));
            prop_assert_eq!(live, new.status.is_live());
            held = Some(new);
        }
    }
}

#[test]
fn of_two_records_that_differ_in_their_bytes_alone_the_greater_bytes_count() {
    let (a, mut b) = (record("a", 1, Status::Up), record("a", 1, Status::Up));
    b.run = Run(8);
    let (greater, lesser) = if a.encode() > b.encode() { (a, b) } else { (b, a) };
    assert!(greater.supersedes(&lesser) && !lesser.supersedes(&greater), "whatever the version, all choose the same");
}

#[test]
fn a_new_run_of_a_live_name_first_closes_the_old_story() {
    let old = Arc::new(record("a", 1, Status::Up));
    let mut new = record("a", 2, Status::Up);
    new.run = Run(8);
    let kinds = |old: &Arc<Record>| {
        Change::between(Some(old), &Arc::new(new.clone()), None).map(|change| change.kind).collect::<Vec<_>>()
    };
    let restarted = ChangeKind::DetectedDown(DetectionMethod::Restarted);
    assert_eq!(kinds(&old), [restarted, ChangeKind::Joined]);
    let leaving = Arc::new(old.with_status(Status::Leaving));
    assert_eq!(kinds(&leaving), [ChangeKind::Left(LeaveReason::Graceful), ChangeKind::Joined]);
    let down = Arc::new(old.with_status(Status::Down));
    assert_eq!(kinds(&down), [ChangeKind::Joined]);
}

#[test]
fn a_member_first_learnt_as_suspect_is_first_reported_as_joined() {
    let suspect = Arc::new(record("a", 1, Status::Suspect));
    let kinds: Vec<_> = Change::between(None, &suspect, None).map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Joined, ChangeKind::Suspected]);
    let down = Arc::new(record("a", 1, Status::Down));
    let kinds: Vec<_> = Change::between(None, &down, None).map(|change| change.kind).collect();
    assert_eq!(kinds.len(), 1, "first learnt as Down is reported by that alone");
}

mod repair {
    use std::time::Duration;

    use crate::net::{Net, ms};
    use headcount_core::Profile;

    #[test]
    fn views_that_missed_everything_are_repaired_at_the_cost_of_the_difference() {
        let mut net = Net::cluster(Profile::Default, 400);
        // Two nodes that hear nobody but each other miss a change, floods and gossip included.
        let apart: Vec<(usize, usize)> = [7, 8]
            .into_iter()
            .flat_map(|node| (0..400).map(move |other| (node, other)))
            .filter(|(_, b)| !matches!(b, 7 | 8))
            .collect();
        for (a, b) in &apart {
            net.cut(*a, *b, true);
        }
        let tags = headcount_core::Tags::new([("k".to_owned(), "v".to_owned())].into()).expect("good");
        net.command(3, headcount_core::Command::SetTags { ticket: 1, tags });
        net.run(Duration::from_secs(4));
        let received = [7, 8].map(|node| {
            assert_ne!(net.nodes[node].core.fingerprint(), net.nodes[3].core.fingerprint(), "n{node} missed it");
            net.nodes[node].core.counters().updates_received
        });
        for (a, b) in &apart {
            net.cut(*a, *b, false);
        }
        net.run_until(ms(5_000), "repaired", Net::all_agree);
        for (node, received) in [7, 8].into_iter().zip(received) {
            let moved = net.nodes[node].core.counters().updates_received - received;
            assert!(moved < 400, "{moved} records for one difference among 400: as many as a whole view");
        }
    }
}
