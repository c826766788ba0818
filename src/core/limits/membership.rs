//! Named bounds of membership: names, incarnations, runs, moves, removals and departures.

use std::time::Duration;

/// The greatest number of names whose present owner is being probed at one time.
pub const MAX_NAME_PROBES: usize = 256;
/// The greatest number of newcomers of one host for which that is done at one time.
pub const MAX_NAME_PROBES_PER_HOST: usize = 64;
/// The greatest number of questions to a silent holder of a name before its newcomer has to ask again.
pub const MAX_NAME_QUESTIONS: u8 = 60;
/// The greatest number of members in a view; a record of a further one is dropped and counted.
pub const MAX_MEMBERS: usize = 131_072;
/// The greatest number of claims to names of live members that are remembered until a second voice is heard.
pub const MAX_CLAIMS: usize = 256;
/// The time after which a node that does not observe a member looks for another run at that member's own address, if
/// too few members report that run and it is still being reported.
pub const SUCCESSOR_PATIENCE: Duration = Duration::from_millis(300);
/// The greatest number of members that are asked which run they hold under a name that two live processes have.
pub const MAX_NAME_WITNESSES: usize = 9;
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
/// The time for which a member is believed to have moved to the address that it announced, if its run answers there
/// (see `belief`).
pub const ANNOUNCEMENT_MEMORY: Duration = Duration::from_secs(10);
/// The greatest number of keepsakes of other members that a node holds, to prove a move by (see `keepsakes`): more than
/// any node has observers.
pub const MAX_KEEPSAKES: usize = 256;
/// The greatest number of times that an observer is asked for its keepsake.
pub const MAX_KEEPSAKE_QUESTIONS: u8 = 5;
/// The least time between two questions for a keepsake to one observer.
pub const KEEPSAKE_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after which a node that has moved introduces itself again to observers that do not know it; it doubles.
pub const INTRODUCTION_RETRY: Duration = Duration::from_millis(300);
/// The number of times that a node introduces itself to each observer after a move.
pub const MAX_INTRODUCTIONS: u32 = 6;
/// The greatest number of members whose homes are remembered, because they were gone and appeared elsewhere without a
/// proof (see `homes`).
pub const MAX_HOMES: usize = 1_024;
/// The greatest number of aliases (other addresses) of one run.
pub const MAX_ALIASES_PER_RUN: usize = 4;
/// The greatest number of aliases of all members together.
pub const MAX_ALIASES: usize = 1_024;
/// The least time between two questions to one member whether packets from elsewhere that bear its run are its own.
pub const CLAIM_INTERVAL: Duration = Duration::from_millis(200);
/// The greatest number of members that are asked in [`CLAIM_INTERVAL`] whether packets from elsewhere are their own.
pub const MAX_CLAIMS_PER_INTERVAL: usize = 256;
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
