//! Named bounds of membership: names, incarnations, runs, moves, removals and departures.

use std::time::Duration;

use super::SETTLE;

/// The greatest number of names whose present owner is being probed at one time.
pub const MAX_NAME_PROBES: usize = 256;
/// The greatest number of newcomers of one host for which that is done at one time.
pub const MAX_NAME_PROBES_PER_HOST: usize = 64;
/// The greatest number of questions to a silent holder of a name before its newcomer has to ask again.
pub const MAX_NAME_QUESTIONS: u8 = 60;
/// The greatest number of members in a view; a record of a further one is dropped and counted.
pub const MAX_MEMBERS: usize = 131_072;
/// The number of names that are not in the view of which one member tells at once and is believed: the members of an
/// island that is found again.
pub const NAMES_AT_ONCE: u32 = 8_192;
/// The number of further such names in a second. News of true members comes from several members, of which each may
/// tell of so many.
pub const NAMES_PER_SECOND: u32 = 64;
/// The number of names that others told of and that have not settled above which most of them may be invented: from then
/// on members that echoed to this node, or that settled, come first in everything that is told.
pub const MANY_NAMES: usize = 1_024;
/// The greatest number of names that a member refused for want of budget, and whose addresses it asks for themselves, in
/// [`QUESTION_INTERVAL`](super::QUESTION_INTERVAL) per host.
pub const MAX_REFUSED_NAMES_ASKED_PER_HOST: usize = 8;
/// The greatest number of such questions in [`QUESTION_INTERVAL`](super::QUESTION_INTERVAL) in all.
pub const MAX_REFUSED_NAMES_ASKED: usize = 64;
/// The greatest number of members whose addresses were proven last that are remembered as such.
pub const MAX_ACQUAINTANCES: usize = 64;
/// The greatest number of members that are known by the word of others and have not settled: a quarter of the table,
/// less than 64 MiB of a process.
pub const MAX_UNSETTLED_NAMES: usize = MAX_MEMBERS / 4;
/// The greatest size of those members' texts together (names, versions, addresses for users, tags), in bytes: ten
/// thousand members with usual tags have room.
pub const MAX_UNSETTLED_BYTES: usize = 4 * 1024 * 1024;
/// The number of members that others named, that never answered and are gone, that are remembered for the usual time. If
/// there are more names on hearsay, gone or not, joiners are served the others alone.
pub const MAX_GHOSTS: usize = 4_096;
/// The least age at which further ones are forgotten: they had time to refute.
pub const FORGET_GHOSTS_AFTER: Duration = Duration::from_secs(60);
/// The greatest number of them that are forgotten in one go: each is told to whoever watches. The others have their turn a
/// gossip interval later.
pub const MAX_GHOSTS_FORGOTTEN: usize = 256;
/// The greatest number of removed runs that still have to be told so.
pub const MAX_REMOVED: usize = 1_024;
/// The time for which removed runs are told so after their last refutation: less than it takes until the word of a new
/// node, which may think so wrongly, counts.
pub const REMOVAL_MEMORY: Duration = Duration::from_secs(30);
const _: () = assert!(REMOVAL_MEMORY.as_secs() < SETTLE.as_secs());
/// The greatest amount by which the word of others about an earlier run of its name may raise a node's incarnation:
/// enough for a clock that starts at zero.
pub const MAX_INCARNATION_JUMP: u64 = 1 << 42;
/// The least time between two raises by the word of others about an earlier run that are larger than the word about
/// this run may cause ([`MAX_TOLD_JUMP`]).
pub const LARGE_JUMP_INTERVAL: Duration = Duration::from_secs(3_600);
/// The greatest amount by which the word of others about a run may raise that run's own incarnation at once: twice the
/// amount that others believe of it, and as much again for each second without a raise, so that everything that is
/// believed can be refuted.
pub const MAX_TOLD_JUMP: u64 = 2 * MAX_HEARSAY_JUMP;
/// The greatest amount by which the word of others may raise a known run's incarnation without a rate limit: an owner
/// raises it by one at a time, but not every member hears of every step.
pub const UNLIMITED_INCARNATION_JUMP: u64 = 1 << 10;
/// The greatest amount by which the word of others may raise a known run's incarnation, once in
/// [`HEARSAY_JUMP_INTERVAL`].
pub const MAX_HEARSAY_JUMP: u64 = 1 << 20;
/// The least time between two raises of a known run's incarnation by up to [`MAX_HEARSAY_JUMP`]. At that rate all
/// incarnations last for a quarter of a million years.
pub const HEARSAY_JUMP_INTERVAL: Duration = Duration::from_secs(1);
/// The greatest amount by which the incarnation of another run of a known name may exceed the held one: incarnations
/// begin as milliseconds of a clock, and this is two years.
pub const MAX_RUN_JUMP: u64 = 1 << 36;
/// The least time between two such raises by more than [`MAX_HEARSAY_JUMP`]: an amount that is more milliseconds than
/// pass in that time.
pub const RUN_JUMP_INTERVAL: Duration = Duration::from_secs(900);
/// The highest incarnation that the word of others is believed for, of an unknown name: a clock shows it in the year
/// 2109.
pub const MAX_FIRST_INCARNATION: u64 = 1 << 42;
/// The greatest number of claims to names of live members that are remembered until a second voice is heard.
pub const MAX_CLAIMS: usize = 256;
/// The time after which a node that does not observe a member looks for another run at that member's own address, if
/// too few elders report that run and it is still being reported.
pub const SUCCESSOR_PATIENCE: Duration = Duration::from_millis(300);
/// The greatest number of members that are asked which run they hold under a name that two live processes have.
pub const MAX_NAME_WITNESSES: usize = 9;
/// The number of elders that must tell a live node that it was removed before it stops.
pub const REMOVAL_REPORTERS: usize = 3;
/// The number of members that are elders of a node because they came to it first, however young they are.
pub const MIN_ELDERS: usize = 2;
/// The greatest time between two members becoming Up, while a cluster is founded, for which they are elders to each
/// other.
pub const FOUNDED_TOGETHER: Duration = Duration::from_secs(2);
/// The number of reminders to a member that is held as removed and keeps refuting; after that the removal is taken
/// back.
pub const MAX_REMINDERS: u8 = 2;
/// The time after which a removal that is not believed, and is heard of again, is reported to its subject: some member
/// believes it.
pub const REMOVAL_OBJECTION: Duration = Duration::from_millis(300);
/// The least time between two such reports by one member that does not believe the removal.
pub const OBJECTION_INTERVAL: Duration = Duration::from_secs(1);
/// The greatest number of removals of live members that are believed of one member in [`REMOVALS_INTERVAL`].
pub const MAX_REMOVALS: u32 = 64;
/// The interval of [`MAX_REMOVALS`].
pub const REMOVALS_INTERVAL: Duration = Duration::from_secs(60);
/// The greatest number of members whose removals are counted.
pub const MAX_REMOVERS: usize = 256;
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
/// The time for which the report of a newcomer that another member leaves is kept, within which a crash would be
/// detected.
pub const DEPARTURE_PATIENCE: Duration = Duration::from_secs(2);
/// The time between two questions to a member that newcomers report to leave.
pub const DEPARTURE_ASK_AGAIN: Duration = Duration::from_millis(500);
/// The number of elders that are asked each time about a member that newcomers report to leave: of those that observe it.
pub const DEPARTURE_WITNESSES: usize = 3;
/// The greatest number of members of which such reports are kept; of others the report has to come again.
pub const MAX_DEPARTURES: usize = 128;
/// The number of newcomers that must report it if neither the member nor a reliable observer of it is heard.
pub const DEPARTURE_REPORTERS: usize = 3;
/// The number of departures told by elders and refuted in [`FALSE_DEPARTURES_INTERVAL`] after which an elder's word that
/// another member leaves has to outlast [`DEPARTURE_PATIENCE`]. No healthy member refutes its own departure.
pub const MAX_FALSE_DEPARTURES: usize = 3;
/// The interval of [`MAX_FALSE_DEPARTURES`].
pub const FALSE_DEPARTURES_INTERVAL: Duration = Duration::from_secs(60);
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
