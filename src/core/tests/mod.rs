//! Behaviours of whole cores talking to each other in virtual time.

mod codec;
mod detection;
mod joining;
mod leaving;
mod merging;
mod net;
mod reunion;
mod traffic;
