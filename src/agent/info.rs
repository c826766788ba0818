//! [`Info`]: an agent's figures about itself and its view, for people and for metrics.
//!
//! Invariant: reading them never asks the driver.

use std::time::Duration;

use super::agreement::Agreement;
use super::bus::Readers;
use super::keys::SealingInfo;
use super::{Agent, Inner};
use crate::core::{Counters, NodeId, Profile, Settings};
use crate::member::Member;

/// Figures about this node and its view.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Info {
    /// This node.
    pub me: Member,
    /// The cluster's name.
    pub cluster: NodeId,
    /// The profile that the figures of `settings` come from.
    pub profile: Profile,
    /// Pace and sizes.
    pub settings: Settings,
    /// Local count of changes of the view.
    pub changes: u64,
    /// Order-independent hash of the view.
    pub fingerprint: u64,
    /// Members by status, in the order of `Status::NAMES`.
    pub members: [usize; 6],
    /// Time since the start.
    pub uptime: Duration,
    /// The number of the newest event.
    pub last_event: u64,
    /// The number of events by kind, in the order of [`EventKind::NAMES`](crate::EventKind::NAMES).
    pub events: Vec<u64>,
    /// The readers of events by kind, in the order of [`Reader::ALL`](super::Reader::ALL).
    pub event_readers: Vec<Readers>,
    /// The requests of handles that wait for the driver.
    pub queued_requests: usize,
    /// The log lines that wait for the tracing subscriber.
    pub queued_log_lines: usize,
    /// The counters of the core.
    pub counters: Counters,
    /// Evidence against this node's own observation, 0 for none to 7; one more is the factor by which it stretches the
    /// timeouts by which it accuses others.
    pub health_score: u32,
    /// Members that others hear and this node does not, although it observes them.
    pub degraded_links: usize,
    /// Members of a suspected partition that are missing; 0 if none is suspected.
    pub unreachable: usize,
    /// True if members reach this node at the address that it advertises, as far as it knows: false if one said no, and none
    /// has shown since that it receives what this node sends. Such a node is not ready.
    pub reachable: bool,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub receive_buffer_overflows: u64,
    /// Datagrams that were not sent because the send buffer was full.
    pub send_buffer_full: u64,
    /// Datagrams longer than anything we speak.
    pub oversized_datagrams: u64,
    /// Socket errors survived.
    pub socket_errors: u64,
    /// The sealing of this node's packets.
    pub sealing: SealingInfo,
    /// Datagrams and frames refused because of their seals, in the order of
    /// [`SealError::NAMES`](crate::seal::SealError::NAMES).
    pub refused_seals: Vec<u64>,
    /// TCP links to other nodes that stand.
    pub open_links: usize,
    /// Frames not sent because their link, or all links together, were congested.
    pub congested_frames: u64,
    /// TCP connections closed because too many others had not said anything yet, or stood already.
    pub links_turned_away: u64,
    /// Errors survived while accepting TCP connections.
    pub link_accept_errors: u64,
    /// Writes of the state file that failed.
    pub state_write_failures: u64,
    /// Writes of the state file that failed since the last one that succeeded: above 0 while the state is not on disk.
    pub state_unwritten: u64,
    /// Leaders elected, as this node saw it.
    pub leaders_elected: u64,
    /// This node neither votes nor leads, because its data directory does not take its ballot.
    pub voter_aside: bool,
    /// The figures of each lease, in lease mode.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub leases: std::collections::BTreeMap<crate::lease::LeaseName, super::LeaseFigures>,
    /// Listeners to messages.
    pub message_listeners: usize,
    /// Messages lost on the way to listeners that were too slow.
    pub messages_lost: u64,
    /// Messages skipped by listeners of [`Agent::messages`], since they were not of the type that is listened for.
    pub messages_undecodable: u64,
    /// Calls of this node with its broadcasts, to nodes that the table of leases lists and its view lacks. The core's counters
    /// of messages, as they are shown here, include those that failed, and the copies that these were.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub direct: super::DirectFigures,
    /// Log lines lost on the way to the tracing subscriber, which was too slow or panicked.
    pub log_lines_lost: u64,
}

impl Agent {
    /// Returns figures about this node and its view, as of a moment ago: with what this node did for every command that
    /// was answered before.
    pub fn info(&self) -> Info {
        let Inner { shared, config, .. } = &*self.inner;
        let figures = shared.figures();
        #[cfg(any(feature = "sqlite", feature = "postgres"))]
        let (figures, direct) = with_calls(figures, &shared.outbox);
        let (message_listeners, messages_lost, messages_undecodable) = shared.listeners.figures();
        Info {
            me: self.me(),
            cluster: config.cluster.clone(),
            profile: config.profile(),
            settings: config.settings.clone(),
            changes: figures.changes,
            fingerprint: figures.fingerprint,
            members: shared.directory().by_status(),
            uptime: shared.clock.elapsed(),
            last_event: shared.bus.last(),
            events: shared.bus.told().into(),
            event_readers: shared.bus.readers().into(),
            queued_requests: self.inner.requests.max_capacity() - self.inner.requests.capacity(),
            queued_log_lines: shared.journal.queued(),
            counters: figures.counters,
            health_score: figures.health_score,
            degraded_links: figures.degraded_links,
            unreachable: figures.unreachable.len(),
            reachable: !figures.is_misplaced,
            receive_buffer_overflows: shared.socket.overflows(),
            send_buffer_full: shared.socket.send_buffer_full(),
            oversized_datagrams: shared.socket.oversized(),
            socket_errors: shared.socket.errors(),
            sealing: self.inner.keeper.info(),
            refused_seals: self.inner.keeper.refused().into(),
            open_links: figures.open_links,
            congested_frames: shared.links.dropped_frames(),
            links_turned_away: shared.links.turned_away(),
            link_accept_errors: shared.links.accept_errors(),
            state_write_failures: shared.state_writer().failures(),
            state_unwritten: shared.state_writer().failing(),
            leaders_elected: figures.leaders_elected + self.leaders_by_lease(),
            voter_aside: figures.voter_aside,
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            leases: self.leases().map(|leases| leases.figures()).unwrap_or_default(),
            message_listeners,
            messages_lost,
            messages_undecodable,
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            direct,
            log_lines_lost: shared.journal.lost(),
        }
    }

    /// Compares the views of the live members that this node hears with its own.
    pub fn agreement(&self) -> Agreement {
        let Inner { shared, config, .. } = &*self.inner;
        shared.directory().agreement(shared.figures().fingerprint, config.settings.longest_quiet())
    }

    /// Leaders of the cluster's lease that this node saw.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn leaders_by_lease(&self) -> u64 {
        let figures = self.leases().and_then(|leases| leases.figures().remove(&crate::lease::LeaseName::default()));
        figures.map_or(0, |figures| figures.leaders_elected)
    }

    #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
    #[expect(clippy::unused_self, reason = "there are no leases without a database")]
    const fn leaders_by_lease(&self) -> u64 {
        0
    }
}

/// The core counts messages, and does not know of calls.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn with_calls(
    mut figures: super::shared::Figures,
    outbox: &super::messages::Outbox,
) -> (super::shared::Figures, super::DirectFigures) {
    let direct = outbox.figures();
    let messages = &mut figures.counters.messages;
    messages.failed += direct.failed;
    messages.copies_sent += direct.delivered + direct.duplicate;
    (figures, direct)
}
