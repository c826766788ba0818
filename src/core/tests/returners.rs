//! Voters that were replaced, and come back with empty disks and their old list of voters: everybody's only seeds.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::electing::{SECOND, leader};
use super::forming::{claims, is_outside, roots, seeds_that_vote};
use super::net::{Net, id, ms};
use headcount_core::election::{Alarm, Term};
use headcount_core::limits::OTHER_ELECTORATE_MEMORY;
use headcount_core::{Command, Notice, Profile, Reply};

/// A cluster whose voters, n0–n2, were replaced by n3–n5, and come back blank.
#[derive(Debug, Clone, Copy)]
struct Return {
    profile: Profile,
    is_linked: bool,
    /// They left; else they were killed.
    have_left: bool,
    gone_for: Duration,
    apart: Duration,
    seed: u64,
}

impl Return {
    /// Returns true if nobody who lives on can know that these processes are gone before they are back: no link broke,
    /// and nobody said farewell.
    fn is_unnoticed(self) -> bool {
        !self.is_linked && !self.have_left && self.gone_for < self.profile.settings().suspect_timeout + SECOND
    }
}

/// Returns six nodes whose seeds are n0–n2, which voted until n3–n5 replaced them.
fn replaced(how: Return) -> Net {
    let mut net = seeds_that_vote(how.profile, how.is_linked, how.seed, 6);
    replace_all(&mut net);
    net
}

fn replace_all(net: &mut Net) {
    for i in 0..3 {
        let (old, new) = (id(&format!("n{i}")), id(&format!("n{}", i + 3)));
        net.command(3, Command::ReplaceVoter { ticket: 1, old, new });
        net.run(SECOND * 5);
    }
    let replies = &net.nodes[3].replies;
    assert!(replies.iter().all(|reply| matches!(reply, Reply::Electorate(_))) && replies.len() == 3, "{replies:?}");
    assert!((3..6).contains(&leader(net).0));
}

fn come_back(how: Return) -> Net {
    let mut net = replaced(how);
    for node in 0..3 {
        if how.have_left {
            net.command(node, Command::Leave);
        } else {
            net.kill(node);
        }
    }
    if how.have_left {
        net.run_until(SECOND * 5, "left", |net| net.nodes[..3].iter().all(|node| node.stopped.is_some()));
    }
    net.run(how.gone_for);
    for node in 0..3 {
        net.disks.remove(&format!("n{node}"));
        net.add(&format!("n{node}"), node, &[0, 1, 2]);
        net.run(how.apart);
    }
    net
}

/// Checks that the electorate of n3–n5 stays the only one, and that its members are the only ones who lead; where nobody could
/// know that the others are gone, in the end.
#[track_caller]
fn assert_one_electorate(how: Return) {
    let mut net = come_back(how);
    let mut led: BTreeSet<usize> = BTreeSet::new();
    for _ in 0..100 {
        net.run(ms(200));
        led.extend(claims(&net));
    }
    assert_eq!(roots(&net).len(), 1, "{how:?}: {led:?}");
    let (first, _) = leader(&net);
    assert!((3..6).contains(&first), "{how:?}");
    if how.is_unnoticed() {
        // They may have formed one, which ended.
        return;
    }
    assert!(led.iter().all(|node| (3..6).contains(node)), "{how:?}: {led:?}");
    for node in 6..9 {
        assert!(net.nodes[node].notices.iter().any(is_outside), "{how:?}: {:?}", net.nodes[node].notices);
    }
}

/// Returns true if this node's log says that there is another electorate.
fn is_told(net: &Net, node: usize) -> bool {
    let is_it = |notice: &Notice| matches!(notice, Notice::Election(Alarm::OtherElectorate { .. }));
    net.nodes[node].notices.iter().any(is_it)
}

/// Returns true if this node tells whoever asks it that there is another electorate.
fn tells(net: &Net, node: usize) -> bool {
    net.nodes[node].core.other_electorate().is_some()
}

/// Returns a number from a variable of the environment.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Checks some ways to come back at random; more of them, and others, if the environment says so.
fn check_profile(profile: Profile) {
    let first = number("HEADCOUNT_RETURNS_FIRST_SEED", 0);
    for seed in first..first + number("HEADCOUNT_RETURNS", 12) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let gone_for = ms([0, 30, 130, 400, 1_000, 2_600, 4_000, 11_000, 60_000][rng.random_range(0..9)]);
        let apart = ms([0, 7, 60, 300, 600, 800, 2_000, 9_000, 60_000][rng.random_range(0..9)]);
        let (is_linked, have_left) = (rng.random(), rng.random());
        assert_one_electorate(Return { profile, is_linked, have_left, gone_for, apart, seed });
    }
}

