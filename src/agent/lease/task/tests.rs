//! The task by hand: a test says when it has a turn, its database is modelled, and what it tells others is looked at.

use std::collections::BTreeMap;

use tokio::runtime::Handle;
use tracing::dispatcher;

use super::super::store_worker::{self, Ends};
use super::super::terms;
use super::talk::{MOST_LOOK_SPREAD, TOLD_AGAIN_AFTER};
use super::*;
use crate::agent::bus::Bus;
use crate::agent::directory::Directory;
use crate::agent::directory::tests::{name, record};
use crate::agent::lease_state::{Heard, Hold};
use crate::core::{Change, LeadershipState};
use crate::journal::Journal;
use crate::journal::tests::Kept;
use crate::lease::{ContenderAlarm, ContenderInit, Outcome, Seen};
use crate::sim::lease::Database;

/// A lease that nothing ends within a test, however busy the machine is.
const LEASE: Duration = Duration::from_secs(600);
/// The longest wait for what another task or thread does.
const LONG: Duration = Duration::from_secs(30);

struct Bench {
    task: Task,
    ends: Ends,
    database: Database,
    told: mpsc::Receiver<Request>,
    _driver: mpsc::Sender<Request>,
    lines: Kept,
}

impl Bench {
    /// A task of a node that is no member yet, and knows these terms.
    async fn joining(terms: BTreeMap<LeaseName, u64>) -> Self {
        let (clock, lines, lease) = (Clock::start(), Kept::default(), LeaseName::default());
        let journal = dispatcher::with_default(&lines.dispatch(), || Journal::start(&name("me")));
        let journal = journal.expect("a thread");
        let nowhere = terms::open(None, "c", &journal).await.expect("nothing is read");
        let bus = Bus::new(Directory::new(name("me"), clock));
        let shared = Arc::new(Shared::new(bus, clock, Arc::default(), Arc::default(), Arc::default(), journal));
        let timing = ContenderTiming::of_lease(LEASE);
        let (node, leases) = (name("me"), vec![lease.clone()]);
        let floors = BTreeMap::new();
        let init = ContenderInit { node, timing, leases, terms: terms.clone(), floors, seed: [7; 32] };
        let (leases, receivers) = Leases::open(Arc::clone(&shared.publisher), clock, &[lease], terms);
        let (worker, ends) = store_worker::open();
        let (driver, told) = mpsc::channel(64);
        let task = Task::new(Parts {
            contender: Contender::new(init, clock.now()),
            clock,
            shared,
            leases: Arc::new(leases),
            receivers,
            worker,
            driver: driver.downgrade(),
            terms: nowhere,
            node: name("me"),
            rpc_address: None,
            timing,
        });
        Self { task, ends, database: Database::new(), told, _driver: driver, lines }
    }

    /// Returns the task of a member, which has asked its database once.
    async fn member(terms: BTreeMap<LeaseName, u64>, database: Database) -> Self {
        let mut bench = Self::joining(terms).await;
        bench.database = database;
        let change = Change::between(None, &record("me", 1, 1, Status::Up), None).next().expect("it came");
        bench.task.parts.shared.publish(&change, SystemTime::now());
        // A newcomer among others would listen first.
        bench.task.parts.shared.note_beginning(true);
        bench.task.look_at_status();
        bench.turns();
        bench
    }

    /// A member that leads in the first term.
    async fn leader() -> Self {
        let mut bench = Self::member(BTreeMap::new(), Database::new()).await;
        assert!(bench.leads(1));
        bench.words();
        bench
    }

    /// A member that sees another node lead in the first term.
    async fn follower() -> Self {
        let mut bench = Self::member(BTreeMap::new(), led_by_another()).await;
        bench.words();
        bench
    }

    /// Has a turn, and one more for each round that is answered.
    fn turns(&mut self) {
        self.task.turn();
        while let Some(round) = self.carried() {
            self.answer(&round);
            self.task.turn();
        }
    }

    /// The round that the worker was given.
    fn carried(&mut self) -> Option<Round> {
        self.ends.rounds.try_recv().ok()
    }

    fn answer(&mut self, round: &Round) {
        let answer = self.database.execute(self.task.parts.clock.elapsed(), round).expect("it takes writes");
        self.task.brought(Brought::Round(Ok(answer)));
    }

    /// Returns the words that were told to other agents since the last call.
    fn words(&mut self) -> Vec<LeaseUpdate> {
        let told = std::iter::from_fn(|| self.told.try_recv().ok());
        told.filter_map(|request| if let Request::TellLease(word) = request { Some(word) } else { None }).collect()
    }

