//! Messages between programs, in virtual time: everybody gets each once, and what does not arrive is said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::net::{Net, address, id, ms};
use crate::core::counters::Drop;
use crate::core::doors::{Command, CommandError, DeliveryKind, Input, Reply};
use crate::core::envelope::{MessageId, Payload, Topic};
use crate::core::limits::{
    ALLOWANCE_INTERVAL, BROADCAST_LIFE, MAX_BYTES_PER_MEMBER, MAX_FLOODED_PAYLOAD, MAX_KEPT_MESSAGES,
    MAX_KEPT_OWN_BYTES, MAX_LETTER_BYTES, MAX_LETTERS, MAX_LETTERS_UNDER_WAY, MAX_OPEN_REQUESTS_PER_MEMBER,
    MAX_ORIGINS, MAX_PAYLOAD_BYTES, MAX_UNSPREAD, MESSAGE_WINDOW, ORIGIN_MEMORY, REPAIR_PACKETS, SEND_TIMEOUT,
    SPREAD_PACKETS,
};
use crate::core::member::{Run, Status};
use crate::core::settings::Profile;
use crate::core::wire::{Broadcast, Header, Letter, Message, Packet, PacketBuilder, Purpose, Span};

fn topic(name: &str) -> Topic {
    Topic::new(name).expect("a topic")
}

fn payload(bytes: &[u8]) -> Payload {
    Payload::new(bytes).expect("not too large")
}

fn say(net: &mut Net, node: usize, bytes: &[u8]) {
    net.command(node, Command::Broadcast { ticket: 1, topic: topic("t"), payload: payload(bytes) });
}

fn send(net: &mut Net, node: usize, to: &str, bytes: &[u8]) {
    net.command(node, Command::Send { ticket: 2, to: id(to), topic: topic("t"), payload: payload(bytes) });
}

fn ask(net: &mut Net, node: usize, to: &str, timeout: Duration) {
    let command = Command::Request { ticket: 3, to: id(to), topic: topic("q"), payload: payload(b"?"), timeout };
    net.command(node, command);
}

/// Nobody got anything twice, and what each counted adds up.
fn assert_sums(net: &Net) {
    for node in &net.nodes {
        let ids: BTreeSet<MessageId> = node.messages.iter().map(|(_, message)| message.id).collect();
        assert_eq!(ids.len(), node.messages.len(), "{} got something twice", node.core.me().id);
        let counted = node.core.counters().messages;
        let taken = counted.delivered + counted.duplicate + counted.dropped;
        assert_eq!(taken, counted.received + counted.delivered_here, "{counted:?}");
    }
}

fn seen(net: &Net) -> usize {
    net.nodes.iter().map(|node| node.messages.len()).sum()
}

/// A packet of messages that one node sends to another.
fn forge(net: &mut Net, from: usize, to: usize, messages: &[Message]) {
    let core = &mut net.nodes[from].core;
    core.sequence += 1;
    let (run, sequence) = (core.me().run, core.sequence);
    let header = Header { cluster: Header::cluster_hash("test"), run, sequence, fingerprint: core.fingerprint() };
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(messages.iter().all(|message| packet.push(message)));
    let source = net.nodes[from].address;
    net.input(to, Input::Packet { from: source, bytes: &packet.finish() });
}

fn broadcast(run: Run, number: u64, age: Duration) -> Message {
    let age_ms = age.as_millis() as u64;
    Message::Broadcast(Box::new(Broadcast { run, number, age_ms, topic: topic("t"), payload: payload(b"x") }))
}

#[test]
fn a_broadcast_reaches_everybody_once_and_its_sender_too() {
    for nodes in [1, 2, 5, 40] {
        let mut net = Net::cluster(Profile::Local, nodes);
        say(&mut net, 0, b"hello");
        net.run(ms(200));
        assert_eq!(seen(&net), nodes, "within 200 ms");
        let run = net.nodes[0].core.me().run;
        assert_eq!(net.nodes[0].replies, [Reply::Broadcast { id: MessageId { run, sequence: 2 }, addressed: nodes }]);
        for node in &net.nodes {
            let (_, message) = &node.messages[0];
            assert_eq!((message.id, &message.from), (MessageId { run, sequence: 2 }, &id("n0")));
            assert_eq!((message.topic.as_str(), &*message.payload), ("t", b"hello".as_slice()));
        }
        net.run(Duration::from_secs(20));
        assert_eq!(seen(&net), nodes);
        assert_sums(&net);
    }
}

