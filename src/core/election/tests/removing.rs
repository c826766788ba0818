//! Electorates that change while voters fall silent, die or leave: if enough voters are left, they always have a
//! leader.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, MS, id};
use super::scenarios::{SECOND, led};
use crate::election::flaw::Flaw;
use crate::election::tests::Election;
use crate::election::{ChangeError, LeaseTiming, Unchanged, VoterChange};
use crate::limits::{CHANGE_TIMEOUT, SOUNDING_TIMEOUT};

/// The end of a voter at the worst moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Paused,
    Crashed,
    CutOff,
}

const ENDS: [End; 3] = [End::Paused, End::Crashed, End::CutOff];

fn planted(seed: u64, voters: usize, flaw: Option<Flaw>) -> (Cluster, usize) {
    let (mut cluster, leader) = led(seed, voters);
    cluster.run_for(SECOND);
    for node in &mut cluster.nodes {
        if let Some(flaw) = flaw {
            node.election.as_mut().expect("it runs").plant(flaw);
        }
    }
    (cluster, leader)
}

fn end(cluster: &mut Cluster, node: usize, end: End) {
    match end {
        End::Paused => cluster.nodes[node].paused = true,
        End::Crashed => cluster.crash_when_written(node, 0),
        End::CutOff => {
            for other in (0..cluster.nodes.len()).filter(|other| *other != node) {
                cluster.cut_pair(node, other);
            }
        }
    }
}

fn remove(cluster: &mut Cluster, leader: usize, ticket: u64, node: usize) {
    cluster.with(leader, |election, context| election.remove_voter(context, ticket, &id(node)));
}

fn voters(cluster: &Cluster, node: usize) -> usize {
    cluster.election(node).electorate().expect("it has formed").voters.len()
}

fn proposes(cluster: &Cluster, leader: usize) -> bool {
    let Some(election) = &cluster.nodes[leader].election else { return false };
    election.ballot().accepted.as_ref().is_some_and(|view| view.change.is_some()) && election.is_changing()
}

/// Runs for two leases, after which there must be a leader; returns true if there is one.
fn is_led_within_two_leases(cluster: &mut Cluster) -> bool {
    cluster.run_for(LEASE * 2);
    let is_led = cluster.run_until(SECOND, |p| p.leader().is_some());
    cluster.assert_safe();
    is_led
}

#[test]
fn no_voter_is_removed_on_the_report_of_another_that_has_fallen_silent_since() {
    for (seed, silent) in [0, 1, 20, 100, 300, 700, 1_200, 1_900].into_iter().enumerate() {
        for how in ENDS {
            let (mut cluster, leader) = led(seed as u64, 3);
            cluster.run_for(SECOND);
            let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
            end(&mut cluster, away, how);
            cluster.run_for(Duration::from_millis(silent));
            remove(&mut cluster, leader, 1, other);
            cluster.run_for(SOUNDING_TIMEOUT + CHANGE_TIMEOUT * 2);
            let [(1, Err(error))] = &cluster.answers[..] else { panic!("{:?}", cluster.answers) };
            assert!(matches!(error, ChangeError::NoMajorityLeft { there: 1, voters: 2, needed: 2, .. }), "{error:?}");
            assert!(is_led_within_two_leases(&mut cluster), "{how:?} for {silent} ms");
            assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
            assert_eq!(voters(&cluster, leader), 3);
        }
    }
}

#[test]
fn a_removal_that_too_few_take_is_taken_back_and_its_leader_leads_on() {
    for (seed, how) in (0..10).flat_map(|seed| ENDS.map(|how| (seed, how))) {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
        remove(&mut cluster, leader, 1, other);
        cluster.run_up_to(SECOND, |p| proposes(p, leader));
        assert!(proposes(&cluster, leader), "it was answered before");
        end(&mut cluster, away, how);
        cluster.run_for(CHANGE_TIMEOUT * 2);
        assert_eq!(cluster.answers, [(1, Err(ChangeError::NotCarried))], "seed {seed}, {how:?}");
        assert_eq!((voters(&cluster, leader), voters(&cluster, other)), (3, 3));
        assert!(is_led_within_two_leases(&mut cluster));
        assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1), "nothing was lost meanwhile");
        // Either of them may lead.
        cluster.with(leader, Election::resign);
        assert!(cluster.run_until(SECOND, |p| p.leader() == Some(other)), "seed {seed}, {how:?}");
        // And the voter that was away finds its way back.
        match how {
            End::Paused => cluster.resume(away),
            End::Crashed => cluster.start(away),
            End::CutOff => cluster.cut.clear(),
        }
        cluster.run_for(LEASE * 2);
        let now = cluster.leader().expect("led");
        remove(&mut cluster, now, 2, (now + 1) % 3);
        assert!(cluster.run_until(SECOND, |p| matches!(&p.answers[1..], [(2, Ok(two))] if two.voters.len() == 2)));
        cluster.assert_safe();
    }
}

