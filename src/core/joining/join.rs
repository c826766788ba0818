//! Becoming a member: from the first try to the whole view.
//!
//! ```text
//! Join ─▶ Challenge{cookie} ─▶ Join{cookie} ─▶ Welcome ─▶ Pull ⇄ Page … ─▶ Up, flooded
//!                                            ├▶ NotUp     a seed that is Joining itself
//!                                            ├▶ Behind    raise the incarnation and ask again
//!                                            ├▶ Wait      the name's present owner is being probed
//!                                            ├▶ Elsewhere busy: ask one of these members (see `referral`)
//!                                            └▶ Refused   name in use, by an address we were given: stop; else go on
//!                                                         trying, and stop if no member accepts
//! ```
//!
//! All seeds are tried at once, then every 100 ms doubling up to `retry_interval`, for ever. The nodes that may found a
//! cluster are: a node without seeds at once (or, if it remembers addresses, when none of them answered for 3 ×
//! `retry_interval`); a seed that reaches only seeds that are Joining, if it comes first among them (see `founding`),
//! after [`FOUNDING_DELAY`], counted anew from each new address of a seed (and [`FORMING_DELAY`] after its first try at
//! the earliest beyond that, if an electorate is to be formed), and once all names are looked up; a seed
//! that reached no Up node for 3 × `retry_interval`. A node with seeds that is not a seed of any other never founds
//! one.
//!
//! [`FORMING_DELAY`]: crate::limits::FORMING_DELAY

use std::net::SocketAddr;
use std::time::Duration;

use rand::Rng;

use super::asked::Asked;
use super::cookies::Cookies;
use super::finders::Finders;
use super::founding::Founding;
use super::reachable::Reach;
use super::referral::Referrals;
use super::transfer::Transfer;
use crate::context::Context;
use crate::discovery::Reunion;
use crate::io::{Contacted, Output, Receiver, StopReason};
use crate::limits::{
    FIRST_JOIN_RETRY, FOUNDING_DELAY, LAST_JOIN_RETRY, MAX_TRIES_AT_ONCE, MIN_QUESTION_BYTES, TRIES_BEFORE_BOOTSTRAP,
};
use crate::member::{Record, Run};
use crate::packet::Inbox;
use crate::packet::Outbox;
use crate::recent::PerInterval;
use crate::time::Time;
use crate::timers::Timer;
use crate::wire::{Message, Refusal};
use rand_chacha::ChaCha8Rng;

/// The state of a node that is joining.
#[derive(Debug, Clone, Default)]
pub(crate) struct Joining {
    /// The addresses that were asked, and the nonces in the questions and in their answers.
    pub(crate) asked: Asked,
    /// Time at which all told addresses were asked last.
    asked_all: Option<Time>,
    /// Time of the first try.
    began: Option<Time>,
    /// The pause before the next try.
    pause: Duration,
    pub(super) cookies: Cookies,
    /// The tries at once, because of others' answers or questions.
    at_once: PerInterval,
    /// True if our own packets came back, or a seed's address is ours.
    pub(crate) is_seed: bool,
    /// True if some seed is not this node itself.
    pub(crate) has_other_seeds: bool,
    /// True while names of seeds are being looked up: there may be a cluster behind any of them.
    pub(crate) awaits_names: bool,
    /// Time at which a new address of a seed was last learnt.
    pub(crate) newest_seed_at: Option<Time>,
    /// The other nodes that are Joining.
    pub(crate) founding: Box<Founding>,
    /// The members that look for this node.
    pub(super) finders: Box<Finders>,
    /// Time of the last answer of an Up node.
    pub(crate) reached: Option<Time>,
    /// The last refusal, and the address of the node that refused.
    pub(crate) refused: Option<(SocketAddr, Refusal)>,
    /// Time at which a node that no operator named first answered that our name is in use; a welcome clears it.
    pub(super) name_refused: Option<Time>,
    /// The members of the other address family that are asked whether they reach this node.
    pub(crate) reach: Option<Reach>,
    /// The sponsor whose view was to be pulled and did not come; it is not asked at the next try.
    pub(crate) avoid: Option<Run>,
    /// The size of the pages that are asked for, in bytes, since larger ones did not come.
    pub(super) page_bytes: Option<usize>,
    /// The sponsor from which pages of up to so many bytes did not come, until smaller ones do.
    pub(super) pages_in_vain: Option<(SocketAddr, usize)>,
    /// The members that busy sponsors named.
    pub(crate) referrals: Box<Referrals>,
}

