//! Outsiders against nodes that look for a cluster: whoever sends datagrams, and is nobody's seed, keeps nobody waiting,
//! refuses nobody, and keeps no cluster from being founded.

use std::net::SocketAddr;
use std::time::Duration;

use super::hostile::{EVIL, EVIL_RUN, evil, mail, packet, send};
use super::net::{Net, address, birth, ms};
use crate::core::doors::CoreInit;
use crate::core::limits::FOUNDING_RETRIES;
use crate::core::member::{Run, Status};
use crate::core::settings::Profile;
use crate::core::wire::{Candidacy, Message, Nonce, Refusal, Seeking};

/// An outsider that a joiner was made to ask.
struct Outsider {
    joiner: usize,
    /// The nonce of the joiner's question.
    nonce: Nonce,
    sequence: u64,
}

impl Outsider {
    /// Has a joiner hear of a candidate that comes before all others, so that it asks that one.
    fn lure(net: &mut Net, joiner: usize) -> Self {
        let seeking = Seeking { asks_seed: true, candidacy: Some(Candidacy::Listed), first: None };
        let mut record = evil("outsider", 5, Status::Joining);
        // Before all others.
        record.address = SocketAddr::from(([10, 0, 0, 0], 99));
        let at = record.address;
        let mut cookie = None;
        for sequence in 1..10 {
            let join = Message::Join { nonce: Nonce(5), record: record.clone(), cookie };
            let bytes = packet(EVIL_RUN, sequence, &[Message::Seeking(seeking), join]);
            net.input(joiner, crate::core::doors::Input::Packet { from: at, bytes: &bytes });
            net.run(ms(5));
            for message in mail(net, at) {
                match message {
                    Message::Join { nonce, .. } => {
                        net.undelivered.clear();
                        return Self { joiner, nonce, sequence: 100 };
                    }
                    Message::Challenge { cookie: given, .. } => cookie = Some(given),
                    _ => {}
                }
            }
        }
        panic!("the candidate is not asked");
    }

    fn says(&mut self, net: &mut Net, from: SocketAddr, run: Run, message: Message) {
        self.sequence += 1;
        let bytes = packet(run, self.sequence, &[Message::Reply, message]);
        net.input(self.joiner, crate::core::doors::Input::Packet { from, bytes: &bytes });
    }

    /// Says something that an honest sponsor might say, from its own address, or from another one that it forges.
    fn lies(&mut self, net: &mut Net, lie: usize, from: SocketAddr) {
        let nonce = self.nonce;
        // A new process each time.
        let run = Run(0xee_0000 + self.sequence);
        let mut sponsor = evil("sponsor", 5, Status::Up);
        (sponsor.run, sponsor.address) = (run, from);
        let message = match lie {
            0 => Message::Wait { nonce, wait_ms: 5_000 },
            1 => Message::Behind { nonce, incarnation: 1 << 41 },
            2 => Message::Welcome { nonce, sponsor, count: 1_000 },
            3 => Message::Elsewhere { nonce, members: [1, 2, 3].map(|host| Some(address(200 + host))) },
            4 => Message::Refused { nonce, refusal: Refusal::OtherCluster },
            5 => Message::Refused { nonce, refusal: Refusal::NameInUse { holder: from } },
            _ => {
                let refusal = Refusal::Unreachable { advertised: net.nodes[self.joiner].address, heard_from: from };
                Message::Refused { nonce, refusal }
            }
        };
        self.says(net, from, run, message);
    }
}

const LIES: usize = 7;

fn at_home() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 0], 99))
}

#[test]
fn an_outsider_does_not_stop_a_node_that_waits_for_its_seeds() {
    let mut net = Net::new(Profile::Local);
    let lonely = net.add("lonely", 5, &[60]);
    net.run(Duration::from_secs(1));
    let mut outsider = Outsider::lure(&mut net, lonely);
    for round in 0..40 {
        net.run(net.settings.retry_interval / 8);
        for lie in [4, 5] {
            for from in [at_home(), address(60)] {
                outsider.lies(&mut net, lie, from);
                assert_eq!(net.nodes[lonely].stopped, None, "round {round}, {lie} from {from}");
            }
        }
    }
}

