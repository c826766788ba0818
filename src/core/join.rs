//! Becoming a member: from the first try to the whole view.
//!
//! ```text
//! Join ─▶ Challenge{cookie} ─▶ Join{cookie} ─▶ Welcome ─▶ Pull ⇄ Page … ─▶ Up, flooded
//!                                            ├▶ NotUp     a seed that is Joining itself
//!                                            ├▶ Behind    raise the incarnation, come again
//!                                            ├▶ Wait      the name's present owner is being asked
//!                                            ├▶ Elsewhere busy: ask one of these members (see `referral`)
//!                                            └▶ Refused   name in use: stop; else try on, and stop if nobody accepts
//! ```
//!
//! All seeds are tried at once, then every 100 ms doubling up to `retry_interval`, for ever. Who may start a cluster
//! alone: a node without seeds at once (or, if it remembers addresses, when none of them answered for
//! 3 × `retry_interval`); a seed that reaches only seeds that are Joining, if its address is the smallest among them,
//! after [`FOUNDING_DELAY`], counted anew from each new address of a seed, and once all names are looked up; a seed that
//! reached no Up node for 3 × `retry_interval`. A node with seeds that is none of them never starts alone.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::Rng;

use super::limits::{
    FIRST_JOIN_RETRY, FOUNDING_DELAY, FOUNDING_RETRIES, MAX_JOIN_WAIT, MAX_JOINERS, MIN_QUESTION_BYTES,
};
use super::receive::Sender;
use super::referral::Referrals;
use super::time::Time;
use super::timers::Timer;
use super::view::View;
use super::wire::{Message, Nonce, Refusal};
use super::{Core, Drop, Notice, Output, Phase, Record, Run, Status, StopReason};

/// What a joiner knows.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent marks, not a state")]
pub(super) struct Joining {
    /// Stands in all our questions of this attempt, and in their answers.
    nonce: Nonce,
    /// The first try.
    began: Option<Time>,
    /// The pause before the next try.
    pause: Duration,
    /// What sponsors want to see again. Bounded by the answers to what we asked.
    cookies: BTreeMap<SocketAddr, Nonce>,
    /// Our own packets came back, or a seed's address is ours.
    is_seed: bool,
    /// Some seed is not ourselves.
    has_other_seeds: bool,
    /// Names of seeds are being looked up: behind any of them may be a cluster.
    awaits_names: bool,
    /// When an address of a seed was last met that had not been known.
    newest_seed_at: Option<Time>,
    /// Other nodes that are Joining themselves.
    not_up: BTreeMap<Run, (SocketAddr, Time)>,
    /// Some seed of this cluster was Joining, too, at some time.
    met_rivals: bool,
    /// The last word of an Up node.
    reached: Option<Time>,
    /// Refusals, by whoever refused.
    refused: Option<(SocketAddr, Refusal)>,
    /// The sponsor whose view was to be pulled and did not come.
    avoid: Option<Run>,
    /// Members that busy sponsors named.
    pub(super) referrals: Box<Referrals>,
}

impl Joining {
    /// Time since the first try.
    fn waited(&self, now: Time) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.since(began))
    }

    /// A member that is Up answered: there is a cluster, and it is worth asking again soon.
    pub(super) fn reached_somebody(&mut self, now: Time) {
        self.reached = Some(now);
        self.pause = FIRST_JOIN_RETRY;
    }

    /// Among the seeds that were reached, all of them Joining, this node comes first.
    fn is_alone_or_smallest(&self, mine: SocketAddr) -> bool {
        if self.not_up.is_empty() {
            !self.has_other_seeds
        } else {
            self.not_up.values().all(|(other, _)| mine < *other)
        }
    }
}

impl Core {
    /// Starts this node's life.
    pub(super) fn start_joining(&mut self) {
        self.begin_joining();
        self.seek_cluster();
    }

