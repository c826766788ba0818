//! The HTTP interface from outside: every route, every status, on real sockets.

mod broken;
mod events;
mod hosts;
mod limits;
mod openapi;
mod support;

use headcount::StopReason;
use headcount::agent::Stop;
use headcount::http::{HttpSettings, Token, Tokens};
use support::{first, first_with, joined, node, until_up};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn a_node_tells_about_itself() {
    let a = first("a").await;
    let info = a.get("/v1/info").await;
    assert_eq!(info.status, 200);
    assert_eq!(info.header("content-type"), Some("application/json"));
    let info = info.json();
    let keys = [
        "node",
        "run",
        "cluster",
        "version",
        "protocol",
        "status",
        "incarnation",
        "address",
        "http",
        "changes",
        "fingerprint",
        "members",
        "profile",
        "timing",
        "uptime_ms",
        "tasks",
    ];
    for key in keys {
        assert!(!info[key].is_null(), "{key} in {info}");
    }
    assert_eq!((&info["node"], &info["status"], &info["tasks"]), (&"a".into(), &"up".into(), &"ok".into()));
    assert_eq!(
        (&info["leases"], info.get("leases").is_some()),
        (&serde_json::Value::Null, true),
        "leaders come by no lease here"
    );
    assert_eq!(info["http"], a.http.to_string());
    assert_eq!(info["members"]["up"], 1);
    assert_eq!((&info["profile"], &info["timing"]["heartbeat_interval_ms"]), (&"local".into(), &200.into()));

    let health = a.get("/healthz").await;
    assert_eq!((health.status, health.body.as_str()), (200, "ok"));
    assert_eq!(a.get("/readyz").await.status, 200);
    let index = a.get("/").await;
    assert_eq!(index.status, 200);
    assert!(index.body.contains("/v1/events") && index.body.contains("/metrics"));
}

#[tokio::test]
async fn metrics_are_text_for_prometheus_with_our_prefix_and_open_metrics_for_whoever_asks() {
    let a = first("a").await;
    let metrics = a.ask("GET", "/metrics", &["accept: application/openmetrics-text; version=1.0.0"], "").await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text")));
    assert!(metrics.body.ends_with("# EOF\n") && metrics.body.contains("# TYPE headcount_pauses counter\n"));
    let metrics = a.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(!metrics.body.contains("# EOF") && metrics.body.contains("# TYPE headcount_pauses_total counter\n"));
    for line in metrics.body.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.starts_with("headcount_"), "{line}");
    }
    for line in [
        "headcount_members{status=\"up\"} 1",
        "headcount_dropped_total{reason=\"malformed\"} 0",
        "headcount_suspicions_raised_total 0",
        "headcount_receive_buffer_overflows_total 0",
        "headcount_links_degraded 0",
        "headcount_partition_unreachable 0",
        "headcount_http_accept_errors_total 0",
        "headcount_http_connections 1",
        "headcount_http_streams 0",
        "headcount_event_subscribers{subscriber=\"http\"} 0",
        "headcount_events_total{event=\"node_joined\"} 1",
        "headcount_events_lagged_total{subscriber=\"handler\"} 0",
        "headcount_log_lines_lost_total 0",
        "headcount_views_compared{view=\"different\"} 0",
        "# TYPE headcount_round_trip_seconds histogram",
        "# TYPE headcount_heartbeat_age_seconds histogram",
        "# TYPE headcount_detection_latency_seconds histogram",
        "# TYPE headcount_health_score gauge",
        "# TYPE headcount_tick_lateness_seconds histogram",
        "# TYPE headcount_tick_lateness_max_seconds gauge",
    ] {
        assert!(metrics.body.lines().any(|found| found == line), "{line}");
    }
    let mut buckets = metrics.body.lines().filter(|line| line.starts_with("headcount_tick_lateness_seconds_bucket"));
    let last = buckets.next_back().expect("buckets");
    assert!(last.contains("le=\"+Inf\""), "{last}");
    let count = last.rsplit_once(' ').map(|(_, count)| format!("headcount_tick_lateness_seconds_count {count}"));
    assert!(metrics.body.lines().any(|line| Some(line) == count.as_deref()), "{count:?}");
}

