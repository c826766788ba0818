//! Bounds of the harm that strangers, insiders and bad luck can do: each test names a rule and the trace that once
//! broke it.

use std::net::SocketAddr;
use std::time::Duration;

use super::net::{Net, address, birth, id, ms};
use headcount_core::limits::{INCARNATION_STEP, MIN_QUESTION_BYTES};
use headcount_core::testing::record;
use headcount_core::wire::{Header, Message, Nonce, Note, Packet, PacketBuilder, Update};
use headcount_core::{
    Command, CommandError, Contacted, CoreInit, DetectionMethod, Input, LeaveReason, Notice, Profile, ProtocolRange,
    Record, Reply, Run, Status, StopReason, Tags, Timing,
};

pub(super) const FORCED: Status = Status::Left(LeaveReason::Forced);
/// The host where the attacker listens.
pub(super) const EVIL: usize = 99;
pub(super) const EVIL_RUN: Run = Run(0xe);

pub(super) fn packet(run: Run, sequence: u64, messages: &[Message]) -> Vec<u8> {
    let header = Header { cluster: Header::cluster_hash("test"), run, sequence, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1400);
    for message in messages {
        assert!(packet.push(message));
    }
    packet.pad_to(MIN_QUESTION_BYTES);
    packet.finish()
}

pub(super) fn send(net: &mut Net, to: usize, from: usize, bytes: &[u8]) {
    net.input(to, Input::Packet { from: address(from), bytes });
}

/// Returns the messages that arrived at an address where no node is.
pub(super) fn mail(net: &Net, at: SocketAddr) -> Vec<Message> {
    let to_it = net.undelivered.iter().filter(|(to, _)| *to == at);
    to_it.flat_map(|(_, bytes)| Packet::decode(bytes).expect("decodes").messages).collect()
}

pub(super) fn bytes_to(net: &Net, at: SocketAddr) -> usize {
    net.undelivered.iter().filter(|(to, _)| *to == at).map(|(_, bytes)| bytes.len()).sum()
}

pub(super) fn evil(name: &str, incarnation: u64, status: Status) -> Record {
    let mut record = record(name, incarnation, status);
    record.run = EVIL_RUN;
    record.address = address(EVIL);
    record
}

/// Has a stranger join as far as the cookie, and pull the view.
pub(super) fn join(net: &mut Net, to: usize, record: &Record) {
    let run = record.run;
    let question = |cookie| Message::Join { nonce: Nonce(5), record: record.clone(), cookie };
    let seen = net.undelivered.len();
    send(net, to, EVIL, &packet(run, 1, &[question(None)]));
    net.run(ms(2));
    let cookie = net.undelivered[seen..].iter().find_map(|(_, bytes)| {
        Packet::decode(bytes).expect("decodes").messages.into_iter().find_map(|message| match message {
            Message::Challenge { cookie, .. } => Some(cookie),
            _ => None,
        })
    });
    send(net, to, EVIL, &packet(run, 2, &[question(Some(cookie.expect("challenged")))]));
    net.run(ms(2));
    // A joiner takes one of a few places until it is handed the view.
    send(net, to, EVIL, &packet(run, 3, &[Message::Pull { after: None, pages: 8 }]));
    net.run(ms(2));
}

// Values from the limit on are malformed.
#[test]
fn no_word_of_others_drives_a_node_out_of_the_incarnations() {
    let mut net = Net::cluster(Profile::Local, 3);
    let mut record = Record::clone(net.nodes[0].core.me());
    record.incarnation = Record::INCARNATION_LIMIT - 1;
    record.status = Status::Suspect;
    let note = Some(Note { age_ms: 1, method: DetectionMethod::HeartbeatTimeout });
    let run = net.nodes[1].core.me().run;
    // A member's own packet: what it says is read.
    send(&mut net, 0, 1, &packet(run, 900, &[Message::Update(Update { note, record })]));
    net.run(ms(100));
    let me = net.nodes[0].core.me();
    assert!(me.is_well_formed(), "incarnation {:#x}: everybody drops every packet that carries it", me.incarnation);
}

