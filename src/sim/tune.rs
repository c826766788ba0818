//! The settings that meet a goal, and their cost, by a paper model of the detector.
//!
//! The goal: a silent node is Down everywhere within a given time, and healthy nodes are hardly ever accused. The model
//! follows the steps of an accusation (losses are independent; bursts and long pauses are not in it):
//!
//! 1. An observer gets a heartbeat every `T`, which are one beat for each of `k` observers. It begins to doubt when all
//!    `m = ⌊suspect_timeout / T⌋` of a timeout are lost, one at least: chance `p^m` after each that arrived.
//! 2. Six probes fail, each with the chance `q = 1 − (1 − p)²` of a lost question or answer.
//! 3. Each of the others fails to tell of a fresher sign: no answer comes to four questions, `q^4`; or it heard nothing for a
//!    timeout, `p^m` where it is long enough for its heartbeats, else `1 − (1 − p) × suspect_timeout / T`, and none of the four
//!    probes that it sends itself is answered.
//!    A suspicion is the product of these. It becomes a death if, until the down timeout, all further packets to the
//!    accuser are lost, too, and none of the `k` observers gets it through to the subject that it is accused.
//! 4. Cost: one packet a beat, and those that go to anybody.
//!
//! Invariants: the same goal gives the same proposal; a proposal passes [`Settings::check`]. Must not know: the
//! simulator, which verifies a proposal, or how a proposal is shown.

#[cfg(test)]
mod tests;

use std::time::Duration;

use headcount_core::limits::{ANYBODY_ONE_IN, FLOOD_BATCH};
use headcount_core::{Profile, Settings};

/// The goal, and the network in which it is to be met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Round trip time.
    pub rtt: Duration,
    /// Chance that a datagram is lost, one way.
    pub loss: f64,
    /// Number of nodes.
    pub nodes: usize,
    /// Time from the silence of a host until every node holds it for Down.
    pub detect_within: Duration,
    /// The largest number of wrong suspicions of a healthy node in a month.
    pub false_alarms: f64,
}

/// Average time of a beat, as a share of the longest.
const BEAT_SHARE: f64 = 0.975;

/// A month: 30 days.
pub const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);
/// Bytes of an average packet without news, with IPv4 and UDP headers. Measured: see the test.
const PACKET: f64 = 66.0;
/// The largest useful number of signs within a timeout: more are no help that is worth its bytes.
const MOST_SIGNS: u32 = 24;
/// Number of round trips that a probe may take: with jitter, and a little time to answer.
const PROBE_ROUND_TRIPS: f64 = 1.25;
/// Number of probes of a silent member.
const PROBES: i32 = 6;
/// Number of times that each other observer is asked about it.
const QUESTIONS: i32 = 4;
/// Number of probes that fit into a suspect timeout, by the rule of [`Settings::check`].
const PROBES_PER_TIMEOUT: u32 = 15;

/// Settings that meet a goal on paper, and their cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The settings.
    pub settings: Settings,
    /// Cost and alarms that the model expects of them.
    pub expected: Expected,
}

/// Figures that the model expects of some settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Number of wrong suspicions of a node in a month.
    pub suspicions: f64,
    /// Number of wrong deaths of a node in a month.
    pub deaths: f64,
    /// Bytes that a node sends per second, headers of IPv4 and UDP included.
    pub bytes: f64,
    /// The longest time from the silence of a host until every node holds it for Down.
    pub down_within: Duration,
}

/// The reason for which there is no proposal, and the nearest goal that can be met.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Infeasible {
    /// A figure is out of range.
    #[error("{what} = {found} is out of range: allowed is {allowed}")]
    OutOfRange {
        /// Name of the figure.
        what: &'static str,
        /// The value found.
        found: String,
        /// The values allowed.
        allowed: &'static str,
    },
    /// The probes and a refutation take longer than the goal allows, at this round trip time.
    #[error(
        "{} is too soon: at a round trip of {} the probes before a suspicion and a refutation after it take {}",
        human(*.wanted), human(*.rtt), human(*.nearest)
    )]
    TooSoon {
        /// The time that was asked for.
        wanted: Duration,
        /// The round trip time.
        rtt: Duration,
        /// The shortest time that is possible.
        nearest: Duration,
    },
    /// The loss is too high for so few alarms within this time.
    #[error(
        "at {:.1} % loss and within {} a node is wrongly suspected {} times a month, however often it is heard",
        .loss * 100.0, human(*.within), rough(*.reachable)
    )]
    TooLossy {
        /// The loss.
        loss: f64,
        /// The time that was asked for.
        within: Duration,
        /// The smallest number of false alarms that is possible in that time.
        reachable: f64,
        /// The shortest time in which so few alarms are possible, if there is one.
        nearest: Option<Duration>,
    },
}

