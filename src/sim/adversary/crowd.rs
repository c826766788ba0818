//! Members that do not exist: they answer until they are let in, and after that are silent or lie.
//!
//! Must not know: how many of them are let in.

use std::net::{Ipv4Addr, SocketAddr};

use super::lies::{heartbeat, update};
use super::{Action, Adversary, Attack, HOSTS, Honest, MOST_INVENTED, PORT, Scene};
use crate::core::limits::{MAX_REFERRALS, MIN_QUESTION_BYTES};
use crate::core::wire::{Message, Nonce, Packet, Refusal};
use crate::core::{LeaveReason, NodeId, Record, Run, Status, Tags};

/// Number of newcomers that keep asking for places in the attack [`Attack::Places`].
const SQUATTERS: usize = 6;
/// Number of newcomers of a crowd that ask at each turn: two hundred a second.
const ASK_AT_ONCE: usize = 4;
/// Turns between two replacements of an admitted newcomer: ten a second.
const WEAR: usize = 5;
/// Turns after which a newcomer gives its place to another one: 30 s, before any node trusts it.
const NEW_FOR: u64 = 1_500;
/// Number of invented members in one packet of news.
const TOLD_AT_ONCE: usize = 5;

/// A member that does not exist.
#[derive(Debug, Clone)]
pub(super) struct Invented {
    pub(super) record: Record,
    /// Source address of its packets.
    from: SocketAddr,
    is_in: bool,
}

impl Adversary {
    /// Invents a newcomer with the timing and version of the honest nodes.
    pub(super) fn invent(&mut self, scene: &Scene, number: usize, from: SocketAddr) -> Invented {
        let like = Record::clone(&scene.honest[0].me);
        let id = NodeId::new(&format!("x{number:05}")).expect("letters and digits");
        let address = if self.attack == Attack::Reflection { victim(number) } else { from };
        let run = Run(self.random.bits());
        let record =
            Record { id, run, status: Status::Joining, address, api_address: None, tags: Tags::default(), ..like };
        Invented { record, from, is_in: false }
    }

    /// Returns the record of a second owner of this member's name, at an address where the adversary answers.
    pub(super) fn second_owner(&mut self, victim: &Honest) -> Record {
        let address = self.own(1, PORT);
        let place = self.by_address.get(&address).copied();
        let run = place.map_or(Run(2), |place| self.invented[place].record.run);
        let incarnation = victim.me.incarnation + 1 + self.random.below(1_000);
        Record { run, incarnation, address, ..victim.me.with_status(Status::Up) }
    }

    /// Returns the deeds of one turn of the invented members.
    pub(super) fn pretend(&mut self, scene: &Scene) -> Vec<Action> {
        self.come_up_with(scene);
        let mut actions = Vec::new();
        let asking = match self.attack {
            Attack::Crowd | Attack::Reflection => ASK_AT_ONCE,
            _ => 1,
        };
        let (count, acts) = (self.invented.len(), self.acts as usize);
        for nth in 0..asking {
            let place = (acts * asking + nth) % count;
            let is_squatter = self.attack == Attack::Places;
            if self.invented[place].is_in && !is_squatter {
                continue;
            }
            let sponsors: Vec<SocketAddr> = if is_squatter {
                scene.honest.iter().map(|honest| honest.me.address).collect()
            } else {
                vec![self.one_of(scene).me.address]
            };
            for sponsor in sponsors {
                actions.push(self.ask(scene, place, sponsor, None));
            }
        }
        self.replace_the_worn_out(scene);
        let speaks = matches!(self.attack, Attack::Gossip | Attack::JoinerLies | Attack::Goodbyes);
        if speaks && self.invented[0].is_in && self.acts.is_multiple_of(5) {
            self.behave(scene, &mut actions);
        }
        actions
    }

