//! Visits: connections that only find out whether anybody listens at a joiner's address.
//!
//! Must not know: what is concluded from one.

use std::net::SocketAddr;

use crate::Core;
use crate::doors::LinkEvent;
use crate::member::Run;

impl Core {
    /// Finds out whether anybody listens at a joiner's address.
    pub(crate) fn visit_joiner(&mut self, run: Run, to: SocketAddr) {
        let actions = self.paths.links.visit(run, to);
        self.act_on_link(run, actions);
    }

    /// Ends a visit: nothing is to be found out about the joiner any more.
    pub(crate) fn end_visit(&mut self, run: Run) {
        let actions = self.paths.links.end_visit(run);
        self.act_on_link(run, actions);
    }

    pub(super) fn visited(&mut self, run: Run, event: LinkEvent<'_>) {
        match event {
            LinkEvent::Connected => self.end_visit(run),
            LinkEvent::Frame { .. } => {}
            LinkEvent::Refused | LinkEvent::Unreachable | LinkEvent::Closed | LinkEvent::Unopened(_) => {
                self.paths.links.visit_over(run);
                if event == LinkEvent::Refused {
                    self.joiner_refused(run);
                }
            }
        }
    }
}
