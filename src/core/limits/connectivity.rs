//! Named bounds of links.

use std::time::Duration;

use super::{MAX_PAYLOAD_BYTES, MAX_VOTERS};

/// The largest frame of a link, in bytes: the largest payload of a program, and everything around it.
pub const MAX_FRAME_BYTES: usize = MAX_PAYLOAD_BYTES + 1024;
/// The greatest number of links with members at one time. Links that this node does not want end after [`LINK_LINGER`].
pub const MAX_LINKS: usize = 256;
/// The time between two questions to the member in whose name a connection was opened whether it is its own.
pub const UNPROVEN_PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// The time after which a bootstrap link is opened to the address of a member whose link is unproven, even if nothing
/// else shows that datagrams do not pass.
pub const UNPROVEN_PATIENCE: Duration = Duration::from_secs(1);
/// The longest delay of a link to a new neighbour: in a growing cluster neighbours change with every joiner.
pub const LINK_SETTLE: Duration = Duration::from_millis(500);
/// The longest delay of a link in a cluster without rings, in which every newcomer is a neighbour for good, and of a link to
/// a recent member.
pub const LINK_MESH_SETTLE: Duration = Duration::from_millis(100);
/// The shortest delay of the links of a node that is newly Up, and half of the longest: once the others have heard of
/// it, and before it could die without any of them noticing.
pub const LINK_FIRST_PAUSE: Duration = Duration::from_millis(30);
/// The shortest time that a newcomer with the smaller address has to open its links; up to half as much more.
pub const LINK_NEWCOMER_COURTESY: Duration = Duration::from_millis(250);
/// The further time that a node with the larger address leaves the other one to open their link.
pub const LINK_COURTESY: Duration = Duration::from_secs(3);
/// The longest time for opening a link and being greeted over it.
pub const LINK_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which a link to a member that is no longer a neighbour is kept: it may become one again.
pub const LINK_LINGER: Duration = Duration::from_secs(10);
/// The first pause after a link that failed; it doubles up to [`MAX_LINK_BACKOFF`].
pub const LINK_BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause after a link that failed.
pub const MAX_LINK_BACKOFF: Duration = Duration::from_secs(60);
/// The number of its heartbeat intervals after which a neighbour that was never heard by datagram is unheard; a fallback
/// that is not renewed lasts for one more.
pub const FALLBACK_HEARTBEATS: u32 = 2;
/// The greatest number of members that are not neighbours, are spoken to as voters, and are watched for answers.
pub const MAX_PARTNERS: usize = 2 * MAX_VOTERS;
/// The greatest number of bootstrap links opened at one time, and of those accepted.
pub const MAX_BOOTSTRAP_LINKS: usize = 64;
/// The time after which a bootstrap link ends.
pub const BOOTSTRAP_LIFE: Duration = Duration::from_secs(10);
/// The time after which a bootstrap link ends once this node is Up.
pub const BOOTSTRAP_LINGER: Duration = Duration::from_secs(2);
/// The number of tries after which a joiner that gets no answer by datagram opens bootstrap links.
pub const TRIES_BEFORE_BOOTSTRAP: u32 = 3;
/// The number of questions to a lost seed or member of which one goes by a bootstrap link, too.
pub const BOOTSTRAP_ONE_IN: usize = 4;
/// The number of missing seeds that a node asks in a retry interval that sees no other live member: one lost packet does not
/// cost it the interval.
pub const SEEDS_ASKED_ALONE: usize = 3;
/// The number of first messages of a packet among which a question has to be.
pub const MAX_MESSAGES_IN_QUESTION: usize = 4;
