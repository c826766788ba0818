//! Long histories of random inputs: nothing is left open, no state is without a deadline that needs one, the bounds hold.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// The machine, and the world as its actions have made it.
#[derive(Debug, Default)]
struct World {
    links: Links,
    /// The connections that are not over.
    alive: BTreeSet<LinkId>,
    /// The members whose deadline is set.
    planned: BTreeSet<Run>,
    accepted: u64,
}

impl World {
    fn act(&mut self, run: Run, actions: &[Action]) {
        for action in actions {
            match *action {
                Action::Open(link, _) => assert!(self.alive.insert(link), "a number is never used again"),
                Action::Greet(link) | Action::Welcome(link) => {
                    assert!(self.alive.contains(&link), "nobody hears {link:?}");
                }
                Action::Part(link, _) | Action::Close(link) => assert!(self.alive.remove(&link), "{link:?} is over"),
                Action::Wait(_) | Action::WaitAtMost(_) => drop(self.planned.insert(run)),
                Action::Rest => drop(self.planned.remove(&run)),
                _ => {}
            }
        }
    }

    fn step(&mut self, now: Time, run: Run, kind: u8, wish: Wish, is_ours: bool) {
        let facts = LinkFacts { wish, address: address(run), is_ours };
        let links = &mut self.links;
        let link = self.alive.iter().copied().find(|link| links.run_of(*link) == Some(run));
        let actions = match (kind, link) {
            (0, _) => links.unwanted(run),
            (1, _) => links.ensure(run, address(run)),
            (2, _) if self.planned.remove(&run) => links.due(run, Some(facts)),
            (3, Some(link)) => links.connected(run, link),
            (4, Some(_)) => links.spoke(now, run, wish),
            (5..=8, Some(link)) => {
                self.alive.remove(&link);
                match kind {
                    5 => links.refused(run),
                    6 => links.unreachable(run),
                    _ => links.closed(now, run, Some(facts)),
                }
            }
            (9, Some(link)) => links.unlinked(run, link),
            (10, Some(link)) => links.garbled(run, link),
            (11, Some(link)) => links.denied(run, link),
            (12, _) => links.forget(run),
            (13, _) => links.moved(run, Parting::TheyMoved, facts, is_ours),
            (14, _) => links.silent(now, run, address(run), Time::ORIGIN, SECOND),
            (15..=16, _) => {
                self.accepted += 1;
                let link = LinkId::Accepted(self.accepted);
                self.alive.insert(link);
                let actions = links.accept(now, run, link, facts);
                assert_eq!(actions.contains(&Action::Welcome(link)), links.open(run) == Some(link));
                actions
            }
            _ => Vec::new(),
        };
        self.act(run, &actions);
    }

    fn check(&self) {
        for link in &self.alive {
            assert!(self.links.run_of(*link).is_some(), "{link:?} is a member's, and not forgotten");
        }
        for run in self.links.members() {
            let is_on_its_way = !self.links.is_idle(run) && self.links.open(run).is_none();
            assert!(!is_on_its_way || self.planned.contains(&run), "an attempt is given up some day: {run}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_connection_ends_once_and_every_attempt_has_a_deadline(
        steps in prop::collection::vec((0..5u64, 0..17u8, 0..4u8, any::<bool>()), 0..300),
    ) {
        let mut world = World::default();
        for (second, (run, kind, wish, is_ours)) in steps.into_iter().enumerate() {
            let wish = [Wish::Observed, Wish::Passing, Wish::Theirs, Wish::Nobody][usize::from(wish)];
            world.step(at(second as u64), Run(run), kind, wish, is_ours);
            world.check();
        }
        for run in (0..5).map(Run) {
            let forgotten = world.links.forget(run);
            world.act(run, &forgotten);
        }
        prop_assert!(world.alive.is_empty() && world.links.size() == 0, "{:?}", world);
    }
}
