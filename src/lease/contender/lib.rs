//! The contender: one agent's part in contending for leases in a database, as a state machine of its own.
//!
//! It knows nothing of databases, sockets or clocks: answers of a store, time, and reports of other agents go in;
//! rounds and [`Output`]s come out. The same machine runs in the agent, in chaos runs and in a model checker.
//!
//! ```text
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ The contract of the doors                                                                    │
//! │                                                                                              │
//! │ 1. At `next_deadline()`, or as soon after it as may be: `tick(now)`, then `begin(now)`.       │
//! │ 2. A round that `begin` handed out is carried out at once, and ends in exactly one call of    │
//! │    `answered` or `failed`; an answer that comes after that is dropped.                        │
//! │ 3. After every door, `poll()` until it is `None`; the outputs are carried out in order.       │
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
//! | rule | without it | file |
//! |---|---|---|
//! | a claim counts from before its round was handed out, less 2 % | two valid claims | `leading` |
//! | a claim ends by itself, before any input is looked at; its term is never led again | a stale claim; two valid claims | `leading` |
//! | a failed renewal does not depose, a rejected one does, at once, and so does a higher term | needless changes of leaders; a leader that everybody else has given up | `asking`, `answering` |
//! | renewals begin early enough for a second try, and are tried for until the end | one lost answer costs the lease | `timing`, `asking` |
//! | tokens are drawn before they are sent, never twice, and all that may stand in the row are named | a lost answer costs the lease; others see a renewed lease stand still | `drawn`, `asking` |
//! | a lost acquisition is adopted by its token, counted from when it was sent, unless another holder was seen since or it was to be released | two valid claims | `answering` |
//! | a token proves which agent holds the lease, a name does not | two agents with one name lead at once | `answering` |
//! | a holder is waited for until its token stood for the longer of both leases by the contender's own clock | two valid claims when the store's clock steps | `history` |
//! | a lease that looks older than it is known to be is waited for just as long, from when that was seen | two valid claims after lost commits | `history` |
//! | nobody leads in a term that is not above the highest one known | a term is led twice after lost commits | `answering` |
//! | a lease whose row is missing is waited for like one that is held | two valid claims after a row was deleted by hand | `history` |
//! | a leader says so again and again; one that hears of another in its own term stops | two lead for ever by two databases | `answering`, `mod` |
//! | a leader that the store does not know, or whose row stands still in it, is waited for as long as it is heard, in whatever term it leads, and also if the store gave its term to another | two databases take turns; who asks another database deposes a healthy leader | `history` |
//! | once a leader's word agrees with the store, nothing is listened for, and late words of others before it count no more | a succession takes half a lease, or two, after a rolling restart or a pause | `history`, `mod` |
//! | a leader that is contradicted by a member whose word does not count proves its claim at once, and says so | two databases that nobody hears of | `mod` |
//! | a newcomer among others listens for half a lease before it begins to lead | a term is led twice after the database was emptied; a newcomer that asks another database leads beside a healthy leader, and deposes it later | `history`, `mod` |
//! | terms count that were heard of before the lease was contended for | the same | `mod` |
//! | led work has ended before a lease is released | two at work at once | `asking` |
//! | a lease is taken above the highest term that voters gave, and not while somebody is heard to lead by voters | terms that fall, two leaders, where the mode is changed | `asking` |
//! | a release is announced, and followed by a try at once | nobody leads for up to a renewal interval | `history`, `asking` |
//!
//! Each rule is left out once in the tests, as a planted bug (`flaw`), to see that the tests notice. Exploration that
//! looks for no bug in particular finds most: random faults (`tests/chaos`), walks and every interleaving up to a bound
//! (`tests/model`).
//!
//! | rule | planted | found by |
//! |---|---|---|
//! | a claim counts from before its round, less 2 % | `ClaimFromReceipt`; `NoMargin` | chaos, walks; chaos |
//! | a claim ends by itself, and its term is never led again | `NoExpiry`, `LeadsOnInItsTerm` | chaos |
//! | failures do not depose, rejections and higher terms do | `DeposedByFailure`, `IgnoresRejection`; `IgnoresHigherTerms` | chaos; `directed`, whole nodes: leaders that are heard are waited for |
//! | renewals begin early, and are tried for until the end | `RenewsLate`, `PausesPastExpiry` | `directed` alone |
//! | tokens are drawn first, never twice, and all of them named | `ReusesTokens`; `ForgetsDrawnTokens` | chaos, walks; chaos |
//! | an adopted acquisition counts from when it was sent, unless it was given up | `AdoptsFromSight`; `AdoptsWhatWasGivenUp` | chaos, walks; `directed` alone |
//! | a token proves which agent holds the lease, a name does not | `TakesBackOwnName` | chaos |
//! | a token must stand for the longer lease | `TakesAtExpiry`; `WaitsOwnLeaseOnly`, `WaitsFromFirstSight` | chaos, model, walks; chaos |
//! | a lease that looks older than it is known to be is waited for, from when that was seen | `TakesWhatLooksFree`; `WaitsFromHearsay` | chaos, model; `directed` alone |
//! | nobody leads in a term that is not above all known | `TermOfStoreAlone`, `LeadsBelowKnownTerm` | chaos |
//! | a missing row is waited for | `TakesWhatIsMissing` | chaos |
//! | of two leaders in one term none leads on, and one that is heard is waited for | `IgnoresRivals`, `WaitsForFirstWordOnly`, `WaitsInKnownTermOnly`, `TrustsTheRowsName`, `TrustsAStandingRow` | `apart` alone |
//! | it listens, and waits for late words, until a leader's word agrees with the store | `ListensInVain`, `WaitsForLateWords` | `history` alone |
//! | a newcomer listens, and terms count that were heard of before | `DeafOnArrival`, `ListensInFirstTermOnly`, `ForgetsOthersTerms` | `newcomers`, `apart` alone |
//! | above the terms of voters, and not beside a leader of theirs | `TermOfStoreAlone`, `LeadsBesideVoters` | `beside_voters` alone |
//! | led work ends before a release; a drained node never leads | `ReleasesBeforeWorkEnds`, `LeadsWhenDraining` | chaos |
//! | a release is announced, and followed by a try at once | `DeafToReleases` | `directed` alone |
//!
//! **How far this reaches.** While the store keeps its commits there is at most one valid claim at each instant of true
//! time, and a term is led by one node. After a fail-over that lost commits: a contender that saw in the row the token
//! by which a claim stands waits for that claim, and one that heard of a term, as the highest one, waits for the claim
//! that began it. So a second claim is possible only beside a leader whose last grant was lost and that cannot reach
//! the store (one that can is rejected within a renewal interval), and only for a contender that has not seen that
//! grant: because it was a renewal of the last moment, or because nothing of its term was heard at all. In the latter
//! case the term may be given again, and then a report of it may be of either. A leader that hears of a higher term
//! stops at once. Leases must be of one length on all agents: a contender that only heard of a term, or finds a row
//! missing that it never saw, waits for a lease of its own length.
//!
//! **Two databases by mistake** give every term twice. Agents that gossip with each other notice: a leader that hears
//! of another one in its own term tells it so and steps down, and so does that one; both rows are left to run out,
//! neither is released. A lease later one of the two, or anybody else, leads again, in a term above: all have heard of
//! the one before. A node that asks the other database hears that leader again and again, finds that its own store does
//! not know it, or shows a row of it that stands still, and waits, whether its store's term is lower (until a lease after
//! the last word), the same or higher (until two leases after it, so that it hears of a successor before it takes
//! anything). In one database such a word is one that came late, after its leader's row was replaced, to a contender that
//! had never seen that row. The next word of the leader whose row it sees puts that right; if that one dies before it
//! says anything, the contender waits in vain, once, for two leases.
//! (A leader by more leases than are told of at one time is heard less often: then the databases may take turns.)
//!
//! **Words that do not count.** A node that came to another address, or is new, is not believed for a minute: its word is
//! handed to [`doubted`](Contender::doubted), and deposes nobody, since whoever merely reaches a port must not end a
//! leader's term, and a third member could not confirm the word either: it asks the leader's database. If such a node
//! leads by another database in spite of all (every word to it was lost while it listened), the leader below proves its
//! claim by its own database and raises the alarm, and two lead until the newcomer has settled.
//!
//! **Newcomers** know nothing, a database that was emptied does not either, and one that another cluster used knows too
//! much. Whoever brings a node in tells it the terms that it knows, before the node is a member. Words may be lost, and
//! a leader is told of by nobody but itself; so a newcomer listens for half a lease more, if it did not begin alone: by
//! then a leader that lives has said so. It listens no more once a leader, or one that gives up, names what its own store
//! shows: it is the same database. After that it begins as on any database. Where all words to it are lost and nobody
//! leads, the first term is given again. The price: a lease that nobody leads by, and of which no leader was heard, is
//! led half a lease after newcomers came, unless somebody contends for it who came before.
//!
//! The price is that of every word that is believed: a member that lies can depose a leader, in its own term now as it
//! could in a higher one before, and keep others from leading while it says that it leads; it can never make a second
//! one. Agents that do not gossip with each other notice
//! nothing.
//!
//! Invariants: at most one round is under way; every token is noted before it is sent.
//!
//! Must not know: how a store works, what is led, which nodes are members.
//!
//! | idea | file |
//! |---|---|
//! | one agent's part in the contest for one lease | `contest` |
//! | the types at the doors | `doors` |
//! | conditions that are reported to an operator | `alarm` |
//! | the source of randomness | `rng` |
//! | names of leases; the secret that proves which contender wrote a row | `name`, `token` |
//! | the requests to a store, and its answers; the term, which is the fencing token: one more with each acquisition | `round` |
//! | a model of a database, for simulators and tests | [`database`] |
//! | the rules that the tests leave out, one at a time | `rules` |

mod alarm;
mod answering;
mod asking;
mod contest;
pub mod database;
mod doors;
mod drawn;
mod history;
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
use std::net::SocketAddr;

pub use alarm::ContenderAlarm;
pub use doors::{Claim, ContenderInit, Output, TooManyLeases};
pub use drawn::MAX_DRAWN;
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
    rpc_address: Option<SocketAddr>,
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
        let ContenderInit { node, rpc_address, timing, leases, terms, floors, seed } = init;
        timing.check().expect("the timing is checked before the machine is born");
        let mut contender = Self {
            node,
            rpc_address,
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
