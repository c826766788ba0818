//! Moving a view: one node pulls the records of another, page by page, in the order of names.
//!
//! `Pull{after, pages}` asks for up to [`PAGES_IN_FLIGHT`](crate::limits::PAGES_IN_FLIGHT) packets; each
//! `Page{after, more}` tells the range of names that it covers. That is how a joiner gets the whole view before it is Up.
//!
//! | idea | file |
//! |---|---|
//! | what has arrived, what is asked for next, the end: the joiner's machine | `machine` |
//! | how many pages, and whose turn it is: the sponsor's machine | `places` |
//! | the machines' inputs from the core; pages as packets | here |
//!
//! A path may lose large datagrams and let small ones pass, so that a joiner is let in and gets no page. If several questions
//! in a row bring none, it asks for pages of half the size (a search downward, as for a datagram's path MTU: RFC 8899), and
//! pads its questions to that size, which shows that such datagrams pass. Where the smallest do not come either, it calls
//! its sponsor, and pages come by the call, too.
//!
//! Invariants: at most one pull of this node is under way; pages are served only to addresses that have echoed a nonce of
//! ours, and by the calls of admitted joiners.
//!
//! Must not know: how a sponsor is found, and what follows when it fails (see `join`).

mod machine;
mod places;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use crate::Core;
use crate::counters::DropReason;
use crate::doors::{Notice, Receiver};
use crate::limits::{MAX_HEADER_BYTES, MIN_PAGE_BYTES};
use crate::member::{NodeId, Run};
use crate::packet::{Sender, SenderKind, Way};
use crate::timers::Timer;
use crate::wire::Message;

use machine::{Ask, Step};

use super::join::Joining;

pub(crate) use machine::Transfer;
pub(crate) use places::ViewServer;

/// The size of a `Page` message with the longest name, in bytes: length, kind, name, and the flag for more.
const PAGE_MESSAGE_BYTES: usize = 1 + 1 + (1 + 1 + NodeId::MAX_BYTES) + 1;
/// The longest packet that holds a `Pull` and no padding, in bytes: header, length, kind, name, and the number of pages.
const MAX_BARE_PULL_BYTES: usize = MAX_HEADER_BYTES + 1 + 1 + (1 + 1 + NodeId::MAX_BYTES) + 1;
/// More records than fit into any page. (Only a node that is Up or leaving serves, so none of them is Joining.)
const PAGE_RECORDS: usize = 64;

impl Core {
    /// Begins to pull the view of the node at `address`.
    pub(super) fn pull_from(&mut self, address: SocketAddr, run: Run) {
        let (transfer, ask) = Transfer::begin(address, run, self.cx.now);
        self.transfer = Some(transfer);
        self.pull(ask);
    }

    /// Gives up the pull under way, if there is one.
    pub(super) fn stop_pulling(&mut self) {
        if self.transfer.take().is_some() {
            self.cx.timers.cancel(Timer::Transfer);
        }
    }

