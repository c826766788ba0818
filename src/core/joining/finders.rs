//! Finders: members that look for a node with an empty disk before it finds them.
//!
//! A voter that lost its disk may know other such voters alone, since they are everybody's seeds; the members that live
//! on are nobody's. Together those voters would found a cluster, and an electorate beside the one that the others know.
//! But the others look for them (see `leadership::missing`), and find them while they still look for each other: so a
//! joiner that is to form an electorate, and has reached no member yet, asks whoever finds it to let it in, too.
//!
//! ```text
//! member ─ WhoAreYou(a) ─▶ joiner      joiner ─ WhoAreYou(b, echo a) ─▶ member
//! member ─ IAm(b), Up ───▶ joiner      joiner ─ Join ─▶ member, as if it were a seed's, at each try
//! ```
//!
//! Any other joiner goes on by its seeds alone. Whoever is in the network and has no key to be kept out by may be a
//! finder; it gains no more than by taking a voter's name.
//!
//! Invariants:
//! - A finder's address echoed a nonce of ours; at most [`MAX_FINDERS`] are asked.
//! - All finders together put a founding off once, for [`FINDER_PATIENCE`] at most, unless one of them lets this node in.
//! - Members that look for this node are answered by no more than they asked, each once in [`MISSING_VOTER_PAUSE`].
//!
//! Must not know: which electorate the members know of.

use std::net::SocketAddr;

use super::join::Joiner;
use crate::discovery::Reunion;
use crate::limits::{FINDER_PATIENCE, MAX_FINDERS, MAX_JOINERS, MISSING_VOTER_PAUSE};
use crate::member::{Record, Status};
use crate::packet::{Outbox, Sender};
use crate::recent::Recent;
use crate::time::Time;

/// The members that found this joiner.
#[derive(Debug, Clone)]
pub(crate) struct Finders {
    addresses: Vec<SocketAddr>,
    /// The time at which the first one was met.
    since: Option<Time>,
    answered: Recent<SocketAddr>,
}

impl Default for Finders {
    fn default() -> Self {
        let answered = Recent::new(MISSING_VOTER_PAUSE, MAX_JOINERS);
        Self { addresses: Vec::new(), since: None, answered }
    }
}

impl Finders {
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the time until which no cluster is founded, since a member was met.
    pub(super) fn awaited_until(&self) -> Option<Time> {
        self.since.map(|since| since + FINDER_PATIENCE)
    }

    /// Notes a member; returns true if it is news, and is to be asked.
    fn meet(&mut self, address: SocketAddr, now: Time) -> bool {
        let is_new = self.addresses.len() < MAX_FINDERS && !self.addresses.contains(&address);
        if is_new {
            self.addresses.push(address);
            self.since.get_or_insert(now);
        }
        is_new
    }
}

impl Joiner {
    /// Returns true if whoever lets this joiner in, and knows of no electorate, is not followed yet: members were met that
    /// know of one.
    pub(crate) fn awaits_finder(&self, now: Time) -> bool {
        let Some(joining) = &self.joining else { return false };
        joining.finders.awaited_until().is_some_and(|until| now < until)
    }

    /// Returns true if a node that introduces itself, and knows of an electorate, may let this joiner in.
    pub(crate) fn may_be_found_by(&self, me: &Record, sender: Sender, record: &Record) -> bool {
        self.joining.is_some()
            && (record.run, record.address, record.status) == (sender.run, sender.from, Status::Up)
            && record.id != me.id
    }

    /// Takes note that a member, which is Up and knows of an electorate, found this joiner from its own address, and asks
    /// it to let this node in.
    pub(crate) fn found_by(&mut self, out: &mut Outbox<'_>, reunion: &Reunion, member: SocketAddr) {
        let now = out.cx.now;
        let Some(joining) = &mut self.joining else { return };
        if joining.reached.is_none() && joining.finders.meet(member, now) && !self.is_pulling() {
            self.ask_to_join(out, reunion, member, false);
        }
    }

    /// Returns true if a node that looks for this joiner may be answered once more.
    pub(crate) fn take_answer_to_finder(&mut self, now: Time, from: SocketAddr) -> bool {
        self.joining.as_mut().is_some_and(|joining| joining.finders.answered.take(now, from))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address(port: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port as u16))
    }

    #[test]
    fn so_many_finders_are_asked_each_is_news_once_and_the_first_alone_puts_the_founding_off() {
        let mut finders = Finders::default();
        for nth in 1..=MAX_FINDERS {
            let now = Time::ORIGIN + Duration::from_millis(nth as u64);
            assert!(finders.meet(address(nth), now) && !finders.meet(address(nth), now), "{nth}");
        }
        assert!(!finders.meet(address(MAX_FINDERS + 1), Time::ORIGIN), "one more");
        assert_eq!(finders.addresses().len(), MAX_FINDERS);
        assert_eq!(finders.awaited_until(), Some(Time::ORIGIN + Duration::from_millis(1) + FINDER_PATIENCE));
    }
}
