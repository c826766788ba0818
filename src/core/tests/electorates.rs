//! Two electorates that were founded apart and meet in one cluster: the one that was founded earlier stands.

use std::collections::BTreeMap;

use super::claims::truth;
use super::electing::{SECOND, leader};
use super::net::{Net, address, id, ms};
use super::speaker::Speaker;
use headcount_core::election::{Alarm, Ballot, Descent, Digest, Lineage, Term, ViewRef};
use headcount_core::limits::{EARLIEST_FOUNDING, OTHER_ELECTORATE_MEMORY};
use headcount_core::wire::{LeaderClaim, Message};
use headcount_core::{Command, Notice, Output, Profile, Reply};

/// Two clusters of four nodes that do not know each other, of which the first three vote: that of `a0` was founded first.
struct Two {
    net: Net,
    first: [usize; 4],
    second: [usize; 4],
    /// The lineages of both electorates.
    lineages: [Lineage; 2],
}

impl Two {
    /// Returns them after so many changes of the leader in each.
    fn founded(profile: Profile, seed: u64, resignations: [u32; 2]) -> Self {
        let mut net = Net::new(profile);
        net.shuffle_losses(seed);
        net.lease = profile.lease_timing();
        let add = |net: &mut Net, letter: &str, host: usize, resignations: u32| {
            net.voters = (0..3).map(|nth| id(&format!("{letter}{nth}"))).collect();
            let nodes = [0, 1, 2, 3].map(|nth| net.add(&format!("{letter}{nth}"), host + nth, &[host]));
            let leads = |net: &Net| nodes.into_iter().find(|node| net.nodes[*node].core.leadership().is_me);
            for nth in 0..=resignations {
                net.run_until(SECOND * 60, "led", |net| leads(net).is_some());
                net.run(SECOND * 5);
                if nth < resignations {
                    net.command(leads(net).expect("led"), Command::Resign { ticket: 1, to: None });
                    net.run(ms(500));
                }
            }
            nodes
        };
        let first = add(&mut net, "a", 0, resignations[0]);
        let second = add(&mut net, "b", 20, resignations[1]);
        let lineage = |node: usize| founded(&net, node).expect("founded");
        let lineages = [lineage(first[0]), lineage(second[0])];
        Self { net, first, second, lineages }
    }

    fn leader_of(&self, nodes: [usize; 4]) -> Option<usize> {
        nodes.into_iter().find(|node| self.net.nodes[*node].core.leadership().is_me)
    }

    fn term_of(&self, nodes: [usize; 4]) -> Term {
        nodes.into_iter().map(|node| self.net.nodes[node].core.leadership().term).max().expect("four")
    }

    /// Tells a node of the second cluster of one of the first.
    fn meet(&mut self) {
        self.net.command(self.second[3], Command::Join { ticket: 9, addresses: vec![address(0)] });
    }

    /// Checks that the first electorate leads everybody above these terms, and that the voters of the second one keep that
    /// aside.
    #[track_caller]
    fn assert_one(&self, above: Term) {
        let (node, term) = leader(&self.net);
        assert!(
            founded(&self.net, node) == Some(self.lineages[0]) && term > above,
            "n{node} leads in {term} above {above}"
        );
        for node in self.second.into_iter().filter(|node| self.net.nodes[*node].stopped.is_none()) {
            assert_eq!(founded(&self.net, node), Some(self.lineages[0]), "n{node}");
            assert_eq!(self.net.nodes[node].core.other_electorate(), None, "n{node}");
        }
    }

    fn disk(&self, name: &str) -> &Ballot {
        &self.net.disks[name]
    }
}

/// Returns the lineage of the electorate that a node is sure of.
fn founded(net: &Net, node: usize) -> Option<Lineage> {
    Some(net.nodes[node].core.election()?.founded()?.lineage)
}

/// Returns true if a node said that its electorate has ended.
fn says_that_it_ended(net: &Net, node: usize) -> bool {
    let is_it = |notice: &Notice| matches!(notice, Notice::Election(Alarm::ElectorateEnded { .. }));
    net.nodes[node].notices.iter().any(is_it)
}

