//! Moving a view: one node pulls the records of another, page by page, in the order of names.
//!
//! `Pull{after, pages}` asks for up to [`PAGES_IN_FLIGHT`] packets; each `Page{after, more}` says which stretch of names
//! it covers (from `after` to its last record), so that lost and reordered pages show as gaps. A page that does not come within twice the round trip
//! (50 ms at least) is asked for again, [`MAX_PULL_RETRIES`] times. That is how a joiner gets the
//! whole view before it is Up.
//!
//! Invariants: at most one pull of this node is under way; pages are served only to addresses that have echoed a nonce
//! of ours, and at most [`PAGES_PER_INTERVAL`] in [`SERVING_INTERVAL`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::limits::{MAX_PULL_RETRIES, PAGES_IN_FLIGHT};
use super::receive::Sender;
use super::time::Time;
use super::timers::Timer;
use super::wire::Message;
use super::{Core, Drop, NodeId, Phase, Run};

/// Pages served in one [`SERVING_INTERVAL`]: about 4 MB/s.
pub(super) const PAGES_PER_INTERVAL: u32 = 300;
/// See [`PAGES_PER_INTERVAL`].
pub(super) const SERVING_INTERVAL: Duration = Duration::from_millis(100);
/// Room for a `Page` message with a name of the greatest length: length, kind, name, and whether more follow.
const PAGE_MESSAGE_BYTES: usize = 1 + 1 + (1 + 1 + NodeId::MAX_BYTES) + 1;
/// The least time in which a page is waited for.
const MIN_PAGE_WAIT: Duration = Duration::from_millis(50);

/// A pull under way.
#[derive(Debug)]
pub(super) struct Transfer {
    address: SocketAddr,
    run: Run,
    /// Everything up to this name has arrived.
    cursor: Option<NodeId>,
    /// Pages beyond a gap: where each begins, and its `next`. At most [`PAGES_IN_FLIGHT`].
    beyond: BTreeMap<Option<NodeId>, Option<NodeId>>,
    /// Pages of the last `Pull` that are still to come.
    awaited: u8,
    retries: u8,
    asked: Time,
    /// The round trip of the first page: what a page is waited for.
    rtt: Option<Duration>,
}

impl Transfer {
    /// Whether pages were asked for more than once in vain: the sponsor may have restarted, or forgotten us.
    pub(super) fn is_stalled(&self) -> bool {
        self.retries >= 2
    }
}

/// How much was served lately.
#[derive(Debug, Default)]
pub(super) struct Serving {
    began: Option<Time>,
    pages: u32,
}

impl Serving {
    pub(super) fn allow(&mut self, now: Time) -> bool {
        if self.began.is_none_or(|began| now.since(began) >= SERVING_INTERVAL) {
            *self = Serving { began: Some(now), pages: 0 };
        }
        self.pages += 1;
        self.pages <= PAGES_PER_INTERVAL
    }
}

impl Core {
    /// Begins to pull the view of the node at `address`.
    pub(super) fn pull_from(&mut self, address: SocketAddr, run: Run) {
        self.transfer = Some(Transfer {
            address,
            run,
            cursor: None,
            beyond: BTreeMap::new(),
            awaited: 0,
            retries: 0,
            asked: self.now,
            rtt: None,
        });
        self.pull_next();
    }

