//! Named bounds of packets: what is answered, whom, and how often.

use std::time::Duration;

use super::MAX_MEMBERS;

/// The number of sequence numbers remembered per run to recognise second copies of a packet.
pub const DUPLICATE_WINDOW: u64 = 1_024;
/// The greatest number of messages in one packet; a datagram with more is malformed.
pub const MAX_MESSAGES_PER_PACKET: usize = 256;
/// The smallest payload of a `Join` or of a first `WhoAreYou`, in bytes: an answer to an unproven address is never
/// larger.
pub const MIN_QUESTION_BYTES: usize = 256;
/// The longest header of a packet, in bytes: its sequence number grows up to ten bytes.
pub const MAX_HEADER_BYTES: usize = 34;
/// The smallest payload that carries a first probe, in bytes: a stranger may answer it by a question that echoes the
/// nonce.
pub const MIN_PROBE_BYTES: usize = 64;
/// The largest payload pushed to a member whose address has not echoed a nonce of ours, in bytes.
pub const MAX_UNPROVEN_BYTES: usize = MIN_QUESTION_BYTES;
/// The bytes that go at once to addresses of one host (an IPv4 address, or 64 bits of an IPv6 one) that members have and
/// never proved.
pub const UNPROVEN_BURST: usize = 1_024;
/// The further bytes in a second.
pub const UNPROVEN_PER_SECOND: usize = 64;
/// The further bytes for each that came from there.
pub const UNPROVEN_FACTOR: usize = 2;
/// The greatest number of bytes that may be left to send to such a host.
pub const MAX_UNPROVEN_CREDIT: usize = 65_536;
/// The greatest number of such hosts that are remembered.
pub const MAX_UNPROVEN_HOSTS: usize = MAX_MEMBERS / 4;
/// The least time between two `HeldStatus` to one member.
pub const TOLD_INTERVAL: Duration = Duration::from_millis(200);
/// The least time between two answers to one peer's differing fingerprints.
pub const ANSWER_INTERVAL: Duration = Duration::from_millis(100);
/// The least time between two `WhoAreYou` to one address.
pub const QUESTION_INTERVAL: Duration = Duration::from_secs(1);
/// The greatest number of questions to strangers in [`QUESTION_INTERVAL`] per host (an IPv4 address, or 64 bits of an
/// IPv6 one), which may have many agents.
pub const MAX_QUESTIONS_PER_HOST: usize = 1_000;
/// The greatest number of questions to strangers in [`QUESTION_INTERVAL`] in all. None of them is larger than the
/// packet it answers, and none leaves any state.
pub const MAX_QUESTIONS: usize = 4_000;
/// The greatest number of joiners of one host that have proven nothing and are answered in [`QUESTION_INTERVAL`]: a host
/// may have a thousand agents that all come at once, and a second time after a lost packet.
pub const MAX_UNPROVEN_JOINS_PER_HOST: usize = 2_000;
/// The greatest number of joiners that have proven nothing and are answered in [`QUESTION_INTERVAL`] in all. More than any crowd needs: many
/// forged senders leave a share of these turns to honest joiners, which ask again.
pub const MAX_UNPROVEN_JOINS: usize = 10_000;
/// The greatest number of further such joiners in [`QUESTION_INTERVAL`], at addresses of one host that this node contacted
/// itself.
pub const MAX_CONTACTED_JOINS_PER_HOST: usize = 256;
/// The greatest number of joiners in [`QUESTION_INTERVAL`] that have proven nothing and are answered because they are at
/// addresses which this node contacted itself.
pub const MAX_CONTACTED_JOINS: usize = MAX_CONTACTED;
/// The greatest number of questions in [`QUESTION_INTERVAL`] to addresses of one host that others named, and where no
/// packet came from.
pub const MAX_HEARSAY_QUESTIONS_PER_HOST: usize = 32;
/// The greatest number of questions in [`QUESTION_INTERVAL`] to addresses that others named, and where no packet came from.
pub const MAX_HEARSAY_QUESTIONS: usize = 256;
/// The greatest number of packets in [`QUESTION_INTERVAL`] to addresses of one host at which joiners want to be reached,
/// and where no packet came from: so many joiners of one host are admitted in that time.
pub const MAX_REACHED_PER_HOST: usize = super::MAX_ADMISSIONS_PER_HOST as usize;
/// The greatest number of such packets in [`QUESTION_INTERVAL`] in all.
pub const MAX_REACHED: usize = super::MAX_ADMISSIONS_PER_NETWORK as usize;
/// The greatest number of answers to strangers in [`QUESTION_INTERVAL`] per host that cost more, or change something
/// (admitting a node that introduced itself, refusing, telling a node that has a tombstone).
pub const MAX_WORDS_PER_HOST: usize = 50;
/// The greatest number of such answers in [`QUESTION_INTERVAL`] in all, for each kind by itself.
pub const MAX_WORDS: usize = 100;
/// The greatest number of addresses that are remembered because this node contacted them itself: their answers and
/// questions do not count toward the limits above.
pub const MAX_CONTACTED: usize = 1_024;
/// The time for which contacted addresses are remembered.
pub const CONTACT_MEMORY: Duration = Duration::from_secs(10);
/// The greatest number of messages that are read in a stranger's packet.
pub const MAX_STRANGER_MESSAGES: usize = 5;
