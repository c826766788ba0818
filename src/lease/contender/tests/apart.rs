//! Two databases within one cluster: their leaders notice each other, and one leads on.

use std::time::Duration;

use super::directed::{LEASE, RENEWAL, SECOND, own_claim, usual};
use super::world::name;
use crate::database::Database;
use crate::flaw::Flaw;
use crate::tests::Contender;
use crate::{ContenderInit, Output};
use crate::{LeaseName, Round, Step, StepRequest, Token};
use headcount_core::Time;

/// Two nodes that gossip with each other and ask two databases, and a node more at the second one.
struct Apart {
    now: Time,
    nodes: Vec<Contender>,
    databases: [Database; 2],
    /// The terms and times at which each began to lead.
    begun: Vec<(usize, u64, Time)>,
    /// True if two led at one time in one term.
    led_together: bool,
    alarms: Vec<(usize, &'static str)>,
}

impl Apart {
    fn new(flaw: Option<Flaw>) -> Self {
        let node = |at: usize| {
            let init = ContenderInit {
                node: name(at),
                timing: usual(),
                leases: vec![LeaseName::default()],
                terms: std::collections::BTreeMap::new(),
                floors: std::collections::BTreeMap::new(),
                seed: [at as u8; 32],
            };
            Contender::planted(init, Time::ORIGIN, flaw)
        };
        Self {
            now: Time::ORIGIN,
            nodes: (0..3).map(node).collect(),
            databases: [Database::new(), Database::new()],
            begun: Vec::new(),
            led_together: false,
            alarms: Vec::new(),
        }
    }

    fn drain(&mut self, at: usize) -> Vec<(u64, bool)> {
        let mut told = Vec::new();
        while let Some(output) = self.nodes[at].poll() {
            match output {
                Output::Tell { term, is_released, .. } => told.push((term, is_released)),
                Output::Elected { term, is_me: true, .. } => self.begun.push((at, term, self.now)),
                Output::AwaitWork { lease, term } => self.nodes[at].work_ended(self.now, &lease, term),
                Output::Alarm(alarm) => self.alarms.push((at, alarm.kind())),
                _ => {}
            }
        }
        told
    }

    /// Lets time pass in steps of 50 ms. Words are heard at once, once `gossips`.
    fn run(&mut self, duration: Duration, gossips: bool) {
        let (end, lease) = (self.now + duration, LeaseName::default());
        while self.now < end {
            for at in 0..self.nodes.len() {
                self.nodes[at].tick(self.now);
                if let Some(round) = self.nodes[at].begin(self.now) {
                    let clock = self.now.since(Time::ORIGIN);
                    let answer = self.databases[at.min(1)].execute(clock, &round).expect("it takes writes");
                    self.nodes[at].answered(self.now, &answer);
                }
                let mut words: Vec<_> = self.drain(at).into_iter().map(|word| (at, word)).collect();
                while let Some((by, (term, is_released))) = words.pop().filter(|_| gossips) {
                    for to in (0..self.nodes.len()).filter(|to| *to != by) {
                        self.nodes[to].heard(self.now, &lease, &name(by), term, is_released);
                        words.extend(self.drain(to).into_iter().map(|word| (to, word)));
                    }
                }
            }
            let terms: Vec<u64> = self.nodes.iter().filter_map(own_claim).map(|(term, _)| term).collect();
            self.led_together |= gossips && terms.len() > 1 && terms[0] == terms[1];
            self.now = self.now + MOMENT;
        }
    }

