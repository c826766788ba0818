//! Voters whose disks are lost: everybody knows that they do not vote, and that nobody can be elected without them.

use std::collections::BTreeSet;

use super::electing::{SECOND, cluster, leader};
use super::net::{Net, id, ms};
use headcount_core::election::Alarm;
use headcount_core::{Command, LeadershipState, Notice, Reply, Tags};

/// Ends a process, and starts it again with an empty disk; returns its new place.
fn wipe(net: &mut Net, node: usize, seed: usize) -> usize {
    let name = format!("n{node}");
    net.kill(node);
    net.disks.remove(&name);
    net.add(&name, node, &[seed])
}

/// Ends a process, and starts it again with its disk; returns its new place.
fn restart(net: &mut Net, node: usize, seed: usize) -> usize {
    net.kill(node);
    net.add(&format!("n{node}"), node, &[seed])
}

fn running(net: &Net) -> impl Iterator<Item = usize> + '_ {
    (0..net.nodes.len()).filter(|node| net.nodes[*node].stopped.is_none())
}

/// Returns the voters that a node knows to have lost their disks.
fn lost_at(net: &Net, node: usize) -> BTreeSet<String> {
    let standings = net.nodes[node].core.standings();
    let voters = standings.into_iter().flat_map(|standings| standings.voters);
    let lost = voters.filter(|standing| standing.has_lost_disk).map(|standing| {
        assert_ne!(standing.votes, Some(true), "at {node}: {standing:?}");
        standing.voter.id.to_string()
    });
    lost.collect()
}

#[track_caller]
fn assert_lost_everywhere(net: &Net, lost: &[&str]) {
    let lost: BTreeSet<String> = lost.iter().map(ToString::to_string).collect();
    for node in running(net) {
        assert_eq!(lost_at(net, node), lost, "at {node}: {}", net.describe());
    }
}

#[track_caller]
fn assert_states(net: &Net, state: LeadershipState) {
    let states: Vec<_> = running(net).map(|node| (node, net.nodes[node].core.leadership().state)).collect();
    assert!(states.iter().all(|(_, found)| *found == state), "{states:?}");
}

#[test]
fn once_most_voters_lost_their_disks_everybody_knows_which_and_that_nobody_can_lead_until_a_recovery() {
    for seed in 0..4 {
        let mut net = cluster(5, 3);
        net.shuffle_losses(seed);
        let (_, term) = leader(&net);
        for node in 0..2 {
            wipe(&mut net, node, 3);
        }
        net.run(SECOND * 20);
        assert_lost_everywhere(&net, &["n0", "n1"]);
        // Not "vacant", which an election ends.
        assert_states(&net, LeadershipState::Unavailable);
        net.command(2, Command::Recover { ticket: 1, voters: ["n0", "n1", "n2"].map(id).into() });
        net.run(SECOND * 20);
        assert!(matches!(net.nodes[2].replies[..], [Reply::Electorate(_)]), "{:?}", net.nodes[2].replies);
        assert!(leader(&net).1 > term);
        assert_lost_everywhere(&net, &[]);
    }
}

#[test]
fn all_know_of_lost_disks_also_where_nobody_has_heard_of_a_leader_since_it_started() {
    for seed in 0..4 {
        let mut net = cluster(3, 3);
        net.shuffle_losses(seed);
        (0..3).for_each(|node| net.kill(node));
        net.run(SECOND);
        restart(&mut net, 0, 1);
        for node in 1..3 {
            wipe(&mut net, node, 0);
        }
        net.run(SECOND * 40);
        assert_lost_everywhere(&net, &["n1", "n2"]);
        assert_states(&net, LeadershipState::Unavailable);
    }
}

#[test]
fn after_the_last_voter_lost_its_disk_those_that_live_on_know_that_none_is_left() {
    let mut net = cluster(5, 3);
    for node in 0..3 {
        wipe(&mut net, node, 3);
    }
    net.run(SECOND * 20);
    assert_lost_everywhere(&net, &["n0", "n1", "n2"]);
    assert_states(&net, LeadershipState::Unavailable);
    net.command(4, Command::FoundAnew { ticket: 1, voters: ["n0", "n1", "n2"].map(id).into() });
    net.run(SECOND * 20);
    leader(&net);
    assert_lost_everywhere(&net, &[]);
}

#[test]
fn a_voter_that_lost_its_disk_beside_a_leader_is_known_as_such_until_it_votes_again() {
    let mut net = cluster(5, 3);
    let (first, _) = leader(&net);
    let lost = (0..3).find(|node| *node != first).expect("three");
    let name = format!("n{lost}");
    let blank = wipe(&mut net, lost, 3);
    net.run(SECOND * 10);
    let (first, _) = leader(&net);
    assert_lost_everywhere(&net, &[&name]);
    // Other tags take nothing from that.
    net.command(blank, Command::SetTags { ticket: 9, tags: Tags::default() });
    net.run(SECOND);
    assert_lost_everywhere(&net, &[&name]);
    net.command(first, Command::RemoveVoter { ticket: 1, id: id(&name) });
    net.run(SECOND * 3);
    assert_lost_everywhere(&net, &[]);
    net.command(first, Command::AddVoter { ticket: 2, id: id(&name) });
    net.run(SECOND * 5);
    let answers = &net.nodes[first].replies;
    assert!(matches!(answers[..], [Reply::Electorate(_), Reply::Electorate(_)]), "{answers:?}");
    assert_lost_everywhere(&net, &[]);
    leader(&net);
}

