//! Whole cores, looked at from inside: scenarios whose tests call a machine, or know its fields. All others are in the folder above.

#![allow(clippy::format_push_string, clippy::unchecked_time_subtraction, reason = "small texts, known figures")]

#[allow(dead_code, reason = "this is what the scenarios in `tests` have, too")]
#[path = "../alone.rs"]
mod alone;
#[allow(dead_code, reason = "as above")]
#[path = "../electing.rs"]
mod electing;
#[allow(dead_code, reason = "as above")]
#[path = "../net/mod.rs"]
mod net;
#[allow(dead_code, reason = "as above")]
#[path = "../saying.rs"]
mod saying;

mod bounds;
mod costs;
mod crashing;
mod edges;
mod grounds;
mod hosts;
mod joining;
mod leaving;
mod linking;
mod little;
mod many;
mod messages;
mod misdirected;
mod missing;
mod moving;
mod pestering;
mod recent_members;
mod reunion;
mod sponsoring;
mod spreading;
mod storms;
mod unmerged;
