//! Belief: records that wait for the word of whom they are about.
//!
//! A member is believed by precedence alone, whoever tells of it. These records wait, since their subject may know better:
//!
//! | reported by others | merged |
//! |---|---|
//! | another live run of a name whose holder is heard here | never: the holder is told (see `rivals`) |
//! | the same, if the holder sends no heartbeats here | if two members report it |
//! | another live run at the holder's own address | the same, but the process at that address is asked for its record |
//! | the death of another run of a name whose holder is live | after the holder had a suspect timeout to refute |
//! | a known run at another address, if it is observed | never: it is asked there, and proves it (see `keepsakes`) |
//! | the same, if it is not observed, or has been silent here for a suspect timeout | if two members report it |
//! | the same, where there is but one other member | if that one reports it, after a down timeout |
//! | a member's own report that it is at another address | if its run answers there, too |
//! | a run that was forgotten (a tombstone covers it) is live | never: it is asked itself, and refutes |
//!
//! Invariant: an ordinary join, restart, refutation or change of tags needs no questions.
//!
//! Must not know: which of two records of one name wins (see `member::precedence`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use crate::core::limits::{ANNOUNCEMENT_MEMORY, MAX_CLAIMS, SUCCESSOR_PATIENCE, TOLD_INTERVAL};
use crate::core::member::{Record, Run, Status};
use crate::core::time::Time;
use crate::core::view::{Slot, View, is_due};
use crate::core::wire::Note;
use crate::core::{Core, Phase};

/// The number of members that must report that a name has passed to a run elsewhere, or that a run has moved, if its
/// holder is not observed, or not heard.
const REPORTERS: usize = 2;

/// Claims to names of live members, by the run that is reported to have taken the name, and where: the reporting
/// members. At most [`MAX_CLAIMS`].
#[derive(Debug, Default)]
pub(in crate::core) struct Claims {
    reporters: BTreeMap<(Run, SocketAddr), (Time, BTreeSet<Run>)>,
}

impl Claims {
    /// Notes one more report; returns the number of members that reported it, and the time since
    /// the first report.
    fn heard(&mut self, now: Time, claimed: (Run, SocketAddr), reporter: Run) -> (usize, Duration) {
        if self.reporters.len() >= MAX_CLAIMS && !self.reporters.contains_key(&claimed) {
            self.reporters.pop_first();
        }
        let (since, reporters) = self.reporters.entry(claimed).or_insert_with(|| (now, BTreeSet::new()));
        if reporters.len() < REPORTERS {
            reporters.insert(reporter);
        }
        (reporters.len(), now.since(*since))
    }

    /// Forgets the claims of a run, whose address is known by now.
    pub(super) fn close(&mut self, claimed: Run) {
        self.reporters.retain(|(run, _), _| *run != claimed);
    }
}

impl Core {
    /// Returns true if a record that would replace a held one is not believed on this member's word (`None`: the
    /// owner's own).
    pub(super) fn doubts(&mut self, slot: Slot, record: &Record, note: Option<Note>, from: Option<Slot>) -> bool {
        let Some(from) = from.filter(|_| matches!(self.phase, Phase::Up | Phase::Leaving)) else { return false };
        let reporter = self.view.record(from).run;
        if reporter == record.run || from == slot {
            return self.doubts_own_move(slot, record);
        }
        let held = self.view.record(slot);
        let (is_same_run, is_same_address) = (held.run == record.run, held.address == record.address);
        let is_live = |status| matches!(status, Status::Up | Status::Suspect | Status::Leaving);
        if !is_live(held.status) {
            return false;
        }
        match (is_same_run, is_live(record.status)) {
            (true, true) if !is_same_address => self.doubts_move(slot, record, reporter),
            (false, true) => self.doubts_successor(slot, record, note, reporter),
            (false, false) => self.doubts_death_report(slot, record, note),
            _ => false,
        }
    }

    /// Asks a run for its own record, if it is reported live.
    pub(super) fn ask_if_live(&mut self, record: &Record) {
        let is_said_to_live = matches!(record.status, Status::Up | Status::Suspect | Status::Leaving);
        if is_said_to_live && self.hearsay_questions.allow(self.now, record.address, false) {
            self.ask_who(record.address);
        }
    }

