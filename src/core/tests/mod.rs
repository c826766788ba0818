//! Behaviours of whole cores talking to each other in virtual time.

#![allow(
    clippy::format_collect,
    clippy::format_push_string,
    clippy::unchecked_time_subtraction,
    reason = "small texts, known figures"
)]

mod ages;
mod codec;
mod crashing;
mod detection;
mod detours;
mod doubt;
mod forwarding;
mod hostile;
mod joining;
mod leadership;
mod leaving;
mod limits;
mod linking;
mod merging;
mod net;
mod partition;
mod reunion;
mod sleeping;
mod traffic;
mod waiting;