#[test]
fn replaced_voters_that_are_everybodys_only_seeds_and_come_back_blank_form_nothing_of_their_own() {
    check_profile(Profile::Local);
}

#[test]
fn nor_do_they_where_seeds_are_looked_for_every_five_seconds_alone() {
    for profile in [Profile::Lan, Profile::Default] {
        check_profile(profile);
    }
}

#[test]
fn an_electorate_of_voters_that_started_blank_unseen_ends_when_it_meets_the_one_that_is() {
    for profile in [Profile::Local, Profile::Default] {
        let apart = Duration::ZERO;
        let how = Return { profile, is_linked: false, have_left: true, gone_for: SECOND, apart, seed: 0 };
        let mut net = replaced(how);
        let cut = |net: &mut Net, is_cut: bool| {
            for (blank, other) in (6..9).flat_map(|blank| (3..6).map(move |other| (blank, other))) {
                net.cut(blank, other, is_cut);
            }
        };
        cut(&mut net, true);
        for node in 0..3 {
            net.command(node, Command::Leave);
        }
        net.run(SECOND * 5);
        for node in 0..3 {
            net.disks.remove(&format!("n{node}"));
            net.add(&format!("n{node}"), node, &[0, 1, 2]);
        }
        net.run(SECOND * 20);
        assert_eq!((roots(&net).len(), claims(&net).len()), (2, 2), "{profile}: formed unseen");
        assert!((3..9).all(|node| !is_told(&net, node)), "{profile}: nobody can know");
        cut(&mut net, false);
        net.run(SECOND * 20);
        assert_eq!(roots(&net).len(), 1, "{profile}");
        assert!((3..6).contains(&leader(&net).0), "{profile}: those that were there before");
        assert!((6..9).any(|node| is_told(&net, node)), "{profile}");
        assert!((6..9).all(|node| !tells(&net, node)), "{profile}: it is over");
        net.run(OTHER_ELECTORATE_MEMORY);
        assert!((3..6).all(|node| !tells(&net, node)), "{profile}: it is gone");
    }
}

#[test]
fn replaced_voters_whose_old_disks_were_put_back_end_as_soon_as_they_are_in_contact_and_the_others_lead_above_them() {
    for (profile, is_unseen, seed) in [Profile::Local, Profile::Default]
        .into_iter()
        .flat_map(|profile| (0..6).map(move |seed| (profile, seed % 2 == 1, seed)))
    {
        let about = format!("{profile}, seed {seed}, first seen while they lead: {is_unseen}");
        let how = Return { profile, is_linked: true, have_left: false, gone_for: SECOND, apart: ms(0), seed };
        let mut net = seeds_that_vote(profile, true, seed, 6);
        let old_disks = net.disks.clone();
        replace_all(&mut net);
        let cut = |net: &mut Net, is_cut: bool| {
            for (old, other) in (6..9).flat_map(|old| (3..6).map(move |other| (old, other))) {
                net.cut(old, other, is_cut);
            }
        };
        cut(&mut net, is_unseen);
        for node in 0..3 {
            net.kill(node);
        }
        net.run(how.gone_for);
        for node in 0..3 {
            let name = format!("n{node}");
            net.disks.insert(name.clone(), old_disks[&name].clone());
            net.add(&name, node, &[0, 1, 2]);
        }
        net.run(SECOND * 40);
        let old_leader = |net: &Net| claims(net).into_iter().find(|node| *node >= 6);
        let mut old_term = Term(0);
        if is_unseen {
            for _ in 0..3 {
                let led = old_leader(&net).expect("they cannot know");
                net.command(led, Command::Resign { ticket: 2, to: None });
                net.run(SECOND * 20);
            }
            let led = old_leader(&net).expect("they cannot know");
            old_term = net.nodes[led].core.leadership().term;
            assert!(old_term > net.nodes[5].core.leadership().term, "{about}");
            // The old leader may be gone, or start again, before it could say in which term.
            match seed / 2 {
                1 => net.kill(led),
                2 => {
                    net.kill(led);
                    let name = format!("n{}", led - 6);
                    net.add(&name, led - 6, &[0, 1, 2]);
                }
                _ => {}
            }
            cut(&mut net, false);
            net.run(SECOND * 40);
        }
        assert!(claims(&net).iter().all(|node| (3..6).contains(node)), "{about}: {:?}", claims(&net));
        let (first, term) = leader(&net);
        assert!((3..6).contains(&first) && term > old_term, "{about}: n{first} in term {term}");
        assert!(net.running().all(|node| node.core.leadership().term == term), "{about}");
    }
}
