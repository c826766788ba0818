//! The supervisor that started this process, as systemd's notification protocol has it (`sd_notify`): readiness, status, reloads,
//! the end, and a watchdog.
//!
//! Invariants: nothing here waits for the supervisor, and nothing fails with it: a datagram that is not taken is lost, and what lasts
//! is said again. The socket is made once; no variable of the environment is changed, and commands that are run for handlers get none
//! of these.
//!
//! It is written here, since sending a datagram is all there is to it, and `sd-notify` would wait where a supervisor is slow.
//!
//! Must not know: what a node does.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

/// The shortest time of a watchdog that is fed in time: the driver turns at least once a second.
const LEAST_WATCHDOG: Duration = Duration::from_secs(4);

/// The way to the supervisor; without one all words go nowhere.
#[derive(Debug, Clone, Default)]
pub(super) struct Supervisor(Option<Arc<Way>>);

#[derive(Debug)]
struct Way {
    socket: UnixDatagram,
    to: SocketAddr,
    watchdog: Option<Duration>,
}

impl Way {
    fn new(name: &[u8], watchdog: Option<Duration>) -> std::io::Result<Self> {
        let (to, socket) = (address(name)?, UnixDatagram::unbound()?);
        socket.set_nonblocking(true)?;
        Ok(Self { socket, to, watchdog })
    }
}

impl Supervisor {
    /// Finds the supervisor in the environment of this process.
    pub(super) fn of_this_process() -> Self {
        let variable = |name| std::env::var(name).ok();
        let watchdog = watchdog(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id());
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Self(None) };
        match Way::new(name.as_bytes(), watchdog) {
            Ok(way) => Self(Some(Arc::new(way))),
            Err(error) => {
                let name = name.to_string_lossy();
                tracing::warn!("the supervisor is not told anything: NOTIFY_SOCKET={name} is not usable: {error}");
                Self(None)
            }
        }
    }

    /// Returns the interval in which the supervisor's watchdog is to be fed, if it has one: a quarter of its time.
    pub(super) fn watchdog(&self) -> Option<Duration> {
        let watchdog = self.0.as_ref()?.watchdog?;
        if watchdog < LEAST_WATCHDOG {
            tracing::warn!(
                "the supervisor's watchdog waits for {watchdog:?} only: it may take a healthy agent for a dead one; set \
                 WatchdogSec to {} s or more",
                LEAST_WATCHDOG.as_secs()
            );
        }
        Some(watchdog / 4)
    }

    pub(super) fn ready(&self) {
        self.say("READY=1\n");
    }

    /// Says that the configuration is being read again; [`Supervisor::ready`] ends that.
    pub(super) fn reloading(&self) {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map(Duration::from);
        let now = now.map(|now| format!("MONOTONIC_USEC={}\n", now.as_micros())).unwrap_or_default();
        self.say(&format!("RELOADING=1\n{now}"));
    }

    pub(super) fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=leaving\n");
    }

    /// Shows a line to whoever asks the supervisor.
    pub(super) fn status(&self, line: &str) {
        // A line break would begin another variable.
        self.say(&format!("STATUS={}\n", line.replace(char::is_control, " ")));
    }

    pub(super) fn feed_watchdog(&self) {
        self.say("WATCHDOG=1\n");
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    fn say(&self, words: &str) {
        if let Some(supervisor) = &self.0 {
            // See the page above.
            let _ = supervisor.socket.send_to_addr(words.as_bytes(), &supervisor.to);
        }
    }
}

/// Returns the address of a socket: a path, or on Linux `@` and an abstract name.
fn address(name: &[u8]) -> std::io::Result<SocketAddr> {
    match name {
        [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)),
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name),
        _ => Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "neither a path nor an abstract name")),
    }
}

/// Returns the time of the watchdog, if it is meant for this process.
fn watchdog(usec: Option<String>, pid: Option<String>, me: u32) -> Option<Duration> {
    let is_meant = pid.is_none_or(|pid| pid.parse() == Ok(me));
    let usec = usec?.parse().ok().filter(|usec| *usec > 0)?;
    is_meant.then(|| Duration::from_micros(usec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_counts_for_the_process_that_it_is_meant_for() {
        let text = |text: &str| Some(text.to_owned());
        let half_a_minute = Some(Duration::from_secs(30));
        assert_eq!(watchdog(text("30000000"), text("17"), 17), half_a_minute);
        assert_eq!(watchdog(text("30000000"), None, 17), half_a_minute);
        assert_eq!(watchdog(text("30000000"), text("18"), 17), None);
        assert_eq!(watchdog(text("0"), None, 17), None);
        assert_eq!(watchdog(text("soon"), None, 17), None);
        assert_eq!(watchdog(None, None, 17), None);
    }

    #[test]
    fn a_supervisor_that_takes_nothing_is_not_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let _deaf = UnixDatagram::bind(&path).expect("bound");
        let way = Way::new(path.as_os_str().as_bytes(), None).expect("a path");
        let supervisor = Supervisor(Some(Arc::new(way)));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // More than any queue holds.
            for _ in 0..10_000 {
                supervisor.feed_watchdog();
            }
            tell.send(())
        });
        told.recv_timeout(Duration::from_secs(30)).expect("nobody is waited for");
        assert!(address(b"vsock:2:1234").is_err());
    }
}
