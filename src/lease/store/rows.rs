//! Rows as stores read them: values from outside, checked before they are used.
//!
//! Invariants: no content of a row can cause a panic or be taken for something else; a wrong value is named, and spoils
//! nothing but its own lease or its own line of a list.

use std::time::Duration;

use super::schema::MAX_TERM;
use crate::core::NodeId;
use crate::lease::{Holder, LeaseName, NodeRow, Outcome, Seen, Token};

/// A leader's row as a database shows it.
pub(super) struct LeaderRow {
    pub(super) node: String,
    pub(super) token: String,
    pub(super) term: i64,
    pub(super) lease_ms: i64,
    /// The time until it expires, by the database's clock, in milliseconds; negative once it has.
    pub(super) expires_in_ms: i64,
}

impl LeaderRow {
    /// Returns the holder that the row shows, or what is wrong with it.
    ///
    /// An expiry that is further off than the lease is long is shown as it stands: see [`Holder::has_expired`].
    pub(super) fn holder(&self) -> Result<Holder, String> {
        let node = node(&self.node)?;
        let wrong = |what: &str| format!("the leader's row of {node} holds {what}");
        let token: Token = self.token.parse().map_err(|_| wrong("no token"))?;
        let term = term(self.term).ok_or_else(|| wrong("no term"))?;
        let lease_ms = u64::try_from(self.lease_ms).map_err(|_| wrong("a negative lease_ms"))?;
        let expires_in = u64::try_from(self.expires_in_ms).unwrap_or(0);
        let (lease_duration, expires_in) = (Duration::from_millis(lease_ms), Duration::from_millis(expires_in));
        Ok(Holder { node, token, term, lease_duration, expires_in })
    }
}

/// A lease's rows as a database shows them after a step.
pub(super) struct LeaseRows {
    /// The stored term; `None` if there is none.
    pub(super) term: Option<i64>,
    pub(super) leader: Option<LeaderRow>,
    /// True if the row of that term says that its holder gave the lease up.
    pub(super) is_released: bool,
}

/// Returns the result of a step, after which a lease's rows are as given, or cannot be read.
pub(super) fn seen(lease: &LeaseName, outcome: Outcome, rows: Result<LeaseRows, String>) -> Seen {
    let read = |rows: LeaseRows| {
        let term = term(rows.term.unwrap_or(0)).ok_or_else(|| String::from("its term is none"))?;
        let holder = rows.leader.map(|leader| leader.holder()).transpose()?;
        if holder.as_ref().is_some_and(|holder| holder.term > term) {
            return Err(String::from("its holder's term was never given"));
        }
        Ok::<_, String>(Seen { outcome, term, holder, is_released: rows.is_released })
    };
    rows.and_then(read).unwrap_or_else(|reason| {
        tracing::debug!(%lease, reason, "the rows of a lease cannot be read");
        Seen { outcome: Outcome::Unreadable, term: 0, holder: None, is_released: false }
    })
}

/// Returns a term as it stands in a row; `None` if it is out of bounds.
pub(super) fn term(stored: i64) -> Option<u64> {
    u64::try_from(stored).ok().filter(|term| *term <= MAX_TERM)
}

/// Returns a liveness row as a database shows it. A text that is no address is shown as no address: the node lives all
/// the same.
pub(super) fn node_row(name: &str, rpc_address: Option<&str>, age_ms: i64) -> Result<NodeRow, String> {
    let age = Duration::from_millis(u64::try_from(age_ms).unwrap_or(0));
    Ok(NodeRow { node: node(name)?, rpc_address: rpc_address.and_then(|text| text.parse().ok()), age })
}

fn node(name: &str) -> Result<NodeId, String> {
    NodeId::new(name).map_err(|_| {
        let shown = crate::text::visible(name, crate::text::MAX_SHOWN);
        format!("a row's node_id is '{shown}', which is no node's name")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> LeaderRow {
        LeaderRow { node: "a".into(), token: Token(7).to_string(), term: 3, lease_ms: 15_000, expires_in_ms: 9_000 }
    }

    #[test]
    fn a_sound_row_is_a_holder_and_an_expired_one_has_no_time_left() {
        let holder = row().holder().expect("sound");
        assert_eq!((holder.term, holder.token, holder.expires_in), (3, Token(7), Duration::from_secs(9)));
        let expired = LeaderRow { expires_in_ms: -1, ..row() }.holder().expect("sound");
        assert_eq!(expired.expires_in, Duration::ZERO);
    }

    #[test]
    fn an_expiry_further_off_than_the_lease_is_long_was_written_by_another_clock() {
        let at = |expires_in_ms| LeaderRow { expires_in_ms, ..row() }.holder().expect("sound");
        assert_eq!((at(15_000).expires_in, at(15_000).has_expired()), (Duration::from_secs(15), false));
        assert_eq!((at(15_001).expires_in, at(15_001).has_expired()), (Duration::from_millis(15_001), true));
        assert!(at(i64::MAX).has_expired() && at(0).has_expired() && at(-1).has_expired() && !at(1).has_expired());
    }

    #[test]
    fn what_no_store_writes_is_named_and_never_a_panic() {
        for (wrong, what) in [
            (LeaderRow { node: "a b\u{1b}".into(), ..row() }, "no node's name"),
            (LeaderRow { token: "7".into(), ..row() }, "no token"),
            (LeaderRow { term: -1, ..row() }, "no term"),
            (LeaderRow { term: i64::MAX, ..row() }, "no term"),
            (LeaderRow { lease_ms: i64::MIN, expires_in_ms: i64::MIN, ..row() }, "lease_ms"),
        ] {
            let error = wrong.holder().expect_err("not sound");
            assert!(error.contains(what) && !error.contains('\u{1b}'), "{error}");
        }
        assert!(node_row("", None, 0).is_err());
        assert_eq!(
            node_row("a", Some("nowhere"), i64::MIN).map(|row| (row.rpc_address, row.age)),
            Ok((None, Duration::ZERO))
        );
    }
}
