//! Outsiders against nodes that look for a cluster: whoever sends datagrams, and is nobody's seed, keeps nobody waiting,
//! refuses nobody, and keeps no cluster from being founded.

use std::net::SocketAddr;
use std::time::Duration;

use super::hostile::{EVIL, EVIL_RUN, evil, mail, packet, send};
use super::net::{Net, address, birth, ms};
use crate::core::Phase;
use crate::core::doors::{CoreInit, Notice, StopReason};
use crate::core::limits::{FOUNDING_DELAY, FOUNDING_RETRIES, MAX_HURRIES};
use crate::core::member::{Record, Run, Status};
use crate::core::settings::Profile;
use crate::core::time::Time;
use crate::core::wire::{Candidacy, Candidate, Message, Nonce, Refusal, Seeking, Update};

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
        record.address = at_home();
        let at = record.address;
        let mut cookie = None;
        for sequence in 1..10 {
            let join = Message::Join { nonce: Nonce(5), record: record.clone(), cookie };
            let bytes = packet(EVIL_RUN, sequence, &[Message::Seeking(seeking), join]);
            net.input(joiner, crate::core::doors::Input::Packet { from: at, bytes: &bytes });
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
        net.input(self.joiner, crate::core::doors::Input::Packet { from, bytes: &bytes });
    }

    /// Says something that an honest sponsor might say, from its own address, or from another one that it forges.
    fn lies(&mut self, net: &mut Net, lie: usize, from: SocketAddr) {
        let nonce = self.nonce;
        // A new process each time.
        let run = Run(0xee_0000 + self.sequence);
        let mut sponsor = evil("sponsor", 5, Status::Up);
        (sponsor.run, sponsor.address) = (run, from);
        let message = match lie {
            0 => Message::Wait { nonce, wait_ms: 5_000 },
            1 => Message::Behind { nonce, incarnation: 1 << 41 },
            2 => Message::Welcome { nonce, sponsor, count: 1_000 },
            3 => Message::Elsewhere { nonce, members: [1, 2, 3].map(|host| Some(address(200 + host))) },
            4 => Message::Refused { nonce, refusal: Refusal::OtherCluster },
            5 => Message::Refused { nonce, refusal: Refusal::NameInUse { holder: from } },
            6 => {
                let refusal = Refusal::Unreachable { advertised: net.nodes[self.joiner].address, heard_from: from };
                Message::Refused { nonce, refusal }
            }
            _ => {
                let record = Record { status: Status::Joining, ..sponsor };
                let not_up = Message::NotUp { nonce, record, joiners: 1 };
                return self.says_all(net, from, run, &[Message::Reply, Message::Seeking(FIRST), not_up]);
            }
        };
        self.says(net, from, run, message);
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

const LIES: usize = 8;

fn at_home() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 0], 99))
}

/// Returns true if a joiner takes itself for one of its own seeds.
fn is_seed(net: &Net, joiner: usize) -> bool {
    matches!(&net.nodes[joiner].core.phase, Phase::Joining(joining) if joining.is_seed)
}

#[test]
fn an_outsider_does_not_stop_a_node_that_waits_for_its_seeds() {
    let (mut net, lonely, mut outsider) = lured(&[60]);
    for round in 0..40 {
        net.run(net.settings.retry_interval / 8);
        for lie in [4, 5] {
            for from in [at_home(), address(60)] {
                outsider.lies(&mut net, lie, from);
                assert_eq!(net.nodes[lonely].stopped, None, "round {round}, {lie} from {from}");
            }
        }
    }
}

#[test]
fn an_outsider_does_not_stop_a_node_that_comes_back() {
    let mut net = Net::new(Profile::Local);
    let init = CoreInit { run: Run(500), remembered: vec![address(60)], ..birth("back", 1, address(5), &net.settings) };
    let back = net.add_birth(init, Vec::new());
    net.run(ms(300));
    // It may be asked as a seed of others; only who has seeds itself is a candidate then.
    let mut outsider = Outsider::lure(&mut net, back);
    for round in 0..40 {
        net.run(net.settings.retry_interval / 8);
        for lie in [4, 5] {
            outsider.lies(&mut net, lie, at_home());
            assert_eq!(net.nodes[back].stopped, None, "round {round}, {lie}");
        }
    }
    assert!(net.nodes[back].core.is_up(), "nobody else is there");
}

#[test]
fn an_outsider_keeps_no_joiner_from_its_seeds() {
    for lie in 0..LIES {
        let (mut net, joiner, mut outsider) = lured(&[0]);
        for _ in 0..100 {
            outsider.lies(&mut net, lie, at_home());
            net.run(ms(100));
        }
        net.add("n0", 0, &[0]);
        let mut waited = ms(0);
        while !(net.nodes[joiner].core.is_up() && net.status(joiner, "n0") == Some(Status::Up)) {
            outsider.lies(&mut net, lie, at_home());
            net.run(ms(20));
            waited += ms(20);
            assert!(waited < net.settings.retry_interval * 3 + ms(500), "lie {lie}: {}", net.describe());
        }
        assert!(net.nodes[joiner].core.me().incarnation < 1 << 40, "lie {lie}");
    }
}

