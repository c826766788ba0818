//! Modes: the steps from a clear cluster to a sealed one, and back.
//!
//! A cluster goes one step at a time, and all of its members take a step before the first one takes the next: members
//! that are one step apart understand each other, whatever the step.

use std::fmt;
use std::str::FromStr;

/// The packets that a node takes and sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum SealMode {
    /// Clear packets alone; keys are not looked at.
    #[default]
    Off,
    /// Takes clear and sealed packets, and sends clear ones.
    Permit,
    /// Takes clear and sealed packets, and sends sealed ones.
    Prefer,
    /// Sealed packets alone. The only mode in which an outsider can change nothing.
    Require,
}

/// Error: a text is not a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is none of off, permit, prefer, require")]
pub struct InvalidSealMode;

impl SealMode {
    /// All modes, each a step from its neighbours.
    pub const ALL: [SealMode; 4] = [SealMode::Off, SealMode::Permit, SealMode::Prefer, SealMode::Require];

    /// Returns true if clear packets are taken.
    pub const fn accepts_clear(self) -> bool {
        !matches!(self, SealMode::Require)
    }

    /// Returns true if sealed packets are taken.
    pub const fn accepts_sealed(self) -> bool {
        !matches!(self, SealMode::Off)
    }

    /// Returns true if sealed packets are sent.
    pub const fn seals(self) -> bool {
        matches!(self, SealMode::Prefer | SealMode::Require)
    }

    /// Returns true if a node of this mode and one of the other hear each other.
    #[must_use]
    pub fn understands(self, other: SealMode) -> bool {
        let hears = |to: SealMode, from: SealMode| if from.seals() { to.accepts_sealed() } else { to.accepts_clear() };
        hears(self, other) && hears(other, self)
    }

    /// Returns the mode's name in configuration files and listings.
    pub const fn name(self) -> &'static str {
        match self {
            SealMode::Off => "off",
            SealMode::Permit => "permit",
            SealMode::Prefer => "prefer",
            SealMode::Require => "require",
        }
    }
}

impl fmt::Display for SealMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SealMode {
    type Err = InvalidSealMode;

    fn from_str(name: &str) -> Result<Self, InvalidSealMode> {
        SealMode::ALL.into_iter().find(|mode| mode.name() == name).ok_or(InvalidSealMode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_one_step_apart_understand_each_other_and_no_others_need_to() {
        for pair in SealMode::ALL.windows(2) {
            assert!(pair[0].understands(pair[1]) && pair[1].understands(pair[0]), "{pair:?}");
        }
        for (one, other) in [(0, 2), (0, 3), (1, 3)].map(|(one, other)| (SealMode::ALL[one], SealMode::ALL[other])) {
            assert!(!one.understands(other) && !other.understands(one), "{one} {other}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for mode in SealMode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        assert_eq!("on".parse::<SealMode>(), Err(InvalidSealMode));
    }
}
