//! One node that is called: its queue, and the task that empties it.
//!
//! Invariant: each message that was put in is counted once. What waits when the dispatcher lets go is still tried.
//!
//! Must not know: why the node is called.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::Level;

use super::call::{CallError, Caller};
use super::{IDLE_TIMEOUT, MAX_TRIES, MAX_WAITING_BYTES, MAX_WAITING_CALLS, RETRY_PAUSE};
use crate::agent::messages::{LEAST_WEIGHT, Said};
use crate::core::NodeId;
use crate::transport::links::Exchange;
use crate::trouble::Trouble;

/// The dispatcher's end of a node.
#[derive(Debug)]
pub(super) struct Node {
    address: SocketAddr,
    queue: mpsc::Sender<Waiting>,
    /// The room that is left for what waits, in units of [`LEAST_WEIGHT`].
    room: Arc<Semaphore>,
}

/// A message in the queue, with its room, which is given back once the message is done with.
type Waiting = (Arc<Said>, OwnedSemaphorePermit);

impl Node {
    pub(super) fn start(tasks: &mut JoinSet<()>, caller: &Arc<Caller>, id: &NodeId, address: SocketAddr) -> Self {
        let (node, queue) = Self::open(address);
        let task = Task {
            id: id.clone(),
            address,
            caller: Arc::clone(caller),
            connection: None,
            trouble: Trouble::default(),
            is_failing: false,
        };
        tasks.spawn(task.run(queue));
        node
    }

    fn open(address: SocketAddr) -> (Self, mpsc::Receiver<Waiting>) {
        let (queue, waiting) = mpsc::channel(MAX_WAITING_CALLS);
        let room = Arc::new(Semaphore::new(MAX_WAITING_BYTES / LEAST_WEIGHT));
        (Self { address, queue, room }, waiting)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts a message into its queue; `false` if there is no room.
    pub(super) fn put(&self, said: &Arc<Said>) -> bool {
        let room = Arc::clone(&self.room).try_acquire_many_owned(said.weight);
        room.is_ok_and(|room| self.queue.try_send((Arc::clone(said), room)).is_ok())
    }
}

struct Task {
    id: NodeId,
    address: SocketAddr,
    caller: Arc<Caller>,
    connection: Option<Exchange>,
    trouble: Trouble,
    /// True if the last message did not arrive.
    is_failing: bool,
}

impl Task {
    async fn run(mut self, mut queue: mpsc::Receiver<Waiting>) {
        loop {
            let next = if let Ok(next) = timeout(IDLE_TIMEOUT, queue.recv()).await {
                next
            } else {
                self.connection = None;
                queue.recv().await
            };
            let Some((said, _room)) = next else { return };
            let called = self.bring(&said).await;
            self.is_failing = called.is_err();
            let Self { id, address, caller, trouble, .. } = &mut self;
            let shared = &caller.shared;
            match called {
                Ok(is_new) => {
                    shared.outbox.called(is_new);
                    if trouble.end() {
                        shared.journal.say(Level::INFO, format!("broadcasts reach {id} at {address} again"));
                    }
                }
                Err(error) => {
                    shared.outbox.failed();
                    if trouble.begins() {
                        let text = format!(
                            "gossip does not reach {id}, and a broadcast could not be brought to it at {address}: {error}"
                        );
                        shared.journal.say(Level::WARN, text);
                    }
                }
            }
        }
    }

    /// Brings one message, by as many calls as it may take.
    async fn bring(&mut self, said: &Said) -> Result<bool, CallError> {
        let mut left = if self.is_failing { 1 } else { MAX_TRIES };
        loop {
            // A connection that was kept may have been closed by the other side in this very moment.
            let was_kept = self.connection.is_some();
            match self.caller.call(&mut self.connection, &self.id, self.address, said).await {
                Err(CallError::Broken(_)) if was_kept => {}
                Err(error) if error.is_passing() && left > 1 => {
                    left -= 1;
                    sleep(RETRY_PAUSE).await;
                }
                called => return called,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio_util::task::TaskTracker;

    use super::super::tests::caller;
    use super::*;
    use crate::agent::messages::{DirectAnswer, test_said};
    use crate::journal::tests::Kept;
    use crate::transport::links::{Event, Links, Listener};
    use crate::transport::sealing::Sealing;

    #[test]
    fn so_many_messages_wait_for_a_node_and_one_more_does_not() {
        let (node, mut waiting) = Node::open(SocketAddr::from(([127, 0, 0, 1], 1)));
        let said = Arc::new(test_said());
        for _ in 0..MAX_WAITING_CALLS {
            assert!(node.put(&said));
        }
        assert!(!node.put(&said));
        drop(waiting.try_recv().expect("one"));
        assert!(node.put(&said));
    }

    #[test]
    fn so_many_bytes_wait_for_a_node_and_what_is_done_with_makes_room() {
        let (node, mut waiting) = Node::open(SocketAddr::from(([127, 0, 0, 1], 1)));
        let mut said = test_said();
        said.weight = (MAX_WAITING_BYTES / LEAST_WEIGHT / 4) as u32;
        let said = Arc::new(said);
        assert!((0..4).all(|_| node.put(&said)), "a quarter each");
        assert!(!node.put(&said));
        let taken = waiting.try_recv().expect("one");
        assert!(!node.put(&said), "it is being called with it");
        drop(taken);
        assert!(node.put(&said));
    }

    #[tokio::test]
    async fn a_message_is_tried_so_often_at_a_node_and_once_at_one_that_failed_before() {
        let caller = caller(&Kept::default());
        let (listener, journal) = (Listener::bind(([127, 0, 0, 1], 0).into()).expect("a port"), &caller.shared.journal);
        let address = listener.local_address();
        let (tasks, sealing) = (TaskTracker::new(), Sealing::off(journal.clone()));
        let links = Links::start(listener, &tasks, 8, IDLE_TIMEOUT, sealing, journal.clone());
        let mut links = links.expect("in a runtime");
        let count = Arc::new(AtomicU32::new(0));
        let mut task = Task {
            id: NodeId::new("busy").expect("a name"),
            address,
            caller,
            connection: None,
            trouble: Trouble::default(),
            is_failing: false,
        };
        let counted = Arc::clone(&count);
        let busy = tokio::spawn(async move {
            while let Ok((link, event)) = links.next().await {
                if let Event::Frame(..) = event {
                    counted.fetch_add(1, Ordering::Relaxed);
                    let why = "busy\x1b[31m".to_owned();
                    links.send(link, DirectAnswer::Refused { is_passing: true, why }.frame());
                }
            }
        });
        for (is_failing, tries) in [(false, MAX_TRIES), (true, 1)] {
            task.is_failing = is_failing;
            let refused = task.bring(&test_said()).await.expect_err("it is busy");
            assert!(refused.is_passing() && !refused.to_string().contains('\x1b'), "{refused}");
            assert_eq!(count.swap(0, Ordering::Relaxed), tries, "failed before: {is_failing}");
        }
        busy.abort();
    }
}