#[test]
fn an_outsider_keeps_no_ring_of_seeds_from_founding() {
    for lie in 0..LIES {
        let mut net = Net::new(Profile::Local);
        let hosts = [3, 1, 4, 0, 2];
        for (place, host) in hosts.iter().enumerate() {
            net.add(&format!("n{host}"), *host, &[hosts[(place + 1) % hosts.len()]]);
        }
        net.run(ms(20));
        let mut outsiders: Vec<_> = (0..hosts.len()).map(|node| Outsider::lure(&mut net, node)).collect();
        let began = net.now;
        // They wait for a candidate that does not answer, and as long again; then the islands merge.
        let most = net.settings.retry_interval * (2 * FOUNDING_RETRIES + 4);
        let is_one = |net: &Net| {
            let all = || net.nodes.iter();
            all().all(|node| {
                node.core.is_up()
                    && hosts.iter().all(|host| {
                        let name = super::net::id(&format!("n{host}"));
                        node.core.record(&name).is_some_and(|record| record.status == Status::Up)
                    })
            })
        };
        while !is_one(&net) {
            for outsider in &mut outsiders {
                outsider.lies(&mut net, lie, at_home());
            }
            net.run(ms(50));
            assert!(net.now.since(began) < most, "lie {lie}: {}", net.describe());
        }
    }
}

#[test]
fn who_reads_a_joiners_question_to_one_address_does_not_answer_for_others() {
    let mut net = Net::new(Profile::Local);
    let joiner = net.add("joiner", 5, &[60, 61]);
    net.run(ms(50));
    let nonces = [60, 61].map(|host| mail(&net, address(host)).iter().find_map(nonce_of_join).expect("asked"));
    assert_ne!(nonces[0], nonces[1]);
    // A forger that got a question of its own gets no further question to the address that it forges.
    let outsider = Outsider::lure(&mut net, joiner);
    net.undelivered.clear();
    let challenge = Message::Challenge { nonce: outsider.nonce, cookie: Nonce(7) };
    send(&mut net, joiner, EVIL, &packet(EVIL_RUN, 200, &[Message::Reply, challenge]));
    net.run(ms(5));
    assert!(mail(&net, address(EVIL)).is_empty(), "a third party is sent nothing");
}

#[test]
fn an_outsider_makes_no_node_take_its_seeds_for_itself() {
    let (mut net, lonely, mut outsider) = lured(&[60, 61]);
    let (nonce, record) = (outsider.nonce, net.nodes[lonely].core.me().as_ref().clone());
    for seed in [60, 61] {
        outsider.sequence += 1;
        let join = Message::Join { nonce, record: record.clone(), cookie: None };
        let bytes = packet(record.run, outsider.sequence, &[join]);
        net.input(lonely, crate::core::doors::Input::Packet { from: address(seed), bytes: &bytes });
    }
    assert!(!is_seed(&net, lonely), "its own list does not name it");
    // It was made to believe that it is a seed of others, and founds in the end; it looks for its seeds all the same.
    net.run(net.settings.retry_interval * (2 * FOUNDING_RETRIES + 4));
    assert!(net.nodes[lonely].core.is_up());
    for seed in [60, 61] {
        net.add(&format!("n{seed}"), seed, &[seed]);
    }
    net.run_until(net.settings.retry_interval * 6, "all are one cluster", Net::all_agree);
    net.assert_all_up();
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
        let nonce = net.nodes[alone].core.prover.nonce(seed, net.now);
        sequence += 1;
        let question = packet(run, sequence, &[Message::WhoAreYou { nonce, echo: None }]);
        net.input(alone, crate::core::doors::Input::Packet { from: seed, bytes: &question });
        met += usize::from(net.nodes[alone].core.reunion.size() > 1);
        net.run(ms(20));
    }
    assert!(met > 3, "it takes the seed for itself");
    assert!(net.all_agree(), "{}", net.describe());
}

#[test]
fn an_outsider_that_is_always_busy_makes_a_joiner_ask_its_seeds_no_more_often_than_others_can() {
    let (mut net, _, mut outsider) = lured(&[60]);
    net.undelivered.clear();
    let (seconds, mut joins) = (5, 0);
    for _ in 0..seconds * 200 {
        outsider.lies(&mut net, 3, at_home());
        net.run(ms(5));
        joins += mail(&net, address(60)).iter().filter_map(nonce_of_join).count();
        // It is asked again, too.
        outsider.nonce = mail(&net, at_home()).iter().rev().find_map(nonce_of_join).unwrap_or(outsider.nonce);
        net.undelivered.clear();
    }
    let most = seconds * (MAX_HURRIES as usize + 1);
    assert!((1..=most).contains(&joins), "{joins} of {most}");
}

