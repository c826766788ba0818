//! More than there is room for: nobody locks others out, and what must be answered is.

use std::time::Duration;

use headcount::config::HttpConfig;
use headcount::http::{self, HttpSettings, MAX_BUFFER_BYTES, MAX_HEADERS, MAX_READ_HEADERS_BYTES, MAX_TARGET_BYTES};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::support::{Answer, Events, Node, PATIENCE, first, first_with, joined, until_up};

async fn small(connections: usize, streams: usize) -> Node {
    let mut settings = HttpSettings::default();
    (settings.max_connections, settings.max_streams) = (connections, streams);
    first_with("a", settings).await
}

/// Opens a connection and says this much.
async fn say(node: &Node, words: &str) -> TcpStream {
    let mut stream = TcpStream::connect(node.http).await.expect("connected");
    stream.write_all(words.as_bytes()).await.expect("sent");
    stream
}

async fn metric(node: &Node, name: &str) -> u64 {
    let metrics = node.get("/metrics").await;
    let line = metrics.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {}", metrics.body)).parse().expect("a number")
}

#[tokio::test]
async fn callers_that_look_at_keys_have_members_asked_once_a_second_at_most() {
    let a = first("a").await;
    let b = joined("b", &a).await;
    // Who joins cannot be asked yet.
    until_up(&a, 2).await;
    let received = async || metric(&b, "headcount_messages_received_total").await;
    let (before, began) = (received().await, std::time::Instant::now());
    for _ in 0..200 {
        let keys = a.get("/v1/keys").await;
        assert_eq!(keys.status, 200);
        assert_eq!(keys.json()["members"].as_array().map(Vec::len), Some(2));
    }
    // What a node counts is shown a moment later. The last call asks again: then all before it are counted.
    let asked = loop {
        let asked = received().await - before;
        if asked >= 1 || began.elapsed() > PATIENCE {
            break asked;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let seconds = began.elapsed().as_secs();
    assert!(asked >= 1 && asked <= seconds + 2, "{asked} times in {seconds} s");
}

/// Checks that all that supervisors ask is answered, and that nothing else is needed for it.
async fn is_healthy(node: &Node) {
    for path in ["/healthz", "/readyz", "/metrics", "/v1/info", "/v1/members"] {
        assert_eq!(node.get(path).await.status, 200, "{path}");
    }
}

#[test]
fn the_configurations_defaults_are_the_servers() {
    let (config, settings) = (HttpConfig::default(), HttpSettings::default());
    assert_eq!((config.max_connections, config.max_streams), (settings.max_connections, settings.max_streams));
    assert_eq!(config.allowed_hosts, settings.allowed_hosts);
    assert_eq!(settings.max_connections, http::DEFAULT_MAX_CONNECTIONS);
}

#[tokio::test]
async fn a_client_that_closes_its_half_gets_its_answer() {
    let a = first("a").await;
    for request in ["GET /v1/info HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", "GET /healthz HTTP/1.0\r\n\r\n"] {
        let mut stream = say(&a, request).await;
        stream.shutdown().await.expect("its half is closed");
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        read.expect("in time").expect("read");
        assert_eq!(Answer::parse(answer).status, 200);
    }
    let mut events = a.events("?snapshot=true", &[]).await;
    events.close_half().await;
    events.expect("snapshot").await;
    assert_eq!(a.send_json("PUT", "/v1/tags", r#"{"tags":{"t":"1"}}"#).await.status, 200);
    events.expect("node_updated").await;
}

#[tokio::test]
async fn requests_that_never_come_leave_room_for_those_that_do() {
    let a = small(16, 4).await;
    let mut held = Vec::new();
    for number in 0..100 {
        let words = ["", "G", "GET /v1/info HTTP/1.1\r\nhost: 127.0.0.1\r\nx", "PUT /v1/tags HTTP/1.1\r\n"][number % 4];
        held.push(say(&a, words).await);
    }
    is_healthy(&a).await;
    assert!(metric(&a, "headcount_http_connections_shed_total").await >= 85);
    assert!(metric(&a, "headcount_http_connections").await <= 16);
    assert_eq!(metric(&a, "headcount_http_connections_refused_total").await, 0);
}

#[tokio::test]
async fn idle_connections_make_room_the_oldest_first() {
    let a = small(16, 4).await;
    let mut held = Vec::new();
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", a.http);
    for _ in 0..40 {
        let mut stream = say(&a, &request).await;
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).await.expect("answered");
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        held.push(stream);
    }
    is_healthy(&a).await;
    let mut newest = held.pop().expect("forty");
    newest.write_all(request.as_bytes()).await.expect("it is still open");
    let mut answers = String::new();
    while answers.matches("ok").count() < 2 {
        let mut bytes = [0; 256];
        let read = tokio::time::timeout(PATIENCE, newest.read(&mut bytes)).await.expect("in time").expect("open");
        assert!(read > 0, "closed after {answers:?}");
        answers.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, held[0].read_to_end(&mut rest)).await.expect("the oldest was closed");
    assert!(read.is_ok() || read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn streams_cannot_take_all_connections() {
    let a = small(16, 1_024).await;
    let mut open: Vec<Events> = Vec::new();
    let refused = loop {
        let events = a.events("", &[]).await;
        if !events.head.starts_with("HTTP/1.1 200") {
            break events;
        }
        open.push(events);
        assert!(open.len() < 16);
    };
    assert!(refused.head.starts_with("HTTP/1.1 429"), "{}", refused.head);
    drop(refused);
    assert!(open.len() > 8, "{} streams", open.len());
    is_healthy(&a).await;
    assert_eq!(metric(&a, "headcount_http_streams").await, open.len() as u64);
    // Commands have room, too, and half-open connections take none of it.
    let _half_open: Vec<_> =
        [say(&a, "").await, say(&a, "POST").await, say(&a, "GET /").await, say(&a, "").await].into();
    assert_eq!(a.send_json("PUT", "/v1/tags", r#"{"tags":{"t":"1"}}"#).await.status, 200);
    is_healthy(&a).await;
    for events in &mut open {
        events.expect("node_updated").await;
    }
}

#[tokio::test]
async fn bodies_that_never_come_hold_up_no_commands() {
    let a = small(16, 4).await;
    let head = format!("PUT /v1/tags HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json", a.http);
    let mut kept = Vec::new();
    for _ in 0..40 {
        kept.push(say(&a, &format!("{head}\r\ncontent-length: 100\r\n\r\n{{")).await);
    }
    assert_eq!(a.send_json("PUT", "/v1/tags", r#"{"tags":{"t":"1"}}"#).await.status, 200);
    is_healthy(&a).await;
}

#[tokio::test]
async fn a_head_has_a_bound() {
    let a = first("a").await;
    let head = |bytes: usize| {
        let begin = "GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nx: ";
        let end = "\r\n\r\n";
        format!("{begin}{}{end}", "y".repeat(bytes - begin.len() - end.len()))
    };
    for bytes in [MAX_BUFFER_BYTES / 2, MAX_BUFFER_BYTES] {
        assert_eq!(Answer::parse(a.raw(head(bytes).as_bytes()).await).status, 200, "{bytes} bytes");
    }
    // No byte comes after the refusal, which would reset the connection: every client sees it.
    assert_eq!(Answer::parse(a.raw(head(MAX_BUFFER_BYTES + 1).as_bytes()).await).status, 431);
    let refused = a.raw(head(2 * MAX_BUFFER_BYTES).as_bytes()).await;
    assert!(refused.is_empty() || refused.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&refused));
    is_healthy(&a).await;
}

#[tokio::test]
async fn a_head_has_so_many_lines() {
    let a = first("a").await;
    // Two lines that every request of this client has, and so many others.
    let head = |lines: usize| {
        format!("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{}\r\n", "x: y\r\n".repeat(lines - 2))
    };
    assert_eq!(Answer::parse(a.raw(head(MAX_HEADERS).as_bytes()).await).status, 200);
    assert_eq!(Answer::parse(a.raw(head(MAX_HEADERS + 1).as_bytes()).await).status, 431);
    is_healthy(&a).await;
}

#[tokio::test]
async fn what_is_read_of_the_headers_has_a_bound_and_so_has_a_name_before_the_path() {
    let a = first("a").await;
    let host = a.http.to_string();
    let asked = async |bytes: usize| {
        let accept = "y".repeat(bytes - host.len());
        let head =
            format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\naccept: {accept}\r\nx: {}\r\n\r\n", "z".repeat(3_000));
        Answer::parse(a.raw(head.as_bytes()).await)
    };
    assert_eq!(asked(MAX_READ_HEADERS_BYTES).await.status, 200);
    let beyond = asked(MAX_READ_HEADERS_BYTES + 1).await;
    assert_eq!((beyond.status, beyond.problem().as_str()), (431, "headers-too-long"));
    let head = format!("GET http://{}/healthz HTTP/1.1\r\nhost: {host}\r\n\r\n", "n".repeat(MAX_TARGET_BYTES));
    assert_eq!(Answer::parse(a.raw(head.as_bytes()).await).status, 414);
    is_healthy(&a).await;
}

#[tokio::test]
async fn a_path_with_its_query_has_a_bound() {
    let a = first("a").await;
    let longest = "/v1/members?tag=";
    let longest = format!("{longest}{}", "y".repeat(MAX_TARGET_BYTES - longest.len()));
    for at_limit in [longest.clone(), format!("/{}", "y".repeat(MAX_TARGET_BYTES - 1))] {
        let answer = a.get(&at_limit).await;
        assert!(answer.status == 200 || answer.status == 404 || answer.status == 400, "{}", answer.status);
        let beyond = a.get(&format!("{at_limit}y")).await;
        assert_eq!((beyond.status, beyond.json()["type"].as_str()), (414, Some("urn:headcount:problem:path-too-long")));
    }
    is_healthy(&a).await;
}

#[tokio::test]
async fn a_large_view_is_listed_and_followed_like_a_small_one() {
    let a = first("n00").await;
    let mut others = Vec::new();
    for number in 1..40 {
        others.push(joined(&format!("n{number:02}"), &a).await);
    }
    until_up(&a, 40).await;
    let names = |answer: &Answer| -> Vec<String> {
        let members = answer.json();
        members
            .as_array()
            .expect("a list")
            .iter()
            .map(|member| member["id"].as_str().unwrap_or("?").to_owned())
            .collect()
    };
    let all: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
    let answer = a.get("/v1/members").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(names(&Answer { body: answer.dechunked(), ..answer }), all);

    // Who has changed something reads it at once, though others have read a listing a moment before.
    for round in 0..8 {
        assert_eq!(a.send_json("PUT", "/v1/tags", &format!(r#"{{"tags":{{"w":"{round}"}}}}"#)).await.status, 200);
        let answer = a.get(&format!("/v1/members?tag=w={round}")).await;
        assert_eq!(names(&Answer { body: answer.dechunked(), ..answer }), ["n00"], "round {round}");
    }

    // A change after a listing that is shared comes with the stream, or the listing has it.
    for round in 0..8 {
        drop(a.events("?snapshot=true", &[]).await.expect("snapshot").await);
        let value = round.to_string();
        let tags = format!(r#"{{"tags":{{"round":"{value}"}}}}"#);
        assert_eq!(a.send_json("PUT", "/v1/tags", &tags).await.status, 200);
        let mut events = a.events("?snapshot=true&kind=node_updated", &[]).await;
        let snapshot = events.expect("snapshot").await;
        let listed = |snapshot: &serde_json::Value| snapshot["members"][0]["tags"]["round"].clone();
        assert_eq!(snapshot.data["members"][0]["id"], "n00");
        // The listing may be some rounds old; each of them comes, this one last.
        let mut known = listed(&snapshot.data);
        while known != value {
            let updated = tokio::time::timeout(PATIENCE, events.expect("node_updated")).await;
            let updated = updated.expect("what the listing lacks comes with the stream");
            let before = std::mem::replace(&mut known, updated.data["member"]["tags"]["round"].clone());
            assert_eq!(updated.data["node"], "n00");
            assert!(before.as_str() < known.as_str(), "{before} then {known}");
        }
    }

    let mut events = a.events("?snapshot=true&kind=node_left", &[]).await;
    let snapshot = events.expect("snapshot").await;
    assert_eq!(snapshot.data["members"].as_array().map(Vec::len), Some(40));
    assert_eq!(snapshot.data["id"].as_str(), snapshot.id.as_deref());
    let last = others.pop().expect("others");
    last.agent.leave().await;
    assert_eq!(events.expect("node_left").await.data["node"], "n39");
    tokio::time::timeout(PATIENCE, async {
        loop {
            let answer = a.get("/v1/members?status=left").await;
            if names(&Answer { body: answer.dechunked(), ..answer }) == ["n39"] {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the listing follows");
    assert_eq!(a.get("/v1/members/n39").await.json()["status"], "left");
}

#[tokio::test]
async fn reads_that_ask_other_nodes_wait_their_turn_with_commands_and_others_do_not() {
    let a = small(16, 4).await;
    let _b = joined("b", &a).await;
    until_up(&a, 2).await;
    // Nobody answers there: each takes a place for as long as it waits.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let body = format!(r#"{{"addresses":["{}"]}}"#, silent.local_addr().expect("bound"));
    let (host, length) = (a.http, body.len());
    let request = format!(
        "POST /v1/join HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut waiting = Vec::new();
    let refused = loop {
        let tags = a.send_json("PUT", "/v1/tags", r#"{"tags":{}}"#).await;
        if tags.status != 200 {
            break tags;
        }
        waiting.push(say(&a, &request).await);
        assert!(waiting.len() < 500, "commands are bounded");
    };
    assert_eq!(refused.status, 429, "{refused:?}");
    for path in ["/v1/keys", "/v1/leader?confirm=true"] {
        assert_eq!(a.get(path).await.status, 429, "{path}");
    }
    assert_eq!(a.get("/v1/leader").await.status, 200);
    is_healthy(&a).await;
}

#[tokio::test]
async fn requests_that_wait_for_answers_keep_no_reply_and_no_command_out() {
    let a = first("a").await;
    let b = joined("b", &a).await;
    until_up(&a, 2).await;
    let mut asked = b.events("?kind=message", &[]).await;
    // More than there are places for commands, and more large bodies than are read at one time.
    let (body, count) = ("x".repeat(8 * 1024), 100);
    let mut waiting = Vec::new();
    for _ in 0..count {
        let head = "POST /v1/request/b/t?timeout_ms=20000 HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n";
        waiting.push(say(&a, &format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await);
    }
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(asked.expect("message").await.data["id"].as_str().expect("an id").to_owned());
    }
    assert_eq!(a.send_json("PUT", "/v1/tags", r#"{"tags":{"t":"1"}}"#).await.status, 200);
    assert_eq!(a.ask("POST", "/v1/broadcast/t", &[], &body).await.status, 202);
    assert_eq!(a.ask("POST", "/v1/reply/1-1", &[], "").await.status, 404, "that it is refused is said about it");
    for id in ids {
        assert_eq!(b.ask("POST", &format!("/v1/reply/{id}"), &[], "yes").await.status, 200);
    }
    for mut stream in waiting {
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        read.expect("in time").expect("read");
        assert_eq!(Answer::parse(answer).status, 200);
    }
}
