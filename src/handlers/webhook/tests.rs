//! One webhook and a server on loopback: what is said, tried again, kept, and read.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

fn notice(node: Option<&str>) -> Notice {
    let node_json = node.map_or("null".to_owned(), |node| format!("\"{node}\""));
    Notice {
        id: "8f00000000000000-7".to_owned(),
        kind: "node_left".to_owned(),
        at: "2026-01-01T00:00:00.000Z".to_owned(),
        node: node.map(str::to_owned),
        json: format!("{{\"id\":\"8f00000000000000-7\",\"node\":{node_json}}}"),
        variables: Vec::new(),
    }
}

fn context() -> Context {
    Context { node: "n1".to_owned(), cluster: "blue".to_owned(), http: None }
}

#[test]
fn a_cloud_event_has_what_the_specification_asks_for_and_no_more() {
    let read = |text: String| serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
    assert_eq!(
        read(cloud_event(&notice(Some("a")), 0, &context())),
        json!({
            "specversion": "1.0",
            "id": "8f00000000000000-7",
            "source": "/headcount/blue/n1",
            "type": "io.headcount.node_left",
            "time": "2026-01-01T00:00:00.000Z",
            "subject": "a",
            "datacontenttype": "application/json",
            "data": { "id": "8f00000000000000-7", "node": "a" },
        })
    );
    let event = read(cloud_event(&notice(None), 3, &context()));
    assert!(event.get("subject").is_none(), "an event about nobody");
    assert_eq!(event["missed"], 3, "an extension, in lower case letters as the specification asks for");
}

#[test]
fn only_what_may_pass_is_tried_again() {
    let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static("7"))]);
    assert_eq!(judge(StatusCode::NO_CONTENT, &headers, b""), Ok(()));
    for status in [500, 502, 503, 408, 425, 429] {
        let status = StatusCode::from_u16(status).expect("a status");
        let failed = judge(status, &headers, b"").expect_err("refused");
        assert_eq!((failed.is_passing, failed.retry_after), (true, Some(Duration::from_secs(7))), "{status}");
    }
    for status in [301, 400, 401, 404, 410, 422] {
        let status = StatusCode::from_u16(status).expect("a status");
        let failed = judge(status, &headers, b"go\x1b away").expect_err("refused");
        assert_eq!((failed.is_passing, failed.retry_after), (false, None), "{status}");
        assert!(failed.why.contains(status.as_str()) && !failed.why.contains('\x1b'), "{}", failed.why);
    }
}

#[test]
fn pauses_differ_and_stay_near_what_was_meant() {
    for _ in 0..100 {
        let pause = jittered(Duration::from_secs(4));
        assert!((Duration::from_secs(3)..=Duration::from_secs(5)).contains(&pause), "{pause:?}");
    }
}

/// A request on a server's side: the number of its connection, and its body.
type Asked = (usize, String);

