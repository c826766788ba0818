//! Nodes that are nobody's seed, beside nodes that look for a cluster: they keep no cluster from being founded, and make none.

use std::net::SocketAddr;
use std::time::Duration;

use super::hostile::{EVIL_RUN, evil, mail, packet};
use super::net::{Net, address, ms};
use headcount_core::limits::FOUNDING_DELAY;
use headcount_core::wire::{Candidacy, Candidate, Message, Nonce, Refusal, Seeking};
use headcount_core::{Profile, Record, Run, Status, StopReason, Time};

/// The words of an outsider that says that it comes before all others.
const FIRST: Seeking = Seeking { asks_seed: true, candidacy: Some(Candidacy::Listed), first: None };

/// An outsider that a joiner was made to ask.
struct Outsider {
    joiner: usize,
    /// The nonce of the joiner's question.
    nonce: Nonce,
    sequence: u64,
}

impl Outsider {
    /// Has a joiner hear of a candidate that comes before all others, so that it asks that one.
    fn lure(net: &mut Net, joiner: usize) -> Self {
        Self::asks(net, joiner, FIRST).expect("the candidate is asked")
    }

    /// Has an outsider that looks for a cluster, too, ask a joiner; returns it if it is asked in turn.
    fn asks(net: &mut Net, joiner: usize, seeking: Seeking) -> Option<Self> {
        let mut record = evil("outsider", 5, Status::Joining);
        // Before all others.
        record.address = at_its_address();
        let at = record.address;
        let mut cookie = None;
        for sequence in 1..10 {
            let join = Message::Join { nonce: Nonce(5), record: record.clone(), cookie };
            let bytes = packet(EVIL_RUN, sequence, &[Message::Seeking(seeking), join]);
            net.input(joiner, headcount_core::Input::Packet { from: at, bytes: &bytes });
            net.run(ms(5));
            for message in mail(net, at) {
                match message {
                    Message::Join { nonce, .. } => {
                        net.undelivered.clear();
                        return Some(Self { joiner, nonce, sequence: 100 });
                    }
                    Message::Challenge { cookie: given, .. } => cookie = Some(given),
                    _ => {}
                }
            }
        }
        None
    }

    fn says(&mut self, net: &mut Net, from: SocketAddr, run: Run, message: Message) {
        self.says_all(net, from, run, &[Message::Reply, message]);
    }

    fn says_all(&mut self, net: &mut Net, from: SocketAddr, run: Run, messages: &[Message]) {
        self.sequence += 1;
        let bytes = packet(run, self.sequence, messages);
        net.input(self.joiner, headcount_core::Input::Packet { from, bytes: &bytes });
    }

    /// Says that it looks for a cluster, too, and comes before all others.
    fn comes_first(&mut self, net: &mut Net) {
        // A new process each time.
        let (nonce, run) = (self.nonce, Run(0xee_0000 + self.sequence));
        let record = Record { run, address: at_its_address(), ..evil("sponsor", 5, Status::Joining) };
        let not_up = Message::NotUp { nonce, record, joiners: 1 };
        self.says_all(net, at_its_address(), run, &[Message::Reply, Message::Seeking(FIRST), not_up]);
    }
}

/// Returns the nonce of a question to join.
pub(super) fn nonce_of_join(message: &Message) -> Option<Nonce> {
    if let Message::Join { nonce, .. } = message { Some(*nonce) } else { None }
}

/// Returns a joiner that waits for these seeds, and an outsider that it was made to ask.
fn lured(seeds: &[usize]) -> (Net, usize, Outsider) {
    let mut net = Net::new(Profile::Local);
    let joiner = net.add("joiner", 5, seeds);
    net.run(Duration::from_secs(1));
    let outsider = Outsider::lure(&mut net, joiner);
    (net, joiner, outsider)
}

fn at_its_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 0], 99))
}

/// Returns true if a joiner takes itself for one of its own seeds.
fn is_seed(net: &Net, joiner: usize) -> bool {
    net.nodes[joiner].core.is_its_own_seed()
}

