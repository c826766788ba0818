//! One name, two claimants: two living processes end as one.

use std::time::Duration;

use super::hostile::{packet, send};
use super::net::{Net, address, id, ms};
use super::speaker::{ELSEWHERE, Speaker, about, mail, old_cluster, update};
use headcount_core::wire::{Message, Nonce, Packet};
use headcount_core::{Profile, Record, Run, Status, StopReason};

const SECOND: Duration = Duration::from_secs(1);

fn has_lost(net: &Net, node: usize) -> bool {
    matches!(net.nodes[node].stopped, Some(StopReason::NameInUse { .. }))
}

/// Returns islands of members beside each other, and the twin in each; the first side's twin is the older one.
fn islands(sides: [usize; 2], have_common_seeds: bool) -> (Net, [usize; 2]) {
    let mut net = Net::new(Profile::Local);
    let mut twins = [0; 2];
    let mut of: Vec<usize> = Vec::new();
    for side in 0..2 {
        let first = side * 10;
        let seeds = if have_common_seeds { vec![first, 10 - first] } else { vec![first] };
        for i in 0..=sides[side] {
            let is_twin = i == sides[side];
            let name = if is_twin { "twin".to_owned() } else { format!("s{side}n{i}") };
            let node = net.add(&name, first + i, &seeds);
            if is_twin {
                twins[side] = node;
            }
            of.push(side);
            for (other, its_side) in of.iter().enumerate().take(node) {
                net.cut(node, other, *its_side != side);
            }
        }
        net.run(SECOND * 6);
    }
    assert!(net.nodes.iter().all(|node| node.core.is_up()), "{}", net.describe());
    (net, twins)
}

fn heal(net: &mut Net) {
    for a in 0..net.nodes.len() {
        for b in 0..net.nodes.len() {
            net.cut(a, b, false);
        }
    }
}

#[test]
fn two_processes_of_one_name_that_meet_end_as_one() {
    for sides in [[0, 0], [0, 1], [1, 0], [1, 1], [0, 3], [3, 0], [2, 2], [1, 3], [3, 1]] {
        for age in [SECOND, SECOND * 70] {
            let (mut net, twins) = islands(sides, true);
            net.run(age);
            heal(&mut net);
            net.run(age + SECOND * 15);
            let lost = twins.map(|twin| has_lost(&net, twin));
            assert!(lost[0] != lost[1], "{sides:?}, {age:?}: {lost:?}\n{}", net.describe());
            assert!(net.all_agree(), "{sides:?}: {}", net.describe());
        }
    }
}

#[test]
fn who_began_later_keeps_the_name_whatever_side_is_larger() {
    for sides in [[0, 3], [3, 0], [1, 3], [3, 1]] {
        let (mut net, twins) = islands(sides, true);
        heal(&mut net);
        net.run(SECOND * 15);
        assert!(has_lost(&net, twins[0]), "{sides:?}");
    }
}

#[test]
fn islands_without_common_seeds_have_one_of_a_name_once_they_are_joined() {
    for (sides, age) in [([0, 3], 5), ([3, 0], 5), ([2, 2], 5), ([1, 3], 5), ([2, 2], 70), ([0, 3], 70), ([3, 0], 70)] {
        let (mut net, twins) = islands(sides, false);
        net.run(SECOND * age);
        heal(&mut net);
        net.run(SECOND * 5);
        let command = headcount_core::Command::Join { ticket: 1, addresses: vec![address(0)] };
        let asker = net.nodes.iter().position(|node| node.address == address(10)).expect("a first of its side");
        net.command(asker, command);
        net.run(SECOND * if age > 60 { 75 } else { 15 });
        let lost = twins.map(|twin| has_lost(&net, twin));
        assert!(lost[0] != lost[1], "{sides:?}: {lost:?}\n{}", net.describe());
    }
}

/// Returns another run of n1's name, above it.
fn rival(net: &Net, host: usize) -> Record {
    let incarnation = net.nodes[1].core.me().incarnation + 10;
    Record { run: Run(0xbad), address: address(host), ..about(net, 1, incarnation, Status::Up) }
}

fn keeps_its_name(net: &Net) {
    assert_eq!(net.nodes[1].stopped, None);
    let run = net.nodes[1].core.me().run;
    for node in net.running() {
        let held = node.core.record(&id("n1")).expect("listed");
        assert_eq!((held.run, held.status), (run, Status::Up), "{}", net.describe());
    }
}

#[test]
fn late_news_of_a_dead_process_takes_nobodys_name() {
    for n in [3, 5, 40] {
        let mut net = old_cluster(Profile::Local, n);
        let (teller, dead) = (Speaker::new(2), rival(&net, ELSEWHERE));
        for _ in 0..5 {
            teller.says_to_all(&mut net, &[update(dead.clone())]);
            net.run(SECOND);
        }
        net.run(SECOND * 3);
        keeps_its_name(&net);
    }
}

