//! The rules that the election rests on: each is one method, and the method's body is the rule.
//!
//! [`Sound`] follows all of them. The tests have a type of their own, which leaves out the one that they name; so no
//! other function is ever read in two versions.
//!
//! Must not know: what is done with an answer.
#![doc = include_str!("rules.md")]

use std::collections::BTreeSet;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::electorate::{Descent, Electorate, Identity, Lineage};
use super::term::Term;
use super::view::{NumberedView, ViewRef};
use super::{Ballot, Context, Election, LossReason};
use crate::time::Time;

/// The rules of a voter; the default of each method is the right one.
pub trait Rules: Copy {
    /// Returns the time before which a voter does not vote after a restart: for as long as the longest promise that it
    /// may have made. Without it: two valid claims.
    fn votes_from(self, born: Time, longest_promise: Duration) -> Time {
        born + longest_promise
    }

    /// Returns true if a promise binds no more. Without it: two valid claims.
    fn is_promise_over(self, now: Time, until: Time) -> bool {
        now >= until
    }

    /// Returns the length of the promise that acknowledges a renewal: as long as the renewal asks for, whatever the
    /// voter's own lease. Without it: two valid claims, if leases differ.
    fn promised(self, asked: Duration, _own: Duration) -> Duration {
        asked
    }

    /// Returns true if a voter is released of its promise: only by the leader of its own term, whom it promised.
    /// Without it: two valid claims.
    fn is_released_by(self, (speaker, of): (Identity, Term), (leader, own): (Option<Identity>, Term)) -> bool {
        of == own && leader == Some(speaker)
    }

    /// Returns true if the claim rests on a voter that leaves, since it reaches less far without it: that voter is not
    /// freed. Without it: two valid claims.
    fn is_needed(self, claimed: u64, without: u64) -> bool {
        without < claimed
    }

    /// Begins an attempt to be elected in this term: with questions that move nobody's term. Without it: a returning
    /// voter deposes a healthy leader.
    fn begin_attempt<R: Rules>(self, candidate: &mut Election<R>, context: &Context<'_>, _term: Term) {
        candidate.stand_on(context);
        candidate.advance(context);
    }

    /// Returns true if a candidate has won: by a majority of its electorate. Without it: two leaders in one term.
    fn has_won(self, electorate: &Electorate, favours: impl Fn(Identity) -> bool) -> bool {
        electorate.has_majority(favours)
    }

    /// Returns the highest term that a voter votes for nobody in: its own, and any that it knows to have been led by a
    /// lease. Without it: terms are led again after a change of the mode.
    fn refuses_up_to(self, _own: Term, highest_led: Term) -> Term {
        highest_led
    }

    /// Returns true if a voter may vote in this term: it votes once in each. Without it: two leaders in one term.
    fn may_vote_in(self, term: Term, refused: Term) -> bool {
        term > refused
    }

