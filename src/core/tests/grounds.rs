//! Reports that seem to be evidence and are none: of members that were not asked, of processes under others' names, from
//! where nobody said that they would come, or of long ago.

use std::time::Duration;

use super::alone::{Alone, TELLER, member};
use super::hostile::packet;
use super::net::{Net, address, id, ms};
use super::speaker::{Speaker, about, old_cluster, update};
use headcount_core::limits::{KEEP_FOR, SETTLE};
use headcount_core::wire::{Message, Nonce, Note, Packet, Refusal};
use headcount_core::{
    ChangeKind, DetectionMethod, DropReason, Input, LeaveReason, LinkEvent, LinkId, Notice, Output, Profile, Record,
    Run, Status, Timing,
};

const SECOND: Duration = Duration::from_secs(1);
/// A host where no member is.
const ELSEWHERE: usize = 30_000;
const FORCED: Status = Status::Left(LeaveReason::Forced);

fn held(alone: &Alone, host: usize) -> Option<Record> {
    alone.core.record(&member(host, Status::Up).id).map(|record| Record::clone(record))
}

#[test]
fn whoever_was_heard_a_moment_ago_does_not_doubt_itself_though_an_elder_accuses_it() {
    let mut net = old_cluster(Profile::Local, 5);
    let (speaker, run) = (Speaker::new(2), net.nodes[1].core.me().run);
    let refuted = net.nodes[1].core.counters().refutations;
    for _ in 0..20 {
        let incarnation = net.nodes[1].core.me().incarnation;
        speaker.says(&mut net, 1, &[Message::HeldStatus { run, incarnation, status: Status::Suspect, age_ms: 1 }]);
        net.run(ms(50));
    }
    assert!(net.nodes[1].core.counters().refutations - refuted >= 20);
    assert_eq!(net.nodes[1].core.health_score(), 0);
}

/// Has one member say of a living one that another run of its name died; returns who believes it.
fn believers_of_a_death(net: &mut Net, status: Status) -> Vec<String> {
    net.forget_reports();
    let incarnation = net.nodes[1].core.me().incarnation + 5;
    let lie = Record { run: Run(77), ..about(net, 1, incarnation, status) };
    Speaker::new(2).says_to_all(net, &[update(lie)]);
    net.run(ms(500));
    let run = net.nodes[1].core.me().run;
    let is_gone = |change: &headcount_core::Change| {
        change.record.id == *"n1" && (change.record.run != run || matches!(change.kind, ChangeKind::DetectedDown(_)))
    };
    let believes = |node: &&super::net::Node| {
        let held = node.core.record(&id("n1")).expect("listed");
        (held.run, held.status) != (run, Status::Up) || node.changes.iter().any(|(_, change)| is_gone(change))
    };
    net.running().filter(believes).map(|node| node.core.me().id.to_string()).collect()
}

#[test]
fn a_report_about_another_run_does_not_end_a_living_member_that_few_observe() {
    let mut believed = Vec::new();
    let mut net = old_cluster(Profile::Local, 40);
    // At first some are observed that do not observe in turn, and are heard as seldom as others.
    for age in [Duration::ZERO, KEEP_FOR] {
        net.run(age);
        for status in [Status::Down, FORCED] {
            believed.extend(believers_of_a_death(&mut net, status).into_iter().map(|who| (age, status, who)));
        }
    }
    assert!(believed.is_empty(), "{believed:?}");
}

/// Returns the message that a node is not reached where it says that it is.
fn unreachable(net: &Net, node: usize, nonce: Nonce) -> Message {
    let refusal = Refusal::Unreachable { advertised: net.nodes[node].address, heard_from: address(50) };
    Message::Refused { nonce, refusal }
}

#[test]
fn a_founder_is_told_that_it_is_not_reached_by_those_alone_that_it_gave_a_cookie() {
    for others in [0, 1] {
        let mut net = Net::cluster(Profile::Local, 1 + others);
        net.forget_reports();
        let run = Run(0xe);
        let cookie = net.nodes[0].core.cookie(address(99), run, net.now);
        for (nth, nonce) in [Nonce(7), cookie].into_iter().enumerate() {
            let word = unreachable(&net, 0, nonce);
            net.input(0, Input::Packet { from: address(99), bytes: &packet(run, 1 + nth as u64, &[word]) });
            let is_told = net.nodes[0].notices.iter().any(|notice| matches!(notice, Notice::Refused { .. }));
            assert_eq!(is_told, others == 0 && nonce == cookie, "{others} others, {nonce:?}");
        }
    }
}

