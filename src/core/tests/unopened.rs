//! Seeds of another cluster: those that do not open what a joiner sends, and those that refuse it for its cluster's name; and
//! another cluster of the same name.

use std::net::SocketAddr;
use std::time::Duration;

use super::net::{Net, address, birth, id, ms};
use headcount_core::wire::Refusal;
use headcount_core::{Contacted, CoreInit, Notice, Profile, Run, StopReason, Unopened};

const SECOND: Duration = Duration::from_secs(1);
const SEEDS: [usize; 3] = [0, 1, 2];

/// Returns an empty network with TCP.
fn wired() -> Net {
    let mut net = Net::new(Profile::Local);
    net.lay_wires();
    net
}

/// Adds three nodes that are each other's seeds.
fn add_seeds(net: &mut Net) {
    for host in SEEDS {
        net.add(&format!("n{host}"), host, &SEEDS);
    }
}

fn patience(net: &Net) -> Duration {
    net.settings.retry_interval * 3
}

fn is_up(net: &Net, node: usize) -> bool {
    net.nodes[node].core.is_up()
}

fn said(net: &Net, node: usize, by: usize) -> bool {
    let said = Notice::Unopened { by: address(by), why: Unopened::OtherKey };
    net.nodes[node].notices.contains(&said)
}

#[test]
fn a_seed_that_living_seeds_do_not_open_waits_and_says_so_and_joins_with_the_right_key() {
    for gone in SEEDS {
        let mut net = wired();
        add_seeds(&mut net);
        net.run_until(SECOND * 3, "a cluster", Net::all_agree);
        net.kill(gone);
        let back = net.add(&format!("n{gone}"), gone, &SEEDS);
        net.set_key(back, 1);
        for _ in 0..patience(&net).as_secs() * 4 {
            net.run(SECOND);
            assert!(!is_up(&net, back), "n{gone}: {}", net.describe());
        }
        let others: Vec<SocketAddr> = SEEDS.into_iter().filter(|host| *host != gone).map(address).collect();
        let joining = net.nodes[back].core.joining().expect("it is joining");
        let unopened = Contacted::Unopened(Unopened::OtherKey);
        assert_eq!(joining.asked, others.iter().map(|other| (*other, unopened.clone())).collect::<Vec<_>>());
        assert_eq!(joining.lacks, Some(Notice::Unopened { by: others[0], why: Unopened::OtherKey }));
        assert!(net.nodes[back].notices.contains(&joining.lacks.expect("known")));
        net.right_key(back);
        net.run_until(net.settings.retry_interval + SECOND, "it joins", |net| is_up(net, back));
        assert_eq!(net.nodes[back].core.joining(), None);
        net.run_until(SECOND * 5, "one cluster", Net::all_agree);
    }
}

#[test]
fn seeds_that_answer_each_other_found_nothing_beside_one_that_does_not_open() {
    for latency in [1, 30, 90] {
        let mut net = wired();
        net.latency = ms(latency);
        net.add("n2", 2, &[]);
        for host in [0, 1] {
            let node = net.add(&format!("n{host}"), host, &SEEDS);
            net.set_key(node, 1);
        }
        net.run(patience(&net) * 4);
        assert!(!is_up(&net, 1) && !is_up(&net, 2), "{latency}: {}", net.describe());
        assert!(said(&net, 1, 2) && said(&net, 2, 2), "{latency}: {}", net.describe());
    }
}

#[test]
fn a_seed_with_the_same_key_and_another_name_of_its_cluster_holds_nobody_up() {
    let mut net = wired();
    let (seed, other) = (net.add("n0", 0, &[0, 1]), net.add("n1", 1, &[]));
    net.set_name(other);
    net.run_until(patience(&net) + SECOND, "it founds its cluster", |net| is_up(net, seed));
    let told = Notice::Unopened { by: address(1), why: Unopened::OtherCluster };
    assert!(net.nodes[seed].notices.contains(&told), "{:?}", net.nodes[seed].notices);
}

#[test]
fn a_remembered_address_that_somebody_else_has_by_now_holds_nobody_up() {
    let mut net = wired();
    let other = net.add("n1", 1, &[]);
    net.set_key(other, 1);
    let init = CoreInit { remembered: vec![address(1)], ..birth("n0", 7, address(0), &net.settings) };
    let alone = net.add_birth(init, Vec::new());
    net.run_until(patience(&net) + SECOND, "it founds its cluster", |net| is_up(net, alone));
}

#[test]
fn two_seeds_of_which_each_has_a_key_of_its_own_both_wait() {
    let mut net = wired();
    for host in [0, 1] {
        let node = net.add(&format!("n{host}"), host, &[0, 1]);
        net.set_key(node, 1 + host as u8);
    }
    net.run(patience(&net) * 4);
    assert!(!is_up(&net, 0) && !is_up(&net, 1), "{}", net.describe());
    assert!(said(&net, 0, 1) && said(&net, 1, 0));
}

#[test]
fn a_seed_that_does_not_open_holds_nobody_up_once_it_is_gone() {
    let mut net = wired();
    let (seed, other) = (net.add("n0", 0, &[0, 1]), net.add("n1", 1, &[]));
    net.set_key(other, 1);
    net.run(patience(&net) * 2);
    assert!(!is_up(&net, seed), "{}", net.describe());
    net.kill(other);
    net.run_until(patience(&net) + SECOND, "it founds its cluster", |net| is_up(net, seed));
}

