//! Electorates as whole nodes form them: one in a cluster, whoever comes with an empty disk.

use std::collections::BTreeSet;
use std::time::Duration;

use super::electing::{SECOND, cluster, leader};
use super::net::{Net, address, id, ms};
use super::speaker::Speaker;
use headcount_core::election::{Alarm, ChangeError, Descent, ElectorateReport, Lineage, Term};
use headcount_core::limits::{EARLIEST_FOUNDING, MISSING_VOTER_QUESTIONS};
use headcount_core::wire::Message;
use headcount_core::{Command, CommandError, Core, Notice, Output, Profile, Reply};

/// Returns the nodes that lead, as they say themselves.
pub(super) fn claims(net: &Net) -> Vec<usize> {
    (0..net.nodes.len())
        .filter(|node| net.nodes[*node].stopped.is_none() && net.nodes[*node].core.leadership().is_me)
        .collect()
}

/// Runs for so long; fails as soon as two lead.
#[track_caller]
fn run_with_one_leader(net: &mut Net, duration: Duration) {
    let until = net.now + duration;
    while net.now < until {
        net.run(ms(10));
        let claims = claims(net);
        assert!(claims.len() < 2, "{claims:?} lead at {:?}", net.now);
    }
}

/// Replaces the voters n0–n2 by n3–n5, one by one.
fn replace_all_voters(net: &mut Net) {
    for i in 0..3 {
        let (old, new) = (id(&format!("n{i}")), id(&format!("n{}", i + 3)));
        net.command(i, Command::AddVoter { ticket: 1, id: new });
        net.run(SECOND * 3);
        net.command(i, Command::RemoveVoter { ticket: 2, id: old });
        net.run(SECOND * 5);
    }
    for (_, node) in (0..3).zip(&net.nodes) {
        assert!(node.replies.iter().all(|reply| matches!(reply, Reply::Electorate(_))), "{:?}", node.replies);
    }
}

/// Ends a process, and starts it again with the same configuration and an empty disk.
fn reinstall(net: &mut Net, node: usize, seeds: &[usize]) -> usize {
    let name = format!("n{node}");
    net.kill(node);
    net.disks.remove(&name);
    net.add(&name, node, seeds)
}

pub(super) fn is_outside(notice: &Notice) -> bool {
    matches!(notice, Notice::Election(Alarm::ElectorateExists))
}

#[test]
fn voters_that_were_replaced_and_come_back_blank_form_nothing_beside_the_electorate_that_is() {
    for seed in 0..4 {
        let mut net = cluster(7, 3);
        net.shuffle_losses(seed);
        replace_all_voters(&mut net);
        let blank: Vec<usize> = (0..3).map(|node| reinstall(&mut net, node, &[3 + node])).collect();
        run_with_one_leader(&mut net, SECOND * 60);
        let (first, _) = leader(&net);
        assert!((3..6).contains(&first));
        for node in blank {
            assert!(net.nodes[node].notices.iter().any(is_outside), "{:?}", net.nodes[node].notices);
        }
    }
}

#[test]
fn three_new_hosts_that_list_themselves_as_voters_form_nothing_in_a_led_cluster() {
    for seed in 0..4 {
        let mut net = cluster(5, 3);
        net.shuffle_losses(seed);
        let before = leader(&net);
        net.voters = (5..8).map(|i| id(&format!("n{i}"))).collect();
        for i in 0..3 {
            net.add(&format!("n{}", i + 5), i + 5, &[i]);
        }
        run_with_one_leader(&mut net, SECOND * 60);
        assert_eq!(leader(&net), before);
        for node in 5..8 {
            assert!(net.nodes[node].notices.iter().any(is_outside), "{:?}", net.nodes[node].notices);
        }
    }
}

/// Returns seven nodes, of which n0–n2 vote; their disks are lost, and they come back blank. The others live on.
fn without_voters() -> (Net, Term) {
    let mut net = cluster(7, 3);
    let (_, term) = leader(&net);
    for node in 0..3 {
        net.kill(node);
    }
    net.run(SECOND * 10);
    for node in 0..3 {
        net.disks.remove(&format!("n{node}"));
        net.add(&format!("n{node}"), node, &[3 + node]);
    }
    net.run(SECOND * 20);
    assert_eq!(claims(&net), [0; 0], "nobody forms an electorate that starts again at the first term");
    (net, term)
}

