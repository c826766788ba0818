//! Who may ask, and for how long: the bearer token, the browser check, the request's deadline.
//!
//! Invariants:
//! - Comparing tokens takes the same time wherever they differ.
//! - Health checks stay open: whoever restarts dead processes has no token.
//! - A request that a web page of another origin made is refused. Browsers send such requests (a form, a `fetch`) to
//!   loopback addresses too, so that "only this machine reaches us" is no protection; what gives them away is the
//!   header `Origin`.

use std::hint::black_box;
use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Refusal;
use super::{App, REQUEST_TIMEOUT, Token};

/// Paths that never ask for a token.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

impl Token {
    /// Whether this is what a caller presents; takes as long wherever the two differ.
    fn is(&self, presented: &str) -> bool {
        let (ours, theirs) = (self.secret().as_bytes(), presented.as_bytes());
        // The length may be learnt; where the bytes differ may not.
        let differences =
            ours.iter().zip(theirs).fold(0_u8, |differences, (a, b)| black_box(differences | black_box(a ^ b)));
        ours.len() == theirs.len() && differences == 0
    }
}

/// Asks for the token, refuses foreign web pages, sets the deadline.
pub(super) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let checked = check_token(&app, &request).and_then(|()| check_origin(&app, request.headers()));
    if let Err(refusal) = checked {
        return refusal.into_response();
    }
    match tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refusal::timeout(REQUEST_TIMEOUT.as_secs()).into_response(),
    }
}

fn check_token(app: &App, request: &Request) -> Result<(), Refusal> {
    let Some(token) = &app.token else { return Ok(()) };
    if OPEN.contains(&request.uri().path()) {
        return Ok(());
    }
    let refuse = |detail: &str| {
        Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", "Token required", detail)
            .hint("send `Authorization: Bearer TOKEN`"))
    };
    let Some(value) = request.headers().get(header::AUTHORIZATION) else {
        return refuse("this agent asks for a token, and none was presented");
    };
    let presented = value.to_str().ok().and_then(|text| text.split_once(' '));
    match presented {
        Some((scheme, presented)) if scheme.eq_ignore_ascii_case("bearer") => {
            if token.is(presented.trim()) {
                Ok(())
            } else {
                refuse("the token presented is not this agent's")
            }
        }
        _ => refuse("the header `Authorization` is not of the form `Bearer TOKEN`"),
    }
}

fn check_origin(app: &App, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let text = |value: Option<&axum::http::HeaderValue>| value.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let host = text(headers.get(header::HOST)).unwrap_or_default();
    let origin = text(Some(origin)).unwrap_or_default();
    let same = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(&host));
    // A page may make its own name resolve to a loopback address; it cannot make its name an address.
    let trusted_name = app.token.is_some() || !app.loopback || names_this_machine(&host);
    if same && trusted_name {
        return Ok(());
    }
    let detail = format!("the request comes from a web page of {}", origin.escape_debug());
    Err(Refusal::new(StatusCode::FORBIDDEN, "origin", "Foreign web page", detail)
        .hint("programs send no `Origin` header; pages are served by the agent itself, at its numeric address"))
}

/// Whether the value of a `Host` header is an address or `localhost`.
fn names_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_equal_to_itself_only() {
        let token = Token::new("0123456789abcdef\n").expect("a token");
        assert!(token.is("0123456789abcdef"));
        for other in ["", "0123456789abcdeF", "0123456789abcde", "0123456789abcdef0", "x123456789abcdef"] {
            assert!(!token.is(other), "{other}");
        }
    }

    #[test]
    fn only_addresses_and_localhost_name_this_machine() {
        for host in ["127.0.0.1:7118", "127.0.0.1", "localhost:7118", "[::1]:7118", "[::1]"] {
            assert!(names_this_machine(host), "{host}");
        }
        for host in ["", "evil.example:7118", "localhost.evil.example", "[evil]:1"] {
            assert!(!names_this_machine(host), "{host}");
        }
    }
}
