//! Named bounds of the core. Everything that can grow has its limit here; bounds of tables have a test at the limit.

use std::time::Duration;

/// Joiners that a sponsor holds beside its view, and joiners remembered while Joining itself.
pub const MAX_JOINERS: usize = 1_024;
/// Names whose present owner is being probed at one time.
pub const MAX_NAME_PROBES: usize = 256;
/// Questions to a silent holder of a name before its newcomer has to come again.
pub const MAX_NAME_QUESTIONS: u8 = 60;
/// Most members in a view; a record of a further one is dropped and counted.
pub const MAX_MEMBERS: usize = 131_072;
/// Removed runs that still have to be told so.
pub const MAX_EVICTED: usize = 1_024;
/// They are told for this long: less than it takes a node that is new, and wrongly thinks so, to be believed itself.
pub const EVICTION_MEMORY: Duration = Duration::from_secs(30);
const _: () = assert!(EVICTION_MEMORY.as_secs() < SETTLE.as_secs());
/// Joiners held of one IP address.
pub const MAX_JOINERS_PER_HOST: usize = 128;
/// Joiners whom a member hands its view at one time; others are referred to other members.
pub const MAX_VIEWS_SERVED: usize = 4;
/// Members that a busy sponsor names.
pub const MAX_REFERRALS: usize = 3;
/// Members that a joiner asks in one retry interval because others named them …
pub const MAX_REFERRALS_FOLLOWED: u32 = 64;
/// … of these in a row without a pause …
pub const MAX_HOPS: u32 = 4;
/// … and those it remembers for later.
pub const MAX_REFERRALS_KEPT: usize = 12;
/// How far the word of others about an earlier run of its name may raise a node's incarnation: enough for a clock that
/// starts at zero …
pub const MAX_INCARNATION_JUMP: u64 = 1 << 42;
/// … and so far at most once in this time, if that is farther than what is said of its own run may raise it.
pub const WIDE_JUMP_INTERVAL: Duration = Duration::from_secs(3_600);
/// How far the word of others about a run may raise its incarnation at once in its own mind: twice what others believe of
/// it, and as much again for each second without a raise, so that whatever is believed can be refuted.
pub const MAX_TOLD_JUMP: u64 = 2 * MAX_HEARSAY_JUMP;
/// A known run's incarnation may rise by so much on the word of others, as often as they like: an owner raises it by one at
/// a time, but not everybody hears of every step …
pub const FREE_JUMP: u64 = 1 << 10;
/// … and by so much …
pub const MAX_HEARSAY_JUMP: u64 = 1 << 20;
/// … once in this time. At that pace all incarnations last for a quarter of a million years.
pub const HEARSAY_JUMP_INTERVAL: Duration = Duration::from_secs(1);
/// Another run of a known name may be said to be so far ahead: incarnations begin as milliseconds of a clock, and these are
/// two years …
pub const MAX_RUN_JUMP: u64 = 1 << 36;
/// … and if it is farther than [`MAX_HEARSAY_JUMP`], once in this time: that is less than passes in so many milliseconds.
pub const RUN_JUMP_INTERVAL: Duration = Duration::from_secs(900);
/// Of a name that nobody knew, no higher incarnation is believed on the word of others: a clock shows it in the year 2109.
pub const MAX_FIRST_INCARNATION: u64 = 1 << 42;
/// Claims to names of living members that are remembered until a second voice is heard.
pub const MAX_CLAIMS: usize = 256;
/// Another run at a member's own address that too few elders speak of is looked for there, by those who do not watch that
/// member, when it is still spoken of after this long.
pub const SUCCESSOR_PATIENCE: Duration = Duration::from_millis(300);
/// Members that are asked whom they hold under a name that two living processes have.
pub const MAX_JURORS: usize = 9;
/// Elders that must tell a living node that it was removed before it stops.
pub const REMOVAL_VOICES: usize = 3;
/// The first so many members that come to a node are its elders, however young they are.
pub const MIN_ELDERS: usize = 2;
/// Those that become Up within this time of each other while a cluster is founded are elders to each other.
pub const FOUNDED_TOGETHER: Duration = Duration::from_secs(2);
/// Who is held as removed, and speaks up more often than this, is told no more.
pub const MAX_REMINDERS: u8 = 2;
/// A removal that is not believed and is heard of again after this long is believed by somebody: its subject is told.
pub const REMOVAL_OBJECTION: Duration = Duration::from_millis(300);
/// … at most once in this time by each that does not believe it.
pub const OBJECTION_INTERVAL: Duration = Duration::from_secs(1);
/// Removals of living members that are believed of one member …
pub const MAX_REMOVALS: u32 = 64;
/// … in this time …
pub const REMOVALS_INTERVAL: Duration = Duration::from_secs(60);
/// … and members whose removals are counted.
pub const MAX_REMOVERS: usize = 256;
/// Most packets of records in one answer of a repair.
pub const SYNC_PACKETS: usize = 32;
/// Repairs with the same two fingerprints before they are left alone for a while …
pub const SYNC_TRIES: u32 = 3;
/// … namely this long: merging does not end every difference.
pub const SYNC_BACKOFF: Duration = Duration::from_secs(300);
/// Tombstones kept; the oldest go first.
pub const MAX_TOMBSTONES: usize = 65_536;
/// "Recent updates" are this many.
pub const MAX_RECENT_UPDATES: usize = 256;
/// Words about leases that are remembered, so that none is passed on twice …
pub const MAX_LEASE_WORDS: usize = 256;
/// … and those of others that are heard and passed on in one second.
pub const LEASE_WORDS_PER_SECOND: u32 = 64;
/// Texts of software versions that are shared by the records of members; a cluster has one, or two while it is upgraded.
pub const MAX_SHARED_VERSIONS: usize = 8;
/// Seeds in a configuration.
pub const MAX_SEEDS: usize = 64;
/// Addresses that one seed name may resolve to.
pub const MAX_ADDRESSES_PER_SEED: usize = 16;
/// Addresses remembered in the data directory.
pub const MAX_REMEMBERED_ADDRESSES: usize = 256;
/// Commands whose answer is outstanding.
pub const MAX_PENDING_COMMANDS: usize = 1_024;
/// Pages that one `Pull` asks for at most.
pub const PAGES_IN_FLIGHT: u8 = 8;
/// Times a page is asked for again before another sponsor is tried.
pub const MAX_PULL_RETRIES: u8 = 10;
/// Sequence numbers remembered per run to recognise replays.
pub const REPLAY_WINDOW: u64 = 1_024;
/// Messages in one packet; a datagram with more is malformed.
pub const MAX_MESSAGES_PER_PACKET: usize = 256;

