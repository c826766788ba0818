//! Leaders as whole cores elect them and learn of them.

use super::electing::{SECOND, cluster, cluster_by_seed, leader};
use super::net::{Net, Node, id, ms};
use headcount_core::election::{Alarm, LossReason, Term};
use headcount_core::wire::{LeaderClaim, Message, Packet};
use headcount_core::{Command, Input, Leadership, LeadershipState, Notice, Output, Profile, Run, Tags, Time};

#[test]
fn every_member_learns_who_leads_and_on_what_members_the_voters_agreed() {
    let worlds = [(1, 1, 0), (3, 3, 0), (5, 3, 0)].into_iter().chain((0..8).map(|seed| (30, 5, seed)));
    for (n, voters, seed) in worlds {
        let mut net = cluster_by_seed(n, voters, seed);
        let (elected, _) = leader(&net);
        assert!(elected < voters);
        net.run(SECOND * 10);
        leader(&net);
        let numbers: Vec<_> = net.nodes.iter().map(|node| node.core.agreed_view().map(|view| view.number)).collect();
        assert!(numbers.iter().all(|number| *number == numbers[0] && number.is_some()), "{numbers:?}");
        assert_eq!(net.nodes[0].core.agreed_view().expect("a view").members.len(), n);
        for node in &net.nodes {
            let elections = node.leadership.iter().filter(|(_, said)| matches!(said, Output::LeaderElected { .. }));
            assert_eq!(elections.count(), 1, "seed {seed}: {:?}", node.leadership);
        }
    }
}

#[test]
fn a_member_keeps_seeing_its_leader_while_it_waits_for_the_first_view() {
    for (nodes, voters) in [(12, 3), (3, 1)] {
        waits_for_the_first_view(nodes, voters);
    }
}

fn waits_for_the_first_view(nodes: usize, voters: usize) {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..voters).map(|i| id(&format!("n{i}"))).collect();
    net.is_lost = Some(|bytes| {
        let messages = Packet::decode(bytes).expect("decodes").messages;
        messages.iter().any(|message| matches!(message, Message::ViewPart(_)))
    });
    for i in 0..nodes {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(SECOND * 30);
    leader(&net);
    let waits = |node: &&Node| node.core.agreed_view().is_none();
    assert!(net.nodes.iter().filter(waits).count() > (nodes - voters) / 2, "most of those that do not vote");
    let lost = |(_, said): &&(Time, Output)| matches!(said, Output::LeaderLost { .. });
    for node in &net.nodes {
        assert_eq!(node.leadership.iter().find(lost), None, "{:?}", node.core.me().id);
    }
    // As soon as parts of views pass again, each member gets the view that it waits for.
    net.is_lost = None;
    net.run_until(SECOND * 3, "everybody has the view", |net| {
        net.nodes.iter().all(|node| node.core.agreed_view().is_some())
    });
}

#[test]
fn a_node_that_takes_no_part_in_elections_hears_that_voters_elect_before_it_is_up_and_of_their_leader_soon() {
    let mut net = cluster(4, 3);
    let (elected, term) = leader(&net);
    net.voters.clear();
    let other = net.add("other", 50, &[0]);
    net.run(SECOND * 3);
    let heard = &net.nodes[other].voters_heard;
    assert_eq!(heard.first(), Some(&(false, None)), "from its sponsor");
    assert!(heard.iter().filter(|(is_led, _)| *is_led).count() > 1, "{heard:?}");
    let leaders: Vec<_> = heard.iter().filter_map(|(_, leader)| leader.clone()).collect();
    let named = net.nodes[elected].core.me().id.clone();
    assert!(leaders.iter().all(|leader| *leader == (named.clone(), term)), "{leaders:?}");
    // Nodes that elect hear nothing of the kind.
    assert!(net.nodes[..4].iter().all(|node| node.voters_heard.is_empty()));
}

