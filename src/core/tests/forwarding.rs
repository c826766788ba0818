//! Commands for the leader, given at nodes that do not lead.

use super::leadership::{SECOND, cluster, leader};
use super::net::{Net, address, id, ms};
use crate::core::counters::Drop;
use crate::core::doors::{Command, CommandError, Input, Output, Reply};
use crate::core::election::{ChangeError, Electorate, Unchanged};
use crate::core::limits::{
    FORWARD_RETRY, FORWARD_TIMEOUT, MAX_FORWARD_ASKS, MAX_FORWARDED_COMMANDS, MAX_UNPROVEN_BYTES,
};
use crate::core::member::Run;
use crate::core::settings::Profile;
use crate::core::wire::{ChangeVoters, Header, Message, Nonce, Packet, PacketBuilder, VoterWish, VotersChanged};

/// A member that votes nowhere.
const LEARNER: usize = 4;

fn add(name: &str) -> Command {
    Command::AddVoter { ticket: 1, id: id(name) }
}

fn remove(name: &str) -> Command {
    Command::RemoveVoter { ticket: 2, id: id(name) }
}

fn voters(net: &Net, node: usize) -> Vec<String> {
    let electorate = net.nodes[node].core.electorate().expect("known");
    electorate.voters.iter().map(|voter| voter.id.to_string()).collect()
}

/// How many voters each reply of a node names; errors as they are.
fn replies(net: &Net, node: usize) -> Vec<Result<usize, CommandError>> {
    let result = |reply: &Reply| match reply {
        Reply::Electorate(electorate) => Ok(electorate.voters.len()),
        Reply::Refused(error) => Err(error.clone()),
        other => panic!("{other:?}"),
    };
    net.nodes[node].replies.iter().map(result).collect()
}

fn number(net: &Net, node: usize) -> u64 {
    net.nodes[node].core.agreed_view().expect("a view").number
}

fn silent(net: &Net, leader: usize) -> CommandError {
    CommandError::Electorate(ChangeError::LeaderSilent { leader: net.nodes[leader].core.me().id.clone() })
}

const NOT_LEADER: CommandError = CommandError::Electorate(ChangeError::NotLeader);

/// Questions and answers about the electorate among these packets, and where they went.
fn changes(packets: &[(std::net::SocketAddr, std::net::SocketAddr, Vec<u8>)]) -> Vec<Message> {
    let messages = packets.iter().flat_map(|(_, _, bytes)| Packet::decode(bytes).expect("decodes").messages);
    messages.filter(|message| matches!(message, Message::ChangeVoters(_) | Message::VotersChanged(_))).collect()
}

/// A packet of a member that is dead by now, with a number that it has not used.
fn forged(run: Run, sequence: u64, messages: &[Message]) -> Vec<u8> {
    let header = Header { cluster: Header::cluster_hash("test"), run, sequence, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(messages.iter().all(|message| packet.push(message)));
    packet.finish()
}

fn question(nonce: u64, wish: VoterWish) -> Message {
    Message::ChangeVoters(Box::new(ChangeVoters { nonce: Nonce(nonce), wish }))
}

/// What was said about the electorate to a place where nobody listens any more.
fn told_the_dead(net: &Net, node: usize) -> Vec<VotersChanged> {
    let to_it = net.undelivered.iter().filter(|(to, _)| *to == address(node));
    let messages = to_it.flat_map(|(_, bytes)| Packet::decode(bytes).expect("decodes").messages);
    messages
        .filter_map(|message| match message {
            Message::VotersChanged(changed) => Some(*changed),
            _ => None,
        })
        .collect()
}

/// Puts a question to the leader by the learner, and says under which nonce.
fn ask(net: &mut Net, command: Command) -> Nonce {
    net.sent = Some(Vec::new());
    net.command(LEARNER, command);
    let asked = changes(&net.sent.take().expect("kept"));
    let [Message::ChangeVoters(asked)] = &asked[..] else { panic!("{asked:?}") };
    asked.nonce
}

/// Lets the learner hear from a node what became of a question.
fn tell(net: &mut Net, who: usize, nonce: Nonce, result: Result<Electorate, ChangeError>) {
    let run = net.nodes[who].core.me().run;
    let core = &mut net.nodes[LEARNER].core;
    let slot = core.view.slot_of_run(run).expect("listed");
    core.told_voters_changed(slot, &VotersChanged { nonce, result });
    while let Some(output) = net.nodes[LEARNER].core.poll() {
        if let Output::Reply { reply, .. } = output {
            net.nodes[LEARNER].replies.push(reply);
        }
    }
}

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
    // What the leader will not do is said as it says it.
    net.command(LEARNER, add("n3"));
    net.command(follower, remove("n5"));
    net.run(SECOND);
    let refused = |reason| Some(Err(CommandError::Electorate(ChangeError::NoChange { reason })));
    assert_eq!(replies(&net, LEARNER).pop(), refused(Unchanged::VotesAlready));
    assert_eq!(replies(&net, follower).pop(), refused(Unchanged::VotesNot));
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
    // What the learner asks is heard by nobody, and it hears who leads.
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
    let bytes = forged(run, 100_000, &[question(1, VoterWish::Add(id(&format!("n{first}"))))]);
    net.input((first + 1) % 3, Input::Packet { from: address(LEARNER), bytes: &bytes });
    net.run(ms(10));
    let told = VotersChanged { nonce: Nonce(1), result: Err(ChangeError::NotLeader) };
    assert_eq!(told_the_dead(&net, LEARNER), [told]);
}

