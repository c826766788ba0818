//! What members are told of the leader.

use super::electing::{SECOND, cluster, leader};
use super::net::Net;
use super::speaker::Speaker;
use headcount_core::DropReason;
use headcount_core::election::Term;
use headcount_core::wire::{LeaderClaim, LeaderRenewal, Message};

/// Returns the claim that is true: the word of this leader.
pub(super) fn truth(net: &Net, leader: usize) -> LeaderClaim {
    let core = &net.nodes[leader].core;
    let agreed = core.agreed_view().expect("a view");
    LeaderClaim {
        descent: agreed.electorate.descent(),
        term: core.leadership().term,
        leader: Some(core.me().id.clone()),
        sequence: 1,
        age_ms: 0,
        lease_ms: 2_000,
        view: agreed.reference(),
        delta: None,
        answers: None,
    }
}

#[test]
fn a_renewal_of_a_term_that_is_none_is_malformed_and_changes_nothing() {
    let mut net = cluster(5, 3);
    net.run(SECOND * 5);
    let (first, term) = leader(&net);
    let led = truth(&net, first);
    let renewal = LeaderRenewal {
        lineage: led.descent.lineage.0 as u32,
        term: Term(u64::MAX),
        sequence: 1,
        age_ms: 0,
        number: led.view.number,
        digest: led.view.digest.0 as u32,
    };
    Speaker::new(4).says(&mut net, 3, &[Message::LeaderRenewal(renewal)]);
    assert_eq!(net.nodes[3].core.counters().dropped(DropReason::Malformed), 1);
    net.run(SECOND);
    assert_eq!(leader(&net), (first, term));
}
