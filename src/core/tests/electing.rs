//! Clusters whose first nodes vote, and the one leader of a cluster.

use std::time::Duration;

use super::net::{Net, id};
use headcount_core::election::Term;
use headcount_core::{LeadershipState, Profile};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Returns `n` nodes, the first `voters` of which vote.
pub(super) fn cluster(n: usize, voters: usize) -> Net {
    cluster_by_seed(n, voters, 0)
}

pub(super) fn cluster_by_seed(n: usize, voters: usize, seed: u64) -> Net {
    let mut net = Net::new(Profile::Local);
    net.shuffle_losses(seed);
    net.voters = (0..voters).map(|i| id(&format!("n{i}"))).collect();
    for i in 0..n {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(SECOND * 3);
    net.assert_all_up();
    net
}

/// Returns the one leader that all running nodes agree on, and its term.
#[track_caller]
pub(super) fn leader(net: &Net) -> (usize, Term) {
    let running = || (0..net.nodes.len()).filter(|node| net.nodes[*node].stopped.is_none());
    let leaders: Vec<usize> = running().filter(|node| net.nodes[*node].core.leadership().is_me).collect();
    let [leader] = leaders[..] else { panic!("leaders: {leaders:?}") };
    let name = net.nodes[leader].core.me().id.clone();
    let term = net.nodes[leader].core.leadership().term;
    for node in running() {
        let told = net.nodes[node].core.leadership();
        assert_eq!((told.leader, told.term, told.state), (Some(name.clone()), term, LeadershipState::Led), "n{node}");
    }
    (leader, term)
}
