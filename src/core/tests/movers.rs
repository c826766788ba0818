//! Strangers that say they are a member which has moved, a newcomer beside them that passes it on, and what false
//! removals and accusations do to those who are told of them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::hostile::{packet, send};
use super::liars::{ELSEWHERE, Liar, about, old_cluster, update};
use super::net::{Net, address, id, ms};
use crate::core::doors::Command;
use crate::core::limits::SETTLE;
use crate::core::member::{ChangeKind, Record, Run, Status};
use crate::core::packet::Prover;
use crate::core::settings::Profile;
use crate::core::wire::{Message, Nonce, Packet};

/// The newcomer joins here.
const LIAR_HOST: usize = 90;

/// A newcomer, and an accomplice elsewhere that answers every question as a member that it is not.
struct Thief {
    newcomer: Liar,
    record: Record,
    sequence: u64,
    read: usize,
    /// The keepsakes that it was given, by the run of the giver.
    keepsakes: BTreeMap<Run, Nonce>,
}

impl Thief {
    /// Adds a newcomer, and has the accomplice take up this member's run, at a higher incarnation than it ever had.
    fn of(net: &mut Net, victim: usize) -> Self {
        let node = net.add("liar", LIAR_HOST, &[0]);
        net.run_until(ms(3_000), "the liar is in", Net::all_agree);
        net.run(ms(500));
        net.forget_reports();
        let incarnation = net.nodes[victim].core.me().incarnation + 3;
        let record = Record { address: address(ELSEWHERE), ..about(net, victim, incarnation, Status::Up) };
        let read = net.undelivered.len();
        Self { newcomer: Liar::new(node), record, sequence: 3_000, read, keepsakes: BTreeMap::new() }
    }

    fn say(&mut self, net: &mut Net, to: usize, messages: &[Message]) {
        self.sequence += 1;
        let bytes = packet(self.record.run, self.sequence, messages);
        send(net, to, ELSEWHERE, &bytes);
    }

    /// Answers whatever came, as the member would.
    fn answer(&mut self, net: &mut Net) {
        let came = net.undelivered.split_off(self.read.min(net.undelivered.len()));
        self.read = net.undelivered.len();
        let messages = came.into_iter().filter(|(to, _)| *to == address(ELSEWHERE));
        let messages: Vec<(Run, Message)> = messages
            .filter_map(|(_, bytes)| Packet::decode(&bytes).ok())
            .flat_map(|packet| packet.messages.into_iter().map(move |message| (packet.header.run, message)))
            .collect();
        for (from, message) in messages {
            let mut question = None;
            let answer = match message {
                Message::Probe { nonce, .. } => Message::Ack { nonce },
                Message::WhoAreYou { nonce, .. } => {
                    question = Some(nonce);
                    Message::IAm { nonce, record: self.record.clone() }
                }
                Message::Keepsake { keepsake } => {
                    self.keepsakes.insert(from, keepsake);
                    continue;
                }
                _ => continue,
            };
            // Questions may be anonymous: everybody gets the answer.
            for to in 0..net.nodes.len() {
                let run = net.nodes[to].core.me().run;
                if from.is_nobody() || run == from {
                    // The one that it was given, or one that is made up.
                    let keepsake = self.keepsakes.get(&run).copied().unwrap_or(Nonce(self.sequence));
                    let made = question.map(|nonce| Prover::reminder(keepsake, address(ELSEWHERE), nonce));
                    let reminder = Message::Reminder { proof: made.unwrap_or(keepsake) };
                    self.say(net, to, &[Message::Reply, reminder, answer.clone()]);
                }
            }
        }
    }

    /// Lets both go on for so long, looked at every 50 ms.
    fn works(&mut self, net: &mut Net, lasting: Duration, mut look: impl FnMut(&Net)) {
        let until = net.now + lasting;
        while net.now < until {
            self.newcomer.says_to_all(net, &[update(self.record.clone())]);
            for to in 0..net.nodes.len() {
                self.say(net, to, &[Message::Probe { nonce: Nonce(7), doubted: false }]);
                self.say(net, to, &[Message::WhoAreYou { nonce: Nonce(7), echo: None }]);
            }
            for _ in 0..5 {
                net.run(ms(10));
                self.answer(net);
            }
            look(net);
        }
    }
}

