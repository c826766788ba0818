//! A flood of everything at once, from one that has no key: packets of many shapes, connections, requests. The agent's memory
//! keeps its bound, its health check is answered, and the crash of another member is noticed meanwhile.
#![cfg(all(feature = "agent", target_os = "linux"))]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use headcount::core::limits::MAX_MESSAGES_PER_PACKET;
use headcount::core::wire::{Header, Message, Nonce, PacketBuilder, Update};
use headcount::core::{NodeId, ProtocolRange, Record, Run, Status};
use headcount::{Profile, Tags};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Agent, memory_peak, wait_for};

/// Packets in one go, and the pause after them: ten thousand in a second, which leaves a busy machine time for the others.
const BURST: usize = 100;
const BURST_PAUSE: Duration = Duration::from_millis(10);
/// Connections for links, and for HTTP: more than an agent has places for.
const LINKS: usize = 200;
const REQUESTERS: usize = 1_300;
/// Requests on one connection, of which no answer is read.
const PIPELINED: usize = 20;

/// Has all the descriptors that this process may have.
fn raise_descriptors() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("known");
    setrlimit(Resource::RLIMIT_NOFILE, most.min(8_192), most).expect("allowed");
}

fn record(nth: u64) -> Record {
    Record {
        id: NodeId::new(&format!("flood-{nth}")).expect("a name"),
        run: Run(0xbad_0000 + nth),
        incarnation: 1_700_000_000_000 + nth,
        status: Status::Up,
        address: SocketAddr::from(([127, 66, (nth >> 8) as u8, nth as u8], 9)),
        api_address: None,
        tags: Tags::default(),
        timing: Profile::Local.settings().timing().expect("a profile"),
        version: "0.1.0".into(),
        protocol: ProtocolRange::OURS,
    }
}

/// Returns the packet of this number: of ten shapes, one after the other.
fn packet(nth: u64, key_id: Option<[u8; 4]>) -> Vec<u8> {
    let cluster = Header::cluster_hash("headcount");
    let of_run = |run| Header { cluster, run, sequence: 1 + nth, fingerprint: nth };
    let filled = |header: Header, most: usize, message: &dyn Fn(u64) -> Message| {
        let mut packet = PacketBuilder::new(&header, 1_400);
        for number in 0..most as u64 {
            if !packet.push(&message(nth + number)) {
                break;
            }
        }
        packet.pad_to(256);
        packet.finish()
    };
    let run = Run(0xbad_0000 + nth);
    match nth % 10 {
        0 => vec![nth as u8; 1 + nth as usize % 1_400],
        1 => b"HC\x01\0".to_vec(),
        2 => filled(of_run(run), MAX_MESSAGES_PER_PACKET, &|_| Message::Reply),
        3 => filled(Header::anonymous(cluster), MAX_MESSAGES_PER_PACKET, &|_| Message::Unheard),
        4 => filled(of_run(run), 100, &|number| Message::WhoAreYou { nonce: Nonce(number), echo: None }),
        5 => filled(of_run(run), 100, &|number| Message::Update(Update { note: None, record: record(number) })),
        6 => {
            let joining = Record { status: Status::Joining, ..record(nth) };
            filled(of_run(run), 1, &|number| Message::Join {
                nonce: Nonce(number),
                record: joining.clone(),
                cookie: Some(Nonce(7)),
            })
        }
        7 => filled(of_run(run), 100, &|number| Message::Probe { nonce: Nonce(number) }),
        8 => filled(of_run(run), 1, &|_| Message::Pull { after: None, pages: 8 }),
        // Claims to be sealed, by a member of its own each.
        _ => {
            let mut bytes = b"HC\x01\x01".to_vec();
            bytes.extend_from_slice(&run.0.to_le_bytes());
            bytes.extend_from_slice(&key_id.unwrap_or_default());
            bytes.resize(1_200, nth as u8);
            bytes
        }
    }
}

fn send_packets(to: SocketAddr, key_id: Option<[u8; 4]>, is_over: &AtomicBool) -> u64 {
    let sockets: Vec<_> = (0..8).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            let _ = sockets[sent as usize % sockets.len()].send_to(&packet(sent, key_id), to);
            sent += 1;
        }
        std::thread::sleep(BURST_PAUSE);
    }
    sent
}

