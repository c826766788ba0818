//! Forgetting the dead: Down and Left records go at age `reap_after`, everywhere at the same age, since their ages travel
//! with them. A tombstone stays as long again, so that a late copy does not come back as news.

use super::belief::Claims;
use super::flood::Flooding;
use super::gossip::Gossiping;
use super::inquiry::Inquiries;
use super::names::NameProbes;
use super::removal::Removals;
use super::rivals::Rivals;
use super::sync::Disagreement;
use super::view::{Slot, View};
use super::{Change, ChangeKind, Core, DetectionMethod, Output, Status};

impl Core {
    /// Takes a member out of the view for good.
    pub(super) fn reap(&mut self, slot: Slot) {
        self.tombstones.bury(self.now, self.view.record(slot));
        self.drop_from_view(slot);
    }

    fn drop_from_view(&mut self, slot: Slot) {
        let held = std::sync::Arc::clone(self.view.record(slot));
        if held.status.is_live() {
            // Who counts the living by joined, left and down must not keep it among them.
            let method = DetectionMethod::HeartbeatTimeout;
            let down = std::sync::Arc::new(held.with_status(Status::Down));
            self.report(Some(&held), &down, Some(method));
        }
        self.forget(slot);
        let record = self.view.remove(slot);
        self.reobserve(slot);
        self.changed_at = self.now;
        let previous = Some(std::sync::Arc::clone(&record));
        self.evicted.remove(&record.run);
        self.outputs.push_back(Output::Change(Change { kind: ChangeKind::Removed, record, method: None, previous }));
    }

    /// Forgets all members but this node, and everything that was remembered about them.
    pub(super) fn forget_everybody(&mut self) {
        self.end_confirmations();
        self.end_contacts();
        self.name_probes = NameProbes::default();
        self.claims = Claims::default();
        self.rivals = Rivals::default();
        self.removals = Removals::default();
        self.drop_joiners();
        self.forget_partition();
        let others: Vec<Slot> = self.view.iter().map(|(slot, _)| slot).filter(|slot| *slot != View::ME).collect();
        for slot in others {
            self.drop_from_view(slot);
        }
        self.timers.clear();
        self.gossiping = Gossiping::default();
        self.flooding = Flooding::default();
        self.inquiries = Inquiries::default();
        self.disagreement = Disagreement::default();
        self.transfer = None;
    }
}
