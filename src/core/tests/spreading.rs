//! News that is carried, and views that are compared: how often, and in spite of what.

use std::time::Duration;

use super::limits::{Alone, TELLER, member};
use super::net::{Net, address, ms};
use crate::core::counters::Carrier;
use crate::core::doors::Output;
use crate::core::limits::SYNC_TRIES;
use crate::core::member::{Run, Status};
use crate::core::packet::News;
use crate::core::settings::Profile;
use crate::core::view::BUCKETS;
use crate::core::wire::{Message, Packet};

/// Has a member's address proven.
fn prove(alone: &mut Alone, run: Run) {
    let slot = alone.core.view.slot_of_run(run).expect("a member");
    alone.core.view.prove(slot);
}

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
            alone.core.gossip_to(*slot, Carrier::Other);
        }
        for output in alone.outputs() {
            let Output::Transmit { bytes, .. } = output else { continue };
            carried += usize::from(Packet::decode(&bytes).expect("ours").messages.iter().any(is_news));
        }
    }
    // 32 members and this one: 3 × ⌈log2 33⌉.
    assert_eq!(carried, 18);
}

/// Has a member whose view never becomes equal answer each comparison; returns the number of those in so many seconds.
fn comparisons(alone: &mut Alone, seconds: u32, mut each: impl FnMut(&mut Alone)) -> u64 {
    let before = alone.core.counters().syncs;
    for _ in 0..seconds * 10 {
        alone.pass(ms(100));
        alone.hand_in(address(19_999), TELLER, |packet| {
            assert!(packet.push(&Message::Reply) && packet.push(&Message::Want { buckets: [0xff; BUCKETS / 8] }));
        });
        each(alone);
    }
    alone.core.counters().syncs - before
}

/// Returns a node that has made the comparisons of a newcomer, and the member that it compares its view with.
fn compared() -> Alone {
    let mut alone = Alone::with_teller();
    prove(&mut alone, TELLER);
    comparisons(&mut alone, 3, |_| ());
    alone
}

#[test]
fn views_that_never_become_equal_are_compared_a_few_times_and_then_let_be() {
    let mut alone = compared();
    let before = comparisons(&mut alone, 10, |_| ());
    let after = comparisons(&mut alone, 60, |_| ());
    assert!(before <= u64::from(SYNC_TRIES) + 1 && after <= 1, "{before}, and {after} in the next minute");
}

#[test]
fn views_that_never_stand_still_are_compared_all_the_same() {
    let mut alone = compared();
    let mut host = 0;
    let compared = comparisons(&mut alone, 10, |alone| {
        alone.introduces(host..host + 1);
        host += 1;
    });
    assert!(compared >= 3, "{compared} in ten seconds");
}

#[test]
fn gossip_goes_to_those_that_have_waited_longest_so_that_few_need_a_heartbeat_besides() {
    let mut net = Net::cluster(Profile::Default, 8);
    net.run(Duration::from_secs(10));
    let before = net.nodes[0].core.counters().clone();
    net.run(Duration::from_secs(60));
    let after = net.nodes[0].core.counters();
    let sent = |carrier: Carrier| after.heartbeats_sent[carrier as usize] - before.heartbeats_sent[carrier as usize];
    assert_eq!(sent(Carrier::Heartbeat), 0);
    assert_eq!(sent(Carrier::Gossip), after.gossip_sent - before.gossip_sent, "all others are observers");
    let all = Carrier::ALL.into_iter().map(sent).sum::<u64>();
    assert_eq!(all, after.packets_sent - before.packets_sent, "every packet to an observer is a heartbeat");
}