/// Formats a duration for people.
fn human(duration: Duration) -> String {
    let millis = duration.as_millis() as u64;
    if millis < 60_000 && !millis.is_multiple_of(1_000) {
        return format!("{millis}ms");
    }
    humantime::format_duration(Duration::from_millis(millis)).to_string().replace(' ', "")
}

/// Formats a figure that may be very small, in two digits. The model does not justify figures below 1e-9: the events
/// that it leaves out are not so rare.
pub fn rough(figure: f64) -> String {
    match figure {
        ..1e-9 => "under 1e-9".to_owned(),
        0.01..1e4 => format!("{figure:.2}"),
        _ => format!("{figure:.0e}"),
    }
}

/// Returns the cheapest settings that meet the goal.
pub fn propose(goal: &Goal) -> Result<Proposal, Infeasible> {
    check(goal)?;
    match cheapest(goal) {
        Ok(proposal) => Ok(proposal),
        Err(Infeasible::TooLossy { loss, within, reachable, .. }) => {
            // An hour is the longest down timeout allowed.
            let longer = (1..).map(|step| within.mul_f64(1.1_f64.powi(step)));
            let nearest = longer
                .take_while(|within| *within <= Duration::from_secs(3_600))
                .map(up_to_tenths)
                .find(|within| cheapest(&Goal { detect_within: *within, ..*goal }).is_ok());
            Err(Infeasible::TooLossy { loss, within, reachable, nearest })
        }
        Err(other) => Err(other),
    }
}

/// Returns the next whole tenth of a second, or the duration itself if it is one to the nanosecond.
fn up_to_tenths(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_nanos().div_ceil(100_000_000) as u64 * 100)
}

fn check(goal: &Goal) -> Result<(), Infeasible> {
    let refuse = |what, found: String, allowed| Err(Infeasible::OutOfRange { what, found, allowed });
    if goal.rtt > Duration::from_secs(5) {
        return refuse("rtt", human(goal.rtt), "0 to 5s");
    }
    if !(0.0..=0.5).contains(&goal.loss) {
        return refuse("loss", goal.loss.to_string(), "0 to 0.5");
    }
    if !(2..=100_000).contains(&goal.nodes) {
        return refuse("nodes", goal.nodes.to_string(), "2 to 100000");
    }
    if goal.detect_within > Duration::from_secs(3_600) {
        return refuse("detect-within", human(goal.detect_within), "up to 1h");
    }
    if !(goal.false_alarms > 0.0 && goal.false_alarms.is_finite()) {
        return refuse("false-alarms-per-month", goal.false_alarms.to_string(), "more than 0");
    }
    Ok(())
}

/// Returns the cheapest settings that meet the goal exactly as it is. Tries numbers of heartbeats within a timeout in ascending order,
/// since the fewest cost least.
fn cheapest(goal: &Goal) -> Result<Proposal, Infeasible> {
    let frame = Frame::of(goal)?;
    let mut reachable = f64::INFINITY;
    for signs in 0..=MOST_SIGNS {
        let settings = frame.settings(signs);
        if settings.check().is_err() {
            continue;
        }
        let expected = expect(&settings, goal);
        reachable = reachable.min(expected.suspicions);
        if expected.suspicions <= goal.false_alarms {
            return Ok(Proposal { settings, expected });
        }
    }
    Err(Infeasible::TooLossy { loss: goal.loss, within: goal.detect_within, reachable, nearest: None })
}

/// The settings that do not depend on how often a node is heard.
struct Frame {
    suspect: Duration,
    down: Duration,
    probe: Duration,
    /// The number of observers of a node.
    observers: usize,
}

impl Frame {
    fn of(goal: &Goal) -> Result<Self, Infeasible> {
        let least_probe = ms(goal.rtt.mul_f64(PROBE_ROUND_TRIPS) + Duration::from_millis(5));
        let least_suspect = (least_probe * PROBES_PER_TIMEOUT).max(Duration::from_millis(300));
        let refutation = refutation(goal);
        let nearest = least_suspect + refutation + dissemination_time(goal);
        if goal.detect_within < nearest {
            return Err(Infeasible::TooSoon {
                wanted: goal.detect_within,
                rtt: goal.rtt,
                nearest: up_to_tenths(nearest),
            });
        }
        let down = tidy(goal.detect_within.saturating_sub(dissemination_time(goal)));
        // Two thirds, as in the default profile, unless that leaves too little time on either side.
        let suspect = tidy((down * 2 / 3).min(down.saturating_sub(refutation)).max(least_suspect));
        let probe = (suspect / 20).max(least_probe).min(suspect / PROBES_PER_TIMEOUT);
        let probe = Duration::from_millis(probe.as_millis() as u64);
        Ok(Self { suspect, down, probe, observers: observers(goal, &Profile::Default.settings()) })
    }

