//! Accusations: what is made of the report that a member is silent, or dead, before and after it is merged; and of the one record
//! that waits for the answer of whom it is about.
//!
//! A member is believed by precedence alone, whoever tells of it, but for the death of another run of a name: it is merged
//! after the holder of the name, if it is live, had a suspect timeout to refute it. (A node lost its disk while its clock
//! was set back, and joined on the other side of a cut from where its former run is held as Down: that record supersedes
//! the one of the run that lives.) And a live record that a tombstone covers is not merged: its subject is asked itself,
//! and refutes.
//!
//! Invariants:
//! - Whoever knows better tells the accused, and believes the accuser later, if the accused does not refute: views do not
//!   differ for ever.
//! - Nobody is Down for silence here that had no time to refute it.
//!
//! Must not know: how silence is measured, or which of two records of one name wins (see `member::record`).

use crate::context::{Context, Phase};
use crate::counters::DropReason;
use crate::io::Notice;
use crate::limits::TOLD_INTERVAL;
use crate::member::{DetectionMethod, Record, Status};
use crate::packet::{Outbox, Turn};
use crate::time::Time;
use crate::view::{Entry, Peer, Slot, View, is_due};
use crate::wire::{Message, Note, PacketBuilder};

/// The part of a report that is believed: of a newer record of a run that is held, with the note of who tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belief {
    /// It is merged as it is.
    Whole,
    /// It is merged as a suspicion, which its subject may refute.
    Suspicion,
    /// It is not merged, for now at least.
    Nothing,
}

/// Judges such a record; a subject of which this node knows better is told, and refutes it.
pub(crate) fn take_report(
    out: &mut Outbox<'_>,
    slot: Slot,
    record: &Record,
    note: Note,
    is_spoken_of_from_afar: bool,
) -> Belief {
    if take_contradiction(out, slot, record, note, is_spoken_of_from_afar) {
        tell_accused(out, slot, record);
        return Belief::Nothing;
    }
    let held = out.view.entry(slot);
    if !skips_suspicion(out.cx.now, held, record, note) {
        Belief::Whole
    } else if held.status == Status::Suspect && held.record.incarnation == record.incarnation {
        Belief::Nothing
    } else {
        Belief::Suspicion
    }
}

/// Returns true if this node knows better than an accusation. It does in each of these cases:
///
/// - It heard the member itself so lately that not even a heartbeat is overdue, and after the accuser did.
/// - A cut is healing, or has healed a moment ago, and the member that is reported dead was not even suspected on this
///   side of it, where its observers are: the accusation is the far side's, if anybody of that is heard.
/// - The member's process is reported to have ended, and holds a link to this node.
/// - The member has refuted such accusations again and again.
///
/// Without this, one bad link (or the far side of a healed cut) makes every member report the death of a neighbour
/// that it hears well. The accused is told and refutes within a round trip; if it does not (it may be deaf), the
/// accuser is believed after its suspect timeout, so that views do not differ for ever.
fn take_contradiction(
    out: &mut Outbox<'_>,
    slot: Slot,
    record: &Record,
    note: Note,
    is_spoken_of_from_afar: bool,
) -> bool {
    let is_about_silence = note.method.is_silence();
    let is_accusation = record.status.is_accused();
    let (now, tolerance) = (out.cx.now, out.cx.settings.probe_timeout);
    let held = out.view.record(slot);
    let (timing, is_held_up) = (held.timing, held.status == Status::Up);
    let is_from_afar = record.status == Status::Down && is_spoken_of_from_afar;
    // The links of a process that ended broke before any observer could find out that its port refuses new ones.
    let is_linked = note.method == DetectionMethod::ConnectionLost && out.paths.links.open(record.run).is_some();
    let peer = out.view.peer_mut(slot);
    // Of turns that are further apart than that nothing is overdue for long, and others may miss it by then.
    let lately = timing.heartbeat_interval().min(timing.suspect_timeout() / 2);
    let is_fresh = peer
        .session
        .as_ref()
        .is_some_and(|session| now.since(session.sign) <= lately && session.sign > (now - note.age()) + tolerance);
    let is_known_better = is_linked || (is_about_silence && (is_fresh || is_from_afar));
    // Its accuser hears it badly, or it keeps stalling: it is given the time of an answer, in which it refuted that before.
    let rare = peer.rare();
    let is_death_report = record.status == Status::Down && note.method == DetectionMethod::ConnectionLost;
    let refuted = if is_death_report { rare.false_death_reports } else { rare.refutations };
    let is_often_refuted = refuted.are_at_the_bound(now, timing);
    if !((is_known_better || is_often_refuted) && is_accusation && is_held_up) {
        return false;
    }
    let contradicted_for = peer.contradict(now);
    if is_known_better {
        return contradicted_for < timing.suspect_timeout();
    }
    let is_held_off = contradicted_for < tolerance;
    if is_held_off {
        out.cx.counters.drop(DropReason::Implausible);
    }
    is_held_off
}

