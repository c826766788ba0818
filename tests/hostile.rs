//! Bytes that nobody should send, against a running agent: it stays up, its members stay what they are, and what it
//! dropped is counted.

mod support;

use std::net::UdpSocket;

use rand::{Rng, RngExt, SeedableRng};
use support::{Agent, wait_for};

const PACKETS: usize = 10_000;

#[test]
fn random_mutated_and_replayed_datagrams_change_nothing_and_are_counted() {
    let mut a = Agent::start("a", &[], &[]);
    let b = Agent::start("b", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b"]);
    let recorded = record_packets_of(&b);
    let before = a.members();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(11);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for i in 0..PACKETS {
        let mut bytes = recorded[rng.random_range(0..recorded.len())].clone();
        match i % 3 {
            0 => {
                bytes = vec![0; rng.random_range(0..1_400)];
                rng.fill_bytes(&mut bytes);
            }
            1 => {
                let at = rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
            _ => {}
        }
        socket.send_to(&bytes, &a.gossip).expect("sent");
        if i % 100 == 0 {
            // Not to fill the receive buffer: the agent must see these, not the kernel drop them.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    let malformed = r#"headcount_dropped_total{reason="malformed"}"#;
    wait_for("most of the nonsense is counted", || (a.metric(malformed) >= 2_000.0).then_some(()));
    assert!(a.is_running(), "{}", a.log());
    assert_eq!(a.members(), before);
}

/// Returns real packets: a member's questions and a joiner's, caught by a socket that both are sent to.
fn record_packets_of(agent: &Agent) -> Vec<Vec<u8>> {
    let trap = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    trap.set_read_timeout(Some(support::PATIENCE)).expect("set");
    let address = trap.local_addr().expect("bound").to_string();
    let _lured = Agent::start("lured", &[&address], &[]);
    let (status, _) = agent.client(&["join", &address]);
    assert_eq!(status.code(), Some(1), "nobody answers there");
    let mut buffer = [0; 2_048];
    (0..10)
        .map(|_| {
            let length = trap.recv(&mut buffer).expect("it is asked");
            buffer[..length].to_vec()
        })
        .collect()
}

#[test]
fn broken_http_requests_harm_nobody() {
    let mut a = Agent::start("a", &[], &[]);
    a.wait_for_up(&["a"]);
    let huge_header = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let requests: [&[u8]; 8] = [
        b"",
        b"\0\0\0\0",
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/join HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n{\"add",
        b"POST /v1/join HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n{}",
        b"GET /v1/members/%ff%fe HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
        huge_header.as_bytes(),
    ];
    for request in requests {
        a.raw_http(request);
    }
    let answer = a.get("/healthz");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(a.is_running(), "{}", a.log());
    a.wait_for_up(&["a"]);
}
