//! The text of a key file: one key a line, in base64, the first one seals; `#` begins a comment.
//!
//! Invariant: comments survive a change of the ring; one above a key goes with that key.
//!
//! Must not know: where the file lies, and how it is replaced.

use std::fmt::Write as _;

use zeroize::Zeroizing;

use super::key::Key;
use super::ring::{KeyRing, RingError};

/// The length of a key's line: 32 bytes in base64, and the end of the line.
const LINE_BYTES: usize = 45;

/// The keys and comments of a file.
#[derive(Debug, Clone, Default)]
pub struct KeyFile {
    entries: Vec<(Vec<String>, Key)>,
    /// Comments behind the last key.
    rest: Vec<String>,
}

/// Error: a text is not a key file. The text itself is never repeated: it holds secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileProblem {
    /// A line that is neither a key nor a comment.
    #[error("line {line}: {}", super::InvalidKey)]
    Line {
        /// The line, from 1.
        line: usize,
    },
    /// The keys make no ring.
    #[error(transparent)]
    Ring(#[from] RingError),
}

impl KeyFile {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, KeyFileProblem> {
        let mut file = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (place, line) in text.lines().enumerate() {
            let (key, comment) = line.split_once('#').map_or((line, None), |(key, rest)| (key, Some(rest)));
            if key.trim().is_empty() {
                if comment.is_some() {
                    file.rest.push(line.trim().to_owned());
                }
                continue;
            }
            let key = Key::parse(key).map_err(|_| KeyFileProblem::Line { line: place + 1 })?;
            let mut comments = std::mem::take(&mut file.rest);
            comments.extend(comment.map(|comment| format!("# {}", comment.trim())));
            file.entries.push((comments, key));
        }
        file.ring()?;
        Ok(file)
    }

    /// Returns the ring of the file.
    pub fn ring(&self) -> Result<KeyRing, RingError> {
        KeyRing::new(self.entries.iter().map(|(_, key)| key.clone()))
    }

    /// Returns the file of another ring, with the comments of this one.
    #[must_use]
    pub fn with(mut self, ring: &KeyRing) -> Self {
        let mut held = std::mem::take(&mut self.entries);
        for key in ring.keys() {
            let place = held.iter().position(|(_, old)| old == key);
            let comments = place.map(|place| held.remove(place).0).unwrap_or_default();
            self.entries.push((comments, key.clone()));
        }
        self
    }

    /// Returns the text of the file: secrets.
    pub fn text(&self) -> Zeroizing<String> {
        let lengths = |lines: &[String]| lines.iter().map(|line| line.len() + 1).sum::<usize>();
        let of_keys: usize = self.entries.iter().map(|(comments, _)| lengths(comments) + LINE_BYTES).sum();
        // At once: a text that grows leaves copies of keys behind.
        let mut text = Zeroizing::new(String::with_capacity(of_keys + lengths(&self.rest)));
        for (comments, key) in &self.entries {
            for comment in comments {
                let _ = writeln!(text, "{comment}");
            }
            let _ = writeln!(text, "{}", key.to_base64().as_str());
        }
        for comment in &self.rest {
            let _ = writeln!(text, "{comment}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::key;

    #[test]
    fn the_first_key_of_a_file_seals_and_comments_and_empty_lines_are_none() {
        let text =
            format!("# ours\n\n{}  # of May\n{}\n# end\n", key(1).to_base64().as_str(), key(2).to_base64().as_str());
        let file = KeyFile::parse(&text).expect("a file");
        assert_eq!(file.ring().expect("two keys").keys(), [key(1), key(2)]);
        assert_eq!(KeyFile::parse("# nothing\n").map(|_| ()), Err(KeyFileProblem::Ring(RingError::Empty)));
        let secret = "aGVsbG8=";
        let problem = KeyFile::parse(&format!("{text}{secret}\n")).expect_err("not a key");
        assert_eq!(problem, KeyFileProblem::Line { line: 6 });
        assert!(!problem.to_string().contains(secret));
    }

    #[test]
    fn a_changed_ring_keeps_the_comments_of_keys_that_stay() {
        let text = |n: u8| key(n).to_base64().as_str().to_owned();
        let before = format!("# first\n{}\n# second\n{}\n# end\n", text(1), text(2));
        let file = KeyFile::parse(&before).expect("a file");
        assert_eq!(file.text().as_str(), before, "read and written");
        let long = KeyFile::parse(&format!("# {}\n{before}", "x".repeat(5_000))).expect("a file").text();
        assert!(long.capacity() < long.len() + 8, "it grew, and left keys behind: {} {}", long.len(), long.capacity());
        let ring = KeyRing::new([key(2), key(3)]).expect("a ring");
        assert_eq!(file.with(&ring).text().as_str(), format!("# second\n{}\n{}\n# end\n", text(2), text(3)));
    }
}
