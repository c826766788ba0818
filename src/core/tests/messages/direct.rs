//! Messages to single nodes, requests and their answers.

use super::*;

#[test]
fn a_message_to_one_node_arrives_there_alone_and_is_acknowledged() {
    let mut net = Net::linked(Profile::Local, 3);
    send(&mut net, 0, "n2", b"for you");
    net.run(ms(100));
    let run = net.nodes[0].core.me().run;
    assert_eq!(net.nodes[0].replies, [Reply::Delivered { id: MessageId { run, sequence: 3 } }]);
    assert_eq!(net.nodes.iter().map(|node| node.messages.len()).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!(net.nodes[2].messages[0].1.kind, DeliveryKind::Sent);
    send(&mut net, 0, "n0", b"for me");
    assert_eq!(net.nodes[0].replies.len(), 2, "to oneself, at once");
    assert_eq!(net.nodes[0].messages.len(), 1);
    assert_sums(&net);
}

#[test]
fn a_link_is_opened_to_whoever_is_no_neighbour_and_ends_again() {
    let mut net = Net::linked(Profile::Local, 60);
    let stranger = (1..60)
        .find(|n| {
            let run = net.nodes[*n].core.me().run;
            !net.nodes[0].core.has_link(run)
        })
        .expect("not everybody is a neighbour among sixty");
    send(&mut net, 0, &format!("n{stranger}"), &vec![7; 60_000]);
    net.run(Duration::from_secs(3));
    assert!(matches!(net.nodes[0].replies[..], [Reply::Delivered { .. }]), "{:?}", net.nodes[0].replies);
    assert_eq!(net.nodes[stranger].messages.len(), 1);
    net.run(Duration::from_secs(60));
    let run = net.nodes[stranger].core.me().run;
    assert!(!net.nodes[0].core.has_link(run), "nothing waits for it any more");
}

#[test]
fn errors_tell_what_is_known() {
    let mut net = Net::cluster(Profile::Local, 2);
    send(&mut net, 0, "nobody", b"x");
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::NoSuchMember { id: id("nobody") })]);
    send(&mut net, 0, "n1", b"x");
    net.run(SEND_TIMEOUT - ms(1));
    let no_link = Reply::Refused(CommandError::NoLink { id: id("n1") });
    assert_eq!(net.nodes[0].replies[1], no_link, "TCP is blocked here, which is said before the deadline");
    assert_eq!(net.nodes[0].core.counters().messages.failed, 2);

    let mut net = Net::linked(Profile::Local, 2);
    net.kill(1);
    net.run(Duration::from_secs(30));
    send(&mut net, 0, "n1", b"x");
    let [Reply::Refused(error @ CommandError::NotLive { .. })] = &net.nodes[0].replies[..] else {
        panic!("{:?}", net.nodes[0].replies)
    };
    assert_eq!(error.to_string(), "\"n1\" is down: nothing was sent");
    assert_eq!(net.nodes[0].core.counters().messages.failed, 1);

    let mut net = Net::linked(Profile::Local, 2);
    net.pause(1, true);
    send(&mut net, 0, "n1", b"x");
    net.run(SEND_TIMEOUT + ms(1));
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::NoAnswer { id: id("n1") })], "it may have it");
    net.pause(1, false);
    net.run(Duration::from_secs(1));
    assert_eq!(net.nodes[1].messages.len(), 1, "and it had: sent five times, delivered once");
    assert_sums(&net);
}

#[test]
fn a_request_is_answered_and_nobody_else_can_answer_it() {
    let mut net = Net::linked(Profile::Local, 3);
    ask(&mut net, 0, "n1", Duration::from_secs(5));
    net.run(ms(50));
    let request = net.nodes[1].messages[0].1.clone();
    assert_eq!(request.kind, DeliveryKind::Request { within: Duration::from_secs(5) });
    net.command(2, Command::Answer { ticket: 4, request: request.id, payload: payload(b"speaker") });
    assert!(matches!(net.nodes[2].replies[..], [Reply::Refused(CommandError::NoSuchRequest { .. })]));
    net.command(1, Command::Answer { ticket: 5, request: request.id, payload: payload(b"fine") });
    net.run(ms(50));
    assert_eq!(net.nodes[0].replies, [Reply::Answered { id: request.id, payload: payload(b"fine") }]);
    assert!(matches!(net.nodes[1].replies[..], [Reply::Delivered { .. }]));
    net.command(1, Command::Answer { ticket: 6, request: request.id, payload: payload(b"again") });
    assert!(matches!(net.nodes[1].replies[1], Reply::Refused(CommandError::NoSuchRequest { .. })), "once");
    assert_sums(&net);
}

