//! Answers to a joiner: what it does with each of them.
//!
//! Invariants: an answer counts if it echoes the nonce of a question of the present attempt (see `asked`); none makes the joiner ask at once more often than `cookies` allows.
//!
//! Must not know: how a sponsor decides.

use std::net::SocketAddr;
use std::time::Duration;

use super::asked::Answerer;
use super::join::Joining;
use super::status::are_all_of_another_cluster;
use crate::Core;
use crate::counters::DropReason;
use crate::doors::{Contacted, Notice, StopReason};
use crate::election::ElectorateReport;
use crate::limits::{FIRST_JOIN_RETRY, FOUNDING_RETRIES, MAX_JOIN_WAIT};
use crate::member::Record;
use crate::packet::{Sender, SenderKind, Turn};
use crate::timers::Timer;
use crate::wire::{Nonce, Refusal};

impl Core {
    /// Returns the address that was asked with this nonce, if this node is Joining.
    fn whose_answer(&self, nonce: Nonce) -> Option<Answerer> {
        let Some(joining) = &self.joiner else { return None };
        joining.asked.answerer(nonce)
    }

    /// Returns the state of joining and the address that was asked, if this is an answer to a question of ours.
    pub(super) fn answer_by(&mut self, nonce: Nonce) -> Option<(&mut Joining, Answerer)> {
        let answerer = self.whose_answer(nonce);
        if let (Some(joining), Some(answerer)) = (&mut self.joiner, answerer) {
            return Some((joining, answerer));
        }
        self.cx.counters.drop(DropReason::Unasked);
        None
    }

    /// Takes a sponsor's cookie, and asks again with it.
    pub(crate) fn on_challenge(&mut self, sender: Sender, nonce: Nonce, cookie: Nonce) {
        let Some((joining, Answerer { is_told, .. })) = self.answer_by(nonce) else { return };
        if joining.cookies.take(sender.from, cookie) && !self.is_pulling() {
            self.ask_to_join(sender.from, is_told);
        }
    }

    /// Takes a sponsor's welcome: its view is pulled next.
    pub(crate) fn on_welcome(
        &mut self,
        sender: Sender,
        nonce: Nonce,
        sponsor: &Record,
        founded: Option<ElectorateReport>,
    ) {
        let now = self.cx.now;
        let awaits_finder = self.awaits_finder();
        let Some((joining, Answerer { address, .. })) = self.answer_by(nonce) else { return };
        if awaits_finder && founded.is_none() {
            return;
        }
        joining.asked.answered(address, Contacted::Answered { id: sponsor.id.clone() }, now);
        joining.reached = Some(now);
        joining.name_refused = None;
        self.answered_contact(sender.from, &sponsor.id);
        if let Some(founded) = founded {
            self.on_electorate_report(sender.run, founded);
        }
        let is_pulling = self.is_pulling();
        let Some(joining) = &mut self.joiner else { return };
        if joining.avoid == Some(sender.run) {
            joining.avoid = None;
        } else if !is_pulling && sponsor.run == sender.run && !sender.run.is_nobody() {
            joining.reach = None;
            // Pages of another sponsor's view are not to be taken for pages of this one's.
            self.stop_pulling();
            self.begin_pull(sender, sponsor.address);
        }
    }

    /// Raises this node's incarnation beyond the one that the cluster holds of its name, and asks again.
    pub(crate) fn on_behind(&mut self, nonce: Nonce, incarnation: u64) {
        let now = self.cx.now;
        let Some((joining, _)) = self.answer_by(nonce) else { return };
        joining.reached = Some(now);
        // While a raised incarnation waits for the disk, every sponsor still finds us behind: asking them again now
        // would go round in circles.
        if incarnation >= self.me().incarnation && !self.me.incarnation.is_waiting() {
            self.raise_incarnation(incarnation + 1);
            self.incarnation_raised();
        }
    }

    /// Asks again at once, as the incarnation of a joiner that was behind has been raised.
    pub(crate) fn incarnation_raised(&mut self) {
        if self.cx.phase.is_joining() && !self.me.incarnation.is_waiting() && self.transfer.is_none() {
            self.try_at_once();
        }
    }