#[test]
fn a_node_whose_questions_are_played_back_to_it_asks_its_seed_all_the_same() {
    let mut net = Net::cluster(Profile::Local, 3);
    let alone = net.add("alone", 5, &[5]);
    net.run_until(net.settings.retry_interval * 6, "it founds", |net| net.nodes[alone].core.is_up());
    net.nodes[alone].seeds.push(address(0));
    let (run, seed) = (net.nodes[alone].core.me().run, address(0));
    // Each question to the seed comes back to it, before the seed could answer.
    let mut sequence = 1 << 20;
    let deadline = net.now + net.settings.retry_interval * 3;
    let mut met = 0;
    while net.now < deadline {
        let nonce = net.nodes[alone].core.nonce(seed, net.now);
        sequence += 1;
        let question = packet(run, sequence, &[Message::WhoAreYou { nonce, echo: None }]);
        net.input(alone, headcount_core::Input::Packet { from: seed, bytes: &question });
        met += usize::from(net.nodes[alone].core.sizes().own_addresses > 1);
        net.run(ms(20));
    }
    assert!(met > 3, "it takes the seed for itself");
    assert!(net.all_agree(), "{}", net.describe());
}

#[test]
fn a_listed_seed_founds_in_time_and_asks_no_outsider_that_says_that_it_comes_first() {
    let mut net = Net::new(Profile::Local);
    let seed = net.add("seed", 5, &[5]);
    net.run(FOUNDING_DELAY - ms(100));
    assert!(Outsider::asks(&mut net, seed, FIRST).is_none(), "its own list does not name that one");
    net.run(FOUNDING_DELAY + ms(5) - net.now.since(Time::ORIGIN));
    assert!(net.nodes[seed].core.is_up(), "{}", net.describe());
}

#[test]
fn a_joiner_that_an_outsider_names_to_it_neither_asks_itself_nor_takes_itself_for_a_seed() {
    let mut net = Net::new(Profile::Local);
    let joiner = net.add("joiner", 5, &[60]);
    net.run(Duration::from_secs(1));
    net.sent = Some(Vec::new());
    let first = Some(Candidate { candidacy: Candidacy::Listed, address: address(5) });
    assert!(Outsider::asks(&mut net, joiner, Seeking { asks_seed: true, candidacy: None, first }).is_none());
    net.run(net.settings.retry_interval * 2);
    let sent = net.sent.take().expect("kept");
    assert!(!sent.is_empty() && sent.iter().all(|(_, to, _)| *to != address(5)), "it asks itself");
    assert!(!is_seed(&net, joiner));
}

#[test]
fn an_outsider_makes_no_node_found_a_cluster_beside_the_one_that_refuses_it() {
    let (mut net, joiner, mut outsider) = lured(&[60]);
    net.run(net.settings.retry_interval);
    let of_seed = mail(&net, address(60)).iter().rev().find_map(nonce_of_join).expect("the seed is asked");
    for round in 0..30 {
        outsider.comes_first(&mut net);
        let refused = Message::Refused { nonce: of_seed, refusal: Refusal::OtherCluster };
        outsider.says(&mut net, address(60), Run(0xabc), refused);
        net.run(ms(100));
        assert!(!net.nodes[joiner].core.is_up(), "round {round}");
    }
    let refused = StopReason::Refused { by: address(60), refusal: Refusal::OtherCluster };
    assert_eq!(net.nodes[joiner].stopped, Some(refused));
}

#[test]
fn a_candidate_that_was_only_heard_of_counts_where_it_was_asked_and_nowhere_else() {
    let (mut net, _, mut outsider) = lured(&[60]);
    let elsewhere = SocketAddr::from(([10, 0, 0, 0], 1));
    let record = Record { address: elsewhere, ..evil("outsider", 5, Status::Joining) };
    let not_up = Message::NotUp { nonce: outsider.nonce, record, joiners: 1 };
    outsider.says_all(&mut net, at_its_address(), EVIL_RUN, &[Message::Reply, Message::Seeking(FIRST), not_up]);
    net.run(net.settings.retry_interval * 2);
    let first = |message: Message| if let Message::Seeking(seeking) = message { seeking.first } else { None };
    let named: Vec<_> = mail(&net, address(60)).into_iter().filter_map(first).map(|named| named.address).collect();
    assert!(!named.is_empty() && named.iter().all(|named| *named == at_its_address()), "{named:?}");
}
