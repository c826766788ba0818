//! The answers to an operator or a program that the leader gives where it cannot do as it was asked, and why not.
//!
//! Must not know: how a command is carried out.

use serde::{Deserialize, Serialize};

use super::term::Term;
use crate::member::NodeId;
use crate::time::Time;

/// The reason why an operator's command to the leader, such as a change of the electorate, was not carried out. Nothing
/// changed, unless the variant says otherwise.
///
/// It is sent from the leader to the node that asked it: variants are only ever appended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// This node does not lead: only the leader changes the electorate.
    #[error("this node does not lead")]
    NotLeader,
    /// Another change is under way; they are made one at a time.
    #[error("another change of the electorate is under way: try again in a moment")]
    Busy,
    /// The electorate that was asked for is the current one, or impossible.
    #[error("the electorate stays as it is: {reason}")]
    NoChange {
        /// The reason why it stays as it is.
        reason: Unchanged,
    },
    /// The voter to add did not send its identity.
    #[error("{id:?} did not answer: it must be up, in quorum mode, and have a data directory")]
    NoAnswer {
        /// The voter that was to be added.
        id: NodeId,
    },
    /// The change was given up half-way, too few voters answered to settle it, or a leader before may have made it: it
    /// is not known whether it holds.
    #[error(
        "leadership was lost, or too few voters answered, meanwhile: look at the list of voters before you try again"
    )]
    Interrupted,
    /// A recovery was asked for while a majority of the old electorate answers.
    #[error("a majority of the old electorate answers: nothing is lost; use voters add and voters remove")]
    MajorityAnswers,
    /// This node was no voter: a new generation needs the data directory of a voter of the old one.
    #[error(
        "this node has no vote (its data directory is new, or it never voted): run it on a voter that is left; if none is, found \
         the electorate anew (--anew)"
    )]
    NoVoter,
    /// The leader was asked and did not answer; it is not known whether it has carried the command out.
    #[error("the leader, {leader:?}, did not answer in time: look at the list of voters before you try again")]
    LeaderSilent {
        /// The leader that was asked last.
        leader: NodeId,
    },
    /// A recovery was asked for while a voter hears a leader.
    #[error(
        "{by:?} hears a leader: a majority is there, if out of this node's reach; mend the network, or try again a lease \
         after the leader was lost"
    )]
    LeaderHeard {
        /// The voter that hears a leader.
        by: NodeId,
    },
    /// Leadership was to go to a node that does not vote.
    #[error("{id:?} does not vote: only a voter can lead (see the list of voters)")]
    NotVoter {
        /// The node that was named.
        id: NodeId,
    },
    /// Leadership was to go to a voter that would not be elected now.
    #[error(
        "{id:?} has not acknowledged the leader lately, or does not hold the newest view yet: try again in a moment, or name \
         another voter"
    )]
    NotCaughtUp {
        /// The voter that was named.
        id: NodeId,
    },
    /// Leadership was to go to the node that has it.
    #[error("{id:?} leads already")]
    LeadsAlready {
        /// The leader.
        id: NodeId,
    },
    /// The leader that was to resign leads no more, and a node other than the wanted one does.
    #[error("the leader that was asked no longer leads, and {leader:?} leads by now")]
    LedByOther {
        /// The leader by now.
        leader: NodeId,
    },
    /// The voter to add sent its identity, and never acknowledged the leader: it is silent since, or its disk is slow
    /// or full.
    #[error(
        "{id:?} answered and has not acknowledged what it was to store, so that it was not made a voter, and nothing changed: \
         see that it stays up and that its data directory takes writes in time (is the disk full, or slow?), then try again"
    )]
    LearnerSilent {
        /// The voter that was to be added.
        id: NodeId,
    },
    /// Leadership was lost between the two halves of a replacement.
    #[error(
        "half done: {new:?} votes, and it is not known whether {old:?} still does, since leadership was lost meanwhile; give \
         the command again, which does what is left"
    )]
    HalfReplaced {
        /// The voter that was to be removed.
        old: NodeId,
        /// The voter that was added.
        new: NodeId,
    },
    /// An electorate was to be founded anew where none is known.
    #[error(
        "nobody here knows of an electorate: the first one forms by itself, of leadership.voters, as soon as all of them are \
         up"
    )]
    NothingToFollow,
    /// An electorate was to be founded anew although a voter of the old one is left.
    #[error("{id:?} is left of the old electorate, with its data: run the recovery there, and without --anew")]
    VoterLeft {
        /// The voter that is left.
        id: NodeId,
    },
    /// Without the voter that was to be removed nobody could be elected.
    #[error(
        "without {id:?} only {there} of {voters} voters would be there, and {needed} are needed to elect anybody: bring the \
         others back first, or put members that are up in the places of those that are gone for good (a replacement adds \
         before it removes)"
    )]
    NoMajorityLeft {
        /// The voter that was to be removed.
        id: NodeId,
        /// The number of the remaining voters that have answered the leader.
        there: u8,
        /// The number of the remaining voters.
        voters: u8,
        /// The number of them that an election would need.
        needed: u8,
    },
    /// The change was proposed to the voters and taken back, since too few had it on their disks in time, or the leader
    /// left.
    #[error(
        "too few voters took the change in time, so that the leader took it back, and nothing changed: look at the list of \
         voters for those that do not acknowledge, and try again"
    )]
    NotCarried,
    /// A replacement ended after its first half.
    #[error(
        "half done: {new:?} votes, and {old:?} still does, since too few voters would be there without it, or the leader's disk \
         failed: look at the list of voters, bring back those that do not acknowledge, and give the command again, which does \
         what is left; or remove {new:?}"
    )]
    HalfDone {
        /// The voter that was to be removed.
        old: NodeId,
        /// The voter that was added.
        new: NodeId,
    },
    /// The leader's own disk did not take the change: it was proposed to no voter, and the leader stands aside.
    #[error(
        "the disk of the leader, {id:?}, did not take the change, so that it was put to nobody, and nothing changed: see to its \
         data directory, and try again as soon as another voter leads"
    )]
    OwnDisk {
        /// The leader.
        id: NodeId,
    },
    /// A voter without which nothing can be agreed acknowledges the leader, and stores nothing.
    #[error(
        "{id:?} answers and does not store what the leader puts to the voters; without it too few do, and nothing changed: see \
         to its data directory (is the disk full, or read-only?), then try again"
    )]
    NotStored {
        /// The voter that stores nothing.
        id: NodeId,
    },
    /// A voter stores nothing, as in `NotStored`, when the change and the view that takes it back were already
    /// proposed.
    #[error(
        "{id:?} answers and does not store what the leader puts to the voters; without it the change is neither made nor taken \
         back: see to its data directory (is the disk full, or read-only?), then look at the list of voters"
    )]
    Unsettled {
        /// The voter that stores nothing.
        id: NodeId,
    },
    /// The node to add is no member that the leader knows.
    #[error(
        "the leader knows no member {id:?}: see the list of members for the name, or start an agent of that name first"
    )]
    NoMember {
        /// The name of the node.
        id: NodeId,
    },
    /// The electorate has all the voters it may have, and a replacement adds before it removes.
    #[error(
        "as many vote as may, and a replacement adds before it removes: give `voters remove {old}`, then `voters add {new}` \
         (in between one voter less may fail)"
    )]
    NoRoom {
        /// The voter to be removed.
        old: NodeId,
        /// The voter to be added.
        new: NodeId,
    },
    /// Leadership was to go to a voter that drains.
    #[error("{id:?} drains, and does not lead: take that back there first (undrain), or name another voter")]
    Draining {
        /// The voter that was named.
        id: NodeId,
    },
    /// A recovery was asked for while a leader may still have its lease, by this voter's own promise.
    #[error(
        "this voter has promised a leader its lease for {seconds} s more, and does not know whether it is gone: try again \
         then; if the rest does not grow less, the leader is still heard and leads on, and nothing is lost (use voters add \
         and voters remove)"
    )]
    LeasePromised {
        /// The rest of the promise, rounded up to whole seconds.
        seconds: u64,
    },
    /// A recovery was asked for at the leader, whose lease stands, although its majority may have just been lost.
    #[error(
        "this node still leads, for {seconds} s at most if a majority of the voters is gone: try again then; if it leads on, a \
         majority answers, and nothing is lost (use voters add and voters remove)"
    )]
    StillLeads {
        /// The rest of its lease, rounded up to whole seconds.
        seconds: u64,
    },
    /// The voter to remove, or to put another one in the place of, does not vote.
    #[error("the electorate stays as it is: {id:?} is not a voter (see the list of voters)")]
    NoSuchVoter {
        /// The name of the node.
        id: NodeId,
    },
}

