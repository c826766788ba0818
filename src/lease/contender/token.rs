//! Lease tokens: the secret that proves which contender wrote a row. It is no fencing token: that is the term, which the
//! database counts up at each take-over (see `store`), and by which what is written elsewhere is protected.
//!
//! A contender draws a token *before* it asks for a lease, and a new one before each renewal. So the doubt after a lost
//! answer does not last: whatever token the row holds later was either drawn here or not.

use std::fmt;
use std::str::FromStr;

/// 128 random bits, drawn by a contender for one attempt. 32 hex digits as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u128);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Shows only a part: anybody who knows a token can renew its lease.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}…", self.0 >> 96)
    }
}

/// A text that is no token: not 32 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token has 32 hex digits")]
pub struct InvalidToken;

impl FromStr for Token {
    type Err = InvalidToken;
    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            return Err(InvalidToken);
        }
        u128::from_str_radix(text, 16).map(Token).map_err(|_| InvalidToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_as_they_were_written_and_nothing_else_is() {
        for token in [Token(0), Token(7), Token(u128::MAX)] {
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        for text in ["", "7", "+0000000000000000000000000000007", "0000000000000000000000000000000g"] {
            assert_eq!(text.parse::<Token>(), Err(InvalidToken), "{text:?}");
        }
    }

    #[test]
    fn a_token_is_not_told_whole_in_logs() {
        assert_eq!(format!("{:?}", Token(u128::MAX)), "ffffffff…");
    }
}
