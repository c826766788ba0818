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
//! - *Learning.* The node to be added gets the leader's view and acknowledges a renewal before it votes (Raft, section
//!   4.2.1).
//! - *Sounding.* The majority that removes a voter need not be one of the electorate that comes after it. So before the
//!   change is put to the voters, enough of those that would vote then must acknowledge a renewal that was *sent
//!   since*: what was acknowledged before says nothing of a voter that has fallen silent.
//! - *Put to the voters.* First the leader's own disk takes it. If that fails, or takes longer than
//!   [`SLOW_DISK_TIMEOUT`], nobody was told of it: the leader withdraws it and stands aside, and the voters before the
//!   change elect another one.
//! - *In flight.* The change needs a majority before and after it, and may be taken by too few all the same: voters die
//!   between their answer and their disk. Meanwhile the claim rests on the electorate in force, the one before: its
//!   leader leads on.
//! - *Taken back.* [`CHANGE_TIMEOUT`] after the leader told its voters, if the electorate in force is there, or when
//!   its leader leaves, the leader puts that electorate to the voters once more, under the next number. Otherwise
//!   whoever has the change on its disk would need the votes of the new electorate for good, though the old one is
//!   there. As long as enough voters for the change acknowledge renewals, and only their disks are late, it waits for
//!   these: for [`SLOW_DISK_TIMEOUT`] at most, and asks every [`ANSWER_TIMEOUT`] whether they are still there.
//!
//! The reason why that is safe: electorates that differ by one voter have no two majorities without a voter in common.
//! From when a change is put to the voters until it, or what takes it back, is agreed, nothing else is numbered, and
//! only those two electorates elect anybody. So a majority of either that has promised, voted or accepted keeps the
//! other from deciding otherwise, and the two views are ordered like any two of one term: the one with the higher
//! number, once it is agreed, keeps whoever holds the other from being elected. The next change is not put to the
//! voters before the claim rests on the electorate that it changes.
//!
//! One case remains: a leader that *dies* while a change is in flight takes nothing back. That is for some
//! milliseconds, or, if a voter that answered falls silent before it takes the change, for [`CHANGE_TIMEOUT`] and a
//! round (where its disk is slow, for [`SLOW_DISK_TIMEOUT`]). Its successor's course depends on who is left:
//!
//! - Nobody who is left has the change on its disk: the electorate of before elects, and the change is gone.
//! - Somebody has it: that one votes for nobody who has it not, and is elected by a majority of the electorate after
//!   the change, which it then carries. If too few of those are left, nobody is elected before one of them returns,
//!   although a majority of the electorate before may be there: of three, where the leader died while it removed a
//!   second one and the third has it. It may have been agreed by then, and the next change begun by those that are
//!   away: that one cannot know, and takes nothing back.
//!
//! A voter may answer, and its disk take nothing: if nothing can be agreed without it, the operator hears its name
//! after [`STORING_TIMEOUT`], or when what takes the change back is not agreed in that time either. That one stays in
//! flight.
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
//!
//! [`ANSWER_TIMEOUT`]: crate::limits::ANSWER_TIMEOUT
//! [`CHANGE_TIMEOUT`]: crate::limits::CHANGE_TIMEOUT
//! [`SLOW_DISK_TIMEOUT`]: crate::limits::SLOW_DISK_TIMEOUT
//! [`STORING_TIMEOUT`]: crate::limits::STORING_TIMEOUT

mod asking;
mod in_flight;
mod pending;
mod sounding;

pub(super) use pending::{ChangeStage, PendingChange};
