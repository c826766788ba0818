//! Links whose frames are sealed, and those on the way to it.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::GREETING_TIMEOUT;
use super::connection::MAX_GREETING_BYTES;
use super::tests::{OPENED, journal, links_sealed, next, taken, time_of};
use super::*;
use crate::config::key;
use crate::core::limits::{LINK_TIMEOUT, MAX_FRAME_BYTES};
use crate::core::{Run, Unopened};
use crate::seal::{KeyRing, SealMode, turned_down};
use crate::transport::sealing::SealPolicy;

/// Starts the links of an agent that seals with these keys.
fn sealed(run: u64, mode: SealMode, keys: &[u8]) -> (Links, SocketAddr, Sealing) {
    let ring = KeyRing::new(keys.iter().map(|number| key(*number))).expect("keys");
    let sealing = Sealing::new(Run(run), "test", SealPolicy::new(mode, ring), journal());
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let address = listener.local_address();
    let (links, address, _) = links_sealed(listener, 1_000, sealing.clone(), address);
    (links, address, sealing)
}

#[tokio::test]
async fn sealed_frames_of_any_size_travel_both_ways() {
    let ((mut a, _, _), (mut b, address, _)) = (sealed(1, SealMode::Require, &[1]), sealed(2, SealMode::Require, &[1]));
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    a.send(OPENED, b"hello".to_vec());
    let (accepted, event) = next(&mut b).await;
    assert!(matches!(event, Event::Frame(_, bytes) if bytes == b"hello"[..]));
    for size in [0, 1, 1_400, MAX_FRAME_BYTES] {
        b.send(accepted, vec![7; size]);
        assert!(matches!(next(&mut a).await, (_, Event::Frame(_, bytes)) if bytes == vec![7; size]), "{size} bytes");
    }
}

#[tokio::test]
async fn a_connection_that_is_not_sealed_is_closed_at_once_and_an_agent_alone_is_told_why() {
    let (links, address, sealing) = sealed(1, SealMode::Require, &[1]);
    let long = [&b"\0\0\x01\0HC\x01\0"[..], &[0; 252]].concat();
    let told = [&b"\0\0\0\x05"[..], &turned_down(Unopened::KeyNeeded)].concat();
    let agents: [&[u8]; 2] = [b"\0\0\0\x04HC\x01\0", &long];
    let others: [&[u8]; 3] = [b"GET / HTTP/1.1\r\n\r\n", &[0, 0, 4, 0], &[0; 64]];
    for (first, expected) in
        agents.map(|first| (first, &told[..])).into_iter().chain(others.map(|first| (first, &[][..])))
    {
        let mut stream = TcpStream::connect(address).await.expect("listening");
        stream.write_all(first).await.expect("sent");
        let mut answer = Vec::new();
        // Sooner than one that waits for the rest of a greeting is closed.
        let ended = timeout(GREETING_TIMEOUT / 2, stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "{first:?} is not waited for");
        assert_eq!(answer, expected, "{first:?}");
        assert!(answer.len() <= 16, "it says no more");
    }
    assert_eq!(sealing.refused()[0], 3, "counted, and the empty frame");
    assert_eq!(links.counters().turned_away(), 0);
}

#[tokio::test]
async fn a_first_frame_as_long_as_a_greeting_is_waited_for_and_a_longer_one_is_not() {
    for (length, is_waited_for) in [(MAX_GREETING_BYTES, true), (MAX_GREETING_BYTES + 1, false)] {
        let (_links, address, _) = sealed(1, SealMode::Require, &[1]);
        let mut stream = TcpStream::connect(address).await.expect("listening");
        stream.write_all(&(length as u32).to_be_bytes()).await.expect("sent");
        let begin = tokio::time::Instant::now();
        let ended = timeout(LINK_TIMEOUT, stream.read(&mut [0; 1])).await.expect("it ends, sooner or later");
        assert!(matches!(ended, Ok(0) | Err(_)));
        assert_eq!(begin.elapsed() >= GREETING_TIMEOUT / 2, is_waited_for, "{length} bytes");
    }
}

#[tokio::test]
async fn who_does_not_greet_soon_is_closed() {
    let (links, address, _) = sealed(1, SealMode::Require, &[1]);
    let begin = tokio::time::Instant::now();
    let mut stream = TcpStream::connect(address).await.expect("listening");
    stream.write_all(&[0, 0, 0]).await.expect("sent");
    taken(&links).await;
    let time = time_of(&links, &mut stream, begin).await;
    assert!((GREETING_TIMEOUT..LINK_TIMEOUT / 2).contains(&time), "not as long as a frame: {time:?}");
}

