//! Indirect probes: before a silence becomes a suspicion, others are asked when they last heard the subject.
//!
//! One bad link is no death (the `ping-req` of SWIM, section 3.1, asked of memory instead of the network: an observer
//! that hears the subject anyway can answer at once). Three of its other observers are asked with the second probe, and all of them
//! with each later one, whatever they have answered: where links are cut, three witnesses may have lost the subject at the
//! same moment, and the next one hears it; and whoever had heard nothing may have heard it since. The answer "at age a" moves
//! the asker's own clock to a before the answer came: silence counts from the freshest sign that anybody received. An
//! answer may have waited anywhere, and so counts from soon after the last question that its member was asked.
//!
//! The *link* between the subject and this node is bad if others hear the subject: that is reported, once, with a
//! member that hears it, and taken back when the subject was heard directly for a while. Several such links at once are
//! evidence against this node (see `health`).
//!
//! Answers tell what the sender heard *itself* and what counts (see `heartbeat`), never what it was told, so that no
//! evidence can go round and grow younger on its way.
//!
//! Invariants: at most one inquiry about each observed member; an answer moves a last sign forward only.
//!
//! Must not know: what is done about a subject that nobody heard.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::{Detector, DetectorFacts};
use crate::context::Context;
use crate::counters::DropReason;
use crate::io::{Notice, Output};
use crate::member::Run;
use crate::observers::Observers;
use crate::packet::Outbox;
use crate::time::Time;
use crate::view::{Slot, View, is_due};
use crate::wire::Message;

/// The number of peers asked first, and of answers that are enough to judge by.
const WITNESSES: usize = 3;

/// The inquiries under way, by the run that is asked about: at most one per observed member.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inquiries {
    open: BTreeMap<Run, Inquiry>,
    /// The observed members that others hear and this node does not.
    degraded: BTreeMap<Run, Degraded>,
}

/// A bad link to a member.
#[derive(Debug, Clone)]
struct Degraded {
    /// The time at which another member last heard the member and this node did not.
    last: Time,
    /// True if the operator was told.
    is_told: bool,
}

/// The number of heartbeats that must be missed here until another member heard the subject, so that the link is bad.
/// Fewer prove nothing: also of a member that has just died, somebody heard the last packet.
const MISSED_HEARTBEATS: u32 = 2;

/// The number of suspect timeouts without a report by others after which a link has recovered.
const RECOVERED_AFTER: u32 = 2;

#[derive(Debug, Clone, Default)]
struct Inquiry {
    /// True if a sign of life has ended this inquiry: what is known from it says nothing about the next.
    is_over: bool,
    /// The times at which the first and the last probe were sent.
    began: Option<Time>,
    last: Option<Time>,
    probes: u32,
    /// The members that were asked, and when last.
    asked: BTreeMap<Run, Time>,
    /// The members among them that answered, whatever they had heard.
    answered: BTreeSet<Run>,
}

impl Inquiries {
    /// Returns the number of inquiries and bad links that are kept.
    pub(crate) fn size(&self) -> usize {
        self.open.len() + self.degraded.len()
    }

    /// Ends an inquiry: the subject was accused, or is gone.
    pub(super) fn close(&mut self, subject: Run) {
        self.open.remove(&subject);
    }

    /// Forgets a member that is no longer observed, or no longer Up: neither its silence nor its link means anything.
    pub(crate) fn forget(&mut self, subject: Run) {
        self.close(subject);
        self.degraded.remove(&subject);
    }

    /// Notes a sign of life; returns true if that ends an inquiry. Answers that are still under way are welcome.
    pub(super) fn end(&mut self, subject: Run) -> bool {
        let inquiry = self.open.get_mut(&subject).filter(|inquiry| !inquiry.is_over);
        inquiry.is_some_and(|inquiry| {
            inquiry.is_over = true;
            true
        })
    }

    /// Begins all inquiries from the beginning, since nothing could be heard for a while: members are probed and asked
    /// about anew.
    pub(crate) fn begin_anew(&mut self) {
        self.open.clear();
    }

