//! Leadership by a row in a database: at most one leader for each lease of a cluster, for services that already have a
//! database and want no voters.
//!
//! ```text
//!   contender   decides: what to ask, what an answer is worth, until when a claim holds   (pure: no I/O, no clock)
//!       │  Round ──▶ Answer            one of each at a time, see [`Round`]
//!     store     asks: SQLite or PostgreSQL carry out a round as one transaction           (no opinion of its own)
//! ```
//!
//! Two clocks, never compared with each other: **only the database's clock is compared with the row**, by the store;
//! the holder's own clock, counted from before it asked, ends its claim, in the contender.
//!
//! | idea | file |
//! |---|---|
//! | the form of a database's address, shown without its password | `address` |
//! | one agent's part in it, as a pure machine; rounds, terms and tokens: the crate `headcount-contender` | `contender` |
//! | the term is counted up in the transaction that acquires the lease | `store::sqlite::statements`, `store::postgres::statements` |
//! | SQLite and PostgreSQL, behind one face | `store` |
//!
//! Sources: Gray & Cheriton, "Leases" (1989); Kleppmann, "How to do distributed locking" (2016), for fencing tokens.

mod address;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod store;

pub(crate) use address::without_password;
#[doc(inline)]
pub use headcount_contender::{
    Answer, Claim, Contender, ContenderAlarm, ContenderInit, ContenderTiming, Holder, LeaseName, MAX_DRAWN,
    MAX_HEARD_TERM, MAX_LEASES, MAX_TERM, NodeRow, Outcome, Output, Round, Seen, Step, StepRequest, TimingError, Token,
    TooManyLeases,
};