#[test]
fn an_outsider_sends_a_joiner_to_no_third_party() {
    let (mut net, _, mut outsider) = lured(&[60]);
    let mut sponsor = evil("sponsor", 5, Status::Up);
    (sponsor.run, sponsor.address) = (EVIL_RUN, address(201));
    let nonce = outsider.nonce;
    outsider.says(&mut net, at_home(), EVIL_RUN, Message::Welcome { nonce, sponsor, count: 2 });
    net.run(Duration::from_secs(3));
    assert!(mail(&net, address(201)).is_empty(), "{:?}", mail(&net, address(201)));
}

#[test]
fn a_view_that_an_outsider_hands_over_is_not_taken_for_that_of_a_sponsor_which_is_not_where_it_says() {
    let (mut net, joiner, mut outsider) = lured(&[0]);
    outsider.lies(&mut net, 2, at_home());
    assert!(net.nodes[joiner].core.transfer.is_some(), "it is handed a view");
    // The seed is heard from elsewhere, so that it is asked first where it is.
    net.seen_at.insert(address(0), address(40));
    net.add("n0", 0, &[0]);
    let is_told = |net: &Net| match &net.nodes[joiner].core.phase {
        Phase::Joining(joining) => joining.is_sponsor_told(),
        _ => true,
    };
    while !is_told(&net) {
        outsider.lies(&mut net, 2, at_home());
        net.run(ms(1));
    }
    assert!(net.nodes[joiner].core.transfer.is_none(), "{:?}", net.nodes[joiner].core.transfer);
}

#[test]
fn a_joiner_goes_where_its_busy_seed_sends_it_while_an_outsider_hands_it_a_view() {
    let (mut net, joiner, mut outsider) = lured(&[60]);
    net.run(net.settings.retry_interval);
    let of_seed = mail(&net, address(60)).iter().rev().find_map(nonce_of_join).expect("the seed is asked");
    outsider.lies(&mut net, 2, at_home());
    assert!(net.nodes[joiner].core.is_pulling());
    let elsewhere = Message::Elsewhere { nonce: of_seed, members: [Some(address(61)), None, None] };
    outsider.says(&mut net, address(60), Run(0xabc), elsewhere);
    net.run(ms(5));
    assert!(mail(&net, address(61)).iter().any(|message| nonce_of_join(message).is_some()), "it is asked");
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
        outsider.lies(&mut net, 7, at_home());
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
    outsider.says_all(&mut net, at_home(), EVIL_RUN, &[Message::Reply, Message::Seeking(FIRST), not_up]);
    net.run(net.settings.retry_interval * 2);
    let first = |message: Message| if let Message::Seeking(seeking) = message { seeking.first } else { None };
    let named: Vec<_> = mail(&net, address(60)).into_iter().filter_map(first).map(|named| named.address).collect();
    assert!(!named.is_empty() && named.iter().all(|named| *named == at_home()), "{named:?}");
}

#[test]
fn an_outsider_that_hands_over_members_out_of_reach_puts_no_question_to_a_seed_off() {
    let mut net = Net::new(Profile::Default);
    let joiner = net.add("joiner", 5, &[60]);
    net.run(Duration::from_secs(1));
    let mut outsider = Outsider::lure(&mut net, joiner);
    let (nonce, run) = (outsider.nonce, Run(0xfa));
    let sponsor = Record { address: at_home(), ..evil("sponsor", 5, Status::Up) };
    // Of the other family.
    let far = Record { run, address: SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 7117)), ..sponsor.clone() };
    let page = [Message::Update(Update { note: None, record: far }), Message::Page { after: None, more: false }];
    let mut hands_over = |net: &mut Net, time: Duration| {
        for _ in 0..time.as_millis() / 100 {
            let sponsor = sponsor.clone();
            outsider.says(net, at_home(), EVIL_RUN, Message::Welcome { nonce, sponsor, count: 2 });
            outsider.says_all(net, at_home(), EVIL_RUN, &page);
            net.run(ms(100));
        }
    };
    let retry = net.settings.retry_interval;
    hands_over(&mut net, retry);
    net.undelivered.clear();
    hands_over(&mut net, retry * 4);
    let is_out_of_reach = |notice: &Notice| matches!(notice, Notice::NotReached { .. });
    assert!(net.nodes[joiner].notices.iter().any(is_out_of_reach), "{}", net.describe());
    let asked = mail(&net, address(60)).iter().filter_map(nonce_of_join).count();
    assert!(asked >= 3, "{asked} questions in four retry intervals");
}
