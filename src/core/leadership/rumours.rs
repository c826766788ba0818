//! Rumours: one member's report of leaders is not believed before others report the same.
//!
//! A term that is shown never falls, so one false report of a high one would make its hearers deaf to all true leaders.
//! And members that heard a false leader from one liar name it in all good faith. So:
//!
//! | news | believed |
//! |---|---|
//! | a later term, another leader, or none | when [`VOTERS`] voters report it (all, if there are fewer), or [`MEMBERS`] members |
//! | the leader has resigned | the same, or when the leader itself says so |
//! | a renewal of the known leader | at once, if it is not far ahead of time; the lease stays what it was |
//! | the same, older than what is known, from a voter that was asked | at once: the later renewal that was believed was too good to be true |
//! | the electorate, to a node that knows none | when two members report it, or one for [`LONE_WORD`] while nobody reports another: there may be no other that knows |
//! | an electorate that an operator put in place of the known one | at once, whoever reports it |
//! | a numbered view | when a voter reports it, or two members |
//!
//! Members here are those whose word counts (*elders*, see `elders`): members that have just come may be invented, by
//! the dozen. A node that knows no electorate yet listens to everybody: the leader may have come last. But a node that
//! is to form the first electorate would be kept from it for good, and listens only to members whose report of an
//! electorate lasts (see `founded`).
//!
//! A node that hears a rumour asks voters, which tell what they know; voters themselves trust their own election.
//!
//! Must not know: how news is sent.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::hearsay::Weight;
use super::{Core, Election, Known, NodeId, Status, Term, View};
use crate::core::counters::DropReason;
use crate::core::election::{Lineage, ViewRef};
use crate::core::limits::{LONE_WORD, MAX_RUMOURS, MAX_TERMS_BEHIND, RUMOUR_MEMORY, WHO_LEADS_INTERVAL};
use crate::core::member::Run;
use crate::core::time::Time;
use crate::core::view::Slot;
use crate::core::wire::LeaderClaim;

/// The number of voters whose reports are enough.
const VOTERS: usize = 2;
/// The number of members whose reports are enough.
const MEMBERS: usize = 3;
/// The number of members whose reports are enough for news that cannot be known from voters.
const ANY: usize = 2;
/// The shortest time between two renewals.
const LEAST_RENEWAL: Duration = Duration::from_millis(50);
/// The number of renewals that may have been under way at one time.
const RENEWALS_AHEAD: u64 = 4;
/// The number of changes of the agreed view that a node may have missed.
pub(in crate::core) const MAX_VIEWS_MISSED: u64 = 1 << 20;
/// The time after a question for which an answer counts as one.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// The content of a rumour.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Saying {
    Leader { lineage: Lineage, term: Term, leader: Option<NodeId> },
    View(ViewRef),
}

#[derive(Debug)]
struct Rumour {
    saying: Saying,
    since: Time,
    by: BTreeSet<Run>,
    by_voters: usize,
}

/// The rumours that are not believed yet: at most [`MAX_RUMOURS`], the oldest give way.
#[derive(Debug, Default)]
pub(super) struct Rumours {
    heard: Vec<Rumour>,
}

impl Rumours {
    fn hear(&mut self, now: Time, saying: Saying, by: Run, is_voter: bool) -> (usize, usize) {
        self.heard.retain(|rumour| now.since(rumour.since) < RUMOUR_MEMORY);
        let at = self.heard.iter().position(|rumour| rumour.saying == saying).unwrap_or_else(|| {
            if self.heard.len() >= MAX_RUMOURS {
                self.heard.remove(0);
            }
            self.heard.push(Rumour { saying, since: now, by: BTreeSet::new(), by_voters: 0 });
            self.heard.len() - 1
        });
        let rumour = &mut self.heard[at];
        if rumour.by.len() < MEMBERS && rumour.by.insert(by) && is_voter {
            rumour.by_voters += 1;
        }
        (rumour.by.len(), rumour.by_voters)
    }

