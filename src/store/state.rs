//! The bytes of the state file.
//!
//! ```text
//! "hcstate\n"  version u16  body length u32  XXH3-64 of the body u64  body (postcard: Saved)      integers little-endian
//! ```
//!
//! | version | body |
//! |---|---|
//! | 1 | cluster, node, incarnation bound, addresses |
//! | 2 | the same, and the ballot of a voter, if there is one |
//! | 4 | the same; electorates say of which root they are, and when they began |
//! | 7 | the same; a ballot names the electorate that its node knows of |
//! | 8 | the same, and when the file was created |
//!
//! Of version 2 only files without a ballot are read. There are no versions 3, 5 and 6: one flipped bit would make them
//! another one.
//!
//! Invariant: whatever the bytes are, [`decode`] ends with a [`Saved`] that was once encoded or with the reason why not;
//! it never guesses. A new field means a new version, and a new version reads the old ones.
//!
//! Must not know: files.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::birth::Birth;
use crate::core::election::{Ballot, BallotV4};
use crate::core::limits::{MAX_MEMBERS, MAX_REMEMBERED_ADDRESSES};
use crate::core::{NodeId, Record};

/// The version that this build writes, and the newest that it reads.
pub(crate) const VERSION: u16 = 8;

/// The largest file that is read. All remembered addresses take about 6 KiB, the names of the largest view that a voter may
/// have accepted 8 MiB.
pub(crate) const MAX_BYTES: usize = MAX_MEMBERS * (NodeId::MAX_BYTES + 1) + 64 * 1024;

const MAGIC: &[u8; 8] = b"hcstate\n";
const HEADER_BYTES: usize = MAGIC.len() + 2 + 4 + 8;

/// What survives the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The cluster that it belongs to.
    pub(crate) cluster: NodeId,
    /// The node that wrote it.
    pub(crate) node: NodeId,
    /// No incarnation above this was ever used.
    pub(crate) incarnation_bound: u64,
    /// Last known addresses of other members.
    pub(crate) addresses: Vec<SocketAddr>,
    /// What a voter must not forget.
    pub(crate) ballot: Option<Ballot>,
    /// When the file was created that this was written to.
    pub(super) birth: Option<Birth>,
}

/// The body of version 1, and the beginning of that of version 2.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct SavedV1 {
    cluster: NodeId,
    node: NodeId,
    incarnation_bound: u64,
    addresses: Vec<SocketAddr>,
}

impl From<SavedV1> for Saved {
    fn from(SavedV1 { cluster, node, incarnation_bound, addresses }: SavedV1) -> Self {
        Self { cluster, node, incarnation_bound, addresses, ballot: None, birth: None }
    }
}

/// The body of version 4.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct SavedV4 {
    cluster: NodeId,
    node: NodeId,
    incarnation_bound: u64,
    addresses: Vec<SocketAddr>,
    ballot: Option<BallotV4>,
}

impl SavedV4 {
    fn today(self) -> Option<Saved> {
        let Self { cluster, node, incarnation_bound, addresses, ballot } = self;
        let ballot = ballot.map(Ballot::try_from).transpose().ok()?;
        Some(Saved { cluster, node, incarnation_bound, addresses, ballot, birth: None })
    }
}

/// The body of version 7.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct SavedV7 {
    cluster: NodeId,
    node: NodeId,
    incarnation_bound: u64,
    addresses: Vec<SocketAddr>,
    ballot: Option<Ballot>,
}

impl From<SavedV7> for Saved {
    fn from(SavedV7 { cluster, node, incarnation_bound, addresses, ballot }: SavedV7) -> Self {
        Self { cluster, node, incarnation_bound, addresses, ballot, birth: None }
    }
}

/// Why bytes are no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadState {
    /// Something else's file.
    #[error("this is no headcount state file")]
    NotState,
    /// The end is missing.
    #[error("it is truncated")]
    Truncated,
    /// Bytes have changed since they were written.
    #[error("it is damaged (its checksum or its contents are wrong)")]
    Damaged,
    /// The ballot of a voter in the format of version 2.
    #[error(
        "it holds the ballot of a voter as only versions before the first release wrote it: move the file away, and have \
         this node voted out and in again"
    )]
    OldBallot,
    /// Written by a newer program.
    #[error("it was written by a newer version (format {found}, this program knows {VERSION})")]
    Future {
        /// The format version found.
        found: u16,
    },
}

pub(crate) fn encode(saved: &Saved) -> Result<Vec<u8>, postcard::Error> {
    framed(VERSION, &postcard::to_allocvec(saved)?)
}