    /// Joining, from the beginning.
    pub(super) fn begin_joining(&mut self) {
        let nonce = Nonce(self.rng.next_u64());
        self.phase = Phase::Joining(Joining {
            nonce,
            began: None,
            pause: FIRST_JOIN_RETRY,
            cookies: BTreeMap::new(),
            is_seed: false,
            has_other_seeds: false,
            awaits_names: false,
            newest_seed_at: None,
            not_up: BTreeMap::new(),
            met_rivals: false,
            reached: None,
            refused: None,
            avoid: None,
            referrals: Box::default(),
        });
    }

    /// Looks for a cluster, or is one.
    pub(super) fn seek_cluster(&mut self) {
        if !self.reunion.has_anywhere_to_go() {
            return self.become_up();
        }
        if self.reunion.has_seeds() {
            // The first try follows when the names are resolved.
            self.outputs.push_back(Output::ResolveSeeds);
            self.timers.set(Timer::JoinTry, self.now + self.settings.retry_interval);
        } else {
            self.try_to_join();
        }
    }

    /// Asks all seeds (or remembered addresses) to be let in.
    pub(super) fn try_to_join(&mut self) {
        if self.follow_referral_after_pause() {
            return;
        }
        let (retry_interval, is_pulling) = (self.settings.retry_interval, self.is_pulling());
        let Phase::Joining(joining) = &mut self.phase else { return };
        let pause = joining.pause;
        joining.pause = (pause * 2).min(retry_interval);
        let (reached, answered) = (joining.reached.is_some() || joining.refused.is_some(), joining.not_up.len());
        self.timers.set(Timer::JoinTry, self.now + pause);
        let targets = self.reunion.join_targets(pause >= retry_interval);
        if targets.is_empty() || pause >= retry_interval {
            self.outputs.push_back(Output::ResolveSeeds);
        }
        if is_pulling {
            return;
        }
        let began = *joining.began.get_or_insert(self.now);
        if began == self.now {
            self.timers.set(Timer::Found, self.now + FOUNDING_DELAY);
        }
        let waited = self.now.since(began);
        if waited >= retry_interval && !reached {
            if targets.is_empty() {
                self.notice("seeds unresolved", Notice::SeedsUnresolved);
            } else if answered == 0 {
                self.notice("no seed answered", Notice::NoSeedAnswered { tried: targets.len() });
            } else {
                self.notice("waiting for seeds", Notice::WaitingForSeeds { answered });
            }
        }
        for to in targets {
            self.ask_to_join(to);
        }
    }

