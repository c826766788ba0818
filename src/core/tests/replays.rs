//! Keepsakes in the wrong hands. Whoever is elsewhere is given none by asking for it, and what it has of others (its
//! own as a member, those of who lived at the address before, those for where the member was before it moved) moves
//! nobody.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::hostile::{packet, send};
use super::liars::{ELSEWHERE, about, old_cluster};
use super::net::{Net, address, ms};
use crate::core::doors::Command;
use crate::core::member::{Record, Run, Status};
use crate::core::packet::Prover;
use crate::core::settings::Profile;
use crate::core::wire::{Message, Nonce, Packet};

/// The host of a member that has the attacker's keepsakes.
const ACCOMPLICE: usize = 90;

/// Somebody elsewhere who wants to be taken for a member.
struct Robber {
    victim: usize,
    /// The record that it gives out as its own.
    record: Record,
    sequence: u64,
    /// The keepsakes that it brings back.
    keepsakes: BTreeSet<u64>,
    /// The proofs of its own keepsakes that the member brought to the attacker.
    stolen: BTreeSet<u64>,
}

/// Returns all keepsakes that were sent to this address.
fn given_to(net: &Net, to: SocketAddr) -> BTreeSet<u64> {
    let sent = net.sent.iter().flatten().filter(|(_, at, _)| *at == to);
    let messages = sent.flat_map(|(.., bytes)| Packet::decode(bytes).expect("decodes").messages);
    let keepsake = |message| match message {
        Message::Keepsake { keepsake } => Some(keepsake.0),
        _ => None,
    };
    messages.filter_map(keepsake).collect()
}

impl Robber {
    fn of(net: &Net, victim: usize, keepsakes: BTreeSet<u64>) -> Self {
        let incarnation = net.nodes[victim].core.me().incarnation + 3;
        let record = Record { address: address(ELSEWHERE), ..about(net, victim, incarnation, Status::Up) };
        Self { victim, record, sequence: 5_000, keepsakes, stolen: BTreeSet::new() }
    }

    fn others(&self, net: &Net) -> Vec<usize> {
        // Its accomplice is told nothing: it knows itself what it gave to whom.
        let is_other = |node: &usize| *node != self.victim && net.nodes[*node].address != address(ACCOMPLICE);
        (0..net.nodes.len()).filter(is_other).collect()
    }

    fn say(&mut self, net: &mut Net, run: Run, to: usize, messages: &[Message]) {
        self.sequence += 1;
        send(net, to, ELSEWHERE, &packet(run, self.sequence, messages));
    }

    /// Says that it is the member, with everything that it may prove that by.
    fn claims(&mut self, net: &mut Net, to: usize, nonce: Nonce) {
        let run = self.record.run;
        let made = |keepsake: &u64| Prover::reminder(Nonce(*keepsake), self.record.address, nonce);
        let replayed = self.keepsakes.union(&self.stolen).map(|shown| Nonce(*shown));
        for proof in self.keepsakes.iter().map(made).chain(replayed).collect::<Vec<_>>() {
            let introduction = Message::IAm { nonce, record: self.record.clone() };
            self.say(net, run, to, &[Message::Reply, Message::Reminder { proof }, introduction]);
        }
    }

    /// Asks the member who it is, as one that others are known to be.
    fn asks_victim(&mut self, net: &mut Net, echo: Option<Nonce>) {
        for other in self.others(net) {
            let record = Record { address: address(ELSEWHERE), ..Record::clone(net.nodes[other].core.me()) };
            let mut question = vec![Message::WhoAreYou { nonce: Nonce(9), echo }];
            question.extend(echo.map(|nonce| Message::IAm { nonce, record: record.clone() }));
            question.push(Message::Probe { nonce: Nonce(9), doubted: false });
            self.say(net, record.run, self.victim, &question);
        }
    }

    fn reads(&mut self, net: &mut Net) {
        // One of many questions is answered: each answer is asked back.
        let mut asked = BTreeSet::new();
        for (to, bytes) in std::mem::take(&mut net.undelivered) {
            let Ok(packet) = Packet::decode(&bytes) else { continue };
            for message in packet.messages.into_iter().filter(|_| to == address(ELSEWHERE)) {
                match message {
                    Message::Reminder { proof } => _ = self.stolen.insert(proof.0),
                    Message::Keepsake { keepsake } => _ = self.keepsakes.insert(keepsake.0),
                    // Most are anonymous: the answer goes to everybody, once.
                    Message::WhoAreYou { nonce, .. } => _ = asked.insert(nonce.0),
                    Message::Probe { nonce, .. } => {
                        for to in 0..net.nodes.len() {
                            self.say(net, self.record.run, to, &[Message::Reply, Message::Ack { nonce }]);
                        }
                    }
                    _ => {}
                }
            }
        }
        for nonce in asked.into_iter().map(Nonce) {
            self.asks_victim(net, Some(nonce));
            for to in self.others(net) {
                self.claims(net, to, nonce);
            }
        }
    }

    fn works(&mut self, net: &mut Net, lasting: Duration, mut look: impl FnMut(&Net)) {
        let until = net.now + lasting;
        while net.now < until {
            self.asks_victim(net, None);
            for to in self.others(net) {
                let question = [Message::WhoAreYou { nonce: Nonce(8), echo: None }];
                self.say(net, self.record.run, to, &question);
            }
            for _ in 0..5 {
                net.run(ms(10));
                self.reads(net);
            }
            look(net);
        }
    }
}

