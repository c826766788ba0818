//! Never islands: seeds are contacted for ever, and the lost are looked for until they are reaped.
//!
//! Every `retry_interval` a node has its seeds resolved again, also when all of them are found: their sources may name
//! others by now. And it contacts one seed that is not Up in its view, the most recently lost Down member, one other
//! Down member in turn, and one member that appeared elsewhere in turn, where it was before (see `homes`). Two halves
//! that declared each other Down find each other again that way: the first packet across is answered by what is
//! held of its sender, and everybody refutes. Whoever introduces itself by an older record than the one that is held is
//! told what is held, so that it can refute that, too. Strangers introduce themselves:
//!
//! ```text
//! A ─ WhoAreYou(a) ─▶ B        B ─ WhoAreYou(b, echo a) ─▶ A        (B's address is proven to A)
//! A ─ IAm(b), WhoAreYou(a) ─▶ B (A's is proven to B)                 B ─ IAm(a) ─▶ A
//! ```

use crate::core::packet::{Introduction, Newcomer, Way};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use crate::core::counters::DropReason;
use crate::core::doors::{CommandError, Contacted, Output, Receiver, Reply, Ticket};
use crate::core::limits::{
    CALL_ONE_IN, CONTACT_TIMEOUT, MAX_ADDRESSES_PER_SEED, MAX_PENDING_COMMANDS, MAX_REMEMBERED_ADDRESSES, MAX_SEEDS,
    MIN_PROBE_BYTES, MIN_QUESTION_BYTES,
};
use crate::core::member::{NodeId, Record, Run, Status};
use crate::core::packet::{MoveStep, News, Sender, SenderKind};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::{AddressOrigin, Slot, View};
use crate::core::wire::{Message, Nonce};
use crate::core::{Core, Phase};

/// Pause between two questions to an address of a `join` command that has not answered.
const CONTACT_RETRY: Duration = Duration::from_millis(500);

/// Addresses beyond the view, and the turns of those that are looked for.
#[derive(Debug)]
pub(in crate::core) struct Reunion {
    seeds_configured: usize,
    /// The addresses that the seeds' names last resolved to, sorted.
    seeds: Vec<SocketAddr>,
    /// Addresses to join through that commands named, the newest last; at most [`MAX_SEEDS`].
    extra: Vec<SocketAddr>,
    /// Last known addresses, from the data directory or from before an isolation.
    remembered: Vec<SocketAddr>,
    /// Addresses under which this node met itself.
    mine: BTreeSet<SocketAddr>,
    /// The run that was Up at a seed's address the last time all members were looked at.
    seats: BTreeMap<SocketAddr, Run>,
    next_seed: usize,
    /// The view's count of changes when its addresses were remembered last: most often there was none since.
    remembered_at: Option<u64>,
    /// The last Down member that had its turn.
    last_down: Option<NodeId>,
    contacts: BTreeMap<Ticket, Contact>,
}

/// A `join` command under way.
#[derive(Debug)]
struct Contact {
    deadline: Time,
    results: Vec<(SocketAddr, Contacted)>,
}

/// Most addresses that are remembered as this node's own.
const MAX_MINE: usize = MAX_SEEDS * MAX_ADDRESSES_PER_SEED;

impl Reunion {
    /// Returns the number of addresses known as this node's own.
    pub(in crate::core) fn size(&self) -> usize {
        self.mine.len()
    }

    pub(in crate::core) fn new(seeds_configured: usize, mut remembered: Vec<SocketAddr>) -> Self {
        remembered.truncate(MAX_REMEMBERED_ADDRESSES);
        Self {
            seeds_configured,
            seeds: Vec::new(),
            extra: Vec::new(),
            remembered,
            mine: BTreeSet::new(),
            seats: BTreeMap::new(),
            next_seed: 0,
            remembered_at: None,
            last_down: None,
            contacts: BTreeMap::new(),
        }
    }

    pub(in crate::core) fn has_seeds(&self) -> bool {
        self.seeds_configured > 0
    }

    pub(in crate::core) fn has_anywhere_to_go(&self) -> bool {
        self.has_seeds() || !self.remembered.is_empty()
    }