    fn leaders(&self) -> usize {
        self.nodes.iter().filter(|node| own_claim(node).is_some()).count()
    }
}

const MOMENT: Duration = Duration::from_millis(50);

#[test]
fn of_two_leaders_in_one_term_by_two_databases_none_leads_on_and_one_leads_alone_in_a_higher_term() {
    let mut apart = Apart::new(None);
    // They do not know each other yet.
    apart.run(LEASE, false);
    assert_eq!(apart.leaders(), 2, "each database gives its first term");
    apart.run(RENEWAL + SECOND, true);
    assert_eq!(apart.leaders(), 0, "the next word of either ends both");
    let told = |at| apart.alarms.contains(&(at, "two databases"));
    assert!(told(0) && (told(1) || told(2)), "both say so: {:?}", apart.alarms);
    (apart.led_together, apart.alarms) = (false, Vec::new());
    let before = apart.begun.len();
    apart.run(LEASE * 20, true);
    let later = &apart.begun[before..];
    assert_eq!((later.len(), apart.leaders()), (1, 1), "one leads on, for as long as it lives: {later:?}");
    assert_eq!(later[0].1, 2, "in a term above");
    assert!(!apart.led_together);
}

#[test]
fn planted_leader_that_ignores_another_in_its_own_term_is_caught() {
    let mut apart = Apart::new(Some(Flaw::IgnoresRivals));
    apart.run(LEASE, false);
    apart.run(LEASE * 20, true);
    let is_leaders = |alarm: &&(usize, &str)| alarm.1 == "two databases";
    let said = apart.alarms.iter().filter(is_leaders).count();
    assert!(apart.leaders() == 2 && said == 0, "two lead for ever, and neither says so");
}

#[test]
fn planted_wait_for_the_first_word_alone_is_caught() {
    let mut apart = Apart::new(Some(Flaw::WaitsForFirstWordOnly));
    apart.run(LEASE, false);
    apart.run(RENEWAL + SECOND, true);
    let before = apart.begun.len();
    apart.run(LEASE * 20, true);
    assert!(apart.begun.len() - before > 10, "the databases take turns: {:?}", apart.begun);
}

/// Has two nodes ask their databases in the same moment; the second one hears of the first one before it is answered,
/// and the third one comes much later. Returns the scene after so long, and the terms that were begun.
fn start_at_once(flaw: Option<Flaw>, duration: Duration) -> (Apart, Vec<(usize, u64)>) {
    let mut apart = Apart::new(flaw);
    apart.nodes.truncate(2);
    let rounds: Vec<_> = apart.nodes.iter_mut().map(|node| node.begin(Time::ORIGIN).expect("due")).collect();
    for (at, round) in rounds.iter().enumerate() {
        let answer = apart.databases[at].execute(Duration::ZERO, round).expect("it takes writes");
        apart.nodes[at].answered(Time::ORIGIN, &answer);
        for (term, is_released) in apart.drain(at) {
            apart.nodes[1 - at].heard(Time::ORIGIN, &LeaseName::default(), &name(at), term, is_released);
        }
    }
    apart.run(duration, true);
    let begun = apart.begun.iter().map(|(node, term, _)| (*node, *term)).collect();
    (apart, begun)
}

#[test]
fn whoever_was_given_a_term_that_another_leads_in_waits_for_as_long_as_that_one_is_heard() {
    let (apart, begun) = start_at_once(None, LEASE * 20);
    assert_eq!((begun, apart.leaders()), (vec![(0, 1)], 1), "the first one leads on");
    assert!(apart.alarms.contains(&(1, "another database")), "{:?}", apart.alarms);
}

#[test]
fn planted_trust_in_the_name_that_the_row_shows_is_caught() {
    let (_, begun) = start_at_once(Some(Flaw::TrustsTheRowsName), LEASE * 20);
    assert!(begun.len() > 1, "a healthy leader is deposed: {begun:?}");
}

/// The term in which the other database was led last, and given up.
const OTHER_TERM: u64 = 20;

/// Returns a database in which somebody led in this term and gave it up.
fn led_before(term: u64) -> Database {
    let mut database = Database::new();
    let drawn = Token(u128::MAX);
    let acquire = StepRequest::Acquire { drawn, above: term - 1, expired: None, missing: None };
    for request in [acquire, StepRequest::Release { held: vec![drawn] }] {
        let steps = vec![Step { lease: LeaseName::default(), request }];
        let round = Round { node: name(9), rpc_address: None, lease_duration: LEASE, steps };
        database.execute(Duration::ZERO, &round).expect("it takes writes");
    }
    database
}

/// Has a node come to another database, which was led in this term, while another one leads in term 1; returns the scene
/// twenty leases later, after the leader has died or not.
fn comes_to_another_database(term: u64, flaw: Option<Flaw>) -> Apart {
    let mut apart = Apart::new(flaw);
    apart.databases[1] = led_before(term);
    let mut newcomer = apart.nodes.remove(1);
    apart.nodes.truncate(1);
    apart.run(LEASE + SECOND, true);
    newcomer.arrive(apart.now);
    apart.nodes.push(newcomer);
    apart.run(LEASE * 20, true);
    apart
}

#[test]
fn a_newcomer_at_another_database_waits_for_a_healthy_leader_whatever_the_terms_are_and_leads_once_that_is_silent() {
    for term in [1, OTHER_TERM] {
        let mut apart = comes_to_another_database(term, None);
        assert_eq!(apart.begun.iter().map(|begun| begun.0).collect::<Vec<_>>(), [0], "{term}: {:?}", apart.begun);
        assert!(apart.alarms.contains(&(1, "another database")), "{term}: {:?}", apart.alarms);
        let died = apart.now;
        apart.nodes[0].set_draining(apart.now, true);
        let _ = apart.drain(0);
        apart.run(LEASE * 3, false);
        let (node, led, at) = *apart.begun.last().expect("some");
        assert_eq!((node, led), (1, term + 1), "it leads on");
        assert!(at.since(died) <= LEASE * 2 + SECOND, "{:?}", at.since(died));
    }
}

#[test]
fn planted_deafness_to_leaders_of_lower_terms_is_caught() {
    for flaw in [Flaw::WaitsInKnownTermOnly, Flaw::ListensInFirstTermOnly] {
        let begun = comes_to_another_database(OTHER_TERM, Some(flaw)).begun;
        assert!(begun.iter().any(|begun| begun.0 == 1), "{flaw:?}: a healthy leader is deposed: {begun:?}");
    }
}

/// Has a node ask a copy of the database by which another one leads, as a backup or a promoted replica is one; returns
/// the scene twenty leases later.
fn asks_a_copy(flaw: Option<Flaw>) -> Apart {
    let mut apart = Apart::new(flaw);
    let mut newcomer = apart.nodes.remove(1);
    apart.nodes.truncate(1);
    apart.run(LEASE + SECOND, true);
    apart.databases[1] = apart.databases[0].clone();
    newcomer.arrive(apart.now);
    apart.nodes.push(newcomer);
    apart.run(LEASE * 20, true);
    apart
}

#[test]
fn whoever_asks_a_copy_of_the_database_waits_for_the_leader_that_both_show_for_as_long_as_it_is_heard() {
    let apart = asks_a_copy(None);
    assert_eq!((apart.begun.len(), apart.leaders()), (1, 1), "the first one leads on: {:?}", apart.begun);
    assert!(apart.alarms.contains(&(1, "another database")), "{:?}", apart.alarms);
    let begun = asks_a_copy(Some(Flaw::TrustsAStandingRow)).begun;
    assert!(begun.len() > 1, "planted trust in a row that stands still is caught: {begun:?}");
}
