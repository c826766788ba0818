//! Reports of electorates that nobody has confirmed: they are forgotten when who told of them is gone, and honest ones
//! stay.

use super::electing::{SECOND, leader};
use super::net::{Net, id, ms};
use super::speaker::Speaker;
use headcount_core::election::{Alarm, Descent, ElectorateReport, Lineage, Term};
use headcount_core::limits::{EARLIEST_FOUNDING, FOUNDED_HINT, FOUNDED_REVIEW, SETTLE};
use headcount_core::wire::Message;
use headcount_core::{Command, Notice, Profile};

fn configured(voters: usize) -> Net {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..voters).map(|i| id(&format!("n{i}"))).collect();
    net
}

fn report() -> ElectorateReport {
    let lineage = Lineage(0xbad);
    ElectorateReport {
        descent: Descent { lineage, root: lineage, began: Term(0), founded: EARLIEST_FOUNDING },
        is_sure: true,
    }
}

fn message() -> Message {
    Message::ElectorateReport(report())
}

/// Returns the report of an electorate that a node gives to others.
fn told_by(net: &Net, node: usize) -> Option<ElectorateReport> {
    let core = &net.nodes[node].core;
    core.election().expect("takes part").electorate_report()
}

/// Has a node with an old disk, which knows of an electorate that is gone, tell all others of it beside the first of three voters.
fn beside_an_old_disk() -> (Net, usize) {
    let mut net = configured(3);
    net.add("n0", 0, &[0]);
    net.run(SECOND * 2);
    let old = net.add_unconfigured("old", 90, &[0]);
    net.run(SECOND);
    for other in 0..3 {
        if other > 0 {
            net.add(&format!("n{other}"), other, &[0]);
        }
        for _ in 0..10 {
            Speaker::new(old).says_to_all(&mut net, &[message()]);
            net.run(ms(150));
        }
    }
    (net, old)
}

#[test]
fn what_a_node_with_an_old_disk_told_of_an_electorate_holds_until_it_is_removed() {
    for has_left in [false, true] {
        let (mut net, old) = beside_an_old_disk();
        net.run(SETTLE);
        assert!(net.running().all(|node| !node.core.leadership().is_me), "it is believed");
        let held_up = Notice::Election(Alarm::FormingHeldUp { by: id("old") });
        assert!(net.nodes[0].notices.contains(&held_up), "an operator is told");
        assert_eq!(net.nodes[0].core.election().expect("takes part").founded(), None, "nobody is sure of it");
        if has_left {
            net.command(old, Command::Leave);
        } else {
            net.kill(old);
        }
        net.run(net.settings.down_timeout + SETTLE);
        assert!(net.running().all(|node| !node.core.leadership().is_me), "it may be all that is left");
        net.command(0, Command::Remove { ticket: 1, id: id("old"), force: true });
        net.run(FOUNDED_REVIEW + FOUNDED_HINT + SECOND * 5);
        leader(&net);
        assert_ne!(told_by(&net, 0), Some(report()));
    }
}

/// Returns two nodes that vote nowhere and know of the electorate of three voters that are all gone; without the agreed
/// view, if they were restarted.
fn survivors(are_restarted: bool) -> (Net, [usize; 2]) {
    let mut net = configured(3);
    for i in 0..3 {
        net.add(&format!("n{i}"), i, &[0]);
    }
    let mut survivors = [("d", 3), ("e", 4)].map(|(name, host)| net.add_unconfigured(name, host, &[0]));
    net.run(SECOND * 5);
    leader(&net);
    (0..3).for_each(|node| net.kill(node));
    net.run(SECOND * 10);
    if are_restarted {
        for node in survivors {
            net.kill(node);
        }
        survivors = [("d", 3), ("e", 4)].map(|(name, host)| net.add_unconfigured(name, host, &[3]));
        net.run(SECOND * 3);
    }
    (net, survivors)
}

#[test]
fn what_survivors_told_holds_while_they_are_down_and_keeps_blank_voters_from_forming() {
    for are_restarted in [false, true] {
        let (mut net, survivors) = survivors(are_restarted);
        let late = net.add_unconfigured("late", 5, &[3]);
        net.run(SECOND * 5);
        assert!(told_by(&net, late).is_some());
        net.run(SETTLE);
        for node in survivors {
            net.kill(node);
        }
        net.run(SETTLE);
        assert!(told_by(&net, late).is_some(), "restarted: {are_restarted}");
        for i in 0..3 {
            net.disks.remove(&format!("n{i}"));
            net.add(&format!("n{i}"), 10 + i, &[5]);
        }
        net.run(SETTLE);
        assert!(net.running().all(|node| !node.core.leadership().is_me), "nobody forms another one");
    }
}
