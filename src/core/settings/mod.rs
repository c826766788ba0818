//! The core's settings: intervals, timeouts and sizes, and the one place that knows their bounds.
//!
//! [`Timing`] travels in a node's record, because every observer judges a node by *its* timeouts; the rest of
//! [`Settings`] concerns the node alone. Both are checked by the same bounds wherever they come from: a file, code, or
//! the wire. Leases by quorum have settings of their own: `lease`.
//!
//! Must not know: the use that is made of a setting.

mod lease;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use lease::claim_of;
pub use lease::{LeaderPolicy, LeaseTiming, MAX_LEASE, MIN_LEASE, OnResign};

/// The largest `mtu`, in bytes.
pub(crate) const MAX_MTU: usize = 1400;

/// A node's own heartbeat interval and timeouts, part of its record: how often others hear it, and the silence after
/// which they suspect it and declare it Down.
///
/// Kept and sent in whole milliseconds.
#[expect(clippy::struct_field_names, reason = "the unit")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timing {
    heartbeat_interval_ms: u32,
    suspect_timeout_ms: u32,
    down_timeout_ms: u32,
}

impl Timing {
    /// Checks the three durations: heartbeat 50 ms–60 s; suspect ≥ heartbeat / 3, ≤ 10 min; down > suspect, ≤ 1 h.
    pub fn new(
        heartbeat_interval: Duration,
        suspect_timeout: Duration,
        down_timeout: Duration,
    ) -> Result<Self, OutOfRange> {
        within("timing.heartbeat_interval", heartbeat_interval, Duration::from_millis(50), Duration::from_secs(60))?;
        let least_suspect = Duration::from_millis((heartbeat_interval / 3).as_millis() as u64);
        if suspect_timeout < least_suspect || suspect_timeout > Duration::from_secs(600) {
            return Err(OutOfRange::new(
                "timing.suspect_timeout",
                suspect_timeout,
                format!("{} (heartbeat_interval / 3) to 10m", human(least_suspect)),
            ));
        }
        if down_timeout <= suspect_timeout || down_timeout > Duration::from_secs(3600) {
            return Err(OutOfRange::new(
                "timing.down_timeout",
                down_timeout,
                format!("more than {} (suspect_timeout), at most 1h", human(suspect_timeout)),
            ));
        }
        Ok(Self {
            heartbeat_interval_ms: heartbeat_interval.as_millis() as u32,
            suspect_timeout_ms: suspect_timeout.as_millis() as u32,
            down_timeout_ms: down_timeout.as_millis() as u32,
        })
    }

    /// Returns the timing from the numbers on the wire, in milliseconds; `None` if they break the bounds of
    /// [`Timing::new`].
    pub(super) fn from_millis(heartbeat_interval: u32, suspect_timeout: u32, down_timeout: u32) -> Option<Self> {
        let timing = Self {
            heartbeat_interval_ms: heartbeat_interval,
            suspect_timeout_ms: suspect_timeout,
            down_timeout_ms: down_timeout,
        };
        timing.is_valid().then_some(timing)
    }

    /// Returns true if values from outside keep the bounds of [`Timing::new`].
    pub fn is_valid(self) -> bool {
        Self::new(self.heartbeat_interval(), self.suspect_timeout(), self.down_timeout()).is_ok()
    }

    /// Returns the time within which every observer gets at least one packet.
    pub const fn heartbeat_interval(self) -> Duration {
        Duration::from_millis(self.heartbeat_interval_ms as u64)
    }

    /// Returns the silence after which the node is Suspect.
    pub const fn suspect_timeout(self) -> Duration {
        Duration::from_millis(self.suspect_timeout_ms as u64)
    }

    /// Returns the time in which each of its observers hears the node by itself, unless something is wrong: its suspect timeout, or
    /// two heartbeat intervals if those are longer.
    pub fn longest_quiet(self) -> Duration {
        longest_quiet(self.heartbeat_interval(), self.suspect_timeout())
    }

