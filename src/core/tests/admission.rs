//! Claims on a sponsor's time: by invented members, idle joiners, crowds of one host.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::net::{Net, address, birth, ms};
use headcount_core::limits::{INCARNATION_STEP, MIN_QUESTION_BYTES};
use headcount_core::testing::record;
use headcount_core::wire::{Header, Message, Nonce, Packet, PacketBuilder};
use headcount_core::{CoreInit, Input, Profile, Run, Status};

/// Joins as an attacker does: brings the cookie, and does not pull unless told to.
struct Speaker {
    address: SocketAddr,
    run: Run,
    sequence: u64,
    cookies: BTreeMap<usize, Nonce>,
}

impl Speaker {
    fn new(address: SocketAddr, run: u64) -> Self {
        Self { address, run: Run(run), sequence: 0, cookies: BTreeMap::new() }
    }

    fn send(&mut self, net: &mut Net, to: usize, message: &Message) -> Vec<Message> {
        self.sequence += 1;
        let header =
            Header { cluster: Header::cluster_hash("test"), run: self.run, sequence: self.sequence, fingerprint: 0 };
        let mut packet = PacketBuilder::new(&header, 1_400);
        packet.push(message);
        packet.pad_to(MIN_QUESTION_BYTES);
        let (sent, seen) = (net.sent.replace(Vec::new()), self.address);
        net.input(to, Input::Packet { from: self.address, bytes: &packet.finish() });
        let answers = std::mem::replace(&mut net.sent, sent).unwrap_or_default();
        let to_me = answers.into_iter().filter(|(_, to, _)| *to == seen);
        to_me.flat_map(|(_, _, bytes)| Packet::decode(&bytes).expect("decodes").messages).collect()
    }

    /// Sends one `Join`, with the cookie of the last challenge.
    fn ask(&mut self, net: &mut Net, to: usize, name: &str) -> Vec<Message> {
        let mut record = record(name, 5, Status::Joining);
        (record.run, record.address) = (self.run, self.address);
        let cookie = self.cookies.get(&to).copied();
        let answer = self.send(net, to, &Message::Join { nonce: Nonce(5), record, cookie });
        for message in &answer {
            if let Message::Challenge { cookie, .. } = message {
                self.cookies.insert(to, *cookie);
            }
        }
        answer
    }

    fn pull(&mut self, net: &mut Net, to: usize) {
        self.send(net, to, &Message::Pull { after: None, pages: 8 });
    }
}

/// Has six hostile runs, of these addresses, ask three nodes 90 times a second in all while an honest node joins.
fn honest_joins_among(speakers: &mut [Speaker], do_pull: bool) {
    let mut net = Net::cluster(Profile::Local, 3);
    let mut honest = None;
    let began = net.now;
    for tick in 0..400_usize {
        let speaker = &mut speakers[tick % 6];
        let target = (tick / 6) % 3;
        let name = format!("speaker{}", speaker.run.0);
        speaker.ask(&mut net, target, &name);
        if do_pull {
            speaker.pull(&mut net, target);
        }
        net.run(ms(11));
        if tick == 100 {
            honest = Some(net.add("honest", 150, &[0]));
        }
        if let Some(honest) = honest
            && net.nodes[honest].core.is_up()
        {
            let took = net.now.since(began) - ms(1_100);
            assert!(took < Duration::from_secs(2), "{took:?}");
            return;
        }
    }
    panic!("not in three seconds: {}", net.describe());
}

#[test]
fn hostile_runs_that_ask_again_and_again_do_not_keep_an_honest_node_from_joining() {
    for do_pull in [false, true] {
        let several = |i: u64| Speaker::new(address(100 + i as usize), 0xe0 + i);
        honest_joins_among(&mut (0..6).map(several).collect::<Vec<_>>(), do_pull);
        let of_one_host = |i: u64| Speaker::new(SocketAddr::from(([10, 0, 0, 100], 7_000 + i as u16)), 0xe0 + i);
        honest_joins_among(&mut (0..6).map(of_one_host).collect::<Vec<_>>(), do_pull);
        // The honest one's own host.
        let neighbours = |i: u64| Speaker::new(SocketAddr::from((address(150).ip(), 7_000 + i as u16)), 0xe0 + i);
        honest_joins_among(&mut (0..6).map(neighbours).collect::<Vec<_>>(), do_pull);
    }
}

#[test]
fn a_crowd_of_one_host_joins_within_seconds() {
    let mut net = Net::new(Profile::Lan);
    let host = |port: u16| SocketAddr::from(([10, 0, 0, 1], 7_000 + port));
    for port in 0..300_u16 {
        let init = CoreInit {
            run: Run(0xff_0000 + u64::from(port)),
            incarnation: 2_000_000,
            stored_bound: 2_000_000 + INCARNATION_STEP,
            seeds: 1,
            ..birth(&format!("n{port}"), u64::from(port), host(port), &net.settings)
        };
        net.add_birth(init, vec![host(0)]);
    }
    net.run_until(Duration::from_secs(4), "all agree", Net::all_agree);
}

#[test]
fn a_process_that_restarts_under_another_name_at_its_address_is_let_in() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.kill(1);
    net.add("renamed", 1, &[0]);
    net.run_until(ms(500), "it is up", |net| net.status(0, "renamed") == Some(Status::Up));
}
