//! The texts of the journal's lines: one line per transition and notice.
//!
//! All of this calls the user's subscriber, so only the journal's own thread may call it.

use tracing::field::display;
use tracing::{Level, debug, info, warn};

use crate::core::election::{Alarm, LossReason};
use crate::core::{NodeId, Notice};
use crate::event::EventKind;
use crate::lease::LeaseName;
use crate::member::Member;

/// The target of lines about members and the network between them.
const MEMBERSHIP: &str = "headcount::membership";
/// The target of lines about leaders and voters.
const LEADERSHIP: &str = "headcount::leadership";

/// Returns the level of an event's line; the most severe one, if that depends on the event.
pub(super) const fn level(kind: &EventKind) -> Level {
    match kind {
        EventKind::NodeUpdated { .. } | EventKind::ViewAgreed { .. } => Level::DEBUG,
        EventKind::PartitionSuspected { .. }
        | EventKind::LeaderLost { .. }
        | EventKind::QuorumLost { .. }
        | EventKind::ElectorateEnded => Level::WARN,
        _ => Level::INFO,
    }
}

/// Writes one line per transition. A record whose contents alone changed is of little interest to an operator.
pub(super) fn log(kind: &EventKind) {
    if log_leadership(kind) {
        return;
    }
    let Some(Member { id, address, run, incarnation, .. }) = kind.member() else { return log_partition(kind) };
    match kind {
        EventKind::NodeJoining { .. } => {
            info!(target: MEMBERSHIP, node = %id, %address, %run, incarnation, "{id} is joining from {address}");
        }
        EventKind::NodeJoined { .. } => {
            info!(target: MEMBERSHIP, node = %id, %address, %run, incarnation, "{id} is up at {address}");
        }
        EventKind::NodeSuspected { .. } => {
            info!(target: MEMBERSHIP, node = %id, %address, %run, incarnation, "{id} is suspected");
        }
        EventKind::NodeRecovered { .. } => {
            info!(target: MEMBERSHIP, node = %id, %address, %run, incarnation, "{id} is up again");
        }
        EventKind::NodeLeaving { .. } => {
            info!(target: MEMBERSHIP, node = %id, %address, %run, incarnation, "{id} is leaving");
        }
        EventKind::NodeDetectedDown { method, .. } => {
            info!(target: MEMBERSHIP, node = %id, %address, %run, incarnation, method = method.name(), "{id} is down ({})", method.name());
        }
        EventKind::NodeLeft { reason, .. } => {
            info!(target: MEMBERSHIP, node = %id, %address, %run, incarnation, reason = reason.name(), "{id} left ({})", reason.name());
        }
        EventKind::NodeRemoved { .. } => {
            info!(target: MEMBERSHIP, node = %id, %address, %run, incarnation, "{id} is forgotten");
        }
        EventKind::NodeUpdated { .. } => {
            debug!(target: MEMBERSHIP, node = %id, %address, %run, incarnation, "{id} has a new record");
        }
        _ => {}
    }
}

/// Names the lease, if it is not the cluster's own.
fn by(lease: Option<&LeaseName>) -> String {
    let further = lease.filter(|lease| lease.as_str() != LeaseName::DEFAULT);
    further.map(|lease| format!(" by the lease {lease}")).unwrap_or_default()
}

/// Writes the line of an event about leaders; returns false for other events.
fn log_leadership(kind: &EventKind) -> bool {
    match kind {
        EventKind::LeaderElected { leader, term, lease, .. } => {
            let (by, lease) = (by(lease.as_ref()), lease.as_ref().map(display));
            info!(target: LEADERSHIP, node = %leader, term, lease, "{leader} leads{by} in term {term}");
        }
        EventKind::LeaderLost { leader, term, reason, lease, .. } => {
            let (why, by, lease) = (reason.name(), by(lease.as_ref()), lease.as_ref().map(display));
            match reason {
                LossReason::Resigned | LossReason::Superseded => {
                    info!(target: LEADERSHIP, node = %leader, term, lease, reason = why, "{leader} no longer leads{by} (term {term}, {why})");
                }
                _ => {
                    warn!(target: LEADERSHIP, node = %leader, term, lease, reason = why, "{leader} no longer leads{by} (term {term}, {why})");
                }
            }
        }
        EventKind::QuorumLost { term } => warn!(
            target: LEADERSHIP,
            term,
            "too few voters answer, or too few still have their data: nobody can be elected until a majority of them is back \
             with it (`headcount voters list` shows them, `headcount doctor` says what to do)"
        ),
        EventKind::QuorumRegained { term } => info!(target: LEADERSHIP, term, "enough voters answer again"),
        // Its alarm says it, with what to do.
        EventKind::ElectorateEnded => {}
        EventKind::ViewAgreed { term, number } => debug!(target: LEADERSHIP, term, number, "view {number} is agreed"),
        _ => return false,
    }
    true
}

/// Writes the line of a partition. The event lists both sides; a line of the log has room for some names.
fn log_partition(kind: &EventKind) {
    match kind {
        EventKind::PartitionSuspected { unreachable, reachable } => {
            let (lost, left, names) = (unreachable.len(), reachable.len(), some_names(unreachable));
            warn!(
                target: MEMBERSHIP,
                unreachable = lost,
                reachable = left,
                "{lost} of {} members fell silent together ({names}): the network seems to be cut, or their hosts are gone",
                lost + left
            );
        }
        EventKind::PartitionHealed { unreachable, reachable } => {
            let (lost, left) = (unreachable.len(), reachable.len());
            let missing =
                if lost == 0 { "all are back".to_owned() } else { format!("still gone: {}", some_names(unreachable)) };
            info!(target: MEMBERSHIP, unreachable = lost, reachable = left, "the partition is over, members here: {left}; {missing}");
        }
        _ => {}
    }
}

fn some_names(names: &[NodeId]) -> String {
    const MOST: usize = 8;
    let listed: Vec<&str> = names.iter().take(MOST).map(NodeId::as_str).collect();
    let more = names.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", listed.join(", "))
}

/// Writes a notice of the core for the operator: most of them call for action.
pub(super) fn log_notice(notice: &Notice) {
    match notice {
        Notice::Founded
        | Notice::Refuted { .. }
        | Notice::HealthyAgain
        | Notice::LinkRecovered { .. }
        | Notice::DatagramsPass { .. } => {
            info!(target: MEMBERSHIP, "{notice}");
        }
        // Two that stand at once may fail; where nobody can be elected, that is warned of as an event.
        Notice::Election(alarm @ Alarm::ElectionFailed { .. }) => info!(target: LEADERSHIP, "{alarm}"),
        Notice::Election(alarm) => warn!(target: LEADERSHIP, "{alarm}"),
        _ => warn!(target: MEMBERSHIP, "{notice}"),
    }
}
