//! Admitting joiners: the sponsor's side of joining.
//!
//! Invariants:
//! - Before the cookie came back no state is kept of a joiner, no answer is larger than its question, and so many are
//!   answered in a second (see `unproven`).
//! - A joiner is held *beside* the view (listed as joining; neither hashed, gossiped nor synced), at most
//!   [`MAX_JOINERS`], of which those of a crowded host or network give way to others; one that is silent for its down
//!   timeout is dropped, and one whose port also refuses connections at once.
//! - A joiner is admitted only after its *advertised* address brought back a cookie (see `reachable`).
//! - A joiner that asks again at once, whatever it is answered, is answered so often in a second and no more; one that is
//!   not let in is told so a few times (see `admission`).
//! - A name that a live member holds is only given away after that member was probed (see `names`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::admission::{AnsweredJoins, Denials};
use super::reachable::Unreached;
use super::unproven::UnprovenJoins;
use crate::core::counters::DropReason;
use crate::core::doors::{Notice, Receiver};
use crate::core::limits::{
    JOINER_REFUSALS, JOINER_REVIEW, JOINER_SILENCE, MAX_JOINERS, MAX_JOINERS_PER_HOST, REACH_PATIENCE,
};
use crate::core::member::{Change, ChangeKind, NodeId, ProtocolRange, Record, Run, Status};
use crate::core::packet::{Host, Newcomer, Sender, SenderKind, gives_way};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::wire::{Message, Nonce, Refusal, Seeking};
use crate::core::{Core, Phase};

/// The joiners of this sponsor, by run.
#[derive(Debug, Default)]
pub(in crate::core) struct Joiners {
    held: BTreeMap<Run, Joiner>,
    /// Joiners that asked while this node was Joining itself; they are admitted when it is Up.
    waiting: BTreeMap<Run, (Newcomer, Time)>,
    /// Joiners that were not admitted, because no node answers at the addresses that they advertise.
    pub(in crate::core) unreached: Unreached,
    /// The addresses of joiners that were told lately that they are not let in.
    denied: Denials,
    /// The questions that were answered lately.
    pub(in crate::core) answered: AnsweredJoins,
    /// The turns of those that have proven nothing.
    pub(in crate::core) unproven: UnprovenJoins,
}

#[derive(Debug)]
struct Joiner {
    record: Arc<Record>,
    /// The address that its cookie was sent to, and came back from.
    from: SocketAddr,
    /// The source address of its packets: another one, if addresses are translated on the way.
    heard_from: SocketAddr,
    heard: Time,
    /// Time at which it was first admitted.
    since: Time,
    /// The number of times that its port refused a connection since it was heard last.
    refusals: u8,
    /// True if it was reported as joining: its name is not listed in any other way.
    is_listed: bool,
}

/// The state of a member from the time when it was joining.
#[derive(Debug, Default)]
pub(in crate::core) struct Taken {
    /// The joining record of that name that was reported.
    pub(in crate::core) listed: Option<Arc<Record>>,
    /// True if its address has echoed a cookie.
    pub(in crate::core) proven: bool,
}

impl Joiner {
    fn is_at(&self, address: SocketAddr) -> bool {
        self.from == address || self.heard_from == address
    }
}

impl Joiners {
    /// Returns the number of joiners that are kept.
    pub(in crate::core) fn size(&self) -> usize {
        self.held.len() + self.waiting.len()
    }

    pub(in crate::core) fn contains(&self, run: Run) -> bool {
        self.held.contains_key(&run)
    }

    /// Returns true if this is a joiner's own record, under the name with which it was admitted, from the address that
    /// its cookie came back from.
    pub(in crate::core) fn is_admitted(&self, run: Run, from: SocketAddr, record: &Record) -> bool {
        let is_its_own = |joiner: &Joiner| joiner.is_at(from) && joiner.record.id == record.id;
        record.run == run && self.held.get(&run).is_some_and(is_its_own)
    }

    /// Returns true if the joiner of this run has itself sent a higher incarnation than this record has.
    pub(in crate::core) fn is_ahead_of(&self, record: &Record) -> bool {
        self.held.get(&record.run).is_some_and(|joiner| joiner.record.incarnation > record.incarnation)
    }

    /// Returns the address at which a joiner is answered that is heard from `from`.
    pub(super) fn home_of(&self, run: Run, from: SocketAddr) -> Option<SocketAddr> {
        self.held.get(&run).filter(|joiner| joiner.is_at(from)).map(|joiner| joiner.from)
    }

