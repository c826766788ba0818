//! Trouble that comes and goes, such as too many open files: when to say that it began, and that it is over.
//!
//! Purpose: errors and successes alternate while descriptors are short, and a log that tells each turn tells nothing.
//!
//! Invariants: trouble is told at most once in [`TELL_INTERVAL`]; its end is told only if its beginning was, and only after
//! [`CALM`] without an error.
//!
//! Must not know: what the trouble is, or how it is told.

use std::time::Duration;

use tokio::time::Instant;

/// Trouble is over when there was no error for this long.
const CALM: Duration = Duration::from_secs(5);
/// Trouble that is over and begins again is told again after this time.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// One kind of trouble.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    is_told: bool,
    told: Option<Instant>,
    last: Option<Instant>,
}

impl Trouble {
    /// Notes an error; true if it has to be told.
    #[must_use]
    pub(crate) fn begins(&mut self) -> bool {
        let now = Instant::now();
        self.last = Some(now);
        if self.is_told || self.told.is_some_and(|told| now - told < TELL_INTERVAL) {
            return false;
        }
        (self.is_told, self.told) = (true, Some(now));
        true
    }

    /// Notes a success; true if it has to be told that the trouble is over.
    #[must_use]
    pub(crate) fn end(&mut self) -> bool {
        let is_calm = self.last.is_none_or(|last| last.elapsed() >= CALM);
        is_calm && std::mem::take(&mut self.is_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn trouble_is_told_once_and_over_when_it_was_calm_for_a_while() {
        let mut trouble = Trouble::default();
        assert!(!trouble.end(), "there was none");
        assert!(trouble.begins());
        for _ in 0..100 {
            assert!(!trouble.end());
            tokio::time::advance(CALM / 2).await;
            assert!(!trouble.begins(), "errors and successes alternate");
        }
        tokio::time::advance(CALM).await;
        assert!(trouble.end());
        assert!(!trouble.end(), "it is told once");
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_that_comes_back_is_told_again_but_not_often() {
        let mut trouble = Trouble::default();
        assert!(trouble.begins());
        tokio::time::advance(CALM).await;
        assert!(trouble.end());
        assert!(!trouble.begins(), "it was told a moment ago");
        tokio::time::advance(CALM).await;
        assert!(!trouble.end(), "what was not told is not taken back");
        tokio::time::advance(TELL_INTERVAL).await;
        assert!(trouble.begins());
    }
}
