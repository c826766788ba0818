//! The driver's bounds, and the order in which it hands things in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};

use futures_util::FutureExt as _;
use tokio::sync::oneshot;

use super::arrivals::{LATE, MAX_BACKLOG, MAX_BATCH, MAX_ERRORS_IN_A_ROW, NOT_STORED_TOLD_AGAIN_AFTER, up_to_backlog};
use super::*;
use crate::agent::bus::Bus;
use crate::agent::directory::Directory;
use crate::agent::directory::tests::name;
use crate::config::key;
use crate::core::Receiver;
use crate::core::limits::MAX_PENDING_COMMANDS;
use crate::core::wire::{Header, PacketBuilder};
use crate::core::{CommandError, CoreInit, Profile, Run, Status, StopReason, Tags};
use crate::journal::Journal;
use crate::journal::tests::Kept;
use crate::seal::{KeyRing, MAX_OVERHEAD, SealMode};
use crate::store::{StateWriter, Stored, Written};
use crate::transport::links;
use crate::transport::sealing::SealPolicy;
use crate::transport::udp::{Received, SocketErrorKind};

/// A driver that nobody runs, its requests, and a socket that never answers.
fn driver() -> (Driver, mpsc::Sender<Request>, Udp) {
    driver_with_seeds(0)
}

/// A driver like that of [`driver`], with so many seeds whose names do not resolve.
fn driver_with_seeds(seeds: usize) -> (Driver, mpsc::Sender<Request>, Udp) {
    let bind = || crate::transport::bind_both(Some(SocketAddr::from(([127, 0, 0, 1], 0))), 0).expect("a free port");
    let ((socket, listener), clock) = (bind(), Clock::start());
    let journal = Journal::start(&name("me")).expect("a thread");
    let tasks = tokio_util::task::TaskTracker::new();
    let sealing = Sealing::off(journal.clone());
    let links = Links::start(listener, &tasks, 8, std::time::Duration::from_secs(30), sealing.clone(), journal.clone());
    let links = links.expect("in a runtime");
    let init = CoreInit {
        leadership: None,
        id: name("me"),
        run: Run(1),
        cluster: name("c"),
        incarnation: 1,
        stored_bound: u64::MAX >> 1,
        address: socket.local_address(),
        api_address: None,
        tags: Tags::default(),
        version: "0".into(),
        settings: Profile::Local.settings(),
        seeds,
        remembered: Vec::new(),
        random_seed: 1,
    };
    let bus = Bus::new(Directory::new(name("me"), clock));
    let (requests, receiver) = mpsc::channel(MAX_QUEUED_REQUESTS);
    let cluster = crate::core::NodeId::new("test").expect("a name");
    let reach = crate::config::Reach { bound: ([127, 0, 0, 1], 1).into(), advertised: None, cluster };
    let keeper =
        Arc::new(crate::agent::keys::Keeper::new(sealing.clone(), crate::config::SealConfig::default(), reach));
    let key_responder = KeyResponder::start(keeper, requests.downgrade(), journal.clone());
    let driver = Driver::new(Parts {
        core: Core::new(init, clock.now()),
        clock,
        shared: Arc::new(Shared::new(bus, clock, socket.counters(), links.counters(), Arc::default(), journal.clone())),
        socket,
        links,
        sealing,
        sealer: DatagramSealer::new(Run(1), "test"),
        key_responder,
        resolver: Resolver::new(journal),
        seeds: {
            let seeds: Vec<String> = (0..seeds).map(|seed| format!("seed-{seed}.invalid:1")).collect();
            SeedSources::new(&seeds, None, &[])
        },
        state_writer: StateWriter::none(),
        requests: receiver,
    });
    (driver, requests, bind().0)
}

fn join(driver: &mut Driver, address: SocketAddr) -> oneshot::Receiver<Reply> {
    let (answer, answered) = oneshot::channel();
    driver.ask(Request::Join { addresses: vec![address], answer });
    answered
}

