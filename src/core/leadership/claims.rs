//! Claims: how every member learns who leads, and for how long that holds.
//!
//! - A change (a leader is elected, has resigned; a view is agreed) floods like a change of a record, as `LeaderClaim`
//!   with or without a leader.
//! - Gossip packets carry that the leader still leads, as a `LeaderRenewal` of about sixteen bytes: the renewal that a
//!   majority acknowledged last, and the time since it was sent. Ages are sent, times never are. Each renewal is told a
//!   few times by every node that hears of it: such a rumour reaches nearly all, and the next one reaches the rest.
//! - A node that becomes Up asks somebody at once; if nobody leads, somebody may still have led before (see `founded`).
//! - A node that knows less than a renewal says, or has heard none for seven tenths of a lease, asks: a peer, or a voter
//!   (the leader, while it waits for the view that names the voters).
//!   In a large cluster a few ask and their neighbours learn it from them.
//!
//! Reports are believed of any member: a claim names the term and the renewal that a majority acknowledged, and the lease
//! that it lasts.
//!
//! **Whoever stood still** (its process was stopped, its machine paused) finds news in its socket that was sent while its
//! leader lived: the ages of it count from the last input before, the earliest time at which it can have come.
//!
//! Invariants: a leader that gave leadership up is not shown again in its term, however late others pass on that it
//! leads; questions and floods are rate-limited; answers to unproven addresses are never larger than the question, like
//! all packets to members.
//!
//! Must not know: elections. Voters learn here what everybody learns, and more from the renewals themselves.

use std::time::Duration;

use rand::seq::IndexedRandom;

use super::{Lead, LeadContext, LeadStep};
use crate::counters::DropReason;
use crate::election::{Delta, Descent, ElectorateReport, LossReason, MAX_LEASE, MIN_LEASE, NumberedView, Term};
use crate::io::Output;
use crate::limits::{LEADER_ANSWER_INTERVAL, MAX_FLOODED_DELTA_BYTES, RENEWAL_RELAYS, WHO_LEADS_INTERVAL};
use crate::member::{NodeId, Status};
use crate::time::Time;
use crate::view::{Slot, View, is_due};
use crate::wire::{LeaderClaim, LeaderRenewal, Message, Nonce, PacketBuilder};

/// The lease divided by the longest time that news of a claim is on its way. A claim looks younger than it is by that
/// time, since nobody counts it.
const ECHO_SHARE: u32 = 4;

/// A claim, as this node heard of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The electorate that elected the leader, as far as it is known.
    pub(super) descent: Option<Descent>,
    pub(super) term: Term,
    pub(super) leader: NodeId,
    /// The renewal that a majority acknowledged.
    pub(super) sequence: u64,
    /// The time at which that renewal was sent.
    pub(super) sent: Time,
    pub(super) lease: Duration,
}

impl Known {
    pub(super) fn until(&self) -> Time {
        self.sent + self.lease
    }
}

/// What is known of the leader.
impl Lead {
    /// Takes a claim that began or was renewed: this node's own until then, or another node's.
    pub(super) fn learn_claim(&mut self, cx: &mut LeadContext<'_>, claim: Known, own_until: Option<Time>) {
        // News of a claim that ran out looks younger than it is, by the time that it was on its way.
        let ran_out = self.ran_out.as_ref().filter(|over| over.descent == claim.descent);
        let newest = self.known.as_ref().or(ran_out);
        let is_newer = newest.is_none_or(|newest| (newest.term, newest.sequence) < (claim.term, claim.sequence));
        self.ended.take_if(|ended| ended.is_below(claim.term));
        if claim.term < self.term || self.ended.is_some() || !is_newer {
            return;
        }
        // A leader hears of its claim from nobody else: its own machine says when it is over. And a leader that gave
        // leadership up is not shown again in that term: others passed the news on before they heard of it.
        let is_over = || cx.now >= claim.until() || self.is_leading() || self.is_echo(&claim);
        if own_until.is_none() && is_over() {
            return;
        }
        (self.term, self.term_of) = (claim.term, claim.descent);
        self.claim_until = own_until;
        self.known = Some(claim);
        self.failures_told.clear();
        self.forwards.values_mut().for_each(|forward| forward.leader_heard(cx.now));
        self.found_nothing_anew(cx, View::ME);
        self.publish(cx.view, LossReason::Expired);
        self.flood(cx);
        self.schedule(cx);
    }

