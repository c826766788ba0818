//! Joiners and their sponsors: who has a place, for how long, and what is believed meanwhile.

use super::alone::{Alone, member};
use super::electing::SECOND;
use crate::member::{LeaveReason, Record, Status};
use crate::wire::Message;

#[test]
fn who_was_reaped_comes_back_above_the_incarnation_that_is_remembered() {
    let mut alone = Alone::new(0);
    let reaped = Record { incarnation: 9, ..member(1, Status::Left(LeaveReason::Graceful)) };
    alone.core.view.tombstones.insert(alone.now, &reaped);
    for (incarnation, is_behind) in [(8, true), (9, true), (10, false)] {
        alone.pass(SECOND);
        let joiner = Record { incarnation, ..member(1, Status::Joining) };
        let told = alone.joins(&joiner);
        match told[..] {
            [Message::Behind { incarnation: 9, .. }] if is_behind => {}
            [Message::Welcome { .. }] if !is_behind => {}
            _ => panic!("{incarnation}: {told:?}"),
        }
    }
}
