//! Lies under stolen runs: packets that claim to come from a member and come from elsewhere.
//!
//! Must not know: whether any node believes them.

use std::net::SocketAddr;

use super::{Action, Adversary, Attack, Honest, MUTE_HOST, PORT, Scene};
use crate::core::election::{Body, Claim, Digest, ElectionMessage, Identity, Lineage, Renewal, Term, ViewRef};
use crate::core::limits::MIN_QUESTION_BYTES;
use crate::core::wire::{Echo, Heartbeat, LeaderClaim, LeaderRenewal, Message, Note, Update, ViewPart};
use crate::core::{DetectionMethod, LeaveReason, Record, Run, Status};

/// Number of joins in one packet.
const MANY: usize = 54;
/// Step by which a sequence number is pushed ahead of the truth: just within a gap that was once taken for reordering.
const WINDOW_STEP: u64 = 1_000;
/// Questions to each node at each turn: three hundred a second.
const QUESTIONS: usize = 6;

impl Adversary {
    /// Returns the lies of one turn: every node is lied to about some member, in some member's name.
    pub(super) fn lie(&mut self, scene: &Scene) -> Vec<Action> {
        let mut actions = Vec::new();
        match self.attack {
            Attack::Windows => self.push_windows(scene, &mut actions),
            Attack::ManyJoins => self.ask_often(scene, &mut actions),
            Attack::Questions => self.flood_with_questions(scene, &mut actions),
            Attack::MetMyself => self.meet_themselves(scene, &mut actions),
            Attack::Frames => {
                for _ in 0..3 {
                    let (to, run, messages) = self.slander(scene);
                    let from = self.somewhere(scene);
                    let bytes = self.packet(scene, run, &messages, 0);
                    actions.push(Action::Frame { from, to, bytes });
                }
            }
            _ => {
                for _ in 0..6 {
                    let (to, run, messages) = self.slander(scene);
                    let from = self.somewhere(scene);
                    let bytes = self.packet(scene, run, &messages, 0);
                    actions.push(Action::Send { from, to, bytes });
                }
            }
        }
        actions
    }

    /// Returns one lie: its destination, the stolen run, and the messages.
    fn slander(&mut self, scene: &Scene) -> (SocketAddr, Run, Vec<Message>) {
        let (victim, hearer, thief) = (self.one_of(scene), self.one_of(scene), self.one_of(scene));
        let record = Record::clone(&victim.me);
        let to = hearer.me.address;
        let (run, messages) = match self.attack {
            Attack::Told => return self.told(&victim, thief.me.run),
            Attack::Accusations => {
                let statuses = [Status::Suspect, Status::Down, Status::Left(LeaveReason::Graceful)];
                let status = statuses[self.random.index(statuses.len())];
                (thief.me.run, vec![update(record.with_status(status))])
            }
            Attack::GiantIncarnations => {
                let incarnations = [Record::INCARNATION_LIMIT - 1, 1 << 62, record.incarnation + (1 << 40)];
                let incarnation = incarnations[self.random.index(incarnations.len())];
                let statuses = [Status::Up, Status::Down, Status::Left(LeaveReason::Graceful)];
                let status = statuses[self.random.index(statuses.len())];
                let run = if self.random.chance(0.5) { victim.me.run } else { thief.me.run };
                (run, vec![update(Record { incarnation, ..record.with_status(status) })])
            }
            Attack::Removals => {
                let incarnation = record.incarnation + self.random.below(2);
                let removed = Record { incarnation, ..record.with_status(Status::Left(LeaveReason::Forced)) };
                (thief.me.run, vec![update(removed)])
            }
            Attack::SecondOwner => {
                let second = self.second_owner(&victim);
                (thief.me.run, vec![update(second)])
            }
            Attack::Terms => (thief.me.run, vec![self.term_lie(&victim)]),
            Attack::DeadSpeak => match scene.dead.get(self.random.index(scene.dead.len())) {
                Some(dead) => self.dead_speaks(dead, thief.me.run),
                None => (thief.me.run, vec![Message::HeardAt { run: victim.me.run, age_ms: 0 }]),
            },
            Attack::Answers => (thief.me.run, self.answers(&record, &thief)),
            Attack::Frames => return self.frame_lie(scene),
            _ => {
                let severed = Message::Severed { run: victim.me.run, age_ms: 0, is_sure: true };
                (thief.me.run, vec![severed])
            }
        };
        (to, run, messages)
    }

