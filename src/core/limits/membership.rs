//! Named bounds of membership: names, incarnations, runs, moves, removals and departures.

use std::time::Duration;

/// The greatest number of newcomers for which the present owners of their names are being probed at one time.
pub const MAX_NAME_PROBES: usize = 256;
/// The greatest number of questions to a silent holder of a name before its newcomer has to ask again.
pub const MAX_NAME_QUESTIONS: u8 = 60;
/// The greatest number of members in a view; a record of a further one is dropped and counted.
pub const MAX_MEMBERS: usize = 131_072;
/// The greatest number of members that an agent removes in [`REMOVALS_INTERVAL`], those that have left aside.
pub const MAX_REMOVALS: u32 = 64;
/// The interval of [`MAX_REMOVALS`].
pub const REMOVALS_INTERVAL: Duration = Duration::from_secs(60);
/// The greatest number of members that are remembered as gone, or four for each live one of the largest cluster seen if that is
/// more; of further ones those that are gone the longest are forgotten before their time.
pub const MAX_GONE: usize = 4_096;
/// The greatest number of tombstones kept; the oldest are dropped first.
pub const MAX_TOMBSTONES: usize = 65_536;
/// The greatest number of commands whose answer is outstanding.
pub const MAX_PENDING_COMMANDS: usize = 1_024;
/// The time that `leave` and `remove` wait for confirmations.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest time for which a leaving node stays Leaving before it is Left.
pub const LEAVING_TIMEOUT: Duration = Duration::from_millis(300);
/// The time after which unconfirmed departures and removals are sent again.
pub const CONFIRM_RETRY: Duration = Duration::from_millis(100);
/// The number of peers that must confirm a departure before it counts as known.
pub const CONFIRMATIONS: usize = 3;
/// The distance by which the stored incarnation bound is ahead of the incarnation in use; it is refreshed at half.
pub const INCARNATION_STEP: u64 = 60_000;