#[test]
fn seeds_found_a_cluster_as_soon_as_ever_beside_one_that_is_dead() {
    // A port where nobody listens, and a host that answers nothing.
    for is_off in [false, true] {
        let mut net = wired();
        let dead = net.add("n2", 2, &[]);
        if is_off {
            net.power_off(dead);
        } else {
            net.kill(dead);
        }
        for host in [0, 1] {
            net.add(&format!("n{host}"), host, &SEEDS);
        }
        let took = net.run_until(SECOND, "two of three", |net| is_up(net, 1) && is_up(net, 2));
        assert!(took < ms(550), "{took:?}");
        // By itself it waits for the others as long as ever, and no longer.
        let mut net = wired();
        let dead = net.add("n1", 1, &[]);
        if is_off {
            net.power_off(dead);
        } else {
            net.kill(dead);
        }
        let seed = net.add("n0", 0, &[0, 1]);
        let took = net.run_until(patience(&net) + SECOND, "one of two", |net| is_up(net, seed));
        assert_eq!(took, patience(&net));
    }
}

#[test]
fn nobody_who_takes_a_joiners_connections_without_a_word_holds_it_up() {
    let mut net = wired();
    let mute = net.add("n1", 1, &[]);
    net.pause(mute, true);
    let seed = net.add("n0", 0, &[0, 1]);
    net.run_until(patience(&net) + ms(1), "it founds its cluster", |net| is_up(net, seed));
}

/// Adds a node of a cluster of another name.
fn add_of_other(net: &mut Net, name: &str, host: usize, seeds: &[usize]) -> usize {
    let run = Run(0xee_0000 + host as u64);
    let init =
        CoreInit { cluster: id("other"), run, seeds: seeds.len(), ..birth(name, run.0, address(host), &net.settings) };
    net.add_birth(init, seeds.iter().map(|host| address(*host)).collect())
}

fn refused(by: usize) -> StopReason {
    StopReason::Refused { by: address(by), refusal: Refusal::OtherCluster }
}

#[test]
fn a_new_cluster_that_names_a_seed_of_another_one_by_mistake_is_founded_by_the_rest() {
    for seeds in [&[5, 0][..], &[5, 6, 0]] {
        let mut net = wired();
        net.add("n0", 0, &[0]);
        net.run(SECOND * 2);
        let first = add_of_other(&mut net, "m5", 5, seeds);
        net.run_until(patience(&net) + SECOND, "the first founds it", |net| is_up(net, first));
        let told = Notice::Refused { by: address(0), refusal: Refusal::OtherCluster };
        assert!(net.nodes[first].notices.contains(&told), "{}", net.describe());
        let second = add_of_other(&mut net, "m6", 6, seeds);
        let third = add_of_other(&mut net, "m7", 7, seeds);
        net.run_until(SECOND * 2, "the others join", |net| is_up(net, second) && is_up(net, third));
        net.run(SECOND * 10);
        assert_eq!([0, first].map(|node| net.nodes[node].core.records().count()), [1, 3], "{}", net.describe());
    }
}

#[test]
fn a_node_that_one_of_its_seeds_refuses_for_the_name_waits_for_the_others() {
    let mut net = wired();
    net.add("n0", 0, &[0]);
    let joiner = add_of_other(&mut net, "m7", 7, &[0, 5]);
    net.run(patience(&net) * 3);
    assert_eq!(net.nodes[joiner].stopped, None, "{}", net.describe());
    let late = add_of_other(&mut net, "m5", 5, &[]);
    net.run_until(net.settings.retry_interval + SECOND, "it joins", |net| is_up(net, joiner));
    net.run(SECOND);
    assert_eq!(net.nodes[late].core.records().count(), 2);
}

#[test]
fn a_node_that_has_seeds_of_another_cluster_alone_is_refused() {
    let mut net = wired();
    add_seeds(&mut net);
    net.run(SECOND * 2);
    let stranger = add_of_other(&mut net, "m7", 7, &[0, 1]);
    net.run(patience(&net) + net.settings.retry_interval);
    let stopped = net.nodes[stranger].stopped.as_ref();
    assert!(stopped.is_some_and(|why| [refused(0), refused(1)].contains(why)), "{}", net.describe());
}

#[test]
fn a_seed_whose_name_for_the_cluster_is_wrong_is_refused_by_those_that_ask_it_as_theirs() {
    for dead in [None, Some(1)] {
        let mut net = wired();
        add_seeds(&mut net);
        net.run(SECOND * 2);
        net.kill(2);
        if let Some(dead) = dead {
            net.kill(dead);
        }
        let back = add_of_other(&mut net, "n2", 2, &SEEDS);
        for _ in 0..patience(&net).as_secs() * 2 {
            net.run(SECOND);
            assert!(!is_up(&net, back), "{}", net.describe());
        }
        let stopped = net.nodes[back].stopped.as_ref();
        assert!(stopped.is_some_and(|why| [refused(0), refused(1)].contains(why)), "{dead:?}: {}", net.describe());
    }
}
