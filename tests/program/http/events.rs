//! Event streams: where they start, how they go on, what they say about gaps.

use std::time::Duration;

use headcount::http::{COMMENT_INTERVAL, HttpSettings, MAX_QUERY_ITEMS, REQUEST_TIMEOUT, Token, Tokens};
use serde_json::Value;

use super::support::{Events, Node, PATIENCE, first, first_with, joined, until_up};

async fn set_tag(node: &Node, value: &str) {
    let body = format!(r#"{{"tags":{{"t":"{value}"}}}}"#);
    assert_eq!(node.send_json("PUT", "/v1/tags", &body).await.status, 200);
}

async fn expect_tag(events: &mut Events, value: &str) -> String {
    let frame = events.expect("node_updated").await;
    assert_eq!(frame.data["member"]["tags"]["t"], value);
    assert!(!frame.data["previous"].is_null());
    assert_eq!(Some(frame.data["id"].as_str().unwrap_or_default()), frame.id.as_deref());
    frame.id.unwrap_or_default()
}

#[tokio::test]
async fn a_stream_starts_now_and_tells_where_that_is() {
    let a = first("a").await;
    let mut events = a.events("", &[]).await;
    assert!(events.head.contains("content-type: text/event-stream"), "{}", events.head);
    let start = format!("last-event-id: {}-", a.agent.run());
    assert!(events.head.contains(&start), "{}", events.head);
    set_tag(&a, "1").await;
    let id = expect_tag(&mut events, "1").await;
    assert!(id.starts_with(&a.agent.run().to_string()), "{id}");
}

#[tokio::test]
async fn a_stream_may_start_with_all_members_but_those_that_left() {
    let a = first("a").await;
    let b = joined("b", &a).await;
    let c = joined("c", &a).await;
    until_up(&a, 3).await;
    c.agent.leave().await;
    until_up(&a, 2).await;
    let mut events = a.events("?snapshot=true", &[]).await;
    let snapshot = events.expect("snapshot").await;
    assert_eq!(snapshot.data["id"].as_str(), snapshot.id.as_deref());
    let names: Vec<&Value> =
        snapshot.data["members"].as_array().expect("members").iter().map(|member| &member["id"]).collect();
    assert_eq!(names, ["a", "b"]);
    b.agent.leave().await;
    events.expect("node_leaving").await;
    assert_eq!(events.expect("node_left").await.data["reason"], "graceful");
}

#[tokio::test]
async fn a_broken_stream_goes_on_after_the_last_event() {
    let a = first("a").await;
    let mut events = a.events("", &[]).await;
    set_tag(&a, "1").await;
    let one = expect_tag(&mut events, "1").await;
    set_tag(&a, "2").await;
    let two = expect_tag(&mut events, "2").await;
    drop(events);
    set_tag(&a, "3").await;

    let mut by_query = a.events(&format!("?after={one}"), &[]).await;
    expect_tag(&mut by_query, "2").await;
    expect_tag(&mut by_query, "3").await;
    let header = format!("Last-Event-ID: {two}");
    let mut by_header = a.events(&format!("?after={one}&snapshot=true"), &[&header]).await;
    expect_tag(&mut by_header, "3").await;
}

#[tokio::test]
async fn what_is_not_kept_any_more_gives_lagged_and_a_snapshot() {
    let a = first("a").await;
    let other_run = "Last-Event-ID: 0000000000000001-5".to_owned();
    let not_yet = format!("Last-Event-ID: {}-999999", a.agent.run());
    let nonsense = "Last-Event-ID: nonsense".to_owned();
    for header in [other_run, not_yet, nonsense] {
        let mut events = a.events("", &[&header]).await;
        let lagged = events.expect("lagged").await;
        assert_eq!((lagged.data["missed"].is_null(), lagged.id), (true, None), "{header}");
        let snapshot = events.expect("snapshot").await;
        assert_eq!(snapshot.data["members"][0]["id"], "a");
        let mut again = a.events("", &[&format!("Last-Event-ID: {}", snapshot.id.unwrap_or_default())]).await;
        set_tag(&a, &header.len().to_string()).await;
        again.expect("node_updated").await;
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_told_what_it_missed() {
    let a = first("a").await;
    let mut slow = a.events("", &[]).await;
    // More than the kernel buffers and the kept events together.
    let mut expected = a.agent.info().last_event;
    for round in 0..40_000_u32 {
        let tags = [("t".to_owned(), round.to_string())].into();
        a.agent.set_tags(headcount::Tags::new(tags).expect("tags")).await.expect("set");
    }
    loop {
        let frame = slow.next().await.expect("it goes on");
        if frame.event == "lagged" {
            assert!(frame.data["missed"].as_u64().is_some_and(|missed| missed > 0), "{frame:?}");
            break;
        }
        expected += 1;
        assert_eq!(frame.data["sequence"], expected, "in order, without a gap");
    }
    let snapshot = slow.expect("snapshot").await;
    assert_eq!(snapshot.data["members"][0]["tags"]["t"], "39999");
    set_tag(&a, "after").await;
    expect_tag(&mut slow, "after").await;

    let mut late = a.events("", &[&format!("Last-Event-ID: {}-1", a.agent.run())]).await;
    assert!(late.expect("lagged").await.data["missed"].as_u64().is_some_and(|missed| missed > 30_000));
    late.expect("snapshot").await;
}

#[tokio::test]
async fn streams_are_filtered_by_kind_and_node() {
    let a = first("a").await;
    let mut kinds = a.events("?kind=node_joined,node_left", &[]).await;
    let mut nodes = a.events("?node=c&snapshot=true", &[]).await;
    assert_eq!(nodes.expect("snapshot").await.data["members"], Value::Array(Vec::new()));
    let b = joined("b", &a).await;
    until_up(&a, 2).await;
    let c = joined("c", &a).await;
    until_up(&a, 3).await;
    b.agent.leave().await;
    for (event, node) in [("node_joined", "b"), ("node_joined", "c"), ("node_left", "b")] {
        assert_eq!(kinds.expect(event).await.data["node"], node);
    }
    assert_eq!(nodes.expect("node_joining").await.data["node"], "c");
    assert_eq!(nodes.expect("node_joined").await.data["node"], "c");
    drop(c);
}

#[tokio::test]
async fn messages_are_filtered_by_the_node_that_says_them() {
    let a = first("a").await;
    let b = joined("b", &a).await;
    until_up(&a, 2).await;
    let mut from_b = a.events("?kind=message&node=b", &[]).await;
    let mut from_all = a.events("?kind=message", &[]).await;
    for (node, topic) in [(&a, "first"), (&b, "second"), (&a, "third"), (&b, "fourth")] {
        assert_eq!(node.ask("POST", &format!("/v1/send/a/{topic}"), &[], "").await.status, 200);
        assert_eq!(from_all.expect("message").await.data["topic"], topic);
    }
    for topic in ["second", "fourth"] {
        let message = from_b.expect("message").await;
        assert_eq!((&message.data["node"], &message.data["topic"]), (&"b".into(), &topic.into()));
    }
}

#[tokio::test]
async fn messages_that_a_slow_reader_missed_are_told() {
    let a = first("a").await;
    let mut slow = a.events("?kind=message", &[]).await;
    // More than the kernel buffers and the room for waiting messages together.
    let (payload, said) = (vec![b'x'; 32 * 1024], 1_000_u64);
    let b = "a".parse().expect("a name");
    for number in 0..said {
        a.agent.send(&b, &format!("t{number}"), &payload).await.expect("said");
    }
    let (mut heard, mut missed) = (0, 0);
    while heard + missed < said {
        let frame = slow.next().await.expect("it goes on");
        match frame.event.as_str() {
            "message" => {
                assert_eq!(
                    frame.data["topic"],
                    format!("t{}", heard + missed),
                    "in order, without a gap that is not told"
                );
                heard += 1;
            }
            "lagged" => missed += frame.data["missed"].as_u64().expect("a number"),
            other => panic!("{other}"),
        }
    }
    assert!(heard > 0 && missed > 0, "{heard} heard, {missed} missed");
}

#[tokio::test]
async fn a_request_to_a_program_waits_for_longer_than_other_requests_do() {
    let a = first("a").await;
    let mut asked = a.events("?kind=message", &[]).await;
    let request = a.ask("POST", "/v1/request/a/t?timeout_ms=20000", &[], "why");
    let reply = async {
        let id = asked.expect("message").await.data["id"].as_str().expect("an id").to_owned();
        tokio::time::sleep(REQUEST_TIMEOUT + Duration::from_secs(2)).await;
        a.ask("POST", &format!("/v1/reply/{id}"), &[], "so").await
    };
    let (request, reply) = tokio::join!(request, reply);
    assert_eq!((reply.status, request.status), (200, 200), "{request:?}");
    assert!(request.body.contains("so"), "{request:?}");
}

#[tokio::test]
async fn a_node_that_leaves_says_so_to_its_own_watchers_and_then_the_stream_ends() {
    let a = first("a").await;
    let mut events = a.events("", &[]).await;
    assert_eq!(a.ask("POST", "/v1/leave", &[], "").await.status, 202);
    assert_eq!(events.expect("node_leaving").await.data["node"], "a");
    let left = events.expect("node_left").await;
    assert_eq!((&left.data["node"], &left.data["reason"]), (&"a".into(), &"graceful".into()));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn only_so_many_streams_are_open_and_each_end_frees_a_place() {
    const STREAMS: usize = 128;
    let mut settings = HttpSettings::default();
    settings.max_streams = STREAMS;
    let a = first_with("a", settings).await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let events = a.events("", &[]).await;
        assert!(events.head.starts_with("HTTP/1.1 200"), "{}", events.head);
        open.push(events);
    }
    let refused = a.get("/v1/events").await;
    assert_eq!((refused.status, refused.problem().as_str()), (429, "too-many-streams"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(a.get("/v1/info").await.status, 200, "other calls are not concerned");
    open.truncate(1);
    let freed = async {
        // The server notices the closed connections in its own time.
        while !a.events("", &[]).await.head.starts_with("HTTP/1.1 200") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // A stream with nothing to say would find out by its next comment, too.
    tokio::time::timeout(COMMENT_INTERVAL / 2, freed).await.expect("places are freed");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_carries_comments() {
    let a = first("a").await;
    let mut events = a.events("", &[]).await;
    let opened = tokio::time::Instant::now();
    for comments in 1..=3 {
        while !events.line().await.expect("it stays open").starts_with(':') {}
        let passed = opened.elapsed();
        assert!(passed + Duration::from_secs(1) >= COMMENT_INTERVAL * comments, "{passed:?}");
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_replaced_and_its_reader_needs_the_new_one() {
    let token = |text: &str| Some(Token::new(text).expect("a token"));
    let (old, new) = ("old-old-old-old-old", "new-new-new-new-new");
    let tokens = Tokens::new(token(old), None);
    let mut settings = HttpSettings::default();
    settings.tokens = tokens.clone();
    let a = first_with("a", settings).await;
    let [old_one, new_one] = [old, new].map(|token| format!("authorization: Bearer {token}"));
    let mut quiet = a.events("", &[&old_one]).await;
    let mut behind = a.events("?snapshot=true", &[&old_one]).await;
    tokens.replace(token(old), None);
    behind.expect("snapshot").await;
    tokens.replace(token(new), None);
    for stream in [&mut quiet, &mut behind] {
        assert_eq!(tokio::time::timeout(PATIENCE, stream.next()).await.expect("it ends"), None);
    }
    assert!(a.events("", &[&old_one]).await.head.starts_with("HTTP/1.1 401"));
    let mut again = a.events("?snapshot=true", &[&new_one]).await;
    again.expect("snapshot").await;
}

#[tokio::test]
async fn a_filter_has_a_bound() {
    let a = first("a").await;
    let names = |count: usize| format!("?node={}", vec!["n"; count].join(","));
    assert!(a.events(&names(MAX_QUERY_ITEMS), &[]).await.head.starts_with("HTTP/1.1 200"));
    assert!(a.events(&names(MAX_QUERY_ITEMS + 1), &[]).await.head.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_stream_that_is_behind_tells_nothing_more_once_its_token_is_replaced() {
    let token = |text: &str| Some(Token::new(text).expect("a token"));
    let tokens = Tokens::new(token("old-old-old-old-old"), None);
    let mut settings = HttpSettings::default();
    settings.tokens = tokens.clone();
    let a = first_with("a", settings).await;
    let mut slow = a.events("", &["authorization: Bearer old-old-old-old-old"]).await;
    // More than the kernel buffers and the kept events together.
    for round in 0..40_000_u32 {
        let tags = [("t".to_owned(), round.to_string())].into();
        a.agent.set_tags(headcount::Tags::new(tags).expect("tags")).await.expect("set");
    }
    tokens.replace(token("new-new-new-new-new"), None);
    // What is under way comes, and nothing of what would follow: that it missed something, and all members.
    while let Some(frame) = slow.next().await {
        assert_eq!(frame.event, "node_updated", "{frame:?}");
    }
}