impl Joining {
    fn new() -> Self {
        Self { pause: FIRST_JOIN_RETRY, ..Self::default() }
    }

    /// Returns the time since the first try.
    pub(super) fn waited(&self, now: Time) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.since(began))
    }

    /// Notes the answer of a member that is Up: there is a cluster, and it is worth asking again soon.
    pub(super) fn reached_somebody(&mut self, now: Time) {
        self.reached = Some(now);
        self.pause = FIRST_JOIN_RETRY;
    }

    /// Resets the pause, so that the next tries follow each other quickly again.
    pub(super) fn ask_soon(&mut self) {
        self.pause = FIRST_JOIN_RETRY;
    }
}

/// A node that looks for a cluster and is let in: a machine. While it is at it, it asks by itself; what becomes of the node
/// comes back as a [`JoinStep`].
#[derive(Debug, Clone)]
pub(crate) struct Joiner {
    pub(super) rng: ChaCha8Rng,
    /// The search, while this node is Joining.
    pub(crate) joining: Option<Joining>,
    /// The view that is being pulled.
    pub(crate) transfer: Option<Transfer>,
}

/// An outcome of joining that the rest of the node acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JoinStep {
    /// It is a member.
    BecomeUp,
    /// It cannot be one.
    Stop(StopReason),
    /// It holds the whole view of the sponsor at this address.
    Pulled { address: SocketAddr, sponsor: Run },
    /// Nothing answers at this address of its own, others say.
    Unreached(SocketAddr),
}

