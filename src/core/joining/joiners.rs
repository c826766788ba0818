//! Joiners: those that a sponsor holds *beside* the view, until they are Up or gone.
//!
//! Invariants:
//! - A joiner is listed as joining; it is neither hashed, gossiped nor synced.
//! - There are at most [`MAX_JOINERS`], of which the longest idle one gives way; one that is silent for the down timeout is
//!   dropped.
//! - Joiners that ask before this node is Up itself wait: as many, and the one gives way that asked least lately.
//!
//! Must not know: who is admitted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::reachable::Unreached;
use super::sponsor::Sponsor;
use crate::context::Context;
use crate::io::{Notice, Output};
use crate::limits::{JOIN_ANSWER_INTERVAL, JOIN_ANSWERS_AT_ONCE, MAX_JOIN_ASKERS, MAX_JOINERS, REACH_PATIENCE};
use crate::member::{Change, ChangeKind, NodeId, Record, Run};
use crate::packet::Newcomer;
use crate::packet::Outbox;
use crate::recent::Recent;
use crate::time::Time;
use crate::timers::Timer;

/// The joiners of this sponsor, by run.
#[derive(Debug, Clone)]
pub(crate) struct Joiners {
    held: BTreeMap<Run, Held>,
    /// Joiners that asked while this node was Joining itself; they are admitted when it is Up.
    waiting: BTreeMap<Run, (Newcomer, Time)>,
    /// Joiners that were not admitted, because no node answers at the addresses that they advertise.
    pub(crate) unreached: Unreached,
    /// Whose questions were answered lately, and when it has all its turns back: [`JOIN_ANSWERS_AT_ONCE`], and one more in each
    /// [`JOIN_ANSWER_INTERVAL`]. That ends what a joiner and its sponsor might otherwise do to each other for ever.
    answered: Recent<(Run, SocketAddr)>,
}

#[derive(Debug, Clone)]
struct Held {
    record: Arc<Record>,
    /// The address that its cookie was sent to, and came back from.
    from: SocketAddr,
    /// The source address of its packets: another one, if addresses are translated on the way.
    heard_from: SocketAddr,
    heard: Time,
    /// Time at which it was first admitted.
    since: Time,
    /// True if it was reported as joining: its name is not listed in any other way.
    is_listed: bool,
}

/// The state of a member from the time when it was joining.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The joining record of that name that was reported.
    pub(crate) listed: Option<Arc<Record>>,
    /// True if its address has echoed a cookie.
    pub(crate) proven: bool,
}

impl Held {
    fn is_at(&self, address: SocketAddr) -> bool {
        self.from == address || self.heard_from == address
    }
}

impl Default for Joiners {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            unreached: Unreached::default(),
            answered: Recent::new(JOIN_ANSWER_INTERVAL * JOIN_ANSWERS_AT_ONCE, MAX_JOIN_ASKERS),
        }
    }
}

impl Joiners {
    /// Returns the number of askers that are remembered.
    pub(crate) fn askers(&self) -> usize {
        self.answered.size()
    }

    /// Returns true if a joiner is to be answered now; counts it if so (the generic cell rate algorithm: ITU-T I.371).
    pub(crate) fn take_answer(&mut self, now: Time, run: Run, address: SocketAddr) -> bool {
        let most = JOIN_ANSWER_INTERVAL * JOIN_ANSWERS_AT_ONCE;
        let key = (run, address);
        let spent_until = self.answered.get(&key).map_or(now, |until| now.max(until));
        let next = spent_until + JOIN_ANSWER_INTERVAL;
        let is_allowed = next.since(now) <= most;
        self.answered.set(now, key, if is_allowed { next } else { spent_until });
        is_allowed
    }

    /// Returns the number of joiners that are kept.
    pub(crate) fn size(&self) -> usize {
        self.held.len() + self.waiting.len()
    }

    pub(crate) fn contains(&self, run: Run) -> bool {
        self.held.contains_key(&run)
    }

    /// Returns true if this is a joiner's own record, under the name with which it was admitted, from the address that
    /// its cookie came back from.
    pub(crate) fn is_admitted(&self, run: Run, from: SocketAddr, record: &Record) -> bool {
        let is_its_own = |joiner: &Held| joiner.is_at(from) && joiner.record.id == record.id;
        record.run == run && self.held.get(&run).is_some_and(is_its_own)
    }

    /// Returns true if the joiner of this run has itself sent a higher incarnation than this record has.
    pub(crate) fn is_ahead_of(&self, record: &Record) -> bool {
        self.held.get(&record.run).is_some_and(|joiner| joiner.record.incarnation > record.incarnation)
    }

