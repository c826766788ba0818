//! Members that leave and are started again at once, under their names and at their addresses.

use super::alone::{Alone, member};
use super::net::ms;
use headcount_core::wire::{Header, Message, Note, PacketBuilder};
use headcount_core::{ChangeKind, DetectionMethod, Input, LeaveReason, Output, Record, Run, Status};

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

/// Whoever does not observe a member hears from others that it leaves, and from the member itself, a moment later, that it is
/// back.
#[test]
fn a_departure_that_another_member_tells_of_is_known_before_another_run_has_the_name() {
    let (leaving, left) = (ChangeKind::Leaving, ChangeKind::Left(GRACEFUL));
    let joined = ChangeKind::Joined;
    for (said, told, expected) in [
        (Some(Status::Left(GRACEFUL)), vec![left], vec![joined]),
        (Some(Status::Leaving), vec![leaving], vec![left, joined]),
        (None, vec![], vec![RESTARTED, joined]),
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
            let record = Record { status, ..held.clone() };
            assert_eq!(says(&mut alone, &newcomer, note, &record), told);
        }
        let next = Record { run: Run(0xf), incarnation: 9, status: Status::Joining, ..held };
        assert!(matches!(alone.joins(&next)[..], [Message::Welcome { .. }]));
        let up = Record { status: Status::Up, ..next };
        assert_eq!(says(&mut alone, &up, None, &up), expected, "{said:?}");
        assert_eq!(alone.core.record(&up.id).map(|held| held.run), Some(up.run));
    }
}
