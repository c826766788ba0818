//! Named bounds of the core. Everything that can grow has its limit here; bounds of tables have a test at the limit.

mod messages;

pub use messages::*;

use std::time::Duration;

/// The greatest number of joiners that a sponsor holds beside its view, and that a node remembers while Joining itself.
pub const MAX_JOINERS: usize = 1_024;
/// The greatest number of names whose present owner is being probed at one time.
pub const MAX_NAME_PROBES: usize = 256;
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
/// [`QUESTION_INTERVAL`] per host.
pub const MAX_REFUSED_NAMES_ASKED_PER_HOST: usize = 8;
/// The greatest number of such questions in [`QUESTION_INTERVAL`] in all.
pub const MAX_REFUSED_NAMES_ASKED: usize = 64;
/// The greatest number of members whose addresses were proven last that are remembered as such.
pub const MAX_ACQUAINTANCES: usize = 64;
/// The greatest number of members that are known by the word of others and have not settled: a quarter of the table,
/// less than 64 MiB of a process.
pub const MAX_UNSETTLED_NAMES: usize = MAX_MEMBERS / 4;
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
/// The greatest number of joiners held of one IP address.
pub const MAX_JOINERS_PER_HOST: usize = 128;
/// The greatest number of joiners to which a member serves its view at one time; others are referred to other members.
pub const MAX_VIEWS_SERVED: usize = 4;
/// The greatest number of members that a busy sponsor names.
pub const MAX_REFERRALS: usize = 3;
/// The greatest number of members that a joiner asks in one retry interval because others named them.
pub const MAX_REFERRALS_FOLLOWED: u32 = 64;
/// The greatest number of referrals that a joiner follows in a row without a pause.
pub const MAX_HOPS: u32 = 4;
/// The greatest number of referrals that a joiner remembers for later.
pub const MAX_REFERRALS_KEPT: usize = 12;
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
/// The greatest number of packets of records in one answer of a sync.
pub const SYNC_PACKETS: usize = 32;
/// The number of syncs with the same two fingerprints before the two are left alone for [`SYNC_BACKOFF`].
pub const SYNC_TRIES: u32 = 3;
/// The time for which two fingerprints that stay different are left alone: merging does not end every difference.
pub const SYNC_BACKOFF: Duration = Duration::from_secs(300);
/// The greatest number of tombstones kept; the oldest are dropped first.
pub const MAX_TOMBSTONES: usize = 65_536;
/// The greatest number of recent updates kept for gossip.
pub const MAX_RECENT_UPDATES: usize = 256;
/// The greatest number of messages about leases that are remembered, so that none is passed on twice.
pub const MAX_LEASE_UPDATES: usize = 256;
/// The greatest number of leases whose highest terms are kept for newcomers.
pub const MAX_LEASE_TERMS: usize = 64;
/// The greatest number of messages of others about leases that are accepted and passed on in one second.
pub const LEASE_WORDS_PER_SECOND: u32 = 64;
/// The greatest number of version texts that are shared by the records of members; a cluster has one, or two during an
/// upgrade.
pub const MAX_SHARED_VERSIONS: usize = 8;
/// The greatest number of seeds in a configuration.
pub const MAX_SEEDS: usize = 64;
/// The greatest number of addresses that one seed name may resolve to.
pub const MAX_ADDRESSES_PER_SEED: usize = 16;
/// The greatest number of addresses remembered in the data directory.
pub const MAX_REMEMBERED_ADDRESSES: usize = 256;
/// The greatest number of commands whose answer is outstanding.
pub const MAX_PENDING_COMMANDS: usize = 1_024;
/// The greatest number of pages that one `Pull` asks for.
pub const PAGES_IN_FLIGHT: u8 = 8;
/// The number of times that a page is asked for again before another sponsor is tried.
pub const MAX_PULL_RETRIES: u8 = 10;
/// The number of sequence numbers remembered per run to recognise replays.
pub const REPLAY_WINDOW: u64 = 1_024;
/// The greatest number of messages in one packet; a datagram with more is malformed.
pub const MAX_MESSAGES_PER_PACKET: usize = 256;