#[test]
fn a_change_whose_old_electorate_is_lost_meanwhile_stands_if_the_new_one_is_there() {
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 2);
        cluster.run_for(SECOND);
        let other = 1 - leader;
        remove(&mut cluster, leader, 1, other);
        cluster.run_up_to(SECOND, |p| proposes(p, leader));
        end(&mut cluster, other, End::Crashed);
        assert!(!cluster.run_until(LEASE / 2, |p| p.leader().is_none()));
        cluster.run_for(LEASE * 3);
        assert_eq!((cluster.leader(), voters(&cluster, leader)), (Some(leader), 1), "seed {seed}");
        assert_eq!(cluster.answers, [(1, Err(ChangeError::Interrupted))]);
        cluster.start(other);
        cluster.run_for(LEASE * 2);
        assert_eq!(cluster.leader(), Some(leader));
        cluster.assert_safe();
    }
}

#[test]
fn an_addition_that_too_few_take_is_taken_back_and_the_newcomer_learns_it() {
    for seed in 0..20 {
        let (mut cluster, leader) = led(seed, 3);
        let new = cluster.add(Vec::new());
        cluster.start(new);
        cluster.run_for(SECOND);
        cluster.crash((leader + 1) % 3);
        cluster.run_for(LEASE);
        cluster.with(leader, |election, context| election.add_voter(context, 1, id(new)));
        cluster.run_up_to(SECOND * 3, |p| proposes(p, leader));
        assert!(proposes(&cluster, leader), "it has learnt");
        // The messages sent to it may or may not reach its disk.
        cluster.run_for(Duration::from_millis(seed % 4));
        cluster.crash(new);
        cluster.run_for(CHANGE_TIMEOUT * 2);
        let is_taken_back = cluster.answers == [(1, Err(ChangeError::NotCarried))];
        assert_eq!(voters(&cluster, leader), if is_taken_back { 3 } else { 4 }, "{:?}", cluster.answers);
        if is_taken_back {
            assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
            cluster.start(new);
            cluster.run_for(LEASE * 3);
            assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1), "it deposes nobody");
        }
        cluster.assert_safe();
    }
}

/// Adds a voter to three, and loses a leader whose disk alone has the view that takes this back, but for the newcomer that
/// was told of it; returns true if the others, who need the newcomer's vote or that view, have a leader then.
fn outlives_an_addition_taken_back_unheard(seed: u64, flaw: Option<Flaw>) -> bool {
    let (mut cluster, leader) = led(seed, 3);
    let new = cluster.add(Vec::new());
    cluster.start(new);
    if let Some(flaw) = flaw {
        cluster.nodes[new].election.as_mut().expect("it runs").plant(flaw);
    }
    cluster.run_for(SECOND);
    let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.crash(away);
    cluster.run_for(LEASE);
    cluster.with(leader, |election, context| election.add_voter(context, 1, id(new)));
    cluster.run_up_to(SECOND * 3, |p| proposes(p, leader));
    // The change reaches both, and the leader does not hear it.
    cluster.cut.extend([(new, leader), (other, leader)]);
    let have_it = |p: &Cluster| {
        let of =
            |node: usize| p.nodes[node].disk.accepted.as_ref().is_some_and(|view| view.electorate.voters.len() == 4);
        of(new) && of(other)
    };
    assert!(cluster.run_until(LEASE / 4, have_it), "seed {seed}: both have the change");
    // The leader wants to leave and takes it back; the newcomer alone hears of that.
    cluster.cut.insert((leader, other));
    cluster.with(leader, Election::resign);
    cluster.run_for(Duration::from_millis(20));
    assert_eq!(voters(&cluster, leader), 3, "seed {seed}: it is taken back");
    cluster.cut.remove(&(new, leader));
    cluster.with(leader, |election, context| election.inform(context, &id(new)));
    cluster.run_for(Duration::from_millis(20));
    cluster.wipe(leader);
    cluster.cut.clear();
    cluster.start(away);
    let is_led = cluster.run_until(LEASE * 4, |p| p.leader().is_some());
    cluster.assert_safe();
    is_led
}