#[test]
fn nothing_is_said_to_an_address_that_is_no_longer_proven() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(LEARNER);
    let run = net.nodes[LEARNER].core.me().run;
    let bytes = forged(run, 100_000, &[question(1, VoterWish::Add(id("n5")))]);
    net.input(first, Input::Packet { from: address(LEARNER), bytes: &bytes });
    let slot = net.nodes[first].core.view.slot_of_run(run).expect("listed");
    net.nodes[first].core.view.peer_mut(slot).proven = false;
    net.run(ms(300));
    assert_eq!((voters(&net, first).len(), told_the_dead(&net, LEARNER)), (4, vec![]));
}

#[test]
fn a_member_that_asks_for_much_gets_nothing_twice() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(LEARNER);
    let run = net.nodes[LEARNER].core.me().run;
    let mut sequence = 100_000;
    let mut ask = |net: &mut Net, nonce: u64, wish: VoterWish| {
        sequence += 1;
        let bytes = forged(run, sequence, &[question(nonce, wish)]);
        net.input(first, Input::Packet { from: address(LEARNER), bytes: &bytes });
    };
    ask(&mut net, 0, VoterWish::Add(id("n5")));
    net.run(ms(300));
    net.command(first, remove("n5"));
    net.run(ms(500));
    let before = net.nodes[first].core.counters().dropped(Drop::TableFull);
    let new = MAX_FORWARDED_COMMANDS as u64 + 3;
    for nonce in 1..new {
        ask(&mut net, nonce, VoterWish::Remove(id("nobody")));
    }
    assert_eq!(net.nodes[first].core.counters().dropped(Drop::TableFull), before + 3);
    ask(&mut net, 0, VoterWish::Add(id("n5")));
    net.run(ms(500));
    assert_eq!(voters(&net, first).len(), 3, "what was done once is not done again");
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
    let before = net.nodes[0].core.counters().dropped(Drop::WrongState);
    let bytes = forged(run, 100_000, &[question(1, VoterWish::Add(id("n1")))]);
    net.input(0, Input::Packet { from: address(1), bytes: &bytes });
    assert_eq!(net.nodes[0].core.counters().dropped(Drop::WrongState), before + 1);
    net.run(ms(10));
    assert_eq!(told_the_dead(&net, 1), []);
}

#[test]
fn a_repeated_question_is_no_second_command() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    let before = number(&net, first);
    // The learner is dead and still held to be Up: what comes from its address are its last packets.
    net.kill(LEARNER);
    let run = net.nodes[LEARNER].core.me().run;
    let ask = |net: &mut Net, sequence: u64, nonce: u64| {
        let bytes = forged(run, 100_000 + sequence, &[question(nonce, VoterWish::Add(id("n5")))]);
        net.input(first, Input::Packet { from: address(LEARNER), bytes: &bytes });
    };
    for sequence in 1..=5 {
        ask(&mut net, sequence, 7);
    }
    net.run(ms(300));
    assert_eq!((number(&net, first), voters(&net, first).len()), (before + 1, 4));
    net.command(first, remove("n5"));
    net.run(ms(500));
    assert_eq!(voters(&net, first).len(), 3);
    let told = told_the_dead(&net, LEARNER).len();
    for sequence in 6..=10 {
        ask(&mut net, sequence, 7);
    }
    net.run(ms(500));
    assert_eq!(voters(&net, first).len(), 3, "what was done once is not done again");
    let answers = told_the_dead(&net, LEARNER);
    assert_eq!(answers.len(), told + 1, "and answered at most so often");
    let is_it = |changed: &VotersChanged| {
        changed.nonce == Nonce(7) && changed.result.as_ref().is_ok_and(|electorate| electorate.voters.len() == 4)
    };
    assert!(answers.iter().all(is_it), "{answers:?}");
}