    /// Notes that the leader of this term, of this electorate, has given leadership up.
    pub(super) fn learn_release(&mut self, cx: &mut LeadContext<'_>, term: Term, of: Option<Descent>) {
        if self.is_leading() {
            // A leader hears of its claim from nobody else.
            return;
        }
        self.give_up(term, cx.now);
        // Old news of an earlier term must not be shown under this one: that would name a second leader of it.
        self.known.take_if(|known| known.term <= term);
        if term > self.term {
            (self.term, self.term_of) = (term, of);
        }
        self.publish(cx.view, LossReason::Resigned);
        self.flood(cx);
        self.schedule(cx);
    }

    /// Notes that leadership in this term was given up.
    pub(super) fn give_up(&mut self, term: Term, now: Time) {
        if self.given_up.is_none_or(|(given_up, _)| given_up < term) {
            self.given_up = Some((term, now));
        }
    }

    /// Returns true if another node's claim is an echo of leadership that was given up: of that term, and not renewed
    /// since. A term that is led on was never given up, whatever was reported.
    fn is_echo(&self, claim: &Known) -> bool {
        self.given_up.is_some_and(|(term, at)| claim.term == term && claim.sent <= at + claim.lease / ECHO_SHARE)
    }

    /// Forgets the leader, if its last known renewal is a lease old.
    pub(super) fn expire_known(&mut self, cx: &mut LeadContext<'_>) {
        if !self.is_leading()
            && let Some(over) = self.known.take_if(|known| cx.now >= known.until())
        {
            self.ran_out = Some(over);
            self.publish(cx.view, LossReason::Expired);
        }
    }

    /// Takes a renewal of the known leader, and reports it if it is news.
    fn renew_known(&mut self, cx: &mut LeadContext<'_>, sequence: u64, age_ms: u64) {
        if self.is_leading() {
            return;
        }
        let Some(known) = self.known.as_mut().filter(|known| known.sequence < sequence) else { return };
        known.sequence = sequence;
        known.sent = known.sent.max(cx.now - Duration::from_millis(age_ms) - cx.waited);
        self.told.valid_until = Some(known.until());
        self.output(Output::Leadership(self.told.clone()));
        self.schedule(cx);
    }
}

/// Renewals in gossip packets.
impl Lead {
    /// Adds the renewal of the leader to a packet that is sent anyway; without a leader, what is known of an electorate.
    pub(crate) fn push_renewal(&mut self, now: Time, packet: &mut PacketBuilder) {
        let Some(known) = &self.known else { return self.push_founded(packet) };
        let Some(agreed) = self.agreed_of(known.term) else { return };
        let reference = agreed.reference();
        let news = (known.term, known.sequence, reference.number);
        let (told, times) = self.relayed;
        let times = if told == news { times } else { 0 };
        if times >= RENEWAL_RELAYS {
            return;
        }
        let is_told = packet.push(&Message::LeaderRenewal(LeaderRenewal {
            lineage: agreed.electorate.lineage.0 as u32,
            term: known.term,
            sequence: known.sequence,
            age_ms: now.age_ms(known.sent),
            number: reference.number,
            digest: reference.digest.0 as u32,
        }));
        self.relayed = (news, times + u32::from(is_told));
    }

    /// Takes a peer's renewal of the leader.
    pub(crate) fn on_leader_renewal(&mut self, cx: &mut LeadContext<'_>, from: Slot, renewal: &LeaderRenewal) {
        if !renewal.term.is_usable() {
            return cx.counters.drop(DropReason::Malformed);
        }
        let Some(agreed) = &self.agreed else { return self.ask(cx, from) };
        let is_same_line = agreed.electorate.lineage.0 as u32 == renewal.lineage;
        if !is_same_line || renewal.term > self.term || self.ended.is_some() {
            return self.ask(cx, from);
        }
        let is_behind = renewal.number > agreed.number;
        let is_of_this_term = renewal.term == self.term && !self.is_leading();
        if is_of_this_term && self.known.is_none() {
            return self.ask(cx, from);
        }
        if is_of_this_term {
            self.renew_known(cx, renewal.sequence, renewal.age_ms);
        }
        if is_behind {
            self.ask(cx, from);
        }
    }
}

