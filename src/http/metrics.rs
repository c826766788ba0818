//! `GET /metrics`: the agent's metrics, and those of this interface.
//!
//! Invariants:
//! - Prometheus' own text form is the default, since all its tools take it; OpenMetrics is for those who ask for it.
//! - A label that is a node's name has a bound on its values.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::exposition::Form;
use super::problem::Refusal;
use super::{App, table};
use crate::agent::{Agent, Peer};
use crate::handlers;
use crate::lease::LeaseName;
use crate::metrics::shapes::{Families, Kind, counter, family, gauge};

/// The greatest number of nodes of the table that are shown: label values have to be few.
const MAX_LISTED_NODES: usize = 64;
/// The greatest number of members that have series of their own.
const MAX_MEMBERS_SHOWN: usize = 200;
/// The time that a scrape waits for the database.
const NODES_PATIENCE: Duration = Duration::from_secs(1);

pub(super) async fn metrics(State(app): State<App>, headers: HeaderMap) -> Response {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let form = Form::accepted(&accepts.collect::<Vec<_>>().join(","));
    let mut registry = Registry::default();
    let agent = app.agent.collector().counting_log_lines(Arc::clone(&app.log_lines_lost));
    registry.register_collector(Box::new(agent));
    registry.register_collector(Box::new(Figures::of(&app).await));
    let Ok(text) = form.encode(&registry) else {
        let detail = "the figures could not be written as text";
        return Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "metrics", "Metrics failed", detail).into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(form.content_type())),
        (header::VARY, HeaderValue::from_static("accept")),
    ];
    (headers, text).into_response()
}

