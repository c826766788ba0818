//! Requests that wait for the task: for the proof that this node holds a lease.
//!
//! Invariants: a proof is a round that was handed out after the question and was answered, with the claim standing in the same
//! term; at most [`MAX_WAITING`] wait, each for [`PATIENCE`].
//!
//! Must not know: rounds, the store.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::agent::lease_state::Unproven;
use crate::core::Time;
use crate::lease::{Claim, LeaseName};

/// The largest number of requests that wait at one time.
pub(super) const MAX_WAITING: usize = 256;
/// The time that each request waits for its proof.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

type Answer = oneshot::Sender<Result<(u64, Time), Unproven>>;

#[derive(Debug)]
struct Asked {
    lease: LeaseName,
    term: u64,
    at: Time,
    answer: Answer,
}

/// The requests that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<Asked>);

impl Waiting {
    /// Takes a request in; returns true if a round is wanted for it.
    pub(super) fn ask(&mut self, now: Time, lease: LeaseName, claim: Option<&Claim>, answer: Answer) -> bool {
        self.0.retain(|asked| !asked.answer.is_closed());
        let refused = match claim.filter(|claim| claim.is_me) {
            None => Unproven::NotHolder,
            Some(_) if self.0.len() >= MAX_WAITING => Unproven::Busy,
            Some(claim) => {
                self.0.push(Asked { lease, term: claim.term, at: now, answer });
                return true;
            }
        };
        let _ = answer.send(Err(refused));
        false
    }

    /// A round that was handed out then was answered. Says for which leases another one is wanted.
    pub(super) fn answered(&mut self, sent: Time, claims: &[Claim]) -> Vec<LeaseName> {
        let (proven, others) = std::mem::take(&mut self.0).into_iter().partition(|asked| asked.at <= sent);
        self.0 = others;
        for asked in proven {
            let claim = standing(claims, &asked).and_then(|claim| claim.valid_until);
            let _ = asked.answer.send(claim.map(|until| (asked.term, until)).ok_or(Unproven::Lost));
        }
        self.0.iter().map(|asked| asked.lease.clone()).collect()
    }

    /// Time has passed, or claims have changed.
    pub(super) fn look(&mut self, now: Time, claims: &[Claim]) {
        for asked in std::mem::take(&mut self.0) {
            let refused = if standing(claims, &asked).is_none() {
                Unproven::Lost
            } else if now.since(asked.at) >= PATIENCE {
                Unproven::TimedOut
            } else {
                self.0.push(asked);
                continue;
            };
            let _ = asked.answer.send(Err(refused));
        }
    }

    /// The latest time at which to look again; `None` while nothing waits.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.0.iter().map(|asked| asked.at + PATIENCE).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The claim that was asked about, if it still stands.
fn standing<'a>(claims: &'a [Claim], asked: &Asked) -> Option<&'a Claim> {
    claims.iter().find(|claim| claim.lease == asked.lease && claim.is_me && claim.term == asked.term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::LeadershipState;

    fn claim(term: u64, is_me: bool) -> Claim {
        let valid_until = is_me.then_some(Time::ORIGIN + Duration::from_secs(99));
        let lease = LeaseName::default();
        Claim { lease, state: LeadershipState::Led, leader: None, term, is_me, valid_until }
    }

    fn at(seconds: u64) -> Time {
        Time::ORIGIN + Duration::from_secs(seconds)
    }

    fn ask(
        waiting: &mut Waiting,
        now: Time,
        claim: Option<&Claim>,
    ) -> oneshot::Receiver<Result<(u64, Time), Unproven>> {
        let (answer, answered) = oneshot::channel();
        let is_wanted = waiting.ask(now, LeaseName::default(), claim, answer);
        assert!(!is_wanted || !waiting.is_empty());
        answered
    }

    #[test]
    fn only_a_round_that_began_after_the_question_proves_anything() {
        let mut waiting = Waiting::default();
        let mut answered = ask(&mut waiting, at(5), Some(&claim(3, true)));
        assert_eq!(waiting.answered(at(4), &[claim(3, true)]), [LeaseName::default()]);
        assert!(answered.try_recv().is_err(), "that round was under way already");
        assert!(waiting.answered(at(5), &[claim(3, true)]).is_empty());
        assert_eq!(answered.try_recv(), Ok(Ok((3, at(99)))));
    }

    #[test]
    fn who_holds_no_claim_or_loses_it_is_told_so() {
        let mut waiting = Waiting::default();
        assert_eq!(ask(&mut waiting, at(5), None).try_recv(), Ok(Err(Unproven::NotHolder)));
        assert_eq!(ask(&mut waiting, at(5), Some(&claim(3, false))).try_recv(), Ok(Err(Unproven::NotHolder)));
        let mut lost = ask(&mut waiting, at(5), Some(&claim(3, true)));
        waiting.look(at(6), &[claim(3, false)]);
        assert_eq!(lost.try_recv(), Ok(Err(Unproven::Lost)));
        let mut led_anew = ask(&mut waiting, at(5), Some(&claim(3, true)));
        waiting.answered(at(6), &[claim(4, true)]);
        assert_eq!(led_anew.try_recv(), Ok(Err(Unproven::Lost)), "another term");
    }

    #[test]
    fn nobody_waits_for_ever_and_so_many_at_most() {
        let mut waiting = Waiting::default();
        let mut all: Vec<_> = (0..MAX_WAITING).map(|_| ask(&mut waiting, at(5), Some(&claim(3, true)))).collect();
        assert_eq!(ask(&mut waiting, at(5), Some(&claim(3, true))).try_recv(), Ok(Err(Unproven::Busy)));
        assert_eq!(waiting.deadline(), Some(at(5) + PATIENCE));
        waiting.look(at(5) + PATIENCE, &[claim(3, true)]);
        assert!(all.iter_mut().all(|answer| answer.try_recv() == Ok(Err(Unproven::TimedOut))));
        assert!(waiting.is_empty() && waiting.deadline().is_none());
    }

    #[test]
    fn whoever_waits_no_more_leaves_its_place() {
        let mut waiting = Waiting::default();
        let gone: Vec<_> = (0..MAX_WAITING).map(|_| ask(&mut waiting, at(5), Some(&claim(3, true)))).collect();
        drop(gone);
        let mut answered = ask(&mut waiting, at(5), Some(&claim(3, true)));
        assert!(answered.try_recv().is_err(), "it waits");
        assert_eq!(waiting.answered(at(6), &[claim(3, true)]), []);
        assert_eq!(answered.try_recv(), Ok(Ok((3, at(99)))));
    }
}