#[tokio::test]
async fn who_greets_and_then_says_nothing_is_closed_when_its_time_is_over() {
    let (links, address, _) = sealed(2, SealMode::Require, &[1]);
    let (_other, _, member) = sealed(1, SealMode::Require, &[1]);
    let begin = tokio::time::Instant::now();
    let mut stream = TcpStream::connect(address).await.expect("listening");
    let greeting = member.link(true).expect("random numbers").greeting(&key(1));
    stream.write_all(&(greeting.len() as u32).to_be_bytes()).await.expect("sent");
    stream.write_all(&greeting).await.expect("sent");
    assert!(stream.read(&mut [0; 128]).await.expect("open") > 0, "the greeting is answered");
    let time = time_of(&links, &mut stream, begin).await;
    assert!((LINK_TIMEOUT..LINK_TIMEOUT * 3 / 2).contains(&time), "{time:?}");
}

#[tokio::test]
async fn a_frame_that_waits_is_not_sent_clear_once_sealing_is_required() {
    let ((mut a, _, at_a), (mut b, address, _)) =
        (sealed(1, SealMode::Permit, &[1]), sealed(2, SealMode::Permit, &[1]));
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    a.send(OPENED, b"hello".to_vec());
    let (accepted, event) = next(&mut b).await;
    assert!(matches!(event, Event::Frame(..)));
    // Both before the task of the connection has a turn.
    at_a.set_policy(SealPolicy::new(SealMode::Require, KeyRing::new([key(1)]).expect("a key")));
    a.send(OPENED, b"a secret".to_vec());
    assert_eq!(next(&mut b).await, (accepted, Event::Closed), "and not the frame");
}

#[tokio::test]
async fn ends_without_a_key_in_common_close_their_connection_and_its_opener_learns_why() {
    use SealMode::{Off, Permit, Prefer, Require};
    let cases = [
        ((Require, 1), (Require, 2), Unopened::OtherKey),
        ((Require, 1), (Off, 2), Unopened::NoKeys),
        ((Prefer, 1), (Off, 1), Unopened::NoKeys),
        ((Off, 1), (Require, 1), Unopened::KeyNeeded),
        ((Permit, 1), (Require, 1), Unopened::KeyNeeded),
    ];
    for ((mode, key), (other_mode, other_key), why) in cases {
        let ((mut a, _, at_a), (_b, address, at_b)) = (sealed(1, mode, &[key]), sealed(2, other_mode, &[other_key]));
        a.open(OPENED, address);
        assert_eq!(next(&mut a).await, (OPENED, Event::Connected), "the kernel takes it");
        // Its first word, longer than any greeting if it is clear.
        a.send(OPENED, [&b"HC\x01\0"[..], &[0; 252]].concat());
        assert_eq!(next(&mut a).await, (OPENED, Event::Unopened(why)), "{mode} to {other_mode}");
        let lacked = usize::from(why != Unopened::KeyNeeded);
        assert_eq!(
            (at_a.refused(), at_b.refused()[3]),
            ([0; crate::seal::SealError::COUNT], lacked as u64),
            "who lacks the key knows"
        );
    }
}

#[tokio::test]
async fn the_opener_in_a_cluster_of_another_name_learns_that() {
    let (mut a, _, _) = sealed(1, SealMode::Require, &[1]);
    let ring = KeyRing::new([key(1)]).expect("a key");
    let sealing = Sealing::new(Run(2), "other", SealPolicy::new(SealMode::Require, ring), journal());
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let address = listener.local_address();
    let (_b, address, _) = links_sealed(listener, 1_000, sealing, address);
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    assert_eq!(next(&mut a).await, (OPENED, Event::Unopened(Unopened::OtherCluster)));
}

#[tokio::test]
async fn who_does_not_open_is_believed_in_the_first_frame_alone_and_by_the_opener_alone() {
    let told = turned_down(Unopened::OtherKey).to_vec();
    let ((mut a, _, _), (mut b, address, _)) = (sealed(1, SealMode::Off, &[1]), sealed(2, SealMode::Off, &[1]));
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    a.send(OPENED, told.clone());
    let (accepted, event) = next(&mut b).await;
    assert!(matches!(event, Event::Frame(_, bytes) if bytes == told[..]), "of the opener it is a frame like others");
    for frame in [b"hello".to_vec(), told] {
        b.send(accepted, frame.clone());
        assert!(matches!(next(&mut a).await, (_, Event::Frame(_, bytes)) if bytes == frame[..]), "and later");
    }
}

