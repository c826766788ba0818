//! Named bounds of dissemination: updates that spread, and views that are compared.

use std::time::Duration;

/// The greatest number of packets of records in one answer of a sync.
pub const SYNC_PACKETS: usize = 32;
/// The number of syncs with the same two fingerprints before the two are left alone for [`SYNC_BACKOFF`].
pub const SYNC_TRIES: u32 = 3;
/// The time for which two fingerprints that stay different are left alone: merging does not end every difference.
pub const SYNC_BACKOFF: Duration = Duration::from_secs(300);
/// One gossip packet in so many goes to any live member, where not all of them are observers. More would leave observers
/// mostly plain heartbeats, which come at regular times.
pub const ANYBODY_ONE_IN: u32 = 10;
/// The greatest number of recent updates kept for gossip.
pub const MAX_RECENT_UPDATES: usize = 256;
/// The greatest number of version texts that are shared by the records of members; a cluster has one, or two during an
/// upgrade.
pub const MAX_SHARED_VERSIONS: usize = 8;
/// The time for which new updates are gathered before they are sent on.
pub const FLOOD_BATCH: Duration = Duration::from_millis(10);
/// The time for which new updates are gathered if the last ones were sent on a moment ago.
pub const FLOOD_BUSY_BATCH: Duration = Duration::from_millis(20);
/// The time after which the origin of an update sends it once more.
pub const FLOOD_AGAIN: Duration = Duration::from_millis(100);
/// The number of peers that a relay sends a new update on to in a full mesh.
pub const FLOOD_FANOUT: usize = 6;
/// The least time between two syncs of a node.
pub const SYNC_INTERVAL: Duration = Duration::from_millis(200);
/// The time for which the view has to stand still before a sync.
pub const SYNC_QUIET: Duration = Duration::from_millis(250);
/// The time after which differing fingerprints lead to a sync even if the view does not stand still.
pub const SYNC_PATIENCE: Duration = Duration::from_secs(1);
