//! What `tests/leaving.rs` cannot see.

use super::net::{Net, id, ms};
use crate::io::{Command, StopReason};
use crate::member::Status;
use crate::settings::Profile;

#[test]
fn a_suspect_that_was_told_so_a_moment_ago_is_told_at_once_that_it_is_removed() {
    let mut net = Net::cluster(Profile::Local, 2);
    net.pause(1, true);
    net.run_until(ms(5_000), "it is suspect", |net| net.status(0, "n1") == Some(Status::Suspect));
    net.pause(1, false);
    // What it says now is lost, so that it goes on being suspect.
    net.cut_one_way(1, 0);
    net.run(ms(5));
    let core = &mut net.nodes[0].core;
    let slot = core.view.slot_of("n1").expect("a member");
    core.view.peer_mut(slot).rare_mut().last_told = Some(core.cx.now);
    net.command(0, Command::Remove { ticket: 1, id: id("n1"), force: true });
    net.run(ms(20));
    assert_eq!(net.nodes[1].stopped, Some(StopReason::Removed));
}
