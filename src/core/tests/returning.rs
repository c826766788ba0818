//! Members that leave and are started again at once, under their names and at their addresses.

use super::limits::{Alone, member};
use super::net::ms;
use crate::core::doors::{Input, Output};
use crate::core::member::{ChangeKind, DetectionMethod, LeaveReason, Record, Run, Status};
use crate::core::wire::{Header, Message, Note, PacketBuilder};

const GRACEFUL: LeaveReason = LeaveReason::Graceful;
const RESTARTED: ChangeKind = ChangeKind::DetectedDown(DetectionMethod::Restarted);

/// Has a member say something of a record; returns the kinds of changes that are reported.
fn says(alone: &mut Alone, member: &Record, note: Option<Note>, record: &Record) -> Vec<ChangeKind> {
    alone.sequence += 1;
    let run = member.run;
    let header = Header { cluster: Header::cluster_hash("test"), run, sequence: alone.sequence, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(packet.push_update(note, record));
    alone.core.handle(alone.now, Input::Packet { from: member.address, bytes: &packet.finish() });
    let changes = alone.outputs().into_iter().filter_map(|output| match output {
        Output::Change(change) => Some(change.kind),
        _ => None,
    });
    changes.collect()
}

/// In a young cluster of more than a dozen, whoever does not observe a member hears from newcomers alone that it leaves,
/// and from the member itself, a moment later, that it is back.
#[test]
fn a_departure_that_newcomers_tell_of_is_believed_when_another_run_has_the_name() {
    let (leaving, left) = (ChangeKind::Leaving, ChangeKind::Left(GRACEFUL));
    let joined = ChangeKind::Joined;
    for (said, incarnation, expected) in [
        (Some(Status::Left(GRACEFUL)), 5, vec![left, joined]),
        (Some(Status::Leaving), 5, vec![leaving, left, joined]),
        (None, 5, vec![RESTARTED, joined]),
        // What its next run could not have followed.
        (Some(Status::Left(GRACEFUL)), 50, vec![RESTARTED, joined]),
    ] {
        let mut alone = Alone::with_teller();
        alone.told_of(0..1, Status::Up);
        alone.pass(ms(7_000));
        let newcomer = member(5, Status::Up);
        alone.introduces(5..6);
        let held = member(0, Status::Up);
        if let Some(status) = said {
            let note = matches!(status, Status::Left(_))
                .then_some(Note { age_ms: 0, method: DetectionMethod::HeartbeatTimeout });
            let record = Record { incarnation, status, ..held.clone() };
            assert_eq!(says(&mut alone, &newcomer, note, &record), [], "a newcomer's word");
        }
        let next = Record { run: Run(0xf), incarnation: 9, status: Status::Joining, ..held };
        assert!(matches!(alone.joins(&next)[..], [Message::Welcome { .. }]));
        let up = Record { status: Status::Up, ..next };
        assert_eq!(says(&mut alone, &up, None, &up), expected, "{said:?} at {incarnation}");
        assert_eq!(alone.core.record(&up.id).map(|held| held.run), Some(up.run));
    }
}
