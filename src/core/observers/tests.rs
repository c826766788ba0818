//! The machine's transitions: who comes to be observed, and who is let go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Observers, Shift};
use crate::context::{Context, Phase};
use crate::limits::{KEEP_AFTER, KEEP_FOR, RECENT_MEMBER_WATCH};
use crate::member::{NodeId, Record, Run, Status};
use crate::settings::Settings;
use crate::time::Time;
use crate::view::{Peer, Slot, View, slot_at};

const WANTED: usize = 4;

fn at(ms: u64) -> Time {
    Time::ORIGIN + Duration::from_millis(ms)
}

fn named(nth: usize, status: Status) -> Arc<Record> {
    let record = crate::member::tests::record(&format!("n{nth}"), 1, status);
    Arc::new(Record { run: Run(100 + nth as u64), ..record })
}

/// A node that learns of members, and what it observes.
struct World {
    view: View,
    observers: Observers,
    now: Time,
    is_up: bool,
}

impl World {
    fn new(members: usize) -> Self {
        Self::of(0, 1..=members)
    }

    /// Returns the world of one node.
    fn of(me: usize, others: impl IntoIterator<Item = usize>) -> Self {
        let mut view = View::new(1);
        let me = named(me, Status::Up);
        view.insert(Arc::clone(&me), me.hash(), Peer::new(at(0)));
        let name = xxhash_rust::xxh3::xxh3_64(me.id.as_str().as_bytes());
        let mut world = Self { view, observers: Observers::new(WANTED, name), now: at(0), is_up: true };
        others.into_iter().for_each(|nth| _ = world.come(nth));
        world
    }

    fn context(&self) -> Context {
        let mut cx = Context::new(self.now, self.view.me().run, 0, Settings::default(), 1);
        cx.phase = if self.is_up { Phase::Up } else { Phase::Joining };
        cx
    }

    fn with(&mut self, step: impl FnOnce(&mut Observers, &Context, &View) -> Shift) -> Shift {
        let cx = self.context();
        step(&mut self.observers, &cx, &self.view)
    }

    fn come(&mut self, nth: usize) -> Shift {
        let record = named(nth, Status::Up);
        let slot = self.view.insert(Arc::clone(&record), record.hash(), Peer::new(self.now));
        self.with(|observers, cx, view| observers.place_anew(cx, view, slot))
    }

    fn becomes(&mut self, slot: Slot, status: Status) -> Shift {
        let record = Arc::new(self.view.record(slot).with_status(status));
        self.view.replace(slot, Arc::clone(&record), record.hash(), None);
        self.with(|observers, cx, view| observers.place_anew(cx, view, slot))
    }

    fn observed(&self) -> BTreeSet<Slot> {
        self.observers.neighbours().collect()
    }
}

#[test]
fn among_few_all_observe_each_other_and_who_is_down_is_let_go() {
    let mut world = World::new(WANTED - 1);
    let came = world.come(WANTED);
    assert_eq!((came.started, came.stopped), (vec![(slot_at(WANTED), None)], vec![]));
    assert_eq!(world.observed(), (1..=WANTED).map(slot_at).collect());
    let fell = world.becomes(slot_at(2), Status::Down);
    assert_eq!((fell.started, fell.stopped), (vec![], vec![slot_at(2)]));
    let suspected = world.becomes(slot_at(1), Status::Suspect);
    assert!(suspected.started.is_empty() && suspected.stopped.is_empty(), "a suspect is live");
    assert!(!world.observers.observes(slot_at(2)) && world.observers.observes(slot_at(1)));
}

#[test]
fn among_many_about_as_many_are_observed_as_are_wanted_and_both_sides_compute_the_same() {
    let world = World::new(60);
    let observed = world.observed();
    assert!((WANTED - 1..=WANTED + 1).contains(&observed.len()), "{observed:?}");
    for nth in 1..=60 {
        let theirs = World::of(nth, (0..=60).filter(|other| *other != nth));
        let name_of = |world: &World, slot: Slot| world.view.record(slot).id.clone();
        let observed: BTreeSet<NodeId> = theirs.observed().into_iter().map(|slot| name_of(&theirs, slot)).collect();
        let told =
            world.observers.observers_of(&world.view, slot_at(nth)).into_iter().map(|slot| name_of(&world, slot));
        let me = world.observers.observes(slot_at(nth)).then(|| name_of(&world, View::ME));
        assert_eq!(
            told.chain(me).collect::<BTreeSet<_>>(),
            observed,
            "n{nth}: its observers are those that it observes"
        );
    }
}