#[test]
fn a_newcomer_keeps_its_vote_until_it_is_agreed_that_its_addition_is_taken_back() {
    for seed in 0..10 {
        assert!(outlives_an_addition_taken_back_unheard(seed, None), "seed {seed}");
        assert!(!outlives_an_addition_taken_back_unheard(seed, Some(Flaw::LeftOutUnagreed)), "seed {seed}");
    }
}

/// Returns the cases in which a leader that leaves after the command to remove another voter leaves nobody behind that
/// can lead.
fn stuck_when_the_leader_leaves(flaw: Option<Flaw>) -> Vec<(u64, u64)> {
    let mut stuck = Vec::new();
    for (seed, after) in (0..8).flat_map(|seed| (0..24).map(move |after| (seed, after))) {
        let (mut cluster, leader) = planted(seed, 3, flaw);
        remove(&mut cluster, leader, 1, (leader + 2) % 3);
        cluster.run_for(Duration::from_millis(after));
        cluster.with(leader, Election::resign);
        assert!(cluster.run_until(SECOND * 3, |p| !p.election(leader).is_handing_over()));
        let is_done = matches!(&cluster.answers[..], [(1, Ok(_))]);
        cluster.crash(leader);
        let is_led = cluster.run_until(LEASE * 2, |p| p.leader().is_some());
        // One of the two voters left is gone if the removal was done, and nobody can lead; otherwise somebody must.
        if is_led == is_done {
            stuck.push((seed, after));
        }
        cluster.assert_safe();
    }
    stuck
}

#[test]
fn a_leader_that_leaves_takes_back_what_its_successors_could_not_do_without_it() {
    assert_eq!(stuck_when_the_leader_leaves(None), []);
    assert_ne!(stuck_when_the_leader_leaves(Some(Flaw::LeavesAtOnce)), []);
}

/// Returns true if the two voters left of three have a leader, after the third had gone when it was to take a change,
/// and the leader then died.
fn outlives_a_change_that_is_not_taken(flaw: Option<Flaw>) -> bool {
    let (mut cluster, leader) = planted(1, 3, flaw);
    let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
    remove(&mut cluster, leader, 1, other);
    cluster.run_up_to(SECOND, |p| proposes(p, leader));
    end(&mut cluster, away, End::Crashed);
    cluster.run_for(CHANGE_TIMEOUT * 2);
    cluster.crash(leader);
    cluster.start(leader);
    is_led_within_two_leases(&mut cluster)
}

#[test]
fn a_change_that_is_not_taken_leaves_nothing_behind() {
    assert!(outlives_a_change_that_is_not_taken(None));
    assert!(!outlives_a_change_that_is_not_taken(Some(Flaw::TakesNothingBack)));
}

/// Returns true if a claim that is shorter than a change may take stands while a change is in flight that too few take.
fn leads_on_while_a_change_is_not_taken(flaw: Option<Flaw>) -> bool {
    let mut cluster = Cluster::new(1, 3);
    cluster.flaw = flaw;
    for node in &mut cluster.nodes {
        node.timing = LeaseTiming { lease_duration: CHANGE_TIMEOUT / 2, renewal_interval: CHANGE_TIMEOUT / 8 };
    }
    cluster.start_all();
    assert!(cluster.run_until(SECOND * 2, |p| p.leader().is_some()));
    cluster.run_for(SECOND);
    let leader = cluster.leader().expect("led");
    remove(&mut cluster, leader, 1, (leader + 2) % 3);
    cluster.run_up_to(SECOND, |p| proposes(p, leader));
    end(&mut cluster, (leader + 1) % 3, End::CutOff);
    cluster.run_for(CHANGE_TIMEOUT * 2);
    cluster.assert_safe();
    cluster.losses.is_empty()
}