/// Claims, told and heard.
impl Lead {
    /// Returns the newest agreed view, if this term is one of its electorate. Until the first view of an electorate is
    /// known, its terms are not told: under the lineage of the electorate before they would be taken for that one's, as
    /// would those of one that ended for those of the one that stands.
    fn agreed_of(&self, term: Term) -> Option<&NumberedView> {
        let is_of_it = |agreed: &&NumberedView| {
            agreed.term.generation() == term.generation()
                && self.founded().is_none_or(|founded| founded.lineage == agreed.electorate.lineage)
                && self.followed.is_none()
                && self.ended.is_none()
        };
        self.agreed.as_ref().filter(is_of_it)
    }

    /// Returns all that this node knows of the leader.
    fn claim(&self, now: Time) -> Option<LeaderClaim> {
        let agreed = self.agreed_of(self.term)?;
        let known = self.known.as_ref();
        Some(LeaderClaim {
            descent: agreed.electorate.descent(),
            term: self.term,
            leader: known.map(|known| known.leader.clone()),
            sequence: known.map_or(0, |known| known.sequence),
            age_ms: known.map_or(0, |known| now.age_ms(known.sent)),
            lease_ms: known.map_or(0, |known| known.lease.as_millis() as u64),
            view: agreed.reference(),
            // If this node has held both views, and the difference is short.
            delta: self.last_delta.clone().filter(|delta: &Delta| delta.fits(MAX_FLOODED_DELTA_BYTES)),
            answers: None,
        })
    }

    /// Takes a member's report of who leads, or that nobody does any more.
    pub(crate) fn on_leader_claim(&mut self, cx: &mut LeadContext<'_>, from: Slot, claim: LeaderClaim) {
        if !is_plausible(&claim) {
            return cx.counters.drop(DropReason::Malformed);
        }
        let by = cx.view.record(from).run;
        self.on_electorate_report(cx, by, ElectorateReport { descent: claim.descent, is_sure: true });
        if claim.leader.is_some() {
            // One that this node went over from may be all that it still reaches, and is no reason to found nothing.
            if self.founded().is_none_or(|founded| !founded.stands_over(&claim.descent)) {
                self.found_nothing_anew(cx, from);
            }
            self.meet_other_electorate(cx, by, &claim.descent, Some(&claim));
        }
        if !self.follows(cx, by, &claim) {
            return self.lead_above(cx, &claim);
        }
        if self.followed.is_some() && !self.follow_claim(cx, from, &claim) {
            return self.schedule(cx);
        }
        self.take_news_of_view(cx, from, claim.view, &claim.descent, claim.delta.as_ref());
        if self.is_leading() && claim.leader.is_none() && claim.term >= self.term {
            // While this node's claim holds, only voters whose disks were put back can have led in that term: that has ended.
            return self.lead_above(cx, &claim);
        }
        let LeaderClaim { descent, term, sequence, age_ms, .. } = claim;
        let sent = cx.now - Duration::from_millis(age_ms) - cx.waited;
        let (descent, lease) = (Some(descent), Duration::from_millis(claim.lease_ms));
        let led = claim.leader.map(|leader| Known { descent, term, leader, sequence, sent, lease });
        match led {
            Some(led) if self.known.as_ref().is_some_and(|known| known.term == term && known.leader == led.leader) => {
                self.renew_known(cx, sequence, age_ms);
            }
            Some(led) => {
                self.tell_of_ended(cx, &led.leader, term);
                self.learn_claim(cx, led, None);
            }
            None if term >= self.term && self.ended.is_none() => self.learn_release(cx, term, descent),
            None => {}
        }
    }

    /// Floods news of the leader or of a view at once, like a change of a record. That nobody leads is told of a term that was
    /// given up: whoever has a view before it knows who leads, or has lost sight of a leader, knows nothing of that.
    pub(super) fn flood(&mut self, cx: &LeadContext<'_>) {
        let Some(agreed) = &self.agreed else { return };
        let (is_led, number) = (self.known.is_some(), agreed.number);
        let is_given_up = !is_led && self.given_up.is_some_and(|(term, _)| term == self.term);
        let (term, was_led, told) = std::mem::replace(&mut self.flooded, (self.term, is_led, number));
        let is_end = was_led && is_given_up;
        let is_news = self.term > term || number > told || is_end;
        let has_content = is_led || is_end || number != told;
        if is_news && has_content {
            let is_own = self.is_leading() || self.leave_by.is_some();
            let claim = self.claim(cx.now).map(|claim| {
                let term = if is_led || is_given_up { claim.term } else { claim.descent.began };
                Box::new(LeaderClaim { term, ..claim })
            });
            self.steps.extend(claim.map(|claim| LeadStep::Flood { claim, is_own }));
        }
    }
}

