//! States of all versions, damaged and sound.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::core::election::{Descent, Electorate, EndedElectorate, Identity, Lineage, NumberedView, Term, Voter};
use crate::core::limits::EARLIEST_FOUNDING;

pub(crate) fn saved(addresses: usize) -> Saved {
    let addresses = (0..addresses).map(|i| SocketAddr::from(([10, 0, (i >> 8) as u8, i as u8], 7117))).collect();
    Saved {
        cluster: NodeId::new("c").expect("a name"),
        node: NodeId::new("a").expect("a name"),
        incarnation_bound: 1_700_000_000_000,
        addresses,
        ballot: None,
        origin: Origin::default(),
    }
}

/// Returns the bytes of this state, in a cluster and at a node of the name `a`, if the file system knew no times of creation
/// and the directory no states before.
#[cfg(target_os = "linux")]
pub(crate) fn without_origin(durable: &crate::core::Durable) -> Vec<u8> {
    let crate::core::Durable { incarnation_bound, addresses, ballot } = durable.clone();
    let name = NodeId::new("a").expect("a name");
    let saved =
        Saved { cluster: name.clone(), node: name, incarnation_bound, addresses, ballot, origin: Origin::default() };
    encode(&saved).expect("encodes")
}

/// Returns the state of a voter that has accepted a view of this many members with the longest names.
fn voters(members: usize) -> Saved {
    let me = Voter { id: NodeId::new("a").expect("a name"), identity: Identity(7) };
    let electorate = Arc::new(Electorate::founded_by(vec![me], EARLIEST_FOUNDING));
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
    // A view that differs from its hash is refused, also if the checksum was made to fit.
    let mut body = bytes[HEADER_BYTES..].to_vec();
    let name = body.len() - 48 - 3;
    body[name] ^= 1;
    assert_eq!(decode(&framed(VERSION, &body).expect("framed")), Err(BadState::Damaged));
}

#[test]
fn a_format_of_before_the_first_release_is_named_and_more_or_less_than_a_state_is_damaged() {
    let body = encode(&voters(3)).expect("encodes")[HEADER_BYTES..].to_vec();
    for found in [1, 2, 4, 7, 8, 11] {
        assert_eq!(decode(&framed(found, &body).expect("framed")), Err(BadState::Old { found }));
    }
    for body in [&body[..body.len() - 1], &[body.as_slice(), &[0]].concat()] {
        assert_eq!(decode(&framed(VERSION, body).expect("framed")), Err(BadState::Damaged));
    }
}

#[test]
fn the_electorate_that_a_node_knows_of_survives() {
    let (lineage, root, began, founded) = (Lineage(3), Lineage(9), Term::beginning_of(2, 77), EARLIEST_FOUNDING);
    let known = Some(Descent { lineage, root, began, founded });
    let outsider = Saved { ballot: Some(Ballot { known, ..Ballot::blank(Identity(7)) }), ..saved(3) };
    assert!(decode(&encode(&outsider).expect("encodes")) == Ok(outsider));
    let known = Some(Descent { lineage, root: lineage, began, founded });
    let wrong = Saved { ballot: Some(Ballot { known, ..Ballot::blank(Identity(7)) }), ..saved(3) };
    assert_eq!(decode(&encode(&wrong).expect("encodes")), Err(BadState::Damaged), "of no root");
}

#[test]
fn the_electorate_that_ended_survives_at_a_voter_of_the_largest_view_as_well() {
    let full = voters(MAX_MEMBERS);
    let voters = (0..7).map(|i| Voter { id: NodeId::new(&format!("{i:063}")).expect("a name"), identity: Identity(i) });
    let electorate = Electorate::founded_by(voters.collect(), EARLIEST_FOUNDING);
    let ended = Some(EndedElectorate { electorate, term: Term(9), number: 7 });
    let ballot = full.ballot.clone().map(|ballot| Ballot { ended, ..ballot });
    let addresses = saved(MAX_REMEMBERED_ADDRESSES).addresses;
    let ended = Saved { addresses, ballot, ..full };
    let bytes = encode(&ended).expect("encodes");
    assert!(bytes.len() <= MAX_BYTES && decode(&bytes) == Ok(ended));
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
    bytes[8] = 14;
    assert_eq!(decode(&bytes), Err(BadState::Future { found: 14 }));
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

/// The format on disk is fixed: a change of these bytes breaks every node's next start.
#[test]
fn golden_bytes() {
    let bytes = encode(&saved(1)).expect("encodes");
    let body = *b"\x01c\x01a\x80\xd0\x95\xff\xbc\x31\x01\x00\x0a\x00\x00\x00\xcd\x37\x00\x00\x00";
    assert_eq!(bytes[..14], *b"hcstate\n\x0d\x00\x15\x00\x00\x00");
    assert_eq!(bytes[22..], body);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }
}
