//! Claims as members show them: for no longer than they last.

use std::time::Duration;

use super::leadership::{SECOND, cluster, leader};
use super::net::ms;

#[test]
fn nobody_shows_a_leader_for_longer_than_its_claim_lasts_where_news_take_no_time() {
    for members in [3, 5] {
        let mut net = cluster(members, 3);
        net.latency = Duration::ZERO;
        net.run(SECOND * 3);
        let (first, _) = leader(&net);
        let until = |net: &super::net::Net, node: usize| net.nodes[node].core.leadership().valid_until;
        for _ in 0..3_000 {
            net.run(ms(1));
            let claim = until(&net, first).expect("it leads");
            for node in 0..members {
                let shown = until(&net, node).expect("it knows who leads");
                assert!(shown <= claim, "n{node} shows {shown:?}, and the claim lasts until {claim:?}");
            }
        }
    }
}
