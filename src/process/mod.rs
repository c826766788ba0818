//! Commands that this program runs for others: each in a process group of its own, tied to this process.
//!
//! Purpose: `headcount lead`, event handlers and commands for seeds end what they started, with all that it started in
//! turn.
//!
//! Invariants:
//! - On Linux a command dies with the thread that started it, whatever ends that, and so does all that it started, in
//!   groups and sessions of their own too. Elsewhere its group does, if this process lives to end it.
//! - A command gets all signals, also those that are blocked in this process's own threads.
//! - As the first process of a container this one waits for whatever it inherits.
//!
//! Must not know: why a command runs, and for how long it may.
//!
//! | idea | file |
//! |---|---|
//! | the commands, tied to this process | `tied` |
//! | a command and all that it started | `group`; `reaper` on Linux |
//! | processes that nobody waits for | `strays` |
//! | the processes of this system | `table` |

mod group;
#[cfg(all(target_os = "linux", feature = "agent"))]
mod reaper;
#[cfg(all(target_os = "linux", feature = "agent"))]
mod strays;
#[cfg(all(target_os = "linux", feature = "agent"))]
mod table;
#[cfg(feature = "agent")]
mod tied;

pub(crate) use self::group::Group;
#[cfg(all(target_os = "linux", feature = "agent"))]
pub(crate) use self::reaper::reap;
#[cfg(all(target_os = "linux", feature = "agent"))]
pub(crate) use self::strays::wait_for_strays;
#[cfg(feature = "agent")]
pub(crate) use self::tied::{EXEC, REAP, is_this_programs, know_this_program, tied, without_the_agents};
