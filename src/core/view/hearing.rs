//! Being heard by one member: the echoes of this node's own stamps, and how long they have been missing.
//!
//! Must not know: what follows from that (see `detection`).

use std::time::Duration;

use crate::core::time::Time;

/// Whether a member hears this node, as far as its packets show.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::core) struct Hearing {
    /// The stamp it echoed last.
    echo: Option<u16>,
    /// The first packet to it since it last showed that it received one.
    unanswered_since: Option<Time>,
}

impl Hearing {
    /// It echoes this stamp; says whether it did not do so before.
    pub(in crate::core) fn echoed(&mut self, stamp: u16) -> bool {
        let is_news = self.echo != Some(stamp);
        self.echo = Some(stamp);
        if is_news {
            self.answered();
        }
        is_news
    }

    /// It has received what was sent to it.
    pub(in crate::core) fn answered(&mut self) {
        self.unanswered_since = None;
    }

    /// Something is sent to it, after a long pause perhaps.
    pub(in crate::core) fn sent(&mut self, now: Time, after_pause: bool) {
        if after_pause || self.unanswered_since.is_none() {
            self.unanswered_since = Some(now);
        }
    }

    /// Whether it has shown nothing of the kind for so long.
    pub(in crate::core) fn is_missing(&self, now: Time, patience: Duration) -> bool {
        self.unanswered_since.is_some_and(|since| now.since(since) >= patience)
    }
}
