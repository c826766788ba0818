//! A limit on what one handler says in the log.
//!
//! Invariant: at most one line in [`PAUSE`]; the next line says how many were left out.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two lines of one kind about one handler.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// One kind of line.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    said: Option<Instant>,
    left_out: u64,
}

impl Quiet {
    /// Returns the number of things that were left out since the last line, if it is time for one; counts `things`
    /// otherwise.
    pub(super) fn may_say(&mut self, things: u64) -> Option<u64> {
        let now = Instant::now();
        if self.said.is_some_and(|said| now - said < PAUSE) {
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

    #[tokio::test(start_paused = true)]
    async fn one_line_in_a_while_says_what_the_others_would_have_said() {
        let mut quiet = Quiet::default();
        assert_eq!(quiet.may_say(1), Some(0));
        assert_eq!((quiet.may_say(1), quiet.may_say(2)), (None, None));
        tokio::time::advance(PAUSE).await;
        assert_eq!(quiet.may_say(1), Some(3));
        tokio::time::advance(PAUSE).await;
        assert_eq!(quiet.may_say(1), Some(0));
    }
}