    /// Returns true if a joiner's cookie came back from this address.
    pub(in crate::core) fn is_here(&self, run: Run, from: SocketAddr) -> bool {
        self.home_of(run, from).is_some()
    }

    /// Returns true if this run asked to join from another address, and does not advertise this one.
    fn is_elsewhere(&self, run: Run, from: SocketAddr) -> bool {
        let is_not_here = |at: SocketAddr, record: &Record| at != from && record.address != from;
        self.held.get(&run).is_some_and(|joiner| is_not_here(joiner.from, &joiner.record))
            || self.waiting.get(&run).is_some_and(|(newcomer, _)| is_not_here(newcomer.from, &newcomer.record))
    }

    /// Returns the number of joiners listed as joining.
    pub(in crate::core) fn listed(&self) -> usize {
        self.held.values().filter(|joiner| joiner.is_listed).count()
    }

    /// Keeps a newcomer until this node is Up. If there are too many, the one of the most crowded host gives way that asked
    /// least lately; who did not ask again for `patience` is forgotten first.
    fn keep_waiting(&mut self, newcomer: &Newcomer, now: Time, patience: Duration) {
        let run = newcomer.record.run;
        if self.waiting.len() >= MAX_JOINERS && !self.waiting.contains_key(&run) {
            self.forget_who_gave_up(now, patience);
        }
        if self.waiting.len() >= MAX_JOINERS && !self.waiting.contains_key(&run) {
            let waiting = self.waiting.iter().map(|(run, (newcomer, asked))| (*run, newcomer.from, *asked));
            let Some(first) = gives_way(waiting, newcomer.from) else { return };
            self.waiting.remove(&first);
        }
        self.waiting.insert(run, (newcomer.clone(), now));
    }

    /// Forgets those that did not ask again for so long: joiners ask once in a retry interval at least.
    fn forget_who_gave_up(&mut self, now: Time, patience: Duration) {
        self.waiting.retain(|_, (_, asked)| now.since(*asked) <= patience);
    }

    /// Returns those that wait, one of each host after the other.
    fn waiting_in_turn(&self) -> Vec<Newcomer> {
        let mut of_host: BTreeMap<Host, usize> = BTreeMap::new();
        let mut turns = BTreeMap::new();
        for (run, (newcomer, _)) in &self.waiting {
            let turn = of_host.entry(Host::of(newcomer.from)).or_default();
            turns.insert((*turn, *run), newcomer);
            *turn += 1;
        }
        turns.into_values().cloned().collect()
    }

    fn of_name(&self, id: &NodeId) -> Option<&Joiner> {
        self.held.values().find(|joiner| joiner.record.id == *id)
    }

    /// Removes the joiner of a record that enters the view; its name is no longer listed as joining.
    pub(in crate::core) fn take(&mut self, record: &Record) -> Taken {
        let mut taken = Taken::default();
        if let Some(joiner) = self.held.remove(&record.run) {
            taken.proven = joiner.from == record.address;
            taken.listed = Some(joiner.record).filter(|_| joiner.is_listed);
        }
        for joiner in self.held.values_mut().filter(|joiner| joiner.is_listed && joiner.record.id == record.id) {
            joiner.is_listed = false;
            taken.listed = Some(Arc::clone(&joiner.record));
        }
        taken
    }

    /// Returns the number of joiners at addresses of the same host as this one.
    fn of_host(&self, address: SocketAddr) -> usize {
        let host = Host::of(address);
        self.held.values().filter(|joiner| Host::of(joiner.from) == host).count()
    }

    /// Returns the joiner that gives way to a newcomer at this address: the longest idle one of the most crowded host.
    fn gives_way(&self, newcomer: SocketAddr) -> Option<Run> {
        gives_way(self.held.iter().map(|(run, joiner)| (*run, joiner.from, joiner.heard)), newcomer)
    }
}

