//! Joining: from a process that knows addresses to a member that holds the whole view.
//!
//! | idea | file |
//! |---|---|
//! | the joiner's side | `join`, whom it asked: `asked`, what it is answered: `answers`, the limits of its haste: `cookies`, what it lacks: `status` |
//! | founding a cluster | `founding` |
//! | members that look for a joiner with an empty disk | `finders` |
//! | the sponsor's side: admission, reachability of joiners | `sponsor`, `reachable` |
//! | the joiners that it holds beside the view | `joiners` |
//! | many joiners: being referred to another sponsor | `referral` |
//! | the owner of a name | `names` |
//! | moving a whole view, page by page | `transfer/` |
//!
//! Owns: joiners beside the view, name probes, places for joiners that are served the view.
//!
//! Must not know: what happens to a member once it is Up.

mod answers;
mod asked;
mod cookies;
mod finders;
mod founding;
mod join;
mod joiners;
mod names;
mod reachable;
mod referral;
mod sponsor;
mod status;
mod transfer;

pub(crate) use join::{JoinStep, Joiner};
pub(crate) use names::NameProbes;
pub(crate) use reachable::push_unreachable;
pub(crate) use sponsor::Sponsor;
pub use status::JoinReport;
