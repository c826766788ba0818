//! Named bounds of leadership by quorum and by lease.

use std::time::Duration;

/// The greatest number of messages about leases that are remembered, so that none is passed on twice.
pub const MAX_LEASE_UPDATES: usize = 256;
/// The greatest number of leases whose highest terms are kept for newcomers.
pub const MAX_LEASE_TERMS: usize = 64;
/// The greatest number of messages of others about leases that are accepted and passed on in one second.
pub const LEASE_UPDATES_PER_SECOND: u32 = 64;
/// The greatest number of such messages of newcomers, which are not passed on, in one second.
pub const NEWCOMERS_LEASE_UPDATES_PER_SECOND: u32 = 16;
/// The earliest time at which an electorate is founded, in milliseconds since 1970: this program was not there before, and a
/// clock that shows less is wrong (that of a small machine that has just started, say).
pub const EARLIEST_FOUNDING: u64 = 1_735_689_600_000;
/// The greatest number of voters in an electorate.
pub const MAX_VOTERS: usize = 7;
/// The number of renewals whose times of sending a leader remembers: acknowledgements of older ones extend nothing.
pub const MAX_RENEWALS_IN_FLIGHT: usize = 64;
/// The greatest number of open questions whether this node still leads; they take at most half of all commands that may
/// wait (see [`MAX_PENDING_COMMANDS`](super::MAX_PENDING_COMMANDS)).
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
/// The greatest number of members that are remembered to have reported an electorate.
pub const MAX_FOUNDED_REPORTERS: usize = 16;
/// The interval at which it is checked whether those members are still there; others are asked meanwhile.
pub const FOUNDED_REVIEW: Duration = Duration::from_secs(1);
/// The time for which the report of a member that is not sure itself keeps a node from forming an electorate: the
/// member that reported it first is heard by then.
pub const FOUNDED_HINT: Duration = Duration::from_secs(2);
/// The time for which another electorate in this cluster is told of after a member has reported it: reports of it come
/// every few seconds.
pub const OTHER_ELECTORATE_MEMORY: Duration = Duration::from_secs(10);
/// The number of members that tell the leader of the electorate that stands of the terms of one that ended, on average,
/// besides those that voted in that.
pub const ENDED_TELLERS: f64 = 8.0;
/// The number of times a second that all members together look for each voter and seed that is missing: several times in the [`FOUNDING_DELAY`](super::FOUNDING_DELAY) of those that come back with empty disks.
pub const MISSING_VOTER_QUESTIONS: u32 = 20;
/// The time for which they do, since the last one was gone or came: as long as a process takes to be started again.
pub const MISSING_VOTER_SEARCH: Duration = Duration::from_secs(60);
/// The least time between two of these questions by one member.
pub const MISSING_VOTER_PAUSE: Duration = Duration::from_millis(50);
/// The least time between two questions for the leader.
pub const WHO_LEADS_INTERVAL: Duration = Duration::from_millis(100);
/// The number of parts of a numbered view that answer one question, and the greatest number of parts that are kept
/// because they came early.
pub const VIEW_PARTS: u8 = 8;
/// The number of parts of numbered views a second that a member is sent, beyond one whole view, and that again for what
/// was lost: whoever forges a member's address has no more than this sent there.
pub const VIEW_PARTS_PER_SECOND: u32 = 40;
/// The least time between two answers to one member's questions for the leader: less than between two questions.
pub const LEADER_ANSWER_INTERVAL: Duration = Duration::from_millis(50);
/// The least time after which a part of a numbered view is asked for again.
pub const VIEW_FETCH_RETRY: Duration = Duration::from_millis(50);
/// The greatest number of times in a row that a part of a numbered view is asked for.
pub const MAX_FETCH_TRIES: u8 = 10;
/// The number of times in a row that whoever sent parts of a view is asked for the next one before it is another one's turn,
/// and a newer view may be fetched instead.
pub const VIEW_PART_TRIES: u8 = 3;
/// The number of views that a node still sends when there are newer ones: those that it held, or was asked for, last.
pub const MAX_RECENT_VIEWS: usize = 4;
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
/// The greatest number of commands at one node that wait for the leader's answer.
pub const MAX_FORWARDED_COMMANDS: usize = 16;
/// The greatest number of requests of others that a leader remembers, so that a repeated one is not a second command; of more
/// the oldest that is answered and repeated no more is forgotten.
pub const MAX_ASKED_CHANGES: usize = 8 * MAX_FORWARDED_COMMANDS;
/// The time for which they are remembered: the member that asked may repeat its request for [`FORWARD_TIMEOUT`], and its
/// last packets may be under way for long.
pub const ASKED_MEMORY: Duration = Duration::from_secs(30);
const _: () = assert!(ASKED_MEMORY.as_secs() > 2 * FORWARD_TIMEOUT.as_secs());
