//! Membership: what is believed of other members, and this node's own changes, as far as each owns a state or a rule of its own.
//!
//! | idea | file |
//! |---|---|
//! | accusations: who knows better, what is noted of them, and the record that waits for the answer of whom it is about | `accusation` |
//! | this node's own incarnation, its move to another address, other processes of its name | `incarnation`, `moving`, `rivals` |
//! | when members came | `arrivals` |
//! | removals by an operator; confirmations that peers hold a record | `confirm` |
//!
//! The algebra itself, a maximum by precedence (see `member::record`), is where the table is changed: see `wiring::merging`.
//!
//! Must not know: how silence is measured, or the way that a packet took.

pub(crate) mod accusation;
mod arrivals;
mod confirm;
mod incarnation;
pub(crate) mod moving;
pub(crate) mod rivals;

use std::net::SocketAddr;

pub(crate) use arrivals::Arrivals;
pub(crate) use confirm::{Confirmations, Purpose, may_confirm, note_removal, tell_removed};
pub(crate) use incarnation::Incarnation;
pub(crate) use moving::Moving;
pub(crate) use rivals::Rivals;

/// What this node knows of itself beside its record.
#[derive(Debug, Clone)]
pub(crate) struct Myself {
    pub(crate) incarnation: Incarnation,
    /// The change of this node's address, until a member has reached it there.
    pub(crate) moving: Moving,
    /// Other processes of this node's name.
    pub(crate) rivals: Rivals,
    /// This node's address, since members said that nothing answers there; until one of them hears this node again.
    pub(crate) unreached_at: Option<SocketAddr>,
}