fn where_held(net: &Net, observer: usize, name: &str) -> (Status, usize) {
    let held = net.nodes[observer].core.record(&id(name)).expect("listed");
    (held.status, if held.address == address(ELSEWHERE) { ELSEWHERE } else { 0 })
}

#[test]
fn a_member_that_stands_still_is_not_taken_over() {
    for n in [3, 5, 40] {
        let mut net = old_cluster(Profile::Local, n);
        let (victim, name) = (n - 1, format!("n{}", n - 1));
        let mut thief = Thief::of(&mut net, victim);
        net.pause(victim, true);
        let lasting = net.settings.down_timeout - ms(200);
        thief.works(&mut net, lasting, |net| {
            for observer in 0..n - 1 {
                assert_eq!(where_held(net, observer, &name).1, 0, "{n}: taken over at n{observer}: {}", net.describe());
            }
        });
        net.pause(victim, false);
        thief.works(&mut net, ms(2_000), |_| ());
        for observer in 0..n - 1 {
            assert_eq!(where_held(&net, observer, &name), (Status::Up, 0), "{n} at n{observer}");
        }
    }
}

#[test]
fn a_member_that_was_taken_over_when_it_was_held_as_dead_comes_back() {
    for n in [3, 5] {
        let mut net = old_cluster(Profile::Local, n);
        let (victim, name) = (n - 1, format!("n{}", n - 1));
        let mut thief = Thief::of(&mut net, victim);
        net.pause(victim, true);
        thief.works(&mut net, Duration::from_secs(6), |_| ());
        net.pause(victim, false);
        thief.works(&mut net, Duration::from_secs(20), |_| ());
        assert_eq!(net.nodes[victim].stopped, None);
        for observer in 0..n - 1 {
            assert_eq!(where_held(&net, observer, &name), (Status::Up, 0), "{n} at n{observer}: {}", net.describe());
        }
    }
}

#[test]
fn a_stray_is_given_a_keepsake_when_it_has_been_there_for_long_and_not_before() {
    let mut net = old_cluster(Profile::Local, 3);
    let mut thief = Thief::of(&mut net, 2);
    net.kill(2);
    let is_down = |net: &Net| (0..2).all(|node| net.status(node, "n2") == Some(Status::Down));
    net.run_until(Duration::from_secs(5), "found dead", is_down);
    thief.record.incarnation += 5;
    thief.works(&mut net, SETTLE / 2, |_| ());
    for observer in 0..2 {
        assert_eq!(where_held(&net, observer, "n2"), (Status::Up, ELSEWHERE), "{}", net.describe());
    }
    assert!(thief.keepsakes.is_empty());
    thief.works(&mut net, SETTLE, |_| ());
    assert!(!thief.keepsakes.is_empty());
}

#[test]
fn who_left_and_appears_elsewhere_without_a_proof_is_a_stray() {
    let mut net = old_cluster(Profile::Local, 3);
    let mut thief = Thief::of(&mut net, 2);
    net.command(2, Command::Leave);
    net.run(Duration::from_secs(3));
    thief.record.incarnation += 5;
    thief.works(&mut net, SETTLE / 2, |_| ());
    for observer in 0..2 {
        assert_eq!(where_held(&net, observer, "n2"), (Status::Up, ELSEWHERE), "{}", net.describe());
    }
    assert!(thief.keepsakes.is_empty());
}

/// Has the driver of a node bind another socket, and lose the old one.
fn moves(net: &mut Net, node: usize, host: usize) {
    net.nodes[node].address = address(host);
    net.command(node, Command::SetAddress { ticket: 1, address: address(host) });
}

#[test]
fn a_move_is_proven_within_a_few_round_trips_and_again() {
    for n in [2, 5, 40] {
        let mut net = old_cluster(Profile::Default, n);
        for host in [70, 71, 1] {
            moves(&mut net, 1, host);
            let took = net.run_until(ms(200), "known where it is", |net| {
                let at = |node: &super::net::Node| node.core.record(&id("n1")).map(|held| held.address);
                net.running().all(|node| at(node) == Some(address(host)))
            });
            assert!(took <= ms(200), "{n}: {took:?}");
            net.run(Duration::from_secs(3));
        }
        net.assert_all_up();
        for observer in (0..n).filter(|node| *node != 1) {
            let told = net.reported(observer, "n1");
            assert!(told.iter().all(|kind| *kind == ChangeKind::Updated), "n{observer}: {told:?}");
        }
    }
}