    /// Returns true if this is an address of one of the seeds.
    pub(in crate::core) fn is_seed(&self, address: SocketAddr) -> bool {
        self.seeds.binary_search(&address).is_ok()
    }

    /// Returns the addresses to join through: those of the seeds and of commands, and the remembered ones if there are
    /// no seeds, or if the others did not help for a while.
    pub(in crate::core) fn join_targets(&self, is_late: bool) -> Vec<SocketAddr> {
        let mut targets = self.seeds.clone();
        targets.extend(self.extra.iter().filter(|address| !self.seeds.contains(address)));
        if !self.has_seeds() || is_late {
            targets.extend(self.remembered.iter().filter(|address| !self.seeds.contains(address)));
        }
        targets
    }

    /// Sets the addresses of the seeds; returns those that were not known before.
    pub(in crate::core) fn set_seeds(&mut self, addresses: Vec<Vec<SocketAddr>>) -> Vec<SocketAddr> {
        let before = std::mem::take(&mut self.seeds);
        self.seeds = addresses
            .into_iter()
            .take(MAX_SEEDS)
            .flat_map(|addresses| addresses.into_iter().take(MAX_ADDRESSES_PER_SEED))
            .filter(|address| crate::core::member::is_reachable(*address))
            .collect();
        self.seeds.sort_unstable();
        self.seeds.dedup();
        self.seeds.iter().copied().filter(|seed| !before.contains(seed)).collect()
    }

    /// Adds addresses to join through; the newest [`MAX_SEEDS`] are kept.
    fn join_through(&mut self, addresses: impl Iterator<Item = SocketAddr>) {
        for address in addresses.filter(|address| crate::core::member::is_reachable(*address)) {
            self.extra.retain(|extra| *extra != address);
            self.extra.push(address);
        }
        self.extra.drain(..self.extra.len().saturating_sub(MAX_SEEDS));
    }

    /// Returns the addresses that the seeds' names last resolved to.
    pub(in crate::core) fn seeds(&self) -> &[SocketAddr] {
        &self.seeds
    }

    pub(in crate::core) fn remembered(&self) -> &[SocketAddr] {
        &self.remembered
    }

    /// Remembers these addresses instead of the last ones; returns true if that is a change.
    pub(in crate::core) fn remember(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> bool {
        let mut addresses: Vec<SocketAddr> = addresses.take(MAX_REMEMBERED_ADDRESSES).collect();
        addresses.shrink_to_fit();
        let is_change = addresses != self.remembered;
        self.remembered = addresses;
        is_change
    }

    /// Returns true if this node was told to contact this address: it is a seed's, or a command named it.
    pub(in crate::core) fn is_contact(&self, address: SocketAddr) -> bool {
        self.seeds.contains(&address)
            || self.extra.contains(&address)
            || self.contacts.values().any(|contact| contact.results.iter().any(|(asked, _)| *asked == address))
    }

    /// Takes note that this node met itself under this address.
    pub(in crate::core) fn is_me(&mut self, address: SocketAddr) {
        if self.mine.len() < MAX_MINE {
            self.mine.insert(address);
        }
    }
}

impl Core {
    pub(in crate::core) fn start_reunion(&mut self) {
        let pace = 0.5 + 0.5 * self.rng.random::<f64>();
        self.timers.set(Timer::Reunite, self.now + self.settings.retry_interval.mul_f64(pace));
    }

    /// Looks for lost seeds and members, and remembers where the others are.
    pub(in crate::core) fn reunite(&mut self) {
        let pace = 0.9 + 0.1 * self.rng.random::<f64>();
        self.timers.set(Timer::Reunite, self.now + self.settings.retry_interval.mul_f64(pace));
        self.tombstones.expire(self.now, self.settings.reap_after);
        self.arrivals.tidy(self.now);
        self.credit.tidy(self.now);
        self.forget_ghosts();
        self.release_kept();
        self.forget_old_evictions();
        if let Some(seed) = self.next_missing_seed() {
            self.ask_who(seed);
            if self.reunion.next_seed.is_multiple_of(CALL_ONE_IN) {
                self.call(seed);
            }
        }
        if self.reunion.has_seeds() {
            self.outputs.push_back(Output::ResolveSeeds);
        }
        for slot in self.next_lost() {
            self.look_for(slot);
            if self.reunion.next_seed.is_multiple_of(CALL_ONE_IN) {
                self.call(self.view.record(slot).address);
            }
        }
        if let Some(home) = self.homes.next() {
            self.ask_who(home);
            if self.reunion.next_seed.is_multiple_of(CALL_ONE_IN) {
                self.call(home);
            }
        }
        self.remember_addresses();
    }

