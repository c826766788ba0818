//! Two sides of a cut, and somebody that reaches both: on each side it takes up members that are held as Down there, at
//! addresses of its own. When the cut has healed, those members live where they were, and both sides are one cluster.

use std::time::Duration;

use rand::SeedableRng;

use super::hostile::{packet, send};
use super::liars::{about, old_cluster, update};
use super::net::{Net, address, ms};
use crate::core::limits::{MAX_HEARSAY_JUMP, SETTLE};
use crate::core::member::{LeaveReason, Record, Run, Status};
use crate::core::packet::Prover;
use crate::core::settings::Profile;
use crate::core::wire::{Message, Nonce, Packet};

/// The first address of those that take up members.
const ELSEWHERE: usize = 150;

/// The end of those that took members up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The impostors go on.
    Stay,
    /// The impostors fall silent.
    Vanish,
    /// The impostors say that they leave, and are silent.
    Leave,
}

/// One way to take members up during a cut.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// Nodes on the two sides.
    sides: (usize, usize),
    /// Of so many members one is taken up.
    one_in: usize,
    /// Names are taken up by other runs.
    is_other_run: bool,
    /// The number of incarnations by which a taken run is ahead of its owner.
    ahead: u64,
    /// The end of those that took members up, when the cut heals.
    end: End,
    /// The impostors claim to be ahead of whatever is said of the runs.
    climb: bool,
    /// Keepsakes that members gave each other before the cut count.
    have_keepsakes: bool,
    /// The time from when the members are taken up to the end of the cut.
    lasting: Duration,
}

const CASE: Case = Case {
    sides: (3, 3),
    one_in: 1,
    is_other_run: false,
    ahead: 5,
    end: End::Stay,
    climb: false,
    have_keepsakes: true,
    lasting: Duration::from_secs(10),
};

/// Somebody that says it is a member which has moved to its address.
struct Impostor {
    host: usize,
    record: Record,
    /// The nodes to which it says so.
    audience: std::ops::Range<usize>,
    sequence: u64,
}

impl Impostor {
    fn say(&mut self, net: &mut Net, to: usize, messages: &[Message]) {
        self.sequence += 1;
        send(net, to, self.host, &packet(self.record.run, self.sequence, messages));
    }

    fn hear(&mut self, net: &mut Net, climbs: bool, from: Run, messages: Vec<Message>) {
        for message in messages {
            let answer = match message {
                Message::Probe { nonce, .. } => Message::Ack { nonce },
                Message::WhoAreYou { nonce, .. } => Message::IAm { nonce, record: self.record.clone() },
                Message::HeldStatus { incarnation, .. } if climbs && incarnation >= self.record.incarnation => {
                    self.record.incarnation = incarnation + 1;
                    continue;
                }
                Message::Update(update)
                    if climbs
                        && update.record.run == self.record.run
                        && update.record.incarnation >= self.record.incarnation =>
                {
                    self.record.incarnation = update.record.incarnation + 1;
                    continue;
                }
                _ => continue,
            };
            // Questions may be anonymous: everybody gets the answer.
            for to in self.audience.clone() {
                if from.is_nobody() || net.nodes[to].core.me().run == from {
                    self.say(net, to, &[Message::Reply, answer.clone()]);
                }
            }
        }
    }
}

struct Impostors {
    all: Vec<Impostor>,
    climb: bool,
}

impl Impostors {
    /// Returns an impostor on the other side for one of so many members on each side.
    fn of(net: &Net, case: Case) -> Self {
        let (left, right) = case.sides;
        let victims = (0..left + right).filter(|node| node.is_multiple_of(case.one_in));
        let impostor = |victim: usize| {
            let host = ELSEWHERE + victim;
            let incarnation = net.nodes[victim].core.me().incarnation + case.ahead;
            let owner = about(net, victim, incarnation, Status::Up);
            let run = if case.is_other_run { Run(0xbad_0000 + victim as u64) } else { owner.run };
            let record = Record { address: address(host), run, ..owner };
            let audience = if victim < left { left..left + right } else { 0..left };
            Impostor { host, record, audience, sequence: 3_000 }
        };
        Self { all: victims.map(impostor).collect(), climb: case.climb }
    }

    /// Lets the impostors go on for so long, or until something holds; returns true if it does.
    fn work(&mut self, net: &mut Net, lasting: Duration, mut holds: impl FnMut(&Net) -> bool) -> bool {
        let until = net.now + lasting;
        while net.now < until && !holds(net) {
            for impostor in &mut self.all {
                for to in impostor.audience.clone() {
                    let probe = Message::Probe { nonce: Nonce(7), doubted: false };
                    impostor.say(net, to, &[probe, Message::WhoAreYou { nonce: Nonce(7), echo: None }]);
                }
            }
            for _ in 0..5 {
                net.run(ms(10));
                for (to, bytes) in std::mem::take(&mut net.undelivered) {
                    let Ok(packet) = Packet::decode(&bytes) else { continue };
                    if let Some(impostor) = self.all.iter_mut().find(|impostor| address(impostor.host) == to) {
                        impostor.hear(net, self.climb, packet.header.run, packet.messages);
                    }
                }
            }
        }
        holds(net)
    }
}

fn cut(net: &mut Net, (left, right): (usize, usize), is_cut: bool) {
    for a in 0..left {
        for b in left..left + right {
            net.cut(a, b, is_cut);
        }
    }
}

/// Returns true if everybody is held where it is.
fn is_whole(net: &Net) -> bool {
    let is_at_home = |other: &super::net::Node, node: &super::net::Node| {
        let held = node.core.record(&other.core.me().id);
        held.is_some_and(|held| held.address == other.address && held.run == other.core.me().run)
    };
    net.all_agree() && net.running().all(|node| net.running().all(|other| is_at_home(other, node)))
}

