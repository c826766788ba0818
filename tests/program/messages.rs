//! Messages between real processes: said by command line and HTTP, heard by listeners, asked and answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Agent, HEADCOUNT, wait_for};
use serde_json::{Value, json};

/// A running `headcount listen --format json`.
struct Listener {
    child: Child,
    heard: Arc<Mutex<Vec<Value>>>,
}

impl Listener {
    /// Listens, and returns when the agent has opened the stream.
    fn start(agent: &Agent, topics: &[&str]) -> Self {
        let mut command = Command::new(HEADCOUNT);
        command.arg("listen").args(topics).args(["--format", "json", "--http", &agent.http]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("listen runs");
        let mut ready = String::new();
        BufReader::new(child.stderr.take().expect("piped")).read_line(&mut ready).expect("readable");
        assert!(ready.contains("listening"), "{ready}");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (sink, stdout) = (Arc::clone(&heard), child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                sink.lock().expect("not poisoned").push(serde_json::from_str(&line).expect("one object a line"));
            }
        });
        Self { child, heard }
    }

    fn heard(&self) -> Vec<Value> {
        self.heard.lock().expect("not poisoned").clone()
    }

    fn wait_for(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} messages, {:?} so far", self.heard().len()), || {
            Some(self.heard()).filter(|heard| heard.len() >= count)
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts agents of these names that see each other.
fn cluster(names: &[&str]) -> Vec<Agent> {
    let first = Agent::start(names[0], &[], &[]);
    let seed = first.gossip.clone();
    let mut agents = vec![first];
    agents.extend(names[1..].iter().map(|name| Agent::start(name, &[&seed], &[])));
    for agent in &agents {
        agent.wait_for_up(names);
    }
    agents
}

/// Posts raw bytes; the status and the body.
fn post(agent: &Agent, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let address: SocketAddr = agent.http.parse().expect("an address");
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let status = String::from_utf8_lossy(&answer[9..12]).parse().expect("a status");
    (status, answer[at + 4..].to_vec())
}

fn json_of(answer: &(u16, Vec<u8>)) -> Value {
    serde_json::from_slice(&answer.1).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

#[test]
fn a_broadcast_is_heard_everywhere_once() {
    let agents = cluster(&["a", "b", "c"]);
    let listeners: Vec<Listener> = agents.iter().map(|agent| Listener::start(agent, &["cache"])).collect();
    let (status, printed) = agents[0].client(&["broadcast", "cache", "k17", "--format", "json"]);
    assert!(status.success(), "{printed}");
    let sent: Value = serde_json::from_str(&printed).expect("json");
    assert_eq!(sent["addressed"], 3);
    let answer = post(&agents[1], "/v1/broadcast/other", b"nobody listens to this");
    assert_eq!((answer.0, &json_of(&answer)["addressed"]), (202, &json!(3)));
    let answer = post(&agents[1], "/v1/broadcast/cache", &[0, 255, 7]);
    assert_eq!(answer.0, 202);
    for listener in &listeners {
        let mut heard = listener.wait_for(2);
        heard.sort_by_key(|message| message["node"].to_string());
        assert_eq!((heard[0]["id"].clone(), heard[0]["node"].clone()), (sent["id"].clone(), json!("a")));
        assert_eq!(heard[0]["payload"], "azE3");
        assert_eq!(
            (heard[1]["id"].clone(), heard[1]["payload"].clone()),
            (json_of(&answer)["id"].clone(), json!("AP8H"))
        );
        assert_eq!((heard[0]["event"].clone(), heard[0]["kind"].clone()), (json!("message"), json!("broadcast")));
        assert_eq!(heard[0]["reply_within_ms"], Value::Null);
    }
    // Whoever asks for events without naming messages gets none.
    let watch = agents[2].watch();
    post(&agents[2], "/v1/broadcast/cache", b"x");
    for listener in &listeners {
        listener.wait_for(3);
    }
    assert!(agents[2].client(&["tags", "told=later"]).0.success());
    watch.wait_for(&agents[2].name, "node_updated");
    assert!(watch.events().iter().all(|event| event["event"] != "message"));
}

#[test]
fn payloads_of_every_size_arrive_and_one_byte_too_many_is_refused() {
    let agents = cluster(&["a", "b", "c"]);
    let listener = Listener::start(&agents[2], &["bulk"]);
    let mut heard = 0;
    for size in [0, 1, 736, 737, 20_000, 65_536] {
        // A large one needs a link, which a young cluster is about to open.
        wait_for("it is taken", || (post(&agents[0], "/v1/broadcast/bulk", &vec![b'x'; size]).0 == 202).then_some(()));
        heard += 1;
        let last = listener.wait_for(heard).pop().expect("it");
        assert_eq!(last["payload"].as_str().expect("text").len(), size.div_ceil(3) * 4, "{size} bytes");
        let sent = post(&agents[0], "/v1/send/c/bulk", &vec![b'y'; size]);
        assert_eq!(sent.0, 200, "{sent:?}");
        heard += 1;
        let last = listener.wait_for(heard).pop().expect("it");
        assert_eq!((last["kind"].clone(), last["id"].clone()), (json!("send"), json_of(&sent)["id"].clone()));
    }
    for path in ["/v1/broadcast/bulk", "/v1/send/c/bulk", "/v1/request/c/bulk"] {
        assert_eq!(post(&agents[0], path, &vec![0; 65_537]).0, 413, "{path}");
    }
}

#[test]
fn a_request_is_answered_by_a_program_of_the_other_node() {
    let agents = cluster(&["a", "b"]);
    let listener = Listener::start(&agents[1], &["health"]);
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| agents[0].client(&["request", "b", "health", "how are you?", "--timeout", "20s"]));
        let request = listener.wait_for(1).remove(0);
        assert_eq!((request["kind"].clone(), request["node"].clone()), (json!("request"), json!("a")));
        assert_eq!(request["reply_within_ms"], 20_000);
        let id = request["id"].as_str().expect("an id");
        let (status, printed) = agents[1].client(&["reply", id, "fine"]);
        assert!(status.success(), "{printed}");
        assert_eq!(post(&agents[1], &format!("/v1/reply/{id}"), b"again").0, 404, "the first answer counts");
        asked.join().expect("no panic")
    });
    assert_eq!((answer.0.success(), answer.1.as_str()), (true, "fine\n"));
}

