//! From a broken or refused link to a verdict: the evidence each step needs, and how soon it is there.

use std::time::Duration;

use super::net::*;
use headcount_core::*;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the time at which an observer reported a member Down.
fn down_at(net: &Net, observer: usize, name: &str) -> Option<Time> {
    let mut about = net.nodes[observer].changes.iter().filter(|(_, change)| change.record.id == *name);
    about.find(|(_, change)| matches!(change.kind, ChangeKind::DetectedDown(_))).map(|(at, _)| *at)
}

/// Returns true if nobody runs who holds this node as live, or as joining.
fn is_over(net: &Net, name: &str) -> bool {
    net.running().all(|node| {
        let counts = node.core.counts();
        let held = node.core.record(&id(name)).map(|record| record.status);
        counts[Status::Joining.index()] == 0 && held.is_none_or(|status| status == Status::Down)
    })
}

fn assert_nobody_is_accused(net: &Net) {
    for node in net.running() {
        let accusations = node
            .changes
            .iter()
            .filter(|(_, change)| matches!(change.kind, ChangeKind::DetectedDown(_) | ChangeKind::Suspected));
        assert_eq!(accusations.count(), 0, "{}", net.describe());
    }
}

#[test]
fn a_crash_is_known_within_a_second_in_every_profile() {
    for profile in Profile::ALL {
        for n in [2, 3, 12] {
            let mut net = Net::linked(profile, n);
            let at = net.now;
            net.kill(n - 1);
            net.run(SECOND);
            for observer in 0..n - 1 {
                let down = down_at(&net, observer, &format!("n{}", n - 1));
                assert!(down.is_some_and(|down| down.since(at) <= SECOND), "{profile} {n}: {down:?} at n{observer}");
            }
        }
    }
}

#[test]
fn a_crash_right_after_joining_is_known_within_a_second() {
    for profile in Profile::ALL {
        for n in [2, 3, 10, 40] {
            let moments: &[u64] = if n == 40 { &[50] } else { &[0, 20, 50, 100, 200, 350, 500] };
            for &after in moments {
                // The newcomer's address is the smallest, the greatest, or in between: the smaller one opens the link.
                for host in [0, 100, 200] {
                    let mut net = Net::new(profile);
                    net.lay_wires();
                    let seed = if host == 100 { 101 } else { 1 };
                    for i in 0..n - 1 {
                        let at = if host == 100 && i % 2 == 0 { 101 + i } else { 1 + i };
                        net.add(&format!("n{i}"), at, &[seed]);
                    }
                    net.run(SECOND * 12);
                    net.assert_all_up();
                    let newcomer = net.add("late", host, &[seed]);
                    let is_up = |net: &Net| net.nodes[newcomer].core.is_up();
                    net.run_until(SECOND * 10, "it is up", is_up);
                    net.run(ms(after));
                    net.kill(newcomer);
                    net.run(SECOND);
                    assert!(is_over(&net, "late"), "{profile} {n} after {after} ms at {host}: {}", net.describe());
                    assert!(net.running().all(|node| node.core.counters().suspicions_raised <= 1));
                }
            }
        }
    }
}

#[test]
fn a_crash_right_after_joining_a_founder_of_any_age_is_known_within_a_second() {
    for profile in Profile::ALL {
        for age in [0, 100, 300, 499, 1_000] {
            // The newcomer's address is the smaller one, or the greater; it comes alone, or after another one.
            for (host, n) in [(0, 1), (100, 1), (0, 2), (100, 2)] {
                let mut net = Net::new(profile);
                net.lay_wires();
                net.add("n0", 50, &[50]);
                net.run_until(SECOND * 10, "it founds a cluster", |net| net.nodes[0].core.is_up());
                net.run(ms(age));
                for i in 1..=n {
                    let name = if i == n { "late" } else { "n1" };
                    net.add(name, host + i, &[50]);
                    net.run_until(SECOND * 10, "it is up", |net| net.nodes[i].core.is_up());
                }
                net.kill(n);
                net.run(SECOND);
                assert!(is_over(&net, "late"), "{profile}, {n} of {age} ms, at {host}: {}", net.describe());
            }
        }
    }
}

#[test]
fn a_joiner_that_dies_before_it_is_up_is_dropped_from_the_listing_after_the_down_timeout() {
    for profile in Profile::ALL {
        // It dies after so many milliseconds: before, while and after it is let in.
        for after in 1..12 {
            let mut net = Net::linked(profile, 3);
            let newcomer = net.add("late", 9, &[0]);
            net.run(ms(after));
            net.kill(newcomer);
            net.run(net.settings.down_timeout + SECOND);
            assert!(is_over(&net, "late"), "{profile} after {after} ms: {}", net.describe());
        }
    }
}

#[test]
fn a_joiner_that_stalls_keeps_its_place_until_the_down_timeout() {
    let mut net = Net::linked(Profile::Default, 3);
    let newcomer = net.add("late", 9, &[0]);
    net.run_until(SECOND, "it is listed", |net| net.nodes[0].core.counts()[Status::Joining.index()] == 1);
    net.pause(newcomer, true);
    net.run(net.settings.down_timeout - SECOND);
    assert_eq!(net.nodes[0].core.counts()[Status::Joining.index()], 1);
    net.pause(newcomer, false);
    net.run(SECOND * 2);
    net.assert_all_up();
}

