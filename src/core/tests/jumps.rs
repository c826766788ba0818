//! Incarnations far ahead, as clocks that were wrong leave behind: they are believed of everybody, and exceeded at once.

use super::alone::{Alone, TELLER, member};
use super::net::address;
use headcount_core::wire::{Message, Note};
use headcount_core::{DetectionMethod, Input, Record, Run, Status};

/// The incarnation of a clock that shows the last moment there is.
const FAR: u64 = Record::INCARNATION_LIMIT - 4;

#[test]
fn a_member_is_believed_at_any_incarnation_on_the_word_of_another() {
    for incarnation in [1, 1 << 42, 1 << 53, FAR] {
        let mut alone = Alone::with_teller();
        let held = |alone: &Alone| alone.core.record(&member(0, Status::Up).id).map(|record| record.incarnation);
        alone.told_by(TELLER, &[(None, Record { incarnation, ..member(0, Status::Up) })]);
        assert_eq!(held(&alone), Some(incarnation), "unknown before");
        alone.told_by(TELLER, &[(None, Record { incarnation: FAR, ..member(0, Status::Up) })]);
        assert_eq!(held(&alone), Some(FAR), "the same run");
    }
}

/// Has the disk take what it is given; returns this node's own incarnation.
fn stored(alone: &mut Alone) -> u64 {
    while alone.core.poll().is_some() {}
    alone.core.handle(alone.now, Input::Persisted { incarnation_bound: Record::INCARNATION_LIMIT, ballot_version: 0 });
    while alone.core.poll().is_some() {}
    alone.core.me().incarnation
}

#[test]
fn an_accusation_however_far_ahead_is_refuted_at_once() {
    for incarnation in [1 << 43, 1 << 53, FAR] {
        let mut alone = Alone::with_teller();
        let run = alone.core.me().run;
        alone.hand_in(address(19_999), TELLER, |packet| {
            assert!(packet.push(&Message::HeldStatus { run, incarnation, status: Status::Suspect, age_ms: 0 }));
        });
        assert_eq!(stored(&mut alone), incarnation + 1);
    }
}

#[test]
fn an_earlier_run_of_this_name_however_far_ahead_is_exceeded_at_once() {
    let mut alone = Alone::with_teller();
    for incarnation in [1 << 43, 1 << 53, FAR] {
        let mine = Record::clone(alone.core.me());
        let earlier = Record { run: Run(0x71), incarnation, status: Status::Down, ..mine };
        let note = Note { age_ms: 0, method: DetectionMethod::ConnectionLost };
        alone.told_by(TELLER, &[(Some(note), earlier)]);
        assert_eq!(stored(&mut alone), incarnation + 1);
    }
}
