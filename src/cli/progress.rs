//! The progress of a long computation, for people who wait: a bar on standard error if that is a terminal.
//!
//! Must not know: the computation.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Number of steps of the bar.
const STEPS: u64 = 1_000;
/// The highest rate of redrawing.
const FRAMES_PER_SECOND: u8 = 8;

/// A progress bar; it disappears when it is dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar, hidden unless standard error is a terminal.
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

    /// Shows the share that is done, 0–1, and the present activity.
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