#[test]
fn a_thousand_broadcasts_from_each_of_five_arrive_everywhere_once_though_a_fifth_of_all_packets_is_lost() {
    for seed in 0..3 {
        let mut net = Net::cluster(Profile::Lan, 5);
        net.shuffle_losses(seed);
        net.drop_one_in = 5;
        net.jitter = ms(20);
        for n in 0..1_000u32 {
            for node in 0..5 {
                say(&mut net, node, &n.to_le_bytes());
            }
            net.run(ms(2));
        }
        net.run(Duration::from_secs(12));
        assert_sums(&net);
        assert_eq!(seen(&net), 25_000, "seed {seed}");
    }
}

#[test]
fn one_broadcast_reaches_everybody_although_a_fifth_of_all_packets_is_lost() {
    for nodes in [5, 10, 60] {
        let mut net = Net::cluster(Profile::Lan, nodes);
        net.drop_one_in = 5;
        let rounds = if nodes < 20 { 40 } else { 8 };
        for _ in 0..rounds {
            say(&mut net, 1, b"x");
            net.run(Duration::from_secs(11));
        }
        assert_eq!(seen(&net), rounds * nodes, "{nodes} nodes");
        assert_sums(&net);
    }
}

#[test]
fn an_idle_cluster_sends_nothing_because_of_messages_long_ago() {
    let mut net = Net::cluster(Profile::Lan, 5);
    net.run(Duration::from_secs(60));
    let bytes = |net: &Net| net.nodes.iter().map(|node| node.core.counters().bytes_sent).sum::<u64>();
    let during = |net: &mut Net| {
        let before = bytes(net);
        net.run(Duration::from_secs(60));
        bytes(net) - before
    };
    let idle = during(&mut net);
    say(&mut net, 0, b"x");
    net.run(BROADCAST_LIFE + Duration::from_secs(1));
    let after = during(&mut net);
    assert!(after <= idle + idle / 20, "{idle} bytes a minute before, {after} after");
    net.run(ORIGIN_MEMORY);
    assert!(net.nodes.iter().all(|node| node.core.sizes().messages == 0), "nothing is kept");
}

#[test]
fn a_large_broadcast_travels_by_links_and_each_node_gets_its_bytes_about_once() {
    let mut net = Net::linked(Profile::Local, 30);
    let sent = |net: &Net| net.nodes.iter().map(|node| node.core.counters().frame_bytes_sent).sum::<u64>();
    let before = sent(&net);
    say(&mut net, 3, &vec![7; MAX_PAYLOAD_BYTES]);
    net.run(Duration::from_secs(1));
    assert_eq!(seen(&net), 30);
    let copies = (sent(&net) - before) / MAX_PAYLOAD_BYTES as u64;
    assert!(copies <= 35, "{copies} copies of 29 that are needed");
    net.run(Duration::from_secs(12));
    assert_eq!(seen(&net), 30);
    assert_sums(&net);
}

#[test]
fn the_largest_flooded_payload_needs_no_links_and_one_byte_more_does() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.settings.mtu = 1_000;
    say(&mut net, 0, &[7; MAX_FLOODED_PAYLOAD]);
    net.run(ms(200));
    assert_eq!(seen(&net), 5);
    say(&mut net, 0, &[7; MAX_FLOODED_PAYLOAD + 1]);
    assert_eq!(net.nodes[0].replies.last(), Some(&Reply::Refused(CommandError::NoLinks)));
    assert_eq!(net.nodes[0].core.counters().messages.failed, 1);
}

#[test]
fn the_same_packet_again_and_again_is_delivered_once() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    for _ in 0..50 {
        forge(&mut net, 2, 0, &[broadcast(run, 7, Duration::ZERO)]);
    }
    assert_eq!(net.nodes[0].messages.len(), 1);
    assert_eq!(net.nodes[0].core.counters().messages.duplicate, 49);
    assert_sums(&net);
}

