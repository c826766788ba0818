//! The form of a database's address, and the one way in which it is shown: without its password.
//!
//! Invariants:
//! - An address of which it is not certain where a password ends is refused, and none of it is shown behind its scheme.
//! - A refused part of an address is never repeated: a word that is not understood may be a piece of a password.
//!   Reasons name the place and what belongs there.
//!
//! Must not know: databases, the environment, files. It is here in builds without a database, too.

use std::borrow::Cow;

/// The keywords of an address of PostgreSQL, and the environment variables that stand in for them.
pub(crate) const KEYWORDS: [(&str, &str); 19] = [
    ("host", "PGHOST"),
    ("port", "PGPORT"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("dbname", "PGDATABASE"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("application_name", "PGAPPNAME"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("options", "PGOPTIONS"),
    ("keepalives", ""),
    ("keepalives_idle", ""),
    ("keepalives_interval", ""),
    ("keepalives_count", ""),
];

/// The codes for the characters that end a password.
const ESCAPES: &str = "in a user or password, / @ : ? # & are written as %2F %40 %3A %3F %23 %26";

/// The parts of an address of a server, as they were written:
/// `[USER[:PASSWORD]@][HOST[:PORT][,…]][/DATABASE][?KEYWORD=VALUE&…]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: Option<&'a str>,
    /// Each host with its port, if it has one.
    pub(crate) hosts: &'a str,
    pub(crate) database: &'a str,
    /// The options, behind the question mark.
    query: &'a str,
}

impl<'a> Parts<'a> {
    /// Takes the text that follows `postgres://` apart, or says why that cannot be done for certain.
    pub(crate) fn of(rest: &'a str) -> Result<Self, String> {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        if behind.contains('@') {
            return Err(format!("has an '@' behind a '/' or a '?': {ESCAPES}"));
        }
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (user, None),
        };
        let (path, query) = behind.split_once('?').unwrap_or((behind, ""));
        let database = path.strip_prefix('/').unwrap_or(path);
        Ok(Self { user, password, hosts, database, query })
    }

    /// Returns the options in their order, or says which one is none.
    pub(crate) fn options(&self) -> Result<Vec<(&'static str, &'a str)>, String> {
        let pairs = self.query.split('&').enumerate().filter(|(_, pair)| !pair.is_empty());
        pairs.map(|(at, pair)| option(pair).map_err(|reason| reason.text(at + 1))).collect()
    }
}

/// The fault of an option.
enum Unclear {
    NoPair,
    /// A keyword that is not known, and the one that was probably meant.
    Unknown(Option<&'static str>),
}

impl Unclear {
    fn text(&self, at: usize) -> String {
        match self {
            Self::NoPair => format!("has no KEYWORD=VALUE as option {at} behind its question mark: {ESCAPES}"),
            Self::Unknown(Some(near)) => {
                format!("has an unknown keyword as option {at} behind its question mark: did you mean \"{near}\"?")
            }
            Self::Unknown(None) => {
                let all: Vec<_> = KEYWORDS.iter().map(|(known, _)| *known).collect();
                format!("has an unknown keyword as option {at} behind its question mark: known are {}", all.join(", "))
            }
        }
    }
}

fn option(pair: &str) -> Result<(&'static str, &str), Unclear> {
    let (keyword, value) = pair.split_once('=').ok_or(Unclear::NoPair)?;
    match KEYWORDS.iter().find(|(known, _)| *known == keyword) {
        Some((known, _)) => Ok((known, value)),
        None => Err(Unclear::Unknown(near(keyword))),
    }
}

/// Returns the keyword that differs from a word by one letter that is missing, superfluous, wrong or swapped, or by
/// case.
fn near(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let (word, known) = (word.as_bytes(), KEYWORDS.iter().map(|(known, _)| *known));
    known.into_iter().find(|known| {
        let known = known.as_bytes();
        let front = word.iter().zip(known).take_while(|(one, other)| one == other).count();
        let (word, known) = (&word[front..], &known[front..]);
        let rest = |text: &[u8], gone: usize| text.get(gone..).map(<[u8]>::to_vec);
        word == known
            || rest(word, 1).as_deref() == Some(known)
            || rest(known, 1).as_deref() == Some(word)
            || rest(word, 1).zip(rest(known, 1)).is_some_and(|(one, other)| one == other)
            || (word.len() > 1 && known.len() > 1 && word[..2] == [known[1], known[0]] && word[2..] == known[2..])
    })
}

/// Returns true if a text that should name a file has the form of `USER:PASSWORD@HOST`, in which something would be
/// shown that is no name of a file.
pub(crate) fn is_like_a_server(file: &str) -> bool {
    file.split(['/', '?']).next().is_some_and(|first| first.contains(':') && file.contains('@'))
}

/// Returns an address as logs and errors show it: `postgres://USER:…@HOST/DATABASE?KEYWORD=VALUE`. A password is shown
/// as `…`, like everything that may be a piece of one because the address is not as it should be.
pub(crate) fn without_password(url: &str) -> Cow<'_, str> {
    match url.split_once("://") {
        Some(("sqlite", file)) if !is_like_a_server(file) => match file.split_once('?') {
            Some((file, _)) => Cow::Owned(format!("sqlite://{file}?…")),
            None => Cow::Borrowed(url),
        },
        Some((scheme @ ("postgres" | "postgresql"), rest)) => Cow::Owned(match Parts::of(rest) {
            Ok(parts) => format!("{scheme}://{}", shown(&parts)),
            Err(_) => format!("{scheme}://…"),
        }),
        Some((scheme, _)) if is_word(scheme) => Cow::Owned(format!("{scheme}://…")),
        // A file that was named without a scheme is worth showing; what holds one of these may be something else.
        None if !url.contains(['@', ':', '=', '?']) => Cow::Borrowed(url),
        _ => Cow::Borrowed("…"),
    }
}

fn shown(parts: &Parts<'_>) -> String {
    let mut text = parts.user.to_owned();
    match parts.password {
        Some(_) => text.push_str(":…@"),
        None if parts.user.is_empty() => {}
        None => text.push('@'),
    }
    for (place, one) in parts.hosts.split(',').enumerate() {
        // An address in brackets has colons of its own. A text in the place of a port that is none may be a password
        // whose host was forgotten.
        let port = one.rfind(':').filter(|colon| !one[*colon..].contains(']'));
        let (host, port) = one.split_at(port.unwrap_or(one.len()));
        let is_plain = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        let is_port = port.is_empty() || port == ":" || port[1..].parse::<u16>().is_ok_and(|port| port > 0);
        text.push_str(if place > 0 { "," } else { "" });
        text.push_str(if is_plain { host } else { "…" });
        text.push_str(if is_port { port } else { ":…" });
    }
    if !parts.database.is_empty() {
        text.push('/');
        text.push_str(parts.database);
    }
    // A password that is not written as it should be may go on in the options behind it.
    match parts.options() {
        Ok(options) if options.iter().all(|(keyword, _)| *keyword != "password") => {
            text.push_str(if options.is_empty() { "" } else { "?" });
            text.push_str(parts.query);
        }
        _ => text.push_str("?…"),
    }
    text
}

/// Returns true for a text that is nothing but a scheme.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
pub(crate) mod tests;
