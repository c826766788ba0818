//! Whom a request believes to talk to, and what a web page of somebody else may do.

use headcount::http::{HttpSettings, Token, Tokens};

use super::support::{Answer, Node, first, first_with};

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

#[tokio::test]
async fn images_scripts_and_frames_of_foreign_pages_are_refused_and_links_are_not() {
    let a = first("a").await;
    let ask = async |target: &str, site: &str, mode: &str, dest: &str| {
        let sent = format!("sec-fetch-site: {site}\r\nsec-fetch-mode: {mode}\r\nsec-fetch-dest: {dest}\r\n");
        refusal_or_status(&ask(&a, target, &format!("host: {}\r\n{sent}", a.http)).await)
    };
    for site in ["cross-site", "same-site"] {
        for (mode, dest) in [("no-cors", "image"), ("no-cors", "script"), ("no-cors", "empty"), ("navigate", "iframe")]
        {
            for target in ["/v1/events", "/v1/keys", "/dashboard", "/healthz"] {
                assert_eq!(ask(target, site, mode, dest).await, "403 origin", "{target} {site} {mode} {dest}");
            }
        }
        assert_eq!(ask("/dashboard", site, "navigate", "document").await, "200");
    }
    for (site, mode, dest) in [("none", "navigate", "document"), ("same-origin", "cors", "empty")] {
        assert_eq!(ask("/v1/members", site, mode, dest).await, "200", "{site}");
    }
    let form = format!(
        "POST /v1/leave HTTP/1.1\r\nhost: {}\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n\
         sec-fetch-dest: document\r\nconnection: close\r\n\r\n",
        a.http
    );
    assert_eq!(refusal(&Answer::parse(a.raw(form.as_bytes()).await)), (403, "origin".to_owned()), "a form is no link");
    let metrics = a.get("/metrics").await.body;
    assert!(metrics.contains("headcount_http_requests_refused_total{reason=\"origin\"} 33\n"), "{metrics}");
}

fn refusal_or_status(answer: &Answer) -> String {
    if answer.status < 400 { answer.status.to_string() } else { format!("{} {}", answer.status, answer.problem()) }
}

#[tokio::test]
async fn no_answer_is_cached_taken_for_another_type_or_embedded_by_others() {
    let a = first_with("a", HttpSettings::new(Token::new(TOKEN).ok())).await;
    let token = format!("authorization: Bearer {TOKEN}");
    for (path, headers) in [
        ("/v1/members", vec![token.as_str()]),
        ("/v1/members", vec![]),
        ("/v1/members?x=1", vec![token.as_str()]),
        ("/no-such-path", vec![token.as_str()]),
        ("/metrics", vec![token.as_str()]),
        ("/healthz", vec!["origin: http://evil.example"]),
        ("/", vec![]),
        ("/dashboard", vec![]),
        ("/dashboard/app.js", vec![]),
        ("/dashboard/", vec![]),
    ] {
        let answer = a.ask("GET", path, &headers, "").await;
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
        // A file of the dashboard may be kept, and is asked for anew each time.
        let is_file = path.starts_with("/dashboard") && answer.status == 200;
        assert_eq!(answer.header("cache-control"), Some(if is_file { "no-cache" } else { "no-store" }), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
}

#[tokio::test]
async fn names_are_judged_as_soon_as_no_token_is_asked_for() {
    let token = || Token::new(TOKEN).ok();
    let mut settings = HttpSettings::default();
    let tokens = Tokens::new(token(), None);
    settings.tokens = tokens.clone();
    let a = first_with("a", settings).await;
    assert_eq!(ask(&a, "/v1/members", "host: evil.example\r\n").await.status, 401);
    tokens.replace(None, None);
    assert_eq!(refusal(&ask(&a, "/v1/members", "host: evil.example\r\n").await), (403, "host".to_owned()));
    tokens.replace(token(), None);
    assert_eq!(ask(&a, "/v1/members", "host: evil.example\r\n").await.status, 401);
}
