//! Alarms: conditions that a voter reports to an operator.

use std::fmt;

use super::electorate::Lineage;
use crate::member::NodeId;

/// A condition that an operator must know of; `Display` says what happened and what to try. The receiver limits the
/// rate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Alarm {
    /// The voters configured here differ from those configured on another node: no electorate is formed.
    VotersDiffer {
        /// The other node.
        with: NodeId,
    },
    /// The electorate on the disk differs from the configured one; the disk wins.
    ConfigurationOutdated,
    /// This node's name belongs to a voter of another identity: its disk was lost or exchanged.
    IdentityMismatch,
    /// A voter's identity differs from the one in the electorate: its disk was lost or exchanged.
    StrangeVoter {
        /// The voter's name.
        id: NodeId,
    },
    /// Another node uses this node's identity: one data directory is a copy of the other.
    DuplicateIdentity {
        /// The other node.
        id: NodeId,
    },
    /// Another electorate is present in this cluster: one of the two ends.
    OtherElectorate {
        /// The node that belongs to it.
        id: NodeId,
    },
    /// This voter's electorate has ended for another one that stands over it.
    ElectorateEnded {
        /// The lineage of the other one.
        by: Lineage,
    },
    /// This node is to form the first electorate, and its wall clock shows a time before this program's.
    ClockBehind,
    /// All configured voters have met, and the one that is to form the first electorate has not.
    FounderWaits {
        /// Its name.
        id: NodeId,
    },
    /// The cluster has an electorate without this node, though this node is configured as a voter.
    ElectorateExists,
    /// Configured voters have not sent their identities: no electorate is formed.
    VotersMissing {
        /// The names of these voters.
        ids: Vec<NodeId>,
    },
    /// A member reports that the cluster has an electorate: none is formed until it says otherwise, is removed or is
    /// forgotten.
    FormingHeldUp {
        /// The member.
        by: NodeId,
    },
    /// A term was named that is near the end of all terms, or of another generation.
    TermLimit {
        /// The node that named it.
        id: NodeId,
    },
    /// The disk does not take the ballot: this voter stands aside.
    Aside,
    /// The disk takes the ballot again.
    AsideNoMore,
    /// All voters that are there drain: nobody leads.
    AllDrain,
    /// This voter has asked for an election, and nobody leads by it.
    ElectionFailed {
        /// True if a majority of the voters answered; false if too few did, or never acknowledged whom they elected.
        is_answered: bool,
    },
    /// This node leads, and for a renewal interval no majority of the voters has acknowledged its renewals.
    RenewalFailed,
    /// An operator has begun a new generation.
    Recovered {
        /// The number of the generation.
        generation: u64,
    },
}