#[test]
fn errors_have_the_statuses_of_the_contract() {
    let mut agents = cluster(&["a", "b"]);
    let a = &agents[0];
    let word = |answer: &(u16, Vec<u8>)| json_of(answer)["type"].as_str().map(str::to_owned).expect("a problem");
    assert_eq!(post(a, "/v1/send/b/t", b"x").0, 200, "the link between them is open from here on");
    for (path, status, kind) in [
        ("/v1/send/nobody/t", 404, "no-such-member"),
        ("/v1/request/a%20b/t", 404, "no-such-member"),
        ("/v1/request/b/t?timeout_ms=300", 504, "no-answer"),
        ("/v1/request/b/t?timeout_ms=0", 400, "query"),
        ("/v1/request/b/t?timeout_ms=25001", 400, "query"),
        ("/v1/broadcast/a%20b", 422, "value"),
        ("/v1/reply/nonsense", 404, "no-such-request"),
        ("/v1/reply/00c0ffee00c0ffee-13", 404, "no-such-request"),
    ] {
        let answer = post(a, path, b"x");
        assert_eq!((answer.0, word(&answer)), (status, format!("urn:headcount:problem:{kind}")), "{path}");
    }
    assert!(a.get("/v1/events?topic=x").starts_with("HTTP/1.1 400"), "topics are those of messages");
    // A process that stands still has a link, and does not answer.
    agents[1].signal(nix::sys::signal::Signal::SIGSTOP);
    let answer = post(&agents[0], "/v1/send/b/t", b"x");
    assert!(matches!(answer.0, 503 | 504), "{answer:?}");
    agents[1].signal(nix::sys::signal::Signal::SIGCONT);
    let (status, _) = agents[0].client(&["send", "nobody", "t", "x"]);
    assert_eq!(status.code(), Some(1));
    agents.clear();
}

#[test]
fn what_five_agents_count_adds_up() {
    const EACH: usize = 100;
    let names = ["a", "b", "c", "d", "e"];
    let agents = cluster(&names);
    let listeners: Vec<Listener> = agents.iter().map(|agent| Listener::start(agent, &["t"])).collect();
    std::thread::scope(|scope| {
        for agent in &agents {
            scope.spawn(move || {
                for n in 0..EACH {
                    assert_eq!(post(agent, "/v1/broadcast/t", &n.to_le_bytes()).0, 202);
                }
            });
        }
    });
    let all = EACH * names.len();
    for listener in &listeners {
        let heard = listener.wait_for(all);
        let ids: std::collections::BTreeSet<String> = heard.iter().map(|message| message["id"].to_string()).collect();
        assert_eq!((heard.len(), ids.len()), (all, all), "each once");
    }
    for agent in &agents {
        // Copies still arrive, and what was heard is counted a moment later; one scrape is one moment.
        wait_for("the counters add up", || {
            let text = agent.get("/metrics");
            let read = |name: &str| -> Option<usize> {
                let line =
                    text.lines().find_map(|line| line.strip_prefix(&format!("headcount_messages_{name}_total ")))?;
                line.trim().parse().ok()
            };
            let delivered = read("delivered")?;
            assert!(delivered <= all, "{delivered} of {all}");
            let taken = delivered + read("duplicate")? + read("dropped")?;
            (delivered == all && taken == read("received")? + read("delivered_here")?).then_some(())
        });
        let figure = |name: &str| agent.metric(&format!("headcount_messages_{name}_total")) as usize;
        assert_eq!((figure("sent"), figure("delivered"), figure("delivered_here")), (EACH, all, EACH));
        assert_eq!(figure("failed") + figure("dropped") + figure("lost"), 0);
    }
}
