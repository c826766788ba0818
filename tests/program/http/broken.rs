//! Input that is not HTTP, not whole, or not in time: it costs its sender a connection and the agent nothing.

use std::time::Duration;

use headcount::http::{HEAD_TIMEOUT, REQUEST_TIMEOUT};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::support::first;

#[tokio::test]
async fn broken_requests_are_refused_and_harm_nobody() {
    let a = first("a").await;
    let long_path = format!("GET /{} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", "x".repeat(100_000));
    let many_headers = format!("GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n{}\r\n", "x: y\r\n".repeat(1_000));
    let cases: &[&[u8]] = &[
        b"\r\n\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/join HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        b"POST /v1/join HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nZZZ\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HC\x01\x00\x00\x00\x00\x00",
        long_path.as_bytes(),
        many_headers.as_bytes(),
    ];
    for bytes in cases {
        let mut stream = TcpStream::connect(a.http).await.expect("connected");
        let _ = stream.write_all(bytes).await;
        // Half a request is over when its sender is gone.
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "closed soon after {:?}", String::from_utf8_lossy(bytes));
        let first_line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
        let is_refused =
            answer.is_empty() || first_line.starts_with("HTTP/1.1 4") || first_line.starts_with("HTTP/1.0 4");
        assert!(is_refused, "{first_line} to {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
        assert_eq!(a.get("/healthz").await.body, "ok");
    }
    assert!(a.agent.health().is_ok());
    assert!(a.agent.stop().is_none());
}

#[tokio::test]
async fn connections_that_vanish_are_forgotten() {
    let a = first("a").await;
    for _ in 0..200 {
        let mut stream = TcpStream::connect(a.http).await.expect("connected");
        let request = format!("POST /v1/join HTTP/1.1\r\nhost: {}\r\ncontent-length: 100\r\n\r\n{{", a.http);
        stream.write_all(request.as_bytes()).await.expect("sent");
    }
    assert_eq!(a.get("/v1/info").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let a = first("a").await;
    let mut stream = TcpStream::connect(a.http).await.expect("connected");
    let more = "content-type: application/json\r\ncontent-length: 100";
    let head = format!("PUT /v1/tags HTTP/1.1\r\nhost: {}\r\n{more}\r\n\r\n{{", a.http);
    let sent = tokio::time::Instant::now();
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("read");
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("application/problem+json") && answer.contains("problem:timeout"), "{answer}");
    let passed = sent.elapsed();
    assert!(passed >= REQUEST_TIMEOUT && passed <= REQUEST_TIMEOUT + Duration::from_secs(3), "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_dribbles_in_is_cut_off() {
    let a = first("a").await;
    let mut stream = TcpStream::connect(a.http).await.expect("connected");
    let sent = tokio::time::Instant::now();
    stream.write_all(b"GET /v1/info HTTP/1.1\r\n").await.expect("sent");
    let mut byte = [0];
    loop {
        tokio::select! {
            read = stream.read(&mut byte) => {
                assert!(!matches!(read, Ok(1..)), "no answer to half a question");
                break;
            }
            () = tokio::time::sleep(Duration::from_secs(1)) => {
                let _ = stream.write_all(b"x: y\r\n").await;
            }
        }
    }
    let passed = sent.elapsed();
    assert!(passed >= HEAD_TIMEOUT && passed <= HEAD_TIMEOUT + Duration::from_secs(3), "{passed:?}");
}
