//! Rates: of packets that strangers provoke (turns), bounded in memory by construction; and of packets of records (pages), of
//! this node's view to joiners and of differences to members.
//!
//! Each address gets one turn in [`QUESTION_INTERVAL`], and all together a fixed number. An address that this node itself
//! contacted takes none of those. So many strangers at once (another cluster that has this node among its seeds) keep
//! neither islands that look for each other nor a `join` command waiting.
//!
//! Invariants:
//! - Memory is bounded by the number of turns, whatever arrives.
//! - At most [`PAGES_PER_INTERVAL`] packets of records go out in [`PAGES_INTERVAL`], whoever they are for; when a cut heals, and
//!   everybody compares views, [`MEMBERS_PAGES_PER_INTERVAL`] of them go to members, and the rest is left to joiners. (How many
//!   go to one member is limited with all answers to it: see `packet::outbox`.)
//!
//! Must not know: the contents of a packet, or which records are sent.

use std::net::SocketAddr;
use std::time::Duration;

use crate::limits::{
    CONTACT_MEMORY, MAX_CONTACTED, MAX_ELSEWHERE, MAX_QUESTIONS, MAX_STRANGER_ANSWERS, QUESTION_INTERVAL,
};
use crate::recent::{PerInterval, Recent};
use crate::time::Time;

/// A kind of turns: each address has one of each kind in [`QUESTION_INTERVAL`], and none takes a turn from another.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Turn {
    /// A question who that is.
    Question,
    /// A packet to an address where none came from, which may be a third party's: where others say that somebody is, where a
    /// joiner or one that introduces itself wants to be spoken to, where somebody asks to be reached.
    Elsewhere,
    /// To be let into the view.
    Introduction,
    /// To be heard about this node's own status, without being in the view.
    Objection,
    /// To be told that its cluster or version is another one. A crowd of those keeps nobody of this cluster waiting.
    Refusal,
    /// To be told the status held of its name, by which it is not let in.
    HeldStatus,
}

impl Turn {
    const COUNT: usize = Turn::HeldStatus as usize + 1;

    /// Returns the greatest number of them in an interval in all.
    const fn most(self) -> usize {
        match self {
            Turn::Question => MAX_QUESTIONS,
            Turn::Elsewhere => MAX_ELSEWHERE,
            Turn::Introduction | Turn::Objection | Turn::Refusal | Turn::HeldStatus => MAX_STRANGER_ANSWERS,
        }
    }
}

/// The turns that addresses took lately.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    rates: [PacketRate; Turn::COUNT],
    /// Addresses that this node contacted itself a moment ago: seeds, remembered ones, those that a command or a member named.
    expected: Recent<SocketAddr>,
    /// Bytes of answers to the packet at hand that went to addresses which have not echoed.
    answered_bytes: usize,
}

impl Default for Turns {
    fn default() -> Self {
        Self { rates: Default::default(), expected: Recent::new(CONTACT_MEMORY, MAX_CONTACTED), answered_bytes: 0 }
    }
}

impl Turns {
    /// Returns true if it is this address's turn, and takes it. One that this node contacted takes no turn of the others.
    pub(crate) fn take(&mut self, now: Time, turn: Turn, address: SocketAddr) -> bool {
        let is_expected = self.is_expected(now, address);
        self.rates[turn as usize].allow(now, turn.most(), address, is_expected)
    }

    /// The same, where this node asks of itself: that is no turn of those who ask it.
    pub(crate) fn take_own(&mut self, now: Time, turn: Turn, address: SocketAddr) -> bool {
        self.rates[turn as usize].allow(now, turn.most(), address, true)
    }

    /// Begins the answers to another packet.
    pub(crate) fn begin_packet(&mut self) {
        self.answered_bytes = 0;
    }

    /// Takes so many bytes from what may be answered to the packet at hand, which has `asked` bytes, and returns true if they
    /// were left: all answers to an unproven address are together no larger than the packet, whatever it asks.
    pub(crate) fn take_bytes(&mut self, asked: usize, bytes: usize) -> bool {
        let is_allowed = self.answered_bytes + bytes <= asked;
        self.answered_bytes += if is_allowed { bytes } else { 0 };
        is_allowed
    }

    /// Notes that this node contacts an address, and expects an answer.
    pub(crate) fn expect(&mut self, now: Time, address: SocketAddr) {
        self.expected.set(now, address, now);
    }

    /// Returns true if this node contacted this address a moment ago.
    pub(crate) fn is_expected(&self, now: Time, address: SocketAddr) -> bool {
        self.expected.contains(now, &address)
    }

    /// Returns the number of turns that are remembered.
    pub(crate) fn size(&self) -> usize {
        self.rates.iter().map(|rate| rate.taken.size()).sum()
    }
}

/// The turns of one kind.
#[derive(Debug, Clone)]
struct PacketRate {
    taken: Recent<SocketAddr>,
    /// The turns in this interval that others took than those that this node contacted.
    others: usize,
}

impl Default for PacketRate {
    fn default() -> Self {
        Self { taken: Recent::new(QUESTION_INTERVAL, usize::MAX), others: 0 }
    }
}

