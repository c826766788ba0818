//! Changing the electorate: an operator's request from the question to its outcome, one voter at a time.
//!
//! ```text
//!  add, replace: who is it? ──▶ it learns ──┐             as soon as no view is in flight
//!  remove ──────────────────────────────────┴──▶ wanted ────────▶ the voters are sounded ────▶ in flight ────▶ agreed
//!                                                   ▲                   │ too few answer          │ too few take it,
//!                                    replace: then the other half       ▼                         ▼ or the leader leaves
//!                                                                    refused                  taken back
//! ```
//!
//! - *Learning.* The node to be added gets the leader's view and acknowledges a renewal before it votes (Raft, 4.2.1).
//! - *Sounding.* The majority that removes a voter need not be one of the electorate that comes after it. So before the
//!   change is put to the voters, enough of those that would vote then must acknowledge a renewal that was *sent
//!   since*: what was acknowledged before says nothing of a voter that has fallen silent.
//! - *Put to the voters.* First the leader's own disk takes it. If that fails, or takes longer than
//!   `SLOW_DISK_TIMEOUT`, nobody was told of it: the leader withdraws it and stands aside, and the voters before the
//!   change elect another one.
//! - *In flight.* The change needs a majority before and after it, and may be taken by too few all the same: voters die
//!   between their answer and their disk. Meanwhile the claim rests on the electorate in force, the one before: its
//!   leader leads on.
//! - *Taken back.* `CHANGE_TIMEOUT` after the leader told its voters, if the electorate in force is there, or when
//!   its leader leaves, the leader puts that electorate to the voters once more, under the next number. Otherwise
//!   whoever has the change on its disk would need the votes of the new electorate for good, though the old one is
//!   there. As long as enough voters for the change acknowledge renewals, and only their disks are late, it waits for
//!   these: for `SLOW_DISK_TIMEOUT` at most, and asks every `ANSWER_TIMEOUT` whether they are still there.
//!
//! Why that is safe, and the one case in which nothing is taken back: `in_flight`.
//!
//! Invariants: one change at a time; every change is answered once; "nothing changed" is only said if nothing can have
//! changed. (But for a write of the leader that failed, is on its disk all the same, and is found there if the leader
//! dies then.)
//!
//! | idea | file |
//! |---|---|
//! | an operator's request, and how far it has come | `pending` |
//! | changes: taken up or refused, and answered | `asking` |
//! | the voters are sounded, and the change is put to them | `sounding` |
//! | in flight: waiting, taking back, and the end | `in_flight` |
//!
//! Must not know: why members come and go.

mod asking;
mod in_flight;
mod pending;
mod sounding;

pub(super) use pending::{ChangeStage, PendingChange};
