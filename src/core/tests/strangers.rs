//! Bounds of the harm that strangers can do, with a member's run or with none: a packet is a member's only from where
//! the member is.

use std::net::SocketAddr;
use std::time::Duration;

use super::alone::{Alone, member, prove};
use super::hostile::{EVIL, EVIL_RUN, FORCED, bytes_to, evil, packet, send};
use super::net::{Net, address, ms};
use headcount_core::wire::{Header, Message, Nonce, Packet, PacketBuilder};
use headcount_core::{DropReason, Input, LinkEvent, LinkId, Output, Profile, Run, Status};

fn run_of(net: &Net, node: usize) -> Run {
    net.nodes[node].core.me().run
}

fn bare(run: Run, sequence: u64, messages: &[Message]) -> Vec<u8> {
    let header = Header { cluster: Header::cluster_hash("test"), run, sequence, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1400);
    for message in messages {
        assert!(packet.push(message));
    }
    packet.finish()
}

fn dropped(net: &Net, node: usize, reason: DropReason) -> u64 {
    net.nodes[node].core.counters().dropped(reason)
}

fn is_ever_down(net: &Net, name: &str) -> bool {
    let is_down =
        |change: &(_, headcount_core::Change)| change.1.record.id == *name && change.1.record.status != Status::Up;
    net.nodes.iter().any(|node| node.changes.iter().any(is_down))
}

#[test]
fn a_member_one_of_whose_numbers_was_garbled_is_heard_again_once_it_answers() {
    for ahead in [900, 1 << 17, 1 << 47, u64::MAX / 2] {
        let mut net = Net::cluster(Profile::Local, 3);
        net.run(Duration::from_secs(5));
        net.forget_reports();
        let run = run_of(&net, 1);
        for push in 1..=2 {
            for node in [0, 2] {
                send(&mut net, node, 1, &bare(run, push * ahead, &[]));
            }
        }
        net.run(Duration::from_secs(60));
        assert!(!is_ever_down(&net, "n1"), "by {ahead}: {}", net.describe());
        let refused = dropped(&net, 0, DropReason::Duplicate);
        assert!(refused < 40, "by {ahead}, {refused} of its packets were refused");
    }
}

#[test]
fn a_packet_that_comes_twice_or_late_is_one_sign_of_life() {
    let mut net = Net::cluster(Profile::Local, 2);
    let run = run_of(&net, 1);
    let signs = |net: &Net| net.nodes[0].core.counters().signs_of_life;
    let before = signs(&net);
    let late = bare(run, 50_000, &[Message::Ack { nonce: Nonce(1) }]);
    for bytes in [&bare(run, 60_000, &[]), &bare(run, 60_000, &[]), &late, &late] {
        send(&mut net, 0, 1, bytes);
    }
    assert_eq!((signs(&net) - before, dropped(&net, 0, DropReason::Duplicate)), (1, 3));
}

#[test]
fn members_that_are_heard_from_elsewhere_stay() {
    for elsewhere in [vec![1], vec![1, 2], vec![0, 1, 2, 3, 4]] {
        let mut net = Net::new(Profile::Local);
        for node in &elsewhere {
            let other = SocketAddr::new(address(*node).ip(), 40_000);
            net.seen_at.insert(address(*node), other);
        }
        for i in 0..5 {
            net.add(&format!("n{i}"), i, &[0]);
        }
        net.run(Duration::from_secs(3));
        net.assert_all_up();
        net.forget_reports();
        net.run(Duration::from_secs(60));
        net.assert_all_up();
        for name in ["n0", "n1", "n2", "n3", "n4"] {
            assert!(!is_ever_down(&net, name), "{elsewhere:?}: {}", net.describe());
        }
        net.kill(1);
        net.run(Duration::from_secs(3));
        assert_eq!(net.status(0, "n1"), Some(Status::Down));
    }
}

/// Returns the outputs of a node when something happens to a link of it.
fn link(net: &mut Net, node: usize, link: LinkId, event: LinkEvent<'_>) -> Vec<Output> {
    let (now, core) = (net.now, &mut net.nodes[node].core);
    core.handle(now, Input::Link { link, event });
    std::iter::from_fn(|| core.poll()).collect()
}