    /// Takes a word of another node.
    fn hear(&mut self, kind: u8, term: u64, is_believed: bool) {
        let (lease, node) = (name(LeaseName::DEFAULT), name("other"));
        let word = LeaseUpdate { lease, node, term, kind, nonce: 0 };
        self.task.hear(&Heard::Word { word, is_believed });
    }

    fn claim(&self) -> Claim {
        self.task.claim(&LeaseName::default()).cloned().expect("it is contended for")
    }

    fn leads(&self, term: u64) -> bool {
        let claim = self.claim();
        (claim.is_me, claim.term) == (true, term)
    }

    /// Returns true if the database is asked within this time.
    fn asks_within(&self, time: Duration) -> bool {
        let now = self.task.parts.clock.now();
        self.task.parts.contender.next_deadline().is_some_and(|at| at <= now + time)
    }

    /// Does what handles and the end of led work have asked for.
    async fn asked(&mut self) {
        let asked = tokio::time::timeout(LONG, self.task.parts.receivers.asks.recv()).await;
        self.task.ask(asked.expect("in time").expect("the channel is open"));
    }

    /// Leads by a lease that one handle keeps.
    async fn held(&mut self, lease: &LeaseName) -> Hold {
        let (hold, _) = self.task.parts.leases.hold(&Handle::current(), lease).expect("room");
        self.asked().await;
        self.turns();
        assert!(self.task.claim(lease).is_some_and(|claim| claim.is_me));
        hold
    }

    async fn lines(&self, about: &str) -> usize {
        self.task.parts.shared.journal.flush(LONG).await;
        self.lines.all().iter().filter(|line| line.contains(about)).count()
    }
}

/// A database by which another node leads in the first term.
fn led_by_another() -> Database {
    let mut database = Database::new();
    let drawn = crate::lease::Token(7);
    let request = StepRequest::Acquire { drawn, above: 0, expired: None, missing: None };
    let steps = vec![Step { lease: LeaseName::default(), request }];
    let round = Round { node: name("other"), rpc_address: None, lease_duration: LEASE, steps };
    database.execute(Duration::ZERO, &round).expect("it takes writes");
    database
}

fn known(term: u64) -> BTreeMap<LeaseName, u64> {
    BTreeMap::from([(LeaseName::default(), term)])
}

#[tokio::test]
async fn a_leader_resigns_on_the_word_of_an_old_member_about_its_own_term_and_on_no_other() {
    let mut bench = Bench::leader().await;
    bench.hear(LeaseUpdate::RESIGN, 1, false);
    assert!(bench.leads(1), "a newcomer says so");
    for term in [0, 2, u64::MAX] {
        bench.hear(LeaseUpdate::RESIGN, term, true);
        assert!(bench.leads(1), "of term {term}");
    }
    assert_eq!(bench.lines("asked to give").await, 0);
    bench.hear(LeaseUpdate::RESIGN, 1, true);
    assert!(!bench.claim().is_me);
    assert_eq!(bench.lines("asked to give the lease default up").await, 1);
}

#[tokio::test]
async fn a_newcomer_is_not_believed_that_anybody_leads_or_that_a_term_beyond_the_known_one_was_given_up() {
    let mut bench = Bench::leader().await;
    for (kind, term) in
        [(LeaseUpdate::LED, 1), (LeaseUpdate::LED, 9), (LeaseUpdate::KNOWN, 9), (LeaseUpdate::RELEASED, 9)]
    {
        bench.hear(kind, term, false);
        assert!(bench.leads(1), "kind {kind} of term {term}");
    }
    // One that has been here for long is.
    bench.hear(LeaseUpdate::LED, 9, true);
    assert_eq!((bench.claim().is_me, bench.claim().term), (false, 9));
}

#[tokio::test]
async fn a_newcomer_is_believed_that_the_known_term_was_given_up_and_the_database_is_asked_at_once() {
    let mut bench = Bench::follower().await;
    assert_eq!(bench.claim().leader, Some(name("other")));
    bench.hear(LeaseUpdate::RELEASED, 2, false);
    assert!(!bench.asks_within(MOST_LOOK_SPREAD), "that is not the term that is known");
    bench.hear(LeaseUpdate::RELEASED, 1, false);
    assert!(bench.asks_within(MOST_LOOK_SPREAD));
    assert_eq!(bench.claim().leader, None);
}

#[tokio::test]
async fn who_merely_knows_of_the_leaders_own_term_is_no_rival_of_it_and_who_leads_in_it_is() {
    let mut bench = Bench::leader().await;
    bench.hear(LeaseUpdate::KNOWN, 1, true);
    assert!(bench.leads(1));
    bench.hear(LeaseUpdate::LED, 1, true);
    assert!(!bench.claim().is_me);
    assert_eq!(bench.lines("two databases").await, 1);
}

