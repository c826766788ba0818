//! TCP fallbacks: a member whose datagrams do not pass, and whose link does, gets everything by the link, too.
//!
//! ```text
//! no datagram of a linked member for 3/4 of its suspect timeout ─▶ unheard: all goes both ways, and says so
//!        a frame answers, and no datagram ─▶ degraded: the operator is told          a datagram comes ─▶ over
//! ```
//!
//! A process that stands still for a moment, or gets no processor, sends neither datagrams nor frames: silence alone
//! does not mean that datagrams are blocked. So only frames count that come after it was unheard, when everything goes
//! both ways.
//!
//! A firewall may drop the datagrams of one direction alone, so that a node that is not heard does not know it: each
//! packet to an unheard member carries [`Message::Unheard`], and a member that gets that sends everything both ways,
//! too. The member may have been silent itself: it sends something at once, and is sure only if it is still told so
//! after that.
//!
//! Invariants:
//! - While datagrams pass, nothing is sent, kept or looked up for fallbacks.
//! - Fallbacks end by themselves: they are renewed with every heartbeat, or are over.
//! - A copy by the link is the same packet under the same number: whichever comes first counts.
//!
//! Must not know: what is in the packets.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Paths;
use crate::context::Context;
use crate::io::{Notice, Output};
use crate::limits::{FALLBACK_HEARTBEATS, LINK_LINGER, MAX_PARTNERS};
use crate::member::{Record, Run};
use crate::time::Time;
use crate::view::{Slot, View};
#[cfg(doc)]
use crate::wire::Message;

/// Linked members whose datagrams are unheard, and members that are no neighbours and must be talked to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fallbacks {
    /// Fallbacks, by the member's run; at most one per link.
    of: BTreeMap<Run, Fallback>,
    /// Members that are no neighbours and are asked as voters, with the time of the first message to each that is not
    /// answered; at most [`MAX_PARTNERS`].
    partners: BTreeMap<Run, Partner>,
}

#[derive(Debug, Clone)]
struct Fallback {
    until: Time,
    /// The time at which this node noticed that the member's datagrams do not come here.
    unheard_since: Option<Time>,
    /// The member's report that this node's datagrams do not come there.
    told: Option<Told>,
    /// True if datagrams between the two certainly do not pass.
    is_certain: bool,
    /// True if the operator was told that datagrams do not pass.
    is_told: bool,
}

/// A member's report, made again and again, that this node's datagrams do not come there.
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
    /// The time of the last message to it.
    last: Time,
    /// The last message that a link was opened for: it goes over that link as soon as it stands.
    unsent: Option<Vec<u8>>,
    /// The time until which a link is wanted, if one is.
    wanted_until: Option<Time>,
}

impl Fallbacks {
    /// Returns true if the datagrams of any member are unheard.
    pub(crate) fn is_any(&self) -> bool {
        !self.of.is_empty()
    }

    /// Returns true if a member must be told that its datagrams do not come.
    pub(crate) fn is_unheard(&self, run: Run) -> bool {
        self.unheard_since(run).is_some()
    }

    /// Returns the time at which this node noticed that a member's datagrams do not come.
    fn unheard_since(&self, run: Run) -> Option<Time> {
        self.of.get(&run).and_then(|fallback| fallback.unheard_since)
    }

    /// Returns true if everything that goes to a member goes by its link, too.
    pub(crate) fn is_open(&self, run: Run) -> bool {
        self.of.contains_key(&run)
    }

    /// Returns the members to and from which datagrams are known not to pass.
    pub(crate) fn certain(&self) -> impl Iterator<Item = Run> {
        self.of.iter().filter(|(_, fallback)| fallback.is_certain).map(|(run, _)| *run)
    }

    /// Returns true if a link to this member is wanted although it is no neighbour.
    pub(crate) fn wants_link(&self, run: Run, now: Time) -> bool {
        let partner = self.partners.get(&run);
        partner.and_then(|partner| partner.wanted_until).is_some_and(|until| until > now)
    }

    /// Makes room for a member among the partners, which one gives that nothing was said to for so long; returns false if there
    /// is none.
    fn make_room_for_partner(&mut self, now: Time, view: &View, run: Run, idle: Duration) -> bool {
        self.partners.retain(|other, _| view.slot_of_run(*other).is_some());
        if self.partners.contains_key(&run) || self.partners.len() < MAX_PARTNERS {
            return true;
        }
        let gives_way = self.partners.iter().find(|(_, partner)| now.since(partner.last) >= idle).map(|(run, _)| *run);
        gives_way.is_some_and(|run| self.partners.remove(&run).is_some())
    }

