//! Questions to the kernels of silent members' hosts: when they are asked, and what is made of what comes of it.

use std::time::Duration;

use super::net::*;
use crate::limits::{HOST_CHECK_INTERVAL, HOST_CHECK_RETRY, HOST_QUESTION_INTERVAL, MAX_HOST_QUESTIONS};
use crate::view::Host;
use crate::*;

const SECOND: Duration = Duration::from_secs(1);

/// Returns a linked cluster of the profile `fast` some time after it formed: every kernel has answered.
fn cluster(n: usize) -> Net {
    let mut net = Net::linked(Profile::Fast, n);
    // No timer of the first questions is left.
    net.run(HOST_CHECK_RETRY * 2);
    net
}

/// Returns what a node knows of the host of another.
fn host(net: &Net, observer: usize, name: &str) -> Host {
    let core = &net.nodes[observer].core;
    core.view.entry(core.view.slot_of(name).expect("it is listed")).peer.rare().host
}

/// Returns how a node found that a member is Down, if it did.
fn method(net: &Net, observer: usize, name: &str) -> Option<DetectionMethod> {
    let down = |kind| if let ChangeKind::DetectedDown(method) = kind { Some(method) } else { None };
    net.reported(observer, name).into_iter().find_map(down)
}

#[test]
fn a_kernel_that_does_not_answer_is_asked_again_soon_and_one_that_does_rarely() {
    let mut net = Net::new(Profile::Fast);
    net.lay_wires();
    net.set_tcp(Tcp::Dropped);
    for i in 0..3 {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(SECOND * 10);
    net.assert_all_up();
    let known = host(&net, 0, "n2");
    assert!(known.asked.is_some() && !known.has_answered, "{known:?}");
    net.run(SECOND * 10);
    assert_eq!(host(&net, 0, "n2").unanswered_since, None, "the silence of a kernel whose member is heard is none");
    net.set_tcp(Tcp::Open);
    net.run(HOST_CHECK_RETRY);
    let known = host(&net, 0, "n2");
    assert!(known.has_answered, "{known:?}");
    net.run(HOST_CHECK_RETRY * 3);
    assert_eq!(host(&net, 0, "n2").asked, known.asked);
    // A firewall that came meanwhile is noticed.
    net.set_tcp(Tcp::Dropped);
    net.run(HOST_CHECK_INTERVAL);
    assert!(!host(&net, 0, "n2").has_answered);
}

#[test]
fn a_silent_members_kernel_is_asked_before_it_is_suspect_by_every_observer_twice_a_second_and_not_after_its_end() {
    let mut net = cluster(4);
    let attempts = |net: &Net| [0, 1, 2].map(|node| net.attempts_of(node));
    let before = attempts(&net);
    net.power_off(3);
    let is_asked = |net: &Net, node| host(net, node, "n3").unanswered_since.is_some();
    net.run_until(SECOND * 3, "somebody asks", |net| (0..3).any(|node| is_asked(net, node)));
    assert!((0..3).all(|node| net.status(node, "n3") == Some(Status::Up)), "{}", net.describe());
    let began = net.now;
    net.run(HOST_QUESTION_INTERVAL * 3 / 2);
    assert!((0..3).all(|node| is_asked(&net, node)), "{}", net.describe());
    let downs = |net: &Net| (0..3).filter(|node| net.status(*node, "n3") == Some(Status::Down)).count();
    net.run_until(SECOND * 4, "all know", |net| downs(net) == 3);
    let most = net.now.since(began).div_duration_f64(HOST_QUESTION_INTERVAL) as usize + 1;
    for (after, before) in attempts(&net).into_iter().zip(before) {
        assert!((2..=most).contains(&(after - before)), "{} of {most}", after - before);
    }
    let asked = |net: &Net| [0, 1, 2].map(|node| host(net, node, "n3").asked);
    let last = asked(&net);
    net.run(SECOND * 10);
    assert_eq!(asked(&net), last, "nobody asks for who is Down");
    assert!(net.running().all(|node| node.core.paths.kernels.size() == 0));
}

#[test]
fn the_kernel_of_a_member_that_others_suspect_is_asked_at_once() {
    let mut net = cluster(2);
    let before = host(&net, 0, "n1").asked;
    let core = &mut net.nodes[0].core;
    let slot = core.view.slot_of("n1").expect("it is listed");
    assert_eq!(core.detector.inquiries.probed(core.view.record(slot).run), 0, "this node does not miss it");
    core.record_verdict(slot, Status::Suspect, Some(DetectionMethod::HeartbeatTimeout));
    net.drain(0);
    net.run(SECOND / 1_000);
    assert!(host(&net, 0, "n1").asked > before);
}

#[test]
fn a_question_that_could_not_be_put_is_no_silence() {
    for is_put in [true, false] {
        let mut net = cluster(2);
        let began = net.now;
        net.power_off(1);
        let mut last = net.attempts_of(0);
        while method(&net, 0, "n1").is_none() {
            net.run(SECOND / 20);
            let opened = net.attempts_of(0);
            for _ in last..opened {
                let core = &net.nodes[0].core;
                let asked = (0..1_000).map(LinkId::Opened).find(|link| core.paths.kernels.run_of(*link).is_some());
                if let Some(link) = asked.filter(|_| !is_put) {
                    net.input(0, Input::Link { link, event: LinkEvent::Unreachable });
                    net.drain(0);
                }
            }
            last = opened;
        }
        let expected = if is_put { DetectionMethod::HostSilent } else { DetectionMethod::HeartbeatTimeout };
        assert_eq!(method(&net, 0, "n1"), Some(expected), "after {:?}", net.now.since(began));
    }
}

#[test]
fn what_is_known_of_a_silent_kernel_is_forgotten_once_its_member_is_heard() {
    let mut net = cluster(2);
    // A host that stands still takes neither datagrams nor connections.
    net.set_tcp(Tcp::Dropped);
    net.cut(0, 1, true);
    net.run_until(SECOND * 3, "it is asked", |net| host(net, 0, "n1").unanswered_since.is_some());
    net.run(SECOND / 2);
    // No kernel answers, but datagrams pass again.
    net.cut(0, 1, false);
    net.run(SECOND * 2);
    net.assert_all_up();
    let known = host(&net, 0, "n1");
    assert_eq!(known.unanswered_since, None, "{known:?}");
}

#[test]
fn the_answer_to_another_observer_is_not_an_answer_to_this_node() {
    let mut net = cluster(3);
    let (run, slot) = (net.nodes[2].core.me().run, net.nodes[0].core.view.slot_of("n2").expect("it is listed"));
    let core = &mut net.nodes[0].core;
    core.view.peer_mut(slot).rare_mut().host = Host::default();
    core.note_host_answered(run);
    let known = host(&net, 0, "n2");
    assert!(known.answered.is_some() && !known.has_answered, "{known:?}");
}

#[test]
fn a_port_that_refuses_is_an_answer_of_its_kernel() {
    let mut net = cluster(2);
    let (run, slot) = (net.nodes[1].core.me().run, net.nodes[0].core.view.slot_of("n1").expect("it is listed"));
    let core = &mut net.nodes[0].core;
    core.view.peer_mut(slot).rare_mut().host = Host::default();
    core.on_kernel_event(run, LinkEvent::Refused);
    assert!(host(&net, 0, "n1").has_answered);
}

#[test]
fn what_is_known_of_a_host_is_not_taken_for_that_of_the_address_to_which_its_member_moves() {
    let mut net = cluster(2);
    net.run(SECOND * 5);
    let slot = net.nodes[0].core.view.slot_of("n1").expect("it is listed");
    assert!(host(&net, 0, "n1").has_answered);
    net.nodes[0].core.view.peer_mut(slot).unprove();
    let known = host(&net, 0, "n1");
    assert!(!known.has_answered && known.answered.is_none(), "{known:?}");
}

#[test]
fn who_is_taken_over_is_not_told_of_as_heard() {
    let mut net = cluster(30);
    let core = &mut net.nodes[0].core;
    let neighbour = core.observers.neighbours().next().expect("somebody");
    let (now, sign) = (core.cx.now + SECOND / 2, core.view.entry(neighbour).peer.last_sign());
    core.cx.now = now;
    let shift = crate::observers::Shift { started: vec![(neighbour, None)], ..Default::default() };
    core.act_on_shift(shift);
    let entry = core.view.entry(neighbour);
    assert_eq!(entry.peer.last_sign(), sign, "it was not heard");
    let since = core.detector_facts().silent_since(entry);
    assert_eq!(since, sign.max(now - entry.record.timing.suspect_timeout() * 2 / 5), "its silence counts from there");
}

#[test]
fn only_members_that_are_rarely_heard_are_looked_at_since_another_one_is_missed() {
    for (profile, is_hastened) in [(Profile::Fast, true), (Profile::Default, false)] {
        let mut net = Net::linked(profile, 4);
        net.run(SECOND * 20);
        let run = net.nodes[3].core.me().run;
        net.power_off(3);
        let probed = |net: &Net| net.nodes[0].core.detector.inquiries.probed(run);
        net.run_until(SECOND * 60, "it is missed", |net| probed(net) > 2);
        let view = &net.nodes[0].core.view;
        let (expected, _) = view.entry(view.slot_of("n1").expect("it is listed")).peer.expected().expect("it is heard");
        assert_eq!(expected <= net.now, is_hastened, "{profile}");
    }
}

#[test]
fn so_many_kernels_are_asked_at_one_time_each_by_one_connection() {
    let mut net = cluster(2);
    let to = net.nodes[1].address;
    let core = &mut net.nodes[0].core;
    let most = MAX_HOST_QUESTIONS as u64;
    let mut ask = |run| core.paths.ask_kernel(&mut core.cx, Run(run), to);
    assert!((0..most).all(&mut ask));
    assert!(!ask(most), "one too many");
    assert!(ask(0), "in place of the one before");
    assert_eq!(core.paths.kernels.size(), MAX_HOST_QUESTIONS);
    let outputs: Vec<Output> = std::iter::from_fn(|| core.poll()).collect();
    let count = |is: fn(&Output) -> bool| outputs.iter().filter(|output| is(output)).count();
    let opened = count(|output| matches!(output, Output::OpenLink { .. }));
    assert_eq!((opened, count(|output| matches!(output, Output::CloseLink { .. }))), (MAX_HOST_QUESTIONS + 1, 1));
}
