//! Removals: an operator removes a member from the listing. A Down member is removed as it is; one that may be live only by force.
//! The record then has status Left (forced), which outranks every other status of its incarnation and obliges its owner to stop as
//! soon as it learns of it. One that has left by itself is removed, too: it is not expected back any more.
//!
//! Must not know: how the record spreads.

use crate::io::Notice;
use crate::packet::Outbox;
use crate::view::Slot;
use crate::wire::Message;

/// Tells who removed a live member, and the member itself if it said so.
pub(crate) fn note_removal(out: &mut Outbox<'_>, slot: Slot, was_live: bool, from: Option<Slot>) {
    if let Some(from) = from.filter(|_| was_live) {
        let (id, by) = (out.view.record(slot).id.clone(), out.view.record(from).id.clone());
        out.cx.notice("member removed", Notice::MemberRemoved { id, by });
    }
    if from.is_none() {
        tell_removed(out, slot);
    }
}

/// Tells the removed member, whenever it was told last that it is suspect or gone; it is told again whenever it is heard.
pub(crate) fn tell_removed(out: &mut Outbox<'_>, slot: Slot) {
    out.view.peer_mut(slot).rare_mut().last_told = None;
    let mut packet = out.packet_to(slot);
    packet.push(&Message::Reply);
    out.send_to(slot, packet);
}