impl Core {
    /// Handles `Join`: first sends a challenge, then decides.
    pub(in crate::core) fn asked_to_admit(
        &mut self,
        sender: Sender,
        nonce: Nonce,
        record: Record,
        cookie: Option<Nonce>,
        seeking: Option<Seeking>,
    ) {
        if !self.joiners.answered.take(self.now, sender.run, sender.from) {
            return self.counters.drop(DropReason::RateLimited);
        }
        let is_of = |address| cookie.is_some_and(|cookie| self.is_cookie_of(cookie, address, sender.run));
        // A cookie that came back for the advertised address proves that one, wherever this packet comes from.
        let is_of_advertised = is_of(record.address);
        let is_proven = is_of_advertised || is_of(sender.from);
        // Others than members took their turn before they were read.
        if !is_proven && matches!(sender.kind, SenderKind::Member(_)) && !self.may_answer_unproven(sender.from) {
            return self.counters.drop(DropReason::RateLimited);
        }
        if matches!(self.phase, Phase::Up) && self.serving.is_busy_for(sender.run, sender.from, self.now) {
            let elsewhere = self.refer(sender.from, nonce);
            return self.answer_with(sender, &elsewhere);
        }
        if !is_proven {
            let cookie = self.prover.cookie(sender.from, sender.run, self.now);
            return self.answer_with(sender, &Message::Challenge { nonce, cookie });
        }
        if record.run != sender.run || record.status != Status::Joining || record.run.is_nobody() {
            return self.counters.drop(DropReason::Malformed);
        }
        let from = if is_of_advertised { record.address } else { sender.from };
        let is_known_elsewhere = matches!(sender.kind, SenderKind::ClaimsMember(_));
        if is_known_elsewhere || self.joiners.is_elsewhere(sender.run, from) {
            // One process is in one place: the member, or the joiner, of this run is at another address.
            return self.counters.drop(DropReason::Claimed);
        }
        let newcomer = Newcomer { from, heard_from: sender.from, nonce, record };
        if !newcomer.record.protocol.overlaps(ProtocolRange::OURS) {
            self.notice("other protocol", Notice::OtherProtocol { from: sender.from });
            if !self.refusals.allow(self.now, sender.from, false) {
                return self.counters.drop(DropReason::RateLimited);
            }
            let refusal = Refusal::Protocol { speaks: ProtocolRange::OURS };
            return self.decide(&newcomer, &Message::Refused { nonce, refusal });
        }
        match self.phase {
            Phase::Joining(_) => self.keep_waiting(&newcomer, seeking),
            Phase::Up => self.admit(newcomer, None),
            Phase::Leaving | Phase::Stopped => self.counters.drop(DropReason::WrongState),
        }
    }

    /// Sends the decision to a newcomer, whose address is proven.
    pub(super) fn decide(&mut self, newcomer: &Newcomer, message: &Message) {
        let mut packet = self.packet(usize::MAX);
        packet.push(&Message::Reply);
        packet.push(message);
        self.transmit(newcomer.from, Receiver::of(newcomer.record.run), packet);
    }

    /// Tells a newcomer why it is not let in now, if it was not told a moment ago.
    pub(super) fn deny(&mut self, newcomer: &Newcomer, message: &Message) {
        if self.joiners.denied.take(self.now, newcomer.from) {
            self.decide(newcomer, message);
        } else {
            self.counters.drop(DropReason::RateLimited);
        }
    }

    fn keep_waiting(&mut self, newcomer: &Newcomer, seeking: Option<Seeking>) {
        self.joiners.keep_waiting(newcomer, self.now, self.settings.retry_interval * 2);
        if let Some(seeking) = seeking {
            self.asked_while_joining(newcomer.from, &newcomer.record, seeking);
        }
        self.answer_not_up(newcomer);
    }

    /// Answers that this node is Joining itself.
    fn answer_not_up(&mut self, newcomer: &Newcomer) {
        let (record, joiners) = (Record::clone(self.me()), self.joiners.waiting.len() as u32);
        let seeking = self.seeking(None);
        let mut packet = self.packet(usize::MAX);
        packet.push(&Message::Reply);
        if let Some(seeking) = seeking {
            packet.push(&Message::Seeking(seeking));
        }
        packet.push(&Message::NotUp { nonce: newcomer.nonce, record, joiners });
        self.transmit(newcomer.from, Receiver::of(newcomer.record.run), packet);
    }

    /// Tells some of the joiners that asked that another candidate comes first.
    pub(super) fn tell_waiting(&mut self, limit: usize) {
        for newcomer in self.joiners.waiting_in_turn().into_iter().take(limit) {
            self.answer_not_up(&newcomer);
        }
    }

    /// Admits the joiners that asked before this node was Up.
    pub(super) fn welcome_waiting(&mut self) {
        let waiting = self.joiners.waiting_in_turn();
        self.joiners.waiting.clear();
        for newcomer in waiting {
            self.admit(newcomer, None);
        }
    }