#[test]
fn a_claim_rests_on_the_electorate_in_force_while_a_change_is_in_flight() {
    assert!(leads_on_while_a_change_is_not_taken(None));
    assert!(!leads_on_while_a_change_is_not_taken(Some(Flaw::ClaimNeedsTheNewcomers)));
}

/// Returns true if a removal is proposed to the voters although those that would be left do not answer.
fn is_put_to_the_voters_unheard(flaw: Option<Flaw>) -> bool {
    let (mut cluster, leader) = planted(1, 3, flaw);
    let before = cluster.watch.moments.electorates;
    end(&mut cluster, (leader + 1) % 3, End::Paused);
    remove(&mut cluster, leader, 1, (leader + 2) % 3);
    cluster.run_for(LEASE);
    cluster.watch.moments.electorates > before
}

#[test]
fn answers_from_before_a_change_was_asked_for_do_not_count() {
    assert!(!is_put_to_the_voters_unheard(None));
    assert!(is_put_to_the_voters_unheard(Some(Flaw::OldAnswersCount)));
}

#[test]
fn a_replacement_ends_after_its_first_half_if_too_few_would_be_left() {
    for (seed, voters_before, dead) in (0..6).flat_map(|seed| [(seed, 2, 0), (seed, 4, 1)]) {
        for after in [0, 5, 20, 100, 180, 190, 200, 400] {
            let (mut cluster, leader) = led(seed, voters_before);
            let new = cluster.add(Vec::new());
            cluster.start(new);
            cluster.run_for(SECOND);
            for nth in 0..dead {
                cluster.crash((leader + 2 + nth) % voters_before);
            }
            cluster.run_for(LEASE * 2);
            let old = (leader + 1) % voters_before;
            cluster.with(leader, |election, context| election.replace_voter(context, 1, &id(old), &id(new)));
            let is_added = |p: &Cluster| {
                let added = p.newest_agreed().and_then(|view| view.change.clone());
                matches!(added.as_deref(), Some(VoterChange::Added(_)))
            };
            cluster.run_up_to(SECOND * 3, is_added);
            assert!(is_added(&cluster));
            cluster.run_for(Duration::from_millis(after));
            cluster.crash(new);
            cluster.run_for(SOUNDING_TIMEOUT + CHANGE_TIMEOUT * 2);
            let is_done = match &cluster.answers[..] {
                [(1, Ok(_))] => true,
                [(1, Err(error))] => {
                    assert_eq!(*error, ChangeError::HalfDone { old: id(old), new: id(new) }, "{after}");
                    false
                }
                answers => panic!("{after}: {answers:?}"),
            };
            assert_eq!(voters(&cluster, leader), voters_before + usize::from(!is_done));
            assert_eq!(is_led_within_two_leases(&mut cluster), !is_done, "{voters_before} voters, {after} ms");
            if !is_done {
                assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
                cluster.start(new);
                cluster.run_for(SECOND);
                cluster.with(leader, |election, context| election.replace_voter(context, 2, &id(old), &id(new)));
                assert!(cluster.run_until(SECOND * 2, |p| matches!(&p.answers[1..], [(2, Ok(_))])));
            }
            cluster.assert_safe();
        }
    }
}

#[test]
fn voters_are_asked_no_longer_than_they_may_take() {
    let (mut cluster, leader) = led(5, 3);
    cluster.run_for(SECOND);
    end(&mut cluster, (leader + 1) % 3, End::Paused);
    remove(&mut cluster, leader, 1, (leader + 2) % 3);
    cluster.run_for(SOUNDING_TIMEOUT * 99 / 100);
    assert_eq!(cluster.answers, []);
    cluster.run_for(SOUNDING_TIMEOUT / 50);
    assert_eq!(cluster.answers.len(), 1);
    // The wait lasts as long as the disks take, and no longer.
    let (mut cluster, leader) = led(5, 3);
    cluster.run_for(SECOND);
    let slow = (leader + 1) % 3;
    let most = CHANGE_TIMEOUT.as_nanos() as u64 - 20 * MS;
    cluster.nodes[slow].write_delay = Some((most, most));
    remove(&mut cluster, leader, 1, (leader + 2) % 3);
    cluster.run_for(CHANGE_TIMEOUT + Duration::from_millis(20));
    assert!(matches!(&cluster.answers[..], [(1, Ok(_))]), "{:?}", cluster.answers);
    cluster.assert_safe();
}

