//! The outbox: this node's own broadcasts, for whoever brings them to nodes that its view lacks.
//!
//! Invariants:
//! - The driver never waits: at most [`MAX_SAID`] broadcasts wait to be looked at, and all that are kept for calls hold at most
//!   [`MAX_SAID_BYTES`] together. One beyond that counts as a call that failed.
//! - While nobody has asked for them nothing is kept.
//!
//! Must not know: who is called, and how.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::core::{Delivery, DeliveryKind, MessageId, Payload, Run, Time, Topic};
use crate::quiet::Quiet;

/// The greatest number of broadcasts that wait to be looked at.
pub(crate) const MAX_SAID: usize = 8_192;
/// The greatest size of the payloads that are kept for calls, in bytes together; each counts for [`LEAST_WEIGHT`] at least.
pub(crate) const MAX_SAID_BYTES: usize = 8 * 1024 * 1024;
/// The least size that a payload counts for, in bytes.
pub(crate) const LEAST_WEIGHT: usize = 256;
/// There is at most one line of the log about broadcasts that there is no room for in this time.
pub(crate) const FULL_PAUSE: Duration = Duration::from_secs(10);
const _: () = assert!(MAX_SAID <= MAX_SAID_BYTES / LEAST_WEIGHT);

/// One broadcast of this node.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) id: MessageId,
    pub(crate) topic: Topic,
    pub(crate) payload: Payload,
    /// The time at which it was said.
    pub(crate) at: Time,
    /// Its share of the queue, in units of [`LEAST_WEIGHT`].
    pub(crate) weight: u32,
    _weight: OwnedSemaphorePermit,
}

/// The outcomes of direct calls, each to one node with one broadcast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectFigures {
    /// Calls after which the other node had it first by them.
    pub delivered: u64,
    /// Calls that were in vain: the other node had it already, or does not want what is so old.
    pub duplicate: u64,
    /// Calls that were refused or not answered, and those that there was no room or no address for.
    pub failed: u64,
}

/// The driver's end, and the figures.
#[derive(Debug)]
pub(crate) struct Outbox {
    sender: OnceLock<mpsc::Sender<Said>>,
    weight: Arc<Semaphore>,
    delivered: AtomicU64,
    duplicate: AtomicU64,
    failed: AtomicU64,
    full: Mutex<Quiet>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            sender: OnceLock::new(),
            weight: Arc::new(Semaphore::new(MAX_SAID_BYTES / LEAST_WEIGHT)),
            delivered: AtomicU64::new(0),
            duplicate: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            full: Mutex::default(),
        }
    }
}

impl Outbox {
    /// Opens it: what this node says from now on. `None` if it was opened before.
    pub(crate) fn open(&self) -> Option<mpsc::Receiver<Said>> {
        let (sender, said) = mpsc::channel(MAX_SAID);
        self.sender.set(sender).is_ok().then_some(said)
    }

    /// A message is being delivered here: if it is a broadcast of this node, others may have to be called. If there is no room
    /// for it, returns how many others there were since the last line of the log about one, if it is time for another line.
    pub(crate) fn look_at(&self, delivery: &Delivery, me: Run, at: Time) -> Option<u64> {
        let sender = self.sender.get()?;
        if delivery.id.run != me || delivery.kind != DeliveryKind::Broadcast {
            return None;
        }
        let units = delivery.payload.len().div_ceil(LEAST_WEIGHT).max(1) as u32;
        let said = Arc::clone(&self.weight).try_acquire_many_owned(units).ok().map(|weight| Said {
            id: delivery.id,
            topic: delivery.topic.clone(),
            payload: delivery.payload.clone(),
            at,
            weight: units,
            _weight: weight,
        });
        if said.is_some_and(|said| sender.try_send(said).is_ok()) {
            return None;
        }
        self.failed();
        self.full.lock().unwrap_or_else(PoisonError::into_inner).take_turn(FULL_PAUSE, 1)
    }

    /// A call was answered; the other node had it first by it, or not.
    pub(crate) fn called(&self, is_new: bool) {
        let count = if is_new { &self.delivered } else { &self.duplicate };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// A call failed, or was not made.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> DirectFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DirectFigures { delivered: read(&self.delivered), duplicate: read(&self.duplicate), failed: read(&self.failed) }
    }
}

#[cfg(test)]
pub(crate) fn test_said() -> Said {
    let weight = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("one");
    let (topic, payload) = (Topic::new("t").expect("a topic"), Payload::new(b"x").expect("small"));
    Said { id: MessageId { run: Run(1), sequence: 2 }, topic, payload, at: Time::ORIGIN, weight: 1, _weight: weight }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::NodeId;

    fn delivery(run: u64, kind: DeliveryKind, bytes: usize) -> Delivery {
        Delivery {
            id: MessageId { run: Run(run), sequence: 2 },
            from: NodeId::new("a").expect("a name"),
            topic: Topic::new("t").expect("a topic"),
            payload: Payload::new(&vec![0; bytes]).expect("small"),
            kind,
        }
    }

    #[test]
    fn only_this_nodes_own_broadcasts_are_kept_and_only_for_who_asks() {
        let outbox = Outbox::default();
        let look = |run, kind| outbox.look_at(&delivery(run, kind, 1), Run(1), Time::ORIGIN);
        look(1, DeliveryKind::Broadcast);
        let mut said = outbox.open().expect("the first");
        assert!(outbox.open().is_none(), "one alone");
        look(2, DeliveryKind::Broadcast);
        look(1, DeliveryKind::Sent);
        assert!(said.try_recv().is_err());
        look(1, DeliveryKind::Broadcast);
        assert!(said.try_recv().is_ok() && said.try_recv().is_err());
        assert_eq!(outbox.figures(), DirectFigures::default());
    }

    #[test]
    fn so_many_wait_and_one_more_has_failed() {
        let outbox = Outbox::default();
        let mut said = outbox.open().expect("the first");
        let look = |bytes| outbox.look_at(&delivery(1, DeliveryKind::Broadcast, bytes), Run(1), Time::ORIGIN);
        for _ in 0..MAX_SAID {
            look(1);
        }
        assert_eq!(outbox.figures().failed, 0);
        assert_eq!((look(1), look(1)), (Some(0), None), "told once");
        assert_eq!(outbox.figures().failed, 2);
        let mut kept: Vec<Said> = std::iter::from_fn(|| said.try_recv().ok()).collect();
        assert_eq!(kept.len(), MAX_SAID);
        kept.clear();
        // Taken out and kept for calls they weigh as much.
        for _ in 0..MAX_SAID_BYTES / 65_536 {
            look(65_536);
            kept.push(said.try_recv().expect("it fits"));
        }
        look(1);
        assert!(said.try_recv().is_err());
        assert_eq!(outbox.figures().failed, 3);
        kept.pop();
        look(65_536);
        assert!(said.try_recv().is_ok());
    }
}