/// The reason why an electorate stays as it is. It is sent to other nodes: variants are only ever appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Unchanged {
    /// The node to add votes already.
    #[error("it votes already; if its disk was lost, remove it first, and then add it")]
    VotesAlready,
    /// The node to remove does not vote.
    #[error("that node is not a voter (see the list of voters)")]
    VotesNot,
    /// No voter would be left, or too many, or one voter twice.
    #[error("one to seven vote, each once")]
    OutOfBounds,
    /// A recovery names too many voters.
    #[error("at most seven vote")]
    TooMany,
    /// No generation is left to begin.
    #[error("there are no generations left")]
    NoGenerations,
    /// The voter to remove is the only one.
    #[error("it is the only voter, and without one nobody is elected; add another one first")]
    LastVoter,
}

/// The reason why leadership was not confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Unconfirmed {
    /// This node has no claim.
    #[error("this node does not lead")]
    NotLeader,
    /// This node's claim ended before a majority had answered.
    #[error("leadership was lost before a majority had confirmed it: ask who leads now")]
    Lost,
    /// A majority did not answer in time; the claim may stand all the same.
    #[error(
        "a majority did not confirm in time that this node leads: look at the links between the voters, and try again"
    )]
    TimedOut,
    /// Too many questions wait for their answers.
    #[error("too many wait for leadership to be confirmed: try again in a second")]
    Busy,
}

/// The proof that this node led at a time after the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Confirmed {
    /// The term in which it leads.
    pub term: Term,
    /// The time at which its claim ends without a further renewal.
    pub until: Time,
}
