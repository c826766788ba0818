//! The messages. Their doc comments are the specification of the protocol.
//!
//! A new kind is a variant, at the end; [`Message::KINDS`]; its rules ([`Message::rules`]), its addresses and bounds
//! ([`Message::settle`]); its row in `wiring::dispatching`, which says who may send it; its bytes in `tests/codec.rs` and
//! `tests/golden.txt`: the compiler and tests ask for all of these. Few kinds open a bootstrap link (`wiring::linking`).

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::parcel::{are_spans, is_number};
use crate::election::{ElectionMessage, Electorate, ElectorateReport};
use crate::limits::{MAX_REFERRALS, PAGES_IN_FLIGHT};
use crate::member::{NodeId, Record, Run, Status, canonical, is_reachable};
use crate::wire::{
    Broadcast, ChangeVoters, Confirmation, DirectMessage, Heartbeat, LeaderClaim, LeaderRenewal, LeaseUpdate, Nonce,
    Refusal, Seeking, Span, Update, ViewPart, VotersChanged, WantView,
};

/// The messages of the protocol. Variants are only ever appended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// A heartbeat; in every packet to a member.
    Heartbeat(Heartbeat),
    /// Marks an answer: it is never answered itself.
    Reply,
    /// An update about a member, perhaps about the receiver.
    Update(Update),
    /// Asks for a sign of life. Answered with [`Message::Ack`] at once.
    Probe {
        /// The nonce to be echoed.
        nonce: Nonce,
    },
    /// The answer to a probe; it proves the sender's address to the receiver.
    Ack {
        /// The nonce of the probe.
        nonce: Nonce,
    },
    /// Tells a member the record held of it: sent to a receiver that is held as Suspect, Down or Left, or that has a
    /// tombstone, or that others accuse. The receiver refutes, or obeys. Another run ignores it: addresses outlive
    /// processes. A receiver that never was Up at this incarnation was copied, or set back, and stops.
    HeldStatus {
        /// The run of the held record.
        run: Run,
        /// The incarnation of the held record or tombstone.
        incarnation: u64,
        /// The status of the held record.
        status: Status,
        /// Age of the last sign of life, in milliseconds.
        age_ms: u64,
    },
    /// Asks the owner of an unknown run for its record. Answered with [`Message::IAm`]. From one stranger to another
    /// the echo answers the stranger's own question and proves the sender's address, no more.
    WhoAreYou {
        /// The nonce to be echoed.
        nonce: Nonce,
        /// The nonce of the `WhoAreYou` that this one answers.
        echo: Option<Nonce>,
    },
    /// The sender's record, the answer to [`Message::WhoAreYou`].
    IAm {
        /// The nonce of the question.
        nonce: Nonce,
        /// The sender's own record.
        record: Record,
    },
    /// Asks to join. Padded to 256 bytes at least, since no larger answer is sent before the cookie came back.
    Join {
        /// The nonce of this question, another one for each address that is asked; repeated in every answer.
        nonce: Nonce,
        /// The joiner's record, with status Joining.
        record: Record,
        /// The cookie of the sponsor's challenge.
        cookie: Option<Nonce>,
    },
    /// The first answer to `Join`: the joiner is to ask again with this cookie.
    Challenge {
        /// The nonce of the `Join`.
        nonce: Nonce,
        /// A keyed hash of address, run and minute: the sponsor keeps no state for it.
        cookie: Nonce,
    },
    /// Lets a joiner in: it is to pull the view from the sender.
    Welcome {
        /// The nonce of the `Join`.
        nonce: Nonce,
        /// The sponsor's record.
        sponsor: Record,
    },
    /// Answers a `Join`: the sender is Joining itself.
    NotUp {
        /// The nonce of the `Join`.
        nonce: Nonce,
        /// The sender's record.
        record: Record,
        /// The number of joiners that asked the sender so far.
        joiners: u32,
    },
    /// Refuses a joiner.
    Refused {
        /// The nonce of the `Join`.
        nonce: Nonce,
        /// The reason.
        refusal: Refusal,
    },
    /// Answers a `Join` whose incarnation is not above the last one of that name: the joiner is to raise it above this
    /// one and ask again.
    Behind {
        /// The nonce of the `Join`.
        nonce: Nonce,
        /// The incarnation to exceed.
        incarnation: u64,
    },
    /// Answers a `Join` while the present owner of the name is being probed: the joiner is to ask again later.
    Wait {
        /// The nonce of the `Join`.
        nonce: Nonce,
        /// The time to wait, in milliseconds.
        wait_ms: u32,
    },
    /// Asks for the records after a name, in at most so many packets. Answered with packets that each hold one
    /// [`Message::Page`] and the page's updates. If the question is padded, no page of several records is larger than the
    /// question.
    Pull {
        /// The name before the first record; all records if absent.
        after: Option<NodeId>,
        /// The number of pages; at most [`PAGES_IN_FLIGHT`](crate::limits::PAGES_IN_FLIGHT).
        pages: u8,
    },
    /// Heads a packet whose updates are all the records after `after` up to the last of them, or to the end.
    Page {
        /// The name in the `Pull`, or the last name of the page before.
        after: Option<NodeId>,
        /// True if more pages follow.
        more: bool,
    },
    /// Asks for a confirmation once the receiver holds this record; sent with the update. (SWIM's "confirm" declares a member
    /// failed; here an update does.)
    Confirm(Confirmation),
    /// Confirms that the sender holds the record.
    Confirmed(Confirmation),
    /// Makes a question as large as its answer may be. The bytes have no meaning.
    Padding(Vec<u8>),
    /// Asks when the receiver last heard this run (an indirect probe); the sender is about to suspect it.
    LastHeard {
        /// The run of the subject.
        run: Run,
    },
    /// Answers `LastHeard`: the sender heard the run itself, this long ago.
    HeardAt {
        /// The run of the subject.
        run: Run,
        /// Age of the last packet of that run that reached the sender, in milliseconds.
        age_ms: u64,
    },
    /// The hashes of the sender's records, bucket by bucket. Answered with [`Message::Want`] and records.
    Digest {
        /// For each of 256 buckets of names, 32 bits of the sum of its records' hashes, little endian.
        buckets: Vec<u8>,
    },
    /// Asks for the records of these buckets. Sent with the sender's own.
    Want {
        /// A bit for each bucket.
        buckets: [u8; 32],
    },
    /// Ends this link on purpose; over links only. The closing that follows is no sign of a crash.
    Unlink,
    /// Reports that the sender's link to this run broke, and that its port refuses another one. A receiver that has
    /// heard the run since answers with [`Message::Alive`]; one that cannot reach it either sends the same.
    Severed {
        /// The run of the subject.
        run: Run,
        /// Time since the port refused, in milliseconds: packets heard since then refute the report.
        age_ms: u64,
        /// True if the sender's own probes remained unanswered as well.
        is_sure: bool,
    },
    /// Refers a joiner to other members: the answer to a [`Message::Join`] by a sponsor that serves as many views as it
    /// may; never larger than a question, so that it needs no cookie.
    Elsewhere {
        /// The nonce of the `Join`.
        nonce: Nonce,
        /// The addresses of other members that are Up. If there are none, the joiner is to ask the sender again soon.
        members: [Option<SocketAddr>; MAX_REFERRALS],
    },
    /// Answers `Severed` (SWIM's "alive" refutes a suspicion; here an update does): the sender received a packet of
    /// the run after its port refused. The sequence number shows whether that is news: a dead process sends no more packets,
    /// but its last ones, and reports about those, may be under way for a while.
    Alive {
        /// The run of the subject.
        run: Run,
        /// The highest sequence number received from it.
        sequence: u64,
    },
    /// A message of the election between voters, see [`election`](crate::election).
    Election(Box<ElectionMessage>),
    /// The leader, as far as the sender knows.
    LeaderClaim(Box<LeaderClaim>),
    /// The leader that both know has renewed its lease.
    LeaderRenewal(LeaderRenewal),
    /// Asks for the leader. Answered with [`Message::LeaderClaim`].
    WhoLeads {
        /// The nonce to be repeated.
        nonce: Nonce,
    },
    /// Asks for a numbered view. Answered with packets that each hold one [`Message::ViewPart`].
    WantView(WantView),
    /// A part of a numbered view.
    ViewPart(Box<ViewPart>),
    /// Asks the leader to change the electorate, or to resign. Sent to the leader by a member whose operator asked for
    /// it, and repeated until the answer comes. Answered with [`Message::VotersChanged`] once it is done or refused, and
    /// each repetition again.
    ChangeVoters(Box<ChangeVoters>),
    /// The leader's answer to [`Message::ChangeVoters`].
    VotersChanged(Box<VotersChanged>),
    /// Stands before a [`Message::Join`] and a [`Message::NotUp`] of nodes that look for a cluster: the sender's
    /// knowledge of the candidates for founding it.
    Seeking(Seeking),
    /// Asks whether the receiver can reach the sender at this address. Answered there with [`Message::Reached`], by
    /// members alone.
    ReachMe {
        /// The nonce to be repeated.
        nonce: Nonce,
        /// The address that the sender advertises.
        address: SocketAddr,
    },
    /// The answer to [`Message::ReachMe`].
    Reached {
        /// The nonce of the question.
        nonce: Nonce,
    },
    /// Reports that the receiver's datagrams do not reach the sender. The receiver then also sends everything over
    /// their link, until this is no longer repeated.
    Unheard,
    /// Reports that this cluster has an electorate: stands before a [`Message::Welcome`], so that a joiner knows it
    /// before it is Up; travels in gossip packets while there is no leader; and answers [`Message::WhoLeads`] if there
    /// is no [`Message::LeaderClaim`] to send.
    ElectorateReport(ElectorateReport),
    /// News about a lease in a database. Passed on by every member that receives it for the first time.
    LeaseUpdate(Box<LeaseUpdate>),
    /// A message of some member's program to all: delivered once, kept for a while, and sent on.
    Broadcast(Box<Broadcast>),
    /// Lists the broadcasts that the sender holds. Answered with [`Message::WantBroadcasts`] by a receiver that lacks
    /// some.
    HaveBroadcasts(Vec<Span>),
    /// Asks for those of these broadcasts that the receiver holds. Answered with [`Message::Broadcast`].
    WantBroadcasts(Vec<Span>),
    /// A message of the sender's program to the receiver's, over links only. Answered with [`Message::Receipt`].
    Direct(Box<DirectMessage>),
    /// Confirms that the sender has received a direct message.
    Receipt {
        /// The number of the message.
        number: u64,
    },
    /// Says when the sender's next heartbeat comes to the receiver, at the latest.
    NextHeartbeat {
        /// Time until then, in milliseconds.
        after_ms: u32,
    },
    /// Says that the kernel of a silent run's host has just answered the sender.
    HostAnswers {
        /// The run.
        run: Run,
    },
}