#[test]
fn what_comes_later_than_the_window_or_its_life_is_a_duplicate() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    forge(&mut net, 1, 0, &[broadcast(run, 10_000, Duration::ZERO)]);
    forge(&mut net, 1, 0, &[broadcast(run, 10_000 - MESSAGE_WINDOW, Duration::ZERO)]);
    assert_eq!(net.nodes[0].messages.len(), 1, "behind the window");
    forge(&mut net, 1, 0, &[broadcast(run, 10_001 - MESSAGE_WINDOW, Duration::ZERO)]);
    assert_eq!(net.nodes[0].messages.len(), 2, "the last inside");
    net.run(Duration::from_secs(20));
    forge(&mut net, 1, 0, &[broadcast(run, 10_001, BROADCAST_LIFE + ms(1))]);
    assert_eq!(net.nodes[0].messages.len(), 2, "too old");
    forge(&mut net, 1, 0, &[broadcast(run, 10_001, BROADCAST_LIFE)]);
    assert_eq!(net.nodes[0].messages.len(), 3, "just young enough");
    assert_eq!(net.nodes[0].core.counters().messages.duplicate, 2);
    assert_sums(&net);
}

#[test]
fn a_window_that_is_forgotten_lets_nothing_in_again() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    forge(&mut net, 1, 0, &[broadcast(run, 7, Duration::ZERO)]);
    net.run(ORIGIN_MEMORY + Duration::from_secs(1));
    // A copy that lay somewhere all the time.
    forge(&mut net, 2, 0, &[broadcast(run, 7, ORIGIN_MEMORY)]);
    assert_eq!(net.nodes[0].messages.len(), 1);
}

#[test]
fn who_relays_cannot_carry_an_origins_window_away() {
    let mut net = Net::cluster(Profile::Local, 4);
    let run = net.nodes[1].core.me().run;
    forge(&mut net, 1, 0, &[broadcast(run, 1, Duration::ZERO)]);
    for number in [1, 2, 3] {
        forge(&mut net, 2, 0, &[broadcast(run, number + MESSAGE_WINDOW, Duration::ZERO)]);
    }
    assert_eq!(net.nodes[0].core.counters().dropped(Drop::Jumped), 3);
    forge(&mut net, 1, 0, &[broadcast(run, 2, Duration::ZERO)]);
    forge(&mut net, 1, 0, &[broadcast(run, 2 + MESSAGE_WINDOW, Duration::ZERO)]);
    assert_eq!(net.nodes[0].messages.len(), 3, "the origin itself may");
    forge(&mut net, 2, 0, &[broadcast(run, 10 * MESSAGE_WINDOW, Duration::ZERO)]);
    forge(&mut net, 3, 0, &[broadcast(run, 10 * MESSAGE_WINDOW, Duration::ZERO)]);
    assert_eq!(net.nodes[0].messages.len(), 4, "two that agree may");
    assert_sums(&net);
}