/// Checks that all that are there show one leader, in a later term than before, and showed no term that fell.
#[track_caller]
fn assert_led_on(net: &Net, before: Term) {
    let (_, term) = leader(net);
    assert!(term > before && term.generation() == before.generation() + 1, "{term} after {before}");
    for node in net.running() {
        let terms = node.leadership.iter().filter_map(|(_, said)| match said {
            Output::Leadership(shown) => Some(shown.term),
            _ => None,
        });
        assert!(terms.is_sorted(), "{}", node.core.me().id);
        assert_eq!(node.core.electorate().expect("known").began.generation(), term.generation());
    }
}

#[test]
fn after_all_voters_disks_are_lost_an_operator_founds_the_electorate_anew_and_terms_go_on_growing() {
    // At a voter that came back blank, and at a member that never had a vote.
    for (node, named) in [(7, ["n1", "n2"]), (4, ["n5", "n6"]), (4, ["n0", "n1"])] {
        let (mut net, term) = without_voters();
        net.command(node, Command::FoundAnew { ticket: 1, voters: named.map(id).into() });
        run_with_one_leader(&mut net, SECOND * 30);
        assert!(matches!(net.nodes[node].replies[..], [Reply::Electorate(_)]), "{:?}", net.nodes[node].replies);
        assert_led_on(&net, term);
        // Once more: its voters are lost, too.
        let (_, term) = leader(&net);
        let voters = net.nodes[3].core.electorate().expect("known").clone();
        for voter in &voters.voters {
            let node = net.nodes.iter().rposition(|node| node.core.me().id == voter.id).expect("a node");
            net.kill(node);
        }
        net.run(SECOND * 20);
        let node = (3..7).find(|node| net.nodes[*node].stopped.is_none()).expect("somebody is left");
        net.nodes[node].replies.clear();
        net.command(node, Command::FoundAnew { ticket: 2, voters: Vec::new() });
        run_with_one_leader(&mut net, SECOND * 30);
        assert!(matches!(net.nodes[node].replies[..], [Reply::Electorate(_)]), "{:?}", net.nodes[node].replies);
        assert_led_on(&net, term);
    }
}

#[test]
fn voters_of_before_that_come_back_with_their_data_go_over_to_the_electorate_that_was_founded_anew() {
    let mut net = cluster(7, 3);
    let (_, term) = leader(&net);
    for node in 0..3 {
        net.kill(node);
    }
    net.run(SECOND * 10);
    net.command(4, Command::FoundAnew { ticket: 1, voters: vec![id("n5"), id("n6")] });
    net.run(SECOND * 10);
    assert_led_on(&net, term);
    for node in 0..3 {
        net.add(&format!("n{node}"), node, &[3]);
    }
    net.run(SECOND * 30);
    assert_led_on(&net, term);
    run_with_one_leader(&mut net, SECOND * 30);
}

#[test]
fn nothing_is_founded_anew_beside_a_leader_or_a_voter_that_is_left_nor_where_nothing_was() {
    let refused = |net: &mut Net, node: usize| {
        net.nodes[node].replies.clear();
        net.command(node, Command::FoundAnew { ticket: 1, voters: Vec::new() });
        net.run(SECOND * 5);
        match &net.nodes[node].replies[..] {
            [Reply::Refused(CommandError::Electorate(error))] => error.clone(),
            replies => panic!("{replies:?}"),
        }
    };
    let mut net = cluster(5, 3);
    let before = leader(&net);
    assert!(matches!(refused(&mut net, 4), ChangeError::LeaderHeard { .. }));
    // Nor by who does not know yet of the leader that others know.
    let late = net.add("late", 50, &[3]);
    net.run_until(SECOND * 2, "up", |net| net.nodes[late].core.is_up());
    assert!(matches!(refused(&mut net, late), ChangeError::LeaderHeard { .. }));
    assert_eq!(leader(&net), before);
    let left = (before.0 + 1) % 3;
    for node in (0..3).filter(|node| *node != left) {
        net.kill(node);
    }
    net.run(SECOND * 10);
    assert_eq!(refused(&mut net, 4), ChangeError::VoterLeft { id: id(&format!("n{left}")) });

    let mut fresh = Net::new(Profile::Local);
    fresh.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
    for i in 0..2 {
        fresh.add(&format!("n{i}"), i, &[0]);
    }
    fresh.run(SECOND * 3);
    assert_eq!(refused(&mut fresh, 0), ChangeError::NothingToFollow);
}

