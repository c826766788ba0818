//! Another electorate in the cluster: what is shown of it by whoever was told of it.

use std::time::Duration;

use super::claims::truth;
use super::electing::{SECOND, cluster, leader};
use super::net::{Net, id};
use super::speaker::Speaker;
use headcount_core::election::{Descent, ElectorateReport, Lineage, Term};
use headcount_core::limits::{EARLIEST_FOUNDING, OTHER_ELECTORATE_MEMORY};
use headcount_core::wire::{LeaderClaim, Message};

const HEARER: usize = 3;
const TELLER: usize = 4;

/// Returns an electorate that was founded long after all others.
fn late(root: u64) -> Descent {
    Descent { lineage: Lineage(root), root: Lineage(root), began: Term(0), founded: EARLIEST_FOUNDING * 2 }
}

/// Returns a report of an electorate that is sure of itself, and names no leader.
fn report(root: u64) -> Message {
    Message::ElectorateReport(ElectorateReport { descent: late(root), is_sure: true })
}

/// Returns the root and the leader of the other electorate that the hearer shows.
fn shown(net: &Net) -> Option<(u64, Option<String>)> {
    let other = net.nodes[HEARER].core.other_electorate()?;
    Some((other.root.0, other.leader.as_ref().map(ToString::to_string)))
}

#[test]
fn the_leader_of_another_electorate_is_shown_until_nobody_reports_that_one_any_more_or_a_third_one_is_met() {
    let mut net = cluster(5, 3);
    let led = LeaderClaim { descent: late(0xbad), leader: Some(id("n9")), ..truth(&net, leader(&net).0) };
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
    let led = LeaderClaim { descent: late(0xbad), leader: Some(id("n9")), ..truth(&net, leader(&net).0) };
    Speaker::new(TELLER).says(&mut net, HEARER, &[Message::LeaderClaim(Box::new(led))]);
    let mut names = Vec::new();
    for _ in 0..4 {
        net.run(OTHER_ELECTORATE_MEMORY / 3 + Duration::from_millis(1));
        Speaker::new(TELLER).says(&mut net, HEARER, &[report(0xbad)]);
        names.push(shown(&net).expect("it is reported").1);
    }
    assert_eq!(names, [Some("n9".to_owned()), Some("n9".to_owned()), None, None]);
}
