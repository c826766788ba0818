//! News of the leader: how every member learns who leads, and for how long that holds.
//!
//! - A change (a leader is elected, has resigned; a view is agreed) floods like a change of a record, as `LeaderClaim`
//!   with or without a leader.
//! - Gossip packets carry that the leader still leads, as a `LeaderRenewal` of about sixteen bytes: the renewal that a
//!   majority acknowledged last, and the time since it was sent. Ages are sent, times never are. Each renewal is told a
//!   few times by every node that hears of it: such a rumour reaches nearly all, and the next one reaches the rest.
//! - A node that becomes Up asks somebody at once; if nobody leads, somebody may still have led before (see `founded`).
//! - A node that knows less than a pulse says, or has heard none for seven tenths of a lease, asks: a peer, or a voter
//!   (the leader, while it waits for the view that names the voters).
//!   In a large cluster a few ask and their neighbours learn it from them.
//!
//! Reports are believed of any member: a claim names the term and the renewal that a majority acknowledged, and the lease that
//! it lasts.
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

use super::{Core, Election, Known, LossReason, NodeId, Status, Term, View};
use crate::counters::DropReason;
use crate::election::{Delta, Descent, ElectorateReport, Lineage, MAX_LEASE, MIN_LEASE};
use crate::limits::{LEADER_ANSWER_INTERVAL, MAX_FLOODED_DELTA_BYTES, RENEWAL_RELAYS, WHO_LEADS_INTERVAL};
use crate::time::Time;
use crate::view::{Slot, is_due};
use crate::wire::{LeaderClaim, LeaderRenewal, Message, PacketBuilder};

impl Core {
    /// Takes a claim that began or was renewed: this node's own until then, or another node's.
    pub(super) fn learn_claim(&mut self, claim: Known, own_until: Option<Time>) {
        let Some(tracker) = &mut self.tracker else { return };
        // News of a claim that ran out looks younger than it is, by the time that it was on its way.
        let ran_out = tracker.ran_out.as_ref().filter(|over| over.lineage == claim.lineage);
        let newest = tracker.known.as_ref().or(ran_out);
        let is_newer = newest.is_none_or(|newest| (newest.term, newest.sequence) < (claim.term, claim.sequence));
        if claim.term < tracker.term || !is_newer || (own_until.is_none() && self.cx.now >= claim.until()) {
            return;
        }
        if own_until.is_none() && (tracker.claim_until.is_some() || tracker.is_echo(&claim)) {
            // A leader hears of its claim from nobody else: its own machine says when it is over. And a leader that
            // gave leadership up is not shown again in that term: others passed the news on before they heard of it.
            return;
        }
        tracker.term = claim.term;
        tracker.claim_until = own_until;
        tracker.known = Some(claim);
        tracker.failures_told.clear();
        tracker.forwards.leader_heard(self.cx.now);
        self.found_nothing_anew(View::ME);
        self.publish_leadership(LossReason::Expired);
        self.flood_leadership();
        self.schedule_leadership();
    }

    /// Notes that the leader of this term has given leadership up.
    pub(super) fn learn_release(&mut self, term: Term) {
        let now = self.cx.now;
        let Some(tracker) = &mut self.tracker else { return };
        if tracker.claim_until.is_some() {
            // A leader hears of its claim from nobody else.
            return;
        }
        tracker.give_up(term, now);
        // Old news of an earlier term must not be shown under this one: that would name a second leader of it.
        tracker.known.take_if(|known| known.term <= term);
        tracker.term = tracker.term.max(term);
        self.publish_leadership(LossReason::Resigned);
        self.flood_leadership();
        self.schedule_leadership();
    }

    /// Forgets the leader, if its last known renewal is a lease old.
    pub(super) fn expire_news(&mut self) {
        let Some(tracker) = &mut self.tracker else { return };
        if tracker.claim_until.is_none()
            && let Some(over) = tracker.known.take_if(|known| self.cx.now >= known.until())
        {
            tracker.ran_out = Some(over);
            self.publish_leadership(LossReason::Expired);
        }
    }

