//! A glance at a [`Message::Join`](super::Message::Join): what shows whether its sender has proven an address. Nothing else
//! of it is read, and nothing is validated.

use std::net::SocketAddr;

use super::fields::Nonce;
use super::raw::RawRecord;

/// The length of a nonce, in bytes.
const NONCE_BYTES: usize = 8;

/// The fields of a question to join, not decoded.
#[derive(Clone, Copy)]
pub(in crate::core) struct RawJoin<'a>(&'a [u8]);

impl<'a> RawJoin<'a> {
    pub(super) fn new(fields: &'a [u8]) -> Self {
        Self(fields)
    }

    /// Returns the cookie. Of a question that brings none, the end of the record may look like one; that proves nothing.
    pub(in crate::core) fn cookie(self) -> Option<Nonce> {
        match self.0.last_chunk::<{ 1 + NONCE_BYTES }>()? {
            [1, cookie @ ..] => Some(Nonce(u64::from_le_bytes(*cookie))),
            _ => None,
        }
    }

    /// Returns the address that the joiner advertises.
    pub(in crate::core) fn advertised(self) -> Option<SocketAddr> {
        RawRecord::address_in(self.0.get(NONCE_BYTES..)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::limits::MAX_STRANGER_MESSAGES;
    use crate::core::member::tests::record;
    use crate::core::member::{Record, Run, Status};
    use crate::core::wire::{Header, Message, PacketBuilder, read};

    /// Returns what is seen of the first question to join in a packet of these messages.
    fn seen(messages: &[Message]) -> Option<(Option<Nonce>, Option<SocketAddr>)> {
        let mut packet = PacketBuilder::new(&Header { cluster: 1, run: Run(2), sequence: 3, fingerprint: 4 }, 1_400);
        assert!(messages.iter().all(|message| packet.push(message)));
        let bytes = packet.finish();
        let (_, messages) = read(&bytes).unwrap_or_else(|_| panic!("a packet"));
        messages.first_join(MAX_STRANGER_MESSAGES).map(|join| (join.cookie(), join.advertised()))
    }

    #[test]
    fn a_question_shows_its_cookie_and_its_address_without_being_decoded() {
        for (address, seen_as) in [
            ("10.1.2.3:4", "10.1.2.3:4"),
            ("[2001:db8::1]:60000", "[2001:db8::1]:60000"),
            ("[::ffff:10.1.2.3]:4", "10.1.2.3:4"),
        ] {
            let [address, seen_as] = [address, seen_as].map(|text| text.parse().expect("an address"));
            for incarnation in [0, 300, Record::INCARNATION_LIMIT - 1] {
                let record = Record { address, ..record("joiner", incarnation, Status::Joining) };
                for cookie in [None, Some(Nonce(0)), Some(Nonce(u64::MAX - 7))] {
                    let join = Message::Join { nonce: Nonce(9), record: record.clone(), cookie };
                    let before = vec![Message::Reply; MAX_STRANGER_MESSAGES - 1];
                    assert_eq!(seen(&[before.clone(), vec![join.clone()]].concat()), Some((cookie, Some(seen_as))));
                    assert_eq!(seen(&[before, vec![Message::Reply, join]].concat()), None, "one too far behind");
                }
            }
        }
        assert_eq!(seen(&[Message::WhoLeads, Message::Padding(vec![8; 100])]), None);
    }

    #[test]
    fn a_short_question_shows_nothing() {
        for length in 0..40 {
            let join = RawJoin::new(&[8; 40][..length]);
            assert_eq!((join.cookie(), join.advertised()), (None, None));
        }
    }
}