#[tokio::test]
async fn a_new_leader_that_is_heard_of_is_looked_up_soon() {
    let mut bench = Bench::follower().await;
    bench.hear(LeaseUpdate::LED, 1, true);
    assert!(!bench.asks_within(MOST_LOOK_SPREAD), "it is known");
    bench.hear(LeaseUpdate::LED, 2, true);
    assert!(bench.asks_within(MOST_LOOK_SPREAD));
}

#[tokio::test]
async fn a_leader_below_a_known_term_is_told_of_that_term_with_every_new_row_of_its_own() {
    let mut bench = Bench::member(known(5), led_by_another()).await;
    let words = bench.words();
    assert_eq!(words.iter().map(|word| (word.kind, word.term)).collect::<Vec<_>>(), [(LeaseUpdate::KNOWN, 5)]);
    assert!(words[0].nonce != 0, "words about another row are others");
    // A leader of the known term is left alone.
    let mut bench = Bench::member(known(1), led_by_another()).await;
    assert_eq!(bench.words(), []);
}

#[tokio::test]
async fn who_asks_for_proof_while_a_round_is_under_way_is_answered_by_the_next_one_at_once() {
    let mut bench = Bench::leader().await;
    let (lease, now) = (LeaseName::default(), bench.task.parts.clock.now());
    bench.task.parts.contender.hurry(now, &lease, now);
    bench.task.turn();
    let early = bench.carried().expect("it is due");
    let (answer, mut answered) = oneshot::channel();
    bench.task.ask(Ask::Confirm(lease, answer));
    bench.answer(&early);
    assert!(answered.try_recv().is_err(), "that round began before");
    bench.turns();
    assert!(matches!(answered.try_recv(), Ok(Ok((1, _)))));
}

#[tokio::test]
async fn who_stops_gives_up_after_two_goodbyes_that_the_database_does_not_answer() {
    let mut bench = Bench::leader().await;
    let (answer, _answered) = oneshot::channel();
    bench.task.ask(Ask::Stop(answer));
    // No work is led.
    bench.asked().await;
    for failures in 1..=MAX_FAREWELLS {
        let (lease, now) = (LeaseName::default(), bench.task.parts.clock.now());
        bench.task.parts.contender.hurry(now, &lease, now);
        bench.task.turn();
        let round = bench.carried().expect("it is due");
        assert!(matches!(round.steps[0].request, StepRequest::Release { .. }), "{round:?}");
        assert!(!bench.task.is_over);
        let gone = StoreError::Unreachable { place: "x".into(), reason: "y".into() };
        bench.task.brought(Brought::Round(Err(gone)));
        assert_eq!(bench.task.is_over, failures == MAX_FAREWELLS, "after {failures}");
    }
}

#[tokio::test]
async fn the_same_alarm_or_error_is_told_once_in_a_while_and_anew_when_the_database_was_away() {
    let mut bench = Bench::leader().await;
    let busy = || StoreError::Busy { place: "x".into(), reason: "y".into() };
    let tell = |bench: &mut Bench| {
        for _ in 0..3 {
            bench.task.tell_alarm(&ContenderAlarm::StrangeAnswer);
            bench.task.tell_error(&busy());
        }
    };
    tell(&mut bench);
    assert_eq!((bench.lines("does not fit").await, bench.lines("is busy").await), (1, 1));
    // Another kind is told all the same.
    bench.task.tell_error(&StoreError::Full { place: "x".into(), reason: "y".into() });
    assert_eq!(bench.lines("no room left").await, 1);
    bench.task.tell_alarm(&ContenderAlarm::ReachableAgain);
    tell(&mut bench);
    assert_eq!((bench.lines("does not fit").await, bench.lines("is busy").await), (2, 2), "the old trouble was over");
    tokio::time::pause();
    tokio::time::advance(TOLD_AGAIN_AFTER).await;
    tokio::time::resume();
    tell(&mut bench);
    assert_eq!((bench.lines("does not fit").await, bench.lines("is busy").await), (3, 3));
}

#[tokio::test]
async fn a_try_in_which_another_node_was_faster_is_told_once_and_counted_each_time() {
    let mut bench = Bench::follower().await;
    let drawn = crate::lease::Token(9);
    let acquire = StepRequest::Acquire { drawn, above: 0, expired: None, missing: None };
    let steps = |request| vec![Step { lease: LeaseName::default(), request }];
    let duel = |term, outcome| Seen { outcome, term, holder: None, is_released: true };
    let answer = |bench: &mut Bench, request: &StepRequest, seen| {
        let steps = steps(request.clone());
        let round = Round { node: name("me"), rpc_address: None, lease_duration: LEASE, steps };
        bench.task.flight = Some((round, bench.task.parts.clock.now()));
        bench.task.answered(Ok(Answer { steps: vec![seen] }));
    };
    // Its first round, which had seen no holder yet, was the first such try.
    for term in [1, 2] {
        for _ in 0..3 {
            answer(&mut bench, &acquire, duel(term, Outcome::Held));
            answer(&mut bench, &acquire, duel(term, Outcome::Conflict));
        }
        answer(&mut bench, &StepRequest::Watch, duel(term, Outcome::Watched));
    }
    let told = [bench.lines("another node has it").await, bench.lines("in the same moment").await];
    assert_eq!(told, [2, 2], "once in each term");
    let figures = bench.task.counted().leases[&LeaseName::default()];
    assert_eq!((figures.acquisition_failures, figures.acquisition_conflicts), (7, 6));
}

