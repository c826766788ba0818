//! The virtual network's TCP: connections between processes, as like real ones as a link can tell.
//!
//! Data arrive whole, in order, and late rather than never: loss and cuts delay them, since TCP sends again. The kernel
//! closes the connections of a process that ends; the connections of a host that loses its power stay open. A port
//! without a listener refuses; a host without power, and a cut, give no answer.
//!
//! Invariants: data sent by one end arrive in the order in which they were sent, and the end of the connection last; a
//! connection attempt has exactly one outcome; the state depends on the calls alone. Must not know: the meaning of the
//! bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::network::Nanos;
use headcount_core::LinkId;

/// The effect of routers on TCP, apart from the conditions that all packets suffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tcp {
    /// TCP passes.
    #[default]
    Open,
    /// A firewall drops all TCP packets.
    Dropped,
    /// A firewall rejects new connections.
    Rejected,
}

/// The outcome of a connection attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectOutcome {
    Connected,
    Refused,
    Unreachable,
}

/// One end of a connection: a node's process, and its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    pub(crate) node: usize,
    pub(crate) process: u64,
    pub(crate) link: LinkId,
}

/// Data under way from one end to the other.
#[derive(Debug)]
pub(crate) enum Segment {
    Frame(Vec<u8>),
    /// The sender closed the connection, or died.
    Fin,
}

/// Identifies a connection.
pub(crate) type StreamId = u64;

/// One connection.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The end that opened the connection, and the end that accepted it.
    pub(crate) ends: [End; 2],
    /// Segments under way from each of the ends.
    queues: [VecDeque<(Nanos, Segment)>; 2],
    /// Number of times that the first segment of each queue was sent in vain.
    pub(crate) retries: [u32; 2],
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_id: BTreeMap<StreamId, Stream>,
    by_end: BTreeMap<End, (StreamId, usize)>,
    last: u64,
    /// Attempts without an outcome yet; attempts that were given up are removed.
    attempts: BTreeSet<End>,
}

impl Streams {
    /// TCP's retransmission timeout, for the first time.
    const RETRANSMISSION: Duration = Duration::from_millis(200);
    /// Number of doubled waits after which a connection is given up.
    pub(crate) const MAX_RETRIES: u32 = 9;

    /// Returns the wait before the next try.
    pub(crate) fn pause(retries: u32) -> Duration {
        Self::RETRANSMISSION * 2_u32.pow(retries.min(Self::MAX_RETRIES))
    }

    /// Begins an attempt.
    pub(crate) fn attempt(&mut self, end: End) {
        self.attempts.insert(end);
    }

    /// Ends an attempt with its outcome; returns false if it was given up before.
    pub(crate) fn decide(&mut self, end: End) -> bool {
        self.attempts.remove(&end)
    }

    /// Returns true if an attempt waits for its outcome.
    pub(crate) fn is_attempted(&self, end: End) -> bool {
        self.attempts.contains(&end)
    }

    /// Connects the opener to a process of this node, where the connection gets a link id.
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

    /// Returns a link id for a connection accepted from a peer that is no node.
    pub(crate) fn name_of_accepted(&mut self) -> LinkId {
        self.last += 1;
        LinkId::Accepted(self.last)
    }

    /// Queues a segment; returns the connection and direction if it has to be pumped from now on.
    pub(crate) fn send(&mut self, end: End, now: Nanos, segment: Segment) -> Option<(StreamId, usize)> {
        let (id, side) = *self.by_end.get(&end)?;
        let queue = &mut self.by_id.get_mut(&id)?.queues[side];
        queue.push_back((now, segment));
        (queue.len() == 1).then_some((id, side))
    }

    /// Closes an end, which sends and receives no more; returns the direction to pump, like [`Streams::send`].
    pub(crate) fn close(&mut self, end: End, now: Nanos) -> Option<(StreamId, usize)> {
        self.attempts.remove(&end);
        let pump = self.send(end, now, Segment::Fin);
        self.by_end.remove(&end);
        pump
    }

    /// Returns true if an end receives no more, because it was closed or is gone.
    pub(crate) fn is_deaf(&self, end: End) -> bool {
        !self.by_end.contains_key(&end)
    }

    /// Returns all ends of a process.
    pub(crate) fn of_process(&self, node: usize, process: u64) -> Vec<End> {
        let first = End { node, process, link: LinkId::Opened(0) };
        let is_its = |end: &&End| end.node == node && end.process == process;
        let connected = self.by_end.range(first..).map(|(end, _)| end).take_while(is_its);
        let attempted = self.attempts.range(first..).take_while(is_its).filter(|end| self.is_deaf(**end));
        connected.chain(attempted).copied().collect()
    }

    /// Returns all connections with an end at a node, whatever process it belongs to.
    pub(crate) fn of_node(&self, node: usize) -> Vec<StreamId> {
        self.by_id.iter().filter(|(_, s)| s.ends.iter().any(|end| end.node == node)).map(|(id, _)| *id).collect()
    }

    /// Removes an end of a host that lost its power: the other end is not told.
    pub(crate) fn remove_end(&mut self, end: End) {
        self.attempts.remove(&end);
        if let Some((id, side)) = self.by_end.remove(&end)
            && let Some(stream) = self.by_id.get_mut(&id)
        {
            stream.queues[side].clear();
        }
    }

    /// Returns a connection, if it still exists.
    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.by_id.get_mut(&id)
    }

    /// Takes out the first segment of a direction, which arrives; returns as well the time at which the next one was
    /// sent, if there is one.
    pub(crate) fn arrive(&mut self, id: StreamId, side: usize) -> Option<(Segment, Option<Nanos>)> {
        let stream = self.by_id.get_mut(&id)?;
        let (_, segment) = stream.queues[side].pop_front()?;
        stream.retries[side] = 0;
        Some((segment, stream.queues[side].front().map(|(sent, _)| *sent)))
    }

    /// Removes a connection; returns the ends that do not know of it yet.
    pub(crate) fn end(&mut self, id: StreamId) -> Vec<End> {
        let Some(stream) = self.by_id.remove(&id) else { return Vec::new() };
        let told = stream.ends.into_iter().filter(|end| self.by_end.remove(end).is_some());
        told.collect()
    }
}

impl Stream {
    /// Returns true if any segment is under way from this side.
    pub(crate) fn is_sending(&self, side: usize) -> bool {
        !self.queues[side].is_empty()
    }
}
