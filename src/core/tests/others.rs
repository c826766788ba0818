//! Another electorate in the cluster: what is shown of it by whoever was told of it.

use super::claims::truth;
use super::electing::{SECOND, cluster, leader};
use super::net::{Net, id, ms};
use super::speaker::Speaker;
use headcount_core::election::{Alarm, Descent, ElectorateReport, Lineage, Term};
use headcount_core::limits::OTHER_ELECTORATE_MEMORY;
use headcount_core::wire::{LeaderClaim, Message};
use headcount_core::{Notice, Profile, Time};

const HEARER: usize = 3;
const TELLER: usize = 4;

/// Returns a report of an electorate that is sure of itself, and names no leader.
fn report(root: u64) -> Message {
    let descent = Descent { lineage: Lineage(root), root: Lineage(root), began: Term(0) };
    Message::ElectorateReport(ElectorateReport { descent, is_sure: true })
}

/// Returns the root and the leader of the other electorate that the hearer shows.
fn shown(net: &Net) -> Option<(u64, Option<String>)> {
    let other = net.nodes[HEARER].core.other_electorate()?;
    Some((other.root.0, other.leader.as_ref().map(ToString::to_string)))
}

#[test]
fn the_leader_of_another_electorate_is_shown_until_nobody_reports_that_one_any_more_or_a_third_one_is_met() {
    let mut net = cluster(5, 3);
    let root = Lineage(0xbad);
    let led = LeaderClaim { lineage: root, root, leader: Some(id("n9")), ..truth(&net, leader(&net).0) };
    let led = Message::LeaderClaim(Box::new(led));
    let says = |net: &mut Net, word: &Message| {
        Speaker::new(TELLER).says(net, HEARER, std::slice::from_ref(word));
    };
    let (is_led, is_vacant) = (Some((0xbad, Some("n9".to_owned()))), Some((0xbad, None)));
    says(&mut net, &report(0xbad));
    assert_eq!(shown(&net), is_vacant);
    says(&mut net, &led);
    assert_eq!(shown(&net), is_led);
    says(&mut net, &report(0xbad));
    assert_eq!(shown(&net), is_led, "a report that names none takes no leader away");
    net.run(OTHER_ELECTORATE_MEMORY - SECOND);
    assert_eq!(shown(&net), is_led);
    net.run(SECOND * 2);
    assert_eq!(shown(&net), None);
    says(&mut net, &report(0xbad));
    assert_eq!(shown(&net), is_vacant, "it was named long ago");
    says(&mut net, &led);
    says(&mut net, &report(0xbee));
    assert_eq!(shown(&net), Some((0xbee, None)), "that one led nobody of this one");
}

#[test]
fn a_leader_that_nobody_names_any_more_is_forgotten_although_its_electorate_is_still_reported() {
    let mut net = cluster(5, 3);
    let root = Lineage(0xbad);
    let led = LeaderClaim { lineage: root, root, leader: Some(id("n9")), ..truth(&net, leader(&net).0) };
    Speaker::new(TELLER).says(&mut net, HEARER, &[Message::LeaderClaim(Box::new(led))]);
    let mut names = Vec::new();
    for _ in 0..4 {
        net.run(OTHER_ELECTORATE_MEMORY / 3);
        Speaker::new(TELLER).says(&mut net, HEARER, &[report(0xbad)]);
        names.push(shown(&net).expect("it is reported").1);
    }
    assert_eq!(names, [Some("n9".to_owned()), Some("n9".to_owned()), None, None]);
}

/// Returns the root of the electorate that a node is sure of.
fn root_at(net: &Net, node: usize) -> Option<Lineage> {
    Some(net.nodes[node].core.election()?.founded()?.root)
}

#[test]
fn who_goes_over_to_another_electorate_shows_that_one_as_another_no_more() {
    // A voter loses its disk while all are forming: n0 has counted on its former identity, and nobody on n0.
    let mut net = Net::new(Profile::Local);
    net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
    for i in 0..3 {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.cut(1, 2, true);
    while root_at(&net, 0).is_none() {
        net.run(ms(1) / 20);
        assert!(net.now < Time::ORIGIN + SECOND, "{}", net.describe());
    }
    let first = root_at(&net, 0).expect("formed");
    net.cut(0, 1, true);
    net.cut(0, 2, true);
    net.kill(2);
    net.disks.remove("n2");
    let blank = net.add("n2", 2, &[1]);
    net.cut(0, blank, true);
    net.run_until(SECOND * 10, "the others form another one", |net| net.nodes[1].core.leadership().leader.is_some());
    let second = root_at(&net, 1).expect("formed");
    assert!(first != second && root_at(&net, 0) == Some(first));
    Speaker::new(1).says(&mut net, 0, &[report(second.0)]);
    let told = Notice::Election(Alarm::OtherElectorate { id: id("n1") });
    assert!(net.nodes[0].notices.contains(&told), "{:?}", net.nodes[0].notices);
    assert_eq!(net.nodes[0].core.other_electorate().expect("told").root, second);
    net.cut(0, 1, false);
    net.cut(0, blank, false);
    net.run_until(SECOND * 10, "it goes over", |net| root_at(net, 0) == Some(second));
    assert_eq!(net.nodes[0].core.other_electorate(), None);
}
