//! The duties of a node that slept longer than the dead are kept, to its users and to the others.

use std::collections::BTreeSet;
use std::time::Duration;

use super::hostile::large;
use super::net::{Net, address, id, ms};
use super::saying::{ask, say, send};
use headcount_core::limits::{MAX_UNSPREAD, SEND_TIMEOUT};
use headcount_core::{ChangeKind, Command, CommandError, DetectionMethod, Profile, Reply, Status, StopReason};

/// Lets a node sleep longer than the dead are kept.
fn sleep(net: &mut Net, node: usize) {
    net.pause(node, true);
    net.run(Duration::from_secs(70));
    net.pause(node, false);
}

// "leave(): Leaving, then Left, each with an end."
#[test]
fn a_leaving_node_that_sleeps_long_still_leaves() {
    let mut net = Net::with_short_memory(4);
    net.command(3, Command::Leave);
    sleep(&mut net, 3);
    net.run(Duration::from_secs(10));
    assert_eq!(net.nodes[3].stopped, Some(StopReason::Left), "{}", net.describe());
}

// Every command is answered.
#[test]
fn commands_under_way_are_answered_after_a_long_sleep() {
    let mut net = Net::with_short_memory(4);
    net.kill(2);
    net.run(Duration::from_secs(4));
    net.cut(3, 0, true);
    net.cut(3, 1, true);
    net.command(3, Command::Join { ticket: 1, addresses: vec![address(88)] });
    net.command(3, Command::Remove { ticket: 2, id: id("n2"), force: false });
    sleep(&mut net, 3);
    net.cut(3, 0, false);
    net.cut(3, 1, false);
    net.run(Duration::from_secs(20));
    assert!(net.nodes[3].core.is_up());
    assert_eq!(net.nodes[3].replies.len(), 2, "{:?}", net.nodes[3].replies);
}

/// Returns a cluster of linked nodes in which the dead are forgotten after a minute.
fn linked_with_short_memory(n: usize) -> Net {
    Net::linked_with(Profile::Local, n, Duration::from_secs(60))
}

// "Every command is answered": what was sent may have arrived, and no answer can come from a process that is forgotten.
#[test]
fn direct_messages_and_requests_that_were_sent_before_a_long_sleep_end() {
    let mut net = linked_with_short_memory(4);
    send(&mut net, 3, "n0", b"a message");
    ask(&mut net, 3, "n1", Duration::from_secs(30));
    sleep(&mut net, 3);
    let unknown = |name| Reply::Refused(CommandError::NoAnswer { id: id(name) });
    assert_eq!(net.nodes[3].replies, [unknown("n0"), unknown("n1")], "as soon as it wakes");
    net.run(Duration::from_secs(10));
    net.nodes[3].replies.clear();
    send(&mut net, 3, "n0", b"another");
    net.run(SEND_TIMEOUT);
    assert!(matches!(net.nodes[3].replies[..], [Reply::Delivered { .. }]), "{:?}", net.nodes[3].replies);
}

#[test]
fn a_request_to_itself_ends_after_a_long_sleep() {
    let mut net = linked_with_short_memory(4);
    ask(&mut net, 3, "n3", Duration::from_secs(30));
    sleep(&mut net, 3);
    net.run(Duration::from_secs(5));
    assert!(net.nodes[3].core.is_up());
    assert_eq!(net.nodes[3].replies, [Reply::Refused(CommandError::NoAnswer { id: id("n3") })]);
}

#[test]
fn who_slept_long_over_many_broadcasts_says_the_next_one() {
    let mut net = linked_with_short_memory(4);
    net.pause(3, true);
    for _ in 0..MAX_UNSPREAD {
        say(&mut net, 3, b"x");
    }
    net.run(Duration::from_secs(70));
    net.pause(3, false);
    net.run(Duration::from_secs(15));
    let before = net.nodes[0].messages.len();
    net.nodes[3].replies.clear();
    say(&mut net, 3, b"the next one");
    net.run(Duration::from_secs(1));
    assert!(matches!(net.nodes[3].replies[..], [Reply::Broadcast { .. }]), "{:?}", net.nodes[3].replies);
    assert_eq!(net.nodes[0].messages.len() - before, 1);
}