/// Returns the nonce that a member is asked to echo at its own address.
fn asked_at_address(outputs: &[Output], member: usize) -> Option<Nonce> {
    outputs.iter().find_map(|output| match output {
        Output::Transmit { to, bytes, .. } if *to == address(member) => {
            Packet::decode(bytes).expect("decodes").messages.into_iter().find_map(|message| match message {
                Message::Probe { nonce, .. } => Some(nonce),
                _ => None,
            })
        }
        _ => None,
    })
}

fn is_greeted(outputs: &[Output], link: LinkId) -> bool {
    outputs.iter().any(|output| matches!(output, Output::SendFrame { link: over, .. } if *over == link))
}

#[test]
fn a_connection_in_a_members_name_is_nobodys_until_its_address_is_proven() {
    let mut net = Net::cluster(Profile::Local, 3);
    let (run, other) = (run_of(&net, 1), run_of(&net, 0));
    net.nodes[0].core.set_proven(run, false);
    let told = packet(run, 900, &[Message::HeldStatus { run: other, incarnation: 1, status: FORCED, age_ms: 0 }]);
    let from = SocketAddr::new(address(1).ip(), 50_000);
    let unproven = LinkId::Accepted(1);
    let outputs = link(&mut net, 0, unproven, LinkEvent::Frame { from, bytes: &told });
    assert!(net.nodes[0].core.is_up() && net.nodes[0].core.open_links() == 0, "nothing that it says is believed");
    let nonce = asked_at_address(&outputs, 1).expect("the member is asked, at its own address");
    assert!(!is_greeted(&outputs, unproven), "nothing goes over it");

    let wrong = bare(run, 901, &[Message::Ack { nonce: Nonce(nonce.0 + 1) }]);
    send(&mut net, 0, 1, &wrong);
    assert_eq!(net.nodes[0].core.open_links(), 0);

    let right = bare(run, 902, &[Message::Ack { nonce }]);
    let (now, core) = (net.now, &mut net.nodes[0].core);
    core.handle(now, Input::Packet { from: address(1), bytes: &right });
    let outputs: Vec<_> = std::iter::from_fn(|| core.poll()).collect();
    assert_eq!(core.open_links(), 1, "who reads what is sent to the address is the member");
    assert!(is_greeted(&outputs, unproven));
}

#[test]
fn a_member_that_has_proven_nobody_either_echoes_what_it_is_asked_because_of_an_unproven_link() {
    let mut net = Net::cluster(Profile::Local, 3);
    let runs = [run_of(&net, 0), run_of(&net, 1)];
    for (node, other) in [(0, 1), (1, 0)] {
        net.nodes[node].core.set_proven(runs[other], false);
    }
    let from = SocketAddr::new(address(1).ip(), 50_000);
    let greeting = bare(runs[1], 900, &[]);
    let outputs = link(&mut net, 0, LinkId::Accepted(1), LinkEvent::Frame { from, bytes: &greeting });
    let question = outputs.into_iter().find_map(|output| match output {
        Output::Transmit { to, bytes, .. } if to == address(1) => Some(bytes),
        _ => None,
    });
    let (now, core) = (net.now, &mut net.nodes[1].core);
    core.handle(now, Input::Packet { from: address(0), bytes: &question.expect("asked at its address") });
    let answers = std::iter::from_fn(|| core.poll()).filter_map(|output| match output {
        Output::Transmit { to, bytes, .. } if to == address(0) => Some(Packet::decode(&bytes).expect("decodes")),
        _ => None,
    });
    let mut said = answers.flat_map(|packet| packet.messages);
    assert!(said.any(|message| matches!(message, Message::Ack { .. })), "there is room for it");
}

#[test]
fn an_address_that_was_proven_before_makes_no_connection_a_link() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.run(Duration::from_secs(1));
    let run = run_of(&net, 1);
    assert!(net.nodes[0].core.is_proven(run));
    let from = SocketAddr::new(address(1).ip(), 50_000);
    let greeting = bare(run, 900, &[]);
    let unproven = LinkId::Accepted(1);
    let outputs = link(&mut net, 0, unproven, LinkEvent::Frame { from, bytes: &greeting });
    assert!(!is_greeted(&outputs, unproven) && net.nodes[0].core.open_links() == 0, "perhaps nobody reaches it by now");
    assert!(asked_at_address(&outputs, 1).is_some());
}

