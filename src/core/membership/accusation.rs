//! Accusations: what is made of the report that a member is silent, or dead, before and after it is merged.
//!
//! Invariants:
//! - Whoever knows better tells the accused, and believes the accuser later, if the accused does not refute: views do not
//!   differ for ever.
//! - Nobody is Down for silence here that had no time to refute it.
//!
//! Must not know: how silence is measured.

use crate::context::Context;
use crate::counters::DropReason;
use crate::io::Notice;
use crate::limits::TOLD_INTERVAL;
use crate::member::{DetectionMethod, Record, Status};
use crate::packet::Outbox;
use crate::time::Time;
use crate::view::{Entry, Peer, RareState, Slot, View, is_due};
use crate::wire::{Message, Note};

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
pub(crate) fn take_contradiction(
    out: &mut Outbox<'_>,
    slot: Slot,
    record: &Record,
    note: Note,
    is_spoken_of_from_afar: bool,
) -> bool {
    let is_about_silence = matches!(note.method, DetectionMethod::HeartbeatTimeout | DetectionMethod::NetworkPartition);
    let is_accusation = record.status.is_accused();
    let (now, tolerance) = (out.cx.now, out.cx.settings.probe_timeout);
    let held = out.view.record(slot);
    let (timing, is_held_up) = (held.timing, held.status == Status::Up);
    let is_from_afar = record.status == Status::Down && is_spoken_of_from_afar;
    // The links of a process that ended broke before any observer could find out that its port refuses new ones.
    let is_linked = note.method == DetectionMethod::ConnectionLost && out.paths.links.open(record.run).is_some();
    let peer = out.view.peer_mut(slot);
    let is_fresh = peer.session.as_ref().is_some_and(|session| {
        now.since(session.sign) <= timing.heartbeat_interval() && session.sign > (now - note.age()) + tolerance
    });
    let is_known_better = is_linked || (is_about_silence && (is_fresh || is_from_afar));
    // Its accuser hears it badly, or it keeps stalling: it is given the time of an answer, in which it refuted that before.
    let rare = peer.rare();
    let is_death_report = record.status == Status::Down && note.method == DetectionMethod::ConnectionLost;
    let refuted = if is_death_report { rare.false_death_reports } else { rare.refutations };
    let is_often_refuted = refuted.are_at_the_bound(now, timing);
    if !((is_known_better || is_often_refuted) && is_accusation && is_held_up) {
        return false;
    }
    let since = peer.rare().contradicted_since.unwrap_or(now);
    peer.contradicted(Some(since));
    if is_known_better {
        return now.since(since) < timing.suspect_timeout();
    }
    let is_doubted = now.since(since) < tolerance;
    if is_doubted {
        out.cx.counters.drop(DropReason::Implausible);
    }
    is_doubted
}

/// Counts a refutation by a suspected member.
pub(crate) fn note_refutation(cx: &mut Context, view: &mut View, slot: Slot) {
    cx.counters.suspicions_refuted += 1;
    let timing = view.record(slot).timing;
    let now = cx.now;
    let RareState { refutations, .. } = view.peer_mut(slot).rare_mut();
    refutations.add(now, timing);
    if refutations.are_too_many() {
        let id = view.record(slot).id.clone();
        cx.notice("flapping", Notice::Flapping { id });
    }
}

/// Counts a return of a member whose process was reported to have ended.
pub(crate) fn note_false_death_report(now: Time, view: &mut View, slot: Slot) {
    let timing = view.record(slot).timing;
    let peer = view.peer_mut(slot);
    if peer.method == Some(DetectionMethod::ConnectionLost) {
        peer.rare_mut().false_death_reports.add(now, timing);
    }
}

/// Returns true if a member is reported Down for silence that has not been Suspect here for as long as its accuser
/// had to wait: it had no chance to refute. Then it is held as Suspect first, and gets that chance; at its end its
/// age decides, as for any other.
///
/// A node that heard nobody for a while, and is heard again, reports every member as dead; those that know better
/// (the observers of the accused) tell them, and they refute it within a round trip, before others believe it.
pub(crate) fn skipped_suspicion(now: Time, held: &Entry, record: &Record, note: Note) -> bool {
    let is_about_silence = matches!(note.method, DetectionMethod::HeartbeatTimeout | DetectionMethod::NetworkPartition);
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

/// Passes an accusation on to the accused, which alone can refute it: it raises its incarnation above the accusation's,
/// and need not doubt itself, since this node does not accuse it.
pub(crate) fn tell_accused(out: &mut Outbox<'_>, slot: Slot, record: &Record) {
    // Its observers tell it; all members would be too many.
    if !out.observers.observes(slot) {
        return;
    }
    if is_due(out.cx.now, out.view.entry(slot).peer.rare().last_told, TOLD_INTERVAL) {
        out.view.peer_mut(slot).rare_mut().last_told = Some(out.cx.now);
        let (run, incarnation) = (record.run, record.incarnation);
        let mut packet = out.packet_to(slot);
        packet.push(&Message::HeldStatus { run, incarnation, status: Status::Suspect, age_ms: 0 });
        out.send_to(slot, packet);
    }
}

/// Counts a change of a member's status that was found out by this node or another: a member that was Up and is silent, and
/// one that was live and is Down, unless another run has its name by then.
pub(crate) fn count_change(
    cx: &mut Context,
    peer: &Peer,
    before: Status,
    after: Status,
    method: Option<DetectionMethod>,
    is_same_run: bool,
) {
    let is_silence = matches!(method, Some(DetectionMethod::HeartbeatTimeout | DetectionMethod::NetworkPartition));
    if is_silence && before == Status::Up && after.is_accused() {
        cx.counters.suspicions_believed += 1;
    }
    if let (true, Status::Down, Some(method)) = (before.is_here(), after, method)
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