    /// Returns true if [`WITNESSES`] members have answered, or all if there are fewer.
    pub(super) fn are_heard(&self, subject: Run, observers: usize) -> bool {
        let answered = self.open.get(&subject).map_or(0, |inquiry| inquiry.answered.len());
        answered >= WITNESSES.min(observers)
    }

    /// Returns the number of probes that were sent in this inquiry.
    pub(crate) fn probed(&self, subject: Run) -> u32 {
        self.open.get(&subject).filter(|inquiry| !inquiry.is_over).map_or(0, |inquiry| inquiry.probes)
    }

    /// Returns the time at which the first of them was sent.
    pub(super) fn began(&self, subject: Run) -> Option<Time> {
        self.open.get(&subject)?.began
    }

    /// Returns the time at which the last of them was sent.
    pub(super) fn last_probe(&self, subject: Run) -> Option<Time> {
        self.open.get(&subject)?.last
    }

    /// Returns the members whose first probe of an inquiry was not answered.
    pub(crate) fn in_vain(&self) -> impl Iterator<Item = Run> {
        self.open.iter().filter(|(_, inquiry)| !inquiry.is_over && inquiry.probes > 1).map(|(run, _)| *run)
    }

    /// Counts a probe that was sent.
    pub(super) fn probe_sent(&mut self, subject: Run, now: Time) {
        let inquiry = self.open.entry(subject).or_default();
        if inquiry.is_over {
            *inquiry = Inquiry::default();
        }
        inquiry.began.get_or_insert(now);
        inquiry.last = Some(now);
        inquiry.probes += 1;
    }
}

impl Detector {
    /// Asks witnesses about a silent member.
    pub(crate) fn ask_witnesses(&mut self, out: &mut Outbox<'_>, subject: Slot) {
        let run = out.view.record(subject).run;
        for slot in self.witnesses(out.cx.now, out.view, out.observers, subject) {
            let mut packet = out.packet_to(slot);
            packet.push(&Message::LastHeard { run });
            out.send_to(slot, packet);
        }
    }

    /// Returns the witnesses that are asked about a silent member now: some at first, and then all of them.
    pub(crate) fn witnesses(&mut self, now: Time, view: &View, observers: &Observers, subject: Slot) -> Vec<Slot> {
        let Some(inquiry) = self.inquiries.open.get_mut(&view.record(subject).run) else { return Vec::new() };
        let all: Vec<Slot> = observers.observers_of(view, subject).into_iter().collect();
        let most = if inquiry.asked.is_empty() { WITNESSES } else { all.len() };
        let witnesses: Vec<Slot> = all.sample(&mut self.rng, most).copied().collect();
        inquiry.asked.extend(witnesses.iter().map(|slot| (view.record(*slot).run, now)));
        witnesses
    }

    /// Takes a witness's answer that it heard the subject; returns what it shows.
    pub(crate) fn heard_at(
        &mut self,
        out: &mut Outbox<'_>,
        witness: Slot,
        run: Run,
        age_ms: u64,
    ) -> Option<HeardElsewhere> {
        let asked = out.view.record(witness).run;
        let Some(inquiry) = self.inquiries.open.get_mut(&run).filter(|inquiry| inquiry.asked.contains_key(&asked))
        else {
            out.cx.counters.drop(DropReason::Unasked);
            return None;
        };
        let asked_at = inquiry.asked.get(&asked).copied().unwrap_or(out.cx.now);
        inquiry.answered.insert(asked);
        let slot = out.view.slot_of_run(run)?;
        let tolerance = out.cx.settings.probe_timeout;
        let travelled = out.view.entry(witness).peer.travelling_time().min(tolerance);
        let answered = (out.cx.arrived - travelled).min(asked_at + tolerance);
        let heard = answered - Duration::from_millis(age_ms);
        let missed = out.view.record(slot).timing.heartbeat_interval() * MISSED_HEARTBEATS;
        // This node could not have heard a member before it took it over, because others were unresponsive.
        let taken_over = out.observers.walk.taken_over_since(slot);
        let peer = out.view.peer_mut(slot);
        if heard <= peer.last_sign() {
            return None;
        }
        let is_news = heard > peer.last_sign() + tolerance;
        let is_degraded = peer.session.as_ref().is_none_or(|session| heard > session.heard + missed)
            && taken_over.is_none_or(|since| heard > since + tolerance);
        peer.lived_at(heard);
        let is_degraded = is_news && is_degraded && out.observers.observes(slot);
        Some(HeardElsewhere { slot, is_news, is_degraded })
    }

