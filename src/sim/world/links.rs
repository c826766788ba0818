//! Links between nodes: the fate of connection attempts, of frames, and of the links of a process that ends.

use std::net::SocketAddr;
use std::time::Duration;

use super::disturbance::Undo;
use super::{Event, Waiting, World};
use crate::network::Nanos;
use crate::random::nanos;
use crate::streams::{ConnectOutcome, End, Segment, StreamId, Streams, Tcp};
use headcount_core::LinkId;

/// An event of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum StreamEvent {
    /// The opener's SYN reaches a host, at this try.
    Syn { opener: End, to: usize, tries: u32 },
    /// The answer arrives at the opener.
    ConnectOutcome { opener: End, answer: ConnectOutcome },
    /// The first segment of a direction arrives.
    Pump { id: StreamId, side: usize },
    /// An end learns that the connection is over.
    Reset { end: End },
}

/// The number of SYNs that stay unanswered before an attempt is given up, a second, two, … apart.
const MAX_TRIES: u32 = 3;
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Bytes of TCP's header and options beyond UDP's header.
const TCP_BYTES: usize = 24;

impl World {
    /// Sets the effect of routers on TCP from now on; standing connections are reset if it is rejected.
    pub fn set_tcp(&mut self, tcp: Tcp) {
        self.upheaval(true);
        self.tcp = tcp;
        if tcp == Tcp::Rejected {
            for node in 0..self.nodes.len() {
                self.reset_links(node);
            }
        }
    }

    /// Sets the effect of routers on TCP for a while.
    pub fn disturb_tcp(&mut self, tcp: Tcp, lasting: Duration) {
        self.set_tcp(tcp);
        self.tcp_epoch += 1;
        self.lasts(lasting, Undo::Tcp { epoch: self.tcp_epoch });
    }

    /// Resets all connections of a node at both ends, as by a router in the middle that forgets them.
    pub fn reset_links(&mut self, node: usize) {
        self.upheaval(true);
        for id in self.streams.of_node(node) {
            self.end_stream(id);
        }
    }

    /// Drops all datagrams between two nodes from now on, as by a firewall; connections pass.
    pub fn block_datagrams(&mut self, one: usize, other: usize) {
        self.disturbs(None);
        self.network.block_datagrams(one, other);
    }

    /// Returns the number of links of a node, by its core's own account.
    pub fn links(&self, node: usize) -> usize {
        self.core(node).map_or(0, headcount_core::Core::open_links)
    }

    fn end_of(&self, node: usize, link: LinkId) -> Option<End> {
        let process = self.nodes[node].process.as_ref()?.number;
        Some(End { node, process, link })
    }

    pub(super) fn open_stream(&mut self, node: usize, link: LinkId, to: SocketAddr) {
        let Some(opener) = self.end_of(node, link) else { return };
        self.streams.attempt(opener);
        if let Some(to) = self.place_at(to) {
            self.network.count(node, TCP_BYTES);
            let at = self.network.latency(self.now);
            self.push(at, Event::Stream(StreamEvent::Syn { opener, to, tries: 1 }));
        } else {
            self.goes_outside(to, TCP_BYTES);
            let answer = ConnectOutcome::Unreachable;
            self.push_after(FIRST_RETRY, Event::Stream(StreamEvent::ConnectOutcome { opener, answer }));
        }
    }

    pub(super) fn send_frame(&mut self, node: usize, link: LinkId, bytes: Vec<u8>) {
        if let Some(bytes) = self.seal_frame(node, link, bytes) {
            self.send_raw_frame(node, link, bytes);
        }
    }

    /// Sends a frame as it travels.
    pub(super) fn send_raw_frame(&mut self, node: usize, link: LinkId, bytes: Vec<u8>) {
        let Some(end) = self.end_of(node, link) else { return };
        self.network.count(node, bytes.len() + TCP_BYTES);
        let pump = self.streams.send(end, self.now, Segment::Frame(bytes));
        self.plan_pump(pump);
    }

    pub(super) fn close_stream(&mut self, node: usize, link: LinkId) {
        self.forget_seal(node, link);
        let Some(end) = self.end_of(node, link) else { return };
        let pump = self.streams.close(end, self.now);
        self.plan_pump(pump);
    }

    /// Closes the connections of a process, as its kernel does.
    pub(super) fn close_streams(&mut self, node: usize, process: u64) {
        for end in self.streams.of_process(node, process) {
            let pump = self.streams.close(end, self.now);
            self.plan_pump(pump);
        }
    }

    /// Removes the ends of a process without closing the connections.
    pub(super) fn vanish_streams(&mut self, node: usize, process: u64) {
        for end in self.streams.of_process(node, process) {
            self.streams.remove_end(end);
        }
    }

