//! Questions: the kinds of messages that one packet asks once, however many of them it holds.
//!
//! A question takes a few bytes, and its answer a packet. Whoever fills a packet with one question, or forges a member's
//! address, would have every other answer paid by this node, and carried to that address.
//!
//! Invariant: whatever is answered by packets of its own is listed here, or gathered into one answer (see `answer`).
//!
//! Must not know: the answers.

use crate::wire::Message;

/// A question, or a step, of which the first in a packet counts.
#[derive(Debug, Clone, Copy)]
#[repr(u16)]
pub(crate) enum Question {
    /// A step of the join handshake.
    Step = 1,
    /// Records: a page, or a comparison.
    Records = 1 << 1,
    /// The sender's introduction.
    Introduction = 1 << 2,
    /// A change of the electorate.
    Voters = 1 << 4,
    /// The leader.
    Leader = 1 << 5,
    /// An agreed view.
    View = 1 << 6,
    /// A sign of life of a member whose port refused.
    Life = 1 << 7,
    /// A packet at another address.
    Reach = 1 << 8,
    /// A list of broadcasts, out of which this node asks for those that it lacks.
    Broadcasts = 1 << 9,
    /// A message of an election.
    Election = 1 << 10,
}

impl Question {
    /// Returns the question that a message is, if it counts once.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        Some(match message {
            Message::Join { .. }
            | Message::Challenge { .. }
            | Message::Welcome { .. }
            | Message::NotUp { .. }
            | Message::Refused { .. }
            | Message::Behind { .. }
            | Message::Wait { .. }
            | Message::Elsewhere { .. } => Question::Step,
            Message::Pull { .. } | Message::Digest { .. } | Message::Want { .. } => Question::Records,
            Message::IAm { .. } => Question::Introduction,
            Message::ChangeVoters(_) => Question::Voters,
            Message::WhoLeads => Question::Leader,
            Message::WantView(_) => Question::View,
            Message::Severed { .. } => Question::Life,
            Message::ReachMe { .. } => Question::Reach,
            Message::HaveBroadcasts(_) => Question::Broadcasts,
            Message::Election(_) => Question::Election,
            _ => return None,
        })
    }
}

/// The questions that a packet asked so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked(u16);

impl Asked {
    /// Adds a question; returns true if it is the first of its kind.
    pub(crate) fn add(&mut self, question: Question) -> bool {
        let is_first = self.0 & question as u16 == 0;
        self.0 |= question as u16;
        is_first
    }
}