/// The length of the digest in [`Message::Digest`], in bytes.
const DIGEST_BYTES: usize = 1_024;

impl Message {
    /// The number of kinds that this build knows; higher kinds are skipped and counted.
    pub(super) const KINDS: u32 = 49;
    /// The kind of [`Message::Heartbeat`].
    pub(super) const HEARTBEAT_KIND: u32 = 0;
    /// The kind of [`Message::Update`].
    pub(super) const UPDATE_KIND: u32 = 2;
    /// The kind of [`Message::Page`].
    pub const PAGE_KIND: u32 = 16;

    /// The kind of [`Message::Election`].
    pub const ELECTION_KIND: u32 = 28;
    /// The kind of [`Message::Unlink`].
    pub const UNLINK_KIND: u32 = 24;

    /// Returns the rules for its kind.
    pub(crate) const fn rules(&self) -> KindRules {
        let (may_be_unbound, is_answered_apart) = match self {
            Message::IAm { .. } | Message::ReachMe { .. } => (true, true),
            Message::Reply
            | Message::Padding(_)
            | Message::WhoAreYou { .. }
            | Message::Join { .. }
            | Message::Seeking(_)
            | Message::Refused { .. }
            | Message::ElectorateReport(_) => (true, false),
            Message::Pull { .. }
            | Message::Want { .. }
            | Message::Severed { .. }
            | Message::Election(_)
            | Message::WantView(_)
            | Message::ChangeVoters(_)
            | Message::HaveBroadcasts(_) => (false, true),
            Message::Heartbeat(_)
            | Message::Update(_)
            | Message::Probe { .. }
            | Message::Ack { .. }
            | Message::HeldStatus { .. }
            | Message::Challenge { .. }
            | Message::Welcome { .. }
            | Message::NotUp { .. }
            | Message::Behind { .. }
            | Message::Wait { .. }
            | Message::Elsewhere { .. }
            | Message::Page { .. }
            | Message::Confirm(_)
            | Message::Confirmed(_)
            | Message::LastHeard { .. }
            | Message::HeardAt { .. }
            | Message::Digest { .. }
            | Message::Unlink
            | Message::Alive { .. }
            | Message::LeaderClaim(_)
            | Message::LeaderRenewal(_)
            | Message::WhoLeads { .. }
            | Message::ViewPart(_)
            | Message::VotersChanged(_)
            | Message::Reached { .. }
            | Message::Unheard
            | Message::LeaseUpdate(_)
            | Message::Broadcast(_)
            | Message::WantBroadcasts(_)
            | Message::Direct(_)
            | Message::Receipt { .. }
            | Message::NextHeartbeat { .. }
            | Message::HostAnswers { .. } => (false, false),
        };
        KindRules { may_be_unbound, is_answered_apart }
    }