    /// Takes note that a candidate of this term was refused a vote: that moves no term. Without it: a returning voter
    /// deposes a healthy leader.
    fn refused<R: Rules>(self, _voter: &mut Election<R>, _context: &Context<'_>, _term: Term) {}

    /// Returns true if a candidate has accepted no less than the voter. Without it: an agreed view is lost.
    fn has_accepted_enough(self, candidate: ViewRef, voter: ViewRef) -> bool {
        (candidate.term, candidate.number) >= (voter.term, voter.number)
    }

    /// Returns true if a vote is false, since its voter has accepted more than the candidate that counts it. Without it:
    /// an agreed view is lost.
    fn is_false_vote(self, voter: ViewRef, candidate: Option<ViewRef>) -> bool {
        Some(voter) > candidate
    }

    /// Returns true if a vote may be sent: it is on disk. Without it: two leaders in one term.
    fn may_send_vote(self, stored: &Ballot, term: Term, candidate: Identity) -> bool {
        stored.has_vote(term, candidate)
    }

    /// Returns true if a candidate counts its own vote: it is on disk. Without it: two leaders in one term.
    fn counts_own_vote(self, stored: &Ballot, term: Term, me: Identity) -> bool {
        stored.has_vote(term, me)
    }

    /// Returns true if a vote is being written, so that no other candidate is granted a pre-vote. Without it: slow disks,
    /// where candidates overtake each other, and a majority has no leader.
    fn is_vote_being_written(self, stored: &Ballot, meant: &Ballot) -> bool {
        (stored.term, stored.vote) != (meant.term, meant.vote)
    }

    /// Returns true if votes of this term count, although the attempt that they were asked for is over: until the term
    /// moves. Without it: a disk slower than an attempt elects nobody.
    fn counts_late_votes(self, ballot: &Ballot, term: Term) -> bool {
        ballot.has_vote(term, ballot.identity)
    }

    /// Returns the time for which whoever got a vote is left to lead. Without it: slow disks, where candidates overtake
    /// each other, and a majority has no leader.
    fn time_to_lead(self, patience: Duration) -> Duration {
        patience
    }

    /// Returns the time from which votes alone make a claim: they make none, acknowledged renewals do. Without it: two
    /// valid claims.
    fn claim_by_votes(self, _elected: Time) -> Option<Time> {
        None
    }

    /// Returns the last renewal that makes a claim: the last that a majority of the electorate in force has
    /// acknowledged, whoever votes by the newest view. Without it: two valid claims; or a leader falls for a voter that
    /// is to be added and died.
    fn claimed_by(self, in_force: &Electorate, _newest: &Electorate, acknowledged: impl Fn(Identity) -> u64) -> u64 {
        in_force.reached_by_majority(acknowledged)
    }

    /// Returns the time from which a claim counts: from when its renewal was sent. Without it: two valid claims.
    fn claim_begins(self, sent: Time, _received: Time) -> Time {
        sent
    }

    /// Ends the term of a leader whose claim ran out. Without it: a term is led again after others gave it up.
    fn end_with_claim<R: Rules>(self, leader: &mut Election<R>, context: &Context<'_>, reason: LossReason) {
        leader.step_down(context, reason);
    }

    /// Returns the first renewal that proves leadership, if this is the last that was sent before the question: the next
    /// one. Without it: a deposed leader answers as if it led.
    fn proved_by(self, last_sent: u64) -> u64 {
        last_sent + 1
    }

    /// Returns true if a leader goes on above a voter that has been above it for so long: after a lease, and once
    /// nothing is in flight. Without it: that voter acknowledges nobody for good, and one more failure deposes the
    /// leader.
    fn goes_on_above(self, lasted: Duration, lease: Duration, is_busy: bool) -> bool {
        lasted >= lease && !is_busy
    }

    /// Gives the claim up of a leader that goes on above its voters: it keeps its promise to itself. Without it: another
    /// one leads while what was led is still ending.
    fn give_up_to_go_on<R: Rules>(self, leader: &mut Election<R>, context: &Context<'_>) {
        leader.give_claim_up(context, LossReason::Superseded);
    }

    /// Returns the ballot that is acknowledged: what is on disk. Without it: two valid claims.
    fn acknowledged<'ballot>(self, stored: &'ballot Ballot, _meant: &'ballot Ballot) -> &'ballot Ballot {
        stored
    }

    /// Returns the ballot by which a leader counts itself among those that accepted a view: what is on disk. Without it:
    /// an agreed view is lost.
    fn counted_as_own<'ballot>(self, stored: &'ballot Ballot, _meant: &'ballot Ballot) -> &'ballot Ballot {
        stored
    }

    /// Returns true if a voter has accepted the view in flight: in this very term. Without it: one number, two contents.
    fn has_accepted(self, held: Option<ViewRef>, in_flight: ViewRef) -> bool {
        held == Some(in_flight)
    }

    /// Returns true if the next view may be numbered: once the own term is settled and the last view is agreed. Without
    /// it: two leaders in one term.
    fn may_number(self, is_settled: bool, is_in_flight: bool) -> bool {
        is_settled && !is_in_flight
    }

    /// Returns true if a view is agreed: by the majorities before it and after it. Without it: two leaders in one term.
    fn is_agreed(self, view: &NumberedView, is_proposed: bool, has_accepted: impl Fn(Identity) -> bool) -> bool {
        view.is_carried_by(is_proposed, has_accepted)
    }

    /// Returns true if a change is not put to the voters yet, since it is not on the leader's own disk. Without it: its
    /// leader's disk fails, and a majority that lives has no leader.
    fn awaits_own_disk(self, is_unstored: bool) -> bool {
        is_unstored
    }

    /// Returns the renewal from which acknowledgements count for a change that was asked for with this one. Without it: a
    /// majority that lives has no leader.
    fn answers_from(self, question: u64) -> u64 {
        question
    }

    /// Returns true if a change that too few voters accept is taken back, if it can be. Without it: a majority that lives
    /// has no leader.
    fn takes_back(self, is_possible: bool) -> bool {
        is_possible
    }

    /// Returns true if a leader that leaves takes a change back first that is in flight. Without it: a majority that
    /// lives has no leader.
    fn settles_first(self, is_in_flight: bool) -> bool {
        is_in_flight
    }

    /// Returns true if a voter does not accept a view yet that leaves it out: that is not agreed. Without it: a majority
    /// that lives has no leader.
    fn waits_until_agreed(self, view: ViewRef, agreed: Option<ViewRef>) -> bool {
        agreed != Some(view)
    }

    /// Returns true if a leader whose disk fails resigns: if enough others store. Without it: a working leader falls
    /// where all disks are full.
    fn resigns_to_others(self, can_elect: bool) -> bool {
        can_elect
    }

    /// Returns true if a leader resigns at an operator's command before others have stored something: if it is alone.
    /// Without it: disks that filled up unseen, and nobody leads.
    fn resigns_untried(self, is_alone: bool) -> bool {
        is_alone
    }

    /// Returns true if another electorate than this one is known of, so that none is formed. Without it: two electorates
    /// lead in one cluster.
    fn is_another(self, known: Lineage, own: Lineage) -> bool {
        known != own
    }

    /// Returns true if a majority is there, and cannot be recovered from. Without it: an island deposes the majority.
    fn is_majority_there(self, electorate: &Electorate, answered: &BTreeSet<Identity>) -> bool {
        electorate.has_majority(|identity| answered.contains(&identity))
    }

    /// Returns the draw of the term at which a generation begins. Without it: two operators, one term.
    fn drawn_beginning(self, lineage: Lineage) -> u64 {
        xxh3_64(&lineage.0.to_le_bytes())
    }

    /// Returns the term above which a generation begins: that of the last one that is known of, too. Without it: terms
    /// that were led already are led again.
    fn begins_above(self, own: Term, known: Term) -> Term {
        own.max(known)
    }

    /// Returns true if a generation takes the place of a voter's own: of one root the higher beginning stands; of another
    /// root, if an operator named this voter in it. Without it: two electorates for good.
    fn takes_place_of(self, theirs: &Electorate, own: &Electorate, is_named: bool) -> bool {
        theirs.succeeds(own) || is_named && theirs.descent().stands_over(&own.descent())
    }

    /// Returns true if a voter's electorate ends for another one: if that one stands over it. Without it: two electorates
    /// end each other, or both stand.
    fn ends_for(self, own: &Descent, other: &Descent) -> bool {
        other.stands_over(own)
    }

    /// Returns true if a leader gives its claim up to go on above the terms of an electorate that ended: once nothing is
    /// in flight. Without it: whatever saw the other electorate's fencing tokens refuses this one's.
    fn leads_above_ended(self, is_busy: bool) -> bool {
        !is_busy
    }

    /// Returns true if others may be told of a generation: it is on disk. Without it: others go over to one that is
    /// forgotten where it began.
    fn may_tell(self, stored: Option<Lineage>, meant: Option<Lineage>) -> bool {
        stored == meant
    }
}

/// All rules, as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sound;

impl Rules for Sound {}
