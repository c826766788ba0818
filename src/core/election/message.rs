//! What voters tell each other. The doc comments are the specification.
//!
//! Every word carries its speaker's identity and the lineage of its electorate; what is of another lineage, or of nobody
//! in the receiver's electorate, does not count. Forming the first electorate is the exception, since it has no lineage
//! yet.

use serde::{Deserialize, Serialize};

use super::electorate::{Descent, Electorate};
use super::raw::{Identity, Lineage};
use super::term::Term;
use super::view::{Delta, ViewRef};

/// From one voter to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Word {
    /// The speaker.
    pub from: Identity,
    /// Of the speaker's electorate; zero while it has none.
    pub lineage: Lineage,
    /// What it says.
    pub body: Body,
}

/// What voters say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Body {
    /// "I am such and such a voter, and this is what I hold of you." Forms the first electorate, and introduces who is to
    /// be added to a later one.
    Roster(Roster),
    /// "I have not heard the leader for a lease: have you?"
    Query {
        /// Of the speaker; to be echoed.
        attempt: u32,
        /// The newest view that the speaker accepted: a voter that knows no electorate fetches it.
        newest: ViewRef,
    },
    /// The answer to a query.
    Health {
        /// The query's.
        attempt: u32,
        /// Whether a leader was heard within its lease.
        hears_leader: bool,
        /// The speaker's term; the asker stands above all that it heard of, if it stands.
        term: Term,
    },
    /// "Would you vote for me in this term?" Moves nobody's term.
    PreVote {
        /// To be echoed.
        attempt: u32,
        /// The one to stand in.
        term: Term,
        /// The newest view that the candidate accepted.
        newest: ViewRef,
    },
    /// The answer to a pre-vote.
    PreVoted {
        /// The question's.
        attempt: u32,
        /// Whether.
        is_granted: bool,
        /// The speaker's term.
        term: Term,
    },
    /// "Vote for me."
    Vote {
        /// In this term.
        term: Term,
        /// The newest view that the candidate accepted.
        newest: ViewRef,
    },
    /// The answer to a vote request; a granted one is on the speaker's disk.
    Voted {
        /// In which term.
        term: Term,
        /// Whether.
        is_granted: bool,
        /// The newest view that the speaker accepted.
        newest: ViewRef,
    },
    /// "I lead: renew my lease."
    Renew(Renewal),
    /// "I shall not vote for as long as the renewal says."
    Acked {
        /// The renewal's.
        term: Term,
        /// The renewal's.
        sequence: u64,
        /// The newest view that the speaker has on its disk.
        newest: ViewRef,
        /// How much it is preferred as a leader; 0 while it would not stand.
        priority: u8,
    },
    /// "I lead no more, and all that I led has ended: you are free of your promise."
    Release {
        /// The speaker's.
        term: Term,
        /// Who stands first.
        successor: Identity,
    },
    /// "An operator has begun a new generation": to those who vote in it, and to who speaks for an electorate before it.
    Recovered {
        /// Its voters, and the term at which it began.
        electorate: Electorate,
        /// The number of its founding view.
        number: u64,
    },
    /// "I am above the term of this renewal, and cannot acknowledge it": to a leader, which goes on above that term.
    Behind {
        /// The speaker's.
        term: Term,
    },
    /// "I leave, and acknowledge nothing any more: can you do without my promise?"
    Farewell {
        /// The speaker's.
        term: Term,
        /// The renewal that it acknowledged last.
        sequence: u64,
    },
    /// "Your promise is not needed: you are free of it."
    Freed {
        /// The speaker's.
        term: Term,
        /// To be echoed: whoever has acknowledged another renewal since is not meant.
        sequence: u64,
    },
}

/// See [`Body::Roster`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Roster {
    /// The hash of the names configured as voters.
    pub names: u64,
    /// The identity that the speaker holds under the receiver's name, if any.
    pub holds: Option<Identity>,
    /// Whether an answer is wanted.
    pub asks: bool,
    /// The electorate that the speaker knows of, if any: where there is one, no other is formed.
    pub founded: Option<Founded>,
    /// The newest view that the speaker accepted, if it votes: whoever is named in it, and has accepted none, asks for it.
    pub newest: Option<ViewRef>,
}

/// Word of an electorate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Founded {
    /// The electorate.
    pub descent: Descent,
    /// Whether the speaker is sure of it, or has only been told by one member. What is not sure is passed on once, and
    /// makes nobody sure.
    pub is_sure: bool,
}

/// See [`Body::Renew`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Renewal {
    /// The leader's.
    pub term: Term,
    /// Counts the renewals of the term; the claim lasts from when the acknowledged one was sent.
    pub sequence: u64,
    /// How long the promise lasts that an acknowledgement makes, from its receipt.
    pub lease_ms: u64,
    /// The claim as it stands, if it has begun.
    pub claim: Option<Claim>,
    /// The view that the leader puts to the voters, or that stands agreed.
    pub newest: ViewRef,
    /// How it differs from one that the receiver may hold, if that fits.
    pub delta: Option<Delta>,
    /// The newest view that was agreed in this term.
    pub agreed: Option<ViewRef>,
}

/// A leader's claim as others hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The renewal that a majority acknowledged last.
    pub sequence: u64,
    /// How long ago it was sent.
    pub age_ms: u64,
}