    /// Brings the addresses in it into their one form; returns false if it breaks bounds that its types do not enforce.
    pub(super) fn settle(&mut self) -> bool {
        let settle = |address: &mut SocketAddr| {
            *address = canonical(*address);
            is_reachable(*address)
        };
        match self {
            Message::IAm { record, .. }
            | Message::Join { record, .. }
            | Message::NotUp { record, .. }
            | Message::Welcome { sponsor: record, .. } => {
                record.address = canonical(record.address);
                record.is_well_formed()
            }
            Message::Elsewhere { members, .. } => members.iter_mut().flatten().all(settle),
            Message::Seeking(seeking) => seeking.first.as_mut().is_none_or(|first| settle(&mut first.address)),
            Message::ReachMe { address, .. } => settle(address),
            Message::Refused { refusal, .. } => {
                match refusal {
                    Refusal::NameInUse { holder } => *holder = canonical(*holder),
                    Refusal::Unreachable { advertised, heard_from } => {
                        (*advertised, *heard_from) = (canonical(*advertised), canonical(*heard_from));
                    }
                    Refusal::OtherCluster | Refusal::Protocol { .. } => {}
                }
                true
            }
            Message::Digest { buckets } => buckets.len() == DIGEST_BYTES,
            Message::Pull { pages, .. } => (1..=PAGES_IN_FLIGHT).contains(pages),
            Message::HeldStatus { incarnation, .. } | Message::Behind { incarnation, .. } => {
                *incarnation < Record::INCARNATION_LIMIT - 1
            }
            Message::ElectorateReport(founded) => founded.descent.is_well_formed(),
            Message::Broadcast(broadcast) => broadcast.is_well_formed(),
            Message::HaveBroadcasts(spans) | Message::WantBroadcasts(spans) => are_spans(spans),
            Message::Direct(message) => message.is_well_formed(),
            Message::Receipt { number } => is_number(*number),
            Message::VotersChanged(changed) => changed.result.as_ref().map_or(true, Electorate::is_well_formed),
            // The first two are read apart (see `read`); the election and its leaders look at what is theirs themselves.
            Message::Heartbeat(_)
            | Message::Update(_)
            | Message::Election(_)
            | Message::LeaderClaim(_)
            | Message::LeaderRenewal(_)
            | Message::WhoLeads { .. }
            | Message::WantView(_)
            | Message::ViewPart(_)
            | Message::ChangeVoters(_)
            | Message::LeaseUpdate(_)
            | Message::Reply
            | Message::Probe { .. }
            | Message::Ack { .. }
            | Message::WhoAreYou { .. }
            | Message::Challenge { .. }
            | Message::Wait { .. }
            | Message::Page { .. }
            | Message::Confirm(_)
            | Message::Confirmed(_)
            | Message::Padding(_)
            | Message::LastHeard { .. }
            | Message::HeardAt { .. }
            | Message::Want { .. }
            | Message::Unlink
            | Message::Severed { .. }
            | Message::Alive { .. }
            | Message::Reached { .. }
            | Message::Unheard
            | Message::NextHeartbeat { .. }
            | Message::HostAnswers { .. } => true,
        }
    }
}

/// The rules that hold for all messages of a kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindRules {
    /// It goes to nodes whose run is not known, and so is sealed for anybody: questions, answers to the nameless by a nonce
    /// of theirs, and what goes with either. Whoever recorded it may have it opened elsewhere.
    pub(crate) may_be_unbound: bool,
    /// It is answered by packets of its own, so that of several in one packet the first counts: a question takes a few bytes,
    /// and a packet full of them would have its answers sent to whichever member's address it is forged for.
    pub(crate) is_answered_apart: bool,
}
