//! Leading: renewals, the claim that they make, and giving it up.
//!
//! Votes make a leader, not a claim. The claim begins with the first renewal that a majority acknowledged in this term,
//! and lasts from when that renewal was *sent*, less a margin for clocks that run at different rates. A renewal that a
//! majority has not acknowledged is followed by another one soon: a lost packet costs no lease.
//!
//! A leader gives leadership up when it leaves, is told to, is voted out, or finds a voter of a higher priority that
//! has kept up with it for some leases ([`LeaderPolicy`](super::LeaderPolicy)). The voter that is to stand first is
//! named to all.
//!
//! Invariants: a claim only ever grows by an acknowledgement; one that was given up or ran out is never taken up again
//! in its term; voters are released only after all led work has ended.
//!
//! | idea | file |
//! |---|---|
//! | what a leader remembers of its term | `state` |
//! | renewals: sent, acknowledged, and the voters that leave meanwhile | `renewing` |
//! | the claim: extended, and ended | `claiming` |
//! | giving leadership up, and to whom | `resigning` |
//! | at an operator's command: once others have stored something | `trying` |
//!
//! Must not know: what is led.

mod claiming;
mod renewing;
mod resigning;
mod state;
mod trying;

pub(super) use state::Leading;
