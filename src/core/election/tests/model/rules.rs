//! The rules of the model: what may happen in a world, and what must hold in it.

use super::world::{Event, World, id};
use super::*;

/// The sights reached, in one history or in any of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is reached by itself")]
pub(super) struct Reached {
    /// A claim.
    pub(super) claim: bool,
    /// Claims in two terms.
    pub(super) two_claimed_terms: bool,
    /// Somebody has accepted another electorate than the first one.
    pub(super) electorate_change: bool,
    /// Somebody is of another generation than the first one.
    pub(super) recovery: bool,
    /// Somebody that began without an electorate has one.
    pub(super) blank_voter: bool,
    /// A voter's electorate has ended.
    pub(super) ending: bool,
    /// An electorate is led above one that ended.
    pub(super) led_above: bool,
}

impl Reached {
    /// All that one electorate may come to.
    pub(super) const EVERYTHING: Self = Self {
        claim: true,
        two_claimed_terms: true,
        electorate_change: true,
        recovery: true,
        blank_voter: true,
        ending: false,
        led_above: false,
    };

    pub(super) fn or(self, other: Self) -> Self {
        Self {
            claim: self.claim || other.claim,
            two_claimed_terms: self.two_claimed_terms || other.two_claimed_terms,
            electorate_change: self.electorate_change || other.electorate_change,
            recovery: self.recovery || other.recovery,
            blank_voter: self.blank_voter || other.blank_voter,
            ending: self.ending || other.ending,
            led_above: self.led_above || other.led_above,
        }
    }
}

/// The rules of an exploration, and where it begins.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    pub(super) flaw: Option<Flaw>,
    pub(super) forgets_term: bool,
    /// Messages under way are kept in one order, whenever they were said: worlds that differ in nothing else are one.
    pub(super) is_sorted: bool,
    pub(super) begin: Vec<World>,
    pub(super) reached: Arc<Mutex<Reached>>,
}

fn hash_of(thing: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    hasher.finish()
}

impl Rules {
    pub(super) fn reached(&self) -> Reached {
        *self.reached.lock().expect("nobody panics with it")
    }
}

impl Model for Rules {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        self.begin.clone()
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        for at in 0..world.envelopes.len() {
            events.push(Event::Deliver(at));
            if world.repeats > 0 {
                events.push(Event::DeliverAndKeep(at));
            }
        }
        for (at, node) in world.nodes.iter().enumerate() {
            if !node.writing.is_empty() {
                events.push(Event::Stored(at));
            }
            if node.election.next_deadline(true).is_some_and(|deadline| deadline <= world.now) {
                events.push(Event::Wake(at));
            }
            if world.crashes > 0 {
                events.extend((0..=node.writing.len()).map(|kept| Event::Crash(at, kept)));
            }
            if world.resignations > 0 && node.claim.is_some() {
                events.push(Event::Resign(at));
            }
        }
        if world.revotes > 0 {
            let leaders = (0..world.nodes.len()).filter(|at| world.nodes[*at].claim.is_some());
            events.extend(leaders.flat_map(|at| (0..world.nodes.len()).map(move |whom| Event::Revote(at, whom))));
        }
        if world.recoveries > 0 {
            let pairs = (0..VOTERS).flat_map(|at| (0..VOTERS).map(move |with| (at, with)));
            events.extend(pairs.map(|(at, with)| Event::Recover(at, with)));
        }
        if world.hearings > 0 {
            let led = || world.led.keys();
            events.extend((0..world.nodes.len()).flat_map(|at| led().map(move |lineage| Event::Hear(at, *lineage))));
        }
        if world.steps > 0 {
            events.push(Event::TimeGoesOn);
        }
        if world.changes > 0 {
            events.push(Event::MembersChange);
        }
    }

    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::Deliver(at) => world.deliver(at, false),
            Event::DeliverAndKeep(at) => {
                world.repeats -= 1;
                world.deliver(at, true);
            }
            Event::Stored(node) => world.store(node),
            Event::Wake(node) => world.wake(node),
            Event::Crash(node, kept) => {
                world.crashes -= 1;
                world.crash(node, kept, self);
            }
            Event::TimeGoesOn => {
                world.steps -= 1;
                world.now = world.now + STEP;
            }
            Event::MembersChange => {
                world.changes -= 1;
                world.members.push(id(9 - usize::from(world.changes)));
                world.members.sort();
                for node in 0..world.nodes.len() {
                    world.with(node, Election::members_changed);
                }
            }
            Event::Revote(leader, whom) => {
                world.revotes -= 1;
                world.with(leader, |election, context| {
                    if election.electorate().is_some_and(|electorate| electorate.named(&id(whom)).is_some()) {
                        election.remove_voter(context, 1, &id(whom));
                    } else {
                        election.add_voter(context, 1, id(whom));
                    }
                });
            }
            Event::Recover(node, with) => {
                world.recoveries -= 1;
                let lineage = 1_000 + u64::from(world.recoveries);
                world.with(node, |election, context| election.recover(context, 2, vec![id(with)], lineage, None));
            }
            Event::Hear(node, lineage) => {
                world.hearings -= 1;
                world.hear(node, lineage);
            }
            Event::Resign(node) => {
                world.resignations -= 1;
                world.with(node, Election::resign);
            }
        }
        world.check();
        if self.is_sorted {
            world.envelopes.sort_by_cached_key(hash_of);
        }
        let mut reached = self.reached.lock().expect("nobody panics with it");
        *reached = reached.or(world.reached());
        drop(reached);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one valid claim", |_, world: &World| world.claims() <= 1),
            Property::always("at most one leader in a term", |_, world: &World| !world.has_two_leaders),
            Property::always("one agreed number has one content", |_, world: &World| !world.has_two_contents),
            Property::always("no electorate comes back", |_, world: &World| !world.has_come_back()),
            Property::always("what stands is led above what ended", |_, world: &World| !world.has_stayed_below()),
            Property::always("not all electorates end", |_, world: &World| !world.have_all_ended()),
            Property::always("terms never fall", |_, world: &World| !world.has_term_fallen),
        ]
    }
}
