//! Agreed views: how every member gets the contents that voters agreed on, and a voter those that a leader proposes to
//! it.
//!
//! News names a view by number and hash, and most often carries the difference from the one before. A node that cannot
//! apply the difference asks for the whole view, in parts, and checks its hash. Parts may come in any order. The node
//! that told of the view is asked first, and if that does not answer (it may be the leader, dead by now), voters and
//! others in turn.
//!
//! Invariants: one view is fetched at a time, the newest that was heard of; its names are bounded by the members that a
//! view of the cluster may have, its early parts by [`VIEW_PARTS`]; contents that do not have the promised hash are
//! thrown away.
//!
//! Must not know: how views are agreed.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::{Core, NodeId, NumberedView, Output, Term, View};
use crate::counters::DropReason;
use crate::election::{Delta, Digest, ViewRef};
use crate::limits::{MAX_FETCH_TRIES, MAX_MEMBERS, VIEW_FETCH_RETRY, VIEW_PARTS, VIEW_PARTS_PER_SECOND};
use crate::member::Run;
use crate::time::Time;
use crate::view::Slot;
use crate::wire::{Message, ViewPart, WantView};

/// A view that is being fetched.
#[derive(Debug, Clone)]
pub(super) struct Fetch {
    view: ViewRef,
    /// The node that told of it.
    from: Run,
    /// The nodes that were asked for it.
    asked: Vec<Run>,
    /// The parts that came before the ones that they follow.
    early: Vec<ViewPart>,
    /// True if the view is known to be agreed, false if a leader only proposed it to this voter.
    is_agreed: bool,
    members: Vec<NodeId>,
    electorate: Option<(super::Electorate, Option<crate::election::VoterChange>)>,
    /// The number of parts still to come of those that were asked for.
    awaited: u8,
    retry_at: Time,
    tries: u8,
}

impl Fetch {
    pub(super) fn deadline(&self) -> Time {
        self.retry_at
    }

    /// Takes the next part, and all early parts that follow it. Returns true if the view is whole.
    fn take(&mut self, part: ViewPart) -> bool {
        let mut next = Some(part);
        while let Some(part) = next.take() {
            if part.after.is_none() {
                self.electorate = part.electorate.map(|electorate| (electorate, part.change));
            }
            self.members.extend(part.members);
            if !part.more || self.members.len() > MAX_MEMBERS {
                return true;
            }
            let follows = |early: &ViewPart| early.after.as_ref() == self.members.last();
            next = self.early.iter().position(follows).map(|at| self.early.swap_remove(at));
        }
        false
    }
}

impl Core {
    /// Gets the machine the contents of a view that a leader proposed to it.
    pub(super) fn want_view(&mut self, view: ViewRef, from: &NodeId) {
        let Some(slot) = self.view.slot_of(from.as_str()) else { return };
        let held = self.tracker.as_ref().and_then(|tracker| tracker.agreed.as_ref());
        if let Some(held) = held.filter(|held| held.reference().digest == view.digest) {
            let contents = held.under(view.term);
            self.with_election(|election, context| election.contents(context, &contents));
            return;
        }
        self.fetch(view, slot, false);
    }

    /// Takes news of an agreed view.
    pub(super) fn take_news_of_view(&mut self, from: Slot, view: ViewRef, began: Term, delta: Option<&Delta>) {
        let Some(tracker) = &self.tracker else { return };
        let held = tracker.agreed.as_ref();
        let is_newer = held.is_none_or(|held| (held.electorate.began, held.number) < (began, view.number));
        if !is_newer {
            return;
        }
        let accepted = self.election().and_then(|election| election.view_of(view.digest));
        let found = accepted.map(|accepted| accepted.under(view.term));
        let found = found.filter(|found| found.reference() == view);
        let by_delta = || held?.changed_by(delta?, view);
        match found.or_else(by_delta) {
            Some(found) => self.learn_agreed(found, delta.cloned()),
            None => self.fetch(view, from, true),
        }
    }

    /// Takes a view that is agreed.
    pub(super) fn learn_agreed(&mut self, view: NumberedView, delta: Option<Delta>) {
        let Some(tracker) = &mut self.tracker else { return };
        let key = |view: &NumberedView| (view.electorate.began, view.number);
        let is_newer = tracker.agreed.as_ref().is_none_or(|held| key(held) < key(&view));
        if !is_newer {
            if let Some(held) = tracker.agreed.as_mut().filter(|held| key(held) == key(&view) && held.term < view.term)
            {
                // The held view, now under its next leader.
                debug_assert_eq!(held.reference().digest, view.reference().digest, "one number, one content");
                *held = view;
            }
            return;
        }
        let delta = delta.or_else(|| tracker.agreed.as_ref().map(|held| view.since(held)));
        tracker.last_delta = delta;
        tracker.note_former_voters(&view.electorate);
        tracker.agreed = Some(view.clone());
        let descent = view.electorate.descent();
        tracker.recovered.take_if(|recovered| recovered.began <= descent.began);
        tracker.fetch.take_if(|fetch| fetch.is_agreed && fetch.view.number <= view.number);
        // The founding view has no members: it is no news.
        if !view.members.is_empty() {
            self.cx.output(Output::ViewAgreed(view));
        }
        self.make_sure_of(descent);
        self.flood_leadership();
    }

