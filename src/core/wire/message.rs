//! The messages. Their doc comments are the specification of what travels.

use crate::core::wire::{Broadcast, Families, Letter, Span};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::core::election::{
    ChangeError, Delta, Digest, Electorate, Founded, Lineage, Term, ViewRef, VoterChange, Word,
};
use crate::core::limits::MAX_REFERRALS;
use crate::core::member::{DetectionMethod, NodeId, ProtocolRange, Record, Run, Status};

/// Eight raw bytes that only somebody who received them can echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u64);

impl Serialize for Nonce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.to_le_bytes().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Nonce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <[u8; 8]>::deserialize(deserializer).map(|bytes| Nonce(u64::from_le_bytes(bytes)))
    }
}

/// A stamp of the sender, and the last stamp it got from the receiver: both ends learn the round trip time without a
/// packet of its own. All three figures count tenths of a millisecond modulo 2^16, so that their differences are right
/// as long as the round trip is below 6.5 s, however long the stamp was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The sender's clock.
    #[serde(with = "postcard::fixint::le")]
    pub stamp: u16,
    /// What it heard from the receiver last.
    pub echo: Option<Echo>,
}

/// A stamp on its way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// The receiver's own stamp.
    #[serde(with = "postcard::fixint::le")]
    pub stamp: u16,
    /// How long it lay here.
    #[serde(with = "postcard::fixint::le")]
    pub hold: u16,
}

/// What travels beside the record of a Suspect, Down or Left member. Never hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// How old the last known sign of life (or the departure) was when this was sent. Ages travel, times never do.
    pub age_ms: u64,
    /// How it was found out.
    pub method: DetectionMethod,
}

impl Note {
    /// The age as a duration.
    pub const fn age(self) -> Duration {
        Duration::from_millis(self.age_ms)
    }
}

/// News about a member. The note comes first, so that the record's bytes are the tail of the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// For Suspect, Down and Left only.
    pub note: Option<Note>,
    /// The record.
    pub record: Record,
}

/// Why somebody is not let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A node of this name answers at this address.
    NameInUse {
        /// Where the holder of the name is.
        holder: SocketAddr,
    },
    /// The refuser belongs to another cluster.
    OtherCluster,
    /// No protocol version in common.
    Protocol {
        /// What the refuser speaks.
        speaks: ProtocolRange,
    },
    /// Nothing answers at the address that the joiner advertises; it is heard from another one.
    Unreachable {
        /// Where it wants to be spoken to.
        advertised: SocketAddr,
        /// Where its packets come from.
        heard_from: SocketAddr,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NameInUse { holder } => write!(f, "the name is already in use by {holder}"),
            Refusal::OtherCluster => f.write_str("it belongs to another cluster: check the cluster name and the seeds"),
            Refusal::Unreachable { advertised, heard_from } => write!(
                f,
                "this node advertises {advertised}, but is heard from {heard_from}, and nothing answers at {advertised}: \
                 check --advertise, NAT, firewall{}",
                Families(*advertised, *heard_from)
            ),
            Refusal::Protocol { speaks } => {
                write!(f, "no common protocol version: it speaks {} to {}; upgrade one side", speaks.min, speaks.max)
            }
        }
    }
}

/// A peer's word that it holds a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The record's hash.
    pub record: Nonce,
}

