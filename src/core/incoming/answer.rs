//! The answer to one packet, as it is gathered.
//!
//! Must not know: how a message was dealt with, beyond the marks that it left here.

use std::net::SocketAddr;

use super::questions::Asked;
use crate::election::ElectorateReport;
use crate::member::NodeId;
use crate::packet::{Introduction, SenderKind, Way};
use crate::wire::{Message, Nonce, Seeking, Span};

/// The marks that the messages of one packet leave, of which its answer is made.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent marks, not a state")]
pub(crate) struct Answer {
    /// The way of the packet.
    pub(crate) way: Way,
    /// The sender's standing, now that the packet is read so far.
    pub(crate) kind: SenderKind,
    pub(crate) is_reply: bool,
    pub(crate) acks: Vec<Nonce>,
    pub(crate) introduce: Option<Nonce>,
    /// A probe by somebody who is no member by this way: the question who it is can prove our address to it.
    pub(crate) probed: Option<Nonce>,
    /// Words on when those were heard whom the sender asks about.
    pub(crate) testimony: Vec<Message>,
    /// True if the packet asks for confirmations.
    pub(crate) is_asked_to_confirm: bool,
    /// Hashes, if so, of the records held for the names that the packet brought news about.
    pub(crate) held: Vec<u64>,
    pub(crate) confirmed: Vec<u64>,
    /// True if the packet is a page of a view. A joiner believes no other news: what waited in a kernel while it slept
    /// may be about the dead.
    pub(crate) is_page: bool,
    /// The last name that the packet brought news about, where it is a page.
    pub(crate) last_on_page: Option<NodeId>,
    /// The sender's own question echoed a nonce that was sent to where the packet came from.
    pub(crate) has_echoed: bool,
    /// The sender's introduction brought such a nonce.
    pub(crate) has_brought_nonce: bool,
    /// The address at which the sender, introducing itself, says that it is to be found.
    pub(crate) advertised: Option<SocketAddr>,
    /// The outcome of the sender's introduction.
    pub(crate) introduction: Option<Introduction>,
    /// Our own record, because the sender's picture of us is old.
    pub(crate) myself: bool,
    /// Something was said that is only believed from members.
    pub(crate) stranger: bool,
    /// Word of a sender that looks for a cluster on who is to found it.
    pub(crate) seeking: Option<Seeking>,
    /// Word of the sender on its cluster's electorate, before it welcomes us.
    pub(crate) founded: Option<ElectorateReport>,
    /// The questions of the packet that count once.
    pub(crate) asked: Asked,
    /// The ranges of broadcasts that the packet asks for, at most [`MAX_WANTS`](crate::limits::MAX_WANTS).
    pub(crate) wants: Vec<Span>,
}

impl Answer {
    pub(crate) fn new(kind: SenderKind, way: Way) -> Self {
        Self {
            way,
            kind,
            is_reply: false,
            acks: Vec::new(),
            introduce: None,
            probed: None,
            testimony: Vec::new(),
            is_asked_to_confirm: false,
            held: Vec::new(),
            confirmed: Vec::new(),
            is_page: false,
            last_on_page: None,
            has_echoed: false,
            has_brought_nonce: false,
            advertised: None,
            introduction: None,
            myself: false,
            stranger: false,
            seeking: None,
            founded: None,
            asked: Asked::default(),
            wants: Vec::new(),
        }
    }
}
