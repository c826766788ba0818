//! Commands that are given while nobody leads: the next leader is waited for, for a while.

use super::*;
use headcount_core::Status;
use headcount_core::limits::SUCCESSION_SHARE;

/// The ways in which a leader goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    VotedOut,
    Resigned,
    Left,
    Removed,
    Killed,
}

/// Has the leader of five voters go, and gives the command at a node so long after; returns the replies to it.
fn replies_after(going: Going, at: usize, after: u64) -> Vec<Result<usize, CommandError>> {
    let mut net = cluster(9, 5);
    net.run(SECOND);
    let (first, _) = leader(&net);
    let name = id(&format!("n{first}"));
    // Nodes are counted on from the leader; the last three do not vote, and one of them gives the command that ends it.
    let node = if at < 4 { (first + 1 + at) % 5 } else { at + 1 };
    match going {
        Going::VotedOut => net.command(8, Command::RemoveVoter { ticket: 7, id: name }),
        Going::Resigned => net.command(first, Command::Resign { ticket: 7, to: None }),
        Going::Left => net.command(first, Command::Leave),
        Going::Removed => net.command(8, Command::Remove { ticket: 7, id: name, force: true }),
        Going::Killed => net.kill(first),
    }
    if going == Going::VotedOut {
        // Another change meanwhile is refused as such.
        net.run_until(SECOND, "it is voted out", |net| !net.nodes[8].replies.is_empty());
    }
    net.run(ms(after));
    net.nodes[node].replies.clear();
    net.command(node, add("n7"));
    net.run(FORWARD_TIMEOUT + SECOND);
    replies(&net, node)
}

#[test]
fn a_command_right_after_the_leader_went_is_carried_out_by_the_next_one_at_whatever_node_it_was_given() {
    for going in [Going::VotedOut, Going::Resigned, Going::Left] {
        for (at, after) in (0..6).flat_map(|at| [0, 1, 3, 6, 25, 100].map(|after| (at, after))) {
            let all = replies_after(going, at, after);
            assert!(matches!(all[..], [Ok(5 | 6)]), "{going:?}, {after} ms, at {at}: {all:?}");
        }
    }
}

#[test]
fn a_command_after_the_leader_died_is_never_refused_for_want_of_a_leader() {
    for going in [Going::Removed, Going::Killed] {
        let times = [0, 100, 1_000, 1_800, 1_950, 2_000, 2_050, 2_200];
        for (at, after) in (0..6).flat_map(|at| times.map(|after| (at, after))) {
            let all = replies_after(going, at, after);
            let unknown = CommandError::Electorate(ChangeError::Interrupted);
            let is_good = matches!(all[..], [Ok(6)]) || all == [Err(unknown)];
            assert!(is_good, "{going:?}, {after} ms, at {at}: {all:?}");
        }
    }
}

#[test]
fn nobody_is_waited_for_longer_than_a_third_of_a_lease_and_nobody_at_all_where_too_few_voters_are_left() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    // Voters that all drain elect nobody, and could.
    for node in 0..3 {
        net.command(node, Command::Drain { ticket: 8, is_draining: true });
    }
    net.run(SECOND * 4);
    let wait = net.lease.lease_duration / SUCCESSION_SHARE;
    for (ticket, node) in [LEARNER, first].into_iter().enumerate() {
        assert!(net.nodes[node].core.leadership().leader.is_none());
        net.nodes[node].replies.clear();
        net.command(node, Command::AddVoter { ticket: ticket as u64, id: id("n5") });
        net.run(wait - ms(1));
        assert_eq!(replies(&net, node), [], "n{node}");
        net.run(ms(2));
        assert_eq!(replies(&net, node), [Err(NOT_LEADER)], "n{node}");
        // Where nobody leads, nobody resigns: there is nothing to wait for.
        net.command(node, Command::Resign { ticket: 9, to: None });
        assert_eq!(replies(&net, node), [Err(NOT_LEADER), Err(NOT_LEADER)], "n{node}");
    }
    for node in (0..3).filter(|node| *node != first) {
        net.kill(node);
    }
    let is_gone =
        |net: &Net| (0..3).filter(|node| net.status(LEARNER, &format!("n{node}")) == Some(Status::Down)).count() == 2;
    net.run_until(SECOND * 10, "they are down", is_gone);
    net.nodes[LEARNER].replies.clear();
    net.command(LEARNER, add("n5"));
    assert_eq!(replies(&net, LEARNER), [Err(NOT_LEADER)]);
}

#[test]
fn a_resignation_that_is_asked_of_a_dead_leader_is_over_when_the_next_one_leads() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(first);
    let is_down = |net: &Net| net.status(LEARNER, &format!("n{first}")) == Some(Status::Down);
    net.run_until(SECOND * 2, "it is down", is_down);
    assert!(net.nodes[LEARNER].core.leadership().leader.is_some(), "its lease lasts");
    net.command(LEARNER, Command::Resign { ticket: 9, to: None });
    net.run(SECOND * 3);
    assert_eq!(replies(&net, LEARNER), [Ok(3)]);
}
