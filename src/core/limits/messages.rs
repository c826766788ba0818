//! Named bounds of messages between programs.

use std::time::Duration;

use super::{MAX_HEADER_BYTES, MAX_MESSAGES_PER_PACKET};

/// The largest payload of one message between programs, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;
/// The largest payload of a broadcast that goes in datagrams, in bytes: with its topic and everything else it fits into
/// the smallest `mtu`, beside the contents of every packet to members. Larger ones go over links.
pub const MAX_FLOODED_PAYLOAD: usize = 736;
/// The size that is reserved in a packet of broadcasts for the contents of every packet to a member, in bytes.
pub const SPREAD_RESERVE: usize = 128;
const _: () = assert!(MAX_FLOODED_PAYLOAD + 63 + 32 + SPREAD_RESERVE + MAX_HEADER_BYTES <= 1_000);
/// The greatest number of broadcasts in one packet, besides everything else in it. (No packet has room for so many, since
/// each takes [`SPREAD_BYTES`] besides its payload: what sends them checks that where it is built.)
pub const MAX_MESSAGES_PER_SPREAD: usize = MAX_MESSAGES_PER_PACKET / 2;
/// The size that is reckoned for a broadcast in a packet besides its payload and its topic, in bytes.
pub const SPREAD_BYTES: usize = 32;
/// The time for which new broadcasts are gathered before they are sent on.
pub const SPREAD_BATCH: Duration = Duration::from_millis(10);
/// The greatest number of packets to each peer in one such batch; the others go with the next batch.
pub const SPREAD_PACKETS: usize = 4;
/// The greatest number of broadcasts that wait to be sent on: a program that is faster is told to wait, and others' are
/// left to repair.
pub const MAX_UNSPREAD: usize = 4_096;
/// The number of numbers of one origin by which its messages are recognised: older ones count as seen.
pub const MESSAGE_WINDOW: u64 = 4_096;
/// The greatest distance of a number from the highest one that was heard of its origin: no process says so much. What is
/// farther ahead would make all that the origin says seem old.
pub const MAX_NUMBERS_AHEAD: u64 = 1 << 32;
/// The time after its sending for which a broadcast is given to members that lack it; older ones are not accepted.
pub const BROADCAST_LIFE: Duration = Duration::from_secs(10);
/// The time for which an origin's window is kept after the last new message of it: by then all copies are older than
/// [`BROADCAST_LIFE`], and no direct message is repeated any more, even if they were held up for long.
pub const ORIGIN_MEMORY: Duration = Duration::from_secs(120);
const _: () = assert!(ORIGIN_MEMORY.as_secs() >= BROADCAST_LIFE.as_secs() + MAX_REQUEST_TIMEOUT.as_secs());
/// The greatest number of origins whose windows are kept, half a kibibyte each. Others are not accepted until one of
/// these was silent for as long.
pub const MAX_ORIGINS: usize = 1_024;
/// The greatest number of them whose origin is in no view here, as of calls: so many that call leave room for members.
pub const MAX_UNKNOWN_ORIGINS: usize = MAX_ORIGINS / 2;
/// The greatest number of broadcasts that are kept to be given to members that lack them.
pub const MAX_KEPT_MESSAGES: usize = 8_192;
/// The greatest size of the payloads of those that began elsewhere, in bytes; the oldest are dropped first.
pub const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;
/// The greatest size of the payloads of those that began at this node, in bytes. A program that is faster than
/// [`FETCH_TIME`] allows is told to wait.
pub const MAX_KEPT_OWN_BYTES: usize = 3 * 1024 * 1024;
/// The time that members have to fetch a broadcast before a later one of the same node may take its place.
pub const FETCH_TIME: Duration = Duration::from_secs(2);
/// The time after a new broadcast for which the held ones are announced in packets of their own.
pub const REPAIR_AFTER: Duration = Duration::from_millis(200);
/// The number of peers that they are announced to.
pub const REPAIR_PEERS: usize = 2;
/// The greatest number of ranges of broadcasts, of one origin each, in one message.
pub const MAX_SPANS: usize = 32;
/// The greatest number of ranges in a packet that is sent anyway.
pub const MAX_CARRIED_SPANS: usize = 8;
/// The greatest number of broadcasts that one question asks for.
pub const MAX_WANTS: usize = 256;
/// The greatest number of broadcasts that are asked for at one time.
pub const MAX_WANTED: usize = 1_024;
/// The time after which a broadcast that was asked for and did not come is asked for again.
pub const WANT_TIMEOUT: Duration = Duration::from_millis(300);
/// The greatest number of packets that answer one question for broadcasts.
pub const REPAIR_PACKETS: usize = 16;
/// The number of packets that one member is sent in a second in answer to its questions for broadcasts, in datagrams, and for
/// records: whoever forges its questions has no more sent there.
pub const ANSWERS_PER_SECOND: u32 = 400;
/// The greatest number of messages to single nodes that wait for their receipts, or for their answers.
pub const MAX_DIRECT_MESSAGES: usize = 1_024;
/// The greatest size of their payloads in all, in bytes.
pub const MAX_DIRECT_BYTES: usize = 4 * 1024 * 1024;
/// The greatest number of them under way to one node at one time: a link has room for other frames, too.
pub const MAX_DIRECT_UNDER_WAY: usize = 16;
/// The time after which a message without a receipt is sent again.
pub const DIRECT_RETRY: Duration = Duration::from_secs(1);
/// The number of times that a direct message is sent over a link by which nothing comes, before the link is given up
/// for another one.
pub const SENDS_INTO_SILENCE: u32 = 2;
/// The time after which a message without a receipt is given up, if it is not a request.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that a request may wait for its answer.
pub const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that a request waits for its answer by default.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The greatest number of requests of others that wait for an answer of this node's programs.
pub const MAX_OPEN_REQUESTS: usize = 1_024;
/// The greatest number of such requests of one member.
pub const MAX_OPEN_REQUESTS_PER_MEMBER: usize = 256;