    /// Returns true if updates of this sender belong to the pull under way.
    pub(crate) fn is_pulling_from(&self, sender: Sender) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.sponsor() == (sender.from, sender.run))
    }

    /// Returns true if this sender brings this node in: it is Joining, and pulls that node's view.
    pub(crate) fn is_joining_by(&self, sender: Sender) -> bool {
        self.cx.phase.is_joining() && self.is_pulling_from(sender)
    }

    /// Handles the packet at hand, whose updates were one page and are merged already. `next` is the page's last name,
    /// if more follow.
    pub(crate) fn on_page(&mut self, after: Option<&NodeId>, next: Option<NodeId>) {
        let Some(transfer) = &mut self.transfer else { return };
        let (step, (sponsor, _)) = (transfer.page(self.cx.now, after, next), transfer.sponsor());
        if let Some(joining) = &mut self.joiner
            && let Some((_, bytes)) = joining.pages_in_vain.take_if(|(from, _)| *from == sponsor)
        {
            self.cx.counters.pages_shrunk += 1;
            self.cx.notice("pages lost", Notice::PagesLost { sponsor, bytes });
        }
        self.go_on_pulling(step);
    }

    /// Handles pages that did not come in time.
    pub(crate) fn pull_again(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        let step = transfer.overdue(self.cx.now);
        let is_stalled = transfer.is_stalled() && matches!(step, Step::Ask(_));
        if is_stalled {
            self.shrink_pages();
        }
        self.go_on_pulling(step);
        if is_stalled && self.cx.phase.is_joining() {
            self.cx.timers.set_by(Timer::JoinTry, self.cx.now);
        }
    }

    /// Asks for smaller pages from now on, of whatever sponsor; by a call, too, if they are as small as can be.
    fn shrink_pages(&mut self) {
        let most = self.datagram_bytes();
        let (Some(transfer), Some(joining)) = (&self.transfer, &mut self.joiner) else { return };
        let (sponsor, _) = transfer.sponsor();
        let bytes = joining.page_bytes.unwrap_or(most);
        joining.page_bytes = Some((bytes / 2).max(MIN_PAGE_BYTES));
        // The largest of them: smaller ones from this sponsor will show that it was not silent.
        joining.pages_in_vain = joining.pages_in_vain.filter(|(from, _)| *from == sponsor).or(Some((sponsor, bytes)));
        if bytes <= MIN_PAGE_BYTES {
            self.call(sponsor);
        }
    }

    fn go_on_pulling(&mut self, step: Step) {
        match step {
            Step::Wait => {}
            Step::Ask(ask) => self.pull(ask),
            Step::Malformed => self.cx.counters.drop(DropReason::Malformed),
            Step::Complete => {
                let Some(transfer) = self.transfer.take() else { return };
                let (address, run) = transfer.sponsor();
                self.cx.timers.cancel(Timer::Transfer);
                self.pulled_everything(address, run);
            }
            Step::GiveUp => {
                let Some(transfer) = self.transfer.take() else { return };
                let (_, run) = transfer.sponsor();
                if self.cx.phase.is_joining() {
                    self.sponsor_failed(run);
                }
            }
        }
    }

    /// Sends a question to the sponsor of the transfer under way.
    fn pull(&mut self, Ask { after, pages }: Ask) {
        let Some(transfer) = &self.transfer else { return };
        let ((to, run), due) = (transfer.sponsor(), transfer.deadline());
        let mut packet = self.out().packet(usize::MAX);
        packet.push(&Message::Pull { after, pages });
        if let Some(Joining { page_bytes: Some(bytes), .. }) = self.joiner {
            packet.pad_to(bytes);
        }
        self.out().transmit(to, Receiver::of(run), packet);
        self.cx.timers.set(Timer::Transfer, due);
    }

    /// Serves a pull to a member or to a joiner of ours.
    pub(crate) fn on_pull(&mut self, sender: Sender, after: Option<&NodeId>, pages: u8) {
        let to = match sender.kind {
            SenderKind::Member(slot) if self.view.entry(slot).peer.is_proven() => self.view.record(slot).address,
            SenderKind::Member(slot) => {
                // This packet carries a probe: the next attempt will find the address proven.
                let packet = self.out().packet_to(slot);
                return self.out().send_to(slot, packet);
            }
            SenderKind::ClaimsMember(_) | SenderKind::Stranger => {
                // Nobody forges the address of a connection.
                let is_by_link = matches!(sender.way, Way::Link(_)) && self.joiners.contains(sender.run);
                let by_link = is_by_link.then_some(sender.from);
                let Some(home) = by_link.or_else(|| self.joiners.home_of(sender.run, sender.from)) else {
                    return self.cx.counters.drop(DropReason::UnknownRun);
                };
                self.heard_joiner(sender.run);
                home
            }
        };
        if self.cx.phase.is_joining() {
            return self.cx.counters.drop(DropReason::WrongState);
        }
        // An admitted joiner is served: a place lost to a slow network is not held against it. Members need no place, and
        // take none from joiners.
        if self.view.slot_of_run(sender.run).is_none() {
            self.serving.begin(sender.run, to, self.cx.now);
        }
        self.serving.pulled(sender.run, after, self.cx.now);
        if after.is_none() {
            self.teach_lease_terms(to, sender.run);
        }
        let most = Some(sender.bytes).filter(|bytes| *bytes > MAX_BARE_PULL_BYTES).unwrap_or(usize::MAX);
        let most = most.min(self.datagram_bytes());
        let mut after = after.cloned();
        for _ in 0..pages {
            if !self.take_page(sender.run) {
                return self.cx.counters.drop(DropReason::RateLimited);
            }
            let next = self.send_page(to, sender.run, after, most);
            if next.is_none() {
                self.serving.end(sender.run);
                break;
            }
            after = next;
        }
    }

    /// Returns true if one more packet of records, or of what goes with them, may go to this run now; counts it if so.
    pub(crate) fn take_page(&mut self, run: Run) -> bool {
        self.out().take_page(run)
    }

    /// Sends the records after a name, as many as fit into `most` bytes, and one at least; returns the last one's name if
    /// more follow.
    fn send_page(&mut self, to: SocketAddr, run: Run, after: Option<NodeId>, most: usize) -> Option<NodeId> {
        let slots: Vec<_> = self.view.after(after.as_ref()).map(|(slot, _)| slot).take(PAGE_RECORDS).collect();
        let mut packet = self.out().packet(most - PAGE_MESSAGE_BYTES);
        let mut fitted = slots.iter().take_while(|slot| self.out().push_update(&mut packet, **slot)).count();
        if fitted == 0 && !slots.is_empty() {
            packet.raise_limit(self.datagram_bytes() - PAGE_MESSAGE_BYTES);
            fitted = usize::from(self.out().push_update(&mut packet, slots[0]));
        }
        debug_assert!(fitted > 0 || slots.is_empty(), "the largest record fits into an empty page");
        let last = fitted.checked_sub(1).map(|last| self.view.record(slots[last]).id.clone());
        let more = fitted < slots.len() || slots.len() == PAGE_RECORDS;
        packet.raise_limit(self.datagram_bytes());
        let is_pushed = packet.push(&Message::Page { after, more });
        debug_assert!(is_pushed, "room was left for it");
        self.out().transmit(to, Receiver::of(run), packet);
        last.filter(|_| more)
    }
}
