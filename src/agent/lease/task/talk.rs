//! Talk: what the task hears of other agents, and what it tells them and the operator.
//!
//! Invariants: words of others go to the contender if they count; the operator is told the same thing at most once in
//! [`TOLD_AGAIN_AFTER`].
//!
//! Must not know: when rounds are sent, how led work ends.

use std::mem::Discriminant;
use std::time::Duration;

use rand::TryRng;
use rand::rngs::SysRng;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Level;

use super::{Parts, Task};
use crate::agent::lease_state::{Heard, ONE_MODE, OTHER_MODE_TOLD_AGAIN_AFTER, VotersHeard};
use crate::agent::request::Request;
use crate::core::wire::LeaseUpdate;
use crate::core::{NodeId, Status, Time};
use crate::lease::store::StoreError;
use crate::lease::{Answer, ContenderAlarm, LeaseName, Outcome, Round};

/// The least time between two reports of the same alarm, or of the same trouble with the database.
pub(super) const TOLD_AGAIN_AFTER: Duration = OTHER_MODE_TOLD_AGAIN_AFTER;
/// Within this time after word of a new leader all look who it is.
pub(super) const MOST_LOOK_SPREAD: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Alarm(&'static str),
    OtherMode,
    OtherLease,
    Error(Discriminant<StoreError>),
}

impl Task {
    /// Hands what other agents say to the contender, if it counts.
    pub(super) fn hear(&mut self, heard: &Heard) {
        match heard {
            Heard::Word { word, is_believed } => self.hear_word(word, *is_believed),
            Heard::Voters(heard) => self.hear_voters(heard),
        }
        self.carry_out();
    }

    /// Has the contender wait, for as long as somebody is heard to lead the cluster by voters, and tells the operator.
    fn hear_voters(&mut self, heard: &VotersHeard) {
        let VotersHeard { by, is_led, leader } = heard;
        // Once it is a member, this node hears of the leader itself.
        if !is_led && self.is_member {
            return;
        }
        let (now, lease) = (self.parts.clock.now(), LeaseName::default());
        self.parts.contender.led_elsewhere(now, &lease, now + self.parts.timing.lease_duration);
        let Some(by) = by.as_ref().filter(|_| *is_led) else { return };
        if self.take_telling(Told::OtherMode) {
            let who = match leader {
                Some((leader, term)) => format!("{leader} leads by voters (leadership.mode = \"quorum\", term {term})"),
                None => format!("a leader by voters (leadership.mode = \"quorum\") is told of by {by}"),
            };
            let leads = self.claim(&lease).is_some_and(|claim| claim.is_me);
            let then = if leads { "leads as well" } else { "does not begin to lead until that ends" };
            let text =
                format!("{who}, and {} is set to lead by a lease (\"lease\") and {then}: {ONE_MODE}", self.parts.node);
            self.parts.shared.journal.say(Level::WARN, text);
        }
    }

    /// Hears a word about a lease. That it is free is believed of anybody if it is the term that is known: the database is asked,
    /// and knows better.
    fn hear_word(&mut self, word: &LeaseUpdate, is_believed: bool) {
        let Ok(lease) = LeaseName::new(word.lease.as_str()) else { return };
        let now = self.parts.clock.now();
        let known = self.claim(&lease).map(|claim| (claim.term, claim.is_me));
        match word.kind {
            LeaseUpdate::LED | LeaseUpdate::KNOWN | LeaseUpdate::TAUGHT if is_believed => {
                // Whoever merely knows of a term is no rival of its leader.
                let by = if word.kind == LeaseUpdate::LED { &word.node } else { &self.parts.node };
                self.parts.contender.heard(now, &lease, by, word.term, false);
                if known.is_some_and(|(term, _)| term < word.term) {
                    // The database knows the leader; nodes do not all look there in the same moment.
                    let spread = (self.parts.timing.renewal_interval / 4).min(MOST_LOOK_SPREAD);
                    let part = SysRng.try_next_u32().unwrap_or_default();
                    let by = now + spread.mul_f64(f64::from(part) / f64::from(u32::MAX));
                    self.parts.contender.hurry(now, &lease, by);
                }
            }
            LeaseUpdate::LED => self.parts.contender.doubted(now, &lease, &word.node, word.term),
            LeaseUpdate::DECLINED if is_believed && self.is_leader(&lease, &word.node) => {
                self.parts.leases.decline(word.nonce);
            }
            LeaseUpdate::RELEASED if is_believed || known.is_some_and(|(term, _)| term == word.term) => {
                self.parts.contender.heard(now, &lease, &word.node, word.term, true);
            }
            LeaseUpdate::RESIGN if is_believed && known == Some((word.term, true)) => {
                self.parts.shared.journal.say(Level::INFO, format!("asked to give the lease {lease} up"));
                self.parts.contender.resign(now, &lease);
            }
            _ => {}
        }
    }

    /// Tells whoever holds a lease in a term below the one that is known here, because its database lost that: it is to give
    /// the lease up, and terms go on above. Said for every row anew, since words may be lost.
    pub(super) fn correct(&self, round: &Round, answer: &Answer) {
        for (step, seen) in round.steps.iter().zip(&answer.steps) {
            let known = self.claim(&step.lease).map_or(0, |claim| claim.term);
            if let Some(nonce) = seen.nonce().filter(|_| seen.term < known) {
                self.tell_word(&step.lease, known, LeaseUpdate::KNOWN, nonce);
            }
        }
    }