/// Holds so many connections open, each with these bytes said, and opens those anew that are closed.
fn hold(to: SocketAddr, most: usize, says: &[Vec<u8>], opened: &AtomicUsize, is_over: &AtomicBool) {
    let open = |nth: usize| {
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(1)).ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = stream.write(&says[nth % says.len()]);
        opened.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    };
    let mut held: Vec<Option<TcpStream>> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if held.len() < most {
            held.push(open(held.len()));
            continue;
        }
        for (nth, place) in held.iter_mut().enumerate() {
            // A byte now and then is no reading.
            let is_closed = place.as_mut().is_none_or(|stream| matches!(stream.read(&mut [0]), Ok(0)));
            if is_closed {
                *place = open(nth);
            }
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

fn requests(host: &str) -> Vec<Vec<u8>> {
    let get = |path: &str, times| format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").repeat(times);
    let body = format!("PUT /v1/tags HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n");
    [
        get("/metrics", PIPELINED),
        get("/metrics", PIPELINED),
        get("/openapi.json", PIPELINED),
        get("/v1/members", PIPELINED),
        get("/v1/events?snapshot=true", 1),
        format!("GET /metrics HTTP/1.1\r\nx: {}", "y".repeat(15_000)),
        format!("{body}content-length: 65000\r\n\r\n{}", "z".repeat(60_000)),
    ]
    .map(String::into_bytes)
    .into()
}

/// Returns the status in which an agent lists a member; `None` if it does not list it, or does not answer in time.
fn status(agent: &Agent, name: &str) -> Option<String> {
    let answer = agent.get(&format!("/v1/members/{name}"));
    let member: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    Some(member["status"].as_str()?.to_owned())
}

fn is_flooded(seal: &[&str], key_id: Option<[u8; 4]>) {
    raise_descriptors();
    let a = Agent::start("a", &[], seal);
    let b = Agent::start("b", &[&a.gossip], seal);
    let mut c = Agent::start("c", &[&a.gossip], seal);
    for agent in [&a, &b, &c] {
        agent.wait_for_up(&["a", "b", "c"]);
    }
    // A reader that is there keeps its place; a newcomer among a thousand others waits for some seconds.
    let watches = [a.watch(), b.watch()];
    let before = [&a, &b].map(memory_peak);
    let (gossip, http): (SocketAddr, SocketAddr) =
        (a.gossip.parse().expect("an address"), a.http.parse().expect("an address"));
    let (is_over, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
    let frames = [
        b"".to_vec(),
        vec![0xff; 8],
        b"\0\0\0\x19HC\x01\0".to_vec(),
        [b"\0\x01\0\0".to_vec(), vec![7; 60_000]].concat(),
    ];
    let sent = std::thread::scope(|scope| {
        let packets = scope.spawn(|| send_packets(gossip, key_id, &is_over));
        scope.spawn(|| hold(gossip, LINKS, &frames, &AtomicUsize::new(0), &is_over));
        scope.spawn(|| hold(http, REQUESTERS, &requests(&a.http), &opened, &is_over));
        // It ends whatever the checks find.
        let end = End(&is_over);
        wait_for("more connections than there are places for", || {
            (opened.load(Ordering::Relaxed) >= REQUESTERS).then_some(())
        });
        c.signal(Signal::SIGKILL);
        c.wait();
        for (agent, watch) in [&a, &b].into_iter().zip(&watches) {
            watch.wait_for("c", "node_detected_down");
            let is_healthy = || agent.get("/healthz").starts_with("HTTP/1.1 200 ").then_some(());
            wait_for(&format!("{} is healthy", agent.name), is_healthy);
        }
        std::thread::sleep(Duration::from_secs(2));
        drop(end);
        packets.join().expect("it sent")
    });
    assert!(sent > 5_000, "{sent} packets");
    for (agent, before) in [&a, &b].into_iter().zip(before) {
        memory_peak(agent).assert_bounded_since(before);
    }
    wait_for(&format!("all is well again\n{}", a.log()), || {
        let is_up = |agent: &Agent| ["a", "b"].iter().all(|name| status(agent, name).as_deref() == Some("up"));
        (is_up(&a) && is_up(&b)).then_some(())
    });
}

/// Ends the flood when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_flood_of_everything_at_once_neither_fills_a_clear_agent_nor_hides_a_crash_from_it() {
    is_flooded(&[], None);
}

#[test]
fn a_flood_of_everything_at_once_neither_fills_a_sealed_agent_nor_hides_a_crash_from_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("cluster.key");
    support::generate_key(&path);
    let text = std::fs::read_to_string(&path).expect("a key file");
    let key = headcount::seal::KeyFile::parse(&text).expect("keys").ring().expect("keys").ids()[0];
    // The forged ones name the right key, which travels in clear: each is decrypted in vain.
    is_flooded(&["--key-file", path.to_str().expect("a text")], Some(key.0));
}