    fn told(&mut self, victim: &Honest, run: Run) -> (SocketAddr, Run, Vec<Message>) {
        let statuses = [Status::Left(LeaveReason::Forced), Status::Left(LeaveReason::Graceful), Status::Down];
        let status = statuses[self.random.index(statuses.len())];
        let incarnation = victim.me.incarnation + self.random.below(3);
        let told = Message::HeldStatus { run: victim.me.run, incarnation, status, age_ms: self.random.below(10_000) };
        (victim.me.address, run, vec![told])
    }

    fn dead_speaks(&mut self, dead: &Record, thief: Run) -> (Run, Vec<Message>) {
        match self.random.below(3) {
            0 => (dead.run, vec![heartbeat(self.random.bits() as u16)]),
            1 => (thief, vec![Message::HeardAt { run: dead.run, age_ms: 0 }]),
            _ => (thief, vec![Message::Alive { run: dead.run, sequence: 1 << 40 }]),
        }
    }

    fn answers(&mut self, record: &Record, thief: &Honest) -> Vec<Message> {
        let nonce = self.nonce();
        match self.random.below(5) {
            0 => vec![Message::Page { after: None, more: false }],
            1 => vec![Message::Welcome { nonce, sponsor: Record::clone(&thief.me), count: 1 }],
            2 => vec![Message::Ack { nonce }],
            3 => vec![Message::IAm { nonce, record: record.with_status(Status::Down) }],
            _ => vec![Message::Confirmed(crate::core::wire::Confirmation { record: nonce })],
        }
    }

    /// Returns one lie that is told over a link.
    fn frame_lie(&mut self, scene: &Scene) -> (SocketAddr, Run, Vec<Message>) {
        let (victim, hearer, thief) = (self.one_of(scene), self.one_of(scene), self.one_of(scene));
        let record = Record::clone(&victim.me);
        let removed = record.with_status(Status::Left(LeaveReason::Forced));
        let message = match self.random.below(6) {
            0 => heartbeat(self.random.bits() as u16),
            1 => update(record.with_status(Status::Down)),
            2 => update(removed),
            3 => Message::Unlink,
            4 => Message::Severed { run: victim.me.run, age_ms: 0, is_sure: true },
            _ => return self.told(&victim, thief.me.run),
        };
        let to = hearer.me.address;
        let run = if self.random.chance(0.5) { victim.me.run } else { thief.me.run };
        (to, run, vec![message])
    }

    fn term_lie(&mut self, victim: &Honest) -> Message {
        let term = match self.random.below(3) {
            0 => Term((1 << 40) - (1 << 20) - 1),
            1 => Term(1 << 30),
            _ => self.led.as_ref().and_then(|led| led.term.next()).unwrap_or(Term(9)),
        };
        let lineage = self.led.as_ref().map_or(Lineage(1), |led| led.lineage);
        let number = self.random.below(1 << 40);
        let view = ViewRef { term, number, digest: Digest(self.random.bits()) };
        let (root, began) = self.led.as_ref().map_or((lineage, Term(0)), |led| (led.root, led.began));
        match self.random.below(4) {
            0 => Message::LeaderClaim(Box::new(LeaderClaim {
                lineage,
                root,
                began,
                term,
                leader: Some(victim.me.id.clone()),
                sequence: 1 << 40,
                age_ms: 0,
                lease_ms: 2_000,
                view,
                delta: None,
            })),
            1 => {
                let mut renewal = self.renewal.unwrap_or(LeaderRenewal {
                    lineage: 0,
                    term,
                    sequence: 0,
                    age_ms: 0,
                    number,
                    digest: 0,
                });
                (renewal.sequence, renewal.term) = (1 << 40, term);
                Message::LeaderRenewal(renewal)
            }
            2 => Message::ViewPart(Box::new(ViewPart {
                digest: self.led.as_ref().map_or(view.digest, |led| led.view.digest),
                after: None,
                members: vec![victim.me.id.clone()],
                more: false,
                electorate: None,
                change: None,
            })),
            _ => Message::Election(Box::new(self.voters_word(term, view))),
        }
    }