    fn come_up_with(&mut self, scene: &Scene) {
        let wanted = match self.attack {
            Attack::Crowd | Attack::Reflection => self.crowd,
            Attack::Places => SQUATTERS,
            _ => 1,
        };
        while self.invented.len() < wanted {
            let number = self.invented.len();
            // Each host is let in with a few members only, so a crowd spreads over all hosts, each member at a port of
            // its own.
            let host = 1 + (number % usize::from(HOSTS - 1)) as u8;
            let port = PORT + (number / usize::from(HOSTS - 1)) as u16;
            let from = self.own(host, port);
            let mut invented = self.invent(scene, number, from);
            if self.attack == Attack::SecondOwner
                && let Some(victim) = scene.honest.last()
            {
                invented.record.id = victim.me.id.clone();
                invented.record.incarnation = victim.me.incarnation + 1_000;
            }
            if self.attack == Attack::Goodbyes {
                // A different run at each visit, so that no node has met this newcomer before.
                invented.record.run.0 ^= scene.honest[0].fingerprint;
            }
            self.by_address.insert(from, number);
            self.invented.push(invented);
        }
    }

    /// Replaces admitted newcomers, one after the other, since they are soon found out.
    fn replace_the_worn_out(&mut self, scene: &Scene) {
        if self.attack == Attack::Goodbyes && self.acts.is_multiple_of(NEW_FOR) {
            let from = self.invented[0].from;
            self.invented[0] = self.invent(scene, self.acts as usize, from);
        }
        if !matches!(self.attack, Attack::Crowd | Attack::Reflection) {
            return;
        }
        let place = self.acts as usize / WEAR % self.invented.len();
        if (self.acts as usize).is_multiple_of(WEAR) && self.invented[place].is_in {
            let from = self.invented[place].from;
            let number = MOST_INVENTED + self.acts as usize;
            self.invented[place] = self.invent(scene, number, from);
        }
    }

    fn ask(&mut self, scene: &Scene, place: usize, sponsor: SocketAddr, cookie: Option<Nonce>) -> Action {
        let Invented { record, from, .. } = self.invented[place].clone();
        let join = Message::Join { nonce: Nonce(record.run.0), record: record.with_status(Status::Joining), cookie };
        let bytes = self.packet(scene, record.run, &[join], MIN_QUESTION_BYTES);
        Action::Send { from, to: sponsor, bytes }
    }

    /// Sends heartbeats as a member does, and news of members that do not exist.
    fn behave(&mut self, scene: &Scene, actions: &mut Vec<Action>) {
        let Invented { record, from, .. } = self.invented[0].clone();
        let mut messages = vec![heartbeat(self.acts as u16)];
        if self.attack == Attack::Gossip {
            for _ in 0..TOLD_AT_ONCE {
                let number = 1 + self.random.index(self.crowd);
                let elsewhere = self.own(3, PORT + number as u16);
                let mut invented = self.invent(scene, number, elsewhere).record;
                // The run of an invented member is one each time that its news is told.
                invented.run = Run(0xbad_0000 + number as u64);
                messages.push(update(invented.with_status(Status::Up)));
            }
        }
        for hearer in &scene.honest {
            messages.truncate(if self.attack == Attack::Goodbyes { 1 } else { messages.len() });
            if self.attack == Attack::Goodbyes && self.met.contains(&hearer.me.run) {
                messages.extend(self.goodbyes(scene, hearer));
            }
            let bytes = self.packet(scene, record.run, &messages, 0);
            actions.push(Action::Send { from, to: hearer.me.address, bytes });
        }
    }

    /// Returns lies that another member leaves or has left, and that a dead one was heard.
    fn goodbyes(&mut self, scene: &Scene, hearer: &Honest) -> Vec<Message> {
        let victim = self.one_of(scene);
        let statuses = [Status::Leaving, Status::Left(LeaveReason::Graceful)];
        let status = statuses[self.random.index(statuses.len())];
        let incarnation = victim.me.incarnation + self.random.below(2);
        let lie = update(Record { incarnation, ..victim.me.with_status(status) });
        let said = Some(lie).filter(|_| victim.me.run != hearer.me.run && victim.is_up);
        let dead = scene.dead.last().map(|dead| self.alive(dead.run));
        said.into_iter().chain(dead).collect()
    }

    fn alive(&self, run: Run) -> Message {
        Message::Alive { run, sequence: (1 << 40) + self.acts }
    }

