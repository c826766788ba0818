//! Names that somebody has: who is told so is told by somebody that may, and lost questions give no name away.

use std::net::SocketAddr;
use std::time::Duration;

use super::alone::{Alone, member, sent};
use super::net::{Net, address, birth, id, ms};
use super::speaker::mail;
use headcount_core::limits::MIN_QUESTION_BYTES;
use headcount_core::wire::{Header, Message, Nonce, Packet, PacketBuilder, Refusal};
use headcount_core::{CoreInit, Input, Output, Profile, Record, Run, Status, StopReason, Time};

/// The host of a speaker.
const LIAR: usize = 60;

// The sponsor alone does not reach the holder, which the others do.
#[test]
fn questions_that_are_lost_give_nobodys_name_away() {
    let mut net = Net::linked(Profile::Local, 5);
    net.cut(0, 1, true);
    let thief = net.add("n1", 40, &[0]);
    for _ in 0..20 {
        net.run(ms(500));
        assert!(!net.nodes[thief].core.is_up(), "{}", net.describe());
    }
    assert_eq!(net.nodes[1].stopped, None);
    net.cut(0, 1, false);
    let is_refused = |net: &Net| matches!(net.nodes[thief].stopped, Some(StopReason::NameInUse { .. }));
    net.run_until(Duration::from_secs(10), "the holder answers", is_refused);
}

/// Adds a node that comes back, and remembers these addresses.
fn comes_back(net: &mut Net, remembered: Vec<usize>) -> usize {
    let init = CoreInit {
        run: Run(500),
        remembered: remembered.into_iter().map(address).collect(),
        ..birth("back", 1, address(50), &Profile::Local.settings())
    };
    net.add_birth(init, Vec::new())
}

