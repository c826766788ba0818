//! Named bounds of joining: founding, admission, referrals, and the transfer of views.

use std::time::Duration;

/// The greatest number of joiners that a sponsor holds beside its view, and that a node remembers while Joining itself.
pub const MAX_JOINERS: usize = 1_024;
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
/// The greatest number of seeds in a configuration.
pub const MAX_SEEDS: usize = 64;
/// The greatest number of addresses that one seed name may resolve to.
pub const MAX_ADDRESSES_PER_SEED: usize = 16;
/// The greatest number of addresses remembered in the data directory.
pub const MAX_REMEMBERED_ADDRESSES: usize = 256;
/// The greatest number of pages that one `Pull` asks for.
pub const PAGES_IN_FLIGHT: u8 = 8;
/// The number of times that a page is asked for again before another sponsor is tried.
pub const MAX_PULL_RETRIES: u8 = 10;
/// The least time between a seed's first try to join and its founding of a cluster.
pub const FOUNDING_DELAY: Duration = Duration::from_millis(500);
/// The time for which a node that takes part in elections, and knows of no electorate, waits beyond that: whoever knows of one
/// looks for it meanwhile. A new cluster is to have a leader within a second all the same.
pub const FORMING_DELAY: Duration = Duration::from_millis(100);
/// The number of retry intervals after which a seed that reached no Up node founds a cluster.
pub const FOUNDING_RETRIES: u32 = 3;
/// The greatest number of times in one retry interval that a joiner asks a candidate for founding that others named, or
/// tells others of one that comes first. Each comes before the one before it: among a thousand seeds that is some seven times.
pub const MAX_CANDIDATE_NEWS: u32 = 32;
/// The time without a pull after which the place of a joiner that is being served the view may be given to another one.
pub const IDLE_PLACE: Duration = Duration::from_millis(50);
/// The time without an answer from its advertised address after which a joiner that is heard from another one is told
/// so.
pub const UNREACHED_PATIENCE: Duration = Duration::from_secs(1);
/// The number of members of the other address family that a joiner asks whether they reach it.
pub const REACH_ASKED: usize = 3;
/// The time after which they are asked again.
pub const REACH_RETRY: Duration = Duration::from_millis(250);
/// The time for which they are asked before the joiner tries to join anew: an answer is sent once in
/// [`QUESTION_INTERVAL`](super::QUESTION_INTERVAL), so that a second one comes if the first is lost.
pub const REACH_PATIENCE: Duration = Duration::from_millis(1_500);
const _: () = assert!(REACH_PATIENCE.as_millis() > super::QUESTION_INTERVAL.as_millis() + REACH_RETRY.as_millis());
/// The first pause between two tries to join; it doubles up to the retry interval.
pub const FIRST_JOIN_RETRY: Duration = Duration::from_millis(100);
/// The greatest number of members that a node with an empty disk asks to let it in because they look for it.
pub const MAX_FINDERS: usize = 3;
/// The time for which it founds no cluster, and joins none that knows of no electorate, since the first of them was met:
/// they may have to find out first that the process that had its name is gone.
pub const FINDER_PATIENCE: Duration = Duration::from_secs(5);
/// The longest pause between two tries to join if a node has answered and none has refused.
pub const LAST_JOIN_RETRY: Duration = Duration::from_millis(800);
/// The greatest number of times, between two tries, that a joiner asks a sponsor again at once: with a cookie for its
/// datagrams, for its bootstrap link, and for the address that it advertises.
pub const MAX_ASKS_AT_ONCE: u32 = 3;
/// The greatest number of tries to join in [`FIRST_JOIN_RETRY`] that are made at once, because of what others say.
pub const MAX_TRIES_AT_ONCE: u32 = 2;
/// The number of questions of one joiner that a sponsor answers at once: a joiner tries twice, and asks again at once for
/// each of its cookies.
pub const JOIN_ANSWERS_AT_ONCE: u32 = 2 * (1 + MAX_ASKS_AT_ONCE);
/// The time after which it answers one more: a joiner whose sponsors are busy asks that often.
pub const JOIN_ANSWER_INTERVAL: Duration = Duration::from_millis(50);
/// The greatest number of joiners whose questions are counted, twice.
pub const MAX_JOIN_ASKERS: usize = 2_048;
/// The time that a member named by a busy sponsor has to answer before the next one is asked.
pub const REFERRED_PATIENCE: Duration = Duration::from_millis(250);
/// The times after becoming Up at which a node compares its view with that of a random member.
pub const CATCH_UP_AFTER: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1_500)];
/// The time after which another random member is tried while no address of one is proven.
pub const CATCH_UP_RETRY: Duration = Duration::from_millis(100);
/// The greatest number of random members that are tried for one comparison.
pub const MAX_CATCH_UP_TRIES: usize = 6;
/// The time for which the answers to a `join` command are awaited.
pub const CONTACT_TIMEOUT: Duration = Duration::from_secs(5);
/// The greatest number of addresses that a joiner remembers as asked: more than it is told of, or can hear of in a minute.
pub const MAX_ASKED: usize = 2_048;
/// The longest pause of a joiner that is told to wait.
pub const MAX_JOIN_WAIT: Duration = Duration::from_secs(5);
