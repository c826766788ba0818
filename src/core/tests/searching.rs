//! The search for a cluster: whom a joiner asks and how often, and whose answers stop it, put it off, or keep it from
//! founding one. Its seeds are played by the test.

use super::hostile::{mail, packet, send};
use super::net::{Net, address, birth, ms};
use super::outsiders::nonce_of_join;
use headcount_core::limits::LAST_JOIN_RETRY;
use headcount_core::testing::record;
use headcount_core::wire::{Message, Nonce, Refusal};
use headcount_core::{CoreInit, Profile, Record, Run, Status};

/// The joiner's host.
const JOINER: usize = 5;
/// Hosts where the test answers.
const ONE: usize = 60;
const OTHER: usize = 61;

struct Search {
    net: Net,
    joiner: usize,
    sequence: u64,
}

impl Search {
    fn new(profile: Profile, seeds: &[usize]) -> Self {
        let mut net = Net::new(profile);
        let joiner = net.add("joiner", JOINER, seeds);
        net.run(ms(5));
        Self { net, joiner, sequence: 0 }
    }

    /// Returns the search of a node that comes back, and remembers these addresses.
    fn remembering(seeds: &[usize], remembered: &[usize]) -> Self {
        let mut net = Net::new(Profile::Local);
        let joiner = comes_back(&mut net, seeds, remembered);
        net.run(ms(5));
        Self { net, joiner, sequence: 0 }
    }

    /// Returns the nonces of the questions to a host so far.
    fn asked(&self, host: usize) -> Vec<Nonce> {
        mail(&self.net, address(host)).iter().filter_map(nonce_of_join).collect()
    }

    /// Has the process at a host answer what it was asked last.
    fn says(&mut self, host: usize, answer: impl FnOnce(Nonce) -> Message) {
        let nonce = *self.asked(host).last().expect("it is asked");
        self.sequence += 1;
        let bytes = packet(run_at(host), self.sequence, &[Message::Reply, answer(nonce)]);
        send(&mut self.net, self.joiner, host, &bytes);
    }

    fn is_up(&self) -> bool {
        self.net.nodes[self.joiner].core.is_up()
    }

    fn assert_goes_on(&self, round: usize) {
        let node = &self.net.nodes[self.joiner];
        assert!(!node.core.is_up() && node.stopped.is_none(), "round {round}: {:?}", node.stopped);
    }
}

fn comes_back(net: &mut Net, seeds: &[usize], remembered: &[usize]) -> usize {
    let at = |hosts: &[usize]| hosts.iter().map(|host| address(*host)).collect::<Vec<_>>();
    let init = CoreInit {
        run: Run(500),
        seeds: seeds.len(),
        remembered: at(remembered),
        ..birth("joiner", 1, address(JOINER), &net.settings)
    };
    net.add_birth(init, at(seeds))
}

fn run_at(host: usize) -> Run {
    Run(0xee_0000 + host as u64)
}

fn record_at(host: usize, status: Status) -> Record {
    Record { run: run_at(host), address: address(host), ..record("other", 5, status) }
}

fn wait(nonce: Nonce) -> Message {
    Message::Wait { nonce, wait_ms: 200 }
}

fn refuse(nonce: Nonce) -> Message {
    Message::Refused { nonce, refusal: Refusal::OtherCluster }
}

fn name_is_taken(nonce: Nonce) -> Message {
    Message::Refused { nonce, refusal: Refusal::NameInUse { holder: address(ONE) } }
}

fn not_up(host: usize) -> impl FnOnce(Nonce) -> Message {
    move |nonce| Message::NotUp { nonce, record: record_at(host, Status::Joining), joiners: 1 }
}

#[test]
fn a_seed_that_a_member_keeps_waiting_founds_no_cluster_whoever_else_is_not_up() {
    for has_rival in [false, true] {
        let mut search = Search::new(Profile::Local, &[JOINER, ONE, OTHER]);
        for round in 0..80 {
            search.says(ONE, wait);
            if has_rival {
                search.says(OTHER, not_up(OTHER));
            }
            search.net.run(ms(100));
            search.assert_goes_on(round);
        }
        let patience = search.net.settings.retry_interval * 5;
        let joiner = search.joiner;
        search.net.run_until(patience, "it is left alone", |net| net.nodes[joiner].core.is_up());
    }
}

#[test]
fn a_joiner_that_one_seed_keeps_waiting_is_not_stopped_by_another_that_refuses() {
    let mut search = Search::new(Profile::Local, &[ONE, OTHER]);
    for round in 0..60 {
        search.says(ONE, wait);
        search.says(OTHER, refuse);
        search.net.run(ms(100));
        search.assert_goes_on(round);
    }
}