// The stored bound must be one that a restart can live with (`store/state.rs` refuses the limit, `Core::new` panics).
#[test]
fn no_word_of_others_makes_the_stored_state_unusable() {
    let mut net = Net::new(Profile::Local);
    // As far as it goes without a bound beyond the limit: the next raise asks for a higher one.
    let incarnation = Record::INCARNATION_LIMIT - 2 - INCARNATION_STEP / 4;
    net.add_born("n0", 0, &[0], incarnation - INCARNATION_STEP);
    net.add_born("n1", 1, &[0], 5);
    net.run_until(Duration::from_secs(3), "both are up", Net::all_agree);
    let (run, told_run) = (net.nodes[1].core.me().run, net.nodes[0].core.me().run);
    let told = Message::HeldStatus { run: told_run, incarnation, status: Status::Suspect, age_ms: 0 };
    let bytes = packet(run, 900, &[told]);
    let (now, core) = (net.now, &mut net.nodes[0].core);
    core.handle(now, Input::Packet { from: address(1), bytes: &bytes });
    let mut bounds = Vec::new();
    while let Some(output) = core.poll() {
        if let headcount_core::Output::Persist(durable) = output {
            bounds.push(durable.incarnation_bound);
        }
    }
    let [bound] = bounds[..] else { panic!("a bound is asked for once: {bounds:?}") };
    assert!(bound > incarnation, "what it was told is believed");
    assert!(bound + 1 < Record::INCARNATION_LIMIT, "bound {bound:#x}: the node never starts again");
}

// "Pause: the core is called later than its deadline": a deadline set in the past is no pause of this process.
#[test]
fn old_news_is_no_pause_of_this_process() {
    let mut net = Net::cluster(Profile::Default, 4);
    net.run(Duration::from_secs(60));
    net.kill(3);
    net.run(Duration::from_secs(9));
    let mut ghost = evil("ghost", 5, Status::Suspect);
    ghost.address = address(77);
    let note = Some(Note { age_ms: 60_000, method: DetectionMethod::HeartbeatTimeout });
    let update = Message::Update(Update { note, record: ghost });
    let run = net.nodes[1].core.me().run;
    for node in [0, 2] {
        send(&mut net, node, 1, &packet(run, 900, std::slice::from_ref(&update)));
    }
    net.run(ms(7_000));
    let pauses: Vec<u64> = (0..3).map(|node| net.nodes[node].core.counters().pauses).collect();
    assert_eq!(pauses, [0, 0, 0], "n3, silent for 16 s, is {:?} at n0", net.status(0, "n3"));
}

// "POST /v1/join: contact these addresses once and merge with whoever answers."
#[test]
fn the_join_command_helps_a_node_whose_seeds_are_dead() {
    let mut net = Net::cluster(Profile::Local, 2);
    let lonely = net.add("lonely", 5, &[60]);
    net.run(Duration::from_secs(10));
    net.command(lonely, Command::Join { ticket: 1, addresses: vec![address(0)] });
    net.run(Duration::from_secs(30));
    assert_eq!(
        net.nodes[lonely].replies,
        [Reply::Joined(vec![(address(0), Contacted::Answered { id: id("n0") })])],
        "it says it did"
    );
    assert!(net.nodes[lonely].core.is_up(), "and did not: {}", net.describe());
}

// "one that reached no Up node for 3 × retry_interval starts anyway."
#[test]
fn a_seed_whose_rival_died_starts_although_a_foreign_seed_refuses() {
    let mut net = Net::new(Profile::Local);
    let init = CoreInit { cluster: id("other"), run: Run(99), ..birth("foreign", 9, address(2), &net.settings) };
    net.add_birth(init, Vec::new());
    let smallest = net.add("n0", 0, &[0, 1, 2]);
    let other = net.add("n1", 1, &[0, 1, 2]);
    net.run(ms(300));
    net.kill(smallest);
    net.run_until(net.settings.retry_interval * 4, "it starts", |net| net.nodes[other].core.is_up());
}