#[test]
fn one_packet_asks_once() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(LEARNER);
    let run = net.nodes[LEARNER].core.me().run;
    let questions: Vec<Message> = (0..10).map(|nonce| question(nonce, VoterWish::Remove(id("nobody")))).collect();
    let before = net.nodes[first].core.counters().dropped(Drop::RateLimited);
    net.input(first, Input::Packet { from: address(LEARNER), bytes: &forged(run, 100_000, &questions) });
    net.run(ms(10));
    assert_eq!(told_the_dead(&net, LEARNER).len(), 1);
    assert_eq!(net.nodes[first].core.counters().dropped(Drop::RateLimited), before + 9);
}

#[test]
fn only_members_that_are_up_are_obeyed_and_only_from_their_proven_addresses() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(LEARNER);
    let run = net.nodes[LEARNER].core.me().run;
    let wish = || VoterWish::Add(id("n5"));
    let mut sequence = 100_000;
    let mut ask = |net: &mut Net, run: Run, from: usize| {
        sequence += 1;
        let bytes = forged(run, sequence, &[question(sequence, wish())]);
        net.input(first, Input::Packet { from: address(from), bytes: &bytes });
    };
    let dropped = |net: &Net, reason| net.nodes[first].core.counters().dropped(reason);
    let reasons = [Drop::UnknownRun, Drop::Unproven, Drop::WrongState, Drop::Claimed];
    let before = reasons.map(|reason| dropped(&net, reason));
    ask(&mut net, Run(0xbad), 66);
    ask(&mut net, run, 66);
    let slot = net.nodes[first].core.view.slot_of_run(run).expect("listed");
    net.nodes[first].core.view.peer_mut(slot).proven = false;
    ask(&mut net, run, LEARNER);
    net.nodes[first].core.view.peer_mut(slot).proven = true;
    let status = |net: &Net| net.status(first, &format!("n{LEARNER}"));
    net.run_until(SECOND * 5, "it is down", |net| status(net) == Some(crate::core::Status::Down));
    ask(&mut net, run, LEARNER);
    net.run(SECOND);
    let after = reasons.map(|reason| dropped(&net, reason));
    let grew: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    assert!(grew[0] > 0 && grew[1] == 1 && grew[2] > 0 && grew[3] == 1, "{grew:?}");
    assert_eq!((voters(&net, first).len(), told_the_dead(&net, LEARNER)), (3, vec![]));
    assert!(told_the_dead(&net, 66).is_empty());
}

#[test]
fn a_member_whose_address_the_leader_has_not_proven_is_asked_back_and_obeyed() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    let run = net.nodes[LEARNER].core.me().run;
    let slot = net.nodes[first].core.view.slot_of_run(run).expect("listed");
    net.nodes[first].core.view.peer_mut(slot).proven = false;
    net.sent = Some(Vec::new());
    net.command(LEARNER, add("n5"));
    net.run(FORWARD_RETRY * 3);
    assert_eq!(replies(&net, LEARNER), [Ok(4)]);
}

#[test]
fn a_question_fits_into_a_packet_to_an_address_that_is_not_proven() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    let leader_run = net.nodes[first].core.me().run;
    let slot = net.nodes[LEARNER].core.view.slot_of_run(leader_run).expect("listed");
    net.nodes[LEARNER].core.view.peer_mut(slot).proven = false;
    net.sent = Some(Vec::new());
    net.command(LEARNER, add(&"n".repeat(63)));
    let sent = net.sent.take().expect("kept");
    assert_eq!(changes(&sent).len(), 1);
    assert!(sent.iter().all(|(_, _, bytes)| bytes.len() <= MAX_UNPROVEN_BYTES));
    net.run(FORWARD_TIMEOUT);
    let id = id(&"n".repeat(63));
    assert_eq!(replies(&net, LEARNER), [Err(CommandError::Electorate(ChangeError::NoMember { id }))]);
}

