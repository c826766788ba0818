//! Membership: the merging of records that others send, and this node's own record.
//!
//! | idea | file |
//! |---|---|
//! | merging updates into the view: the maximum by `member::precedence`; what follows from a change | `merge`, `settle` |
//! | accusations: who knows better, and what is noted of them | `accusation` |
//! | the record that waits for the word of whom it is about | `belief` |
//! | this node's own record: incarnations, tags, leaving | `lifecycle` |
//! | what others hold this node for, and when it refutes that | `refutation` |
//! | when members came | `arrivals` |
//! | this node's own move to another address | `moving` |
//! | an operator's command to remove a member; what a removal does | `remove_command`, `removal` |
//! | confirmations that peers hold a record | `confirm` |
//! | forgetting dead members | `reap` |
//!
//! Owns: this node's incarnation, and the address that it is about to have.
//!
//! Must not know: how silence is measured, or the way that a packet took.

mod accusation;
mod arrivals;
mod belief;
mod confirm;
mod lifecycle;
mod merge;
mod moving;
mod reap;
mod refutation;
mod removal;
mod remove_command;
mod settle;

pub(crate) use arrivals::Arrivals;
pub(crate) use confirm::Confirmations;
pub(crate) use lifecycle::Incarnation;
pub(crate) use moving::Move;
