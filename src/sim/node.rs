//! One simulated node: its name and address, its disk, its clock, and the process that runs its core, if there is one.
//!
//! Invariants: a process's clock starts at `Time::ORIGIN` and never falls; a disk holds the last write that was
//! acknowledged or, after a crash, perhaps the one that was under way; a paused process is handed nothing. Must not
//! know: the network, other nodes, or the purpose of the test.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::happening::Happening;
use super::network::Nanos;
use super::streams::ConnectOutcome;
use headcount_core::election::Term;
use headcount_core::{Command, Core, Durable, LinkId, NodeId, Run, Settings, StopReason, Time};

/// The port of every simulated node.
const PORT: u16 = 7117;
/// The largest number of datagrams that wait for a paused process, about as many as a socket's buffer holds.
pub(crate) const MAX_QUEUED_PACKETS: usize = 256;

/// Returns the address of the node with this number.
pub fn address_of(node: usize, ipv6: bool) -> SocketAddr {
    let number = node as u32 + 1;
    let ip: IpAddr = if ipv6 {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, (number >> 16) as u16, number as u16).into()
    } else {
        Ipv4Addr::from(0x0a00_0000 | (number & 0x00ff_ffff)).into()
    };
    SocketAddr::new(ip, PORT)
}

/// Returns the number of the node at this address. There may be no such node.
pub fn node_at(address: SocketAddr) -> Option<usize> {
    if address.port() != PORT {
        return None;
    }
    let number = match address.ip() {
        IpAddr::V4(ip) if u32::from(ip) >> 24 == 10 => u32::from(ip) & 0x00ff_ffff,
        IpAddr::V6(ip) if ip.segments()[..6] == [0x2001, 0xdb8, 0, 0, 0, 0] => {
            (u32::from(ip.segments()[6]) << 16) | u32::from(ip.segments()[7])
        }
        _ => return None,
    };
    (number as usize).checked_sub(1)
}

/// A clock that started with its process and runs a little too fast or too slow.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Nanos,
    /// Error of the rate in parts per million.
    error_ppm: i64,
}

impl Clock {
    const MILLION: u64 = 1_000_000;

    pub(crate) fn new(started: Nanos, error_ppm: i64) -> Self {
        Self { started, error_ppm }
    }

    /// Returns the reading of the clock at this true time.
    pub fn local(self, now: Nanos) -> Time {
        let elapsed = now.saturating_sub(self.started);
        // In two parts, each of which fits into 64 bits: a division of twice as many takes ten times as long.
        let (whole, rest) = (elapsed / Self::MILLION, elapsed % Self::MILLION);
        let ppm = self.error_ppm.unsigned_abs();
        let error = whole.saturating_mul(ppm).saturating_add(rest * ppm / Self::MILLION);
        let shown = if self.error_ppm < 0 { elapsed.saturating_sub(error) } else { elapsed.saturating_add(error) };
        Time::from_nanos(Time::ORIGIN.as_nanos().saturating_add(shown))
    }

    /// Returns the first true time at which the clock shows at least this.
    pub fn true_time(self, local: Time) -> Nanos {
        let shown = local.as_nanos().saturating_sub(Time::ORIGIN.as_nanos());
        let rate = Self::MILLION.saturating_add_signed(self.error_ppm);
        let elapsed = match shown.checked_mul(Self::MILLION) {
            Some(millionfold) => millionfold / rate,
            None => u64::try_from(u128::from(shown) * u128::from(Self::MILLION) / u128::from(rate)).unwrap_or(u64::MAX),
        };
        let mut now = self.started.saturating_add(elapsed);
        // Rounding is off by one or two at most.
        while self.local(now) < local && now < u64::MAX {
            now += 1;
        }
        now
    }
}

/// A disk, which outlives processes: at most one write is under way, and one waits, whose place a newer one takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    stored: Option<Durable>,
    writing: Option<Durable>,
    waiting: Option<Durable>,
}

impl Disk {
    /// Returns the stored state, as a process finds it when it starts.
    pub(crate) fn stored(&self) -> Option<&Durable> {
        self.stored.as_ref()
    }

    /// Begins a write; returns false if it has to wait for the one under way.
    pub(crate) fn write(&mut self, durable: Durable) -> bool {
        if self.writing.is_some() {
            self.waiting = Some(durable);
            return false;
        }
        self.writing = Some(durable);
        true
    }

