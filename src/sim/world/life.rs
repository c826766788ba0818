//! The life of nodes: they are added, started, stopped, paused, slowed, and given their users' commands.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Event, Waiting, World};
use crate::node::{Clock, Disk, Node, Process, address_of, node_at};
use crate::pool::Pool;
use crate::random::nanos;
use crate::watch::Upheaval;
use headcount_core::limits::INCARNATION_STEP;
use headcount_core::wire::Header;
use headcount_core::{Command, Core, CoreInit, Durable, NodeId, Record, Run, Tags};

/// The wall-clock time at which every simulation begins, in Unix milliseconds.
const EPOCH_MS: u64 = 1_800_000_000_000;
/// Name of every simulated cluster.
pub(super) const CLUSTER: &str = "simulated";

/// Returns the cluster of every world, as packets name it.
pub(super) fn cluster() -> u32 {
    Header::cluster_hash(CLUSTER)
}

impl World {
    /// Adds a node and starts it; returns its number.
    pub fn add_node(&mut self) -> usize {
        let node = self.nodes.len();
        self.add_node_as(super::voting::name_of(node), address_of(node, self.options.ipv6))
    }

    /// Adds a node of this name at this address, and starts it unless a process runs there.
    pub fn add_node_as(&mut self, id: NodeId, address: SocketAddr) -> usize {
        let node = self.nodes.len();
        let is_durable = !self.random.chance(self.options.diskless) || self.options.voters_of(node).contains(&node);
        let mixed = &self.options.mixed;
        let settings = if mixed.is_empty() { &self.options.settings } else { &mixed[node % mixed.len()] };
        self.nodes.push(Node {
            id,
            address,
            source: None,
            settings: settings.clone(),
            disk: Disk::default(),
            disk_full_until: 0,
            is_durable,
            wall_offset_ms: 0,
            process: None,
            lingers_until: 0,
            is_off: false,
            ended: None,
            troubles: 0,
            untroubled_since: 0,
            doomed: None,
        });
        self.start(node);
        node
    }

    /// Adds a node at the address of one that is gone, under its name or another one; `None` if a process runs there.
    pub fn add_heir(&mut self, of: usize, id: Option<NodeId>) -> Option<usize> {
        let (address, node) = (self.nodes[of].address, self.nodes.len());
        let is_taken = self.place_at(address).is_some_and(|there| self.nodes[there].process.is_some());
        let id = id.unwrap_or_else(|| super::voting::name_of(node));
        (!is_taken).then(|| self.add_node_as(id, address))
    }

    /// Adds a node under another node's name.
    pub fn add_twin(&mut self, id: NodeId) -> usize {
        self.add_node_as(id, address_of(self.nodes.len(), self.options.ipv6))
    }

    /// Returns the node that is, or was last, at this address.
    pub fn place_at(&self, address: SocketAddr) -> Option<usize> {
        let moved = if self.moved.is_empty() { None } else { self.moved.get(&address).copied() };
        moved.or_else(|| node_at(address).filter(|node| self.nodes.get(*node).is_some_and(|n| n.address == address)))
    }

