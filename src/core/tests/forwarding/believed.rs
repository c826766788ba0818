//! Questions and answers that are believed, and those that are not.

use super::*;

#[test]
fn a_member_that_asks_for_much_gets_nothing_twice() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(LEARNER);
    let run = net.nodes[LEARNER].core.me().run;
    let mut sequence = 100_000;
    let mut ask = |net: &mut Net, nonce: u64, request: VoterRequest| {
        sequence += 1;
        let bytes = forged(run, sequence, &[question(nonce, request)]);
        net.input(first, Input::Packet { from: address(LEARNER), bytes: &bytes });
    };
    ask(&mut net, 0, VoterRequest::Add(id("n5")));
    net.run(ms(300));
    net.command(first, remove("n5"));
    net.run(ms(500));
    let before = net.nodes[first].core.counters().dropped(DropReason::TableFull);
    let new = MAX_ASKED_CHANGES as u64 + 3;
    for nonce in 1..new {
        ask(&mut net, nonce, VoterRequest::Remove(id("nobody")));
    }
    assert_eq!(net.nodes[first].core.counters().dropped(DropReason::TableFull), before + 3);
    ask(&mut net, 0, VoterRequest::Add(id("n5")));
    net.run(ms(500));
    assert_eq!(voters(&net, first).len(), 3, "what was done once is not done again");
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
        let bytes = forged(run, 100_000 + sequence, &[question(nonce, VoterRequest::Add(id("n5")))]);
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
fn only_members_that_are_up_are_obeyed() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.kill(LEARNER);
    let run = net.nodes[LEARNER].core.me().run;
    let mut sequence = 100_000;
    let mut ask = |net: &mut Net, run: Run, from: usize| {
        sequence += 1;
        let bytes = forged(run, sequence, &[question(sequence, VoterRequest::Add(id("n5")))]);
        net.input(first, Input::Packet { from: address(from), bytes: &bytes });
    };
    let dropped = |net: &Net, reason| net.nodes[first].core.counters().dropped(reason);
    let reasons = [DropReason::UnknownRun, DropReason::WrongState];
    let before = reasons.map(|reason| dropped(&net, reason));
    ask(&mut net, Run(0xbad), 66);
    let status = |net: &Net| net.status(first, &format!("n{LEARNER}"));
    net.run_until(SECOND * 5, "it is down", |net| status(net) == Some(headcount_core::Status::Down));
    ask(&mut net, run, LEARNER);
    net.run(SECOND);
    let after = reasons.map(|reason| dropped(&net, reason));
    assert!(before.iter().zip(after).all(|(before, after)| *before < after), "{before:?} {after:?}");
    assert_eq!((voters(&net, first).len(), told_the_dead(&net, LEARNER)), (3, vec![]));
    assert!(told_the_dead(&net, 66).is_empty());
}

#[test]
fn a_question_fits_into_a_packet_to_an_address_that_is_not_proven() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    let leader_run = net.nodes[first].core.me().run;
    net.nodes[LEARNER].core.set_proven(leader_run, false);
    net.sent = Some(Vec::new());
    net.command(LEARNER, add(&"n".repeat(63)));
    let sent = net.sent.take().expect("kept");
    assert_eq!(changes(&sent).len(), 1);
    assert!(sent.iter().all(|(_, _, bytes)| bytes.len() <= MIN_QUESTION_BYTES));
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
    let before = net.nodes[LEARNER].core.counters().dropped(DropReason::Unasked);
    tell(&mut net, first, Nonce(asked.0 ^ 1));
    tell(&mut net, (first + 1) % 3, asked);
    assert_eq!(replies(&net, LEARNER), []);
    assert_eq!(net.nodes[LEARNER].core.counters().dropped(DropReason::Unasked), before + 2);
    tell(&mut net, first, asked);
    assert_eq!(replies(&net, LEARNER), [Ok(3)]);
    tell(&mut net, first, asked);
    assert_eq!(replies(&net, LEARNER), [Ok(3)], "once");
}
