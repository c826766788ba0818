//! Findings, and how they are told.
//!
//! Invariant: whoever is told of a warning or a failure is told one thing to try, unless the finding says it itself.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;

use crate::cli::failure::Failure;
use crate::cli::paint::{Paint, Tone};

/// The longest list of names in one line.
const MAX_NAMES: usize = 6;

/// Returns names as one phrase: the first [`MAX_NAMES`], and how many more there are.
pub(super) fn names(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The judgement of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    Warn,
    Fail,
}

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The name of the check.
    pub(super) check: Cow<'static, str>,
    pub(super) level: Level,
    /// The fact that the check found, in a sentence.
    pub(super) found: String,
    /// A thing to try.
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check: check.into(), level: Level::Ok, found: found.into(), advice: None }
    }

    pub(super) fn warn(check: &'static str, found: impl Into<String>, advice: Option<&str>) -> Self {
        Self { check: check.into(), level: Level::Warn, found: found.into(), advice: advice.map(str::to_owned) }
    }

    pub(super) fn fail(check: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self { check: check.into(), level: Level::Fail, found: found.into(), advice: Some(advice.to_owned()) }
    }

    /// Returns the finding of a call that failed.
    pub(super) fn of_failure(check: &'static str, failure: &Failure) -> Self {
        let (found, advice) = failure.parts();
        Self { check: check.into(), level: Level::Fail, found, advice }
    }
}

/// All findings, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings);
    }

    pub(super) fn is_ok(&self) -> bool {
        self.findings.iter().all(|finding| finding.level != Level::Fail)
    }

    fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// Prints one finding a line, its advice below it, and a summary at the end.
    pub(super) fn print(&self, out: &mut impl Write, paint: Paint) -> io::Result<()> {
        let width = self.findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
        for Finding { check, level, found, advice } in &self.findings {
            let (word, tone) = match level {
                Level::Ok => ("ok  ", Tone::Good),
                Level::Warn => ("warn", Tone::Doubtful),
                Level::Fail => ("FAIL", Tone::Bad),
            };
            writeln!(out, "{}  {check:width$}  {found}", paint.tone(tone, word))?;
            if let Some(advice) = advice {
                writeln!(out, "      {:width$}  {}", "", paint.tone(Tone::Faint, &format!("→ {advice}")))?;
            }
        }
        let (warnings, failures) = (self.count(Level::Warn), self.count(Level::Fail));
        let said = match (failures, warnings) {
            (0, 0) => "nothing is wrong that could be seen from here".to_owned(),
            (0, warnings) => format!("nothing failed; {}", crate::cli::human::count(warnings, "warning")),
            (failures, 0) => format!("{failures} failed"),
            (failures, warnings) => format!("{failures} failed; {}", crate::cli::human::count(warnings, "warning")),
        };
        writeln!(out, "\n{said}")?;
        out.flush()
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Object<'a> {
            ok: bool,
            checks: &'a [Finding],
        }
        Object { ok: self.is_ok(), checks: &self.findings }.serialize(serializer)
    }
}
