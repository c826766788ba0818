//! Commands that reach the leader from any node, and what becomes of them when something is lost or dies.

use super::*;

#[test]
fn voters_are_added_and_removed_at_any_node() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    let follower = (first + 1) % 3;
    for (node, command, expected) in [(LEARNER, add("n5"), 4), (follower, remove("n5"), 3), (5, add("n3"), 4)] {
        net.command(node, command);
        net.run(SECOND);
        assert_eq!(replies(&net, node).pop(), Some(Ok(expected)), "n{node}");
        assert!(net.nodes.iter().all(|node| node.core.electorate().expect("known").voters.len() == expected));
    }
    // A refusal of the leader is given as the leader says it.
    net.command(LEARNER, add("n3"));
    net.command(follower, remove("n5"));
    net.run(SECOND);
    let refused = |error| Some(Err(CommandError::Electorate(error)));
    let votes_already = ChangeError::NoChange { reason: Unchanged::VotesAlready };
    assert_eq!(replies(&net, LEARNER).pop(), refused(votes_already));
    assert_eq!(replies(&net, follower).pop(), refused(ChangeError::NoSuchVoter { id: id("n5") }));
}

#[test]
fn a_voter_of_a_name_that_no_member_has_is_said_to_be_unknown_at_once() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    let old = format!("n{}", (first + 1) % 3);
    let unknown = Some(Err(CommandError::Electorate(ChangeError::NoMember { id: id("nobody") })));
    for node in [first, LEARNER] {
        for command in [add("nobody"), Command::ReplaceVoter { ticket: 3, old: id(&old), new: id("nobody") }] {
            net.command(node, command);
            net.run(ms(300));
            assert_eq!(replies(&net, node).pop(), unknown, "n{node}");
        }
    }
    assert_eq!(voters(&net, first).len(), 3);
}

#[test]
fn a_voter_is_replaced_by_a_command_at_any_node_although_the_leader_dies_meanwhile() {
    for die_after in [None, Some(0), Some(30), Some(300)] {
        let mut net = cluster(6, 3);
        let (before, _) = leader(&net);
        let old = format!("n{}", (before + 1) % 3);
        net.command(LEARNER, Command::ReplaceVoter { ticket: 3, old: id(&old), new: id("n5") });
        if let Some(after) = die_after {
            net.run(ms(after));
            net.kill(before);
        }
        net.run_until(FORWARD_TIMEOUT + SECOND, "an answer", |net| !net.nodes[LEARNER].replies.is_empty());
        let lost = CommandError::Electorate(ChangeError::Interrupted);
        match &replies(&net, LEARNER)[..] {
            [Ok(3)] => {}
            [Err(CommandError::Electorate(ChangeError::LeaderSilent { .. }))] if die_after.is_some() => {}
            [Err(error)] if die_after.is_some() && *error == lost => {}
            other => panic!("{other:?}"),
        }
        // Whatever has become of it, the command may be given again.
        net.run(SECOND * 10);
        net.nodes[LEARNER].replies.clear();
        net.command(LEARNER, Command::ReplaceVoter { ticket: 4, old: id(&old), new: id("n5") });
        net.run_until(FORWARD_TIMEOUT + SECOND, "an answer", |net| !net.nodes[LEARNER].replies.is_empty());
        assert_eq!(replies(&net, LEARNER), [Ok(3)], "{die_after:?}");
        assert!(voters(&net, LEARNER).contains(&"n5".to_owned()) && !voters(&net, LEARNER).contains(&old));
    }
}

#[test]
fn the_leader_may_be_voted_out_at_another_node() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.command(LEARNER, remove(&format!("n{first}")));
    net.run(SECOND * 3);
    assert_eq!(replies(&net, LEARNER), [Ok(2)]);
    assert_ne!(leader(&net).0, first);
}

#[test]
fn a_question_that_gets_lost_is_asked_again() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    let before = number(&net, first);
    net.cut(LEARNER, first, true);
    net.command(LEARNER, add("n5"));
    net.run(FORWARD_RETRY * 3);
    assert_eq!(voters(&net, first).len(), 3);
    net.cut(LEARNER, first, false);
    net.run(FORWARD_RETRY * 2);
    assert_eq!((replies(&net, LEARNER), number(&net, first)), (vec![Ok(4)], before + 1));
}

