//! Reports that seem to be evidence and are none: of members that were not asked, of processes under others' names, from
//! where nobody said that they would come, or of long ago.

use super::alone::{Alone, member};
use super::net::{Net, address};
use crate::io::{Input, Output};
use crate::member::Status;
use crate::settings::Profile;
use crate::timers::Timer;

#[test]
fn whoever_lost_everybody_remembers_where_they_were() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.run(net.settings.retry_interval * 2);
    assert_eq!(net.nodes[0].core.reunion.remembered().len(), 2);
    net.kill(1);
    net.kill(2);
    net.run(net.settings.down_timeout + net.settings.retry_interval * 4);
    assert_eq!(net.status(0, "n1"), Some(Status::Down));
    assert!(!net.nodes[0].core.reunion.remembered().is_empty());
}

/// A balancer, say, behind which other members may be, and another cluster.
#[test]
fn a_seed_at_which_a_member_answered_that_is_elsewhere_is_asked_all_the_same() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let (peer, seed) = (member(0, Status::Up), address(88));
    alone.core.handle(alone.now, Input::SeedAddresses(vec![vec![seed]]));
    alone.core.reunion.answers_at(seed, peer.run, peer.address);
    alone.outputs();
    alone.core.fire(Timer::Reunite);
    let is_question = |output: &Output| matches!(output, Output::Transmit { to, .. } if *to == seed);
    assert!(alone.outputs().iter().any(is_question));
    assert!(!alone.core.misses_seed(), "it is not missed");
}
