//! Two live processes of one name: the one whose record supersedes the other's stays, which is the one that began later.
//! That is what all others hold by then (see `member::record`), so that nobody has to be asked.
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

use std::net::SocketAddr;
use std::time::Duration;

use crate::context::Context;
use crate::io::Notice;
use crate::limits::QUESTION_INTERVAL;
use crate::member::{Record, Run};
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

/// What this node does about a rival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RivalStep {
    /// It is asked at its address who it is.
    Ask(SocketAddr),
    /// It has the name: this node announces that it left, and stops.
    GiveWay(SocketAddr),
    /// It is silent: this node raises its incarnation above this one.
    RaiseAbove(u64),
}

impl Rivals {
    /// Takes the report of others that another run, at another address, has this node's name and a record that
    /// supersedes ours. `is_raising`: this node's own raise above it waits for the disk.
    pub(crate) fn heard_of(
        &mut self,
        cx: &mut Context,
        me: &Record,
        rival: &Record,
        is_raising: bool,
    ) -> Option<RivalStep> {
        if !cx.phase.is_up() {
            return None;
        }
        if let Some(open) = &mut self.open {
            if open.rival.run == rival.run && rival.supersedes(&open.rival) {
                open.rival = rival.clone();
            }
            return None;
        }
        if is_raising || self.are_met(cx.now, cx.settings.probe_timeout) {
            return None;
        }
        if self.raises(rival.run) >= MAX_RAISES {
            return Some(RivalStep::GiveWay(rival.address));
        }
        self.open = Some(NameConflict { rival: rival.clone(), asked: 0 });
        self.dispute(cx, me)
    }

    /// Takes note of another run of this node's name that introduced itself from its own address.
    pub(crate) fn met(&mut self, cx: &Context, me: &Record, rival: &Record) -> Option<RivalStep> {
        if !cx.phase.is_up() {
            return None;
        }
        self.last = Some(cx.now);
        rival.supersedes(me).then_some(RivalStep::GiveWay(rival.address))
    }

    /// Asks the rival once more, or takes its silence for an answer: those that hold it learn of a higher incarnation.
    pub(crate) fn dispute(&mut self, cx: &mut Context, me: &Record) -> Option<RivalStep> {
        let open = self.open.as_mut()?;
        if open.asked < QUESTIONS {
            open.asked += 1;
            // No address is answered more often.
            cx.timers.set(Timer::Rival, cx.now + cx.settings.probe_timeout.max(QUESTION_INTERVAL));
            return Some(RivalStep::Ask(open.rival.address));
        }
        let NameConflict { rival, .. } = self.open.take()?;
        self.last = Some(cx.now);
        cx.notice("name claimed", Notice::NameClaimed { claimant: rival.address });
        if !rival.supersedes(me) {
            return None;
        }
        self.raised_above = Some((rival.run, self.raises(rival.run) + 1));
        Some(RivalStep::RaiseAbove(rival.incarnation))
    }
}
