//! How far a long computation is, for people who wait: a bar on standard error, and nothing where nobody looks.
//!
//! Must not know: what is computed.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar is as fine as this.
const STEPS: u64 = 1_000;
/// Redrawn so often at most.
const FRAMES_PER_SECOND: u8 = 8;

/// A bar; it goes away when it is dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar, if standard error is a terminal.
    pub(super) fn start() -> Self {
        if !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let target = ProgressDrawTarget::stderr_with_hz(FRAMES_PER_SECOND);
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {elapsed}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// So much is done, 0–1, and this is going on.
    pub(super) fn tell(&self, done: f64, what: &str, now: Duration) {
        self.0.set_position((done.clamp(0.0, 1.0) * STEPS as f64) as u64);
        if !self.0.is_hidden() {
            self.0.set_message(format!("{what}, {:.0} s of virtual time", now.as_secs_f64()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
