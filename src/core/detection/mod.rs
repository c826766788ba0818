//! Detection: verdicts on silence.
//!
//! | idea | file |
//! |---|---|
//! | when the next heartbeat is expected; signs of life, and that they count only while the member hears this node | `heartbeat` |
//! | **the detector**: judging silence; asking others first (SWIM's indirect probe), as far as it is kept | `detector`, `indirect_probe` |
//! | a broken link, and the verdict within a second | `crash` |
//! | a host that is gone, and a process that hangs | `host` |
//! | Lifeguard's local health; a deaf node tells nobody | `health` |
//! | many silent at once | `partition` |
//!
//! Owns: inquiries under way, local health, open cases. Timers are set, and probes sent, in `wiring::judging`. A verdict is a record
//! like any other (see `wiring::merging`). Who observes whom is decided in
//! `observers`.
//!
//! Must not know: how news spreads, or how a node joined.

pub(crate) mod crash;
mod detector;
mod health;
mod heartbeat;
mod host;
mod indirect_probe;
mod partition;
#[cfg(test)]
mod tests;

pub(crate) use detector::{Detector, DetectorFacts, DetectorStep};
pub(crate) use health::LocalHealth;
pub(crate) use indirect_probe::Inquiries;
pub(crate) use partition::Partition;