#[test]
fn an_answer_is_believed_from_the_leader_alone_and_to_the_question_alone() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut(LEARNER, first, true);
    let asked = ask(&mut net, add("n5"));
    let electorate = net.nodes[first].core.electorate().expect("known").clone();
    let tell = |net: &mut Net, who: usize, nonce: Nonce| tell(net, who, nonce, Ok(electorate.clone()));
    let before = net.nodes[LEARNER].core.counters().dropped(Drop::Unasked);
    tell(&mut net, first, Nonce(asked.0 ^ 1));
    tell(&mut net, (first + 1) % 3, asked);
    assert_eq!(replies(&net, LEARNER), []);
    assert_eq!(net.nodes[LEARNER].core.counters().dropped(Drop::Unasked), before + 2);
    tell(&mut net, first, asked);
    assert_eq!(replies(&net, LEARNER), [Ok(3)]);
    tell(&mut net, first, asked);
    assert_eq!(replies(&net, LEARNER), [Ok(3)], "once");
}

#[test]
fn a_leader_that_does_not_know_the_question_leaves_it_to_time() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut_one_way(LEARNER, first);
    net.command(LEARNER, add("n5"));
    net.run(FORWARD_TIMEOUT);
    assert_eq!(replies(&net, LEARNER), [Err(silent(&net, first))]);
}

fn resign(to: Option<&str>) -> Command {
    Command::Resign { ticket: 3, to: to.map(id) }
}

#[test]
fn a_leader_resigns_at_the_word_of_any_node_and_the_voter_named_leads() {
    let mut net = cluster(6, 3);
    for (round, node) in [LEARNER, 0, 1, 2, 5].into_iter().enumerate() {
        let (first, term) = leader(&net);
        let to = (first + 1 + round % 2) % 3;
        net.command(node, resign(Some(&format!("n{to}"))));
        net.run(SECOND);
        assert_eq!(replies(&net, node).pop(), Some(Ok(3)), "n{node}");
        let (second, later) = leader(&net);
        assert!(second == to && later > term, "{first} to {to}: {second}");
    }
    let (first, _) = leader(&net);
    let name = format!("n{first}");
    for node in [LEARNER, first] {
        net.command(node, resign(Some(&name)));
        let refused = CommandError::Electorate(ChangeError::LeadsAlready { id: id(&name) });
        assert_eq!(replies(&net, node).pop(), Some(Err(refused)));
    }
    net.command(LEARNER, resign(Some("n5")));
    net.run(SECOND);
    let refused = CommandError::Electorate(ChangeError::NotVoter { id: id("n5") });
    assert_eq!((replies(&net, LEARNER).pop(), leader(&net).0), (Some(Err(refused)), first));
}

#[test]
fn a_resignation_whose_answer_gets_lost_deposes_no_second_leader() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut_one_way(first, LEARNER);
    net.command(LEARNER, resign(None));
    net.run(FORWARD_TIMEOUT);
    assert_eq!(replies(&net, LEARNER), [Ok(3)], "it leads no more, and that was wanted");
    net.cut(LEARNER, first, false);
    net.run(SECOND * 5);
    let (second, term) = leader(&net);
    assert!(second != first);
    let led = net.nodes[second].leadership.iter().filter_map(|(_, said)| match said {
        Output::LeaderElected { term, .. } => Some(*term),
        _ => None,
    });
    let led: Vec<_> = led.collect();
    assert_eq!((led.len(), led.last()), (2, Some(&term)), "one hand-over: {led:?}");
}

#[test]
fn a_resignation_that_comes_late_is_not_meant_for_the_next_leader() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut(LEARNER, first, true);
    net.command(LEARNER, resign(None));
    net.kill(first);
    net.run(FORWARD_TIMEOUT);
    assert_eq!(replies(&net, LEARNER), [Ok(3)], "whoever was meant leads no more");
    let (second, term) = leader(&net);
    net.run(SECOND * 5);
    assert_eq!(leader(&net), (second, term));
    // Who wanted another one learns who it is.
    net.cut(LEARNER, second, true);
    let last = (0..3).find(|node| *node != first && *node != second).expect("three");
    net.command(LEARNER, resign(Some(&format!("n{first}"))));
    net.command(second, resign(Some(&format!("n{last}"))));
    net.run(FORWARD_TIMEOUT + SECOND);
    let leads = CommandError::Electorate(ChangeError::LedByOther { leader: id(&format!("n{last}")) });
    assert_eq!(replies(&net, LEARNER).pop(), Some(Err(leads)));
}

#[test]
fn where_nobody_leads_nobody_resigns() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    for node in (0..3).filter(|node| *node != first) {
        net.kill(node);
    }
    net.run(SECOND * 10);
    net.command(LEARNER, resign(None));
    assert_eq!(replies(&net, LEARNER), [Err(NOT_LEADER)]);
}