    fn settings(&self, signs: u32) -> Settings {
        let (usual, fast) = (Profile::Default.settings(), Profile::Fast.settings());
        // Without any the observers take turns that are longer than the timeout, as in the profile `fast`. A tenth is left so that the
        // last sign is not due at the deadline.
        let turns = fast.gossip_interval.div_duration_f64(fast.suspect_timeout) * fast.observers as f64
            / fast.gossip_fanout as f64;
        let share = if signs == 0 { turns } else { 1.0 / (f64::from(signs) + 0.1) };
        let heartbeat = tidy(self.suspect.mul_f64(share)).min(Duration::from_secs(60));
        let gossip = tidy(heartbeat * usual.gossip_fanout as u32 / self.observers as u32);
        let retry = tidy(self.down / 3).clamp(Duration::from_secs(1), Duration::from_secs(10));
        Settings {
            heartbeat_interval: heartbeat,
            suspect_timeout: self.suspect,
            down_timeout: self.down,
            gossip_interval: gossip.clamp(Duration::from_millis(20), Duration::from_secs(1)).min(heartbeat * 5),
            probe_timeout: self.probe,
            retry_interval: retry,
            reap_after: usual.reap_after.max(self.down),
            ..usual
        }
    }
}

fn observers(goal: &Goal, settings: &Settings) -> usize {
    goal.nodes.saturating_sub(1).clamp(1, settings.observers)
}

/// Returns the time that news takes to reach all nodes: the hops needed if each reaches six times as many nodes, and
/// one more for losses.
fn dissemination_time(goal: &Goal) -> Duration {
    let hops = (goal.nodes as f64).log(6.0).ceil() + 1.0;
    (goal.rtt / 2 + FLOOD_BATCH).mul_f64(hops)
}

/// Returns the time that an accused node needs to be told by a peer, to answer, and to be heard by all, twice.
fn refutation(goal: &Goal) -> Duration {
    (goal.rtt + dissemination_time(goal)) * 2 + Duration::from_millis(100)
}

/// Returns the figures that the model expects of these settings.
pub fn expect(settings: &Settings, goal: &Goal) -> Expected {
    let observers = observers(goal, settings) as f64;
    let fanout = observers.min(settings.gossip_fanout as f64);
    let loss = goal.loss;
    let (heartbeat, gossip) = (settings.heartbeat_interval.as_secs_f64(), settings.gossip_interval.as_secs_f64());
    let beat = (heartbeat / observers).min(gossip / fanout) * BEAT_SHARE;
    let turn = beat * observers;
    let signs = |window: Duration| (window.as_secs_f64() / turn).floor();

    let round_trip_fails = 1.0 - (1.0 - loss).powi(2);
    let witnesses = observers - 1.0;
    let suspect = settings.suspect_timeout.as_secs_f64();
    let is_unheard = match signs(settings.suspect_timeout) {
        0.0 => 1.0 - (1.0 - loss) * suspect / turn,
        signs => loss.powf(signs),
    };
    let says_nothing = (1.0 + is_unheard) * round_trip_fails.powi(QUESTIONS);
    let doubts = MONTH.as_secs_f64() / turn * (1.0 - loss) * loss.powf(signs(settings.suspect_timeout).max(1.0));
    let suspicions = observers * doubts * round_trip_fails.powi(PROBES) * says_nothing.min(1.0).powf(witnesses);
    let chance = settings.down_timeout.saturating_sub(settings.suspect_timeout);
    let deaths = suspicions * loss.powf(signs(chance)) * round_trip_fails.powf(observers);

    // Where not all nodes observe each other, some packets go to anybody.
    let is_mesh = goal.nodes <= settings.observers + 1;
    let to_anybody = if is_mesh { 0.0 } else { fanout / f64::from(ANYBODY_ONE_IN) / (gossip * BEAT_SHARE) };
    let bytes = (1.0 / beat + to_anybody) * PACKET;
    Expected { suspicions, deaths, bytes, down_within: settings.down_timeout + dissemination_time(goal) }
}

fn ms(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_nanos().div_ceil(1_000_000) as u64)
}

/// Rounds down to a figure that people like to read: tenths of a second, hundredths below two seconds.
fn tidy(duration: Duration) -> Duration {
    let unit = if duration >= Duration::from_secs(2) { 100 } else { 10 };
    Duration::from_millis((duration.as_millis() as u64 / unit * unit).max(unit))
}