/// A joiner that was silent for this long is looked for: its port refuses a connection if its process is gone …
pub const JOINER_SILENCE: Duration = Duration::from_millis(400);
/// … and refuses it so many times before the joiner is dropped …
pub const JOINER_REFUSALS: u8 = 2;
/// … this long apart.
pub const JOINER_REVIEW: Duration = Duration::from_millis(150);

/// The smallest payload of a `Join` or of a first `WhoAreYou`: what is answered to an unproven address is never larger.
pub const MIN_QUESTION_BYTES: usize = 256;
/// The longest header of a packet: its sequence number grows up to ten bytes.
pub const MAX_HEADER_BYTES: usize = 34;
/// The smallest payload that carries a first probe: a stranger may answer it by a question that echoes the nonce.
pub const MIN_PROBE_BYTES: usize = 64;
/// The largest payload pushed to a member whose address has not echoed a nonce of ours.
pub const MAX_UNPROVEN_BYTES: usize = MIN_QUESTION_BYTES;

/// At most one `Told` per member in this time.
pub const TOLD_INTERVAL: Duration = Duration::from_millis(200);
/// At most one answer per peer to differing fingerprints in this time.
pub const ANSWER_INTERVAL: Duration = Duration::from_millis(100);
/// At most one `WhoAreYou` per address in this time …
pub const QUESTION_INTERVAL: Duration = Duration::from_secs(1);
/// … this many in the same time per host (an IPv4 address, or 64 bits of an IPv6 one), which may have many agents …
pub const MAX_QUESTIONS_PER_HOST: usize = 1_000;
/// … and this many in all. None of them is larger than what it answers, and none leaves anything behind.
pub const MAX_QUESTIONS: usize = 4_000;
/// What costs more, or changes something (letting in whoever introduced itself, refusing, telling the buried), happens at
/// most this often in the same time per host …
pub const MAX_WORDS_PER_HOST: usize = 50;
/// … and this often in all, each kind by itself.
pub const MAX_WORDS: usize = 100;
/// Addresses that this node contacted itself and remembers as such: their answers and questions need no share of the above.
pub const MAX_CONTACTED: usize = 1_024;
/// They are remembered for this long.
pub const CONTACT_MEMORY: Duration = Duration::from_secs(10);
/// So long a member is believed to have moved where it said that it would be found, if its run answers there (see `belief`).
pub const ANNOUNCEMENT_MEMORY: Duration = Duration::from_secs(10);

