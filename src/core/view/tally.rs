//! The sums over a view: its fingerprint, the digest of its parts, its members by status, its changes.
//!
//! Invariant: the fingerprint is the wrapping sum of the hashes of all records that are not Joining: equal sets of records
//! have equal fingerprints in whatever order they were learnt.
//!
//! Must not know: the members.

use crate::member::Status;

/// The number of buckets of names in which records are compared when views differ.
pub(crate) const BUCKETS: usize = 256;

/// The sums over the records of a view.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    fingerprint: u64,
    /// The fingerprint of each bucket of names; empty until the first member.
    buckets: Vec<u64>,
    changes: u64,
    counts: [usize; Status::NAMES.len()],
}

impl Tally {
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the number of records that were added or replaced so far.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the number of members by status.
    pub(super) fn counts(&self) -> [usize; Status::NAMES.len()] {
        self.counts
    }

    /// Returns 32 bits for each bucket.
    pub(super) fn digest(&self) -> Vec<u8> {
        self.buckets.iter().flat_map(|sum| ((sum >> 32) as u32 ^ *sum as u32).to_le_bytes()).collect()
    }

    /// Adds a record with this hash, of a member whose name has the hash `name_hash`.
    pub(super) fn add(&mut self, status: Status, hash: u64, name_hash: u64) {
        let hash = counted(status, hash);
        let bucket = self.bucket(name_hash);
        *bucket = bucket.wrapping_add(hash);
        self.fingerprint = self.fingerprint.wrapping_add(hash);
        self.counts[status.index()] += 1;
        self.changes += 1;
    }

    /// Takes a record out that was added.
    pub(super) fn take(&mut self, status: Status, hash: u64, name_hash: u64) {
        let hash = counted(status, hash);
        let bucket = self.bucket(name_hash);
        *bucket = bucket.wrapping_sub(hash);
        self.fingerprint = self.fingerprint.wrapping_sub(hash);
        self.counts[status.index()] -= 1;
    }

    fn bucket(&mut self, name_hash: u64) -> &mut u64 {
        self.buckets.resize(BUCKETS, 0);
        &mut self.buckets[name_hash as usize % BUCKETS]
    }
}

/// Returns what a record adds to the fingerprint: nothing while it is Joining.
fn counted(status: Status, hash: u64) -> u64 {
    if status == Status::Joining { 0 } else { hash }
}
