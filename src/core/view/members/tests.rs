//! Members by name, run and address, as records come and go.

use super::*;
use crate::member::tests::record;
use crate::time::Time;

fn member(id: &str, status: Status) -> Arc<Record> {
    let mut record = record(id, 1, status);
    record.run = Run(xxhash_rust::xxh3::xxh3_64(id.as_bytes()));
    Arc::new(record)
}

fn insert(view: &mut View, record: Arc<Record>) -> Slot {
    let hash = record.hash();
    view.insert(record, hash, Peer::new(Time::ORIGIN))
}

fn replace(view: &mut View, slot: Slot, record: Arc<Record>) {
    let hash = record.hash();
    view.replace(slot, record, hash, None);
}

#[test]
fn the_fingerprint_depends_on_the_records_not_on_their_history() {
    let (mut one, mut other) = (View::default(), View::default());
    for id in ["me", "a", "b", "c"] {
        insert(&mut one, member(id, Status::Up));
    }
    for id in ["me", "x", "c", "b", "a"] {
        insert(&mut other, member(id, Status::Up));
    }
    let x = other.slot_of("x").expect("inserted");
    let a = other.slot_of("a").expect("inserted");
    replace(&mut other, a, member("a", Status::Suspect));
    assert_ne!(one.fingerprint(), other.fingerprint());
    replace(&mut other, a, member("a", Status::Up));
    other.remove(x);
    assert_eq!(one.fingerprint(), other.fingerprint());
}

#[test]
fn a_member_is_one_line_of_memory() {
    assert_eq!(size_of::<Option<Entry>>(), 64);
}

#[test]
fn a_joining_record_is_not_hashed() {
    let mut view = View::default();
    insert(&mut view, member("me", Status::Joining));
    assert_eq!(view.fingerprint(), 0);
    assert_eq!(view.counts()[0], 1);
}

#[test]
fn live_lists_exactly_the_living_others() {
    let mut view = View::default();
    insert(&mut view, member("me", Status::Up));
    let slots: Vec<_> = ["a", "b", "c"].into_iter().map(|id| insert(&mut view, member(id, Status::Up))).collect();
    replace(&mut view, slots[0], member("a", Status::Down));
    view.remove(slots[1]);
    assert_eq!(view.live(), &[slots[2]]);
    replace(&mut view, slots[0], member("a", Status::Suspect));
    assert_eq!(view.live().len(), 2);
    assert_eq!(view.counts(), [0, 2, 1, 0, 0, 0]);
}

#[test]
fn pages_go_on_after_a_name_that_is_gone() {
    let mut view = View::default();
    for id in ["b", "d", "f"] {
        insert(&mut view, member(id, Status::Up));
    }
    let ids = |after: &str| {
        let after = NodeId::new(after).expect("a name");
        view.after(Some(&after)).map(|(_, entry)| entry.record.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids("c"), ["d", "f"]);
    assert_eq!(ids("d"), ["f"]);
    assert_eq!(view.after(None).count(), 3);
}

#[test]
fn a_slot_that_was_kept_for_too_long_names_nobody() {
    let mut view = View::default();
    insert(&mut view, member("me", Status::Up));
    let mut slots = vec![insert(&mut view, member("n0", Status::Up))];
    for n in 1..=255 {
        view.remove(slots[n - 1]);
        slots.push(insert(&mut view, member(&format!("n{n}"), Status::Up)));
        assert_eq!(index_of(slots[n]), index_of(slots[0]), "the place is used again");
    }
    assert!(slots[..255].iter().all(|slot| view.get(*slot).is_none()));
    assert_eq!(view.get(slots[255]).map(|entry| entry.record.id.as_str()), Some("n255"));
    let others = ["a", "b"].map(|id| insert(&mut view, member(id, Status::Up)));
    for slot in others {
        view.remove(slot);
    }
    let next = insert(&mut view, member("c", Status::Up));
    assert_eq!(index_of(next), index_of(others[0]), "the one that is free for the longest");
}
