//! Founding: the choice of the first member among nodes that look for a cluster and find none.
//!
//! A *candidate* for founding (no election's candidate: nobody votes) is a node that is a seed: its own list of seeds
//! names it, or others ask it as one of theirs, whether or not its own list names it. The first candidate founds the
//! cluster: listed ones come before named ones, then the smaller address.
//!
//! Every node knows the candidates that it asked and that answered `NotUp`; it passes the first of these on, beside its
//! own questions and answers ([`Seeking`]). A node that hears of a candidate that comes before all that it has reached
//! asks that one, too: only candidates that answer count, so that no node waits for a dead or an invented one. That way
//! the first candidate becomes known all around a ring of seeds of which each names only the next, and it has
//! everybody's question when it becomes Up.
//!
//! Invariants:
//! - A node whose own list names it hears of candidates from its own seeds alone: strangers that ask it cannot make it
//!   wait.
//! - A node that only others name founds later than a listed one that it reached, and only after it heard of no new
//!   candidate for [`FOUNDING_DELAY`].
//! - In a retry interval at most [`MAX_CANDIDATE_NEWS`] candidates are asked at once because others named them, or told to
//!   others at once because they come first.
//! - A candidate of which this node only heard (see `asked`) counts as one at the address that was asked. Nothing is founded
//!   while a view is being pulled, which ends by itself.
//! - A node founds nothing while one of its seeds takes its connections and does not open what it sends (see `status`): before
//!   it founds, it opens bootstrap links to those that do not answer. One that refuses it because of the cluster's
//!   name is as good as none, unless that one asks this node, too.
//! - A node waits for other candidates no longer than twice the patience of [`FOUNDING_RETRIES`] retry intervals.
//!
//! Must not know: what is done once a cluster is there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::asked::Answerer;
use super::join::{JoinStep, Joiner};
use super::status::answers_count_for;
use crate::discovery::Reunion;
use crate::io::{Contacted, Notice, Output, Receiver};
use crate::limits::{FORMING_DELAY, FOUNDING_DELAY, FOUNDING_RETRIES, MAX_CANDIDATE_NEWS, MAX_JOINERS, MAX_SEEDS};
use crate::member::{Record, Run};
use crate::packet::Newcomer;
use crate::packet::Outbox;
use crate::recent::PerInterval;
use crate::time::Time;
use crate::timers::Timer;
use crate::wire::{Candidacy, Candidate, Message, Nonce, Seeking};

/// A joining node's knowledge of the other nodes that are Joining.
#[derive(Debug, Clone, Default)]
pub(crate) struct Founding {
    /// The nodes that answered that they are not Up, by the address that was asked.
    not_up: BTreeMap<SocketAddr, OtherJoiner>,
    /// Time at which this node was last asked as one of the asker's seeds.
    named_at: Option<Time>,
    /// Time at which a new candidate, or a new node that has this one for a seed, was last heard of.
    newest_at: Option<Time>,
    /// A candidate that others named, which comes before all that were reached then; it is asked at each try.
    hint: Option<(Candidate, Time)>,
    /// The number of candidates that were asked because others named them, and of those that others were told of at once.
    news: PerInterval,
    /// True if another node of this cluster was Joining, too, at some time.
    pub(crate) met_joiners: bool,
}

/// Another node that is Joining.
#[derive(Debug, Clone, Copy)]
struct OtherJoiner {
    run: Run,
    /// True if this node was told of the address that was asked.
    is_told: bool,
    address: SocketAddr,
    candidacy: Option<Candidacy>,
    at: Time,
}

impl Founding {
    /// Returns the first of the candidates that answered.
    fn first(&self) -> Option<Candidate> {
        let candidates = self.not_up.values();
        candidates.filter_map(|r| Some(Candidate { candidacy: r.candidacy?, address: r.address })).min()
    }

    /// Returns the number of nodes that are not Up and answered.
    pub(super) fn answered(&self) -> usize {
        self.not_up.len()
    }

    /// Returns the number of those that answered at addresses of which this node was told.
    pub(super) fn told_answered(&self) -> usize {
        self.not_up.values().filter(|other| other.is_told).count()
    }

