//! Views of numbers that nobody can have missed.

use super::leadership::{SECOND, cluster, leader};
use super::liars::Liar;
use super::usurpers::truth;
use crate::core::counters::DropReason;
use crate::core::leadership::MAX_VIEWS_MISSED;
use crate::core::wire::{LeaderClaim, Message};

#[test]
fn even_a_voter_is_not_believed_that_so_many_views_were_missed() {
    let mut net = cluster(4, 3);
    net.run(SECOND * 5);
    let (first, _) = leader(&net);
    let liar = (0..3).find(|voter| *voter != first).expect("three voters");
    let number = net.nodes[3].core.agreed_view().expect("a view").number;
    let mut says = |ahead: u64| {
        let mut claim = truth(&net, first);
        claim.view.number = number + ahead;
        let before = net.nodes[3].core.counters().dropped(DropReason::Implausible);
        Liar::new(liar).says(&mut net, 3, &[Message::LeaderClaim(Box::new(LeaderClaim { ..claim }))]);
        net.nodes[3].core.counters().dropped(DropReason::Implausible) - before
    };
    assert_eq!(says(MAX_VIEWS_MISSED), 0, "it is asked for that view");
    assert_eq!(says(MAX_VIEWS_MISSED + 1), 1);
    net.run(SECOND * 5);
    assert_eq!(leader(&net).0, first);
}
