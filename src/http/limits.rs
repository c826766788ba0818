//! Limits of the server that more than one room keeps: sizes of what is read and sent, and times. (Limits that are one
//! room's own stand there.)
//!
//! Must not know: anything of the server.

use std::time::Duration;

/// The largest body of a request, in bytes: a full set of addresses or tags is well below.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// The largest body that is read without a permit, in bytes: most commands are smaller.
pub const SMALL_BODY_BYTES: usize = 4 * 1024;
/// The number of larger bodies read at one time, less than 2 MiB together; others wait within [`REQUEST_TIMEOUT`].
pub const MAX_LARGE_BODIES: usize = 16;
/// The largest head of a request, and the most that waits to be sent on one connection beside one page or frame, in
/// bytes.
pub const MAX_BUFFER_BYTES: usize = 8 * 1024;
/// The greatest number of header lines of a request.
pub const MAX_HEADERS: usize = 100;
/// The longest target of a request (its path with the query, and the authority if it names one), in bytes: each request
/// that waits holds one.
pub const MAX_TARGET_BYTES: usize = 3 * 1024;
/// The size of the headers that are read, in bytes together, for the same reason.
pub const MAX_READ_HEADERS_BYTES: usize = 2 * 1024;
/// The largest answer that is not counted, in bytes: each connection may hold one that its peer does not read.
pub const MAX_UNCOUNTED_ANSWER_BYTES: usize = 8 * 1024;
/// The number of answers that are made at one time, health checks among themselves and all others among themselves;
/// the next ones wait their turn, first come, first served. One that waits for others meanwhile does not count.
pub const MAX_ANSWERS_MADE: usize = 4;
/// The number of connections that may wait to be accepted; the system may allow fewer.
pub const LISTEN_BACKLOG: u32 = 1_024;
/// The default number of connections open at one time, event streams included.
pub const DEFAULT_MAX_CONNECTIONS: usize = 1_024;
/// The default number of event streams open at one time, as far as the connections allow.
pub const DEFAULT_MAX_STREAMS: usize = 1_024;
/// The time for the head of a request to arrive after the connection was opened, or after the last answer was sent.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for a request to be answered, its body read. More than the slowest call takes: a change of voters that is
/// forwarded to another node waits for 9 s ([`FORWARD_TIMEOUT`](crate::core::limits::FORWARD_TIMEOUT)).
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which a connection on which not one byte of an answer was sent is closed: above all that of readers
/// that do not read. Event streams stay open because of their comments.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval between comments on an event stream without events.
pub const COMMENT_INTERVAL: Duration = Duration::from_secs(15);
/// The interval between comments once the reader will send nothing more, to find out whether it hung up.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The time that open connections have to end when the server stops.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(2);
