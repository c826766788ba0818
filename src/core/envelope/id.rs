//! Message identities: the origin's run, and a number of the origin's own.

use std::fmt;
use std::str::FromStr;

use crate::member::Run;

/// The identity of one message: no two messages of any two processes share one. Shown as `run-sequence`.
///
/// Broadcasts have even sequences, what is sent to one node odd ones: each kind is counted without gaps, so that
/// a receiver knows of a broadcast that it has missed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The run of the process that sent the message.
    pub run: Run,
    /// The sender's number for the message: even for broadcasts, odd for messages to one node.
    pub sequence: u64,
}

impl MessageId {
    /// The highest number that a message has, of either kind.
    pub(crate) const MAX_NUMBER: u64 = u64::MAX / 4;

    /// Returns the id of an origin's nth broadcast.
    pub(crate) const fn broadcast(run: Run, number: u64) -> Self {
        Self { run, sequence: number * 2 }
    }

    /// Returns the id of an origin's nth message to one node.
    pub(crate) const fn direct(run: Run, number: u64) -> Self {
        Self { run, sequence: number * 2 + 1 }
    }

    /// Returns true if the message is a broadcast.
    pub const fn is_broadcast(self) -> bool {
        self.sequence.is_multiple_of(2)
    }

    /// Returns the number among the origin's messages of its kind.
    pub(crate) const fn number(self) -> u64 {
        self.sequence / 2
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.run, self.sequence)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is no message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message id is 16 hex digits, a dash and a number, such as 00c0ffee00c0ffee-12")]
pub struct InvalidMessageId;

impl FromStr for MessageId {
    type Err = InvalidMessageId;

    fn from_str(text: &str) -> Result<Self, InvalidMessageId> {
        let (run, sequence) = text.split_once('-').ok_or(InvalidMessageId)?;
        let is_plain = run.len() == 16 && run.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_number = sequence.bytes().all(|byte| byte.is_ascii_digit());
        if !is_plain || !is_number {
            return Err(InvalidMessageId);
        }
        let run = u64::from_str_radix(run, 16).map_err(|_| InvalidMessageId)?;
        Ok(Self { run: Run(run), sequence: sequence.parse().map_err(|_| InvalidMessageId)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_shown() {
        for id in [MessageId::broadcast(Run(0xff), 6), MessageId::direct(Run(u64::MAX), 0)] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!(MessageId::broadcast(Run(0xff), 6).to_string(), "00000000000000ff-12");
        for wrong in
            ["", "-", "ff-1", "00000000000000ff-", "00000000000000ff--1", "+0000000000000ff-1", "00000000000000ff"]
        {
            assert_eq!(wrong.parse::<MessageId>(), Err(InvalidMessageId), "{wrong:?}");
        }
    }

    #[test]
    fn broadcasts_and_direct_messages_share_no_sequence() {
        assert!(MessageId::broadcast(Run(1), 7).is_broadcast() && !MessageId::direct(Run(1), 7).is_broadcast());
        assert_eq!(MessageId::direct(Run(1), MessageId::MAX_NUMBER).number(), MessageId::MAX_NUMBER);
    }
}