#[test]
fn nobody_speaks_for_who_is_not_in_the_view_and_no_stranger_speaks_at_all() {
    let mut net = Net::cluster(Profile::Local, 3);
    forge(&mut net, 1, 0, &[broadcast(Run(0xbad), 1, Duration::ZERO)]);
    let run = net.nodes[1].core.me().run;
    let header = Header { cluster: Header::cluster_hash("test"), run: Run(0xbad), sequence: 9, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    packet.push(&broadcast(run, 1, Duration::ZERO));
    net.input(0, Input::Packet { from: address(77), bytes: &packet.finish() });
    assert!(net.nodes[0].messages.is_empty());
    assert_sums(&net);
}

#[test]
fn a_newcomer_hears_nothing_of_what_was_said_before_it_came() {
    let mut net = Net::cluster(Profile::Local, 3);
    say(&mut net, 0, b"old");
    net.run(Duration::from_secs(2));
    let newcomer = net.add("late", 9, &[0]);
    net.run(Duration::from_secs(3));
    say(&mut net, 0, b"new");
    net.run(Duration::from_secs(8));
    let heard: Vec<_> = net.nodes[newcomer].messages.iter().map(|(_, message)| message.payload.to_vec()).collect();
    assert_eq!(heard, [b"new".to_vec()]);
    assert_sums(&net);
}

#[test]
fn a_restarted_origin_begins_anew() {
    let mut net = Net::cluster(Profile::Local, 4);
    say(&mut net, 3, b"first run");
    net.run(ms(300));
    net.kill(3);
    net.run(Duration::from_secs(6));
    net.add("n3", 3, &[0]);
    net.run(Duration::from_secs(3));
    say(&mut net, 4, b"second run");
    net.run(Duration::from_secs(1));
    assert_eq!(net.nodes[0].messages.len(), 2, "the same number, and another process");
    assert_sums(&net);
}

#[test]
fn a_cut_that_heals_in_time_is_repaired_and_a_longer_one_stays_lost() {
    let mut net = Net::cluster(Profile::Lan, 4);
    let cut = |net: &mut Net, is_cut| (0..3).for_each(|other| net.cut(3, other, is_cut));
    cut(&mut net, true);
    say(&mut net, 0, b"in time");
    net.run(Duration::from_secs(3));
    cut(&mut net, false);
    net.run(Duration::from_secs(5));
    assert_eq!(net.nodes[3].messages.len(), 1);
    cut(&mut net, true);
    say(&mut net, 0, b"too late");
    net.run(BROADCAST_LIFE + Duration::from_secs(1));
    cut(&mut net, false);
    net.run(Duration::from_secs(10));
    assert_eq!(net.nodes[3].messages.len(), 1);
    assert_sums(&net);
}

#[test]
fn messages_do_not_hold_up_who_is_heard() {
    let mut net = Net::cluster(Profile::Local, 12);
    net.forget_reports();
    for _ in 0..500 {
        for _ in 0..20 {
            say(&mut net, 0, &[7; 500]);
        }
        net.run(ms(10));
    }
    assert!(net.nodes.iter().all(|node| node.changes.is_empty()), "nobody is suspected");
    // One batch is so many packets to each target, and one answer to each that asks for what it lacks, however much waits.
    net.sent = Some(Vec::new());
    net.run(ms(10));
    let mut packets = BTreeMap::new();
    for (_, to, _) in net.sent.take().unwrap_or_default().into_iter().filter(|(from, ..)| *from == address(0)) {
        *packets.entry(to).or_insert(0_usize) += 1;
    }
    assert!(packets.values().any(|packets| *packets >= SPREAD_PACKETS), "it has much to say: {packets:?}");
    let most = SPREAD_PACKETS + REPAIR_PACKETS + 2;
    assert!(packets.values().all(|packets| *packets <= most), "in one batch: {packets:?}");
}

#[test]
fn a_program_that_is_faster_than_its_messages_spread_is_told_to_wait() {
    let mut net = Net::cluster(Profile::Local, 3);
    for _ in 0..=MAX_UNSPREAD {
        say(&mut net, 0, b"x");
    }
    let refused = |net: &Net| net.nodes[0].replies.iter().filter(|reply| matches!(reply, Reply::Refused(_))).count();
    assert_eq!(refused(&net), 1, "one more than may wait");
    net.run(Duration::from_secs(10));
    say(&mut net, 0, b"x");
    assert_eq!(refused(&net), 1);
    net.run(Duration::from_secs(5));
    assert_eq!(seen(&net), 3 * (MAX_UNSPREAD + 1));
    assert_sums(&net);
}

#[test]
fn what_is_kept_is_bounded() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    for number in 1..=MAX_KEPT_MESSAGES as u64 + 500 {
        forge(&mut net, 1, 0, &[broadcast(run, number, Duration::ZERO)]);
    }
    let kept = net.nodes[0].core.sizes().messages;
    assert!(kept <= MAX_KEPT_MESSAGES + MAX_UNSPREAD + 16, "{kept}");
    assert_eq!(net.nodes[0].messages.len(), MAX_KEPT_MESSAGES + 500, "all were delivered");
}