// "an update … covered by a tombstone is not merged and never provokes a sync."
#[test]
fn what_one_has_reaped_and_another_has_not_provokes_no_sync() {
    let mut net = Net::new(Profile::Local);
    for (i, reap_after) in [60, 60, 3_600, 60].into_iter().enumerate() {
        net.settings.reap_after = Duration::from_secs(reap_after);
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(Duration::from_secs(3));
    net.kill(3);
    net.run(Duration::from_secs(70));
    let syncs = |net: &Net| -> u64 { (0..3).map(|node| net.nodes[node].core.counters().syncs).sum() };
    let before = syncs(&net);
    net.run(Duration::from_secs(60));
    assert!(syncs(&net) - before <= 3, "{} whole views pulled in a minute, for nothing", syncs(&net) - before);
}

// "no incarnation is used before a bound at or above it is stored … an ordinary refutation never waits for a disk."
#[test]
fn a_node_born_at_its_stored_bound_asks_for_more() {
    let mut net = Net::new(Profile::Local);
    let init = CoreInit { stored_bound: 5, run: Run(1), ..birth("a", 9, address(0), &net.settings) };
    let node = net.add_birth(init, Vec::new());
    let tags = Tags::new([("k".to_owned(), "v".to_owned())].into()).expect("good");
    for _ in 0..3 {
        net.command(node, Command::SetTags { ticket: 1, tags: tags.clone() });
        net.run(Duration::from_secs(10));
    }
    assert_eq!(net.nodes[node].replies.last(), Some(&Reply::TagsSet), "{:?}", net.nodes[node].replies);
}

// "Updates received that changed the view."
#[test]
fn own_verdicts_are_not_counted_as_received() {
    let mut net = Net::cluster(Profile::Local, 2);
    net.run(Duration::from_secs(5));
    net.kill(1);
    net.run(ms(5));
    let before = net.nodes[0].core.counters().clone();
    net.run(Duration::from_secs(5));
    let after = net.nodes[0].core.counters();
    assert_eq!(after.updates_received, before.updates_received);
    assert_eq!(after.updates_merged, before.updates_merged, "Up → Suspect → Down was this node's own word");
}

// `remove` on a node that is still Joining; `remove` of a joiner that is listed.
#[test]
fn remove_says_why_not() {
    let mut net = Net::cluster(Profile::Local, 2);
    let lonely = net.add("lonely", 5, &[60]);
    net.command(lonely, Command::Remove { ticket: 1, id: id("x"), force: true });
    assert_eq!(net.nodes[lonely].replies, [Reply::Refused(CommandError::Joining)], "it is not leaving, it is joining");
}

// "any ──remove()──▶ Left(forced)": what is listed can be removed.
#[test]
fn a_listed_joiner_can_be_removed() {
    let mut net = Net::cluster(Profile::Local, 2);
    let mut joiner = evil("j", 5, Status::Joining);
    joiner.timing = Timing::new(ms(60_000), ms(600_000), ms(3_600_000)).expect("in bounds");
    join(&mut net, 0, &joiner);
    assert_eq!(net.nodes[0].core.counts()[0], 1, "listed as joining");
    net.command(0, Command::Remove { ticket: 1, id: id("j"), force: true });
    net.run(Duration::from_secs(2));
    assert_eq!(net.nodes[0].replies, [Reply::Removed { held_by: 0, confirmed: true }], "nobody else listed it");
    assert_eq!(net.nodes[0].core.counts()[0], 0, "listed no more");
}

// "A node that heard nobody for reap_after (paused, isolated)": not one that had nobody to hear.
#[test]
fn a_hiccup_just_after_the_first_joiner_does_not_end_the_cluster() {
    let mut net = Net::new(Profile::Local);
    net.settings.reap_after = Duration::from_secs(60);
    net.add("n0", 0, &[0]);
    net.run(Duration::from_secs(120));
    net.add("n1", 1, &[0]);
    net.run_until(ms(100), "n1 is a member", |net| net.status(0, "n1") == Some(Status::Up));
    net.pause(0, true);
    net.run(ms(400));
    net.pause(0, false);
    net.run(ms(100));
    assert!(!net.nodes[0].notices.contains(&Notice::RejoiningAfterIsolation), "slept for 0.4 s");
}

// "Wrong cluster or version: Refused, … logged on both sides."
#[test]
fn a_newcomer_of_another_protocol_is_logged_by_the_sponsor() {
    let mut net = Net::cluster(Profile::Local, 1);
    net.forget_reports();
    let mut joiner = evil("j", 5, Status::Joining);
    joiner.protocol = ProtocolRange { min: 2, max: 3 };
    join(&mut net, 0, &joiner);
    assert!(mail(&net, address(EVIL)).iter().any(|message| matches!(message, Message::Refused { .. })));
    assert!(!net.nodes[0].notices.is_empty(), "refused without a word to the operator");
}

// "Told: … its owner refutes" or obeys what was said of *its own run*.
#[test]
fn a_removal_of_the_former_run_does_not_stop_the_new_one() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.kill(1);
    net.run(Duration::from_secs(3));
    assert_eq!(net.status(0, "n1"), Some(Status::Down));
    // Restarted at the same address; its first words to n0 are lost.
    let reborn = net.add("n1", 1, &[2]);
    net.cut_one_way(reborn, 0);
    net.cut_one_way(2, 0);
    net.run_until(ms(500), "it is up", |net| net.nodes[reborn].core.is_up());
    net.run(ms(201));
    assert_eq!(net.status(0, "n1"), Some(Status::Down), "n0 knows the former run only");
    net.command(0, Command::Remove { ticket: 1, id: id("n1"), force: false });
    net.run(ms(50));
    assert_eq!(net.nodes[reborn].stopped, None, "the removal was of the run before");
}