    /// Admits a newcomer, or answers why not (yet). `vacated_by` is the run that was probed for this name and is gone.
    pub(super) fn admit(&mut self, newcomer: Newcomer, vacated_by: Option<Run>) {
        let Newcomer { from, nonce, ref record, .. } = newcomer;
        if record.id == self.me().id {
            let refusal = Refusal::NameInUse { holder: self.me().address };
            return self.deny(&newcomer, &Message::Refused { nonce, refusal });
        }
        let held = self.view.slot_of(record.id.as_str()).map(|slot| Arc::clone(self.view.record(slot)));
        let last = self.tombstones.incarnation(record.id.as_str()).max(held.as_ref().map(|held| held.incarnation));
        if let Some(incarnation) = last.filter(|last| record.incarnation <= *last) {
            return self.deny(&newcomer, &Message::Behind { nonce, incarnation });
        }
        if !self.try_reach(&newcomer) {
            return;
        }
        let rival = self.joiners.of_name(&record.id).map(|joiner| Arc::clone(&joiner.record));
        let is_held = |held: &Arc<Record>| matches!(held.status, Status::Up | Status::Suspect | Status::Leaving);
        let owner = held.clone().filter(is_held).or(rival).filter(|owner| owner.run != record.run);
        if let Some(owner) = owner
            && vacated_by != Some(owner.run)
            && !self.joiners.contains(record.run)
            && owner.address != from
        {
            return self.probe_name(newcomer, &owner);
        }
        let is_stale = self.joiners.held.get(&record.run).is_some_and(|j| j.record.incarnation > record.incarnation);
        if is_stale {
            // A late copy: the joiner has raised its incarnation since.
            return self.counters.drop(DropReason::Outdated);
        }
        let is_held = self.joiners.contains(record.run);
        if !is_held && self.joiners.of_host(from) >= MAX_JOINERS_PER_HOST {
            return self.deny(&newcomer, &Message::Wait { nonce, wait_ms: 1_000 });
        }
        if !is_held && !self.admissions.allow(self.now, from.ip()) {
            // Other sponsors have admission limits of their own.
            let elsewhere = self.refer(from, nonce);
            return self.decide(&newcomer, &elsewhere);
        }
        if !is_held && self.joiners.held.len() >= MAX_JOINERS && self.joiners.gives_way(from).is_none() {
            return self.deny(&newcomer, &Message::Wait { nonce, wait_ms: 1_000 });
        }
        // This check reads every member, so it is made no more often than joiners are admitted.
        if let Some(owner) = self.other_at(record).filter(|owner| vacated_by != Some(owner.run)) {
            return self.probe_name(newcomer, &owner);
        }
        if !self.serving.begin(record.run, from, self.now) {
            let elsewhere = self.refer(from, nonce);
            return self.decide(&newcomer, &elsewhere);
        }
        self.name_stuck_joiner(&newcomer.record);
        if !is_held
            && self.joiners.held.len() >= MAX_JOINERS
            && let Some(run) = self.joiners.gives_way(from)
        {
            self.drop_joiner(run);
        }
        self.hold(&newcomer, held.is_some());
        let (sponsor, count) = (Record::clone(self.me()), self.view.len() as u32);
        let mut packet = self.packet(usize::MAX);
        packet.push(&Message::Reply);
        self.push_founded(&mut packet);
        packet.push(&Message::Welcome { nonce, sponsor, count });
        self.transmit(newcomer.from, Receiver::of(newcomer.record.run), packet);
    }

    /// Returns a live member of another name at the joiner's address. It is probed before the joiner is admitted: one
    /// process at one address is one member.
    fn other_at(&self, record: &Record) -> Option<Arc<Record>> {
        if self.joiners.contains(record.run) {
            return None;
        }
        let members = self.view.live().iter().map(|slot| self.view.record(*slot));
        let others = members.filter(|member| member.run != record.run && member.id != record.id);
        others.filter(|member| member.address == record.address).max_by_key(|member| member.incarnation).map(Arc::clone)
    }

    /// Tells the operator of a joiner of the other address family that asks again, or is dropped, although it was
    /// admitted and had time to be reached by members of this family: presumably they do not reach it.
    fn name_stuck_joiner(&mut self, record: &Record) {
        let Record { ref id, run, address: advertised, .. } = *record;
        let here = self.me().address;
        let is_stuck = |joiner: &Joiner| self.now.since(joiner.since) > REACH_PATIENCE;
        if advertised.is_ipv6() != here.is_ipv6() && self.joiners.held.get(&run).is_some_and(is_stuck) {
            let id = id.clone();
            self.notice("joiner not reached", Notice::JoinerNotReached { id, advertised, here });
        }
    }

