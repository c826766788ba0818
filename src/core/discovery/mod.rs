//! Discovery: never islands. Seeds are contacted for ever, and the lost are looked for until they are reaped.
//!
//! | idea | file |
//! |---|---|
//! | seeds, introductions of strangers, an operator's `join` | `reunion` |
//!
//! Owns: the addresses of seeds, and whom to look for next.
//!
//! Must not know: how a newcomer is let in; it only makes two nodes meet.

mod reunion;

pub(in crate::core) use reunion::Reunion;
