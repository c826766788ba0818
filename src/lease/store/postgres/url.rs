//! Addresses of servers as libpq's users write them, and the settings that they leave to the environment.
//!
//! Invariants: a keyword that is not understood is refused, never ignored. An address takes precedence over an
//! environment variable, a variable over a default. Passwords are not shown.
//!
//! Must not know: files, sockets.

use std::collections::BTreeMap;
use std::fmt;

use crate::lease::address::{KEYWORDS, Parts};
use crate::lease::store::StoreError;

/// The address of a PostgreSQL server: `postgres://[USER[:PASSWORD]@][HOST[:PORT][,…]][/DATABASE][?KEYWORD=VALUE&…]`,
/// with libpq's keywords.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(BTreeMap<&'static str, String>);

impl PostgresUrl {
    /// Parses the text that follows `postgres://`.
    pub(crate) fn parse(rest: &str) -> Result<Self, StoreError> {
        let mut values = BTreeMap::new();
        let written = Parts::of(rest).map_err(|reason| refused(&reason))?;
        let (hosts, ports) = split_hosts(written.hosts)?;
        let ports = if ports.iter().all(String::is_empty) { String::new() } else { ports.join(",") };
        for (keyword, value) in [
            ("user", decode(written.user)?),
            ("password", written.password.map(decode).transpose()?.unwrap_or_default()),
            ("host", hosts.join(",")),
            ("port", ports),
            ("dbname", decode(written.database)?),
        ] {
            if !value.is_empty() {
                values.insert(keyword, value);
            }
        }
        for (keyword, value) in written.options().map_err(|reason| refused(&reason))? {
            // A password that is not written as it should be may go on like another option.
            if values.insert(keyword, decode(value)?).is_some() {
                return Err(refused(&format!("says {keyword} twice: once is enough")));
            }
        }
        Ok(Self(values))
    }

    /// Returns a keyword's value: from the address, else from the environment.
    pub(super) fn value(&self, keyword: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let own = || self.0.get(keyword).cloned();
        let (_, name) = KEYWORDS.iter().find(|(known, _)| *known == keyword).expect("a known keyword");
        let other = || (!name.is_empty()).then(|| variable(name)).flatten();
        own().or_else(other).filter(|value| !value.is_empty())
    }
}

/// Shows the same address without password; the contents of the query are not repeated.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |keyword: &str| self.0.get(keyword).map_or("", String::as_str);
        f.write_str("postgres://")?;
        if !value("user").is_empty() {
            write!(f, "{}@", shown(value("user")))?;
        }
        let ports: Vec<_> = value("port").split(',').collect();
        for (place, host) in value("host").split(',').enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            f.write_str(&shown(host))?;
            let port = ports.get(place).or(ports.last().filter(|_| ports.len() == 1)).copied().unwrap_or("");
            if !port.is_empty() {
                let is_one = port.parse::<u16>().is_ok();
                write!(f, ":{}", if is_one { port } else { "…" })?;
            }
        }
        write!(f, "/{}", shown(value("dbname")))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Splits a list of hosts into hosts and ports, in two lists of one length.
fn split_hosts(text: &str) -> Result<(Vec<String>, Vec<String>), StoreError> {
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    for one in text.split(',') {
        let (host, port) = match one.strip_prefix('[') {
            Some(rest) => {
                let Some((host, port)) = rest.split_once(']') else {
                    return Err(refused("has a '[' without a ']'"));
                };
                if !port.is_empty() && !port.starts_with(':') {
                    return Err(refused("has something other than a port behind a ']'"));
                }
                (host, port.trim_start_matches(':'))
            }
            None => one.split_once(':').unwrap_or((one, "")),
        };
        hosts.push(decode(host)?);
        ports.push(decode(port)?);
    }
    Ok((hosts, ports))
}

/// Resolves `%XX`.
fn decode(text: &str) -> Result<String, StoreError> {
    let wrong = || refused("has a '%' that no two hex digits follow, or that stands for no text: write % as %25");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
        bytes.push((high * 16 + low) as u8);
    }
    let decoded = String::from_utf8(bytes).map_err(|_| wrong())?;
    if decoded.contains('\0') { Err(wrong()) } else { Ok(decoded) }
}

fn refused(reason: &str) -> StoreError {
    StoreError::configuration("the database's url", reason)
}

fn shown(text: &str) -> String {
    crate::text::visible(text, crate::text::MAX_SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PostgresUrl {
        PostgresUrl::parse(text).expect(text)
    }

    #[test]
    fn every_part_is_read() {
        let url =
            parse("al%20ice:p%40ss%3A@db1:6000,[::1]:6001,%2Fvar%2Frun/app%2Fdb?sslmode=require&connect_timeout=3");
        let value = |keyword| url.value(keyword, &|_| None);
        for (keyword, expected) in [
            ("user", "al ice"),
            ("password", "p@ss:"),
            ("host", "db1,::1,/var/run"),
            ("port", "6000,6001,"),
            ("dbname", "app/db"),
            ("sslmode", "require"),
            ("connect_timeout", "3"),
        ] {
            assert_eq!(value(keyword).as_deref(), Some(expected), "{keyword}");
        }
    }

    #[test]
    fn the_environment_fills_in_what_the_address_leaves_open() {
        let variable = |name: &str| (name != "PGPORT").then(|| format!("of {name}"));
        let url = parse("host");
        assert_eq!(url.value("host", &variable).as_deref(), Some("host"));
        assert_eq!(url.value("user", &variable).as_deref(), Some("of PGUSER"));
        assert_eq!(url.value("port", &variable), None);
        assert_eq!(parse("").value("host", &variable).as_deref(), Some("of PGHOST"));
        assert_eq!(url.value("keepalives", &variable), None);
    }

    #[test]
    fn no_password_is_shown() {
        let url = parse("a:secret@h1:1,h2/db?sslmode=disable");
        assert_eq!(url.to_string(), "postgres://a@h1:1,h2/db");
        assert_eq!(format!("{url:?}"), "postgres://a@h1:1,h2/db");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (text, reason) in [
            ("h/db?ssl=true", "unknown keyword as option 1"),
            ("h/db?sslmode=require&pasword=x", "did you mean \"password\"?"),
            ("a:b/c@h/db", "written as %2F"),
            ("h/db?host=i", "says host twice"),
            ("h/db?port=1&port=2", "says port twice"),
            ("h/db?sslmode", "KEYWORD=VALUE"),
            ("h/%zz", "two hex digits"),
            ("h/%2", "two hex digits"),
            ("h/%ff", "stands for no text"),
            ("h/%00", "stands for no text"),
            ("[::1/db", "without a ']'"),
            ("[::1]x/db", "behind a ']'"),
        ] {
            let error = PostgresUrl::parse(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
