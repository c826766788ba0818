//! `headcount lead`: runs a command while the agent's node leads.
//!
//! ```text
//!   agent ◀─ begin (confirmed by a majority) ─ lead ──▶ command, with all that it starts
//!         ◀─ how long may it go on? ────────── watcher thread, every few hundredths of a lease
//!         ◀─ it has ended ──────────────────── lead
//! ```
//!
//! Invariants:
//! - The command runs only within a claim that the agent confirmed, counted from before the request, on a clock that
//!   counts suspended time. If the agent does not answer, the claim is not renewed, and the command ends in time.
//! - The agent is told that the command has ended when no process of it is left. Its hand-over waits for that; if one
//!   cannot be killed, until the claim is over.
//! - Only signals and the command's own end are waited for without a bound.
//!
//! Limit: it cannot end a command in time while it is suspended itself (SIGSTOP, a paused virtual machine). The term
//! guards against that, as a fencing token in everything that the command writes elsewhere.
//!
//! | idea | file |
//! |---|---|
//! | the command's deadline | `deadline` |
//! | the command, ended with all that it started | `process` |

mod deadline;
mod process;

use std::io::{self, Write as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use self::deadline::{Deadline, Step};
use self::process::{Ended, Running};
use super::args::LeadArgs;
use super::client::connect;
use super::failure::{Exit, Failure};
use super::human::plain;
use super::logs::print_final_error;
use super::signals::Copies;
use crate::agent::Clock;
use crate::client::{Client, ClientError};
use crate::core::Time;
use crate::core::election::MAX_LEASE;
use crate::json::{Leader, LedWork};

pub(super) use self::process::exec;

/// Interval between two requests for the agent's leadership.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Time limit for one such request.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval between two renewals of the claim, as a divisor of the first claim …
const RENEW_SHARE: u32 = 40;
/// … with this minimum and …
const LEAST_RENEW_PAUSE: Duration = Duration::from_millis(20);
/// … this maximum: a hand-over waits for this.
const MOST_RENEW_PAUSE: Duration = Duration::from_millis(200);
/// Signals that are passed on to the command: it runs in a process group of its own, which signals from a terminal, or
/// to this process, do not reach. Their effect is the command's decision.
const PASSED_ON: [Signal; 5] = [Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH];
/// Signals among [`PASSED_ON`] that have no effect while no command runs.
const MEANT_FOR_A_COMMAND: [Signal; 3] = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH];
/// Interval at which the command's end is looked for.
const TICK: Duration = Duration::from_millis(20);

/// A message to the main thread.
enum WatchEvent {
    /// A signal, from the system or from Ctrl-C.
    Signal(Signal),
    /// The agent's answer about this piece of work, to the request made at `asked`; no remaining time means that
    /// leadership is over.
    Claim { id: String, asked: Time, remaining: Option<Duration> },
}

/// The end of one run of the command.
enum End {
    /// The command ended by itself, or because this process was told to end it.
    Exited(Exit),
    /// Leadership ended, and the command with it.
    LeadershipLost,
}

pub(super) fn run(args: &LeadArgs) -> Result<Exit, Failure> {
    let client = connect(&args.agent)?;
    process::check(&args.command)?;
    let most = deadline::longest_grace(MAX_LEASE);
    if args.grace.is_some_and(|grace| grace > most) {
        return Err(Failure::usage("--grace is too long for any lease").hint(format!(
            "a third of the lease at most, so that it is {} at most",
            humantime::format_duration(most)
        )));
    }
    let (told, news) = mpsc::channel();
    listen(told.clone())?;
    #[cfg(target_os = "linux")]
    crate::process::wait_for_strays();
    let mut lead = Lead { args, client, clock: Clock::start(), told, news, is_told_to_stop: false, is_all_gone: true };
    loop {
        let Some(work) = lead.wait_to_lead()? else { return Ok(Exit::DONE) };
        let term = work.term;
        match lead.run_once(&work)? {
            End::Exited(exit) if !args.keep || lead.is_told_to_stop || exit != Exit::DONE => return Ok(exit),
            End::Exited(_) => lead.wait_for_end_of(term)?,
            End::LeadershipLost if lead.is_told_to_stop || !args.keep => return Ok(Exit::LEADERSHIP_LOST),
            End::LeadershipLost => {}
        }
        if lead.is_told_to_stop {
            return Ok(Exit::DONE);
        }
    }
}