    /// Adds the pulse of the leader to a packet that is sent anyway.
    pub(crate) fn push_leader_renewal(&mut self, packet: &mut PacketBuilder) {
        if self.tracker.as_ref().is_some_and(|tracker| tracker.known.is_none()) {
            return self.push_founded(packet);
        }
        let Some(tracker) = &mut self.tracker else { return };
        let Some(known) = &tracker.known else { return };
        let Some(agreed) = tracker.agreed_of(known.term) else { return };
        let reference = agreed.reference();
        let news = (known.term, known.sequence, reference.number);
        let (told, times) = tracker.relayed;
        let times = if told == news { times } else { 0 };
        if times >= RENEWAL_RELAYS {
            return;
        }
        let is_told = packet.push(&Message::LeaderRenewal(LeaderRenewal {
            lineage: agreed.electorate.lineage.0 as u32,
            term: known.term,
            sequence: known.sequence,
            age_ms: age_ms(self.cx.now, known.sent),
            number: reference.number,
            digest: reference.digest.0 as u32,
        }));
        tracker.relayed = (news, times + u32::from(is_told));
    }

    /// Takes a peer's renewal of the leader.
    pub(crate) fn on_leader_renewal(&mut self, from: Slot, renewal: &LeaderRenewal) {
        if self.tracker.is_none() {
            return self.hear_voters(from, None);
        }
        if !renewal.term.is_usable() {
            return self.cx.counters.drop(DropReason::Malformed);
        }
        let Some(tracker) = &mut self.tracker else { return };
        let Some(agreed) = &tracker.agreed else { return self.ask(from) };
        let is_same_line = agreed.electorate.lineage.0 as u32 == renewal.lineage;
        if !is_same_line || renewal.term > tracker.term {
            return self.ask(from);
        }
        let is_behind = renewal.number > agreed.number;
        if renewal.term == tracker.term && tracker.claim_until.is_none() {
            match &tracker.known {
                Some(known) if known.sequence < renewal.sequence => {
                    self.hear_renewal(renewal.sequence, Duration::from_millis(renewal.age_ms));
                }
                None => return self.ask(from),
                Some(_) => {}
            }
        }
        if is_behind {
            self.ask(from);
        }
    }

    /// Tells the driver of a leader by voters, where this node takes no part in electing one: it may be meant to lead
    /// in another way, which makes two leaders.
    fn hear_voters(&mut self, from: Slot, leader: Option<(NodeId, Term)>) {
        let by = Some(self.view.record(from).id.clone());
        self.cx.output(super::Output::VotersHeard { by, is_led: true, leader });
    }

    /// Takes a renewal of the known leader; returns true if it is news.
    fn renew_known(&mut self, sequence: u64, age: Duration) -> bool {
        let (now, waited) = (self.cx.now, self.health.may_have_waited(self.cx.now));
        let Some(tracker) = &mut self.tracker else { return false };
        let known = tracker.known.as_mut().filter(|known| tracker.claim_until.is_none() && known.sequence < sequence);
        let Some(known) = known else { return false };
        known.sequence = sequence;
        known.sent = known.sent.max(now - age - waited);
        true
    }

    /// Takes a renewal of the known leader, and reports it if it is news.
    fn hear_renewal(&mut self, sequence: u64, age: Duration) {
        if !self.renew_known(sequence, age) {
            return;
        }
        let Some(tracker) = &mut self.tracker else { return };
        tracker.told.valid_until = tracker.known.as_ref().map(super::Known::until);
        let told = tracker.told.clone();
        self.cx.output(super::Output::Leadership(told));
        self.schedule_leadership();
    }

    /// Returns all that this node knows of the leader.
    fn led(&self, with_delta: bool) -> Option<LeaderClaim> {
        let tracker = self.tracker.as_ref()?;
        let agreed = tracker.agreed_of(tracker.term)?;
        let known = tracker.known.as_ref();
        Some(LeaderClaim {
            lineage: agreed.electorate.lineage,
            root: agreed.electorate.root,
            began: agreed.electorate.began,
            term: tracker.term,
            leader: known.map(|known| known.leader.clone()),
            sequence: known.map_or(0, |known| known.sequence),
            age_ms: known.map_or(0, |known| age_ms(self.cx.now, known.sent)),
            lease_ms: known.map_or(0, |known| known.lease.as_millis() as u64),
            view: agreed.reference(),
            delta: self.last_delta().filter(|_| with_delta),
        })
    }

    /// Returns the difference between the newest agreed view and the one before it, if this node has held both and it
    /// is short.
    fn last_delta(&self) -> Option<Delta> {
        let delta = self.tracker.as_ref()?.last_delta.as_ref()?;
        delta.fits(MAX_FLOODED_DELTA_BYTES).then(|| delta.clone())
    }

