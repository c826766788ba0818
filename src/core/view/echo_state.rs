//! Being heard by one member: the echoes of this node's own stamps, and the time for which they have been missing.
//!
//! Must not know: the consequences (see `detection`).

use std::time::Duration;

use crate::time::Time;

/// Evidence that a member hears this node, as far as its packets show.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EchoState {
    /// The stamp that it echoed last.
    echo: Option<u16>,
    /// Time of the first packet to it since it last showed that it received one.
    unanswered_since: Option<Time>,
}

impl EchoState {
    /// Notes an echoed stamp; returns true if it is a new one.
    pub(crate) fn echoed(&mut self, stamp: u16) -> bool {
        let is_news = self.echo != Some(stamp);
        self.echo = Some(stamp);
        if is_news {
            self.answered();
        }
        is_news
    }

    /// Notes that it has received a packet of ours.
    pub(crate) fn answered(&mut self) {
        self.unanswered_since = None;
    }

    /// Notes that a packet is sent to it, perhaps after a long pause.
    pub(crate) fn sent(&mut self, now: Time, after_pause: bool) {
        if after_pause || self.unanswered_since.is_none() {
            self.unanswered_since = Some(now);
        }
    }

    /// Returns true if for so long it has not shown that it received a packet.
    pub(crate) fn is_missing(&self, now: Time, patience: Duration) -> bool {
        self.unanswered_since.is_some_and(|since| now.since(since) >= patience)
    }
}
