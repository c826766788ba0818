//! Belief: the one record that waits for the answer of whom it is about.
//!
//! A member is believed by precedence alone, whoever tells of it, but for the death of another run of a name: it is merged
//! after the holder of the name, if it is live, had a suspect timeout to refute it. (A node lost its disk while its clock
//! was set back, and joined on the other side of a cut from where its former run is held as Down: that record supersedes
//! the one of the run that lives.) And a live record that a tombstone covers is not merged: its subject is asked itself,
//! and refutes.
//!
//! Must not know: which of two records of one name wins (see `member::precedence`).

use std::time::Duration;

use crate::context::Phase;
use crate::limits::TOLD_INTERVAL;
use crate::member::Record;
use crate::packet::{Outbox, Turn};
use crate::view::{Slot, is_due};
use crate::wire::Note;

/// Returns true if a record that would replace a held one is not merged for now on this member's report (`None`: the
/// owner's own).
pub(crate) fn take_doubt(
    out: &mut Outbox<'_>,
    slot: Slot,
    record: &Record,
    note: Option<Note>,
    from: Option<Slot>,
) -> bool {
    let held = out.view.record(slot);
    let is_death_of_another = held.run != record.run && held.status.is_member() && !record.status.is_member();
    let is_told_by_others = from.is_some_and(|from| from != slot && out.view.record(from).run != record.run);
    is_death_of_another
        && is_told_by_others
        && matches!(out.cx.phase, Phase::Up | Phase::Leaving)
        && object_to_death_report(out, slot, record, note)
}

/// Asks a run for its own record, if it is reported live.
pub(crate) fn ask_if_live(out: &mut Outbox<'_>, record: &Record) {
    let is_said_to_live = record.status.is_member();
    if is_said_to_live && out.packets.turns.take(out.cx.now, Turn::Elsewhere, record.address) {
        out.ask_who(record.address);
    }
}

/// Doubts a report that another run of this name died, in a record that supersedes the holder's: the holder, if it
/// is live, raises its incarnation above that.
fn object_to_death_report(out: &mut Outbox<'_>, slot: Slot, record: &Record, note: Option<Note>) -> bool {
    if is_missed(out, slot) {
        return false;
    }
    // Whoever does not observe it tells it, too: its observers need not have heard of the report.
    tell_of_rival(out, slot, record, note);
    let (now, patience) = (out.cx.now, out.view.record(slot).suspect_timeout());
    let peer = out.view.peer_mut(slot);
    let since = peer.rare().contradicted_since.unwrap_or(now);
    peer.contradicted(Some(since));
    now.since(since) < patience
}

/// Returns true if this node itself heard a member so lately that no heartbeat is overdue.
fn is_heard_lately(out: &Outbox<'_>, slot: Slot) -> bool {
    let patience = heartbeat_patience(out, slot);
    let session = out.view.entry(slot).peer.session.as_ref();
    session.is_some_and(|session| out.cx.now.since(session.heard) <= patience)
}

/// Returns true if a member's heartbeats should have come here, and did not. Silence of one that sends none here is
/// no evidence.
fn is_missed(out: &Outbox<'_>, slot: Slot) -> bool {
    !is_heard_lately(out, slot) && out.observers.would_have_heard(out.cx.now, slot, heartbeat_patience(out, slot))
}

/// Returns the time after which a heartbeat of a member is overdue.
fn heartbeat_patience(out: &Outbox<'_>, slot: Slot) -> Duration {
    out.view.record(slot).timing.heartbeat_interval() + out.cx.settings.probe_timeout
}

/// Tells a live run of another one that takes its name: it gives way (see `rivals`), and would learn of that late, since nobody
/// speaks to it any more. Its observers tell it.
pub(crate) fn tell_replaced(out: &mut Outbox<'_>, slot: Slot, held: &Record, record: &Record) {
    let are_apart = held.status.is_live() && record.status.is_live() && held.address != record.address;
    if are_apart && out.observers.observes(slot) {
        tell_of_rival(out, slot, record, None);
    }
}

/// Tells a member of a record that others report under its name.
fn tell_of_rival(out: &mut Outbox<'_>, slot: Slot, record: &Record, note: Option<Note>) {
    if is_due(out.cx.now, out.view.entry(slot).peer.rare().last_told, TOLD_INTERVAL) {
        out.view.peer_mut(slot).rare_mut().last_told = Some(out.cx.now);
        let mut packet = out.packet_to(slot);
        packet.push_update(note, record);
        out.send_to(slot, packet);
    }
}
