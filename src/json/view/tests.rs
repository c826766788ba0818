//! The shapes of members and events in JSON.

use std::time::Duration;

use super::*;
use crate::core::election::LossReason;
use crate::core::{DetectionMethod, LeaveReason, Profile, Tags};

fn start_of_2026() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

fn member(status: Status) -> crate::Member {
    crate::Member {
        id: NodeId::new("a").expect("a name"),
        run: Run(0x8f00_0000_0000_0001),
        incarnation: 1,
        status,
        address: "10.0.0.1:7117".parse().expect("an address"),
        api_address: None,
        tags: Tags::default(),
        timing: Profile::Default.settings().timing().expect("valid"),
        version: "0.1.0".to_owned(),
        since: start_of_2026(),
        last_heard: Some(Duration::from_micros(120_900)),
        heard_interval: Some(Duration::from_secs(5)),
        last_sent: Some(Duration::from_millis(80)),
        sent_interval: Some(Duration::from_secs(4)),
        rtt: Some(Duration::from_micros(400)),
        draining: false,
        is_me: false,
        method: None,
    }
}

fn event(kind: EventKind) -> Event {
    Event::new(Run(0x8f00_0000_0000_0002), &crate::Event { sequence: 7, at: start_of_2026(), live_members: 3, kind })
}

const MEMBER_UP: &str = concat!(
    r#"{"id":"a","run":"8f00000000000001","address":"10.0.0.1:7117","api_address":null,"status":"up","#,
    r#""incarnation":1,"since":"2026-01-01T00:00:00.000Z","last_heard_ms":120,"#,
    r#""heard_interval_ms":5000,"last_sent_ms":80,"sent_interval_ms":4000,"rtt_ms":0.4,"tags":{},"#,
    r#""version":"0.1.0","draining":false,"is_me":false,"method":null,"reason":null}"#
);

#[test]
fn a_member_is_written_as_the_contract_says() {
    let json = serde_json::to_string(&Member::from(&member(Status::Up))).expect("JSON");
    assert_eq!(json, MEMBER_UP);
}

#[test]
fn a_member_of_whom_nothing_is_known_has_all_keys() {
    let mut unheard = member(Status::Left(LeaveReason::Forced));
    unheard.last_heard = None;
    (unheard.heard_interval, unheard.last_sent, unheard.sent_interval, unheard.rtt) = (None, None, None, None);
    unheard.api_address = Some("http://10.0.0.1/".to_owned());
    unheard.tags = Tags::new([("zone".to_owned(), "eu-1".to_owned())].into()).expect("tags");
    let json = serde_json::to_string(&Member::from(&unheard)).expect("JSON");
    let expected = concat!(
        r#"{"id":"a","run":"8f00000000000001","address":"10.0.0.1:7117","api_address":"http://10.0.0.1/","#,
        r#""status":"left","incarnation":1,"since":"2026-01-01T00:00:00.000Z","last_heard_ms":null,"#,
        r#""heard_interval_ms":null,"last_sent_ms":null,"sent_interval_ms":null,"#,
        r#""rtt_ms":null,"tags":{"zone":"eu-1"},"version":"0.1.0","draining":false,"is_me":false,"method":null,"reason":"forced"}"#
    );
    assert_eq!(json, expected);
}

#[test]
fn an_event_is_written_as_the_contract_says() {
    let json = serde_json::to_string(&event(EventKind::NodeJoined { member: member(Status::Up) })).expect("JSON");
    let expected = format!(
        r#"{{"id":"8f00000000000002-7","sequence":7,"at":"2026-01-01T00:00:00.000Z","event":"node_joined","node":"a","address":"10.0.0.1:7117","member":{MEMBER_UP},"live_members":3}}"#
    );
    assert_eq!(json, expected);
}

#[test]
fn extra_keys_come_with_their_kind_only() {
    let left = Status::Left(LeaveReason::Graceful);
    let kinds = [
        (EventKind::NodeLeft { member: member(left), reason: LeaveReason::Graceful }, Some(("reason", "graceful"))),
        (
            EventKind::NodeDetectedDown { member: member(Status::Down), method: DetectionMethod::ConnectionLost },
            Some(("method", "connection_lost")),
        ),
        (EventKind::NodeSuspected { member: member(Status::Suspect) }, None),
    ];
    for (kind, extra) in kinds {
        let json = serde_json::to_value(event(kind)).expect("JSON");
        for key in ["reason", "method", "previous", "unreachable", "reachable"] {
            let expected = extra.filter(|(name, _)| *name == key).map(|(_, value)| value.into());
            assert_eq!(json.get(key).cloned(), expected, "{key} of {json}");
        }
    }
    let updated = EventKind::NodeUpdated { member: member(Status::Up), previous: member(Status::Suspect) };
    let json = serde_json::to_value(event(updated)).expect("JSON");
    assert_eq!(json["previous"]["status"], "suspect");
    assert_eq!(json["member"]["status"], "up");
}