    /// Returns true if its observers hear it more rarely than it is suspected: in turns that are further apart than that.
    pub fn is_rarely_heard(self) -> bool {
        self.heartbeat_interval_ms > self.suspect_timeout_ms
    }

    /// Returns the silence after which the node is Down.
    pub const fn down_timeout(self) -> Duration {
        Duration::from_millis(self.down_timeout_ms as u64)
    }
}

/// Intervals, timeouts and sizes of the protocol. Start from a [`Profile`] and change what you must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The time within which every observer gets at least one packet. 50 ms–60 s. Shorter costs packets, longer slows
    /// detection.
    pub heartbeat_interval: Duration,
    /// The silence after which a node is Suspect, counted from the freshest sign that anybody received. Heartbeat / 3–10 min. Too
    /// short accuses healthy nodes: where it is shorter than the heartbeat, no observer misses a node until its next one is late.
    pub suspect_timeout: Duration,
    /// The silence after which a node is Down. More than suspect, at most 1 h. Between the two the node has the chance
    /// to refute.
    pub down_timeout: Duration,
    /// The silence after which a node is Down if its host's kernel does not answer TCP either: to a process that hangs, and will
    /// go on, `down_timeout` is left. More than suspect, at most down; `None`: kernels are not asked. It holds for members whose
    /// down timeout is this node's.
    pub host_down_timeout: Option<Duration>,
    /// The time in which `gossip_fanout` heartbeats are sent, if not more. 20 ms to 5 × heartbeat. Gossip travels with heartbeats.
    pub gossip_interval: Duration,
    /// The number of heartbeats per `gossip_interval`. 1–16.
    pub gossip_fanout: usize,
    /// The time in which a probe has to be answered, and by which a heartbeat may be late. 1 ms to suspect / 15: six probes come
    /// before a suspicion.
    pub probe_timeout: Duration,
    /// The interval of efforts that never end: joining, and finding lost members and seeds again. 100 ms–10 min.
    pub retry_interval: Duration,
    /// The age at which Down and Left records are forgotten; tombstones stay as long again. 1 min–30 days and at least
    /// down.
    pub reap_after: Duration,
    /// The time without a frame after which a link shows firewalls that it is in use. 1 s–10 min.
    pub link_keepalive: Duration,
    /// The largest UDP payload in bytes. 1000–1400.
    pub mtu: usize,
    /// The approximate number of observers of each node. 2–64. Up to one more than this many nodes, everyone observes
    /// everyone.
    pub observers: usize,
}

impl Settings {
    /// Checks every value and their combinations; the error names the key, the value and the values allowed.
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns all problems that [`Settings::check`] looks for, in order; of the three durations of [`Timing`] only the
    /// first, since each is judged by the one before.
    pub fn problems(&self) -> Vec<OutOfRange> {
        let most_gossip = self.heartbeat_interval.saturating_mul(5);
        let most_probe = Duration::from_millis((self.suspect_timeout / 15).as_millis() as u64);
        let minute = Duration::from_secs(60);
        let reap_rule = if self.down_timeout > minute { " (down_timeout)" } else { "" };
        let (key, key_probe, key_reap) = ("timing.gossip_interval", "timing.probe_timeout", "timing.reap_after");
        let checks = [
            self.timing().map(drop),
            self.host_down_timeout.map_or(Ok(()), |host| {
                let most = (self.down_timeout, " (down_timeout)");
                between(
                    "timing.host_down_timeout",
                    host,
                    (self.suspect_timeout + ms(1), " (suspect_timeout + 1ms)"),
                    most,
                )
            }),
            between(key, self.gossip_interval, (ms(20), ""), (most_gossip, " (5 × heartbeat_interval)")),
            count("timing.gossip_fanout", self.gossip_fanout, 1, 16),
            between(key_probe, self.probe_timeout, (ms(1), ""), (most_probe, " (suspect_timeout / 15)")),
            within("timing.retry_interval", self.retry_interval, ms(100), minute * 10),
            between(key_reap, self.reap_after, (minute.max(self.down_timeout), reap_rule), (minute * 60 * 24 * 30, "")),
            within("timing.link_keepalive", self.link_keepalive, ms(1_000), minute * 10),
            count("mtu", self.mtu, 1000, MAX_MTU),
            count("observers", self.observers, 2, 64),
        ];
        checks.into_iter().filter_map(Result::err).collect()
    }

