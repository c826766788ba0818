//! More members than a test could start: a server before a real agent that adds them to what the agent says.
//!
//! The page, its policy, and all that is not about members is the agent's own.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::support::Agent;

/// A server that speaks for an agent among many.
pub(crate) struct Crowd {
    pub(crate) http: String,
    state: Arc<Mutex<State>>,
}

struct State {
    /// All members, the agent first.
    members: Vec<Value>,
    /// The verdict, once it is another than the agent's own.
    verdict: Option<Value>,
    sequence: u64,
    streams: Vec<TcpStream>,
}

const RUN: &str = "00000000000000aa";

impl Crowd {
    /// Begins to serve for an agent, as one of so many members.
    pub(crate) fn before(agent: &Agent, members: usize) -> Self {
        let (_, own) = agent.client(&["members", "--format", "json"]);
        let mut own: Vec<Value> = serde_json::from_str(&own).expect("json");
        own.extend((own.len()..members).map(member));
        let state = Arc::new(Mutex::new(State { members: own, verdict: None, sequence: 0, streams: Vec::new() }));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let http = listener.local_addr().expect("an address").to_string();
        let (shared, agent) = (Arc::clone(&state), agent.http.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (state, agent) = (Arc::clone(&shared), agent.clone());
                // Browsers hang up as they please.
                std::thread::spawn(move || drop(serve(stream, &state, &agent)));
            }
        });
        Self { http, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// Changes the record of one member, and tells everybody of this event.
    pub(crate) fn change(&self, at: usize, event: &str, change: &Value) {
        let mut state = self.state();
        let member = &mut state.members[at];
        for (key, value) in change.as_object().expect("keys") {
            member[key] = value.clone();
        }
        member["incarnation"] = json!(member["incarnation"].as_u64().unwrap_or_default() + 1);
        member["since"] = json!(now());
        let member = member.clone();
        state.tell(json!({
            "event": event, "node": member["id"], "address": member["address"], "method": member["method"], "member": member,
        }));
    }

    /// Has this be the verdict from now on: its state, and the code and the text of its reason.
    pub(crate) fn judge(&self, state: &str, code: &str, text: &str) {
        let reason = json!({ "code": code, "state": state, "text": text, "nodes": [], "hint": null });
        self.state().verdict =
            Some(json!({ "state": state, "reasons": if state == "well" { json!([]) } else { json!([reason]) } }));
    }

    /// Tells everybody of an event that is about no single member.
    pub(crate) fn tell(&self, event: Value) {
        self.state().tell(event);
    }
}

impl State {
    fn tell(&mut self, mut event: Value) {
        self.sequence += 1;
        event["id"] = json!(format!("{RUN}-{}", self.sequence));
        event["sequence"] = json!(self.sequence);
        event["at"] = json!(now());
        let kind = event["event"].as_str().expect("a kind");
        let frame = format!("id: {RUN}-{}\nevent: {kind}\ndata: {event}\n\n", self.sequence);
        self.streams.retain_mut(|stream| stream.write_all(frame.as_bytes()).is_ok());
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, agent: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    for line in BufReader::new(stream.try_clone()?).lines() {
        match line? {
            line if line.is_empty() => break,
            line => head.push(line),
        }
    }
    let target = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut state = state.lock().expect("not poisoned");
    let answer = match path {
        "/v1/members" if query.is_empty() => json!(state.members),
        "/v1/members" => json!([]),
        "/v1/verdict" if state.verdict.is_some() => json!(state.verdict),
        "/v1/events" => {
            let snapshot = json!({ "id": format!("{RUN}-{}", state.sequence), "members": state.members });
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
            if query.contains("snapshot=true") {
                write!(stream, "event: snapshot\ndata: {snapshot}\n\n")?;
                state.streams.push(stream);
            }
            return Ok(());
        }
        _ => {
            drop(state);
            return forward(stream, agent, &target);
        }
    };
    drop(state);
    let body = answer.to_string();
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")?;
    write!(stream, "content-length: {}\r\n\r\n{body}", body.len())
}

fn forward(mut stream: TcpStream, agent: &str, target: &str) -> std::io::Result<()> {
    let mut behind = TcpStream::connect(agent)?;
    write!(behind, "GET {target} HTTP/1.1\r\nhost: {agent}\r\nconnection: close\r\n\r\n")?;
    std::io::copy(&mut behind, &mut stream).map(drop)
}

fn now() -> String {
    jiff::Timestamp::try_from(SystemTime::now()).expect("a time").strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn member(at: usize) -> Value {
    json!({
        "id": format!("worker-{at}"), "run": format!("{at:016x}"), "address": format!("10.0.{}.{}:7117", at / 250, at % 250 + 1),
        "api_address": null, "status": "up", "incarnation": 1, "since": now(), "last_heard_ms": 40 + at % 400,
        "rtt_ms": 0.3 + (at % 37) as f64, "version": "0.1.0", "draining": false, "is_me": false, "method": null, "reason": null,
        "tags": { "zone": format!("eu-{}", at % 3 + 1), "rack": format!("r{}", at % 40), "role": if at.is_multiple_of(9) { "database" } else { "api" } },
    })
}
