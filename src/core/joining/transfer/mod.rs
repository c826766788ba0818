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
//! pads its questions to that size, which shows that such datagrams pass. Where the smallest do not come either, it
//! opens a bootstrap link to its sponsor, and pages come by that, too.
//!
//! Invariants: at most one pull of this node is under way; pages are served only to addresses that have echoed a nonce of
//! ours, and by the bootstrap links of admitted joiners.
//!
//! Must not know: how a sponsor is found, and what follows when it fails (see `join`).

mod machine;
mod places;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use crate::context::Context;
use crate::counters::DropReason;
use crate::discovery::Reunion;
use crate::io::{Notice, Receiver};
use crate::joining::join::{JoinStep, Joiner};
use crate::joining::sponsor::Sponsor;
use crate::limits::{MAX_HEADER_BYTES, MIN_QUESTION_BYTES};
use crate::member::{NodeId, Run};
use crate::packet::Outbox;
use crate::packet::{Sender, SenderKind, Way};
use crate::timers::Timer;
use crate::wire::Message;

use machine::{Ask, TransferStep};

use crate::joining::join::Joining;

pub(crate) use machine::Transfer;
pub(crate) use places::ViewServer;

/// The size of a `Page` message with the longest name, in bytes: length, kind, name, and the flag for more.
const PAGE_MESSAGE_BYTES: usize = 1 + 1 + (1 + 1 + NodeId::MAX_BYTES) + 1;
/// The longest packet that holds a `Pull` and no padding, in bytes: header, length, kind, name, and the number of pages.
const MAX_BARE_PULL_BYTES: usize = MAX_HEADER_BYTES + 1 + 1 + (1 + 1 + NodeId::MAX_BYTES) + 1;
/// More records than fit into any page. (Only a node that is Up or leaving serves, so none of them is Joining.)
const PAGE_RECORDS: usize = 64;

impl Joiner {
    /// Begins to pull the view of the node at `address`.
    pub(crate) fn pull_from(&mut self, out: &mut Outbox<'_>, address: SocketAddr, run: Run) {
        let (transfer, ask) = Transfer::begin(address, run, out.cx.now);
        self.transfer = Some(transfer);
        self.pull(out, ask);
    }

    /// Gives up the pull under way, if there is one.
    pub(crate) fn stop_pulling(&mut self, cx: &mut Context) {
        if self.transfer.take().is_some() {
            cx.timers.cancel(Timer::Transfer);
        }
    }

    /// Returns true if updates of this sender belong to the pull under way.
    pub(crate) fn is_pulling_from(&self, sender: Sender) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.sponsor() == (sender.from, sender.run))
    }

    /// Handles the packet at hand, whose updates were one page and are merged already. `next` is the page's last name,
    /// if more follow.
    pub(crate) fn on_page(
        &mut self,
        out: &mut Outbox<'_>,
        reunion: &Reunion,
        after: Option<&NodeId>,
        next: Option<NodeId>,
    ) -> Option<JoinStep> {
        let transfer = self.transfer.as_mut()?;
        let (step, (sponsor, _)) = (transfer.page(out.cx.now, after, next), transfer.sponsor());
        if let Some(joining) = &mut self.joining
            && let Some((_, bytes)) = joining.pages_in_vain.take_if(|(from, _)| *from == sponsor)
        {
            out.cx.counters.pages_shrunk += 1;
            out.cx.notice("pages lost", Notice::PagesLost { sponsor, bytes });
        }
        self.go_on_pulling(out, reunion, step)
    }

    /// Handles pages that did not come in time.
    pub(crate) fn pull_again(&mut self, out: &mut Outbox<'_>, reunion: &Reunion) -> Option<JoinStep> {
        let transfer = self.transfer.as_mut()?;
        let step = transfer.overdue(out.cx.now);
        let is_stalled = transfer.is_stalled() && matches!(step, TransferStep::Ask(_));
        if is_stalled {
            self.shrink_pages(out);
        }
        let pulled = self.go_on_pulling(out, reunion, step);
        if is_stalled && out.cx.phase.is_joining() {
            out.cx.timers.set_by(Timer::JoinTry, out.cx.now);
        }
        pulled
    }

    /// Asks for smaller pages from now on, of whatever sponsor; by a bootstrap link, too, if they are as small as can
    /// be.
    fn shrink_pages(&mut self, out: &mut Outbox<'_>) {
        let most = out.datagram_bytes();
        let (Some(transfer), Some(joining)) = (&self.transfer, &mut self.joining) else { return };
        let (sponsor, _) = transfer.sponsor();
        let bytes = joining.page_bytes.unwrap_or(most);
        joining.page_bytes = Some((bytes / 2).max(MIN_QUESTION_BYTES));
        // The largest of them: smaller ones from this sponsor will show that it was not silent.
        joining.pages_in_vain = joining.pages_in_vain.filter(|(from, _)| *from == sponsor).or(Some((sponsor, bytes)));
        if bytes <= MIN_QUESTION_BYTES {
            out.open_bootstrap(sponsor);
        }
    }

    fn go_on_pulling(&mut self, out: &mut Outbox<'_>, reunion: &Reunion, step: TransferStep) -> Option<JoinStep> {
        match step {
            TransferStep::Wait => {}
            TransferStep::Ask(ask) => self.pull(out, ask),
            TransferStep::Malformed => out.cx.counters.drop(DropReason::Malformed),
            TransferStep::Complete => {
                let transfer = self.transfer.take()?;
                let (address, run) = transfer.sponsor();
                out.cx.timers.cancel(Timer::Transfer);
                return Some(JoinStep::Pulled { address, sponsor: run });
            }
            TransferStep::GiveUp => {
                let transfer = self.transfer.take()?;
                let (_, run) = transfer.sponsor();
                if out.cx.phase.is_joining() {
                    self.sponsor_failed(out, reunion, run);
                }
            }
        }
        None
    }

    /// Sends a question to the sponsor of the transfer under way.
    fn pull(&mut self, out: &mut Outbox<'_>, Ask { after, pages }: Ask) {
        let Some(transfer) = &self.transfer else { return };
        let ((to, run), due) = (transfer.sponsor(), transfer.deadline());
        let mut packet = out.packet(usize::MAX);
        packet.push(&Message::Pull { after, pages });
        if let Some(Joining { page_bytes: Some(bytes), .. }) = self.joining {
            packet.pad_to(bytes);
        }
        out.transmit(to, Receiver::of(run), packet);
        out.cx.timers.set(Timer::Transfer, due);
    }
}

