//! Open files: how many this process may have, and how they are shared out.
//!
//! Purpose: links and HTTP connections come from outside, and could take every descriptor that the state file, name lookups
//! and each other need. So each gets a number at the start, from the limit as it is, and no more.
//!
//! Invariant: the shares of links and HTTP together leave [`RESERVE`] descriptors, or what there is, for everything else.
//!
//! Must not know: what the descriptors are used for.

/// Descriptors for what is opened for a moment: the state file, a name lookup or two, and slack.
const RESERVE: usize = 6;

/// Links of one agent that are worth a descriptor: those that the core keeps, some that it is about to end, and
/// connections that have not said anything yet.
pub(crate) const MAX_LINK_DESCRIPTORS: usize = 384;

/// The share of links is never less: one link tells of one crash.
const LEAST_LINKS: usize = 1;
/// The share of HTTP is never less, where there are so many at all: a connection for a stream, a listing, a command and a
/// health check each. It takes them from the reserve.
#[cfg(any(test, feature = "agent"))]
const LEAST_HTTP: usize = 4;

/// What is assumed to be open where the system does not tell.
const ASSUMED_OPEN: usize = 24;

/// Raises the soft limit to the hard one, as servers do; what is not allowed stays as it is. For binaries: a library
/// leaves the limits of its process alone.
#[cfg(feature = "agent")]
pub(crate) fn raise_limit() {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
            && soft < hard
        {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
    }
}

/// The soft limit; nothing where there is none.
pub(crate) fn limit() -> Option<usize> {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit};
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        usize::try_from(soft).ok()
    }
    #[cfg(not(unix))]
    None
}

/// Descriptors that are open now, as far as the system tells.
fn open_now() -> usize {
    // Reading the directory takes one itself.
    let listed = std::fs::read_dir("/proc/self/fd").map(|entries| entries.count().saturating_sub(1));
    listed.unwrap_or(ASSUMED_OPEN)
}

/// How many connections links may have, if `limit` descriptors are allowed and `open` are in use: half of what is left.
const fn share_of_links(limit: usize, open: usize) -> usize {
    let share = limit.saturating_sub(open + RESERVE) / 2;
    if share < LEAST_LINKS {
        LEAST_LINKS
    } else if share > MAX_LINK_DESCRIPTORS {
        MAX_LINK_DESCRIPTORS
    } else {
        share
    }
}

/// How many connections links may have.
pub(crate) fn links_within_the_limit() -> usize {
    limit().map_or(MAX_LINK_DESCRIPTORS, |limit| share_of_links(limit, open_now()))
}

/// The descriptor that HTTP keeps in hand for whoever waits to be accepted.
#[cfg(any(test, feature = "agent"))]
const SPARE: usize = 1;

/// How many connections HTTP may have, if `wanted` are configured and links may have so many: what is left. That is what
/// there is: where not even the least is there, it is less, and one in any case.
#[cfg(any(test, feature = "agent"))]
const fn share_of_http(limit: usize, open: usize, links: usize, wanted: usize) -> usize {
    let left = limit.saturating_sub(open + RESERVE + links);
    let there = limit.saturating_sub(open + SPARE + LEAST_LINKS);
    let share = match (left, there) {
        (LEAST_HTTP.., _) => left,
        (_, LEAST_HTTP..) => LEAST_HTTP,
        (_, 0) => 1,
        (_, there) => there,
    };
    if share < wanted { share } else { wanted }
}

/// How many connections HTTP may have, of `wanted`, beside agents whose links may have so many. To be asked when
/// everything else is open.
#[cfg(feature = "agent")]
pub(crate) fn http_within_the_limit(links: usize, wanted: usize) -> usize {
    limit().map_or(wanted, |limit| share_of_http(limit, open_now(), links, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_a_reserve_wherever_there_is_one() {
        for limit in [32, 64, 256, 1_024, 4_096, 1 << 20] {
            let open = 15;
            let links = share_of_links(limit, open);
            let http = share_of_http(limit, open, links, 1_024);
            assert!(links >= LEAST_LINKS && http >= LEAST_HTTP, "{limit}");
            assert!(open + links + http + RESERVE <= limit, "{limit}: {links} links, {http} connections");
        }
        assert_eq!(share_of_links(1 << 20, 15), MAX_LINK_DESCRIPTORS);
        assert_eq!(share_of_http(1 << 20, 15, MAX_LINK_DESCRIPTORS, 1_024), 1_024);
    }

    #[test]
    fn no_more_connections_are_promised_than_there_are_descriptors() {
        let links = share_of_links(24, 15);
        assert_eq!((links, share_of_http(24, 15, links, 1_024)), (LEAST_LINKS, LEAST_HTTP));
        assert_eq!([16, 18, 19, 20, 21].map(|limit| share_of_http(limit, 15, LEAST_LINKS, 1_024)), [1, 1, 2, 3, 4]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_open_is_counted() {
        let held: Vec<_> = (0..64).map(|_| std::fs::File::open("/dev/null").expect("opens")).collect();
        assert!(open_now() >= held.len());
    }
}