/// Keepsakes of other members that a node holds, to prove a move by (see `keepsakes`): more than anybody has observers.
pub const MAX_KEEPSAKES: usize = 256;
/// An observer is asked for one so many times …
pub const MAX_KEEPSAKE_QUESTIONS: u8 = 5;
/// … and not before this long after the last time.
pub const KEEPSAKE_INTERVAL: Duration = Duration::from_secs(1);
/// Members whose homes are remembered, because they were gone and appeared elsewhere without a proof (see `homes`).
pub const MAX_HOMES: usize = 1_024;
/// Other addresses of one run …
pub const MAX_ALIASES_PER_RUN: usize = 4;
/// … and of all members together.
pub const MAX_ALIASES: usize = 1_024;
/// A member is asked at most once in this time whether packets from elsewhere that bear its run are its own …
pub const CLAIM_INTERVAL: Duration = Duration::from_millis(200);
/// … and this many members in the same time.
pub const MAX_CLAIMS_PER_INTERVAL: usize = 256;
/// Members that are asked at one time for a nonce that restarts their window …
pub const MAX_RESTARTS: usize = 256;
/// … which counts for this long.
pub const RESTART_TIMEOUT: Duration = Duration::from_secs(2);
/// Messages in a stranger's packet that are looked at.
pub const MAX_STRANGER_MESSAGES: usize = 5;
/// Sequence numbers are believed that are this far beyond the highest one received …
pub const SEQUENCE_BURST: u64 = 1 << 16;
/// … and so much further for each millisecond since then: no process sends so many packets.
pub const SEQUENCES_PER_MS: u64 = 1_000;
/// The largest sequence number that the first packet of a run may have.
pub const MAX_SEQUENCE: u64 = 1 << 48;
/// New updates are gathered for this long before they are sent on …
pub const FLOOD_BATCH: Duration = Duration::from_millis(10);
/// … and this long while many come: the last ones were sent on a moment ago.
pub const FLOOD_BUSY_BATCH: Duration = Duration::from_millis(20);
/// The origin of an update sends it once more after this long.
pub const FLOOD_AGAIN: Duration = Duration::from_millis(100);
/// Peers that a new update is sent on to, above the full mesh or as a relay.
pub const FLOOD_FANOUT: usize = 6;
/// At most one repair in this time.
pub const SYNC_INTERVAL: Duration = Duration::from_millis(200);
/// A repair waits until the view stood still for this long …
pub const SYNC_QUIET: Duration = Duration::from_millis(250);
/// … or fingerprints differed for this long.
pub const SYNC_PATIENCE: Duration = Duration::from_secs(1);
/// A seed does not make itself the first of its cluster before this long after its first try.
pub const FOUNDING_DELAY: Duration = Duration::from_millis(500);
/// A seed that reached no Up node starts alone after this many retry intervals.
pub const FOUNDING_RETRIES: u32 = 3;
/// Candidates for founding that a joiner asks in one retry interval because others named them.
pub const MAX_CANDIDATES_ASKED: u32 = 8;
/// Seeds, and nodes that have this one for a seed, that are told at once of a candidate that comes first.
pub const MAX_CANDIDATES_TOLD: usize = 64;
/// Joiners of one host (an IPv4 address, or the first half of an IPv6 address) that a sponsor lets in …
pub const MAX_ADMISSIONS_PER_HOST: u32 = 128;
/// … and of one network (/24, /48) …
pub const MAX_ADMISSIONS_PER_NETWORK: u32 = 512;
/// … in this time …
pub const ADMISSION_INTERVAL: Duration = Duration::from_secs(1);
/// … counted for so many hosts and networks.
pub const MAX_ADMITTED_PREFIXES: usize = 4_096;
/// A place among those who are handed the view whose holder did not go on for this long may be given to another one.
pub const IDLE_PLACE: Duration = Duration::from_millis(50);
/// However fast its holder goes on, a place may be given to another one after this long.
pub const LONGEST_PLACE: Duration = Duration::from_secs(2);
/// Who was given a place and did not pull gets none of the last ones for this long …
pub const IDLERS_WAIT: Duration = Duration::from_secs(5);
/// … if it is one of the last so many.
pub const MAX_IDLERS: usize = 256;
/// Joiners that a sponsor cannot reach at their addresses, and remembers since when; the oldest go first.
pub const MAX_UNREACHED: usize = 256;
/// A joiner that is heard from elsewhere is told so when its address did not answer for this long.
pub const UNREACHED_PATIENCE: Duration = Duration::from_secs(1);
/// Members of the other address family that a joiner asks whether they reach it …
pub const REACH_ASKED: usize = 3;
/// … after this long again …
pub const REACH_RETRY: Duration = Duration::from_millis(250);
/// … and for this long, before it tries to join anew.
pub const REACH_PATIENCE: Duration = Duration::from_secs(1);
/// The first pause between two tries to join; it doubles up to the retry interval.
pub const FIRST_JOIN_RETRY: Duration = Duration::from_millis(100);
/// The longest pause between two tries where somebody has answered and nobody has refused.
pub const LAST_JOIN_RETRY: Duration = Duration::from_millis(800);
/// A joiner whose sponsor was busy asks again within this time.
pub const REFERRED_RETRY: Duration = Duration::from_millis(100);
/// A member that was named has this long to answer before the next one is asked.
pub const REFERRED_PATIENCE: Duration = Duration::from_millis(250);
/// How long a place among those who are handed the view is kept for a joiner that does not pull.
pub const VIEW_PATIENCE: Duration = Duration::from_millis(500);
/// When a node that is newly Up compares its view with that of a random member, counted from then.
pub const CATCH_UP_AFTER: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1_500)];
/// Until a random member's address is proven, another one is tried after this long.
pub const CATCH_UP_RETRY: Duration = Duration::from_millis(100);
/// Random members that are tried for one comparison at most.
pub const MAX_CATCH_UP_TRIES: usize = 6;
/// The word of a newcomer that another member leaves is kept for this long, within which a crash would be found out …
pub const DEPARTURE_PATIENCE: Duration = Duration::from_secs(2);
/// … while that member is asked this often …
pub const DEPARTURE_ASK_AGAIN: Duration = Duration::from_millis(500);
/// … and as often so many of the elders that observe it …
pub const DEPARTURE_WITNESSES: usize = 3;
/// … of so many members at one time; of others it is heard again.
pub const MAX_DEPARTURES: usize = 128;
/// Newcomers that must say so where neither the member nor anybody who observes it and is relied on is heard.
pub const DEPARTURE_VOICES: usize = 3;
/// How long `leave` and `remove` wait to be confirmed.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a leaving node stays Leaving at most before it says Left.
pub const LEAVING_TIMEOUT: Duration = Duration::from_millis(300);
/// Unconfirmed departures and removals are sent again after this long.
pub const CONFIRM_RETRY: Duration = Duration::from_millis(100);
/// Peers that confirm a departure before it counts as known.
pub const CONFIRMATIONS: usize = 3;
/// How long the answers to a `join` command are awaited.
pub const CONTACT_TIMEOUT: Duration = Duration::from_secs(5);
/// A joiner asks again within this time when it is told to wait.
pub const MAX_JOIN_WAIT: Duration = Duration::from_secs(5);
/// How far ahead of use the incarnation bound is stored; it is refreshed at half.
pub const INCARNATION_STEP: u64 = 60_000;
/// At least this late, and a quarter of a heartbeat, is a pause of this process.
pub const MIN_PAUSE: Duration = Duration::from_millis(200);
/// A warning of one kind is repeated after this long at the earliest, whatever it is about.
pub const NOTICE_INTERVAL: Duration = Duration::from_secs(10);
/// The largest frame of a link: the largest payload of a program, and all that stands around it.
pub const MAX_FRAME_BYTES: usize = MAX_PAYLOAD_BYTES + 1024;
/// Connections held with members at one time. Those that this node does not want end after [`LINK_LINGER`].
pub const MAX_LINKS: usize = 256;
/// Connections that others opened in members' names from elsewhere than the members' hosts, and that were not proven yet.
pub const MAX_FOREIGN_GUESTS: usize = 64;
/// Connections that others opened in one member's name and that were not proven yet.
pub const MAX_GUESTS_PER_RUN: usize = 2;
/// Frames over a connection before it is proven.
pub const MAX_GUEST_FRAMES: u32 = 16;
/// The member in whose name a connection was opened is asked this often whether it is its own.
pub const GUEST_PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// A guest that proved nothing by datagrams for this long is dialled back, though nothing else says that they do not pass.
pub const GUEST_PATIENCE: Duration = Duration::from_secs(1);
/// A member of which no datagram came is dialled at most once in this long because somebody connected in its name …
pub const DIAL_INTERVAL: Duration = Duration::from_secs(1);
/// … and so many of them together.
pub const MAX_DIALS_PER_INTERVAL: usize = 64;
/// A link to a new neighbour is opened after up to this long: in a growing cluster neighbours change with every joiner.
pub const LINK_SETTLE: Duration = Duration::from_millis(500);
/// … or in a cluster without rings, where every newcomer is a neighbour for good, after up to this long.
pub const LINK_MESH_SETTLE: Duration = Duration::from_millis(100);
/// A node that is newly Up opens its links after this long, and up to as much more: once the others have heard of it, and
/// before it could die without anybody noticing.
pub const LINK_FIRST_PAUSE: Duration = Duration::from_millis(30);
/// A newcomer with the smaller address is left this long to open its links; and up to half as much more.
pub const LINK_NEWCOMER_COURTESY: Duration = Duration::from_millis(250);
/// The node with the larger address leaves it to the other one to open their link for this much longer.
pub const LINK_COURTESY: Duration = Duration::from_secs(3);
/// Before a link to an unproven address is opened, it is probed and looked at again after twice this long; the pause
/// doubles up to [`MAX_LINK_BACKOFF`].
pub const LINK_PROOF_RETRY: Duration = Duration::from_millis(25);
/// Opening a link and being greeted over it takes at most this long.
pub const LINK_TIMEOUT: Duration = Duration::from_secs(5);
/// A link to somebody who is no neighbour any more is kept this long: he may become one again.
pub const LINK_LINGER: Duration = Duration::from_secs(10);
/// The first pause after a link that failed; it doubles …
pub const LINK_BACKOFF: Duration = Duration::from_secs(1);
/// … up to this.
pub const MAX_LINK_BACKOFF: Duration = Duration::from_secs(60);
/// A neighbour that was never heard by datagram is in doubt after this many of its heartbeats, and a detour lasts for one
/// more if it is not renewed.
pub const DETOUR_HEARTBEATS: u32 = 2;
/// Voters that are no neighbours and are watched for answers.
pub const MAX_PARTNERS: usize = 2 * MAX_VOTERS;
/// Calls at one time, made and taken.
pub const MAX_CALLS: usize = 64;
/// Calls taken of one IP address.
pub const MAX_CALLS_PER_HOST: usize = 16;
/// A call ends after this long …
pub const CALL_LASTS: Duration = Duration::from_secs(10);
/// … or this long after this node is Up.
pub const CALL_LINGER: Duration = Duration::from_secs(2);
/// Tries of a joiner that nobody answers by datagram, before it calls.
pub const TRIES_BEFORE_CALLS: u32 = 3;
/// Of so many questions to a lost seed or member, one goes by a call, too.
pub const CALL_ONE_IN: usize = 4;
/// A question is among the first messages of its packet.
pub const MAX_MESSAGES_IN_QUESTION: usize = 4;
/// The least time between two probes of a member whose process seems to be gone.
pub const MIN_CRASH_PROBE_GAP: Duration = Duration::from_millis(50);
/// Pauses between probes for which a second observer is awaited, after the own probes were in vain.
pub const CRASH_PATIENCE: u32 = 4;
/// A case that was refuted by a sign of life is looked into again after this long: the sign may have been under way
/// when the process died …
pub const CRASH_REVIEW: Duration = Duration::from_millis(200);
/// … this many times.
pub const CRASH_REVIEWS: u8 = 2;
/// Observers whose word about one case is kept.
pub const MAX_CRASH_WITNESSES: usize = 128;
/// … and for which it is awaited while other members are missing, too, who may be those observers.
pub const MANY_CRASHES_PATIENCE: u32 = 16;
/// How many members of whom nothing is known are asked behind a doubted neighbour …
pub const FIRST_REACH: usize = 1;
/// … and how many times as many after each pause in which they did not answer: five pauses cross a run of a thousand.
pub const REACH_GROWTH: usize = 4;
/// The share of the neighbours, as a fraction, that are doubted when all other members are asked at once.
pub const WIDE_DOUBT: (usize, usize) = (3, 4);
/// A member is settled when it has been live for its down timeout, within which it would have been found out if it never
/// answered, and for this long (then its word counts in what concerns the life of others, too) …
pub const SETTLE: Duration = Duration::from_secs(60);
/// … by at most so much less: those who joined one after the other settle together.
pub const SETTLE_TOGETHER: Duration = Duration::from_secs(5);
/// A neighbour that others displaced on the rings stays one if it was one for this long (see [`KEEP_FOR`]) …
pub const KEEP_AFTER: Duration = Duration::from_millis(500);
/// … or for this long while everybody observed everybody, as in the first moments of a cluster; then it is let go …
pub const KEEP_FOUNDER_AFTER: Duration = Duration::from_millis(50);
/// … when all who displaced it hold links: looked at after this long.
pub const FOUNDER_REVIEW: Duration = Duration::from_secs(2);
/// A neighbour that is kept stays one for this long: until whoever displaced it has settled, and as long again.
pub const KEEP_FOR: Duration = Duration::from_secs(120);
/// At most one case about the same member is opened on the word of others in this time.
pub const CRASH_HEARSAY_INTERVAL: Duration = Duration::from_secs(1);
/// An echo that was held for longer teaches no round trip: clocks that differ by two in a hundred, as bad as any, would
/// be wrong by more than ten milliseconds.
pub const MAX_ECHO_HOLD: Duration = Duration::from_millis(500);
/// The most points of evidence against oneself: timeouts are stretched up to one more than this many times.
pub const MAX_SELF_DOUBT: u32 = 7;
/// The most points that bad links alone give: they concern some members only, late ticks concern all.
pub const MAX_LINK_DOUBT: u32 = 3;
/// From this many points on, the operator is told.
pub const UNHEALTHY_FROM: u32 = 3;
/// How often a member's silence before its next suspicion may be lengthened because it kept refuting: each time by half
/// of what is left until its down timeout.
pub const MAX_DAMPING: u8 = 2;
/// A refutation is remembered for this many down timeouts.
pub const FLAPPING_MEMORY: u32 = 8;
/// Fewer silent members than this are never a partition.
pub const MIN_PARTITION: usize = 2;
/// Voters in an electorate.
pub const MAX_VOTERS: usize = 7;
/// Renewals whose times of sending a leader remembers: acknowledgements of older ones extend nothing.
pub const MAX_RENEWALS_IN_FLIGHT: usize = 64;
/// Questions at one time whether this node still leads; of all commands that may wait (see [`MAX_PENDING_COMMANDS`]) they
/// take half at most.
pub const MAX_BARRIERS: usize = 512;
/// How long a majority may take to confirm that this node still leads: longer than any round trip, and shorter than who asks
/// over HTTP waits.
pub const BARRIER_TIMEOUT: Duration = Duration::from_secs(5);
/// Names in the difference between two views that travels with a renewal, in bytes; longer ones are asked for.
pub const MAX_DELTA_BYTES: usize = 600;
/// After so many attempts in a row to which a majority answered, and for which none voted, there is none for whoever asks:
/// chance alone seldom splits votes as often.
pub const FUTILE_ATTEMPTS: u32 = 4;
/// So often at most a voter that stands gives way to another one, until it hears a leader again. A candidate that reaches too
/// few must not keep one that reaches enough from standing.
pub const MOST_WAYS_GIVEN: u32 = 2;
/// How often a leader that resigned releases its voters …
pub const RELEASES: u32 = 3;
/// … and after what pause, at most.
pub const RELEASE_PAUSE: Duration = Duration::from_millis(25);
/// For so many leases a voter of a higher priority must have kept up with its leader before that hands over to it: leadership
/// moves for that reason at most once in this time.
pub const PREFERENCE_LEASES: u32 = 4;
/// A voter that is further above its leader's term than this is not followed there: each attempt in vain takes it up by one.
pub const MAX_TERMS_BEHIND: u64 = 1 << 10;
/// How long a node that is to vote is asked who it is, at least.
pub const IDENTITY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long it may take, once it is known, to get the leader's view onto its disk and to acknowledge it, at least.
pub const LEARNING_TIMEOUT: Duration = Duration::from_millis(2_500);
/// How long those that would vote after a change are asked whether they are there, before it is put to the voters. All three
/// times together are shorter than [`FORWARD_TIMEOUT`].
pub const SOUNDING_TIMEOUT: Duration = Duration::from_millis(900);
const _: () = assert!(
    IDENTITY_TIMEOUT.as_millis() + LEARNING_TIMEOUT.as_millis() + SOUNDING_TIMEOUT.as_millis()
        < FORWARD_TIMEOUT.as_millis()
);
/// How long the last view may wait for the voters' disks before a command that waits for it is refused, and how long what
/// takes a change back may, which is over by [`HAND_OVER_TIMEOUT`] where its leader leaves.
pub const STORING_TIMEOUT: Duration = Duration::from_millis(1_500);
const _: () = assert!(STORING_TIMEOUT.as_millis() < HAND_OVER_TIMEOUT.as_millis());
/// How long a change of the electorate may wait for voters that do not acknowledge it, from when the leader told them.
pub const CHANGE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may wait for the leader's own disk, and then for those of voters that answer: for two writes of 1 s each with
/// something to spare, since one may be under way.
pub const SLOW_DISK_TIMEOUT: Duration = Duration::from_millis(2_500);
const _: () = assert!(CHANGE_TIMEOUT.as_millis() < SLOW_DISK_TIMEOUT.as_millis());
const _: () =
    assert!(2 * STORING_TIMEOUT.as_millis() + 2 * SLOW_DISK_TIMEOUT.as_millis() < FORWARD_TIMEOUT.as_millis());
