//! Packets that come again and again: how often they make a node ask, tell, answer, or open a connection.

use super::alone::{Alone, member, prove};
use crate::io::{Input, LinkEvent, Output};
use crate::member::{Run, Status};
use crate::wire::{Header, PacketBuilder};

#[test]
fn another_process_does_not_speak_over_a_link_that_was_opened_to_a_member() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..2, Status::Up);
    let [peer, other] = [0, 1].map(|host| member(host, Status::Up));
    (0..2).for_each(|host| prove(&mut alone, member(host, Status::Up).run));
    for run in [other.run, Run(0xbad), peer.run] {
        alone.outputs();
        let slot = alone.core.view.slot_of_run(peer.run).expect("a member");
        alone.core.ensure_link(slot);
        let opened = alone.outputs();
        let link = opened.iter().find_map(|output| match output {
            Output::OpenLink { link, to } if *to == peer.address => Some(*link),
            _ => None,
        });
        let link = link.expect("opened");
        alone.core.handle(alone.now, Input::Link { link, event: LinkEvent::Connected });
        alone.outputs();
        alone.sequence += 1;
        let header = Header { cluster: Header::cluster_hash("test"), run, sequence: alone.sequence, fingerprint: 0 };
        let bytes = PacketBuilder::new(&header, 1_400).finish();
        alone
            .core
            .handle(alone.now, Input::Link { link, event: LinkEvent::Frame { from: peer.address, bytes: &bytes } });
        let is_closed = alone.outputs().contains(&Output::CloseLink { link });
        assert_eq!((is_closed, alone.core.open_links()), (run != peer.run, usize::from(run == peer.run)), "{run:?}");
    }
}