#[test]
fn a_node_asks_itself_like_anybody_else() {
    let mut net = Net::cluster(Profile::Local, 1);
    ask(&mut net, 0, "n0", Duration::from_secs(5));
    let request = net.nodes[0].messages[0].1.id;
    net.command(0, Command::Answer { ticket: 5, request, payload: payload(b"fine") });
    let answered = Reply::Answered { id: request, payload: payload(b"fine") };
    assert!(net.nodes[0].replies.contains(&answered), "{:?}", net.nodes[0].replies);
    ask(&mut net, 0, "n0", Duration::from_secs(5));
    net.run(Duration::from_secs(6));
    assert_eq!(net.nodes[0].replies.last(), Some(&Reply::Refused(CommandError::NoAnswer { id: id("n0") })));
    assert_sums(&net);
}

#[test]
fn a_request_ends_at_its_deadline_and_a_late_answer_is_nobodys() {
    let mut net = Net::linked(Profile::Local, 2);
    ask(&mut net, 0, "n1", Duration::from_secs(1));
    net.run(ms(900));
    assert!(net.nodes[0].replies.is_empty());
    net.run(ms(101));
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::NoAnswer { id: id("n1") })]);
    let request = net.nodes[1].messages[0].1.id;
    net.command(1, Command::Answer { ticket: 5, request, payload: payload(b"late") });
    assert!(matches!(net.nodes[1].replies[..], [Reply::Refused(CommandError::NoSuchRequest { .. })]));
    assert_sums(&net);
}

#[test]
fn an_answer_on_its_way_at_the_deadline_is_dropped_and_answers_no_later_request() {
    let mut net = Net::linked(Profile::Local, 2);
    let timeout = Duration::from_secs(1);
    ask(&mut net, 0, "n1", timeout);
    net.run(timeout - Duration::from_nanos(1));
    let first = net.nodes[1].messages[0].1.id;
    // In time for the node that answers; the deadline of the one that asks is over before it arrives.
    net.command(1, Command::Answer { ticket: 5, request: first, payload: payload(b"late") });
    net.run(Duration::from_nanos(1));
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::NoAnswer { id: id("n1") })]);
    ask(&mut net, 0, "n1", timeout);
    net.run(ms(100));
    assert_eq!(net.nodes[0].replies.len(), 1, "the next one waits for its own answer");
    let counters = net.nodes[0].core.counters();
    assert_eq!(
        (counters.dropped(DropReason::Unasked), counters.messages.dropped, counters.messages.delivered),
        (1, 1, 0)
    );
    // Whoever answers in the last moment is told that nobody knows whether it came in time.
    assert_eq!(net.nodes[1].replies, [Reply::Refused(CommandError::NoAnswer { id: id("n0") })]);
    let second = net.nodes[1].messages[1].1.id;
    net.command(1, Command::Answer { ticket: 6, request: second, payload: payload(b"in time") });
    net.run(ms(100));
    assert_eq!(net.nodes[0].replies[1..], [Reply::Answered { id: second, payload: payload(b"in time") }]);
    assert_eq!(net.nodes[0].core.counters().messages.failed, 1);
    assert_sums(&net);
}

#[test]
fn who_dies_or_leaves_in_mid_request_is_not_waited_for() {
    for is_graceful in [false, true] {
        let mut net = Net::linked(Profile::Local, 5);
        ask(&mut net, 0, "n1", Duration::from_secs(30));
        net.run(ms(50));
        if is_graceful {
            net.command(1, Command::Leave);
        } else {
            net.kill(1);
        }
        let waited = net.run_until(Duration::from_secs(10), "an answer", |net| !net.nodes[0].replies.is_empty());
        assert!(waited < Duration::from_secs(4), "{waited:?}");
        assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::NoAnswer { id: id("n1") })]);
    }
}

#[test]
fn who_leaves_answers_its_own_programs_first() {
    let mut net = Net::linked(Profile::Local, 3);
    ask(&mut net, 0, "n1", Duration::from_secs(30));
    net.run(ms(50));
    net.command(0, Command::Leave);
    net.run(Duration::from_secs(5));
    assert!(net.nodes[0].stopped.is_some());
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::NoAnswer { id: id("n1") })]);
}

#[test]
fn direct_messages_that_are_repeated_are_delivered_once_and_acknowledged_again() {
    let mut net = Net::linked(Profile::Local, 2);
    for n in 0..40 {
        send(&mut net, 0, "n1", &[n]);
    }
    // The link breaks when the first messages have arrived, and their receipts have not: they are sent again over the
    // next.
    net.run_until(Duration::from_secs(1), "some arrive", |net| !net.nodes[1].messages.is_empty());
    assert!(net.nodes[0].replies.is_empty(), "no receipt yet");
    net.reset_links(0, 1);
    net.run(Duration::from_secs(4));
    assert_eq!(net.nodes[1].messages.len(), 40, "more than may be under way at one time");
    assert_eq!(net.nodes[0].replies.len(), 40);
    assert!(net.nodes[0].replies.iter().all(|reply| matches!(reply, Reply::Delivered { .. })));
    assert!(net.nodes[1].core.counters().messages.duplicate > 0, "or nothing was repeated");
    assert_sums(&net);
}