    fn voters_word(&mut self, term: Term, view: ViewRef) -> ElectionMessage {
        let known = self.random.pick(&self.words).cloned();
        let (from, lineage) = known.map_or((Identity(1), Lineage(1)), |word| (word.from, word.lineage));
        let body = match self.random.below(5) {
            0 => Body::Vote { term, newest: view },
            1 => Body::VoteReply { term, is_granted: true, newest: view },
            2 => Body::Renew(Renewal {
                term,
                sequence: 1 << 40,
                lease_ms: 2_000,
                claim: Some(Claim { sequence: 1 << 40, age_ms: 0 }),
                newest: view,
                delta: None,
                agreed: None,
            }),
            3 => Body::Release { term: self.led.as_ref().map_or(term, |led| led.term), successor: from },
            _ => Body::QueryReply { attempt: 1, hears_leader: false, term },
        };
        ElectionMessage { from, lineage, body }
    }

    /// Pushes the sequence numbers of a few members far ahead, at every node.
    fn push_windows(&mut self, scene: &Scene, actions: &mut Vec<Action>) {
        let victims: Vec<Run> = scene.honest.iter().take(3).map(|honest| honest.me.run).collect();
        for run in victims {
            let sequence = self.sequences.get(&run).copied().unwrap_or_default() + WINDOW_STEP * self.acts;
            let bytes = self.packet_numbered(scene, run, sequence, &[heartbeat(7)], 0);
            for hearer in &scene.honest {
                let from = self.somewhere(scene);
                actions.push(Action::Send { from, to: hearer.me.address, bytes: bytes.clone() });
            }
        }
    }

    /// Sends as many newcomers as fit into one packet, from an address that never echoes.
    fn ask_often(&mut self, scene: &Scene, actions: &mut Vec<Action>) {
        let (hearer, from) = (self.one_of(scene), self.own(MUTE_HOST, PORT));
        let mut messages = Vec::new();
        for number in 0..MANY {
            let record = self.invent(scene, number, from).record;
            messages.push(Message::Join { nonce: self.nonce(), record, cookie: None });
        }
        let bytes = self.packet(scene, Run(1), &messages, MIN_QUESTION_BYTES);
        actions.push(Action::Send { from, to: hearer.me.address, bytes });
    }

    fn flood_with_questions(&mut self, scene: &Scene, actions: &mut Vec<Action>) {
        for hearer in &scene.honest {
            for _ in 0..QUESTIONS {
                let port = 1_024 + self.random.below(10_000) as u16;
                let from = self.own(MUTE_HOST, port);
                let (run, question) = (Run(self.random.bits()), Message::WhoAreYou { nonce: self.nonce(), echo: None });
                let header = self.packet_numbered(scene, run, 1, &[question], MIN_QUESTION_BYTES);
                actions.push(Action::Send { from, to: hearer.me.address, bytes: header });
            }
        }
    }

    /// Sends every node, joiners included, a packet under its own run.
    fn meet_themselves(&mut self, scene: &Scene, actions: &mut Vec<Action>) {
        for hearer in &scene.honest {
            let from = self.somewhere(scene);
            let nonce = self.nonce();
            let record = Record::clone(&hearer.me);
            let message = match self.random.below(4) {
                0 => Message::WhoAreYou { nonce, echo: Some(nonce) },
                1 => Message::IAm { nonce, record },
                2 => Message::Join { nonce, record, cookie: None },
                _ => Message::Ack { nonce },
            };
            let bytes = self.packet(scene, hearer.me.run, &[message], MIN_QUESTION_BYTES);
            actions.push(Action::Send { from, to: hearer.me.address, bytes });
        }
    }
}

/// Returns an update, with a note if the record's status has one.
pub(super) fn update(record: Record) -> Message {
    let has_note = !matches!(record.status, Status::Up | Status::Joining | Status::Leaving);
    let note = has_note.then_some(Note { age_ms: 10, method: DetectionMethod::ConnectionLost });
    Message::Update(Update { note, record })
}

pub(super) fn heartbeat(stamp: u16) -> Message {
    Message::Heartbeat(Heartbeat { stamp, echo: Some(Echo { stamp, hold: 0 }) })
}