#[test]
fn programs_that_outrun_the_others_are_told_to_wait_and_nothing_that_was_taken_is_lost() {
    let mut net = Net::linked(Profile::Local, 4);
    let large = vec![7; MAX_PAYLOAD_BYTES];
    let mut taken = [0; 3];
    let mut refused = 0;
    for _ in 0..500 {
        for (node, taken) in taken.iter_mut().enumerate() {
            net.nodes[node].replies.clear();
            say(&mut net, node, &large);
            match net.nodes[node].replies[..] {
                [Reply::Broadcast { .. }] => *taken += 1,
                [Reply::Refused(CommandError::TooFast)] => refused += 1,
                _ => panic!("{:?}", net.nodes[node].replies),
            }
        }
        net.run(ms(5));
    }
    assert!(refused > 0, "94 MiB in 2.5 s are more than is kept");
    assert!(
        taken.iter().all(|taken| taken * MAX_PAYLOAD_BYTES > MAX_KEPT_OWN_BYTES),
        "{taken:?}: room is made in time"
    );
    net.run(Duration::from_secs(8));
    for (origin, taken) in taken.iter().enumerate() {
        for node in &net.nodes {
            let heard = node.messages.iter().filter(|(_, message)| message.from == id(&format!("n{origin}"))).count();
            assert_eq!(heard, *taken, "of n{origin} at {}", node.core.me().id);
        }
    }
    assert!(net.nodes[0].core.counters().messages.evicted > 0, "what gives way is counted");
    assert_sums(&net);
}

#[test]
fn more_origins_than_there_is_room_for_wait_until_one_is_forgotten() {
    let mut net = Net::cluster(Profile::Lan, 2);
    let origins = MAX_ORIGINS + 1;
    for n in 0..origins {
        let mut record = crate::core::member::tests::record(&format!("m{n}"), 5, Status::Up);
        (record.run, record.address) = (Run(0x10_0000 + n as u64), address(1_000 + n));
        forge(&mut net, 1, 0, &[Message::Update(crate::core::wire::Update { note: None, record })]);
    }
    for n in 0..origins {
        forge(&mut net, 1, 0, &[broadcast(Run(0x10_0000 + n as u64), 1, Duration::ZERO)]);
    }
    assert_eq!(net.nodes[0].messages.len(), MAX_ORIGINS);
    assert_eq!(net.nodes[0].core.counters().dropped(Drop::TableFull), 1);
    assert_sums(&net);
}

#[test]
fn what_is_asked_for_in_one_question_is_bounded_and_unproven_addresses_get_nothing() {
    let mut net = Net::cluster(Profile::Local, 2);
    for _ in 0..2_000 {
        say(&mut net, 0, &[7; 700]);
    }
    let run = net.nodes[0].core.me().run;
    net.sent = Some(Vec::new());
    forge(&mut net, 1, 0, &[Message::WantBroadcasts(vec![Span { run, first: 1, last: 1 << 40 }])]);
    let sent = net.sent.take().unwrap_or_default();
    assert!(!sent.is_empty() && sent.len() <= 16, "{} packets", sent.len());
    // The same question from an address that proved nothing.
    let core = &mut net.nodes[0].core;
    let slot = core.view.slot_of("n1").expect("a member");
    core.view.peer_mut(slot).proven = false;
    net.sent = Some(Vec::new());
    net.nodes[0].core.asked_for_broadcasts(slot, &[Span { run, first: 1, last: 1 }]);
    net.drain(0);
    assert_eq!(net.sent.take().map(|sent| sent.len()), Some(0));
    assert_eq!(net.nodes[0].core.counters().dropped(Drop::Unproven), 1);
}

#[test]
fn broadcasts_beyond_the_allowance_of_who_relays_them_are_not_taken() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[2].core.me().run;
    let most = (MAX_BYTES_PER_MEMBER / MAX_PAYLOAD_BYTES) as u64;
    let largest = payload(&vec![0; MAX_PAYLOAD_BYTES]);
    let mut relay = |by: &str, number| {
        let core = &mut net.nodes[0].core;
        let slot = core.view.slot_of(by).expect("a member");
        core.heard_broadcast(slot, &Broadcast { run, number, age_ms: 0, topic: topic("t"), payload: largest.clone() });
        net.drain(0);
    };
    for number in 1..=most + 1 {
        relay("n1", number);
    }
    relay("n2", most + 2);
    assert_eq!(net.nodes[0].messages.len() as u64, most + 1, "and the last one, by another member");
    assert_eq!(net.nodes[0].core.counters().dropped(Drop::RateLimited), 1);
    assert_sums(&net);
}

