//! Addresses of agents, in all forms that people write.

use std::net::Ipv6Addr;

use super::error::ClientError;
use crate::config::DEFAULT_HTTP_PORT;
use crate::text::{MAX_SHOWN, visible};

/// Parses an agent's address into `host:port`.
pub(super) fn authority(text: &str) -> Result<String, ClientError> {
    let text = text.trim();
    let refused = |reason: &str| ClientError::Address {
        address: visible(text, MAX_SHOWN),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
    };
    if text.starts_with("https://") {
        return Err(refused("agents serve HTTP, not HTTPS"));
    }
    let text = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    // A port alone is one of this machine.
    let port = text.strip_prefix(':').unwrap_or(text);
    if port.parse::<u16>().is_ok() {
        return Ok(format!("127.0.0.1:{port}"));
    }
    let has_host = !text.is_empty() && (!text.starts_with(':') || text.starts_with("::"));
    if !has_host || text.contains(['/', '?', '#', '@', ' ']) {
        return Err(refused(""));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{text}]:{DEFAULT_HTTP_PORT}"));
    }
    let has_port = text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    Ok(if has_port { text.to_owned() } else { format!("{text}:{DEFAULT_HTTP_PORT}") })
}

/// Escapes a text for a path or a query (RFC 3986: all but unreserved characters in hex).
pub(super) fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Returns a path with lists in its query; empty ones are left out.
pub(super) fn with_query(path: &str, lists: &[(&str, &[String])]) -> String {
    let list = |(key, items): &(&str, &[String])| {
        format!("{key}={}", items.iter().map(|item| percent(item)).collect::<Vec<_>>().join(","))
    };
    let query: Vec<_> = lists.iter().filter(|(_, items)| !items.is_empty()).map(list).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood_as_people_write_them() {
        for (text, expected) in [
            ("127.0.0.1:7118", "127.0.0.1:7118"),
            ("7128", "127.0.0.1:7128"),
            ("http://127.0.0.1:7118/", "127.0.0.1:7118"),
            ("localhost", "localhost:7118"),
            (":7128", "127.0.0.1:7128"),
            ("10.0.0.1", "10.0.0.1:7118"),
            ("::1", "[::1]:7118"),
            ("[::1]", "[::1]:7118"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(authority(text).expect(text), expected);
        }
        for text in ["", "https://10.0.0.1:7118", "10.0.0.1/x", "a b", "user@host", ":", ":x", ":99999"] {
            assert!(matches!(authority(text), Err(ClientError::Address { .. })), "{text}");
        }
    }

    #[test]
    fn queries_are_escaped_and_empty_lists_left_out() {
        let status = ["up".to_owned(), "left".to_owned()];
        let tags = ["zone=eu 1&x".to_owned()];
        assert_eq!(with_query("/v1/members", &[("status", &[]), ("tag", &[])]), "/v1/members");
        assert_eq!(
            with_query("/v1/members", &[("status", &status), ("tag", &tags)]),
            "/v1/members?status=up,left&tag=zone%3Deu%201%26x"
        );
    }
}
