//! Indirect confirmation: before a silence becomes a suspicion, others are asked when they last heard the subject.
//!
//! One bad link is no death (the `ping-req` of SWIM, section 3.1, asked of memory instead of the network: an observer
//! that hears the subject anyway can answer at once). Three of its other observers are asked, and asked again; if none of them
//! answers, the others are. "At age a" moves the asker's own clock to a.
//!
//! Answers tell what the answerer heard *itself*, never what it was told, so that no evidence can go round and grow
//! younger on its way.

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::IndexedRandom;

use super::view::Slot;
use super::wire::Message;
use super::{Core, Drop, Run};

/// Peers asked first.
const WITNESSES: usize = 3;

/// Questions under way, by the run that is doubted. At most one per member.
#[derive(Debug, Default)]
pub(super) struct Inquiries {
    open: BTreeMap<Run, Inquiry>,
}

#[derive(Debug, Default)]
struct Inquiry {
    asked: BTreeSet<Run>,
    is_answered: bool,
}

impl Inquiries {
    /// The subject was heard, accused, or is gone.
    pub(super) fn close(&mut self, subject: Run) {
        self.open.remove(&subject);
    }
}

impl Core {
    /// Asks witnesses about a silent member; once more the same ones, or others if none of those has answered.
    pub(super) fn inquire(&mut self, subject: Slot) {
        let run = self.view.record(subject).run;
        let inquiry = self.inquiries.open.entry(run).or_default();
        let is_first = inquiry.asked.is_empty();
        if inquiry.is_answered {
            return;
        }
        let asked = inquiry.asked.clone();
        let (again, others): (Vec<Slot>, Vec<Slot>) =
            self.observers_of(subject).into_iter().partition(|slot| asked.contains(&self.view.record(*slot).run));
        let more = if is_first { WITNESSES } else { self.settings.observers };
        let witnesses: Vec<Slot> = others.sample(&mut self.rng, more).copied().chain(again).collect();
        for slot in witnesses {
            let witness = self.view.record(slot).run;
            if let Some(inquiry) = self.inquiries.open.get_mut(&run) {
                inquiry.asked.insert(witness);
            }
            let mut packet = self.packet_to(slot);
            packet.push(&Message::LastHeard { run });
            self.send_to(slot, packet);
        }
    }

    /// "When did you last hear from it?" Nothing is said where nothing was heard.
    pub(super) fn bear_witness(&mut self, run: Run) -> Option<Message> {
        let slot = self.view.slot_of_run(run)?;
        let heard = self.view.entry(slot).peer.session.as_ref()?.heard;
        let age_ms = self.now.since(heard).as_nanos().div_ceil(1_000_000) as u64;
        Some(Message::HeardAt { run, age_ms })
    }

    /// A witness heard the subject.
    pub(super) fn witnessed(&mut self, witness: Slot, run: Run, age_ms: u64) {
        let witness = self.view.record(witness).run;
        self.heard_of(run, self.now - std::time::Duration::from_millis(age_ms));
        let Some(inquiry) = self.inquiries.open.get_mut(&run).filter(|inquiry| inquiry.asked.contains(&witness)) else {
            if !self.is_case(run) {
                self.counters.drop(Drop::Unasked);
            }
            return;
        };
        inquiry.is_answered = true;
        let Some(slot) = self.view.slot_of_run(run) else { return };
        let heard = self.now - std::time::Duration::from_millis(age_ms);
        let tolerance = self.settings.probe_timeout;
        let peer = self.view.peer_mut(slot);
        if heard > peer.last_sign {
            if heard > peer.last_sign + tolerance {
                self.counters.degraded_links += 1;
            }
            peer.last_sign = heard;
            self.watch(slot);
        }
    }
}
