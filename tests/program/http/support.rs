//! A server on a free port, and a client that sees every byte.

use std::net::SocketAddr;
use std::time::Duration;

use headcount::http::{self, HttpSettings, Token};
use headcount::{Agent, Config, Profile};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// No answer may take longer; generous, because tests share the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A node with its HTTP interface.
pub(crate) struct Node {
    pub(crate) agent: Agent,
    pub(crate) http: SocketAddr,
    _stop: DropGuard,
}

/// Starts the first node of a cluster.
pub(crate) async fn first(name: &str) -> Node {
    node(name, None, None).await
}

/// Starts a node that joins another.
pub(crate) async fn joined(name: &str, seed: &Node) -> Node {
    node(name, Some(seed), None).await
}

pub(crate) async fn node(name: &str, seed: Option<&Node>, token: Option<&str>) -> Node {
    let token = token.map(|token| Token::new(token).expect("a token"));
    started(name, seed, HttpSettings::new(token)).await
}

/// Starts the first node of a cluster, with settings of its own.
pub(crate) async fn first_with(name: &str, settings: HttpSettings) -> Node {
    started(name, None, settings).await
}

async fn started(name: &str, seed: Option<&Node>, settings: HttpSettings) -> Node {
    of(config(name, seed), settings).await
}

/// The configuration of a node on loopback.
pub(crate) fn config(name: &str, seed: Option<&Node>) -> Config {
    let mut config = Config::new(name).expect("a name").with_profile(Profile::Local);
    config.seeds = seed.iter().map(|seed| seed.agent.gossip_address().to_string()).collect();
    config
}

/// A node of this configuration, on a free port.
pub(crate) async fn of(config: Config, settings: HttpSettings) -> Node {
    let loopback: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let agent = Agent::start(config.with_bind(loopback)).await.expect("started");
    agent.wait_until_up().await.expect("up");
    let listener = http::listen(loopback).await.expect("bound");
    let http = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    tokio::spawn(http::serve(listener, agent.clone(), settings, stop.clone()));
    Node { agent, http, _stop: stop.drop_guard() }
}

/// Waits until a node lists so many members as up.
pub(crate) async fn until_up(node: &Node, members: usize) {
    let wait = async {
        while node.agent.info().members[headcount::Status::Up.index()] != members {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the cluster forms in time");
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Takes the bytes of an answer apart.
    pub(crate) fn parse(bytes: Vec<u8>) -> Self {
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Returns the body of an answer whose length was not known beforehand.
    pub(crate) fn dechunked(&self) -> String {
        assert_eq!(self.header("transfer-encoding"), Some("chunked"), "{}", self.head);
        let (mut body, mut rest) = (String::new(), self.body.as_str());
        loop {
            let (length, after) = rest.split_once("\r\n").expect("a chunk");
            let length = usize::from_str_radix(length, 16).expect("its length");
            if length == 0 {
                return body;
            }
            body.push_str(&after[..length]);
            rest = after[length..].strip_prefix("\r\n").expect("its end");
        }
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then(|| value.trim()))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Returns the word of its problem, after the shape was checked.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        for key in ["type", "title", "detail"] {
            assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "{key} of {problem}");
        }
        assert!(problem.get("hint").is_some(), "{problem}");
        let kind = problem["type"].as_str().unwrap_or_default();
        kind.strip_prefix("urn:headcount:problem:").expect("our own").to_owned()
    }
}

impl Node {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    pub(crate) async fn send_json(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask(method, path, &["content-type: application/json"], body).await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let headers = lines(headers);
        let length = body.len();
        let host = self.http;
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        let bytes = self.raw(text.as_bytes()).await;
        Answer::parse(bytes)
    }

    /// Sends bytes and reads until the connection is closed.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.http).await.expect("connected");
        let mut answer = Vec::new();
        let talk = async {
            // The server may have closed before it read everything; what it answered counts.
            let _ = stream.write_all(bytes).await;
            let _ = stream.read_to_end(&mut answer).await;
        };
        tokio::time::timeout(PATIENCE, talk).await.expect("answered in time");
        answer
    }

    /// Opens an event stream.
    pub(crate) async fn events(&self, query: &str, headers: &[&str]) -> Events {
        let mut stream = TcpStream::connect(self.http).await.expect("connected");
        let headers = lines(headers);
        let request =
            format!("GET /v1/events{query} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\r\n", self.http);
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut events = Events { stream: BufReader::new(stream), head: String::new(), chunks: None };
        while let Some(line) = events.line().await {
            if line.is_empty() {
                break;
            }
            events.head.push_str(&line);
            events.head.push('\n');
        }
        events.chunks = events.head.contains("transfer-encoding: chunked").then(Vec::new);
        events
    }
}

/// Returns headers as they are sent.
fn lines(headers: &[&str]) -> String {
    headers.iter().flat_map(|header| [*header, "\r\n"]).collect()
}

/// An open event stream.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    pub(crate) head: String,
    /// The bytes of chunks that are no whole line yet; `None` if the answer has no chunks.
    chunks: Option<Vec<u8>>,
}

/// One server-sent event.
#[derive(Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Events {
    /// Says that nothing more will be asked, and goes on listening.
    pub(crate) async fn close_half(&mut self) {
        self.stream.get_mut().shutdown().await.expect("closed");
    }

    pub(crate) async fn line(&mut self) -> Option<String> {
        loop {
            let Some(chunks) = &mut self.chunks else { return self.raw_line().await };
            if let Some(end) = chunks.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = chunks.drain(..=end).collect();
                return Some(String::from_utf8(line).expect("text").trim_end_matches(['\r', '\n']).to_owned());
            }
            let length = usize::from_str_radix(&self.raw_line().await?, 16).expect("the length of a chunk");
            let mut chunk = vec![0; length + 2];
            let read = tokio::time::timeout(PATIENCE, self.stream.read_exact(&mut chunk)).await.expect("in time");
            if length == 0 || read.is_err() {
                return None;
            }
            chunk.truncate(length);
            self.chunks.get_or_insert_default().extend(chunk);
        }
    }

    async fn raw_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.stream.read_line(&mut line)).await.expect("in time");
        (read.unwrap_or(0) > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Returns the next event; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let (mut id, mut event) = (None, String::new());
        loop {
            let line = self.line().await?;
            match line.split_once(": ") {
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("event", value)) => value.clone_into(&mut event),
                Some(("data", value)) => {
                    let data = serde_json::from_str(value).expect("JSON");
                    return Some(Frame { id, event, data });
                }
                _ => {}
            }
        }
    }

    pub(crate) async fn expect(&mut self, event: &str) -> Frame {
        let frame = self.next().await.unwrap_or_else(|| panic!("the stream ended before {event}"));
        assert_eq!(frame.event, event, "{frame:?}");
        frame
    }
}
