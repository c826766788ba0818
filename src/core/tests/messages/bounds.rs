//! Bounds of the broadcasts that are kept, asked for and taken, while nothing that was taken is lost.

use super::*;

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

/// More than that are left to repair.
#[test]
fn so_many_large_broadcasts_of_others_wait_to_be_sent_on() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    let large = payload(&[7; MAX_FLOODED_PAYLOAD + 1]);
    let core = &mut net.nodes[0].core;
    let mut grows_by = |number: u64| {
        let before = core.sizes().messages;
        let said = Broadcast { run, number, age_ms: 0, topic: topic("t"), payload: large.clone() };
        core.hear(run, Message::Broadcast(Box::new(said)));
        core.sizes().messages - before
    };
    // The first one brings its origin.
    grows_by(1);
    for number in 2..=MAX_UNSPREAD as u64 {
        assert_eq!(grows_by(number), 2, "{number} is kept, and waits");
    }
    assert_eq!(grows_by(MAX_UNSPREAD as u64 + 1), 1, "it is kept, and does not wait");
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
        let mut record = headcount_core::testing::record(&format!("m{n}"), 5, Status::Up);
        (record.run, record.address) = (Run(0x10_0000 + n as u64), address(1_000 + n));
        forge(&mut net, 1, 0, &[Message::Update(headcount_core::wire::Update { note: None, record })]);
    }
    for n in 0..origins {
        forge(&mut net, 1, 0, &[broadcast(Run(0x10_0000 + n as u64), 1, Duration::ZERO)]);
    }
    assert_eq!(net.nodes[0].messages.len(), MAX_ORIGINS);
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::TableFull), 1);
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
    // An address that proved nothing gets no answer to that question.
    let asker = net.nodes[1].core.me().run;
    net.nodes[0].core.set_proven(asker, false);
    net.sent = Some(Vec::new());
    net.nodes[0].core.hear(asker, Message::WantBroadcasts(vec![Span { run, first: 1, last: 1 }]));
    net.drain(0);
    assert_eq!(net.sent.take().map(|sent| sent.len()), Some(0));
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::Unproven), 1);
}
