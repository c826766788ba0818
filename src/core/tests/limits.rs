//! Tables at their bounds: full to the last place, and not one more.

use std::net::SocketAddr;

use super::net::{address, id, ms};
use crate::Core;
use crate::counters::DropReason;
use crate::io::{CoreInit, Input, LinkEvent, LinkId, Output};
use crate::limits::{INCARNATION_STEP, MAX_JOINERS, MAX_LINKS, MAX_MEMBERS, MAX_NAME_PROBES};
use crate::member::tests::record;
use crate::member::{Record, Run, Status, Tags};
use crate::packet::News;
use crate::settings::Profile;
use crate::time::Time;
use crate::wire::{Header, Message, Nonce, Note, Packet, PacketBuilder};

/// A core by itself. Time passes by a millisecond with every joiner, who all are fast enough for the bytes that a
/// member serves.
pub(super) struct Alone {
    pub(super) core: Core,
    pub(super) now: Time,
    pub(super) sequence: u64,
}

pub(super) const TELLER: Run = Run(0x7e11);

impl Alone {
    pub(super) fn new(seeds: usize) -> Self {
        let init = CoreInit {
            leadership: None,
            id: id("sponsor"),
            run: Run(1),
            cluster: id("test"),
            incarnation: 5,
            stored_bound: 5 + INCARNATION_STEP,
            address: address(20_000),
            api_address: None,
            tags: Tags::default(),
            version: "0.1.0".into(),
            settings: Profile::Default.settings(),
            seeds,
            remembered: Vec::new(),
            random_seed: 1,
        };
        let mut core = Core::new(init, Time::ORIGIN);
        while core.poll().is_some() {}
        Self { core, now: Time::ORIGIN, sequence: 0 }
    }

    /// Returns a core that has met one member, which tells it of others.
    pub(super) fn with_teller() -> Self {
        let mut alone = Self::new(0);
        let mut teller = member(19_999, Status::Joining);
        (teller.run, teller.address) = (TELLER, address(19_999));
        assert!(matches!(alone.joins(&teller)[..], [Message::Welcome { .. }]));
        alone.told_by(TELLER, &[(None, Record { status: Status::Up, ..teller })]);
        assert_eq!(alone.core.counts()[Status::Up.index()], 2);
        alone
    }

    /// Hands in a packet; returns what was sent.
    pub(super) fn hand_in(
        &mut self,
        from: SocketAddr,
        run: Run,
        build: impl FnOnce(&mut PacketBuilder),
    ) -> Vec<(SocketAddr, Message)> {
        self.hand_in_and_take_packets(from, run, build).concat()
    }

    /// Hands in a packet; returns what was sent, packet by packet.
    pub(super) fn hand_in_and_take_packets(
        &mut self,
        from: SocketAddr,
        run: Run,
        build: impl FnOnce(&mut PacketBuilder),
    ) -> Vec<Vec<(SocketAddr, Message)>> {
        self.sequence += 1;
        let header = Header { cluster: Header::cluster_hash("test"), run, sequence: self.sequence, fingerprint: 0 };
        let mut packet = PacketBuilder::new(&header, 1_400);
        build(&mut packet);
        self.core.handle(self.now, Input::Packet { from, bytes: &packet.finish() });
        let mut sent = Vec::new();
        while let Some(output) = self.core.poll() {
            if let Output::Transmit { to, bytes, .. } = output {
                let messages = Packet::decode(&bytes).expect("decodes").messages;
                let messages = messages.into_iter().filter(|message| *message != Message::Reply);
                sent.push(messages.map(|message| (to, message)).collect());
            }
        }
        sent
    }

    fn asks(&mut self, record: &Record, cookie: Option<Nonce>) -> Vec<(SocketAddr, Message)> {
        self.hand_in(record.address, record.run, |packet| {
            packet.push(&Message::Join { nonce: Nonce(1), record: record.clone(), cookie });
            packet.pad_to(256);
        })
    }

    /// Has a joiner ask, bring the cookie, and pull if it is let in; returns what it was told about joining.
    pub(super) fn joins(&mut self, record: &Record) -> Vec<Message> {
        self.now = self.now + ms(1);
        let challenge = self.asks(record, None);
        let [(_, Message::Challenge { cookie, .. })] = challenge[..] else { panic!("{challenge:?}") };
        let sent = self.asks(record, Some(cookie));
        self.hand_in(record.address, record.run, |packet| {
            packet.push(&Message::Pull { after: None, pages: 8 });
        });
        sent.into_iter().filter(|(to, _)| *to == record.address).map(|(_, message)| message).collect()
    }

    /// Has a member tell of records, all in one packet.
    pub(super) fn told_by(&mut self, run: Run, news: &[(Option<Note>, Record)]) {
        self.told_from(address(19_999), run, news);
    }

    pub(super) fn told_from(&mut self, from: SocketAddr, run: Run, news: &[(Option<Note>, Record)]) {
        self.hand_in(from, run, |packet| {
            for (note, record) in news {
                assert!(packet.push_update(*note, record));
            }
        });
    }

    /// Has members that are up introduce themselves.
    pub(super) fn introduces(&mut self, members: std::ops::Range<usize>) {
        for host in members {
            self.core.learn(News::told(member(host, Status::Up)), None);
            while self.core.poll().is_some() {}
        }
    }