    /// Returns true if this electorate has been reported for [`LONE_WORD`], and no other one has.
    fn is_undisputed(&self, now: Time, lineage: Lineage) -> bool {
        let leaders = || self.heard.iter().filter(|rumour| matches!(rumour.saying, Saying::Leader { .. }));
        let is_of_it =
            |rumour: &Rumour| matches!(rumour.saying, Saying::Leader { lineage: said, .. } if said == lineage);
        leaders().all(is_of_it) && leaders().any(|rumour| now.since(rumour.since) >= LONE_WORD)
    }

    /// Returns true if a leader has been rumoured for so long that the members that said so are asked again.
    fn is_lasting(&self, now: Time) -> bool {
        let mut leaders = self.heard.iter().filter(|rumour| matches!(rumour.saying, Saying::Leader { .. }));
        leaders.any(|rumour| now.since(rumour.since) >= LONE_WORD)
    }

    fn is_teller(&self, run: Run) -> bool {
        self.heard.iter().any(|rumour| rumour.by.contains(&run))
    }

    /// Returns the time at which the next member is asked about a rumoured leader.
    pub(super) fn deadline(&self, asked_at: Option<Time>) -> Option<Time> {
        let is_open = self.heard.iter().any(|rumour| matches!(rumour.saying, Saying::Leader { .. }));
        is_open.then(|| asked_at.unwrap_or(Time::ORIGIN) + WHO_LEADS_INTERVAL)
    }
}

impl Core {
    /// Returns true if a member votes in the electorate that is known here.
    pub(super) fn is_voter(&self, slot: Slot) -> bool {
        let id = &self.view.record(slot).id;
        self.electorate().is_some_and(|electorate| electorate.voters.iter().any(|voter| voter.id == *id))
    }

    /// Returns true if a member's word on who leads counts: a voter's, or an elder's.
    pub(in crate::core) fn counts_in_leadership(&self, slot: Slot) -> bool {
        (self.is_voter(slot) && !self.is_stray(slot)) || self.is_elder(slot)
    }

    /// Returns true if a member's report of leaders is heard at all.
    fn is_listened_to(&self, slot: Slot) -> bool {
        let knows_none = self.tracker.as_ref().is_some_and(|tracker| tracker.agreed.is_none());
        if knows_none && self.election().is_some_and(Election::is_forming) {
            // A leader that this node is to help elect does not exist yet; of others it hears from members whose
            // reports last.
            return self.weight_of(self.view.record(slot).run) > Weight::Passing;
        }
        knows_none || self.counts_in_leadership(slot)
    }

    /// Returns true if news of who leads is believed on this member's word, or because others said so before.
    pub(super) fn believes_leader_claim(&mut self, from: Slot, led: &LeaderClaim) -> bool {
        let Some(tracker) = &self.tracker else { return false };
        let agreed = tracker.agreed.as_ref().map(|agreed| agreed.electorate.lineage);
        let (known, term) = (tracker.known.as_ref(), tracker.term);
        let is_same_line = agreed == Some(led.lineage);
        let is_old = is_same_line && led.term < tracker.term;
        // A node that has not fetched its first view yet knows the electorate by the leader that it was told of.
        let is_known_line =
            is_same_line || agreed.is_none() && known.is_some_and(|known| known.lineage == Some(led.lineage));
        let is_renewal = is_known_line
            && known.is_some_and(|known| known.term == led.term && led.leader.as_ref() == Some(&known.leader));
        if agreed.is_some() && !is_same_line {
            // Two that were recovered apart know no voters of each other. Which of them stands, `Descent::succeeds` says.
            return true;
        }
        let is_elected_here = tracker.election.as_ref().is_some_and(|election| {
            election.is_voter() && election.lineage() == Some(led.lineage) && led.term <= election.term()
        });
        let is_own_release = led.leader.is_none()
            && is_known_line
            && known.is_some_and(|known| known.term == led.term && known.leader == self.view.record(from).id);
        if is_old || is_renewal || is_own_release || (is_elected_here && led.leader.is_some()) {
            return true;
        }
        let counts = self.is_listened_to(from);
        let saying = Saying::Leader { lineage: led.lineage, term: led.term, leader: led.leader.clone() };
        let (members, voters) = self.hear_rumour(saying, from);
        let others = self.view.live().iter().filter(|slot| self.is_listened_to(**slot)).take(MEMBERS).count();
        let is_enough = if is_same_line {
            let electorate = self.electorate().map_or(0, |electorate| electorate.voters.len());
            (voters > 0 && voters >= electorate.min(VOTERS)) || counts && members >= MEMBERS.min(others)
        } else {
            let rumours = self.tracker.as_ref().map(|tracker| &tracker.rumours);
            let is_undisputed = rumours.is_some_and(|rumours| rumours.is_undisputed(self.now, led.lineage));
            counts && members >= ANY.min(others) || is_undisputed
        };
        if !is_enough {
            if is_same_line && led.term.0.saturating_sub(term.0) > MAX_TERMS_BEHIND {
                self.counters.drop(DropReason::Implausible);
            }
            self.ask_about_rumour();
        } else if let Some(tracker) = &mut self.tracker {
            tracker.rumours.heard.retain(|rumour| matches!(rumour.saying, Saying::View(_)));
        }
        is_enough
    }