#[test]
fn a_wrong_answer_proves_no_address() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let peer = member(0, Status::Up);
    let elsewhere = alone.core.nonce(address(ELSEWHERE), alone.now);
    let right = alone.core.nonce(peer.address, alone.now);
    for (nonce, is_proof) in [(Nonce(1), false), (elsewhere, false), (right, true)] {
        alone.hand_in(peer.address, peer.run, |packet| {
            packet.push(&Message::Ack { nonce });
        });
        assert_eq!(alone.core.is_proven(peer.run), is_proof);
    }
}

#[test]
fn a_process_has_one_name_also_where_another_one_restarts() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..2, Status::Up);
    // It should have been heard by now.
    alone.pass(alone.settings.heartbeat_interval + alone.settings.probe_timeout + ms(1));
    let twin = Record { run: member(0, Status::Up).run, incarnation: 6, ..member(1, Status::Up) };
    alone.told_by(TELLER, &[(None, twin)]);
    assert_eq!(held(&alone, 1).map(|held| held.run), Some(member(1, Status::Up).run));
    assert_eq!(alone.core.counters().dropped(DropReason::Malformed), 1);
}

#[test]
fn news_of_long_ago_is_no_news() {
    let mut alone = Alone::with_teller();
    let age_ms = alone.settings.reap_after.as_millis() as u64;
    for (age_ms, host, is_listed) in [(age_ms, 0, false), (age_ms - 1, 1, true)] {
        let note = Note { age_ms, method: DetectionMethod::HeartbeatTimeout };
        alone.told_by(TELLER, &[(Some(note), member(host, Status::Left(LeaveReason::Graceful)))]);
        assert_eq!(held(&alone, host).is_some(), is_listed, "{age_ms}");
    }
}

#[test]
fn a_process_that_holds_a_link_here_has_not_ended() {
    for is_linked in [true, false] {
        let mut net = if is_linked { Net::linked(Profile::Local, 4) } else { Net::cluster(Profile::Local, 4) };
        net.run(SETTLE);
        net.forget_reports();
        let lie = update(about(&net, 1, net.nodes[1].core.me().incarnation, Status::Down));
        Speaker::new(2).says(&mut net, 0, &[lie]);
        let expected = if is_linked { Status::Up } else { Status::Down };
        assert_eq!(net.status(0, "n1"), Some(expected), "linked: {is_linked}");
        net.run(SECOND);
        assert_eq!(net.status(0, "n1"), Some(Status::Up));
    }
}

#[test]
fn a_verdict_of_a_node_that_hears_nobody_is_not_told_to_a_joiner() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..2, Status::Up);
    alone.pass(alone.settings.suspect_timeout + ms(500));
    assert_eq!(held(&alone, 0).map(|held| held.status), Some(Status::Suspect), "it judges");
    let joiner = member(50, Status::Joining);
    assert!(matches!(alone.joins(&joiner)[..], [Message::Welcome { .. }]));
    let sent = alone.hand_in(joiner.address, joiner.run, |packet| {
        packet.push(&Message::Pull { after: None, pages: 8 });
    });
    let told: Vec<Status> = sent
        .into_iter()
        .filter_map(|(_, message)| match message {
            Message::Update(update) => Some(update.record.status),
            _ => None,
        })
        .collect();
    assert!(told.len() >= 3 && told.iter().all(|status| *status == Status::Up), "{told:?}");
}

