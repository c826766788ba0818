//! What is refused before it costs anything: datagrams that cannot be whole or name no key, and keys too many.

use super::tests::{CLUSTER, RUN, anonymous, key, opened, receiver, ring};
use super::*;
use headcount_core::Run;

/// An outsider sends what costs most to look at. A datagram that cannot be whole, or names no key, is not decrypted.
#[test]
fn a_datagram_that_is_too_short_or_names_no_key_is_refused_before_anything_is_decrypted() {
    let mut sealer = DatagramSealer::new(RUN, CLUSTER);
    let unknown = SealError::UnknownKey(key(2).id());
    for (to, forged) in [(None, SealError::Forged), (Some(Run(99)), SealError::Misdirected)] {
        let shortest = sealer.seal(&key(1), to, &anonymous()).expect("a packet of ours");
        assert!(opened(&mut receiver(), &ring(&[1]), &shortest).is_ok(), "{} bytes", shortest.len());
        for length in 4..shortest.len() {
            assert_eq!(opened(&mut receiver(), &ring(&[1]), &shortest[..length]), Err(SealError::Malformed));
        }
        // A datagram of the least length is decrypted in vain; one with another key's id is not decrypted.
        let mut invented = shortest.clone();
        invented[18..].fill(7);
        assert_eq!(opened(&mut receiver(), &ring(&[1]), &invented), Err(forged));
        invented[12..16].copy_from_slice(&key(2).id().0);
        assert_eq!(opened(&mut receiver(), &ring(&[1]), &invented), Err(unknown));
    }
}

#[test]
fn a_ring_has_room_for_eight_keys_and_not_for_a_ninth() {
    let mut full = ring(&[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((full.ids().len(), MAX_KEYS), (8, 8));
    assert_eq!(full.add(key(9)), Err(RingError::Full));
    assert_eq!(full.add(key(8)), Ok(false), "that one is there");
    assert_eq!(KeyRing::new((1..=9).map(key)), Err(RingError::Full));
}
