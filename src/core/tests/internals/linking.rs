//! Links: how they come to stand, cross, break, come back, and how many there are.

use super::net::*;
use crate::connectivity::links::Action;
use crate::*;

#[test]
fn a_case_that_waits_for_a_link_ends_when_none_is_wanted_any_more() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    let core = &mut net.nodes[0].core;
    core.act_on_link(run, vec![Action::Reopening]);
    assert_eq!(core.sizes().crashes, 1);
    core.drop_link(run);
    assert_eq!(core.sizes().crashes, 0);
}
