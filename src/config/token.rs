//! [`Token`]: the secret that callers of the HTTP interface present, and the file that holds it.
//!
//! Server, client and the check of a configuration read the token here, so that they agree on its form. Invariants: a
//! token is never shown; a file is read as [`read`](super::read) does, without waiting and up to a bound. Must not know
//! requests.

use std::fmt;
use std::io;
use std::path::Path;

use super::read::{open_to_others, regular_file};

/// The largest token file that is read: the longest token, and space around it.
const MAX_TOKEN_FILE_BYTES: u64 = 4096;

/// A secret that callers present as `Authorization: Bearer …`. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A text that is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token has {least} to {most} printable ASCII characters without spaces", least = Token::MIN_BYTES, most = Token::MAX_BYTES)]
pub struct BadToken;

/// The reason for which a file gives no token. The message says what is wrong with the file; the caller adds its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// The file cannot be read, or is not a regular file of sensible length.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file can be read, but its contents are not a token.
    #[error("holds no valid token: {BadToken}")]
    Invalid,
}

/// The contents of a token file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenFile {
    pub(super) token: Token,
    /// The permissions, as in `644`, if others than the owner may read or change the file.
    pub(super) open_to_others: Option<String>,
}

impl Token {
    /// The least length of a token. Shorter ones could be guessed.
    pub const MIN_BYTES: usize = 16;
    /// The greatest length of a token. Longer ones do not fit into a header comfortably.
    pub const MAX_BYTES: usize = 512;

    /// Returns the token in the text of a file; white space around it is removed.
    pub fn new(text: &str) -> Result<Self, BadToken> {
        let text = text.trim();
        let fits = (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) { Ok(Self(text.to_owned())) } else { Err(BadToken) }
    }

    /// Reads the token in a file.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        TokenFile::read(path).map(|file| file.token)
    }

    /// Returns the value of the header `Authorization`.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Returns the secret itself, to be compared with the one that a caller presents.
    #[cfg(feature = "agent")]
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
        assert!([16, 512].iter().all(|length| Token::new(&"x".repeat(*length)).is_ok()));
        assert_eq!(Token::new(&"x".repeat(15)), Err(BadToken));
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
        let padded = [&[b' '; MAX_TOKEN_FILE_BYTES as usize - 16][..], b"0123456789abcdef"].concat();
        assert!(read(&padded).is_ok(), "as long as a file may be");
        assert!(read(&[b' '; 4097]).expect_err("too long").starts_with("cannot be read: it has 4097 bytes"));
    }
}
