//! The problems of a configuration as a person reads them, and the sources of its values.
//!
//! Every [`Problem`] names the source (file and line, variable or flag), the key, the value found and the values
//! allowed; the parts are fields, so that tests and tools need not take the text apart. Nothing here knows any key.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::core::Profile;
use crate::text::{MAX_SHOWN, visible};

/// The longest reason that is shown, in characters: some repeat text that the user wrote.
const MAX_REASON: usize = 300;

/// The source of a value, from the strongest to the weakest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A flag of the command line, such as `--name`.
    Flag(String),
    /// A variable of the environment, such as `HEADCOUNT_NAME`.
    Environment(String),
    /// A line of the configuration file.
    File {
        /// The file, as the user named it.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The value that a profile sets.
    Profile(Profile),
    /// No layer gave a value.
    Default,
}

impl Source {
    /// Returns the layer in one word: `flag`, `environment`, `file`, `profile` or `default`.
    pub const fn layer(&self) -> &'static str {
        match self {
            Source::Flag(_) => "flag",
            Source::Environment(_) => "environment",
            Source::File { .. } => "file",
            Source::Profile(_) => "profile",
            Source::Default => "default",
        }
    }
}

/// The source in words, as `config show` prints it: `flag --name`, `environment HEADCOUNT_NAME`, `file config.toml:12`, `profile lan`, `default`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.layer())?;
        match self {
            Source::Flag(name) | Source::Environment(name) => write!(f, " {name}"),
            Source::File { path, line } => write!(f, " {}:{line}", shown(path)),
            Source::Profile(profile) => write!(f, " {profile}"),
            Source::Default => Ok(()),
        }
    }
}

/// One reason to refuse a configuration, or to warn of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The source of the value.
    pub source: Source,
    /// The key with its section, if it is known.
    pub key: Option<String>,
    /// The value found, as it was written if that is known, safe to print.
    pub found: Option<String>,
    /// The reason: what is wrong with the value.
    pub reason: String,
    /// The values allowed, in words.
    pub allowed: Option<String>,
    /// Advice: one thing to try.
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn new(source: Source, reason: impl AsRef<str>) -> Self {
        let reason = visible(reason.as_ref(), MAX_REASON);
        Self { source, key: None, found: None, reason, allowed: None, hint: None }
    }

    pub(super) fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    pub(super) fn found(self, found: impl Into<String>) -> Self {
        Self { found: Some(found.into()), ..self }
    }

    pub(super) fn allowed(self, allowed: impl Into<String>) -> Self {
        Self { allowed: Some(allowed.into()), ..self }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the line of the file, 0 for a problem that is in no file: file problems are reported in the order of the
    /// file.
    pub(super) fn line(&self) -> usize {
        if let Source::File { line, .. } = self.source { line } else { 0 }
    }
}

/// `config.toml:12: mtu = 9000 is out of range; allowed is 1000 to 1400`. A file is shown without the word "file", in
/// the form that compilers write and editors follow.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::File { path, line } => write!(f, "{}:{line}: ", shown(path))?,
            source => write!(f, "{source}: ")?,
        }
        if let Some(key) = &self.key {
            f.write_str(key)?;
            if let Some(found) = &self.found {
                write!(f, " = {found}")?;
            }
            f.write_str(" ")?;
        }
        f.write_str(&self.reason)?;
        if let Some(allowed) = &self.allowed {
            write!(f, "; allowed is {allowed}")?;
        }
        match &self.hint {
            // Several ways, each on a line of its own.
            Some(ways) if ways.starts_with('\n') => f.write_str(ways)?,
            Some(hint) => write!(f, "; {hint}")?,
            None => {}
        }
        Ok(())
    }
}

/// The error of a load that gave no configuration. Nothing was started or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {error}; {}", shown(path), what_to_try(error))]
    Unreadable {
        /// The file, as the user named it.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The configuration is refused: at least one problem, and all that can be found at once.
    #[error("{}", list(problems))]
    Refused {
        /// The problems of the file in its order, then of the environment, of flags, and of combinations.
        problems: Vec<Problem>,
    },
}

impl LoadError {
    /// Returns the problems; none if the file could not be read at all.
    pub fn problems(&self) -> &[Problem] {
        if let LoadError::Refused { problems } = self { problems } else { &[] }
    }
}

fn what_to_try(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check its path",
        io::ErrorKind::PermissionDenied => "let the user that runs this read it",
        _ => "name a TOML file",
    }
}

/// Returns the name of a file made safe to print: in full length, since a person will look for the file.
fn shown(path: &Path) -> String {
    visible(&path.to_string_lossy(), usize::MAX)
}

fn list(problems: &[Problem]) -> String {
    match problems {
        [problem] => problem.to_string(),
        problems => {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            format!("{} problems in the configuration:\n  {}", problems.len(), lines.join("\n  "))
        }
    }
}

/// Returns a value made safe to print: on one line, without invisible characters, of bounded length.
pub(super) fn printable(text: &str) -> String {
    let shown = visible(text.trim(), MAX_SHOWN);
    if shown.is_empty() { "\"\"".to_owned() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_place_key_value_reason_range_hint() {
        let source = Source::File { path: "c.toml".into(), line: 12 };
        let problem = Problem::new(source, "is out of range").key("mtu").found("9000").allowed("1000 to 1400");
        assert_eq!(problem.to_string(), "c.toml:12: mtu = 9000 is out of range; allowed is 1000 to 1400");
        let problem = Problem::new(Source::Flag("--x".into()), "is no key").hint("try --y");
        assert_eq!(problem.to_string(), "flag --x: is no key; try --y");
    }

    #[test]
    fn what_is_shown_is_short_and_on_one_line() {
        assert_eq!(printable(" a\nb\u{1b}[0m "), "a\\nb\\u{1b}[0m");
        assert_eq!(printable(&"x".repeat(500)).chars().count(), 81);
        assert_eq!(printable(""), "\"\"");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
        let endless = Problem::new(Source::Default, "\u{202e}".repeat(100_000)).to_string();
        assert!(endless.len() < 4_000 && !endless.contains('\u{202e}'), "{} bytes", endless.len());
        let source = Source::File { path: "a\u{1b}b.toml".into(), line: 1 };
        assert_eq!(Problem::new(source, "is bad").to_string(), "a\\u{1b}b.toml:1: is bad");
    }
}