fn merges(case: Case) {
    let (left, right) = case.sides;
    let mut net = old_cluster(Profile::Local, left + right);
    if !case.have_keepsakes {
        for (seed, node) in (0..).zip(&mut net.nodes) {
            node.core.prover = Prover::new(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
        }
    }
    cut(&mut net, case.sides, true);
    let are_down = |net: &Net| {
        let is_down = |observer, other: usize| net.status(observer, &format!("n{other}")) == Some(Status::Down);
        (0..left).all(|node| (left..left + right).all(|other| is_down(node, other) && is_down(other, node)))
    };
    net.run_until(net.settings.down_timeout + Duration::from_secs(2), "two sides", are_down);
    net.undelivered.clear();
    let mut impostors = Impostors::of(&net, case);
    impostors.work(&mut net, Duration::from_secs(3), |_| false);
    for impostor in &impostors.all {
        for observer in impostor.audience.clone() {
            let held = net.nodes[observer].core.record(&impostor.record.id).expect("listed");
            let expected = (Status::Up, address(impostor.host));
            assert_eq!((held.status, held.address), expected, "{case:?}: taken up: {}", net.describe());
        }
    }
    impostors.work(&mut net, case.lasting, |_| false);
    if case.end == End::Leave {
        for impostor in &mut impostors.all {
            for status in [Status::Leaving, Status::Left(LeaveReason::Graceful)] {
                let last = update(Record { status, ..impostor.record.clone() });
                for to in impostor.audience.clone() {
                    impostor.say(&mut net, to, std::slice::from_ref(&last));
                }
            }
        }
    }
    if case.end != End::Stay {
        impostors.all.clear();
    }
    cut(&mut net, case.sides, false);
    // No longer than without them, once those are gone whose names they are.
    let found_gone = if case.is_other_run { net.settings.down_timeout } else { Duration::ZERO };
    let within = found_gone + net.settings.retry_interval * 2 + Duration::from_secs(2);
    let is_merged = impostors.work(&mut net, within, is_whole);
    assert!(is_merged, "{case:?}: {}", net.describe());
    impostors.work(&mut net, Duration::from_secs(5), |_| false);
    assert!(is_whole(&net), "{case:?}: one cluster, and later, too: {}", net.describe());
}

#[test]
fn sides_whose_members_were_all_taken_up_on_the_other_one_are_one_cluster_again() {
    for sides in [(3, 3), (5, 5), (10, 2)] {
        merges(Case { sides, ..CASE });
    }
}

#[test]
fn half_of_the_members_or_one_may_be_taken_up() {
    for sides in [(3, 3), (5, 5), (10, 2)] {
        for one_in in [2, 12] {
            merges(Case { sides, one_in, ..CASE });
        }
    }
}

#[test]
fn members_that_lost_their_keepsakes_are_back_too() {
    for one_in in [1, 2] {
        for end in [End::Stay, End::Vanish, End::Leave] {
            merges(Case { one_in, end, have_keepsakes: false, ..CASE });
        }
    }
}

#[test]
fn whoever_took_members_up_may_have_left() {
    for sides in [(3, 3), (10, 2)] {
        for have_keepsakes in [true, false] {
            for end in [End::Vanish, End::Leave] {
                merges(Case { sides, end, have_keepsakes, ..CASE });
            }
        }
    }
}

#[test]
fn it_does_not_matter_how_long_the_cut_lasts() {
    for end in [End::Stay, End::Vanish, End::Leave] {
        for lasting in [ms(0), SETTLE * 2 + Duration::from_secs(10)] {
            merges(Case { end, lasting, ..CASE });
        }
    }
}

#[test]
fn whoever_claims_to_be_ahead_of_whatever_is_said_keeps_nobody_apart() {
    for ahead in [5, 1 << 20] {
        merges(Case { climb: true, ahead, ..CASE });
    }
}

#[test]
fn nobody_takes_a_member_up_so_far_ahead_that_its_owner_could_not_say_otherwise() {
    for far in [MAX_HEARSAY_JUMP + 1, 1 << 43, Record::INCARNATION_LIMIT - 2] {
        let mut net = old_cluster(Profile::Local, 6);
        cut(&mut net, (3, 3), true);
        net.run(net.settings.down_timeout + Duration::from_secs(2));
        net.undelivered.clear();
        let mut impostors = Impostors::of(&net, Case { ahead: 5, ..CASE });
        for one in impostors.all.iter_mut().filter(|one| one.record.id != *"n4") {
            one.record.incarnation += far;
        }
        impostors.work(&mut net, Duration::from_secs(3), |_| false);
        assert_eq!(net.status(0, "n3"), Some(Status::Down), "{far}: {}", net.describe());
        assert_eq!(net.status(0, "n4"), Some(Status::Up), "{far}: {}", net.describe());
        // It is there, and says so of itself.
        for one in &mut impostors.all {
            one.record.incarnation = one.record.incarnation.max(far);
            let last = update(one.record.clone());
            for to in one.audience.clone() {
                one.say(&mut net, to, std::slice::from_ref(&last));
            }
        }
        cut(&mut net, (3, 3), false);
        let within = net.settings.retry_interval * 2 + Duration::from_secs(2);
        assert!(impostors.work(&mut net, within, is_whole), "{far}: {}", net.describe());
    }
}

#[test]
fn names_that_other_runs_took_and_left_are_their_owners_again() {
    for sides in [(3, 3), (10, 2)] {
        for (end, one_in) in [(End::Vanish, 1), (End::Leave, 1), (End::Vanish, 2)] {
            merges(Case { sides, end, one_in, is_other_run: true, ..CASE });
        }
    }
}