/// How long a voter may take to acknowledge a renewal and be there: so often voters with slow disks are asked.
pub const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a leader that leaves waits for the end of what it led, before it leaves without releasing its voters.
pub const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(3);
/// Names in the difference between two agreed views that floods with the news of it, in bytes; longer ones are fetched.
pub const MAX_FLOODED_DELTA_BYTES: usize = 400;
/// How often one node tells of one renewal of the leader's. As a rumour told to so many it misses five members in a hundred,
/// and the next one misses others.
pub const PULSES: u32 = 3;
/// What too few members have said of leaders and views is remembered for this long …
pub const RUMOUR_MEMORY: Duration = Duration::from_secs(2);
/// (A node that knows no electorate believes one member alone after this long, if nobody says otherwise.)
pub const LONE_WORD: Duration = Duration::from_secs(1);
const _: () = assert!(LONE_WORD.as_millis() + 5 * WHO_LEADS_INTERVAL.as_millis() < RUMOUR_MEMORY.as_millis());
/// … and no more of it than this.
pub const MAX_RUMOURS: usize = 16;
/// Members that must say that the cluster has an electorate before a node is sure of it: what it is sure of it passes on, and
/// never forgets.
pub const FOUNDED_VOICES: usize = 2;
/// Members of which it is remembered that they said so …
pub const MAX_FOUNDED_VOICES: usize = 16;
/// … and how often it is looked whether they are still there; others are asked meanwhile.
pub const FOUNDED_REVIEW: Duration = Duration::from_secs(1);
/// What a member passes on that is not sure of it itself keeps a node from forming an electorate for this long: whoever said
/// so first is heard by then.
pub const FOUNDED_HINT: Duration = Duration::from_secs(2);
/// What members say of an electorate that came a moment ago keeps a node from forming one for so long in all.
pub const NEWCOMERS_HOLD_UP: Duration = Duration::from_secs(30);
/// At most one question who leads in this time.
pub const WHO_LEADS_INTERVAL: Duration = Duration::from_millis(100);
/// Parts of a numbered view that answer one question, and parts that are kept because they came early.
pub const VIEW_PARTS: u8 = 8;
/// A part of a numbered view is asked for again after this long, at least …
pub const VIEW_FETCH_RETRY: Duration = Duration::from_millis(50);
/// … this many times in a row.
pub const MAX_FETCH_TRIES: u8 = 10;
/// How long the leader's answer to a change of the electorate is awaited that was asked for at another node: longer than
/// such a change takes, and shorter than an operator's client waits.
pub const FORWARD_TIMEOUT: Duration = Duration::from_secs(9);
/// Until then the leader is asked again after this long …
pub const FORWARD_RETRY: Duration = Duration::from_millis(250);
/// … and this many times at most, whoever leads by then.
pub const MAX_FORWARD_ASKS: u32 = 32;
/// Commands at one node that wait for the leader's answer, and questions of one member that a leader remembers: no member
/// asks for more at once than is remembered of it.
pub const MAX_FORWARDED_COMMANDS: usize = 16;
/// Questions of others that a leader remembers, so that a repeated one is no second command …
pub const MAX_ASKED_CHANGES: usize = 8 * MAX_FORWARDED_COMMANDS;
/// … for how long, if there is room …
pub const ASKED_MEMORY: Duration = Duration::from_secs(30);
/// … and for how long at least, though new ones find no room: who asked may repeat it for [`FORWARD_TIMEOUT`], and what it
/// sent may be under way.
pub const MIN_ASKED_MEMORY: Duration = Duration::from_secs(10);
const _: () = assert!(MIN_ASKED_MEMORY.as_secs() > FORWARD_TIMEOUT.as_secs());