    /// Completes the write under way; returns what is stored now, and true if the next write began.
    pub(crate) fn written(&mut self) -> Option<(Stored, bool)> {
        let done = self.writing.take()?;
        let stored = Stored::of(&done);
        self.stored = Some(done);
        self.writing = self.waiting.take();
        Some((stored, self.writing.is_some()))
    }

    /// Fails the write under way: the newest one is tried again. Returns true if there was one.
    pub(crate) fn failed(&mut self) -> bool {
        if let Some(newer) = self.waiting.take() {
            self.writing = Some(newer);
        }
        self.writing.is_some()
    }

    /// Takes note that the process dies; the write under way is stored only if it `reached` the disk.
    pub(crate) fn crash(&mut self, reached: bool) {
        self.waiting = None;
        if let Some(durable) = self.writing.take().filter(|_| reached) {
            self.stored = Some(durable);
        }
    }

    /// Empties the disk.
    pub(crate) fn lose(&mut self) {
        *self = Self::default();
    }
}

/// The versions of the state that a disk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) incarnation_bound: u64,
    /// Version of the ballot; 0 if there is none.
    pub(crate) ballot_version: u64,
}

impl Stored {
    pub(crate) fn of(durable: &Durable) -> Self {
        let ballot_version = durable.ballot.as_ref().map_or(0, |ballot| ballot.version);
        Self { incarnation_bound: durable.incarnation_bound, ballot_version }
    }
}

/// An input that waits for a paused process.
#[derive(Debug)]
pub(crate) enum Waiting {
    Packet {
        from: SocketAddr,
        bytes: Vec<u8>,
    },
    Command(Command),
    Written,
    /// Acknowledgement of a write that is kept nowhere.
    Acknowledged(Stored),
    /// The end of all work that was led in this term.
    WorkEnded(Term),
    Resolved,
    /// The outcome of opening a link.
    Answer {
        link: LinkId,
        answer: ConnectOutcome,
    },
    Frame {
        link: LinkId,
        from: SocketAddr,
        bytes: Vec<u8>,
    },
    /// The end of a link.
    Closed {
        link: LinkId,
    },
    /// Something happens to the contender for leases.
    Lease(Box<Happening>),
}

/// A running core, and all state that dies with it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) core: Core,
    pub(crate) run: Run,
    /// Number of the process, unique among all processes, so that nothing late reaches the wrong one.
    pub(crate) number: u64,
    pub(crate) clock: Clock,
    /// Time of the next wake-up, and the epoch that a wake-up must carry to be valid.
    pub(crate) wake_at: Option<Nanos>,
    pub(crate) wake_epoch: u64,
    pub(crate) paused: bool,
    /// The largest delay of its timers and packets.
    pub(crate) slowness: Nanos,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) waiting_packets: usize,
    /// Time since which its core is Up; `None` while it is not.
    pub(crate) up_since: Option<Nanos>,
    /// Time since which it was neither paused nor slow; `None` while it is.
    pub(crate) undisturbed_since: Option<Nanos>,
    pub(crate) stopped: Option<StopReason>,
    /// Number of wake-ups in a row at one instant.
    pub(crate) wakes_at_once: u32,
}

impl Process {
    pub(crate) fn new(core: Core, run: Run, number: u64, clock: Clock, now: Nanos) -> Self {
        Self {
            core,
            run,
            number,
            clock,
            wake_at: None,
            wake_epoch: 0,
            paused: false,
            slowness: 0,
            waiting: VecDeque::new(),
            waiting_packets: 0,
            up_since: None,
            undisturbed_since: Some(now),
            stopped: None,
            wakes_at_once: 0,
        }
    }

    /// Keeps an input for the time after the pause; datagrams beyond the bound are lost.
    pub(crate) fn keep(&mut self, what: Waiting) {
        if matches!(what, Waiting::Packet { .. }) {
            if self.waiting_packets == MAX_QUEUED_PACKETS {
                return;
            }
            self.waiting_packets += 1;
        }
        self.waiting.push_back(what);
    }
}