/// Everything that travels. Variants are only ever appended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// In every packet to a member.
    Heartbeat(Heartbeat),
    /// Marks an answer: it is never answered itself.
    Reply,
    /// News about a member, the receiver perhaps included.
    Update(Update),
    /// "Are you there?" To be answered with [`Message::Ack`] at once. `doubted`: the sender is about to suspect the
    /// receiver.
    Probe {
        /// To be echoed.
        nonce: Nonce,
        /// The sender has not heard the receiver for most of its suspect timeout.
        doubted: bool,
    },
    /// The answer to a probe; proves the sender's address to the receiver.
    Ack {
        /// The probe's.
        nonce: Nonce,
    },
    /// "This is what I hold of you": for a receiver that its sender holds as Suspect, Down or Left (or buried). It
    /// refutes, or obeys. Another run ignores it: addresses outlive processes. As Up, at an incarnation that the receiver never
    /// had: "others say of you what I do not believe", and it speaks up above that.
    Told {
        /// Of the held record.
        run: Run,
        /// Of the held record or tombstone.
        incarnation: u64,
        /// The held status.
        status: Status,
        /// Of the last sign of life.
        age_ms: u64,
    },
    /// "I do not know you": to be answered with [`Message::IAm`]. From one stranger to another the echo answers the
    /// stranger's own question and proves the sender's address, no more.
    WhoAreYou {
        /// To be echoed.
        nonce: Nonce,
        /// The nonce of a `WhoAreYou` that this answers.
        echo: Option<Nonce>,
    },
    /// The sender's record, on request.
    IAm {
        /// The question's.
        nonce: Nonce,
        /// The sender's own record.
        record: Record,
    },
    /// "Let me in." Padded to 256 bytes at least, since nothing larger is answered before the cookie came back.
    Join {
        /// The joiner's; repeated in every answer.
        nonce: Nonce,
        /// The joiner's record, Joining.
        record: Record,
        /// From the sponsor's challenge.
        cookie: Option<Nonce>,
    },
    /// The first answer to `Join`: come again with this cookie.
    Challenge {
        /// The joiner's.
        nonce: Nonce,
        /// A keyed hash of address, run and minute: the sponsor keeps no state for it.
        cookie: Nonce,
    },
    /// "You are in: pull the view from me."
    Welcome {
        /// The joiner's.
        nonce: Nonce,
        /// The sponsor's record.
        sponsor: Record,
        /// How many records the sponsor holds.
        count: u32,
    },
    /// "I am Joining myself."
    NotUp {
        /// The joiner's.
        nonce: Nonce,
        /// The sender's record.
        record: Record,
        /// How many joiners asked the sender so far.
        joiners: u32,
    },
    /// "You are not let in."
    Refused {
        /// The joiner's.
        nonce: Nonce,
        /// Why.
        refusal: Refusal,
    },
    /// "Your incarnation is not above the last one of that name: raise it above this and come again."
    Behind {
        /// The joiner's.
        nonce: Nonce,
        /// The incarnation to exceed.
        incarnation: u64,
    },
    /// "Come again in a moment": the present owner of the name is being asked.
    Wait {
        /// The joiner's.
        nonce: Nonce,
        /// How long.
        wait_ms: u32,
    },
    /// "Send me the records after this name", up to so many packets. To be answered with packets that each hold one
    /// [`Message::Page`] and the page's updates.
    Pull {
        /// Exclusive; from the start if absent.
        after: Option<NodeId>,
        /// At most [`PAGES_IN_FLIGHT`](crate::core::limits::PAGES_IN_FLIGHT).
        pages: u8,
    },
    /// The updates of this packet are all the records after `after` up to the last of them, or to the end.
    Page {
        /// As asked, or the last name of the page before.
        after: Option<NodeId>,
        /// Whether more follow.
        more: bool,
    },
    /// "Tell me when you hold this record": comes with the update.
    Confirm(Confirmation),
    /// "I hold it."
    Confirmed(Confirmation),
    /// Makes a question as large as its answer may be. The bytes mean nothing.
    Padding(Vec<u8>),
    /// "When did you last hear from this run?" Its sender is about to suspect it.
    LastHeard {
        /// The subject.
        run: Run,
    },
    /// "I heard it myself, so long ago."
    HeardAt {
        /// The subject.
        run: Run,
        /// Of the last packet of it that reached the sender.
        age_ms: u64,
    },
    /// "These are the hashes of my records, bucket by bucket." To be answered with [`Message::Want`] and records.
    Digest {
        /// For each of 256 buckets of names, 32 bits of the sum of its records' hashes, little endian.
        buckets: Vec<u8>,
    },
    /// "Send me your records of these buckets." Comes with the sender's own.
    Want {
        /// A bit for each bucket.
        buckets: [u8; 32],
    },
    /// "I end this link on purpose": over links only. What follows is no sign of a crash.
    Unlink,
    /// "My link to this process broke, and its port refuses another one." Whoever has heard it since answers with
    /// [`Message::Alive`]; whoever cannot reach it either says the same.
    Severed {
        /// The subject.
        run: Run,
        /// How long ago the port refused: what was heard since refutes it.
        age_ms: u64,
        /// Whether the sender's own probes have been in vain as well.
        is_sure: bool,
    },
    /// "I am busy: ask one of these." The answer to a [`Message::Join`] by a sponsor that serves as many views as it may;
    /// never larger than a question, so that it needs no cookie.
    Elsewhere {
        /// The joiner's.
        nonce: Nonce,
        /// Where other members are that are Up. None: ask me again in a moment.
        members: [Option<SocketAddr>; MAX_REFERRALS],
    },
    /// "I received a packet of it after you were refused." The number tells whether that is news: the dead send no more
    /// packets, but their last ones, and words about those, may be under way for a while.
    Alive {
        /// The subject.
        run: Run,
        /// The highest sequence number received of it.
        sequence: u64,
    },
    /// From voter to voter, see [`election`](crate::core::election).
    Election(Box<Word>),
    /// "This is who leads."
    Led(Box<Led>),
    /// "The leader that we both know still leads."
    Pulse(Pulse),
    /// "Who leads?" To be answered with [`Message::Led`].
    WhoLeads,
    /// "Send me this numbered view." To be answered with packets that each hold one [`Message::ViewPart`].
    WantView(WantView),
    /// A part of a numbered view.
    ViewPart(Box<ViewPart>),
    /// "You lead: change the electorate, or resign." From a member, whose operator asked it, to the leader, which believes it from a
    /// proven address alone; repeated until the answer comes. To be answered with [`Message::VotersChanged`] once it is done
    /// or refused, and each repetition again.
    ChangeVoters(Box<ChangeVoters>),
    /// The leader's answer to [`Message::ChangeVoters`].
    VotersChanged(Box<VotersChanged>),
    /// Stands before a [`Message::Join`] and a [`Message::NotUp`] of nodes that look for a cluster: what its sender knows
    /// of who is to found it.
    Seeking(Seeking),
    /// "Do you reach me at this address?" To be answered there with [`Message::Reached`], by members alone.
    ReachMe {
        /// To be repeated.
        nonce: Nonce,
        /// Where the sender wants to be spoken to.
        address: SocketAddr,
    },
    /// The answer to [`Message::ReachMe`].
    Reached {
        /// The question's.
        nonce: Nonce,
    },
    /// "Your datagrams do not come here." What the receiver sends to the sender goes by their link, too, until this is said
    /// no more.
    Unheard,
    /// "Whom do you hold under this name?" From the name's owner, which met another one. To be answered with
    /// [`Message::Holds`].
    WhoHolds {
        /// To be echoed.
        nonce: Nonce,
        /// The name.
        id: NodeId,
    },
    /// The answer to [`Message::WhoHolds`].
    Holds {
        /// The question's.
        nonce: Nonce,
        /// The run that the sender holds as Up, Suspect or Leaving under that name.
        run: Option<Run>,
    },
    /// "This cluster has an electorate": stands before a [`Message::Welcome`], so that a joiner knows it before it is Up; in
    /// gossip packets while nobody leads; and answers [`Message::WhoLeads`] where there is no [`Message::Led`] to say.
    Founded(Founded),
    /// "Bring this back when you speak from elsewhere": beside an [`Message::Ack`] to an observer, at its proven address.
    Keepsake {
        /// A keyed hash of the receiver's run: its sender remembers nothing.
        keepsake: Nonce,
    },
    /// "You gave me this": stands before a [`Message::IAm`], and goes where the [`Message::Keepsake`] came from, nowhere else.
    /// Whoever brings it back is the run that it was given to, wherever that is now.
    Reminder {
        /// As it was given.
        keepsake: Nonce,
    },
    /// "This has become of a lease in a database." Passed on by everybody who hears it for the first time.
    LeaseWord(Box<LeaseWord>),
    /// What some member's program says to all: delivered once, kept for a while, and sent on.
    Broadcast(Box<Broadcast>),
    /// "I hold broadcasts of these." To be answered with [`Message::WantBroadcasts`] by whoever lacks some.
    HaveBroadcasts(Vec<Span>),
    /// "Send me those of these that you hold." To be answered with [`Message::Broadcast`].
    WantBroadcasts(Vec<Span>),
    /// What the sender's program says to the receiver's, over links only. To be answered with [`Message::Receipt`].
    Letter(Box<Letter>),
    /// "I have that letter of yours."
    Receipt {
        /// The letter's.
        number: u64,
    },
}

