//! Messages at their limits: what is beyond one is refused, dropped or waits, and takes no room for ever.

use super::direct::hand_in;
use super::*;
use headcount_core::limits::{MAX_KEPT_BYTES, MAX_OPEN_REQUESTS, MAX_REQUEST_TIMEOUT, MAX_WANTED, MAX_WANTS};

/// Returns the messages in packets that one node sent to another since packets are kept.
fn told(net: &mut Net, from: usize, to: usize) -> Vec<Message> {
    let sent = net.sent.replace(Vec::new()).unwrap_or_default();
    let between = sent.into_iter().filter(|(one, other, _)| (*one, *other) == (address(from), address(to)));
    between.flat_map(|(_, _, bytes)| Packet::decode(&bytes).expect("decodes").messages).collect()
}

/// Returns the number of messages that a node asks for in these packets.
fn wanted(messages: &[Message]) -> u64 {
    let of = |message: &Message| match message {
        Message::WantBroadcasts(spans) => spans.iter().map(|span| span.last - span.first + 1).sum(),
        _ => 0,
    };
    messages.iter().map(of).sum()
}

fn question(number: u64, within_ms: u32) -> DirectMessage {
    DirectMessage { number, purpose: Purpose::Ask { topic: topic("q"), within_ms }, payload: payload(b"?") }
}

#[test]
fn a_node_alone_says_as_much_as_it_likes_and_links_to_nobody() {
    let mut net = Net::cluster(Profile::Local, 1);
    let largest = vec![7; MAX_PAYLOAD_BYTES];
    let many = 2 * MAX_KEPT_OWN_BYTES / MAX_PAYLOAD_BYTES;
    for _ in 0..many {
        say(&mut net, 0, &largest);
    }
    assert!(net.nodes[0].replies.iter().all(|reply| matches!(reply, Reply::Broadcast { addressed: 1, .. })));
    assert_eq!(seen(&net), many);
}

#[test]
fn what_others_broadcast_takes_the_place_of_what_is_older_and_not_of_this_nodes_own() {
    let mut net = Net::cluster(Profile::Local, 3);
    let (own, other) = (net.nodes[0].core.me().run, net.nodes[1].core.me().run);
    let mut number = 0;
    let mut flood = |net: &mut Net, count: usize| {
        for _ in 0..count {
            number += 1;
            forge(net, 1, 0, &[broadcast(other, number, Duration::ZERO)]);
        }
    };
    flood(&mut net, MAX_KEPT_MESSAGES - 10);
    // Until what waits to be sent on is gone.
    net.run(Duration::from_secs(2));
    say(&mut net, 0, b"mine");
    assert!(matches!(net.nodes[0].replies[..], [Reply::Broadcast { .. }]), "{:?}", net.nodes[0].replies);
    flood(&mut net, 200);
    net.sent = Some(Vec::new());
    forge(&mut net, 2, 0, &[Message::WantBroadcasts(vec![Span { run: own, first: 1, last: 1 }])]);
    let answered = told(&mut net, 0, 2);
    let is_mine = |message: &Message| matches!(message, Message::Broadcast(told) if told.run == own);
    assert!(answered.iter().any(is_mine), "it can still be fetched");
}

#[test]
fn every_copy_that_somebody_receives_was_counted_by_who_sent_it() {
    let mut net = Net::linked(Profile::Local, 5);
    let cut = |net: &mut Net, is_cut| (0..4).for_each(|other| net.cut(4, other, is_cut));
    cut(&mut net, true);
    say(&mut net, 0, b"x");
    net.run(ms(300));
    // Copies to the one that is cut off are lost: counted from here on.
    let sum = |net: &Net| {
        let counted = net.nodes.iter().map(|node| node.core.counters().messages);
        counted.fold((0, 0), |(sent, got), counted| (sent + counted.copies_sent, got + counted.received))
    };
    let before = sum(&net);
    cut(&mut net, false);
    net.run(Duration::from_secs(3));
    let fetched = sum(&net);
    assert!(fetched.1 > before.1, "it is fetched");
    say(&mut net, 0, b"y");
    say(&mut net, 1, &vec![7; MAX_PAYLOAD_BYTES]);
    net.run(Duration::from_secs(3));
    assert_eq!(seen(&net), 15);
    let after = sum(&net);
    assert!(after.1 >= fetched.1 + 8);
    assert_eq!(after.0 - before.0, after.1 - before.1, "sent and received");
    assert_sums(&net);
}