    /// Tells of tries to take a lease in which another node was faster; once for each reason, however often this goes on in one
    /// term of that node. Whoever has seen a holder that lives does not try.
    pub(super) fn tell_lost_race(&mut self, round: &Round, answer: &Answer) {
        for (step, seen) in round.steps.iter().zip(&answer.steps) {
            let why = match seen.outcome {
                Outcome::Held => "another node has it",
                Outcome::Conflict => "another node took it in the same moment",
                _ => continue,
            };
            if self.lost_races.insert((step.lease.clone(), why), seen.term) != Some(seen.term) {
                let text = format!("leases: {} was not acquired: {why} (term {})", step.lease, seen.term);
                self.parts.shared.journal.say(Level::INFO, text);
            }
        }
    }

    /// Tells of a holder with a lease of another length than this node's: those that only hear of it wait by their own.
    pub(super) fn compare_leases(&mut self, answer: &Answer) {
        let Parts { node, timing, .. } = &self.parts;
        let holders = answer.steps.iter().filter_map(|seen| seen.holder.as_ref());
        let other = holders.filter(|holder| holder.node != *node).find_map(|holder| {
            (holder.lease_duration != timing.lease_duration).then(|| {
                let duration = humantime::format_duration;
                format!(
                    "leases: {} has a lease_duration of {}, and {node} one of {}: set the same on all nodes \
                     (leadership.lease_duration), since others wait for a lease by their own",
                    holder.node,
                    duration(holder.lease_duration),
                    duration(timing.lease_duration)
                )
            })
        });
        if let Some(text) = other.filter(|_| self.take_telling(Told::OtherLease)) {
            self.parts.shared.journal.say(Level::WARN, text);
        }
    }

    /// Tells the contender of leaders that it waits for, and that are members no more.
    pub(super) fn forget_the_gone(&mut self, now: Time) {
        for claim in self.claims() {
            let Some(node) = self.parts.contender.waits_for(now, &claim.lease).cloned() else { continue };
            let member = self.parts.shared.directory().member(&node);
            if member.is_none_or(|member| matches!(member.status, Status::Down | Status::Left(_))) {
                self.parts.contender.gone(now, &claim.lease, &node);
            }
        }
    }

    pub(super) fn tell_others(&self, lease: &LeaseName, term: u64, kind: u8) {
        // A leader says the same again and again; what was heard already is not passed on.
        self.tell_word(lease, term, kind, SysRng.try_next_u64().unwrap_or_default());
    }

    fn tell_word(&self, lease: &LeaseName, term: u64, kind: u8, nonce: u64) {
        let Ok(lease) = NodeId::new(lease.as_str()) else { return };
        let word = LeaseUpdate { lease, node: self.parts.node.clone(), term, kind, nonce };
        self.request(Request::TellLease(word));
    }

    /// Keeps a term for the newcomers that this node brings in.
    pub(super) fn keep_term(&self, lease: &LeaseName, term: u64) {
        if let Ok(lease) = NodeId::new(lease.as_str()) {
            self.request(Request::KeepLeaseTerm { lease, term });
        }
    }

    fn request(&self, request: Request) {
        let Some(driver) = self.parts.driver.upgrade() else { return };
        // At once if there is room, so that the goodbye comes after it.
        if let Err(mpsc::error::TrySendError::Full(request)) = driver.try_send(request) {
            tokio::spawn(async move { driver.send(request).await });
        }
    }

    pub(super) fn tell_alarm(&mut self, alarm: &ContenderAlarm) {
        let is_good = matches!(alarm, ContenderAlarm::ReachableAgain);
        let is_about_reach = is_good || matches!(alarm, ContenderAlarm::Unreachable { .. });
        if is_good {
            self.told.clear();
        }
        if is_about_reach || self.take_telling(Told::Alarm(alarm.kind())) {
            let level = if is_good { Level::INFO } else { Level::WARN };
            self.parts.shared.journal.say(level, format!("leases: {alarm}"));
        }
    }

    pub(super) fn tell_error(&mut self, error: &StoreError) {
        if self.take_telling(Told::Error(std::mem::discriminant(error))) {
            let level = if error.needs_people() { Level::ERROR } else { Level::WARN };
            self.parts.shared.journal.say(level, format!("leases: {error}"));
        }
    }

    /// Returns true if this was not told for a while.
    fn take_telling(&mut self, what: Told) -> bool {
        let now = Instant::now();
        self.told.retain(|(_, at)| now.duration_since(*at) < TOLD_AGAIN_AFTER);
        if self.told.iter().any(|(told, _)| *told == what) {
            return false;
        }
        self.told.push((what, now));
        true
    }
}

/// Returns what is said of led work that goes on although its leadership was given up.
pub(super) fn awaited(lease: &LeaseName, term: u64, running: usize, within: Duration) -> String {
    let (pieces, ends) = if running == 1 { ("piece", "ends") } else { ("pieces", "end") };
    format!(
        "the lease {lease} (term {term}) is released once {running} {pieces} of led work {ends}; until then nobody else leads \
         by it, for {} at the most, when it runs out",
        humantime::format_duration(within)
    )
}