#[tokio::test]
async fn whoever_asks_when_too_many_wait_already_is_told_to_try_again() {
    let (mut driver, _requests, silent) = driver();
    let mut waiting: Vec<_> = (0..MAX_PENDING_COMMANDS).map(|_| join(&mut driver, silent.local_address())).collect();
    assert!(waiting.iter_mut().all(|answer| answer.try_recv().is_err()), "nobody is answered yet");
    let mut one_more = join(&mut driver, silent.local_address());
    assert_eq!(one_more.try_recv(), Ok(Reply::Refused(CommandError::Busy)));
    assert_eq!(driver.waiting.len(), MAX_PENDING_COMMANDS);
    waiting.clear();
    drop(join(&mut driver, silent.local_address()));
    assert!(driver.waiting.len() <= 1, "who went away waits no more");
}

#[tokio::test]
async fn whoever_has_its_answer_reads_what_it_did() {
    /// Looks at the figures at the moment at which an answer comes.
    struct Caller {
        shared: Arc<Shared>,
        seen: AtomicU64,
    }
    impl Wake for Caller {
        fn wake(self: Arc<Self>) {
            self.seen.store(self.shared.figures().changes, Ordering::Relaxed);
        }
    }
    let (mut driver, ..) = driver();
    let caller = Arc::new(Caller { shared: Arc::clone(&driver.parts.shared), seen: AtomicU64::new(0) });
    let waker = Waker::from(Arc::clone(&caller));
    for round in 0..3 {
        let tags = Tags::new([("round".to_owned(), format!("{round}"))].into()).expect("tags");
        let (answer, mut answered) = oneshot::channel();
        let before = driver.parts.core.changes();
        assert!(answered.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        driver.ask(Request::SetTags { tags, answer });
        assert!(driver.parts.core.changes() > before, "the core has changed");
        driver.begin_round();
        assert_eq!(answered.try_recv(), Ok(Reply::TagsSet));
        assert_eq!(caller.seen.load(Ordering::Relaxed), driver.parts.core.changes());
    }
}

#[tokio::test]
async fn requests_beyond_the_bound_wait_at_the_door() {
    let (_driver, requests, _silent) = driver();
    for _ in 0..MAX_QUEUED_REQUESTS {
        requests.try_send(Request::Leave).expect("room");
    }
    assert!(requests.try_send(Request::Leave).is_err());
}

#[tokio::test]
async fn a_node_leaves_room_for_seals_once_it_has_keys() {
    let (mut driver, ..) = driver();
    let whole = driver.parts.core.datagram_bytes();
    driver.leave_room_for_seals();
    assert_eq!(driver.parts.core.datagram_bytes(), whole, "nothing is sealed");
    let ring = KeyRing::new([key(1)]).expect("a key");
    driver.parts.sealing.set_policy(SealPolicy::new(SealMode::Permit, ring));
    driver.begin_round();
    assert_eq!(driver.parts.core.datagram_bytes(), whole - MAX_OVERHEAD);
}

#[tokio::test]
async fn a_flood_is_taken_in_bounded_batches() {
    let (mut driver, _requests, peer) = driver();
    let to = driver.parts.socket.local_address();
    // Small enough for the least receive buffer that systems grant.
    let sent = MAX_BATCH + 20;
    for _ in 0..sent {
        peer.send(to, b"?").expect("sent");
    }
    driver.parts.socket.readable().await.expect("readable");
    let before = driver.parts.core.counters().packets_received;
    driver.receive();
    assert_eq!(driver.parts.core.counters().packets_received - before, MAX_BATCH as u64);
    driver.receive();
    assert!(driver.parts.core.counters().packets_received - before <= sent as u64);
}

#[tokio::test]
async fn what_has_arrived_is_handed_in_before_time_is_judged_although_the_runtime_has_not_looked() {
    let (mut driver, _requests, peer) = driver();
    let to = driver.parts.socket.local_address();
    let sent = MAX_BATCH as u64 / 2;
    for _ in 0..sent {
        peer.send(to, b"?").expect("sent");
    }
    // Not one turn of the event loop since: as in a process that was stopped, and whose timer fires first.
    driver.judge(Duration::ZERO).await;
    assert_eq!(driver.parts.core.counters().packets_received, sent);
}

#[tokio::test]
async fn what_has_arrived_is_read_for_a_bounded_time_before_time_is_judged() {
    let (mut driver, _requests, peer) = driver();
    let to = driver.parts.socket.local_address();
    for _ in 0..3 {
        peer.send(to, b"?").expect("sent");
    }
    driver.receive_backlog(Duration::ZERO);
    assert_eq!(driver.parts.core.counters().packets_received, 1, "one is read even if there is no time");
    driver.receive_backlog(Duration::from_secs(30));
    assert_eq!(driver.parts.core.counters().packets_received, 3);
}

#[tokio::test]
async fn frames_that_wait_in_sockets_are_handed_in_before_a_late_driver_judges_time() {
    use tokio::io::AsyncWriteExt as _;
    let (mut driver, _requests, _silent) = driver();
    let mut link = tokio::net::TcpStream::connect(driver.parts.socket.local_address()).await.expect("listening");
    link.write_all(&[0, 0, 0, 1, b'x']).await.expect("sent");
    // Kept from the core, which would end a link that talks nonsense.
    let first = tokio::time::timeout(Duration::from_secs(30), driver.parts.links.next()).await;
    assert!(matches!(first, Ok(Ok((_, links::Event::Frame(..))))), "accepted");
    link.try_write(&[0, 0, 0, 1, b'y']).expect("sent, and nobody has had a turn since");
    driver.judge(LATE).await;
    assert_eq!(driver.parts.core.counters().frames_received, 1);
}

#[tokio::test]
async fn a_seed_whose_other_names_are_still_looked_up_founds_no_cluster_of_its_own() {
    let (mut driver, _requests, _silent) = driver_with_seeds(2);
    let mine = driver.parts.socket.local_address();
    assert!(driver.lookup.is_some(), "the core wants its seeds");
    driver.found(Some(("seed-0.invalid:1".to_owned(), vec![mine])));
    assert!(driver.lookup.is_some(), "one is not found yet");
    let founding = crate::core::limits::FOUNDING_DELAY;
    tokio::time::sleep(founding + Duration::from_millis(50)).await;
    driver.judge(Duration::ZERO).await;
    assert_eq!(driver.parts.core.me().status, Status::Joining);
    driver.found(Some(("seed-1.invalid:1".to_owned(), Vec::new())));
    let founded = async {
        while driver.parts.core.me().status != Status::Up {
            tokio::time::sleep(Duration::from_millis(20)).await;
            driver.judge(Duration::ZERO).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), founded).await.expect("nobody else can be found");
}

#[tokio::test]
async fn a_seed_that_no_source_names_any_more_is_forgotten_once_a_lookup_is_over() {
    let (mut driver, _requests, silent) = driver_with_seeds(2);
    let found = |seed: usize| Some((format!("seed-{seed}.invalid:1"), vec![silent.local_address()]));
    let known = |driver: &Driver| driver.seed_addresses.keys().cloned().collect::<Vec<_>>();
    for seed in 0..2 {
        driver.found(found(seed));
    }
    assert!(driver.lookup.is_none() && known(&driver).len() == 2);
    // The next lookup.
    driver.seeds_found.clear();
    driver.found(found(1));
    assert_eq!(known(&driver).len(), 2, "the other one may still be found");
    driver.found(None);
    assert_eq!(known(&driver), ["seed-1.invalid:1"]);
}

#[tokio::test]
async fn oversized_datagrams_do_not_stop_the_reading() {
    let (mut driver, _requests, peer) = driver();
    let to = driver.parts.socket.local_address();
    for _ in 0..MAX_ERRORS_IN_A_ROW {
        peer.send(to, &[0; MAX_DATAGRAM_BYTES + 1]).expect("sent");
    }
    driver.parts.socket.readable().await.expect("readable");
    driver.receive();
    assert_eq!(driver.paused_until, None);
    assert_eq!(driver.parts.shared.socket.oversized(), MAX_ERRORS_IN_A_ROW as u64);
}

#[tokio::test]
async fn so_many_errors_of_the_socket_in_a_row_make_the_reading_pause() {
    let (mut driver, ..) = driver();
    let fails = |driver: &mut Driver, times: usize| {
        (0..times).filter(|_| driver.take(Received::Failed(SocketErrorKind::Other))).count()
    };
    assert_eq!(fails(&mut driver, MAX_ERRORS_IN_A_ROW - 1), MAX_ERRORS_IN_A_ROW - 1);
    let from = SocketAddr::from(([127, 0, 0, 1], 9));
    assert!(driver.take(Received::Datagram { from, length: 1 }), "which ends the row");
    assert_eq!(fails(&mut driver, MAX_ERRORS_IN_A_ROW - 1), MAX_ERRORS_IN_A_ROW - 1);
    assert_eq!(driver.paused_until, None);
    assert_eq!(fails(&mut driver, 1), 0, "and the last one is too many");
    assert!(driver.paused_until.is_some());
}

#[tokio::test]
async fn after_its_end_the_core_gets_no_more_input() {
    let (mut driver, _requests, _silent) = driver();
    driver.end = Some(Stop::Core(StopReason::Left));
    driver.feed(Input::Tick);
    driver.fail(Failure::new("test", "too late"));
    assert_eq!(Box::pin(driver.run()).await, Stop::Core(StopReason::Left), "the first reason stands");
}

#[tokio::test]
async fn a_state_that_is_not_stored_is_told_once_a_minute() {
    let kept = Kept::default();
    let (mut driver, _requests, _silent) = tracing::dispatcher::with_default(&kept.dispatch(), driver);
    let lines = async |driver: &Driver, words: &str| {
        driver.parts.shared.journal.flush(Duration::from_secs(30)).await;
        kept.all().iter().filter(|line| line.contains(words)).count()
    };
    let told = async |driver: &Driver| lines(driver, "state not stored").await;
    for _ in 0..10 {
        driver.tell_not_stored("the disk is full");
    }
    assert_eq!(told(&driver).await, 1);
    assert_eq!(lines(&driver, "state stored again").await, 0);
    let stored = Some(Stored { incarnation_bound: 1, ballot_version: 0 });
    driver.written(Ok(Written { stored, error: Some("the disk is full".into()) }));
    assert_eq!(lines(&driver, "state stored again").await, 0, "what came after it is not stored");
    for _ in 0..2 {
        driver.written(Ok(Written { stored, error: None }));
        assert_eq!(lines(&driver, "state stored again").await, 1, "a success is told after a failure alone");
    }
    driver.told_not_stored = driver.told_not_stored.map(|at| at - NOT_STORED_TOLD_AGAIN_AFTER);
    driver.tell_not_stored("the disk is full");
    assert_eq!(told(&driver).await, 2);
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
#[tokio::test]
async fn a_tick_that_is_late_by_the_drivers_own_work_is_no_pause() {
    use super::workload::processor_time;
    let (mut driver, _requests, _silent) = driver();
    let work = Duration::from_secs(1);
    // Late by more than a pause, and by less than the work: on a busy machine not at the first try.
    for _ in 0..100 {
        driver.workload.begin_anew();
        let before_work = driver.workload;
        let until = processor_time().expect("counted here") + work;
        while processor_time().expect("counted here") < until {}
        driver.feed(Input::Tick);
        driver.workload = before_work;
        let deadline = driver.parts.core.next_deadline().expect("it runs");
        let wake = deadline.since(driver.parts.clock.now()) + Duration::from_millis(300);
        tokio::time::sleep(wake).await;
        let pauses = driver.parts.core.counters().pauses;
        let late = driver.parts.clock.now().since(deadline);
        driver.feed(Input::Tick);
        if late < work / 2 {
            assert_eq!(driver.parts.core.counters().pauses, pauses, "late by {late:?}");
            return;
        }
    }
    panic!("the machine is never in time");
}

#[tokio::test]
async fn datagrams_are_sealed_where_the_mode_says_so_and_for_those_who_may_be_there() {
    const CLEAR: u8 = 0;
    const UNBOUND: u8 = 1;
    const BOUND: u8 = 3;
    let (mut driver, ..) = driver();
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    peer.set_nonblocking(true).expect("set");
    let to = peer.local_addr().expect("bound");
    let header = Header { cluster: Header::cluster_hash("test"), run: Run(1), sequence: 1, fingerprint: 0 };
    let packet = PacketBuilder::new(&header, 1_000).finish();
    let member = Receiver::Run(Run(5));
    for (mode, receiver, expected) in [
        (SealMode::Off, member, vec![CLEAR]),
        (SealMode::Off, Receiver::Anybody, vec![CLEAR]),
        (SealMode::Permit, member, vec![CLEAR]),
        (SealMode::Prefer, member, vec![BOUND]),
        (SealMode::Prefer, Receiver::Anybody, vec![UNBOUND]),
        (SealMode::Require, member, vec![BOUND]),
        (SealMode::Require, Receiver::Anybody, vec![UNBOUND]),
    ] {
        let ring = KeyRing::new([key(1)]).expect("a key");
        driver.parts.sealing.set_policy(SealPolicy::new(mode, ring));
        driver.send_datagram(to, receiver, &packet);
        let mut buffer = [0; 2_048];
        let marks: Vec<u8> = std::iter::from_fn(|| peer.recv(&mut buffer).ok().map(|_| buffer[3])).collect();
        assert_eq!(marks, expected, "{mode} {receiver:?}");
    }
}

#[cfg(feature = "metrics")]
#[tokio::test]
async fn datagrams_that_are_taken_and_sealed_otherwise_are_noted_and_no_others() {
    let (mut driver, ..) = driver();
    let from = |number: u16| SocketAddr::from(([127, 0, 0, 1], number));
    let packet = |run| {
        let header = Header { cluster: Header::cluster_hash("test"), run, sequence: 1, fingerprint: 0 };
        PacketBuilder::new(&header, 1_000).finish()
    };
    let sealed = |number: u64| {
        let run = Run(number + 10);
        let mut sealer = crate::seal::DatagramSealer::new(run, "test");
        sealer.seal(&key(number as u8), None, &packet(run)).expect("a packet")
    };
    let mut noted = |mode| {
        let ring = KeyRing::new([key(1), key(2)]).expect("keys");
        driver.parts.sealing.set_policy(SealPolicy::new(mode, ring));
        // Of the key that seals here, of another one of the ring, of one that is not held, of none.
        for (number, bytes) in [(1, sealed(1)), (2, sealed(2)), (3, sealed(3)), (4, packet(Run(14)))] {
            driver.buffer[..bytes.len()].copy_from_slice(&bytes);
            let now = driver.parts.clock.now();
            driver.take_datagram(from(number), bytes.len(), now);
        }
        driver.parts.sealing.lately().1.into_iter().map(|(from, it)| (from.port(), it.key)).collect::<Vec<_>>()
    };
    assert_eq!(noted(SealMode::Off), []);
    assert_eq!(noted(SealMode::Require), [(2, Some(key(2).id()))]);
    assert_eq!(noted(SealMode::Prefer), [(4, None)], "the others were opened before");
}

#[test]
fn what_comes_while_the_backlog_is_read_is_not_part_of_it_for_ever() {
    let mut read = 0;
    // A socket that is never empty, and a clock that stands still.
    up_to_backlog(|| {
        read += 1;
        assert!(read <= MAX_BACKLOG);
        true
    });
    assert_eq!(read, MAX_BACKLOG);
    up_to_backlog(|| {
        read -= 1;
        read > 10
    });
    assert_eq!(read, 10, "it ends where there is nothing more");
}