    /// Whether the view is on its way to us.
    pub(super) fn is_pulling(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| !transfer.is_stalled())
    }

    pub(super) fn ask_to_join(&mut self, to: SocketAddr) {
        let mine = self.me().address;
        let Phase::Joining(joining) = &mut self.phase else { return };
        if to == mine {
            joining.is_seed |= self.reunion.has_seeds();
            return;
        }
        joining.has_other_seeds = true;
        joining.referrals.ask(to);
        let (nonce, cookie) = (joining.nonce, joining.cookies.get(&to).copied());
        let record = Record::clone(self.me());
        let mut packet = self.packet(usize::MAX);
        packet.push(&Message::Join { nonce, record, cookie });
        packet.pad_to(MIN_QUESTION_BYTES);
        self.transmit(to, packet);
    }

    /// Our own packet came back: the address it was sent to is ours.
    pub(super) fn met_myself(&mut self, from: SocketAddr) {
        self.reunion.is_me(from);
        if let Phase::Joining(joining) = &mut self.phase {
            joining.is_seed |= self.reunion.has_seeds();
        }
    }

    /// The seeds' addresses, as far as they are known; `is_whole`: no name is being looked up any more. The first ones
    /// begin the first try; whatever is new later is asked at once.
    pub(super) fn seed_addresses(&mut self, addresses: Vec<Vec<SocketAddr>>, is_whole: bool) {
        let new = self.reunion.set_seeds(addresses);
        let (now, is_pulling) = (self.now, self.is_pulling());
        let Phase::Joining(joining) = &mut self.phase else { return };
        let awaited_names = std::mem::replace(&mut joining.awaits_names, !is_whole);
        if !new.is_empty() {
            joining.newest_seed_at = Some(now);
        }
        let Some(began) = joining.began else {
            if is_whole || !new.is_empty() {
                self.try_to_join();
            }
            return;
        };
        if awaited_names && is_whole {
            self.timers.set_by(Timer::Found, now.max(began + FOUNDING_DELAY));
        }
        if !is_pulling {
            for to in new {
                self.ask_to_join(to);
            }
        }
    }

    /// The joining state, if the answer is to our present attempt.
    pub(super) fn joining(&mut self, nonce: Nonce) -> Option<&mut Joining> {
        match &mut self.phase {
            Phase::Joining(joining) if joining.nonce == nonce => Some(joining),
            _ => {
                self.counters.drop(Drop::Unasked);
                None
            }
        }
    }

    pub(super) fn challenged(&mut self, from: SocketAddr, nonce: Nonce, cookie: Nonce) {
        let Some(joining) = self.joining(nonce) else { return };
        let is_news = joining.cookies.get(&from) != Some(&cookie);
        if joining.cookies.len() < MAX_JOINERS && is_news {
            joining.cookies.insert(from, cookie);
            if !self.is_pulling() {
                self.ask_to_join(from);
            }
        }
    }

    pub(super) fn welcomed(&mut self, sender: Sender, nonce: Nonce, sponsor: &Record) {
        let now = self.now;
        let Some(joining) = self.joining(nonce) else { return };
        joining.reached = Some(now);
        self.answered_contact(sender.from, &sponsor.id);
        let Phase::Joining(joining) = &mut self.phase else { return };
        if joining.avoid == Some(sender.run) {
            joining.avoid = None;
        } else if !self.is_pulling() && sponsor.run == sender.run {
            self.pull_from(sender.from, sender.run);
        }
    }

    pub(super) fn not_up(&mut self, nonce: Nonce, record: &Record, _joiners: u32) {
        let now = self.now;
        let Some(joining) = self.joining(nonce) else { return };
        joining.met_rivals = true;
        if joining.not_up.len() < MAX_JOINERS {
            joining.not_up.insert(record.run, (record.address, now));
        }
        self.consider_founding();
    }

    pub(super) fn behind(&mut self, nonce: Nonce, incarnation: u64) {
        let now = self.now;
        let Some(joining) = self.joining(nonce) else { return };
        joining.reached = Some(now);
        // While a raise waits for the disk, every sponsor still finds us behind: asking them again now would go round.
        if incarnation >= self.me().incarnation && !self.incarnation.is_waiting() {
            if self.exceed_earlier_run(incarnation) {
                self.incarnation_raised();
            } else {
                self.notice("far behind", Notice::FarBehind { incarnation });
            }
        }
    }

    /// A joiner that was behind is not any more: it comes again at once.
    pub(super) fn incarnation_raised(&mut self) {
        if matches!(self.phase, Phase::Joining(_)) && !self.incarnation.is_waiting() && self.transfer.is_none() {
            self.timers.set_by(Timer::JoinTry, self.now);
        }
    }

    pub(super) fn told_to_wait(&mut self, nonce: Nonce, wait_ms: u32) {
        let now = self.now;
        let Some(joining) = self.joining(nonce) else { return };
        joining.reached = Some(now);
        let wait = Duration::from_millis(u64::from(wait_ms)).min(MAX_JOIN_WAIT);
        self.timers.set(Timer::JoinTry, now + wait);
    }

    /// Somebody will not have us.
    pub(super) fn refused(&mut self, by: SocketAddr, nonce: Nonce, refusal: Refusal) {
        let patience = self.settings.retry_interval * FOUNDING_RETRIES;
        let now = self.now;
        let joining = match &mut self.phase {
            Phase::Joining(joining) if joining.nonce == nonce => joining,
            // A member looking for lost ones met somebody else's cluster, or a namesake's.
            _ if self.prover.is_nonce(nonce, by, now) => {
                if let Refusal::NameInUse { holder } = refusal
                    && self.questions.allow(now, holder)
                {
                    self.ask_who(holder);
                }
                return self.notice("refused", Notice::Refused { by, refusal });
            }
            _ => return self.counters.drop(Drop::Unasked),
        };
        if let Refusal::NameInUse { holder } = refusal {
            let id = self.me().id.clone();
            return self.stop(StopReason::NameInUse { id, holder });
        }
        let is_final = joining.waited(now) >= patience && joining.reached.is_none() && !joining.met_rivals;
        joining.refused = Some((by, refusal.clone()));
        if is_final {
            return self.stop(StopReason::Refused { by, refusal });
        }
        self.notice("refused", Notice::Refused { by, refusal });
    }

    /// The sponsor's pages stopped coming: another one, or the same one at the next try.
    pub(super) fn sponsor_failed(&mut self, sponsor: Run) {
        if let Phase::Joining(joining) = &mut self.phase {
            joining.pause = FIRST_JOIN_RETRY;
            joining.avoid = Some(sponsor);
        }
        self.try_to_join();
    }

    /// Whether to start a cluster alone; asked at the founding delay, with every word of another Joining seed after it,
    /// and when patience ends.
    pub(super) fn consider_founding(&mut self) {
        let patience = self.settings.retry_interval * FOUNDING_RETRIES;
        let (now, mine, lately) = (self.now, self.me().address, self.settings.retry_interval * 2);
        let Phase::Joining(joining) = &mut self.phase else { return };
        joining.not_up.retain(|_, (_, at)| now.since(*at) <= lately);
        let waited = joining.waited(self.now);
        if waited < FOUNDING_DELAY {
            return;
        }
        let next_look = match patience.saturating_sub(waited) {
            Duration::ZERO => self.settings.retry_interval,
            rest => rest,
        };
        self.timers.set_by(Timer::Found, self.now + next_look);
        let settled_at = joining.newest_seed_at.map_or(now, |newest| newest + FOUNDING_DELAY);
        if now < settled_at {
            self.timers.set_by(Timer::Found, settled_at);
        }
        let has_asked_all = !joining.awaits_names && now >= settled_at;
        let is_first =
            has_asked_all && joining.is_seed && joining.reached.is_none() && joining.is_alone_or_smallest(mine);
        let unreached = joining.reached.map_or(waited, |at| self.now.since(at));
        let may_start = joining.is_seed || !self.reunion.has_seeds();
        let is_refused =
            joining.refused.is_some() && joining.not_up.is_empty() && joining.has_other_seeds && !joining.met_rivals;
        let is_patient = may_start && waited >= patience && unreached >= patience && !is_refused;
        if (is_first || is_patient) && self.transfer.is_none() && !self.incarnation.is_waiting() {
            self.outputs.push_back(Output::Notice(Notice::Founded));
            self.become_up();
        }
    }

    /// The pull from this sponsor is complete.
    pub(super) fn pulled_everything(&mut self, address: SocketAddr, sponsor: Run) {
        if matches!(self.phase, Phase::Joining(_)) && !self.incarnation.is_waiting() {
            if let Some(slot) = self.view.slot_of_run(sponsor)
                && self.view.record(slot).address == address
            {
                // Its welcome echoed the nonce that was sent there.
                self.view.peer_mut(slot).proven = true;
            }
            self.become_up();
        }
    }

    /// Joining → Up, at the same incarnation.
    fn become_up(&mut self) {
        self.phase = Phase::Up;
        self.plan_links();
        for timer in [Timer::JoinTry, Timer::Found, Timer::Transfer] {
            self.timers.cancel(timer);
        }
        self.transfer = None;
        self.attention.start(self.now);
        self.acquaintance.start(self.now);
        self.rewrite_myself(self.view.record(View::ME).with_status(Status::Up));
        self.start_gossip();
        self.start_reunion();
        self.start_catching_up();
        self.welcome_waiting();
    }
}