/// Returns a cluster in which everybody has settled; the host of the last node had another tenant. Everything that is
/// sent is read.
fn watched_cluster(n: usize) -> (Net, BTreeSet<u64>) {
    let mut net = old_cluster(Profile::Local, n - 1);
    net.sent = Some(Vec::new());
    let tenant = net.add("tenant", n - 1, &[0]);
    net.run(Duration::from_secs(5));
    let of_tenant = given_to(&net, address(n - 1));
    assert!(!of_tenant.is_empty());
    net.kill(tenant);
    net.run(Duration::from_secs(5));
    net.sent = Some(Vec::new());
    net.add(&format!("n{}", n - 1), n - 1, &[0]);
    net.run(Duration::from_secs(70));
    net.assert_all_up();
    net.forget_reports();
    net.undelivered.clear();
    (net, of_tenant)
}

/// Checks that all observers hold the member where it is, and as what it is.
fn assert_held(net: &Net, case: &str, victim: usize, home: SocketAddr, may_be_gone: bool) {
    let me = net.nodes[victim].core.me();
    for observer in net.running().filter(|node| node.core.me().id != me.id) {
        let held = observer.core.record(&me.id).expect("listed");
        let by = &observer.core.me().id;
        assert_eq!((held.address, held.run), (home, me.run), "{case}: at {by}: {}", net.describe());
        let is_here = matches!(held.status, Status::Up | Status::Suspect);
        assert!(is_here || may_be_gone, "{case}: {} at {by}", held.status);
    }
}

/// The keepsakes that the attacker has, besides those that it is given when it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loot {
    /// The keepsakes of the tenant before the member.
    OfTenant,
    /// Its own keepsakes, as a member; and those that it would give to the member itself.
    OfAccomplice,
    /// The keepsakes that the member was given where it was before it moved.
    Outlived,
}

const LOOT: [Loot; 3] = [Loot::OfTenant, Loot::OfAccomplice, Loot::Outlived];

fn robbed(n: usize, loot: Loot) -> (Net, Robber) {
    let (mut net, of_tenant) = watched_cluster(n);
    let victim = net.nodes.len() - 1;
    let keepsakes = match loot {
        Loot::OfTenant => of_tenant,
        Loot::OfAccomplice => {
            let accomplice = net.add("accomplice", ACCOMPLICE, &[0]);
            net.run(Duration::from_secs(70));
            let mut own = given_to(&net, address(ACCOMPLICE));
            let (run, home) = (net.nodes[victim].core.me().run, net.nodes[victim].address);
            let prover = &net.nodes[accomplice].core.prover;
            own.extend([home, address(ELSEWHERE)].map(|at| prover.keepsake(run, at).0));
            own
        }
        Loot::Outlived => {
            net.sent = Some(Vec::new());
            // Another one comes and asks for everything, as an observer.
            net.add("late", 80, &[0]);
            net.run(Duration::from_secs(5));
            let others: Vec<_> = (0..n - 1).map(|node| (node, net.nodes[victim].core.me().run)).collect();
            let home = net.nodes[victim].address;
            let known: BTreeSet<u64> =
                others.iter().map(|(node, run)| net.nodes[*node].core.prover.keepsake(*run, home).0).collect();
            net.nodes[victim].address = address(70);
            net.command(victim, Command::SetAddress { ticket: 1, address: address(70) });
            net.run(Duration::from_secs(5));
            known
        }
    };
    assert!(!keepsakes.is_empty());
    net.sent = None;
    net.forget_reports();
    net.undelivered.clear();
    let robber = Robber::of(&net, victim, keepsakes);
    (net, robber)
}

#[test]
fn a_member_gives_its_keepsakes_to_nobody_elsewhere_and_others_do_not_move_it() {
    for (n, loot) in [3, 5].into_iter().flat_map(|n| LOOT.map(|loot| (n, loot))) {
        let (mut net, mut robber) = robbed(n, loot);
        let (victim, case) = (robber.victim, format!("{n}, {loot:?}"));
        let home = net.nodes[victim].address;
        robber.works(&mut net, Duration::from_secs(5), |net| assert_held(net, &case, victim, home, false));
        assert_eq!(robber.stolen, BTreeSet::new(), "{case}");
        net.assert_all_up();
    }
}

#[test]
fn a_member_that_stands_still_is_not_moved_by_the_keepsakes_of_others() {
    for (n, loot) in [3, 5].into_iter().flat_map(|n| LOOT.map(|loot| (n, loot))) {
        let (mut net, mut robber) = robbed(n, loot);
        let (victim, case) = (robber.victim, format!("{n}, {loot:?}"));
        let home = net.nodes[victim].address;
        net.pause(victim, true);
        let lasting = net.settings.down_timeout - ms(200);
        robber.works(&mut net, lasting, |net| assert_held(net, &case, victim, home, false));
        net.pause(victim, false);
        robber.works(&mut net, Duration::from_secs(3), |net| assert_held(net, &case, victim, home, false));
        assert_eq!(robber.stolen, BTreeSet::new(), "{case}");
        net.assert_all_up();
    }
}