    /// Returns the time of [`Timing::longest_quiet`] by these settings.
    pub fn longest_quiet(&self) -> Duration {
        longest_quiet(self.heartbeat_interval, self.suspect_timeout)
    }

    /// Returns the part that travels in the node's record.
    pub fn timing(&self) -> Result<Timing, OutOfRange> {
        Timing::new(self.heartbeat_interval, self.suspect_timeout, self.down_timeout)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Profile::Default.settings()
    }
}

/// Named sets of [`Settings`], with the values of the documents in headcount's page `requirements`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Heartbeat 5 s, Suspect at 10 s, Down at 15 s: the fewest packets.
    #[default]
    Default,
    /// Everything on one machine: 200 ms, 1 s, 2 s. For development and tests.
    Local,
    /// One data centre: 2 s, 6 s, 10 s.
    Lan,
    /// Several regions: 10 s, 30 s, 60 s.
    Wan,
    /// The earliest detection: a heartbeat every 0.32 s, to about eight observers in turn; 1.5 s, 4.2 s, and 2.6 s
    /// for a host that is silent, too.
    Fast,
}

impl Profile {
    /// All profiles, in the order in which they are documented.
    pub const ALL: [Profile; 5] = [Profile::Default, Profile::Local, Profile::Lan, Profile::Wan, Profile::Fast];

    /// Returns the profile's name in configuration files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Default => "default",
            Profile::Local => "local",
            Profile::Lan => "lan",
            Profile::Wan => "wan",
            Profile::Fast => "fast",
        }
    }

    /// Returns the profile's settings.
    pub const fn settings(self) -> Settings {
        let (heartbeat, suspect, down, gossip, probe, retry) = match self {
            Profile::Default => (5_000, 10_000, 15_000, 1_000, 500, 5_000),
            Profile::Local => (200, 1_000, 2_000, 500, 50, 1_000),
            Profile::Lan => (2_000, 6_000, 10_000, 1_000, 200, 5_000),
            Profile::Wan => (10_000, 30_000, 60_000, 1_000, 2_000, 10_000),
            Profile::Fast => (3_200, 1_500, 4_200, 320, 100, 2_000),
        };
        let is_fast = matches!(self, Profile::Fast);
        Settings {
            heartbeat_interval: ms(heartbeat),
            suspect_timeout: ms(suspect),
            down_timeout: ms(down),
            host_down_timeout: if is_fast { Some(ms(2_600)) } else { None },
            gossip_interval: ms(gossip),
            // One alone hears each heartbeat of `fast`, too, and must hear more than one within its suspect timeout.
            gossip_fanout: if is_fast { 1 } else { 3 },
            probe_timeout: ms(probe),
            retry_interval: ms(retry),
            reap_after: Duration::from_secs(24 * 3600),
            link_keepalive: ms(30_000),
            mtu: 1400,
            observers: if matches!(self, Profile::Fast | Profile::Lan) { 8 } else { 10 },
        }
    }

    /// Returns the profile's timing of leases.
    pub const fn lease_timing(self) -> LeaseTiming {
        let (lease, renewal) = match self {
            Profile::Default => (15_000, 5_000),
            Profile::Local => (2_000, 500),
            Profile::Lan => (6_000, 2_000),
            Profile::Wan => (45_000, 15_000),
            Profile::Fast => (4_500, 1_500),
        };
        LeaseTiming { lease_duration: ms(lease), renewal_interval: ms(renewal) }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Profile {
    type Err = OutOfRange;
    fn from_str(name: &str) -> Result<Self, OutOfRange> {
        Self::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| OutOfRange {
            key: "profile",
            found: name.to_owned(),
            allowed: "default, local, lan, wan, fast".to_owned(),
        })
    }
}

