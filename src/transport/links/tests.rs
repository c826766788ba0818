//! Links between two agents in one process, over loopback.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::WRITE_TIMEOUT;
use super::*;
use crate::core::limits::{LINK_TIMEOUT, MAX_FRAME_BYTES};

pub(super) const DEADLINE: Duration = Duration::from_secs(10);
pub(super) const KEEPALIVE: Duration = Duration::from_secs(30);
pub(super) const OPENED: LinkId = LinkId::Opened(1);

pub(super) fn journal() -> Journal {
    Journal::start(&crate::core::NodeId::new("me").expect("a name")).expect("a thread")
}

/// Starts the links of one agent; returns them with their address and their tasks.
fn links() -> (Links, SocketAddr, TaskTracker) {
    links_within(1_000)
}

fn links_within(budget: usize) -> (Links, SocketAddr, TaskTracker) {
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let address = listener.local_address();
    links_sealed(listener, budget, Sealing::off(journal()), address)
}

pub(super) fn links_sealed(
    listener: Listener,
    budget: usize,
    sealing: Sealing,
    address: SocketAddr,
) -> (Links, SocketAddr, TaskTracker) {
    let tasks = TaskTracker::new();
    let links = Links::start(listener, &tasks, budget, KEEPALIVE, sealing, journal()).expect("in a runtime");
    (links, address, tasks)
}

pub(super) async fn next(links: &mut Links) -> (LinkId, Event) {
    timeout(DEADLINE, links.next()).await.expect("in time").expect("connections are accepted")
}