/// See [`Message::LeaseWord`]. Kinds that a build does not know are passed on all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseWord {
    /// The lease's name.
    pub lease: NodeId,
    /// Its term.
    pub term: u64,
    /// One of the kinds below.
    pub kind: u8,
    /// Tells apart words that are otherwise the same; else 0.
    pub nonce: u64,
}

impl LeaseWord {
    /// Somebody leads in this term.
    pub const LED: u8 = 0;
    /// Whoever led in this term has given the lease up: it is free.
    pub const RELEASED: u8 = 1;
    /// Whoever leads in this term is asked to give the lease up.
    pub const RESIGN: u8 = 2;
}

/// See [`Message::Seeking`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeking {
    /// In a question: the receiver's address is one of the sender's seeds.
    pub asks_seed: bool,
    /// Whether the sender itself may be the first of its cluster, and why.
    pub candidacy: Option<Candidacy>,
    /// The first in line of the candidates that the sender has reached.
    pub first: Option<Candidate>,
}

/// Why a node may be the first of its cluster. The listed come before the named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Candidacy {
    /// Its own list of seeds names it.
    Listed,
    /// The lists of others name it.
    Named,
}

/// A node that may be the first of its cluster. Of several, the smallest is the first in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    /// Why it may.
    pub candidacy: Candidacy,
    /// Where it is.
    pub address: SocketAddr,
}

