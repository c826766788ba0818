//! Joining anew: a node that was cut off for too long forgets all members before it looks for its cluster again.
//!
//! Must not know: when to do so (see `membership`).

use crate::Core;
use crate::detection::Inquiries;
use crate::joining::{NameProbes, Rivals};
use crate::view::{Slot, View};

impl Core {
    /// Forgets all members but this node, and all state about them.
    pub(crate) fn forget_everybody(&mut self) {
        self.give_up_move();
        self.end_confirmations();
        self.end_contacts();
        self.name_probes = NameProbes::default();
        self.rivals = Rivals::default();
        self.drop_joiners();
        self.partition.forget_everybody(&mut self.cx, &self.view);
        let others: Vec<Slot> = self.view.iter().map(|(slot, _)| slot).filter(|slot| *slot != View::ME).collect();
        for slot in others {
            self.drop_from_view(slot);
        }
        self.cx.timers.clear();
        self.resume_messages();
        self.gossip.forget_everybody();
        self.detector.inquiries = Inquiries::default();
        self.transfer = None;
    }
}
