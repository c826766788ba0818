//! What waits between connections and the driver, both ways: bounded in number and in bytes.
//!
//! Invariants:
//! - Larger frames that wait to be sent over one link take at most [`MAX_LINK_BYTES`], those of all links [`MAX_SENT_BYTES`],
//!   and a link takes no more than it leaves to others: those that stand still keep nobody out. What does not fit is dropped.
//! - Larger frames that wait for the driver take at most [`MAX_RECEIVED_BYTES`]; connections wait for room, and so do the
//!   peers behind them.
//! - Small frames are bounded by their number alone, both ways, so that no payload keeps a heartbeat out.
//!
//! Must not know: connections, and the content of frames.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::bytes::Bytes;

use super::Event;
use crate::core::LinkId;

/// The largest number of frames that wait to be sent over one link.
pub(crate) const MAX_QUEUED_FRAMES: usize = 64;
/// The largest number of events that wait for the driver.
pub(crate) const MAX_QUEUED_EVENTS: usize = 256;
/// The size of the larger frames that wait to be sent over one link, in bytes: those of all messages that may be under
/// way to one node have room.
pub(crate) const MAX_LINK_BYTES: usize = 2 * 1024 * 1024;
/// The size of the larger frames that wait to be sent over all links, in bytes.
pub(crate) const MAX_SENT_BYTES: usize = 4 * 1024 * 1024;
/// The size of the larger frames that wait for the driver, in bytes.
pub(crate) const MAX_RECEIVED_BYTES: usize = 2 * 1024 * 1024;
/// The largest frame that counts as small, in bytes: all but payloads and parts of views.
const SMALL_FRAME_BYTES: usize = 2 * 1024;

/// A frame that waits to be sent, and the room that it takes until it is.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) bytes: Bytes,
    pub(super) room: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

/// The driver's end of one link's queue of frames.
#[derive(Debug)]
pub(super) struct Outgoing {
    frames: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

/// Makes the queue of one link.
pub(super) fn outgoing() -> (Outgoing, mpsc::Receiver<Waiting>) {
    let (frames, waiting) = mpsc::channel(MAX_QUEUED_FRAMES);
    (Outgoing { frames, room: Arc::new(Semaphore::new(MAX_LINK_BYTES)) }, waiting)
}

impl Outgoing {
    /// Queues a frame within the room of all links; returns false if there is none.
    pub(super) fn offer(&self, bytes: Vec<u8>, of_all: &Arc<Semaphore>) -> bool {
        let take = |room: &Arc<Semaphore>| Arc::clone(room).try_acquire_many_owned(bytes.len() as u32).ok();
        let taken = MAX_LINK_BYTES - self.room.available_permits();
        let room = if bytes.len() <= SMALL_FRAME_BYTES {
            None
        } else if taken + bytes.len() > of_all.available_permits() {
            return false;
        } else {
            match (take(&self.room), take(of_all)) {
                (Some(own), Some(of_all)) => Some((own, of_all)),
                _ => return false,
            }
        };
        self.frames.try_send(Waiting { bytes: bytes.into(), room }).is_ok()
    }
}

/// An event on its way to the driver. The first one of an accepted connection brings the connection's queue.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) link: LinkId,
    pub(super) event: Event,
    pub(super) queue: Option<Outgoing>,
    /// Given back when the driver has taken it.
    _room: Option<OwnedSemaphorePermit>,
}

/// The connections' end of the channel to the driver.
#[derive(Debug, Clone)]
pub(super) struct Announcer {
    events: mpsc::Sender<Announced>,
    room: Arc<Semaphore>,
}

/// Makes the channel from connections to the driver.
pub(super) fn incoming() -> (Announcer, mpsc::Receiver<Announced>) {
    let (events, announced) = mpsc::channel(MAX_QUEUED_EVENTS);
    (Announcer { events, room: Arc::new(Semaphore::new(MAX_RECEIVED_BYTES)) }, announced)
}

