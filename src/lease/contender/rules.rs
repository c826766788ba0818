//! The rules that claims rest on: each is one method, and the method's body is the rule.
//!
//! [`Sound`] follows all of them. The tests have a type of their own, which leaves out the one that they name; so no
//! other function is ever read in two versions.
//!
//! Must not know: the state of the machine; what is done with an answer.
#![doc = include_str!("rules.md")]

use std::time::Duration;

use super::contest::HeldTerm;
use super::drawn::Draw;
use super::history::{Elsewhere, SeenHolder, Taking};
use super::timing::{ContenderTiming, MIN_PAUSE, TRIES_IN_WHAT_IS_LEFT};
use crate::{Holder, Token};
use headcount_core::election::{LossReason, claim_of};
use headcount_core::{NodeId, Time};

/// The rules of a contender; the default of each method is the right one.
pub trait Rules: Copy {
    /// Returns the time from which a claim counts: from before its round was handed out. Without it: two valid claims.
    fn claim_begins(self, sent: Time, _received: Time) -> Time {
        sent
    }

    /// Returns the length of the claim by a lease of this length: less a margin for clocks that run at different rates.
    /// Without it: two valid claims.
    fn claim_length(self, lease: Duration) -> Duration {
        claim_of(lease)
    }

    /// Returns true if a claim is over: it ends by itself, whatever the store says. Without it: a stale claim.
    fn is_over(self, now: Time, until: Time) -> bool {
        now >= until
    }

    /// Returns the term led by a renewal that was written after its claim had ended: none, a term that was given up is
    /// never led again. Without it: two valid claims.
    fn led_after_the_end(self, _renewed: HeldTerm) -> Option<HeldTerm> {
        None
    }

    /// Returns the reason why a leader steps down whose round failed: there is none, its claim stands until its time.
    /// Without it: needless changes of leaders.
    fn loss_by_failure(self) -> Option<LossReason> {
        None
    }

    /// Returns the reason why a leader steps down whose renewal was rejected, since another one holds a later term or
    /// not: it always does. Without it: a leader that everybody else has given up.
    fn loss_by_rejection(self, is_superseded: bool) -> Option<LossReason> {
        Some(if is_superseded { LossReason::Superseded } else { LossReason::Rejected })
    }

    /// Returns true if a leader in this term steps down since it heard of that one: of any higher one. Without it: a
    /// leader that everybody else has given up.
    fn is_superseded(self, own: u64, heard: u64) -> bool {
        own < heard
    }

    /// Returns the token that a renewal writes: a new one. Without it: others see a renewed lease stand still, and take
    /// it.
    fn token_to_write(self, drawn: Token, _held: &[Token]) -> Token {
        drawn
    }

    /// Returns the tokens that a renewal names: all that may stand in the row, oldest first. Without it: a lost answer
    /// costs the lease.
    fn tokens_to_name(self, held: Vec<Token>) -> Vec<Token> {
        held
    }

    /// Returns the draw by which a row under this node's name is its own: that of the row's very token. Without it: two
    /// agents with one name lead at once.
    fn own_draw(self, of_token: Option<Draw>, _holder: &Holder, _sent: Time) -> Option<Draw> {
        of_token
    }

    /// Returns the time from which the claim of an adopted acquisition counts: from when it was sent. Without it: two
    /// valid claims.
    fn adopted_from(self, sent: Time, _seen: Time) -> Time {
        sent
    }

    /// Returns true if a lost acquisition may be adopted: not if another holder was seen since, or a release names it.
    /// Without it: two valid claims.
    fn may_adopt(self, is_adoptable: bool) -> bool {
        is_adoptable
    }

    /// Returns the time for which a token must have stood before its lease is taken: the longer of both leases, by the
    /// contender's own clock. Without it: two valid claims when the store's clock steps, or if leases differ.
    fn whole_lease(self, own: Duration, holders: Duration) -> Duration {
        own.max(holders)
    }

    /// Returns the holder's own last word that it leads, which is waited for as well, if its row stands still. Without
    /// it: who asks a copy of the database leads beside a healthy leader.
    fn word_of_holder(self, said: Option<Time>) -> Option<Time> {
        said
    }

    /// Returns true if the row has not been written since it was seen last: it bears the same token. Without it: a
    /// renewed lease is taken.
    fn is_unchanged(self, last_seen: &SeenHolder, holder: &Holder) -> bool {
        last_seen.token == holder.token
    }

    /// Returns the way in which a lease may be asked for whose row names no holder: as what is known of it permits,
    /// however free it looks. Without it: two valid claims after lost commits.
    fn taking_of_vacant_row(self, known: Taking) -> Taking {
        known
    }