    /// Returns true if news of a numbered view is believed on this member's word, or because another member said so
    /// before.
    pub(super) fn believes_view(&mut self, from: Slot, view: ViewRef, lineage: Lineage) -> bool {
        let Some(tracker) = &self.tracker else { return false };
        match &tracker.agreed {
            // Anybody may renew a leader that is known. The first view is believed of that leader alone, or of several
            // members.
            None if tracker
                .known
                .as_ref()
                .is_some_and(|known| known.lineage == Some(lineage) && known.leader != self.view.record(from).id) => {}
            // The sender's report of that electorate is believed already.
            None => return true,
            Some(agreed) if lineage != agreed.electorate.lineage => return true,
            Some(agreed) if view.number > agreed.number.saturating_add(MAX_VIEWS_MISSED) => {
                self.counters.drop(DropReason::Implausible);
                return false;
            }
            Some(agreed) if view.number <= agreed.number => return true,
            Some(_) => {}
        }
        let (members, voters) = self.hear_rumour(Saying::View(view), from);
        voters > 0 || members > 0 && members >= ANY.min(self.view.live().len())
    }

    fn hear_rumour(&mut self, saying: Saying, from: Slot) -> (usize, usize) {
        let (by, is_voter) = (self.view.record(from).run, self.is_voter(from));
        let now = self.now;
        if !self.is_listened_to(from) {
            self.counters.drop(DropReason::Unproven);
            return (0, 0);
        }
        self.tracker.as_mut().map_or((0, 0), |tracker| tracker.rumours.hear(now, saying, by, is_voter))
    }

    /// Asks a voter that has not said so yet what it knows, or, if there is none, any member.
    pub(super) fn ask_about_rumour(&mut self) {
        let now = self.now;
        let Some(tracker) = &mut self.tracker else { return };
        let known = tracker.known.as_ref().map(|known| (known.term, Some(&known.leader)));
        let term = tracker.term;
        tracker.rumours.heard.retain(|rumour| match &rumour.saying {
            // A rumour that was confirmed otherwise, or is over, is asked about no more.
            Saying::Leader { term: said, leader, .. } => {
                now.since(rumour.since) < RUMOUR_MEMORY && *said >= term && known != Some((*said, leader.as_ref()))
            }
            Saying::View(_) => true,
        });
        if tracker.rumours.deadline(tracker.asked_at).is_none_or(|at| self.now < at) {
            return self.schedule_leadership();
        }
        let Some(tracker) = &self.tracker else { return };
        let asks_again = tracker.agreed.is_none() && tracker.rumours.is_lasting(now);
        let is_fresh = |slot: &Slot| {
            let entry = self.view.entry(*slot);
            let is_fresh = asks_again || !tracker.rumours.is_teller(entry.record.run);
            *slot != View::ME && entry.status == Status::Up && is_fresh
        };
        let voters = self.electorate().into_iter().flat_map(|electorate| &electorate.voters);
        let voters: Vec<Slot> =
            voters.filter_map(|voter| self.view.slot_of(voter.id.as_str())).filter(is_fresh).collect();
        let anybody = || self.view.live().iter().copied().filter(is_fresh).collect::<Vec<Slot>>();
        let asked = if voters.is_empty() { anybody() } else { voters };
        if let Some(slot) = asked.choose(&mut self.rng).copied() {
            self.ask(slot);
        } else if let Some(tracker) = &mut self.tracker {
            tracker.asked_at = Some(now);
        }
        self.schedule_leadership();
    }

