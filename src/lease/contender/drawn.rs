//! Drawn tokens: those that were drawn here and may stand in a lease's row, though no answer has said so.
//!
//! Invariant: a token is noted before it is sent, and forgotten only once it is certain, or as good as certain, that
//! the row does not hold it. Forgetting one too early costs at most a lease of waiting: a row of this node's own under
//! a forgotten token is waited for like a stranger's. The last forgotten ones are remembered, so that such a row is not
//! called another agent's.
//!
//! Must not know: terms, claims.

use crate::Token;
use headcount_core::Time;

/// The largest number of tokens of one lease that are remembered; the oldest goes first. Far more tries than fit into
/// one lease.
pub const MAX_DRAWN: usize = 32;

/// A token that was sent to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Draw {
    pub(super) token: Token,
    /// The time at which the round was handed out that was to write it.
    pub(super) sent: Time,
    /// True if a claim may rest on it, should the row show it: no other holder was seen since, and no release names it
    /// that may still be under way.
    pub(super) is_adoptable: bool,
}

/// The tokens drawn here.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Drawn {
    /// The draws that may stand in the lease's row, oldest first; at most [`MAX_DRAWN`].
    current: Vec<Draw>,
    /// The tokens forgotten last that may have been written, oldest first; at most [`MAX_DRAWN`].
    former: Vec<Token>,
}

impl Drawn {
    pub(super) fn note(&mut self, token: Token, sent: Time) {
        if self.current.len() == MAX_DRAWN {
            self.current.remove(0);
        }
        self.current.push(Draw { token, sent, is_adoptable: true });
    }

    /// Forgets a token that was never written.
    pub(super) fn forget(&mut self, token: Token) {
        self.current.retain(|draw| draw.token != token);
    }

    /// Forgets a token that was written, and may still stand in the row.
    pub(super) fn disown(&mut self, token: Token) {
        self.forget(token);
        self.remember(token);
    }

    /// Forgets all tokens but the one that stands in the row: no other one does, or will.
    pub(super) fn keep_only(&mut self, token: Token) {
        for draw in std::mem::take(&mut self.current) {
            if draw.token == token {
                self.current.push(draw);
            } else {
                // It stands there again if commits are lost.
                self.remember(draw.token);
            }
        }
    }

    /// Forgets all tokens: none of them stands in the row, or the row is left to run out.
    pub(super) fn clear(&mut self) {
        for draw in std::mem::take(&mut self.current) {
            self.remember(draw.token);
        }
    }

    fn remember(&mut self, token: Token) {
        if self.former.len() == MAX_DRAWN {
            self.former.remove(0);
        }
        self.former.push(token);
    }

    /// Returns true if this token was drawn here, lately, and another one stood in the row since.
    pub(super) fn is_former(&self, token: Token) -> bool {
        self.former.contains(&token)
    }

    /// Returns true if this token was drawn here, lately.
    pub(super) fn is_own(&self, token: Token) -> bool {
        self.find(token).is_some() || self.is_former(token)
    }

    /// Keeps claims from resting on any of them from now on.
    pub(super) fn give_up(&mut self) {
        for draw in &mut self.current {
            draw.is_adoptable = false;
        }
    }

    pub(super) fn find(&self, token: Token) -> Option<Draw> {
        self.current.iter().copied().find(|draw| draw.token == token)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    pub(super) fn tokens(&self) -> Vec<Token> {
        self.current.iter().map(|draw| draw.token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_tokens_are_remembered_than_the_limit_and_the_oldest_goes_first() {
        let mut drawn = Drawn::default();
        for number in 0..=MAX_DRAWN as u128 {
            drawn.note(Token(number), Time::ORIGIN);
        }
        assert_eq!(drawn.tokens().len(), MAX_DRAWN);
        assert_eq!((drawn.find(Token(0)), drawn.find(Token(1)).is_some()), (None, true));
    }

    #[test]
    fn tokens_that_were_forgotten_last_are_known_as_own_and_so_many_of_them() {
        let mut drawn = Drawn::default();
        for number in 0..MAX_DRAWN as u128 {
            drawn.note(Token(number), Time::ORIGIN);
        }
        drawn.clear();
        assert!(drawn.is_empty() && drawn.is_own(Token(0)) && drawn.find(Token(0)).is_none());
        drawn.note(Token(99), Time::ORIGIN);
        drawn.disown(Token(99));
        assert!(drawn.is_own(Token(99)) && !drawn.is_own(Token(0)) && drawn.former.len() == MAX_DRAWN);
        drawn.note(Token(100), Time::ORIGIN);
        drawn.forget(Token(100));
        assert!(!drawn.is_own(Token(100)), "it was never written");
    }
}
