//! The deadline of a command that runs under a leader's claim.
//!
//! The claim lasts until a time that the agent renews. The command is asked to end (SIGTERM) a grace before that time,
//! or as soon as the agent says that leadership is over, and killed when the grace is nearly over, in any case before
//! the claim ends: even if there is no answer from the agent or the command.
//!
//! Invariants: a claim is counted from before the request for it; an ending that has begun is not taken back.
//!
//! Must not know: processes, HTTP.

use std::time::Duration;

use crate::core::Time;

/// The default grace, as a divisor of the first claim.
const DEFAULT_GRACE: u32 = 4;
/// The longest grace, as a divisor of the first claim: a longer one would end the command between two renewals.
const LONGEST_GRACE: u32 = 3;
/// The time from the kill to the end of the grace, as a divisor of the grace: signals and processes take time.
const KILL_SHARE: u32 = 4;
/// The shortest such time, however short the grace is: the command is not there when the claim ends.
const LEAST_KILL_EARLY: Duration = Duration::from_millis(20);
/// The longest such time.
const MAX_KILL_EARLY: Duration = Duration::from_millis(500);

/// Returns the longest grace for a claim of this length.
pub(super) fn longest_grace(claim: Duration) -> Duration {
    claim / LONGEST_GRACE
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Do nothing for this long at most.
    Wait(Duration),
    /// Ask the command to end.
    Terminate,
    /// Kill the command.
    Kill,
}

/// The state of a command's deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deadline {
    grace: Duration,
    /// End of the claim, as far as it is known.
    until: Time,
    /// True if the agent said that leadership is over.
    is_over: bool,
    /// Time at which the command was asked to end, for either reason.
    terminated: Option<Time>,
}

impl Deadline {
    /// Creates the deadline for a claim of this length, counted from the request for it. The error is the longest grace
    /// allowed.
    pub(super) fn new(asked: Time, claim: Duration, grace: Option<Duration>) -> Result<Self, Duration> {
        let longest = longest_grace(claim);
        let grace = grace.unwrap_or(claim / DEFAULT_GRACE);
        if grace > longest {
            return Err(longest);
        }
        Ok(Self { grace, until: asked + claim, is_over: false, terminated: None })
    }

    /// Takes in the agent's answer to the request of that time: the remaining length of the claim, or `None` if
    /// leadership is over.
    pub(super) fn told(&mut self, asked: Time, claim: Option<Duration>) {
        match claim {
            Some(claim) => self.until = self.until.max(asked + claim),
            None => self.is_over = true,
        }
    }

    /// Returns true if the command was asked to end, or killed, because leadership or the claim ends.
    pub(super) fn is_ending(&self) -> bool {
        self.terminated.is_some()
    }

    /// Returns the next step. The caller carries out each step before it asks for the next one.
    pub(super) fn step(&mut self, now: Time) -> Step {
        let early = (self.grace / KILL_SHARE).clamp(LEAST_KILL_EARLY, MAX_KILL_EARLY);
        let last = self.until - early;
        let kill_at = self.terminated.map_or(last, |at| last.min(at + self.grace.saturating_sub(early)));
        if now >= kill_at {
            self.terminated.get_or_insert(now);
            return Step::Kill;
        }
        let terminate_at = self.until - self.grace;
        if self.terminated.is_none() && (self.is_over || now >= terminate_at) {
            self.terminated = Some(now);
            return Step::Terminate;
        }
        let next = if self.terminated.is_some() { kill_at } else { terminate_at.min(kill_at) };
        Step::Wait(next.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const ASKED: Time = Time::ORIGIN;

    fn after(seconds: f64) -> Time {
        ASKED + Duration::from_secs_f64(seconds)
    }

    fn deadline() -> Deadline {
        Deadline::new(ASKED, SECOND * 8, None).expect("a grace of 2 s, killed half a second before its end")
    }

    #[test]
    fn a_claim_that_is_not_renewed_ends_the_command_in_time() {
        let mut deadline = deadline();
        assert_eq!(deadline.step(after(5.0)), Step::Wait(SECOND));
        assert_eq!(deadline.step(after(6.0)), Step::Terminate);
        assert!(deadline.is_ending());
        assert_eq!(deadline.step(after(6.5)), Step::Wait(SECOND));
        assert_eq!(deadline.step(after(7.5)), Step::Kill);
        assert_eq!(deadline.step(after(7.6)), Step::Kill, "and again, until it is gone");
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_asked_for_and_none_shortens_the_claim() {
        let mut deadline = deadline();
        deadline.told(after(3.0), Some(SECOND * 8));
        deadline.told(after(2.0), Some(SECOND * 8));
        assert_eq!(deadline.step(after(8.5)), Step::Wait(SECOND / 2));
        assert_eq!(deadline.step(after(9.0)), Step::Terminate);
    }

    #[test]
    fn leadership_that_is_over_ends_the_command_within_its_grace_and_is_not_taken_back() {
        let mut deadline = deadline();
        deadline.told(after(1.0), None);
        assert_eq!(deadline.step(after(1.0)), Step::Terminate);
        deadline.told(after(1.1), Some(SECOND * 8));
        assert_eq!(deadline.step(after(1.5)), Step::Wait(SECOND));
        assert_eq!(deadline.step(after(2.5)), Step::Kill);
    }

    #[test]
    fn a_long_grace_is_the_commands_but_for_half_a_second() {
        let mut deadline = Deadline::new(ASKED, SECOND * 80, None).expect("a grace of 20 s");
        assert_eq!(deadline.step(after(60.0)), Step::Terminate);
        assert_eq!(deadline.step(after(79.0)), Step::Wait(SECOND / 2));
        assert_eq!(deadline.step(after(79.5)), Step::Kill);
    }

    #[test]
    fn who_stood_still_past_the_claim_kills_at_once() {
        let mut deadline = deadline();
        assert_eq!(deadline.step(after(60.0)), Step::Kill);
        assert!(deadline.is_ending());
    }

    #[test]
    fn the_kill_comes_before_the_claim_ends_however_short_the_grace_is() {
        for grace in [0, 1, 10, 20, 50, 80, 200] {
            let mut deadline = Deadline::new(ASKED, SECOND * 8, Some(Duration::from_millis(grace))).expect("allowed");
            assert!(matches!(deadline.step(after(7.7)), Step::Wait(_)), "{grace} ms");
            assert_eq!(deadline.step(after(7.98)), Step::Kill, "{grace} ms");
        }
        let mut none = Deadline::new(ASKED, SECOND * 8, Some(Duration::ZERO)).expect("allowed");
        assert_eq!(none.step(after(7.97)), Step::Wait(SECOND / 100));
    }

    #[test]
    fn a_grace_that_renewals_would_run_into_is_refused() {
        let with = |grace: Duration| Deadline::new(ASKED, SECOND * 9, Some(grace));
        assert!(with(SECOND * 3).is_ok() && with(Duration::ZERO).is_ok());
        assert_eq!(with(SECOND * 4), Err(SECOND * 3));
    }
}