/// The figures of this interface, and those of the agent that are asked for over a network.
#[derive(Debug)]
struct Figures {
    http: table::Figures,
    /// The number of event streams that may be open.
    streams_max: usize,
    listings_revoked: u64,
    /// The requests that were refused unread, by reason.
    refused: [(&'static str, u64); 3],
    handlers: Vec<(String, handlers::Figures)>,
    /// The nodes in the table of the database, and the time since the last heartbeat of each; `None` where no lease leads.
    nodes: Option<Vec<(String, Duration)>>,
    /// `None` unless the configuration asks for series of each member.
    members: Option<Members>,
}

/// The figures of each member.
#[derive(Debug)]
struct Members {
    peers: Vec<Peer>,
    now: SystemTime,
    /// True if there are too many: none has series.
    are_left_out: bool,
}

impl Members {
    /// Returns those of a view with so many live members.
    fn of(live: usize, peers: impl FnOnce() -> Vec<Peer>) -> Self {
        let are_left_out = live > MAX_MEMBERS_SHOWN;
        // Read before their ages, so that one packet has nearly the same time in every scrape.
        let now = SystemTime::now();
        let peers = if are_left_out { Vec::new() } else { peers() };
        Self { peers, now, are_left_out }
    }

    fn encode(&self, families: &mut Families) {
        let described =
            ("member_series_left_out", "1 if there are more than 200 live members: none has series of its own");
        gauge(families, described, u64::from(self.are_left_out));
        let described = ("member_last_sign_timestamp", "Time of the last packet of a member");
        let since_1970 = self.now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let sign = |peer: &Peer| since_1970.saturating_sub(peer.heartbeat_age).as_secs_f64();
        let signs = self.peers.iter().map(|peer| (peer.id.as_str(), sign(peer)));
        family(families, Kind::SecondsGauge, described, "node", signs);
        let described = ("member_round_trip", "Smoothed round trip to a member");
        let trips = self.peers.iter().filter_map(|peer| Some((peer.id.as_str(), peer.round_trip?.as_secs_f64())));
        family(families, Kind::SecondsGauge, described, "node", trips);
    }
}

impl Figures {
    async fn of(app: &App) -> Self {
        let (http, listings_revoked) = (app.table.figures(), app.listings.revoked());
        let nodes = match app.agent.leases_contended_for() {
            Some(_) => Some(heartbeats(&app.agent).await),
            None => None,
        };
        Self {
            http,
            streams_max: app.table.limits().streams(),
            listings_revoked,
            refused: app.refused.by_reason(),
            handlers: app.handlers.figures(),
            nodes,
            members: app.per_member_metrics.then(|| {
                let [joining, up, suspect, leaving, ..] = app.agent.info().members;
                Members::of(joining + up + suspect + leaving, || app.agent.telemetry().peers)
            }),
        }
    }
}

/// Returns the nodes that the table lists, most recently heard from first, at most [`MAX_LISTED_NODES`]; none if the
/// database does not answer soon, which other metrics show.
async fn heartbeats(agent: &Agent) -> Vec<(String, Duration)> {
    let lease = LeaseName::default();
    let asked = agent.lease_nodes(&lease);
    let Ok(Ok(listed)) = tokio::time::timeout(NODES_PATIENCE, asked).await else { return Vec::new() };
    first_nodes(listed.nodes.into_iter().map(|node| (node.node.to_string(), node.heartbeat_age)))
}

fn first_nodes(nodes: impl Iterator<Item = (String, Duration)>) -> Vec<(String, Duration)> {
    nodes.take(MAX_LISTED_NODES).collect()
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self { http, streams_max, listings_revoked, refused, handlers, nodes, members } = self;
        let mut families = Families::default();
        gauge(
            &mut families,
            ("http_connections", "HTTP connections open, event streams included"),
            http.connections as u64,
        );
        gauge(&mut families, ("http_streams", "Event streams open"), http.streams as u64);
        gauge(&mut families, ("http_streams_max", "Event streams that may be open at one time"), *streams_max as u64);
        for (name, help, value) in [
            ("http_connections_shed", "HTTP connections closed to make room for others", http.shed),
            (
                "http_connections_refused",
                "HTTP connections closed because all others were being answered",
                http.refused,
            ),
            ("http_accept_errors", "Errors survived while accepting HTTP connections", http.accept_errors),
            ("http_panics", "HTTP connections that ended because of a bug", http.panics),
            ("http_answers_revoked", "Large answers taken away from readers that were too slow", *listings_revoked),
        ] {
            counter(&mut families, (name, help), value);
        }
        let described = ("http_requests_refused", "HTTP requests refused because of their host, token or origin");
        family(&mut families, Kind::Counter, described, "reason", refused.iter().copied());
        super::handler_metrics::encode(&mut families, handlers);
        if let Some(nodes) = nodes {
            let described =
                ("lease_heartbeat_age", "Time since a node's last heartbeat in the table, by the database's clock");
            let ages = nodes.iter().map(|(node, age)| (node.as_str(), age.as_secs_f64()));
            family(&mut families, Kind::SecondsGauge, described, "node", ages);
        }
        if let Some(members) = members {
            members.encode(&mut families);
        }
        families.encode(&mut encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::NodeId;

    impl Collector for Members {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut families = Families::default();
            Members::encode(self, &mut families);
            families.encode(&mut encoder)
        }
    }

    fn samples(members: Members) -> Vec<String> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(members));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn members_have_series_of_their_own_in_views_that_are_not_too_large() {
        let peer = |name: &str, round_trip| Peer {
            id: NodeId::new(name).expect("a name"),
            round_trip,
            heartbeat_age: Duration::from_millis(1_500),
            is_observed: true,
        };
        let peers = || vec![peer("a", Some(Duration::from_millis(250))), peer("b", None)];
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let shown = Members { now, ..Members::of(MAX_MEMBERS_SHOWN, peers) };
        let expected = [
            "headcount_member_series_left_out 0",
            "headcount_member_last_sign_timestamp_seconds{node=\"a\"} 998.5",
            "headcount_member_last_sign_timestamp_seconds{node=\"b\"} 998.5",
            "headcount_member_round_trip_seconds{node=\"a\"} 0.25",
        ];
        assert_eq!(samples(shown), expected);
        let left_out = Members::of(MAX_MEMBERS_SHOWN + 1, peers);
        assert_eq!(samples(left_out), ["headcount_member_series_left_out 1"]);
    }

    #[test]
    fn so_many_nodes_of_the_table_are_listed_the_latest_first() {
        let nodes = |count: usize| (0..count).map(|nth| (format!("n{nth}"), Duration::from_secs(nth as u64)));
        assert_eq!(first_nodes(nodes(MAX_LISTED_NODES)).len(), MAX_LISTED_NODES);
        let listed = first_nodes(nodes(MAX_LISTED_NODES + 1));
        assert_eq!(listed, nodes(MAX_LISTED_NODES).collect::<Vec<_>>());
    }
}