    fn fetch(&mut self, view: ViewRef, from: Slot, is_agreed: bool) {
        let run = self.view.record(from).run;
        let Some(tracker) = &mut self.tracker else { return };
        if tracker.fetch.as_ref().is_some_and(|fetch| fetch.view == view || (fetch.view > view && is_agreed)) {
            return;
        }
        tracker.fetch = Some(Fetch {
            view,
            from: run,
            asked: Vec::new(),
            early: Vec::new(),
            is_agreed,
            members: Vec::new(),
            electorate: None,
            awaited: 0,
            retry_at: self.cx.now,
            tries: 0,
        });
        self.fetch_again();
    }

    /// Asks for the next parts, or gives up: the next news of the view begins anew.
    pub(super) fn fetch_again(&mut self) {
        let now = self.cx.now;
        let Some(tracker) = &mut self.tracker else { return };
        let Some(fetch) = tracker.fetch.as_mut().filter(|fetch| now >= fetch.retry_at) else { return };
        fetch.tries += 1;
        let (from, tries) = (fetch.from, fetch.tries);
        let Some(slot) = self.whom_to_ask(from, tries) else {
            if let Some(tracker) = &mut self.tracker {
                tracker.fetch = None;
            }
            return;
        };
        let run = self.view.record(slot).run;
        let Some(fetch) = self.tracker.as_mut().and_then(|tracker| tracker.fetch.as_mut()) else { return };
        if !fetch.asked.contains(&run) {
            fetch.asked.truncate(usize::from(MAX_FETCH_TRIES));
            fetch.asked.insert(0, run);
        }
        let rtt = self.view.entry(slot).peer.rtt().unwrap_or(Duration::ZERO);
        fetch.retry_at = now + (rtt * 2).max(VIEW_FETCH_RETRY);
        fetch.awaited = VIEW_PARTS;
        let want = WantView { digest: fetch.view.digest, after: fetch.members.last().cloned() };
        let mut packet = self.out().packet_to(slot);
        packet.push(&Message::WantView(want));
        self.out().send_to(slot, packet);
        self.schedule_leadership();
    }

    /// Returns the node to ask: the one that told of the view, at first; then a voter or, now and then, any member.
    /// Every node that holds the view answers.
    fn whom_to_ask(&mut self, from: Run, tries: u8) -> Option<Slot> {
        if tries > MAX_FETCH_TRIES {
            return None;
        }
        let is_there = |slot: &Slot| *slot != View::ME && self.view.entry(*slot).status.is_live();
        let teller = self.view.slot_of_run(from).filter(is_there);
        if tries == 1 && teller.is_some() {
            return teller;
        }
        let electorate = self.electorate();
        let voters = electorate.iter().flat_map(|electorate| &electorate.voters);
        let voters: Vec<Slot> =
            voters.filter_map(|voter| self.view.slot_of(voter.id.as_str())).filter(is_there).collect();
        if tries.is_multiple_of(3) || voters.is_empty() {
            return self.view.live().choose(&mut self.random.lead).copied().or(teller);
        }
        voters.choose(&mut self.random.lead).copied()
    }