    /// Starts a process at a node; returns false if it has one.
    pub fn start(&mut self, node: usize) -> bool {
        if self.nodes[node].process.is_some() {
            return false;
        }
        let address = self.nodes[node].address;
        if let Some(other) = self.place_at(address).filter(|other| *other != node) {
            if self.nodes[other].process.is_some() {
                return false;
            }
            self.moved.insert(address, node);
        } else if address != address_of(node, self.options.ipv6) {
            self.moved.insert(address, node);
        }
        self.upheaval(false);
        if !self.nodes[node].is_durable {
            self.lose_disk(node);
        }
        let mut init = self.init(node);
        self.intercept.init(node, &mut init);
        let error = self.options.clock_error_ppm;
        let error_ppm = self.random.between(0, 2 * error).cast_signed() - error.cast_signed();
        let error_ppm = if self.options.voters_of(node).contains(&node) { self.voter_clock_error() } else { error_ppm };
        let error_ppm = if self.is_contending(node) { self.contender_clock_error() } else { error_ppm };
        self.processes += 1;
        let clock = Clock::new(self.now, error_ppm);
        self.tell(|watch, world| watch.on_birth(world, node, &init, clock));
        let run = init.run;
        self.runs.insert(run, node);
        self.trace.say(self.now, || format!("{} starts as run {run}, incarnation {}", init.id, init.incarnation));
        let mut core = Core::new(init, clock.local(self.now));
        if let Some(pool) = &self.pool {
            core.share_records(Arc::<Pool>::clone(pool));
        }
        let place = &mut self.nodes[node];
        place.process = Some(Process::new(core, run, self.processes, clock, self.now));
        place.ended = None;
        place.is_off = false;
        self.begin_seals(node);
        self.drain_first_outputs(node);
        self.contender_starts(node);
        true
    }

    /// Starts a node after a while, unless it runs by then.
    pub fn start_after(&mut self, node: usize, after: Duration) {
        self.push_after(after, Event::Start { node });
    }

    /// Kills these processes and starts each again within the time, in another order than they are numbered. Returns those that
    /// ran.
    pub fn restart_in_turns(&mut self, nodes: &[usize], within: Duration) -> Vec<usize> {
        let crashed: Vec<usize> = nodes.iter().copied().filter(|node| self.crash(*node)).collect();
        for (nth, node) in crashed.iter().enumerate() {
            let share = (nth * 7 + 3) % crashed.len() + 1;
            self.start_after(*node, within * share as u32 / crashed.len() as u32);
        }
        crashed
    }

    /// Returns the wall clock of a node's machine, in milliseconds since 1970.
    pub(super) fn wall_clock(&self, node: usize) -> u64 {
        let true_ms = (EPOCH_MS + self.now / 1_000_000).cast_signed();
        u64::try_from(true_ms + self.nodes[node].wall_offset_ms).unwrap_or(0)
    }

    /// Returns what a driver gives to a core at its birth: the first incarnation, with room above it, is on disk
    /// already.
    fn init(&mut self, node: usize) -> CoreInit {
        let leadership = self.quorum_birth(node);
        let unix_ms = self.wall_clock(node);
        let place = &mut self.nodes[node];
        let stored = place.disk.stored().cloned();
        let remembered = stored.as_ref().map(|stored| stored.addresses.clone()).unwrap_or_default();
        let incarnation = stored.map_or(unix_ms, |stored| unix_ms.max(stored.incarnation_bound + 1));
        let stored_bound =
            if place.is_durable { incarnation + INCARNATION_STEP } else { Record::INCARNATION_LIMIT - 1 };
        if place.is_durable {
            // An identity is on disk before any other node hears of it.
            let ballot = leadership.as_ref().map(|quorum| quorum.ballot.clone());
            place.disk.write(Durable { incarnation_bound: stored_bound, addresses: remembered.clone(), ballot });
            place.disk.written();
        }
        CoreInit {
            leadership,
            id: place.id.clone(),
            run: Run(self.random.bits()),
            cluster: NodeId::new(CLUSTER).expect("letters"),
            incarnation,
            stored_bound,
            address: place.address,
            api_address: None,
            tags: Tags::default(),
            version: "0.0.0".into(),
            settings: place.settings.clone(),
            seeds: self.options.seeds_of(node).len(),
            remembered,
            random_seed: self.random.bits(),
        }
    }

    /// Kills a process, without a goodbye; its kernel closes its links. Returns true if there was one.
    pub fn crash(&mut self, node: usize) -> bool {
        self.dies(node, false);
        self.kill(node).is_some_and(|process| {
            self.close_streams(node, process);
            true
        })
    }

    /// Crashes a process as [`World::crash`] does, but its kernel closes the port this much later than the connections.
    pub fn crash_with_lingering_port(&mut self, node: usize, by: Duration) -> bool {
        self.nodes[node].lingers_until = self.now + nanos(by);
        self.crash(node)
    }

