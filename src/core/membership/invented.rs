//! Invention: names that members tell of anew cost memory everywhere, and nobody can tell at once that nobody is there.
//!
//! Whoever is a member can name thousands of members that do not exist. So a name that is not in the view is taken
//! from a member only up to a budget: as many at once as an island brings along, and then a trickle. News of a true
//! member comes from several members, of whom each has a budget of its own; and what is left out is offered again
//! whenever views are compared. Names that others told of and that have not settled since are bounded in all, in number
//! and in the size of their texts (full tags take ten times the memory of none); a record that is told with longer
//! texts than there is room for is refused like a name, unless its member has answered this node. Of those that are gone by then and never answered, a few are remembered, and the others are forgotten before their
//! time.
//!
//! True and invented names look alike, and the true ones must not wait their turn among the others. So while there are
//! more than [`MANY_NAMES`](crate::core::limits::MANY_NAMES), whoever echoed to this node, or settled, comes first wherever members are told of: in
//! floods, in gossip, when views are compared, and when a joiner is served the view. News goes to members that echoed,
//! too, since invented neighbours pass nothing on. And of names that are refused, some are asked whether they are there:
//! a member's own word needs no budget.
//!
//! Invariants:
//! - A node that joins takes the whole view of its sponsor: it has nothing better.
//! - A member's own word about itself, when it introduces itself, needs no budget: `joining` bounds those.
//! - The budget belongs to a name, not to its run: who restarts has no new one.
//!
//! Must not know: how it is found out that nobody is there (see `detection`).

use crate::core::counters::DropReason;
use crate::core::doors::Notice;
use crate::core::limits::{
    FORGET_GHOSTS_AFTER, MAX_GHOSTS, MAX_GHOSTS_FORGOTTEN, MAX_UNSETTLED_BYTES, MAX_UNSETTLED_NAMES, NAMES_AT_ONCE,
    NAMES_PER_SECOND,
};
use crate::core::member::{Record, Status};
use crate::core::time::Time;
use crate::core::view::{Slot, View};
use crate::core::{Core, Phase};

impl Core {
    /// Returns true if a member that is not in the view is named by another one, after this node joined.
    pub(super) fn is_named_by_another(&self, record: &Record, from: Option<Slot>) -> bool {
        let is_own_word = from.is_none_or(|from| self.view.record(from).run == record.run);
        !is_own_word && !matches!(self.phase, Phase::Joining(_))
    }

    /// Returns true if a name that is not in the view is one more than this member may tell of now, or than there is room
    /// for; else takes it from the member's budget.
    pub(super) fn is_one_name_too_many(&mut self, record: &Record, from: Option<Slot>) -> bool {
        let Some(teller) = from.filter(|_| self.is_named_by_another(record, from)) else { return false };
        let price = std::time::Duration::from_secs(1) / NAMES_PER_SECOND;
        let names_paid_until = self.view.entry(teller).peer.rare().names_paid_until;
        let paid_until = names_paid_until.unwrap_or(self.now).max(self.now) + price;
        let has_room = self.view.unsettled_names() < MAX_UNSETTLED_NAMES
            && self.view.unsettled_bytes() + record.text_bytes() <= MAX_UNSETTLED_BYTES;
        if has_room && paid_until.since(self.now) <= price * NAMES_AT_ONCE {
            self.view.peer_mut(teller).rare_mut().names_paid_until = Some(paid_until);
            return false;
        }
        self.refuse_name(record, teller);
        true
    }

    /// Returns true if a member that is known by the word of others alone is told of with longer texts than there is room
    /// for.
    pub(super) fn is_too_wordy(&mut self, slot: Slot, record: &Record, from: Option<Slot>) -> bool {
        // A record without a teller comes from its owner, who introduced itself and was let in.
        let (Some(teller), entry) = (from, self.view.entry(slot)) else { return false };
        let more = record.text_bytes().saturating_sub(entry.record.text_bytes());
        if more == 0 || !entry.is_hearsay() || self.view.unsettled_bytes() + more <= MAX_UNSETTLED_BYTES {
            return false;
        }
        self.refuse_name(record, teller);
        true
    }

    /// Counts a name, or news of one, that is not taken from a member, and looks for its owner.
    fn refuse_name(&mut self, record: &Record, teller: Slot) {
        self.counters.drop(DropReason::Invented);
        let id = self.view.record(teller).id.clone();
        self.notice("too many names", Notice::TooManyNames { id });
        if matches!(record.status, Status::Up | Status::Leaving)
            && self.refused_names.allow(self.now, record.address, false)
        {
            self.ask_who(record.address);
        }
    }

    /// Forgets members that others named, that never answered this node and are gone: the longest gone, if there are
    /// more than [`MAX_GHOSTS`]. Each leaves a tombstone.
    pub(in crate::core) fn forget_ghosts(&mut self) {
        self.forgets_ghosts = false;
        if self.view.unsettled_names() <= MAX_GHOSTS {
            return;
        }
        let is_ghost = |slot: Slot| {
            let entry = self.view.entry(slot);
            let is_gone = matches!(entry.status, Status::Down | Status::Left(_));
            slot != View::ME && is_gone && entry.is_unsettled_name() && !entry.peer.is_proven()
        };
        let ghosts = self.view.iter().map(|(slot, _)| slot).filter(|slot| is_ghost(*slot));
        let mut ghosts: Vec<(Time, Slot)> = ghosts.map(|slot| (self.view.entry(slot).peer.last_sign(), slot)).collect();
        let spare = ghosts.len().saturating_sub(MAX_GHOSTS);
        let first = spare.min(MAX_GHOSTS_FORGOTTEN);
        if first < ghosts.len() {
            ghosts.select_nth_unstable(first);
        }
        ghosts.truncate(first);
        ghosts.retain(|(last_sign, _)| self.now.since(*last_sign) >= FORGET_GHOSTS_AFTER);
        // Those that are left out may be as old.
        self.forgets_ghosts = spare > first && ghosts.len() == first;
        for (_, slot) in ghosts {
            self.reap(slot);
        }
    }

    /// Goes on forgetting such members, if the last go was not enough.
    pub(in crate::core) fn forget_more_ghosts(&mut self) {
        if self.forgets_ghosts {
            self.forget_ghosts();
        }
    }
}
