//! Metrics for Prometheus, as OpenMetrics text.
//!
//! Invariant: every metric is read from the agent's published figures at the moment of the scrape; nothing is counted
//! twice or kept here. Names start with `headcount_` and carry their unit; labels have few values: all known
//! beforehand, or with a named bound.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::problem::Refusal;
use super::{App, table};
use crate::agent::{Agent, Info, Leadership, LeaseFigures};
use crate::config::LeadershipMode;
use crate::core::{DropReason, LeadershipState, Status, TickLateness};
use crate::lease::LeaseName;

/// The greatest number of nodes of the table that are shown: label values have to be few.
const MAX_LISTED_NODES: usize = 64;
/// The time that a scrape waits for the database.
const NODES_PATIENCE: Duration = Duration::from_secs(1);

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(State(app): State<App>) -> Response {
    if let Ok(text) = text(Figures::of(&app).await) {
        return ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response();
    }
    let detail = "the figures could not be written as text";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "metrics", "Metrics failed", detail).into_response()
}

fn text(figures: Figures) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("headcount");
    registry.register_collector(Box::new(figures));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The figures of one scrape.
#[derive(Debug)]
struct Figures {
    info: Info,
    /// The number of lines lost by the agent's journal and by the process's log.
    log_lines_lost: u64,
    /// The leader, and the number of the agreed view; `None` if the mode is `none`.
    leadership: Option<(Leadership, u64)>,
    /// On the leader: the number of voters that acknowledge it, and the number of further voters that may fail.
    voters: Option<(usize, usize)>,
    /// For each lease: its name, its counters and its leader.
    leases: Vec<(String, LeaseFigures, Option<Leadership>)>,
    /// The nodes in the table of the database, and the time since the last heartbeat of each.
    nodes: Vec<(String, Duration)>,
    http: table::Figures,
    listings_revoked: u64,
}

impl Figures {
    async fn of(app: &App) -> Self {
        let agent: &Agent = &app.agent;
        let is_led = agent.config().leadership.mode != LeadershipMode::None;
        let leadership = is_led.then(|| {
            let number = agent.agreed_view().map_or(0, |view| view.number);
            (agent.leadership().get(), number)
        });
        let (standings, now) = agent.standings();
        let voters = standings.and_then(|standings| standings.acknowledging(now).zip(standings.failure_tolerance(now)));
        let (http, listings_revoked) = (app.table.figures(), app.listings.revoked());
        let info = agent.info();
        let mut leases = Vec::new();
        for (lease, figures) in &info.leases {
            let seen = agent.contended_lease(lease).map(|lease| lease.leadership().get());
            leases.push((lease.to_string(), *figures, seen));
        }
        let nodes = if leases.is_empty() { Vec::new() } else { heartbeats(agent).await };
        let log_lines_lost = info.log_lines_lost + app.log_lines_lost.load(Ordering::Relaxed);
        Self { info, log_lines_lost, leadership, voters, leases, nodes, http, listings_revoked }
    }
}

