//! Discovery: never islands. Seeds are contacted for ever, and the lost are looked for until they are reaped.
//!
//! | idea | file |
//! |---|---|
//! | seeds, and members that are lost | `reunion` |
//! | an operator's `join` | `contact` |
//!
//! Owns: the addresses of seeds, and whom to look for next.
//!
//! Must not know: how a newcomer is let in; it only makes two nodes meet.

mod contact;
mod reunion;

pub(crate) use reunion::Reunion;
