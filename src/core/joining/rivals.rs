//! Two live processes of one name: one of them ends, and no single liar chooses which.
//!
//! ```text
//! others report another run with our name, at another address
//!    │ it is asked three times for its record, at its address
//!    ├── no answer ─▶ if its record supersedes ours: we raise our incarnation above it, and have the name again
//!    ▼ it answers
//! up to [`MAX_NAME_WITNESSES`] settled members are asked which run they hold under that name
//!    ├── more hold it than us ─▶ we announce that we left, and stop
//!    ├── more hold us ─▶ we raise our incarnation above it
//!    ├── as many ─▶ the record that supersedes the other stands
//!    ├── half of those asked do not answer ─▶ nothing, until the two meet again
//!    └── no members to ask ─▶ we give way only to a superseding record at an address that we were told to contact
//! ```
//!
//! Sides that never knew each other have settled after [`SETTLE`](crate::core::limits::SETTLE): until then each may go
//! by its own. Two risks remain: half of the settled members together choose the owner of a name, and so does the only
//! other member of a cluster of two.
//!
//! Both sides do the same, and each makes the other one begin: a node that asks is asked back.
//!
//! Invariants:
//! - One dispute at a time. A dispute with a rival that answered replaces one with a rival that did not.
//! - Members count once, by their answers from the addresses of their records; young ones do not count if there are
//!   others.
//!
//! Must not know: how the rival got the name.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::core::counters::DropReason;
use crate::core::doors::{Notice, StopReason};
use crate::core::limits::{MAX_NAME_WITNESSES, MIN_QUESTION_BYTES};
use crate::core::member::{LeaveReason, NodeId, Record, Run, Status};
use crate::core::packet::Sender;
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::{Slot, View};
use crate::core::wire::{Message, Nonce};
use crate::core::{Core, Phase};

/// The number of questions to a rival before its silence counts, and of rounds of questions to members.
const QUESTIONS: u8 = 3;

/// The dispute under way, and the time at which the last one ended.
#[derive(Debug, Default)]
pub(in crate::core) struct Rivals {
    open: Option<NameConflict>,
    last: Option<Time>,
}

#[derive(Debug)]
struct NameConflict {
    rival: Record,
    /// True if a packet of its run answered from its address.
    is_there: bool,
    /// True if more members hold it than this node, which has the superseding record: they are asked once more.
    is_second_look: bool,
    /// The number of questions asked in this stage.
    asked: u8,
    /// The members that were asked, and the run that each holds under our name.
    witnesses: BTreeMap<Run, Answer>,
}

/// A member's answer to the question which run it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Awaited,
    /// The member holds this run, or no live one.
    Holds(Option<Run>),
}

impl Rivals {
    /// Returns true if a rival answered, or one was disputed with within this time.
    pub(in crate::core) fn are_met(&self, now: Time, within: Duration) -> bool {
        let is_open = self.open.as_ref().is_some_and(|open| open.is_there);
        is_open || self.last.is_some_and(|last| now.since(last) < within)
    }
}

impl Core {
    /// Handles the report of others that another run, at another address, has this node's name and a record that
    /// supersedes ours.
    pub(in crate::core) fn hear_of_rival(&mut self, rival: &Record) {
        if !matches!(self.phase, Phase::Up) {
            return;
        }
        if let Some(open) = &mut self.rivals.open {
            if open.rival.run == rival.run && rival.supersedes(&open.rival) && rival.address == open.rival.address {
                open.rival = rival.clone();
            }
            return;
        }
        if self.rivals.last.is_some_and(|last| self.now.since(last) < self.settings.probe_timeout) {
            return;
        }
        self.rivals.open = Some(NameConflict {
            rival: rival.clone(),
            is_there: false,
            is_second_look: false,
            asked: 0,
            witnesses: BTreeMap::new(),
        });
        self.dispute();
    }

