//! Up means reachable: no joiner becomes Up before others reached the address that it advertises.
//!
//! ```text
//! joiner, heard from B, advertises A          sponsor
//!   Join{cookie for B} ───────────────────────▶
//!        ◀─ Wait (to B) ── Challenge{cookie for A} (to A)
//!   Join{cookie for A} ───────────────────────▶   admitted; packets to it go to A from now on
//! ```
//!
//! The challenge goes to `A` by a bootstrap link, to that port, if datagrams do not pass (see `bootstrap`). A member
//! that is not proven to be there is asked there before anything that it sends over a connection counts (see
//! `unproven`).
//!
//! A joiner that advertises the address it is heard from has brought that cookie anyway. One that cannot be reached at
//! its advertised address is refused with a message that names both addresses, and may ask again. Only a process that
//! looks for a cluster with the very nonce of the question answers a challenge: the address of a third party gets one
//! small packet a second.
//!
//! A member of another address family (IPv4, IPv6) may be out of reach although the sponsor is not. So a joiner that
//! finds members of the other family in its new view first asks some of them to send to its advertised address:
//! `ReachMe`, answered there by `Reached`. All other joiners lose no time by it.
//!
//! A sponsor may be wrong about its own address, too: the first node of a cluster has no other node to ask. A joiner
//! that is admitted from another address than the sponsor advertises asks the sponsor at the advertised one, by
//! `ReachMe` again, before it pulls anything. If there is no answer, it joins through others only, and tells the
//! sponsor, under the sponsor's own cookie.
//!
//! And an address may stop working. A member that is silent there, and asks from another address for this node's
//! record, is answered where it asks, with a message that names both addresses: it is Up in its own view, but not ready
//! (see [`Core::is_reachable`]) until a member shows again that it receives this member's packets. That answer bears a
//! nonce of the member's own question: no other node can send it. A firewall that lets in only answers to its own
//! side's packets is taken for open: the members that such a member sends to reach it.
//!
//! Invariant: of joiners that it cannot reach, the sponsor remembers only since when, for at most [`MAX_JOINERS`] of
//! them.
//!
//! Must not know: what a node does that is not reachable.

use super::join::{JoinStep, Joiner};
use super::sponsor::{Sponsor, decide};
use crate::counters::DropReason;
use crate::packet::Outbox;
use crate::packet::{Newcomer, Way};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::Rng;
use rand::seq::IndexedRandom;

use crate::io::{Notice, Receiver};
use crate::limits::{MAX_JOINERS, MIN_QUESTION_BYTES, REACH_ASKED, REACH_PATIENCE, REACH_RETRY, UNREACHED_PATIENCE};
use crate::member::{Run, Status};
use crate::packet::{Sender, SenderKind, Turn};
use crate::time::Time;
use crate::timers::Timer;
use crate::wire::{Message, Nonce, PacketBuilder, Refusal};

/// Joiners that were not reached at their advertised addresses: the time since which they are asked there, and the time
/// until which that is remembered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unreached {
    since: BTreeMap<Run, (Time, Time)>,
}

impl Unreached {
    /// Returns the time since which this joiner is asked at its address.
    fn since(&self, run: Run, now: Time) -> Option<Time> {
        self.since.get(&run).filter(|(_, until)| now < *until).map(|(since, _)| *since)
    }

    /// Notes that this joiner is asked at its address now; returns the time since which it is.
    fn ask(&mut self, run: Run, now: Time, kept: Duration) -> Time {
        let since = self.since(run, now).unwrap_or(now);
        if self.since.len() >= MAX_JOINERS && !self.since.contains_key(&run) {
            let oldest = self.since.iter().min_by_key(|(_, (_, until))| *until).map(|(run, _)| *run);
            oldest.and_then(|oldest| self.since.remove(&oldest));
        }
        self.since.insert(run, (since, now + kept));
        since
    }

    /// Forgets a joiner that was reached.
    pub(crate) fn forget(&mut self, run: Run) {
        self.since.remove(&run);
    }
}

/// The questions of a joiner that waits for members of another address family to reach it.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    nonce: Nonce,
    asked: Vec<SocketAddr>,
    until: Time,
    /// The address that the sponsor is heard from, and its run, if it is asked whether it is at its advertised address.
    sponsor: Option<(SocketAddr, Run)>,
}