    /// Returns the time until which a missing row is waited for: as long as a holder would be. Without it: two valid
    /// claims after a row was deleted by hand.
    fn missing_until(self, since: Time, longest: Duration) -> Time {
        since + longest
    }

    /// Returns the time from which a lease is waited for that looks older than it is known to be: from when a round
    /// shows it that was sent since the higher term is known. Without it: two valid claims after lost commits.
    fn waits_from(self, has_fallen: bool, _sent: Time, now: Time) -> Option<Time> {
        has_fallen.then_some(now)
    }

    /// Returns true if another node that says it leads in this leader's term is a rival: any other is. Without it: two
    /// lead for ever by two databases.
    fn is_rival(self, me: &NodeId, other: &NodeId) -> bool {
        me != other
    }

    /// Returns true if a leader's word in the highest known term begins the wait anew: whenever the store knows less,
    /// and not with the first word alone. Without it: two databases take turns.
    fn is_ahead_of_store(self, stored: Option<u64>, term: u64) -> bool {
        stored.is_some_and(|stored| stored < term)
    }

    /// Returns true if the row names the node that says it leads in the row's term. Without it: a leader whose term the
    /// store gave to another is not waited for, and two databases take turns.
    fn is_named_by_row(self, row: &NodeId, leader: &NodeId) -> bool {
        row == leader
    }

    /// Returns the leader to wait for, of which the store knows nothing: whoever says so, in whatever term. Without it:
    /// who asks another database deposes a healthy leader.
    fn waits_elsewhere(self, leader: Elsewhere) -> Option<Elsewhere> {
        Some(leader)
    }

    /// Returns true if a newcomer has something to listen for: whatever its store knows, until a leader's word agrees
    /// with it. Without it: a newcomer leads beside a healthy leader, or a term is led twice; or a succession takes half
    /// a lease for nothing.
    fn listens(self, _known: u64, has_agreed: bool) -> bool {
        !has_agreed
    }

    /// Returns true if a word in this term came late, since the leader in that one agrees with the store. Without it: a
    /// succession takes two leases.
    fn came_late(self, term: u64, agreed: u64) -> bool {
        term < agreed
    }

    /// Returns true if a leader that is a member no more was waited for long enough beside a later holder: if that one
    /// has renewed since the leader's last word, and a lease has passed. Without it: two leaders, when the one of another
    /// database stands still for less than its lease.
    fn is_waited_out(self, now: Time, last_word: Time, renewed: Time, lease: Duration) -> bool {
        renewed > last_word && now >= last_word + lease
    }

    /// Returns the term to remember of a lease that is not contended for: the one that was heard of. Without it: a term
    /// is led twice.
    fn term_to_remember(self, heard: u64) -> u64 {
        heard
    }

    /// Returns the term above which a lease is taken: the highest that is known, from wherever, or that voters gave.
    /// Without it: a term is led twice after lost commits, and terms fall where the mode is changed.
    fn acquires_above(self, known: u64, floor: u64) -> u64 {
        known.max(floor)
    }

    /// Returns true if the term that the store gave is not above the highest one known, and is not led. Without it: a
    /// term is led twice after lost commits.
    fn was_led_before(self, term: u64, known: u64) -> bool {
        term <= known
    }

    /// Returns true if a lease is not released yet, since led work goes on. Without it: two at work at once.
    fn holds_release_up(self, is_at_work: bool) -> bool {
        is_at_work
    }

    /// Returns the time of the next round after a release was announced: at once. Without it: nobody leads for up to a
    /// renewal interval.
    fn due_after_release(self, due: Time, at_once: Time) -> Time {
        due.min(at_once)
    }

    /// Returns the pause after a failure while a lease is held that has this time left: no longer than a part of it.
    /// Without it: a held lease runs out untried.
    fn pause_while_held(self, pause: Duration, left: Duration) -> Duration {
        pause.min(left / TRIES_IN_WHAT_IS_LEFT).max(MIN_PAUSE)
    }

    /// Returns the longest time from one renewal to the next: early enough for a second try. Without it: one lost answer
    /// costs the lease.
    fn pace(self, timing: &ContenderTiming) -> Duration {
        timing.pace()
    }

    /// Returns true if a node must not lead since it is drained. Without it: a drained node leads.
    fn is_kept_from_leading(self, is_draining: bool) -> bool {
        is_draining
    }

    /// Returns the time until which somebody is heard to lead by voters: nobody begins to lead before it. Without it: two
    /// leaders where the mode is changed.
    fn led_by_voters_until(self, until: Time) -> Option<Time> {
        Some(until)
    }
}

/// All rules, as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sound;

impl Rules for Sound {}
