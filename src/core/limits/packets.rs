//! Named bounds of packets: what is answered, whom, and how often.

use std::time::Duration;

/// The number of sequence numbers remembered per run to recognise second copies of a packet.
pub const DUPLICATE_WINDOW: u64 = 1_024;
/// The greatest number of messages in one packet; a datagram with more is malformed.
pub const MAX_MESSAGES_PER_PACKET: usize = 256;
/// The smallest payload of a `Join` or of a first `WhoAreYou`, in bytes: nothing larger is sent to an address that has not
/// echoed a nonce of ours.
pub const MIN_QUESTION_BYTES: usize = 256;
/// The longest header of a packet, in bytes: its sequence number grows up to ten bytes.
pub const MAX_HEADER_BYTES: usize = 34;
/// The smallest payload that carries a first probe, in bytes: a stranger may answer it by a question that echoes the
/// nonce.
pub const MIN_PROBE_BYTES: usize = 64;
/// The least time between two `HeldStatus` to one member.
pub const TOLD_INTERVAL: Duration = Duration::from_millis(200);
/// The least time between two answers to one peer's differing fingerprints.
pub const ANSWER_INTERVAL: Duration = Duration::from_millis(100);
/// The least time between two `WhoAreYou` to one address.
pub const QUESTION_INTERVAL: Duration = Duration::from_secs(1);
/// The greatest number of questions to strangers in [`QUESTION_INTERVAL`] in all. None of them is larger than the
/// packet it answers, and none leaves any state.
pub const MAX_QUESTIONS: usize = 4_000;
/// The greatest number of packets in [`QUESTION_INTERVAL`] to addresses where none came from, because others named them or
/// because somebody wants to be reached there: so many joiners that are behind translators are admitted in that time.
pub const MAX_ELSEWHERE: usize = 512;
/// The greatest number of answers to strangers in [`QUESTION_INTERVAL`] that cost more, or change something (admitting a
/// node that introduced itself, refusing, telling a node that has a tombstone), for each kind by itself.
pub const MAX_STRANGER_ANSWERS: usize = 100;
/// The greatest number of addresses that are remembered because this node contacted them itself: their answers and
/// questions do not count toward the limits above.
pub const MAX_CONTACTED: usize = 1_024;
/// The time for which contacted addresses are remembered.
pub const CONTACT_MEMORY: Duration = Duration::from_secs(10);
