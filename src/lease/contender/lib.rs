//! The contender: one agent's part in contending for leases in a database, as a state machine of its own.
//!
//! It knows nothing of databases, sockets or clocks: answers of a store, time, and reports of other agents go in;
//! rounds and [`Output`]s come out. The same machine runs in the agent, in chaos runs and in a model checker.
//!
//! ```text
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ The contract of the machine                                                                  │
//! │                                                                                              │
//! │ 1. At `next_deadline()`, or as soon after it as may be: `tick(now)`, then `begin(now)`.       │
//! │ 2. A round that `begin` handed out is carried out at once, and ends in exactly one call of    │
//! │    `answered` or `failed`; an answer that comes after that is dropped.                        │
//! │ 3. After every call, `poll()` until it is `None`; the outputs are carried out in order.       │
//! │ 4. `now` never falls, and counts suspend.                                                     │
//! │ 5. The same birth and the same inputs at the same times give the same rounds and outputs.     │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! ```text
//!              Acquired, or the row bears a token of a lost acquisition (counted from when *that* was sent)
//!   contends ─────────────────────────────────────────────────────────────────────────────────▶ leads ─┐ Renewed: counted
//!      ▲                                                                                         │ ▲───┘ from when it was sent
//!      │ released, or the row is somebody else's    its time is past, rejected, a higher term, resigned, drained, stopped
//!      └──────────────────────────────── gives up: led work ends first ◀─────────────────────────┘
//! ```
//!
//! Every rule, what breaks without it, the file in which it lives, the test that sees it broken, and how far all
//! this reaches: `rules`.
//!
//! Invariants: at most one round is under way; every token is noted before it is sent.
//! Must not know: how a store works, what is led, which nodes are members.
//!
//! | idea | file |
//! |---|---|
//! | one agent's part in the contest for one lease | `contest` |
//! | inputs and outputs | `io` |
//! | conditions that are reported to an operator | `alarm` |
//! | the source of randomness; names of leases; the secret that proves which contender wrote a row | `rng`, `name`, `token` |
//! | the requests to a store, and its answers; the term, which is the fencing token: one more with each acquisition | `round` |
//! | a model of a database, for simulators and tests | [`database`] |

mod alarm;
mod answering;
mod asking;
mod contest;
pub mod database;
mod drawn;
mod history;
mod io;
mod leading;
mod name;
mod rng;
mod round;
mod rules;
mod timing;
mod token;

#[cfg(any(test, feature = "planted"))]
#[path = "tests/flaw.rs"]
pub mod flaw;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

pub use alarm::ContenderAlarm;
pub use drawn::MAX_DRAWN;
pub use io::{Claim, ContenderInit, Output, TooManyLeases};
pub use name::LeaseName;
pub use round::{Answer, Holder, NodeRow, Outcome, Round, Seen, Step, StepRequest};
pub use timing::{ContenderTiming, TimingError};
pub use token::{InvalidToken, Token};

use asking::Flight;
use contest::Contest;
use headcount_core::election::LossReason;
use headcount_core::{NodeId, Time};
use rng::ContenderRng;
pub use rules::{Rules, Sound};
use timing::{DOUBTS_IN_RENEWAL, LISTENS, NOTICE_JITTER};

/// The largest number of leases that one agent contends for.
pub const MAX_LEASES: usize = 64;
/// The highest term: whole numbers are exact up to here in every program that reads them as JSON.
pub const MAX_TERM: u64 = (1 << 53) - 1;
/// The highest term that is believed on the word of other agents: no such word uses up the terms.
pub const MAX_HEARD_TERM: u64 = 1 << 52;

/// The state of stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stopping {
    No,
    /// Leases that are held are being released.
    Releasing,
    /// No lease is held.
    Stopped,
}

/// The state machine of one agent, by these rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Contender<R: Rules = Sound> {
    node: NodeId,
    timing: ContenderTiming,
    rng: ContenderRng,
    contests: BTreeMap<LeaseName, Contest<R>>,
    /// The highest terms on disk, of leases that are not contended for.
    terms: BTreeMap<LeaseName, u64>,
    /// The highest terms that were led in another way.
    floors: BTreeMap<LeaseName, u64>,
    flight: Option<Flight>,
    /// The time at which this node's liveness row is written again, whatever its leases need.
    heartbeat_at: Time,
    /// The number of failures in a row.
    failures: u32,
    /// The time at which the round was handed out that was answered last; at first, the birth.
    answered_at: Time,
    is_unreachable: bool,
    is_draining: bool,
    /// The time until which this node listens to the members among which it has come.
    listens_until: Option<Time>,
    stopping: Stopping,
    outputs: VecDeque<Output>,
    rules: R,
}

impl Contender {
    /// Creates a contender; the first round is due at once.
    ///
    /// # Panics
    /// If the timing does not fit together, or there are too many leases: its maker checks both.
    pub fn new(init: ContenderInit, now: Time) -> Self {
        Self::by_rules(Sound, init, now)
    }
}

