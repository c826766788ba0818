//! One core by itself, in front of which the test is everybody else.

use std::net::SocketAddr;

use super::net::{address, id, ms};
use headcount_core::limits::INCARNATION_STEP;
use headcount_core::testing::record;
use headcount_core::wire::{Header, Message, Nonce, Note, Packet, PacketBuilder};
use headcount_core::{Core, CoreInit, Input, Output, Profile, Record, Run, Settings, Status, Tags, Time};

/// A core by itself. Time passes by a millisecond with every joiner, who all are fast enough for the bytes that a
/// member serves.
pub(super) struct Alone {
    pub(super) core: Core,
    pub(super) now: Time,
    pub(super) sequence: u64,
    pub(super) settings: Settings,
}

pub(super) const TELLER: Run = Run(0x7e11);

impl Alone {
    pub(super) fn new(seeds: usize) -> Self {
        let settings = Profile::Default.settings();
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
            settings: settings.clone(),
            seeds,
            remembered: Vec::new(),
            random_seed: 1,
        };
        let mut core = Core::new(init, Time::ORIGIN);
        while core.poll().is_some() {}
        Self { core, now: Time::ORIGIN, sequence: 0, settings }
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

    pub(super) fn asks(&mut self, record: &Record, cookie: Option<Nonce>) -> Vec<(SocketAddr, Message)> {
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
            self.core.learn_of(member(host, Status::Up));
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

    /// Takes what came out.
    pub(super) fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.core.poll()).collect()
    }
}

pub(super) fn member(host: usize, status: Status) -> Record {
    let mut record = record(&format!("m{host:06}"), 5, status);
    let [_, a, b, c] = (host as u32).to_be_bytes();
    (record.run, record.address) = (Run(0x10_0000 + host as u64), SocketAddr::from(([11, a, b, c], 7117)));
    record
}

/// Has the slot of a member's address proven.
pub(super) fn prove(alone: &mut Alone, run: Run) {
    alone.core.set_proven(run, true);
}

/// Returns what a core sends now, message by message.
pub(super) fn sent(alone: &mut Alone) -> Vec<(SocketAddr, Message)> {
    let mut sent = Vec::new();
    while let Some(output) = alone.core.poll() {
        if let Output::Transmit { to, bytes, .. } = output {
            sent.extend(Packet::decode(&bytes).expect("decodes").messages.into_iter().map(|message| (to, message)));
        }
    }
    sent
}
