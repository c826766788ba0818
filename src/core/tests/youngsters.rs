//! Members that came a moment ago, and lie: their word removes nobody, gives no name away, and hides no death.

use std::time::Duration;

use super::liars::{ELSEWHERE, FORCED, Liar, about, old_cluster, update};
use super::net::{Net, address, id, ms};
use crate::core::doors::{Command, StopReason};
use crate::core::limits::SETTLE;
use crate::core::member::{ChangeKind, DetectionMethod, Record, Run, Status};
use crate::core::settings::Profile;
use crate::core::wire::{Message, Note, Update};

/// The liar of a test joins here.
const LIAR_HOST: usize = 90;

/// Adds a liar that joins through the first node, is seen by everybody, and has been Up for so long.
fn fresh_liar(net: &mut Net, age: Duration) -> Liar {
    let node = net.add("liar", LIAR_HOST, &[0]);
    net.run_until(ms(3_000), "the liar is in", Net::all_agree);
    net.run(age);
    Liar::new(node)
}

/// Returns the number of nodes whose view of a name is wrong.
fn misled(net: &Net, name: &str) -> usize {
    let holds = |core: &crate::core::Core| core.record(&id(name)).is_some_and(|record| record.status == Status::Up);
    net.running().filter(|node| !holds(&node.core)).count()
}

#[test]
fn a_newcomer_removes_nobody_from_a_young_cluster() {
    for n in [3, 5, 30] {
        for age in [ms(0), ms(7_000), ms(40_000)] {
            let mut net = Net::cluster(Profile::Default, n);
            net.run(age);
            let liar = fresh_liar(&mut net, ms(1_000));
            for told in 0..n {
                let victim = (told + 1) % n;
                let incarnation = net.nodes[victim].core.me().incarnation + 3;
                let lie = update(about(&net, victim, incarnation, FORCED));
                liar.says(&mut net, told, std::slice::from_ref(&lie));
                liar.says(&mut net, victim, &[lie]);
            }
            net.run(ms(10_000));
            let gone = (0..n).filter(|node| net.nodes[*node].stopped.is_some()).count();
            assert_eq!(gone, 0, "{n} nodes, {age:?} old: {}", net.describe());
            net.assert_all_up();
        }
    }
}

#[test]
fn a_lie_told_to_a_restarted_member_is_not_believed_when_that_has_settled() {
    let mut net = old_cluster(Profile::Default, 6);
    net.kill(2);
    net.run(ms(1_000));
    let told = net.add("n2", 2, &[0]);
    net.run_until(ms(3_000), "back", Net::all_agree);
    let liar = fresh_liar(&mut net, ms(1_000));
    let lie = update(about(&net, 3, net.nodes[3].core.me().incarnation + 3, FORCED));
    liar.says(&mut net, told, &[lie]);
    net.kill(net.nodes.len() - 1);
    net.run(ms(5_000));
    assert_eq!(misled(&net, "n3"), 0, "{}", net.describe());
    net.run(SETTLE + ms(5_000));
    assert_eq!(net.nodes[3].stopped, None, "{}", net.describe());
    assert_eq!(misled(&net, "n3"), 0, "{}", net.describe());
}

#[test]
fn a_member_that_one_node_alone_holds_as_removed_refutes_it_within_seconds() {
    // In a mesh whoever is misled meets its victim at once; on rings others bring the two together.
    for n in [6, 30] {
        let mut net = old_cluster(Profile::Default, n);
        // The liar is in the first view of the one that restarts: an acquaintance.
        let liar = fresh_liar(&mut net, ms(1_000));
        net.kill(2);
        net.run(ms(1_000));
        let told = net.add("n2", 2, &[0]);
        net.run_until(ms(3_000), "back", Net::all_agree);
        let lie = update(about(&net, 3, net.nodes[3].core.me().incarnation, FORCED));
        liar.says(&mut net, told, &[lie]);
        net.run_until(ms(10_000), "put right", |net| misled(net, "n3") == 0);
        net.run(ms(10_000));
        assert_eq!(misled(&net, "n3"), 0, "{}", net.describe());
        net.run(SETTLE + ms(5_000));
        assert_eq!(net.nodes[3].stopped, None, "{n}: {}", net.describe());
        assert_eq!(misled(&net, "n3"), 0, "{n}: {}", net.describe());
    }
}