    /// Remembers the addresses of the first members that are Up, and has them stored.
    fn remember_addresses(&mut self) {
        let changes = self.view.changes();
        if self.reunion.remembered_at.replace(changes) == Some(changes) {
            return;
        }
        let up = self.view.iter().filter(|(_, entry)| entry.record.status == Status::Up);
        let mine = self.me().address;
        let others = up.map(|(_, entry)| entry.record.address).filter(|address| *address != mine);
        // Bounded before it is collected: a vector keeps the room of everything that ever was in it.
        let addresses: Vec<_> = others.take(MAX_REMEMBERED_ADDRESSES).collect();
        // A node that lost everybody keeps the last addresses it knew.
        if !addresses.is_empty() && self.reunion.remember(addresses.into_iter()) {
            self.persist();
        }
    }

    fn next_missing_seed(&mut self) -> Option<SocketAddr> {
        self.reunion.next_seed = self.reunion.next_seed.wrapping_add(1);
        let mut missing: Vec<SocketAddr> =
            self.reunion.seeds.iter().copied().filter(|seed| !self.is_up_at(*seed)).collect();
        if missing.is_empty() {
            return None;
        }
        // All members are only looked at for seeds that were not found where they were the last time.
        let mut found = Vec::new();
        for (_, entry) in self.view.iter().filter(|(_, entry)| entry.record.status == Status::Up) {
            if missing.contains(&entry.record.address) {
                found.push((entry.record.address, entry.record.run));
            }
        }
        missing.retain(|seed| found.iter().all(|(address, _)| address != seed));
        self.reunion.seats.extend(found);
        self.reunion.seats.retain(|address, _| self.reunion.seeds.contains(address));
        (!missing.is_empty()).then(|| missing[self.reunion.next_seed % missing.len()])
    }

    /// Returns addresses of seeds that are not Up, so many at most, from one in turn on.
    pub(in crate::core) fn missing_seeds(&mut self, most: usize) -> Vec<SocketAddr> {
        let seeds = &self.reunion.seeds;
        let first = self.rng.random_range(0..seeds.len().max(1));
        let in_turn = seeds.iter().cycle().skip(first).take(seeds.len());
        in_turn.copied().filter(|seed| !self.is_up_at(*seed)).take(most).collect()
    }

    /// Returns true if the seed at this address is known to be Up, or is this node itself.
    fn is_up_at(&self, seed: SocketAddr) -> bool {
        let up = |run: &Run| {
            let slot = self.view.slot_of_run(*run);
            slot.map(|slot| self.view.record(slot)).filter(|record| record.status == Status::Up)
        };
        self.reunion.mine.contains(&seed)
            || self.senders.runs_at(seed).any(|(run, home)| up(&run).is_some_and(|record| record.address == home))
            || self.reunion.seats.get(&seed).and_then(up).is_some_and(|record| record.address == seed)
    }

    /// Returns the most recently lost Down member, and one other in turn.
    fn next_lost(&mut self) -> Vec<Slot> {
        if self.view.counts()[Status::Down.index()] == 0 {
            return Vec::new();
        }
        let down: Vec<Slot> =
            self.view.iter().filter(|(_, entry)| entry.record.status == Status::Down).map(|(slot, _)| slot).collect();
        let latest = down.iter().copied().max_by_key(|slot| self.view.entry(*slot).peer.last_sign);
        let others = || down.iter().copied().filter(|slot| Some(*slot) != latest);
        let last = self.reunion.last_down.as_ref();
        let in_turn = others()
            .find(|slot| last.is_none_or(|last| self.view.record(*slot).id > *last))
            .or_else(|| others().next());
        if let Some(slot) = in_turn {
            self.reunion.last_down = Some(self.view.record(slot).id.clone());
        }
        latest.into_iter().chain(in_turn).collect()
    }