    /// Doubts a member's report, from its known address, that it is at another one. It must answer there, too: else the
    /// address could be anyone's. The report is remembered for a while, and its run is believed from there.
    fn doubts_own_move(&mut self, slot: Slot, record: &Record) -> bool {
        let held = self.view.record(slot);
        let is_said_to_live = matches!(record.status, Status::Up | Status::Suspect | Status::Leaving);
        if held.address == record.address || !is_said_to_live {
            return false;
        }
        if held.run == record.run {
            self.view.peer_mut(slot).rare_mut().announced = Some((record.address, self.now));
        }
        self.ask_if_live(record);
        true
    }

    /// Returns true if a member reported a short while ago, from its known address, that it is at this one.
    pub(in crate::core) fn has_announced(&self, slot: Slot, address: SocketAddr) -> bool {
        let announced = self.view.entry(slot).peer.rare().announced;
        announced.is_some_and(|(at, since)| at == address && self.now.since(since) < ANNOUNCEMENT_MEMORY)
    }

    /// Doubts that a known run has moved. An observer asks the run at the new address, where it proves that, and tells
    /// the run at the old one: if it is still there, it refutes. A node that does not observe it has no part in such a
    /// proof, and needs two voices, as does a node to which nothing at the held address was proven.
    ///
    /// An observer may have no part in it, either: it has joined since the run moved, or lost what it was given. If it
    /// has not heard the run for a suspect timeout, two voices are enough; but what it believes then is a stray, whose
    /// owner is still looked for at its home. Where there are no two to ask, one voice is enough after a down timeout:
    /// without that voice the run would be Down here by then, and its own word from elsewhere would do. A run that is
    /// held at this node's own address is plainly not there.
    fn doubts_move(&mut self, slot: Slot, record: &Record, reporter: Run) -> bool {
        let home = self.view.record(slot).address;
        let is_mine = home == self.me().address;
        let is_observed = self.observes(slot);
        if is_observed && self.hearsay_questions.allow(self.now, record.address, false) {
            self.ask_who(record.address);
        }
        if is_mine {
            return false;
        }
        if is_observed {
            self.tell_of_rival(slot, record, None);
        }
        let (reporters, said_for) = self.claims.heard(self.now, (record.run, record.address), reporter);
        let needs_silence = is_observed && !self.is_unproven_here(slot);
        let is_confirmed = if reporters >= REPORTERS {
            !needs_silence || self.is_unheard_for(slot, said_for, record.suspect_timeout())
        } else {
            needs_silence
                && self.is_unheard_for(slot, said_for, record.timing.down_timeout())
                && self.has_one_other(slot)
        };
        if is_confirmed {
            self.claims.close(record.run);
            if needs_silence {
                self.homes.leave(record.run, home);
            }
        }
        !is_confirmed
    }

    /// Returns true if, beside this node and a member, there is at most one.
    fn has_one_other(&self, slot: Slot) -> bool {
        let others = self.view.live().iter().copied().filter(|other| *other != slot && *other != View::ME);
        others.count() <= 1
    }

    /// Returns true if this node itself has not heard a member for so long, since the first of these reports or before.
    fn is_unheard_for(&self, slot: Slot, said_for: Duration, patience: Duration) -> bool {
        let session = self.view.entry(slot).peer.session.as_ref();
        said_for >= patience && session.is_none_or(|session| self.now.since(session.heard) >= patience)
    }

    /// Doubts that another run of this name is live. A node that hears the holder knows better, and tells it; one that
    /// misses its heartbeats believes the report; a node to which it sends none needs two voices. If the other run is
    /// reported at the holder's own address, as after a restart, the process there is asked for its record.
    fn doubts_successor(&mut self, slot: Slot, record: &Record, note: Option<Note>, reporter: Run) -> bool {
        let is_same_address = self.view.record(slot).address == record.address;
        if self.is_missed(slot) {
            return false;
        }
        let is_heard = self.observes(slot) && self.is_heard_lately(slot);
        if is_heard && is_same_address {
            self.ask_successor(slot, record, note);
        } else if self.observes(slot) && !is_same_address {
            self.tell_of_rival(slot, record, note);
        }
        if is_heard {
            return true;
        }
        let (reporters, said_for) = self.claims.heard(self.now, (record.run, record.address), reporter);
        let is_believed = reporters >= REPORTERS;
        if is_believed {
            self.claims.close(record.run);
        } else if is_same_address && said_for >= SUCCESSOR_PATIENCE {
            self.ask_successor(slot, record, note);
        }
        !is_believed
    }