#[test]
fn a_voter_whose_disk_refuses_its_ballot_is_known_to_all_until_it_votes_again() {
    let mut net = cluster(5, 3);
    let (first, term) = leader(&net);
    let full = (0..3).find(|node| *node != first).expect("three");
    let assert_aside = |net: &Net, aside: &[String]| {
        for node in running(net) {
            let standings = net.nodes[node].core.standings().expect("all know of the voters");
            let found = standings.voters.iter().filter(|standing| standing.is_aside);
            assert_eq!(found.map(|standing| standing.voter.id.to_string()).collect::<Vec<_>>(), aside, "at {node}");
        }
    };
    net.full_disks.insert(full, None);
    // Something is to be written: a view without one that leaves.
    net.command(4, Command::Leave);
    net.run(SECOND * 5);
    assert_aside(&net, &[format!("n{full}")]);
    let standings = net.nodes[first].core.standings().expect("it leads");
    assert_eq!(standings.failure_tolerance(net.nodes[first].core.now()), Some(0));
    net.kill(first);
    net.run(SECOND * 20);
    assert_eq!(net.nodes[3].core.leadership().state, LeadershipState::Unavailable, "of three one can elect");
    net.free_disk(full);
    net.run(SECOND * 10);
    assert_aside(&net, &[]);
    assert!(leader(&net).1 > term);
}

#[test]
fn a_voter_without_its_disk_is_none_of_those_that_may_lead_while_others_drain() {
    let mut net = cluster(5, 3);
    let (first, _) = leader(&net);
    let [lost, other] = (0..3).filter(|node| *node != first).collect::<Vec<_>>()[..] else { panic!("two") };
    wipe(&mut net, lost, 3);
    net.run(SECOND * 10);
    assert_lost_everywhere(&net, &[&format!("n{lost}")]);
    let all_drain = Notice::Election(Alarm::AllDrain);
    for (node, may_lead) in [(other, 1), (first, 0)] {
        assert!(net.running().all(|node| !node.notices.contains(&all_drain)), "one is left");
        net.command(node, Command::Drain { ticket: 1, is_draining: true });
        net.run(SECOND * 3);
        assert_eq!(net.nodes[node].replies, [Reply::Draining { may_lead: Some(may_lead) }]);
    }
    for node in net.running() {
        assert!(node.notices.contains(&all_drain), "{}: {:?}", node.core.me().id, node.notices);
    }
}

#[test]
fn a_voter_that_has_its_disk_never_says_that_it_is_lost_however_voters_come_and_go() {
    let mut net = cluster(5, 3);
    let watch = |net: &mut Net| {
        for _ in 0..500 {
            net.run(ms(20));
            assert_lost_everywhere(net, &[]);
        }
    };
    net.command(3, Command::AddVoter { ticket: 1, id: id("n3") });
    watch(&mut net);
    net.command(4, Command::RemoveVoter { ticket: 2, id: id("n0") });
    watch(&mut net);
    let at = restart(&mut net, 1, 3);
    watch(&mut net);
    net.command(at, Command::AddVoter { ticket: 3, id: id("n0") });
    watch(&mut net);
    leader(&net);
}

#[test]
fn a_leader_counts_no_voter_that_has_died_left_or_lost_its_disk_although_it_acknowledged_a_moment_ago() {
    for how in ["dies", "leaves", "loses its disk"] {
        let mut net = cluster(5, 3);
        let (first, _) = leader(&net);
        let gone = (0..3).find(|node| *node != first).expect("three");
        let name = format!("n{gone}");
        match how {
            "dies" => net.kill(gone),
            "leaves" => net.command(gone, Command::Leave),
            _ => drop(wipe(&mut net, gone, 3)),
        }
        let standing_of_it = |net: &Net| {
            let standings = net.nodes[first].core.standings().expect("it votes");
            assert!(standings.are_heard, "it leads");
            let now = net.nodes[first].core.now();
            let voter = standings.voters.iter().find(|standing| standing.voter.id.as_str() == name).expect("a voter");
            (standings.votes(voter, now), standings.failure_tolerance(now), voter.acknowledged)
        };
        let is_known = |net: &Net| {
            let core = &net.nodes[first].core;
            !core.record(&id(&name)).is_some_and(|record| record.status.is_live())
                || lost_at(net, first).contains(&name)
        };
        while !is_known(&net) {
            net.run(ms(1));
        }
        let (voted, tolerance, acknowledged) = standing_of_it(&net);
        assert_eq!((voted, tolerance), (Some(false), Some(0)), "{how}: {acknowledged:?}");
    }
}
