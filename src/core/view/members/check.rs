//! The invariants of the table, looked for member by member: tests ask after every run of a network.

use super::{LiveAt, View, generation_of, index_of};
use crate::view::tally::Tally;

impl View {
    /// Asserts that all that is counted, listed and looked up agrees with the members that are there.
    pub(crate) fn check(&self) {
        let mut tally = Tally::default();
        let (mut members, mut live) = (0, 0);
        for (index, entry) in
            self.entries.iter().enumerate().filter_map(|(index, entry)| Some((index, entry.as_ref()?)))
        {
            let id = &entry.record.id;
            let slot = self.slot_of(id.as_str()).expect("it is found by its name");
            assert_eq!((index_of(slot), generation_of(slot)), (index, entry.generation), "{id} is where its name says");
            let is_live = entry.status.is_live() && slot != View::ME;
            assert_eq!(self.slot_of_run(entry.record.run), Some(slot), "{id} is found by its run");
            assert_eq!(entry.status, entry.record.status, "{id}: its status is that of its record");
            assert_eq!(entry.hash, entry.record.hash(), "{id}: its hash is that of its record");
            assert_eq!(entry.live_at != LiveAt::NOWHERE, is_live, "{id} is listed if it lives");
            if let LiveAt(place) = entry.live_at
                && is_live
            {
                assert_eq!(self.live[place as usize], slot, "{id} is where it is listed");
            }
            members += 1;
            live += usize::from(is_live);
            tally.add(entry.status, entry.hash, entry.name_hash);
        }
        assert_eq!((self.len(), self.live.len()), (members, live), "as many as there are");
        assert_eq!(members + self.free.len(), self.entries.len(), "each place is taken or free");
        assert_eq!(self.fingerprint(), tally.fingerprint(), "the sum of all records");
        assert_eq!((self.counts(), self.digest()), (tally.counts(), tally.digest()), "by status, and by name");
    }
}
