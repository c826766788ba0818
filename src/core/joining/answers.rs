//! Answers to a joiner: what it does with each of them.
//!
//! Invariants: an answer counts if it echoes the nonce of a question of the present attempt (see `asked`); none makes
//! the joiner ask at once more often than `cookies` allows.
//!
//! Must not know: how a sponsor decides.

use std::net::SocketAddr;
use std::time::Duration;

use super::asked::Answerer;
use super::join::Joining;
use super::join::{JoinStep, Joiner};
use super::reachable::is_told_unreachable;
use super::status::answers_count_for;
use super::status::are_all_of_another_cluster;
use crate::context::Context;
use crate::counters::DropReason;
use crate::discovery::Reunion;
use crate::io::{Contacted, Notice, StopReason};
use crate::limits::{FIRST_JOIN_RETRY, FOUNDING_RETRIES, MAX_JOIN_WAIT};
use crate::member::Record;
use crate::packet::Outbox;
use crate::packet::{Sender, SenderKind, Turn};
use crate::timers::Timer;
use crate::wire::{Nonce, Refusal};

impl Joiner {
    /// Returns the address that was asked with this nonce, if this node is Joining.
    fn whose_answer(&self, nonce: Nonce) -> Option<Answerer> {
        let Some(joining) = &self.joining else { return None };
        joining.asked.answerer(nonce)
    }

    /// Returns true if this answers a question of this joiner's.
    pub(crate) fn has_asked(&self, nonce: Nonce) -> bool {
        self.whose_answer(nonce).is_some()
    }

    /// Returns the state of joining and the address that was asked, if this is an answer to a question of ours.
    pub(crate) fn answer_by(&mut self, cx: &mut Context, nonce: Nonce) -> Option<(&mut Joining, Answerer)> {
        let answerer = self.whose_answer(nonce);
        if let (Some(joining), Some(answerer)) = (&mut self.joining, answerer) {
            return Some((joining, answerer));
        }
        cx.counters.drop(DropReason::Unasked);
        None
    }

    /// Takes a sponsor's cookie, and asks again with it.
    pub(crate) fn on_challenge(
        &mut self,
        out: &mut Outbox<'_>,
        reunion: &Reunion,
        sender: Sender,
        nonce: Nonce,
        cookie: Nonce,
    ) {
        let Some((joining, Answerer { is_told, .. })) = self.answer_by(out.cx, nonce) else { return };
        if joining.cookies.take(sender.from, cookie) && !self.is_pulling() {
            self.ask_to_join(out, reunion, sender.from, is_told);
        }
    }

    /// Takes a sponsor's welcome; returns true if it counts. `knows_electorate`: it told of one.
    pub(crate) fn on_welcome(
        &mut self,
        cx: &mut Context,
        nonce: Nonce,
        sponsor: &Record,
        knows_electorate: bool,
    ) -> bool {
        let (now, awaits_finder) = (cx.now, self.awaits_finder(cx.now));
        let Some((joining, Answerer { address, .. })) = self.answer_by(cx, nonce) else { return false };
        if awaits_finder && !knows_electorate {
            return false;
        }
        joining.asked.answered(address, Contacted::Answered { id: sponsor.id.clone() }, now);
        joining.reached = Some(now);
        joining.name_refused = None;
        true
    }

    /// Pulls the view of a sponsor that welcomed this node, unless another one's is under way.
    pub(crate) fn follow(&mut self, out: &mut Outbox<'_>, sender: Sender, sponsor: &Record) {
        let is_pulling = self.is_pulling();
        let Some(joining) = &mut self.joining else { return };
        if joining.avoid == Some(sender.run) {
            joining.avoid = None;
        } else if !is_pulling && sponsor.run == sender.run && !sender.run.is_nobody() {
            joining.reach = None;
            // Pages of another sponsor's view are not to be taken for pages of this one's.
            self.stop_pulling(out.cx);
            self.begin_pull(out, sender, sponsor.address);
        }
    }

    /// Takes the answer that the cluster holds this node's name at an incarnation; returns true if this node is to raise its own
    /// above that, and to ask again.
    pub(crate) fn on_behind(
        &mut self,
        cx: &mut Context,
        me: &Record,
        nonce: Nonce,
        held: u64,
        is_raising: bool,
    ) -> bool {
        let now = cx.now;
        let Some((joining, _)) = self.answer_by(cx, nonce) else { return false };
        joining.reached = Some(now);
        // While a raised incarnation waits for the disk, every sponsor still finds us behind: asking them again now
        // would go round in circles.
        held >= me.incarnation && !is_raising
    }

    /// Asks again at once, as the incarnation of a joiner that was behind has been raised.
    pub(crate) fn incarnation_raised(&mut self, cx: &mut Context, is_raising: bool) {
        if cx.phase.is_joining() && !is_raising && self.transfer.is_none() {
            self.try_at_once(cx);
        }
    }