#[test]
fn direct_messages_and_requests_have_their_bounds() {
    let mut net = Net::linked(Profile::Local, 2);
    net.pause(1, true);
    for _ in 0..MAX_DIRECT_MESSAGES {
        send(&mut net, 0, "n1", b"x");
    }
    assert!(net.nodes[0].replies.is_empty());
    send(&mut net, 0, "n1", b"x");
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::Busy)]);
    net.pause(1, false);
    net.run(Duration::from_secs(8));
    assert_eq!(net.nodes[1].messages.len(), MAX_DIRECT_MESSAGES);

    let mut net = Net::linked(Profile::Local, 2);
    for _ in 0..=MAX_OPEN_REQUESTS_PER_MEMBER {
        ask(&mut net, 0, "n1", Duration::from_secs(10));
    }
    net.run(Duration::from_secs(5));
    assert_eq!(net.nodes[1].messages.len(), MAX_OPEN_REQUESTS_PER_MEMBER, "one more waits for room");
    let first = net.nodes[1].messages[0].1.id;
    net.command(1, Command::Answer { ticket: 5, request: first, payload: payload(b"fine") });
    net.run(Duration::from_secs(3));
    assert_eq!(net.nodes[1].messages.len(), MAX_OPEN_REQUESTS_PER_MEMBER + 1);
    assert_sums(&net);
}

/// Hands a node a direct message over the link from another.
pub(super) fn hand_in(net: &mut Net, to: usize, from: &str, message: &DirectMessage) {
    let core = &mut net.nodes[to].core;
    let run = core.record(&id(from)).expect("a member").run;
    core.hear(run, Message::Direct(Box::new(message.clone())));
    net.drain(to);
}

#[test]
fn receipts_and_answers_count_only_from_the_process_that_the_message_went_to() {
    let mut net = Net::linked(Profile::Local, 3);
    net.pause(1, true);
    ask(&mut net, 0, "n1", Duration::from_secs(30));
    send(&mut net, 0, "n1", b"x");
    net.run(ms(50));
    // The third numbers its messages as it likes, and names those of others.
    for to in [1, 2] {
        let answer = DirectMessage { number: 70 + to, purpose: Purpose::Answer { to }, payload: payload(b"speaker") };
        hand_in(&mut net, 0, "n2", &answer);
        let speaker = net.nodes[2].core.me().run;
        net.nodes[0].core.hear(speaker, Message::Receipt { number: to });
        net.drain(0);
    }
    net.run(ms(50));
    assert!(net.nodes[0].replies.is_empty(), "{:?}", net.nodes[0].replies);
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::Unasked), 2);
    net.pause(1, false);
    net.run(Duration::from_secs(2));
    assert!(matches!(net.nodes[0].replies[..], [Reply::Delivered { .. }]), "{:?}", net.nodes[0].replies);
    assert_sums(&net);
}

#[test]
fn few_direct_messages_are_under_way_to_one_node_and_what_has_arrived_takes_no_room() {
    let mut net = Net::linked(Profile::Local, 2);
    let before = net.nodes[0].core.counters().frames_sent;
    for _ in 0..3 * MAX_DIRECT_UNDER_WAY {
        send(&mut net, 0, "n1", b"x");
    }
    let frames = net.nodes[0].core.counters().frames_sent - before;
    assert_eq!(frames as usize, MAX_DIRECT_UNDER_WAY, "the others wait for receipts");
    net.run(Duration::from_secs(1));
    let largest = vec![0; MAX_PAYLOAD_BYTES];
    let most = MAX_DIRECT_BYTES / MAX_PAYLOAD_BYTES;
    for _ in 0..2 {
        for _ in 0..most {
            send(&mut net, 0, "n1", &largest);
        }
        net.run(Duration::from_secs(3));
    }
    assert_eq!(net.nodes[0].replies.len(), 3 * MAX_DIRECT_UNDER_WAY + 2 * most);
    assert!(net.nodes[0].replies.iter().all(|reply| matches!(reply, Reply::Delivered { .. })));
    assert_sums(&net);
}

#[test]
fn nobody_says_anything_to_a_node_in_its_own_name() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[0].core.me().run;
    forge(&mut net, 1, 0, &[broadcast(run, 5, Duration::ZERO)]);
    assert!(net.nodes[0].messages.is_empty());
    assert_eq!(net.nodes[0].core.counters().messages.duplicate, 1);
    assert_sums(&net);
}

#[test]
fn nodes_that_join_leave_or_have_stopped_say_nothing() {
    let mut net = Net::new(Profile::Local);
    net.add("n0", 0, &[1]);
    say(&mut net, 0, b"x");
    send(&mut net, 0, "n0", b"x");
    assert_eq!(net.nodes[0].replies, [const { Reply::Refused(CommandError::Joining) }; 2]);
}