/// The largest payload of one message between programs.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;
/// The largest payload of a broadcast that goes in datagrams: with its topic and all else it fits into the smallest `mtu`,
/// beside what packets to members hold. Larger ones go over links.
pub const MAX_FLOODED_PAYLOAD: usize = 736;
/// Room that is left in a packet of broadcasts for what every packet to a member may hold.
pub const SPREAD_RESERVE: usize = 128;
const _: () = assert!(MAX_FLOODED_PAYLOAD + 63 + 32 + SPREAD_RESERVE + MAX_HEADER_BYTES <= 1_000);
/// Broadcasts in one packet, besides all else that it holds.
pub const MAX_MESSAGES_PER_SPREAD: usize = MAX_MESSAGES_PER_PACKET / 2;
/// New broadcasts are gathered for this long before they are sent on …
pub const SPREAD_BATCH: Duration = Duration::from_millis(10);
/// … in at most so many packets to each peer; the others go with the next batch.
pub const SPREAD_PACKETS: usize = 4;
/// Broadcasts that wait to be sent on: a program that is faster is told to wait, and of others' only the repair knows more.
pub const MAX_UNSPREAD: usize = 4_096;
/// Numbers of one origin by which its messages are recognised: what is further back counts as seen.
pub const MESSAGE_WINDOW: u64 = 4_096;
/// Broadcasts are given to who lacks them for this long after they were sent; older ones are taken by nobody.
pub const BROADCAST_LIFE: Duration = Duration::from_secs(10);
/// An origin's window is kept for this long after the last new message of it: all copies are older than
/// [`BROADCAST_LIFE`] by then, and no letter is repeated any more, though they were held up for long …
pub const ORIGIN_MEMORY: Duration = Duration::from_secs(120);
const _: () = assert!(ORIGIN_MEMORY.as_secs() >= BROADCAST_LIFE.as_secs() + MAX_REQUEST_TIMEOUT.as_secs());
/// … of so many origins, half a kibibyte each. Others are not heard until one of these was silent for as long.
pub const MAX_ORIGINS: usize = 1_024;
/// Broadcasts kept to be given to who lacks them …
pub const MAX_KEPT_MESSAGES: usize = 8_192;
/// … and their payloads in all; the oldest go first.
pub const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;
/// What is held of broadcasts is told in packets of its own so long after something new came …
pub const REPAIR_AFTER: Duration = Duration::from_millis(200);
/// … to so many peers.
pub const REPAIR_PEERS: usize = 2;
/// Lines, of one origin each, on what is held, in one message …
pub const MAX_SPANS: usize = 32;
/// … and in a packet that goes anyway.
pub const MAX_CARRIED_SPANS: usize = 8;
/// Broadcasts that one question asks for …
pub const MAX_WANTS: usize = 256;
/// … and that are asked for at one time.
pub const MAX_WANTED: usize = 1_024;
/// What was asked for and did not come is asked for again after this long.
pub const WANT_TIMEOUT: Duration = Duration::from_millis(300);
/// Packets that answer one question for broadcasts.
pub const REPAIR_PACKETS: usize = 16;
/// New messages that one member brings …
pub const MAX_MESSAGES_PER_MEMBER: u32 = 20_000;
/// … and their payloads …
pub const MAX_BYTES_PER_MEMBER: usize = 64 * 1024 * 1024;
/// … in this time …
pub const ALLOWANCE_INTERVAL: Duration = Duration::from_secs(1);
/// … counted for so many members.
pub const MAX_ALLOWANCES: usize = 1_024;
/// Messages to single nodes that wait for their receipts, or for their answers …
pub const MAX_LETTERS: usize = 1_024;
/// … and their payloads in all …
pub const MAX_LETTER_BYTES: usize = 16 * 1024 * 1024;
/// … of which so many are under way to one node at one time: a link has room for other frames, too.
pub const MAX_LETTERS_UNDER_WAY: usize = 16;
/// A message without a receipt is sent again after this long …
pub const LETTER_RETRY: Duration = Duration::from_secs(1);
/// … and given up after this long, if it is no request.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that a request may wait for its answer …
pub const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// … and how long it waits if nobody says.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests of others that wait for an answer of this node's programs …
pub const MAX_OPEN_REQUESTS: usize = 1_024;
/// … and those of one member.
pub const MAX_OPEN_REQUESTS_PER_MEMBER: usize = 256;
