//! News that is carried, and views that are compared: how often, and in spite of what.

use super::alone::{Alone, member, prove};
use super::net::ms;
use crate::io::{Input, Output};
use crate::member::Status;
use crate::packet::News;
use crate::wire::{Header, Message, Packet, PacketBuilder};

#[test]
fn an_update_is_carried_by_gossip_so_often_and_no_more() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..30);
    let news = member(100, Status::Up);
    alone.pass(ms(100));
    alone.core.learn(News::told(news.clone()), None);
    alone.outputs();
    let peers: Vec<_> = (0..30).filter_map(|host| alone.core.view.slot_of_run(member(host, Status::Up).run)).collect();
    for host in 0..30 {
        let peer = member(host, Status::Up);
        prove(&mut alone, peer.run);
        // News besides is for questions alone.
        alone.hand_in(peer.address, peer.run, |packet| assert!(packet.push(&Message::Reply)));
    }
    let is_news = |message: &Message| matches!(message, Message::Update(update) if update.record.id == news.id);
    let mut carried = 0;
    for _ in 0..20 {
        for slot in &peers {
            alone.core.gossip_to(*slot, None);
        }
        for output in alone.outputs() {
            let Output::Transmit { bytes, .. } = output else { continue };
            carried += usize::from(Packet::decode(&bytes).expect("ours").messages.iter().any(is_news));
        }
    }
    // 32 members and this one: 3 × ⌈log2 33⌉.
    assert_eq!(carried, 18);
}

#[test]
fn a_member_that_is_not_observed_is_asked_nothing_by_gossip() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..30);
    let slot_of = |alone: &Alone, host| alone.core.view.slot_of_run(member(host, Status::Up).run).expect("a member");
    let (observers, others): (Vec<_>, Vec<_>) =
        (0..30).map(|host| slot_of(&alone, host)).partition(|slot| alone.core.observers.observes(*slot));
    alone.outputs();
    let is_asked = |alone: &mut Alone, slot| {
        alone.core.gossip_to(slot, None);
        let outputs = alone.outputs();
        let Some(Output::Transmit { bytes, .. }) = outputs.first() else { panic!("no packet") };
        let messages = Packet::decode(bytes).expect("ours").messages;
        messages.iter().any(|message| matches!(message, Message::Probe { .. }))
    };
    assert!(!observers.is_empty() && observers.iter().all(|slot| is_asked(&mut alone, *slot)));
    assert!(!others.is_empty() && !others.iter().any(|slot| is_asked(&mut alone, *slot)));
    // Nothing is remembered of those.
    assert!(others.iter().all(|slot| alone.core.view.entry(*slot).peer.rare().last_sent.is_none()));
}

#[test]
fn a_peer_whose_view_is_known_to_be_equal_is_sent_no_updates() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..3);
    let peer = member(0, Status::Up);
    prove(&mut alone, peer.run);
    let slot = alone.core.view.slot_of_run(peer.run).expect("a member");
    let is_told = |alone: &mut Alone, fingerprint| {
        alone.sequence += 1;
        let header =
            Header { cluster: Header::cluster_hash("test"), run: peer.run, sequence: alone.sequence, fingerprint };
        let mut packet = PacketBuilder::new(&header, 1_400);
        assert!(packet.push(&Message::Reply));
        alone.core.handle(alone.now, Input::Packet { from: peer.address, bytes: &packet.finish() });
        alone.outputs();
        alone.core.gossip_to(slot, None);
        let Some(Output::Transmit { bytes, .. }) = alone.outputs().into_iter().next() else { panic!("no packet") };
        let messages = Packet::decode(&bytes).expect("ours").messages;
        messages.iter().any(|message| matches!(message, Message::Update(_)))
    };
    let equal = alone.core.fingerprint();
    assert!(is_told(&mut alone, equal ^ 1) && !is_told(&mut alone, equal));
}
