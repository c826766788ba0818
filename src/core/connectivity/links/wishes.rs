//! Links as the other rooms wish them: wanted or not, at once, ended, led elsewhere. Each wish goes to the machine with
//! what it has to know of the member (its scene).
//!
//! Must not know: what state a link is in, beyond what the machine tells everybody.

use std::time::Duration;

use super::doors::{Meeting, Parting, Scene, Wish};
use super::machine::Links;
use crate::Core;
use crate::doors::{LinkId, Output};
use crate::member::{LeaveReason, Run, Status};
use crate::time::Time;
use crate::view::{Slot, View};

/// The scenes and wishes that the machine is given.
impl Core {
    pub(super) fn link_scene(&self, slot: Slot) -> Scene {
        let address = self.view.record(slot).address;
        Scene { wish: self.link_wish(slot), address, is_ours: self.me().address < address }
    }

    pub(super) fn link_scene_of(&self, run: Run) -> Option<Scene> {
        self.view.slot_of_run(run).map(|slot| self.link_scene(slot))
    }

    /// Returns who wants a link between this node and a member.
    pub(super) fn link_wish(&self, slot: Slot) -> Wish {
        let record = self.view.record(slot);
        let is_live = matches!(record.status, Status::Up | Status::Suspect);
        if !self.cx.phase.is_up() || slot == View::ME || !is_live {
            Wish::Nobody
        } else if self.observers.observes(slot) {
            Wish::Observed
        } else if self.paths.detours.wants_link(record.run, self.cx.now) || self.has_letters_for(record.run) {
            Wish::Passing
        } else {
            Wish::Theirs
        }
    }

    fn link_meeting(&self, slot: Slot) -> Meeting {
        let entry = self.view.entry(slot);
        Meeting {
            is_ours: self.me().address < entry.record.address,
            is_news: entry.peer.session.is_none() && entry.peer.last_sign() == self.cx.now,
            is_for_good: self.observers.is_full_mesh(self.view.live().len()) || self.observers.is_brought_in(slot),
        }
    }
}

/// Looking.
impl Core {
    /// Returns true if the link to a member stands.
    pub(crate) fn is_linked(&self, run: Run) -> bool {
        self.paths.links.open(run).is_some()
    }

    /// Returns the number of links in use.
    pub fn open_links(&self) -> usize {
        self.paths.links.count()
    }

    /// Returns a number for a link that is about to be opened.
    pub(in crate::connectivity) fn next_link(&mut self) -> LinkId {
        self.paths.links.next_number()
    }
}

/// Plans.
impl Core {
    /// Plans the link to a member that became a neighbour or ceased to be one.
    pub(crate) fn plan_link(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        let actions = match (self.link_wish(slot).is_ours(), self.paths.links.is_idle(run)) {
            (true, true) => self.paths.links.wanted(self.cx.now, run, self.link_meeting(slot)),
            (false, false) => self.paths.links.unwanted(run),
            _ => return,
        };
        self.act_on_link(run, actions);
    }

    /// Plans all links, as this node has become Up: its neighbours are all there already.
    pub(crate) fn plan_links(&mut self) {
        let neighbours: Vec<Slot> = self.observers.neighbours().collect();
        if !neighbours.is_empty() {
            // A founder is no newcomer: whoever comes to it later may die before it has opened a link.
            self.paths.links.came_up(self.cx.now);
        }
        for slot in neighbours {
            self.plan_link(slot);
        }
    }

    /// Acts on a link's timer.
    pub(crate) fn tend_link(&mut self, run: Run) {
        let scene = self.link_scene_of(run);
        let actions = self.paths.links.due(run, scene);
        self.act_on_link(run, actions);
    }

    /// Opens a link now, unless one is being opened or stands; `false` if there are too many.
    pub(crate) fn ensure_link(&mut self, slot: Slot) -> bool {
        let record = self.view.record(slot);
        let (run, address) = (record.run, record.address);
        let actions = self.paths.links.ensure(run, address);
        self.act_on_link(run, actions);
        !self.paths.links.is_idle(run)
    }

    /// Accepts a link that a member opened and proved (see `guests`): of two that cross, one stays.
    pub(in crate::connectivity) fn accept(&mut self, slot: Slot, link: LinkId) -> bool {
        let (run, scene) = (self.view.record(slot).run, self.link_scene(slot));
        let (stays, actions) = self.paths.links.accept(self.cx.now, run, link, scene);
        self.act_on_link(run, actions);
        stays
    }
}

/// Ends on purpose.
impl Core {
    /// Ends the link to a member on purpose, if there is one, and forgets it.
    pub(crate) fn drop_link(&mut self, run: Run) {
        let actions = self.paths.links.forget(run);
        self.act_on_link(run, actions);
    }

    /// Ends all links on purpose.
    pub(crate) fn drop_links(&mut self) {
        for run in self.paths.links.members() {
            self.drop_link(run);
        }
        for link in self.paths.links.end_visits() {
            self.cx.output(Output::CloseLink { link });
        }
        self.dismiss_guests();
    }

    /// Ends the link to a member that is held as gone. One that was removed learns so by it, and one that leaves hears
    /// by it that this node knows, and ends it itself: perhaps no datagram would tell them.
    pub(crate) fn dismiss_gone(&mut self, slot: Slot, run: Run) {
        let record = self.view.record(slot);
        match record.status {
            Status::Left(_) if record.run != run || !self.is_linked(run) => self.drop_link(run),
            Status::Left(LeaveReason::Graceful) => self.act_on_link(run, Links::lingers()),
            Status::Left(LeaveReason::Forced) => {
                let packet = self.out().packet_to(slot);
                self.out().copy_to_link(run, &packet.finish());
                self.drop_link(run);
            }
            _ => self.drop_link(run),
        }
    }

    /// Ends the link to a member that is at another address by now, and plans the next one. What led to the old
    /// address may break never, or as late as the kernel gives it up, and shows nothing of the process until then.
    pub(crate) fn follow_by_link(&mut self, slot: Slot) {
        let record = self.view.record(slot);
        if !self.paths.links.is_at(record.run, record.address) {
            self.link_anew(slot, Parting::TheyMoved);
        }
    }

    /// Ends all connections, as this node is at another address: those that stand lead from the old one. The others
    /// hear of the new address by them, if anything still passes there.
    pub(crate) fn link_all_anew(&mut self) {
        self.dismiss_guests();
        for slot in
            self.paths.links.members().into_iter().filter_map(|run| self.view.slot_of_run(run)).collect::<Vec<_>>()
        {
            self.link_anew(slot, Parting::WeMoved);
        }
    }

    /// Ends a link that leads to where the member, or this node, is no more, and plans the next one soon: either of the
    /// two may end before any of its observers has a link to it again. Letters do not wait for a pause.
    fn link_anew(&mut self, slot: Slot, why: Parting) {
        let run = self.view.record(slot).run;
        let (scene, is_urgent) = (self.link_scene(slot), self.has_letters_for(run));
        let actions = self.paths.links.moved(run, why, scene, is_urgent);
        self.act_on_link(run, actions);
    }

    /// Ends a link by which nothing has come for so long, although something was asked at `since`, and opens another one.
    pub(crate) fn renew_silent_link(&mut self, slot: Slot, since: Time, patience: Duration) {
        let record = self.view.record(slot);
        let (run, address) = (record.run, record.address);
        let actions = self.paths.links.silent(self.cx.now, run, address, since, patience);
        self.act_on_link(run, actions);
    }
}