/// A place in the simulated world: a node's name, address, disk and, if it runs, process.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) address: SocketAddr,
    /// The address that its packets come from, if a translator changes it.
    pub(crate) source: Option<SocketAddr>,
    pub(crate) settings: Settings,
    pub(crate) disk: Disk,
    /// Time until which the disk is full.
    pub(crate) disk_full_until: Nanos,
    /// True if the node has a disk.
    pub(crate) is_durable: bool,
    /// Error of the wall clock, in milliseconds.
    pub(crate) wall_offset_ms: i64,
    pub(crate) process: Option<Process>,
    /// Time until which the port takes connections although its process is dead.
    pub(crate) lingers_until: Nanos,
    /// True if the host has lost its power: nothing there answers.
    pub(crate) is_off: bool,
    /// The reason for which the last process ended by itself.
    pub(crate) ended: Option<StopReason>,
    /// Number of disturbances of the network that only some nodes, this one included, are to blame for.
    pub(crate) troubles: u32,
    /// Time since which there is none.
    pub(crate) untroubled_since: Nanos,
    /// The time after which its next process dies once it is Up.
    pub(crate) doomed: Option<Duration>,
}

impl Node {
    /// Returns the process, if it runs and its core has not stopped.
    pub(crate) fn running(&self) -> Option<&Process> {
        self.process.as_ref().filter(|process| process.stopped.is_none())
    }

    /// Returns the time since which the network has been well for this node alone; `None` while it is not.
    pub(crate) fn untroubled(&self) -> Option<Nanos> {
        (self.troubles == 0).then_some(self.untroubled_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_their_nodes() {
        for node in [0, 1, 254, 255, 70_000] {
            for ipv6 in [false, true] {
                assert_eq!(node_at(address_of(node, ipv6)), Some(node));
            }
        }
        assert_eq!(node_at("10.0.0.1:1".parse().expect("an address")), None);
        assert_eq!(node_at("192.168.0.1:7117".parse().expect("an address")), None);
    }

    #[test]
    fn a_clock_is_as_exact_over_years_as_over_a_moment() {
        for error_ppm in [-10_000_i64, -333, 0, 1, 200, 10_000] {
            for exponent in 0..62 {
                for now in [1_u64 << exponent, (1 << exponent) + 999_999, 3 * (1 << exponent) / 2 + 1] {
                    let clock = Clock::new(7, error_ppm);
                    let elapsed = i128::from(now.saturating_sub(7));
                    let shown = elapsed + elapsed * i128::from(error_ppm) / 1_000_000;
                    let local = clock.local(now);
                    assert_eq!(i128::from(local.as_nanos() - Time::ORIGIN.as_nanos()), shown, "{now} {error_ppm}");
                    let back = clock.true_time(local);
                    assert!(clock.local(back) == local && back <= now.max(7) + 2, "{now} {error_ppm}: {back}");
                }
            }
        }
    }

    #[test]
    fn a_fast_clock_reaches_its_deadline_early_and_never_before_it_shows_it() {
        for ppm in [-200, 0, 200] {
            let clock = Clock::new(5_000, ppm);
            for deadline in [0, 1, 999_999, 10_000_000_000] {
                let local = Time::ORIGIN + Duration::from_nanos(deadline);
                let at = clock.true_time(local);
                assert!(clock.local(at) >= local);
                assert!(at == 5_000 || clock.local(at - 1) < local, "the first such instant");
            }
        }
        let fast = Clock::new(0, 200).true_time(Time::ORIGIN + Duration::from_secs(10));
        assert!(fast < 10_000_000_000);
    }

    #[test]
    fn a_disk_holds_what_was_acknowledged_and_perhaps_what_was_being_written() {
        let durable = |incarnation_bound| Durable { incarnation_bound, addresses: Vec::new(), ballot: None };
        let mut disk = Disk::default();
        assert!(disk.write(durable(1)));
        assert!(!disk.write(durable(2)) && !disk.write(durable(3)));
        assert_eq!(disk.written(), Some((Stored { incarnation_bound: 1, ballot_version: 0 }, true)));
        let mut reached = disk.clone();
        reached.crash(true);
        assert_eq!(reached.stored().map(|stored| stored.incarnation_bound), Some(3));
        disk.crash(false);
        assert_eq!(disk.stored().map(|stored| stored.incarnation_bound), Some(1));
        assert_eq!(disk.written(), None);
    }

    #[test]
    fn a_full_disk_tries_the_newest_again_and_keeps_what_it_has() {
        let durable = |incarnation_bound| Durable { incarnation_bound, addresses: Vec::new(), ballot: None };
        let mut disk = Disk::default();
        assert!(!disk.failed(), "nothing was being written");
        disk.write(durable(1));
        disk.written();
        disk.write(durable(2));
        disk.write(durable(3));
        assert!(disk.failed());
        assert_eq!(disk.stored().map(|stored| stored.incarnation_bound), Some(1));
        assert_eq!(disk.written().map(|(stored, more)| (stored.incarnation_bound, more)), Some((3, false)));
    }
}