    /// Returns the address at which a joiner is answered that is heard from `from`.
    pub(crate) fn address_of(&self, run: Run, from: SocketAddr) -> Option<SocketAddr> {
        self.held.get(&run).filter(|joiner| joiner.is_at(from)).map(|joiner| joiner.from)
    }

    /// Returns true if this run asked to join from another address, and does not advertise this one.
    pub(crate) fn is_elsewhere(&self, run: Run, from: SocketAddr) -> bool {
        let is_not_here = |at: SocketAddr, record: &Record| at != from && record.address != from;
        self.held.get(&run).is_some_and(|joiner| is_not_here(joiner.from, &joiner.record))
            || self.waiting.get(&run).is_some_and(|(newcomer, _)| is_not_here(newcomer.from, &newcomer.record))
    }

    /// Returns the number of joiners listed as joining.
    pub(crate) fn listed(&self) -> usize {
        self.held.values().filter(|joiner| joiner.is_listed).count()
    }

    /// Keeps a newcomer until this node is Up. If there are too many, the one gives way that asked least lately.
    pub(crate) fn keep_waiting(&mut self, newcomer: &Newcomer, now: Time) {
        let run = newcomer.record.run;
        if self.waiting.len() >= MAX_JOINERS && !self.waiting.contains_key(&run) {
            let idlest = self.waiting.iter().min_by_key(|(_, (_, asked))| *asked).map(|(run, _)| *run);
            idlest.and_then(|idlest| self.waiting.remove(&idlest));
        }
        self.waiting.insert(run, (newcomer.clone(), now));
    }

    /// Returns the number of joiners that wait until this node is Up.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes out those that wait.
    pub(crate) fn take_waiting(&mut self) -> Vec<Newcomer> {
        std::mem::take(&mut self.waiting).into_values().map(|(newcomer, _)| newcomer).collect()
    }

    /// Returns those that wait.
    pub(crate) fn all_waiting(&self) -> Vec<Newcomer> {
        self.waiting.values().map(|(newcomer, _)| newcomer.clone()).collect()
    }

    /// Returns the record of the joiner of this name.
    pub(crate) fn of_name(&self, id: &NodeId) -> Option<&Arc<Record>> {
        self.held.values().map(|joiner| &joiner.record).find(|record| record.id == *id)
    }

    /// Returns true if another joiner is held only in the place of one of these.
    pub(crate) fn is_full(&self) -> bool {
        self.held.len() >= MAX_JOINERS
    }

    /// Removes the joiner of a record that enters the view; its name is no longer listed as joining.
    pub(crate) fn take(&mut self, record: &Record) -> Taken {
        let mut taken = Taken::default();
        if let Some(joiner) = self.held.remove(&record.run) {
            taken.proven = joiner.from == record.address;
            taken.listed = Some(joiner.record).filter(|_| joiner.is_listed);
        }
        for joiner in self.held.values_mut().filter(|joiner| joiner.is_listed && joiner.record.id == record.id) {
            joiner.is_listed = false;
            taken.listed = Some(Arc::clone(&joiner.record));
        }
        taken
    }

    /// Returns the joiner that has been idle for the longest.
    pub(crate) fn idlest(&self) -> Option<Run> {
        self.held.iter().min_by_key(|(_, joiner)| joiner.heard).map(|(run, _)| *run)
    }
}

impl Sponsor {
    /// Tells the operator of a joiner of the other address family that asks again, or is dropped, although it was
    /// admitted and had time to be reached by members of this family: presumably they do not reach it.
    pub(crate) fn name_stuck_joiner(&self, cx: &mut Context, me: &Record, record: &Record) {
        let Record { ref id, run, address: advertised, .. } = *record;
        let here = me.address;
        let is_stuck = |joiner: &Held| cx.now.since(joiner.since) > REACH_PATIENCE;
        if advertised.is_ipv6() != here.is_ipv6() && self.joiners.held.get(&run).is_some_and(is_stuck) {
            let id = id.clone();
            cx.notice("joiner not reached", Notice::JoinerNotReached { id, advertised, here });
        }
    }