#[tokio::test]
async fn who_leads_sweeps_and_nobody_else_and_what_went_and_who_led_is_counted() {
    for leads in [true, false] {
        let mut bench = if leads { Bench::leader().await } else { Bench::follower().await };
        bench.task.sweep();
        assert!(bench.ends.requests.try_recv().is_err(), "not yet");
        bench.task.sweep_at = Instant::now();
        bench.task.sweep();
        bench.task.sweep();
        let swept = std::iter::from_fn(|| bench.ends.requests.try_recv().ok()).count();
        assert_eq!(swept, usize::from(leads), "once, by the leader");
        bench.task.brought(Brought::Swept(Ok(3)));
        let counted = bench.task.counted();
        assert_eq!((counted.swept, counted.leases[&LeaseName::default()].leaders_elected), (3, 1));
    }
}

#[tokio::test]
async fn who_is_no_member_yet_asks_for_no_lease() {
    let mut bench = Bench::joining(BTreeMap::new()).await;
    bench.task.look_at_status();
    bench.task.turn();
    let round = bench.carried().expect("its row is written");
    assert_eq!(round.steps[0].request, StepRequest::Watch);
    bench.answer(&round);
    assert_eq!(bench.claim().state, LeadershipState::Vacant);
}

#[tokio::test]
async fn a_lease_whose_last_handle_is_gone_is_released_and_nothing_is_left_of_it() {
    let (mut bench, billing) = (Bench::leader().await, LeaseName::new("billing").expect("a name"));
    let hold = bench.held(&billing).await;
    bench.task.lost_races.insert((billing.clone(), "another node has it"), 1);
    drop(hold);
    bench.asked().await;
    assert!(bench.task.claim(&billing).is_some_and(|claim| !claim.is_me));
    bench.turns();
    assert!(bench.database.holder(&billing).is_some(), "its work has not ended");
    bench.asked().await;
    bench.turns();
    assert_eq!((bench.database.look(&billing), bench.task.claim(&billing)), ((1, None), None));
    assert!(bench.task.parts.leases.publisher(&billing).is_none());
    assert_eq!(bench.task.parts.leases.figures().len(), 1, "the figures of the cluster's lease");
    assert!(bench.task.lost_races.keys().all(|(lease, _)| *lease != billing));
    assert!(bench.leads(1), "which is led on");
}

#[tokio::test]
async fn a_lease_that_is_wanted_again_in_the_moment_in_which_it_is_let_go_is_contended_for() {
    let (mut bench, billing) = (Bench::leader().await, LeaseName::new("billing").expect("a name"));
    drop(bench.held(&billing).await);
    bench.asked().await;
    bench.asked().await;
    bench.task.turn();
    let release = bench.carried().expect("it is due");
    bench.answer(&release);
    // Nobody has told the task of this handle yet.
    let _hold = bench.task.parts.leases.hold(&Handle::current(), &billing).expect("room");
    bench.turns();
    assert!(bench.task.claim(&billing).is_some());
    bench.asked().await;
    let (lease, now) = (billing.clone(), bench.task.parts.clock.now());
    bench.task.parts.contender.hurry(now, &lease, now);
    bench.turns();
    assert!(bench.task.claim(&billing).is_some_and(|claim| claim.is_me && claim.term == 2));
}

#[tokio::test]
async fn the_shown_term_does_not_fall_below_what_is_known_from_before_while_nobody_leads() {
    let bench = Bench::joining(BTreeMap::from([(LeaseName::default(), 9)])).await;
    let lease = LeaseName::default();
    let vacant = Claim {
        lease: lease.clone(),
        state: LeadershipState::Vacant,
        leader: None,
        term: 3,
        is_me: false,
        valid_until: None,
    };
    let shown = || bench.task.parts.leases.publisher(&lease).expect("there").watch().get().term;
    bench.task.publish(vacant.clone());
    assert_eq!(shown(), 9, "voters gave it, and the contender counts its lease alone");
    let led = Claim { state: LeadershipState::Led, leader: Some(name("b")), term: 10, ..vacant };
    bench.task.publish(led);
    assert_eq!(shown(), 10);
}