#[test]
fn an_answer_that_gets_lost_is_said_again_and_the_command_is_carried_out_once() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    let before = number(&net, first);
    net.cut_one_way(first, LEARNER);
    net.command(LEARNER, add("n5"));
    net.run(FORWARD_RETRY * 3);
    assert_eq!((voters(&net, first).len(), replies(&net, LEARNER)), (4, vec![]));
    net.cut(LEARNER, first, false);
    net.run(FORWARD_RETRY * 2);
    assert_eq!((replies(&net, LEARNER), number(&net, first)), (vec![Ok(4)], before + 1));
}

#[test]
fn a_leader_that_dies_is_succeeded_by_one_that_is_asked_while_there_is_time() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(first);
    net.command(LEARNER, add("n5"));
    net.run(FORWARD_TIMEOUT);
    assert_eq!(replies(&net, LEARNER), [Ok(4)]);
    assert_ne!(leader(&net).0, first);
}

#[test]
fn a_leader_that_has_resigned_says_so_and_the_next_one_is_asked() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.latency = ms(20);
    net.command(LEARNER, add("n5"));
    net.command(first, Command::Leave);
    net.run(SECOND * 3);
    assert_eq!(replies(&net, LEARNER), [Ok(4)]);
}

#[test]
fn of_two_leaders_that_were_asked_the_first_may_have_done_what_the_second_finds_done() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut_one_way(first, LEARNER);
    net.command(LEARNER, add("n5"));
    net.run(FORWARD_RETRY);
    assert_eq!(voters(&net, first).len(), 4, "it is done, and who asked does not hear it");
    net.kill(first);
    net.run(FORWARD_TIMEOUT);
    assert_eq!(replies(&net, LEARNER), [Err(CommandError::Electorate(ChangeError::Interrupted))]);
}

#[test]
fn whatever_keeps_the_second_leader_from_it_the_first_may_have_done_it() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut_one_way(first, LEARNER);
    let unchanged = [
        ChangeError::Busy,
        ChangeError::NoAnswer { id: id("n5") },
        ChangeError::NoChange { reason: Unchanged::VotesAlready },
        ChangeError::MajorityAnswers,
        ChangeError::NoVoter,
    ];
    // Of the leader that was asked first, and alone, such a word means what it says.
    for error in &unchanged {
        let nonce = ask(&mut net, add("n0"));
        tell(&mut net, first, nonce, Err(error.clone()));
        assert_eq!(replies(&net, LEARNER).pop(), Some(Err(CommandError::Electorate(error.clone()))));
    }
    let silent = ChangeError::LeaderSilent { leader: id("n9") };
    let nonces: Vec<Nonce> = (0..unchanged.len() + 2)
        .map(|at| ask(&mut net, Command::AddVoter { ticket: 10 + at as u64, id: id("n0") }))
        .collect();
    // Nobody hears the learner's question, and the learner hears who leads.
    let followers = [(first + 1) % 3, (first + 2) % 3];
    net.run(FORWARD_RETRY);
    net.kill(first);
    for node in followers {
        net.cut_one_way(LEARNER, node);
    }
    net.sent = Some(Vec::new());
    let is_asked = |net: &Net, node: usize| {
        let sent = net.sent.as_ref().expect("kept");
        let to_it = sent.iter().filter(|(from, to, _)| (*from, *to) == (address(LEARNER), address(node)));
        !changes(&to_it.cloned().collect::<Vec<_>>()).is_empty()
    };
    net.run_until(FORWARD_TIMEOUT, "the next one is asked", |net| followers.iter().any(|node| is_asked(net, *node)));
    let second = followers.into_iter().find(|node| is_asked(&net, *node)).expect("asked");
    let electorate = net.nodes[second].core.electorate().expect("known").clone();
    let before = replies(&net, LEARNER).len();
    let told = unchanged.into_iter().map(Err).chain([Err(silent.clone()), Ok(electorate)]);
    for (nonce, result) in nonces.into_iter().zip(told) {
        tell(&mut net, second, nonce, result);
    }
    let all = replies(&net, LEARNER).split_off(before);
    let [unknown @ .., said, done] = &all[..] else { panic!("{all:?}") };
    assert_eq!((unknown.len(), said, done.is_ok()), (5, &Err(CommandError::Electorate(silent)), true), "{all:?}");
    let interrupted = Err(CommandError::Electorate(ChangeError::Interrupted));
    assert!(unknown.iter().all(|reply| *reply == interrupted), "{all:?}");
}