    /// Tells a Down member what it is held as, and asks whoever is there now.
    pub(in crate::core) fn look_for(&mut self, slot: Slot) {
        let nonce = self.prover.nonce(self.view.record(slot).address, self.now);
        let mut packet = self.packet_to(slot);
        packet.push(&Message::WhoAreYou { nonce, echo: None });
        packet.pad_to(self.question_bytes(MIN_QUESTION_BYTES));
        self.send_to(slot, packet);
    }

    /// Takes an echo of this node's nonce by a stranger or a member, which proves the sender's address if it is right;
    /// returns true if it is.
    pub(in crate::core) fn echoed(&mut self, sender: Sender, echo: Nonce) -> bool {
        self.name_answered(sender, echo);
        let is_right = self.prover.is_nonce(echo, sender.from, self.now);
        if is_right {
            self.contacted(sender.from, || Contacted::NotUp { id: None });
        }
        if !is_right {
            self.counters.drop(DropReason::Unasked);
        } else if let SenderKind::Member(slot) = sender.kind
            && self.view.record(slot).address == sender.from
        {
            self.view.prove(slot);
        }
        is_right
    }

    /// Calls a member where it is known to be, as somebody calls in its name: the member is asked itself.
    fn call_home(&mut self, slot: Slot) {
        let home = self.view.record(slot).address;
        if matches!(self.phase, Phase::Up) && self.questions.allow(self.now, home, false) {
            self.call(home);
        }
    }