    /// Holds a joiner beside the view, and reports it if its name is new in the listing.
    fn hold(&mut self, newcomer: &Newcomer, is_in_view: bool) {
        let record = Arc::new(newcomer.record.clone());
        let rivals: Vec<Run> = self
            .joiners
            .held
            .iter()
            .filter(|(run, joiner)| joiner.record.id == record.id && **run != record.run)
            .map(|(run, _)| *run)
            .collect();
        let mut previous = None;
        for run in rivals {
            self.timers.cancel(Timer::Joiner(run));
            previous = self.joiners.held.remove(&run).filter(|joiner| joiner.is_listed).map(|joiner| joiner.record);
        }
        let before = self.joiners.held.get(&record.run);
        previous = before.filter(|joiner| joiner.is_listed).map(|joiner| Arc::clone(&joiner.record)).or(previous);
        let since = before.map_or(self.now, |joiner| joiner.since);
        let is_listed = !is_in_view;
        if is_listed && previous.as_ref() != Some(&record) {
            self.report(previous.as_ref(), &record, None);
        }
        self.timers.set_by(Timer::Joiner(record.run), self.now + JOINER_SILENCE);
        let Newcomer { from, heard_from, .. } = *newcomer;
        let joiner = Joiner { from, heard_from, heard: self.now, since, refusals: 0, is_listed, record };
        self.joiners.held.insert(joiner.record.run, joiner);
    }

    /// Notes that a joiner of ours pulls, and so is alive.
    pub(super) fn heard_joiner(&mut self, run: Run) {
        if let Some(joiner) = self.joiners.held.get_mut(&run) {
            (joiner.heard, joiner.refusals) = (self.now, 0);
        }
    }

    /// Judges a joiner: drops it after the down timeout, and connects to its port if it was silent for a shorter time;
    /// a joiner is busy, and is Up soon.
    pub(in crate::core) fn judge_joiner(&mut self, run: Run) {
        let Some(joiner) = self.joiners.held.get(&run) else { return };
        // By our own down timeout: a joiner's may be anything, and places are few.
        let deadline = joiner.heard + self.settings.down_timeout;
        if deadline <= self.now {
            self.name_stuck_joiner(&Arc::clone(&joiner.record));
            return self.drop_joiner(run);
        }
        let (look_at, address) = (joiner.heard + JOINER_SILENCE, joiner.record.address);
        if look_at > self.now {
            return self.timers.set(Timer::Joiner(run), deadline.min(look_at));
        }
        self.timers.set(Timer::Joiner(run), deadline.min(self.now + JOINER_SILENCE));
        self.visit_joiner(run, address);
    }

    /// Notes that a silent joiner's port refused a connection; the last of so many refusals drops it. A live one behind
    /// a firewall that refuses will ask again.
    pub(in crate::core) fn joiner_refused(&mut self, run: Run) {
        let Some(joiner) = self.joiners.held.get_mut(&run) else { return };
        if self.now.since(joiner.heard) < JOINER_SILENCE {
            return;
        }
        joiner.refusals += 1;
        if joiner.refusals >= JOINER_REFUSALS {
            return self.drop_joiner(run);
        }
        self.timers.set(Timer::Joiner(run), self.now + JOINER_REVIEW);
    }

    /// Removes a listed joiner of this name from the listing; returns true if there was one.
    pub(in crate::core) fn drop_joiner_named(&mut self, id: &NodeId) -> bool {
        let named = self.joiners.held.iter().find(|(_, joiner)| joiner.is_listed && joiner.record.id == *id);
        let run = named.map(|(run, _)| *run);
        if let Some(run) = run {
            self.drop_joiner(run);
        }
        run.is_some()
    }

    /// Drops all joiners, and reports them as removed.
    pub(in crate::core) fn drop_joiners(&mut self) {
        for run in self.joiners.held.keys().copied().collect::<Vec<_>>() {
            self.drop_joiner(run);
        }
        self.joiners.waiting.clear();
    }

    fn drop_joiner(&mut self, run: Run) {
        self.timers.cancel(Timer::Joiner(run));
        self.end_visit(run);
        if let Some(joiner) = self.joiners.held.remove(&run)
            && joiner.is_listed
        {
            let previous = Some(Arc::clone(&joiner.record));
            let change = Change { kind: ChangeKind::Removed, record: joiner.record, method: None, previous };
            self.outputs.push_back(crate::core::doors::Output::Change(change));
        }
    }
}