    /// Whether updates of this run belong to the pull under way.
    pub(super) fn is_pulling_from(&self, run: Run) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.run == run)
    }

    fn pull_next(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        transfer.awaited = PAGES_IN_FLIGHT;
        transfer.asked = self.now;
        let wait = transfer.rtt.map_or(MIN_PAGE_WAIT * 4, |rtt| (rtt * 2).max(MIN_PAGE_WAIT));
        let wait = wait * (1 + u32::from(transfer.retries)).min(4);
        let (to, after) = (transfer.address, transfer.cursor.clone());
        let mut packet = self.packet(usize::MAX);
        packet.push(&Message::Pull { after, pages: PAGES_IN_FLIGHT });
        self.transmit(to, packet);
        self.timers.set(Timer::Transfer, self.now + wait);
    }

    /// Pages did not come in time.
    pub(super) fn pull_again(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        transfer.retries += 1;
        if transfer.retries > MAX_PULL_RETRIES {
            let sponsor = transfer.run;
            self.transfer = None;
            if matches!(self.phase, Phase::Joining(_)) {
                self.sponsor_failed(sponsor);
            }
            return;
        }
        let is_stalled = transfer.is_stalled();
        self.pull_next();
        if is_stalled && matches!(self.phase, Phase::Joining(_)) {
            self.timers.set_by(Timer::JoinTry, self.now);
        }
    }

    /// The updates of the packet at hand were one page, and are merged already. `next` is the page's last name, if more
    /// follow.
    pub(super) fn page(&mut self, after: Option<&NodeId>, next: Option<NodeId>) {
        let Some(transfer) = &mut self.transfer else { return };
        if next.is_some() && next.as_ref() <= after {
            return self.counters.drop(Drop::Malformed);
        }
        transfer.rtt.get_or_insert(self.now.since(transfer.asked));
        if after > transfer.cursor.as_ref() && transfer.beyond.len() < usize::from(PAGES_IN_FLIGHT) {
            transfer.beyond.insert(after.cloned(), next.clone());
        }
        if after != transfer.cursor.as_ref() {
            return;
        }
        transfer.retries = 0;
        let mut reached = next;
        loop {
            transfer.awaited = transfer.awaited.saturating_sub(1);
            if reached.is_none() {
                break;
            }
            transfer.cursor.clone_from(&reached);
            match transfer.beyond.remove(&reached) {
                Some(next) => reached = next,
                None => break,
            }
        }
        if reached.is_none() {
            let (address, run) = (transfer.address, transfer.run);
            self.transfer = None;
            self.timers.cancel(Timer::Transfer);
            self.pulled_everything(address, run);
        } else if transfer.awaited == 0 {
            self.pull_next();
        }
    }

    /// Serves a pull to a member or to a joiner of ours.
    pub(super) fn serve(&mut self, sender: Sender, after: Option<&NodeId>, pages: u8) {
        let to = match self.view.slot_of_run(sender.run) {
            Some(slot) if self.view.entry(slot).peer.proven => self.view.record(slot).address,
            Some(slot) => {
                // Carries a probe: the next attempt will find the address proven.
                let packet = self.packet_to(slot);
                return self.send_to(slot, packet);
            }
            None => match self.joiners.proven_address(sender.run) {
                Some(address) => {
                    self.heard_joiner(sender.run);
                    address
                }
                None => return self.counters.drop(Drop::UnknownRun),
            },
        };
        if matches!(self.phase, Phase::Joining(_)) {
            return self.counters.drop(Drop::WrongState);
        }
        let mut after = after.cloned();
        for _ in 0..pages {
            if !self.serving.allow(self.now) {
                return self.counters.drop(Drop::RateLimited);
            }
            let next = self.send_page(to, after);
            if next.is_none() {
                break;
            }
            after = next;
        }
    }

    /// Sends the records after a name, as many as fit; gives back the last one's name if more follow.
    fn send_page(&mut self, to: SocketAddr, after: Option<NodeId>) -> Option<NodeId> {
        let slots: Vec<_> = self.view.after(after.as_ref()).map(|(slot, _)| slot).take(PAGE_RECORDS).collect();
        let mut packet = self.packet(self.settings.mtu - PAGE_MESSAGE_BYTES);
        let fitted = slots.iter().take_while(|slot| self.push_update(&mut packet, **slot)).count();
        debug_assert!(fitted > 0 || slots.is_empty(), "the largest record fits into an empty page");
        let last = fitted.checked_sub(1).map(|last| self.view.record(slots[last]).id.clone());
        let more = fitted < slots.len() || slots.len() == PAGE_RECORDS;
        packet.raise_limit(self.settings.mtu);
        let is_pushed = packet.push(&Message::Page { after, more });
        debug_assert!(is_pushed, "room was left for it");
        self.transmit(to, packet);
        last.filter(|_| more)
    }
}

/// More records than fit into any page. (Only a node that is Up or leaving serves, so none of them is Joining.)
const PAGE_RECORDS: usize = 64;