impl<R: Rules> Contender<R> {
    /// Creates a contender that follows these rules.
    ///
    /// # Panics
    /// As [`new`](Contender::new) does.
    pub fn by_rules(rules: R, init: ContenderInit, now: Time) -> Self {
        let ContenderInit { node, timing, leases, terms, floors, seed } = init;
        timing.check().expect("the timing is checked before the machine is born");
        let mut contender = Self {
            node,
            timing,
            rng: ContenderRng::new(seed),
            contests: BTreeMap::new(),
            terms,
            floors,
            flight: None,
            heartbeat_at: now,
            failures: 0,
            answered_at: now,
            is_unreachable: false,
            is_draining: false,
            listens_until: None,
            stopping: Stopping::No,
            outputs: VecDeque::new(),
            rules,
        };
        for lease in leases {
            contender.add_lease(now, lease).expect("leases are counted before the machine is born");
        }
        contender
    }

    /// Contends for one lease more. Nothing changes if it does so already.
    pub fn add_lease(&mut self, now: Time, lease: LeaseName) -> Result<(), TooManyLeases> {
        self.expire(now);
        if let Some(contest) = self.contests.get_mut(&lease) {
            contest.is_leaving = false;
        } else {
            if self.contests.len() >= MAX_LEASES {
                return Err(TooManyLeases);
            }
            let known = self.terms.remove(&lease).unwrap_or(0).min(MAX_TERM);
            let mut contest = Contest::new(lease.clone(), known, &self.timing, now, self.rules);
            contest.floor = self.floors.get(&lease).copied().unwrap_or(0);
            if let Some(until) = self.listens_until {
                contest.history.listen_until(until);
            }
            self.contests.insert(lease, contest);
        }
        self.publish(now);
        Ok(())
    }

    /// Stops contending for this lease: resigns, releases it, and then forgets all but its term.
    pub fn remove_lease(&mut self, now: Time, lease: &LeaseName) {
        self.expire(now);
        if let Some(contest) = self.contests.get_mut(lease) {
            contest.is_leaving = true;
            contest.lose(LossReason::Resigned);
            contest.due = now;
        }
        self.publish(now);
    }

    /// Returns the next output. To be drained after every input.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the latest time at which to call [`Contender::tick`] and then [`Contender::begin`]; `None` if there is
    /// nothing to wait for.
    pub fn next_deadline(&self) -> Option<Time> {
        let claims = self.contests.values().filter_map(|contest| contest.published.valid_until);
        let round = (self.flight.is_none() && self.stopping != Stopping::Stopped).then(|| self.next_round());
        claims.chain(round).min()
    }

    /// Ends claims whose time is past.
    pub fn tick(&mut self, now: Time) {
        self.expire(now);
        self.publish(now);
    }

    /// Takes the report that this node led, or leads, in this term, with whether it has given it up.
    pub fn heard(&mut self, now: Time, lease: &LeaseName, by: &NodeId, term: u64, is_released: bool) {
        self.expire(now);
        if term > MAX_HEARD_TERM {
            let lease = lease.clone();
            self.alarm(ContenderAlarm::TermLimit { lease, term });
            return;
        }
        let delay = self.rng.part_of(NOTICE_JITTER);
        let Some(contest) = self.contests.get_mut(lease) else {
            return self.remember(lease, term);
        };
        let leader = (*by != self.node).then_some(by);
        let was_listening = contest.history.is_listening(now);
        let is_contradicted =
            |leader| contest.history.is_given_to_another(term, leader) || contest.history.is_contradicted(term, leader);
        let is_other = !is_released && leader.is_some_and(is_contradicted);
        let is_own = contest.led.as_ref().is_some_and(|led| led.term == term);
        if is_own && !is_released && self.rules.is_rival(&self.node, by) {
            // One term, two leaders. The other one is told as well, so that neither goes on in it. The row is left to
            // run out: a release of it would look like the other's.
            contest.lose(LossReason::Superseded);
            contest.drawn.clear();
            let (lease, other) = (lease.clone(), by.clone());
            self.outputs.push_back(Output::Tell { lease: lease.clone(), term, is_released: false });
            self.outputs.push_back(Output::Alarm(ContenderAlarm::TwoDatabases { lease, term, other }));
        } else if !is_own && contest.history.heard(now, leader, term, is_released) {
            if contest.led.as_ref().is_some_and(|led| self.rules.is_superseded(led.term, term)) {
                contest.lose(LossReason::Superseded);
            }
            if is_released {
                contest.due = self.rules.due_after_release(contest.due, now + delay);
            }
        } else if is_other && !is_own {
            let (lease, other) = (lease.clone(), by.clone());
            self.outputs.push_back(Output::Alarm(ContenderAlarm::OtherDatabase { lease, term, other }));
        }
        if let Some(contest) = self.contests.get_mut(lease)
            && was_listening
            && !contest.history.is_listening(now)
        {
            // The lease may be free, and the next round of its own may be far off.
            contest.due = contest.due.min(now + delay);
        }
        self.publish(now);
    }

    /// Returns the leader of which this node has heard, whose term its store does not show, and for which it waits.
    pub fn waits_for(&self, now: Time, lease: &LeaseName) -> Option<&NodeId> {
        self.contests.get(lease)?.history.waits_for(now)
    }