#[test]
fn a_process_that_was_copied_while_it_ran_stops_and_the_copy_that_wrote_last_goes_on() {
    let mut net = old_cluster(Profile::Local, 3);
    let record = net.nodes[1].core.me();
    let incarnation = record.incarnation + 1;
    let written = Record { address: address(ELSEWHERE), incarnation, ..Record::clone(record) };
    let accused = Record { status: Status::Suspect, ..written.clone() };
    let teller = Speaker::new(2);
    teller.says(&mut net, 1, &[update(accused)]);
    net.run(SECOND);
    assert_eq!(net.nodes[1].stopped, None, "others accuse it: it refutes");
    let incarnation = net.nodes[1].core.me().incarnation + 1;
    teller.says(&mut net, 1, &[update(Record { incarnation, ..written })]);
    net.run(SECOND);
    assert_eq!(net.nodes[1].stopped, Some(StopReason::Copied { address: address(ELSEWHERE) }));
    assert!(!matches!(net.status(0, "n1"), Some(Status::Left(_))), "it says no word of leaving in the copy's name");
}

#[test]
fn a_stranger_that_is_up_takes_its_name_at_once_and_the_holder_is_told() {
    let mut net = old_cluster(Profile::Local, 3);
    let stranger = rival(&net, ELSEWHERE);
    let probe = Message::Probe { nonce: Nonce(1) };
    send(&mut net, 0, ELSEWHERE, &packet(stranger.run, 1, &[probe]));
    net.run(ms(5));
    let asked = mail(&net, ELSEWHERE).into_iter().find_map(|message| match message {
        Message::WhoAreYou { nonce, .. } => Some(nonce),
        _ => None,
    });
    let introduction = Message::IAm { nonce: asked.expect("asked"), record: stranger.clone() };
    net.sent = Some(Vec::new());
    send(&mut net, 0, ELSEWHERE, &packet(stranger.run, 2, &[introduction]));
    assert_eq!(net.nodes[0].core.record(&id("n1")).map(|held| held.run), Some(stranger.run));
    let tells = |bytes: &[u8]| {
        let messages = Packet::decode(bytes).expect("ours").messages;
        messages.iter().any(|message| matches!(message, Message::Update(update) if update.record.run == stranger.run))
    };
    let sent = net.sent.take().expect("kept");
    assert!(sent.iter().any(|(_, to, bytes)| *to == address(1) && tells(bytes)));
}

#[test]
fn of_two_processes_of_one_name_that_join_at_once_by_different_members_one_stays_and_the_other_is_told() {
    for apart in [0, 1, 3] {
        let mut net = old_cluster(Profile::Default, 4);
        let one = net.add("x", 70, &[0]);
        net.run(ms(apart));
        let other = net.add("x", 71, &[1]);
        net.run(SECOND * 2);
        let lost = [one, other].map(|twin| has_lost(&net, twin));
        assert!(lost[0] != lost[1], "{apart} ms: {lost:?}\n{}", net.describe());
    }
}

#[test]
fn a_process_whose_memory_was_set_back_stops() {
    let mut net = old_cluster(Profile::Local, 3);
    let record = Record::clone(net.nodes[1].core.me());
    let written = Record { incarnation: record.incarnation + 1, ..record };
    Speaker::new(2).says(&mut net, 1, &[update(written)]);
    net.run(SECOND);
    assert_eq!(net.nodes[1].stopped, Some(StopReason::SetBack));
}

#[test]
fn a_restart_elsewhere_is_in_as_soon_as_its_name_is_free() {
    for n in [3, 30] {
        for is_noticed in [true, false] {
            let mut net = old_cluster(Profile::Local, n);
            net.kill(1);
            net.run(if is_noticed { SECOND * 4 } else { ms(10) });
            let known = if is_noticed { Duration::ZERO } else { net.settings.down_timeout };
            let reborn = net.add("n1", 50, &[0]);
            net.run_until(known + SECOND * 2, "in everywhere", |net| net.nodes[reborn].core.is_up() && net.all_agree());
        }
    }
}

/// Has two twins meet that hear each other one way at most.
fn assert_one_stays(lost: [bool; 2]) {
    let (mut net, twins) = islands([1, 1], true);
    heal(&mut net);
    for (way, is_lost) in lost.into_iter().enumerate() {
        let (from, to) = (twins[way], twins[1 - way]);
        if is_lost {
            net.cut_one_way(from, to);
        }
    }
    net.run(SECOND * 60);
    let stopped = twins.map(|twin| has_lost(&net, twin));
    assert!(stopped[0] != stopped[1], "{lost:?}: {stopped:?}\n{}", net.describe());
}

#[test]
fn of_two_processes_of_one_name_that_do_not_hear_each_other_one_stays() {
    for lost in [[true, false], [false, true], [true, true]] {
        assert_one_stays(lost);
    }
}