/// The silence after which a sponsor connects to a joiner's port, which refuses the connection if the process is gone.
pub const JOINER_SILENCE: Duration = Duration::from_millis(400);
/// The number of refusals after which such a joiner is dropped.
pub const JOINER_REFUSALS: u8 = 2;
/// The time between two such connections.
pub const JOINER_REVIEW: Duration = Duration::from_millis(150);

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
pub const MAX_UNPROVEN_HOSTS: usize = MAX_UNSETTLED_NAMES;

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
/// The greatest number of questions in [`QUESTION_INTERVAL`] to addresses of one host that others named, and where no
/// packet came from.
pub const MAX_HEARSAY_QUESTIONS_PER_HOST: usize = 32;
/// The greatest number of such questions in [`QUESTION_INTERVAL`] in all.
pub const MAX_HEARSAY_QUESTIONS: usize = 256;
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
/// The greatest number of members that are asked so in [`CLAIM_INTERVAL`].
pub const MAX_CLAIMS_PER_INTERVAL: usize = 256;
/// The greatest number of members that are asked at one time for a nonce that restarts their replay window.
pub const MAX_RESTARTS: usize = 256;
/// The time for which such a nonce is valid.
pub const RESTART_TIMEOUT: Duration = Duration::from_secs(2);
/// The greatest number of messages that are read in a stranger's packet.
pub const MAX_STRANGER_MESSAGES: usize = 5;
/// The greatest amount by which a sequence number may exceed the highest one received at once.
pub const SEQUENCE_BURST: u64 = 1 << 16;
/// The further amount by which it may exceed that one for each millisecond since then: no process sends so many
/// packets.
pub const SEQUENCES_PER_MS: u64 = 1_000;
/// The largest sequence number that the first packet of a run may have.
pub const MAX_SEQUENCE: u64 = 1 << 48;
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
/// The least time between a seed's first try to join and its founding of a cluster.
pub const FOUNDING_DELAY: Duration = Duration::from_millis(500);
/// The number of retry intervals after which a seed that reached no Up node founds a cluster.
pub const FOUNDING_RETRIES: u32 = 3;
/// The greatest number of candidates for founding that a joiner asks in one retry interval because others named them.
pub const MAX_CANDIDATES_ASKED: u32 = 8;
/// The greatest number of times in one retry interval that a joiner tells others at once of a candidate that comes
/// first: as often as there are candidates that others named, and seeds.
pub const MAX_CANDIDATE_NEWS: u32 = 32;
/// The greatest number of seeds, and of nodes that have this one for a seed, that are told at once of a candidate that
/// comes first.
pub const MAX_CANDIDATES_TOLD: usize = 64;
/// The greatest number of joiners of one host (an IPv4 address, or the first half of an IPv6 address) that a sponsor
/// admits in [`ADMISSION_INTERVAL`].
pub const MAX_ADMISSIONS_PER_HOST: u32 = 128;
/// The greatest number of joiners of one network (/24, /48) that a sponsor admits in [`ADMISSION_INTERVAL`].
pub const MAX_ADMISSIONS_PER_NETWORK: u32 = 512;
/// The interval of the limits on admissions.
pub const ADMISSION_INTERVAL: Duration = Duration::from_secs(1);
/// The greatest number of hosts and networks for which admissions are counted.
pub const MAX_ADMITTED_PREFIXES: usize = 4_096;
/// The time without progress after which the place of a joiner that is being served the view may be given to another
/// one.
pub const IDLE_PLACE: Duration = Duration::from_millis(50);
/// The time after which such a place may be given to another joiner however fast its holder makes progress.
pub const MAX_PLACE_TIME: Duration = Duration::from_secs(2);
/// The time for which a joiner that was given a place and did not pull gets none of the last ones.
pub const UNUSED_PLACE_PENALTY: Duration = Duration::from_secs(5);
/// The greatest number of such joiners that are remembered.
pub const MAX_UNUSED_PLACES: usize = 256;
/// The greatest number of joiners that a sponsor cannot reach at their addresses and remembers; the oldest are dropped
/// first.
pub const MAX_UNREACHED: usize = 256;
/// The time without an answer from its advertised address after which a joiner that is heard from another one is told
/// so.
pub const UNREACHED_PATIENCE: Duration = Duration::from_secs(1);
/// The number of members of the other address family that a joiner asks whether they reach it.
pub const REACH_ASKED: usize = 3;
/// The time after which they are asked again.
pub const REACH_RETRY: Duration = Duration::from_millis(250);
/// The time for which they are asked before the joiner tries to join anew.
pub const REACH_PATIENCE: Duration = Duration::from_secs(1);
/// The first pause between two tries to join; it doubles up to the retry interval.
pub const FIRST_JOIN_RETRY: Duration = Duration::from_millis(100);
/// The greatest number of members that a node with an empty disk asks to let it in because they look for it.
pub const MAX_FINDERS: usize = 3;
/// The time for which it founds no cluster, and joins none that knows of no electorate, since the first of them was met:
/// they may have to find out first that the process that had its name is gone.
pub const FINDER_PATIENCE: Duration = Duration::from_secs(5);
/// The least time between two answers of such a node to a member that looks for it: a packet of the last exchange may be
/// lost.
pub const FINDER_INTERVAL: Duration = MISSING_VOTER_PAUSE;
/// The greatest number of members that are answered so in that time.
pub const MAX_FINDERS_ANSWERED: usize = 64;
/// The longest pause between two tries to join if a node has answered and none has refused.
pub const LAST_JOIN_RETRY: Duration = Duration::from_millis(800);
/// The greatest number of cookies of one sponsor that a joiner remembers: for its datagrams, for its call, and for the
/// address that it advertises.
pub const MAX_COOKIES_PER_SPONSOR: usize = 3;
/// The greatest number of times, between two tries, that a joiner asks a sponsor again at once, for each cookie once.
pub const MAX_ASKS_AT_ONCE: u32 = MAX_COOKIES_PER_SPONSOR as u32;
/// The greatest number of tries to join in [`FIRST_JOIN_RETRY`] that are made at once, because of what others say.
pub const MAX_TRIES_AT_ONCE: u32 = 2;
/// The least time between two answers to a joiner at one address that it is not let in.
pub const DENIAL_INTERVAL: Duration = Duration::from_millis(250);
/// The greatest number of joiners that are told so in that time.
pub const MAX_DENIALS: usize = MAX_JOINERS;
/// The number of questions of one joiner that a sponsor answers at once: a joiner tries twice, and asks again at once for
/// each of its cookies.
pub const JOIN_ANSWERS_AT_ONCE: u32 = 2 * (1 + MAX_ASKS_AT_ONCE);
/// The time after which it answers one more: a joiner whose sponsors are busy asks that often.
pub const JOIN_ANSWER_INTERVAL: Duration = Duration::from_millis(50);
/// The greatest number of joiners whose questions are counted, twice.
pub const MAX_JOIN_ASKERS: usize = 2_048;
/// The longest pause of a joiner whose sponsor was busy.
pub const REFERRED_RETRY: Duration = Duration::from_millis(100);
/// The time that a member named by a busy sponsor has to answer before the next one is asked.
pub const REFERRED_PATIENCE: Duration = Duration::from_millis(250);
/// The time for which a place among the joiners that are served the view is kept for one that does not pull.
pub const VIEW_PATIENCE: Duration = Duration::from_millis(500);
/// The times after becoming Up at which a node compares its view with that of a random member.
pub const CATCH_UP_AFTER: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1_500)];
/// The time after which another random member is tried while no address of one is proven.
pub const CATCH_UP_RETRY: Duration = Duration::from_millis(100);
/// The greatest number of random members that are tried for one comparison.
pub const MAX_CATCH_UP_TRIES: usize = 6;
/// The time for which the report of a newcomer that another member leaves is kept, within which a crash would be
/// detected.
pub const DEPARTURE_PATIENCE: Duration = Duration::from_secs(2);
/// The time between two questions to that member meanwhile.
pub const DEPARTURE_ASK_AGAIN: Duration = Duration::from_millis(500);
/// The number of elders that observe it that are asked each time.
pub const DEPARTURE_WITNESSES: usize = 3;
/// The greatest number of members of which such reports are kept; of others the report has to come again.
pub const MAX_DEPARTURES: usize = 128;
/// The number of newcomers that must report it if neither the member nor a reliable observer of it is heard.
pub const DEPARTURE_REPORTERS: usize = 3;
/// The time that `leave` and `remove` wait for confirmations.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest time for which a leaving node stays Leaving before it is Left.
pub const LEAVING_TIMEOUT: Duration = Duration::from_millis(300);
/// The time after which unconfirmed departures and removals are sent again.
pub const CONFIRM_RETRY: Duration = Duration::from_millis(100);
/// The number of peers that must confirm a departure before it counts as known.
pub const CONFIRMATIONS: usize = 3;
/// The time for which the answers to a `join` command are awaited.
pub const CONTACT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest pause of a joiner that is told to wait.
pub const MAX_JOIN_WAIT: Duration = Duration::from_secs(5);
/// The distance by which the stored incarnation bound is ahead of the incarnation in use; it is refreshed at half.
pub const INCARNATION_STEP: u64 = 60_000;
/// The least lateness that counts as a pause of this process; a quarter of a heartbeat if that is more.
pub const MIN_PAUSE: Duration = Duration::from_millis(200);
/// The lateness of the driver from which on news of a leader may have waited: it is then counted from the input before.
pub const STALL: Duration = Duration::from_millis(20);
/// The least time between two notices of one kind, whatever they are about.
pub const NOTICE_INTERVAL: Duration = Duration::from_secs(10);
/// The largest frame of a link, in bytes: the largest payload of a program, and everything around it.
pub const MAX_FRAME_BYTES: usize = MAX_PAYLOAD_BYTES + 1024;
/// The greatest number of links with members at one time. Links that this node does not want end after [`LINK_LINGER`].
pub const MAX_LINKS: usize = 256;
/// The greatest number of unproven connections that others opened in members' names from other hosts than the members'.
pub const MAX_FOREIGN_GUESTS: usize = 64;
/// The greatest number of unproven connections that others opened in one member's name.
pub const MAX_GUESTS_PER_RUN: usize = 2;
/// The greatest number of frames over a connection before it is proven.
pub const MAX_GUEST_FRAMES: u32 = 16;
/// The time between two questions to the member in whose name a connection was opened whether it is its own.
pub const GUEST_PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// The time after which the opener of an unproven connection (a guest) is dialled back if no proof came by datagram,
/// even if nothing else shows that datagrams do not pass.
pub const GUEST_PATIENCE: Duration = Duration::from_secs(1);
/// The least time between two connections to a member of which no datagram came, opened because another connected in
/// its name.
pub const DIAL_INTERVAL: Duration = Duration::from_secs(1);
/// The greatest number of such connections in [`DIAL_INTERVAL`].
pub const MAX_DIALS_PER_INTERVAL: usize = 64;
/// The longest delay of a link to a new neighbour: in a growing cluster neighbours change with every joiner.
pub const LINK_SETTLE: Duration = Duration::from_millis(500);
/// The longest delay of a link in a cluster without rings, in which every newcomer is a neighbour for good, and of a link to
/// a newborn.
pub const LINK_MESH_SETTLE: Duration = Duration::from_millis(100);
/// The shortest delay of the links of a node that is newly Up, and half of the longest: once the others have heard of
/// it, and before it could die without any of them noticing.
pub const LINK_FIRST_PAUSE: Duration = Duration::from_millis(30);
/// The shortest time that a newcomer with the smaller address has to open its links; up to half as much more.
pub const LINK_NEWCOMER_COURTESY: Duration = Duration::from_millis(250);
/// The further time that a node with the larger address leaves the other one to open their link.
pub const LINK_COURTESY: Duration = Duration::from_secs(3);
/// The pause before a link to an unproven address is opened: the address is probed, and looked at again after twice
/// this time; the pause doubles up to [`MAX_LINK_BACKOFF`].
pub const LINK_PROOF_RETRY: Duration = Duration::from_millis(25);
/// The longest time for opening a link and being greeted over it.
pub const LINK_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which a link to a member that is no longer a neighbour is kept: it may become one again.
pub const LINK_LINGER: Duration = Duration::from_secs(10);
/// The first pause after a link that failed; it doubles up to [`MAX_LINK_BACKOFF`].
pub const LINK_BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause after a link that failed.
pub const MAX_LINK_BACKOFF: Duration = Duration::from_secs(60);
/// The number of its heartbeat intervals after which a neighbour that was never heard by datagram is in doubt; a detour
/// that is not renewed lasts for one more.
pub const DETOUR_HEARTBEATS: u32 = 2;
/// The greatest number of members that are not neighbours, are spoken to as voters, and are watched for answers.
pub const MAX_PARTNERS: usize = 2 * MAX_VOTERS;
/// The greatest number of calls at one time, made and accepted.
pub const MAX_CALLS: usize = 64;
/// The greatest number of calls accepted from one IP address.
pub const MAX_CALLS_PER_HOST: usize = 16;
/// The time after which a call ends.
pub const CALL_LASTS: Duration = Duration::from_secs(10);
/// The time after which a call ends once this node is Up.
pub const CALL_LINGER: Duration = Duration::from_secs(2);
/// The number of tries after which a joiner that gets no answer by datagram makes calls.
pub const TRIES_BEFORE_CALLS: u32 = 3;
/// The number of questions to a lost seed or member of which one goes by a call, too.
pub const CALL_ONE_IN: usize = 4;
/// The number of first messages of a packet among which a question has to be.
pub const MAX_MESSAGES_IN_QUESTION: usize = 4;
/// The least time between two probes of a member whose process seems to be gone.
pub const MIN_CRASH_PROBE_GAP: Duration = Duration::from_millis(50);
/// The number of pauses between probes for which a second observer is awaited after this node's own probes remained
/// unanswered.
pub const CRASH_PATIENCE: u32 = 4;
/// The time after which a case that was refuted by a sign of life is looked into again: the sign may have been under
/// way when the process died.
pub const CRASH_REVIEW: Duration = Duration::from_millis(200);
/// The number of times that such a case is looked into again.
pub const CRASH_REVIEWS: u8 = 2;
/// The greatest number of observers whose word about one case is kept.
pub const MAX_CRASH_WITNESSES: usize = 128;
/// The number of pauses between probes for which a second observer is awaited while other members are missing, too,
/// which may be those observers.
pub const MANY_CRASHES_PATIENCE: u32 = 16;
/// The number of members in an unknown state that are asked first behind a doubted neighbour.
pub const FIRST_REACH: usize = 1;
/// The factor by which that number grows after each pause in which they did not answer: five pauses cross a run of a
/// thousand.
pub const REACH_GROWTH: usize = 4;
/// The share of the neighbours, as a fraction, that must be doubted for all other members to be asked at once.
pub const WIDE_DOUBT: (usize, usize) = (3, 4);
/// The greatest number of members that have not settled, and echoed nothing to this node, that it walks past at one
/// time. Anybody may invent those, and each one costs probes; the dead of a hundred members that came together are
/// passed at once.
pub const MAX_NEWCOMERS_PASSED: usize = 256;
/// The least number of the newcomers that are left to pass that one way may pass, if so many are left.
pub const MIN_NEWCOMERS_PER_WAY: usize = 32;
/// The number of members that have not settled above which they count as a crowd: those of them that never echoed to
/// this node are judged without witnesses, and settle only once they did if there were doubts (see
/// [`CROWD_MEMORY`]).
pub const CROWD: usize = 256;
/// The time for which a crowd is not trusted after a neighbour was doubted.
pub const CROWD_MEMORY: Duration = Duration::from_secs(60);
/// The greatest number of members of a crowd that are asked at one time for the echo without which they do not settle.
pub const MAX_AUDITS: usize = 64;
/// The time, beside its down timeout, for which a member has to be live to be settled: one that never answered would
/// have been detected by then. From then on its word counts about the life and death of others, too.
pub const SETTLE: Duration = Duration::from_secs(60);
/// The greatest amount by which a member settles earlier, so that members that joined one after the other settle
/// together.
pub const SETTLE_TOGETHER: Duration = Duration::from_secs(5);
/// The least time as a neighbour after which a member that others displaced on the rings is kept (see [`KEEP_FOR`]).
pub const KEEP_AFTER: Duration = Duration::from_millis(500);
/// The least such time while every member observed every other, as in the first moments of a cluster.
pub const KEEP_FOUNDER_AFTER: Duration = Duration::from_millis(50);
/// The time after which it is checked whether all members that displaced such neighbours hold links; then those are let
/// go.
pub const FOUNDER_REVIEW: Duration = Duration::from_secs(2);
/// The time for which a displaced neighbour is kept: until the members that displaced it have settled, and as long
/// again.
pub const KEEP_FOR: Duration = Duration::from_secs(120);
/// The greatest number of newborns that a sponsor observes because it brought them in (see `newborns`).
pub const MAX_NEWBORNS: usize = 32;
/// The time for which it does so at least, if there is room.
pub const NEWBORN_WATCH: Duration = Duration::from_secs(10);
/// The time for which it does so at the most, while neighbours are doubted and the newborn is not settled.
pub const MAX_NEWBORN_WATCH: Duration = Duration::from_secs(120);
/// The time after the refusal of a newborn's port for which its probes have to stay unanswered, where its sponsor decides
/// alone.
pub const NEWBORN_PATIENCE: Duration = Duration::from_millis(500);
/// The least time between two cases about the same member that are opened on the word of others.
pub const CRASH_HEARSAY_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time for which an echo may have been held to measure the round trip: clocks that differ by two in a
/// hundred, as bad as any, would be wrong by more than ten milliseconds.
pub const MAX_ECHO_HOLD: Duration = Duration::from_millis(500);
/// The greatest number of points of evidence against this node's own observation: timeouts are stretched up to one more
/// than this many times.
pub const MAX_SELF_DOUBT: u32 = 7;
/// The greatest number of points that bad links alone give: they concern some members only, late ticks concern all.
pub const MAX_LINK_DOUBT: u32 = 3;
/// The number of points from which on the operator is told.
pub const UNHEALTHY_FROM: u32 = 3;
/// The greatest number of times that a member's silence before its next suspicion is lengthened because it kept
/// refuting: each time by half of the rest of its down timeout.
pub const MAX_DAMPING: u8 = 2;
/// The number of down timeouts for which a refutation is remembered.
pub const FLAPPING_MEMORY: u32 = 8;
/// The least number of silent members that can be a partition.
pub const MIN_PARTITION: usize = 2;
/// The greatest number of voters in an electorate.
pub const MAX_VOTERS: usize = 7;
/// The number of renewals whose times of sending a leader remembers: acknowledgements of older ones extend nothing.
pub const MAX_RENEWALS_IN_FLIGHT: usize = 64;
/// The greatest number of open questions whether this node still leads; they take at most half of all commands that may
/// wait (see [`MAX_PENDING_COMMANDS`]).
pub const MAX_BARRIERS: usize = 512;
/// The time for a majority to confirm that this node still leads: longer than any round trip, and shorter than the wait
/// of an HTTP client.
pub const BARRIER_TIMEOUT: Duration = Duration::from_secs(5);
/// The greatest size of the names in the difference between two views that travels with a renewal, in bytes; longer
/// differences are asked for.
pub const MAX_DELTA_BYTES: usize = 600;
/// The number of attempts in a row to which a majority answered, and for which none voted, after which the quorum
/// counts as lost: chance alone seldom splits votes as often.
pub const FUTILE_ATTEMPTS: u32 = 4;
/// The greatest number of times that a voter that stands gives way to another one, until it hears a leader again. A
/// candidate that reaches too few voters must not keep one that reaches enough from standing.
pub const MOST_WAYS_GIVEN: u32 = 2;
/// The number of times that a leader that resigned releases its voters.
pub const RELEASES: u32 = 3;
/// The longest pause between two releases.
pub const RELEASE_PAUSE: Duration = Duration::from_millis(25);
/// The number of leases for which a voter of a higher priority must have kept up with its leader before the leader
/// hands over to it: leadership moves for that reason at most once in this time.
pub const PREFERENCE_LEASES: u32 = 4;
/// The greatest number of terms by which a voter may be above its leader and still be followed: each failed attempt
/// raises its term by one.
pub const MAX_TERMS_BEHIND: u64 = 1 << 10;
/// The least time for which a node that is to vote is asked for its identity.
pub const IDENTITY_TIMEOUT: Duration = Duration::from_secs(2);
/// The least time that a learner has, once its identity is known, to store the leader's view on its disk and to
/// acknowledge it.
pub const LEARNING_TIMEOUT: Duration = Duration::from_millis(2_500);
/// The time for which the voters after a change are asked whether they can be reached, before the change is put to the
/// voters. All three times together are shorter than [`FORWARD_TIMEOUT`].
pub const SOUNDING_TIMEOUT: Duration = Duration::from_millis(900);
const _: () = assert!(
    IDENTITY_TIMEOUT.as_millis() + LEARNING_TIMEOUT.as_millis() + SOUNDING_TIMEOUT.as_millis()
        < FORWARD_TIMEOUT.as_millis()
);
/// The time that the last view may wait for the voters' disks before a command that waits for it is refused; and the
/// time that a view that takes a change back may wait for them, which is over by [`HAND_OVER_TIMEOUT`] if its leader
/// leaves.
pub const STORING_TIMEOUT: Duration = Duration::from_millis(1_500);
const _: () = assert!(STORING_TIMEOUT.as_millis() < HAND_OVER_TIMEOUT.as_millis());
/// The time that a change of the electorate may wait for voters that do not acknowledge it, from when the leader told
/// them.
pub const CHANGE_TIMEOUT: Duration = Duration::from_secs(1);
/// The time that a change may wait for the leader's own disk, and then for those of voters that answer: two writes of 1
/// s each with something to spare, since one may be under way.
pub const SLOW_DISK_TIMEOUT: Duration = Duration::from_millis(2_500);
const _: () = assert!(CHANGE_TIMEOUT.as_millis() < SLOW_DISK_TIMEOUT.as_millis());
const _: () =
    assert!(2 * STORING_TIMEOUT.as_millis() + 2 * SLOW_DISK_TIMEOUT.as_millis() < FORWARD_TIMEOUT.as_millis());