// Removal of a living member: "the evicted node is told"; one lost datagram must not undo an operator's word.
#[test]
fn a_removal_is_not_undone_by_one_lost_reminder() {
    let mut net = Net::cluster(Profile::Local, 2);
    net.cut(0, 1, true);
    net.command(0, Command::Remove { ticket: 1, id: id("n1"), force: true });
    net.run(ms(100));
    let tags = Tags::new([("k".to_owned(), "v".to_owned())].into()).expect("good");
    net.command(1, Command::SetTags { ticket: 1, tags });
    net.cut(0, 1, false);
    net.cut_one_way(0, 1);
    let incarnation = |net: &Net| net.nodes[0].core.record(&id("n1")).map(|record| record.incarnation);
    let before = incarnation(&net);
    net.run_until(Duration::from_secs(5), "n1 is heard", |net| incarnation(net) > before);
    assert_eq!(net.status(0, "n1"), Some(FORCED));
    net.run(ms(5));
    net.cut(0, 1, false);
    net.run(Duration::from_secs(30));
    assert_eq!(net.nodes[1].stopped, Some(StopReason::Removed), "{}", net.describe());
}

pub(super) fn large(net: &mut Net, name: &str, host: usize, bytes: usize) -> usize {
    let tags = Tags::new([("k".to_owned(), "v".repeat(bytes))].into()).expect("good");
    let init = CoreInit {
        run: Run(0xff_0000 + host as u64),
        incarnation: 2_000_000,
        stored_bound: 2_000_000 + INCARNATION_STEP,
        tags,
        seeds: 1,
        ..birth(name, host as u64, address(host), &net.settings)
    };
    net.add_birth(init, vec![address(0)])
}

// Only those that a node was configured to ask may refuse it: not whoever asks it who it is while it looks for its
// seeds.
