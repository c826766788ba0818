//! Detection: who observes whom, and when silence becomes a verdict.
//!
//! | idea | file |
//! |---|---|
//! | the graph of observers: rings of names, settled members, whom to keep, walking past the doubted | `observers`, `rings`, `settled`, `kept`, `walk` |
//! | being heard, and hearing both ways | `heartbeat`, `echo` |
//! | judging silence; asking others first (SWIM's indirect probe) | `detector`, `inquiry` |
//! | a broken link, and the verdict within a second | `crash` |
//! | doubting oneself (Lifeguard's local health); the deaf tell nobody; members that keep refuting | `health`, `deaf`, `flapping` |
//! | many silent at once | `partition` |
//!
//! Owns: suspicion timers, probes, open cases. A verdict leaves this room as a record like any other, through `membership`.
//!
//! Must not know: how news spreads, or how a node joined.

mod crash;
mod deaf;
mod detector;
mod echo;
mod flapping;
mod health;
mod heartbeat;
mod inquiry;
mod kept;
mod observers;
mod partition;
mod rings;
mod settled;
mod walk;

pub(in crate::core) use crash::Crashes;
pub(in crate::core) use health::Attention;
pub(in crate::core) use inquiry::Inquiries;
pub(in crate::core) use observers::Observers;
pub(in crate::core) use partition::Partition;