#[test]
fn a_node_that_leaves_says_nothing_more() {
    let mut net = Net::linked(Profile::Local, 3);
    net.command(0, Command::Leave);
    say(&mut net, 0, b"x");
    send(&mut net, 0, "n1", b"x");
    ask(&mut net, 0, "n1", Duration::from_secs(1));
    let leaving = Reply::Refused(CommandError::Leaving);
    assert_eq!(net.nodes[0].replies, [leaving.clone(), leaving.clone(), leaving]);
    net.run(Duration::from_secs(1));
    assert_eq!(seen(&net), 0);
}

#[test]
fn a_request_is_waited_for_as_long_as_the_longest_may_take_and_not_for_ever() {
    let mut net = Net::linked(Profile::Local, 2);
    ask(&mut net, 0, "n1", MAX_REQUEST_TIMEOUT * 10);
    net.run(MAX_REQUEST_TIMEOUT - ms(1));
    assert_eq!(net.nodes[1].messages[0].1.kind, DeliveryKind::Request { within: MAX_REQUEST_TIMEOUT });
    assert!(net.nodes[0].replies.is_empty());
    net.run(ms(2));
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::NoAnswer { id: id("n1") })]);
    // Whoever claims more is answered within that time as well.
    hand_in(&mut net, 1, "n0", &question(900, u32::MAX));
    assert_eq!(net.nodes[1].messages[1].1.kind, DeliveryKind::Request { within: MAX_REQUEST_TIMEOUT });
}

#[test]
fn payloads_that_wait_for_receipts_have_a_bound_of_their_own() {
    let mut net = Net::linked(Profile::Local, 2);
    net.pause(1, true);
    let largest = vec![7; MAX_PAYLOAD_BYTES];
    for _ in 0..MAX_DIRECT_BYTES / MAX_PAYLOAD_BYTES {
        send(&mut net, 0, "n1", &largest);
    }
    assert!(net.nodes[0].replies.is_empty());
    send(&mut net, 0, "n1", b"x");
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::Busy)]);
}

#[test]
fn requests_of_all_members_together_have_a_bound_and_those_whose_time_is_over_take_no_room() {
    let mut net = Net::linked(Profile::Local, 6);
    let each = MAX_OPEN_REQUESTS_PER_MEMBER as u64;
    for by in 1..=5 {
        for number in 1..=each {
            hand_in(&mut net, 0, &format!("n{by}"), &question(100 + number, 1_000));
        }
    }
    assert_eq!(net.nodes[0].messages.len(), MAX_OPEN_REQUESTS);
    let beyond = 5 * each - MAX_OPEN_REQUESTS as u64;
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::TableFull), beyond);
    // Nobody answers, and the programs that asked wait no more. A heartbeat tells the node what time it is.
    net.run(ms(1_200));
    for by in [1, 5] {
        hand_in(&mut net, 0, &format!("n{by}"), &question(2_000, 1_000));
    }
    assert_eq!(net.nodes[0].messages.len(), MAX_OPEN_REQUESTS + 2);
    assert_sums(&net);
}

#[test]
fn an_answer_to_what_asked_nothing_is_nobodys() {
    let mut net = Net::linked(Profile::Local, 2);
    net.pause(1, true);
    send(&mut net, 0, "n1", b"x");
    net.run(ms(50));
    let answer = DirectMessage { number: 70, purpose: Purpose::Answer { to: 1 }, payload: payload(b"?") };
    hand_in(&mut net, 0, "n1", &answer);
    assert!(net.nodes[0].replies.is_empty());
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::Unasked), 1);
    net.pause(1, false);
    net.run(Duration::from_secs(1));
    assert!(matches!(net.nodes[0].replies[..], [Reply::Delivered { .. }]), "{:?}", net.nodes[0].replies);
    assert_sums(&net);
}

#[test]
fn so_many_messages_are_asked_for_in_one_question_and_so_many_at_one_time() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[2].core.me().run;
    net.sent = Some(Vec::new());
    let all = 2 * MAX_WANTED as u64;
    forge(&mut net, 1, 0, &[Message::HaveBroadcasts(vec![Span { run, first: 1, last: all }])]);
    assert_eq!(wanted(&told(&mut net, 0, 1)), MAX_WANTS as u64);
    let step = MAX_WANTS as u64;
    for last in (step..=all).step_by(MAX_WANTS) {
        let span = Span { run, first: last - step + 1, last };
        forge(&mut net, 1, 0, &[Message::HaveBroadcasts(vec![span])]);
    }
    assert_eq!(wanted(&told(&mut net, 0, 1)), (MAX_WANTED - MAX_WANTS) as u64);
    assert_eq!(net.nodes[0].core.sizes().messages, MAX_WANTED);
}

