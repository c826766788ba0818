//! Behaviours of whole cores talking to each other in virtual time, seen from outside: by `handle` and `poll`, the questions that
//! drivers have, and those of the feature `testing`.

#![allow(
    clippy::format_collect,
    clippy::format_push_string,
    clippy::unchecked_time_subtraction,
    reason = "small texts, known figures"
)]

mod accusers;
mod admission;
mod ages;
mod alone;
mod answers;
mod chains;
mod claims;
mod codec;
mod costs;
mod crashing;
mod deaf;
mod departures;
mod detection;
mod direct;
mod edges;
mod electing;
mod electorates;
mod exchanges;
mod fallbacks;
mod faults;
mod finders;
mod forgetting;
mod forming;
mod forwarding;
mod founding;
mod grounds;
mod health;
mod hearsay;
mod hostile;
mod joining;
mod jumps;
mod late_questions;
mod leadership;
mod lease_updates;
mod leaving;
mod limits;
mod linking;
mod lost_votes;
mod many;
mod merging;
mod messages;
mod movers;
mod moving;
mod names;
mod net;
mod newcomers;
mod others;
mod outdated;
mod outsiders;
mod paces;
mod partition;
mod pestering;
mod reachable;
mod recovered_apart;
mod relinking;
mod returners;
mod returning;
mod reunion;
mod saying;
mod searching;
mod shares;
mod sleeping;
mod speaker;
mod sponsoring;
mod spreading;
mod stalls;
mod storms;
mod strangers;
mod succession;
mod traffic;
mod twins;
mod unbound;
mod unopened;
mod views;
mod waiting;
