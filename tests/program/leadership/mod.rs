//! Leaders elected by real processes: killed, stopped, sent away, cut down to a minority, and restarted.

mod cluster;
mod electorate;
mod succession;
