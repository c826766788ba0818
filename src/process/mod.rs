//! Commands that this program runs for others: each in a process group of its own, tied to this process.
//!
//! Purpose: `headcount lead`, event handlers and commands for seeds end what they started, with all that it started in
//! turn.
//!
//! Invariants:
//! - On Linux a command dies with the thread that started it, whatever ends that. (The system promises it for the
//!   command itself, not for processes that it has started.)
//! - A command gets all signals, also those that are blocked in this process's own threads.
//! - As the first process of a container this one waits for whatever it inherits.
//!
//! Must not know: why a command runs, and for how long it may.
//!
//! | idea | file |
//! |---|---|
//! | the commands, tied to this process | `tied` |
//! | a command and all that it started | `group` |
//! | processes that nobody waits for | `strays` |

mod group;
#[cfg(all(target_os = "linux", feature = "agent"))]
mod strays;
#[cfg(feature = "agent")]
mod tied;

pub(crate) use self::group::Group;
#[cfg(all(target_os = "linux", feature = "agent"))]
pub(crate) use self::strays::wait_for_strays;
#[cfg(feature = "agent")]
pub(crate) use self::tied::{EXEC, is_this_programs, know_this_program, tied, without_the_agents};