#[test]
fn a_broadcast_does_not_go_back_to_where_it_began_or_came_from() {
    let mut net = Net::cluster(Profile::Local, 3);
    say(&mut net, 0, b"x");
    net.run(ms(150));
    assert_eq!(seen(&net), 3);
    assert_eq!(net.nodes[0].core.counters().messages.received, 0, "nobody sends it to its origin");
    assert_sums(&net);
}

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
            !net.nodes[0].core.is_linked(run)
        })
        .expect("not everybody is a neighbour among sixty");
    send(&mut net, 0, &format!("n{stranger}"), &vec![7; 60_000]);
    net.run(Duration::from_secs(3));
    assert!(matches!(net.nodes[0].replies[..], [Reply::Delivered { .. }]), "{:?}", net.nodes[0].replies);
    assert_eq!(net.nodes[stranger].messages.len(), 1);
    net.run(Duration::from_secs(60));
    let run = net.nodes[stranger].core.me().run;
    assert!(!net.nodes[0].core.is_linked(run), "nothing waits for it any more");
}

#[test]
fn errors_tell_what_is_known() {
    let mut net = Net::cluster(Profile::Local, 2);
    send(&mut net, 0, "nobody", b"x");
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::NoSuchMember { id: id("nobody") })]);
    send(&mut net, 0, "n1", b"x");
    net.run(SEND_TIMEOUT);
    assert_eq!(net.nodes[0].replies[1], Reply::Refused(CommandError::NoLink { id: id("n1") }), "TCP is blocked here");
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
    net.command(2, Command::Answer { ticket: 4, request: request.id, payload: payload(b"liar") });
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
    assert_eq!((counters.dropped(Drop::Unasked), counters.messages.dropped, counters.messages.delivered), (1, 1, 0));
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
fn letters_that_are_repeated_are_delivered_once_and_acknowledged_again() {
    let mut net = Net::linked(Profile::Local, 2);
    for n in 0..40 {
        send(&mut net, 0, "n1", &[n]);
    }
    // The link breaks when the first letters have arrived, and their receipts have not: they are sent again over the next.
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
fn letters_and_requests_have_their_bounds() {
    let mut net = Net::linked(Profile::Local, 2);
    net.pause(1, true);
    for _ in 0..MAX_LETTERS {
        send(&mut net, 0, "n1", b"x");
    }
    assert!(net.nodes[0].replies.is_empty());
    send(&mut net, 0, "n1", b"x");
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::Busy)]);
    net.pause(1, false);
    net.run(Duration::from_secs(8));
    assert_eq!(net.nodes[1].messages.len(), MAX_LETTERS);

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

/// A letter that comes to a node over the link from another.
fn hand_in(net: &mut Net, to: usize, from: &str, letter: &Letter) {
    let core = &mut net.nodes[to].core;
    let slot = core.view.slot_of(from).expect("a member");
    let way = core.best_way(slot);
    core.heard_letter(slot, way, letter);
    net.drain(to);
}

#[test]
fn receipts_and_answers_count_only_from_the_process_that_the_letter_went_to() {
    let mut net = Net::linked(Profile::Local, 3);
    net.pause(1, true);
    ask(&mut net, 0, "n1", Duration::from_secs(30));
    send(&mut net, 0, "n1", b"x");
    net.run(ms(50));
    // The third numbers its letters as it likes, and names those of others.
    for to in [1, 2] {
        let answer = Letter { number: 70 + to, purpose: Purpose::Answer { to }, payload: payload(b"liar") };
        hand_in(&mut net, 0, "n2", &answer);
        let liar = net.nodes[0].core.view.slot_of("n2").expect("a member");
        net.nodes[0].core.heard_receipt(liar, to);
        net.drain(0);
    }
    net.run(ms(50));
    assert!(net.nodes[0].replies.is_empty(), "{:?}", net.nodes[0].replies);
    assert_eq!(net.nodes[0].core.counters().dropped(Drop::Unasked), 2);
    net.pause(1, false);
    net.run(Duration::from_secs(2));
    assert!(matches!(net.nodes[0].replies[..], [Reply::Delivered { .. }]), "{:?}", net.nodes[0].replies);
    assert_sums(&net);
}

