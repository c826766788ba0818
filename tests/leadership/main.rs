//! Leaders elected by real processes: killed, stopped, sent away, cut down to a minority, and restarted.

#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod electorate;
mod succession;