#[test]
fn a_member_whose_links_are_refused_from_the_beginning_and_who_answers_is_accused_by_nobody() {
    for n in [2, 3, 12] {
        let mut net = Net::new(Profile::Local);
        net.lay_wires();
        net.set_tcp(Tcp::Rejected);
        for i in 0..n {
            net.add(&format!("n{i}"), i, &[0]);
        }
        net.run(SECOND * 30);
        net.assert_all_up();
        assert_nobody_is_accused(&net);
    }
}

#[test]
fn links_that_break_under_the_living_accuse_nobody() {
    let mut net = Net::linked(Profile::Local, 5);
    for round in 0..10 {
        for other in 1..5 {
            net.reset_links(0, other);
        }
        net.run(SECOND * if round % 2 == 0 { 1 } else { 3 });
    }
    assert_nobody_is_accused(&net);
    net.run(SECOND * 90);
    assert_eq!(net.nodes[0].core.open_links(), 4);
}

#[test]
fn a_host_that_loses_its_power_is_judged_by_its_silence_not_by_its_links() {
    let mut net = Net::linked(Profile::Local, 3);
    let at = net.now;
    net.power_off(2);
    net.run(SECOND * 60);
    for observer in 0..2 {
        let down = down_at(&net, observer, "n2").expect("silence tells");
        // Its last word may have been a heartbeat before.
        assert!(down.since(at) >= net.settings.down_timeout - net.settings.heartbeat_interval, "{:?}", down.since(at));
    }
    assert!(net.nodes.iter().all(|node| node.core.counters().crashes_detected == 0));
}

#[test]
fn one_observer_that_is_refused_and_hears_nothing_is_not_believed_alone() {
    let mut net = Net::linked(Profile::Local, 4);
    // No packet of n0 to n3 reaches anybody who answers: as behind a proxy that died.
    net.block_datagrams(0, 3, true);
    net.block_datagrams(3, 0, true);
    net.set_tcp(Tcp::Rejected);
    net.run(SECOND * 20);
    assert_nobody_is_accused(&net);
    assert_eq!(net.nodes[0].core.counters().crashes_detected, 0);
}

#[test]
fn two_of_three_observers_that_are_refused_are_refuted_by_the_third() {
    let mut net = Net::linked(Profile::Local, 4);
    for observer in [0, 1] {
        net.block_datagrams(observer, 3, true);
        net.block_datagrams(3, observer, true);
    }
    net.set_tcp(Tcp::Rejected);
    net.run(SECOND * 20);
    assert!(down_at(&net, 2, "n3").is_none(), "n2 hears it and says so: {}", net.describe());
    assert!(net.nodes[0].core.counters().crashes_refuted + net.nodes[1].core.counters().crashes_refuted > 0);
    assert_eq!(net.nodes[2].core.counters().crashes_detected, 0);
}

#[test]
fn packets_of_the_dead_that_come_late_delay_the_verdict_and_do_not_prevent_it() {
    let mut net = Net::linked(Profile::Default, 4);
    let at = net.now;
    // The last packets that n3 sent wait in the network until its case is open.
    net.hold_up(3, true);
    net.run(ms(300));
    net.kill(3);
    net.run(ms(150));
    net.hold_up(3, false);
    net.run(SECOND * 2);
    for observer in 0..3 {
        let down = down_at(&net, observer, "n3").expect("known");
        assert!(down.since(at) <= SECOND * 2, "{:?}", down.since(at));
    }
}

#[test]
fn a_process_that_a_program_doubts_is_found_dead_within_a_second_where_no_link_had_shown_it() {
    for n in [2, 4, 30] {
        let quiet = |is_doubted: bool| {
            let mut net = Net::cluster(Profile::Default, n);
            let victim = n - 1;
            // Links were refused or lost for long, and are tried once in a minute.
            net.run(SECOND * 200);
            net.lay_wires();
            net.kill(victim);
            let (at, doubted) = (net.now, id(&format!("n{victim}")));
            if is_doubted {
                net.command(0, Command::Doubt { ticket: 1, id: doubted.clone() });
                assert_eq!(net.nodes[0].replies, [Reply::Doubted]);
            }
            for _ in 0..100 {
                if is_doubted {
                    // A program doubts at every request that fails: the verdict comes no later for that.
                    net.command(0, Command::Doubt { ticket: 2, id: doubted.clone() });
                }
                net.run(ms(20));
            }
            down_at(&net, 0, doubted.as_str()).map(|down| down.since(at))
        };
        assert_eq!(quiet(false), None, "{n}: nobody can know it yet");
        let down = quiet(true);
        assert!(down.is_some_and(|down| down <= SECOND), "{n}: {down:?}");
    }
}

#[test]
fn a_doubt_is_no_evidence_and_asks_a_member_a_few_times_a_second_at_most() {
    let mut net = Net::linked(Profile::Default, 4);
    let probes = net.nodes[0].core.counters().probes_sent;
    for _ in 0..100 {
        net.command(0, Command::Doubt { ticket: 1, id: id("n1") });
        net.run(ms(10));
    }
    assert!(net.nodes[0].core.counters().probes_sent - probes <= 2, "in a second");
    net.run(SECOND * 20);
    assert_nobody_is_accused(&net);
    net.command(0, Command::Doubt { ticket: 2, id: id("nobody") });
    let refused = Reply::Refused(CommandError::NoSuchMember { id: id("nobody") });
    assert_eq!(net.nodes[0].replies.last(), Some(&refused));
}