#[test]
fn all_that_are_lost_are_looked_for_in_turn() {
    let mut alone = Alone::with_teller();
    let note = |age_ms| Some(Note { age_ms, method: DetectionMethod::ConnectionLost });
    for host in 0..5 {
        alone.told_by(TELLER, &[(note(1_000 - 100 * host as u64), member(host, Status::Down))]);
    }
    let until = alone.now + alone.settings.retry_interval * 6;
    let mut asked = std::collections::BTreeSet::new();
    while let Some(deadline) = alone.core.next_deadline().filter(|deadline| *deadline <= until) {
        alone.now = alone.now.max(deadline);
        alone.core.handle(alone.now, Input::Tick);
        for output in alone.outputs() {
            let Output::Transmit { to, bytes, .. } = output else { continue };
            let messages = Packet::decode(&bytes).expect("ours").messages;
            if messages.iter().any(|message| matches!(message, Message::WhoAreYou { .. })) {
                asked.insert(to);
            }
        }
    }
    assert!((0..5).all(|host| asked.contains(&member(host, Status::Up).address)), "{asked:?}");
}

/// Has somebody introduce itself whose record is older than the one that is held, and say this beside.
fn says_outdated(alone: &mut Alone, words: &[Message]) {
    let record = Record { run: Run(0xe), address: address(ELSEWHERE), incarnation: 4, ..member(0, Status::Up) };
    let nonce = alone.core.nonce(record.address, alone.now);
    alone.hand_in(record.address, record.run, |packet| {
        packet.push(&Message::IAm { nonce, record: record.clone() });
        for word in words {
            assert!(packet.push(word));
        }
    });
}

#[test]
fn somebody_whose_record_is_outdated_is_heard_about_this_node_once_a_second() {
    for of_this_run in [true, false] {
        let mut alone = Alone::with_teller();
        alone.told_of(0..1, Status::Up);
        let before = alone.core.me().incarnation;
        for _ in 0..50 {
            let me = Record::clone(alone.core.me());
            let (run, incarnation) = (me.run, me.incarnation);
            let word = if of_this_run {
                Message::HeldStatus { run, incarnation, status: Status::Down, age_ms: 0 }
            } else {
                update(Record { run: Run(0x99), incarnation: incarnation + 1, status: Status::Down, ..me })
            };
            says_outdated(&mut alone, &[word]);
            alone.now = alone.now + ms(10);
        }
        let raised = alone.core.me().incarnation - before;
        assert!((1..=2).contains(&raised), "of this run: {of_this_run}: {raised}");
    }
}

#[test]
fn who_proves_its_address_and_is_no_member_removes_nobody_and_is_believed_nothing_about_others() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..2, Status::Up);
    let (run, incarnation) = (alone.core.me().run, alone.core.me().incarnation);
    let word = |status| Message::HeldStatus { run, incarnation, status, age_ms: 0 };
    says_outdated(&mut alone, &[word(FORCED)]);
    assert!(alone.core.is_up(), "it is no member");
    alone.pass(SECOND * 2);
    let news = Record { incarnation: 6, ..member(1, Status::Left(LeaveReason::Graceful)) };
    says_outdated(&mut alone, &[update(news.clone())]);
    assert_eq!(held(&alone, 1), Some(member(1, Status::Up)));
    alone.pass(SECOND * 2);
    says_outdated(&mut alone, &[word(Status::Down)]);
    assert!(alone.core.me().incarnation > incarnation, "what can be refuted is heard");
    let sayings = [update(news.clone()), word(FORCED)];
    alone.hand_in(address(19_999), TELLER, |packet| assert!(sayings.iter().all(|saying| packet.push(saying))));
    assert_eq!((held(&alone, 1), alone.core.is_up()), (Some(news), false), "a member is believed, and obeyed");
}

/// Lets this process stand still for a short while, beyond a deadline that it had.
fn stands_still(alone: &mut Alone) {
    alone.now = alone.core.next_deadline().expect("it runs").max(alone.now) + ms(320);
    assert_eq!(alone.core.counters().pauses, 0);
}

#[test]
fn a_suspicion_that_waited_while_this_process_stood_still_is_not_believed() {
    for (waits, status) in [(false, Status::Suspect), (true, Status::Up)] {
        let mut alone = Alone::with_teller();
        alone.told_of(0..40, Status::Up);
        if waits {
            stands_still(&mut alone);
        }
        let note = Note { age_ms: 9_000, method: DetectionMethod::HeartbeatTimeout };
        alone.told_by(TELLER, &[(Some(note), member(0, Status::Suspect))]);
        assert_eq!(held(&alone, 0).map(|held| held.status), Some(status), "it waited: {waits}");
    }
}