    /// Reports a bad link, since a witness heard what this node should have heard; returns the number of bad links.
    pub(crate) fn link_degraded(&mut self, cx: &mut Context, view: &View, slot: Slot, witness: Slot) -> usize {
        let (id, run) = (view.record(slot).id.clone(), view.record(slot).run);
        let heard_by = view.record(witness).id.clone();
        let was_told = self.inquiries.degraded.get(&run).is_some_and(|link| link.is_told);
        let is_told = was_told || cx.notice("degraded link", Notice::LinkDegraded { id, heard_by });
        self.inquiries.degraded.insert(run, Degraded { last: cx.now, is_told });
        self.inquiries.degraded.len()
    }

    /// Notes that a member was heard directly: its link may have recovered.
    pub(crate) fn heard_directly(&mut self, cx: &mut Context, view: &View, slot: Slot) {
        if self.inquiries.degraded.is_empty() {
            return;
        }
        let record = view.record(slot);
        let (run, quiet) = (record.run, record.timing.suspect_timeout() * RECOVERED_AFTER);
        let has_recovered = |link: &Degraded| cx.now.since(link.last) >= quiet;
        if self.inquiries.degraded.get(&run).is_some_and(has_recovered)
            && self.inquiries.degraded.remove(&run).is_some_and(|link| link.is_told)
        {
            cx.output(Output::Notice(Notice::LinkRecovered { id: record.id.clone() }));
        }
    }

    /// Returns the number of links that are bad now, with those to members whose datagrams do not pass.
    pub(crate) fn degraded_links(&self, blocked: impl Iterator<Item = Run>) -> usize {
        let others = blocked.filter(|run| !self.inquiries.degraded.contains_key(run));
        self.inquiries.degraded.len() + others.count()
    }
}

/// A sign of life that a witness heard, and this node did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeardElsewhere {
    pub(crate) slot: Slot,
    /// It is later than all that this node knew of, by more than packets take.
    pub(crate) is_news: bool,
    /// This node should have heard it: the link to the member is bad.
    pub(crate) is_degraded: bool,
}

impl DetectorFacts<'_> {
    /// Returns true if a member that another observer asks about is to be probed: it was not heard for a third of its suspect
    /// timeout, and not probed for that a moment ago.
    pub(crate) fn is_worth_a_probe(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let silence = self.now.since(entry.peer.last_sign());
        let pause = self.settings.probe_timeout / 2;
        entry.status.is_here()
            && silence >= entry.record.timing.suspect_timeout() / 3
            && is_due(self.now, entry.peer.rare().last_hearsay, pause)
    }

    /// Answers "When did you last hear from it?" A node that heard nothing does not answer, nor one that does not
    /// observe the subject and heard it long ago: where members have different numbers of observers, the asker takes
    /// some nodes for observers that are none, and what those heard long ago would stand for an answer.
    pub(crate) fn last_heard(&self, run: Run) -> Option<Message> {
        let slot = self.view.slot_of_run(run)?;
        let entry = self.view.entry(slot);
        let heard = entry.peer.session.as_ref()?.sign;
        let is_fresh = self.now.since(heard) < entry.record.timing.suspect_timeout();
        if !is_fresh && !self.observers.observes(slot) {
            return None;
        }
        let age_ms = self.now.since(heard).as_millis() as u64;
        Some(Message::HeardAt { run, age_ms })
    }
}