#[test]
fn one_member_that_is_left_is_enough_to_know_and_also_after_it_was_restarted() {
    for is_restarted in [false, true] {
        let mut net = cluster(4, 3);
        let (_, term) = leader(&net);
        for node in 0..3 {
            net.kill(node);
        }
        net.run(SECOND * 10);
        if is_restarted {
            net.kill(3);
        }
        for node in 0..3 {
            net.disks.remove(&format!("n{node}"));
        }
        let left = if is_restarted { net.add("n3", 3, &[3]) } else { 3 };
        net.run(SECOND);
        let blank: Vec<usize> = (0..3).map(|node| net.add(&format!("n{node}"), node, &[3])).collect();
        net.run(SECOND * 30);
        assert_eq!(claims(&net), [0; 0]);
        // Whoever still holds the last agreed view is sure of it.
        let told = if is_restarted { Alarm::FormingHeldUp { by: id("n3") } } else { Alarm::ElectorateExists };
        let told = Notice::Election(told);
        assert!(blank.iter().all(|node| net.nodes[*node].notices.contains(&told)), "{}", net.describe());
        net.command(left, Command::FoundAnew { ticket: 1, voters: vec![id("n0"), id("n1")] });
        run_with_one_leader(&mut net, SECOND * 20);
        assert_led_on(&net, term);
    }
}

#[test]
fn one_members_word_keeps_a_new_cluster_from_forming_only_until_it_is_removed() {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
    for name in ["n0", "n1", "speaker", "other"] {
        net.add(name, net.nodes.len(), &[0]);
    }
    net.run(SECOND * 2);
    let speaker = Speaker::new(2);
    let lineage = Lineage(0xbad);
    let (root, began) = (lineage, Term(0));
    let founded = Message::ElectorateReport(ElectorateReport {
        descent: Descent { lineage, root, began, founded: EARLIEST_FOUNDING },
        is_sure: true,
    });
    speaker.says(&mut net, 0, std::slice::from_ref(&founded));
    net.add("n2", 4, &[1]);
    for _ in 0..20 {
        speaker.says(&mut net, 0, std::slice::from_ref(&founded));
        net.run(SECOND);
    }
    assert_eq!(claims(&net), [0; 0], "one voter that was told keeps all of them");
    assert!(net.nodes[0].notices.contains(&Notice::Election(Alarm::FormingHeldUp { by: id("speaker") })));
    for node in [0, 1, 3, 4] {
        assert_eq!(net.nodes[node].core.election().expect("takes part").founded(), None, "nobody is sure of it");
    }
    net.command(1, Command::Remove { ticket: 1, id: id("speaker"), force: true });
    net.run(SECOND * 10);
    leader(&net);
}

#[test]
fn a_cluster_of_which_nobody_knows_an_electorate_has_a_leader_within_a_second() {
    for profile in [Profile::Local, Profile::Lan, Profile::Default] {
        for seed in 0..5 {
            let mut net = Net::new(profile);
            net.shuffle_losses(seed);
            net.lease = profile.lease_timing();
            net.voters = (0..5).map(|i| id(&format!("n{i}"))).collect();
            for i in 0..5 {
                net.add(&format!("n{i}"), i, &[0]);
            }
            net.run_until(SECOND, "led", |net| claims(net).len() == 1);
            // Started again, it waits for the longest promise, and a little.
            net.run(SECOND * 60);
            (0..5).for_each(|node| net.kill(node));
            for i in 0..5 {
                net.add(&format!("n{i}"), i, &[0]);
            }
            let little = net.lease.spread() * 2;
            net.run_until(net.lease.lease_duration + little, "led", |net| claims(net).len() == 1);
        }
    }
}

/// Returns the generation that is founded anew when all voters are lost, and a member tells of one of this lineage.
fn found_anew_after(lineage: u64) -> u64 {
    let mut net = cluster(5, 3);
    net.run(SECOND);
    let root = net.nodes[3].core.agreed_view().expect("a view").electorate.root;
    for node in 0..3 {
        net.kill(node);
    }
    net.run(SECOND * 10);
    let descent =
        Descent { lineage: Lineage(lineage), root, began: Term::beginning_of(1, 5), founded: EARLIEST_FOUNDING };
    Speaker::new(4).says(&mut net, 3, &[Message::ElectorateReport(ElectorateReport { descent, is_sure: true })]);
    net.command(3, Command::FoundAnew { ticket: 1, voters: Vec::new() });
    net.run(SECOND * 10);
    match &net.nodes[3].replies[..] {
        [Reply::Electorate(electorate)] => electorate.began.generation(),
        replies => panic!("{replies:?}"),
    }
}

