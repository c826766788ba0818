//! The campaign: what judges headcount in virtual time. Faults, the promises of the protocol as checks, and planted bugs that the
//! checks must catch.
//!
//! The simulator itself ([`headcount_sim`]) knows none of this: it offers hooks ([`headcount_sim::watch::Watch`]), and the
//! campaign watches.
//!
//! - [`World`]: a simulated world whose promises are checked after every step.
//! - [`invariants`]: the promises of the protocol.
//! - [`faults`]: faults as printable operations, and a seeded generator of schedules.
//! - [`run_seed`]: one seed from start to verdict.
//! - [`plant`]: planted bugs, to see that the checks catch them.
//!
//! | idea | file |
//! |---|---|
//! | a world that is checked; what its checks are told | `world`, `checks` |
//! | what must be known by when; how large tables may be; what must hold of seals | `expect`, `sizes`, `seals` |
//! | a failure of many, as all nodes judge and report it | `verdicts` |
//! | one seed, start to verdict | `runs` |
//! | whole worlds with and without bugs | `simulation` |

mod checks;
mod expect;
pub mod faults;
pub mod invariants;
pub mod plant;
mod runs;
mod seals;
mod sizes;
mod verdicts;
mod world;

pub use expect::Judged;
pub use runs::{Campaign, Outcome, campaign_settings, convergence_bound, run_schedule, run_seed, run_seed_of};
pub use verdicts::{incomplete_reports, missed_verdicts};
pub use world::World;