impl PacketRate {
    /// Returns true if this address may be answered or asked now, of `most` in all; counts it if so.
    fn allow(&mut self, now: Time, most: usize, address: SocketAddr, is_expected: bool) -> bool {
        if self.taken.begin_if_over(now) {
            self.others = 0;
        }
        let is_full = self.taken.lately() >= most + MAX_CONTACTED;
        if is_full || (!is_expected && self.others >= most) {
            return false;
        }
        let is_allowed = self.taken.take(now, address);
        self.others += usize::from(is_allowed && !is_expected);
        is_allowed
    }
}

/// The number of packets of records in one [`PAGES_INTERVAL`]: about 4 MB/s.
const PAGES_PER_INTERVAL: u32 = 300;
/// The number of those that go to members, which compare their views with this node's.
const MEMBERS_PAGES_PER_INTERVAL: u32 = 200;
/// The interval of [`PAGES_PER_INTERVAL`].
const PAGES_INTERVAL: Duration = Duration::from_millis(100);

/// The packets of records that were sent lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pages {
    sent: PerInterval,
    to_members: PerInterval,
}

impl Pages {
    /// Returns true if one more page may be sent now; counts it if so.
    pub(crate) fn take(&mut self, now: Time, is_member: bool) -> bool {
        let may_be_sent = !is_member || self.to_members.take(now, PAGES_INTERVAL, MEMBERS_PAGES_PER_INTERVAL);
        may_be_sent && self.sent.take(now, PAGES_INTERVAL, PAGES_PER_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn one_address_is_asked_once_a_second_across_intervals() {
        let mut turns = Turns::default();
        let turn = Turn::Introduction;
        assert!(turns.take(at(0), turn, address(2)));
        assert!(turns.take(at(900), turn, address(1)));
        assert!(turns.take(at(900), Turn::Refusal, address(1)), "of another kind");
        assert!(!turns.take(at(1_100), turn, address(1)));
        assert!(!turns.take_own(at(1_100), turn, address(1)), "nor if it was contacted");
        assert!(turns.take(at(1_900), turn, address(1)));
    }

    #[test]
    fn all_addresses_together_are_bounded_but_for_those_that_were_contacted() {
        let mut turns = Turns::default();
        let host = |i: usize| SocketAddr::from(((i as u32).to_be_bytes(), 7_117));
        let taken = |turns: &mut Turns, turn, from: usize, is_own| {
            let take = |i: &usize| {
                if is_own {
                    turns.take_own(Time::ORIGIN, turn, host(*i))
                } else {
                    turns.take(Time::ORIGIN, turn, host(*i))
                }
            };
            (from..from + 10_000).filter(take).count()
        };
        assert_eq!(taken(&mut turns, Turn::Question, 1, false), MAX_QUESTIONS);
        assert_eq!(taken(&mut turns, Turn::Question, 20_000, false), 0);
        assert_eq!(taken(&mut turns, Turn::Question, 30_000, true), MAX_CONTACTED);
        assert_eq!(taken(&mut turns, Turn::Refusal, 1, false), MAX_STRANGER_ANSWERS, "each kind by itself");
        let mut turns = Turns::default();
        assert!(taken(&mut turns, Turn::Question, 30_000, true) >= MAX_CONTACTED, "before others");
        let mut turns = Turns::default();
        turns.expect(Time::ORIGIN, host(1));
        assert!(turns.take(Time::ORIGIN, Turn::Refusal, host(1)));
        assert_eq!(
            taken(&mut turns, Turn::Refusal, 20_000, false),
            MAX_STRANGER_ANSWERS,
            "those that were contacted take no turn of theirs"
        );
        assert!(turns.size() <= 2 * (MAX_QUESTIONS + MAX_CONTACTED), "{}", turns.size());
    }

    #[test]
    fn contacts_are_remembered_for_a_while_and_are_few() {
        let mut turns = Turns::default();
        turns.expect(at(0), address(1));
        assert!(turns.is_expected(at(1), address(1)));
        assert!(!turns.is_expected(Time::ORIGIN + CONTACT_MEMORY, address(1)));
        for port in 0..u16::MAX {
            turns.expect(at(2), address(port));
        }
        assert!(turns.is_expected(at(2), address(u16::MAX - 1)));
        assert!(turns.expected.size() <= 2 * MAX_CONTACTED);
    }

    #[test]
    fn so_many_pages_are_served_in_an_interval() {
        let mut pages = Pages::default();
        for page in 0..PAGES_PER_INTERVAL {
            assert!(pages.take(Time::ORIGIN, false), "{page}");
        }
        assert!(!pages.take(Time::ORIGIN, false));
        assert!(pages.take(Time::ORIGIN + PAGES_INTERVAL, false));
    }

    #[test]
    fn members_leave_a_share_of_them_to_joiners() {
        let mut pages = Pages::default();
        let mut taken = |is_member| (0..1_000).filter(|_| pages.take(Time::ORIGIN, is_member)).count() as u32;
        assert_eq!(taken(true), MEMBERS_PAGES_PER_INTERVAL);
        assert_eq!(taken(false), PAGES_PER_INTERVAL - MEMBERS_PAGES_PER_INTERVAL);
    }
}