    fn has_met(&self, run: Run) -> bool {
        self.not_up.values().any(|other| other.run == run)
    }

    /// Returns a candidate to be asked although it is not one of our seeds.
    pub(super) fn target(&self) -> Option<SocketAddr> {
        self.hint.map(|(candidate, _)| candidate.address)
    }

    /// Notes a node that answered that it is not Up. At most [`MAX_JOINERS`] are remembered.
    fn answered_by(&mut self, asked: SocketAddr, other: OtherJoiner) {
        if self.not_up.len() < MAX_JOINERS || self.not_up.contains_key(&asked) {
            self.not_up.insert(asked, other);
        }
    }

    /// Forgets everything that was not heard again for this long.
    fn forget(&mut self, now: Time, after: Duration) {
        self.not_up.retain(|_, other| now.since(other.at) <= after);
        self.named_at = self.named_at.filter(|at| now.since(*at) <= after);
        self.hint = self.hint.filter(|(_, at)| now.since(*at) <= after);
    }
}

impl Joiner {
    /// Returns the reason why this node may found its cluster, if it may.
    pub(crate) fn candidacy(&self, reunion: &Reunion) -> Option<Candidacy> {
        let Some(joining) = &self.joining else { return None };
        let is_named = joining.founding.named_at.is_some() && reunion.has_seeds();
        if joining.is_seed { Some(Candidacy::Listed) } else { is_named.then_some(Candidacy::Named) }
    }

    /// Returns the message beside a question to this address, or beside the answer to a node that asks; `None` if there
    /// is nothing to tell.
    pub(crate) fn seeking(&self, reunion: &Reunion, asked: Option<SocketAddr>) -> Option<Seeking> {
        let Some(joining) = &self.joining else { return None };
        let asks_seed = asked.is_some_and(|to| reunion.is_seed(to));
        let (candidacy, first) = (self.candidacy(reunion), joining.founding.first());
        (asks_seed || candidacy.is_some() || first.is_some()).then_some(Seeking { asks_seed, candidacy, first })
    }

    /// Handles a joiner that proved its address and asks this node, which is Joining itself.
    pub(crate) fn asked_while_joining(
        &mut self,
        out: &mut Outbox<'_>,
        reunion: &Reunion,
        from: SocketAddr,
        record: &Record,
        seeking: Seeking,
    ) {
        let (now, is_from_seed) = (out.cx.now, reunion.is_seed(from));
        let Some(joining) = &mut self.joining else { return };
        if seeking.asks_seed {
            let was_named = joining.founding.named_at.replace(now).is_some();
            if !was_named {
                joining.founding.newest_at = Some(now);
                // The others may not have been running when they were asked last.
                joining.ask_soon();
                self.try_at_once(out.cx);
                out.cx.timers.set_by(Timer::Found, now + FOUNDING_DELAY);
            } else if is_from_seed && !joining.founding.has_met(record.run) {
                joining.ask_soon();
                self.try_at_once(out.cx);
            }
        }
        if self.candidacy(reunion) != Some(Candidacy::Listed) {
            let asker = seeking.candidacy.map(|candidacy| Candidate { candidacy, address: record.address });
            self.heard_of_candidate(out, reunion, asker.into_iter().chain(seeking.first).min());
        }
    }

    /// Handles a candidate that others name: if it comes before all that were reached, it is asked itself.
    fn heard_of_candidate(&mut self, out: &mut Outbox<'_>, reunion: &Reunion, candidate: Option<Candidate>) {
        let (now, mine, interval) = (out.cx.now, out.view.me().address, out.cx.settings.retry_interval);
        let me = self.candidacy(reunion).map(|candidacy| Candidate { candidacy, address: mine });
        let Some(joining) = &mut self.joining else { return };
        let Some(candidate) = candidate.filter(|candidate| candidate.address != mine) else { return };
        let founding = &mut joining.founding;
        let known = [me, founding.first(), founding.hint.map(|(hint, _)| hint)].into_iter().flatten().min();
        if known.is_some_and(|known| known <= candidate) || !founding.news.take(now, interval, MAX_CANDIDATE_NEWS) {
            return;
        }
        founding.hint = Some((candidate, now));
        if !self.is_pulling() {
            self.ask_to_join(out, reunion, candidate.address, false);
        }
    }

