//! Word of electorates that nobody has confirmed: it is forgotten when who told of it is gone, and honest word stays.

use std::time::Duration;

use super::leadership::{SECOND, leader};
use super::liars::Liar;
use super::net::{Net, id, ms};
use crate::core::election::{Body, Descent, ElectionMessage, ElectorateReport, Identity, Lineage, Roster, Term};
use crate::core::limits::{FOUNDED_HINT, FOUNDED_REVIEW, SETTLE};
use crate::core::settings::Profile;
use crate::core::wire::Message;

/// Returns the host where the `nth` stranger is.
fn far(nth: usize) -> usize {
    90 + nth
}

fn configured(voters: usize) -> Net {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..voters).map(|i| id(&format!("n{i}"))).collect();
    net
}

fn report() -> ElectorateReport {
    let lineage = Lineage(0xbad);
    ElectorateReport { descent: Descent { lineage, root: lineage, began: Term(0) }, is_sure: true }
}

fn word() -> Message {
    Message::ElectorateReport(report())
}

/// Returns the report of an electorate that a node gives to others.
fn told_by(net: &Net, node: usize) -> Option<ElectorateReport> {
    let core = &net.nodes[node].core;
    core.election().expect("takes part").electorate_report()
}

fn say_for(net: &mut Net, liars: &[usize], duration: Duration) {
    let until = net.now + duration;
    while net.now < until {
        for liar in liars {
            Liar::new(*liar).says_to_all(net, &[word()]);
        }
        net.run(ms(150));
    }
}

/// Has two strangers join the first of three voters, tell all that come later of an electorate that is none, and go.
/// Returns the nodes that came later and vote nowhere.
fn after_strangers(stay: Duration) -> (Net, [usize; 2]) {
    let mut net = configured(3);
    net.add("n0", 0, &[]);
    net.run(SECOND * 2);
    let liars = [0, 1].map(|nth| net.add_unconfigured(&format!("liar{nth}"), far(nth), &[0]));
    net.run(SECOND);
    say_for(&mut net, &liars, SECOND);
    let others = ["d", "e"].map(|name| {
        let host = net.nodes.len();
        let node = net.add_unconfigured(name, host, &[0]);
        say_for(&mut net, &liars, ms(200));
        node
    });
    say_for(&mut net, &liars, stay);
    for liar in liars {
        net.kill(liar);
    }
    (net, others)
}

/// Returns a time longer than it takes to find out that somebody is gone, and to forget what it said.
fn until_forgotten(net: &Net) -> Duration {
    net.settings.down_timeout + FOUNDED_REVIEW + FOUNDED_HINT + SECOND
}

#[test]
fn what_strangers_told_of_an_electorate_is_forgotten_when_they_are_gone_and_the_voters_form_theirs() {
    for stay in [SECOND * 3, SECOND * 40] {
        for later in [Duration::ZERO, SETTLE, SETTLE * 5] {
            let (mut net, others) = after_strangers(stay);
            let until = until_forgotten(&net);
            net.run(until);
            for node in others {
                assert_eq!(told_by(&net, node), None, "n{node} after {stay:?}");
                assert_eq!(net.nodes[node].core.election().expect("takes part").founded(), None);
            }
            net.run(later);
            for i in 1..3 {
                let host = net.nodes.len();
                net.add(&format!("n{i}"), host, &[0]);
            }
            net.run(SECOND * 5);
            let (elected, _) = leader(&net);
            assert!(net.voters.contains(&net.nodes[elected].core.me().id), "{later:?}: {}", net.describe());
        }
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
fn what_survivors_know_stays_with_who_heard_it_of_them_and_keeps_blank_voters_from_forming() {
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
        assert!(told_by(&net, late).expect("known").is_sure, "restarted: {are_restarted}");
        for i in 0..3 {
            net.disks.remove(&format!("n{i}"));
            net.add(&format!("n{i}"), 10 + i, &[5]);
        }
        net.run(SETTLE);
        assert!(net.running().all(|node| !node.core.leadership().is_me), "nobody forms another one");
    }
}

/// Returns two of three voters that wait for the third one beside others, and a newcomer that votes nowhere.
fn waiting_beside_a_newcomer() -> (Net, usize) {
    let mut net = configured(3);
    for (host, name) in ["n0", "n1", "d", "e"].into_iter().enumerate() {
        net.add(name, host, &[0]);
    }
    net.run(SECOND * 10);
    let liar = net.add_unconfigured("liar", far(0), &[0]);
    net.run(SECOND);
    (net, liar)
}

#[test]
fn what_a_newcomer_told_a_joiner_as_its_sponsor_holds_the_voters_up_for_a_while_only() {
    let (mut net, liar) = waiting_beside_a_newcomer();
    let late = net.add("n2", 5, &[0]);
    assert!(!net.nodes[late].core.is_up());
    // As a welcome does. It never says so again.
    let by = net.nodes[liar].core.me().run;
    net.nodes[late].core.receive_electorate_report(by, report());
    net.drain(late);
    net.run(FOUNDED_HINT);
    assert!(net.running().all(|node| !node.core.leadership().is_me), "it is believed for a while");
    net.run(FOUNDED_REVIEW + SECOND * 3);
    leader(&net);
}

#[test]
fn the_roster_of_a_newcomer_that_votes_nowhere_holds_the_voters_up_for_a_while_only() {
    let (mut net, liar) = waiting_beside_a_newcomer();
    let roster = Roster { names: 0, holds: None, asks: false, founded: Some(report()), newest: None };
    let word = ElectionMessage { from: Identity(7), lineage: Lineage(0), body: Body::Roster(roster) };
    let word = Message::Election(Box::new(word));
    let says = |net: &mut Net| {
        for _ in 0..20 {
            // The third voter does not know who of those that were here before it is new.
            for voter in [0, 1] {
                Liar::new(liar).says(net, voter, std::slice::from_ref(&word));
            }
            net.run(ms(150));
        }
    };
    says(&mut net);
    net.add("n2", 5, &[0]);
    says(&mut net);
    net.run(FOUNDED_HINT + FOUNDED_REVIEW + SECOND * 3);
    leader(&net);
}