/// Has the speaker answer what it was asked last: the name is in use.
fn refuses(net: &mut Net, asker: usize, round: u64) {
    let nonce_of = |message| if let Message::Join { nonce, .. } = message { Some(nonce) } else { None };
    let Some(nonce) = mail(net, LIAR).into_iter().filter_map(nonce_of).next_back() else { return };
    let refusal = Refusal::NameInUse { holder: address(LIAR) };
    let cluster = Header::cluster_hash("test");
    let header = Header { cluster, run: Run(0xbad), sequence: round + 1, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(packet.push(&Message::Reply) && packet.push(&Message::Refused { nonce, refusal }));
    net.input(asker, Input::Packet { from: address(LIAR), bytes: &packet.finish() });
}

#[test]
fn a_node_that_nobody_else_lets_in_stops_when_it_waited_for_long() {
    let mut net = Net::cluster(Profile::Local, 2);
    let back = comes_back(&mut net, vec![LIAR]);
    let patience = net.settings.retry_interval * 3;
    let began = net.now;
    let mut round = 0;
    while net.nodes[back].stopped.is_none() {
        net.run(ms(100));
        refuses(&mut net, back, round);
        round += 1;
        assert!(net.now.since(began) <= patience + ms(1_000), "{}", net.describe());
    }
    assert!(net.now.since(began) >= patience);
    let holder = address(LIAR);
    assert_eq!(net.nodes[back].stopped, Some(StopReason::NameInUse { id: id("back"), holder }));
}

/// Has a newcomer bring its cookie; returns all that is sent.
fn asks(alone: &mut Alone, newcomer: &Record) -> Vec<(SocketAddr, Message)> {
    let cookie = Some(alone.core.cookie(newcomer.address, newcomer.run, alone.now));
    alone.hand_in(newcomer.address, newcomer.run, |packet| {
        assert!(packet.push(&Message::Join { nonce: Nonce(1), record: newcomer.clone(), cookie }));
        packet.pad_to(MIN_QUESTION_BYTES);
    })
}

/// Has somebody introduce itself; returns what the newcomer is told.
fn introduces(alone: &mut Alone, who: &Record, nonce: Nonce, newcomer: &Record) -> Vec<Message> {
    let sent = alone.hand_in(who.address, who.run, |packet| {
        assert!(packet.push(&Message::IAm { nonce, record: who.clone() }));
    });
    sent.into_iter().filter(|(to, _)| *to == newcomer.address).map(|(_, message)| message).collect()
}

/// Returns the nonces of the questions to an address.
fn questions(sent: &[(SocketAddr, Message)], at: SocketAddr) -> Vec<Nonce> {
    let nonce_of = |message: &Message| if let Message::WhoAreYou { nonce, .. } = message { Some(*nonce) } else { None };
    sent.iter().filter(|(to, _)| *to == at).filter_map(|(_, message)| nonce_of(message)).collect()
}

/// Returns a sponsor, a member that it knows, and a newcomer of that name at another address.
fn holder_and_newcomer() -> (Alone, Record, Record) {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let run = Run(0x20_0000);
    let newcomer = Record { run, address: address(50), incarnation: 6, ..member(0, Status::Joining) };
    (alone, member(0, Status::Up), newcomer)
}

#[test]
fn a_name_is_given_away_by_who_is_at_its_holders_address_and_by_nobody_elsewhere() {
    let (mut alone, holder, newcomer) = holder_and_newcomer();
    let asked = asks(&mut alone, &newcomer);
    let [nonce] = questions(&asked, holder.address)[..] else { panic!("{asked:?}") };
    // It has read the question on its way.
    let told = introduces(&mut alone, &member(7, Status::Up), nonce, &newcomer);
    assert_eq!((told, alone.core.sizes().name_probes), (Vec::new(), 1));
    // To whom nobody has proven an address it does not say who it is.
    let mut nameless = PacketBuilder::new(&Header::anonymous(Header::cluster_hash("test")), 1_400);
    assert!(nameless.push(&Message::WhoAreYou { nonce: Nonce(3), echo: Some(nonce) }));
    alone.core.handle(alone.now, Input::Packet { from: holder.address, bytes: &nameless.finish() });
    let told = sent(&mut alone);
    assert!(told.iter().all(|(to, _)| *to != newcomer.address), "it may be the holder: {told:?}");
    assert_eq!(alone.core.sizes().name_probes, 1);
    let heir = Record { run: Run(0x30_0000), address: holder.address, ..member(8, Status::Up) };
    let told = introduces(&mut alone, &heir, nonce, &newcomer);
    assert!(told.iter().any(|message| matches!(message, Message::Welcome { .. })), "{told:?}");
}

#[test]
fn a_joiner_at_the_address_of_a_member_of_another_name_is_told_to_wait_and_not_that_its_name_is_taken() {
    let (mut alone, holder, _) = holder_and_newcomer();
    let newcomer = Record { address: holder.address, ..member(1, Status::Joining) };
    let sent = asks(&mut alone, &newcomer);
    let [nonce] = questions(&sent, holder.address)[..] else { panic!("{sent:?}") };
    let told = introduces(&mut alone, &holder, nonce, &newcomer);
    let waits = |message: &Message| matches!(message, Message::Wait { .. });
    let is_refused = |message: &Message| matches!(message, Message::Refused { .. });
    assert!(told.iter().any(waits) && !told.iter().any(is_refused), "{told:?}");
}

#[test]
fn a_waiting_newcomer_that_asks_again_has_the_holder_of_its_name_asked_no_more_often() {
    let (mut alone, holder, newcomer) = holder_and_newcomer();
    let began = alone.now;
    let mut asked = 0;
    while alone.now.since(began) < alone.settings.probe_timeout {
        asked += questions(&asks(&mut alone, &newcomer), holder.address).len();
        alone.now = alone.now + ms(20);
    }
    assert_eq!(asked, 1);
}

/// A sponsor by itself, a member that has a name, and newcomers that want it.
struct Claimed {
    alone: Alone,
    holder: Record,
    /// The times at which the holder was asked who it is.
    asked: Vec<Time>,
    /// The newcomers that were told that the name is in use.
    refused: usize,
}

impl Claimed {
    fn new() -> Self {
        let mut alone = Alone::with_teller();
        alone.told_of(50..51, Status::Up);
        Self { alone, holder: member(50, Status::Up), asked: Vec::new(), refused: 0 }
    }

    /// Has a newcomer bring a cookie from an address, with the name; the holder answers if `does_answer`.
    fn comes(&mut self, nth: usize, at: SocketAddr, does_answer: bool) {
        let run = Run(0x20_0000 + nth as u64);
        let newcomer = Record { run, address: at, incarnation: 6, status: Status::Joining, ..self.holder.clone() };
        let cookie = Some(self.alone.core.cookie(at, run, self.alone.now));
        let sent = self.alone.hand_in(at, run, |packet| {
            packet.push(&Message::Join { nonce: Nonce(1), record: newcomer, cookie });
            packet.pad_to(MIN_QUESTION_BYTES);
        });
        self.take(sent, does_answer);
    }

    /// Lets time pass up to the next millisecond.
    fn pass(&mut self) {
        let alone = &mut self.alone;
        let until = alone.now + ms(1);
        let mut sent = Vec::new();
        while let Some(deadline) = alone.core.next_deadline().filter(|deadline| *deadline <= until) {
            alone.now = alone.now.max(deadline);
            alone.core.handle(alone.now, Input::Tick);
            for output in alone.outputs() {
                if let Output::Transmit { to, bytes, .. } = output {
                    let messages = Packet::decode(&bytes).expect("ours").messages;
                    sent.extend(messages.into_iter().map(|message| (to, message)));
                }
            }
        }
        alone.now = until;
        self.take(sent, false);
    }

    fn take(&mut self, sent: Vec<(SocketAddr, Message)>, does_answer: bool) {
        for (to, message) in sent {
            match message {
                Message::WhoAreYou { nonce, .. } if to == self.holder.address => {
                    self.asked.push(self.alone.now);
                    if does_answer {
                        let record = self.holder.clone();
                        let answers = self.alone.hand_in(to, record.run, |packet| {
                            packet.push(&Message::IAm { nonce, record });
                        });
                        self.take(answers, does_answer);
                    }
                }
                Message::Refused { refusal: Refusal::NameInUse { .. }, .. } => self.refused += 1,
                _ => {}
            }
        }
    }
}

fn outsider(host: usize, port: usize) -> SocketAddr {
    SocketAddr::from(([12, 0, host as u8, 1], 1_000 + port as u16))
}

#[test]
fn the_holder_of_a_name_is_asked_once_for_all_that_want_it() {
    let mut claimed = Claimed::new();
    let pause = claimed.alone.settings.probe_timeout;
    for nth in 0..3_000 {
        claimed.comes(nth, outsider(nth % 8, nth), false);
        claimed.pass();
    }
    let asked = claimed.asked.len();
    assert!((3_000 / pause.as_millis() as usize..=3_000 / pause.as_millis() as usize + 1).contains(&asked), "{asked}");
    assert!(claimed.asked.windows(2).all(|pair| pair[1].since(pair[0]) >= pause), "{:?}", claimed.asked);
    assert_eq!(claimed.refused, 0);
}

#[test]
fn one_answer_refuses_all_that_wait_for_it() {
    let mut claimed = Claimed::new();
    for nth in 0..10 {
        claimed.comes(nth, outsider(nth, 0), false);
        claimed.pass();
    }
    assert_eq!((claimed.asked.len(), claimed.alone.core.sizes().name_probes), (1, 10));
    let (to, nonce) = (claimed.holder.address, claimed.alone.core.nonce(claimed.holder.address, claimed.alone.now));
    let record = claimed.holder.clone();
    // An answer to no question changes nothing.
    for nonce in [Nonce(nonce.0 + 1), nonce] {
        let record = record.clone();
        let sent = claimed.alone.hand_in(to, record.run, |packet| {
            packet.push(&Message::IAm { nonce, record });
        });
        assert_eq!(claimed.refused, 0);
        claimed.take(sent, false);
    }
    assert_eq!((claimed.refused, claimed.alone.core.sizes().name_probes), (10, 0));
}

#[test]
fn who_wants_a_name_a_moment_after_its_holder_answered_is_refused_at_once_by_a_question_of_its_own() {
    let mut claimed = Claimed::new();
    for nth in 0..2 {
        claimed.comes(nth, outsider(nth, 0), true);
        assert_eq!((claimed.asked.len(), claimed.refused), (nth + 1, nth + 1));
    }
}