/// Returns the nodes that the table lists, most recently heard from first, at most [`MAX_LISTED_NODES`]; none if the
/// database does not answer soon, which other metrics show.
async fn heartbeats(agent: &Agent) -> Vec<(String, Duration)> {
    let lease = LeaseName::default();
    let asked = agent.lease_nodes(&lease);
    let Ok(Ok(listed)) = tokio::time::timeout(NODES_PATIENCE, asked).await else { return Vec::new() };
    let nodes = listed.nodes.into_iter().take(MAX_LISTED_NODES);
    nodes.map(|node| (node.node.to_string(), node.heartbeat_age)).collect()
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self { info, leadership, voters, http, listings_revoked, log_lines_lost, leases, nodes } = self;
        let counters = &info.counters;

        family(
            &mut encoder,
            "members",
            "Members in this node's view, itself included",
            "status",
            Status::NAMES.into_iter().zip(info.members),
            MetricType::Gauge,
        )?;
        gauge(&mut encoder, "view_changes", "Changes of this node's view since its start", info.changes)?;
        gauge(&mut encoder, "message_listeners", "Listeners to messages", info.message_listeners as u64)?;
        gauge(&mut encoder, "links", "TCP links to other nodes that stand", info.open_links as u64)?;
        for (name, help, value) in [
            (
                "health_score",
                "Evidence against this node's own observation, 0 to 7: it accuses others up to one more than that times later",
                u64::from(info.health_score),
            ),
            ("links_degraded", "Members that others hear and this node does not", info.degraded_links as u64),
            ("partition_unreachable", "Members of a suspected partition that are missing", info.unreachable as u64),
        ] {
            gauge(&mut encoder, name, help, value)?;
        }
        self::http(&mut encoder, http, *listings_revoked)?;
        lateness(&mut encoder, &counters.tick_lateness)?;
        if let Some((leadership, view_number)) = leadership {
            self::leadership(&mut encoder, leadership, *view_number, info)?;
        }
        if let Some((acknowledging, tolerance)) = *voters {
            let help = "Voters that acknowledge this leader, itself included";
            gauge(&mut encoder, "voters_acknowledging", help, acknowledging as u64)?;
            let help = "How many more voters may fail before nobody leads, as this leader knows it";
            gauge(&mut encoder, "voters_failure_tolerance", help, tolerance as u64)?;
        }
        super::lease_metrics::encode(&mut encoder, leases, nodes)?;
        let uptime = ConstGauge::new(info.uptime.as_secs_f64());
        let described =
            encoder.encode_descriptor("uptime", "Time since the start", Some(&Unit::Seconds), MetricType::Gauge)?;
        uptime.encode(described)?;

        for (name, help, value) in [
            ("packets_received", "Datagrams received, whatever became of them", counters.packets_received),
            ("packets_sent", "Datagrams sent", counters.packets_sent),
            ("heartbeats_sent", "Packets sent for nothing but to be heard", counters.heartbeats_sent),
            ("signs_of_life", "Packets that were a sign of life of a member", counters.signs_of_life),
            ("gossip_sent", "Gossip packets sent on the tick", counters.gossip_sent),
            ("updates_sent", "Updates of records sent, in any packet", counters.updates_sent),
            ("updates_received", "Updates of records received, in any packet", counters.updates_received),
            ("updates_merged", "Updates received that changed the view", counters.updates_merged),
            ("syncs", "Repairs begun because views stayed different", counters.syncs),
            ("probes_sent", "Probes sent", counters.probes_sent),
            ("degraded_links", "Times others had heard a member that this node had not", counters.degraded_links),
            ("suspicions_raised", "Suspicions raised by this node", counters.suspicions_raised),
            (
                "suspicions_believed",
                "Members held Suspect or Down for their silence, at anybody's word",
                counters.suspicions_believed,
            ),
            ("suspicions_refuted", "Suspicions of anybody that were refuted", counters.suspicions_refuted),
            ("suspicions_confirmed", "Suspicions of anybody that ended as down", counters.suspicions_confirmed),
            ("refutations", "Times this node refuted its own suspicion or death", counters.refutations),
            ("links_lost", "Links that broke without a goodbye", counters.links_lost),
            (
                "crashes_detected",
                "Processes that this node was the first to report as crashed",
                counters.crashes_detected,
            ),
            ("crashes_refuted", "Broken links whose other end turned out to live", counters.crashes_refuted),
            ("link_frames_sent", "Frames sent over links", counters.frames_sent),
            ("link_frames_received", "Frames received over links", counters.frames_received),
            ("link_frames_congested", "Frames not sent because their link was congested", info.congested_frames),
            ("links_turned_away", "Connections closed because too many had not said anything", info.links_turned_away),
            ("link_accept_errors", "Errors survived while accepting connections", info.link_accept_errors),
            ("messages_sent", "Messages between programs that began here", counters.messages.sent),
            ("messages_received", "Copies of messages received", counters.messages.received),
            ("messages_delivered", "Messages given to this node's programs", counters.messages.delivered),
            ("messages_delivered_here", "Those of them that began here", counters.messages.delivered_here),
            (
                "messages_failed",
                "Messages refused, or without a receipt or answer in time, and direct calls that failed",
                counters.messages.failed,
            ),
            ("messages_duplicate", "Copies of messages seen before or too old", counters.messages.duplicate),
            ("messages_dropped", "Copies of messages not taken for another reason", counters.messages.dropped),
            (
                "messages_evicted",
                "Broadcasts no longer kept for members that lack them, before their time",
                counters.messages.evicted,
            ),
            ("message_copies_sent", "Copies of broadcasts sent to other members", counters.messages.copies_sent),
            ("direct_calls_delivered", "Direct calls by which a node had a broadcast first", info.direct.delivered),
            ("direct_calls_duplicate", "Direct calls to nodes that had the broadcast already", info.direct.duplicate),
            ("direct_calls_failed", "Direct calls refused, not answered, or not made", info.direct.failed),
            ("messages_lost", "Messages lost because their listener was too slow", info.messages_lost),
            ("pauses", "Times this process stood still", counters.pauses),
            (
                "receive_buffer_overflows",
                "Datagrams that the kernel dropped because the receive buffer was full",
                info.receive_buffer_overflows,
            ),
            ("send_buffer_full", "Datagrams not sent because the send buffer was full", info.send_buffer_full),
            ("oversized_datagrams", "Datagrams longer than any packet", info.oversized_datagrams),
            ("socket_errors", "Socket errors survived", info.socket_errors),
            ("state_write_failures", "Writes of the state file that failed", info.state_write_failures),
            ("log_lines_lost", "Log lines that were not written, or not made because of their number", *log_lines_lost),
        ] {
            counter(&mut encoder, name, help, None, value)?;
        }
        for (name, help, value) in [
            ("received", "Payload of datagrams received", counters.bytes_received),
            ("sent", "Payload of datagrams sent", counters.bytes_sent),
            ("link_received", "Payload of frames received over links", counters.frame_bytes_received),
            ("link_sent", "Payload of frames sent over links", counters.frame_bytes_sent),
        ] {
            counter(&mut encoder, name, help, Some(&Unit::Bytes), value)?;
        }
        family(
            &mut encoder,
            "dropped",
            "What was received and not used",
            "reason",
            DropReason::ALL.into_iter().map(|reason| (reason.name(), counters.dropped(reason))),
            MetricType::Counter,
        )
    }
}