/// Notes what a newer record of a held run shows, before it takes the held one's place. `sign`: the time at which the member
/// lived, as far as the record's teller knows.
pub(crate) fn note_newer(cx: &mut Context, view: &mut View, slot: Slot, held: &Record, record: &Record, sign: Time) {
    let peer = view.peer_mut(slot);
    if held.status == Status::Suspect && record.incarnation > held.incarnation {
        cx.counters.suspicions_refuted += 1;
        let refutations = &mut peer.rare_mut().refutations;
        refutations.add(cx.now, held.timing);
        if refutations.are_too_many() {
            cx.notice("flapping", Notice::Flapping { id: held.id.clone() });
        }
    }
    if held.status == Status::Down
        && record.status == Status::Up
        && peer.method == Some(DetectionMethod::ConnectionLost)
    {
        peer.rare_mut().false_death_reports.add(cx.now, held.timing);
    }
    peer.end_contradiction();
    peer.judged_unheard(false);
    if held.address != record.address {
        peer.unprove();
    }
    match record.status {
        // Departures are dated, not observed.
        Status::Left(_) => peer.left_at(sign),
        // Its silence was dated when it was accused: an accusation that took longer to arrive only looks fresher.
        Status::Down if held.status == Status::Suspect && held.incarnation == record.incarnation => {}
        _ => peer.lived_at(sign),
    }
}

/// Returns true if a member is reported Down for silence that has not been Suspect here for as long as its accuser
/// had to wait: it had no chance to refute. Then it is held as Suspect first, and gets that chance; at its end its
/// age decides, as for any other.
///
/// A node that heard nobody for a while, and is heard again, reports every member as dead; those that know better
/// (the observers of the accused) tell them, and they refute it within a round trip, before others believe it.
fn skips_suspicion(now: Time, held: &Entry, record: &Record, note: Note) -> bool {
    let is_about_silence = note.method.is_silence();
    let is_death_report = record.status == Status::Down && held.record.status.is_here();
    let is_heard_out = held.record.incarnation == record.incarnation
        && held.refutation_deadline().is_some_and(|deadline| deadline <= now);
    is_about_silence && is_death_report && !is_heard_out
}

/// Notes the time since which a member is held as accused, or gone, at its incarnation.
pub(crate) fn date_accusation(now: Time, view: &mut View, slot: Slot, held: Option<&Record>) {
    let is_dated = |status: Status| matches!(status, Status::Suspect | Status::Down | Status::Left(_));
    let record = view.record(slot);
    let is_same =
        |held: &Record| (held.run, held.incarnation) == (record.run, record.incarnation) && is_dated(held.status);
    if !held.is_some_and(is_same) {
        let since = is_dated(record.status).then_some(now);
        view.peer_mut(slot).accused(since);
    }
}

/// Returns true if a record that would replace the one of a live run is not merged for now, on this member's report (`None`: the
/// owner's own) that another run of the name died: the holder, if it is live, raises its incarnation above that.
pub(crate) fn take_hold_off(
    out: &mut Outbox<'_>,
    slot: Slot,
    record: &Record,
    note: Option<Note>,
    from: Option<Slot>,
) -> bool {
    let held = out.view.record(slot);
    let is_death_of_another = held.run != record.run && held.status.is_member() && !record.status.is_member();
    let is_told_by_others = from.is_some_and(|from| from != slot && out.view.record(from).run != record.run);
    let is_member = matches!(out.cx.phase, Phase::Up | Phase::Leaving);
    if !(is_death_of_another && is_told_by_others && is_member) || is_missed(out, slot) {
        return false;
    }
    // Whoever does not observe it tells it, too: its observers need not have heard of the report.
    tell(out, slot, |packet| packet.push_update(note, record));
    let (now, patience) = (out.cx.now, out.view.record(slot).suspect_timeout());
    out.view.peer_mut(slot).contradict(now) < patience
}

