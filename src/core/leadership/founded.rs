//! Whether this cluster has an electorate: what every member knows, and tells who comes.
//!
//! A node that is to form the first electorate must not do so beside one that there is. So a sponsor says before it
//! welcomes a joiner what it knows; everybody says it in gossip packets while nobody leads, and when asked who leads; and
//! configured voters say it to each other. Where nothing is known nothing is said, and nobody waits for it.
//!
//! **Sure** is who votes in it, has learnt an agreed view of it, or was told by [`FOUNDED_VOICES`] members. What a node is
//! sure of it keeps on its disk. **Told** is whom one member has told: for as long as that member is there and stands by it,
//! no other electorate is formed here. It is one word against none, and yet it counts, since it may be all that is left of
//! an electorate whose voters have lost their disks; and it is no more power than a member has that takes a voter's name.
//! An operator hears whose word it is, can remove that member, or have the electorate founded anew. Who was told passes it on as
//! such, which counts for [`FOUNDED_HINT`] and makes nobody sure: one member's mistake ends with that member.
//!
//! Invariants:
//! - One member's word is never passed on as if it were known.
//! - Of electorates of different roots the first one stands that this node is sure of.
//! - At most [`MAX_FOUNDED_VOICES`] are remembered.
//!
//! Must not know: how an electorate is formed.

use std::collections::BTreeMap;

use super::{Alarm, Core, NodeId, Phase, Reply, Ticket, Time};
use crate::core::Drop;
use crate::core::election::{ChangeError, Descent, Election, Founded, LostElectorate};
use crate::core::id::Run;
use crate::core::limits::{FOUNDED_HINT, FOUNDED_REVIEW, FOUNDED_VOICES, MAX_FOUNDED_VOICES, WHO_LEADS_INTERVAL};
use crate::core::view::Slot;
use crate::core::wire::{Message, PacketBuilder};
use rand::RngExt;

/// What others say of an electorate of which this node is not sure.
#[derive(Debug, Default)]
pub(super) struct Hearsay {
    /// Members that say so and are sure of it.
    voices: BTreeMap<Run, Descent>,
    /// What was passed on, and until when it counts.
    hint: Option<(Descent, Time)>,
    review_at: Option<Time>,
}

/// The one that began last: whatever is led after it must be above all of them.
fn latest<'a>(descents: impl Iterator<Item = &'a Descent>) -> Option<&'a Descent> {
    descents.max_by_key(|descent| (descent.began, descent.lineage))
}

impl Hearsay {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.review_at
    }

    /// What keeps this node from forming another electorate, and whether who says so is sure of it.
    fn rumoured(&self) -> Option<Founded> {
        let said = latest(self.voices.values()).map(|descent| Founded { descent: *descent, is_sure: true });
        said.or(self.hint.map(|(descent, _)| Founded { descent, is_sure: false }))
    }

    fn descent(&self) -> Option<Descent> {
        self.rumoured().map(|founded| founded.descent)
    }

    /// Takes a member's word down; says whether so many say the same that it is sure.
    fn hear(&mut self, by: Run, founded: Founded, now: Time) -> bool {
        let descent = founded.descent;
        self.review_at.get_or_insert(now + FOUNDED_REVIEW);
        if !founded.is_sure {
            self.hint = Some((descent, now + FOUNDED_HINT));
            return false;
        }
        if self.voices.len() < MAX_FOUNDED_VOICES || self.voices.contains_key(&by) {
            self.voices.insert(by, descent);
        }
        self.voices.values().filter(|said| **said == descent).count() >= FOUNDED_VOICES
    }

    /// Forgets who is gone, and what was passed on too long ago.
    fn review(&mut self, now: Time, is_there: impl Fn(Run) -> bool) {
        self.voices.retain(|run, _| is_there(*run));
        self.hint.take_if(|(_, until)| now >= *until);
        let is_empty = self.voices.is_empty() && self.hint.is_none();
        self.review_at = (!is_empty).then_some(now + FOUNDED_REVIEW);
    }
}