    /// Waits before this sponsor is asked again: it asks the present owner of our name whether it lives, say. Others are
    /// asked meanwhile.
    pub(crate) fn on_wait(&mut self, nonce: Nonce, wait_ms: u32) {
        let now = self.cx.now;
        let Some((joining, Answerer { address, .. })) = self.answer_by(nonce) else { return };
        joining.reached = Some(now);
        let until = now + Duration::from_millis(u64::from(wait_ms)).clamp(FIRST_JOIN_RETRY, MAX_JOIN_WAIT);
        joining.asked.wait(address, until);
        self.cx.timers.set_by(Timer::JoinTry, until);
    }

    /// Handles a refusal.
    pub(crate) fn on_refused(&mut self, sender: Sender, nonce: Nonce, refusal: Refusal) {
        if self.take_unreachable(sender, nonce, &refusal) {
            return;
        }
        let by = sender.from;
        let patience = self.cx.settings.retry_interval * FOUNDING_RETRIES;
        let (now, at_most) = (self.cx.now, self.answers_count_for());
        let answerer = self.whose_answer(nonce);
        let is_asked = answerer.is_some() || self.packets.prover.is_nonce(nonce, by, now);
        if is_asked {
            self.contacted(by, || Contacted::Refused(refusal.clone()));
        }
        let (joining, asked) = match (&mut self.joiner, answerer) {
            (Some(joining), Some(Answerer { address, is_told: true })) => (joining, address),
            // A member that looks for lost ones met another cluster, or a node with its own name.
            _ if self.packets.prover.is_nonce(nonce, by, now) => {
                if let Refusal::NameInUse { holder } = refusal
                    && self.packets.turns.take_own(now, Turn::Question, holder)
                {
                    self.out().ask_who(holder);
                }
                if let Refusal::Unreachable { advertised, .. } = refusal
                    && matches!(sender.kind, SenderKind::Member(_))
                    && self.health.is_deaf(self.cx.now, &self.cx.settings)
                {
                    self.me.unreached_at = Some(advertised);
                }
                return self.cx.notice("refused", Notice::Refused { by, refusal });
            }
            _ => return self.cx.counters.drop(DropReason::Unasked),
        };
        joining.asked.answered(asked, Contacted::Refused(refusal.clone()), now);
        if let Refusal::NameInUse { holder } = refusal {
            return self.refused_name(by, asked, holder);
        }
        if let Refusal::Unreachable { .. } = refusal {
            // There is a cluster, and it accepts this node as soon as it reaches it.
            joining.reached = Some(now);
            joining.refused = Some((by, refusal.clone()));
            return self.cx.notice("unreachable", Notice::Refused { by, refusal });
        }
        joining.refused = Some((by, refusal.clone()));
        let is_final = joining.waited(now) >= patience
            && joining.reached.is_none()
            && !joining.founding.met_rivals
            && (self.reunion.is_contact(asked) || !self.reunion.has_seeds())
            && (joining.asked.refuses_this_node(now, at_most)
                || !joining.is_seed && are_all_of_another_cluster(&self.answers_of_seeds()));
        if is_final {
            return self.stop(StopReason::Refused { by, refusal });
        }
        self.cx.notice("refused", Notice::Refused { by, refusal });
    }

    /// Handles a refusal because of our name. An address that an operator gave us is believed at once. A member that
    /// others named, or that is remembered, may be another cluster's by now: its word counts only if there are no seeds to ask, and if no
    /// member has let us in for as long as a founder waits.
    fn refused_name(&mut self, by: SocketAddr, asked: SocketAddr, holder: SocketAddr) {
        let (now, patience) = (self.cx.now, self.cx.settings.retry_interval * FOUNDING_RETRIES);
        let (is_contact, has_seeds) = (self.reunion.is_contact(asked), self.reunion.has_seeds());
        let Some(joining) = &mut self.joiner else { return };
        let first = *joining.name_refused.get_or_insert(now);
        if is_contact || (!has_seeds && now.since(first) >= patience) {
            let id = self.me().id.clone();
            return self.stop(StopReason::NameInUse { id, holder });
        }
        let refusal = Refusal::NameInUse { holder };
        joining.refused = Some((by, refusal.clone()));
        self.cx.notice("refused", Notice::Refused { by, refusal });
    }
}
