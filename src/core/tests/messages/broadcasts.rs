//! Broadcasts: everybody gets each once, whatever is lost on the way.

use super::*;

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
fn more_large_broadcasts_at_once_than_one_list_names_are_asked_for_at_once() {
    let mut net = Net::linked(Profile::Local, 2);
    // Small ones between them: each large one is a span of its own.
    for _ in 0..MAX_SPANS + 8 {
        say(&mut net, 0, &[7; MAX_FLOODED_PAYLOAD + 1]);
        say(&mut net, 0, b"small");
    }
    net.run(ms(100));
    assert_eq!(seen(&net), 2 * 2 * (MAX_SPANS + 8));
    assert_eq!(net.nodes[1].core.counters().dropped(DropReason::RateLimited), 0);
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
fn who_was_away_for_longer_than_a_window_hears_the_next_number_whoever_relays_it() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    forge(&mut net, 1, 0, &[broadcast(run, 1, Duration::ZERO)]);
    forge(&mut net, 2, 0, &[broadcast(run, 10 * MESSAGE_WINDOW, Duration::ZERO)]);
    assert_eq!(net.nodes[0].messages.len(), 2);
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
    // One batch is so many packets to each target, and one answer to each that asks for what it lacks, however much
    // waits.
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
