//! Handlers that post CloudEvents.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use super::*;
use crate::support::{own_address, skip};

/// A request as it came in: its head in lower case, and its body.
type Request = (String, Value);

/// A server on loopback that answers requests one after another with these statuses, the last one for ever.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start(answers: &'static [&'static str]) -> Self {
        Self::start_with(answers, |stream, serve| serve(&mut &stream, &mut &stream))
    }

    fn start_with(
        answers: &'static [&'static str],
        with: impl Fn(std::net::TcpStream, &mut dyn FnMut(&mut dyn Read, &mut dyn Write)) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let sink = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                with(stream, &mut |input, output| {
                    let Some(request) = read(input) else { return };
                    let mut requests = sink.lock().expect("not poisoned");
                    let answer = answers.get(requests.len()).or(answers.last()).expect("one at least");
                    requests.push(request);
                    let _ = write!(output, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                });
            }
        });
        Self { port, requests }
    }

    fn wait_for(&self, count: usize) -> Vec<Request> {
        wait_for(&format!("{count} requests"), || {
            let requests = self.requests.lock().expect("not poisoned");
            (requests.len() >= count).then(|| requests.clone())
        })
    }
}

fn read(input: &mut dyn Read) -> Option<Request> {
    let mut input = BufReader::new(input);
    let mut head = String::new();
    while input.read_line(&mut head).ok()? > 0 && !head.ends_with("\r\n\r\n") {}
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).ok()?))
}

fn webhook(url: &str, keys: &str) -> String {
    format!("[[handlers]]\nname = \"hook\"\nurl = \"{url}\"\n{keys}\n")
}

#[test]
fn an_event_is_posted_as_a_cloud_event_again_and_again_until_it_is_accepted() {
    let server = Server::start(&["503 Unavailable", "429 Too Many Requests", "204 No Content"]);
    let desk = Desk::new();
    std::fs::write(desk.path("token"), "0123456789abcdef\n").expect("written");
    let url = format!("http://127.0.0.1:{}/hooks/s3cret?key=s3cret", server.port);
    let keys = format!("kinds = [\"node_joined\"]\ntoken_file = \"{}\"", desk.shown("token"));
    desk.configure(&webhook(&url, &keys));
    let a = desk.start("a", &[]);
    let requests = server.wait_for(3);
    let (head, event) = &requests[0];
    assert!(head.starts_with("post /hooks/s3cret?key=s3cret http/1.1\r\n"), "{head}");
    for line in [
        format!("host: 127.0.0.1:{}", server.port),
        "content-type: application/cloudevents+json; charset=utf-8".to_owned(),
        "authorization: bearer 0123456789abcdef".to_owned(),
    ] {
        assert!(head.lines().any(|found| found == line), "{line} in {head}");
    }
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "io.headcount.node_joined");
    assert_eq!(event["source"], "/headcount/headcount/a");
    assert_eq!(event["subject"], "a");
    assert_eq!((&event["id"], &event["time"]), (&event["data"]["id"], &event["data"]["at"]));
    assert_eq!(event["data"]["member"]["id"], "a");
    assert!(requests.iter().all(|(_, again)| again == event), "the same event");
    wait_for("it is counted", || (figure(&a, "runs_total", "hook") == 1).then_some(()));
    assert_eq!(figure(&a, "retries_total", "hook"), 2);
    assert_eq!(figure(&a, "failures_total", "hook"), 0);
    assert!(!a.log().contains("s3cret"), "{}", a.log());
}

#[test]
fn who_asks_for_more_time_than_there_is_is_asked_again_at_its_end() {
    let server = Server::start(&["503 Unavailable\r\nretry-after: 18446744073709551615", "204 No Content"]);
    let desk = Desk::new();
    let keys = "kinds = [\"node_joined\"]\nretry_for = \"2s\"";
    desk.configure(&webhook(&format!("http://127.0.0.1:{}/", server.port), keys));
    let a = desk.start("a", &[]);
    server.wait_for(2);
    wait_for("it is accepted", || (figure(&a, "runs_total", "hook") == 1).then_some(()));
    assert_eq!(figure(&a, "failures_total", "hook"), 0);
}