#[test]
fn members_that_were_there_before_the_only_voter_learn_that_it_leads() {
    // Each knows no electorate, and nobody but the voter itself can say that it leads.
    for others in [1, 2, 3, 8] {
        let mut net = Net::new(Profile::Default);
        net.voters = vec![id("n0")];
        for i in 1..=others {
            net.add(&format!("n{i}"), i, &[1]);
        }
        net.run(SECOND * 5);
        net.add("n0", 0, &[1]);
        net.run(SECOND * 8);
        net.assert_all_up();
        let leaders = net.nodes.iter().map(|node| node.core.leadership().leader);
        assert!(leaders.clone().all(|leader| leader == Some(id("n0"))), "{:?}", leaders.collect::<Vec<_>>());
    }
}

#[test]
fn a_killed_leader_is_succeeded_in_a_higher_term_and_everybody_knows() {
    let mut net = cluster(7, 5);
    let (before, term) = leader(&net);
    net.kill(before);
    net.run(SECOND * 3);
    let (after, later) = leader(&net);
    assert!(after != before && later > term);
}

#[test]
fn a_leader_that_leaves_hands_over_first() {
    let mut net = cluster(5, 3);
    let (before, term) = leader(&net);
    net.command(before, Command::Leave);
    assert!(!net.nodes[before].core.leadership().is_me);
    net.run(ms(300));
    let successors: Vec<_> =
        (0..5).filter(|node| *node != before && net.nodes[*node].core.leadership().is_me).collect();
    assert_eq!(successors.len(), 1);
    net.run(SECOND);
    assert!(net.nodes[before].stopped.is_some(), "it left");
    assert!(leader(&net).1 > term);
    let reasons = net.nodes.iter().flat_map(|node| &node.leadership).filter_map(|(_, said)| match said {
        Output::LeaderLost { reason, .. } => Some(*reason),
        _ => None,
    });
    let reasons: Vec<_> = reasons.collect();
    assert!(reasons.iter().all(|reason| *reason == LossReason::Resigned), "{reasons:?}");
    assert_eq!(reasons.len(), 5);
}

#[test]
fn with_two_voters_of_five_left_nobody_leads_and_members_know_that_nobody_can() {
    let mut net = cluster(7, 5);
    for node in 0..3 {
        net.kill(node);
    }
    net.run(SECOND * 15);
    for node in 3..7 {
        let told = net.nodes[node].core.leadership();
        assert_eq!((told.leader, told.state), (None, LeadershipState::Unavailable), "n{node}");
        let lost = net.nodes[node]
            .leadership
            .iter()
            .filter(|(_, said)| matches!(said, Output::Quorum { is_reached: false, .. }));
        assert_eq!(lost.count(), 1, "n{node}");
    }
}

#[test]
fn a_recovered_electorate_is_followed_by_all_and_nobody_takes_it_for_a_foreign_one() {
    let mut net = cluster(9, 5);
    for node in 0..3 {
        net.kill(node);
    }
    net.run(SECOND * 15);
    net.command(3, Command::Recover { ticket: 1, voters: vec![id("n4")] });
    net.run(SECOND * 10);
    let (after, term) = leader(&net);
    assert!([3, 4].contains(&after) && term.generation() == 1);
    for node in 3..9 {
        let is_foreign = |notice: &&Notice| matches!(notice, Notice::Election(Alarm::OtherElectorate { .. }));
        assert_eq!(net.nodes[node].notices.iter().find(is_foreign), None, "n{node}");
        assert_eq!(net.nodes[node].core.electorate().expect("known").voters.len(), 2, "n{node}");
    }
}

