//! Links that stand: how one is accepted and taken into use, and how it ends, on purpose or not.
//!
//! Invariant: a link that this node ends on purpose is told so before.
//!
//! Must not know: when the next one is tried.

use std::time::Duration;

use super::table::State;
use crate::core::counters::DropReason;
use crate::core::doors::{LinkId, Output};
use crate::core::limits::{LINK_BACKOFF, LINK_LINGER, MAX_LINKS};
use crate::core::member::{LeaveReason, Run, Status};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::{Slot, View};
use crate::core::wire::Message;
use crate::core::{Core, Phase};

impl Core {
    /// Returns true if the link to a member stands.
    pub(in crate::core) fn is_linked(&self, run: Run) -> bool {
        self.links.open(run).is_some()
    }

    /// Returns the number of links in use.
    pub fn open_links(&self) -> usize {
        self.links.count()
    }

    /// Accepts a link that a member opened and proved (see `guests`): of two that cross, one stays.
    pub(in crate::core::connectivity) fn accept(&mut self, slot: Slot, link: LinkId) -> bool {
        let record = self.view.record(slot);
        let (run, address) = (record.run, record.address);
        let state = self.links.of.get(&run).map(|link| link.state).unwrap_or_default();
        let is_ours_first = self.me().address < address;
        match state {
            State::Greeting(LinkId::Opened(_)) | State::Open(LinkId::Opened(_)) if is_ours_first => {
                self.dismiss(link);
                return false;
            }
            State::Idle if self.links.in_use() >= MAX_LINKS => {
                self.counters.drop(DropReason::TableFull);
                self.dismiss(link);
                return false;
            }
            State::Idle => {}
            State::Opening(old) => self.close(old),
            State::Greeting(old) | State::Open(old) => self.dismiss(old),
        }
        self.links.set_home(run, address);
        self.link_opened(run, link);
        let packet = self.packet_to(slot);
        self.send_frame(link, packet);
        true
    }

    pub(super) fn link_opened(&mut self, run: Run, link: LinkId) {
        self.links.set(run, State::Open(link));
        if let Some(link) = self.links.of.get_mut(&run) {
            link.failures = 0;
            link.opened = Some(self.now);
        }
        let slot = self.view.slot_of_run(run);
        let is_wanted = slot.is_some_and(|slot| self.wants_link(slot) && self.observes(slot));
        if is_wanted {
            self.timers.cancel(Timer::Link(run));
        } else {
            self.timers.set(Timer::Link(run), self.now + LINK_LINGER);
        }
        if let Some(slot) = slot {
            self.doubt_datagrams_at_once(slot);
        }
        self.send_unsent(run);
        self.send_letters(run);
        self.process_answers(run);
    }

    /// Takes the goodbye of the other end.
    pub(super) fn unlinked(&mut self, link: LinkId) {
        if let Some(run) = self.links.runs.get(&link).copied() {
            self.links.set(run, State::Idle);
            self.timers.set(Timer::Link(run), self.now + LINK_LINGER);
        }
        self.close(link);
    }