#[test]
fn what_is_founded_anew_is_above_the_generation_that_one_member_tells_of() {
    for lineage in [1, u64::MAX] {
        assert_eq!(found_anew_after(lineage), 2);
    }
}

#[test]
fn a_blank_voter_learns_of_the_electorate_before_it_is_up_and_does_not_forget_it_if_that_takes_long() {
    for latency in [1, 100, 200, 300, 400, 600] {
        let mut net = cluster(5, 3);
        net.lease.lease_duration = SECOND * 20;
        net.latency = ms(latency);
        net.voters = vec![id("n5")];
        // Alone it would be an electorate at once.
        let new = net.add("n5", 5, &[0]);
        net.run_until(SECOND * 30, "up", |net| net.nodes[new].core.is_up());
        assert_eq!(net.nodes[new].core.electorate(), None, "latency {latency}");
        assert!(net.nodes[new].core.election().expect("takes part").electorate_report().is_some(), "latency {latency}");
        if latency == 1 {
            run_with_one_leader(&mut net, SECOND * 20);
            leader(&net);
        }
    }
}

/// Returns the electorates that nodes are sure of, by their roots.
pub(super) fn roots(net: &Net) -> BTreeSet<Lineage> {
    net.running().filter_map(|node| node.core.election()?.founded()).map(|descent| descent.root).collect()
}

/// A cluster whose three first nodes, its voters and everybody's only seeds, lose their disks.
#[derive(Debug, Clone, Copy)]
struct Loss {
    profile: Profile,
    survivors: usize,
    is_linked: bool,
    /// One packet in so many is lost from then on; none if zero.
    drop_one_in: u64,
    gone_for: Duration,
    apart: Duration,
    seed: u64,
}

/// Returns so many nodes that have met; the first three are the voters and everybody's only seeds.
pub(super) fn seeds_that_vote(profile: Profile, is_linked: bool, seed: u64, nodes: usize) -> Net {
    let mut net = Net::new(profile);
    net.shuffle_losses(seed);
    net.lease = profile.lease_timing();
    if is_linked {
        net.lay_wires();
    }
    net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
    for i in 0..nodes {
        net.add(&format!("n{i}"), i, &[0, 1, 2]);
    }
    net.run(SECOND * 20);
    net
}

/// Has the seeds, which are also the voters, lose their disks and come back, one after the other; the others live on, and
/// name those seeds alone.
fn blank_seeds(loss: Loss) -> Net {
    let mut net = seeds_that_vote(loss.profile, loss.is_linked, loss.seed, 3 + loss.survivors);
    leader(&net);
    net.drop_one_in = loss.drop_one_in;
    for node in 0..3 {
        net.kill(node);
        net.disks.remove(&format!("n{node}"));
    }
    net.run(loss.gone_for);
    for node in 0..3 {
        net.add(&format!("n{node}"), node, &[0, 1, 2]);
        net.run(loss.apart);
    }
    net
}

/// Returns the times at which the blank voters are found to have come back.
fn returns() -> impl Iterator<Item = (Duration, Duration)> {
    let gone = [0, 500, 3_000, 60_000];
    gone.into_iter().flat_map(|gone_for| [0, 50, 2_000].map(|apart| (ms(gone_for), ms(apart))))
}

/// Checks that all nodes of a cluster whose voters came back blank know one electorate at most, and that nobody leads.
#[track_caller]
fn assert_one_root(loss: Loss) -> Net {
    let mut net = blank_seeds(loss);
    net.run(SECOND * 40);
    assert!(roots(&net).len() == 1 && claims(&net).is_empty(), "{loss:?}: {:?} {:?}", roots(&net), claims(&net));
    let knows = |core: &Core| core.election().is_some_and(|election| election.electorate_report().is_some());
    assert!(net.running().all(|node| knows(&node.core)), "{loss:?}");
    net
}

