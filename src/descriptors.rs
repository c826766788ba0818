//! File descriptors: the limit of this process, and the shares of links and HTTP.
//!
//! Purpose: links and HTTP connections are opened from outside, and could take every descriptor that the state file,
//! name lookups and each other need. So each gets a fixed share at the start, calculated from the limit at that time.
//!
//! Invariant: the shares of links and HTTP together leave [`RESERVE`] descriptors, or as many as there are, for
//! everything else.
//!
//! Must not know: what the descriptors are used for.

/// Descriptors for files that are open for a moment: the state file, a name lookup or two, and slack.
const RESERVE: usize = 6;

/// The greatest share of one agent's links: the links that the core keeps, some that it is about to end, and
/// connections that have not said anything yet.
pub(crate) const MAX_LINK_DESCRIPTORS: usize = 384;

/// The least share of links: one link is enough to detect one crash.
const LEAST_LINKS: usize = 1;
/// The least share of HTTP, if there are so many descriptors at all: a connection for a stream, a listing, a command
/// and a health check each. It is taken from the reserve if need be.
#[cfg(any(test, feature = "agent"))]
const LEAST_HTTP: usize = 4;

/// The number of descriptors assumed to be open if the system does not tell.
const ASSUMED_OPEN: usize = 24;

/// The advice for a process that may open too few files.
pub(crate) const RAISE: &str = "raise the limit on open files (ulimit -n, LimitNOFILE=)";

/// Returns true if something failed because this process may open no more files.
pub(crate) fn are_short(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    let number = Some(nix::errno::Errno::EMFILE as i32);
    #[cfg(not(unix))]
    let number = None;
    number.is_some() && error.raw_os_error() == number
}

/// Raises the soft limit to the hard one, as servers do; if that is not allowed, the limit stays as it is. For
/// binaries: a library leaves the limits of its process alone.
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

/// Returns the soft limit; `None` if there is none.
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

/// Returns the number of descriptors that are open now, as far as the system tells.
fn open_now() -> usize {
    match std::fs::read_dir("/proc/self/fd") {
        // Reading the directory takes a descriptor itself.
        Ok(entries) => entries.count().saturating_sub(1),
        Err(error) if are_short(&error) => limit().unwrap_or(ASSUMED_OPEN),
        Err(_) => ASSUMED_OPEN,
    }
}

/// Returns the share of links if `limit` descriptors are allowed and `open` are in use: half of the rest.
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

/// Returns the number of connections that links may have.
pub(crate) fn links_within_the_limit() -> usize {
    limit().map_or(MAX_LINK_DESCRIPTORS, |limit| share_of_links(limit, open_now()))
}

/// The descriptor that HTTP keeps in reserve for a connection that waits to be accepted.
#[cfg(any(test, feature = "agent"))]
const SPARE: usize = 1;

/// Returns the share of HTTP if `wanted` connections are configured and links may have `links`: the rest. If the rest
/// is less than the least share, HTTP gets that from the reserve; if there are not even so many, as many as there are,
/// and one in any case.
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

/// Returns the number of connections that HTTP may have, of `wanted`, beside agents whose links may have `links`; `None`
/// if none is left, not even the spare one. To be called when everything else is open.
#[cfg(feature = "agent")]
pub(crate) fn http_within_the_limit(links: usize, wanted: usize) -> Option<usize> {
    let Some(limit) = limit() else { return Some(wanted) };
    let open = open_now();
    (open + SPARE <= limit).then(|| share_of_http(limit, open, links, wanted))
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