/// See [`Message::Led`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Led {
    /// Of the electorate.
    pub lineage: Lineage,
    /// Of the electorate that it descends from.
    pub root: Lineage,
    /// The term at which its generation began.
    pub began: Term,
    /// The term.
    pub term: Term,
    /// Who leads in it; absent if it resigned.
    pub leader: Option<NodeId>,
    /// The renewal that a majority of the voters acknowledged last.
    pub sequence: u64,
    /// How long ago it was sent.
    pub age_ms: u64,
    /// The leader's lease.
    pub lease_ms: u64,
    /// The newest agreed view.
    pub view: ViewRef,
    /// How it differs from the one before it, if that is short.
    pub delta: Option<Delta>,
}

/// See [`Message::Pulse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulse {
    /// The low half of the electorate's lineage.
    #[serde(with = "postcard::fixint::le")]
    pub lineage: u32,
    /// The term.
    pub term: Term,
    /// The renewal that a majority of the voters acknowledged last.
    pub sequence: u64,
    /// How long ago it was sent.
    pub age_ms: u64,
    /// Of the newest agreed view.
    pub number: u64,
    /// The low half of its digest.
    #[serde(with = "postcard::fixint::le")]
    pub digest: u32,
}

/// See [`Message::WantView`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantView {
    /// Which.
    pub digest: Digest,
    /// Only names after this one.
    pub after: Option<NodeId>,
}

/// See [`Message::ViewPart`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewPart {
    /// Of which view.
    pub digest: Digest,
    /// The names that follow are all after this one, up to the last of them.
    pub after: Option<NodeId>,
    /// Names, sorted.
    pub members: Vec<NodeId>,
    /// Whether more follow.
    pub more: bool,
    /// In the first part.
    pub electorate: Option<Electorate>,
    /// In the first part, if the view changes the electorate.
    pub change: Option<VoterChange>,
}

/// See [`Message::ChangeVoters`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeVoters {
    /// The same in every repetition of one question, and in no other question.
    pub nonce: Nonce,
    /// The change that is asked for.
    pub wish: VoterWish,
}

/// What the leader is to do: how the electorate is to be changed, or that another is to lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VoterWish {
    /// This one is to vote.
    Add(NodeId),
    /// This one is to vote no more.
    Remove(NodeId),
    /// Whoever leads in this term is to give leadership up.
    Resign {
        /// The term: a leader of a later one was not meant.
        term: Term,
        /// The voter that is to lead instead, if anybody in particular.
        to: Option<NodeId>,
    },
    /// One is to vote in the place of another.
    Replace {
        /// The voter that is to go.
        old: NodeId,
        /// The node that is to vote.
        new: NodeId,
    },
}

/// See [`Message::VotersChanged`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotersChanged {
    /// The nonce of the question that is answered.
    pub nonce: Nonce,
    /// The electorate as it is now, or why it was not changed.
    pub result: Result<Electorate, ChangeError>,
}

/// Length of the digest in [`Message::Digest`], in bytes.
pub(super) const DIGEST_BYTES: usize = 1_024;

impl Message {
    /// How many kinds this build knows; higher numbers are skipped and counted.
    pub(super) const KINDS: u32 = 51;
    /// The kind of [`Message::Heartbeat`].
    pub(super) const HEARTBEAT_KIND: u32 = 0;
    /// The kind of [`Message::Update`].
    pub(super) const UPDATE_KIND: u32 = 2;
    /// The kind of [`Message::Unlink`].
    pub(in crate::core) const UNLINK_KIND: u32 = 24;
}