/// Starts a server that answers every request with what `answer` makes of the number of its connection and its own
/// number there, both from 0: the bytes of an answer, or `None` to hang up.
async fn server(
    answer: impl Fn(usize, usize) -> Option<String> + Send + Sync + Copy + 'static,
) -> (std::net::SocketAddr, mpsc::UnboundedReceiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for connection in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let tell = tell.clone();
            tokio::spawn(async move {
                for request in 0.. {
                    let Some(body) = read(&mut stream).await else { return };
                    let _ = tell.send((connection, body));
                    let Some(answer) = answer(connection, request) else { return };
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    (address, told)
}

async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    String::from_utf8(body).ok()
}

fn ok(bytes: usize) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n{}", "x".repeat(bytes))
}

/// A webhook that tries once.
fn once(address: std::net::SocketAddr) -> Webhook {
    webhook(address, Duration::ZERO)
}

fn webhook(address: std::net::SocketAddr, retry_for: Duration) -> Webhook {
    Webhook::new(WebhookUrl::parse(&format!("http://{address}/")).expect("an address"), None, retry_for)
}

async fn run(webhook: &Webhook, limit: Duration, end: &CancellationToken) -> Result<(), String> {
    let (notice, context, counters) = (notice(Some("a")), context(), Counters::default());
    let run = webhook.run(&notice, 0, &context, limit, &counters, end);
    timeout(PATIENCE, run).await.expect("it ends")
}

fn connections(webhook: &Webhook) -> usize {
    webhook.idle.lock().expect("not poisoned").len()
}

const PATIENCE: Duration = Duration::from_secs(30);
/// A time limit that no test reaches.
const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_try_ends_after_its_time() {
    let (address, mut asked) = server(|_, _| Some(String::new())).await;
    let failed = run(&once(address), Duration::from_millis(200), &CancellationToken::new()).await;
    assert_eq!(failed, Err("no answer within 200ms".to_owned()));
    assert!(asked.recv().await.is_some(), "it was asked");
}

#[tokio::test]
async fn a_connection_is_kept_for_a_while_and_one_that_was_closed_meanwhile_costs_no_event() {
    let (address, mut asked) = server(|connection, request| match (connection, request) {
        (0, 2) => None,
        _ => Some(ok(2)),
    })
    .await;
    let (hook, end) = (once(address), CancellationToken::new());
    for expected in [vec![0], vec![0], vec![0, 1], vec![1]] {
        assert_eq!(run(&hook, LONG, &end).await, Ok(()), "{expected:?}");
        for connection in expected {
            assert_eq!(asked.recv().await.map(|(connection, _)| connection), Some(connection));
        }
    }
    assert_eq!(connections(&hook), 1);
    hook.idle.lock().expect("not poisoned")[0].used -= KEEP_ALIVE;
    assert_eq!(run(&hook, LONG, &end).await, Ok(()));
    assert_eq!(asked.recv().await.map(|(connection, _)| connection), Some(2), "the one before was too old");
    assert_eq!(connections(&hook), 1, "and is not kept any longer");
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_bound_and_its_connection_kept_up_to_there() {
    const BOUND: usize = MAX_ANSWER_BYTES;
    let (address, _asked) = server(|connection, _| Some(ok(BOUND + usize::from(connection == 1)))).await;
    let (hook, end) = (once(address), CancellationToken::new());
    assert_eq!((run(&hook, LONG, &end).await, connections(&hook)), (Ok(()), 1));
    hook.idle.lock().expect("not poisoned").clear();
    assert_eq!((run(&hook, LONG, &end).await, connections(&hook)), (Ok(()), 0), "accepted, and left unread");
}

#[tokio::test]
async fn the_end_of_the_agent_ends_a_try_and_a_pause() {
    let (address, mut asked) = server(|_, _| Some(String::new())).await;
    let (hook, end) = (once(address), CancellationToken::new());
    let begun = async {
        asked.recv().await;
        end.cancel();
    };
    let (ended, ()) = tokio::join!(run(&hook, LONG, &end), begun);
    assert_eq!(ended, Err("the agent has ended".to_owned()));

    let (address, mut asked) =
        server(|_, _| Some("HTTP/1.1 503 No\r\nretry-after: 3000\r\ncontent-length: 0\r\n\r\n".to_owned())).await;
    let (hook, end) = (webhook(address, LONG), CancellationToken::new());
    let begun = async {
        asked.recv().await;
        // The answer has come when its connection is kept: the pause begins.
        let deadline = Instant::now() + PATIENCE;
        while connections(&hook) == 0 {
            assert!(Instant::now() < deadline, "it is answered");
            sleep(Duration::from_millis(5)).await;
        }
        end.cancel();
    };
    let (ended, ()) = tokio::join!(run(&hook, LONG, &end), begun);
    let why = ended.expect_err("not accepted");
    assert!(why.starts_with("the agent has ended"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn pauses_between_tries_double_up_to_the_longest() {
    let refusal = || "HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n".to_owned();
    let (address, mut asked) = server(move |_, _| Some(refusal())).await;
    let retry_for = Duration::from_secs(120);
    let (hook, end, counters) = (webhook(address, retry_for), CancellationToken::new(), Counters::default());
    let (notice, context) = (notice(Some("a")), context());
    let run = async {
        let failed = hook.run(&notice, 0, &context, LONG, &counters, &end).await;
        failed.expect_err("never accepted")
    };
    let mut run = std::pin::pin!(run);
    let mut tries = Vec::new();
    let why = loop {
        tokio::select! {
            biased;
            Some(_) = asked.recv() => tries.push(Instant::now()),
            why = &mut run => break why,
        }
    };
    let pauses: Vec<Duration> = tries.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.len() >= 9 && why.ends_with(&format!("({} tries)", tries.len())), "{why}: {pauses:?}");
    for (number, pause) in pauses.iter().enumerate() {
        let meant = (FIRST_PAUSE * 2_u32.pow(number as u32)).min(MAX_PAUSE);
        let around = meant * 3 / 4..=meant * 5 / 4 + Duration::from_millis(5);
        assert!(around.contains(pause), "pause {number} was {pause:?}, and {meant:?} is meant");
    }
}