/// Checks that each node has shown growing terms, and one leader in each.
#[track_caller]
fn assert_terms_grow(net: &Net) {
    for (at, node) in net.nodes.iter().enumerate() {
        let (mut newest, mut leaders) = (Term(0), BTreeMap::new());
        for (_, said) in &node.leadership {
            if let Output::LeaderElected { leader, term } = said {
                let first = leaders.entry(*term).or_insert_with(|| leader.clone());
                assert!(*term >= newest && first == leader, "n{at} shows {leader:?} in {term}, and showed {first:?}");
                newest = *term;
            }
        }
    }
}

#[test]
fn of_two_that_meet_the_one_that_was_founded_earlier_stands_and_is_led_above_all_terms_of_the_other() {
    let terms = [[0, 0], [2, 0], [0, 2], [1, 1]];
    let worlds = [Profile::Local, Profile::Default].into_iter().flat_map(|profile| terms.map(|terms| (profile, terms)));
    for (seed, (profile, resignations)) in worlds.enumerate() {
        let mut two = Two::founded(profile, seed as u64, resignations);
        let (before, above) = (two.leader_of(two.first).expect("led"), two.term_of(two.second));
        let was_above = two.term_of(two.first) > above;
        two.meet();
        let interval = two.net.settings.gossip_interval;
        let first = two.first;
        let is_one = |net: &Net| {
            let leads = |node: &&usize| net.nodes[**node].core.leadership().is_me;
            let leads = first.iter().find(leads).map(|node| net.nodes[*node].core.leadership());
            leads.is_some_and(|led| {
                led.term > above && net.running().all(|node| node.core.leadership().leader == led.leader)
            })
        };
        let took = two.net.run_until(SECOND * 60, "one electorate", is_one);
        println!(
            "{profile:?} {resignations:?}: {took:?}, {:.1} intervals",
            took.as_secs_f64() / interval.as_secs_f64()
        );
        two.net.run(SECOND * 5);
        two.assert_one(above);
        assert!(!was_above || leader(&two.net).0 == before, "its leader need not be elected anew");
        for (nth, node) in two.second.into_iter().enumerate() {
            assert_eq!(says_that_it_ended(&two.net, node), nth < 3, "n{node}");
        }
        for nth in 0..3 {
            let ballot = two.disk(&format!("b{nth}"));
            let ended = ballot.ended.as_ref().expect("kept aside");
            assert_eq!((ended.electorate.lineage, ended.electorate.voters.len()), (two.lineages[1], 3));
            assert!(ballot.accepted.is_none() && ended.term <= above, "{ballot:?}");
        }
        let term = leader(&two.net).1;
        two.net.run(OTHER_ELECTORATE_MEMORY);
        assert_eq!(leader(&two.net).1, term, "and it stays so");
        assert!(two.net.running().all(|node| node.core.other_electorate().is_none()));
        assert_terms_grow(&two.net);
    }
}

#[test]
fn what_ended_stays_ended_through_restarts_and_a_ballot_from_before_ends_as_well() {
    let mut two = Two::founded(Profile::Local, 3, [0, 1]);
    let above = two.term_of(two.second);
    // One of the second electorate's voters is away while the two meet.
    let away = two.second[if two.leader_of(two.second) == Some(two.second[1]) { 2 } else { 1 }];
    let name = two.net.nodes[away].core.me().id.to_string();
    two.net.kill(away);
    two.meet();
    two.net.run(SECOND * 30);
    two.assert_one(above);
    two.net.voters = (0..3).map(|nth| id(&format!("b{nth}"))).collect();
    two.net.add(&name, 40, &[20]);
    two.net.run(SECOND * 10);
    assert_eq!(founded(&two.net, two.net.nodes.len() - 1), Some(two.lineages[0]));
    two.net.run(OTHER_ELECTORATE_MEMORY);
    two.assert_one(above);
    assert!(two.disk(&name).accepted.is_none() && two.disk(&name).ended.is_some(), "{:?}", two.disk(&name));
    // All of them start again, at once.
    let term = leader(&two.net).1;
    for nth in 0..3 {
        let name = format!("b{nth}");
        let running = (0..two.net.nodes.len())
            .rfind(|node| two.net.nodes[*node].core.me().id.as_str() == name && two.net.nodes[*node].stopped.is_none());
        two.net.kill(running.expect("it runs"));
        two.net.add(&name, 50 + nth, &[0, 50, 51, 52]);
    }
    two.net.run(SECOND * 30);
    assert_eq!(leader(&two.net).1, term);
    assert!((0..3).all(|nth| two.disk(&format!("b{nth}")).accepted.is_none()));
    assert_terms_grow(&two.net);
}

