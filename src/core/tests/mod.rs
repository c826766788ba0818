//! Behaviours of whole cores talking to each other in virtual time.

#![allow(
    clippy::format_collect,
    clippy::format_push_string,
    clippy::unchecked_time_subtraction,
    reason = "small texts, known figures"
)]

mod ages;
mod codec;
mod detection;
mod doubt;
mod forwarding;
mod hostile;
mod joining;
mod leadership;
mod leaving;
mod liars;
mod limits;
mod merging;
mod moving;
mod net;
mod partition;
mod reunion;
mod sleeping;
mod traffic;
mod twins;
mod usurpers;
mod waiting;