    /// Forgets a member that is gone, or to which there is no link any more.
    pub(crate) fn forget(&mut self, run: Run) {
        self.of.remove(&run);
    }
}

impl Paths {
    /// Checks, at each heartbeat to a neighbour, that its datagrams come; begins, renews or ends its fallback.
    pub(crate) fn check_datagrams(&mut self, cx: &mut Context, view: &View, awake_since: Time, slot: Slot) {
        let record = view.record(slot);
        let (run, timing) = (record.run, record.timing);
        let session = view.entry(slot).peer.session.as_ref();
        let (heard, datagram) = (session.map(|session| session.heard), session.and_then(|session| session.datagram));
        let patience = match datagram {
            // By then more than one heartbeat is missing, or it is late, and the member is not probed for its silence yet where its
            // heartbeats come within its suspect timeout.
            Some(_) => timing.suspect_timeout() * 3 / 4,
            // A neighbour says something with every heartbeat.
            None => (timing.heartbeat_interval() * FALLBACK_HEARTBEATS).min(timing.suspect_timeout() * 3 / 4),
        };
        let patience = patience.max(timing.heartbeat_interval() * 5 / 4);
        let now = cx.now;
        let since = match (datagram, self.links.open_since(run)) {
            (_, None) => return self.end_fallback(cx, view, slot),
            (Some(datagram), Some(_)) => datagram.max(awake_since),
            (None, Some(opened)) => opened.max(awake_since),
        };
        if cx.now.since(since) >= patience {
            // The datagram that goes with the frame may still be on its way.
            let patience = timing.heartbeat_interval().min(timing.suspect_timeout() / 4);
            let unheard = self.fallbacks.unheard_since(run).filter(|unheard| now.since(*unheard) >= patience);
            let is_answer = |heard: &Time| unheard.is_some_and(|unheard| *heard > unheard.max(since));
            let is_alive = heard.filter(is_answer).is_some_and(|heard| cx.now.since(heard) < timing.longest_quiet());
            self.open_fallback(cx, view, slot, is_alive).unheard_since.get_or_insert(now);
            self.tell_of_fallback(cx, view, slot);
        } else {
            self.end_fallback(cx, view, slot);
        }
    }

    /// Opens a fallback to a newly linked member at once if no datagram of it ever came, and datagrams fail elsewhere as
    /// well: the first news between the two does not wait for missing heartbeats.
    pub(crate) fn open_fallback_at_once(&mut self, cx: &Context, view: &View, slot: Slot) {
        let session = view.entry(slot).peer.session.as_ref();
        if session.is_none_or(|session| session.datagram.is_none()) && self.are_datagrams_failing() {
            self.open_fallback(cx, view, slot, false).unheard_since.get_or_insert(cx.now);
        }
    }

    /// Takes a linked member's report that this node's datagrams do not come; returns true if it is to be sent something at
    /// once: if this node was merely silent, the member hears that, and says so no more.
    pub(crate) fn take_unheard(&mut self, cx: &Context, view: &View, slot: Slot) -> bool {
        // A member says so with each of its heartbeats at least; one that begins to miss them anew does not do so that
        // soon.
        let (now, pause) = (cx.now, slower_heartbeat(cx, view, slot) * 5 / 4);
        let patience = cx.settings.suspect_timeout / 4;
        let fallback = self.open_fallback(cx, view, slot, false);
        let before = fallback.told.filter(|told| now.since(told.last) < pause);
        let says_something = before.is_none_or(|told| now.since(told.answered) >= patience / 2);
        let since = before.map_or(now, |told| told.since);
        let answered = before.filter(|_| !says_something).map_or(now, |told| told.answered);
        fallback.told = Some(Told { since, last: now, answered });
        fallback.is_certain |= now.since(since) >= patience;
        says_something
    }