#[test]
fn a_leader_that_says_it_is_none_has_done_nothing() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut_one_way(LEARNER, first);
    let nonce = ask(&mut net, add("n5"));
    // By then it is asked no more.
    net.run(FORWARD_TIMEOUT - ms(100));
    tell(&mut net, first, nonce, Err(ChangeError::NotLeader));
    assert_eq!(replies(&net, LEARNER), [], "another one may lead in time");
    net.run(ms(100));
    assert_eq!(replies(&net, LEARNER), [Err(NOT_LEADER)]);
}

#[test]
fn who_does_not_lead_says_so_and_looks_no_further() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(LEARNER);
    let run = net.nodes[LEARNER].core.me().run;
    // A leader would say that it votes already.
    let bytes = forged(run, 1 << 15, &[question(1, VoterRequest::Add(id(&format!("n{first}"))))]);
    net.input((first + 1) % 3, Input::Packet { from: address(LEARNER), bytes: &bytes });
    net.run(ms(10));
    let told = VotersChanged { nonce: Nonce(1), result: Err(ChangeError::NotLeader) };
    assert_eq!(told_the_dead(&net, LEARNER), [told]);
}

#[test]
fn who_comes_to_lead_itself_does_not_know_what_the_leader_before_has_done() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(first);
    let followers: Vec<usize> = (0..3).filter(|node| *node != first).collect();
    for node in &followers {
        net.command(*node, add("n5"));
    }
    net.run(FORWARD_TIMEOUT);
    let (second, _) = leader(&net);
    assert!(followers.contains(&second));
    assert_eq!(replies(&net, second), [Err(CommandError::Electorate(ChangeError::Interrupted))]);
    let other = followers.into_iter().find(|node| *node != second).expect("two");
    assert_eq!(replies(&net, other), [Ok(4)]);
}

#[test]
fn without_an_answer_the_outcome_is_said_to_be_unknown_well_before_a_client_gives_up() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut(LEARNER, first, true);
    net.sent = Some(Vec::new());
    for ticket in 0..=MAX_FORWARDED_COMMANDS as u64 {
        net.command(LEARNER, Command::AddVoter { ticket, id: id("n5") });
    }
    assert_eq!(replies(&net, LEARNER), [Err(CommandError::Busy)], "so many wait, and no more");
    net.run(FORWARD_TIMEOUT - ms(1));
    assert_eq!(replies(&net, LEARNER).len(), 1);
    net.run(ms(1));
    let all = replies(&net, LEARNER);
    assert_eq!(all.len(), MAX_FORWARDED_COMMANDS + 1);
    assert!(all[1..].iter().all(|reply| *reply == Err(silent(&net, first))), "{all:?}");
    let asked = changes(net.sent.as_ref().expect("kept")).len();
    assert_eq!(asked, MAX_FORWARDED_COMMANDS * MAX_FORWARD_ASKS as usize, "each asks so often, and no more");
    let text = silent(&net, first).to_string();
    assert!(text.contains("look at the list of voters"), "{text}");
}

#[test]
fn where_nobody_leads_nobody_is_asked() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    for node in 0..3 {
        net.kill(node);
    }
    net.run(SECOND * 5);
    net.command(LEARNER, add("n5"));
    assert_eq!(replies(&net, LEARNER), [Err(NOT_LEADER)]);
    assert!(net.nodes[LEARNER].core.record(&id(&format!("n{first}"))).is_some());
}

#[test]
fn a_leader_that_is_gone_for_good_was_asked_all_the_same() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    for node in 0..3 {
        net.kill(node);
    }
    net.command(LEARNER, add("n5"));
    net.run(FORWARD_TIMEOUT);
    assert_eq!(replies(&net, LEARNER), [Err(silent(&net, first))]);
}

#[test]
fn where_nobody_is_elected_the_command_is_refused_and_a_question_dropped() {
    let mut net = Net::cluster(Profile::Local, 2);
    net.command(0, add("n1"));
    assert_eq!(replies(&net, 0), [Err(CommandError::NoQuorumMode)]);
    net.kill(1);
    let run = net.nodes[1].core.me().run;
    let before = net.nodes[0].core.counters().dropped(DropReason::WrongState);
    let bytes = forged(run, 100_000, &[question(1, VoterRequest::Add(id("n1")))]);
    net.input(0, Input::Packet { from: address(1), bytes: &bytes });
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::WrongState), before + 1);
    net.run(ms(10));
    assert_eq!(told_the_dead(&net, 1), []);
}
