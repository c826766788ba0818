//! Reflection: bytes that go to an address because of packets whose source is forged are bounded by those of the forger.

use std::net::SocketAddr;
use std::time::Duration;

use super::liars::{Liar, update};
use super::limits::Alone;
use super::net::{Net, ms};
use crate::core::doors::{Input, Output};
use crate::core::limits::{MIN_QUESTION_BYTES, UNPROVEN_BURST, UNPROVEN_PER_SECOND};
use crate::core::member::tests::record;
use crate::core::member::{Record, Run, Status};
use crate::core::settings::Profile;
use crate::core::wire::{Header, Message, Nonce, PacketBuilder};

const HONEST: usize = 5;
const SPELL: Duration = Duration::from_secs(10);

fn victim(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 9, 9, 9], port))
}

fn ghost(net: &Net, port: u16) -> Record {
    let mut record = record(&format!("z{port:05}"), 1_000_000, Status::Up);
    (record.run, record.address) = (Run(0xe_0000 + u64::from(port)), victim(port));
    record.timing = net.settings.timing().expect("good settings");
    record
}

fn forged(run: Run, sequence: u64, messages: &[Message]) -> Vec<u8> {
    let header = Header { cluster: Header::cluster_hash("test"), run, sequence, fingerprint: 7 };
    let mut packet = PacketBuilder::new(&header, 1400);
    for message in messages {
        assert!(packet.push(message));
    }
    packet.finish()
}

/// Returns the bytes that all nodes sent to the victim.
fn reflected(net: &Net) -> usize {
    net.undelivered.iter().filter(|(to, _)| to.ip() == victim(1).ip()).map(|(_, bytes)| bytes.len()).sum()
}

/// Every kind of message that a stranger may say, and that members say.
fn kinds(net: &Net, port: u16) -> Vec<Vec<Message>> {
    let (run, record) = (net.nodes[0].core.me().run, ghost(net, port));
    let joining = Record { status: Status::Joining, ..record.clone() };
    vec![
        vec![],
        vec![Message::Probe { nonce: Nonce(1), doubted: false }],
        vec![Message::WhoAreYou { nonce: Nonce(1), echo: None }],
        vec![Message::IAm { nonce: Nonce(1), record: record.clone() }],
        vec![Message::Join { nonce: Nonce(1), record: joining, cookie: None }],
        vec![Message::Pull { after: None, pages: 8 }],
        vec![Message::LastHeard { run }],
        vec![Message::Severed { run, age_ms: 1, is_sure: true }],
        vec![Message::Digest { buckets: vec![0; 4 * crate::core::view::BUCKETS] }],
        vec![Message::Want { buckets: [0xff; crate::core::view::BUCKETS / 8] }],
        vec![Message::WhoLeads],
        vec![Message::ReachMe { nonce: Nonce(1), address: victim(port) }],
        vec![update(record)],
    ]
}

/// Has packets come from so many ports of the victim, and says how many bytes went there for each that came: those of
/// members that others name, or those of nobody known.
fn factor(ports: u16, is_named: bool, kind: usize, pause: Duration) -> f64 {
    let mut net = Net::linked(Profile::Local, HONEST);
    let liar = net.add("liar", 90, &[0]);
    net.run(Duration::from_secs(2));
    net.undelivered.clear();
    let mut sent = 0;
    let liar = Liar::new(liar);
    if is_named {
        for port in 1..=ports {
            let word = update(ghost(&net, port));
            sent += MIN_QUESTION_BYTES;
            liar.says(&mut net, usize::from(port) % HONEST, &[word]);
        }
    }
    let until = net.now + SPELL;
    let mut sequence = 0;
    while net.now < until {
        for port in 1..=ports {
            sequence += 1;
            let says = &kinds(&net, port)[kind];
            let bytes = forged(Run(0xe_0000 + u64::from(port)), sequence, says);
            for node in 0..HONEST {
                sent += bytes.len();
                net.input(node, Input::Packet { from: victim(port), bytes: &bytes });
            }
        }
        net.run(pause);
    }
    // Each node sends members an allowance, whatever came.
    let spell = SPELL.as_secs() as usize;
    let allowance = if is_named { HONEST * (UNPROVEN_BURST + UNPROVEN_PER_SECOND * spell) } else { 0 };
    reflected(&net).saturating_sub(allowance) as f64 / sent as f64
}

#[test]
fn an_address_gets_no_more_than_three_times_the_bytes_that_came_in_its_name() {
    let mut worst = Vec::new();
    for (ports, is_named) in [(1, false), (1, true), (14, true)] {
        for kind in 0..13 {
            for pause in [ms(100), ms(900)] {
                let factor = factor(ports, is_named, kind, pause);
                // A stranger is answered, and is sent nothing else.
                let most = if is_named { 3.0 } else { 1.0 };
                if factor > most {
                    worst.push((ports, is_named, kind, pause, factor));
                }
            }
        }
    }
    assert!(worst.is_empty(), "{worst:#?}");
}

#[test]
fn an_answer_by_way_of_an_address_that_a_joiner_names_is_paid_for_by_its_host() {
    let mut alone = Alone::new(0);
    let left = |alone: &Alone| alone.core.credit.left(alone.now, victim(2));
    assert_eq!(left(&alone), UNPROVEN_BURST);
    let sent = alone.hand_in(super::net::address(5), Run(0xe), |packet| {
        packet.push(&Message::ReachMe { nonce: Nonce(1), address: victim(1) });
        packet.pad_to(MIN_QUESTION_BYTES);
    });
    assert!(matches!(sent[..], [(to, Message::Reached { .. })] if to == victim(1)), "{sent:?}");
    let paid = UNPROVEN_BURST - left(&alone);
    assert!((1..=MIN_QUESTION_BYTES).contains(&paid), "{paid} bytes, for all ports of the host");
}

#[test]
fn whoever_says_that_it_is_elsewhere_brings_that_address_no_more_than_it_sent() {
    let mut alone = Alone::new(0);
    let (from, run) = (SocketAddr::from(([10, 8, 8, 8], 7117)), Run(0xe));
    let mut record = record("far", 5, Status::Up);
    (record.run, record.address) = (run, victim(1));
    let nonce = alone.core.prover.nonce(from, alone.now);
    let bytes = forged(run, 1, &[Message::IAm { nonce, record }]);
    alone.core.handle(alone.now, Input::Packet { from, bytes: &bytes });
    let sent: Vec<usize> = alone
        .outputs()
        .into_iter()
        .filter_map(|output| match output {
            Output::Transmit { to, bytes, .. } if to == victim(1) => Some(bytes.len()),
            _ => None,
        })
        .collect();
    assert!(matches!(sent[..], [asked] if asked <= bytes.len()), "{sent:?} bytes for {}", bytes.len());
}
