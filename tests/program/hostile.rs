//! Bytes that nobody should send, against a running agent: it stays up, its members stay what they are, and what it
//! dropped is counted.

use std::net::UdpSocket;
use std::process::{Command, Stdio};

use crate::support::{Agent, HEADCOUNT, wait_for};
use rand::{Rng, RngExt, SeedableRng};
use serde_json::Value;

const PACKETS: usize = 10_000;
/// Packets that are sent again at a time.
const BURST: usize = 100;

#[test]
fn random_mutated_and_replayed_datagrams_change_nothing_and_are_counted() {
    // Whoever reads the packets of a clear cluster may say what members say.
    send_nonsense_to(&[], &[("malformed", 2_000.0)]);
}

#[test]
fn a_sealed_cluster_takes_no_datagram_that_is_not_its_own_and_says_which_it_dropped() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = directory.path().join("cluster.key");
    crate::support::generate_key(&key);
    let key = key.to_str().expect("a text");
    let reasons = [("unsealed", 2_000.0), ("sealed_forged", 1_000.0), ("sealed_replayed", 2_000.0)];
    let answered = send_nonsense_to(&["--key-file", key], &reasons);
    assert!(answered <= RECORDED, "what was recorded counts once: {answered} answers");
}

/// Sends an agent random bytes, recorded packets with one bit changed, and recorded packets, while it is in a cluster with
/// another one; returns the number of answers.
fn send_nonsense_to(seal: &[&str], reasons: &[(&str, f64)]) -> usize {
    let mut a = Agent::start("a", &[], seal);
    let b = Agent::start("b", &[&a.gossip], seal);
    a.wait_for_up(&["a", "b"]);
    let (watch, own_watch) = (b.watch(), a.watch());
    let recorded = record_packets_of(&b, seal);
    let before = a.members();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(11);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut sent = 0;
    let mut throw = |i: usize| {
        let mut bytes = recorded[rng.random_range(0..recorded.len())].clone();
        match i % 3 {
            0 => {
                bytes = vec![0; rng.random_range(0..1_400)];
                rng.fill_bytes(&mut bytes);
            }
            1 => {
                let at = rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
                if !seal.is_empty() && i.is_multiple_of(2) {
                    // Under another run: what bears a number that was seen is not even looked at.
                    rng.fill_bytes(&mut bytes[4..12]);
                }
            }
            _ => {}
        }
        socket.send_to(&bytes, &a.gossip).expect("sent");
        sent += bytes.len();
        if i.is_multiple_of(100) {
            // Not to fill the receive buffer: the agent must see these, not the kernel drop them.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    (0..PACKETS).for_each(&mut throw);
    // What the kernel dropped, since the agent had no processor for a while, is sent again.
    let lost = || a.metric("headcount_receive_buffer_overflows_total") as usize;
    let mut more = PACKETS..;
    for (reason, least) in reasons {
        wait_for(&format!("most of the nonsense is counted: {reason}"), || {
            if a.metric(&format!("headcount_dropped_total{{reason=\"{reason}\"}}")) >= *least {
                return Some(());
            }
            let missing = (lost() + PACKETS).saturating_sub(more.start);
            more.by_ref().take(missing.min(BURST)).for_each(&mut throw);
            None
        });
    }
    assert!(a.is_running(), "{}", a.log());
    wait_for("its members are what they were", || (a.members() == before).then_some(()));
    // A machine that stands still for a second has it suspect the other one, and take that back.
    let told: Vec<_> = own_watch.events().iter().map(|event| (event["event"].clone(), event["node"].clone())).collect();
    let is_pause =
        |(kind, node): &(Value, Value)| *node == *b.name && (kind == "node_suspected" || kind == "node_recovered");
    assert!(told.iter().all(is_pause), "{told:?}");
    assert!(b.client(&["tags", "told=later"]).0.success());
    watch.wait_for(&b.name, "node_updated");
    assert_eq!(watch.about("a"), [""; 0], "nor does the other one see anything");
    socket.set_nonblocking(true).expect("set");
    let answers: Vec<usize> = std::iter::from_fn(|| socket.recv(&mut [0; 2_048]).ok()).collect();
    assert!(answers.iter().sum::<usize>() <= sent, "no more bytes than were sent");
    answers.len()
}

/// The number of packets that are recorded.
const RECORDED: usize = 10;

/// Returns real packets: a member's questions and a joiner's, caught by a socket that both are sent to.
fn record_packets_of(agent: &Agent, seal: &[&str]) -> Vec<Vec<u8>> {
    let trap = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    trap.set_read_timeout(Some(crate::support::PATIENCE)).expect("set");
    let address = trap.local_addr().expect("bound").to_string();
    let _lured = Agent::start("lured", &[&address], seal);
    // Nobody answers there, which takes its time to be found out.
    let mut join = Command::new(HEADCOUNT);
    join.args(["join", &address, "--http", &agent.http]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut join = join.spawn().expect("it runs");
    let mut buffer = [0; 2_048];
    let mut record = || {
        let length = trap.recv(&mut buffer).expect("it is asked");
        buffer[..length].to_vec()
    };
    let recorded = (0..RECORDED).map(|_| record()).collect();
    join.kill().and_then(|()| join.wait()).expect("it ends");
    recorded
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
