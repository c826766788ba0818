//! Answers to a joiner: what it does with each of them.
//!
//! Invariants: an answer counts if it echoes the nonce of the present attempt; none makes the joiner ask at once more often
//! than `cookies` allows.
//!
//! Must not know: how a sponsor decides.

use std::net::SocketAddr;
use std::time::Duration;

use super::join::Joining;
use crate::core::counters::DropReason;
use crate::core::doors::{Contacted, Notice, StopReason};
use crate::core::election::ElectorateReport;
use crate::core::limits::{FIRST_JOIN_RETRY, FOUNDING_RETRIES, MAX_JOIN_WAIT};
use crate::core::member::Record;
use crate::core::packet::{Sender, SenderKind};
use crate::core::timers::Timer;
use crate::core::wire::{Nonce, Refusal};
use crate::core::{Core, Phase};

impl Core {
    /// Returns the state of joining, if the answer belongs to our present attempt.
    pub(super) fn joining(&mut self, nonce: Nonce) -> Option<&mut Joining> {
        match &mut self.phase {
            Phase::Joining(joining) if joining.nonce == nonce => Some(joining),
            _ => {
                self.counters.drop(DropReason::Unasked);
                None
            }
        }
    }

    /// Takes a sponsor's cookie, and asks again with it.
    pub(in crate::core) fn challenged(&mut self, from: SocketAddr, nonce: Nonce, cookie: Nonce) {
        let Some(joining) = self.joining(nonce) else { return };
        if joining.cookies.take(from, cookie) && !self.is_pulling() {
            self.ask_to_join(from);
        }
    }

    /// Takes a sponsor's welcome: its view is pulled next.
    pub(in crate::core) fn welcomed(
        &mut self,
        sender: Sender,
        nonce: Nonce,
        sponsor: &Record,
        founded: Option<ElectorateReport>,
    ) {
        let now = self.now;
        let awaits_finder = self.awaits_finder();
        let Some(joining) = self.joining(nonce) else { return };
        if awaits_finder && founded.is_none() {
            return;
        }
        joining.reached = Some(now);
        self.answered_contact(sender.from, &sponsor.id);
        let Phase::Joining(joining) = &mut self.phase else { return };
        joining.name_refused = None;
        if let Some(founded) = founded {
            self.receive_electorate_report(sender.run, founded);
        }
        let Phase::Joining(joining) = &mut self.phase else { return };
        if joining.avoid == Some(sender.run) {
            joining.avoid = None;
        } else if !self.is_pulling() && sponsor.run == sender.run {
            self.begin_pull(sender, sponsor.address);
        }
    }

    /// Raises this node's incarnation beyond the one that the cluster holds of its name, and asks again.
    pub(in crate::core) fn behind(&mut self, nonce: Nonce, incarnation: u64) {
        let now = self.now;
        let Some(joining) = self.joining(nonce) else { return };
        joining.reached = Some(now);
        // While a raised incarnation waits for the disk, every sponsor still finds us behind: asking them again now
        // would go round in circles.
        if incarnation >= self.me().incarnation && !self.incarnation.is_waiting() {
            if self.exceed_earlier_run(incarnation) {
                self.incarnation_raised();
            } else {
                self.notice("far behind", Notice::FarBehind { incarnation });
            }
        }
    }

    /// Asks again at once, as the incarnation of a joiner that was behind has been raised.
    pub(in crate::core) fn incarnation_raised(&mut self) {
        if matches!(self.phase, Phase::Joining(_)) && !self.incarnation.is_waiting() && self.transfer.is_none() {
            self.try_at_once();
        }
    }

    /// Waits before the next try: the sponsor asks the present owner of our name whether it lives.
    pub(in crate::core) fn told_to_wait(&mut self, nonce: Nonce, wait_ms: u32) {
        let now = self.now;
        let Some(joining) = self.joining(nonce) else { return };
        joining.reached = Some(now);
        let wait = Duration::from_millis(u64::from(wait_ms)).clamp(FIRST_JOIN_RETRY, MAX_JOIN_WAIT);
        self.timers.set(Timer::JoinTry, now + wait);
    }

    /// Handles a refusal.
    pub(in crate::core) fn refused(&mut self, sender: Sender, nonce: Nonce, refusal: Refusal) {
        if self.take_unreachable(sender, nonce, &refusal) {
            return;
        }
        let by = sender.from;
        let patience = self.settings.retry_interval * FOUNDING_RETRIES;
        let now = self.now;
        let is_asked = matches!(&self.phase, Phase::Joining(joining) if joining.nonce == nonce)
            || self.prover.is_nonce(nonce, by, now);
        if is_asked {
            self.contacted(by, || Contacted::Refused(refusal.clone()));
        }
        let joining = match &mut self.phase {
            Phase::Joining(joining) if joining.nonce == nonce => joining,
            // A member that looks for lost ones met another cluster, or a node with its own name.
            _ if self.prover.is_nonce(nonce, by, now) => {
                if let Refusal::NameInUse { holder } = refusal
                    && self.questions.allow(now, holder, true)
                {
                    self.ask_who(holder);
                }
                if let Refusal::Unreachable { advertised, .. } = refusal
                    && matches!(sender.kind, SenderKind::Member(_))
                    && self.is_deaf()
                {
                    self.unreached_at = Some(advertised);
                }
                return self.notice("refused", Notice::Refused { by, refusal });
            }
            _ => return self.counters.drop(DropReason::Unasked),
        };
        if let Refusal::NameInUse { holder } = refusal {
            return self.refused_name(by, holder);
        }
        if let Refusal::Unreachable { .. } = refusal {
            // There is a cluster, and it accepts this node as soon as it reaches it.
            joining.reached = Some(now);
            joining.refused = Some((by, refusal.clone()));
            return self.notice("unreachable", Notice::Refused { by, refusal });
        }
        let is_final = joining.waited(now) >= patience && joining.reached.is_none() && !joining.founding.met_rivals;
        joining.refused = Some((by, refusal.clone()));
        if is_final {
            return self.stop(StopReason::Refused { by, refusal });
        }
        self.notice("refused", Notice::Refused { by, refusal });
    }

    /// Handles a refusal because of our name. An address that an operator gave us is believed at once. A member that
    /// others named, or that is remembered, may be anyone: its word counts only if there are no seeds to ask, and if no
    /// member has let us in for as long as a founder waits.
    fn refused_name(&mut self, by: SocketAddr, holder: SocketAddr) {
        let (now, patience) = (self.now, self.settings.retry_interval * FOUNDING_RETRIES);
        let (is_contact, has_seeds) = (self.reunion.is_contact(by), self.reunion.has_seeds());
        let Phase::Joining(joining) = &mut self.phase else { return };
        let first = *joining.name_refused.get_or_insert(now);
        if is_contact || (!has_seeds && now.since(first) >= patience) {
            let id = self.me().id.clone();
            return self.stop(StopReason::NameInUse { id, holder });
        }
        let refusal = Refusal::NameInUse { holder };
        joining.refused = Some((by, refusal.clone()));
        self.notice("refused", Notice::Refused { by, refusal });
    }
}
