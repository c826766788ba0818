//! Whom a request believes to talk to, and what a web page of somebody else may do.

use headcount::http::{HttpSettings, Token};

use crate::support::{Answer, Node, first, first_with};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

async fn ask(node: &Node, target: &str, headers: &str) -> Answer {
    let request = format!("GET {target} HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
    Answer::parse(node.raw(request.as_bytes()).await)
}

fn refusal(answer: &Answer) -> (u16, String) {
    (answer.status, answer.problem())
}

#[tokio::test]
async fn names_are_refused_unless_they_are_allowed() {
    let a = first("a").await;
    let port = a.http.port();
    for host in [format!("127.0.0.1:{port}"), "127.0.0.1".to_owned(), format!("LOCALHOST:{port}"), "[::1]:1".to_owned()]
    {
        assert_eq!(ask(&a, "/v1/members", &format!("host: {host}\r\n")).await.status, 200, "{host}");
    }
    let refused = ask(&a, "/v1/members", "host: evil.example\r\n").await;
    assert_eq!(refusal(&refused), (403, "host".to_owned()));
    assert!(refused.json()["hint"].to_string().contains("http.allowed_hosts"), "{refused:?}");
    let both = ask(&a, "http://evil.example/v1/members", &format!("host: 127.0.0.1:{port}\r\n")).await;
    assert_eq!(refusal(&both), (403, "host".to_owned()));

    let mut settings = HttpSettings::default();
    settings.allowed_hosts = vec!["Headcount.internal".to_owned()];
    let b = first_with("b", settings).await;
    assert_eq!(ask(&b, "/v1/members", "host: headcount.INTERNAL:7118\r\n").await.status, 200);
    assert_eq!(ask(&b, "/v1/members", "host: other.internal\r\n").await.status, 403);
}

#[tokio::test]
async fn supervisors_may_use_any_name_and_so_may_who_has_the_token() {
    let a = first("a").await;
    assert_eq!(ask(&a, "/healthz", "host: agent.example\r\n").await.status, 200);
    assert_eq!(ask(&a, "/readyz", "host: agent.example\r\n").await.status, 200);
    assert_eq!(ask(&a, "/metrics", "host: agent.example\r\n").await.status, 403);

    let b = first_with("b", HttpSettings::new(Token::new(TOKEN).ok())).await;
    let headers = format!("host: agent.example\r\nauthorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(&b, "/v1/members", &headers).await.status, 200);
    assert_eq!(ask(&b, "/v1/members", "host: agent.example\r\n").await.status, 401);
}

#[tokio::test]
async fn a_request_has_exactly_one_host() {
    let a = first("a").await;
    for headers in ["", "host: 127.0.0.1\r\nhost: 127.0.0.1\r\n", "host:\r\n", "host: a b\r\n", "host: 127.0.0.1:x\r\n"]
    {
        for path in ["/v1/members", "/healthz"] {
            assert_eq!(refusal(&ask(&a, path, headers).await), (400, "host".to_owned()), "{headers:?} {path}");
        }
    }
    let old = a.raw(b"GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&old));
}

#[tokio::test]
async fn a_page_whose_name_was_made_to_lead_here_can_neither_read_nor_command() {
    let a = first("a").await;
    // A browser's request for a page of its own origin: no `Origin` with a GET.
    assert_eq!(ask(&a, "/v1/info", "host: evil.example\r\nsec-fetch-site: same-origin\r\n").await.status, 403);
    let leave =
        b"POST /v1/leave HTTP/1.1\r\nhost: evil.example\r\norigin: http://evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(Answer::parse(a.raw(leave).await).status, 403);
    assert!(a.agent.stop().is_none());
}