impl Core {
    /// The electorate that this node is sure of.
    pub(super) fn founded(&self) -> Option<Descent> {
        self.election()?.founded()
    }

    /// Says what is known of an electorate, if anything is.
    pub(in crate::core) fn push_founded(&self, packet: &mut PacketBuilder) {
        if let Some(founded) = self.word_of_founded() {
            packet.push(&Message::Founded(founded));
        }
    }

    fn word_of_founded(&self) -> Option<Founded> {
        let leading = self.leading.as_ref()?;
        let sure = self.founded().map(|descent| Founded { descent, is_sure: true });
        let told =
            || latest(leading.hearsay.voices.values()).map(|descent| Founded { descent: *descent, is_sure: false });
        sure.or_else(told)
    }

    /// Answers who asks who leads, where nobody is known to have led.
    pub(super) fn tell_founded(&mut self, to: Slot) {
        let Some(founded) = self.word_of_founded() else { return };
        let mut packet = self.packet_to(to);
        packet.push(&Message::Reply);
        packet.push(&Message::Founded(founded));
        self.send_to(to, packet);
    }

    /// A member, or the sponsor that welcomes this node, says that the cluster has an electorate.
    pub(in crate::core) fn hear_founded(&mut self, by: Run, founded: Founded) {
        let (now, known) = (self.now, self.founded());
        let Some(leading) = &mut self.leading else { return self.counters.drop(Drop::WrongState) };
        if known.is_some_and(|known| !founded.descent.succeeds(&known)) {
            return;
        }
        if leading.hearsay.hear(by, founded, now) {
            self.is_sure_of(founded.descent);
        } else {
            self.tell_machine_of_electorate(None);
        }
        self.schedule_leadership();
    }

    /// There is no doubt about this electorate.
    pub(super) fn is_sure_of(&mut self, descent: Descent) {
        if self.founded().is_some_and(|known| !descent.succeeds(&known)) {
            return;
        }
        if let Some(leading) = &mut self.leading {
            leading.hearsay = Hearsay::default();
        }
        self.tell_machine_of_electorate(Some(descent));
    }

    fn tell_machine_of_electorate(&mut self, sure: Option<Descent>) {
        let rumoured = self.leading.as_ref().and_then(|leading| leading.hearsay.rumoured());
        self.with_election(|election, around| election.knows_of(around, sure, rumoured));
    }

    /// Looks whether those who said so are still there, and asks others.
    pub(super) fn review_hearsay(&mut self) {
        let now = self.now;
        let Some(leading) =
            self.leading.as_mut().filter(|leading| leading.hearsay.review_at.is_some_and(|at| now >= at))
        else {
            return;
        };
        let is_joining = matches!(self.phase, Phase::Joining(_));
        let slot_of = |run| self.view.slot_of_run(run);
        let is_there = |run| is_joining || slot_of(run).is_some_and(|slot| self.view.entry(slot).status.is_live());
        leading.hearsay.review(now, is_there);
        let by = leading.hearsay.voices.keys().next().and_then(|run| slot_of(*run));
        let is_forming = self.election().is_some_and(Election::is_forming);
        if let Some(by) = by.filter(|_| is_forming && !is_joining) {
            let by = self.view.record(by).id.clone();
            self.raise_alarm(Alarm::FormingHeldUp { by });
        }
        self.tell_machine_of_electorate(None);
        self.ask_anybody();
    }