#[test]
fn two_sides_that_were_recovered_are_one_again_after_the_cut() {
    for n in [5, 9] {
        let mut net = cluster(n, 5);
        let side = |node: usize| match node {
            0 | 1 => 0,
            2 | 3 => 1,
            _ => 2,
        };
        let set_cut = |net: &mut Net, is_cut| {
            for a in 0..n {
                for b in (0..a).filter(|b| side(a) != side(*b)) {
                    net.cut(a, b, is_cut);
                }
            }
        };
        set_cut(&mut net, true);
        net.run(SECOND * 15);
        net.command(0, Command::Recover { ticket: 1, voters: vec![id("n1")] });
        net.command(2, Command::Recover { ticket: 2, voters: vec![id("n3")] });
        net.run(SECOND * 10);
        assert!(net.nodes[0].core.leadership().leader.is_some() && net.nodes[2].core.leadership().leader.is_some());
        assert_ne!(net.nodes[0].core.leadership().term, net.nodes[2].core.leadership().term);
        set_cut(&mut net, false);
        net.run(SECOND * 60);
        let (after, term) = leader(&net);
        assert!(after < 4 && term.generation() == 1);
    }
}

#[test]
fn everybody_restarted_elects_a_leader_in_a_higher_term() {
    let mut net = cluster(3, 3);
    let (_, term) = leader(&net);
    for node in 0..3 {
        net.kill(node);
    }
    for node in 0..3 {
        net.add(&format!("n{node}"), node, &[0]);
    }
    net.run(SECOND * 10);
    assert!(leader(&net).1 > term);
}

#[test]
fn ten_nodes_that_crash_together_are_one_new_view() {
    let mut net = cluster(20, 3);
    let before = net.nodes[0].core.agreed_view().expect("a view").number;
    for node in 10..20 {
        net.kill(node);
    }
    net.run(SECOND * 6);
    let after = net.nodes[0].core.agreed_view().expect("a view").clone();
    assert_eq!((after.number, after.members.len()), (before + 1, 10));
    assert!(net.nodes[..10].iter().all(|node| node.core.agreed_view() == Some(&after)));
}

#[test]
fn a_view_too_long_for_a_packet_reaches_voters_and_members() {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..3).map(|i| id(&format!("n{i}-{:050}", 0))).collect();
    for i in 0..60 {
        net.add(&format!("n{i}-{:050}", 0), i, &[0]);
    }
    net.run(SECOND * 15);
    net.assert_all_up();
    leader(&net);
    for node in &net.nodes {
        assert_eq!(node.core.agreed_view().expect("a view").members.len(), 60);
        assert!(node.largest <= 1400);
    }
}

#[test]
fn a_leader_that_stood_still_past_its_lease_says_so_before_it_looks_at_anything() {
    let net = cluster(3, 3);
    let (stopped, _) = leader(&net);
    let from = net.nodes[(stopped + 1) % 3].address;
    let late = net.now + SECOND * 4;
    let inputs = [
        Input::Packet { from, bytes: &[] },
        Input::Tick,
        Input::Persisted { incarnation_bound: 0, ballot_version: 0 },
        Input::Command(Command::SetTags { ticket: 1, tags: Tags::default() }),
    ];
    for input in inputs {
        let mut core = cluster(3, 3).nodes.swap_remove(stopped).core;
        assert!(core.leadership().is_me, "the same cluster has the same leader");
        core.handle(late, input);
        assert!(!core.leadership().is_me);
        let first = std::iter::from_fn(|| core.poll()).find(|output| !matches!(output, Output::Notice(_)));
        assert!(matches!(first, Some(Output::Leadership(Leadership { is_me: false, .. }))), "{first:?}");
    }
}

#[test]
fn renewals_fit_into_packets_to_unproven_addresses() {
    let mut net = Net::new(Profile::Local);
    // The longest names there are.
    net.voters = (0..7).map(|i| id(&format!("n{i}-{:060}", 0))).collect();
    for i in 0..7 {
        net.add(&format!("n{i}-{:060}", 0), i, &[0]);
    }
    net.run(SECOND * 15);
    let (first, term) = leader(&net);
    // Each of the others is started again, one after the other: nobody has proven its new process' address.
    for node in (0..7).filter(|node| *node != first) {
        let name = net.nodes[node].core.me().id.to_string();
        net.kill(node);
        net.add(&name, node, &[first]);
        net.run(SECOND);
        let told = net.nodes[first].core.leadership();
        assert!(told.is_me && told.term == term, "after {name}: {told:?}");
    }
    assert_eq!(leader(&net), (first, term));
}