#[tokio::test]
async fn members_are_listed_sorted_and_filtered() {
    let a = first("a").await;
    let c = joined("c", &a).await;
    let b = joined("b", &a).await;
    until_up(&a, 3).await;
    let names = |answer: &support::Answer| -> Vec<String> {
        let members = answer.json();
        members.as_array().expect("a list").iter().map(|member| member["id"].to_string()).collect()
    };
    let all = a.get("/v1/members").await;
    assert_eq!((all.status, names(&all)), (200, vec!["\"a\"".into(), "\"b\"".into(), "\"c\"".into()]));
    assert_eq!(all.json()[0]["is_me"], true);
    assert_eq!(all.json()[1]["address"], b.agent.gossip_address().to_string());

    let tags = r#"{"tags":{"zone":"eu-1","role":"cache"}}"#;
    let answer = b.send_json("PUT", "/v1/tags", tags).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"tags":{"role":"cache","zone":"eu-1"}}"#));
    assert_eq!(names(&b.get("/v1/members?tag=zone=eu-1,role").await), ["\"b\""]);
    assert!(names(&b.get("/v1/members?tag=zone=us").await).is_empty());
    assert_eq!(b.send_json("PUT", "/v1/tags", r#"{"tags":{"zone":"eu-2"}}"#).await.status, 200);
    let b_now = b.get("/v1/members/b").await.json();
    assert_eq!(b_now["tags"], serde_json::json!({"zone": "eu-2"}), "all were replaced");

    assert_eq!(c.agent.leave().await, Stop::Core(StopReason::Left));
    until_up(&a, 2).await;
    assert_eq!(names(&a.get("/v1/members").await).len(), 2, "left is listed only when asked for");
    let left = a.get("/v1/members?status=left").await;
    assert_eq!((names(&left), &left.json()[0]["reason"]), (vec!["\"c\"".into()], &"graceful".into()));
    assert_eq!(names(&a.get("/v1/members?status=up,left").await).len(), 3);
    assert_eq!(a.get("/v1/members/c").await.json()["status"], "left");
}

#[tokio::test]
async fn every_refusal_is_a_problem_with_its_status() {
    let a = first("a").await;
    let b = joined("b", &a).await;
    until_up(&a, 2).await;
    let json = "content-type: application/json";
    let large = format!(r#"{{"addresses":["{}"]}}"#, "x".repeat(70_000));
    let many = format!(r#"{{"addresses":[{}"x:1"]}}"#, r#""x:1","#.repeat(64));
    // Method, path, headers, body; status and the problem's word.
    type Case<'a> = (&'a str, &'a str, &'a [&'a str], &'a str, u16, &'a str);
    let cases: &[Case<'_>] = &[
        ("GET", "/nothing", &[], "", 404, "no-route"),
        ("GET", "/v1/members/b/c", &[], "", 404, "no-route"),
        ("POST", "/v1/members", &[], "", 405, "no-method"),
        ("GET", "/v1/join", &[], "", 405, "no-method"),
        ("GET", "/v1/members/z", &[], "", 404, "no-such-member"),
        ("GET", "/v1/members/a%20b", &[], "", 404, "no-such-member"),
        ("GET", "/v1/members/%ff", &[], "", 400, "path"),
        ("GET", "/v1/members?status=upp", &[], "", 400, "query"),
        ("GET", "/v1/members?status=up,upp", &[], "", 400, "query"),
        ("GET", "/v1/members?stauts=up", &[], "", 400, "query"),
        ("GET", "/v1/members?tag==x", &[], "", 400, "query"),
        ("GET", "/v1/info?x=1", &[], "", 400, "query"),
        ("GET", "/v1/events?kind=node_jioned", &[], "", 400, "query"),
        ("GET", "/v1/events?node=a%20b", &[], "", 400, "query"),
        ("GET", "/v1/events?after=yesterday", &[], "", 400, "query"),
        ("GET", "/v1/events?snapshot=maybe", &[], "", 400, "query"),
        ("POST", "/v1/join", &[], r#"{"addresses":["x:1"]}"#, 415, "media-type"),
        ("POST", "/v1/join", &[json], "{", 400, "syntax"),
        ("POST", "/v1/join", &[json], "", 400, "syntax"),
        ("POST", "/v1/join", &[json], "{}", 422, "value"),
        ("POST", "/v1/join", &[json], r#"{"addresses":[]}"#, 422, "value"),
        ("POST", "/v1/join", &[json], r#"{"addresses":[7]}"#, 422, "value"),
        ("POST", "/v1/join", &[json], &many, 422, "value"),
        ("POST", "/v1/join", &[json], &large, 413, "body-too-large"),
        ("PUT", "/v1/tags", &[json], r#"{"tags":{"a=b":""}}"#, 422, "tags"),
        ("PUT", "/v1/tags", &[json], r#"{"tags":{"a":"\u0007"}}"#, 422, "tags"),
        ("PUT", "/v1/tags", &[json], r#"{"tags":{"headcount.draining":"true"}}"#, 422, "tags"),
        ("PUT", "/v1/tags", &[json], r#"{"tags":{"a":1}}"#, 422, "value"),
        ("DELETE", "/v1/members/z", &[], "", 404, "no-such-member"),
        ("DELETE", "/v1/members/b", &[], "", 409, "not-down"),
        ("DELETE", "/v1/members/a", &[], "", 409, "oneself"),
        ("DELETE", "/v1/members/a?force=true", &[], "", 409, "oneself"),
        ("DELETE", "/v1/members/b?force=yes", &[], "", 400, "query"),
        ("POST", "/v1/leave", &["origin: http://evil.example"], "", 403, "origin"),
    ];
    for (method, path, headers, body, status, word) in cases {
        let answer = a.ask(method, path, headers, body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (*status, *word), "{method} {path}: {answer:?}");
    }
    let allow = a.ask("POST", "/v1/members/b", &[], "").await;
    assert_eq!(allow.header("allow"), Some("GET,HEAD,DELETE"));
    assert!(a.ask("DELETE", "/v1/members/a", &[], "").await.json()["hint"].to_string().contains("leave"));
    assert_eq!(a.agent.members().len(), 2, "nothing was changed");
    assert!(b.agent.stop().is_none());
}

#[tokio::test]
async fn a_join_says_what_became_of_each_address() {
    let a = first("a").await;
    let b = first("b").await;
    let nobody = a.send_json("POST", "/v1/join", r#"{"addresses":["nonsense"]}"#).await;
    assert_eq!((nobody.status, nobody.problem().as_str()), (502, "nobody-answered"));
    let results = &nobody.json()["results"];
    assert_eq!((&results[0]["address"], results[0]["node"].is_null()), (&"nonsense".into(), true));
    assert!(results[0]["error"].is_string());

    // One that looks for a cluster itself.
    let mut lonely = support::config("c", None);
    lonely.seeds = vec!["127.0.0.1:1".to_owned()];
    let lonely = lonely.with_bind("127.0.0.1:0".parse().expect("an address"));
    let lonely = headcount::Agent::start(lonely).await.expect("started");
    let body = format!(r#"{{"addresses":["{}"]}}"#, lonely.gossip_address());
    let joining = a.send_json("POST", "/v1/join", &body).await;
    assert_eq!((joining.status, joining.problem().as_str()), (502, "nobody-up"), "{joining:?}");
    assert_eq!(joining.json()["results"][0]["outcome"], "not_up");
    lonely.leave().await;

    let gossip = b.agent.gossip_address();
    let body = format!(r#"{{"addresses":["{gossip}","nonsense"],"added_later":1}}"#);
    let some = a.send_json("POST", "/v1/join", &body).await;
    assert_eq!(some.status, 200, "{some:?}");
    let results = some.json();
    assert_eq!(
        results["results"][0],
        serde_json::json!({"address": gossip.to_string(), "node": "b", "outcome": "answered", "error": null})
    );
    assert!(results["results"][1]["node"].is_null());
    until_up(&a, 2).await;
}

#[tokio::test]
async fn removing_by_force_stops_the_member() {
    let a = first("a").await;
    let b = joined("b", &a).await;
    let c = joined("c", &a).await;
    until_up(&a, 3).await;
    let removed = a.ask("DELETE", "/v1/members/c?force=true", &[], "").await;
    assert_eq!(removed.status, 200, "{removed:?}");
    let json = removed.json();
    assert_eq!((&json["id"], &json["status"]), (&"c".into(), &"left".into()));
    assert!(json["held_by"].as_u64().is_some_and(|peers| peers >= 1), "{json}");
    assert_eq!(c.agent.stopped().await, Stop::Core(StopReason::Removed));
    assert_eq!(a.get("/v1/members/c").await.json()["reason"], "forced");
    drop(b);
}

#[tokio::test]
async fn leaving_is_accepted_and_then_done() {
    let a = first("a").await;
    let b = joined("b", &a).await;
    until_up(&a, 2).await;
    let accepted = b.ask("POST", "/v1/leave", &[], "").await;
    assert_eq!((accepted.status, accepted.body.as_str()), (202, ""));
    assert_eq!(b.agent.stopped().await, Stop::Core(StopReason::Left));
    assert_eq!(b.get("/readyz").await.status, 503);
    let late = b.send_json("PUT", "/v1/tags", r#"{"tags":{}}"#).await;
    assert_eq!((late.status, late.problem().as_str()), (503, "stopping"));
    assert_eq!(b.ask("POST", "/v1/leave", &[], "").await.status, 202, "asking twice is no mistake");
}

#[tokio::test]
async fn an_agent_that_has_stopped_is_not_ready_whatever_its_last_listing_says() {
    let a = first("a").await;
    a.agent.shutdown();
    a.agent.stopped().await;
    let ready = a.get("/readyz").await;
    assert_eq!((ready.status, ready.body.as_str()), (503, "stopped"));
}

/// Checks the numbers of requests that were refused because of their host, token and origin.
async fn refused(node: &support::Node, headers: &[&str], expected: [u64; 3]) {
    let metrics = node.ask("GET", "/metrics", headers, "").await.body;
    for (reason, number) in ["host", "token", "origin"].into_iter().zip(expected) {
        let line = format!("headcount_http_requests_refused_total{{reason=\"{reason}\"}} {number}");
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn a_token_opens_all_doors_and_health_needs_none() {
    let a = node("a", None, Some(TOKEN)).await;
    for path in ["/v1/members", "/v1/info", "/v1/events", "/metrics", "/nothing"] {
        let answer = a.get(path).await;
        assert_eq!((answer.status, answer.problem().as_str()), (401, "token"), "{path}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    for wrong in ["Bearer wrong", "Bearer ", "Basic 0123456789abcdef0123456789abcdef", TOKEN] {
        let answer = a.ask("GET", "/v1/info", &[&format!("authorization: {wrong}")], "").await;
        assert_eq!(answer.status, 401, "{wrong}");
    }
    let right = format!("authorization: bearer {TOKEN}");
    let twice = a.ask("GET", "/v1/info", &[&right, &right], "").await;
    assert_eq!(twice.status, 401, "more than one token");
    assert_eq!(a.ask("GET", "/v1/info", &[&right], "").await.status, 200);
    assert_eq!(a.ask("GET", "/nothing", &[&right], "").await.status, 404);
    // The list of calls and the dashboard show nothing of the cluster: the page asks for the token itself.
    for open in ["/", "/dashboard", "/dashboard/app.js", "/healthz", "/readyz"] {
        assert_eq!(a.get(open).await.status, 200, "{open}");
    }
    assert_eq!(a.get("/dashboard/no-such-part").await.status, 404);
    refused(&a, &[&right], [0, 10, 0]).await;
}

#[tokio::test]
async fn a_token_for_reading_looks_at_everything_and_changes_nothing() {
    let read = "read-read-read-read-read";
    let token = |text: &str| Some(Token::new(text).expect("a token"));
    let tokens = Tokens::new(token(TOKEN), token(read));
    let mut settings = HttpSettings::default();
    settings.tokens = tokens.clone();
    let a = first_with("a", settings).await;
    let ask = async |token: &str, method: &str, path: &str, body: &str| {
        let headers = [format!("authorization: Bearer {token}"), "content-type: application/json".to_owned()];
        a.ask(method, path, &[&headers[0], &headers[1]], body).await
    };
    for path in ["/v1/members", "/v1/leader", "/v1/voters", "/v1/targets", "/metrics"] {
        assert_eq!(ask(read, "GET", path, "").await.status, 200, "{path}");
    }
    assert_eq!(ask(read, "GET", "/v1/info", "").await.json()["access"], "read");
    assert_eq!(ask(TOKEN, "GET", "/v1/info", "").await.json()["access"], "write");
    for (method, path) in [
        ("PUT", "/v1/tags"),
        ("POST", "/v1/leave"),
        ("POST", "/v1/broadcast/t"),
        ("DELETE", "/v1/members/a"),
        ("POST", "/nothing"),
    ] {
        let answer = ask(read, method, path, r#"{"tags":{}}"#).await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "read-only"), "{method} {path}");
        assert_eq!(ask("none-none-none-none-none", method, path, "").await.status, 401);
    }
    // Messages are the programs' own.
    for query in ["kind=message", "kind=node_joined,message", "kind=message&topic=t&snapshot=true"] {
        let answer = ask(read, "GET", &format!("/v1/events?{query}"), "").await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "read-only"), "{query}");
    }
    assert_eq!(ask(TOKEN, "PUT", "/v1/tags", r#"{"tags":{"x":"y"}}"#).await.status, 200);
    assert!(a.agent.stop().is_none());

    tokens.replace(token("new-new-new-new-new-new"), None);
    for (token, status) in [(TOKEN, 401), (read, 401), ("new-new-new-new-new-new", 200)] {
        assert_eq!(ask(token, "GET", "/v1/info", "").await.status, status, "{token}");
    }
    let open = first("b").await;
    assert_eq!(open.get("/v1/info").await.json()["access"], "write", "nobody is asked for a token");
}

#[tokio::test]
async fn keys_are_changed_with_a_token_alone_even_where_none_is_asked_for() {
    let open = first("a").await;
    assert_eq!(open.get("/v1/keys").await.status, 200);
    let closed = node("b", None, Some(TOKEN)).await;
    for (method, path, body) in [
        ("POST", "/v1/keys", r#"{"key":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}"#),
        ("POST", "/v1/keys/01234567/use", ""),
        ("POST", "/v1/keys/01234567/use?force=true", ""),
        ("DELETE", "/v1/keys/01234567", ""),
    ] {
        let answer = open.send_json(method, path, body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "keys-need-token"), "{method} {path}");
        let hint = answer.json()["hint"].as_str().expect("a hint").to_owned();
        assert!(hint.contains("http.token_file"), "{hint}");
        let headers = [format!("authorization: Bearer {TOKEN}"), "content-type: application/json".to_owned()];
        let answer = closed.ask(method, path, &[&headers[0], &headers[1]], body).await;
        assert!([404, 409].contains(&answer.status), "it has no keys: {answer:?}");
    }
}

#[tokio::test]
async fn pages_of_the_agent_itself_may_command_it_and_others_may_not() {
    let a = first("a").await;
    let tags = r#"{"tags":{}}"#;
    let json = "content-type: application/json";
    let own = format!("origin: http://{}", a.http);
    assert_eq!(a.ask("PUT", "/v1/tags", &[json, &own], tags).await.status, 200);
    for foreign in ["origin: http://evil.example", "origin: null", "origin: http://127.0.0.1:1"] {
        assert_eq!(a.ask("PUT", "/v1/tags", &[json, foreign], tags).await.status, 403, "{foreign}");
    }
    // A page whose own name resolves to this machine.
    let rebound = "PUT /v1/tags HTTP/1.1\r\nhost: evil.example\r\norigin: http://evil.example\r\nconnection: close\r\n\
        content-type: application/json\r\ncontent-length: 11\r\n\r\n{\"tags\":{}}";
    assert!(a.raw(rebound.as_bytes()).await.starts_with(b"HTTP/1.1 403"));
    refused(&a, &[], [1, 0, 3]).await;
}
