//! The client against servers that answer well, badly, and not at all.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::*;

/// A server that gives one connection each of these answers, and keeps the heads of the requests.
struct Script {
    address: String,
    served: thread::JoinHandle<Vec<String>>,
}

impl Script {
    fn new<const N: usize>(answers: [String; N]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address").to_string();
        let serve = move || {
            let answer_one = |answer: String| {
                let (mut stream, _) = listener.accept().expect("a connection");
                let head = head_of(&stream);
                stream.write_all(answer.as_bytes()).expect("written");
                head
            };
            answers.into_iter().map(answer_one).collect()
        };
        Self { address, served: thread::spawn(serve) }
    }

    fn client(&self) -> Client {
        Client::new(&self.address).expect("a client").with_timeout(Duration::from_secs(10))
    }

    /// Returns the heads of the requests, in lower case.
    fn heads(self) -> Vec<String> {
        self.served.join().expect("served")
    }
}

fn head_of(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines();
    let head: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    head.join("\n").to_lowercase()
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

/// An answer that is a stream, and ends with the connection.
fn stream(start: &str, frames: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n";
    format!("{head}Last-Event-ID: {start}\r\n\r\n{frames}")
}

fn frame(sequence: u64) -> String {
    let id = format!("0000000000000001-{sequence}");
    format!(
        "id: {id}\nevent: view_agreed\ndata: {{\"id\":\"{id}\",\"sequence\":{sequence},\"at\":\"2026-01-01T00:00:00.000Z\",\"event\":\"view_agreed\",\"node\":null,\"address\":null,\"member\":null}}\n\n"
    )
}

fn seen(update: Option<Result<EventUpdate, ClientError>>) -> String {
    match update {
        Some(Ok(EventUpdate::Event(event))) => event.sequence.to_string(),
        Some(Ok(EventUpdate::Snapshot(snapshot))) => format!("snapshot {}", snapshot.members.len()),
        Some(Ok(EventUpdate::Lagged(lagged))) => format!("lagged {:?}", lagged.missed),
        Some(Ok(EventUpdate::Lost { .. })) => "lost".to_owned(),
        Some(Ok(EventUpdate::Resumed)) => "resumed".to_owned(),
        Some(Err(error)) => error.to_string(),
        None => "end".to_owned(),
    }
}

#[test]
fn a_stream_that_breaks_is_resumed_after_the_last_event_that_was_whole() {
    // The second event is cut off in the middle.
    let half = frame(8);
    let first = format!("{}{}", frame(7), &half[..half.len() / 2]);
    let again = format!(
        "event: lagged\ndata: {{\"missed\":3}}\n\nid: 0000000000000001-11\nevent: snapshot\ndata: {{\"id\":\"0000000000000001-11\",\"members\":[]}}\n\n{}",
        frame(12)
    );
    let refusal = r#"{"type":"urn:headcount:problem:token","title":"","status":401,"detail":"no token","hint":null}"#;
    let server = Script::new([
        stream("0000000000000001-6", &first),
        stream("0000000000000001-7", &again),
        http("401 Unauthorized", "", refusal),
    ]);
    let mut events = server.client().events(&EventQuery::all().kinds(["view_agreed"])).expect("a stream");
    let told: Vec<String> = (0..10).map(|_| seen(events.next())).collect();
    let expected = ["7", "lost", "resumed", "lagged Some(3)", "snapshot 0", "12", "lost", "no token", "end", "end"];
    assert_eq!(told, expected);
    assert_eq!(events.last_id(), Some("0000000000000001-12"));
    let heads = server.heads();
    assert!(
        heads[0].starts_with("get /v1/events?kind=view_agreed ") && !heads[0].contains("last-event-id"),
        "{heads:?}"
    );
    assert!(heads[1].contains("last-event-id: 0000000000000001-7"), "{heads:?}");
    assert!(heads[2].contains("last-event-id: 0000000000000001-12"), "{heads:?}");
}

#[test]
fn a_stream_without_any_event_is_resumed_where_it_began() {
    let server = Script::new([stream("0000000000000001-6", ": hello\n\n"), stream("0000000000000001-6", &frame(7))]);
    let mut events = server.client().events(&EventQuery::all()).expect("a stream");
    assert_eq!([seen(events.next()), seen(events.next()), seen(events.next())], ["lost", "resumed", "7"]);
    assert!(server.heads()[1].contains("last-event-id: 0000000000000001-6"));
}

#[test]
fn a_snapshot_that_was_cut_off_is_asked_for_again() {
    let id = "0000000000000001-6";
    let snapshot = format!("id: {id}\nevent: snapshot\ndata: {{\"id\":\"{id}\",\"members\":[]}}\n\n");
    let server = Script::new([
        stream(id, ""),
        stream(id, &snapshot[..snapshot.len() / 2]),
        stream(id, &snapshot),
        stream(id, &frame(7)),
    ]);
    let mut events = server.client().events(&EventQuery::all().from_snapshot()).expect("a stream");
    assert_eq!(events.last_id(), None, "there is nothing to go on after");
    let told: Vec<String> = (0..8).map(|_| seen(events.next())).collect();
    assert_eq!(told, ["lost", "resumed", "lost", "resumed", "snapshot 0", "lost", "resumed", "7"]);
    let heads = server.heads();
    assert!(heads[..3].iter().all(|head| !head.contains("last-event-id")), "{heads:?}");
    assert!(heads.iter().all(|head| head.starts_with("get /v1/events?snapshot=true ")), "{heads:?}");
    assert!(heads[3].contains("last-event-id: 0000000000000001-6"), "{heads:?}");
}

#[test]
fn an_event_that_cannot_be_read_ends_the_stream_and_is_named() {
    let server = Script::new([stream("0000000000000001-6", "event: node_joined\ndata: {}\n\n")]);
    let mut events = server.client().events(&EventQuery::all().after("0000000000000001-6")).expect("a stream");
    let error = seen(events.next());
    assert!(error.contains("\"node_joined\""), "{error}");
    assert_eq!(seen(events.next()), "end");
}

#[test]
fn messages_are_told_with_what_was_missed_and_no_place_to_resume() {
    let message = r#"{"id":"0000000000000001-7","at":"2026-01-01T00:00:00.000Z","event":"message","node":"b","topic":"t","payload":"aGk=","kind":"send","reply_within_ms":null}"#;
    let first = format!("event: message\ndata: {message}\n\nevent: lagged\ndata: {{\"missed\":2}}\n\n");
    let server = Script::new([stream("0000000000000001-6", &first), stream("0000000000000001-9", "")]);
    let mut messages = server.client().listen(["t", "u"]).expect("a stream");
    let mut next = || messages.next().expect("one more").expect("readable");
    assert!(matches!(next(), MessageUpdate::Message(said) if said.bytes().as_deref() == Some(b"hi")));
    assert!(matches!(next(), MessageUpdate::Missed(missed) if missed.missed == 2));
    assert!(matches!(next(), MessageUpdate::Lost { .. }));
    assert!(matches!(next(), MessageUpdate::Resumed));
    let heads = server.heads();
    assert!(heads[0].starts_with("get /v1/events?kind=message&topic=t,u "), "{heads:?}");
    assert!(heads.iter().all(|head| !head.contains("last-event-id")), "{heads:?}");
}

#[test]
fn a_refusal_carries_the_problem_and_no_such_member_is_none() {
    let problem = |word: &str, status: u16| {
        format!(
            r#"{{"type":"urn:headcount:problem:{word}","title":"","status":{status},"detail":"it is \u001b[31m so","hint":"wait"}}"#
        )
    };
    let server = Script::new([
        http("404 Not Found", "", &problem("no-such-member", 404)),
        http("429 Too Many Requests", "", &problem("too-fast", 429)),
        http("502 Bad Gateway", "", "<html>"),
        http("200 OK", "", "[{}]"),
    ]);
    let client = server.client();
    assert_eq!(client.member("a b/c").expect("an answer"), None);
    let refused = client.broadcast("t", b"x").expect_err("refused");
    assert_eq!((refused.problem_word(), refused.is_transient()), ("too-fast", true));
    assert_eq!(refused.problem().and_then(|problem| problem.hint.as_deref()), Some("wait"));
    assert_eq!(refused.to_string(), "it is \\u{1b}[31m so");
    let failed = client.members().expect_err("no agent");
    assert!(matches!(failed, ClientError::Status { status: 502, .. }) && !failed.is_transient(), "{failed}");
    assert!(matches!(client.members(), Err(ClientError::Answer { .. })));
    assert!(server.heads()[0].starts_with("get /v1/members/a%20b%2fc "));
}

#[test]
fn the_token_goes_with_each_call_and_is_not_shown() {
    let server = Script::new([http("200 OK", "", "[]")]);
    let client = server.client().with_token(Token::new("0123456789abcdef").expect("a token"));
    assert!(!format!("{client:?}").contains("0123456789"));
    assert_eq!(client.members().map(|members| members.len()).ok(), Some(0));
    assert!(server.heads()[0].contains("authorization: bearer 0123456789abcdef"));
}

#[test]
fn health_is_an_answer_whatever_its_status() {
    let server = Script::new([
        http("200 OK", "", "ok"),
        http("503 Service Unavailable", "", "joining\n"),
        http("404 Not Found", "", ""),
    ]);
    let client = server.client();
    assert_eq!(client.health().ok(), Some(Health { is_ok: true, reason: "ok".to_owned() }));
    assert_eq!(client.readiness().ok(), Some(Health { is_ok: false, reason: "joining".to_owned() }));
    assert!(matches!(client.health(), Err(ClientError::Status { status: 404, .. })));
}

#[test]
fn an_agent_that_is_not_there_or_does_not_answer_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let silent = Client::new(&address).expect("a client").with_timeout(Duration::from_millis(100));
    assert!(matches!(silent.info(), Err(ClientError::TimedOut { .. })));
    drop(listener);
    let error = silent.info().expect_err("nobody is there");
    assert_eq!(error.retry_outlook(), RetryOutlook::NobodyListens, "{error}");
}

