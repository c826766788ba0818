//! Never islands: seeds are contacted for ever, and the lost are looked for until they are reaped.
//!
//! Every `retry_interval` a node has its seeds resolved again, also when all of them are found: their sources may name
//! others by now. And it contacts one seed that is not Up in its view, or at whose address it met itself (three, if it
//! sees nobody), the most recently lost Down member, and one other Down member in turn. Two halves that declared each
//! other Down find each other again that way: the first packet across is answered by what is held of its sender, and
//! everybody refutes. Whoever introduces itself by an older record than the one that is held is told what is held, so
//! that it can refute that, too. Strangers introduce themselves (see `wiring::entering`).
//!
//! Invariants: a few packets in a `retry_interval`, however many are lost; nobody is given up before it is reaped.
//!
//! Must not know: why somebody is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::contact::Contacts;
use crate::context::Context;
use crate::io::Output;
use crate::limits::{
    BOOTSTRAP_ONE_IN, MAX_ADDRESSES_PER_SEED, MAX_REMEMBERED_ADDRESSES, MAX_SEEDS, MIN_QUESTION_BYTES,
    SEEDS_ASKED_ALONE,
};
use crate::member::{NodeId, Run, Status};
use crate::packet::Outbox;
use crate::timers::Timer;
use crate::view::{Entry, Slot, View};
use crate::wire::Message;

/// Addresses beyond the view, and the turns of those that are looked for.
#[derive(Debug, Clone)]
pub(crate) struct Reunion {
    rng: ChaCha8Rng,
    seeds_configured: usize,
    /// The addresses that the seeds' names last resolved to, sorted.
    seeds: Vec<SocketAddr>,
    /// Addresses to join through that commands named, the newest last; at most [`MAX_SEEDS`].
    extra: Vec<SocketAddr>,
    /// Last known addresses, from the data directory or from before an isolation.
    remembered: Vec<SocketAddr>,
    /// Addresses under which this node met itself since it moved last, until somebody else answered there; at most
    /// [`MAX_MINE`].
    mine: BTreeSet<SocketAddr>,
    /// The run that was Up at a seed's address the last time all members were looked at, or has answered from there, and
    /// the address in its record.
    seed_runs: BTreeMap<SocketAddr, (Run, SocketAddr)>,
    next_seed: usize,
    /// The view's count of changes when its addresses were remembered last: most often there was none since.
    remembered_at: Option<u64>,
    /// The last Down member that had its turn.
    last_down: Option<NodeId>,
    pub(super) contacts: Contacts,
}

/// Most addresses that are remembered as this node's own.
const MAX_MINE: usize = MAX_SEEDS * MAX_ADDRESSES_PER_SEED;
impl Reunion {
    /// Returns the number of addresses known as this node's own.
    pub(crate) fn size(&self) -> usize {
        self.mine.len()
    }

    pub(crate) fn new(rng: ChaCha8Rng, seeds_configured: usize, mut remembered: Vec<SocketAddr>) -> Self {
        remembered.truncate(MAX_REMEMBERED_ADDRESSES);
        Self {
            rng,
            seeds_configured,
            seeds: Vec::new(),
            extra: Vec::new(),
            remembered,
            mine: BTreeSet::new(),
            seed_runs: BTreeMap::new(),
            next_seed: 0,
            remembered_at: None,
            last_down: None,
            contacts: Contacts::default(),
        }
    }

    pub(crate) fn has_seeds(&self) -> bool {
        self.seeds_configured > 0
    }

    pub(crate) fn has_anywhere_to_go(&self) -> bool {
        self.has_seeds() || !self.remembered.is_empty()
    }

    /// Returns the run that was Up at this seed's address when all members were looked at last.
    pub(crate) fn run_at_seed(&self, address: SocketAddr) -> Option<Run> {
        self.seed_runs.get(&address).map(|(run, _)| *run)
    }

    /// Returns true if this is an address of one of the seeds.
    pub(crate) fn is_seed(&self, address: SocketAddr) -> bool {
        self.seeds.binary_search(&address).is_ok()
    }

    /// Returns the addresses to join through: those of the seeds and of commands, and the remembered ones if there are
    /// no seeds, or if the others did not help for a while.
    pub(crate) fn join_targets(&self, is_late: bool) -> Vec<SocketAddr> {
        let mut targets = self.seeds.clone();
        targets.extend(self.extra.iter().filter(|address| !self.seeds.contains(address)));
        if !self.has_seeds() || is_late {
            targets.extend(self.remembered.iter().filter(|address| !self.seeds.contains(address)));
        }
        targets
    }

    /// Sets the addresses of the seeds; returns those that were not known before.
    pub(crate) fn set_seeds(&mut self, addresses: Vec<Vec<SocketAddr>>) -> Vec<SocketAddr> {
        let before = std::mem::take(&mut self.seeds);
        self.seeds = addresses
            .into_iter()
            .take(MAX_SEEDS)
            .flat_map(|addresses| addresses.into_iter().take(MAX_ADDRESSES_PER_SEED))
            .filter(|address| crate::member::is_reachable(*address))
            .collect();
        self.seeds.sort_unstable();
        self.seeds.dedup();
        self.seeds.iter().copied().filter(|seed| !before.contains(seed)).collect()
    }