    /// Takes a host's power: its process dies, and no connection is closed. Returns true if there was a process.
    pub fn power_off(&mut self, node: usize) -> bool {
        self.dies(node, true);
        self.nodes[node].is_off = true;
        self.kill(node).is_some_and(|process| {
            self.vanish_streams(node, process);
            true
        })
    }

    fn dies(&mut self, node: usize, is_silent: bool) {
        if self.nodes[node].process.is_some() {
            self.undergo(Upheaval::Death { node, is_silent });
        }
    }

    fn kill(&mut self, node: usize) -> Option<u64> {
        let reached = self.random.chance(0.5);
        let place = &mut self.nodes[node];
        let process = place.process.take()?.number;
        place.disk.crash(reached && place.disk_full_until <= self.now);
        self.tell(|watch, world| watch.on_end(world, node, None));
        self.contender_ends(node);
        Some(process)
    }

    /// Empties the disk of a node that does not run.
    pub fn lose_disk(&mut self, node: usize) {
        if self.nodes[node].process.is_none() {
            self.nodes[node].disk.lose();
            self.lose_terms(node);
            self.tell(|watch, world| watch.on_disk_lost(world, node));
        }
    }

    /// Sets a node's wall clock back; it is read at the next start.
    pub fn step_clock_back(&mut self, node: usize, by: Duration) {
        self.nodes[node].wall_offset_ms -= i64::try_from(by.as_millis()).unwrap_or(0);
    }

    /// Suspends a process for a while; returns true if there was a running one.
    pub fn pause(&mut self, node: usize, lasting: Duration) -> bool {
        if self.nodes[node].process.as_ref().is_none_or(|process| process.paused) {
            return false;
        }
        self.upheaval(true);
        let Some(process) = self.nodes[node].process.as_mut() else { return false };
        process.paused = true;
        process.undisturbed_since = None;
        // Anything that it was to be woken for waits for the end of the pause.
        process.wake_at = None;
        process.wake_epoch += 1;
        let event = Event::Resume { node, process: process.number };
        self.push_after(lasting, event);
        true
    }

    /// Suspends a whole host for a while, its kernel with it; returns true if a process ran there.
    pub fn pause_host(&mut self, node: usize, lasting: Duration) -> bool {
        let is_paused = self.pause(node, lasting);
        self.nodes[node].is_off |= is_paused;
        is_paused
    }

    /// Makes a process handle everything late, by up to `by`, for a while; returns true if there was one.
    pub fn slow(&mut self, node: usize, by: Duration, lasting: Duration) -> bool {
        if self.nodes[node].process.is_none() {
            return false;
        }
        self.upheaval(true);
        let Some(process) = self.nodes[node].process.as_mut() else { return false };
        process.slowness = nanos(by);
        process.undisturbed_since = None;
        let event = Event::Hasten { node, process: process.number };
        self.push_after(lasting, event);
        true
    }

    /// Hands a command to a process; returns true if there was one.
    pub fn command(&mut self, node: usize, command: Command) -> bool {
        if self.nodes[node].running().is_none() {
            return false;
        }
        self.upheaval(false);
        self.tell(|watch, world| watch.on_command(world, node, &command));
        if command != Command::Leave || !self.leaves_leases(node) {
            self.offer(node, Waiting::Command(command));
        }
        true
    }

    /// Returns a number for the next command.
    pub fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Ends the process of a core that has stopped; its disk finishes the write under way.
    pub(super) fn end_process(&mut self, node: usize) {
        self.upheaval(false);
        let place = &mut self.nodes[node];
        let Some(process) = place.process.take() else { return };
        let Some(reason) = process.stopped else { return };
        let number = process.number;
        place.disk.crash(true);
        place.ended = Some(reason.clone());
        self.contender_ends(node);
        self.tell(|watch, world| watch.on_end(world, node, Some(&reason)));
        self.close_streams(node, number);
    }
}