#[test]
fn no_redirect_is_followed_and_the_token_goes_to_the_agent_alone() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("bound");
    elsewhere.set_nonblocking(true).expect("set");
    let to = elsewhere.local_addr().expect("an address");
    let server = Script::new([http("307 Temporary Redirect", &format!("Location: http://{to}/v1/members\r\n"), "")]);
    let client = server.client().with_token(Token::new("0123456789abcdef").expect("a token"));
    let failed = client.members().expect_err("no agent answers like this");
    assert!(matches!(failed, ClientError::Status { status: 307, .. }), "{failed}");
    let heard = elsewhere.accept().map_err(|error| error.kind());
    assert!(matches!(heard, Err(std::io::ErrorKind::WouldBlock)), "{heard:?}");
}

#[test]
fn a_stream_on_which_nothing_comes_is_given_up_after_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let mut client = Client::new(&address).expect("a client");
    assert_eq!(client.silence, STREAM_SILENCE);
    client.silence = Duration::from_millis(200);
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut events = client.events(&EventQuery::all()).expect("a stream");
        let _ = tell.send(seen(events.next()));
    });
    let (mut agent, _) = listener.accept().expect("a connection");
    head_of(&agent);
    agent.write_all(stream("0000000000000001-6", "").as_bytes()).expect("written");
    // The connection stays open, and nothing more is said.
    assert_eq!(told.recv_timeout(Duration::from_secs(20)).as_deref(), Ok("lost"));
}