impl Sponsor {
    /// Takes a pull of a member or of a joiner of ours; returns the address where it is served.
    pub(crate) fn on_pull(&mut self, out: &mut Outbox<'_>, sender: Sender) -> Option<SocketAddr> {
        let to = match sender.kind {
            SenderKind::Member(slot) if out.view.entry(slot).peer.is_proven() => out.view.record(slot).address,
            SenderKind::Member(slot) => {
                // This packet carries a probe: the next attempt will find the address proven.
                let packet = out.packet_to(slot);
                out.send_to(slot, packet);
                return None;
            }
            SenderKind::ClaimsMember(_) | SenderKind::Stranger => {
                // Nobody forges the address of a connection.
                let is_by_link = matches!(sender.way, Way::Link(_)) && self.joiners.contains(sender.run);
                let by_link = is_by_link.then_some(sender.from);
                let Some(address) = by_link.or_else(|| self.joiners.address_of(sender.run, sender.from)) else {
                    out.cx.counters.drop(DropReason::UnknownRun);
                    return None;
                };
                self.heard_joiner(out.cx.now, sender.run);
                address
            }
        };
        if out.cx.phase.is_joining() {
            out.cx.counters.drop(DropReason::WrongState);
            return None;
        }
        // An admitted joiner is served: a place lost to a slow network is not held against it. Members need no place, and
        // take none from joiners.
        if out.view.slot_of_run(sender.run).is_none() {
            self.serving.begin(sender.run, to, out.cx.now);
        }
        self.serving.pulled(sender.run, out.cx.now);
        Some(to)
    }

    /// Sends so many pages after a name to this address, to a run that pulls.
    pub(crate) fn serve(
        &mut self,
        out: &mut Outbox<'_>,
        sender: Sender,
        to: SocketAddr,
        after: Option<&NodeId>,
        pages: u8,
    ) {
        let most = Some(sender.bytes).filter(|bytes| *bytes > MAX_BARE_PULL_BYTES).unwrap_or(usize::MAX);
        let most = most.min(out.datagram_bytes());
        let mut after = after.cloned();
        for _ in 0..pages {
            if !out.take_page(sender.run) {
                return out.cx.counters.drop(DropReason::RateLimited);
            }
            let next = send_page(out, to, sender.run, after, most);
            if next.is_none() {
                self.serving.end(sender.run);
                break;
            }
            after = next;
        }
    }
}

/// Sends the records after a name, as many as fit into `most` bytes, and one at least; returns the last one's name if
/// more follow.
fn send_page(out: &mut Outbox<'_>, to: SocketAddr, run: Run, after: Option<NodeId>, most: usize) -> Option<NodeId> {
    let slots: Vec<_> = out.view.after(after.as_ref()).map(|(slot, _)| slot).take(PAGE_RECORDS).collect();
    let mut packet = out.packet(most - PAGE_MESSAGE_BYTES);
    let mut fitted = slots.iter().take_while(|slot| out.push_update(&mut packet, **slot)).count();
    if fitted == 0 && !slots.is_empty() {
        packet.raise_limit(out.datagram_bytes() - PAGE_MESSAGE_BYTES);
        fitted = usize::from(out.push_update(&mut packet, slots[0]));
    }
    debug_assert!(fitted > 0 || slots.is_empty(), "the largest record fits into an empty page");
    let last = fitted.checked_sub(1).map(|last| out.view.record(slots[last]).id.clone());
    let more = fitted < slots.len() || slots.len() == PAGE_RECORDS;
    packet.raise_limit(out.datagram_bytes());
    let is_pushed = packet.push(&Message::Page { after, more });
    debug_assert!(is_pushed, "room was left for it");
    out.transmit(to, Receiver::of(run), packet);
    last.filter(|_| more)
}
