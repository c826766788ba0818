//! Newcomers that die soon after they came, while members of their cluster invent others: their sponsors know at once.

use std::time::Duration;

use super::liars::{Liar, update};
use super::net::{Net, Tcp, ms};
use crate::core::limits::{CROWD, MAX_NEWBORN_WATCH, MAX_NEWBORNS, NEWBORN_WATCH, SETTLE};
use crate::core::member::tests::record;
use crate::core::member::{ChangeKind, Run, Status};
use crate::core::settings::Profile;

const SECOND: Duration = Duration::from_secs(1);
/// The members that have been there for long, those that invent others among them.
const OLD: usize = 6;
/// The number of words about invented members in each 5 ms.
const PACE: u64 = 80;

/// Members that do not exist, told of by ones that do, again and again, with ever higher incarnations: they live on.
struct Flood {
    liars: Vec<Liar>,
    /// The number of invented members.
    most: u64,
    said: u64,
}

impl Flood {
    /// Has the liars name so many members to everybody.
    fn goes_on(&mut self, net: &mut Net, count: u64) {
        let timing = net.settings.timing().expect("good settings");
        let until = self.said + count;
        while self.said < until {
            let nth = (self.said / 14) as usize % self.liars.len();
            let some = (self.said..self.said + 14).map(|said| {
                let (named, incarnation) = (said % self.most, 1_000_000 + said / self.most);
                let mut record = record(&format!("z{named:06}"), incarnation, Status::Up);
                (record.run, record.timing) = (Run(0xe_0000 + named), timing);
                record.address = std::net::SocketAddr::from(([127, 9, (named / 250) as u8, (named % 250) as u8], 7117));
                update(record)
            });
            let some: Vec<_> = some.collect();
            self.said += 14;
            for to in 0..OLD - self.liars.len() {
                self.liars[nth].says(net, to, &some);
            }
        }
    }

    /// Lets time pass; the liars name so many members in each 5 ms.
    fn lasts(&mut self, net: &mut Net, duration: Duration, count: u64) {
        for _ in 0..duration.as_millis() / 5 {
            self.goes_on(net, count);
            net.run(ms(5));
        }
    }
}

/// Returns a cluster of members of which some invent others from now on.
fn with_liars(profile: Profile, liars: usize, most: u64) -> (Net, Flood) {
    let mut net = Net::linked(profile, OLD);
    net.run(SETTLE + net.settings.down_timeout);
    (net, Flood { liars: (OLD - liars..OLD).map(Liar::new).collect(), most, said: 0 })
}

fn neighbours(net: &Net, node: usize) -> Vec<String> {
    let core = &net.nodes[node].core;
    core.neighbours().map(|slot| core.view.record(slot).id.to_string()).collect()
}

/// Somebody on the way refuses connections for a newborn, and its answers to its sponsor are lost for a while.
#[test]
fn a_living_newborn_whose_port_seems_to_refuse_is_dead_to_nobody() {
    for nth in 0..4 {
        let (mut net, mut flood) = with_liars(Profile::Local, 2, 12_000);
        flood.lasts(&mut net, SECOND * 2, PACE);
        let newcomer = net.add("late", 30, &[0]);
        flood.lasts(&mut net, ms(1_000 + 150 * nth), PACE);
        let core = &net.nodes[0].core;
        let slot = core.view.slot_of("late").expect("it came");
        assert!(core.is_newborn_of_mine(slot) && net.nodes[newcomer].core.is_up());
        let probed = core.counters().suspicions_raised;
        net.block_datagrams(newcomer, 0, true);
        net.set_tcp(Tcp::Rejected);
        flood.lasts(&mut net, ms(300), PACE);
        net.block_datagrams(newcomer, 0, false);
        net.set_tcp(Tcp::Open);
        flood.lasts(&mut net, SECOND * 2, PACE);
        let raised = net.nodes[0].core.counters().suspicions_raised - probed;
        for node in 0..OLD {
            let is_dead = |kind: &ChangeKind| matches!(kind, ChangeKind::DetectedDown(_));
            let dead = net.reported(node, "late").into_iter().any(|kind| is_dead(&kind));
            assert!(!dead, "at n{node}, round {nth}: {raised} suspicions");
        }
    }
}

#[test]
fn a_sponsor_observes_so_many_newborns_while_there_is_a_crowd_and_for_so_long() {
    let (mut net, mut flood) = with_liars(Profile::Default, 1, CROWD as u64 + 100);
    // More than observe each other, and no crowd.
    for nth in 0..20 {
        net.add(&format!("m{nth:02}"), 100 + nth, &[0]);
        net.run(ms(100));
    }
    net.run(SECOND * 2);
    let beside = |net: &Net| net.nodes[0].core.newborns().count();
    assert_eq!(beside(&net), 0);
    flood.goes_on(&mut net, CROWD as u64 + 100);
    net.run(ms(50));
    assert_eq!(beside(&net), 20, "those that came a moment ago");
    for nth in 0..MAX_NEWBORNS {
        net.add(&format!("o{nth:02}"), 200 + nth, &[0]);
        net.run(ms(30));
    }
    net.run(ms(500));
    assert_eq!(beside(&net), MAX_NEWBORNS);
    let known = neighbours(&net, 0);
    assert!((0..MAX_NEWBORNS).all(|nth| known.contains(&format!("o{nth:02}"))), "the last ones: {known:?}");
    // Nobody of the crowd answers, so that neighbours are doubted on and on.
    let mut watched = Duration::ZERO;
    while beside(&net) > 0 {
        flood.lasts(&mut net, SECOND, 2);
        watched += SECOND;
        assert!(watched <= MAX_NEWBORN_WATCH + SECOND * 10, "{} of them", beside(&net));
    }
    assert!(watched >= NEWBORN_WATCH, "{watched:?}");
}
