//! Questions that stand late in the packet that opens a bootstrap link.

use super::net::{Net, ms};
use headcount_core::limits::MAX_MESSAGES_IN_QUESTION;
use headcount_core::wire::{Header, Message, Nonce, PacketBuilder};
use headcount_core::{Input, LinkEvent, LinkId, Output, Profile};

#[test]
fn a_bootstrap_link_is_for_a_question_among_its_first_messages() {
    let mut net = Net::linked(Profile::Local, 2);
    let mut opens = |before: usize, port: u16| {
        let mut packet = PacketBuilder::new(&Header::anonymous(Header::cluster_hash("test")), 1400);
        for _ in 0..before {
            assert!(packet.push(&Message::Padding(vec![0; 8])));
        }
        assert!(packet.push(&Message::WhoAreYou { nonce: Nonce(7), echo: None }));
        packet.pad_to(256);
        let from = std::net::SocketAddr::from(([10, 9, 9, 9], port));
        let (core, bytes) = (&mut net.nodes[0].core, packet.finish());
        let link = LinkId::Accepted(1_000 + u64::from(port));
        core.handle(net.now, Input::Link { link, event: LinkEvent::Frame { from, bytes: &bytes } });
        let is_closed = |output: Output| matches!(output, Output::CloseLink { link: closed, .. } if closed == link);
        let is_open = !std::iter::from_fn(|| core.poll()).any(is_closed);
        net.run(ms(1));
        is_open
    };
    assert!(opens(MAX_MESSAGES_IN_QUESTION - 1, 1));
    assert!(!opens(MAX_MESSAGES_IN_QUESTION, 2));
}