#[test]
fn whoever_is_told_of_its_removal_by_a_newcomer_alone_says_otherwise() {
    let mut net = old_cluster(Profile::Default, 5);
    let liar = fresh_liar(&mut net, ms(1_000));
    let before = net.nodes[3].core.me().incarnation;
    let lie = update(about(&net, 3, before, FORCED));
    liar.says(&mut net, 3, &[lie]);
    net.run_until(ms(5_000), "refuted", |net| net.nodes[3].core.me().incarnation > before);
    // It does not follow where nobody can go.
    let far = update(about(&net, 3, before + (1 << 50), FORCED));
    liar.says(&mut net, 3, &[far]);
    net.run(ms(5_000));
    assert!(net.nodes[3].core.me().incarnation < before + 10);
}

#[test]
fn the_first_few_members_of_a_cluster_built_by_hand_remove_each_other() {
    for (remover, victim) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let mut net = Net::new(Profile::Default);
        for i in 0..3 {
            net.add(&format!("n{i}"), i, &[0]);
            net.run(ms(8_000));
        }
        net.assert_all_up();
        let victim_id = id(&format!("n{victim}"));
        net.command(remover, Command::Remove { ticket: 1, id: victim_id, force: true });
        net.run_until(ms(1_000), "removed", |net| net.nodes[victim].stopped == Some(StopReason::Removed));
    }
}

/// Returns another run of a node's name at its very address.
fn false_restart(net: &Net, victim: usize, run: u64) -> Record {
    let incarnation = net.nodes[victim].core.me().incarnation + 1_000;
    Record { run: Run(run), ..about(net, victim, incarnation, Status::Up) }
}

#[test]
fn a_restart_that_did_not_happen_is_believed_by_nobody() {
    for (n, age) in [(3, ms(0)), (5, ms(0)), (5, SETTLE), (30, ms(0)), (30, SETTLE)] {
        let mut net = Net::cluster(Profile::Default, n);
        net.run(age);
        let liar = fresh_liar(&mut net, ms(1_000));
        net.forget_reports();
        let victim = n - 1;
        let run = net.nodes[victim].core.me().run;
        for round in 0..10 {
            let lie = update(false_restart(&net, victim, 0xbad + round));
            liar.says_to_all(&mut net, &[lie]);
            for _ in 0..15 {
                net.run(ms(100));
                for node in 0..n {
                    let held = net.nodes[node].core.record(&id(&format!("n{victim}"))).expect("listed");
                    assert_eq!((held.run, held.status), (run, Status::Up), "{n} nodes at n{node}, round {round}");
                }
            }
        }
        let raised = |kind: &ChangeKind| matches!(kind, ChangeKind::DetectedDown(_) | ChangeKind::Joined);
        assert!((0..n).all(|node| !net.reported(node, &format!("n{victim}")).iter().any(raised)));
    }
}

#[test]
fn a_restart_that_did_happen_is_taken_over_at_once_though_it_is_doubted() {
    for n in [3, 5, 30, 60] {
        for (age, pause) in [(ms(0), ms(50)), (ms(0), ms(700)), (SETTLE, ms(50)), (SETTLE, ms(700))] {
            let mut net = Net::cluster(Profile::Default, n);
            net.run(age);
            net.kill(n - 1);
            net.run(pause);
            net.add(&format!("n{}", n - 1), n - 1, &[0]);
            net.run_until(ms(1_500), "taken over", Net::all_agree);
        }
    }
}

#[test]
fn two_newcomers_give_no_name_to_another_address() {
    let mut net = old_cluster(Profile::Default, 40);
    let one = net.add("one", 90, &[0]);
    let two = net.add("two", 91, &[0]);
    net.run_until(ms(3_000), "in", Net::all_agree);
    net.run(ms(1_000));
    let run = net.nodes[7].core.me().run;
    for round in 0..5 {
        let incarnation = net.nodes[7].core.me().incarnation + 1_000;
        let lie =
            Record { run: Run(0xbad + round), address: address(ELSEWHERE), ..about(&net, 7, incarnation, Status::Up) };
        Liar::new(one).says_to_all(&mut net, &[update(lie.clone())]);
        Liar::new(two).says_to_all(&mut net, &[update(lie)]);
        for _ in 0..20 {
            for node in net.running() {
                assert_eq!(node.core.record(&id("n7")).expect("listed").run, run, "at {}", node.core.me().id);
            }
            net.run(ms(5));
        }
    }
}

