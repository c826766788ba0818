//! Visits: connections that only find out whether anybody listens at a joiner's address.
//!
//! Invariant: at most one visit per joiner.
//!
//! Must not know: what is concluded from one.

use std::net::SocketAddr;

use crate::core::Core;
use crate::core::counters::DropReason;
use crate::core::doors::{LinkEvent, Output};
use crate::core::limits::MAX_LINKS;
use crate::core::member::Run;

impl Core {
    /// Finds out whether anybody listens at a joiner's address.
    pub(in crate::core) fn visit_joiner(&mut self, run: Run, to: SocketAddr) {
        self.end_visit(run);
        if self.links.in_use() >= MAX_LINKS {
            return self.counters.drop(DropReason::TableFull);
        }
        let link = self.links.next_id();
        self.links.visits.insert(link, run);
        self.outputs.push_back(Output::OpenLink { link, to });
    }

    /// Ends a visit: nothing is to be found out about the joiner any more.
    pub(in crate::core) fn end_visit(&mut self, run: Run) {
        let visit = self.links.visits.iter().find(|(_, visited)| **visited == run).map(|(link, _)| *link);
        if let Some(link) = visit {
            self.links.visits.remove(&link);
            self.outputs.push_back(Output::CloseLink { link });
        }
    }

    pub(super) fn visited(&mut self, run: Run, event: LinkEvent<'_>) {
        match event {
            LinkEvent::Connected => self.end_visit(run),
            LinkEvent::Frame { .. } => {}
            LinkEvent::Refused | LinkEvent::Unreachable | LinkEvent::Closed => {
                self.links.visits.retain(|_, visited| *visited != run);
                if event == LinkEvent::Refused {
                    self.joiner_refused(run);
                }
            }
        }
    }
}