#[test]
fn a_seed_that_meets_itself_under_another_address_knows_it() {
    let mut net = Net::new(Profile::Local);
    let (mine, other) = (address(5), address(60));
    let node = net.add("n", 5, &[60]);
    net.run(ms(1));
    let own: Vec<Vec<u8>> =
        net.undelivered.iter().filter(|(to, _)| *to == other).map(|(_, bytes)| bytes.clone()).collect();
    assert!(!own.is_empty(), "asked");
    for bytes in own {
        net.input(node, Input::Packet { from: mine, bytes: &bytes });
    }
    net.run(Duration::from_secs(3));
    assert!(net.nodes[node].core.is_up(), "its own question came back: it is its cluster's seed");
}

#[test]
fn a_connection_of_another_cluster_is_closed_at_once() {
    let mut net = Net::cluster(Profile::Local, 3);
    let (run, from) = (run_of(&net, 1), SocketAddr::new(address(1).ip(), 5_000));
    let header = Header { cluster: 1, run, sequence: 900, fingerprint: 0 };
    let frame = PacketBuilder::new(&header, 1400).finish();
    let unproven = LinkId::Accepted(77);
    let outputs = link(&mut net, 0, unproven, LinkEvent::Frame { from, bytes: &frame });
    assert!(outputs.contains(&Output::CloseLink { link: unproven }));
}

#[test]
fn all_answers_to_a_strangers_packet_are_together_no_larger_than_it() {
    let questions = [
        Message::Join { nonce: Nonce(1), record: evil("j", 5, Status::Joining), cookie: None },
        Message::WhoAreYou { nonce: Nonce(3), echo: None },
        Message::ReachMe { nonce: Nonce(4), address: address(EVIL) },
    ];
    let mut answered = 0;
    for chosen in 1..1 << questions.len() {
        let mut net = Net::cluster(Profile::Local, 2);
        let asked: Vec<Message> =
            (0..questions.len()).filter(|nth| chosen & (1 << nth) != 0).map(|nth| questions[nth].clone()).collect();
        let question = bare(EVIL_RUN, 1, &asked);
        send(&mut net, 0, EVIL, &question);
        net.run(ms(5));
        let bytes = bytes_to(&net, address(EVIL));
        assert!(bytes <= question.len(), "{bytes} for {}: {asked:?}", question.len());
        answered += usize::from(bytes > 0);
    }
    assert!(answered > 4, "most are answered: {answered}");
}

#[test]
fn the_older_connection_in_a_members_name_gives_way() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = run_of(&net, 1);
    net.nodes[0].core.set_proven(run, false);
    let from = SocketAddr::new(address(1).ip(), 50_000);
    let mut closed_by = |sequence: u64, number: u64| {
        let bytes = bare(run, sequence, &[]);
        let outputs = link(&mut net, 0, LinkId::Accepted(number), LinkEvent::Frame { from, bytes: &bytes });
        let closed = outputs.iter().filter_map(|output| match output {
            Output::CloseLink { link } => Some(*link),
            _ => None,
        });
        closed.collect::<Vec<_>>()
    };
    assert_eq!(closed_by(900, 1_001), []);
    assert_eq!(closed_by(901, 1_000), [LinkId::Accepted(1_001)]);
}

#[test]
fn no_page_is_sent_in_answer_to_a_members_run_before_its_address_is_proven() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..40, Status::Up);
    let peer = member(0, Status::Up);
    for is_served in [false, true] {
        if is_served {
            prove(&mut alone, peer.run);
        }
        alone.pass(Duration::from_secs(1));
        let sent = alone.hand_in(peer.address, peer.run, |packet| {
            assert!(packet.push(&Message::Pull { after: None, pages: 8 }));
        });
        let is_page = |(_, message): &(SocketAddr, Message)| matches!(message, Message::Page { .. });
        assert_eq!(sent.iter().any(is_page), is_served, "{sent:?}");
    }
}