    /// Handles another run of this node's name that introduced itself from its own address.
    pub(in crate::core) fn met_rival(&mut self, rival: Record) {
        if !matches!(self.phase, Phase::Up) {
            return;
        }
        match &mut self.rivals.open {
            Some(open) if open.rival.run == rival.run => {
                let is_news = !std::mem::replace(&mut open.is_there, true);
                if rival.supersedes(&open.rival) {
                    open.rival = rival;
                }
                if !is_news {
                    return;
                }
                open.asked = 0;
            }
            Some(open) if open.is_there => return,
            _ => {
                if self.rivals.last.is_some_and(|last| self.now.since(last) < self.settings.probe_timeout) {
                    return;
                }
                self.rivals.open = Some(NameConflict {
                    rival,
                    is_there: true,
                    is_second_look: false,
                    asked: 0,
                    witnesses: BTreeMap::new(),
                });
            }
        }
        self.dispute();
    }

    /// Takes the next step of the dispute.
    pub(in crate::core) fn dispute(&mut self) {
        let Some(open) = &mut self.rivals.open else { return };
        let is_heard_out = open.asked >= QUESTIONS;
        open.asked += 1;
        let (is_there, address) = (open.is_there, open.rival.address);
        if is_there && (self.ask_jurors() || is_heard_out) {
            return self.decide_dispute();
        }
        if !is_there {
            if is_heard_out {
                return self.take_name_back();
            }
            self.ask_who(address);
        }
        self.timers.set(Timer::Rival, self.now + self.settings.probe_timeout);
    }

    /// Asks members which run they hold; returns true if no member is left to be asked.
    fn ask_jurors(&mut self) -> bool {
        let Some(open) = &self.rivals.open else { return true };
        if open.asked == 1 {
            let mut known = self.settled_members();
            if known.is_empty() {
                // This node sends nothing to members of which it is a stranger, under a name that another run has: they
                // seem dead here.
                let others = self.view.iter().filter(|(slot, entry)| *slot != View::ME && entry.status == Status::Down);
                known = others.map(|(slot, _)| slot).collect();
            }
            // The order is the same for both sides, as far as they know the same members.
            let seed = self.view.entry(View::ME).name_hash;
            let lot = |slot: &Slot| xxh3_64_with_seed(&self.view.entry(*slot).name_hash.to_le_bytes(), seed);
            known.sort_unstable_by_key(lot);
            known.truncate(MAX_NAME_WITNESSES);
            let runs = known.iter().map(|slot| (self.view.record(*slot).run, Answer::Awaited)).collect();
            if let Some(open) = &mut self.rivals.open {
                open.witnesses = runs;
            }
        }
        let Some(open) = &self.rivals.open else { return true };
        let silent: Vec<Run> =
            open.witnesses.iter().filter(|(_, answer)| **answer == Answer::Awaited).map(|(run, _)| *run).collect();
        let silent: Vec<Slot> = silent.into_iter().filter_map(|run| self.view.slot_of_run(run)).collect();
        let id = self.me().id.clone();
        for slot in &silent {
            let nonce = self.prover.nonce(self.view.record(*slot).address, self.now);
            let mut packet = self.packet(usize::MAX);
            packet.push(&Message::WhoHolds { nonce, id: id.clone() });
            packet.pad_to(self.question_bytes(MIN_QUESTION_BYTES));
            self.send_to(*slot, packet);
        }
        silent.is_empty()
    }

    /// Answers which run this node holds under a name. A rival's side holds another run under the asker's own name, so
    /// the asker is a stranger here, and is answered like one: once in a while, with less than it asked.
    pub(in crate::core) fn tell_holder(&mut self, sender: Sender, nonce: Nonce, id: &NodeId) {
        if !matches!(self.phase, Phase::Up) {
            return self.counters.drop(DropReason::WrongState);
        }
        let held = self.view.slot_of(id.as_str()).map(|slot| self.view.record(slot));
        let is_live = |record: &&Arc<Record>| matches!(record.status, Status::Up | Status::Suspect | Status::Leaving);
        let run = held.filter(is_live).map(|record| record.run);
        self.answer_with(sender, &Message::Holds { nonce, run });
    }

