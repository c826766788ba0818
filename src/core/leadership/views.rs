//! Agreed views: how every member gets the contents that voters agreed on, and a voter those that a leader proposes to
//! it.
//!
//! News names a view by number and hash, and most often carries the difference from the one before. A node that cannot
//! apply the difference asks for the whole view, in parts, and checks its hash. Parts may come in any order. The node
//! that told of the view is asked first, and if that does not answer (it may be the leader, dead by now), voters and
//! others in turn.
//!
//! Where members come and go all the time, the next view is agreed before all parts of a long one are fetched: so what
//! comes is fetched to its end, of the one that sends it, and every node still sends those few views that it held, or was
//! asked for, last.
//!
//! Invariants: one view is fetched at a time, the newest that was heard of when it was begun; its names are bounded by the
//! members that a view of the cluster may have, its early parts by [`VIEW_PARTS`]; contents that do not have the
//! promised hash are thrown away.
//!
//! Must not know: how views are agreed.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::{Lead, LeadContext, LeadStep};
use crate::counters::DropReason;
use crate::election::{Delta, Descent, Digest, Electorate, NumberedView, Rank, ViewRef, VoterChange};
use crate::io::Output;
use crate::limits::{
    MAX_FETCH_TRIES, MAX_MEMBERS, MAX_RECENT_VIEWS, VIEW_FETCH_RETRY, VIEW_PART_TRIES, VIEW_PARTS,
    VIEW_PARTS_PER_SECOND,
};
use crate::member::{NodeId, Run};
use crate::time::Time;
use crate::view::{Slot, View};
use crate::wire::{Message, ViewPart, WantView};

/// A view that is being fetched.
#[derive(Debug, Clone)]
pub(super) struct Fetch {
    view: ViewRef,
    /// The node that told of it, or sent a part of it last.
    from: Run,
    /// The nodes that were asked for it.
    asked: Vec<Run>,
    /// The parts that came before the ones that they follow.
    early: Vec<ViewPart>,
    /// The rank of its electorate, if the view is known to be agreed; `None` if a leader only proposed it to this voter.
    agreed_in: Option<Rank>,
    members: Vec<NodeId>,
    electorate: Option<(Electorate, Option<VoterChange>)>,
    /// The number of parts still to come of those that were asked for.
    awaited: u8,
    pub(super) retry_at: Time,
    tries: u8,
}

impl Fetch {
    fn new(view: ViewRef, from: Run, agreed_in: Option<Rank>, now: Time) -> Self {
        Self {
            view,
            from,
            asked: Vec::new(),
            early: Vec::new(),
            agreed_in,
            members: Vec::new(),
            electorate: None,
            awaited: 0,
            retry_at: now,
            tries: 0,
        }
    }

    pub(super) fn is_agreed(&self) -> bool {
        self.agreed_in.is_some()
    }

