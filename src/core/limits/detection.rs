//! Named bounds of detection: silence, crashes, newcomers, local health.

use std::time::Duration;

/// The least lateness that counts as a pause of this process; a quarter of a heartbeat if that is more.
pub const MIN_PAUSE: Duration = Duration::from_millis(200);
/// The lateness of the driver from which on news of a leader may have waited: it is then counted from the input before.
pub const STALL: Duration = Duration::from_millis(20);
/// The least time between two notices of one kind, whatever they are about.
pub const NOTICE_INTERVAL: Duration = Duration::from_secs(10);
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
/// The greatest number of observers whose reports about one case are kept.
pub const MAX_CRASH_WITNESSES: usize = 128;
/// The number of pauses between probes for which a second observer is awaited while other members are missing, too,
/// which may be those observers.
pub const MANY_CRASHES_PATIENCE: u32 = 16;
/// The number of members in an unknown state that are asked first behind an unresponsive neighbour.
pub const FIRST_REACH: usize = 1;
/// The factor by which that number grows after each pause in which they did not answer: five pauses cross a run of a
/// thousand.
pub const REACH_GROWTH: usize = 4;
/// The share of the neighbours, as a fraction, that must be unresponsive for all other members to be asked at once.
pub const WIDE_OUTAGE: (usize, usize) = (3, 4);
/// The time after which a member is no newcomer any more.
pub const SETTLE: Duration = Duration::from_secs(60);
/// The least time as a neighbour after which a member that others displaced on the rings is kept (see [`KEEP_FOR`]).
pub const KEEP_AFTER: Duration = Duration::from_millis(500);
/// The time after which it is looked whether all that displaced such neighbours have links; then those are let go.
pub const KEEP_REVIEW: Duration = Duration::from_secs(2);
/// The greatest time for which a displaced neighbour is kept.
pub const KEEP_FOR: Duration = Duration::from_secs(120);
/// The time for which a sponsor observes a recent member, if there is room.
pub const RECENT_MEMBER_WATCH: Duration = Duration::from_secs(5);
/// The greatest number of recent members that a sponsor observes because it brought them in (see `observers::extra`).
pub const MAX_RECENT_MEMBERS: usize = 32;
/// The least time between two looks into the same member that programs ask for.
pub const DOUBT_INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two cases about the same member that are opened on the report of others.
pub const CRASH_HEARSAY_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time for which an echo may have been held to measure the round trip: clocks that differ by two in a
/// hundred, as bad as any, would be wrong by more than ten milliseconds.
pub const MAX_ECHO_HOLD: Duration = Duration::from_millis(500);
/// The greatest number of points of evidence against this node's own observation: timeouts are stretched up to one more
/// than this many times.
pub const MAX_HEALTH_SCORE: u32 = 7;
/// The greatest number of points that bad links alone give: they concern some members only, late ticks concern all.
pub const MAX_LINK_SCORE: u32 = 3;
/// The number of points from which on the operator is told.
pub const UNHEALTHY_FROM: u32 = 3;
/// The greatest number of times that a member's silence before its next suspicion is lengthened because it kept
/// refuting: each time by half of the rest of its down timeout.
pub const MAX_DAMPING: u8 = 2;
/// The number of down timeouts for which a refutation is remembered.
pub const FLAPPING_MEMORY: u32 = 8;
/// The least number of silent members that can be a partition.
pub const MIN_PARTITION: usize = 2;
/// The greatest number of members of a reported partition that are gone for good and are still named when it is over.
pub const MAX_PARTITION_LOST: usize = 16_384;
/// The least time between two questions to the kernel of a silent member's host; more where round trips are long.
pub const HOST_QUESTION_INTERVAL: Duration = Duration::from_millis(500);
/// The time after which the kernel of a well member's host is asked again: a firewall may have come meanwhile.
pub const HOST_CHECK_INTERVAL: Duration = Duration::from_secs(300);
/// The time after which a kernel that has not answered is asked again, while its member is well.
pub const HOST_CHECK_RETRY: Duration = Duration::from_secs(30);
/// The time after which a kernel that answers no question is silent.
pub const HOST_PATIENCE: Duration = Duration::from_secs(1);
/// The time for which a kernel's answer shows that its host runs.
pub const HOST_ANSWER_LASTS: Duration = Duration::from_millis(1_500);
/// The greatest number of kernels that are asked at one time.
pub const MAX_HOST_QUESTIONS: usize = 40;