#[test]
fn a_member_that_is_far_on_every_ring_changes_nothing_and_a_neighbours_place_is_taken() {
    let mut world = World::new(60);
    let before = world.observed();
    let far = (1..=60).map(slot_at).find(|slot| !before.contains(slot)).expect("most are far");
    assert_eq!(world.becomes(far, Status::Down), Shift::default());
    let near = *before.first().expect("neighbours");
    let shift = world.becomes(near, Status::Down);
    assert_eq!(shift.stopped, [near]);
    assert!(!shift.started.is_empty() && shift.started.iter().all(|(slot, lived)| *slot != near && lived.is_none()));
}

#[test]
fn displaced_neighbours_of_more_than_a_moment_are_kept_for_a_while_and_not_by_a_joiner() {
    for is_up in [true, false] {
        let mut world = World::new(20);
        world.is_up = is_up;
        world.now = world.now + KEEP_AFTER;
        let before = world.observed();
        (21..=200).for_each(|nth| _ = world.come(nth));
        let kept = before.intersection(&world.observed()).count();
        let on_rings: BTreeSet<Slot> = world.observers.nearest().collect();
        assert!(on_rings.intersection(&before).count() < before.len(), "others took places");
        assert_eq!(kept == before.len(), is_up, "{kept} of {}", before.len());
        world.now = world.now + KEEP_FOR;
        _ = world.with(Observers::release);
        assert_eq!(world.observed(), on_rings);
    }
}

#[test]
fn displaced_neighbours_go_at_once_when_their_successors_have_links() {
    let mut world = World::new(20);
    world.now = world.now + KEEP_AFTER;
    (21..=200).for_each(|nth| _ = world.come(nth));
    let on_rings: BTreeSet<Slot> = world.observers.nearest().collect();
    assert!(world.observed().len() > on_rings.len());
    world.now = world.now + Duration::from_secs(2);
    let waits = world.with(|observers, cx, view| observers.review(cx, view, |_| false));
    assert!(waits.started.is_empty() && waits.stopped.is_empty());
    world.now = world.now + Duration::from_secs(2);
    let let_go = world.with(|observers, cx, view| observers.review(cx, view, |_| true));
    assert!(!let_go.stopped.is_empty() && let_go.started.is_empty());
    assert_eq!(world.observed(), on_rings);
}

#[test]
fn who_was_brought_in_is_observed_for_a_while_wherever_it_is_on_the_rings() {
    let mut world = World::new(60);
    let far = (1..=60).map(slot_at).find(|slot| !world.observers.observes(*slot)).expect("most are far");
    let shift = world.with(|observers, cx, view| observers.observe_besides(cx, view, far));
    assert_eq!(shift.started, [(far, None)]);
    assert!(world.observers.is_brought_in(far));
    assert!(!world.observers.would_have_heard(world.now + KEEP_FOR, far, Duration::ZERO), "it need not observe us");
    world.now = world.now + RECENT_MEMBER_WATCH;
    let shift = world.with(Observers::release);
    assert_eq!(shift.stopped, [far]);
}

#[test]
fn an_unresponsive_neighbour_is_walked_past_and_those_behind_it_are_asked_once() {
    let mut world = World::new(60);
    let unresponsive = BTreeSet::from([*world.observed().first().expect("neighbours")]);
    world.now = at(10_000);
    let pause = Duration::from_millis(100);
    assert_eq!(world.observers.step_at(world.now, 0, pause), None, "nobody that is observed");
    let walk = |world: &mut World, unresponsive: &BTreeSet<Slot>| {
        world.observers.walk(&world.context(), &world.view, unresponsive.clone(), pause, |_| true)
    };
    let first = walk(&mut world, &unresponsive);
    let asked: BTreeSet<Slot> = first.asked.iter().map(|(slot, _)| *slot).collect();
    let started: BTreeSet<Slot> = first.shift.started.iter().map(|(slot, _)| *slot).collect();
    assert!(!asked.is_empty() && asked.is_disjoint(&unresponsive));
    assert!(!started.is_empty() && started.is_subset(&asked), "who is taken over is asked");
    assert!(first.asked.iter().any(|(_, is_behind_crashed)| *is_behind_crashed));
    assert_eq!(first.shift.walk_at, Some(world.now + pause), "nobody has answered yet");
    let dates = first.shift.started.iter().map(|(_, lived)| *lived);
    assert!(dates.into_iter().all(|lived| lived == Some(at(0))), "as long ago as the unresponsive one was heard");
    world.now = world.now + pause;
    let again = walk(&mut world, &unresponsive);
    assert!(!again.asked.is_empty(), "the walk goes on");
    assert!(again.asked.iter().all(|(slot, _)| !asked.contains(slot)), "nobody is asked twice");
    // It responds again: those behind it are left alone.
    let over = walk(&mut world, &BTreeSet::new());
    assert!(over.asked.is_empty() && over.shift.started.is_empty() && !over.shift.stopped.is_empty());
    assert!(!world.observers.walk.is_on());
}