/// Returns the time since `begin` after which these links close the only connection that was made to them, of a clock that
/// does not wait.
pub(super) async fn time_of(links: &Links, stream: &mut TcpStream, begin: tokio::time::Instant) -> Duration {
    let is_taken = || links.budget.available_permits() < 1_000;
    tokio::time::pause();
    while is_taken() && begin.elapsed() < DEADLINE {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let time = begin.elapsed();
    assert!(!is_taken() && matches!(stream.read(&mut [0; 1]).await, Ok(0) | Err(_)), "closed without a word");
    time
}

/// Waits until a connection was taken from the listener.
pub(super) async fn taken(links: &Links) {
    while links.budget.available_permits() == 1_000 {
        tokio::task::yield_now().await;
    }
}

/// Creates two agents with a link between them; returns the link's id at the second, too.
async fn pair() -> (Links, Links, LinkId) {
    let ((mut a, _, _), (mut b, address, _)) = (links(), links());
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    a.send(OPENED, b"hello".to_vec());
    let (accepted, event) = next(&mut b).await;
    assert!(matches!(event, Event::Frame(_, bytes) if bytes == b"hello"[..]));
    (a, b, accepted)
}

#[tokio::test]
async fn frames_travel_both_ways_whole_and_in_order() {
    let (mut a, b, accepted) = pair().await;
    for size in [1, 1_400, MAX_FRAME_BYTES] {
        b.send(accepted, vec![7; size]);
        let (link, event) = next(&mut a).await;
        assert_eq!(link, OPENED);
        assert!(matches!(event, Event::Frame(_, bytes) if bytes == vec![7; size]), "{size} bytes");
    }
}

#[tokio::test]
async fn a_link_that_is_closed_says_what_was_queued_and_then_ends_at_the_other_end() {
    let (mut a, mut b, accepted) = pair().await;
    a.send(OPENED, b"bye".to_vec());
    a.close(OPENED);
    assert!(matches!(next(&mut b).await, (link, Event::Frame(_, bytes)) if link == accepted && bytes == b"bye"[..]));
    assert_eq!(next(&mut b).await, (accepted, Event::Closed));
    assert_eq!(a.try_next(), None, "who closes needs no news of it");
}

#[tokio::test]
async fn a_frame_that_waits_while_its_link_is_closed_is_not_handed_over() {
    let (a, mut b, accepted) = pair().await;
    a.send(OPENED, b"late".to_vec());
    while b.events.is_empty() {
        tokio::task::yield_now().await;
    }
    b.close(accepted);
    assert_eq!(b.try_next(), None, "the driver has no such link any more");
}

#[tokio::test]
async fn an_agent_that_is_gone_ends_its_links_and_refuses_new_ones() {
    let ((mut a, _, _), (mut b, address, _)) = (links(), links());
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    a.send(OPENED, b"hello".to_vec());
    next(&mut b).await;
    drop(b);
    assert_eq!(next(&mut a).await, (OPENED, Event::Closed));
    a.open(LinkId::Opened(2), address);
    // The listener closes a moment after its links do.
    let mut last = next(&mut a).await;
    for number in 3.. {
        if last.1 == Event::Refused {
            break;
        }
        a.open(LinkId::Opened(number), address);
        last = next(&mut a).await;
    }
}

#[tokio::test]
async fn a_frame_longer_than_the_limit_ends_its_link_before_it_is_read() {
    let (mut links, address, _) = links();
    let mut stream = TcpStream::connect(address).await.expect("listening");
    stream.write_all(&[0, 0, 0, 1, b'x']).await.expect("sent");
    let (accepted, _) = next(&mut links).await;
    let length = u32::try_from(MAX_FRAME_BYTES + 1).expect("small").to_be_bytes();
    stream.write_all(&length).await.expect("sent");
    assert_eq!(next(&mut links).await, (accepted, Event::Closed));
}

#[tokio::test]
async fn connections_that_say_nothing_are_few_and_make_room_for_those_that_speak() {
    let (mut links, address, _) = links();
    let mut held = Vec::new();
    for _ in 0..MAX_SILENT {
        held.push(TcpStream::connect(address).await.expect("listening"));
    }
    let mut one_more = TcpStream::connect(address).await.expect("listening");
    let ended = timeout(LINK_TIMEOUT / 2, held[0].read(&mut [0; 1])).await.expect("the oldest is closed at once");
    assert!(matches!(ended, Ok(0) | Err(_)));
    one_more.write_all(&[0, 0, 0, 1, b'x']).await.expect("sent");
    assert!(matches!(next(&mut links).await, (_, Event::Frame(_, bytes)) if bytes == b"x"[..]));
    assert_eq!(links.counters().turned_away(), 1);
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_when_its_time_is_over() {
    let (links, address, _) = links();
    let begin = tokio::time::Instant::now();
    let mut stream = TcpStream::connect(address).await.expect("listening");
    taken(&links).await;
    let time = time_of(&links, &mut stream, begin).await;
    assert!((LINK_TIMEOUT..LINK_TIMEOUT * 3 / 2).contains(&time), "{time:?}");
}

#[tokio::test]
async fn first_frames_that_the_driver_does_not_take_are_as_few_as_silent_connections() {
    let (links, address, _) = links();
    let mut full = 0;
    while tokio::task::unconstrained(links.announce.send(OPENED, Event::Closed, None)).now_or_never().is_some() {
        full += 1;
    }
    assert_eq!(full, MAX_QUEUED_EVENTS);
    let mut held = Vec::new();
    for _ in 0..3 * MAX_SILENT {
        let mut stream = TcpStream::connect(address).await.expect("listening");
        // The connection may have been turned away already.
        let _ = stream.write_all(&[0, 0, 0, 1, b'x']).await;
        held.push(stream);
        tokio::task::yield_now().await;
    }
    let turned_away = async {
        while links.counters().turned_away() < 2 * MAX_SILENT as u64 {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, turned_away).await.expect("no more than the bound wait with a frame");
}

#[tokio::test]
async fn connections_are_never_more_than_the_budget_whoever_opens_them() {
    let ((mut a, a_address, _), (mut b, address, _)) = (links_within(4), links());
    for number in 1..=5 {
        a.open(LinkId::Opened(number), address);
    }
    let mut outcomes = Vec::new();
    for _ in 1..=5 {
        outcomes.push(next(&mut a).await);
    }
    assert!(outcomes.contains(&(LinkId::Opened(5), Event::Unreachable)), "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|(_, event)| *event == Event::Connected).count(), 4);
    b.open(OPENED, a_address);
    assert_eq!(next(&mut b).await, (OPENED, Event::Connected), "the kernel takes it");
    assert_eq!(next(&mut b).await, (OPENED, Event::Closed), "and it is turned away");
    assert_eq!(a.counters().turned_away(), 1);
    a.close(LinkId::Opened(1));
    while b.budget.available_permits() > 0 && a.budget.available_permits() == 0 {
        tokio::task::yield_now().await;
    }
    a.open(LinkId::Opened(6), address);
    assert_eq!(next(&mut a).await, (LinkId::Opened(6), Event::Connected), "one that ended makes room");
}

#[tokio::test]
async fn a_silent_connection_delays_nobodys_end() {
    let (links, address, tasks) = links();
    let _silent = TcpStream::connect(address).await.expect("listening");
    taken(&links).await;
    tokio::time::pause();
    drop(links);
    tasks.close();
    let before = tokio::time::Instant::now();
    timeout(DEADLINE, tasks.wait()).await.expect("it ends");
    assert!(before.elapsed() < LINK_TIMEOUT, "without waiting for its first word");
}

#[tokio::test]
async fn a_peer_that_does_not_read_costs_a_bounded_queue() {
    let (a, _b, _) = pair().await;
    let frames = 4 * MAX_QUEUED_FRAMES;
    for (size, most) in [(1_000, MAX_QUEUED_FRAMES), (MAX_FRAME_BYTES, 0)] {
        let before = a.counters().dropped_frames();
        for _ in 0..frames {
            a.send(OPENED, vec![0; size]);
        }
        let dropped = a.counters().dropped_frames() - before;
        assert_eq!(dropped as usize, frames - most, "nothing was sent between two turns of the runtime");
    }
    // Large ones are bounded by their bytes.
    let (a, _b, _) = pair().await;
    for _ in 0..frames {
        a.send(OPENED, vec![0; MAX_FRAME_BYTES]);
    }
    assert_eq!(a.counters().dropped_frames() as usize, frames - MAX_LINK_BYTES / MAX_FRAME_BYTES);
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_given_up_after_a_while() {
    let (mut a, _, _) = links();
    // A process that stands still: its kernel takes the connection, and as many bytes as it has room for.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    a.open(OPENED, listener.local_addr().expect("bound"));
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    let _deaf = listener.accept().await.expect("accepted");
    tokio::time::pause();
    // The queue is full, and no frame leaves it, since then.
    let (mut stuck, mut dropped) = (tokio::time::Instant::now(), 0);
    let event = loop {
        assert!(stuck.elapsed() < DEADLINE, "it is not waited for without end");
        a.send(OPENED, vec![0; MAX_FRAME_BYTES]);
        if a.counters().dropped_frames() == dropped {
            stuck = tokio::time::Instant::now();
        }
        dropped = a.counters().dropped_frames();
        tokio::time::sleep(Duration::from_millis(10)).await;
        if let Some(event) = a.try_next() {
            break event;
        }
    };
    let waited = stuck.elapsed();
    assert_eq!(event, (OPENED, Event::Closed));
    // Until the queue was full some of that time had passed.
    assert!((WRITE_TIMEOUT * 3 / 4..WRITE_TIMEOUT * 3 / 2).contains(&waited), "{waited:?}");
}

#[tokio::test]
async fn an_idle_link_shows_firewalls_that_it_is_in_use() {
    let (mut a, _, _) = links();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    a.open(OPENED, listener.local_addr().expect("bound"));
    let (mut stream, _) = listener.accept().await.expect("accepted");
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    tokio::time::pause();
    let begin = tokio::time::Instant::now();
    let mut empty_frames = [1; 2 * size_of::<u32>()];
    timeout(KEEPALIVE * 9, stream.read_exact(&mut empty_frames)).await.expect("something is sent").expect("open");
    assert_eq!(empty_frames, [0; 8]);
    assert!(begin.elapsed() >= KEEPALIVE * 2, "and not more often");
}

#[tokio::test]
async fn nobody_is_told_of_what_keeps_an_idle_link_alive() {
    let (mut a, mut b, accepted) = pair().await;
    tokio::time::pause();
    tokio::time::sleep(KEEPALIVE * 5).await;
    a.send(OPENED, b"again".to_vec());
    assert!(matches!(next(&mut b).await, (link, Event::Frame(_, bytes)) if link == accepted && bytes == b"again"[..]));
    assert_eq!(a.try_next(), None);
}

#[tokio::test]
async fn all_tasks_end_with_the_links() {
    let ((mut a, _, tasks), (_b, address, _)) = (links(), links());
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    drop(a);
    tasks.close();
    timeout(DEADLINE, tasks.wait()).await.expect("no task outlives its links");
}