    /// Sends a member the parts of a view that it wants.
    pub(crate) fn on_want_view(&mut self, to: Slot, want: &WantView) {
        let Some(view) = self.view_of(want.digest) else { return self.cx.counters.drop(DropReason::Unasked) };
        if !self.view.entry(to).peer.is_proven() {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        let mut after = want.after.clone();
        for _ in 0..VIEW_PARTS {
            if !self.pay_for_view_part(to, &view) {
                return self.cx.counters.drop(DropReason::RateLimited);
            }
            let first = after.as_ref().map_or(0, |after| view.members.partition_point(|id| id <= after));
            let is_first = after.is_none();
            let mut bytes = if is_first { 700 } else { 60 };
            let room = self.datagram_bytes() - 100;
            let rest = &view.members[first..];
            let fits = |id: &&NodeId| {
                bytes += id.as_str().len() + 1;
                bytes <= room
            };
            let members: Vec<NodeId> = rest.iter().take_while(fits).cloned().collect();
            let has_more = members.len() < rest.len();
            let part = ViewPart {
                digest: want.digest,
                after: after.take(),
                electorate: is_first.then(|| (*view.electorate).clone()),
                change: view.change.as_deref().cloned().filter(|_| is_first),
                more: has_more,
                members,
            };
            after = part.members.last().cloned();
            let mut packet = self.out().packet_to(to);
            packet.push(&Message::ViewPart(Box::new(part)));
            self.out().send_to(to, packet);
            if !has_more || after.is_none() {
                break;
            }
        }
    }

    /// Returns true if a member may be sent a part of a view now, and counts the part: a whole view at once, twice as
    /// parts are lost, and then [`VIEW_PARTS_PER_SECOND`].
    fn pay_for_view_part(&mut self, to: Slot, view: &NumberedView) -> bool {
        let price = Duration::from_secs(1) / VIEW_PARTS_PER_SECOND;
        let bytes: usize = view.members.iter().map(|id| id.as_str().len() + 1).sum();
        let parts = bytes / (self.datagram_bytes() / 2) + usize::from(VIEW_PARTS);
        let credit = price * 2 * u32::try_from(parts).unwrap_or(u32::MAX);
        let now = self.cx.now;
        let rare = self.view.peer_mut(to).rare_mut();
        let paid_until = rare.view_parts_paid_until.unwrap_or(now).max(now) + price;
        let is_paid = paid_until.since(now) <= credit;
        if is_paid {
            rare.view_parts_paid_until = Some(paid_until);
        }
        is_paid
    }

    fn view_of(&self, digest: Digest) -> Option<NumberedView> {
        let tracker = self.tracker.as_ref()?;
        let agreed = tracker.agreed.as_ref().filter(|view| view.reference().digest == digest);
        agreed.or_else(|| tracker.election.as_ref()?.view_of(digest)).cloned()
    }

    /// Takes a part of the view that is being fetched.
    pub(crate) fn on_view_part(&mut self, from: Slot, part: ViewPart) {
        let run = self.view.record(from).run;
        let now = self.cx.now;
        let fetch = self.tracker.as_mut().and_then(|tracker| tracker.fetch.as_mut());
        let is_awaited = |fetch: &&mut Fetch| {
            fetch.asked.contains(&run)
                && fetch.view.digest == part.digest
                && fetch.members.last() <= part.after.as_ref()
        };
        let Some(fetch) = fetch.filter(is_awaited) else { return self.cx.counters.drop(DropReason::Unasked) };
        fetch.awaited = fetch.awaited.saturating_sub(1);
        let is_early = fetch.members.last() != part.after.as_ref();
        if is_early && (fetch.early.len() >= usize::from(VIEW_PARTS) || fetch.early.contains(&part)) {
            return self.cx.counters.drop(DropReason::Unasked);
        }
        let is_whole = if is_early {
            fetch.early.push(part);
            false
        } else {
            fetch.tries = 0;
            fetch.take(part)
        };
        if fetch.members.len() > MAX_MEMBERS {
            self.drop_fetch();
        } else if is_whole {
            self.complete_fetch();
        } else if fetch.awaited == 0 {
            fetch.retry_at = now;
            self.fetch_again();
        }
    }

    fn drop_fetch(&mut self) {
        self.cx.counters.drop(DropReason::Malformed);
        if let Some(tracker) = &mut self.tracker {
            tracker.fetch = None;
        }
    }

    fn complete_fetch(&mut self) {
        let Some(fetch) = self.tracker.as_mut().and_then(|tracker| tracker.fetch.take()) else { return };
        let Some((electorate, change)) = fetch.electorate else { return };
        let ViewRef { term, number, .. } = fetch.view;
        let view = NumberedView::new(term, number, fetch.members.into(), Arc::new(electorate), change.map(Arc::new));
        if view.reference() != fetch.view || !view.is_well_formed() || !is_term_plausible(term) {
            return self.drop_fetch();
        }
        if fetch.is_agreed {
            self.learn_agreed(view, None);
        } else {
            self.with_election(|election, context| election.contents(context, &view));
        }
    }
}

fn is_term_plausible(term: Term) -> bool {
    term.is_in_bounds()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_that_is_fetched_has_no_more_names_than_there_may_be_members() {
        let mut fetch = Fetch {
            view: ViewRef { term: Term(1), number: 1, digest: Digest(1) },
            from: Run(1),
            asked: Vec::new(),
            early: Vec::new(),
            is_agreed: true,
            members: Vec::new(),
            electorate: None,
            awaited: 0,
            retry_at: Time::ORIGIN,
            tries: 0,
        };
        let part = |names: usize| ViewPart {
            digest: Digest(1),
            after: None,
            members: vec![NodeId::new("n").expect("a name"); names],
            more: true,
            electorate: None,
            change: None,
        };
        assert!(!fetch.take(part(MAX_MEMBERS)), "more may follow, if only the word that it is whole");
        assert!(fetch.take(part(1)), "one name more, and no part is taken any more");
    }
}
