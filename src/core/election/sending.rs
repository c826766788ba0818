//! Sending election messages to other voters.
//!
//! Must not know: what the messages mean to those who hear them.

use std::collections::BTreeMap;

use super::{Action, Body, Election, ElectionMessage, Identity, Lineage, NodeId, Rules, Voter};

impl<R: Rules> Election<R> {
    /// Sends messages to all other voters that count: those of the electorate, and of the one before while it is changing.
    pub(super) fn send_to_all(&mut self, body: &Body) {
        for voter in self.others() {
            self.send(&voter.id, body.clone());
        }
    }

    pub(super) fn send(&mut self, to: &NodeId, body: Body) {
        let lineage = self.lineage().unwrap_or(Lineage(0));
        let message = ElectionMessage { from: self.ballot.identity, lineage, body };
        self.actions.push_back(Action::Send { to: to.clone(), message });
    }

    pub(super) fn others(&self) -> Vec<Voter> {
        let Some(view) = &self.ballot.accepted else { return Vec::new() };
        let former = view.former_electorate();
        let voters = former.iter().flat_map(|former| &former.voters).chain(&view.electorate.voters);
        let by_identity: BTreeMap<Identity, &Voter> = voters.map(|voter| (voter.identity, voter)).collect();
        by_identity.into_values().filter(|voter| voter.identity != self.ballot.identity).cloned().collect()
    }
}
