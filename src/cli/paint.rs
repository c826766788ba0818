//! Colours of a terminal, and the order in which people look at members.
//!
//! Invariants: a colour only repeats what a word beside it says; nothing is coloured unless standard output is a
//! terminal whose owner wants it (no-color.org).

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::io::IsTerminal as _;

use crate::json::Member;

/// The statuses, worst first: the order in which members are looked at.
const WORST_FIRST: [&str; 6] = ["down", "suspect", "leaving", "joining", "up", "left"];

/// Returns true if colours are wanted: on terminals, unless the environment says otherwise (no-color.org).
pub(super) fn is_coloured(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

/// The tone of a text: what it means, not how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// A state that is as it should be.
    Good,
    /// A state that is not sure, or in between.
    Doubtful,
    /// A state that is not as it should be.
    Bad,
    /// On its way: joining and leaving.
    Moving,
    /// Worth a look, and neither good nor bad.
    Notable,
    /// Of less interest than its neighbours.
    Faint,
    /// Like any other text.
    Plain,
}

impl Tone {
    /// Returns the tone of a member's status.
    pub(super) fn of_status(status: &str) -> Self {
        match status {
            "up" => Self::Good,
            "suspect" => Self::Doubtful,
            "down" => Self::Bad,
            "joining" | "leaving" => Self::Moving,
            "left" => Self::Faint,
            _ => Self::Plain,
        }
    }

    /// Returns the tone of a verdict, or of one of its reasons.
    pub(super) fn of_state(state: &str) -> Self {
        match state {
            "well" => Self::Good,
            "unsettled" | "degraded" => Self::Doubtful,
            "broken" => Self::Bad,
            _ => Self::Plain,
        }
    }

    /// Returns the tone of a kind of events.
    pub(super) fn of_event(kind: &str) -> Self {
        match kind {
            "node_joined" | "node_recovered" | "partition_healed" | "leader_elected" | "quorum_regained" => Self::Good,
            "node_suspected" => Self::Doubtful,
            "node_detected_down" | "partition_suspected" | "leader_lost" | "quorum_lost" | "electorate_ended" => {
                Self::Bad
            }
            "node_joining" | "node_leaving" | "node_left" => Self::Moving,
            "node_updated" | "view_agreed" => Self::Notable,
            "node_removed" => Self::Faint,
            _ => Self::Plain,
        }
    }

    /// Returns the parameters of the terminal's sequence (ECMA-48, SGR).
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Doubtful => "33",
            Self::Bad => "1;31",
            Self::Moving => "36",
            Self::Notable => "34",
            Self::Faint => "2",
            Self::Plain => "",
        }
    }
}

/// The pen that colours texts, or leaves them as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    /// Leaves every text as it is.
    pub(super) const OFF: Self = Self { is_on: false };
    /// Colours texts.
    #[cfg(test)]
    pub(super) const ON: Self = Self { is_on: true };

    /// Returns the pen for this process's standard output.
    pub(super) fn of_stdout() -> Self {
        let no_color = std::env::var_os("NO_COLOR");
        Self { is_on: is_coloured(std::io::stdout().is_terminal(), no_color.as_deref()) }
    }

    pub(super) fn tone(self, tone: Tone, text: &str) -> String {
        if !self.is_on || tone == Tone::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", tone.code())
    }
}

/// Compares members for people: the worst first, of equals those that changed last, then by name.
pub(super) fn worst_first(a: &Member, b: &Member) -> Ordering {
    let by_rank = rank(&a.status).cmp(&rank(&b.status));
    let by_change = || if a.status == "up" { Ordering::Equal } else { b.since.cmp(&a.since) };
    by_rank.then_with(by_change).then_with(|| a.id.cmp(&b.id))
}

/// Returns the place of a status, 0 for the worst; a status that this version does not know is worth a look.
fn rank(status: &str) -> usize {
    WORST_FIRST.iter().position(|known| *known == status).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_owner_wants_them() {
        let said = |text: &'static str| Some(OsStr::new(text));
        assert!(is_coloured(true, None) && is_coloured(true, said("")));
        assert!(!is_coloured(true, said("1")) && !is_coloured(true, said("0")) && !is_coloured(false, None));
        assert_eq!(Paint::OFF.tone(Tone::Bad, "down"), "down");
        assert_eq!(Paint::ON.tone(Tone::Bad, "down"), "\u{1b}[1;31mdown\u{1b}[0m");
        assert_eq!(Paint::ON.tone(Tone::Plain, "x"), "x");
    }

    #[test]
    fn the_worst_come_first_and_of_them_the_latest() {
        let member = |id: &str, status: &str, second: u32| -> Member {
            let json = format!(
                r#"{{"id":"{id}","run":"01","address":"x","api_address":null,"status":"{status}","incarnation":1,
                "since":"2026-01-01T00:00:{second:02}.000Z","last_heard_ms":null,"rtt_ms":null,"tags":{{}},"version":"",
                "is_me":false,"method":null,"reason":null}}"#
            );
            serde_json::from_str(&json).expect("a member")
        };
        let mut members = [
            member("a", "up", 9),
            member("b", "left", 1),
            member("c", "down", 1),
            member("d", "suspect", 1),
            member("e", "down", 2),
            member("f", "up", 1),
            member("g", "joining", 1),
        ];
        members.sort_by(worst_first);
        assert_eq!(members.map(|member| member.id), ["e", "c", "d", "g", "a", "f", "b"]);
    }

    #[test]
    fn every_status_and_every_kind_of_event_has_a_tone() {
        assert!(crate::Status::NAMES.iter().all(|status| Tone::of_status(status) != Tone::Plain));
        assert!(crate::EventKind::NAMES.iter().all(|kind| Tone::of_event(kind) != Tone::Plain));
        assert!(crate::Status::NAMES.iter().all(|status| WORST_FIRST.contains(status)));
    }
}
