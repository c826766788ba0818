//! A world that begins as a formed cluster, for scales at which joining would take longer than the scenario itself.
//!
//! No core has a back door, and none is needed: every node starts as usual, asks its seeds to be let in, and is
//! answered by a sponsor that the world plays. The sponsor welcomes it and serves the pages of a view in which all
//! nodes are Up already, in the packets that a core would send; then the node makes itself Up and says so, as always.
//! Only the flood of news about nodes that joined a moment earlier or later, and the joiners' waits, are left out. The
//! sponsor is no member: it is in no node's view, and is never heard from again.
//!
//! Must not know: how a core joins, beyond the messages of joining.

use std::net::SocketAddr;

use super::{World, WorldOptions};
use crate::node::address_of;
use headcount_core::wire::{Header, Message, Nonce, Packet, PacketBuilder};
use headcount_core::{Core, Input, Output, Record, Run, Status};

/// The run of the sponsor, which is never drawn: runs of nodes are random.
const SPONSOR: Run = Run(u64::MAX);
/// Room for a `Page` message with the longest name.
const PAGE_MESSAGE_BYTES: usize = 80;

/// The sponsor that the world plays.
struct Sponsor {
    address: SocketAddr,
    cluster: u32,
    mtu: usize,
    fingerprint: u64,
    /// The records of all nodes as they will be: Up. The order of names is that of numbers.
    records: Vec<Record>,
    /// Index among the records at which each page ends.
    page_ends: Vec<usize>,
    sequence: u64,
}

impl World {
    /// Creates a world whose nodes have all joined: they are Up and know each other, but have not heard each other yet.
    ///
    /// # Panics
    /// Panics if a core cannot be led to Up by a sponsor's messages: then joining works otherwise than this page says.
    pub fn formed(options: WorldOptions) -> Self {
        World::new(options).form()
    }

    /// Leads all nodes of a world that has just begun to Up.
    ///
    /// # Panics
    /// As [`World::formed`].
    #[must_use]
    pub fn form(self) -> Self {
        let mut world = self;
        if world.nodes.len() < 2 {
            return world;
        }
        let mut sponsor = world.sponsor();
        for node in 0..world.nodes.len() {
            world.lead_to_up(node, &mut sponsor);
            assert!(world.core(node).is_some_and(Core::is_up), "node {node} did not become Up");
        }
        world.say(|| "all nodes are Up and know each other".to_owned());
        world
    }

    fn sponsor(&self) -> Sponsor {
        let records: Vec<Record> = (0..self.nodes.len())
            .filter_map(|node| self.core(node).map(|core| core.me().with_status(Status::Up)))
            .collect();
        let mut sponsor = Sponsor {
            address: address_of(self.nodes.len(), self.options.ipv6),
            cluster: super::life::cluster(),
            mtu: self.options.settings.mtu,
            fingerprint: records.iter().fold(0, |sum, record| sum.wrapping_add(record.hash())),
            records,
            page_ends: Vec::new(),
            sequence: 0,
        };
        sponsor.divide();
        sponsor
    }

    /// Answers a joiner until it is Up.
    fn lead_to_up(&mut self, node: usize, sponsor: &mut Sponsor) {
        let seeds = (0..self.options.seeds.max(1)).map(|_| vec![sponsor.address]).collect();
        let mut asked = self.lead(node, Input::SeedAddresses(seeds), sponsor.address);
        while let Some(bytes) = asked.pop() {
            for answer in sponsor.answer(&bytes, node) {
                asked.extend(self.lead(node, Input::Packet { from: sponsor.address, bytes: &answer }, sponsor.address));
            }
        }
        self.drain_first_outputs(node);
    }

    /// Hands an input to a core; returns its packets for the sponsor, and carries out all other outputs.
    fn lead(&mut self, node: usize, input: Input<'_>, sponsor: SocketAddr) -> Vec<Vec<u8>> {
        let Some(process) = self.nodes[node].process.as_mut() else { return Vec::new() };
        self.trace.input(self.now, node, &input);
        process.core.handle(process.clock.local(self.now), input);
        let mut asked = Vec::new();
        while let Some(output) = self.nodes[node].process.as_mut().and_then(|process| process.core.poll()) {
            match output {
                Output::Transmit { to, bytes, .. } if to == sponsor => asked.push(bytes),
                output => {
                    self.give_first_output(node, output);
                }
            }
        }
        asked
    }
}

impl Sponsor {
    fn header(&mut self) -> Header {
        self.sequence += 1;
        Header { cluster: self.cluster, run: SPONSOR, sequence: self.sequence, fingerprint: self.fingerprint }
    }

    fn page_builder(&mut self) -> PacketBuilder {
        let limit = self.mtu - PAGE_MESSAGE_BYTES;
        PacketBuilder::new(&self.header(), limit)
    }

    /// Divides the records into pages, as many into each as fit.
    fn divide(&mut self) {
        let mut from = 0;
        while from < self.records.len() {
            let mut packet = self.page_builder();
            let fitting = self.records[from..].iter().take_while(|record| packet.push_update(None, record)).count();
            from += fitting.max(1);
            self.page_ends.push(from);
        }
    }

    /// Returns the sponsor's answers to a packet of a joiner.
    fn answer(&mut self, bytes: &[u8], node: usize) -> Vec<Vec<u8>> {
        let Ok(packet) = Packet::decode(bytes) else { return Vec::new() };
        packet.messages.into_iter().flat_map(|message| self.answer_message(message, node)).collect()
    }

    fn answer_message(&mut self, message: Message, node: usize) -> Vec<Vec<u8>> {
        match message {
            Message::Join { nonce, record, .. } => vec![self.welcome(nonce, record)],
            Message::Pull { after, pages } => {
                let known = self.records.partition_point(|record| Some(&record.id) <= after.as_ref());
                let known = known + usize::from(known == node);
                let first = self.page_ends.partition_point(|end| *end <= known);
                let last = (first + usize::from(pages)).min(self.page_ends.len());
                (first..last).map(|page| self.page(page, node)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn welcome(&mut self, nonce: Nonce, asking: Record) -> Vec<u8> {
        let sponsor = Record { run: SPONSOR, address: self.address, status: Status::Up, ..asking };
        let mut packet = PacketBuilder::new(&self.header(), self.mtu);
        packet.push(&Message::Welcome { nonce, sponsor });
        packet.finish()
    }

    /// Builds a page for this node: the sponsor does not have the joiner itself in its view.
    fn page(&mut self, page: usize, node: usize) -> Vec<u8> {
        let mut packet = self.page_builder();
        let start = page.checked_sub(1).map_or(0, |before| self.page_ends[before]);
        for member in (start..self.page_ends[page]).filter(|member| *member != node) {
            packet.push_update(None, &self.records[member]);
        }
        packet.raise_limit(self.mtu);
        let before = (0..start).rev().find(|member| *member != node);
        let after = before.map(|member| self.records[member].id.clone());
        packet.push(&Message::Page { after, more: page + 1 < self.page_ends.len() });
        packet.finish()
    }
}
