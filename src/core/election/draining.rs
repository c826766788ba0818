//! Voters that drain: operators want them to lead nothing, as before maintenance. They vote, acknowledge and count.
//!
//! Invariants: a voter that drains does not stand, and a leader that drains hands over as one that leaves does. It
//! takes no exception: where all voters drain, nobody leads. A leader that drains no more before it has given anything up
//! leads on.
//!
//! Must not know: how an operator says so, and how others are told.

use std::collections::BTreeSet;

use super::{Context, Election, Role, Rules};
use crate::member::NodeId;

impl<R: Rules> Election<R> {
    /// Takes note of the voters that drain, this one perhaps among them.
    pub fn note_draining(&mut self, context: &Context<'_>, draining: BTreeSet<NodeId>) {
        self.expire(context);
        let was_draining = self.is_draining();
        self.draining = draining;
        if self.is_draining() {
            match self.role {
                Role::Leading(_) => {
                    // Also if it was told before: it may have begun to lead since.
                    self.resign(context);
                }
                Role::Candidate(_) => self.follow(context),
                Role::Forming(_) | Role::Outside | Role::Follower => {}
            }
        } else if was_draining {
            self.is_successor = false;
            match &mut self.role {
                Role::Follower => self.wait_for_leader(context),
                // One that leaves cannot be undrained.
                Role::Leading(leading) => leading.stays(),
                Role::Candidate(_) | Role::Forming(_) | Role::Outside => {}
            }
        }
    }

    /// Returns true if this voter drains.
    pub fn is_draining(&self) -> bool {
        self.draining.contains(&self.me)
    }
}
