//! [`Token`]: the secret that callers of the HTTP interface present, and the file that holds it.
//!
//! Server, client and the judgement of a configuration read it here, so that they agree on what a token is. Invariants: a
//! token is never shown; a file is read as [`read`](super::read) does, without waiting and up to a bound. Must not know
//! requests.

use std::fmt;
use std::io;
use std::path::Path;

use super::read::{open_to_others, regular_file};

/// The largest file that is read for a token: the longest token, and space around it.
const MAX_TOKEN_FILE_BYTES: u64 = 4096;

/// A secret that callers present as `Authorization: Bearer …`. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A text that is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token has {least} to {most} printable ASCII characters without spaces", least = Token::MIN_BYTES, most = Token::MAX_BYTES)]
pub struct BadToken;

/// Why a file gives no token. The message says what is wrong with the file, and leaves its name to the caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// It cannot be read, or is not a regular file of sensible length.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// It can be read, and what is in it is not a token.
    #[error("holds no valid token: {BadToken}")]
    Invalid,
}

/// What a token file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenFile {
    pub(super) token: Token,
    /// The permissions of a file that others may read, as in `644`.
    pub(super) open_to_others: Option<String>,
}

impl Token {
    /// Shorter ones are guessed.
    pub const MIN_BYTES: usize = 16;
    /// Longer ones do not fit into a header comfortably.
    pub const MAX_BYTES: usize = 512;

    /// A token from the text of a file; white space around it is taken away.
    pub fn new(text: &str) -> Result<Self, BadToken> {
        let text = text.trim();
        let fits = (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) { Ok(Self(text.to_owned())) } else { Err(BadToken) }
    }

    /// The token in a file.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        TokenFile::read(path).map(|file| file.token)
    }

    /// The value of the header `Authorization`.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// The secret itself, to be compared with what a caller presents.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl TokenFile {
    pub(super) fn read(path: &Path) -> Result<Self, TokenFileError> {
        let (bytes, metadata) = regular_file(path, MAX_TOKEN_FILE_BYTES).map_err(TokenFileError::Unreadable)?;
        let token = std::str::from_utf8(&bytes).ok().and_then(|text| Token::new(text).ok());
        let token = token.ok_or(TokenFileError::Invalid)?;
        Ok(Self { token, open_to_others: open_to_others(&metadata) })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_or_unprintable_tokens_are_refused() {
        for text in ["", "short", "0123456789 abcdef", "0123456789abcdé0", &"x".repeat(513)] {
            assert_eq!(Token::new(text), Err(BadToken), "{text}");
        }
        assert!(Token::new(&"x".repeat(512)).is_ok());
    }

    #[test]
    fn a_token_is_not_shown() {
        let token = Token::new("0123456789abcdef").expect("a token");
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn a_file_gives_its_token_or_says_why_not() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let read = |bytes: &[u8]| {
            std::fs::write(file.path(), bytes).expect("written");
            Token::read(file.path()).map_err(|error| error.to_string())
        };
        assert_eq!(read(b" 0123456789abcdef\n"), Ok(Token::new("0123456789abcdef").expect("a token")));
        for bad in [&b"short"[..], b"0123456789abcdef\xff"] {
            assert!(read(bad).expect_err("no token").starts_with("holds no valid token: a token has 16 to 512"));
        }
        assert!(read(&[b' '; 4097]).expect_err("too long").starts_with("cannot be read: it has 4097 bytes"));
    }
}