impl Alarm {
    /// Returns a short name for its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Alarm::VotersDiffer { .. } => "voters differ",
            Alarm::ConfigurationOutdated => "voters outdated",
            Alarm::IdentityMismatch => "stranger",
            Alarm::StrangeVoter { .. } => "strange voter",
            Alarm::DuplicateIdentity { .. } => "copied",
            Alarm::OtherElectorate { .. } => "other electorate",
            Alarm::ElectorateEnded { .. } => "electorate ended",
            Alarm::ClockBehind => "clock behind",
            Alarm::FounderWaits { .. } => "founder waits",
            Alarm::ElectorateExists => "electorate exists",
            Alarm::VotersMissing { .. } => "voters missing",
            Alarm::FormingHeldUp { .. } => "forming held up",
            Alarm::TermLimit { .. } => "term limit",
            Alarm::Aside => "aside",
            Alarm::AsideNoMore => "aside no more",
            Alarm::AllDrain => "all drain",
            Alarm::ElectionFailed { is_answered: true } => "election undecided",
            Alarm::ElectionFailed { is_answered: false } => "election unanswered",
            Alarm::RenewalFailed => "renewal failed",
            Alarm::Recovered { .. } => "recovered",
        }
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alarm::VotersDiffer { with } => write!(
                f,
                "{with:?} is configured with other voters than this node: no leader is elected before leadership.voters is \
                 the same on all of them"
            ),
            Alarm::ConfigurationOutdated => f.write_str(
                "leadership.voters is not the electorate that this node has agreed to; the agreed one holds \
                 (see `headcount voters list`)",
            ),
            Alarm::IdentityMismatch => f.write_str(
                "this node's name belongs to a voter with another data directory: it does not vote; remove the voter and \
                 add it again (`headcount voters remove`, `headcount voters add`), or, where nobody leads since a majority of \
                 the voters has lost its data, recover (`headcount recover`, with --anew if no voter has its own: \
                 `headcount doctor` names the command)",
            ),
            Alarm::StrangeVoter { id } => write!(
                f,
                "{id:?} is a voter by name, but not the one that was agreed on (its data directory is another one): it does \
                 not count; remove the voter and add it again, or, where nobody leads since a majority has lost its data, see \
                 `headcount doctor`"
            ),
            Alarm::DuplicateIdentity { id } => write!(
                f,
                "{id:?} votes with this node's identity: its data directory is a copy of this node's, or the other way \
                 round; it does not count here; stop the copy and start it with an empty data directory"
            ),
            Alarm::OtherElectorate { id } => write!(
                f,
                "{id:?} belongs to another electorate in this cluster: of two that have leaders one ends by itself, the one of \
                 the lower generation, or else that began at the lower term or was founded later; if both still lead in a \
                 minute, mend the network between the two sides (`headcount doctor`)"
            ),
            Alarm::ElectorateEnded { by } => write!(
                f,
                "the electorate in which this node voted has ended: another one ({:016x}) stands over it, was in this cluster \
                 and had a leader; this node votes no more (`headcount voters add` has it vote again), and its ballot is kept \
                 aside in its data directory; if two clusters were joined by mistake, part them by name and key, and found this \
                 one anew (`headcount recover --anew`)",
                by.0
            ),
            Alarm::ClockBehind => f.write_str(
                "the clock of this machine shows a time before this program was made, and this node is to found the first \
                 electorate, which bears that time: it founds none until the clock is set, which it looks at every ten seconds",
            ),
            Alarm::FounderWaits { id } => write!(
                f,
                "all of leadership.voters have met, and {id:?}, the first of them by name, which is to found the electorate, has \
                 not: its log says why (its clock, its disk, or an electorate that it was told of)"
            ),
            Alarm::ElectorateExists => f.write_str(
                "this cluster has an electorate, and this node is not in it, though leadership.voters names it: it forms no \
                 other one and does not vote; have it voted in (`headcount voters add`, and `voters remove` before it if its name \
                 is listed), or, if no voter of that electorate is left anywhere, found it anew (`headcount recover --anew`)",
            ),
            Alarm::VotersMissing { ids } => {
                f.write_str("no leader is elected before all of leadership.voters have met once, and these have not said who they are: ")?;
                let names = ids.iter().map(NodeId::as_str).collect::<Vec<_>>().join(", ");
                write!(f, "{names}; start them, or correct the names on all voters")
            }
            Alarm::FormingHeldUp { by } => write!(
                f,
                "{by:?} says that this cluster has an electorate already, so that none is formed; if no voter of it is left, \
                 found it anew (`headcount recover --anew`); if that member is mistaken, remove it, also if it is down or has \
                 left (`headcount remove --force`)"
            ),
            Alarm::TermLimit { id } => {
                write!(f, "{id:?} named a term that is out of bounds, far ahead, or of another generation: it was ignored")
            }
            Alarm::Aside => f.write_str(
                "the data directory does not take this voter's state (disk full?): it neither votes nor leads until it does",
            ),
            Alarm::AsideNoMore => f.write_str("the data directory takes this voter's state again"),
            Alarm::AllDrain => f.write_str(
                "no voter is left that may lead: those that are there drain; nobody leads until one of them is undrained \
                 (`headcount undrain` there)",
            ),
            Alarm::ElectionFailed { is_answered } => {
                let why = if *is_answered { "a majority of the voters answered, and did not vote for one" } else { "too few voters answered" };
                write!(f, "an election ended without a leader: {why}; there will be others")
            }
            Alarm::RenewalFailed => f.write_str(
                "no majority of the voters acknowledges this leader's renewals: it leads no more once its lease ends; look at the \
                 voters and at the network between them (`headcount voters list`)",
            ),
            Alarm::Recovered { generation } => {
                write!(f, "an operator began generation {generation} of the electorate: the old one counts no more")
            }
        }
    }
}