    /// Takes note that a link in use broke: it is opened again at once, unless that was tried a moment ago.
    pub(super) fn link_lost(&mut self, run: Run) {
        self.counters.links_lost += 1;
        self.links.set(run, State::Idle);
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| self.wants_link(*slot)) else {
            return self.drop_link(run);
        };
        let Some(link) = self.links.of.get_mut(&run) else { return };
        if link.reopened.is_some_and(|reopened| self.now.since(reopened) < LINK_BACKOFF) {
            self.link_failed(run);
            return;
        }
        link.reopened = Some(self.now);
        if self.open_link(slot) {
            self.lost_link(run);
        }
    }

    /// Ends the link to a member on purpose, if there is one, and forgets it.
    pub(in crate::core) fn drop_link(&mut self, run: Run) {
        self.timers.cancel(Timer::Link(run));
        self.detours.forget(run);
        if let Some(link) = self.links.of.get(&run).and_then(|link| link.state.link()) {
            self.dismiss(link);
        }
        self.links.set(run, State::Idle);
        self.links.of.remove(&run);
        self.crashes.await_no_link(run);
        self.letters_have_no_link(run);
    }

    /// Ends the link to a member that is at another address by now, and plans the next one. What led to the old
    /// address may break never, or as late as the kernel gives it up, and shows nothing of the process until then.
    pub(in crate::core) fn follow_by_link(&mut self, slot: Slot) {
        let record = self.view.record(slot);
        let (run, address) = (record.run, record.address);
        let is_there = self.links.of.get(&run).is_some_and(|link| link.home == Some(address));
        if !is_there {
            self.link_anew(slot, false);
        }
    }

    /// Ends all connections, as this node is at another address: those that stand lead from the old one. The others
    /// hear of the new address by them, if anything still passes there.
    pub(in crate::core) fn link_all_anew(&mut self) {
        self.hang_up_all();
        self.dismiss_guests();
        let linked: Vec<Slot> = self.links.of.keys().filter_map(|run| self.view.slot_of_run(*run)).collect();
        for slot in linked {
            self.link_anew(slot, true);
        }
    }

    /// Ends a link that leads to where the member, or this node, is no more, and plans the next one soon. Letters wait
    /// for it; attempts that failed at the old address do not count, nor does a port there that refused one.
    fn link_anew(&mut self, slot: Slot, says_where_i_am: bool) {
        let run = self.view.record(slot).run;
        self.timers.cancel(Timer::Link(run));
        if let Some(link) = self.links.of.get(&run).and_then(|link| link.state.link()) {
            let mut packet = self.packet(usize::MAX);
            if says_where_i_am {
                self.push_update(&mut packet, View::ME);
            }
            packet.push(&Message::Unlink);
            self.send_frame(link, packet);
            self.close(link);
        }
        self.links.of.remove(&run);
        self.process_answers(run);
        self.letters_wait(run);
        self.plan_link_soon(slot);
    }

    /// Ends a link by which nothing has come for so long, although something was asked at `since`, and opens another one:
    /// a firewall, or a router that forgot it, may have cut it in silence.
    pub(in crate::core) fn renew_silent_link(&mut self, slot: Slot, since: Time, patience: Duration) {
        let run = self.view.record(slot).run;
        let heard = self.links.heard_at(run).map_or(since, |heard| heard.max(since));
        if self.now.since(heard) < patience {
            return;
        }
        if let Some(link) = self.links.open(run) {
            self.dismiss(link);
            self.links.set(run, State::Idle);
            self.letters_wait(run);
            self.ensure_link(slot);
        }
    }

    /// Ends all links on purpose.
    pub(in crate::core) fn drop_links(&mut self) {
        let runs: Vec<Run> = self.links.of.keys().copied().collect();
        for run in runs {
            self.drop_link(run);
        }
        for link in std::mem::take(&mut self.links.visits).into_keys() {
            self.outputs.push_back(Output::CloseLink { link });
        }
        self.dismiss_guests();
    }

    /// Ends the link to a member that is held as gone. One that was removed learns so by it, and one that leaves hears
    /// by it that this node knows, and ends it itself: perhaps no datagram would tell them.
    pub(in crate::core) fn dismiss_gone(&mut self, slot: Slot, run: Run) {
        let record = self.view.record(slot);
        match record.status {
            Status::Left(_) if record.run != run || self.links.open(run).is_none() => self.drop_link(run),
            Status::Left(LeaveReason::Graceful) => self.timers.set(Timer::Link(run), self.now + LINK_LINGER),
            Status::Left(LeaveReason::Forced) => {
                let packet = self.packet_to(slot);
                self.copy_to_link(run, &packet.finish());
                self.drop_link(run);
            }
            _ => self.drop_link(run),
        }
    }

    /// Says goodbye over a link, and ends it.
    fn dismiss(&mut self, link: LinkId) {
        let mut packet = self.packet(usize::MAX);
        if matches!(self.phase, Phase::Leaving) {
            // Its observers hear from itself that it leaves, whoever else says so.
            self.push_update(&mut packet, View::ME);
        }
        packet.push(&Message::Unlink);
        self.send_frame(link, packet);
        self.close(link);
    }

    pub(super) fn close(&mut self, link: LinkId) {
        self.links.runs.remove(&link);
        self.outputs.push_back(Output::CloseLink { link });
    }
}
