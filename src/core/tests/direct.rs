//! Broadcasts that other agents bring by calls, in virtual time: at most once beside those in packets.

use std::time::Duration;

use super::net::{Net, id, ms};
use headcount_core::limits::{BROADCAST_LIFE, MAX_UNKNOWN_ORIGINS, ORIGIN_MEMORY};
use headcount_core::{
    Command, CommandError, DropReason, MessageId, NodeId, OutOfBandBroadcast, Payload, Profile, Reply, Run, Status,
    Topic,
};

/// The highest number that a message has, of either kind.
const MAX_NUMBER: u64 = u64::MAX / 4;

/// Returns the id of an origin's nth broadcast.
const fn broadcast(run: Run, number: u64) -> MessageId {
    MessageId { run, sequence: number * 2 }
}

/// A process that nobody has in view.
const STRANGER: Run = Run(0xbad);

fn direct(id: MessageId, from: NodeId, age: Duration) -> OutOfBandBroadcast {
    let (topic, payload) = (Topic::new("t").expect("a topic"), Payload::new(b"x").expect("small"));
    OutOfBandBroadcast { id, from, age, topic, payload }
}

/// Brings a broadcast to a node by a call; its answer.
fn bring(net: &mut Net, node: usize, direct: OutOfBandBroadcast) -> Reply {
    net.command(node, Command::Deliver { ticket: 9, direct });
    net.nodes[node].replies.pop().expect("an answer at once")
}

fn bring_number(net: &mut Net, node: usize, run: Run, number: u64) -> Reply {
    let origin = net.nodes.iter().map(|node| node.core.me()).find(|me| me.run == run);
    let from = origin.map_or_else(|| id("far"), |me| me.id.clone());
    bring(net, node, direct(broadcast(run, number), from, Duration::ZERO))
}

fn say(net: &mut Net, node: usize) {
    let (topic, payload) = (Topic::new("t").expect("a topic"), Payload::new(b"x").expect("small"));
    net.command(node, Command::Broadcast { ticket: 1, topic, payload });
}

const NEW: Reply = Reply::Taken { is_new: true };
const KNOWN: Reply = Reply::Taken { is_new: false };

fn heard(net: &Net, node: usize) -> Vec<MessageId> {
    net.nodes[node].messages.iter().map(|(_, message)| message.id).collect()
}

fn assert_sums(net: &Net) {
    for node in &net.nodes {
        let counted = node.core.counters().messages;
        let taken = counted.delivered + counted.duplicate + counted.dropped;
        assert_eq!(taken, counted.received + counted.delivered_here, "{counted:?}");
    }
}

#[test]
fn whichever_way_comes_first_is_delivered_and_the_other_is_a_duplicate() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[0].core.me().run;
    // By a call first: the packets come a moment later.
    say(&mut net, 0);
    assert_eq!(bring_number(&mut net, 1, run, 1), NEW);
    net.run(Duration::from_secs(2));
    assert_eq!(heard(&net, 1), [broadcast(run, 1)]);
    assert_eq!(net.nodes[1].messages[0].1.from, id("n0"), "the view knows whose run it is");
    // In packets first.
    say(&mut net, 0);
    net.run(Duration::from_secs(2));
    assert_eq!(bring_number(&mut net, 1, run, 2), KNOWN);
    assert_eq!(bring_number(&mut net, 1, run, 1), KNOWN, "a second call");
    assert_eq!(heard(&net, 1), [1, 2].map(|number| broadcast(run, number)));
    assert!(net.nodes[1].core.counters().messages.duplicate >= 3);
    assert_sums(&net);
}

#[test]
fn a_call_is_sent_on_and_of_who_is_in_nobodys_view_once_it_enters() {
    let mut net = Net::cluster(Profile::Local, 3);
    let late = net.add("late", 3, &[0]);
    (0..3).for_each(|node| net.cut(node, late, true));
    let origin = net.nodes[late].core.me().run;
    assert_eq!(bring(&mut net, 1, direct(broadcast(origin, 1), id("late"), Duration::ZERO)), NEW);
    assert_eq!(net.nodes[1].messages[0].1.from, id("late"));
    net.run(Duration::from_secs(3));
    assert!(heard(&net, 0).is_empty() && heard(&net, 2).is_empty());
    (0..3).for_each(|node| net.cut(node, late, false));
    net.run(Duration::from_secs(5));
    for node in 0..3 {
        assert_eq!(heard(&net, node), [broadcast(origin, 1)], "n{node}");
    }
    assert!(heard(&net, late).is_empty(), "it said so itself");
    // n2 hears n0 through n1 alone, which had it by a call before.
    net.cut(0, 2, true);
    let run = net.nodes[0].core.me().run;
    say(&mut net, 0);
    assert_eq!(bring_number(&mut net, 1, run, 1), NEW);
    net.run(Duration::from_secs(3));
    assert_eq!(heard(&net, 2), [broadcast(origin, 1), broadcast(run, 1)]);
    assert_sums(&net);
}