impl Joiner {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        Self { rng, joining: None, transfer: None }
    }

    /// Begins the search.
    pub(crate) fn begin(&mut self) {
        self.transfer = None;
        self.joining = Some(Joining::new());
    }

    /// Ends the search, as this node is Up, or stops; returns true if others were looking for the cluster, too.
    pub(crate) fn end(&mut self) -> bool {
        self.transfer = None;
        self.joining.take().is_some_and(|joining| joining.founding.answered() > 0)
    }

    /// Looks for a cluster, or founds one if there is no address to look at.
    pub(crate) fn seek_cluster(&mut self, out: &mut Outbox<'_>, reunion: &Reunion) -> Option<JoinStep> {
        if !reunion.has_anywhere_to_go() {
            return Some(JoinStep::BecomeUp);
        }
        if reunion.has_seeds() {
            // The first try follows when the names are resolved.
            out.cx.output(Output::ResolveSeeds);
            out.cx.timers.set(Timer::JoinTry, out.cx.now + out.cx.settings.retry_interval);
        } else {
            self.try_to_join(out, reunion);
        }
        None
    }

    /// Asks all seeds (or remembered addresses) to be let in.
    pub(crate) fn try_to_join(&mut self, out: &mut Outbox<'_>, reunion: &Reunion) {
        let (now, retry_interval) = (out.cx.now, out.cx.settings.retry_interval);
        let Some(joining) = &mut self.joining else { return };
        joining.cookies.begin_try();
        // Whatever sponsors refer to, all others have their turn now and then.
        let is_overdue = joining.asked_all.is_some_and(|at| now.since(at) >= retry_interval);
        if self.follow_referral_after_pause(out, reunion) && !is_overdue {
            return;
        }
        let is_pulling = self.is_pulling();
        let Some(joining) = &mut self.joining else { return };
        let pause = joining.pause;
        // A packet was lost, or a cluster is about to be founded, if a node answers and refuses nothing.
        let is_close = !joining.cookies.is_empty() && joining.refused.is_none();
        let longest = if is_close { LAST_JOIN_RETRY.min(retry_interval) } else { retry_interval };
        joining.pause = (pause * 2).min(longest);
        let reached = joining.reached.is_some();
        let is_answered = reached || joining.refused.is_some() || joining.founding.told_answered() > 0;
        out.cx.timers.set(Timer::JoinTry, now + pause);
        if let Some(at) = joining.asked.next_end_of_wait(now) {
            out.cx.timers.set_by(Timer::JoinTry, at);
        }
        let mut targets = reunion.join_targets(pause >= retry_interval);
        let told = targets.len();
        let others = joining.founding.target().into_iter().chain(joining.finders.addresses().iter().copied());
        targets.extend(others.filter(|target| !reunion.is_seed(*target)));
        if targets.is_empty() || pause >= retry_interval {
            out.cx.output(Output::ResolveSeeds);
        }
        if is_pulling {
            return;
        }
        joining.asked_all = Some(now);
        let began = *joining.began.get_or_insert(out.cx.now);
        if began == out.cx.now {
            out.cx.timers.set(Timer::Found, out.cx.now + FOUNDING_DELAY);
        }
        let waited = now.since(began);
        self.tell_what_it_lacks(out, reunion);
        for to in &targets[..told] {
            self.ask_told_to_join(out, reunion, *to);
        }
        for to in &targets[told..] {
            self.ask_to_join(out, reunion, *to, false);
        }
        out.paths.end_old_bootstraps(out.cx);
        self.note_unreached(out.cx, out.paths.take_unreached());
        if !is_answered && pause >= FIRST_JOIN_RETRY * 2_u32.pow(TRIES_BEFORE_BOOTSTRAP - 1) {
            out.open_bootstraps(&targets);
        } else if !reached && self.candidacy(reunion).is_some() && waited >= FIRST_JOIN_RETRY {
            // In time before it founds a cluster: whoever has another key answers no datagram.
            let answers = self.answers_of_seeds(out.cx, out.view, reunion).into_iter();
            let is_silent = |answer: &Contacted| {
                matches!(answer, Contacted::Silent | Contacted::Unreached | Contacted::Unopened(_))
            };
            let silent = answers.filter(|(_, answer)| is_silent(answer));
            out.open_bootstraps(&silent.map(|(seed, _)| seed).collect::<Vec<_>>());
        }
    }

    /// Tries again at once, because of what another node says: as often as [`MAX_TRIES_AT_ONCE`] allows, and else a
    /// moment later.
    pub(crate) fn try_at_once(&mut self, cx: &mut Context) {
        let now = cx.now;
        if let Some(joining) = &mut self.joining {
            let at = joining.at_once.next(now, FIRST_JOIN_RETRY, MAX_TRIES_AT_ONCE);
            cx.timers.set_by(Timer::JoinTry, at);
        }
    }

    /// Returns true if the view is being pulled, or members are being asked whether they reach this node.
    pub(crate) fn is_pulling(&self) -> bool {
        self.joining.as_ref().is_some_and(|joining| joining.reach.is_some())
            || self.transfer.as_ref().is_some_and(|transfer| !transfer.is_stalled())
    }

    /// Asks an address that this node was told of, unless that wants not to be asked now.
    pub(crate) fn ask_told_to_join(&mut self, out: &mut Outbox<'_>, reunion: &Reunion, to: SocketAddr) {
        let now = out.cx.now;
        if !self.joining.as_ref().is_some_and(|joining| joining.asked.is_waiting(to, now)) {
            self.ask_to_join(out, reunion, to, true);
        }
    }

    /// Asks an address, by another way perhaps, for whatever reason it was asked before, unless a view is under way.
    pub(crate) fn ask_again_to_join(&mut self, out: &mut Outbox<'_>, reunion: &Reunion, to: SocketAddr) {
        let is_told = self.joining.as_ref().is_some_and(|joining| joining.asked.is_told(to));
        if !self.is_pulling() {
            self.ask_to_join(out, reunion, to, is_told);
        }
    }

    /// Asks the node at an address to let this one in. `is_told`: this node was told of that address (see `asked`).
    pub(crate) fn ask_to_join(&mut self, out: &mut Outbox<'_>, reunion: &Reunion, to: SocketAddr, is_told: bool) {
        let (mine, now) = (out.view.me().address, out.cx.now);
        let Some(joining) = &mut self.joining else { return };
        if to == mine {
            // It is asked all the same: if another node answers there, that node has the address that this one was told
            // to advertise.
            joining.is_seed |= reunion.has_seeds();
        } else {
            joining.has_other_seeds |= is_told;
        }
        joining.referrals.forget(to);
        out.packets.turns.expect(now, to);
        let rng = &mut self.rng;
        let nonce = joining.asked.ask(to, is_told, now, || rng.next_u64());
        let cookie = joining.cookies.of(to);
        let record = Record::clone(out.view.me());
        let seeking = self.seeking(reunion, Some(to));
        let mut packet = out.packet(usize::MAX);
        if let Some(seeking) = seeking {
            packet.push(&Message::Seeking(seeking));
        }
        packet.push(&Message::Join { nonce, record, cookie });
        packet.pad_to(out.question_bytes(MIN_QUESTION_BYTES));
        out.transmit(to, Receiver::Anybody, packet);
        if out.paths.bootstrap.is_any_connected() {
            // The referred addresses are asked by the same way as the node that named them.
            out.open_bootstrap(to);
        }
    }

    /// Handles a packet of our own run; returns the addresses at which this node met itself. If it holds a nonce of ours that
    /// was sent to a seed, the seed is this node; the run alone proves nothing, since others may know it.
    pub(crate) fn met_myself(
        &mut self,
        out: &Outbox<'_>,
        reunion: &Reunion,
        from: SocketAddr,
        inbox: &Inbox,
    ) -> Vec<SocketAddr> {
        let mut mine = Vec::new();
        for message in inbox.messages() {
            match *message {
                Message::Join { nonce, .. } => {
                    // From whatever address: a router may send it back from one of its own, and the nonce names the one
                    // that was asked. Who was only heard of got a question, too, and says nothing about others.
                    let Some(joining) = &self.joining else { continue };
                    let asked = joining.asked.answerer(nonce).filter(|asked| asked.is_told);
                    mine.extend(asked.map(|asked| asked.address));
                }
                Message::WhoAreYou { nonce, .. } => {
                    // A NAT may have sent it back from another address.
                    let here = Some(from).filter(|from| reunion.is_seed(*from));
                    let mut seeds = here.into_iter().chain(reunion.seeds().iter().copied());
                    mine.extend(seeds.find(|seed| out.packets.prover.is_nonce(nonce, *seed, out.cx.now)));
                }
                _ => {}
            }
        }
        if let Some(joining) = &mut self.joining
            && !mine.is_empty()
        {
            joining.is_seed |= reunion.has_seeds();
        }
        mine
    }

    /// Takes the addresses of seeds that were not known before; `is_whole` is true if no name is being looked up any more.
    /// The first addresses start the first try; later ones are asked at once.
    pub(crate) fn seeds_found(
        &mut self,
        out: &mut Outbox<'_>,
        reunion: &Reunion,
        new: Vec<SocketAddr>,
        is_whole: bool,
    ) {
        let (now, is_pulling) = (out.cx.now, self.is_pulling());
        let Some(joining) = &mut self.joining else { return };
        let awaited_names = std::mem::replace(&mut joining.awaits_names, !is_whole);
        if !new.is_empty() {
            joining.newest_seed_at = Some(now);
        }
        let Some(began) = joining.began else {
            if is_whole || !new.is_empty() {
                self.try_to_join(out, reunion);
            }
            return;
        };
        if awaited_names && is_whole {
            out.cx.timers.set_by(Timer::Found, now.max(began + FOUNDING_DELAY));
        }
        if !is_pulling {
            for to in new {
                self.ask_told_to_join(out, reunion, to);
            }
        }
    }

    /// Asks another sponsor, or the same one at the next try, as the sponsor's pages stopped coming.
    pub(crate) fn sponsor_failed(&mut self, out: &mut Outbox<'_>, reunion: &Reunion, sponsor: Run) {
        if let Some(joining) = &mut self.joining {
            joining.pause = FIRST_JOIN_RETRY;
            joining.avoid = Some(sponsor);
        }
        self.try_to_join(out, reunion);
    }
}