#[test]
fn whoever_has_just_come_is_not_turned_away_by_others_that_have() {
    for (n, age) in [(1, ms(5_000)), (3, ms(5_000)), (3, SETTLE), (12, SETTLE)] {
        let mut net = Net::cluster(Profile::Local, n);
        net.run(age);
        let liars: Vec<usize> = (0..3).map(|nth| net.add(&format!("liar{nth}"), LIAR_HOST + nth, &[0])).collect();
        net.run_until(ms(3_000), "the liars are in", Net::all_agree);
        let late = net.add("late", 70, &[0]);
        net.run_until(ms(3_000), "in", Net::all_agree);
        for _ in 0..30 {
            let (run, incarnation) = (net.nodes[late].core.me().run, net.nodes[late].core.me().incarnation);
            let lies = [
                Message::HeldStatus { run, incarnation, status: FORCED, age_ms: 0 },
                update(about(&net, late, incarnation, FORCED)),
            ];
            for liar in &liars {
                Liar::new(*liar).says(&mut net, late, &lies);
            }
            net.run(ms(100));
        }
        net.run(ms(3_000));
        assert_eq!(net.nodes[late].stopped, None, "{n} nodes, {age:?} old");
        net.assert_all_up();
        // Its operator may still have it removed.
        net.command(0, Command::Remove { ticket: 1, id: id("late"), force: true });
        net.run_until(ms(2_000), "removed", |net| net.nodes[late].stopped == Some(StopReason::Removed));
    }
}

/// Has a member fall silent, and newcomers say all the while, to everybody, what this makes of the record that is held;
/// returns how long it takes until all others hold the member as Down.
fn silence_is_noticed_beside(
    net: &mut Net,
    liars: &[Liar],
    pause: Duration,
    lies: impl Fn(&Record) -> Vec<Message>,
) -> Option<Duration> {
    net.pause(4, true);
    let began = net.now;
    let is_noticed = |net: &Net| (0..4).all(|node| net.status(node, "n4") == Some(Status::Down));
    while net.now.since(began) < Duration::from_secs(40) {
        for to in 0..4 {
            let held = Record::clone(net.nodes[to].core.record(&id("n4")).expect("listed"));
            for liar in liars {
                liar.says(net, to, &lies(&held));
            }
        }
        net.run(pause);
        if is_noticed(net) {
            return Some(net.now.since(began));
        }
    }
    None
}

fn fresh_liars(net: &mut Net, count: usize) -> Vec<Liar> {
    let nodes: Vec<usize> = (0..count).map(|i| net.add(&format!("liar{i}"), LIAR_HOST + i, &[0])).collect();
    net.run_until(ms(5_000), "the liars are in", Net::all_agree);
    nodes.into_iter().map(Liar::new).collect()
}

#[test]
fn who_has_just_come_keeps_no_silent_member_alive_by_raising_its_incarnation() {
    for (profile, pause) in [(Profile::Local, ms(30)), (Profile::Lan, ms(500))] {
        for status in [Status::Up, Status::Suspect, Status::Leaving] {
            let mut net = old_cluster(profile, 5);
            let liars = fresh_liars(&mut net, 1);
            let lies = |held: &Record| {
                let note = Note { age_ms: 0, method: DetectionMethod::HeartbeatTimeout };
                let note = (status == Status::Suspect).then_some(note);
                let record = Record { incarnation: held.incarnation + 1, status, ..held.clone() };
                vec![Message::Update(Update { note, record })]
            };
            let noticed = silence_is_noticed_beside(&mut net, &liars, pause, lies);
            let most = net.settings.down_timeout + ms(1_000);
            assert!(noticed.is_some_and(|noticed| noticed <= most), "{profile:?}, {status:?}: {noticed:?}");
        }
    }
}

#[test]
fn who_has_just_come_keeps_no_silent_member_alive_by_having_heard_it() {
    for count in [1, 8] {
        let mut net = old_cluster(Profile::Local, 5);
        let liars = fresh_liars(&mut net, count);
        let lies = |held: &Record| vec![Message::HeardAt { run: held.run, age_ms: 0 }];
        let noticed = silence_is_noticed_beside(&mut net, &liars, ms(20), lies);
        let most = net.settings.down_timeout + ms(1_000);
        assert!(noticed.is_some_and(|noticed| noticed <= most), "{count}: {noticed:?}");
    }
}

#[test]
fn nobodys_note_says_that_a_member_restarted() {
    let mut net = old_cluster(Profile::Local, 5);
    let liar = fresh_liars(&mut net, 1).remove(0);
    net.forget_reports();
    for _ in 0..20 {
        let record = about(&net, 4, net.nodes[4].core.me().incarnation, Status::Down);
        let note = Some(Note { age_ms: 0, method: DetectionMethod::Restarted });
        liar.says_to_all(&mut net, &[Message::Update(Update { note, record })]);
        net.run(ms(100));
    }
    for node in 0..4 {
        let reported = net.reported(node, "n4");
        assert!(reported.iter().all(|kind| *kind == ChangeKind::Updated), "at n{node}: {reported:?}");
    }
}