    /// Asks the process at the address where one run of a name lived, and where another one is reported live now, for
    /// its record. If it is still the holder, it raises its incarnation above the reported one.
    fn ask_successor(&mut self, slot: Slot, record: &Record, note: Option<Note>) {
        if is_due(self.now, self.view.entry(slot).peer.rare().last_told, TOLD_INTERVAL) {
            self.tell_of_rival(slot, record, note);
            self.ask_who(record.address);
        }
    }

    /// Doubts a report that another run of this name died, in a record that supersedes the holder's: the holder, if it
    /// is live, raises its incarnation above that.
    fn doubts_death_report(&mut self, slot: Slot, record: &Record, note: Option<Note>) -> bool {
        if self.is_missed(slot) {
            return false;
        }
        // Whoever does not observe it tells it, too: its observers need not have heard of the report.
        self.tell_of_rival(slot, record, note);
        let (now, patience) = (self.now, self.view.record(slot).suspect_timeout());
        let peer = self.view.peer_mut(slot);
        let since = peer.rare().contradicted_since.unwrap_or(now);
        peer.contradicted(Some(since));
        now.since(since) < patience
    }

    /// Returns true if this node itself heard a member so lately that no heartbeat is overdue.
    fn is_heard_lately(&self, slot: Slot) -> bool {
        let patience = self.heartbeat_patience(slot);
        let session = self.view.entry(slot).peer.session.as_ref();
        session.is_some_and(|session| self.now.since(session.heard) <= patience)
    }

    /// Returns true if a member's heartbeats should have come here, and did not. Silence of one that sends none here is
    /// no evidence.
    fn is_missed(&self, slot: Slot) -> bool {
        !self.is_heard_lately(slot) && self.would_have_heard(slot, self.heartbeat_patience(slot))
    }

    /// Returns the time after which a heartbeat of a member is overdue.
    fn heartbeat_patience(&self, slot: Slot) -> Duration {
        self.view.record(slot).timing.heartbeat_interval() + self.settings.probe_timeout
    }

    /// Tells a member of a record that others report under its name.
    pub(in crate::core) fn tell_of_rival(&mut self, slot: Slot, record: &Record, note: Option<Note>) {
        if is_due(self.now, self.view.entry(slot).peer.rare().last_told, TOLD_INTERVAL) {
            self.view.peer_mut(slot).rare_mut().last_told = Some(self.now);
            let mut packet = self.packet_to(slot);
            packet.push_update(note, record);
            self.send_to(slot, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_claims_are_remembered_and_one_more_takes_a_place() {
        let mut claims = Claims::default();
        let at = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut reporters = |claimed, reporter| claims.heard(Time::ORIGIN, (Run(claimed), at), Run(reporter)).0;
        let most = MAX_CLAIMS as u64;
        for claimed in 1..=most {
            assert_eq!(reporters(claimed, 9_001), 1);
        }
        assert_eq!(reporters(1, 9_002), REPORTERS, "all of them are remembered");
        assert_eq!(reporters(most + 1, 9_001), 1);
        assert_eq!(reporters(1, 9_002), 1, "one gave way, and needs two voices again");
        assert_eq!(reporters(most + 1, 9_002), REPORTERS);
        assert_eq!(claims.reporters.len(), MAX_CLAIMS);
    }

    #[test]
    fn reports_of_one_run_at_two_addresses_do_not_add_up() {
        let mut claims = Claims::default();
        let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let mut reporters = |port, by| claims.heard(Time::ORIGIN, (Run(1), at(port)), Run(by)).0;
        assert_eq!([reporters(1, 7), reporters(2, 8), reporters(1, 8)], [1, 1, 2]);
        claims.close(Run(1));
        assert!(claims.reporters.is_empty());
    }
}