#[test]
fn a_leader_that_dies_while_a_removal_is_in_flight_is_succeeded_by_two_of_three_unless_one_of_them_holds_it() {
    let [mut succeeded, mut stuck] = [0; 2];
    for (seed, after) in (0..10).flat_map(|seed| [0, 1, 2, 3, 4, 6, 8].map(|after| (seed, after))) {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        let (third, other) = ((leader + 1) % 3, (leader + 2) % 3);
        remove(&mut cluster, leader, 1, other);
        cluster.run_up_to(SECOND, |p| proposes(p, leader));
        cluster.run_for(Duration::from_millis(after));
        if !cluster.answers.is_empty() {
            continue;
        }
        cluster.crash(leader);
        cluster.run_for(LEASE);
        let holds = cluster.nodes[third].disk.accepted.as_ref().is_some_and(|view| view.electorate.voters.len() == 2);
        let is_led = cluster.run_until(LEASE * 2, |p| p.leader().is_some());
        assert_eq!(is_led, !holds, "seed {seed}, after {after} ms");
        [succeeded, stuck] = [succeeded + u32::from(is_led), stuck + u32::from(!is_led)];
        let after = if holds { 2 } else { 3 };
        cluster.start(leader);
        assert!(cluster.run_until(LEASE * 3, |p| p.leader().is_some()), "it is back");
        cluster.run_for(SECOND);
        let now = cluster.leader().expect("led");
        assert_eq!(voters(&cluster, now), after, "the successor carries what it holds, or nothing");
        cluster.assert_safe();
    }
    assert!(succeeded > 0 && stuck > 0, "{succeeded} {stuck}");
}

#[test]
fn the_only_voter_is_not_removed_and_the_refusal_says_that_it_is_the_only_one() {
    let (mut cluster, leader) = led(3, 1);
    cluster.run_for(SECOND);
    remove(&mut cluster, leader, 1, leader);
    cluster.run_for(SECOND);
    let refused = Err(ChangeError::NoChange { reason: Unchanged::LastVoter });
    assert_eq!(cluster.answers, [(1, refused)]);
    cluster.assert_safe();
}

#[test]
fn what_a_view_in_flight_would_fulfil_is_not_said_to_be_done_or_gone() {
    let unchanged = |reason| Err(ChangeError::NoChange { reason });
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 4);
        let new = cluster.add(Vec::new());
        cluster.start(new);
        cluster.run_for(SECOND);
        let old = (leader + 1) % 4;
        let add = |cluster: &mut Cluster, ticket| {
            cluster.with(leader, |election, context| election.add_voter(context, ticket, id(new)));
        };
        add(&mut cluster, 1);
        cluster.run_up_to(SECOND * 3, |p| proposes(p, leader));
        add(&mut cluster, 2);
        assert_eq!(cluster.answers, [(2, Err(ChangeError::Busy))], "seed {seed}: it may be taken back");
        cluster.run_for(SECOND);
        assert!(matches!(&cluster.answers[1..], [(1, Ok(_))]), "{:?}", cluster.answers);
        add(&mut cluster, 3);
        assert_eq!(cluster.answers.pop(), Some((3, unchanged(Unchanged::VotesAlready))));
        cluster.answers.clear();
        remove(&mut cluster, leader, 4, old);
        cluster.run_up_to(SECOND * 3, |p| voters(p, leader) == 4);
        remove(&mut cluster, leader, 5, old);
        cluster.with(leader, |election, context| election.replace_voter(context, 6, &id(old), &id(9)));
        let busy = [5, 6].map(|ticket| (ticket, Err(ChangeError::Busy)));
        assert_eq!(cluster.answers, busy, "seed {seed}: it may be taken back");
        cluster.run_for(SECOND);
        remove(&mut cluster, leader, 7, old);
        assert_eq!(cluster.answers.pop(), Some((7, Err(ChangeError::NoSuchVoter { id: id(old) }))));
        // Whoever does not lead knows of a view what its leader put to it, and no more.
        let other = (leader + 2) % 4;
        cluster.with(other, |election, context| election.add_voter(context, 8, id(new)));
        assert_eq!(cluster.answers.pop(), Some((8, Err(ChangeError::NotLeader))));
        cluster.assert_safe();
    }
}