    /// Handles the answer of a node that is Joining itself; returns true if it counts. `waiting`: those that asked this one.
    pub(crate) fn on_not_up(
        &mut self,
        out: &mut Outbox<'_>,
        reunion: &Reunion,
        waiting: impl FnOnce() -> Vec<Newcomer>,
        nonce: Nonce,
        record: &Record,
        seeking: Option<Seeking>,
    ) -> bool {
        let (now, interval) = (out.cx.now, out.cx.settings.retry_interval);
        let Some((joining, Answerer { address: asked, is_told })) = self.answer_by(out.cx, nonce) else { return false };
        let founding = &mut joining.founding;
        founding.met_joiners |= is_told;
        let before = founding.first();
        let candidacy = seeking.and_then(|seeking| seeking.candidacy);
        let address = if is_told { record.address } else { asked };
        founding.answered_by(asked, OtherJoiner { run: record.run, is_told, address, candidacy, at: now });
        joining.asked.answered(asked, Contacted::NotUp { id: Some(record.id.clone()) }, now);
        if let Some((_, at)) = founding.hint.as_mut().filter(|(hint, _)| hint.address == address) {
            *at = now;
        }
        let first = founding.first();
        if first != before && first.is_some() {
            founding.newest_at = Some(now);
            if founding.news.take(now, interval, MAX_CANDIDATE_NEWS) {
                self.tell_candidate(out, reunion, &waiting());
            }
        }
        self.heard_of_candidate(out, reunion, seeking.and_then(|seeking| seeking.first));
        true
    }

    /// Tells the nodes that asked this one, and those that it asks, at once that another candidate comes first: as many
    /// of each as there may be seeds. A listed node's fellow seeds know each other from their lists.
    pub(crate) fn tell_candidate(&mut self, out: &mut Outbox<'_>, reunion: &Reunion, waiting: &[Newcomer]) {
        if self.candidacy(reunion) == Some(Candidacy::Listed) {
            return;
        }
        for newcomer in waiting.iter().take(MAX_SEEDS) {
            self.answer_not_up(out, reunion, newcomer, waiting.len());
        }
        if !self.is_pulling() {
            for to in reunion.join_targets(false).into_iter().take(MAX_SEEDS) {
                self.ask_told_to_join(out, reunion, to);
            }
        }
    }

    /// Answers that this node is Joining itself, as are so many that wait for it.
    pub(crate) fn answer_not_up(&self, out: &mut Outbox<'_>, reunion: &Reunion, newcomer: &Newcomer, waiting: usize) {
        let (record, joiners) = (Record::clone(out.view.me()), waiting as u32);
        let seeking = self.seeking(reunion, None);
        let mut packet = out.packet(usize::MAX);
        packet.push(&Message::Reply);
        if let Some(seeking) = seeking {
            packet.push(&Message::Seeking(seeking));
        }
        packet.push(&Message::NotUp { nonce: newcomer.nonce, record, joiners });
        out.transmit(newcomer.from, Receiver::of(newcomer.record.run), packet);
    }