#[test]
fn a_move_is_proven_to_who_has_moved_itself() {
    let mut net = old_cluster(Profile::Default, 5);
    moves(&mut net, 0, 70);
    net.run(Duration::from_secs(3));
    moves(&mut net, 1, 71);
    net.run_until(ms(200), "known where it is", |net| {
        let at = |node: &super::net::Node| node.core.record(&id("n1")).map(|held| held.address);
        net.running().all(|node| at(node) == Some(address(71)))
    });
}

#[test]
fn a_move_is_followed_by_who_was_restarted_under_other_names() {
    for n in [3, 5] {
        let mut net = old_cluster(Profile::Local, n);
        let mut observer = 2;
        for nth in 0..3 {
            net.kill(observer);
            net.run(ms(500));
            observer = net.add(&format!("again{nth}"), 2, &[0]);
            net.run_until(Duration::from_secs(5), "back", |net| net.nodes[observer].core.is_up());
            net.run(Duration::from_secs(8));
        }
        for host in [70, 71] {
            moves(&mut net, 1, host);
            net.run_until(Duration::from_secs(1), "known where it is", |net| {
                let at = |node: &super::net::Node| node.core.record(&id("n1")).map(|held| held.address);
                net.running().all(|node| at(node) == Some(address(host)))
            });
            net.run(ms(10));
        }
    }
}

/// Has a newcomer say this of everybody to everybody, for five seconds; returns the worst self-doubt that anybody had.
fn worst_doubt(n: usize, lie: impl Fn(&Net, usize) -> Vec<Message>) -> u32 {
    let mut net = old_cluster(Profile::Local, n);
    let node = net.add("liar", LIAR_HOST, &[0]);
    net.run_until(ms(3_000), "the liar is in", Net::all_agree);
    let liar = Liar::new(node);
    let mut worst = 0;
    for _ in 0..50 {
        for victim in 0..n {
            let lies = lie(&net, victim);
            liar.says_to_all(&mut net, &lies);
        }
        net.run(ms(100));
        worst = worst.max((0..n).map(|node| net.nodes[node].core.health_score()).max().unwrap_or(0));
    }
    assert!((0..n).all(|node| net.nodes[node].stopped.is_none()), "{}", net.describe());
    worst
}

#[test]
fn what_a_newcomer_says_makes_nobody_doubt_itself() {
    for n in [3, 6, 20] {
        for (what, status, ahead) in [
            ("suspect", Status::Suspect, 0),
            ("suspect", Status::Suspect, 1),
            ("down", Status::Down, 0),
            ("left", Status::Left(crate::core::member::LeaveReason::Graceful), 1),
            ("up", Status::Up, 1),
        ] {
            let doubt = worst_doubt(n, |net, victim| {
                let incarnation = net.nodes[victim].core.me().incarnation + ahead;
                vec![super::liars::update(about(net, victim, incarnation, status))]
            });
            assert!(doubt == 0, "{n} nodes, {what} at +{ahead}: {doubt}");
        }
        let doubt = worst_doubt(n, |net, victim| {
            let incarnation = net.nodes[victim].core.me().incarnation + 1;
            vec![update(Record { address: address(ELSEWHERE), ..about(net, victim, incarnation, Status::Up) })]
        });
        assert!(doubt == 0, "{n} nodes, moved: {doubt}");
    }
}

#[test]
fn the_home_of_a_stray_is_forgotten_with_its_run() {
    let mut net = old_cluster(Profile::Local, 3);
    let run = net.nodes[2].core.me().run;
    let mut thief = Thief::of(&mut net, 2);
    net.command(2, Command::Leave);
    net.run(Duration::from_secs(3));
    thief.record.incarnation += 5;
    thief.works(&mut net, Duration::from_secs(3), |_| ());
    assert_eq!(net.nodes[0].core.homes.of(run), Some(address(2)));
    let successor = net.add("n2", 2, &[0]);
    net.run_until(Duration::from_secs(10), "another run has the name", |net| {
        net.nodes[0].core.record(&id("n2")).is_some_and(|held| held.run == net.nodes[successor].core.me().run)
    });
    assert_eq!(net.nodes[0].core.homes.of(run), None);
}