#[test]
fn an_outsider_does_not_stop_a_node_that_comes_back() {
    let mut net = Net::new(Profile::Local);
    let init = CoreInit { run: Run(500), remembered: vec![address(60)], ..birth("back", 1, address(5), &net.settings) };
    let back = net.add_birth(init, Vec::new());
    net.run(ms(300));
    // It may be asked as a seed of others; only who has seeds itself is a candidate then.
    let mut outsider = Outsider::lure(&mut net, back);
    for round in 0..40 {
        net.run(net.settings.retry_interval / 8);
        for lie in [4, 5] {
            outsider.lies(&mut net, lie, at_home());
            assert_eq!(net.nodes[back].stopped, None, "round {round}, {lie}");
        }
    }
    assert!(net.nodes[back].core.is_up(), "nobody else is there");
}

#[test]
fn an_outsider_keeps_no_joiner_from_its_seeds() {
    for lie in 0..LIES {
        let mut net = Net::new(Profile::Local);
        let joiner = net.add("joiner", 5, &[0]);
        net.run(Duration::from_secs(1));
        let mut outsider = Outsider::lure(&mut net, joiner);
        for _ in 0..100 {
            outsider.lies(&mut net, lie, at_home());
            net.run(ms(100));
        }
        net.add("n0", 0, &[0]);
        let mut waited = ms(0);
        while !(net.nodes[joiner].core.is_up() && net.status(joiner, "n0") == Some(Status::Up)) {
            outsider.lies(&mut net, lie, at_home());
            net.run(ms(20));
            waited += ms(20);
            assert!(waited < net.settings.retry_interval * 3 + ms(500), "lie {lie}: {}", net.describe());
        }
        assert!(net.nodes[joiner].core.me().incarnation < 1 << 40, "lie {lie}");
    }
}

#[test]
fn an_outsider_keeps_no_ring_of_seeds_from_founding() {
    for lie in 0..LIES {
        let mut net = Net::new(Profile::Local);
        let hosts = [3, 1, 4, 0, 2];
        for (place, host) in hosts.iter().enumerate() {
            net.add(&format!("n{host}"), *host, &[hosts[(place + 1) % hosts.len()]]);
        }
        net.run(ms(20));
        let mut outsiders: Vec<_> = (0..hosts.len()).map(|node| Outsider::lure(&mut net, node)).collect();
        let began = net.now;
        // They wait for a candidate that does not answer, and as long again; then the islands merge.
        let most = net.settings.retry_interval * (2 * FOUNDING_RETRIES + 4);
        let is_one = |net: &Net| {
            let all = || net.nodes.iter();
            all().all(|node| {
                node.core.is_up()
                    && hosts.iter().all(|host| {
                        let name = super::net::id(&format!("n{host}"));
                        node.core.record(&name).is_some_and(|record| record.status == Status::Up)
                    })
            })
        };
        while !is_one(&net) {
            for outsider in &mut outsiders {
                outsider.lies(&mut net, lie, at_home());
            }
            net.run(ms(50));
            assert!(net.now.since(began) < most, "lie {lie}: {}", net.describe());
        }
    }
}

#[test]
fn who_reads_a_joiners_question_to_one_address_does_not_answer_for_others() {
    let mut net = Net::new(Profile::Local);
    let joiner = net.add("joiner", 5, &[60, 61]);
    net.run(ms(50));
    let nonces = [60, 61].map(|host| {
        let nonce = |message| if let Message::Join { nonce, .. } = message { Some(nonce) } else { None };
        mail(&net, address(host)).into_iter().find_map(nonce).expect("asked")
    });
    assert_ne!(nonces[0], nonces[1]);
    // A forger that got a question of its own gets no further question to the address that it forges.
    let outsider = Outsider::lure(&mut net, joiner);
    net.undelivered.clear();
    let challenge = Message::Challenge { nonce: outsider.nonce, cookie: Nonce(7) };
    send(&mut net, joiner, EVIL, &packet(EVIL_RUN, 200, &[Message::Reply, challenge]));
    net.run(ms(5));
    assert!(mail(&net, address(EVIL)).is_empty(), "a third party is sent nothing");
}
