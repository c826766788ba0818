//! States of all versions, damaged and sound.

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
        origin: Origin::default(),
    }
}

/// Returns the bytes that a version with format 7 wrote for this state, in a cluster and at a node of the name `a`.
#[cfg(target_os = "linux")]
pub(crate) fn of_format_7(durable: &crate::core::Durable) -> Vec<u8> {
    let name = NodeId::new("a").expect("a name");
    let crate::core::Durable { incarnation_bound, addresses, ballot } = durable.clone();
    let saved = SavedV7 { cluster: name.clone(), node: name, incarnation_bound, addresses, ballot };
    framed(7, &postcard::to_allocvec(&saved).expect("encodes")).expect("framed")
}

/// Returns the state of a voter that has accepted a view of this many members with the longest names.
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
    // A view that differs from its hash is refused, also if the checksum was made to fit.
    let mut body = bytes[HEADER_BYTES..].to_vec();
    let name = body.len() - 41 - 3;
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
fn ballots_of_the_formats_before_are_read_and_know_of_no_other_electorate_and_no_origin() {
    let now = voters(3);
    let body = encode(&now).expect("encodes")[HEADER_BYTES..].to_vec();
    // Fields added later are at the end, and empty.
    let (before, later) = body.split_at(body.len() - 3);
    assert_eq!(later, [0, 0, 0]);
    assert!(decode(&framed(4, before).expect("framed")) == Ok(now.clone()));
    assert!(decode(&framed(7, &body[..body.len() - 2]).expect("framed")) == Ok(now.clone()));
    assert!(decode(&framed(8, &body[..body.len() - 1]).expect("framed")) == Ok(now));
    for (version, body) in [(4, &body[..body.len() - 2]), (7, &body[..body.len() - 1]), (8, &body)] {
        assert_eq!(decode(&framed(version, body).expect("framed")), Err(BadState::Damaged), "more than there was");
    }
    for (version, body) in [(7, before), (8, &body[..body.len() - 2]), (VERSION, &body[..body.len() - 1])] {
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
    bytes[8] = 12;
    assert_eq!(decode(&bytes), Err(BadState::Future { found: 12 }));
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
    assert_eq!(bytes[..14], *b"hcstate\n\x0b\x00\x15\x00\x00\x00");
    assert_eq!(bytes[22..], body);
    let before = [b"hcstate\n\x01\x00\x12\x00\x00\x00\xa7\x27\x66\x57\x4a\x21\x69\x64", &body[..18]].concat();
    assert_eq!(decode(&before), Ok(saved(1)));
}

#[test]
fn a_superseded_state_of_any_version_is_read_and_known_for_one() {
    let now = encode(&saved(1)).expect("encodes");
    let body = &now[HEADER_BYTES..];
    for (version, later) in [(1, 3), (2, 2), (4, 2), (7, 2), (8, 1), (VERSION, 0)] {
        let mut bytes = framed(version, &body[..body.len() - later]).expect("framed");
        assert!(!is_superseded(&bytes));
        bytes[SUPERSEDED.offset as usize] = SUPERSEDED.byte;
        assert!(is_superseded(&bytes), "version {version}");
        assert_eq!(decode(&bytes), Ok(saved(1)), "version {version}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }
}