    /// Takes the word of somebody who says who it is because this node asked. `has_reminded` is true if it brought back
    /// what this node gave to its run.
    pub(in crate::core) fn introduced(
        &mut self,
        sender: Sender,
        nonce: Nonce,
        record: Record,
        has_reminded: bool,
    ) -> Introduction {
        self.name_answered(sender, nonce);
        let is_asked =
            self.prover.is_nonce(nonce, sender.from, self.now) || self.prover.is_nonce(nonce, record.address, self.now);
        if !is_asked {
            self.counters.drop(DropReason::Unasked);
            return Introduction::Ignored;
        }
        if record.run != sender.run || record.run.is_nobody() {
            self.counters.drop(DropReason::Malformed);
            return Introduction::Ignored;
        }
        let is_answer = record.address == sender.from && self.prover.is_nonce(nonce, sender.from, self.now);
        if matches!(sender.kind, SenderKind::ClaimsMember(_)) && !is_answer {
            // A known run is introduced from where it is known to be, or says that it is elsewhere by now.
            self.counters.drop(DropReason::Claimed);
            if let SenderKind::ClaimsMember(slot) = sender.kind
                && matches!(sender.way, Way::Link(_))
            {
                self.call_home(slot);
                let held = self.view.record(slot).address;
                let is_allowed = record.address != held && matches!(self.phase, Phase::Up);
                if is_allowed
                    && (self.questions.allow(self.now, record.address, false)
                        || self.may_ask_mover(slot, MoveStep::Call))
                {
                    // It may have moved: there it can prove that.
                    self.call(record.address);
                }
            }
            return Introduction::Ignored;
        }
        // A record that needs a note is told by others, never by its owner.
        let says_so_itself = matches!(record.status, Status::Up | Status::Leaving);
        if record.status == Status::Joining {
            self.answered_not_up(sender.from, &record.id);
        }
        if matches!(self.phase, Phase::Joining(_)) {
            return Introduction::Met;
        }
        if !says_so_itself || !matches!(self.phase, Phase::Up | Phase::Leaving) {
            return Introduction::Ignored;
        }
        let (is_here, is_at_home) =
            (self.prover.is_nonce(nonce, sender.from, self.now), self.prover.is_nonce(nonce, record.address, self.now));
        // A node that says that it has moved is believed when it proves that.
        if is_here && !matches!(sender.kind, SenderKind::ClaimsMember(_)) {
            self.answered_contact(sender.from, &record.id);
        }
        if let Some(incarnation) = self.tombstones.incarnation(record.id.as_str()).filter(|b| record.incarnation <= *b)
        {
            self.counters.drop(DropReason::Outdated);
            return Introduction::Tombstoned { incarnation };
        }
        let is_known = self.view.slot_of_run(record.run).is_some();
        let mut has_moved = has_reminded;
        if !is_at_home {
            // It speaks from one address and wants to be spoken to at another: that one must say so itself.
            if self.questions.allow(self.now, record.address, false) {
                let nonce = self.prover.nonce(record.address, self.now);
                let mut packet = self.anonymous_packet(usize::MAX);
                packet.push(&Message::WhoAreYou { nonce, echo: None });
                packet.pad_to(self.question_bytes(MIN_PROBE_BYTES).min(sender.bytes));
                self.transmit(record.address, Receiver::Anybody, packet);
                if matches!(sender.way, Way::Link(_)) {
                    self.call(record.address);
                }
            }
            return Introduction::Ignored;
        }
        if record.id == self.me().id {
            self.met_rival(record);
            return Introduction::Outdated { newer: View::ME };
        }
        if let Some(slot) = self.view.slot_of_run(record.run)
            && self.view.record(slot).address != record.address
        {
            // A node is where it says if it is heard from where it was and reads what is sent to the new address, at
            // once or in turn.
            has_moved |= sender.kind == SenderKind::Member(slot) || self.has_announced(slot, record.address);
            // Whoever is where a stray was before it was gone is its owner, whoever answers where the stray is.
            has_moved |= self.homes.of(record.run) == Some(record.address);
            let held = self.view.record(slot);
            let is_held_live = matches!(held.status, Status::Up | Status::Suspect | Status::Leaving);
            if has_moved && !record.supersedes(held) {
                return Introduction::Outdated { newer: slot };
            } else if is_held_live && !has_moved {
                // Anybody may claim a move: it is not believed as long as the member is not found to be gone from where
                // it was.
                return Introduction::Ignored;
            }
        }
        if let Some(held) = self.live_holder(&record)
            && !self.prover.is_nonce(nonce, held.address, self.now)
        {
            if let Some(newer) = self.view.slot_of(record.id.as_str()).filter(|_| held.supersedes(&record)) {
                return Introduction::Outdated { newer };
            }
            let newcomer = Newcomer { from: sender.from, heard_from: sender.from, nonce, record };
            self.probe_name(newcomer, &held);
            return Introduction::Ignored;
        }
        let held = self.view.slot_of(record.id.as_str());
        if let Some(newer) = held.filter(|slot| !is_known && self.view.record(*slot).supersedes(&record)) {
            return Introduction::Outdated { newer };
        }
        let is_expected = self.expected.contains(self.now, sender.from);
        if !is_known && !self.introductions.allow(self.now, sender.from, is_expected) {
            // One question lets one stranger in.
            self.counters.drop(DropReason::RateLimited);
            return Introduction::Ignored;
        }
        let (run, id) = (record.run, record.id.clone());
        if let Some(slot) = self.view.slot_of_run(run).filter(|_| !has_moved)
            && (self.homes.of(run).is_some() || self.view.record(slot).address != record.address)
            && self.doubts_incarnation(slot, &record)
        {
            // It may be somebody else: its owner must be able to refute it.
            self.counters.drop(DropReason::Implausible);
            return Introduction::Ignored;
        }
        if has_moved && let Some(slot) = self.view.slot_of_run(run) {
            self.view.peer_mut(slot).address_origin = AddressOrigin::JustProven;
        }
        self.learn(News::told(record), None);
        if has_moved && is_here {
            self.answered_contact(sender.from, &id);
        }
        if has_moved && let Some(slot) = self.view.slot_of_run(run) {
            // Either the member is where it says, or its move was not believed for other reasons; then no other's word
            // moves it later.
            self.view.peer_mut(slot).address_origin = AddressOrigin::Proven;
        }
        match self.view.slot_of_run(run) {
            Some(slot) => {
                if self.view.record(slot).address == sender.from {
                    self.view.prove(slot);
                } else if is_at_home && !is_known {
                    self.add_alias(slot, sender.from);
                }
                Introduction::Member
            }
            None => match self.view.slot_of(id.as_str()) {
                Some(slot) => Introduction::Outdated { newer: slot },
                None => Introduction::Ignored,
            },
        }
    }