struct Lead<'a> {
    args: &'a LeadArgs,
    client: Client,
    clock: Clock,
    told: Sender<WatchEvent>,
    news: Receiver<WatchEvent>,
    is_told_to_stop: bool,
    /// False from when a command is started until no process of it is left.
    is_all_gone: bool,
}

/// A permit to work, with the time of the request for it.
struct WorkPermit {
    id: String,
    node: String,
    term: u64,
    asked: Time,
    claim: Duration,
}

impl Lead<'_> {
    /// Waits until the agent's node leads, proven by a majority; returns `None` if this process is to stop before that.
    fn wait_to_lead(&mut self) -> Result<Option<WorkPermit>, Failure> {
        let mut said = String::new();
        let mut say = |what: String| {
            if said != what {
                tell(&what);
                said = what;
            }
        };
        loop {
            match self.look() {
                Ok(leader) if leader.state == "disabled" => {
                    return Err(Failure::failed("leaders are not elected here, so that this command would never run")
                        .hint("start agents with --voters (mode = \"quorum\") or --lease-url (mode = \"lease\")"));
                }
                Ok(leader) if leader.contends == Some(false) => {
                    return Err(Failure::failed(format!(
                        "the agent at {} does not contend for the lease {}, so that this command would never run",
                        self.client.address(),
                        self.args.lease.clone().unwrap_or_default()
                    ))
                    .hint("name it in leadership.lease.leases of that agent, or take another one with --lease: `headcount info` lists them"));
                }
                Ok(leader) if leader.is_me => match self.begin() {
                    Ok(Some(permit)) => return Ok(Some(permit)),
                    Ok(None) => {}
                    Err(failure) => say(format!("{failure}; trying on")),
                },
                Ok(leader) => say(format!(
                    "{} leads; waiting for the node of the agent at {} to lead (--http asks another agent)",
                    leader.leader.as_deref().map_or_else(|| "nobody".to_owned(), plain),
                    self.client.address()
                )),
                Err(error) if error.is_transient() => say(format!("{error}; waiting for it")),
                Err(error) => return Err(error.into()),
            }
            if self.await_stop(LOOK_AGAIN) {
                return Ok(None);
            }
        }
    }

    /// Asks for the leader, within the time limit of one look.
    fn look(&self) -> Result<Leader, ClientError> {
        self.client.clone().with_timeout(LOOK_TIMEOUT).leader(self.args.lease.as_ref())
    }

    fn begin(&self) -> Result<Option<WorkPermit>, Failure> {
        let asked = self.clock.now();
        let work = self.client.begin_work(self.args.lease.as_ref())?;
        let LedWork { id, node, term, lease_remaining_ms, .. } = work;
        Ok(lease_remaining_ms.map(|ms| WorkPermit { id, node, term, asked, claim: Duration::from_millis(ms) }))
    }

    /// Waits for this long, or until this process is told to stop; returns true if it is.
    fn await_stop(&mut self, time: Duration) -> bool {
        if let Ok(WatchEvent::Signal(signal)) = self.news.recv_timeout(time) {
            self.is_told_to_stop |= !MEANT_FOR_A_COMMAND.contains(&signal);
        }
        self.is_told_to_stop
    }

    /// Waits until this term is over.
    fn wait_for_end_of(&mut self, term: u64) -> Result<(), Failure> {
        while !self.await_stop(LOOK_AGAIN) {
            match self.look() {
                Ok(leader) if leader.is_me && leader.term == term => {}
                Ok(_) => break,
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Runs the command to its end, within the claim.
    fn run_once(&mut self, permit: &WorkPermit) -> Result<End, Failure> {
        self.is_all_gone = true;
        let end = self.run_within_claim(permit);
        if self.is_all_gone {
            // If this gets lost, the agent waits until the end of the claim that it confirmed last.
            let _ = self.client.clone().with_timeout(LOOK_TIMEOUT).end_work(&permit.id);
        } else {
            // This process may end at once, and nothing has to be in time any more.
            print_final_error(
                "headcount: the command may have left processes that cannot be killed: nobody else leads before the claim is over",
            );
        }
        end
    }

    fn run_within_claim(&mut self, permit: &WorkPermit) -> Result<End, Failure> {
        let deadline = Deadline::new(permit.asked, permit.claim, self.args.grace);
        let mut deadline = deadline.map_err(|most| {
            let most = Duration::from_millis(most.as_millis() as u64);
            Failure::usage("--grace is too long: the command would be ended between two renewals of the lease")
                .hint(format!("here it is {} at most", humantime::format_duration(most)))
        })?;
        let environment = [
            ("HEADCOUNT_TERM", permit.term.to_string()),
            ("HEADCOUNT_NODE", permit.node.clone()),
            ("HEADCOUNT_AGENT", self.client.address().to_owned()),
        ];
        if !matches!(deadline.step(self.clock.now()), Step::Wait(_)) {
            return Ok(End::LeadershipLost);
        }
        let watcher = Watcher::new(self, permit)?;
        let mut running = Running::start(&self.args.command, &environment)?;
        self.is_all_gone = false;
        let end = self.watch(permit, &mut running, &mut deadline);
        drop(watcher);
        end
    }

    fn watch(&mut self, permit: &WorkPermit, running: &mut Running, deadline: &mut Deadline) -> Result<End, Failure> {
        loop {
            let failed = |error| Failure::failed(format!("cannot wait for the command: {error}"));
            if let Some(Ended { exit, is_all_gone }) = running.ended().map_err(failed)? {
                self.is_all_gone = is_all_gone;
                return Ok(if deadline.is_ending() { End::LeadershipLost } else { End::Exited(exit) });
            }
            let pause = match deadline.step(self.clock.now()) {
                Step::Wait(time) => time.min(TICK),
                Step::Terminate => {
                    running.signal(Signal::SIGTERM);
                    tell("leadership ends, and the command with it");
                    Duration::ZERO
                }
                Step::Kill => {
                    running.kill();
                    TICK
                }
            };
            match self.news.recv_timeout(pause) {
                // A late answer about an earlier run is ignored, below.
                Ok(WatchEvent::Claim { id, asked, remaining }) if id == permit.id => deadline.told(asked, remaining),
                Ok(WatchEvent::Signal(signal)) if PASSED_ON.contains(&signal) => running.signal(signal),
                Ok(WatchEvent::Signal(_)) => {
                    // The second signal is meant for a command that does not end.
                    let again = std::mem::replace(&mut self.is_told_to_stop, true);
                    if again { running.kill() } else { running.signal(Signal::SIGTERM) }
                }
                Ok(WatchEvent::Claim { .. }) | Err(_) => {}
            }
        }
    }
}

/// Asks the agent repeatedly for the remaining time of the claim, on a thread of its own: an agent that does not answer
/// holds nothing up. Ends when this value is dropped, or after reporting that leadership is over.
struct Watcher {
    _goes_on: Sender<()>,
}

impl Watcher {
    fn new(lead: &Lead<'_>, permit: &WorkPermit) -> Result<Self, Failure> {
        let (goes_on, is_over) = mpsc::channel::<()>();
        let (clock, told, id) = (lead.clock, lead.told.clone(), permit.id.clone());
        let (claim, term) = (permit.claim, permit.term);
        // A client of its own: the watcher waits for no connection of others.
        let client = connect(&lead.args.agent)?.with_timeout(claim / 4);
        let pause = (claim / RENEW_SHARE).clamp(LEAST_RENEW_PAUSE, MOST_RENEW_PAUSE);
        let watch = move || {
            while is_over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let asked = clock.now();
                let remaining = match client.renew_work(&id) {
                    Ok(work) if work.term == term => work.lease_remaining_ms.map(Duration::from_millis),
                    // The next request may be answered.
                    Err(error) if error.is_transient() => continue,
                    Ok(_) | Err(_) => None,
                };
                if told.send(WatchEvent::Claim { id: id.clone(), asked, remaining }).is_err() || remaining.is_none() {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new().name("headcount-lead".to_owned()).spawn(watch);
        started.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        Ok(Self { _goes_on: goes_on })
    }
}

/// Passes signals on to the main thread. Must be called before any other thread is started: the signals are blocked in
/// all later ones. (The command begins with no signal blocked.)
fn listen(told: Sender<WatchEvent>) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("cannot listen for signals: {error}"));
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().chain(PASSED_ON).collect();
    signals.thread_block().map_err(|error| failed(&error))?;
    let hear = move || {
        let mut copies = Copies::default();
        while let Ok(signal) = signals.wait() {
            let is_taken = PASSED_ON.contains(&signal) || copies.take(signal, Instant::now());
            if is_taken && told.send(WatchEvent::Signal(signal)).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("headcount-sig".to_owned()).spawn(hear);
    started.map(drop).map_err(|error| failed(&error))
}

/// Writes a message to standard error. The command's deadline does not wait for a reader.
fn tell(what: &str) {
    let text = format!("headcount: {what}");
    let _ = std::thread::Builder::new().name("headcount-say".to_owned()).spawn(move || {
        let _ = writeln!(io::stderr(), "{text}");
    });
}
