//! `GET /metrics`: the agent's metrics, and those of this interface.
//!
//! Invariant: Prometheus' own text form is the default, since all its tools take it; OpenMetrics is for those who ask for
//! it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::exposition::Form;
use super::problem::Refusal;
use super::{App, table};
use crate::agent::Agent;
use crate::handlers;
use crate::lease::LeaseName;
use crate::metrics::shapes::{Families, Kind, counter, family, gauge};

/// The greatest number of nodes of the table that are shown: label values have to be few.
const MAX_LISTED_NODES: usize = 64;
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
            streams_max: app.table.limits().streams,
            listings_revoked,
            refused: app.refused.by_reason(),
            handlers: app.handlers.figures(),
            nodes,
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
        let Self { http, streams_max, listings_revoked, refused, handlers, nodes } = self;
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
        families.encode(&mut encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_nodes_of_the_table_are_listed_the_latest_first() {
        let nodes = |count: usize| (0..count).map(|nth| (format!("n{nth}"), Duration::from_secs(nth as u64)));
        assert_eq!(first_nodes(nodes(MAX_LISTED_NODES)).len(), MAX_LISTED_NODES);
        let listed = first_nodes(nodes(MAX_LISTED_NODES + 1));
        assert_eq!(listed, nodes(MAX_LISTED_NODES).collect::<Vec<_>>());
    }
}
