//! A limit on lines of the log that somebody else causes: peers, handlers, callers.
//!
//! Invariant: there is at most one line of a kind in a pause; the next line says how many things were left out.
//!
//! Must not know: what the lines say, or of what.

use std::time::Duration;

use tokio::time::Instant;

/// One kind of line.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Quiet {
    said: Option<Instant>,
    left_out: u64,
}

impl Quiet {
    /// Returns the number of things that were left out since the last line, if that was so long ago that it is time for
    /// another one; counts `things` as left out otherwise.
    pub(crate) fn take_turn(&mut self, pause: Duration, things: u64) -> Option<u64> {
        let now = Instant::now();
        if self.said.is_some_and(|said| now - said < pause) {
            self.left_out += things;
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn one_line_in_a_while_says_what_the_others_would_have_said() {
        let mut quiet = Quiet::default();
        assert_eq!(quiet.take_turn(PAUSE, 1), Some(0));
        assert_eq!((quiet.take_turn(PAUSE, 1), quiet.take_turn(PAUSE, 2)), (None, None));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!(quiet.take_turn(PAUSE, 1), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(quiet.take_turn(PAUSE, 1), Some(4));
        tokio::time::advance(PAUSE).await;
        assert_eq!(quiet.take_turn(PAUSE, 1), Some(0));
    }
}