#[test]
fn who_is_in_nobodys_view_is_heard_by_calls_under_the_name_that_it_gives() {
    let mut net = Net::cluster(Profile::Local, 2);
    assert_eq!(bring(&mut net, 1, direct(broadcast(STRANGER, 1), id("far"), ms(20))), NEW);
    assert_eq!(net.nodes[1].messages[0].1.from, id("far"));
    assert_sums(&net);
}

#[test]
fn nobody_is_called_as_another_member_is_or_as_the_node_itself() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[0].core.me().run;
    let first = broadcast(run, 1);
    let forged = bring(&mut net, 1, direct(first, id("n2"), Duration::ZERO));
    assert_eq!(forged, Reply::Refused(CommandError::OtherOrigin { id: first, node: id("n2") }));
    let strange = broadcast(STRANGER, 1);
    let forged = bring(&mut net, 1, direct(strange, id("n1"), Duration::ZERO));
    assert_eq!(forged, Reply::Refused(CommandError::OtherOrigin { id: strange, node: id("n1") }));
    assert_eq!(net.nodes[1].core.counters().dropped(DropReason::Claimed), 2);
    let mine = net.nodes[1].core.me().run;
    assert_eq!(bring_number(&mut net, 1, mine, 1), KNOWN, "what it said itself");
    assert!(heard(&net, 1).is_empty());
    assert_eq!(bring(&mut net, 1, direct(first, id("n0"), Duration::ZERO)), NEW);
    assert_sums(&net);
}

#[test]
fn what_has_no_number_of_a_broadcast_is_refused() {
    let mut net = Net::cluster(Profile::Local, 1);
    let too_large = MessageId { run: STRANGER, sequence: (MAX_NUMBER + 1) * 2 };
    let last = MessageId { run: STRANGER, sequence: u64::MAX - 1 };
    for wrong in [broadcast(STRANGER, 0), MessageId { run: STRANGER, sequence: 3 }, too_large, last] {
        let refused = Reply::Refused(CommandError::NoBroadcast { id: wrong });
        assert_eq!(bring(&mut net, 0, direct(wrong, id("far"), Duration::ZERO)), refused);
    }
    assert_eq!(bring_number(&mut net, 0, STRANGER, MAX_NUMBER), NEW);
    assert_sums(&net);
}

#[test]
fn what_is_too_old_is_a_duplicate_and_what_was_said_before_this_process_is_not_for_it() {
    let mut net = Net::cluster(Profile::Local, 2);
    net.run(BROADCAST_LIFE);
    let number = |number| broadcast(STRANGER, number);
    assert_eq!(bring(&mut net, 1, direct(number(1), id("far"), BROADCAST_LIFE + ms(1))), KNOWN);
    assert_eq!(bring(&mut net, 1, direct(number(2), id("far"), BROADCAST_LIFE)), NEW);
    let newcomer = net.add("late", 9, &[0]);
    net.run(ms(100));
    assert_eq!(bring(&mut net, newcomer, direct(number(3), id("far"), ms(101))), KNOWN);
    assert_eq!(net.nodes[newcomer].core.counters().dropped(DropReason::Outdated), 1);
    assert_eq!(bring(&mut net, newcomer, direct(number(4), id("far"), ms(100))), NEW);
    assert_sums(&net);
}

#[test]
fn who_looks_for_its_cluster_in_vain_hears_calls_and_who_leaves_does_not() {
    let mut net = Net::new(Profile::Local);
    let lonely = net.add("lonely", 1, &[7]);
    net.run(Duration::from_secs(2));
    assert_eq!(net.status(lonely, "lonely"), Some(Status::Joining));
    assert_eq!(bring_number(&mut net, lonely, STRANGER, 1), NEW);
    let mut net = Net::cluster(Profile::Local, 3);
    net.command(1, Command::Leave);
    assert_eq!(bring_number(&mut net, 1, STRANGER, 1), Reply::Refused(CommandError::Leaving));
    assert_sums(&net);
}

#[test]
fn a_full_memory_refuses_and_forgets_only_what_no_copy_is_left_of_and_has_room_for_members() {
    let mut net = Net::cluster(Profile::Local, 2);
    for origin in 0..MAX_UNKNOWN_ORIGINS as u64 {
        assert_eq!(bring_number(&mut net, 0, Run(0x10_0000 + origin), 1), NEW);
    }
    let before = net.nodes[0].messages.len();
    assert_eq!(bring_number(&mut net, 0, Run(1), 1), Reply::Refused(CommandError::Busy));
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::TableFull), 1);
    assert_eq!(net.nodes[0].messages.len(), before, "nothing was delivered that would not be recognised again");
    let member = net.nodes[1].core.me().run;
    assert_eq!(bring_number(&mut net, 0, member, 1), NEW);
    assert_eq!(bring_number(&mut net, 0, Run(0x10_0000), 2), NEW, "it has its place");
    net.run(ORIGIN_MEMORY - ms(10));
    assert_eq!(bring_number(&mut net, 0, Run(0x10_0000), 1), KNOWN, "still");
    net.run(ms(20));
    assert_eq!(net.nodes[0].core.sizes().messages, 0, "all is forgotten, although nobody called");
    assert_eq!(bring_number(&mut net, 0, Run(1), 1), NEW);
    assert_sums(&net);
}
