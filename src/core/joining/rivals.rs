//! Two live processes of one name: the one whose record supersedes the other's stays, which is the one that began later.
//! That is what all others hold by then (see `member::precedence`), so that nobody has to be asked.
//!
//! ```text
//! others report another run with our name, at another address, by a record that supersedes ours
//!    │ it is asked three times for its record, at its address
//!    ├── it answers ─▶ we announce that we left, and stop
//!    └── no answer ─▶ it is dead, or was when that was said: we raise our incarnation above it, and have the name again
//! ```
//!
//! Where what is asked or answered is lost one way, both would raise for ever. So who has raised itself above the same run
//! [`MAX_RAISES`] times, and hears of it above that once more, takes that for the answer.
//!
//! The price: a second process that was started by mistake, and lived on the other side of a cut, beats the first one.
//! Where it can be asked, a live holder keeps its name (see `names`).
//!
//! Invariants: one dispute at a time; of two that give way by what they hear of each other, one alone does. (Each stops at
//! the sight of a record above its own, and an incarnation never falls: if one saw `b` above its `a`, all that the other can
//! have seen of it is `a` or less, which is not above `b`.)
//!
//! Must not know: how the rival got the name.

use std::time::Duration;

use crate::Core;
use crate::doors::{Notice, StopReason};
use crate::limits::QUESTION_INTERVAL;
use crate::member::{LeaveReason, Record, Run, Status};
use crate::time::Time;
use crate::timers::Timer;

/// The number of questions to a rival before its silence counts.
const QUESTIONS: u8 = 3;
/// The number of times that a node raises itself above one silent rival: late news of a dead one takes no more.
const MAX_RAISES: u8 = 3;

/// The dispute under way, and the last one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rivals {
    open: Option<NameConflict>,
    /// The silent rival above which this node raised itself last, and how often it did.
    raised_above: Option<(Run, u8)>,
    /// The time at which a rival was met last, or a dispute ended.
    last: Option<Time>,
}

#[derive(Debug, Clone)]
struct NameConflict {
    rival: Record,
    /// The number of questions asked.
    asked: u8,
}

impl Rivals {
    /// Returns true if a rival was met, or disputed with, within this time.
    pub(crate) fn are_met(&self, now: Time, within: Duration) -> bool {
        self.last.is_some_and(|last| now.since(last) < within)
    }

    /// Returns the number of times that this node raised itself above a run.
    fn raises(&self, rival: Run) -> u8 {
        self.raised_above.filter(|(run, _)| *run == rival).map_or(0, |(_, times)| times)
    }
}

impl Core {
    /// Handles the report of others that another run, at another address, has this node's name and a record that
    /// supersedes ours.
    pub(crate) fn hear_of_rival(&mut self, rival: &Record) {
        if !self.cx.phase.is_up() {
            return;
        }
        if let Some(open) = &mut self.rivals.open {
            if open.rival.run == rival.run && rival.supersedes(&open.rival) {
                open.rival = rival.clone();
            }
            return;
        }
        if self.rivals.last.is_some_and(|last| self.cx.now.since(last) < self.cx.settings.probe_timeout) {
            return;
        }
        if self.incarnation.covers(rival.incarnation) {
            // It is being raised above, and waits for the disk.
            return;
        }
        if self.rivals.raises(rival.run) >= MAX_RAISES {
            return self.give_way(rival);
        }
        self.rivals.open = Some(NameConflict { rival: rival.clone(), asked: 0 });
        self.dispute();
    }

    /// Handles another run of this node's name that introduced itself from its own address.
    pub(crate) fn met_rival(&mut self, rival: &Record) {
        if !self.cx.phase.is_up() {
            return;
        }
        self.rivals.last = Some(self.cx.now);
        if rival.supersedes(self.me()) {
            self.give_way(rival);
        }
    }

    /// Asks the rival once more, or takes its silence for an answer.
    pub(crate) fn dispute(&mut self) {
        let Some(open) = &mut self.rivals.open else { return };
        if open.asked >= QUESTIONS {
            return self.take_name_back();
        }
        open.asked += 1;
        let address = open.rival.address;
        self.out().ask_who(address);
        // No address is answered more often.
        self.cx.timers.set(Timer::Rival, self.cx.now + self.cx.settings.probe_timeout.max(QUESTION_INTERVAL));
    }

    /// Announces that it left, so that the name is free at once among those that knew this node, and stops.
    fn give_way(&mut self, rival: &Record) {
        let id = self.me().id.clone();
        self.rewrite_myself(self.me().with_status(Status::Left(LeaveReason::Graceful)));
        self.flood();
        self.stop(StopReason::NameInUse { id, holder: rival.address });
    }

    /// Keeps the name: those that hold the rival learn of a higher incarnation.
    fn take_name_back(&mut self) {
        let Some(NameConflict { rival, .. }) = self.rivals.open.take() else { return };
        self.rivals.last = Some(self.cx.now);
        self.cx.notice("name claimed", Notice::NameClaimed { claimant: rival.address });
        if rival.supersedes(self.me()) {
            self.rivals.raised_above = Some((rival.run, self.rivals.raises(rival.run) + 1));
            self.raise_incarnation(rival.incarnation + 1);
        }
    }
}