    /// Lets time pass: every deadline is met.
    pub(super) fn pass(&mut self, time: std::time::Duration) {
        let until = self.now + time;
        while let Some(deadline) = self.core.next_deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.core.handle(self.now, Input::Tick);
            while self.core.poll().is_some() {}
        }
        self.now = until;
    }

    pub(super) fn told_of(&mut self, members: std::ops::Range<usize>, status: Status) {
        for first in members.clone().step_by(10) {
            let some: Vec<_> = (first..members.end.min(first + 10)).map(|i| (None, member(i, status))).collect();
            self.told_by(TELLER, &some);
        }
    }
}

pub(super) fn member(host: usize, status: Status) -> Record {
    let mut record = record(&format!("m{host:06}"), 5, status);
    let [_, a, b, c] = (host as u32).to_be_bytes();
    (record.run, record.address) = (Run(0x10_0000 + host as u64), SocketAddr::from(([11, a, b, c], 7117)));
    record
}

#[test]
fn a_view_holds_so_many_members_and_goes_on_learning_of_them() {
    let mut alone = Alone::with_teller();
    // The last one's place is still free.
    let others = MAX_MEMBERS - 2;
    alone.introduces(100_000..100_000 + others);
    assert_eq!(alone.core.counts()[Status::Up.index()], MAX_MEMBERS);
    assert_eq!(alone.core.counters().dropped(DropReason::TableFull), 0);
    let (one_more, known) = (member(1, Status::Up), Record { incarnation: 6, ..member(100_000, Status::Up) });
    alone.introduces(1..2);
    alone.told_by(TELLER, &[(None, known.clone())]);
    assert_eq!(alone.core.counters().dropped(DropReason::TableFull), 1);
    assert_eq!(alone.core.record(&one_more.id), None);
    assert_eq!(alone.core.record(&known.id).map(|record| record.incarnation), Some(6));
    assert_eq!(alone.core.counts()[Status::Up.index()], MAX_MEMBERS);
}

#[test]
fn who_is_joining_itself_remembers_so_many_that_asked_it() {
    let mut alone = Alone::new(1);
    for host in 0..MAX_JOINERS + 2 {
        let told = alone.joins(&member(host, Status::Joining));
        let [Message::NotUp { joiners, .. }] = told[..] else { panic!("{told:?}") };
        assert_eq!(joiners as usize, (host + 1).min(MAX_JOINERS));
    }
}

#[test]
fn so_many_names_are_asked_for_at_one_time() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..MAX_NAME_PROBES + 1, Status::Up);
    for host in 0..=MAX_NAME_PROBES {
        let mut newcomer = Record { incarnation: 6, ..member(host, Status::Joining) };
        let holder = newcomer.address;
        // Each of another network, so that nobody gives way to another one (see `shares`).
        let [.., high, low] = host.to_be_bytes();
        let at = SocketAddr::from(([20, high, low, 1], 7_117));
        (newcomer.run, newcomer.address) = (Run(0x20_0000 + host as u64), at);
        let challenge = alone.asks(&newcomer, None);
        let [(_, Message::Challenge { cookie, .. })] = challenge[..] else { panic!("{challenge:?}") };
        let sent = alone.asks(&newcomer, Some(cookie));
        let to = |at, what: fn(&Message) -> bool| sent.iter().any(|(to, message)| *to == at && what(message));
        assert!(to(newcomer.address, |message| matches!(message, Message::Wait { .. })), "{host}: {sent:?}");
        let is_probed = to(holder, |message| matches!(message, Message::WhoAreYou { .. }));
        assert_eq!(is_probed, host < MAX_NAME_PROBES, "{host}");
    }
}

#[test]
fn so_many_links_are_held_and_one_that_ends_makes_room() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..MAX_LINKS + 1, Status::Up);
    let greet = |alone: &mut Alone, host: usize| {
        let (link, peer) = (LinkId::Accepted(host as u64), member(host, Status::Up));
        let header = Header { cluster: Header::cluster_hash("test"), run: peer.run, sequence: 1, fingerprint: 0 };
        let bytes = PacketBuilder::new(&header, 1_400).finish();
        let event = LinkEvent::Frame { from: peer.address, bytes: &bytes };
        alone.core.handle(alone.now, Input::Link { link, event });
        while alone.core.poll().is_some() {}
        // It proves that it is where its record says.
        let nonce = alone.core.packets.prover.nonce(peer.address, alone.now);
        let mut proof = PacketBuilder::new(&Header { sequence: 2 + alone.sequence, ..header }, 1_400);
        alone.sequence += 1;
        proof.push(&Message::Ack { nonce });
        alone.core.handle(alone.now, Input::Packet { from: peer.address, bytes: &proof.finish() });
        let mut is_closed = false;
        while let Some(output) = alone.core.poll() {
            is_closed |= output == Output::CloseLink { link };
        }
        (is_closed, alone.core.open_links(), alone.core.counters().dropped(DropReason::TableFull))
    };
    for host in 0..MAX_LINKS {
        assert_eq!(greet(&mut alone, host), (false, host + 1, 0));
    }
    assert_eq!(greet(&mut alone, MAX_LINKS), (true, MAX_LINKS, 1), "one more is closed");
    alone.core.handle(alone.now, Input::Link { link: LinkId::Accepted(0), event: LinkEvent::Closed });
    while alone.core.poll().is_some() {}
    assert_eq!(alone.core.open_links(), MAX_LINKS - 1);
    assert_eq!(greet(&mut alone, MAX_LINKS), (false, MAX_LINKS, 1), "there is room for one more");
}