#[test]
fn seeds_that_lost_their_disks_and_know_each_other_alone_form_nothing_beside_the_electorate_that_is() {
    let loss = Loss {
        profile: Profile::Local,
        survivors: 4,
        is_linked: true,
        drop_one_in: 0,
        gone_for: SECOND,
        apart: SECOND,
        seed: 0,
    };
    for (gone_for, apart) in returns() {
        for is_linked in [false, true] {
            assert_one_root(Loss { is_linked, gone_for, apart, ..loss });
        }
        assert_one_root(Loss { drop_one_in: 5, gone_for, apart, ..loss });
        assert_one_root(Loss { survivors: 1, gone_for, apart, ..loss });
        assert_one_root(Loss { profile: Profile::Lan, gone_for, apart, ..loss });
    }
    // One member alone, where one packet in five is lost, may miss them: seldom.
    let is_missed = |(gone_for, apart): &(Duration, Duration)| {
        let mut net = blank_seeds(Loss { survivors: 1, drop_one_in: 5, gone_for: *gone_for, apart: *apart, ..loss });
        net.run(SECOND * 5);
        roots(&net).len() > 1
    };
    let missed: Vec<_> = returns().filter(is_missed).collect();
    assert!(missed.len() <= 1, "{missed:?}");
    for gone_for in [ms(0), ms(1_500), SECOND * 10] {
        assert_one_root(Loss { survivors: 30, gone_for, apart: ms(50), ..loss });
    }
}

#[test]
fn after_the_seeds_lost_their_disks_an_operator_founds_the_electorate_anew_at_any_node() {
    for gone_for in [ms(0), SECOND * 10] {
        for (node, voters) in [(7, ["n1", "n2"]), (4, ["n5", "n6"]), (4, ["n0", "n1"])] {
            let loss = Loss {
                profile: Profile::Local,
                survivors: 4,
                is_linked: true,
                drop_one_in: 0,
                gone_for,
                apart: ms(50),
                seed: 1,
            };
            let mut net = assert_one_root(loss);
            let term = net.nodes[5].core.leadership().term;
            net.command(node, Command::FoundAnew { ticket: 1, voters: voters.map(id).into() });
            run_with_one_leader(&mut net, SECOND * 30);
            assert!(matches!(net.nodes[node].replies[..], [Reply::Electorate(_)]), "{:?}", net.nodes[node].replies);
            assert_led_on(&net, term);
        }
    }
}

#[test]
fn an_electorate_that_was_formed_unseen_beside_another_ends_when_its_voters_start_blank_once_more() {
    let mut net = cluster(7, 3);
    for node in 0..3 {
        net.kill(node);
        net.disks.remove(&format!("n{node}"));
    }
    let cut = |net: &mut Net, is_cut: bool| {
        for (blank, other) in (7..10).flat_map(|blank| (3..7).map(move |other| (blank, other))) {
            net.cut(blank, other, is_cut);
        }
    };
    cut(&mut net, true);
    let blank: Vec<usize> = (0..3).map(|node| net.add(&format!("n{node}"), node, &[0, 1, 2])).collect();
    net.run(SECOND * 20);
    cut(&mut net, false);
    net.run(SECOND * 20);
    assert_eq!(roots(&net).len(), 2, "nobody could know");
    for (voter, node) in blank.into_iter().enumerate() {
        net.kill(node);
        net.disks.remove(&format!("n{voter}"));
    }
    net.run(SECOND);
    for node in 0..3 {
        net.add(&format!("n{node}"), node, &[0, 1, 2]);
    }
    net.run(SECOND * 40);
    assert!(roots(&net).len() == 1 && claims(&net).is_empty(), "{:?} {:?}", roots(&net), claims(&net));
    net.command(4, Command::FoundAnew { ticket: 1, voters: vec![id("n0"), id("n1")] });
    run_with_one_leader(&mut net, SECOND * 20);
    leader(&net);
}

#[test]
fn voters_that_are_missing_are_looked_for_at_a_pace_that_all_members_share() {
    for members in [1, 4, 20] {
        let mut net = cluster(3 + members, 3);
        (0..3).for_each(|node| net.kill(node));
        net.run(SECOND * 10);
        net.sent = Some(Vec::new());
        net.run(SECOND * 10);
        let voters: Vec<_> = (0..3).map(address).collect();
        let sent = net.sent.take().unwrap_or_default();
        let asked = sent.iter().filter(|(_, to, _)| voters.contains(to)).count();
        let most = 3 * 10 * MISSING_VOTER_QUESTIONS as usize;
        // Lost members are looked for once in a retry interval besides, and asked for by a little more.
        let others = members * 3 * 10 * 3;
        assert!(asked > most / 2 && asked < most * 5 / 4 + others, "{members}: {asked}, {most} and {others}");
    }
}