/// Questions.
impl Lead {
    /// Answers a member that asks who leads.
    pub(crate) fn on_who_leads(&mut self, cx: &mut LeadContext<'_>, from: Slot, nonce: Nonce) {
        let last = &mut cx.view.peer_mut(from).rare_mut().last_led;
        if !is_due(cx.now, *last, LEADER_ANSWER_INTERVAL) {
            return cx.counters.drop(DropReason::RateLimited);
        }
        *last = Some(cx.now);
        let Some(mut claim) = self.claim(cx.now) else { return self.tell_founded(from) };
        claim.answers = Some(nonce);
        if self.known.is_none() {
            // The answer never says that the leader is gone: one that resigned has said so, and one that is silent may
            // still be there.
            claim.term = claim.descent.began;
        }
        self.steps.push(LeadStep::answer(from, Message::LeaderClaim(Box::new(claim))));
    }

    /// Returns the time at which news of the leader is so old that it is asked for.
    pub(super) fn ask_deadline(&self) -> Option<Time> {
        let known = self.known.as_ref().filter(|_| !self.is_leading())?;
        let old = known.sent + known.lease * 7 / 10;
        let again = self.asked_at.map_or(old, |asked| asked + (known.lease / 20).max(WHO_LEADS_INTERVAL));
        Some(old.max(again))
    }

    /// Asks a voter who leads, if the news of it is old, or the leader itself while no voters are known.
    pub(super) fn ask_who_leads(&mut self, cx: &mut LeadContext<'_>) {
        if self.ask_deadline().is_none_or(|at| cx.now < at) {
            return;
        }
        let view = &*cx.view;
        let names: Vec<&NodeId> = match self.electorate() {
            Some(electorate) => electorate.voters.iter().map(|voter| &voter.id).collect(),
            None => self.known.iter().map(|known| &known.leader).collect(),
        };
        let is_up = |slot: &Slot| *slot != View::ME && view.entry(*slot).status == Status::Up;
        let voters: Vec<Slot> =
            names.into_iter().filter_map(|name| view.slot_of(name.as_str())).filter(is_up).collect();
        match voters.choose(&mut self.random) {
            Some(voter) => self.ask(cx, *voter),
            None => self.asked_at = Some(cx.now),
        }
    }

    /// Returns the time at which somebody is asked next who leads, while an electorate is being founded anew, or the one that is
    /// followed is there but for its leader.
    pub(super) fn ask_again_at(&self) -> Option<Time> {
        let is_waiting = self.followed.as_ref().is_some_and(|followed| followed.view.is_some());
        let again = self.asked_at.unwrap_or(Time::ORIGIN) + WHO_LEADS_INTERVAL;
        (is_waiting || self.election.is_founding_anew()).then_some(again)
    }

    /// Asks any member who leads, as a newcomer does.
    pub(super) fn ask_anybody(&mut self, cx: &mut LeadContext<'_>) {
        let peer = cx.view.live().choose(&mut self.random).copied();
        if let Some(peer) = peer.filter(|_| self.known.is_none()) {
            self.ask(cx, peer);
        }
    }

    /// Asks a member who leads, if nobody was asked a moment ago.
    pub(super) fn ask(&mut self, cx: &mut LeadContext<'_>, whom: Slot) {
        if is_due(cx.now, self.asked_at, WHO_LEADS_INTERVAL) {
            self.asked_at = Some(cx.now);
            let nonce = Nonce(self.first_nonce.wrapping_add(cx.now.as_nanos()));
            self.steps.push(LeadStep::tell(whom, Message::WhoLeads { nonce }));
        }
    }

    /// Returns the time at which the question was asked that has this nonce, which tells it by itself.
    pub(super) fn time_of_question(&self, nonce: Nonce) -> Time {
        Time::from_nanos(nonce.0.wrapping_sub(self.first_nonce))
    }
}

/// Returns true if a claim's figures are within their bounds.
fn is_plausible(claim: &LeaderClaim) -> bool {
    let lease = Duration::from_millis(claim.lease_ms);
    let is_led = claim.leader.is_some();
    let began = claim.descent.began;
    let is_term_in_bounds = claim.term.is_usable() || (!is_led && claim.term == began);
    is_term_in_bounds
        && began.generation() == claim.term.generation()
        && began <= claim.term
        && (!is_led || (MIN_LEASE / 2..=MAX_LEASE).contains(&lease))
        && claim.descent.is_well_formed()
}