#[test]
fn few_letters_are_under_way_to_one_node_and_what_has_arrived_takes_no_room() {
    let mut net = Net::linked(Profile::Local, 2);
    let before = net.nodes[0].core.counters().frames_sent;
    for _ in 0..3 * MAX_LETTERS_UNDER_WAY {
        send(&mut net, 0, "n1", b"x");
    }
    let frames = net.nodes[0].core.counters().frames_sent - before;
    assert_eq!(frames as usize, MAX_LETTERS_UNDER_WAY, "the others wait for receipts");
    net.run(Duration::from_secs(1));
    let largest = vec![0; MAX_PAYLOAD_BYTES];
    let most = MAX_LETTER_BYTES / MAX_PAYLOAD_BYTES;
    for _ in 0..2 {
        for _ in 0..most {
            send(&mut net, 0, "n1", &largest);
        }
        net.run(Duration::from_secs(3));
    }
    assert_eq!(net.nodes[0].replies.len(), 3 * MAX_LETTERS_UNDER_WAY + 2 * most);
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
fn letters_beyond_the_allowance_of_their_sender_are_not_taken_until_it_has_a_new_one() {
    let mut net = Net::linked(Profile::Local, 3);
    let most = (MAX_BYTES_PER_MEMBER / MAX_PAYLOAD_BYTES) as u64;
    let largest = payload(&vec![0; MAX_PAYLOAD_BYTES]);
    let letter = |number| Letter { number, purpose: Purpose::Tell { topic: topic("t") }, payload: largest.clone() };
    for number in 1..=most + 1 {
        hand_in(&mut net, 0, "n1", &letter(number));
    }
    net.run(ms(1));
    assert_eq!(net.nodes[0].messages.len() as u64, most);
    assert_eq!(net.nodes[0].core.counters().dropped(Drop::RateLimited), 1);
    hand_in(&mut net, 0, "n2", &letter(1));
    // The core's own clock is that of its last input.
    net.run(ALLOWANCE_INTERVAL * 2);
    assert_eq!(net.nodes[0].messages.len() as u64, most + 1, "another member has its own");
    hand_in(&mut net, 0, "n1", &letter(most + 1));
    net.run(ms(1));
    assert_eq!(net.nodes[0].messages.len() as u64, most + 2, "it was not taken for seen");
    assert_sums(&net);
}

#[test]
fn a_letter_in_a_datagram_is_not_taken() {
    let mut net = Net::linked(Profile::Local, 2);
    let letter = Letter { number: 1, purpose: Purpose::Tell { topic: topic("t") }, payload: payload(b"x") };
    forge(&mut net, 0, 1, &[Message::Letter(Box::new(letter))]);
    assert!(net.nodes[1].messages.is_empty());
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

#[test]
fn who_knows_no_messages_skips_them() {
    // A packet of an unknown kind among known ones, as an older node sees it.
    let mut net = Net::cluster(Profile::Local, 2);
    net.sent = Some(Vec::new());
    say(&mut net, 0, b"x");
    net.run(ms(50));
    let packets = net.sent.take().unwrap_or_default();
    let kinds: BTreeMap<bool, usize> = packets
        .iter()
        .map(|(_, _, bytes)| Packet::decode(bytes).expect("decodes"))
        .map(|packet| packet.messages.iter().any(|message| matches!(message, Message::Broadcast(_))))
        .fold(BTreeMap::new(), |mut kinds, is_one| {
            *kinds.entry(is_one).or_default() += 1;
            kinds
        });
    assert!(kinds.contains_key(&true), "they travel as messages of their own kind, with a length that can be skipped");
}