    /// Returns the live member of that name, if it is another run.
    fn live_holder(&self, record: &Record) -> Option<Arc<Record>> {
        let held = self.view.record(self.view.slot_of(record.id.as_str())?);
        let is_held = matches!(held.status, Status::Up | Status::Suspect | Status::Leaving) && held.run != record.run;
        (is_held && record.id != self.me().id).then(|| Arc::clone(held))
    }

    /// Carries out a command to contact addresses.
    pub(in crate::core) fn contact(&mut self, ticket: Ticket, addresses: &[SocketAddr]) {
        if self.reunion.contacts.len() >= MAX_PENDING_COMMANDS {
            return self.reply(ticket, Reply::Refused(CommandError::Busy));
        }
        let results = addresses.iter().take(MAX_SEEDS).map(|address| (*address, Contacted::Silent)).collect();
        let contact = Contact { deadline: self.now + CONTACT_TIMEOUT, results };
        self.reunion.contacts.insert(ticket, contact);
        let me = self.me();
        let (mine, id) = (me.address, me.id.clone());
        self.answered_contact(mine, &id);
        if matches!(self.phase, Phase::Joining(_)) {
            // Not a member yet: these are places to join through.
            self.reunion.join_through(addresses.iter().copied().filter(|address| *address != mine));
            self.timers.set_by(Timer::JoinTry, self.now);
        }
        self.end_contact(ticket);
    }

    /// Ends the commands under way with what is known, as the view is dropped.
    pub(in crate::core) fn end_contacts(&mut self) {
        for (ticket, contact) in std::mem::take(&mut self.reunion.contacts) {
            self.reply(ticket, Reply::Joined(contact.results));
        }
    }

    /// Asks again, or ends when all have answered or the time is over.
    pub(in crate::core) fn end_contact(&mut self, ticket: Ticket) {
        let Some(contact) = self.reunion.contacts.get(&ticket) else { return };
        let unanswered = contact.results.iter().filter(|(_, contacted)| !contacted.is_final());
        let unanswered: Vec<SocketAddr> = unanswered.map(|(address, _)| *address).collect();
        if unanswered.is_empty() || self.now >= contact.deadline {
            self.timers.cancel(Timer::Contact(ticket));
            if let Some(contact) = self.reunion.contacts.remove(&ticket) {
                self.reply(ticket, Reply::Joined(contact.results));
            }
            return;
        }
        let next = contact.deadline.min(self.now + CONTACT_RETRY);
        if !matches!(self.phase, Phase::Joining(_)) {
            for address in unanswered {
                self.ask_who(address);
            }
        }
        self.timers.set(Timer::Contact(ticket), next);
    }

    /// Takes note that a member answered at this address.
    pub(in crate::core) fn answered_contact(&mut self, from: SocketAddr, id: &NodeId) {
        self.contacted(from, || Contacted::Answered { id: id.clone() });
    }

    /// Takes note that somebody answered at this address who is no member yet.
    pub(in crate::core) fn answered_not_up(&mut self, from: SocketAddr, id: &NodeId) {
        self.contacted(from, || Contacted::NotUp { id: Some(id.clone()) });
    }

    /// Takes note of an answer from this address in the commands that wait for one, and ends those that wait for
    /// nothing more.
    pub(in crate::core) fn contacted(&mut self, from: SocketAddr, what: impl Fn() -> Contacted) {
        let mut complete = Vec::new();
        for (ticket, contact) in &mut self.reunion.contacts {
            for (_, result) in contact.results.iter_mut().filter(|(address, _)| *address == from) {
                result.improve(what());
            }
            if contact.results.iter().all(|(_, contacted)| contacted.is_final()) {
                complete.push(*ticket);
            }
        }
        for ticket in complete {
            self.end_contact(ticket);
        }
    }
}