fn framed(version: u16, body: &[u8]) -> Result<Vec<u8>, postcard::Error> {
    let length = u32::try_from(body.len()).map_err(|_| postcard::Error::SerializeBufferFull)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(body).to_le_bytes());
    bytes.extend_from_slice(body);
    Ok(bytes)
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Saved, BadState> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(BadState::NotState);
    }
    let rest = bytes.get(MAGIC.len()..).ok_or(BadState::Truncated)?;
    let (version, rest) = rest.split_first_chunk().ok_or(BadState::Truncated)?;
    let version = u16::from_le_bytes(*version);
    match version {
        1 | 2 | 4 | 7 | VERSION => {}
        0 | 3 | 5 | 6 => return Err(BadState::Damaged),
        found => return Err(BadState::Future { found }),
    }
    let (length, rest) = rest.split_first_chunk().ok_or(BadState::Truncated)?;
    let (checksum, body) = rest.split_first_chunk().ok_or(BadState::Truncated)?;
    let length = u32::from_le_bytes(*length) as usize;
    if body.len() < length {
        return Err(BadState::Truncated);
    }
    if body.len() > length || xxhash_rust::xxh3::xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return Err(BadState::Damaged);
    }
    let saved = match version {
        1 => read::<SavedV1>(body).map(Saved::from),
        2 => return without_ballot(body),
        4 => read::<SavedV4>(body).and_then(SavedV4::today),
        7 => read::<SavedV7>(body).map(Saved::from),
        _ => read(body),
    };
    saved.filter(is_sensible).ok_or(BadState::Damaged)
}

/// The body of version 2 of a node that is no voter.
fn without_ballot(body: &[u8]) -> Result<Saved, BadState> {
    let (before, ballot) = postcard::take_from_bytes::<SavedV1>(body).map_err(|_| BadState::Damaged)?;
    match ballot {
        [0] => Some(Saved::from(before)).filter(is_sensible).ok_or(BadState::Damaged),
        [1, ..] => Err(BadState::OldBallot),
        _ => Err(BadState::Damaged),
    }
}

/// All of the bytes, or nothing.
fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(body).ok()?;
    rest.is_empty().then_some(value)
}

