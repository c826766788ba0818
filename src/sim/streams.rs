//! The virtual network's TCP: connections between processes, as far as a link can tell them from real ones.
//!
//! Data arrive whole, in order, and later rather than never: loss and cuts delay them, since TCP sends again. A process
//! that ends closes its connections (its kernel does), a host that loses its power closes nothing. A port where nobody
//! listens refuses; a host without power, and a cut, answer nothing.
//!
//! Invariants: what one end sent arrives in the order it was sent, and its end last; a connection attempt has exactly
//! one outcome; nothing here depends on anything but the calls. Must not know: what the bytes mean.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::network::Nanos;
use crate::core::LinkId;

/// What routers do with TCP, apart from what happens to all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tcp {
    /// It passes.
    #[default]
    Open,
    /// A firewall drops it.
    Dropped,
    /// A firewall refuses new connections.
    Rejected,
}

/// How an attempt to connect ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Connected,
    Refused,
    Unreachable,
}

/// A process of a node and one of its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    pub(crate) node: usize,
    pub(crate) process: u64,
    pub(crate) link: LinkId,
}

/// What is under way from one end to the other.
#[derive(Debug)]
pub(crate) enum Segment {
    Frame(Vec<u8>),
    /// The sender has closed, or died.
    Fin,
}

/// Names a connection.
pub(crate) type StreamId = u64;

/// One connection.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Who opened it, and who accepted it.
    pub(crate) ends: [End; 2],
    /// What is under way from each of them.
    queues: [VecDeque<(Nanos, Segment)>; 2],
    /// How often the first segment of a queue was sent in vain.
    pub(crate) retries: [u32; 2],
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_id: BTreeMap<StreamId, Stream>,
    by_end: BTreeMap<End, (StreamId, usize)>,
    last: u64,
    /// Attempts that were given up before they had an outcome are not in here any more.
    attempts: BTreeSet<End>,
}

impl Streams {
    /// How long TCP waits before it sends again, at first.
    const RETRANSMISSION: Duration = Duration::from_millis(200);
    /// After so many doubled waits a connection is given up.
    pub(crate) const MAX_RETRIES: u32 = 9;

    /// The wait before the next try.
    pub(crate) fn pause(retries: u32) -> Duration {
        Self::RETRANSMISSION * 2_u32.pow(retries.min(Self::MAX_RETRIES))
    }

    /// An attempt begins.
    pub(crate) fn attempt(&mut self, end: End) {
        self.attempts.insert(end);
    }

    /// An attempt has its outcome; `false` if it was given up.
    pub(crate) fn decide(&mut self, end: End) -> bool {
        self.attempts.remove(&end)
    }

    /// Whether an attempt waits for its outcome.
    pub(crate) fn is_attempted(&self, end: End) -> bool {
        self.attempts.contains(&end)
    }

    /// A connection is made with a process of this node; it gets a name there.
    pub(crate) fn connect(&mut self, opener: End, node: usize, process: u64) {
        self.last += 1;
        let accepter = End { node, process, link: LinkId::Accepted(self.last) };
        let ends = [opener, accepter];
        for (side, end) in ends.into_iter().enumerate() {
            self.by_end.insert(end, (self.last, side));
        }
        let queues = [VecDeque::new(), VecDeque::new()];
        self.by_id.insert(self.last, Stream { ends, queues, retries: [0; 2] });
    }

    /// A name for a connection that was accepted from somebody who is no node.
    pub(crate) fn name_of_accepted(&mut self) -> LinkId {
        self.last += 1;
        LinkId::Accepted(self.last)
    }

    /// Puts something on its way; the direction, if it has to be pumped from now on.
    pub(crate) fn send(&mut self, end: End, now: Nanos, segment: Segment) -> Option<(StreamId, usize)> {
        let (id, side) = *self.by_end.get(&end)?;
        let queue = &mut self.by_id.get_mut(&id)?.queues[side];
        queue.push_back((now, segment));
        (queue.len() == 1).then_some((id, side))
    }

    /// An end says no more and hears no more.
    pub(crate) fn close(&mut self, end: End, now: Nanos) -> Option<(StreamId, usize)> {
        self.attempts.remove(&end);
        let pump = self.send(end, now, Segment::Fin);
        self.by_end.remove(&end);
        pump
    }

    /// Whether an end has closed or is gone: it hears no more.
    pub(crate) fn is_deaf(&self, end: End) -> bool {
        !self.by_end.contains_key(&end)
    }

    /// All ends of a process.
    pub(crate) fn of_process(&self, node: usize, process: u64) -> Vec<End> {
        let first = End { node, process, link: LinkId::Opened(0) };
        let is_its = |end: &&End| end.node == node && end.process == process;
        let connected = self.by_end.range(first..).map(|(end, _)| end).take_while(is_its);
        let attempted = self.attempts.range(first..).take_while(is_its).filter(|end| self.is_deaf(**end));
        connected.chain(attempted).copied().collect()
    }

    /// All ends at a node, whatever process they belong to.
    pub(crate) fn of_node(&self, node: usize) -> Vec<StreamId> {
        self.by_id.iter().filter(|(_, s)| s.ends.iter().any(|end| end.node == node)).map(|(id, _)| *id).collect()
    }

    /// A host has lost its power: its ends are gone without a word.
    pub(crate) fn vanish(&mut self, end: End) {
        self.attempts.remove(&end);
        if let Some((id, side)) = self.by_end.remove(&end)
            && let Some(stream) = self.by_id.get_mut(&id)
        {
            stream.queues[side].clear();
        }
    }

    /// A connection, if it still exists.
    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.by_id.get_mut(&id)
    }

    /// The first segment of a direction arrives; when the one behind it was sent, if there is one.
    pub(crate) fn arrive(&mut self, id: StreamId, side: usize) -> Option<(Segment, Option<Nanos>)> {
        let stream = self.by_id.get_mut(&id)?;
        let (_, segment) = stream.queues[side].pop_front()?;
        stream.retries[side] = 0;
        Some((segment, stream.queues[side].front().map(|(sent, _)| *sent)))
    }

    /// A connection is over for both ends: those that do not know yet.
    pub(crate) fn end(&mut self, id: StreamId) -> Vec<End> {
        let Some(stream) = self.by_id.remove(&id) else { return Vec::new() };
        let told = stream.ends.into_iter().filter(|end| self.by_end.remove(end).is_some());
        told.collect()
    }
}

impl Stream {
    /// Whether anything is under way from this side.
    pub(crate) fn is_sending(&self, side: usize) -> bool {
        !self.queues[side].is_empty()
    }
}
