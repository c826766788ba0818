//! Two electorates that were founded apart and meet in one cluster: the one that was founded earlier stands.

use std::collections::BTreeMap;

use super::claims::truth;
use super::electing::{SECOND, cluster, leader};
use super::net::{Net, address, id, ms};
use super::speaker::Speaker;
use headcount_core::election::{
    Alarm, Ballot, Descent, Digest, Electorate, Identity, Lineage, NumberedView, Term, ViewRef, Voter,
};
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
        let first = found(&mut net, "a", 0, resignations[0]);
        let second = found(&mut net, "b", 20, resignations[1]);
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

/// Founds a cluster of four nodes, and has its leader changed so many times.
fn found(net: &mut Net, letter: &str, host: usize, resignations: u32) -> [usize; 4] {
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
}

/// Cuts all nodes of one side from all of the other, or heals the cut.
fn cut(net: &mut Net, ones: &[usize], others: &[usize], is_cut: bool) {
    for (one, other) in ones.iter().flat_map(|one| others.iter().map(move |other| (*one, *other))) {
        net.cut(one, other, is_cut);
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
        println!("{profile:?} {resignations:?}: {took:?}");
        assert!(took <= interval * 2, "{profile:?} {resignations:?}: {took:?}");
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

#[test]
fn of_three_that_meet_at_once_one_is_left() {
    let mut two = Two::founded(Profile::Local, 15, [0, 1]);
    let third = found(&mut two.net, "c", 40, 2);
    let above = two.term_of(two.second).max(two.term_of(third));
    two.meet();
    two.net.command(two.second[0], Command::Join { ticket: 8, addresses: vec![address(40)] });
    two.net.run(SECOND * 20 + OTHER_ELECTORATE_MEMORY);
    two.assert_one(above);
    assert!(third.into_iter().all(|node| founded(&two.net, node) == Some(two.lineages[0])));
    assert_terms_grow(&two.net);
}

#[test]
fn who_went_over_and_was_parted_at_once_begins_a_generation_that_its_side_follows_and_then_all() {
    let mut two = Two::founded(Profile::Local, 11, [0, 1]);
    let led = two.leader_of(two.second).expect("led");
    let voter = two.second[..3].iter().copied().find(|node| *node != led).expect("another");
    let gone = [voter, two.second[3]];
    let rest: Vec<usize> = two.second.into_iter().filter(|node| !gone.contains(node)).collect();
    cut(&mut two.net, &[two.first.as_slice(), &gone].concat(), &rest, true);
    two.meet();
    let lineages = two.lineages;
    two.net
        .run_until(SECOND * 10, "two go over", |net| gone.iter().all(|node| founded(net, *node) == Some(lineages[0])));
    cut(&mut two.net, &two.first, &gone, true);
    two.net.run(SECOND * 5);
    cut(&mut two.net, &gone, &rest, false);
    two.net.run(SECOND * 20);
    assert_eq!(two.leader_of(two.second), Some(led), "a majority is left");
    assert!(gone.iter().all(|node| two.net.nodes[*node].core.leadership().leader.is_none()));
    let voters = (0..3).map(|nth| id(&format!("b{nth}"))).collect();
    two.net.nodes[gone[1]].replies.clear();
    two.net.command(gone[1], Command::FoundAnew { ticket: 4, voters });
    two.net.run(SECOND * 30);
    let replies = &two.net.nodes[gone[1]].replies;
    assert!(matches!(replies[..], [Reply::Electorate(_)]), "{replies:?}");
    let leads = two.leader_of(two.second).expect("led");
    let name = two.net.nodes[leads].core.me().id.clone();
    for node in two.second {
        let told = two.net.nodes[node].core.leadership();
        assert!(told.leader.as_ref() == Some(&name) && told.term.generation() == 1, "n{node}: {told:?}");
    }
    cut(&mut two.net, &two.first, &two.second, false);
    two.net.run(SECOND * 30);
    assert!(leader(&two.net).1.generation() == 1, "an operator began it");
    assert_terms_grow(&two.net);
}

#[test]
fn claims_that_come_late_end_no_electorate_for_one_that_nobody_leads_any_more() {
    let mut two = Two::founded(Profile::Local, 13, [0, 0]);
    let late = truth(&two.net, two.leader_of(two.first).expect("led"));
    for node in [two.first[1], two.first[2]] {
        two.net.kill(node);
    }
    two.net.run(SECOND * 10);
    two.meet();
    two.net.run(SECOND * 5);
    for nth in 0..50 {
        for node in two.second {
            Speaker::new(two.first[3]).says(&mut two.net, node, &[Message::LeaderClaim(Box::new(late.clone()))]);
        }
        assert!(nth > 0 || two.leader_of(two.second).is_none(), "it stops at once");
        two.net.run(ms(20));
    }
    two.net.run(SECOND * 20);
    assert!(two.leader_of(two.second).is_some(), "and one of them leads again");
    for (nth, node) in two.second.into_iter().enumerate() {
        assert_eq!(founded(&two.net, node), Some(two.lineages[1]), "n{node}");
        assert!(nth == 3 || two.disk(&format!("b{nth}")).accepted.is_some(), "n{node}");
    }
}

#[test]
fn a_generation_that_nobody_leads_ends_no_majority_that_lives_until_somebody_does() {
    let mut net = cluster(5, 3);
    let (lonely, rest) = ([0, 3], [1, 2, 4]);
    cut(&mut net, &lonely, &rest, true);
    net.run(SECOND * 5);
    net.command(0, Command::Recover { ticket: 1, voters: Vec::new() });
    net.run_until(SECOND * 30, "it leads alone", |net| net.nodes[3].core.leadership().term.generation() == 1);
    net.run(SECOND * 5);
    net.kill(0);
    net.run(SECOND * 5);
    cut(&mut net, &lonely, &rest, false);
    net.run(SECOND * 30);
    let leads = [1, 2].into_iter().find(|node| net.nodes[*node].core.leadership().is_me).expect("led");
    assert_eq!(net.nodes[4].core.leadership().leader, Some(net.nodes[leads].core.me().id.clone()));
    assert!([1, 2].into_iter().all(|node| net.disks[&format!("n{node}")].accepted.is_some()));
    let back = net.add("n0", 0, &[3]);
    net.run(SECOND * 30);
    assert_eq!(leader(&net).0, back, "what an operator began stands");
}

#[test]
fn a_founder_that_told_nobody_of_its_electorate_goes_over_to_the_one_that_was_formed_without_it() {
    let mut net = cluster(4, 3);
    let voters = ["x", "y", "z"].into_iter().zip(7..).map(|(name, of)| Voter { id: id(name), identity: Identity(of) });
    let forgotten = NumberedView::founding(Electorate::founded_by(voters.collect(), EARLIEST_FOUNDING));
    net.disks.insert("x".to_owned(), Ballot { accepted: Some(forgotten), ..Ballot::blank(Identity(7)) });
    let founder = net.add("x", 30, &[0]);
    net.run(SECOND * 10);
    leader(&net);
    assert_eq!(founded(&net, founder), founded(&net, 0));
    assert!(net.disks["x"].accepted.is_none() && net.disks["x"].ended.is_some());
}