    /// Returns true if what was asked for is under way, as far as one can tell.
    fn is_coming(&self) -> bool {
        self.tries <= if self.electorate.is_some() { VIEW_PART_TRIES } else { 1 }
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

/// Agreed views.
impl Lead {
    /// Gets the election machine the contents of a view that a leader proposed to it.
    pub(super) fn want_view(&mut self, cx: &mut LeadContext<'_>, view: ViewRef, from: &NodeId) {
        let Some(slot) = cx.view.slot_of(from.as_str()) else { return };
        match self.agreed.as_ref().filter(|held| held.reference().digest == view.digest) {
            Some(held) => {
                let contents = held.under(view.term);
                self.with_election(cx, |election, context| election.contents(context, &contents));
            }
            None => self.fetch(cx, view, slot, None),
        }
    }

    /// Takes news of an agreed view.
    pub(super) fn take_news_of_view(
        &mut self,
        cx: &mut LeadContext<'_>,
        from: Slot,
        view: ViewRef,
        of: &Descent,
        delta: Option<&Delta>,
    ) {
        let held = self.agreed.as_ref();
        if held.is_some_and(|held| key(held) >= (of.rank(), view.number)) {
            return;
        }
        let accepted = self.election.view_of(view.digest).map(|accepted| accepted.under(view.term));
        let by_delta = || held?.changed_by(delta?, view);
        match accepted.filter(|found| found.reference() == view).or_else(by_delta) {
            Some(found) => self.learn_agreed(cx, found, delta.cloned()),
            None => self.fetch(cx, view, from, Some(of.rank())),
        }
    }

    /// Takes a view that is agreed.
    pub(super) fn learn_agreed(&mut self, cx: &mut LeadContext<'_>, view: NumberedView, delta: Option<Delta>) {
        self.forget_lower();
        if self.followed.is_some() {
            return self.follow_view(cx, view);
        }
        if let Some(held) = self.agreed.as_mut().filter(|held| key(held) >= key(&view)) {
            let is_it = held.reference().digest == view.reference().digest;
            if is_it && key(held) == key(&view) && held.term < view.term {
                // The held view, now under its next leader.
                *held = view;
            }
            return;
        }
        let descent = view.electorate.descent();
        self.end_for(cx, &descent);
        self.last_delta = delta.or_else(|| self.agreed.as_ref().map(|held| view.since(held)));
        if let Some(before) = self.agreed.replace(view.clone()) {
            self.keep_a_while(before);
        }
        self.fetch.take_if(|fetch| fetch.agreed_in.is_some_and(|rank| (rank, fetch.view.number) <= key(&view)));
        // The founding view has no members: it is no news.
        if !view.members.is_empty() {
            self.output(Output::ViewAgreed(view.clone()));
        }
        self.make_sure_of(cx, descent);
        self.end_if_left_out(cx, &view);
        self.flood(cx);
    }
}

/// Returns the place of a view among all agreed ones.
fn key(view: &NumberedView) -> (Rank, u64) {
    (view.electorate.descent().rank(), view.number)
}

/// The view that is being fetched.
impl Lead {
    fn fetch(&mut self, cx: &mut LeadContext<'_>, view: ViewRef, from: Slot, agreed_in: Option<Rank>) {
        let is_first = |fetch: &Fetch| match (fetch.agreed_in, agreed_in) {
            (Some(one), Some(other)) if one != other => one > other,
            _ => fetch.view > view || fetch.is_coming(),
        };
        if self.fetch.as_ref().is_some_and(|fetch| fetch.view == view || is_first(fetch)) {
            return;
        }
        self.fetch = Some(Fetch::new(view, cx.view.record(from).run, agreed_in, cx.now));
        self.fetch_again(cx);
    }

    /// Asks for the next parts, or gives up: the next news of the view begins anew.
    pub(super) fn fetch_again(&mut self, cx: &mut LeadContext<'_>) {
        let now = cx.now;
        let Some(mut fetch) = self.fetch.take_if(|fetch| now >= fetch.retry_at) else { return };
        fetch.tries += 1;
        let Some(slot) = self.whom_to_ask(cx.view, &fetch) else {
            if fetch.is_agreed() {
                self.go_back();
            }
            return;
        };
        let run = cx.view.record(slot).run;
        if !fetch.asked.contains(&run) {
            fetch.asked.truncate(usize::from(MAX_FETCH_TRIES));
            fetch.asked.insert(0, run);
        }
        let rtt = cx.view.entry(slot).peer.rtt().unwrap_or(Duration::ZERO);
        fetch.retry_at = now + (rtt * 2).max(VIEW_FETCH_RETRY);
        fetch.awaited = VIEW_PARTS;
        let want = WantView { digest: fetch.view.digest, after: fetch.members.last().cloned() };
        self.steps.push(LeadStep::tell(slot, Message::WantView(want)));
        self.fetch = Some(fetch);
        self.schedule(cx);
    }

    /// Returns the node to ask: the one that told of the view or sends it, at first; then a voter or, now and then, any
    /// member. Every node that holds the view answers.
    fn whom_to_ask(&mut self, view: &View, fetch: &Fetch) -> Option<Slot> {
        let tries = fetch.tries;
        if tries > MAX_FETCH_TRIES {
            return None;
        }
        let is_there = |slot: &Slot| *slot != View::ME && view.entry(*slot).status.is_live();
        let teller = view.slot_of_run(fetch.from).filter(is_there);
        // The voters that are known hold no view of an electorate that they may end for.
        let is_of_other = self.followed.is_some();
        if teller.is_some() && (fetch.is_coming() || is_of_other && !tries.is_multiple_of(2)) {
            return teller;
        }
        let voters = self.electorate().into_iter().flat_map(|electorate| &electorate.voters);
        let voters: Vec<Slot> = voters.filter_map(|voter| view.slot_of(voter.id.as_str())).filter(is_there).collect();
        if is_of_other || tries.is_multiple_of(3) || voters.is_empty() {
            return view.live().choose(&mut self.random).copied().or(teller);
        }
        voters.choose(&mut self.random).copied()
    }

    /// Takes a part of the view that is being fetched.
    pub(crate) fn on_view_part(&mut self, cx: &mut LeadContext<'_>, from: Slot, part: ViewPart) {
        let run = cx.view.record(from).run;
        let is_awaited = |fetch: &&mut Fetch| {
            fetch.asked.contains(&run)
                && fetch.view.digest == part.digest
                && fetch.members.last() <= part.after.as_ref()
        };
        let Some(fetch) = self.fetch.as_mut().filter(is_awaited) else {
            return cx.counters.drop(DropReason::Unasked);
        };
        fetch.awaited = fetch.awaited.saturating_sub(1);
        let is_early = fetch.members.last() != part.after.as_ref();
        if is_early && (fetch.early.len() >= usize::from(VIEW_PARTS) || fetch.early.contains(&part)) {
            return cx.counters.drop(DropReason::Unasked);
        }
        let is_whole = if is_early {
            fetch.early.push(part);
            false
        } else {
            (fetch.tries, fetch.from) = (0, run);
            fetch.take(part)
        };
        if is_whole {
            self.complete_fetch(cx);
        } else if fetch.awaited == 0 {
            fetch.retry_at = cx.now;
            self.fetch_again(cx);
        }
    }

    fn complete_fetch(&mut self, cx: &mut LeadContext<'_>) {
        let Some(fetch) = self.fetch.take() else { return };
        if fetch.members.len() > MAX_MEMBERS {
            return cx.counters.drop(DropReason::Malformed);
        }
        let Some((electorate, change)) = fetch.electorate else { return };
        let ViewRef { term, number, .. } = fetch.view;
        let view = NumberedView::new(term, number, fetch.members.into(), Arc::new(electorate), change.map(Arc::new));
        if view.reference() != fetch.view || !view.is_well_formed() || !term.is_in_bounds() {
            return cx.counters.drop(DropReason::Malformed);
        }
        if fetch.agreed_in.is_some() {
            self.learn_agreed(cx, view, None);
        } else {
            self.with_election(cx, |election, context| election.contents(context, &view));
        }
    }
}

/// Views for others.
impl Lead {
    /// Sends a member the parts of a view that it wants.
    pub(crate) fn on_want_view(&mut self, cx: &mut LeadContext<'_>, to: Slot, want: &WantView) {
        let Some(view) = self.view_of(want.digest) else { return cx.counters.drop(DropReason::Unasked) };
        if !cx.view.entry(to).peer.is_proven() {
            return cx.counters.drop(DropReason::RateLimited);
        }
        self.keep_a_while(view.clone());
        let mut after = want.after.clone();
        for _ in 0..VIEW_PARTS {
            if !take_view_part(cx, to, &view) {
                return cx.counters.drop(DropReason::RateLimited);
            }
            let first = after.as_ref().map_or(0, |after| view.members.partition_point(|id| id <= after));
            let is_first = after.is_none();
            let mut bytes = if is_first { 700 } else { 60 };
            let room = cx.datagram_bytes - 100;
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
            self.steps.push(LeadStep::tell(to, Message::ViewPart(Box::new(part))));
            if !has_more || after.is_none() {
                break;
            }
        }
    }

    /// Keeps a view for those who ask for it, or for more of it, when there are newer ones.
    fn keep_a_while(&mut self, view: NumberedView) {
        self.recent_views.retain(|recent| recent.reference().digest != view.reference().digest);
        self.recent_views.push_front(view);
        self.recent_views.truncate(MAX_RECENT_VIEWS);
    }

    fn view_of(&self, digest: Digest) -> Option<NumberedView> {
        let agreed = self.agreed.as_ref().filter(|view| view.reference().digest == digest);
        let recent = || self.recent_views.iter().find(|view| view.reference().digest == digest);
        agreed.or_else(|| self.election.view_of(digest)).or_else(recent).cloned()
    }
}

/// Returns true if a member may be sent a part of a view now, and counts the part: a whole view at once, twice as
/// parts are lost, and then [`VIEW_PARTS_PER_SECOND`].
fn take_view_part(cx: &mut LeadContext<'_>, to: Slot, view: &NumberedView) -> bool {
    let price = Duration::from_secs(1) / VIEW_PARTS_PER_SECOND;
    let bytes: usize = view.members.iter().map(|id| id.as_str().len() + 1).sum();
    let parts = bytes / (cx.datagram_bytes / 2) + usize::from(VIEW_PARTS);
    let credit = price * 2 * u32::try_from(parts).unwrap_or(u32::MAX);
    let paid_until = &mut cx.view.peer_mut(to).rare_mut().view_parts_paid_until;
    let next = paid_until.unwrap_or(cx.now).max(cx.now) + price;
    let is_paid = next.since(cx.now) <= credit;
    if is_paid {
        *paid_until = Some(next);
    }
    is_paid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::Term;

    #[test]
    fn a_view_that_is_fetched_has_no_more_names_than_there_may_be_members() {
        let view = ViewRef { term: Term(1), number: 1, digest: Digest(1) };
        let mut fetch = Fetch::new(view, Run(1), None, Time::ORIGIN);
        let part = |names: usize| ViewPart {
            digest: Digest(1),
            after: None,
            members: vec![NodeId::new("n").expect("a name"); names],
            more: true,
            electorate: None,
            change: None,
        };
        assert!(!fetch.take(part(MAX_MEMBERS)), "more may follow, if only the message that it is whole");
        assert!(fetch.take(part(1)), "one name more, and no part is taken any more");
    }
}