#[test]
fn a_joining_node_shows_nobody_and_tells_of_no_leader_before_it_knows_one() {
    let mut net = cluster(4, 3);
    let before = leader(&net);
    let late = net.add("late", 50, &[3]);
    let told = |net: &Net| net.nodes[late].core.leadership();
    assert_eq!((told(&net).leader, told(&net).state), (None, LeadershipState::Vacant));
    net.run(SECOND * 3);
    assert_eq!(leader(&net), before);
    assert_eq!(net.nodes[late].core.agreed_view().expect("a view").members.len(), 5);
    let events: Vec<_> = net.nodes[late]
        .leadership
        .iter()
        .filter(|(_, said)| matches!(said, Output::LeaderElected { .. } | Output::LeaderLost { .. }))
        .collect();
    assert!(matches!(events[..], [(_, Output::LeaderElected { .. })]), "{events:?}");
}

/// Has the voters but for the leader say to a node that the leader of this term has given it up: one alone is not
/// believed.
fn tell_release(net: &mut Net, node: usize, leader: usize, term: Term) {
    let runs: Vec<Run> = net.nodes.iter().map(|node| node.core.me().run).collect();
    let core = &mut net.nodes[node].core;
    let agreed = core.agreed_view().expect("a view").clone();
    let electorate = &agreed.electorate;
    let release = LeaderClaim {
        descent: electorate.descent(),
        term,
        leader: None,
        sequence: 0,
        age_ms: 0,
        lease_ms: 0,
        view: agreed.reference(),
        delta: None,
        answers: None,
    };
    for voter in (0..3).filter(|voter| ![leader, node].contains(voter)) {
        core.hear(runs[voter], Message::LeaderClaim(Box::new(release.clone())));
    }
    while core.poll().is_some() {}
}

#[test]
fn a_release_of_a_later_term_lends_the_leader_no_term_and_it_leads_on_above_that() {
    let mut net = cluster(4, 3);
    let (first, term) = leader(&net);
    let later = Term(term.0 + 2);
    tell_release(&mut net, 3, first, later);
    let told = |net: &Net, node: usize| net.nodes[node].core.leadership();
    assert_eq!((told(&net, 3).leader, told(&net, 3).term), (None, later));
    assert_eq!((told(&net, first).is_me, told(&net, first).term), (true, term), "it was not told");
    tell_release(&mut net, first, 3, later);
    net.run(net.lease.lease_duration);
    // Else whoever heard of the later term would show no leader for good.
    assert_eq!(leader(&net), (first, Term(later.0 + 1)));
    assert_eq!(told(&net, 3).leader, told(&net, first).leader);
}

#[test]
fn a_leader_that_never_gave_up_is_shown_again_by_its_next_renewals() {
    let mut net = cluster(5, 3);
    net.run(SECOND * 3);
    let (first, term) = leader(&net);
    tell_release(&mut net, 3, first, term);
    assert_eq!(net.nodes[3].core.leadership().leader, None);
    net.run(net.lease.lease_duration * 2);
    assert_eq!(leader(&net), (first, term));
}

/// Whoever has the agreed view on its disk has it again before it knows who leads.
#[test]
fn a_voter_that_starts_again_makes_nobody_lose_sight_of_a_leader_that_leads_on() {
    for (profile, seed) in (0..16).map(|seed| (if seed % 2 == 0 { Profile::Local } else { Profile::Lan }, seed)) {
        let mut net = Net::new(profile);
        net.shuffle_losses(seed);
        net.lease = profile.lease_timing();
        net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
        let nodes: Vec<usize> = (0..6).map(|i| net.add(&format!("n{i}"), i, &[0, 1, 2])).collect();
        net.run(SECOND * 20 + ms(seed * 130));
        let (leads, _) = leader(&net);
        let voter = nodes[(leads + 1) % 3];
        net.kill(voter);
        net.run(ms(100));
        net.add(&format!("n{voter}"), voter, &[0, 1, 2]);
        net.run(SECOND * 10);
        assert_eq!(leader(&net).0, leads);
        let lost = |(_, said): &&(Time, Output)| matches!(said, Output::LeaderLost { .. });
        for node in &net.nodes {
            assert_eq!(node.leadership.iter().find(lost), None, "{profile:?}, seed {seed}: {:?}", node.core.me().id);
        }
    }
}

