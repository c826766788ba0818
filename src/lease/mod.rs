//! Leadership by a row in a database: at most one leader for each lease of a cluster, for services that already have a
//! database and want no voters.
//!
//! ```text
//!   contender   decides: what to ask, what an answer is worth, until when a claim holds   (pure: no I/O, no clock)
//!       │  Round ──▶ Answer            one of each at a time, see `round`
//!     store     asks: SQLite or PostgreSQL carry out a round as one transaction           (no opinion of its own)
//! ```
//!
//! Two clocks, never compared with each other: **only the database's clock is compared with the row**, by the store;
//! the holder's own clock, counted from before it asked, ends its claim, in the contender.
//!
//! | idea | file |
//! |---|---|
//! | names of leases; the secret that proves which contender wrote a row | `name`, `token` |
//! | the form of a database's address, shown without its password | `address` |
//! | the requests to a store, and its answers; the term, which is the fencing token: one more with each acquisition | `round` |
//! | … counted up in the transaction that acquires the lease | `store::sqlite::statements`, `store::postgres::statements` |
//! | one agent's part in it, as a pure machine | `contender` |
//! | SQLite and PostgreSQL, behind one face | `store` |
//!
//! Sources: Gray & Cheriton, "Leases" (1989); Kleppmann, "How to do distributed locking" (2016), for fencing tokens.

mod address;
mod contender;
mod name;
mod round;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod store;
mod token;

pub(crate) use address::without_password;
#[cfg(test)]
pub(crate) use contender::flaw::{Flaw, Planted};
pub use contender::{
    Claim, Contender, ContenderAlarm, ContenderInit, ContenderTiming, MAX_DRAWN, MAX_HEARD_TERM, MAX_TERM, Output,
    TimingError, TooManyLeases,
};
pub use name::LeaseName;
pub use round::{Answer, Holder, NodeRow, Outcome, Round, Seen, Step, StepRequest};
pub use token::Token;

/// The largest number of leases that one agent contends for.
pub const MAX_LEASES: usize = 64;
