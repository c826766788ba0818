//! Two recoveries that were begun apart, and what becomes of them when they meet.

use super::electing::{SECOND, leader};
use super::net::{Net, id, ms};
use headcount_core::election::{Alarm, Term};
use headcount_core::limits::OTHER_ELECTORATE_MEMORY;
use headcount_core::{Command, Notice, Profile};

/// A cluster of five, of which n1, with n3, and n2, with n4, have recovered apart.
struct Apart {
    net: Net,
    /// The two that recovered, which lead, with the term of each.
    leaders: [(usize, Term); 2],
    sides: [[usize; 2]; 2],
}

impl Apart {
    /// Cuts the two sides apart, or heals the cut.
    fn cut(&mut self, is_cut: bool) {
        for (a, b) in self.sides[0].iter().flat_map(|a| self.sides[1].iter().map(move |b| (*a, *b))) {
            self.net.cut(a, b, is_cut);
        }
    }

    /// Returns them with voters that have been there for some seconds, after as many seconds apart.
    fn after(profile: Profile, seed: u64, apart: u32) -> Self {
        let mut net = Net::new(profile);
        net.shuffle_losses(seed);
        net.lease = profile.lease_timing();
        net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
        // Whoever is a seed of the other is known to it from the beginning.
        let seeds: &[usize] = if seed.is_multiple_of(2) { &[0] } else { &[0, 1, 3] };
        for i in 0..5 {
            net.add(&format!("n{i}"), i, seeds);
        }
        net.run(SECOND * 70);
        let mut again = [0; 2];
        for (place, voter) in again.iter_mut().zip([1, 2]) {
            net.kill(voter);
            *place = net.add(&format!("n{voter}"), voter, seeds);
            net.run(ms(1_500));
        }
        let is_settled = |net: &Net| net.running().all(|node| node.core.leadership().leader.is_some());
        net.run_until(SECOND * 90, "a leader after the restarts", is_settled);
        net.kill(0);
        let mut it = Self { net, leaders: again.map(|node| (node, Term(0))), sides: [[again[0], 3], [again[1], 4]] };
        it.cut(true);
        it.net.run(it.net.lease.lease_duration * 3 / 2 + SECOND);
        for (node, _) in it.leaders {
            it.net.command(node, Command::Recover { ticket: 1, voters: Vec::new() });
        }
        let both = it.leaders.map(|(node, _)| node);
        let lead = |net: &Net| both.iter().all(|node| net.nodes[*node].core.leadership().is_me);
        it.net.run_until(SECOND * 90, "both lead", lead);
        it.net.run(SECOND * apart);
        it.leaders = both.map(|node| (node, it.net.nodes[node].core.leadership().term));
        it
    }

    /// Heals the cut, and runs until the first packet gets across.
    fn meet(&mut self) {
        self.cut(false);
        self.net.sent = Some(Vec::new());
        let addresses = self.sides.map(|side| side.map(|node| self.net.nodes[node].address));
        let crosses = |net: &Net| {
            let [one, other] = &addresses;
            let mut sent = net.sent.iter().flatten();
            sent.any(|(from, to, _)| {
                one.contains(from) && other.contains(to) || other.contains(from) && one.contains(to)
            })
        };
        self.net.run_until(SECOND * 60, "a packet gets across", crosses);
        self.net.sent = None;
        self.net.run(self.net.latency);
    }
}

#[test]
fn two_recoveries_by_voters_that_came_a_moment_ago_are_one_again_two_gossip_intervals_after_the_first_packet() {
    let worlds = (0..6).map(|seed| (Profile::Local, seed)).chain((6..12).map(|seed| (Profile::Default, seed)));
    for (profile, seed) in worlds {
        let mut apart = Apart::after(profile, seed, seed as u32 % 6);
        let later = apart.leaders.into_iter().max_by_key(|(_, term)| *term).expect("two");
        let stepped_down = apart.leaders.into_iter().min_by_key(|(_, term)| *term).expect("two").0;
        let before: Vec<usize> = apart.net.nodes.iter().map(|node| node.notices.len()).collect();
        let own = apart.net.nodes[stepped_down].core.election().expect("takes part").lineage();
        apart.meet();
        let met = apart.net.now;
        apart.net.run(apart.net.settings.gossip_interval * 2);
        let told = |node: usize| apart.net.nodes[node].core.leadership();
        for node in apart.sides.concat() {
            let now = (told(node).leader, told(node).term, told(node).is_me);
            let wanted = (Some(apart.net.nodes[later.0].core.me().id.clone()), later.1, node == later.0);
            assert_eq!(now, wanted, "{profile:?} seed {seed}: n{node}, met at {met:?}: {}", apart.net.describe());
        }
        let is_said = |notice: &Notice| matches!(notice, Notice::Election(Alarm::OtherElectorate { .. }));
        let says = |node: usize| apart.net.nodes[node].notices[before[node]..].iter().any(is_said);
        assert!(says(stepped_down), "{profile:?} seed {seed}: it gave way without a word");
        // And it stays so.
        apart.net.run(OTHER_ELECTORATE_MEMORY);
        assert_eq!(leader(&apart.net), later, "{profile:?} seed {seed}");
        let is_said = |notice: &Notice| matches!(notice, Notice::Election(Alarm::ElectorateEnded { .. }));
        let (name, notices) = (&apart.net.nodes[stepped_down].core.me().id, &apart.net.nodes[stepped_down].notices);
        let kept = apart.net.disks[name.as_str()].ended.as_ref().map(|ended| ended.electorate.lineage);
        assert!(notices.iter().any(is_said) && kept == own, "{profile:?} seed {seed}: {kept:?}, {own:?} has ended");
        for node in apart.sides.concat() {
            assert_eq!(apart.net.nodes[node].core.other_electorate(), None, "{profile:?} seed {seed}: n{node}");
        }
    }
}

#[test]
fn a_leader_gives_way_also_to_one_that_it_does_not_reach_if_members_reach_both() {
    let mut apart = Apart::after(Profile::Local, 3, 2);
    let [lower, higher] = {
        let mut leaders = apart.leaders;
        leaders.sort_unstable_by_key(|(_, term)| *term);
        leaders.map(|(node, _)| node)
    };
    apart.cut(false);
    apart.net.cut(lower, higher, true);
    apart.net.run(SECOND * 10);
    assert_eq!(leader(&apart.net).0, higher);
    apart.net.run(OTHER_ELECTORATE_MEMORY);
    assert_eq!(apart.net.nodes[lower].core.other_electorate(), None);
}