/// The error for a setting outside of its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {found} is out of range: allowed is {allowed}")]
pub struct OutOfRange {
    /// The key, with its section, as in the configuration file.
    pub key: &'static str,
    /// The value found.
    pub found: String,
    /// The values allowed, in words.
    pub allowed: String,
}

impl OutOfRange {
    pub(super) fn new(key: &'static str, found: Duration, allowed: String) -> Self {
        Self { key, found: human(found), allowed }
    }
}

fn longest_quiet(heartbeat_interval: Duration, suspect_timeout: Duration) -> Duration {
    suspect_timeout.max(heartbeat_interval * 2)
}

fn within(key: &'static str, found: Duration, least: Duration, most: Duration) -> Result<(), OutOfRange> {
    between(key, found, (least, ""), (most, ""))
}

/// Checks a duration; each bound comes with the rule it follows from, if it follows from another key.
fn between(
    key: &'static str,
    found: Duration,
    (least, why_least): (Duration, &str),
    (most, why_most): (Duration, &str),
) -> Result<(), OutOfRange> {
    if found < least || found > most {
        let allowed = format!("{}{why_least} to {}{why_most}", human(least), human(most));
        return Err(OutOfRange::new(key, found, allowed));
    }
    Ok(())
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn count(key: &'static str, found: usize, least: usize, most: usize) -> Result<(), OutOfRange> {
    if found < least || found > most {
        return Err(OutOfRange { key, found: found.to_string(), allowed: format!("{least} to {most}") });
    }
    Ok(())
}

fn human(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_keeps_the_bounds() {
        for profile in Profile::ALL {
            assert_eq!(profile.settings().check(), Ok(()), "{profile}");
            assert_eq!(profile.name().parse(), Ok(profile));
        }
    }

    #[test]
    fn each_bound_refuses_with_key_value_and_range() {
        type Change = fn(&mut Settings);
        let cases: [(&str, Change); 12] = [
            ("timing.heartbeat_interval", |s| s.heartbeat_interval = Duration::from_millis(49)),
            ("timing.heartbeat_interval", |s| s.heartbeat_interval = Duration::from_secs(61)),
            ("timing.suspect_timeout", |s| s.suspect_timeout = Duration::from_millis(1_665)),
            ("timing.down_timeout", |s| s.down_timeout = s.suspect_timeout),
            ("timing.down_timeout", |s| s.down_timeout = Duration::from_secs(3_601)),
            ("timing.gossip_interval", |s| s.gossip_interval = Duration::from_secs(26)),
            ("timing.gossip_fanout", |s| s.gossip_fanout = 17),
            ("timing.probe_timeout", |s| s.probe_timeout = Duration::from_millis(667)),
            ("timing.retry_interval", |s| s.retry_interval = Duration::from_millis(99)),
            ("timing.reap_after", |s| s.reap_after = Duration::from_secs(59)),
            ("mtu", |s| s.mtu = 1401),
            ("observers", |s| s.observers = 1),
        ];
        for (key, change) in cases {
            let mut settings = Settings::default();
            change(&mut settings);
            let error = settings.check().expect_err(key);
            assert_eq!(error.key, key);
            assert!(error.to_string().contains(&error.found) && !error.allowed.is_empty(), "{error}");
        }
        assert!(Timing::new(ms(50), ms(100), ms(101)).is_ok());
    }

    #[test]
    fn independent_problems_are_all_told_and_a_bound_names_the_key_it_follows_from() {
        let settings = Settings { probe_timeout: ms(700), mtu: 9000, gossip_fanout: 0, ..Settings::default() };
        let problems = settings.problems();
        assert_eq!(
            problems.iter().map(|problem| problem.key).collect::<Vec<_>>(),
            ["timing.gossip_fanout", "timing.probe_timeout", "mtu"]
        );
        assert_eq!(problems[1].allowed, "1ms to 666ms (suspect_timeout / 15)");
    }
}