#[test]
fn a_note_that_waited_while_this_process_stood_still_makes_nobody_look_fresher() {
    for waits in [false, true] {
        let mut alone = Alone::with_teller();
        alone.told_of(0..40, Status::Up);
        alone.pass(SECOND * 2);
        // The next deadline is near.
        alone.now = alone.core.next_deadline().expect("it runs") - ms(1);
        let last_sign = |alone: &Alone| alone.core.last_sign(member(0, Status::Up).run);
        let accuses = |alone: &mut Alone, age_ms| {
            let note = Note { age_ms, method: DetectionMethod::HeartbeatTimeout };
            alone.told_by(TELLER, &[(Some(note), member(0, Status::Suspect))]);
        };
        accuses(&mut alone, 1_500);
        let before = last_sign(&alone);
        if waits {
            stands_still(&mut alone);
        }
        accuses(&mut alone, 0);
        assert_eq!(last_sign(&alone) == before, waits, "it waited: {waits}");
    }
}

#[test]
fn a_joiner_takes_a_bootstrap_link_with_the_challenge_that_it_asked_for_and_with_no_other() {
    let mut joiner = Alone::new(1);
    joiner.core.handle(joiner.now, Input::SeedAddresses(vec![vec![address(1)]]));
    let mut asked = None;
    while let Some(output) = joiner.core.poll() {
        let Output::Transmit { bytes, .. } = output else { continue };
        for message in Packet::decode(&bytes).expect("ours").messages {
            if let Message::Join { nonce, .. } = message {
                asked = Some(nonce);
            }
        }
    }
    let asked = asked.expect("it joins");
    for (nth, (nonce, is_taken)) in [(Nonce(asked.0 ^ 1), false), (asked, true)].into_iter().enumerate() {
        let (link, from) = (LinkId::Accepted(nth as u64), address(50 + nth));
        let bytes = packet(Run(0xe), 1 + nth as u64, &[Message::Challenge { nonce, cookie: Nonce(5) }]);
        joiner.core.handle(joiner.now, Input::Link { link, event: LinkEvent::Frame { from, bytes: &bytes } });
        let is_closed = joiner.outputs().contains(&Output::CloseLink { link });
        assert_eq!(is_closed, !is_taken, "{nonce:?}");
    }
}

#[test]
fn a_death_of_another_run_is_not_believed_by_who_does_not_observe_the_holder_and_is_told_twice() {
    let mut net = old_cluster(Profile::Local, 40);
    net.run(KEEP_FOR);
    net.forget_reports();
    let observes =
        |net: &Net, node: usize| net.nodes[node].core.observation(&id("n1")).is_some_and(|seen| seen.is_observed);
    let (holder, incarnation) = (net.nodes[1].core.me().run, net.nodes[1].core.me().incarnation + 5);
    let told: Vec<usize> = (3..40).filter(|node| !observes(&net, *node)).take(3).collect();
    let timing = Timing::new(ms(50), ms(100), ms(101)).expect("in range");
    let lie = update(Record { run: Run(77), timing, ..about(&net, 1, incarnation, Status::Down) });
    for _ in 0..2 {
        for node in &told {
            Speaker::new(2).says(&mut net, *node, std::slice::from_ref(&lie));
        }
        net.run(ms(150));
    }
    net.run(Duration::from_secs(2));
    for node in net.running() {
        let held = node.core.record(&id("n1")).expect("listed");
        assert_eq!((held.run, held.status), (holder, Status::Up), "at {}", node.core.me().id);
        let changes = node.changes.iter().filter(|(_, change)| change.record.id == *"n1");
        let is_refutation = |change: &headcount_core::Change| matches!(change.kind, ChangeKind::Updated);
        assert!(changes.clone().all(|(_, change)| is_refutation(change)), "at {}", node.core.me().id);
    }
    assert_eq!(told.len(), 3, "above a full mesh most do not observe it");
}