    fn plan_pump(&mut self, pump: Option<(StreamId, usize)>) {
        if let Some((id, side)) = pump {
            let at = self.network.latency(self.now);
            self.push(at, Event::Stream(StreamEvent::Pump { id, side }));
        }
    }

    pub(super) fn stream_event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Syn { opener, to, tries } => self.asked_to_connect(opener, to, tries),
            StreamEvent::ConnectOutcome { opener, answer } => {
                if self.streams.decide(opener) {
                    self.tell_link(opener, Waiting::Answer { link: opener.link, answer });
                }
            }
            StreamEvent::Pump { id, side } => self.pump(id, side),
            StreamEvent::Reset { end } => self.tell_link(end, Waiting::Closed { link: end.link }),
        }
    }

    /// Hands an input to the process at this end, unless that process is gone.
    fn tell_link(&mut self, end: End, what: Waiting) {
        if self.nodes[end.node].running().is_some_and(|process| process.number == end.process) {
            self.offer(end.node, what);
        }
    }

    /// Returns true if a segment between two nodes is lost now, by a cut, without power, or by chance.
    fn draw_segment_loss(&mut self, from: usize, to: usize) -> bool {
        let is_off = self.nodes[from].is_off || self.nodes[to].is_off;
        is_off || self.tcp == Tcp::Dropped || self.network.loses_segment(self.now, from, to)
    }

    fn asked_to_connect(&mut self, opener: End, to: usize, tries: u32) {
        if !self.streams.is_attempted(opener) {
            return;
        }
        let answer = if self.draw_segment_loss(opener.node, to) {
            if tries < MAX_TRIES {
                let pause = FIRST_RETRY * 2_u32.pow(tries - 1);
                let again = StreamEvent::Syn { opener, to, tries: tries + 1 };
                return self.push_after(pause, Event::Stream(again));
            }
            ConnectOutcome::Unreachable
        } else {
            match self.nodes[to].running().map(|process| process.number) {
                Some(process) if self.tcp != Tcp::Rejected => {
                    self.streams.connect(opener, to, process);
                    ConnectOutcome::Connected
                }
                None if self.now < self.nodes[to].lingers_until => {
                    // The connection is taken by a port without a listener, and closed with the port.
                    let closes = self.nodes[to].lingers_until;
                    let at = self.network.latency(closes);
                    self.push(at, Event::Stream(StreamEvent::Reset { end: opener }));
                    ConnectOutcome::Connected
                }
                _ => ConnectOutcome::Refused,
            }
        };
        self.network.count(to, TCP_BYTES);
        let at = self.network.latency(self.now);
        self.push(at, Event::Stream(StreamEvent::ConnectOutcome { opener, answer }));
    }

    fn pump(&mut self, id: StreamId, side: usize) {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.is_sending(side)) else { return };
        let (sender, receiver) = (stream.ends[side], stream.ends[1 - side]);
        if self.draw_segment_loss(sender.node, receiver.node) {
            return self.send_segment_again(id, side);
        }
        if self.streams.is_deaf(receiver) {
            // The receiving end is gone: the kernel there says so.
            return self.end_stream(id);
        }
        let Some((segment, next)) = self.streams.arrive(id, side) else { return };
        self.network.count(receiver.node, TCP_BYTES);
        match segment {
            Segment::Frame(bytes) => {
                let from = self.nodes[sender.node].address;
                self.let_it_record(sender.node, receiver.node, &bytes);
                self.tell_link(receiver, Waiting::Frame { link: receiver.link, from, bytes });
                if let Some(sent) = next {
                    let at = self.network.latency(sent).max(self.now + 1);
                    self.push(at, Event::Stream(StreamEvent::Pump { id, side }));
                }
            }
            Segment::Fin => {
                self.streams.end(id);
                self.tell_link(receiver, Waiting::Closed { link: receiver.link });
            }
        }
    }

    fn send_segment_again(&mut self, id: StreamId, side: usize) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.retries[side] += 1;
        let retries = stream.retries[side];
        if retries > Streams::MAX_RETRIES {
            let sender = stream.ends[side];
            self.streams.remove_end(sender);
            return self.tell_link(sender, Waiting::Closed { link: sender.link });
        }
        let at: Nanos = self.now + nanos(Streams::pause(retries));
        self.push(at, Event::Stream(StreamEvent::Pump { id, side }));
    }

    fn end_stream(&mut self, id: StreamId) {
        for end in self.streams.end(id) {
            let at = self.network.latency(self.now);
            self.push(at, Event::Stream(StreamEvent::Reset { end }));
        }
    }
}