    /// Holds a joiner beside the view, and reports it if its name is new in the listing.
    pub(crate) fn hold(&mut self, cx: &mut Context, newcomer: &Newcomer, is_in_view: bool) {
        let record = Arc::new(newcomer.record.clone());
        let namesakes: Vec<Run> = self
            .joiners
            .held
            .iter()
            .filter(|(run, joiner)| joiner.record.id == record.id && **run != record.run)
            .map(|(run, _)| *run)
            .collect();
        let mut previous = None;
        for run in namesakes {
            cx.timers.cancel(Timer::Joiner(run));
            previous = self.joiners.held.remove(&run).filter(|joiner| joiner.is_listed).map(|joiner| joiner.record);
        }
        let before = self.joiners.held.get(&record.run);
        previous = before.filter(|joiner| joiner.is_listed).map(|joiner| Arc::clone(&joiner.record)).or(previous);
        let since = before.map_or(cx.now, |joiner| joiner.since);
        let is_listed = !is_in_view;
        if is_listed && previous.as_ref() != Some(&record) {
            cx.report(previous.as_ref(), &record, None);
        }
        cx.timers.set_by(Timer::Joiner(record.run), cx.now + cx.settings.down_timeout);
        let Newcomer { from, heard_from, .. } = *newcomer;
        let joiner = Held { from, heard_from, heard: cx.now, since, is_listed, record };
        self.joiners.held.insert(joiner.record.run, joiner);
    }

    /// Notes that a joiner of ours pulls, and so is alive.
    pub(crate) fn heard_joiner(&mut self, now: Time, run: Run) {
        if let Some(joiner) = self.joiners.held.get_mut(&run) {
            joiner.heard = now;
        }
    }

    /// Drops a joiner that has been silent for the down timeout.
    pub(crate) fn judge_joiner(&mut self, out: &mut Outbox<'_>, run: Run) {
        let Some(joiner) = self.joiners.held.get(&run) else { return };
        // By our own down timeout: a joiner's may be anything, and places are few.
        let deadline = joiner.heard + out.cx.settings.down_timeout;
        if deadline <= out.cx.now {
            let record = Arc::clone(&joiner.record);
            self.name_stuck_joiner(out.cx, out.view.me(), &record);
            return self.drop_joiner(out, run);
        }
        out.cx.timers.set(Timer::Joiner(run), deadline);
    }

    /// Removes a listed joiner of this name from the listing; returns true if there was one.
    pub(crate) fn drop_joiner_named(&mut self, out: &mut Outbox<'_>, id: &NodeId) -> bool {
        let named = self.joiners.held.iter().find(|(_, joiner)| joiner.is_listed && joiner.record.id == *id);
        let run = named.map(|(run, _)| *run);
        if let Some(run) = run {
            self.drop_joiner(out, run);
        }
        run.is_some()
    }

    /// Drops all joiners, and reports them as removed.
    pub(crate) fn drop_joiners(&mut self, out: &mut Outbox<'_>) {
        for run in self.joiners.held.keys().copied().collect::<Vec<_>>() {
            self.drop_joiner(out, run);
        }
        self.joiners.waiting.clear();
    }

    pub(crate) fn drop_joiner(&mut self, out: &mut Outbox<'_>, run: Run) {
        out.cx.timers.cancel(Timer::Joiner(run));
        if let Some(joiner) = self.joiners.held.remove(&run)
            && joiner.is_listed
        {
            let previous = Some(Arc::clone(&joiner.record));
            let change = Change { kind: ChangeKind::Removed, record: joiner.record, method: None, previous };
            out.cx.output(Output::Change(change));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_joiner_is_answered_so_often_at_once_and_so_often_after_that() {
        let (mut joiners, address) = (Joiners::default(), SocketAddr::from(([10, 0, 0, 1], 7117)));
        let mut count = 0;
        for ms in 0..10_000 {
            let now = Time::ORIGIN + Duration::from_millis(ms);
            count += u32::from(joiners.take_answer(now, Run(1), address));
            assert!(joiners.take_answer(now, Run(2 + ms), address), "another run: {ms}");
        }
        let most = JOIN_ANSWERS_AT_ONCE + 10_000 / JOIN_ANSWER_INTERVAL.as_millis() as u32;
        assert!((most - 2..=most).contains(&count), "{count} of {most}");
    }

    #[test]
    fn a_crowd_of_joiners_fills_no_table_and_keeps_nobody_waiting() {
        let mut joiners = Joiners::default();
        for run in 0..5 * MAX_JOIN_ASKERS as u64 {
            let address = SocketAddr::from(([10, 0, 0, 1], run as u16));
            assert!(joiners.take_answer(Time::ORIGIN, Run(run), address), "{run}");
            assert!(joiners.askers() <= 2 * MAX_JOIN_ASKERS);
        }
    }
}