#[test]
fn a_voter_of_the_one_that_ended_may_be_voted_in_by_the_other() {
    let mut two = Two::founded(Profile::Local, 5, [0, 1]);
    let above = two.term_of(two.second);
    two.meet();
    two.net.run(SECOND * 30);
    two.assert_one(above);
    let (leads, _) = leader(&two.net);
    two.net.command(leads, Command::AddVoter { ticket: 3, id: id("b1") });
    two.net.run(SECOND * 10);
    assert!(
        matches!(two.net.nodes[leads].replies[..], [.., Reply::Electorate(_)]),
        "{:?}",
        two.net.nodes[leads].replies
    );
    assert!(two.net.nodes[two.second[1]].core.election().expect("takes part").is_voter());
}

#[test]
fn an_electorate_without_a_leader_ends_none_and_both_are_told_of_until_it_has_one() {
    let mut two = Two::founded(Profile::Local, 7, [0, 0]);
    for node in [two.first[1], two.first[2]] {
        two.net.kill(node);
    }
    two.net.run(SECOND * 10);
    let (led, above) = (two.leader_of(two.second).expect("led"), two.term_of(two.second));
    two.meet();
    two.net.run(SECOND * 30);
    assert_eq!(two.leader_of(two.second), Some(led), "whoever has only an old disk ends nothing");
    assert!(two.net.nodes[led].core.other_electorate().is_some_and(|other| other.leader.is_none()));
    let other = two.net.nodes[two.first[0]].core.other_electorate().expect("told");
    assert_eq!(other.leader.as_ref(), Some(&two.net.nodes[led].core.me().id));
    two.net.voters = (0..3).map(|nth| id(&format!("a{nth}"))).collect();
    two.net.add("a1", 1, &[0]);
    two.net.run(SECOND * 20);
    two.assert_one(above);
}

#[test]
fn the_word_of_a_leader_alone_whose_electorate_nobody_knows_stops_a_leader_for_a_while_and_ends_nothing() {
    let mut two = Two::founded(Profile::Local, 9, [0, 0]);
    let (before, term) = (two.leader_of(two.second).expect("led"), two.term_of(two.second));
    let descent = Descent { founded: EARLIEST_FOUNDING, lineage: Lineage(9), root: Lineage(9), began: Term(0) };
    let view = ViewRef { term: Term(7), number: 1, digest: Digest(1) };
    let claim = LeaderClaim { descent, term: Term(7), leader: Some(id("a9")), view, ..truth(&two.net, before) };
    let hearer = two.second.into_iter().find(|node| *node != before && *node != two.second[3]).expect("another");
    for node in [before, hearer] {
        Speaker::new(two.second[3]).says(&mut two.net, node, &[Message::LeaderClaim(Box::new(claim.clone()))]);
    }
    assert!(!two.net.nodes[before].core.leadership().is_me, "it stops at once");
    two.net.run(SECOND * 20);
    let leads = two.leader_of(two.second).expect("led again");
    assert!(two.net.nodes[leads].core.leadership().term > term);
    for node in two.second {
        assert_eq!(founded(&two.net, node), Some(two.lineages[1]), "n{node}");
        let told = two.net.nodes[node].core.leadership().leader;
        assert_eq!(told.as_ref(), Some(&two.net.nodes[leads].core.me().id), "n{node}");
    }
}