#[test]
fn full_disks_depose_nobody_before_a_ballot_must_be_written() {
    let mut net = cluster(4, 3);
    let (first, term) = leader(&net);
    let is_aside = |notice: &&Notice| matches!(notice, Notice::Election(Alarm::Aside | Alarm::AsideNoMore));
    for node in 0..4 {
        net.full_disks.insert(node, None);
        // The addresses that are remembered, or the bound of the incarnation.
        net.input(node, Input::PersistFailed);
    }
    net.run(SECOND * 20);
    assert_eq!(leader(&net), (first, term));
    assert!(net.nodes.iter().all(|node| node.notices.iter().find(is_aside).is_none()));
    // A member comes: the view of it must be written, and waits. Nobody else could be elected: no vote is on any disk.
    net.add("late", 50, &[3]);
    net.run(SECOND * 10);
    assert_eq!(leader(&net), (first, term));
    let election = |net: &Net, node: usize| net.nodes[node].core.election().expect("takes part").is_aside();
    assert!(election(&net, first));
    for node in 0..4 {
        net.free_disk(node);
    }
    net.run(SECOND * 10);
    assert!(leader(&net).1 >= term);
    assert!((0..4).all(|node| !election(&net, node)));
}

#[test]
fn elections_and_renewals_that_fail_are_counted_each_time_and_told_once() {
    let mut net = cluster(3, 3);
    let (first, _) = leader(&net);
    for node in (0..3).filter(|node| *node != first) {
        net.kill(node);
    }
    net.run(net.lease.lease_duration * 20);
    let counters = net.nodes[first].core.counters();
    assert!(counters.elections_failed > 10, "{}", counters.elections_failed);
    assert!(counters.renewal_failures > 0);
    let told = |alarm: Alarm| {
        let notice = Notice::Election(alarm);
        net.nodes[first].notices.iter().filter(|told| **told == notice).count()
    };
    assert_eq!(told(Alarm::RenewalFailed), 1);
    assert_eq!(told(Alarm::ElectionFailed { is_answered: false }), 1);
    assert_eq!(told(Alarm::ElectionFailed { is_answered: true }), 0);
}

#[test]
fn a_failure_after_another_leader_was_heard_is_told_again_as_soon_as_its_kind_may_be() {
    let mut net = cluster(3, 3);
    let (cut_off, _) = leader(&net);
    let cut = |net: &mut Net, is_cut| {
        for other in (0..3).filter(|node| *node != cut_off) {
            net.cut(cut_off, other, is_cut);
        }
    };
    let told = |net: &Net| {
        let notice = Notice::Election(Alarm::ElectionFailed { is_answered: false });
        net.nodes[cut_off].notices.iter().filter(|told| **told == notice).count()
    };
    let failed = |net: &Net| net.nodes[cut_off].core.counters().elections_failed;
    cut(&mut net, true);
    net.run_until(SECOND * 10, "it is told", |net| told(net) == 1);
    let since = net.now;
    cut(&mut net, false);
    net.run_until(SECOND * 5, "it hears a leader", |net| net.nodes[cut_off].core.leadership().leader.is_some());
    let before = failed(&net);
    cut(&mut net, true);
    net.run_until(SECOND * 5, "it fails anew", |net| failed(net) > before);
    assert!(net.now.since(since) < headcount_core::limits::NOTICE_INTERVAL && told(&net) == 1, "told a moment ago");
    net.run(headcount_core::limits::NOTICE_INTERVAL + SECOND * 5);
    assert_eq!(told(&net), 2);
}
