//! The password file: lines of `host:port:database:user:password`, as libpq reads them.
//!
//! Invariants: a file that others may read is not used, and that is reported; the first line that fits counts.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::parameters::{Host, Parameters};

/// The longest password file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A password file that is not used, because others may read it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenToOthers(PathBuf);

impl fmt::Display for OpenToOthers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the password file {} is not used, since others may read it: chmod 0600", self.0.display())
    }
}

/// Returns the password for a host: that of the parameters, else that of the password file.
pub(super) fn password(parameters: &Parameters, host: &Host) -> Result<Option<String>, OpenToOthers> {
    let (None, Some(path)) = (&parameters.password, parameters.password_file.as_deref()) else {
        return Ok(parameters.password.clone());
    };
    let text = read(path)?;
    Ok(text.and_then(|text| find(&text, host, &parameters.database, &parameters.user)))
}

fn read(path: &Path) -> Result<Option<String>, OpenToOthers> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let Some(metadata) = file.metadata().ok().filter(Metadata::is_file) else { return Ok(None) };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(OpenToOthers(path.to_owned()));
        }
    }
    let mut text = String::new();
    let read = file.take(MAX_BYTES).read_to_string(&mut text);
    Ok(read.ok().map(|_| text))
}

fn find(text: &str, host: &Host, database: &str, user: &str) -> Option<String> {
    // A host that is a directory of sockets goes by the name `localhost`, or by its directory.
    let port = host.port.to_string();
    let is_host = |field: &str| field == host.name || (host.is_socket() && field == "localhost");
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = split(line);
        let [for_host, for_port, for_database, for_user, password] = fields.as_slice() else { return None };
        let fits = |field: &Field, value: &str| field.is_any || field.text == value;
        let is_ours = (for_host.is_any || is_host(&for_host.text))
            && fits(for_port, &port)
            && fits(for_database, database)
            && fits(for_user, user);
        (is_ours && !password.text.is_empty()).then(|| password.text.clone())
    })
}

struct Field {
    text: String,
    /// True if the field is a lone, unescaped `*`.
    is_any: bool,
}

/// Splits a line into its five fields. The password may hold colons only escaped, like the others.
fn split(line: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    let (mut text, mut raw) = (String::new(), String::new());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == ':' {
            fields.push(Field { is_any: raw == "*", text: std::mem::take(&mut text) });
            raw.clear();
            continue;
        }
        raw.push(character);
        if character == '\\' {
            let next = characters.next();
            raw.extend(next);
            text.extend(next);
        } else {
            text.push(character);
        }
    }
    fields.push(Field { is_any: raw == "*", text });
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Host {
        Host { name: name.into(), port: 5432 }
    }

    #[test]
    fn the_first_line_that_fits_counts() {
        let text = "# a comment: a line\n\
                    other:5432:db:me:no\n\
                    h:1:db:me:no\n\
                    h:5432:db:me:yes\n\
                    *:*:*:*:late\n";
        assert_eq!(find(text, &host("h"), "db", "me").as_deref(), Some("yes"));
        assert_eq!(find(text, &host("h"), "db", "you").as_deref(), Some("late"));
        assert_eq!(find("h:5432:db:me\n\n:::\n", &host("h"), "db", "me"), None);
    }

    #[test]
    fn escaped_characters_are_themselves() {
        let text = "\\:\\:1:*:d\\\\b:\\*:p\\:w\\\\d";
        assert_eq!(find(text, &host("::1"), "d\\b", "*").as_deref(), Some("p:w\\d"));
        assert_eq!(find(text, &host("::1"), "d\\b", "me"), None, "an escaped star is a star");
    }

    #[test]
    fn a_socket_goes_by_localhost() {
        assert_eq!(find("localhost:*:*:*:yes", &host("/var/run/postgresql"), "d", "u").as_deref(), Some("yes"));
        assert_eq!(find("localhost:*:*:*:yes", &host("db"), "d", "u"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pgpass");
        std::fs::write(&path, "*:*:*:*:secret").expect("written");
        for (mode, is_used) in [(0o644, false), (0o640, false), (0o600, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            assert_eq!(read(&path).is_ok(), is_used, "{mode:o}");
        }
        assert_eq!(read(directory.path()), Ok(None), "no file");
        std::fs::write(&path, vec![b'#'; 2 * MAX_BYTES as usize]).expect("written");
        assert_eq!(read(&path).map(|text| text.map(|text| text.len() as u64)), Ok(Some(MAX_BYTES)), "no more is read");
    }
}
