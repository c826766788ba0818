//! Thousands of members, live and gone: what is taken, told and remembered of them.

use super::alone::{Alone, TELLER, member};
use super::net::{address, ms};
use super::speaker::{FORCED, old_cluster};
use headcount_core::limits::{MAX_GONE, MAX_REMOVALS, SYNC_PACKETS};
use headcount_core::wire::{Message, Note};
use headcount_core::{Command, CommandError, DetectionMethod, Input, Output, Profile, Record, Reply, Status, Tags};

#[test]
fn ten_thousand_members_that_another_one_tells_of_are_believed_at_once() {
    let mut alone = Alone::with_teller();
    let tags = [("zone", "eu-central-1b"), ("rack", "r17-u22"), ("role", "frontend"), ("release", "2026-11-26.3")];
    let tags: std::collections::BTreeMap<_, _> = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let tags = Tags::new(tags).expect("within bounds");
    for host in 100_000..110_000 {
        let api_address = Some("http://10.0.0.1:8080/".into());
        alone.told_by(TELLER, &[(None, Record { tags: tags.clone(), api_address, ..member(host, Status::Up) })]);
    }
    assert_eq!(alone.core.records().count(), 10_002);
}

#[test]
fn a_newcomer_takes_a_view_of_ten_thousand_at_once() {
    let mut net = old_cluster(Profile::Default, 1);
    for host in 100_000..110_000 {
        let mut record: Record = member(host, Status::Up);
        record.timing = net.settings.timing().expect("good settings");
        net.nodes[0].core.learn_of(record);
    }
    net.drain(0);
    let newcomer = net.add("n1", 1, &[0]);
    net.run_until(ms(3_000), "it is up", |net| net.nodes[newcomer].core.is_up());
    assert_eq!(net.nodes[newcomer].core.records().count(), 10_002);
}

#[test]
fn of_too_many_that_are_gone_those_gone_the_longest_are_forgotten_and_stay_so() {
    let mut alone = Alone::with_teller();
    let dead = |host: usize| {
        let age_ms = 10_000_000 - host as u64;
        (Some(Note { age_ms, method: DetectionMethod::ConnectionLost }), member(host, Status::Down))
    };
    let held = |alone: &Alone, host: usize| alone.core.record(&member(host, Status::Down).id).is_some();
    // Longer than all others, but its subject may not know it yet.
    let removed = MAX_GONE + 20;
    alone.told_by(TELLER, &[(dead(0).0, member(removed, FORCED))]);
    for host in 0..MAX_GONE + 10 {
        alone.told_by(TELLER, &[dead(host)]);
    }
    assert!(held(&alone, 0), "for a moment");
    alone.pass(ms(60_000));
    let gone = alone.core.records().filter(|(record, _)| !record.status.is_live()).count();
    assert!(gone <= MAX_GONE + 1, "{gone}");
    assert!(held(&alone, removed), "a removal is not forgotten before its time");
    assert!(!held(&alone, 0) && !held(&alone, 9) && held(&alone, 12) && held(&alone, MAX_GONE + 9));
    alone.told_by(TELLER, &[(None, member(0, Status::Up))]);
    assert!(!held(&alone, 0), "a tombstone is left");
}

#[test]
fn an_agent_removes_so_many_members_in_a_minute_dead_ones_too_and_says_so() {
    let mut alone = Alone::with_teller();
    let most = MAX_REMOVALS as usize;
    alone.introduces(0..most + 2);
    let mut removes = |host: usize| {
        let id = member(host, Status::Up).id;
        let command = Command::Remove { ticket: 1 + host as u64, id: id.clone(), force: true };
        alone.core.handle(alone.now, Input::Command(command));
        let is_refused = |output: &Output| {
            matches!(output, Output::Reply { reply: Reply::Refused(CommandError::TooManyRemovals), .. })
        };
        let refused = std::iter::from_fn(|| alone.core.poll()).filter(|output| is_refused(output)).count() > 0;
        (refused, alone.core.record(&id).map(|record| record.status) == Some(FORCED))
    };
    for host in 0..most {
        assert_eq!(removes(host), (false, true), "{host}");
    }
    assert_eq!(removes(most), (true, false));
    assert_eq!(removes(0), (false, true), "who has left is not counted");
}

/// Has a member that is proven ask for all records; returns the number of names in each packet of the answer.
fn wants_all(alone: &mut Alone) -> Vec<usize> {
    alone.pass(ms(1_000));
    alone.core.set_proven(TELLER, true);
    let want = Message::Want { buckets: [0xff; 32] };
    let packets = alone.hand_in_and_take_packets(address(19_999), TELLER, |packet| {
        // News besides is for questions alone.
        assert!(packet.push(&Message::Reply) && packet.push(&want));
    });
    let names =
        |packet: &Vec<(_, Message)>| packet.iter().filter(|(_, message)| matches!(message, Message::Update(_))).count();
    packets.iter().map(names).filter(|names| *names > 0).collect()
}

#[test]
fn an_answer_to_a_comparison_has_so_many_packets_and_no_more() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..100);
    let whole = wants_all(&mut alone);
    assert!(whole.len() < SYNC_PACKETS && whole.iter().sum::<usize>() >= 100, "all of them");
    alone.introduces(100..2_000);
    assert_eq!(wants_all(&mut alone).len(), SYNC_PACKETS);
}
