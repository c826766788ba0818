//! What `tests/joining.rs` cannot see.

use std::time::Duration;

use super::net::{Net, id, ms};
use crate::counters::DropReason;
use crate::io::Notice;
use crate::settings::Profile;
use crate::timers::Timer;

#[test]
fn a_page_that_leads_backwards_is_dropped_and_the_joiner_has_the_whole_view_nevertheless() {
    let mut net = Net::cluster(Profile::Local, 60);
    let joiner = net.add("late", 100, &[0]);
    let mut came = 0;
    while !net.nodes[joiner].core.is_up() {
        net.run(ms(1) / 4);
        let core = &mut net.nodes[joiner].core;
        if core.joiner.transfer.is_some() {
            let before = core.counters().dropped(DropReason::Malformed);
            core.joiner.on_page(&mut outbox!(core), &core.reunion, Some(&id("n5")), Some(id("n3")));
            core.joiner.on_page(&mut outbox!(core), &core.reunion, Some(&id("n5")), Some(id("n5")));
            assert_eq!(core.counters().dropped(DropReason::Malformed), before + 2);
            came += 1;
        }
    }
    assert!(came > 0, "while pages were under way");
    assert_eq!(net.nodes[joiner].core.records().count(), 61);
}

#[test]
fn a_joiner_that_is_being_handed_the_view_founds_nothing() {
    let mut net = Net::cluster(Profile::Local, 5);
    let joiner = net.add("late", 20, &[0, 20]);
    net.run_until(ms(1_000), "pages are under way", |net| net.nodes[joiner].core.joiner.transfer.is_some());
    // Whatever its patience says.
    net.nodes[joiner].core.cx.now = net.now + Duration::from_secs(3_600);
    net.nodes[joiner].core.fire(Timer::Found);
    assert!(!net.nodes[joiner].core.is_up() && !net.nodes[joiner].notices.contains(&Notice::Founded));
}
