//! The header `Host`: the name under which a client believes to reach this agent.
//!
//! A web page may make a name of its own resolve to this machine; its visitors' browsers then take the agent for a part
//! of that page, and let the page read answers and send commands (DNS rebinding). Such requests are recognised by
//! `Host`, which holds the page's name. So without a token only names that no web page can have are accepted:
//! addresses, `localhost`, and those that the operator allowed. A token, which no foreign page knows, makes names
//! harmless.
//!
//! Invariants:
//! - Each request has exactly one host that can be parsed; only HTTP/1.0, which no browser speaks, may leave the header
//!   out.
//! - Health checks may come under any name: their answers tell a stranger only that a process lives, and a supervisor
//!   that is refused restarts a healthy process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{StatusCode, Version, header};

use super::problem::Refusal;

/// The host in a request, without its port.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Host<'a> {
    Address(IpAddr),
    Name(&'a str),
}

impl<'a> Host<'a> {
    /// Parses `name`, `1.2.3.4` or `[v6]`, with or without `:port`.
    fn parse(text: &'a str) -> Option<Self> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, port) = rest.split_once(']')?;
            (Self::Address(address.parse::<Ipv6Addr>().ok()?.into()), port)
        } else {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            if name.is_empty() || !name.bytes().all(is_name) {
                return None;
            }
            (name.parse::<Ipv4Addr>().map_or(Self::Name(name), |address| Self::Address(address.into())), port)
        };
        let port_is_good = match port.strip_prefix(':') {
            None => port.is_empty(),
            Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= 5,
        };
        port_is_good.then_some(host)
    }

    /// Returns true if no web page can have this host.
    fn is_nobodys(&self) -> bool {
        match self {
            Self::Address(_) => true,
            Self::Name(name) => same_name(name, "localhost"),
        }
    }
}

/// Compares names without regard to case or to a dot at the end.
fn same_name(one: &str, other: &str) -> bool {
    let bare = |name: &'_ str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    bare(one) == bare(other)
}

/// The host names that are accepted.
#[derive(Debug)]
pub(super) enum Names {
    /// All names.
    Any,
    /// The names in the list, and those that no web page can have.
    Only(Vec<String>),
}

impl Names {
    /// Refuses requests without a host, with several, or with one that is not accepted.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refusal> {
        let mut headers = request.headers().get_all(header::HOST).iter();
        let host = match (headers.next(), headers.next()) {
            (Some(host), None) => Some(host.to_str().map_err(|_| malformed("the header `Host` is not text"))?),
            (None, _) if request.version() < Version::HTTP_11 => None,
            (None, _) => return Err(malformed("the request has no header `Host`")),
            (Some(_), Some(_)) => return Err(malformed("the request has more than one header `Host`")),
        };
        // A host in the request line takes precedence over the header; both have to be accepted.
        let target = request.uri().authority().map(axum::http::uri::Authority::as_str);
        for text in host.into_iter().chain(target) {
            let host = Host::parse(text).ok_or_else(|| {
                malformed(format!("\"{}\" is not a host with or without a port", text.escape_debug()))
            })?;
            self.judge(&host)?;
        }
        Ok(())
    }

    fn judge(&self, host: &Host<'_>) -> Result<(), Refusal> {
        match (self, host) {
            (Self::Only(allowed), Host::Name(name)) => {
                if host.is_nobodys() || allowed.iter().any(|other| same_name(name, other)) {
                    return Ok(());
                }
                let detail = format!("\"{}\" is not a name that this agent answers to", name.escape_debug());
                Err(Refusal::new(StatusCode::FORBIDDEN, "host", "Unknown host", detail).hint(
                    "ask it at its numeric address, or put the name into http.allowed_hosts of its configuration",
                ))
            }
            _ => Ok(()),
        }
    }
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "host", "Host not understood", detail)
        .hint("send exactly one header, as in `Host: 127.0.0.1:7118`")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::response::IntoResponse as _;

    use super::*;

    fn status(names: &Names, target: &str, version: Version, hosts: &[&[u8]]) -> u16 {
        let mut request = Request::builder().uri(target).version(version);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let request = request.body(Body::empty()).expect("a request");
        names.check(&request).map_or_else(|refusal| refusal.into_response().status().as_u16(), |()| 200)
    }

    fn only(names: &[&str]) -> Names {
        Names::Only(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn addresses_localhost_and_allowed_names_are_good() {
        let names = only(&["Agent.internal", "other."]);
        let good = [
            "127.0.0.1",
            "127.0.0.1:7118",
            "10.0.0.7:1",
            "[::1]",
            "[2001:db8::1]:7118",
            "localhost",
            "LocalHost:7118",
            "localhost.",
            "agent.INTERNAL:80",
            "agent.internal.",
            "other",
        ];
        for host in good {
            assert_eq!(status(&names, "/", Version::HTTP_11, &[host.as_bytes()]), 200, "{host}");
        }
        let foreign = [
            "evil.example",
            "evil.example:7118",
            "localhost.evil.example",
            "evillocalhost",
            "127.1",
            "x.agent.internal",
        ];
        for host in foreign {
            assert_eq!(status(&names, "/", Version::HTTP_11, &[host.as_bytes()]), 403, "{host}");
            assert_eq!(status(&Names::Any, "/", Version::HTTP_11, &[host.as_bytes()]), 200, "{host}");
        }
    }

    #[test]
    fn a_host_that_cannot_be_read_is_refused_whoever_may_come() {
        let bad: [&[u8]; 12] = [
            b"",
            b":7118",
            b"a b",
            b"a:x",
            b"a:7118:7118",
            b"a:999999",
            b"me@127.0.0.1",
            b"::1",
            b"[::1",
            b"[evil]",
            b"[::1]x",
            b"\xff",
        ];
        for host in bad {
            for names in [Names::Any, only(&[])] {
                assert_eq!(status(&names, "/", Version::HTTP_11, &[host]), 400, "{:?}", String::from_utf8_lossy(host));
            }
        }
        assert_eq!(status(&Names::Any, "/", Version::HTTP_11, &[]), 400);
        assert_eq!(status(&Names::Any, "/", Version::HTTP_11, &[b"127.0.0.1", b"127.0.0.1"]), 400);
        assert_eq!(status(&only(&[]), "/", Version::HTTP_10, &[]), 200);
        assert_eq!(status(&only(&[]), "/", Version::HTTP_10, &[b"evil.example"]), 403);
    }

    #[test]
    fn a_target_that_names_a_host_is_judged_as_well() {
        let status = |target, host: &[u8]| status(&only(&[]), target, Version::HTTP_11, &[host]);
        assert_eq!(status("http://127.0.0.1:7118/v1/info", b"127.0.0.1:7118"), 200);
        assert_eq!(status("http://evil.example/v1/info", b"127.0.0.1:7118"), 403);
        assert_eq!(status("http://127.0.0.1:7118/v1/info", b"evil.example"), 403);
    }
}