    /// Takes a member's report of who leads, or that nobody does any more.
    pub(crate) fn on_leader_claim(&mut self, from: Slot, led: LeaderClaim) {
        if !is_plausible(&led) {
            return self.cx.counters.drop(DropReason::Malformed);
        }
        if self.tracker.is_none() {
            if let Some(leader) = led.leader.filter(|_| led.age_ms < led.lease_ms) {
                self.hear_voters(from, Some((leader, led.term)));
            }
            return self.cx.counters.drop(DropReason::WrongState);
        }
        let descent = Descent { lineage: led.lineage, root: led.root, began: led.began };
        if descent.is_well_formed() {
            self.on_electorate_report(self.view.record(from).run, ElectorateReport { descent, is_sure: true });
        }
        if led.leader.is_some() {
            self.found_nothing_anew(from);
            self.meet_other_electorate(self.view.record(from).run, led.root, led.leader.as_ref(), led.term);
        }
        self.meet_leader_of_other_electorate(from, &led);
        let Some(tracker) = &self.tracker else { return };
        let generation = led.term.generation();
        if let Some(agreed) = &tracker.agreed
            && agreed.electorate.lineage != led.lineage
        {
            let own = tracker.election.as_ref().and_then(Election::lineage);
            // Its leader may be known already while its first view is still on its way.
            let is_known =
                own == Some(led.lineage) || tracker.recovered.is_some_and(|recovered| recovered.lineage == led.lineage);
            let is_earlier = led.began <= agreed.electorate.began || led.term < tracker.term;
            if led.root != agreed.electorate.root {
                return;
            }
            if is_earlier && !is_known {
                // News of an electorate that was recovered: a node that still speaks for it hears so from the voters.
                return;
            }
            self.follow_heir(descent);
        } else if generation < tracker.term.generation() {
            return;
        }
        self.take_news_of_view(from, led.view, led.began, led.delta.as_ref());
        let Some(tracker) = &mut self.tracker else { return };
        let known = tracker.known.as_ref().map(|known| (known.term, &known.leader));
        match led.leader {
            Some(leader) if known == Some((led.term, &leader)) => {
                self.hear_renewal(led.sequence, Duration::from_millis(led.age_ms));
            }
            Some(leader) => {
                let sent = self.cx.now - Duration::from_millis(led.age_ms) - self.health.may_have_waited(self.cx.now);
                let lease = Duration::from_millis(led.lease_ms);
                let known =
                    Known { lineage: Some(led.lineage), term: led.term, leader, sequence: led.sequence, sent, lease };
                self.learn_claim(known, None);
            }
            None if led.term >= tracker.term => self.learn_release(led.term),
            None => {}
        }
    }

    /// Tells this node's election of a leader of another electorate: if two operators recovered on two sides, the
    /// voters of both sort it out. Whoever has a leader of its own meanwhile says that there are two.
    fn meet_leader_of_other_electorate(&mut self, from: Slot, led: &LeaderClaim) {
        self.meet_other_recovery(from, led);
        let own = self.election().and_then(Election::electorate);
        let is_other = own.is_some_and(|own| own.root == led.root && own.lineage != led.lineage);
        if let Some(leader) = led.leader.clone().filter(|_| is_other) {
            self.with_election(|election, context| election.contact_other_leader(context, &leader));
        }
    }

    fn follow_heir(&mut self, descent: Descent) {
        if let Some(tracker) = &mut self.tracker {
            tracker.recovered = Some(descent);
        }
    }