/// The time that a voter may take to acknowledge a renewal and still count as reachable; voters with slow disks are
/// asked at this interval.
pub const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// The time that a leaving leader waits for its led work to end, before it leaves without releasing its voters.
pub const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(3);
/// The greatest size of the names in the difference between two agreed views that floods with the message about it, in
/// bytes; longer differences are fetched.
pub const MAX_FLOODED_DELTA_BYTES: usize = 400;
/// The number of times that one node passes on one renewal of the leader. Like a rumour passed on to so many, it misses
/// five members in a hundred, and the next one misses others.
pub const RENEWAL_RELAYS: u32 = 3;
/// The time for which reports about leaders and views are remembered that too few members have made.
pub const RUMOUR_MEMORY: Duration = Duration::from_secs(2);
/// The time after which a node that knows no electorate believes one member alone, if no other contradicts it.
pub const LONE_WORD: Duration = Duration::from_secs(1);
const _: () = assert!(LONE_WORD.as_millis() + 5 * WHO_LEADS_INTERVAL.as_millis() < RUMOUR_MEMORY.as_millis());
/// The greatest number of such reports that are remembered.
pub const MAX_RUMOURS: usize = 16;
/// The number of members that must report that the cluster has an electorate before a node is sure of it: it passes on
/// what it is sure of, and never forgets it.
pub const FOUNDED_REPORTERS: usize = 2;
/// The greatest number of members that are remembered to have reported it.
pub const MAX_FOUNDED_REPORTERS: usize = 16;
/// The interval at which it is checked whether those members are still there; others are asked meanwhile.
pub const FOUNDED_REVIEW: Duration = Duration::from_secs(1);
/// The time for which the report of a member that is not sure itself keeps a node from forming an electorate: the
/// member that reported it first is heard by then.
pub const FOUNDED_HINT: Duration = Duration::from_secs(2);
/// The time in all for which reports of an electorate by newcomers keep a node from forming one.
pub const NEWCOMERS_HOLD_UP: Duration = Duration::from_secs(30);
/// The number of times a second that all members together look for each voter that is missing while too few are there to
/// elect anybody: several times in the [`FOUNDING_DELAY`] of voters that come back with empty disks.
pub const MISSING_VOTER_QUESTIONS: u32 = 20;
/// The least time between two of these questions by one member.
pub const MISSING_VOTER_PAUSE: Duration = Duration::from_millis(50);
/// The least time between two questions for the leader.
pub const WHO_LEADS_INTERVAL: Duration = Duration::from_millis(100);
/// The number of parts of a numbered view that answer one question, and the greatest number of parts that are kept
/// because they came early.
pub const VIEW_PARTS: u8 = 8;
/// The least time after which a part of a numbered view is asked for again.
pub const VIEW_FETCH_RETRY: Duration = Duration::from_millis(50);
/// The greatest number of times in a row that a part of a numbered view is asked for.
pub const MAX_FETCH_TRIES: u8 = 10;
/// The time for which a node awaits the leader's answer to a change of the electorate that it forwarded: longer than
/// such a change takes, and shorter than the wait of an operator's client.
pub const FORWARD_TIMEOUT: Duration = Duration::from_secs(9);
/// The time after which the leader is asked again meanwhile.
pub const FORWARD_RETRY: Duration = Duration::from_millis(250);
/// The lease divided by the time for which a command that finds no leader waits for the next one, from when nobody
/// leads any more; at most [`FORWARD_TIMEOUT`].
pub const SUCCESSION_SHARE: u32 = 3;
/// The greatest number of times that it is asked, including its successors.
pub const MAX_FORWARD_ASKS: u32 = 32;
/// The greatest number of commands at one node that wait for the leader's answer, and of requests of one member that a
/// leader remembers: no member asks for more at once than is remembered of it.
pub const MAX_FORWARDED_COMMANDS: usize = 16;
/// The greatest number of requests of others that a leader remembers, so that a repeated one is not a second command.
pub const MAX_ASKED_CHANGES: usize = 8 * MAX_FORWARDED_COMMANDS;
/// The time for which they are remembered if there is room.
pub const ASKED_MEMORY: Duration = Duration::from_secs(30);
/// The least time for which they are remembered, even if new ones find no room: the member that asked may repeat its
/// request for [`FORWARD_TIMEOUT`], and its last packets may be under way.
pub const MIN_ASKED_MEMORY: Duration = Duration::from_secs(10);
const _: () = assert!(MIN_ASKED_MEMORY.as_secs() > FORWARD_TIMEOUT.as_secs());