    /// Adds addresses to join through; the newest [`MAX_SEEDS`] are kept.
    pub(crate) fn join_through(&mut self, addresses: impl Iterator<Item = SocketAddr>) {
        for address in addresses.filter(|address| crate::member::is_reachable(*address)) {
            self.extra.retain(|extra| *extra != address);
            self.extra.push(address);
        }
        self.extra.drain(..self.extra.len().saturating_sub(MAX_SEEDS));
    }

    /// Returns the addresses that the seeds' names last resolved to.
    pub(crate) fn seeds(&self) -> &[SocketAddr] {
        &self.seeds
    }

    pub(crate) fn remembered(&self) -> &[SocketAddr] {
        &self.remembered
    }

    /// Remembers these addresses instead of the last ones; returns true if that is a change.
    pub(crate) fn remember(&mut self, addresses: impl Iterator<Item = SocketAddr>) -> bool {
        let mut addresses: Vec<SocketAddr> = addresses.take(MAX_REMEMBERED_ADDRESSES).collect();
        addresses.shrink_to_fit();
        let is_change = addresses != self.remembered;
        self.remembered = addresses;
        is_change
    }

    /// Returns true if this node was told to contact this address: it is a seed's, or a command named it.
    pub(crate) fn is_contact(&self, address: SocketAddr) -> bool {
        self.seeds.contains(&address) || self.extra.contains(&address) || self.contacts.are_asked(address)
    }

    /// Returns true if a member is at such an address, and has proven it.
    pub(crate) fn is_contact_of(&self, entry: &Entry) -> bool {
        entry.peer.is_proven() && self.is_contact(entry.record.address)
    }

    /// Returns true if this node met itself under this address.
    pub(crate) fn is_mine(&self, address: SocketAddr) -> bool {
        self.mine.contains(&address)
    }

    /// Takes note that this node met itself under this address.
    pub(crate) fn note_own_address(&mut self, address: SocketAddr) {
        if self.mine.len() < MAX_MINE {
            self.mine.insert(address);
        }
    }

    /// Forgets where this node met itself, since it moves: others may come to be there.
    pub(crate) fn forget_own_addresses(&mut self) {
        self.mine.clear();
    }

    /// Takes note that a run whose record has another address has answered here: it is behind a translator, say.
    pub(crate) fn answers_at(&mut self, address: SocketAddr, run: Run, advertised: SocketAddr) {
        if self.is_seed(address) {
            self.seed_runs.insert(address, (run, advertised));
        }
    }

    /// Takes note that somebody else answers at this address.
    pub(crate) fn note_somebody_else(&mut self, address: SocketAddr) {
        self.mine.remove(&address);
    }
}

impl Reunion {
    pub(crate) fn start(&mut self, cx: &mut Context) {
        let pace = 0.5 + 0.5 * self.rng.random::<f64>();
        cx.timers.set(Timer::Reunite, cx.now + cx.settings.retry_interval.mul_f64(pace));
    }

    /// Looks for lost seeds and members.
    pub(crate) fn reunite(&mut self, out: &mut Outbox<'_>) {
        let (seeds, bootstrapped) = self.next_missing_seeds(out.view);
        for seed in seeds {
            out.ask_who(seed);
        }
        if let Some(seed) = bootstrapped {
            out.open_bootstrap(seed);
        }
        if self.has_seeds() {
            out.cx.output(Output::ResolveSeeds);
        }
        for slot in self.next_lost(out.view) {
            look_for(out, slot);
            if self.next_seed.is_multiple_of(BOOTSTRAP_ONE_IN) {
                let address = out.view.record(slot).address;
                out.open_bootstrap(address);
            }
        }
    }

    /// Draws the pause before the next look.
    pub(crate) fn next_look(&mut self, cx: &mut Context) {
        let pace = 0.9 + 0.1 * self.rng.random::<f64>();
        cx.timers.set(Timer::Reunite, cx.now + cx.settings.retry_interval.mul_f64(pace));
    }

    /// Remembers the addresses of the first members that are Up; returns true if they are to be stored.
    pub(crate) fn remember_addresses(&mut self, view: &View) -> bool {
        let changes = view.changes();
        if self.remembered_at.replace(changes) == Some(changes) {
            return false;
        }
        let up = view.iter().filter(|(_, entry)| entry.record.status == Status::Up);
        let mine = view.me().address;
        let others = up.map(|(_, entry)| entry.record.address).filter(|address| *address != mine);
        // Bounded before it is collected: a vector keeps the room of everything that ever was in it.
        let addresses: Vec<_> = others.take(MAX_REMEMBERED_ADDRESSES).collect();
        // A node that lost everybody keeps the last addresses it knew.
        !addresses.is_empty() && self.remember(addresses.into_iter())
    }

