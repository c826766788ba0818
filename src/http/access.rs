//! Tokens: the one that may do all, and the one that may look.
//!
//! Invariants:
//! - Comparing tokens takes the same time wherever they differ, and whichever of the two is presented.
//! - Tokens may be replaced while the server runs: the next request is judged by the new ones, and open event streams
//!   end. Readers with a good token come back and go on where they were; those with the former one do not.
//! - Where any token is asked for, nothing is commanded without the one that may do all, even if there is none.

use std::hint::black_box;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::watch;

use super::reference::Access;
use crate::config::Token;

/// The tokens that requests must bear, shared with whoever may replace them. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    held: RwLock<Held>,
    /// Changes when the tokens do.
    replaced: watch::Sender<()>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Held {
    /// The token that may do all.
    all: Option<Token>,
    /// The token that may look.
    read: Option<Token>,
}

impl Tokens {
    /// Returns tokens: the first may do all, the second may look and change nothing. Without any, none is asked for.
    pub fn new(all: Option<Token>, read: Option<Token>) -> Self {
        Self(Arc::new(Inner { held: RwLock::new(Held { all, read }), replaced: watch::Sender::default() }))
    }

    /// Replaces both tokens, and ends open event streams unless both are the same as before.
    pub fn replace(&self, all: Option<Token>, read: Option<Token>) {
        let newer = Held { all, read };
        {
            let mut held = self.0.held.write().unwrap_or_else(PoisonError::into_inner);
            if *held == newer {
                return;
            }
            *held = newer;
        }
        self.0.replaced.send_replace(());
    }

    /// Returns a receiver that changes when the tokens are replaced from now on.
    pub(super) fn watch(&self) -> watch::Receiver<()> {
        self.0.replaced.subscribe()
    }

    fn held(&self) -> RwLockReadGuard<'_, Held> {
        self.0.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if requests must bear a token.
    pub fn are_asked_for(&self) -> bool {
        let held = self.held();
        held.all.is_some() || held.read.is_some()
    }

    /// Returns what a caller who presents this token may do; `None` if it is neither.
    pub(super) fn access_of(&self, presented: &str) -> Option<Access> {
        let held = self.held();
        let is = |token: &Option<Token>| token.as_ref().is_some_and(|token| token.is(presented));
        // Both are compared, whichever it is.
        match (is(&held.all), is(&held.read)) {
            (true, _) => Some(Access::Write),
            (false, true) => Some(Access::Read),
            (false, false) => None,
        }
    }
}

impl Token {
    /// Returns true if a caller presents this token; takes the same time wherever the two differ.
    fn is(&self, presented: &str) -> bool {
        let (ours, theirs) = (self.secret().as_bytes(), presented.as_bytes());
        // An attacker may learn the length, but not the position of the first wrong byte.
        let differences =
            ours.iter().zip(theirs).fold(0_u8, |differences, (a, b)| black_box(differences | black_box(a ^ b)));
        ours.len() == theirs.len() && differences == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    #[test]
    fn a_token_is_equal_to_itself_only() {
        let token = Token::new("0123456789abcdef\n").expect("a token");
        assert!(token.is("0123456789abcdef"));
        for other in ["", "0123456789abcdeF", "0123456789abcde", "0123456789abcdef0", "x123456789abcdef"] {
            assert!(!token.is(other), "{other}");
        }
    }

    #[test]
    fn each_token_gives_its_own_access_until_it_is_replaced() {
        let tokens = Tokens::new(Some(token("all-all-all-all-all")), Some(token("read-read-read-read")));
        assert_eq!(tokens.access_of("all-all-all-all-all"), Some(Access::Write));
        assert_eq!(tokens.access_of("read-read-read-read"), Some(Access::Read));
        assert_eq!(tokens.access_of("none-none-none-none"), None);
        tokens.replace(Some(token("new-new-new-new-new")), None);
        assert_eq!(tokens.access_of("new-new-new-new-new"), Some(Access::Write));
        for old in ["all-all-all-all-all", "read-read-read-read"] {
            assert_eq!(tokens.access_of(old), None, "{old}");
        }
        assert!(tokens.are_asked_for() && !Tokens::default().are_asked_for());
        assert!(Tokens::new(None, Some(token("read-read-read-read"))).are_asked_for(), "nobody may command then");
    }

    #[test]
    fn only_other_tokens_are_a_change() {
        let tokens = Tokens::new(Some(token("all-all-all-all-all")), None);
        let watch = tokens.watch();
        tokens.replace(Some(token("all-all-all-all-all")), None);
        assert!(!watch.has_changed().expect("open"));
        tokens.replace(Some(token("all-all-all-all-all")), Some(token("read-read-read-read")));
        assert!(watch.has_changed().expect("open"));
    }
}