    /// An operator has an electorate founded anew, since no voter of the one that is known is left.
    pub(in crate::core) fn found_anew(&mut self, ticket: Ticket, voters: Vec<NodeId>) {
        let lineage = self.rng.random();
        if let Err(error) = self.may_command_election() {
            return self.reply(ticket, Reply::Refused(error));
        }
        let Some(leading) = &self.leading else { return };
        let refusal = if leading.known.is_some() {
            Some(ChangeError::LeaderHeard { by: self.me().id.clone() })
        } else if self.founded().or(leading.hearsay.descent()).is_none() {
            Some(ChangeError::NothingToFollow)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return self.reply(ticket, Reply::Refused(refusal.into()));
        }
        let known = [self.founded(), leading.hearsay.descent()];
        let Some(descent) = latest(known.iter().flatten()).copied() else { return };
        let agreed = leading.agreed.as_ref().filter(|agreed| agreed.electorate.root == descent.root);
        let names = agreed.into_iter().flat_map(|agreed| &agreed.electorate.voters).map(|voter| voter.id.clone());
        let lost =
            LostElectorate { descent, number: agreed.map_or(0, |agreed| agreed.number), voters: names.collect() };
        self.with_election(|election, around| election.found_anew(around, ticket, voters, lineage, lost));
        self.ask_before_founding();
    }

    /// When the next member is asked who leads, while an electorate is being founded anew.
    pub(super) fn ask_before_founding_at(&self) -> Option<Time> {
        let asked_at = self.leading.as_ref()?.asked_at.unwrap_or(Time::ORIGIN);
        self.election().is_some_and(Election::is_founding_anew).then_some(asked_at + WHO_LEADS_INTERVAL)
    }

    pub(super) fn ask_before_founding(&mut self) {
        if self.ask_before_founding_at().is_some_and(|at| self.now >= at) {
            self.ask_anybody();
        }
    }

    /// Somebody leads, as this member says.
    pub(super) fn found_nothing_anew(&mut self, by: Slot) {
        if self.election().is_some_and(Election::is_founding_anew) {
            let by = self.view.record(by).id.clone();
            self.with_election(|election, _| election.hear_of_leader(&by));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::core::election::{Lineage, Term};

    const NOW: Time = Time::ORIGIN;

    fn of(lineage: u64, is_sure: bool) -> Founded {
        let (lineage, root) = (Lineage(lineage), Lineage(lineage));
        Founded { descent: Descent { lineage, root, began: Term(0) }, is_sure }
    }

    #[test]
    fn two_that_are_sure_of_the_same_make_a_third_one_sure() {
        let mut hearsay = Hearsay::default();
        assert!(!hearsay.hear(Run(1), of(7, true), NOW));
        assert!(!hearsay.hear(Run(1), of(7, true), NOW), "the same one again");
        assert!(!hearsay.hear(Run(2), of(8, true), NOW), "of another one");
        assert!(!hearsay.hear(Run(3), of(7, false), NOW), "was only told so");
        assert!(hearsay.hear(Run(4), of(7, true), NOW));
    }

    #[test]
    fn one_members_word_counts_as_long_as_it_is_there_and_what_was_passed_on_for_a_while() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), NOW);
        hearsay.review(NOW + FOUNDED_HINT * 9, |_| true);
        assert_eq!(hearsay.rumoured(), Some(of(7, true)));
        hearsay.review(NOW + FOUNDED_HINT * 9, |_| false);
        assert_eq!((hearsay.rumoured(), hearsay.deadline()), (None, None));
        hearsay.hear(Run(1), of(7, false), NOW);
        hearsay.review(NOW + FOUNDED_HINT - Duration::from_millis(1), |_| false);
        assert_eq!(hearsay.rumoured(), Some(of(7, false)));
        hearsay.review(NOW + FOUNDED_HINT, |_| true);
        assert_eq!((hearsay.rumoured(), hearsay.deadline()), (None, None));
    }

    #[test]
    fn so_many_voices_are_remembered_and_the_next_one_is_not() {
        let mut hearsay = Hearsay::default();
        let most = MAX_FOUNDED_VOICES as u64;
        for run in 0..=most {
            hearsay.hear(Run(run), of(run + 1, true), NOW);
        }
        assert_eq!(hearsay.voices.len(), MAX_FOUNDED_VOICES);
        assert!(!hearsay.voices.contains_key(&Run(most)));
        assert!(hearsay.hear(Run(0), of(2, true), NOW), "who is remembered may say something else");
    }
}