impl Sponsor {
    /// Returns true if a newcomer advertises an address at which this node reaches it; if not, it is asked there and
    /// told to wait.
    pub(crate) fn try_reach(&mut self, out: &mut Outbox<'_>, newcomer: &Newcomer) -> bool {
        let Newcomer { from, nonce, ref record, .. } = *newcomer;
        let (run, address) = (record.run, record.address);
        if from == address {
            self.joiners.unreached.forget(run);
            return true;
        }
        let asked_since = if out.packets.turns.take(out.cx.now, Turn::Elsewhere, address) {
            let cookie = out.packets.prover.cookie(address, run, out.cx.now);
            let mut packet = out.packet(usize::MAX);
            packet.push(&Message::Reply);
            packet.push(&Message::Challenge { nonce, cookie });
            let bytes = packet.finish();
            // The newcomer may have opened a bootstrap link, so that datagrams may not pass: its port is asked by one,
            // too.
            let has_room = if out.paths.bootstrap.is_from(newcomer.heard_from) {
                out.open_bootstrap_with(address, bytes.clone())
            } else {
                true
            };
            out.transmit_bytes(address, Receiver::of(run), bytes);
            has_room.then(|| self.joiners.unreached.ask(run, out.cx.now, out.cx.settings.retry_interval * 3))
        } else {
            // Among many joiners its turn may come later: nobody is called unreachable who was not asked.
            self.joiners.unreached.since(run, out.cx.now)
        };
        if asked_since.is_none_or(|since| out.cx.now.since(since) < UNREACHED_PATIENCE) {
            let wait_ms = UNREACHED_PATIENCE.as_millis() as u32 / 2;
            decide(out, newcomer, &Message::Wait { nonce, wait_ms });
            return false;
        }
        let id = record.id.clone();
        out.cx.notice("joiner unreachable", Notice::JoinerUnreachable { id, advertised: address, heard_from: from });
        let refusal = Refusal::Unreachable { advertised: address, heard_from: from };
        decide(out, newcomer, &Message::Refused { nonce, refusal });
        false
    }

    /// Answers the question whether this node reaches an address. One small packet goes there, no larger than the question,
    /// at most one a second; and one more to a joiner that was admitted, and has been asked there before.
    pub(crate) fn on_reach_me(&mut self, out: &mut Outbox<'_>, sender: Sender, nonce: Nonce, address: SocketAddr) {
        let is_let_in = self.joiners.address_of(sender.run, sender.from) == Some(address);
        if !out.cx.phase.is_up() || sender.run.is_nobody() {
            return;
        }
        let mut packet = out.packet(usize::MAX);
        packet.push(&Message::Reply);
        packet.push(&Message::Reached { nonce });
        // A member that has moved waits for it, and asks few. It says at once where it is.
        let is_member = !matches!(sender.kind, SenderKind::Stranger) && sender.way != Way::Unbound;
        if is_member {
            packet.push(&Message::WhoAreYou { nonce: out.packets.prover.nonce(address, out.cx.now), echo: None });
        }
        if !out.packets.turns.take_bytes(sender.bytes, packet.len()) {
            return;
        }
        let (now, turns) = (out.cx.now, &mut out.packets.turns);
        let is_its_turn = if is_let_in {
            turns.take_own(now, Turn::Introduction, address)
        } else {
            turns.take(now, Turn::Elsewhere, address)
        };
        if is_member || is_its_turn {
            let bytes = packet.finish();
            if out.paths.bootstrap.is_from(sender.from) {
                // It opened a bootstrap link, so that datagrams may not pass.
                out.open_bootstrap_with(address, bytes.clone());
            }
            out.transmit_bytes(address, Receiver::of(sender.run), bytes);
        }
    }
}

impl Joiner {
    /// Returns true if members of the other address family have yet to reach this joiner. Asks some of them, if so.
    pub(crate) fn request_reach(&mut self, out: &mut Outbox<'_>) -> bool {
        let is_v6 = out.view.me().address.is_ipv6();
        let others: Vec<SocketAddr> = out
            .view
            .live()
            .iter()
            .map(|slot| out.view.record(*slot))
            .filter(|record| record.status == Status::Up && record.address.is_ipv6() != is_v6)
            .map(|record| record.address)
            .collect();
        if others.is_empty() {
            return false;
        }
        let asked: Vec<SocketAddr> = others.sample(&mut self.rng, REACH_ASKED).copied().collect();
        self.begin_to_be_reached(out, asked, None);
        true
    }

    fn begin_to_be_reached(
        &mut self,
        out: &mut Outbox<'_>,
        asked: Vec<SocketAddr>,
        sponsor: Option<(SocketAddr, Run)>,
    ) {
        let nonce = Nonce(self.rng.next_u64());
        let until = out.cx.now + REACH_PATIENCE;
        if let Some(joining) = &mut self.joining {
            joining.reach = Some(Reach { nonce, asked, until, sponsor });
        }
        self.ask_to_be_reached(out);
    }

    /// Pulls the view of a sponsor; from one that is heard from another address than it advertises only once it
    /// answered there. Members of another family are asked to reach this node once they are known.
    pub(crate) fn begin_pull(&mut self, out: &mut Outbox<'_>, sender: Sender, advertised: SocketAddr) {
        let is_elsewhere = advertised != sender.from && !matches!(sender.way, Way::Link(_));
        if !is_elsewhere || advertised.is_ipv6() != out.view.me().address.is_ipv6() {
            return self.pull_from(out, sender.from, sender.run);
        }
        self.begin_to_be_reached(out, vec![advertised], Some((sender.from, sender.run)));
    }

