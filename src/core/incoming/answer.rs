//! The answer to one packet, as it is gathered while the packet's messages are handed on.
//!
//! Must not know: how a message was dealt with.

use std::mem::{Discriminant, discriminant};
use std::net::SocketAddr;

use crate::election::ElectorateReport;
use crate::member::NodeId;
use crate::packet::{Introduction, SenderKind, Way};
use crate::wire::{Message, Nonce, Seeking, Span};

/// Everything gathered of one packet for the answer to it.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The way of the packet.
    pub(crate) way: Way,
    /// The sender's standing, now that the packet is read so far.
    pub(crate) kind: SenderKind,
    pub(crate) beside: Beside,
    pub(crate) shown: Shown,
    pub(crate) owed: Owed,
    /// Something was said that is only believed from members.
    pub(crate) stranger: bool,
    /// The kinds of questions that were answered by packets of their own.
    asked: Vec<Discriminant<Message>>,
}

/// The messages that go with others of a packet, and say how those are meant.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) is_reply: bool,
    /// True if the packet asks for confirmations.
    pub(crate) is_asked_to_confirm: bool,
    /// True if the packet is a page of a view. A joiner believes no other news: what waited in a kernel while it slept
    /// may be about the dead.
    pub(crate) is_page: bool,
    /// The last name that the packet brought news about, where it is a page.
    pub(crate) last_on_page: Option<NodeId>,
    /// The report of a sender that looks for a cluster on who is to found it.
    pub(crate) seeking: Option<Seeking>,
    /// The sender's report of its cluster's electorate, before it welcomes us.
    pub(crate) founded: Option<ElectorateReport>,
}

/// The signs, in a packet, of who its sender is, and where.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The sender's own question echoed a nonce that was sent to where the packet came from.
    pub(crate) has_echoed: bool,
    /// The sender's introduction brought such a nonce.
    pub(crate) has_brought_nonce: bool,
    /// The address at which the sender, introducing itself, says that it is to be found.
    pub(crate) advertised: Option<SocketAddr>,
    /// The outcome of the sender's introduction.
    pub(crate) introduction: Option<Introduction>,
}

/// The parts of an answer that the sender is owed.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    pub(crate) acks: Vec<Nonce>,
    /// The introduction of this node, which was asked who it is.
    pub(crate) introduce: Option<Nonce>,
    /// The nonce of a probe by somebody who is no member this way: the question who it is can prove our address to it.
    pub(crate) probed: Option<Nonce>,
    /// When those were heard whom the sender asks about.
    pub(crate) testimony: Vec<Message>,
    /// Hashes, if confirmations are asked for, of the records held for the names that the packet brought news about.
    pub(crate) held: Vec<u64>,
    /// Hashes of the records whose confirmation is asked for.
    pub(crate) confirmed: Vec<u64>,
    /// Our own record, because the sender's picture of us is old.
    pub(crate) myself: bool,
    /// The ranges of broadcasts that the packet asks for, at most [`MAX_WANTS`](crate::limits::MAX_WANTS).
    pub(crate) wants: Vec<Span>,
}

impl Answer {
    pub(crate) fn new(kind: SenderKind, way: Way, beside: Beside) -> Self {
        let (shown, owed, asked) = Default::default();
        Self { way, kind, beside, shown, owed, stranger: false, asked }
    }

    /// Returns true if a message asks what the packet asked before, and would be answered by packets of its own. A question
    /// takes a few bytes, and whoever forges a member's address could have a packet full of them answered there: of each kind
    /// the first counts.
    pub(crate) fn note_repeated(&mut self, message: &Message) -> bool {
        if !matches!(
            message,
            Message::Pull { .. }
                | Message::Want { .. }
                | Message::Severed { .. }
                | Message::Election(_)
                | Message::WantView(_)
                | Message::ChangeVoters(_)
                | Message::HaveBroadcasts(_)
                | Message::IAm { .. }
                | Message::ReachMe { .. }
        ) {
            return false;
        }
        let kind = discriminant(message);
        let is_repeated = self.asked.contains(&kind);
        if !is_repeated {
            self.asked.push(kind);
        }
        is_repeated
    }
}