fn is_sensible(saved: &Saved) -> bool {
    let accepted = saved.ballot.as_ref().and_then(|ballot| ballot.accepted.as_ref());
    saved.incarnation_bound < Record::INCARNATION_LIMIT
        && saved.addresses.len() <= MAX_REMEMBERED_ADDRESSES
        && accepted.is_none_or(|view| view.members.len() <= MAX_MEMBERS)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::core::election::{Descent, Electorate, Identity, Lineage, NumberedView, Term, Voter};

    pub(crate) fn saved(addresses: usize) -> Saved {
        let addresses = (0..addresses).map(|i| SocketAddr::from(([10, 0, (i >> 8) as u8, i as u8], 7117))).collect();
        Saved {
            cluster: NodeId::new("c").expect("a name"),
            node: NodeId::new("a").expect("a name"),
            incarnation_bound: 1_700_000_000_000,
            addresses,
            ballot: None,
            birth: None,
        }
    }

    /// A voter's, that has accepted a view of so many members with the longest names.
    fn voters(members: usize) -> Saved {
        let me = Voter { id: NodeId::new("a").expect("a name"), identity: Identity(7) };
        let electorate = Arc::new(Electorate::founded_by(vec![me]));
        let members = (0..members).map(|i| NodeId::new(&format!("{i:063}")).expect("a name")).collect();
        let accepted = NumberedView::new(Term(3), 9, members, electorate, None);
        let promise = Duration::from_secs(15);
        let ballot = Ballot { version: 4, term: Term(3), promise, ..Ballot::blank(Identity(7)) };
        Saved { ballot: Some(Ballot { accepted: Some(accepted), ..ballot }), ..saved(3) }
    }

    #[test]
    fn a_ballot_survives_up_to_the_largest_view() {
        for members in [0, 3, MAX_MEMBERS] {
            let mut full = voters(members);
            full.addresses = saved(MAX_REMEMBERED_ADDRESSES).addresses;
            let bytes = encode(&full).expect("encodes");
            assert!(bytes.len() <= MAX_BYTES, "{}", bytes.len());
            assert!(decode(&bytes) == Ok(full), "{members} members");
        }
        assert_eq!(decode(&encode(&voters(MAX_MEMBERS + 1)).expect("encodes")), Err(BadState::Damaged));
    }

    #[test]
    fn a_ballot_whose_bytes_are_not_what_was_written_is_refused() {
        let bytes = encode(&voters(3)).expect("encodes");
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Err(BadState::Truncated), "{length} bytes");
        }
        // Also where the checksum was made to fit: a view that is not what its hash says is nobody's.
        let mut body = bytes[HEADER_BYTES..].to_vec();
        let name = body.len() - 41 - 2;
        body[name] ^= 1;
        assert_eq!(decode(&framed(VERSION, &body).expect("framed")), Err(BadState::Damaged));
    }

    #[test]
    fn the_format_before_ballots_is_read_and_what_comes_after_it_is_not_guessed() {
        let Saved { cluster, node, incarnation_bound, addresses, .. } = saved(3);
        let body = postcard::to_allocvec(&SavedV1 { cluster, node, incarnation_bound, addresses }).expect("encodes");
        assert_eq!(decode(&framed(1, &body).expect("framed")), Ok(saved(3)));
        assert_eq!(decode(&framed(2, &body).expect("framed")), Err(BadState::Damaged), "no ballot and no sign of none");
        let newer = [body.as_slice(), &[0]].concat();
        assert_eq!(decode(&framed(1, &newer).expect("framed")), Err(BadState::Damaged), "more than there was");
        assert_eq!(decode(&framed(2, &newer).expect("framed")), Ok(saved(3)));
        let voter = [body.as_slice(), &[1, 9, 9]].concat();
        assert_eq!(decode(&framed(2, &voter).expect("framed")), Err(BadState::OldBallot));
        assert_eq!(decode(&framed(2, &[newer, vec![0]].concat()).expect("framed")), Err(BadState::Damaged));
    }

    #[test]
    fn ballots_of_the_formats_before_are_read_and_know_of_no_other_electorate_and_no_birth() {
        let now = voters(3);
        let body = encode(&now).expect("encodes")[HEADER_BYTES..].to_vec();
        // What came later comes last, and is nothing.
        let (before, later) = body.split_at(body.len() - 2);
        assert_eq!(later, [0, 0]);
        assert!(decode(&framed(4, before).expect("framed")) == Ok(now.clone()));
        assert!(decode(&framed(7, &body[..body.len() - 1]).expect("framed")) == Ok(now));
        for (version, body) in [(4, &body[..body.len() - 1]), (7, &body)] {
            assert_eq!(decode(&framed(version, body).expect("framed")), Err(BadState::Damaged), "more than there was");
        }
        for (version, body) in [(7, before), (VERSION, &body[..body.len() - 1])] {
            assert_eq!(decode(&framed(version, body).expect("framed")), Err(BadState::Damaged), "less than there is");
        }
    }

    #[test]
    fn the_electorate_that_a_node_knows_of_survives() {
        let (lineage, root, began) = (Lineage(3), Lineage(9), Term::beginning_of(2, 77));
        let known = Some(Descent { lineage, root, began });
        let outsider = Saved { ballot: Some(Ballot { known, ..Ballot::blank(Identity(7)) }), ..saved(3) };
        assert!(decode(&encode(&outsider).expect("encodes")) == Ok(outsider));
        let known = Some(Descent { lineage, root: lineage, began });
        let wrong = Saved { ballot: Some(Ballot { known, ..Ballot::blank(Identity(7)) }), ..saved(3) };
        assert_eq!(decode(&encode(&wrong).expect("encodes")), Err(BadState::Damaged), "of no root");
    }

    #[test]
    fn state_survives_encoding_up_to_the_bound_of_addresses() {
        let full = saved(MAX_REMEMBERED_ADDRESSES);
        let bytes = encode(&full).expect("encodes");
        assert!(bytes.len() <= MAX_BYTES);
        assert_eq!(decode(&bytes), Ok(full));
        let beyond = encode(&saved(MAX_REMEMBERED_ADDRESSES + 1)).expect("encodes");
        assert_eq!(decode(&beyond), Err(BadState::Damaged));
    }

    #[test]
    fn every_truncation_is_recognised() {
        let bytes = encode(&saved(3)).expect("encodes");
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Err(BadState::Truncated), "{length} bytes");
        }
    }

    #[test]
    fn every_flipped_bit_is_recognised() {
        let bytes = encode(&saved(3)).expect("encodes");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut bytes = encode(&saved(0)).expect("encodes");
        bytes[8] = 9;
        assert_eq!(decode(&bytes), Err(BadState::Future { found: 9 }));
    }

    #[test]
    fn another_file_is_not_taken_for_state() {
        assert_eq!(decode(b"name = \"a\"\n"), Err(BadState::NotState));
    }

    #[test]
    fn an_incarnation_that_nobody_may_use_is_not_believed() {
        let mut wrong = saved(0);
        wrong.incarnation_bound = Record::INCARNATION_LIMIT;
        assert_eq!(decode(&encode(&wrong).expect("encodes")), Err(BadState::Damaged));
    }

    /// The format on disk: changing these bytes breaks every node's next start.
    #[test]
    fn golden_bytes() {
        let bytes = encode(&saved(1)).expect("encodes");
        let body = *b"\x01c\x01a\x80\xd0\x95\xff\xbc\x31\x01\x00\x0a\x00\x00\x00\xcd\x37\x00\x00";
        assert_eq!(bytes[..14], *b"hcstate\n\x08\x00\x14\x00\x00\x00");
        assert_eq!(bytes[22..], body);
        let before = [b"hcstate\n\x01\x00\x12\x00\x00\x00\xa7\x27\x66\x57\x4a\x21\x69\x64", &body[..18]].concat();
        assert_eq!(decode(&before), Ok(saved(1)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