impl Announcer {
    /// Tells the driver of an event when there is room for it; returns false if nobody listens any more.
    pub(super) async fn send(&self, link: LinkId, event: Event, queue: Option<Outgoing>) -> bool {
        let room = match &event {
            Event::Frame(_, bytes) if bytes.len() > SMALL_FRAME_BYTES => {
                let size = bytes.len().min(MAX_RECEIVED_BYTES) as u32;
                tokio::select! {
                    room = Arc::clone(&self.room).acquire_many_owned(size) => room.ok(),
                    () = self.events.closed() => return false,
                }
            }
            _ => None,
        };
        self.events.send(Announced { link, event, queue, _room: room }).await.is_ok()
    }

    /// Waits until nobody listens any more.
    pub(super) async fn closed(&self) {
        self.events.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use futures_util::FutureExt as _;
    use tokio_util::bytes::BytesMut;

    use super::*;
    use crate::core::limits::MAX_FRAME_BYTES;

    fn frame(size: usize) -> Event {
        Event::Frame(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), BytesMut::zeroed(size))
    }

    #[test]
    fn frames_to_be_sent_are_bounded_in_bytes_over_one_link_and_over_all_and_small_ones_in_number() {
        const LARGE: usize = MAX_LINK_BYTES / 32;
        let all = Arc::new(Semaphore::new(MAX_SENT_BYTES));
        let offered = |link: &Outgoing| (0..40).take_while(|_| link.offer(vec![0; LARGE], &all)).count();
        let (first, mut waiting) = outgoing();
        assert_eq!(offered(&first), 32);
        // Each that stands still leaves as much to the others as it has itself.
        let mut links: Vec<_> = (0..20).map(|_| outgoing()).collect();
        let taken: Vec<usize> = links.iter().map(|(link, _)| offered(link)).collect();
        assert_eq!(taken[..4], [16, 8, 4, 2]);
        assert!(all.available_permits() < 2 * LARGE, "all links together have no more room");
        for nth in 0..2 * MAX_QUEUED_FRAMES {
            assert_eq!(links[19].0.offer(vec![0; SMALL_FRAME_BYTES], &all), nth < MAX_QUEUED_FRAMES, "{nth}");
        }
        // A frame takes room until it is sent, and a link that ends gives its room back.
        let before = all.available_permits();
        drop(waiting.try_recv().expect("it waits"));
        assert_eq!((all.available_permits(), first.room.available_permits()), (before + LARGE, LARGE));
        links.remove(0);
        assert_eq!(all.available_permits(), before + LARGE + MAX_LINK_BYTES / 2);
        assert!(links[18].1.try_recv().is_ok_and(|small| small.room.is_none()));
    }

    #[test]
    fn while_other_links_stand_still_there_is_room_for_the_largest_frame() {
        let all = Arc::new(Semaphore::new(MAX_SENT_BYTES));
        let links: Vec<_> = (0..5).map(|_| outgoing()).collect();
        // They fill at the same pace.
        for nth in 0..1_000 {
            links[nth % 5].0.offer(vec![0; 60_000], &all);
        }
        assert!(outgoing().0.offer(vec![0; MAX_FRAME_BYTES], &all));
    }

    #[test]
    fn every_frame_that_the_core_makes_has_room() {
        const { assert!(MAX_FRAME_BYTES < MAX_LINK_BYTES && MAX_FRAME_BYTES < MAX_RECEIVED_BYTES) }
        const { assert!(MAX_LINK_BYTES >= crate::core::limits::MAX_DIRECT_UNDER_WAY * MAX_FRAME_BYTES) }
    }

    #[test]
    fn frames_wait_for_room_at_the_driver_and_other_events_do_not() {
        const LARGE: usize = MAX_RECEIVED_BYTES / 32;
        let (announcer, mut events) = incoming();
        let link = LinkId::Opened(1);
        let told = |event| announcer.send(link, event, None).now_or_never();
        for _ in 0..32 {
            assert_eq!(told(frame(LARGE)), Some(true));
        }
        assert_eq!(told(frame(SMALL_FRAME_BYTES + 1)), None, "it waits");
        assert_eq!(told(frame(SMALL_FRAME_BYTES)), Some(true), "small ones do not");
        assert_eq!(told(Event::Closed), Some(true));
        drop(events.try_recv().expect("the first"));
        assert_eq!(told(frame(LARGE)), Some(true));
        assert_eq!(told(frame(LARGE)), None);
        drop(events);
        assert_eq!((told(frame(LARGE)), told(Event::Closed)), (Some(false), Some(false)), "nobody listens");
    }
}