    /// Handles a sponsor that does not answer at the address it advertises: tells it so, and asks others first.
    fn sponsor_unreachable(&mut self, out: &mut Outbox<'_>, advertised: SocketAddr, heard_from: SocketAddr, run: Run) {
        out.cx.notice("sponsor unreachable", Notice::SponsorUnreachable { advertised, heard_from });
        let Some(joining) = &mut self.joining else { return };
        joining.avoid = Some(run);
        if let Some(cookie) = joining.cookies.of(heard_from) {
            let refusal = Refusal::Unreachable { advertised, heard_from };
            out.reply_at(heard_from, run, &Message::Refused { nonce: cookie, refusal });
        }
    }

    /// Asks the members of the other family again, or gives up for now.
    pub(crate) fn ask_to_be_reached(&mut self, out: &mut Outbox<'_>) {
        let address = out.view.me().address;
        let Some(joining) = &mut self.joining else { return };
        let Some(reach) = &joining.reach else { return };
        let (nonce, asked, until, sponsor) = (reach.nonce, reach.asked.clone(), reach.until, reach.sponsor);
        if out.cx.now >= until {
            joining.reach = None;
            // The search begins anew, from the pull on: a dead member is Down by then.
            out.cx.timers.set(Timer::JoinTry, out.cx.now + out.cx.settings.retry_interval);
            if let Some((heard_from, run)) = sponsor {
                return self.sponsor_unreachable(out, asked[0], heard_from, run);
            }
            out.cx.notice("not reached", Notice::NotReached { advertised: address, others: asked });
            return;
        }
        for to in asked {
            let mut packet = out.packet(usize::MAX);
            packet.push(&Message::ReachMe { nonce, address });
            packet.pad_to(out.question_bytes(MIN_QUESTION_BYTES));
            out.transmit(to, Receiver::Anybody, packet);
        }
        out.cx.timers.set(Timer::Reach, until.min(out.cx.now + REACH_RETRY));
    }

    /// Takes the answer that this node's advertised address was reached, or that its sponsor is at its own.
    pub(crate) fn on_reached(&mut self, out: &mut Outbox<'_>, nonce: Nonce, is_raising: bool) -> Option<JoinStep> {
        let reach = self.joining.as_mut().and_then(|joining| joining.reach.take_if(|reach| reach.nonce == nonce));
        match reach {
            None => out.cx.counters.drop(DropReason::Unasked),
            Some(Reach { sponsor: Some((from, run)), .. }) => self.pull_from(out, from, run),
            Some(_) if !is_raising => return Some(JoinStep::BecomeUp),
            // As soon as the disk has stored the incarnation, it is asked again.
            Some(reach) => {
                if let Some(joining) = &mut self.joining {
                    joining.reach = Some(reach);
                }
            }
        }
        None
    }
}

/// Returns true if this node is told that it cannot be reached at its advertised address, by a joiner. Only a node
/// without other members believes it: others are reached, or are told so by members.
pub(crate) fn is_told_unreachable(out: &Outbox<'_>, sender: Sender, nonce: Nonce, refusal: &Refusal) -> bool {
    let Refusal::Unreachable { advertised, .. } = *refusal else { return false };
    out.cx.phase.is_up()
        && out.packets.prover.is_cookie(nonce, sender.from, sender.run, out.cx.now)
        && advertised == out.view.me().address
        && out.view.live().is_empty()
}

/// Tells a member that is silent at its advertised address, and asks from another one, that this is so. Both
/// addresses are named on both sides.
pub(crate) fn push_unreachable(
    out: &mut Outbox<'_>,
    packet: &mut PacketBuilder,
    sender: Sender,
    kind: SenderKind,
    says: Option<SocketAddr>,
    nonce: Nonce,
) {
    let (SenderKind::Member(slot) | SenderKind::ClaimsMember(slot)) = kind else { return };
    let record = out.view.record(slot);
    let (id, advertised, heard_from) = (record.id.clone(), record.address, sender.from);
    let is_silent = record.status.is_accused() && heard_from != advertised;
    if matches!(sender.way, Way::Link(_)) || !is_silent || says.is_some_and(|says| says != advertised) {
        return;
    }
    let refusal = Refusal::Unreachable { advertised, heard_from };
    if packet.push(&Message::Refused { nonce, refusal }) {
        out.cx.notice("member unreachable", Notice::MemberUnreachable { id, advertised, heard_from });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than all of them take to come.
    const KEPT: Duration = Duration::from_secs(60);

    #[test]
    fn so_many_joiners_are_remembered_that_were_not_reached_and_the_oldest_goes_first() {
        let mut unreached = Unreached::default();
        let at = |i: u64| Time::ORIGIN + Duration::from_millis(i);
        let most = MAX_JOINERS as u64;
        for i in 0..most {
            assert_eq!(unreached.ask(Run(i), at(i), KEPT), at(i));
        }
        let later = at(most);
        assert_eq!(unreached.ask(Run(0), later, KEPT), at(0), "all of them are remembered");
        assert_eq!(unreached.ask(Run(most), later, KEPT), later);
        assert_eq!(unreached.since.len(), MAX_JOINERS);
        assert_eq!(unreached.ask(Run(2), later, KEPT), at(2));
        assert_eq!(unreached.ask(Run(1), later, KEPT), later, "who asked least lately begins anew");
        assert_eq!(unreached.since.len(), MAX_JOINERS);
    }
}