    /// Decides whether to found a cluster; called at the founding delay, with every answer of another Joining node
    /// after it, and when patience ends. `may_form`: the members of its cluster would form an electorate, and it knows of
    /// none; `is_raising`: a raised incarnation waits for the disk.
    pub(crate) fn consider_founding(
        &mut self,
        out: &mut Outbox<'_>,
        reunion: &Reunion,
        may_form: bool,
        is_raising: bool,
    ) -> Option<JoinStep> {
        let patience = out.cx.settings.retry_interval * FOUNDING_RETRIES;
        let (now, address, lately) = (out.cx.now, out.view.me().address, out.cx.settings.retry_interval * 2);
        // It is longer if the members of the cluster would form an electorate: others may know of one.
        let delay = if may_form { FOUNDING_DELAY + FORMING_DELAY } else { FOUNDING_DELAY };
        let joining = self.joining.as_mut()?;
        joining.founding.forget(now, lately);
        let waited = joining.waited(out.cx.now);
        if waited < delay {
            out.cx.timers.set_by(Timer::Found, now + delay.saturating_sub(waited));
            return None;
        }
        let mine = self.candidacy(reunion).map(|candidacy| Candidate { candidacy, address });
        let joining = self.joining.as_ref()?;
        let founding = &joining.founding;
        let next_look = match patience.saturating_sub(waited) {
            Duration::ZERO => out.cx.settings.retry_interval,
            rest => rest,
        };
        out.cx.timers.set_by(Timer::Found, out.cx.now + next_look);
        let named = mine.is_some_and(|mine| mine.candidacy == Candidacy::Named);
        let newest = joining.newest_seed_at.max(founding.newest_at.filter(|_| named));
        let settled_at = newest.map_or(now, |newest| newest + FOUNDING_DELAY);
        if now < settled_at {
            out.cx.timers.set_by(Timer::Found, settled_at);
        }
        let has_asked_all = !joining.awaits_names && now >= settled_at;
        let is_before = mine.is_some_and(|mine| founding.first().is_none_or(|first| mine < first));
        let is_alone = founding.not_up.is_empty() && joining.has_other_seeds;
        let awaited_until = joining.finders.awaited_until().filter(|until| now < *until);
        if let Some(until) = awaited_until {
            out.cx.timers.set_by(Timer::Found, until);
        }
        let is_first = has_asked_all && is_before && !is_alone && joining.reached.is_none();
        let unreached = joining.reached.map_or(waited, |at| out.cx.now.since(at));
        let may_start = mine.is_some() || !reunion.has_seeds();
        let is_refused = joining.asked.refuses_this_node(now, answers_count_for(&out.cx.settings))
            && founding.told_answered() == 0
            && joining.has_other_seeds
            && !founding.met_joiners;
        // Another node should found the cluster; if it does not, for whatever reason, others may after as long again.
        let patience = if mine.is_some() && !is_before { patience * 2 } else { patience };
        let is_patient = may_start && waited >= patience && unreached >= patience && !is_refused;
        // Whoever found this node knows a cluster; patience may be shorter than the time that they may take.
        let may_found =
            (is_first || is_patient) && awaited_until.is_none() && !self.is_held_up(out.cx, out.view, reunion);
        let founds = may_found && self.transfer.is_none() && !is_raising;
        founds.then(|| {
            out.cx.output(Output::Notice(Notice::Founded));
            JoinStep::BecomeUp
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ORIGIN;
    const INTERVAL: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    fn other(port: u16, at: Time) -> OtherJoiner {
        let address = SocketAddr::from(([10, 0, 0, 1], port));
        OtherJoiner { run: Run(port.into()), is_told: true, address, candidacy: Some(Candidacy::Named), at }
    }

    #[test]
    fn so_many_that_are_not_up_are_remembered_and_those_go_on_being_heard() {
        let mut founding = Founding::default();
        let asked = |port: u16| other(port, NOW).address;
        for port in 0..=MAX_JOINERS as u16 {
            founding.answered_by(asked(port), other(port, NOW));
        }
        assert_eq!(founding.not_up.len(), MAX_JOINERS);
        founding.answered_by(asked(0), other(0, NOW + INTERVAL));
        founding.forget(NOW + INTERVAL, INTERVAL / 2);
        assert_eq!(founding.not_up.len(), 1, "who answered again");
    }

    #[test]
    fn what_is_not_heard_again_is_forgotten_of_candidates_as_of_those_who_have_this_node_for_a_seed() {
        let candidate = Candidate { candidacy: Candidacy::Listed, address: other(1, NOW).address };
        let mut founding = Founding { named_at: Some(NOW), hint: Some((candidate, NOW)), ..Founding::default() };
        founding.answered_by(candidate.address, other(1, NOW));
        founding.forget(NOW + INTERVAL, INTERVAL);
        assert_eq!(
            (founding.not_up.len(), founding.target(), founding.named_at),
            (1, Some(candidate.address), Some(NOW))
        );
        founding.forget(NOW + INTERVAL + MS, INTERVAL);
        assert_eq!((founding.not_up.len(), founding.target(), founding.named_at), (0, None, None));
        assert_eq!(founding.first(), None);
    }
}
