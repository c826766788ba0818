//! Sealed packets that are bound to no receiver: whoever recorded one may have played it here, so that its sender is a
//! stranger, or claims to be a member, whatever its address.

use super::hostile::{evil, packet};
use super::net::{Net, address, ms};
use crate::core::counters::DropReason;
use crate::core::doors::{Input, Output, Receiver};
use crate::core::limits::MIN_QUESTION_BYTES;
use crate::core::member::{Run, Status};
use crate::core::settings::Profile;
use crate::core::wire::{Heartbeat, Message, Nonce, Packet, Update};

/// Hands n0 an unbound packet from n1's address; returns what n0 sends in return, and to whom.
fn played(net: &mut Net, bytes: &[u8]) -> Vec<(Receiver, Packet, usize)> {
    let (now, core) = (net.now, &mut net.nodes[0].core);
    core.handle(now, Input::UnboundPacket { from: address(1), bytes });
    let mut answers = Vec::new();
    while let Some(output) = core.poll() {
        if let Output::Transmit { to, receiver, bytes } = output {
            assert_eq!(to, address(1));
            answers.push((receiver, Packet::decode(&bytes).expect("decodes"), bytes.len()));
        }
    }
    answers
}

#[test]
fn an_unbound_packet_of_a_member_is_no_sign_of_life_moves_no_window_and_brings_no_news() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    let signs = net.nodes[0].core.counters().signs_of_life;
    let ghost = Update { note: None, record: evil("ghost", 5, Status::Up) };
    // A number that would leave the member's own far behind.
    let words = [Message::Heartbeat(Heartbeat { stamp: 7, echo: None }), Message::Update(ghost)];
    played(&mut net, &packet(run, 2_000, &words));
    assert_eq!(net.nodes[0].core.counters().signs_of_life, signs);
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::Claimed), 1);
    assert_eq!(net.status(0, "ghost"), None);
    net.run(ms(3_000));
    assert!(net.nodes[0].core.counters().signs_of_life > signs, "its own packets count as before");
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::Replayed), 0);
    net.assert_all_up();
}

#[test]
fn a_member_that_asks_who_is_here_is_told_so_at_its_home_and_no_larger_than_it_asked() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    let asks = |run: Run| packet(run, 2_000, &[Message::WhoAreYou { nonce: Nonce(7), echo: None }]);
    let introduces =
        |packet: &Packet| packet.messages.iter().any(|message| matches!(message, Message::IAm { nonce: Nonce(7), .. }));
    let answers = played(&mut net, &asks(run));
    let told: Vec<_> = answers.iter().filter(|(_, packet, _)| introduces(packet)).collect();
    assert_eq!(told.len(), 1, "{answers:?}");
    assert_eq!(told[0].0, Receiver::Run(run), "nobody else reads it");
    assert!(told[0].2 <= MIN_QUESTION_BYTES, "{} bytes", told[0].2);
    // A stranger at the same address is not told who is here, and its answer is for it alone.
    let answers = played(&mut net, &asks(Run(0xbad)));
    assert!(!answers.iter().any(|(_, packet, _)| introduces(packet)), "{answers:?}");
    assert!(answers.iter().all(|(receiver, ..)| *receiver == Receiver::Run(Run(0xbad))), "{answers:?}");
}

#[test]
fn what_is_sent_to_a_silent_member_is_also_for_who_may_have_taken_its_place() {
    let mut net = Net::cluster(Profile::Local, 3);
    let (run, home) = (net.nodes[2].core.me().run, address(2));
    let mut seen = Vec::new();
    net.kill(2);
    for _ in 0..2_000 {
        let now = net.now;
        let status = net.status(0, "n2").expect("held");
        let core = &mut net.nodes[0].core;
        if core.next_deadline().is_some_and(|due| due <= now + ms(10)) {
            core.handle(now + ms(10), Input::Tick);
            while let Some(output) = core.poll() {
                if let Output::Transmit { to, receiver, .. } = output
                    && to == home
                {
                    seen.push((status, receiver));
                }
            }
        }
        net.now = net.now + ms(10);
        if seen.iter().filter(|(status, _)| *status != Status::Up).count() > 3 {
            break;
        }
    }
    assert_eq!(seen.first(), Some(&(Status::Up, Receiver::Run(run))), "{seen:?}");
    let to_both = seen.iter().filter(|(_, to)| *to == Receiver::RunOrSuccessor(run)).count();
    assert!(to_both >= 3, "{seen:?}");
}