#[test]
fn what_is_refused_for_good_is_not_posted_again_and_what_is_away_only_for_so_long() {
    let server = Server::start(&["404 Not Found"]);
    let desk = Desk::new();
    let free = TcpListener::bind(own_address()).and_then(|listener| listener.local_addr()).expect("a free port");
    let keys = "kinds = [\"node_joined\"]\nretry_for = \"3s\"";
    let away = webhook(&format!("http://{free}/"), keys).replace("hook", "away");
    desk.configure(&(webhook(&format!("http://127.0.0.1:{}/", server.port), keys) + &away));
    let a = desk.start("a", &[]);
    for name in ["hook", "away"] {
        wait_for("it has failed", || (figure(&a, "failures_total", name) == 1).then_some(()));
    }
    assert_eq!(server.wait_for(1).len(), 1);
    assert_eq!(figure(&a, "retries_total", "hook"), 0);
    assert!(figure(&a, "retries_total", "away") >= 1);
    a.wait_for_log("it answered 404 Not Found");
    a.wait_for_log("no connection: Connection refused");
}

#[test]
fn https_is_verified_by_the_authorities_of_the_machine() {
    let desk = Desk::new();
    let make = format!(
        "cd {} && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=ca \
         -keyout ca.key -out ca.crt && openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=x -keyout s.key \
         -out s.csr && printf 'subjectAltName=DNS:localhost' > ext && \
         openssl x509 -req -in s.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out s.crt",
        desk.0.path().display()
    );
    let output = Command::new("sh").args(["-c", &make]).output().expect("a shell");
    if !output.status.success() {
        return skip(&format!("no certificates: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let config = tls(&desk);
    let server = Server::start_with(&["200 OK"], move |mut stream, serve| {
        let Ok(mut tls) = rustls::ServerConnection::new(Arc::clone(&config)) else { return };
        let mut tls = rustls::Stream::new(&mut tls, &mut stream);
        let tls = std::cell::RefCell::new(&mut tls);
        serve(&mut Shared(&tls), &mut Shared(&tls));
        tls.borrow_mut().conn.send_close_notify();
        let _ = tls.borrow_mut().flush();
    });
    let keys = "kinds = [\"node_joined\"]\nretry_for = \"0s\"";
    let right = webhook(&format!("https://localhost:{}/", server.port), keys);
    let wrong = webhook(&format!("https://127.0.0.1:{}/", server.port), keys).replace("hook", "wrong");
    desk.configure(&(right + &wrong));
    let trusting = ["env".to_owned(), format!("SSL_CERT_FILE={}", desk.shown("ca.crt"))];
    let a = desk.start("a", &trusting);
    assert_eq!(server.wait_for(1)[0].1["subject"], "a");
    wait_for("another name fails", || (figure(&a, "failures_total", "wrong") == 1).then_some(()));
    a.wait_for_log("no TLS: invalid peer certificate");
    assert_eq!(figure(&a, "failures_total", "hook"), 0);

    let b = desk.start("b", &[]);
    wait_for("an unknown authority fails", || (figure(&b, "failures_total", "hook") == 1).then_some(()));
    assert_eq!(server.wait_for(1).len(), 1, "nothing was said to it");
}

/// Both directions of one stream.
struct Shared<'a, T>(&'a std::cell::RefCell<T>);

impl<T: Read> Read for Shared<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

impl<T: Write> Write for Shared<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

fn tls(desk: &Desk) -> Arc<rustls::ServerConfig> {
    use rustls::pki_types::pem::PemObject as _;
    let chain = rustls::pki_types::CertificateDer::pem_file_iter(desk.path("s.crt")).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::from_pem_file(desk.path("s.key")).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth();
    let chain = chain.collect::<Result<_, _>>().expect("a certificate");
    Arc::new(config.with_single_cert(chain, key).expect("a pair"))
}
