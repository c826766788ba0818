//! Newcomers that die, or seem to, soon after they came: their sponsors know at once.

use std::time::Duration;

use super::net::{Net, Tcp, ms};
use crate::member::ChangeKind;
use crate::settings::Profile;

const SECOND: Duration = Duration::from_secs(1);
/// More members than observe each other.
const OLD: usize = 30;

fn is_dead(net: &Net, observer: usize, name: &str) -> bool {
    net.reported(observer, name).iter().any(|kind| matches!(kind, ChangeKind::DetectedDown(_)))
}

#[test]
fn a_newcomer_that_dies_as_soon_as_it_came_is_known_to_everybody_within_a_second() {
    for after in [ms(50), ms(300)] {
        let mut net = Net::linked(Profile::Default, OLD);
        net.run(SECOND * 5);
        let newcomer = net.add("late", 90, &[0]);
        net.run_until(SECOND * 2, "it is up", |net| net.nodes[newcomer].core.is_up());
        net.run(after);
        net.kill(newcomer);
        net.run(SECOND);
        let unaware: Vec<usize> = (0..OLD).filter(|node| !is_dead(&net, *node, "late")).collect();
        assert!(unaware.is_empty(), "{after:?}: {unaware:?}");
    }
}

/// Somebody on the way refuses connections for a recent member, and its answers to its sponsor are lost for a while.
#[test]
fn a_living_recent_member_whose_port_seems_to_refuse_is_dead_to_nobody() {
    for nth in 0..4 {
        let mut net = Net::linked(Profile::Local, OLD);
        net.run(SECOND * 5);
        let newcomer = net.add("late", 90, &[0]);
        net.run(ms(1_000 + 150 * nth));
        let core = &net.nodes[0].core;
        let slot = core.view.slot_of("late").expect("it came");
        assert!(core.observers.is_brought_in(slot) && net.nodes[newcomer].core.is_up());
        net.block_datagrams(newcomer, 0, true);
        net.set_tcp(Tcp::Rejected);
        net.run(ms(300));
        net.block_datagrams(newcomer, 0, false);
        net.set_tcp(Tcp::Open);
        net.run(SECOND * 2);
        let dead: Vec<usize> = (0..OLD).filter(|node| is_dead(&net, *node, "late")).collect();
        assert!(dead.is_empty(), "round {nth}: at {dead:?}");
    }
}
