//! Detours: a member whose datagrams do not pass, and whose link does, gets everything by the link, too.
//!
//! ```text
//! no datagram of a linked member for 3/4 of its suspect timeout ─▶ in doubt: all goes both ways, and says "unheard"
//!        a frame answers, and no datagram ─▶ degraded: the operator is told          a datagram comes ─▶ over
//! ```
//!
//! A process that stands still for a moment, or gets no processor, sends neither datagrams nor frames: silence alone
//! does not mean that datagrams are blocked. So only frames count that come after the doubt began, when everything goes
//! both ways.
//!
//! A firewall may drop the datagrams of one direction alone, so that a node that is not heard does not know it: each
//! packet to a member in doubt carries [`Message::Unheard`], and a member that gets that sends everything both ways,
//! too. The member may have been silent itself: it sends something at once, and is sure only if it is still told so
//! after that.
//!
//! Invariants:
//! - While datagrams pass, nothing is sent, kept or looked up for detours.
//! - Detours end by themselves: they are renewed with every heartbeat, or are over.
//! - A copy by the link is the same packet under the same number: whichever comes first counts.
//!
//! Must not know: what is in the packets.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Core;
use crate::counters::Carrier;
use crate::doors::{Notice, Output};
use crate::limits::{DETOUR_HEARTBEATS, LINK_LINGER, MAX_PARTNERS};
use crate::member::{Record, Run};
use crate::time::Time;
use crate::view::{Slot, View, is_due};
#[cfg(doc)]
use crate::wire::Message;
use crate::wire::PacketBuilder;

/// Linked members whose datagrams are in doubt, and members that are no neighbours and must be talked to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Detours {
    /// Detours, by the member's run; at most one per link.
    of: BTreeMap<Run, Detour>,
    /// Members that are no neighbours and are asked as voters, with the time of the first word to each that is not
    /// answered; at most [`MAX_PARTNERS`].
    partners: BTreeMap<Run, Partner>,
}

#[derive(Debug, Clone)]
struct Detour {
    until: Time,
    /// The time at which this node noticed that the member's datagrams do not come here.
    unheard_since: Option<Time>,
    /// The member's word that this node's datagrams do not come there.
    told: Option<Told>,
    /// True if datagrams between the two certainly do not pass.
    is_certain: bool,
    /// True if the operator was told that datagrams do not pass.
    is_told: bool,
}

/// A member's word, said again and again, that this node's datagrams do not come there.
#[derive(Debug, Clone, Copy)]
struct Told {
    since: Time,
    last: Time,
    /// The time at which this node last sent something in answer.
    answered: Time,
}

#[derive(Debug, Clone)]
struct Partner {
    asked: Time,
    /// The time of the last word to it.
    last: Time,
    /// The last word that a link was opened for: it goes over that link as soon as it stands.
    unsent: Option<Vec<u8>>,
    /// The time until which a link is wanted, if one is.
    wanted_until: Option<Time>,
}

impl Detours {
    /// Returns true if the datagrams of any member are in doubt.
    pub(crate) fn is_any(&self) -> bool {
        !self.of.is_empty()
    }

    /// Returns true if a member must be told that its datagrams do not come.
    pub(crate) fn is_unheard(&self, run: Run) -> bool {
        self.unheard_since(run).is_some()
    }

    /// Returns the time at which this node noticed that a member's datagrams do not come.
    fn unheard_since(&self, run: Run) -> Option<Time> {
        self.of.get(&run).and_then(|detour| detour.unheard_since)
    }

    /// Returns true if everything that goes to a member goes by its link, too.
    pub(crate) fn is_open(&self, run: Run) -> bool {
        self.of.contains_key(&run)
    }

    /// Returns the members to and from which datagrams are known not to pass.
    pub(crate) fn certain(&self) -> impl Iterator<Item = Run> {
        self.of.iter().filter(|(_, detour)| detour.is_certain).map(|(run, _)| *run)
    }

    /// Returns true if a link to this member is wanted although it is no neighbour.
    pub(super) fn wants_link(&self, run: Run, now: Time) -> bool {
        let partner = self.partners.get(&run);
        partner.and_then(|partner| partner.wanted_until).is_some_and(|until| until > now)
    }

    /// Forgets a member that is gone, or to which there is no link any more.
    pub(crate) fn forget(&mut self, run: Run) {
        self.of.remove(&run);
    }
}