    /// Receives a datagram or frame at one of the adversary's addresses; returns the answers.
    pub(crate) fn hear(&mut self, scene: &Scene, at: SocketAddr, from: SocketAddr, bytes: &[u8]) -> Vec<Action> {
        self.counts.answers += 1;
        let Some(place) = self.by_address.get(&at).copied() else { return Vec::new() };
        let Ok(packet) = Packet::decode(bytes) else { return Vec::new() };
        let mut actions = Vec::new();
        for message in packet.messages {
            self.hear_message(scene, place, from, &message, &mut actions);
        }
        actions
    }

    fn hear_message(
        &mut self,
        scene: &Scene,
        place: usize,
        to: SocketAddr,
        message: &Message,
        actions: &mut Vec<Action>,
    ) {
        let own = self.invented[place].clone();
        let behaves =
            matches!(self.attack, Attack::Gossip | Attack::JoinerLies | Attack::SecondOwner | Attack::Goodbyes);
        let has_met = |it: &Self| {
            let asks = scene.honest.iter().find(|honest| honest.me.address == to);
            asks.is_some_and(|honest| it.met.contains(&honest.me.run))
        };
        let mut say = |it: &mut Self, messages: &[Message]| {
            let bytes = it.packet(scene, own.record.run, messages, 0);
            actions.push(Action::Send { from: own.from, to, bytes });
        };
        match *message {
            Message::Challenge { cookie, .. } => {
                let action = self.ask(scene, place, to, Some(cookie));
                actions.push(action);
            }
            Message::Welcome { .. } if self.attack != Attack::Places => {
                self.invented[place].is_in = true;
                if self.admitted.insert(own.record.run) {
                    self.met = scene.honest.iter().filter(|honest| honest.is_up).map(|honest| honest.me.run).collect();
                }
                self.counts.admitted = self.admitted.len() as u64;
                let up = update(own.record.with_status(Status::Up));
                say(self, &[Message::Pull { after: None, pages: 1 }, up]);
            }
            Message::Behind { incarnation, .. } => self.invented[place].record.incarnation = incarnation + 1,
            Message::Elsewhere { members, .. } if self.attack != Attack::Places => {
                for member in members.into_iter().flatten() {
                    let action = self.ask(scene, place, member, None);
                    actions.push(action);
                }
            }
            // Before admission every newcomer answers; afterwards a crowd falls silent.
            Message::Probe { nonce, .. } if behaves || !own.is_in => say(self, &[Message::Ack { nonce }]),
            Message::WhoAreYou { nonce, .. } if behaves || !own.is_in => {
                let record = own.record.with_status(if own.is_in { Status::Up } else { Status::Joining });
                say(self, &[Message::IAm { nonce, record }]);
            }
            Message::Severed { run, .. } if self.attack == Attack::Goodbyes && has_met(self) => {
                let alive = self.alive(run);
                say(self, &[alive]);
            }
            Message::Join { nonce, .. } if self.attack == Attack::JoinerLies => {
                let lie = self.joiner_lie(scene, nonce, &own.record);
                say(self, &[lie]);
            }
            _ => {}
        }
    }

    /// Returns a lie for a joiner that asks.
    fn joiner_lie(&mut self, scene: &Scene, nonce: Nonce, own: &Record) -> Message {
        let victim = self.one_of(scene);
        let refusals = [Refusal::NameInUse { holder: victim.me.address }, Refusal::OtherCluster];
        match self.random.below(7) {
            0 => Message::Elsewhere { nonce, members: [Some(own.address); MAX_REFERRALS] },
            1 => Message::Refused { nonce, refusal: refusals[self.random.index(2)].clone() },
            2 => Message::NotUp { nonce, record: own.with_status(Status::Joining), joiners: 1_000 },
            3 => Message::Behind { nonce, incarnation: Record::INCARNATION_LIMIT - 2 },
            4 => Message::Wait { nonce, wait_ms: u32::MAX },
            5 => Message::Challenge { nonce, cookie: nonce },
            // A view of one member.
            _ => Message::Welcome { nonce, sponsor: own.with_status(Status::Up), count: 1 },
        }
    }
}

/// Returns the address of a victim, which asked for nothing.
fn victim(number: usize) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1 + (number % 200) as u8).into(), 9)
}
