//! The bounds of what listeners have not taken, and who gives way where it is too much.

use super::super::inbox::{Inbox, Messages};
use super::super::message::ReceiveError;
use super::*;
use crate::core::{DeliveryKind, MessageId, NodeId, Payload, Run};
use crate::journal::Journal;

fn delivery(sequence: u64, topic: &str, bytes: usize) -> Delivery {
    Delivery {
        id: MessageId { run: Run(1), sequence },
        from: NodeId::new("a").expect("a name"),
        topic: Topic::new(topic).expect("a topic"),
        payload: Payload::new(&vec![0; bytes]).expect("small"),
        kind: DeliveryKind::Broadcast,
    }
}

fn topics(names: &[&str]) -> BTreeSet<Topic> {
    names.iter().map(|name| Topic::new(name).expect("a topic")).collect()
}

fn sequences(inbox: &mut Inbox) -> Vec<u64> {
    std::iter::from_fn(|| inbox.try_recv().expect("nothing is lost")).map(|message| message.id.sequence).collect()
}

#[test]
fn listeners_get_their_topics_in_order() {
    let listeners = Arc::new(Listeners::default());
    let (mut cache, mut all) = (Inbox::listen(&listeners, topics(&["cache"])), Inbox::listen(&listeners, topics(&[])));
    for (sequence, topic) in [(1, "cache"), (2, "jobs"), (3, "cache")] {
        listeners.deliver(delivery(sequence, topic, 1), SystemTime::now());
    }
    assert_eq!((sequences(&mut cache), sequences(&mut all)), (vec![1, 3], vec![1, 2, 3]));
    listeners.close();
    assert_eq!(cache.try_recv(), Err(ReceiveError::Closed));
}

#[test]
fn what_a_typed_listener_cannot_read_is_skipped_and_counted() {
    let listeners = Arc::new(Listeners::default());
    let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
    let mut typed = Messages::<u64>::new(Inbox::listen(&listeners, topics(&["t"])), journal);
    for (sequence, payload) in [(1, "7"), (2, "seven"), (3, "8")] {
        let payload = Payload::new(payload.as_bytes()).expect("small");
        listeners.deliver(Delivery { payload, ..delivery(sequence, "t", 0) }, SystemTime::now());
    }
    let values: Vec<u64> =
        std::iter::from_fn(|| typed.try_recv().expect("no error")).map(|received| received.value).collect();
    assert_eq!((values, listeners.figures()), (vec![7, 8], (1, 0, 1)));
}

#[test]
fn a_slow_listener_loses_the_oldest_and_is_told_and_others_lose_nothing() {
    let listeners = Arc::new(Listeners::default());
    let (mut slow, mut quick) = (Inbox::listen(&listeners, topics(&[])), Inbox::listen(&listeners, topics(&[])));
    for sequence in 0..MAX_WAITING_MESSAGES as u64 {
        listeners.deliver(delivery(sequence, "t", 0), SystemTime::now());
        assert_eq!(sequences(&mut quick), [sequence]);
    }
    assert_eq!(listeners.figures(), (2, 0, 0), "exactly at the bound");
    listeners.deliver(delivery(MAX_WAITING_MESSAGES as u64, "t", 0), SystemTime::now());
    assert_eq!(slow.try_recv(), Err(ReceiveError::Lagged { missed: 1 }));
    assert_eq!(sequences(&mut slow).first(), Some(&1));
    assert_eq!(listeners.figures(), (2, 1, 0));
}

#[test]
fn payloads_that_wait_have_a_bound_of_their_own() {
    let listeners = Arc::new(Listeners::default());
    let mut slow = Inbox::listen(&listeners, topics(&[]));
    let most = (MAX_WAITING_BYTES / 65_536) as u64;
    for sequence in 0..=most {
        listeners.deliver(delivery(sequence, "t", 65_536), SystemTime::now());
    }
    assert_eq!(slow.try_recv(), Err(ReceiveError::Lagged { missed: 1 }));
    assert_eq!(sequences(&mut slow).len() as u64, most);
}

/// Returns the size of all that waits, counted anew.
fn counted(listeners: &Listeners) -> usize {
    let state = listeners.state();
    let waiting = || state.queues.values().flat_map(|queue| &queue.waiting);
    let each: BTreeMap<_, _> = waiting().map(|it| (Arc::as_ptr(it), it.bytes() + MESSAGE_BYTES)).collect();
    let all = waiting().count() * PLACE_BYTES + each.values().sum::<usize>();
    assert_eq!(state.bytes, all, "the sum that is kept");
    all
}

#[test]
fn slow_listeners_to_topics_of_their_own_hold_no_more_together_than_the_bound() {
    let listeners = Arc::new(Listeners::default());
    let names: Vec<String> = (0..200).map(|at| format!("t{at}")).collect();
    let mut slow: Vec<Inbox> = names.iter().map(|name| Inbox::listen(&listeners, topics(&[name]))).collect();
    let mut quick = Inbox::listen(&listeners, topics(&["quick"]));
    let mut sequence = 0;
    for _ in 0..3 {
        for name in &names {
            sequence += 1;
            listeners.deliver(delivery(sequence, name, 65_536), SystemTime::now());
            sequence += 1;
            listeners.deliver(delivery(sequence, "quick", 65_536), SystemTime::now());
            assert_eq!(sequences(&mut quick), [sequence], "it keeps up, and loses nothing");
        }
    }
    let all = counted(&listeners);
    assert!((MAX_ALL_WAITING_BYTES - 2 * 66_000..=MAX_ALL_WAITING_BYTES).contains(&all), "{all}");
    let mut read = 0;
    for inbox in &mut slow {
        let missed = match inbox.try_recv() {
            Err(ReceiveError::Lagged { missed }) => missed,
            other => panic!("{other:?}"),
        };
        let kept = sequences(inbox).len() as u64;
        assert_eq!(missed + kept, 3, "each is told of all that it lost");
        read += kept;
    }
    // One gave way for what waited for the quick one a moment.
    assert_eq!((read + 1, counted(&listeners)), (MAX_ALL_WAITING_BYTES as u64 / (65_536 + 300), 0));
    assert_eq!(listeners.figures().1, 600 - read);
}