    /// Opens or renews a member's fallback: everything goes both ways for a while from now on.
    fn open_fallback(&mut self, cx: &Context, view: &View, slot: Slot, is_certain: bool) -> &mut Fallback {
        let until = cx.now + slower_heartbeat(cx, view, slot) * (FALLBACK_HEARTBEATS + 1);
        let new = Fallback { until, unheard_since: None, told: None, is_certain, is_told: false };
        let fallback = self.fallbacks.of.entry(view.record(slot).run).or_insert(new);
        fallback.until = until;
        fallback.is_certain |= is_certain;
        fallback
    }

    /// Tells the operator, once, that a member's datagrams do not pass.
    pub(crate) fn tell_of_fallback(&mut self, cx: &mut Context, view: &View, slot: Slot) {
        let Record { run, ref id, .. } = **view.record(slot);
        let is_news = |fallback: &Fallback| fallback.is_certain && !fallback.is_told;
        if self.fallbacks.of.get(&run).is_some_and(is_news) {
            let notice = Notice::DatagramsBlocked { id: id.clone() };
            let is_told = cx.notice("datagrams", notice);
            if let Some(fallback) = self.fallbacks.of.get_mut(&run) {
                fallback.is_told = is_told;
            }
        }
    }

    /// Ends the fallback of a member whose datagrams come, unless the member keeps saying that this node's do not.
    pub(crate) fn end_fallback(&mut self, cx: &mut Context, view: &View, slot: Slot) {
        if self.fallbacks.of.is_empty() {
            return;
        }
        let record = view.record(slot);
        let (run, id) = (record.run, record.id.clone());
        let is_linked = self.links.open(run).is_some();
        let Some(fallback) = self.fallbacks.of.get_mut(&run) else { return };
        fallback.unheard_since = None;
        if is_linked && fallback.until > cx.now {
            return;
        }
        if self.fallbacks.of.remove(&run).is_some_and(|fallback| fallback.is_told) && is_linked {
            cx.output(Output::Notice(Notice::DatagramsPass { id }));
        }
    }

    /// Sends the message that a link was opened for, as the link stands.
    pub(crate) fn send_unsent(&mut self, cx: &mut Context, run: Run) {
        let unsent = self.fallbacks.partners.get_mut(&run).and_then(|partner| partner.unsent.take());
        if let Some(bytes) = unsent {
            self.copy_to_link(cx, run, &bytes);
        }
    }

    /// Keeps a message to a voter for the link that is wanted: the lease may end before there is another one.
    pub(crate) fn keep_for_link(&mut self, run: Run, bytes: &[u8]) {
        if let Some(partner) = self.fallbacks.partners.get_mut(&run) {
            partner.unsent = Some(bytes.to_vec());
        }
    }

    /// Sends a copy of a packet over the link to a member, if there is one.
    pub(crate) fn copy_to_link(&self, cx: &mut Context, run: Run, bytes: &[u8]) {
        if let Some(link) = self.links.open(run) {
            cx.send_frame(link, bytes.to_vec());
        }
    }

    /// Takes note of a message to a voter that is no neighbour; returns true if a link to it is wanted, since it does not answer.
    pub(crate) fn watch_partner(&mut self, cx: &Context, view: &View, renewal_interval: Duration, slot: Slot) -> bool {
        let record = view.record(slot);
        // Each message is answered. A slow voter may hold a short lease.
        let patience = (record.timing.heartbeat_interval() * FALLBACK_HEARTBEATS).min(renewal_interval);
        let (now, run) = (cx.now, record.run);
        let heard = view.entry(slot).peer.session.as_ref().and_then(|session| session.datagram);
        let idle = LINK_LINGER.max(renewal_interval.saturating_mul(2));
        if !self.fallbacks.make_room_for_partner(now, view, run, idle) {
            return false;
        }
        let new = Partner { asked: now, last: now, unsent: None, wanted_until: None };
        let partner = self.fallbacks.partners.entry(run).or_insert_with(|| new.clone());
        partner.last = now;
        if heard.is_some_and(|heard| heard >= partner.asked) {
            *partner = new;
            return false;
        }
        let is_wanted = now.since(partner.asked) >= patience;
        if is_wanted {
            partner.wanted_until = Some(now + LINK_LINGER);
        }
        is_wanted
    }
}

/// Returns the longer of a member's heartbeat interval and this node's own.
fn slower_heartbeat(cx: &Context, view: &View, slot: Slot) -> Duration {
    view.record(slot).timing.heartbeat_interval().max(cx.settings.heartbeat_interval)
}