    /// Takes the report that this node is a member no more: it is dead, has left, or was removed.
    pub fn gone(&mut self, now: Time, lease: &LeaseName, node: &NodeId) {
        self.expire(now);
        if let Some(contest) = self.contests.get_mut(lease) {
            contest.history.forget_gone(now, node);
        }
        self.publish(now);
    }

    /// Takes the report that this node leads in this term, by a member whose word does not count. A leader that it
    /// contradicts proves its own claim by a renewal at once, as often as is reasonable, and raises the alarm.
    pub fn doubted(&mut self, now: Time, lease: &LeaseName, by: &NodeId, term: u64) {
        self.expire(now);
        let pause = self.timing.renewal_interval / DOUBTS_IN_RENEWAL;
        let Some(contest) = self.contests.get_mut(lease) else { return };
        let is_rival = contest.led.as_ref().is_some_and(|led| led.term <= term) && *by != self.node;
        if is_rival && contest.doubted.is_none_or(|last| now.since(last) >= pause) {
            contest.doubted = Some(now);
            contest.due = contest.due.min(now);
            let (lease, other) = (lease.clone(), by.clone());
            self.alarm(ContenderAlarm::OtherDatabase { lease, term, other });
        }
        self.publish(now);
    }

    /// Takes the report that somebody leads in another way than by this lease: until then this node does not begin to
    /// lead. A lease that it leads already stays its own.
    pub fn led_elsewhere(&mut self, now: Time, lease: &LeaseName, until: Time) {
        self.expire(now);
        if let Some(contest) = self.contests.get_mut(lease) {
            contest.led_elsewhere_until = contest.led_elsewhere_until.max(self.rules.led_by_voters_until(until));
        }
        self.publish(now);
    }

    /// Notes that this node has just become a member among others. They may know terms and leaders of which it has not
    /// heard, and its store neither: it does not begin to lead for half a lease.
    pub fn arrive(&mut self, now: Time) {
        self.expire(now);
        let until = now + self.timing.lease_duration / LISTENS;
        self.listens_until = Some(until);
        for contest in self.contests.values_mut() {
            contest.history.listen_until(until);
        }
        self.publish(now);
    }

    /// Remembers a term of a lease that is not contended for here: it may be some day, and others ask this node.
    fn remember(&mut self, lease: &LeaseName, term: u64) {
        let has_room = self.terms.len() < MAX_LEASES || self.terms.contains_key(lease);
        let term = self.rules.term_to_remember(term);
        if has_room {
            let known = self.terms.entry(lease.clone()).or_default();
            if *known < term {
                *known = term;
                self.outputs.push_back(Output::Persist { lease: lease.clone(), term });
            }
        }
    }

    /// Asks about this lease by the given time: a caller waits for the answer, or there is news of it.
    pub fn hurry(&mut self, now: Time, lease: &LeaseName, by: Time) {
        self.expire(now);
        if let Some(contest) = self.contests.get_mut(lease) {
            contest.due = contest.due.min(by);
        }
        self.publish(now);
    }

    /// Gives leadership by this lease up. For the length of a lease this node leaves it to others, if they want it.
    pub fn resign(&mut self, now: Time, lease: &LeaseName) {
        self.expire(now);
        let pause = self.timing.lease_duration;
        if let Some(contest) = self.contests.get_mut(lease).filter(|contest| contest.led.is_some()) {
            contest.lose(LossReason::Resigned);
            contest.held_off_until = Some(now + pause);
        }
        self.publish(now);
    }

    /// Notes that all work led in this term has ended, see [`Output::AwaitWork`].
    pub fn work_ended(&mut self, now: Time, lease: &LeaseName, term: u64) {
        self.expire(now);
        if let Some(contest) = self.contests.get_mut(lease) {
            contest.end_work(now, term);
        }
        self.publish(now);
    }

    /// Keeps this node from leading from now on, or lets it lead again.
    pub fn set_draining(&mut self, now: Time, is_draining: bool) {
        self.expire(now);
        self.is_draining = is_draining;
        if self.rules.is_kept_from_leading(is_draining) {
            self.resign_all(now);
        }
        self.publish(now);
    }

    /// Gives up all that this node leads, and asks for nothing more; ends with [`Output::Stopped`] once all is
    /// released.
    pub fn stop(&mut self, now: Time) {
        self.expire(now);
        if self.stopping == Stopping::No {
            self.stopping = Stopping::Releasing;
        }
        self.resign_all(now);
        self.publish(now);
    }

    /// Returns true if this node is not to lead, whatever the store says.
    fn must_not_lead(&self) -> bool {
        self.rules.is_kept_from_leading(self.is_draining) || self.stopping != Stopping::No
    }

    fn resign_all(&mut self, now: Time) {
        for contest in self.contests.values_mut() {
            contest.lose(LossReason::Resigned);
            contest.due = now;
        }
    }

    /// Returns the claims as they were reported last.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.contests.values().map(|contest| &contest.published)
    }

    fn alarm(&mut self, alarm: ContenderAlarm) {
        self.outputs.push_back(Output::Alarm(alarm));
    }
}