    /// Takes a report of a renewal by the known leader; returns true if it is newer than the last.
    pub(super) fn renew_known(&mut self, from: Slot, sequence: u64, age: Duration) -> bool {
        let (now, is_voter, waited) = (self.now, self.is_voter(from), self.may_have_waited());
        let Some(tracker) = &mut self.tracker else { return false };
        let asked_at = tracker.asked_at.filter(|asked| now.since(*asked) <= ANSWER_TIME && is_voter);
        let Some(known) = &mut tracker.known else { return false };
        if tracker.claim_until.is_some() {
            return false;
        }
        if is_far_ahead(known, sequence, now) {
            self.counters.drop(DropReason::Implausible);
            return false;
        }
        if known.sequence < sequence {
            known.sequence = sequence;
            known.sent = known.sent.max(now - age - waited);
            return true;
        }
        // A voter's answer was true after this node asked; a member that reported a later renewal before made it up.
        let sent = asked_at.map(|asked| asked - age).filter(|sent| known.sequence > sequence && *sent > known.sent);
        if let Some(sent) = sent {
            (known.sequence, known.sent) = (sequence, sent);
        }
        sent.is_some()
    }
}

/// Returns true if more renewals are reported as acknowledged than can have been sent.
fn is_far_ahead(known: &Known, sequence: u64, now: Time) -> bool {
    let sent = (now.since(known.sent).as_nanos() / LEAST_RENEWAL.as_nanos()) as u64;
    sequence > known.sequence.saturating_add(RENEWALS_AHEAD).saturating_add(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_term(term: u64) -> Saying {
        Saying::Leader { lineage: Lineage(1), term: Term(term), leader: None }
    }

    #[test]
    fn so_many_rumours_are_remembered_and_the_oldest_gives_way() {
        let mut rumours = Rumours::default();
        let most = MAX_RUMOURS as u64;
        for term in 1..=most {
            assert_eq!(rumours.hear(Time::ORIGIN, of_term(term), Run(1), true), (1, 1));
        }
        assert_eq!(rumours.hear(Time::ORIGIN, of_term(1), Run(2), false), (2, 1), "all of them are remembered");
        assert_eq!(rumours.hear(Time::ORIGIN, of_term(most + 1), Run(1), true), (1, 1));
        assert_eq!(rumours.heard.len(), MAX_RUMOURS);
        assert_eq!(rumours.hear(Time::ORIGIN, of_term(2), Run(2), false), (2, 1));
        assert_eq!(rumours.hear(Time::ORIGIN, of_term(1), Run(3), false), (1, 0), "the oldest gave way");
    }

    #[test]
    fn a_rumour_is_forgotten_when_its_time_is_over() {
        let mut rumours = Rumours::default();
        let just_before = Time::ORIGIN + RUMOUR_MEMORY - Duration::from_millis(1);
        assert_eq!(rumours.hear(Time::ORIGIN, of_term(1), Run(1), true), (1, 1));
        assert_eq!(rumours.hear(just_before, of_term(1), Run(2), true), (2, 2));
        assert_eq!(rumours.hear(Time::ORIGIN + RUMOUR_MEMORY, of_term(1), Run(3), true), (1, 1));
    }

    #[test]
    fn one_member_alone_is_believed_after_a_while_unless_another_electorate_is_spoken_of() {
        let mut rumours = Rumours::default();
        let (before, after) = (Time::ORIGIN + LONE_WORD - Duration::from_millis(1), Time::ORIGIN + LONE_WORD);
        rumours.hear(Time::ORIGIN, of_term(1), Run(1), false);
        assert!(!rumours.is_undisputed(before, Lineage(1)) && !rumours.is_lasting(before));
        assert!(rumours.is_undisputed(after, Lineage(1)) && rumours.is_lasting(after));
        assert!(!rumours.is_undisputed(after, Lineage(2)));
        let other = Saying::Leader { lineage: Lineage(2), term: Term(1), leader: None };
        rumours.hear(after, other, Run(2), false);
        assert!(!rumours.is_undisputed(after, Lineage(1)) && !rumours.is_undisputed(after, Lineage(2)));
    }
}