#[test]
fn the_fullest_queues_alone_give_way_although_the_oldest_message_waits_in_another() {
    let listeners = Arc::new(Listeners::default());
    let mut small = Inbox::listen(&listeners, topics(&["small"]));
    let names = ["t0", "t1", "t2"];
    let mut slow = names.map(|name| Inbox::listen(&listeners, topics(&[name])));
    listeners.deliver(delivery(0, "small", 1), SystemTime::now());
    for sequence in 1..=3 * (MAX_WAITING_BYTES / 65_536) as u64 {
        listeners.deliver(delivery(sequence, names[sequence as usize % 3], 65_536), SystemTime::now());
    }
    assert!(slow.iter_mut().all(|inbox| matches!(inbox.try_recv(), Err(ReceiveError::Lagged { .. }))));
    assert_eq!(sequences(&mut small), [0]);
}

#[test]
fn places_of_many_slow_listeners_to_one_topic_are_counted_and_the_payload_once() {
    let listeners = Arc::new(Listeners::default());
    let mut slow: Vec<Inbox> = (0..300).map(|_| Inbox::listen(&listeners, topics(&[]))).collect();
    for sequence in 0..MAX_WAITING_MESSAGES as u64 {
        listeners.deliver(delivery(sequence, "t", 1), SystemTime::now());
    }
    assert!(counted(&listeners) <= MAX_ALL_WAITING_BYTES);
    let fair = MAX_ALL_WAITING_BYTES / (300 * PLACE_BYTES);
    let longest = listeners.state().queues.values().map(|queue| queue.waiting.len()).max().expect("queues");
    let shortest = listeners.state().queues.values().map(|queue| queue.waiting.len()).min().expect("queues");
    assert!(longest <= 2 * fair && 2 * shortest >= longest - 2, "{shortest} to {longest}, {fair}");
    let last = slow.pop().expect("a listener");
    drop(slow);
    assert_eq!(counted(&listeners), listeners.state().queues[&last.id()].size());
    drop(last);
    assert_eq!(counted(&listeners), 0);
}

#[test]
fn a_queue_that_was_read_to_its_end_keeps_no_room() {
    let listeners = Arc::new(Listeners::default());
    let mut slow = Inbox::listen(&listeners, topics(&[]));
    for sequence in 0..MAX_WAITING_MESSAGES as u64 {
        listeners.deliver(delivery(sequence, "t", 1), SystemTime::now());
    }
    assert_eq!(sequences(&mut slow).len(), MAX_WAITING_MESSAGES);
    assert!(listeners.state().queues[&slow.id()].waiting.capacity() <= IDLE_PLACES);
}

#[tokio::test]
async fn who_waits_is_woken_and_who_is_gone_leaves_nothing() {
    let listeners = Arc::new(Listeners::default());
    let mut inbox = Inbox::listen(&listeners, topics(&[]));
    let waiting = tokio::spawn(async move { inbox.recv().await.map(|message| message.id.sequence) });
    tokio::task::yield_now().await;
    listeners.deliver(delivery(7, "t", 1), SystemTime::now());
    assert_eq!(waiting.await.expect("no panic"), Ok(7));
    assert_eq!(listeners.figures().0, 0, "dropped with its task");
}

#[test]
fn a_listener_that_keeps_up_loses_nothing_however_much_is_said() {
    let listeners = Arc::new(Listeners::default());
    let mut quick = Inbox::listen(&listeners, topics(&[]));
    for sequence in 0..2 * (MAX_WAITING_BYTES / 65_536) as u64 {
        listeners.deliver(delivery(sequence, "t", 65_536), SystemTime::now());
        assert_eq!(sequences(&mut quick), [sequence]);
    }
    assert_eq!(listeners.figures(), (1, 0, 0));
}

#[tokio::test]
async fn who_waits_when_the_agent_stops_is_told_and_a_stream_ends() {
    let listeners = Arc::new(Listeners::default());
    let (mut inbox, mut stream) = (Inbox::listen(&listeners, topics(&[])), Inbox::listen(&listeners, topics(&[])));
    let waiting = tokio::spawn(async move { inbox.recv().await });
    let next = tokio::spawn(async move {
        std::future::poll_fn(|context| futures_core::Stream::poll_next(std::pin::Pin::new(&mut stream), context)).await
    });
    tokio::task::yield_now().await;
    listeners.close();
    let in_time = Duration::from_secs(30);
    let waiting = tokio::time::timeout(in_time, waiting).await.expect("it is woken");
    assert_eq!(waiting.expect("no panic"), Err(ReceiveError::Closed));
    let next = tokio::time::timeout(in_time, next).await.expect("it is woken");
    assert_eq!(next.expect("no panic"), None);
}
