//! [`Agreement`]: the views of the members that this node hears, compared by their fingerprints.
//!
//! Invariant: this node's own view is the first group, and no group is empty.
//!
//! Must not know: how fingerprints get here.

use std::time::Duration;

use crate::core::NodeId;

/// The greatest number of names in a group.
const MAX_NAMES: usize = 16;
/// The greatest number of groups; members of further ones count into the last.
const MAX_GROUPS: usize = 64;

/// The views of this node and of the live members that it hears, in groups of the same fingerprint. Views that differ for longer than a
/// change takes to spread (seconds) belong to a cluster that is cut, or to a defect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agreement {
    /// The groups: this node's own first, then in the order of the names in them.
    pub groups: Vec<SameView>,
    /// The number of live members of which nothing was heard lately, as of those that this node does not observe.
    pub unheard: usize,
    /// The longest time for which a member has held another view than this node did at each of its packets.
    pub differs_for: Duration,
}

/// The members whose views have the same fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SameView {
    /// The fingerprint of the view.
    pub fingerprint: u64,
    /// The number of members.
    pub count: usize,
    /// Their names, the first 16 of them.
    pub members: Vec<NodeId>,
}

impl Agreement {
    /// Begins with this node's own view.
    pub(super) fn of(fingerprint: u64, me: NodeId) -> Self {
        Self {
            groups: vec![SameView { fingerprint, count: 1, members: vec![me] }],
            unheard: 0,
            differs_for: Duration::ZERO,
        }
    }

    /// Adds a member.
    pub(super) fn add(&mut self, fingerprint: u64, id: &NodeId) {
        let last = self.groups.len() - 1;
        let place = self.groups.iter().position(|group| group.fingerprint == fingerprint);
        let place = place.or((self.groups.len() >= MAX_GROUPS).then_some(last));
        let Some(group) = place.and_then(|place| self.groups.get_mut(place)) else {
            return self.groups.push(SameView { fingerprint, count: 1, members: vec![id.clone()] });
        };
        group.count += 1;
        if group.members.len() < MAX_NAMES {
            group.members.push(id.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_their_names_are_bounded_and_everybody_counts() {
        let name = |place: usize| NodeId::new(&format!("n{place}")).expect("a name");
        let mut agreement = Agreement::of(0, name(0));
        for place in 1..200 {
            agreement.add(place as u64, &name(place));
        }
        assert_eq!(agreement.groups.len(), MAX_GROUPS);
        assert_eq!(agreement.groups.iter().map(|group| group.count).sum::<usize>(), 200);
        assert!(agreement.groups.iter().all(|group| group.members.len() <= MAX_NAMES));
    }
}