/// Encodes the metrics of leadership.
fn leadership(
    encoder: &mut DescriptorEncoder<'_>,
    leadership: &Leadership,
    view_number: u64,
    info: &Info,
) -> fmt::Result {
    let has_quorum = leadership.state != LeadershipState::Unavailable;
    for (name, help, value) in [
        ("leader", "Whether this node leads", u64::from(leadership.is_me)),
        ("leader_known", "Whether this node knows who leads", u64::from(leadership.leader.is_some())),
        ("leadership_term", "The latest term known", leadership.term),
        ("quorum", "Whether enough voters can be reached to elect a leader", u64::from(has_quorum)),
        (
            "voter_aside",
            "Whether this node stands aside as a voter because its disk refuses",
            u64::from(info.voter_aside),
        ),
        ("view_number", "The number of the newest agreed view known", view_number),
    ] {
        gauge(encoder, name, help, value)?;
    }
    let remaining = leadership.valid_until.map_or(0.0, |until| until.remaining().as_secs_f64());
    let help = "For how long the leader leads without a renewal, as far as this node knows";
    let described = encoder.encode_descriptor("lease_remaining", help, Some(&Unit::Seconds), MetricType::Gauge)?;
    ConstGauge::new(remaining).encode(described)?;
    counter(encoder, "leadership_changes", "Leaders elected, as this node saw it", None, info.leaders_elected)?;
    let help = "Words sent to other voters";
    counter(encoder, "election_words_sent", help, None, info.counters.election_sent)
}

/// Encodes the metrics of this interface itself.
fn http(encoder: &mut DescriptorEncoder<'_>, http: &table::Figures, listings_revoked: u64) -> fmt::Result {
    gauge(encoder, "http_connections", "HTTP connections open, event streams included", http.connections as u64)?;
    gauge(encoder, "http_streams", "Event streams open", http.streams as u64)?;
    for (name, help, value) in [
        ("http_connections_shed", "HTTP connections closed to make room for others", http.shed),
        ("http_connections_refused", "HTTP connections closed because all others were being answered", http.refused),
        ("http_accept_errors", "Errors survived while accepting HTTP connections", http.accept_errors),
        ("http_panics", "HTTP connections that ended because of a bug", http.panics),
        ("http_answers_revoked", "Large answers taken away from readers that were too slow", listings_revoked),
    ] {
        counter(encoder, name, help, None, value)?;
    }
    Ok(())
}

fn lateness(encoder: &mut DescriptorEncoder<'_>, lateness: &TickLateness) -> fmt::Result {
    let (name, help, seconds) = ("tick_lateness", "How late this node's own timers fired", Some(&Unit::Seconds));
    let described = encoder.encode_descriptor(name, help, seconds, MetricType::Histogram)?;
    Lateness(lateness).encode(described)?;
    let (name, help) = ("tick_lateness_max", "How late the latest of this node's own timers fired");
    let described = encoder.encode_descriptor(name, help, seconds, MetricType::Gauge)?;
    ConstGauge::new(lateness.max.as_secs_f64()).encode(described)
}

/// A histogram whose counts are kept elsewhere.
struct Lateness<'a>(&'a TickLateness);

impl EncodeMetric for Lateness<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Self(lateness) = self;
        let bounds = TickLateness::BOUNDS.iter().map(std::time::Duration::as_secs_f64).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(lateness.counts().iter().copied()).collect();
        let count = lateness.counts().iter().sum();
        encoder.encode_histogram::<NoLabelSet>(lateness.sum.as_secs_f64(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: u64,
) -> fmt::Result {
    ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, unit, MetricType::Counter)?)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn family<V: TryInto<u64>>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &'static str,
    values: impl Iterator<Item = (&'static str, V)>,
    kind: MetricType,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (word, value) in values {
        let value = value.try_into().unwrap_or(u64::MAX);
        let labels = [(label, word)];
        let encoder = family.encode_family(&labels)?;
        match kind {
            MetricType::Counter => ConstCounter::new(value).encode(encoder)?,
            _ => ConstGauge::new(value).encode(encoder)?,
        }
    }
    Ok(())
}