    /// Handles the answer from a member's address.
    pub(in crate::core) fn told_holder(&mut self, from: SocketAddr, nonce: Nonce, run: Option<Run>) {
        let is_asked = self.prover.is_nonce(nonce, from, self.now);
        let is_there =
            |witness: &Run| self.view.slot_of_run(*witness).is_some_and(|slot| self.view.record(slot).address == from);
        let open = self.rivals.open.as_mut().filter(|_| is_asked);
        let answer = open.and_then(|open| open.witnesses.iter_mut().find(|(witness, _)| is_there(witness)));
        let Some((_, answer)) = answer else { return self.counters.drop(DropReason::Unasked) };
        *answer = Answer::Holds(run);
        let is_complete = |open: &NameConflict| !open.witnesses.values().any(|answer| *answer == Answer::Awaited);
        if self.rivals.open.as_ref().is_some_and(is_complete) {
            self.decide_dispute();
        }
    }

    fn decide_dispute(&mut self) {
        let Some(open) = &self.rivals.open else { return };
        let answered =
            |run: Option<Run>| open.witnesses.values().filter(|answer| **answer == Answer::Holds(run)).count();
        let (mine, theirs) = (answered(Some(self.run)), answered(Some(open.rival.run)));
        let heard = open.witnesses.values().filter(|answer| **answer != Answer::Awaited).count();
        let is_live =
            |run: &&Run| self.view.slot_of_run(**run).is_some_and(|slot| self.view.entry(slot).status.is_live());
        let live = open.witnesses.keys().filter(is_live).count();
        let (address, is_ahead) = (open.rival.address, open.rival.supersedes(self.me()));
        if heard * 2 <= live && live > 0 {
            // Too few to decide by.
            return self.end_dispute();
        }
        let is_outvoted = if mine + theirs == 0 {
            is_ahead && self.reunion.is_contact(address)
        } else {
            theirs > mine || (theirs == mine && is_ahead)
        };
        if !is_outvoted {
            // The superseding record stays, and by that alone, if as many members hold each.
            return if mine == theirs && mine > 0 { self.end_dispute() } else { self.take_name_back() };
        }
        if is_ahead || open.is_second_look {
            return self.give_way(address);
        }
        // The rival may be about to give way, too: the superseded one does so first.
        if let Some(open) = &mut self.rivals.open {
            (open.is_second_look, open.asked) = (true, 0);
            open.witnesses.clear();
            self.timers.set(Timer::Rival, self.now + self.settings.probe_timeout * 2);
        }
    }

    /// Announces that it left, so that the name is free at once among those that knew this node, and stops.
    fn give_way(&mut self, holder: SocketAddr) {
        let id = self.me().id.clone();
        self.rewrite_myself(self.me().with_status(Status::Left(LeaveReason::Graceful)));
        self.flood();
        self.stop(StopReason::NameInUse { id, holder });
    }

    fn end_dispute(&mut self) {
        self.timers.cancel(Timer::Rival);
        self.rivals.last = Some(self.now);
        self.rivals.open = None;
    }

    /// Keeps the name: those that hold the rival learn of a higher incarnation.
    fn take_name_back(&mut self) {
        let Some(rival) = self.rivals.open.as_ref().map(|open| open.rival.clone()) else { return };
        self.end_dispute();
        self.notice("name claimed", Notice::NameClaimed { claimant: rival.address });
        if rival.supersedes(self.me()) {
            self.raise_incarnation(rival.incarnation + 1);
        }
    }

    /// Returns the members whose word counts about this node: the settled ones, or all if there are none.
    pub(super) fn settled_members(&self) -> Vec<Slot> {
        let live = || self.view.live().iter().copied();
        let settled: Vec<Slot> = live().filter(|slot| self.is_settled(*slot)).collect();
        if settled.is_empty() { live().collect() } else { settled }
    }
}