    /// Waits before this sponsor is asked again: it asks the present owner of our name whether it lives, say. Others are
    /// asked meanwhile.
    pub(crate) fn on_wait(&mut self, cx: &mut Context, nonce: Nonce, wait_ms: u32) {
        let now = cx.now;
        let Some((joining, Answerer { address, .. })) = self.answer_by(cx, nonce) else { return };
        joining.reached = Some(now);
        let until = now + Duration::from_millis(u64::from(wait_ms)).clamp(FIRST_JOIN_RETRY, MAX_JOIN_WAIT);
        joining.asked.wait(address, until);
        cx.timers.set_by(Timer::JoinTry, until);
    }

    /// Handles a refusal.
    pub(crate) fn on_refused(
        &mut self,
        out: &mut Outbox<'_>,
        reunion: &Reunion,
        sender: Sender,
        nonce: Nonce,
        refusal: Refusal,
    ) -> Option<JoinStep> {
        if is_told_unreachable(out, sender, nonce, &refusal) {
            out.cx.notice("refused", Notice::Refused { by: sender.from, refusal });
            return None;
        }
        let by = sender.from;
        let patience = out.cx.settings.retry_interval * FOUNDING_RETRIES;
        let (now, at_most) = (out.cx.now, answers_count_for(&out.cx.settings));
        let answerer = self.whose_answer(nonce);
        let (joining, asked) = match (&mut self.joining, answerer) {
            (Some(joining), Some(Answerer { address, is_told: true })) => (joining, address),
            // A member that looks for lost ones met another cluster, or a node with its own name.
            _ if out.packets.prover.is_nonce(nonce, by, now) => {
                if let Refusal::NameInUse { holder } = refusal
                    && out.packets.turns.take_own(now, Turn::Question, holder)
                {
                    out.ask_who(holder);
                }
                let step = match refusal {
                    Refusal::Unreachable { advertised, .. }
                        if matches!(sender.kind, SenderKind::Member(_))
                            && out.health.is_deaf(out.cx.now, &out.cx.settings) =>
                    {
                        Some(JoinStep::Unreached(advertised))
                    }
                    _ => None,
                };
                out.cx.notice("refused", Notice::Refused { by, refusal });
                return step;
            }
            _ => {
                out.cx.counters.drop(DropReason::Unasked);
                return None;
            }
        };
        joining.asked.answered(asked, Contacted::Refused(refusal.clone()), now);
        if let Refusal::NameInUse { holder } = refusal {
            return self.refused_name(out, reunion, by, asked, holder);
        }
        if let Refusal::Unreachable { .. } = refusal {
            // There is a cluster, and it accepts this node as soon as it reaches it.
            joining.reached = Some(now);
            joining.refused = Some((by, refusal.clone()));
            out.cx.notice("unreachable", Notice::Refused { by, refusal });
            return None;
        }
        joining.refused = Some((by, refusal.clone()));
        let is_final = joining.waited(now) >= patience
            && joining.reached.is_none()
            && !joining.founding.met_joiners
            && (reunion.is_contact(asked) || !reunion.has_seeds())
            && (joining.asked.refuses_this_node(now, at_most)
                || !joining.is_seed && are_all_of_another_cluster(&self.answers_of_seeds(out.cx, out.view, reunion)));
        if is_final {
            return Some(JoinStep::Stop(StopReason::Refused { by, refusal }));
        }
        out.cx.notice("refused", Notice::Refused { by, refusal });
        None
    }

    /// Handles a refusal because of our name. An address that an operator gave us is believed at once. A member that
    /// others named, or that is remembered, may be another cluster's by now: its refusal counts only if there are no
    /// seeds to ask, and if no member has let us in for as long as a founder waits.
    fn refused_name(
        &mut self,
        out: &mut Outbox<'_>,
        reunion: &Reunion,
        by: SocketAddr,
        asked: SocketAddr,
        holder: SocketAddr,
    ) -> Option<JoinStep> {
        let (now, patience) = (out.cx.now, out.cx.settings.retry_interval * FOUNDING_RETRIES);
        let (is_contact, has_seeds) = (reunion.is_contact(asked), reunion.has_seeds());
        let joining = self.joining.as_mut()?;
        let first = *joining.name_refused.get_or_insert(now);
        if is_contact || (!has_seeds && now.since(first) >= patience) {
            let id = out.view.me().id.clone();
            return Some(JoinStep::Stop(StopReason::NameInUse { id, holder }));
        }
        let refusal = Refusal::NameInUse { holder };
        joining.refused = Some((by, refusal.clone()));
        out.cx.notice("refused", Notice::Refused { by, refusal });
        None
    }
}