    /// Returns the seed whose turn it is, and beside it, for a node that sees nobody, the next ones: what is asked of one may be
    /// lost. Also the one that is asked by a bootstrap link as well: each is, every so many turns of its own.
    fn next_missing_seeds(&mut self, view: &View) -> (Vec<SocketAddr>, Option<SocketAddr>) {
        self.next_seed = self.next_seed.wrapping_add(1);
        let mut missing = self.all_missing_seeds(view);
        // Others may be there now, where this node met itself, or whoever answered is elsewhere by its own record: it is a
        // balancer, say.
        let me = view.me().address;
        let mine = |seed: &&SocketAddr| **seed != me && self.is_mine(**seed);
        missing.extend(self.seeds.iter().filter(mine));
        let is_elsewhere =
            |seed: &&SocketAddr| self.seed_runs.get(*seed).is_some_and(|(_, advertised)| advertised != *seed);
        missing.extend(self.seeds.iter().filter(is_elsewhere));
        missing.sort_unstable();
        missing.dedup();
        let turn = self.next_seed;
        let kinds = missing.len().max(1);
        missing.rotate_left(turn % kinds);
        missing.truncate(if view.live().is_empty() { SEEDS_ASKED_ALONE } else { 1 });
        let is_bootstrapped = (turn / kinds).is_multiple_of(BOOTSTRAP_ONE_IN);
        let bootstrapped = missing.first().copied().filter(|seed| is_bootstrapped && !self.is_mine(*seed));
        (missing, bootstrapped)
    }

    /// Returns the addresses of the seeds that are not Up.
    fn all_missing_seeds(&mut self, view: &View) -> Vec<SocketAddr> {
        let mut missing: Vec<SocketAddr> =
            self.seeds.iter().copied().filter(|seed| !self.is_up_at(view, *seed)).collect();
        if missing.is_empty() {
            return missing;
        }
        // All members are only looked at for seeds that were not found where they were the last time.
        let mut found = Vec::new();
        for (_, entry) in view.iter().filter(|(_, entry)| entry.record.status == Status::Up) {
            if missing.contains(&entry.record.address) {
                found.push((entry.record.address, (entry.record.run, entry.record.address)));
            }
        }
        missing.retain(|seed| found.iter().all(|(address, _)| address != seed));
        self.seed_runs.extend(found);
        self.seed_runs.retain(|address, _| self.seeds.contains(address));
        missing
    }

    /// Draws addresses of seeds that are not Up, so many at most, beginning at a random one.
    pub(crate) fn draw_missing_seeds(&mut self, view: &View, most: usize) -> Vec<SocketAddr> {
        let mut missing = self.all_missing_seeds(view);
        let first = self.rng.random_range(0..missing.len().max(1));
        missing.rotate_left(first);
        missing.truncate(most);
        missing
    }

    /// Returns the number of seeds that may not be Up: one that was found in the view a moment ago is not known to be there
    /// yet.
    pub(crate) fn count_missing_seeds(&self, view: &View) -> usize {
        self.seeds.iter().filter(|seed| !self.is_up_at(view, **seed)).count()
    }

    /// Returns true if the seed at this address is known to be Up, or is this node itself.
    fn is_up_at(&self, view: &View, seed: SocketAddr) -> bool {
        let is_up = |(run, advertised): &(Run, SocketAddr)| {
            let record = view.slot_of_run(*run).map(|slot| view.record(slot));
            record.is_some_and(|record| record.status == Status::Up && record.address == *advertised)
        };
        self.is_mine(seed) || self.seed_runs.get(&seed).is_some_and(is_up)
    }

    /// Returns the most recently lost Down member, and one other in turn.
    fn next_lost(&mut self, view: &View) -> Vec<Slot> {
        if view.counts()[Status::Down.index()] == 0 {
            return Vec::new();
        }
        let down: Vec<Slot> =
            view.iter().filter(|(_, entry)| entry.record.status == Status::Down).map(|(slot, _)| slot).collect();
        let latest = down.iter().copied().max_by_key(|slot| view.entry(*slot).peer.last_sign());
        let others = || down.iter().copied().filter(|slot| Some(*slot) != latest);
        let last = self.last_down.as_ref();
        let in_turn =
            others().find(|slot| last.is_none_or(|last| view.record(*slot).id > *last)).or_else(|| others().next());
        if let Some(slot) = in_turn {
            self.last_down = Some(view.record(slot).id.clone());
        }
        latest.into_iter().chain(in_turn).collect()
    }
}

/// Tells a Down member what it is held as, and asks whoever is there now.
pub(crate) fn look_for(out: &mut Outbox<'_>, slot: Slot) {
    let nonce = out.packets.prover.nonce(out.view.record(slot).address, out.cx.now);
    let mut packet = out.packet_to(slot);
    packet.push(&Message::WhoAreYou { nonce, echo: None });
    packet.pad_to(out.question_bytes(MIN_QUESTION_BYTES));
    out.send_to(slot, packet);
}