impl Core {
    /// Checks, at each heartbeat to a neighbour, that its datagrams come; begins, renews or ends its detour.
    pub(crate) fn mind_datagrams(&mut self, slot: Slot) {
        let record = self.view.record(slot);
        let (run, timing) = (record.run, record.timing);
        let session = self.view.entry(slot).peer.session.as_ref();
        let (heard, datagram) = (session.map(|session| session.heard), session.and_then(|session| session.datagram));
        let patience = match datagram {
            // By then more than one heartbeat is missing in every profile, and the member is not probed for its silence
            // yet.
            Some(_) => timing.suspect_timeout() * 3 / 4,
            // A neighbour says something with every heartbeat.
            None => (timing.heartbeat_interval() * DETOUR_HEARTBEATS).min(timing.suspect_timeout() * 3 / 4),
        };
        let (now, awake_since) = (self.cx.now, self.health.awake_since());
        let since = match (datagram, self.paths.links.open_since(run)) {
            (_, None) => return self.end_detour(slot),
            (Some(datagram), Some(_)) => datagram.max(awake_since),
            (None, Some(opened)) => opened.max(awake_since),
        };
        if self.cx.now.since(since) >= patience {
            // The datagram that goes with the frame may still be on its way.
            let patience = timing.heartbeat_interval().min(timing.suspect_timeout() / 4);
            let doubted = self.paths.detours.unheard_since(run).filter(|doubted| now.since(*doubted) >= patience);
            let is_answer = |heard: &Time| doubted.is_some_and(|doubted| *heard > doubted.max(since));
            let is_alive =
                heard.filter(is_answer).is_some_and(|heard| self.cx.now.since(heard) < timing.suspect_timeout());
            self.take_detour(slot, is_alive).unheard_since.get_or_insert(now);
            self.tell_of_detour(slot);
        } else {
            self.end_detour(slot);
        }
    }

    /// Doubts a newly linked member's datagrams at once if none ever came, and datagrams are in doubt elsewhere as
    /// well: the first news between the two does not wait for missing heartbeats.
    pub(super) fn doubt_datagrams_at_once(&mut self, slot: Slot) {
        let session = self.view.entry(slot).peer.session.as_ref();
        if session.is_none_or(|session| session.datagram.is_none()) && self.are_datagrams_in_doubt() {
            let now = self.cx.now;
            self.take_detour(slot, false).unheard_since.get_or_insert(now);
        }
    }

    /// Takes a member's word that this node's datagrams do not come, and sends it something at once: if this node was
    /// merely silent, the member hears that, and says so no more.
    pub(crate) fn on_unheard(&mut self, slot: Slot) {
        if !self.is_linked(self.view.record(slot).run) {
            return;
        }
        // A member says so with each of its heartbeats at least; one that begins to doubt anew does not do so that
        // soon.
        let (now, pause) = (self.cx.now, self.slower_heartbeat(slot) * 5 / 4);
        let patience = self.cx.settings.suspect_timeout / 4;
        let detour = self.take_detour(slot, false);
        let before = detour.told.filter(|told| now.since(told.last) < pause);
        let says_something = before.is_none_or(|told| now.since(told.answered) >= patience / 2);
        let since = before.map_or(now, |told| told.since);
        let answered = before.filter(|_| !says_something).map_or(now, |told| told.answered);
        detour.told = Some(Told { since, last: now, answered });
        detour.is_certain |= now.since(since) >= patience;
        if says_something {
            self.gossip_to(slot, Carrier::Other);
        }
        self.tell_of_detour(slot);
    }

    /// Opens or renews a member's detour: everything goes both ways for a while from now on.
    fn take_detour(&mut self, slot: Slot, is_certain: bool) -> &mut Detour {
        let until = self.cx.now + self.detour_lasts(slot);
        let new = Detour { until, unheard_since: None, told: None, is_certain, is_told: false };
        let detour = self.paths.detours.of.entry(self.view.record(slot).run).or_insert(new);
        detour.until = until;
        detour.is_certain |= is_certain;
        detour
    }

    /// Tells the operator, once, that a member's datagrams do not pass.
    fn tell_of_detour(&mut self, slot: Slot) {
        let Record { run, ref id, .. } = **self.view.record(slot);
        let is_news = |detour: &Detour| detour.is_certain && !detour.is_told;
        if self.paths.detours.of.get(&run).is_some_and(is_news) {
            let notice = Notice::DatagramsBlocked { id: id.clone() };
            let is_told = self.cx.notice_if_allowed("datagrams", notice);
            if let Some(detour) = self.paths.detours.of.get_mut(&run) {
                detour.is_told = is_told;
            }
        }
    }

    /// Returns the time for which a detour lasts that is not renewed.
    fn detour_lasts(&self, slot: Slot) -> Duration {
        self.slower_heartbeat(slot) * (DETOUR_HEARTBEATS + 1)
    }