#[test]
fn who_promises_a_message_and_does_not_have_it_is_asked_a_few_times_alone() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[2].core.me().run;
    net.sent = Some(Vec::new());
    forge(&mut net, 1, 0, &[Message::HaveBroadcasts(vec![Span { run, first: 5, last: 5 }])]);
    net.run(Duration::from_secs(10));
    assert_eq!(wanted(&told(&mut net, 0, 1)), 4);
    assert_eq!(net.nodes[0].core.sizes().messages, 0, "it is wanted no more");
}

#[test]
fn one_member_fetches_so_many_packets_in_a_second_of_datagrams() {
    let mut net = Net::cluster(Profile::Local, 2);
    for _ in 0..MAX_WANTS {
        say(&mut net, 0, &[7; 200]);
    }
    let run = net.nodes[0].core.me().run;
    for seconds in [1, 2] {
        net.sent = Some(Vec::new());
        for _ in 0..ANSWERS_PER_SECOND {
            forge(&mut net, 1, 0, &[Message::WantBroadcasts(vec![Span { run, first: 1, last: MAX_WANTS as u64 }])]);
        }
        let packets = net.sent.take().expect("kept").iter().filter(|(from, ..)| *from == address(0)).count();
        assert_eq!(packets, ANSWERS_PER_SECOND as usize, "in second {seconds}");
        assert!(net.nodes[0].core.counters().dropped(DropReason::RateLimited) > 0);
        net.run(Duration::from_secs(1));
    }
}

#[test]
fn of_many_origins_each_has_its_turn_to_be_told_of() {
    let mut net = Net::cluster(Profile::Local, 2);
    let origins = know_broadcasts_of(&mut net, 0x50);
    net.sent = Some(Vec::new());
    net.run(Duration::from_secs(4));
    let sent = net.sent.take().unwrap_or_default().into_iter().filter(|(from, ..)| *from == address(0));
    let mut runs = BTreeSet::new();
    for message in sent.flat_map(|(_, _, bytes)| Packet::decode(&bytes).expect("decodes").messages) {
        if let Message::HaveBroadcasts(spans) = message {
            runs.extend(spans.iter().map(|span| span.run.0));
        }
    }
    assert_eq!(runs, origins);
}

#[test]
fn ages_add_up_from_hand_to_hand() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.run(Duration::from_secs(10));
    let run = net.nodes[1].core.me().run;
    net.sent = Some(Vec::new());
    forge(&mut net, 1, 0, &[broadcast(run, 1, Duration::from_secs(8))]);
    net.run(Duration::from_secs(1));
    forge(&mut net, 2, 0, &[Message::WantBroadcasts(vec![Span { run, first: 1, last: 1 }])]);
    let told = told(&mut net, 0, 2);
    let ages =
        told.iter().filter_map(|message| if let Message::Broadcast(told) = message { Some(told.age_ms) } else { None });
    let ages: Vec<u64> = ages.collect();
    assert!(ages.len() >= 2 && ages.iter().all(|age| (8_000..=9_000).contains(age)), "{ages:?}");
    assert_eq!(ages.last(), Some(&9_000), "when it is fetched a second later");
}

#[test]
fn what_is_kept_of_others_has_a_bound_in_bytes_and_what_gives_way_is_counted() {
    let mut net = Net::cluster(Profile::Local, 2);
    let (run, largest) = (net.nodes[1].core.me().run, payload(&vec![0; MAX_PAYLOAD_BYTES]));
    let most = (MAX_KEPT_BYTES / MAX_PAYLOAD_BYTES) as u64;
    for number in 1..=most + 3 {
        let said = Broadcast { run, number, age_ms: 0, topic: topic("t"), payload: largest.clone() };
        net.nodes[0].core.hear(run, Message::Broadcast(Box::new(said)));
        net.drain(0);
    }
    assert_eq!(net.nodes[0].core.counters().messages.evicted, 3);
    assert_eq!(net.nodes[0].messages.len() as u64, most + 3, "all were delivered");
}

#[test]
fn a_receipt_for_what_was_not_sent_yet_is_none() {
    let mut net = Net::cluster(Profile::Local, 2);
    send(&mut net, 0, "n1", b"x");
    let run = net.nodes[1].core.me().run;
    net.nodes[0].core.hear(run, Message::Receipt { number: 1 });
    net.drain(0);
    assert!(net.nodes[0].replies.is_empty());
}

#[test]
fn what_is_lacking_in_many_pieces_is_asked_for_in_questions_that_can_be_read() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[2].core.me().run;
    for number in 1..=100 {
        forge(&mut net, 1, 0, &[broadcast(run, number * 2, Duration::ZERO)]);
    }
    net.sent = Some(Vec::new());
    forge(&mut net, 1, 0, &[Message::HaveBroadcasts(vec![Span { run, first: 1, last: 200 }])]);
    assert_eq!(wanted(&told(&mut net, 0, 1)), 100);
}