/// Returns true if a member's heartbeats should have come here, and did not. Silence of one that sends none here is
/// no evidence.
fn is_missed(out: &Outbox<'_>, slot: Slot) -> bool {
    let entry = out.view.entry(slot);
    let (now, patience) = (out.cx.now, entry.record.timing.heartbeat_interval() + out.cx.settings.probe_timeout);
    let is_heard = entry.peer.session.as_ref().is_some_and(|session| now.since(session.heard) <= patience);
    !is_heard && out.observers.would_have_heard(now, slot, patience)
}

/// Asks a run for its own record, if it is reported live.
pub(crate) fn ask_if_live(out: &mut Outbox<'_>, record: &Record) {
    let is_said_to_live = record.status.is_member();
    if is_said_to_live && out.packets.turns.take(out.cx.now, Turn::Elsewhere, record.address) {
        out.ask_who(record.address);
    }
}

/// Tells a live run of another one that takes its name: it gives way (see `rivals`), and would learn of that late, since nobody
/// speaks to it any more. Its observers tell it.
pub(crate) fn tell_replaced(out: &mut Outbox<'_>, slot: Slot, held: &Record, record: &Record) {
    let are_apart = held.status.is_live() && record.status.is_live() && held.address != record.address;
    if are_apart && out.observers.observes(slot) {
        tell(out, slot, |packet| packet.push_update(None, record));
    }
}

/// Passes an accusation on to the accused, which alone can refute it: it raises its incarnation above the accusation's,
/// and need not blame itself, since this node does not accuse it.
fn tell_accused(out: &mut Outbox<'_>, slot: Slot, record: &Record) {
    // Its observers tell it; all members would be too many.
    if out.observers.observes(slot) {
        let (run, incarnation) = (record.run, record.incarnation);
        tell(out, slot, |packet| {
            packet.push(&Message::HeldStatus { run, incarnation, status: Status::Suspect, age_ms: 0 })
        });
    }
}

/// Tells a member what others say of it, unless it was told a moment ago.
fn tell(out: &mut Outbox<'_>, slot: Slot, push: impl FnOnce(&mut PacketBuilder) -> bool) {
    if is_due(out.cx.now, out.view.entry(slot).peer.rare().last_told, TOLD_INTERVAL) {
        out.view.peer_mut(slot).rare_mut().last_told = Some(out.cx.now);
        let mut packet = out.packet_to(slot);
        push(&mut packet);
        out.send_to(slot, packet);
    }
}

/// Counts a change of a member's record that was found out by this node or another: a member that was Up and is silent, and
/// one that was live and is Down, unless another run has its name by then.
pub(crate) fn count_change(
    cx: &mut Context,
    peer: &Peer,
    before: &Record,
    after: &Record,
    method: Option<DetectionMethod>,
) {
    let is_silence = method.is_some_and(DetectionMethod::is_silence);
    let is_same_run = before.run == after.run;
    if is_silence && before.status == Status::Up && after.status.is_accused() {
        cx.counters.suspicions_believed += 1;
    }
    let is_refuted = is_same_run && after.incarnation > before.incarnation;
    if before.status == Status::Suspect && after.status == Status::Down && !is_refuted {
        cx.counters.suspicions_confirmed += 1;
    }
    if let (true, Status::Down, Some(method)) = (before.status.is_here(), after.status, method)
        && is_same_run
    {
        cx.counters.detected(method, cx.now.since(peer.last_sign()));
    }
}

/// Handles the held record with another note: the fresher sign of life wins as long as the accusation is new. Returns true
/// if it is to be spread.
///
/// A note grows younger by its own travelling time, and by its waiting time in sockets and networks that are held
/// up. So it only counts while it cannot have waited for longer than `probe_timeout`: within that time of the
/// moment at which this node first heard of the silence, and only if it is fresher by more than that. Witnesses of
/// a later sign of life report it at once, and a member that is still live refutes.
pub(crate) fn compare_notes(cx: &Context, view: &mut View, slot: Slot, note: Note) -> bool {
    let status = view.record(slot).status;
    let heartbeat = view.record(slot).timing.heartbeat_interval();
    let theirs = cx.now - note.age();
    let tolerance = cx.settings.probe_timeout;
    let now = cx.now;
    let peer = view.peer_mut(slot);
    let ours = peer.last_sign();
    let rare = peer.rare();
    if rare.accused_since.is_none_or(|since| now.since(since) > tolerance) {
        return false;
    }
    if theirs > ours + tolerance {
        peer.lived_at(theirs);
    }
    let differs = theirs > ours + tolerance || ours > theirs + tolerance;
    let is_spread = differs && status == Status::Suspect && is_due(now, rare.last_passed_on, heartbeat);
    if is_spread {
        peer.rare_mut().last_passed_on = Some(now);
    }
    is_spread
}