#[test]
fn a_partition_is_about_no_single_member() {
    let name = |name| NodeId::new(name).expect("a name");
    let (unreachable, reachable) = (vec![name("b"), name("c")], vec![name("a")]);
    let suspected = event(EventKind::PartitionSuspected { unreachable, reachable });
    let expected = concat!(
        r#"{"id":"8f00000000000002-7","sequence":7,"at":"2026-01-01T00:00:00.000Z","event":"partition_suspected","#,
        r#""node":null,"address":null,"member":null,"live_members":3,"unreachable":["b","c"],"reachable":["a"]}"#
    );
    assert_eq!(serde_json::to_string(&suspected).expect("JSON"), expected);
    assert_eq!(serde_json::from_str::<Event>(expected).expect("an event"), suspected);
}

#[test]
fn events_about_leaders_name_term_leader_and_reason() {
    let leader = NodeId::new("a").expect("a name");
    let lost = EventKind::LeaderLost { leader, member: None, term: 3, reason: LossReason::Expired, lease: None };
    let expected = concat!(
        r#"{"id":"8f00000000000002-7","sequence":7,"at":"2026-01-01T00:00:00.000Z","event":"leader_lost","#,
        r#""node":"a","address":null,"member":null,"live_members":3,"reason":"expired","term":3}"#
    );
    assert_eq!(serde_json::to_string(&event(lost)).expect("JSON"), expected);
    let json = |kind| serde_json::to_value(event(kind)).expect("JSON");
    let agreed = json(EventKind::ViewAgreed { term: 3, number: 9 });
    assert_eq!((&agreed["term"], &agreed["number"], &agreed["node"]), (&3.into(), &9.into(), &().into()));
    let (lost, back) = (EventKind::QuorumLost { term: 3 }, EventKind::QuorumRegained { term: 4 });
    assert_eq!((json(lost)["term"].clone(), json(back)["term"].clone()), (3.into(), 4.into()));
    let member = Some(member(Status::Up));
    let elected =
        json(EventKind::LeaderElected { leader: NodeId::new("a").expect("a name"), member, term: 4, lease: None });
    assert_eq!((&elected["member"]["id"], &elected["address"]), (&"a".into(), &"10.0.0.1:7117".into()));
}

#[test]
fn readers_tolerate_keys_they_do_not_know() {
    let event = event(EventKind::NodeJoined { member: member(Status::Up) });
    let mut json = serde_json::to_value(&event).expect("JSON");
    json["colour"] = "green".into();
    json["member"]["weight"] = 3.into();
    assert_eq!(serde_json::from_value::<Event>(json).expect("an event"), event);
}

#[test]
fn event_ids_survive_a_round_trip_and_nothing_else_is_one() {
    let id = EventId { run: Run(0xab), sequence: 12 };
    assert_eq!(id.to_string(), "00000000000000ab-12");
    assert_eq!(id.to_string().parse(), Ok(id));
    for text in ["", "7", "00000000000000ab", "ab-7", "00000000000000ab-", "00000000000000ab-+7", "+0000000000000ab-7"]
    {
        assert_eq!(text.parse::<EventId>(), Err(BadEventId), "{text:?}");
    }
    assert!("00000000000000ab-99999999999999999999".parse::<EventId>().is_err());
}

#[test]
fn snapshots_and_gaps_are_written_as_the_contract_says() {
    let id = EventId { run: Run(1), sequence: 0 };
    let json = serde_json::to_string(&Snapshot::new(id, Vec::new())).expect("JSON");
    assert_eq!(json, r#"{"id":"0000000000000001-0","members":[]}"#);
    let json = |missed| serde_json::to_string(&Lagged { missed }).expect("JSON");
    assert_eq!(json(Some(12)), r#"{"missed":12}"#);
    assert_eq!(json(None), r#"{"missed":null}"#);
}