#[test]
fn a_joiner_that_has_met_others_of_its_cluster_is_not_stopped_by_one_that_refuses() {
    let mut search = Search::new(Profile::Local, &[ONE, OTHER]);
    search.says(ONE, not_up(ONE));
    for round in 0..60 {
        search.says(OTHER, refuse);
        search.net.run(ms(100));
        search.assert_goes_on(round);
    }
}

#[test]
fn a_node_that_has_seeds_is_stopped_by_none_of_those_that_it_remembers() {
    for refusal in [refuse, name_is_taken] {
        let mut search = Search::remembering(&[ONE], &[OTHER]);
        search.net.run(search.net.settings.retry_interval * 3);
        for round in 0..60 {
            search.says(OTHER, refusal);
            search.net.run(ms(100));
            search.assert_goes_on(round);
        }
    }
}

#[test]
fn a_node_that_was_let_in_meanwhile_is_not_stopped_by_an_earlier_word_that_its_name_is_taken() {
    let mut search = Search::remembering(&[], &[ONE, OTHER]);
    let patience = search.net.settings.retry_interval * 3;
    let rounds = (patience.as_millis() / 100) as usize;
    for round in 0..rounds - 10 {
        search.says(ONE, name_is_taken);
        search.net.run(ms(100));
        search.assert_goes_on(round);
    }
    search.says(OTHER, |nonce| Message::Welcome { nonce, sponsor: record_at(OTHER, Status::Up) });
    // Its pages are lost.
    for round in 0..rounds - 2 {
        search.says(ONE, name_is_taken);
        search.net.run(ms(100));
        search.assert_goes_on(round);
    }
}

#[test]
fn a_node_whose_seeds_are_gone_finds_its_cluster_where_it_remembers_members() {
    let mut net = Net::cluster(Profile::Local, 2);
    comes_back(&mut net, &[ONE], &[OTHER, 1]);
    net.run_until(net.settings.retry_interval * 4, "back in its cluster", Net::all_agree);
}

#[test]
fn a_seed_that_always_sends_a_joiner_elsewhere_keeps_it_from_no_other_seed() {
    let mut search = Search::new(Profile::Local, &[ONE, OTHER]);
    for round in 0..50 {
        let members = [0, 1, 2].map(|nth| Some(address(1_000 + 3 * round + nth)));
        search.says(ONE, |nonce| Message::Elsewhere { nonce, members });
        search.net.run(ms(200));
    }
    let asked = search.asked(OTHER).len();
    assert!(asked >= 8, "{asked} questions in ten retry intervals");
}

#[test]
fn a_joiner_that_was_answered_asks_again_in_less_than_a_second_whatever_is_lost() {
    let mut search = Search::new(Profile::Default, &[ONE]);
    search.says(ONE, |nonce| Message::Challenge { nonce, cookie: Nonce(7) });
    for round in 0..20 {
        let before = search.asked(ONE).len();
        search.net.run(LAST_JOIN_RETRY + ms(1));
        assert!(search.asked(ONE).len() > before, "round {round}");
    }
}

#[test]
fn a_joiner_that_is_answered_by_datagrams_opens_no_bootstrap_link() {
    let mut search = Search::new(Profile::Local, &[ONE, OTHER]);
    for _ in 0..30 {
        search.says(ONE, not_up(ONE));
        search.net.run(ms(100));
    }
    assert_eq!(search.net.opened, []);
    let mut silent = Search::new(Profile::Local, &[ONE]);
    silent.net.run(ms(3_000));
    assert!(silent.net.opened.contains(&address(ONE)), "datagrams may not pass");
}

#[test]
fn a_joiner_that_waits_for_its_disk_is_told_that_it_is_behind_again_and_again_and_is_so_once() {
    let mut search = Search::new(Profile::Local, &[ONE]);
    let joiner = search.joiner;
    search.net.full_disks.insert(joiner, None);
    let incarnation = search.net.nodes[joiner].core.me().incarnation + (1 << 42);
    for round in 0..30 {
        search.says(ONE, |nonce| Message::Behind { nonce, incarnation });
        search.net.run(ms(100));
        search.assert_goes_on(round);
    }
    search.net.free_disk(joiner);
    assert_eq!(search.net.nodes[joiner].core.me().incarnation, incarnation + 1);
    assert!(!search.is_up());
}