    fn slower_heartbeat(&self, slot: Slot) -> Duration {
        self.view.record(slot).timing.heartbeat_interval().max(self.cx.settings.heartbeat_interval)
    }

    /// Ends the detour of a member whose datagrams come, unless the member keeps saying that this node's do not.
    pub(crate) fn end_detour(&mut self, slot: Slot) {
        if self.paths.detours.of.is_empty() {
            return;
        }
        let record = self.view.record(slot);
        let (run, id) = (record.run, record.id.clone());
        let is_linked = self.is_linked(run);
        let Some(detour) = self.paths.detours.of.get_mut(&run) else { return };
        detour.unheard_since = None;
        if is_linked && detour.until > self.cx.now {
            return;
        }
        if self.paths.detours.of.remove(&run).is_some_and(|detour| detour.is_told) && is_linked {
            self.cx.output(Output::Notice(Notice::DatagramsPass { id }));
        }
    }

    /// Sends a voter's word. A lease may end before heartbeats notice that a datagram is missing, so that a copy goes
    /// by the link as soon as one is late.
    pub(crate) fn send_word_to(&mut self, slot: Slot, packet: PacketBuilder) {
        debug_assert!(slot != View::ME);
        let record = self.view.record(slot);
        let (run, late) = (record.run, record.timing.heartbeat_interval().min(self.renewal_interval()) * 3 / 2);
        let session = self.view.entry(slot).peer.session.as_ref();
        let is_late = session.is_none_or(|session| is_due(self.cx.now, session.datagram, late));
        let wants_link = !self.observers.observes(slot) && self.mind_partner(slot);
        if is_late && !self.paths.detours.is_open(run) && self.is_linked(run) {
            let bytes = packet.finish();
            self.out().copy_to_link(run, &bytes);
            self.out().transmit_bytes_at_home(slot, bytes);
            return;
        }
        if wants_link && !self.is_linked(run) {
            // The word is kept for the link: the lease may end before there is another one.
            let bytes = packet.finish();
            if let Some(partner) = self.paths.detours.partners.get_mut(&run) {
                partner.unsent = Some(bytes.clone());
            }
            self.out().transmit_bytes_at_home(slot, bytes);
            return;
        }
        self.out().send_to(slot, packet);
    }

    /// Sends the word that a link was opened for, as the link stands.
    pub(super) fn send_unsent(&mut self, run: Run) {
        let unsent = self.paths.detours.partners.get_mut(&run).and_then(|partner| partner.unsent.take());
        if let Some(bytes) = unsent {
            self.out().copy_to_link(run, &bytes);
        }
    }

    /// Takes note of a word to a voter that is no neighbour, and opens a link if that voter does not answer; returns
    /// true if a link is wanted.
    fn mind_partner(&mut self, slot: Slot) -> bool {
        let record = self.view.record(slot);
        // Each word is answered. A slow voter may hold a short lease.
        let patience = (record.timing.heartbeat_interval() * DETOUR_HEARTBEATS).min(self.renewal_interval());
        let run = record.run;
        let heard = self.view.entry(slot).peer.session.as_ref().and_then(|session| session.datagram);
        let now = self.cx.now;
        if !self.make_room_for_partner(run) {
            return false;
        }
        let new = Partner { asked: now, last: now, unsent: None, wanted_until: None };
        let partner = self.paths.detours.partners.entry(run).or_insert(new);
        partner.last = now;
        if heard.is_some_and(|heard| heard >= partner.asked) {
            *partner = Partner { asked: now, last: now, unsent: None, wanted_until: None };
        } else if now.since(partner.asked) >= patience {
            partner.wanted_until = Some(now + LINK_LINGER);
            self.ensure_link(slot);
            return true;
        }
        false
    }

    /// Makes room for a member among the partners, which one gives that nothing was said to for long; returns false if there is
    /// none.
    fn make_room_for_partner(&mut self, run: Run) -> bool {
        let partners = &mut self.paths.detours.partners;
        partners.retain(|other, _| self.view.slot_of_run(*other).is_some());
        if partners.contains_key(&run) || partners.len() < MAX_PARTNERS {
            return true;
        }
        let idle = LINK_LINGER.max(self.renewal_interval().saturating_mul(2));
        let partners = &mut self.paths.detours.partners;
        let gives_way =
            partners.iter().find(|(_, partner)| self.cx.now.since(partner.last) >= idle).map(|(run, _)| *run);
        gives_way.is_some_and(|run| partners.remove(&run).is_some())
    }
}
