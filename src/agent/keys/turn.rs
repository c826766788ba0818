//! The turn: the one node at whose command keys are changed here at the moment.
//!
//! A change is decided on what all members hold, and made afterwards. Two operators that decide at one time, at two nodes,
//! could each be right and lock members out together. So whoever wants to change keys asks all members for their turn first,
//! and goes on only if all have given it.
//!
//! Invariants: one node has the turn at a time, for [`LASTS`] after it asked last, or until it gives it back.
//!
//! Must not know: keys.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::KeysError;
use crate::core::NodeId;

/// The time after which a turn is over that was not given back: longer than a change takes.
pub(super) const LASTS: Duration = Duration::from_secs(10);

/// The turn.
#[derive(Debug, Default)]
pub(super) struct Turn(Mutex<Option<(NodeId, Instant)>>);

impl Turn {
    /// Gives a node the turn, unless another one has it.
    pub(super) fn take(&self, node: &NodeId, now: Instant) -> Result<(), KeysError> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        others(taken.as_ref(), node, now)?;
        *taken = Some((node.clone(), now));
        Ok(())
    }

    /// Returns an error if another node has the turn.
    pub(super) fn check(&self, node: &NodeId, now: Instant) -> Result<(), KeysError> {
        others(self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref(), node, now)
    }

    /// Takes the turn back, if this node has it.
    pub(super) fn end(&self, node: &NodeId) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.as_ref().is_some_and(|(holder, _)| holder == node) {
            *taken = None;
        }
    }
}

fn others(taken: Option<&(NodeId, Instant)>, node: &NodeId, now: Instant) -> Result<(), KeysError> {
    match taken {
        Some((holder, since)) if holder != node && now.saturating_duration_since(*since) < LASTS => {
            Err(KeysError::Busy { by: holder.clone() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_has_the_turn_until_it_gives_it_back_or_its_time_is_over() {
        let (turn, now) = (Turn::default(), Instant::now());
        let [a, b] = ["a", "b"].map(|name| NodeId::new(name).expect("a name"));
        let busy = || Err(KeysError::Busy { by: a.clone() });
        assert_eq!(turn.check(&b, now), Ok(()));
        assert_eq!((turn.take(&a, now), turn.take(&a, now)), (Ok(()), Ok(())));
        assert_eq!((turn.take(&b, now), turn.check(&b, now), turn.check(&a, now)), (busy(), busy(), Ok(())));
        turn.end(&b);
        assert_eq!(turn.take(&b, now + LASTS / 2), busy());
        assert_eq!(turn.take(&b, now + LASTS), Ok(()));
        turn.end(&b);
        assert_eq!(turn.take(&a, now + LASTS), Ok(()));
    }
}