// "A program that knows only node_joined, node_left and node_detected_down keeps a right live set."
#[test]
fn the_live_set_is_right_after_a_long_sleep() {
    let mut net = Net::with_short_memory(4);
    net.pause(3, true);
    net.run(Duration::from_secs(10));
    net.kill(2);
    net.run(Duration::from_secs(70));
    net.pause(3, false);
    net.run_until(ms(2_500), "all agree", Net::all_agree);
    net.run(Duration::from_secs(5));
    assert_eq!([0, 3].map(|node| net.status(node, "n2")), [None; 2], "the sleeper did not raise the dead");
    let mut live = BTreeSet::new();
    for (_, change) in &net.nodes[3].changes {
        match change.kind {
            ChangeKind::Joined => {
                live.insert(change.record.id.clone());
            }
            ChangeKind::Left(_) | ChangeKind::DetectedDown(_) => {
                live.remove(&change.record.id);
            }
            _ => {}
        }
    }
    let records = net.nodes[3].core.records().filter(|(record, _)| record.status.is_live());
    let listed: BTreeSet<_> = records.map(|(record, _)| record.id.clone()).collect();
    assert_eq!(live, listed, "{}", net.describe());
}

// "A waking node never accuses anyone of what it slept through."
#[test]
fn who_sleeps_long_tells_its_own_user_alone_that_the_others_are_gone() {
    let mut net = Net::with_short_memory(4);
    net.forget_reports();
    sleep(&mut net, 3);
    net.run(Duration::from_secs(10));
    net.assert_all_up();
    for other in ["n0", "n1", "n2"] {
        for observer in 0..3 {
            assert_eq!(net.reported(observer, other), [], "{other} at n{observer}");
        }
        let gone = ChangeKind::DetectedDown(DetectionMethod::HeartbeatTimeout);
        assert_eq!(net.reported(3, other), [gone, ChangeKind::Removed, ChangeKind::Joined], "{other}");
    }
}

// "folding the events over a snapshot always gives the view": joiners are listed, too.
#[test]
fn a_listed_joiner_that_is_forgotten_is_reported_as_removed() {
    let mut net = Net::with_short_memory(4);
    let joiner = net.add("j", 30, &[3]);
    net.run(Duration::from_micros(3_500));
    net.kill(joiner);
    assert_eq!(net.reported(3, "j"), [ChangeKind::Joining]);
    sleep(&mut net, 3);
    net.run(Duration::from_secs(10));
    assert_eq!(net.nodes[3].core.counts()[0], 0, "no more listed");
    assert_eq!(net.reported(3, "j"), [ChangeKind::Joining, ChangeKind::Removed]);
}

// "Joining is known to the sponsor alone": a Joining record never travels as an update (receivers drop the packet
// whole).
#[test]
fn who_joins_anew_sends_nothing_malformed() {
    let mut net = Net::new(Profile::Local);
    net.settings.reap_after = Duration::from_secs(60);
    net.latency = Duration::from_micros(1_300);
    net.add("n0", 0, &[0]);
    let sleeper = net.add("zz", 1, &[0]);
    for host in 2..24 {
        large(&mut net, &format!("n{host}"), host, 480);
    }
    net.run(Duration::from_secs(5));
    net.assert_all_up();
    let malformed = |net: &Net| -> u64 {
        net.nodes.iter().map(|node| node.core.counters().dropped(headcount_core::DropReason::Malformed)).sum()
    };
    let before = malformed(&net);
    sleep(&mut net, sleeper);
    net.run(Duration::from_secs(2));
    assert_eq!(malformed(&net) - before, 0, "packets of an honest node");
}

#[test]
fn who_joins_anew_after_a_long_sleep_does_so_at_a_higher_incarnation() {
    let mut net = Net::with_short_memory(4);
    net.forget_reports();
    sleep(&mut net, 3);
    net.run(Duration::from_secs(10));
    let own = net.nodes[3].changes.iter().filter(|(_, change)| change.record.id == *"n3");
    let steps: Vec<_> = own.map(|(_, change)| (change.record.incarnation, change.record.status)).collect();
    assert!(steps.iter().any(|(_, status)| *status == Status::Joining), "it joined anew: {steps:?}");
    assert!(steps.is_sorted(), "nobody falls back at one incarnation: {steps:?}");
}
