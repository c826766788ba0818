//! Joining: from a process that knows addresses to a member that holds the whole view.
//!
//! | idea | file |
//! |---|---|
//! | the joiner's side | `join`; being the first of a cluster: `founding` |
//! | the sponsor's side: letting somebody in, how many, and whether its address is reachable | `sponsor`, `admission`, `reachable` |
//! | crowds: being referred to another sponsor | `referral` |
//! | who owns a name; two living processes of one name | `names`, `rivals` |
//! | moving a whole view, page by page | `transfer` |
//!
//! Owns: joiners beside the view, name probes, places at which views are served.
//!
//! Must not know: what happens to a member once it is Up.

mod admission;
mod anew;
mod founding;
mod join;
mod names;
mod reachable;
mod referral;
mod rivals;
mod sponsor;
mod transfer;

pub(in crate::core) use admission::Admissions;
pub(in crate::core) use join::Joining;
pub(in crate::core) use names::NameProbes;
pub(in crate::core) use rivals::Rivals;
pub(in crate::core) use sponsor::Joiners;
pub(in crate::core) use transfer::{Serving, Transfer};