#[tokio::test]
async fn keys_are_changed_under_a_link_that_stands() {
    let ((mut a, _, at_a), (mut b, address, at_b)) =
        (sealed(1, SealMode::Require, &[1]), sealed(2, SealMode::Require, &[1]));
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    for keys in [&[1, 2][..], &[2, 1], &[2]] {
        for sealing in [&at_a, &at_b] {
            let ring = KeyRing::new(keys.iter().map(|number| key(*number))).expect("keys");
            sealing.set_policy(SealPolicy::new(SealMode::Require, ring));
        }
        a.send(OPENED, b"hello".to_vec());
        assert!(matches!(next(&mut b).await, (_, Event::Frame(..))), "{keys:?}");
    }
}

#[tokio::test]
async fn a_clear_link_ends_when_sealing_becomes_required_and_not_before() {
    let ((mut a, _, at_a), (mut b, address, _)) =
        (sealed(1, SealMode::Permit, &[1]), sealed(2, SealMode::Prefer, &[1]));
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    a.send(OPENED, b"hello".to_vec());
    let (accepted, _) = next(&mut b).await;
    let ring = || KeyRing::new([key(1)]).expect("a key");
    at_a.set_policy(SealPolicy::new(SealMode::Prefer, ring()));
    b.send(accepted, b"still clear".to_vec());
    assert!(matches!(next(&mut a).await, (_, Event::Frame(_, bytes)) if bytes == b"still clear"[..]));
    at_a.set_policy(SealPolicy::new(SealMode::Require, ring()));
    assert_eq!(next(&mut a).await, (OPENED, Event::Closed));
    assert_eq!(next(&mut b).await, (accepted, Event::Closed));
}

#[tokio::test]
async fn who_sends_clear_and_who_sends_sealed_frames_have_links_both_ways() {
    for (opener, acceptor) in [(SealMode::Prefer, SealMode::Permit), (SealMode::Permit, SealMode::Prefer)] {
        let ((mut a, _, _), (mut b, address, _)) = (sealed(1, opener, &[1]), sealed(2, acceptor, &[1]));
        a.open(OPENED, address);
        assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
        a.send(OPENED, b"hello".to_vec());
        let (accepted, _) = next(&mut b).await;
        b.send(accepted, b"yes".to_vec());
        assert!(matches!(next(&mut a).await, (_, Event::Frame(_, bytes)) if bytes == b"yes"[..]), "{opener}");
    }
}

/// Whoever recorded a greeting may play it again on any connection, and cannot go on from there.
#[tokio::test]
async fn recorded_greetings_take_no_place_from_the_links_of_other_hosts() {
    let (mut b, address, _) = sealed(2, SealMode::Require, &[1]);
    let (_recorded, _, member) = sealed(3, SealMode::Require, &[1]);
    let greeting = member.link(true).expect("random numbers").greeting(&key(1));
    let mut played = Vec::new();
    for nth in 0..MAX_SILENT + 20 {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0))).expect("of loopback");
        let mut stream = socket.connect(address).await.expect("listening");
        stream.write_all(&(greeting.len() as u32).to_be_bytes()).await.expect("sent");
        stream.write_all(&greeting).await.expect("sent");
        assert!(stream.read(&mut [0; 128]).await.expect("open") > 0, "{nth} is answered");
        played.push(stream);
    }
    assert!(b.counters().turned_away() >= 20, "they take places from each other");
    let (mut a, _, _) = sealed(1, SealMode::Require, &[1]);
    a.open(OPENED, address);
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    a.send(OPENED, b"hello".to_vec());
    assert!(matches!(next(&mut b).await, (_, Event::Frame(_, bytes)) if bytes == b"hello"[..]));
}

#[tokio::test]
async fn who_takes_a_connection_and_does_not_greet_is_given_up() {
    let (mut a, _, _) = sealed(1, SealMode::Require, &[1]);
    // A process that stands still: its kernel takes the connection.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    a.open(OPENED, listener.local_addr().expect("bound"));
    assert_eq!(next(&mut a).await, (OPENED, Event::Connected));
    let _silent = listener.accept().await.expect("accepted");
    let begin = tokio::time::Instant::now();
    let ended = timeout(2 * LINK_TIMEOUT, a.next()).await.expect("not waited for without end");
    assert_eq!(ended.expect("connections are accepted"), (OPENED, Event::Closed));
    assert!(begin.elapsed() > LINK_TIMEOUT / 2, "and it had its time");
}