    /// Answers a member that asks who leads.
    pub(crate) fn on_who_leads(&mut self, to: Slot) {
        let now = self.cx.now;
        let rare = self.view.peer_mut(to).rare_mut();
        if !is_due(now, rare.last_led, LEADER_ANSWER_INTERVAL) {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        rare.last_led = Some(now);
        // The answer never says that the leader is gone: one that resigned has said so, and one that is silent may
        // still be there.
        let is_led = self.tracker.as_ref().is_some_and(|tracker| tracker.known.is_some());
        let Some(mut led) = self.led(true) else { return self.tell_founded(to) };
        let mut packet = self.out().packet_to(to);
        packet.push(&Message::Reply);
        if !is_led {
            led.leader = None;
            led.term = led.began;
        }
        if !packet.push(&Message::LeaderClaim(Box::new(led.clone()))) {
            led.delta = None;
            packet.push(&Message::LeaderClaim(Box::new(led)));
        }
        self.out().send_to(to, packet);
    }

    /// Floods news of the leader or of a view at once, like a change of a record.
    pub(super) fn flood_leadership(&mut self) {
        let Some(tracker) = &mut self.tracker else { return };
        let Some(agreed) = &tracker.agreed else { return };
        let news = (tracker.term, tracker.known.is_some(), agreed.number);
        let (term, was_led, number) = tracker.flooded;
        let is_news = tracker.term > term || number < agreed.number || (was_led && tracker.known.is_none());
        let is_lost = tracker.known.is_none() && !was_led;
        if !is_news || is_lost && number == agreed.number {
            tracker.flooded = news;
            return;
        }
        tracker.flooded = news;
        let is_own = tracker.claim_until.is_some() || tracker.leave_by.is_some();
        let Some(mut led) = self.led(true) else { return };
        for target in self.flood_targets(is_own) {
            let mut packet = self.out().packet_to(target);
            if !packet.push(&Message::LeaderClaim(Box::new(led.clone()))) {
                let delta = led.delta.take();
                packet.push(&Message::LeaderClaim(Box::new(led.clone())));
                led.delta = delta;
            }
            self.out().send_to(target, packet);
        }
    }

    /// Returns the time at which news of the leader is so old that it is asked for.
    pub(super) fn ask_deadline(&self) -> Option<Time> {
        let tracker = self.tracker.as_ref().filter(|tracker| tracker.claim_until.is_none())?;
        let known = tracker.known.as_ref()?;
        let old = known.sent + known.lease * 7 / 10;
        let again = tracker.asked_at.map_or(old, |asked| asked + (known.lease / 20).max(WHO_LEADS_INTERVAL));
        Some(old.max(again))
    }

    /// Asks a voter who leads, if the news of it is old, or the leader itself while no voters are known.
    pub(super) fn ask_who_leads(&mut self) {
        if self.ask_deadline().is_none_or(|at| self.cx.now < at) {
            return;
        }
        let known = self.tracker.as_ref().and_then(|tracker| tracker.known.as_ref());
        let names: Vec<&NodeId> = match self.electorate() {
            Some(electorate) => electorate.voters.iter().map(|voter| &voter.id).collect(),
            None => known.map(|known| &known.leader).into_iter().collect(),
        };
        let slots = names.into_iter().filter_map(|name| self.view.slot_of(name.as_str()));
        let is_up = |slot: &Slot| *slot != View::ME && self.view.entry(*slot).status == Status::Up;
        let voters: Vec<Slot> = slots.filter(is_up).collect();
        if let Some(voter) = voters.choose(&mut self.random.lead).copied() {
            self.ask(voter);
        } else if let Some(tracker) = &mut self.tracker {
            tracker.asked_at = Some(self.cx.now);
        }
    }

    /// Asks any member who leads, as a newcomer does.
    pub(super) fn ask_anybody(&mut self) {
        let knows_one = self.tracker.as_ref().is_some_and(|tracker| tracker.known.is_some());
        if let Some(peer) = self.view.live().choose(&mut self.random.lead).copied().filter(|_| !knows_one) {
            self.ask(peer);
        }
    }

    pub(super) fn ask(&mut self, whom: Slot) {
        let Some(tracker) = &mut self.tracker else { return };
        if tracker.asked_at.is_some_and(|asked| self.cx.now.since(asked) < WHO_LEADS_INTERVAL) {
            return;
        }
        tracker.asked_at = Some(self.cx.now);
        let mut packet = self.out().packet_to(whom);
        packet.push(&Message::WhoLeads);
        self.out().send_to(whom, packet);
    }
}

/// Returns true if a claim's figures are within their bounds.
fn is_plausible(led: &LeaderClaim) -> bool {
    let lease = Duration::from_millis(led.lease_ms);
    let is_led = led.leader.is_some();
    let is_term_in_bounds = led.term.is_usable() || (!is_led && led.term == led.began);
    let is_of_its_generation =
        led.began.is_beginning() && led.began.generation() == led.term.generation() && led.began <= led.term;
    is_term_in_bounds
        && is_of_its_generation
        && (!is_led || (MIN_LEASE / 2..=MAX_LEASE).contains(&lease))
        && led.lineage != Lineage(0)
}

/// Returns the age in milliseconds, rounded up: rounding must not make any claim younger.
fn age_ms(now: Time, sent: Time) -> u64 {
    now.since(sent).as_nanos().div_ceil(1_000_000) as u64
}
