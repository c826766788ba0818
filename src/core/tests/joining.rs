use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use super::net::{Net, address, birth, id, ms};
use headcount_core::limits::{IDLE_PLACE, MAX_HOPS, MAX_REFERRALS, MAX_VIEWS_SERVED, MIN_QUESTION_BYTES};
use headcount_core::testing::record;
use headcount_core::wire::{Header, Message, Nonce, Packet, PacketBuilder, Refusal};
use headcount_core::{ChangeKind, Command, CoreInit, Input, Notice, Profile, Run, Status, StopReason, Tags};

#[test]
fn a_node_without_seeds_is_up_at_once() {
    let mut net = Net::new(Profile::Default);
    let a = net.add("a", 0, &[]);
    assert!(net.nodes[a].core.is_up());
    assert_eq!(net.reported(a, "a"), [ChangeKind::Joining, ChangeKind::Joined]);
}

#[test]
fn three_seeds_started_together_are_a_cluster_in_a_second() {
    for profile in Profile::ALL {
        let mut net = Net::new(profile);
        for i in 0..3 {
            net.add(&format!("n{i}"), i, &[0, 1, 2]);
        }
        let took = net.run_until(Duration::from_secs(1), "three nodes agree", Net::all_agree);
        assert!(took >= ms(500), "nobody starts before the others had time to answer");
        assert!(net.nodes[0].notices.contains(&Notice::Founded), "the smallest address starts");
        assert!(net.nodes[1..].iter().all(|node| !node.notices.contains(&Notice::Founded)));
    }
}

#[test]
fn a_joiner_knows_everybody_when_it_is_up() {
    let mut net = Net::cluster(Profile::Local, 8);
    let joiner = net.add("late", 20, &[0]);
    net.run_until(ms(100), "the joiner is up", |net| net.nodes[joiner].core.is_up());
    assert_eq!(net.nodes[joiner].core.records().count(), 9);
    net.run_until(ms(200), "everybody knows the joiner", Net::all_agree);
    assert_eq!(net.reported(0, "late"), [ChangeKind::Joining, ChangeKind::Joined], "the sponsor sees it come");
    assert_eq!(net.reported(3, "late"), [ChangeKind::Joined]);
}

#[test]
fn a_seed_that_reaches_nobody_starts_alone_and_the_islands_merge() {
    let mut net = Net::new(Profile::Local);
    let (a, b) = (net.add("a", 0, &[0, 1]), net.add("b", 1, &[0, 1]));
    net.cut(a, b, true);
    net.run(net.settings.retry_interval * 3 - ms(10));
    assert!(!net.nodes[a].core.is_up() && !net.nodes[b].core.is_up());
    net.run(ms(1_000));
    assert!(net.nodes[a].core.is_up() && net.nodes[b].core.is_up(), "{}", net.describe());
    net.cut(a, b, false);
    net.run_until(net.settings.retry_interval * 2 + ms(2_000), "islands merge", Net::all_agree);
}

#[test]
fn a_node_that_is_no_seed_never_starts_alone_and_says_so() {
    let mut net = Net::new(Profile::Local);
    let lonely = net.add("lonely", 5, &[0, 1]);
    net.run(Duration::from_secs(60));
    assert!(!net.nodes[lonely].core.is_up());
    assert!(
        net.nodes[lonely]
            .notices
            .contains(&Notice::NoSeedAnswered { unreached: Vec::new(), silent: vec![address(0), address(1)] })
    );
    net.add("n0", 0, &[]);
    net.run_until(net.settings.retry_interval * 2, "seeds are retried for ever", Net::all_agree);
}

#[test]
fn a_node_that_reaches_no_seed_says_to_which_there_is_no_connection() {
    let mut net = Net::new(Profile::Local);
    net.lay_wires();
    // The process at one address stands still; its system takes connections.
    let frozen = net.add("frozen", 1, &[]);
    net.run(ms(100));
    net.pause(frozen, true);
    // That of another one refuses them, and of one more nothing comes back at all.
    let dead = net.add("dead", 2, &[]);
    net.kill(dead);
    let lonely = net.add("lonely", 5, &[0, 1, 2]);
    net.run(Duration::from_secs(60));
    let said = Notice::NoSeedAnswered { unreached: vec![address(0), address(2)], silent: vec![address(1)] };
    assert!(net.nodes[lonely].notices.contains(&said), "{:?}", net.nodes[lonely].notices);
    let (said, nobody, dead, silent) = (said.to_string(), address(0), address(2), address(1));
    assert!(said.contains(&format!("no connection to {nobody}, {dead}: ")), "{said}");
    assert!(said.contains(&format!("nothing came back from {silent}: ")), "{said}");
}

#[test]
fn a_second_node_of_the_same_name_is_refused_while_the_first_answers() {
    let mut net = Net::cluster(Profile::Local, 3);
    let thief = net.add("n1", 30, &[0]);
    net.run(ms(500));
    let holder = address(1);
    assert_eq!(net.nodes[thief].stopped, Some(StopReason::NameInUse { id: id("n1"), holder }));
    assert!(net.nodes[0].notices.contains(&Notice::NameRefused { id: id("n1"), newcomer: address(30) }));
    net.assert_all_up();
}

#[test]
fn a_restart_on_the_same_port_joins_at_once_and_the_old_run_is_reported_down() {
    let mut net = Net::cluster(Profile::Default, 3);
    net.forget_reports();
    net.kill(1);
    net.run(ms(20));
    net.add("n1", 1, &[0]);
    net.run_until(ms(300), "the new run is up", Net::all_agree);
    let restarted = ChangeKind::DetectedDown(headcount_core::DetectionMethod::Restarted);
    for observer in [0, 2] {
        assert_eq!(net.reported(observer, "n1"), [restarted, ChangeKind::Joined]);
    }
}

#[test]
fn a_restart_on_another_port_takes_its_name_over_when_its_end_is_known() {
    let mut net = Net::linked(Profile::Local, 3);
    net.kill(1);
    net.add("n1", 40, &[0]);
    net.run_until(ms(1_100), "the new run is up", Net::all_agree);
}

#[test]
fn a_node_behind_its_own_past_raises_its_incarnation() {
    let mut net = Net::cluster(Profile::Local, 3);
    let before = net.nodes[1].core.me().incarnation;
    net.kill(1);
    // Its disk is lost, and its clock stands at the beginning of time.
    let reborn = net.add_born("n1", 1, &[0], 7);
    net.run_until(ms(500), "the new run is up", Net::all_agree);
    assert!(net.nodes[reborn].core.me().incarnation > before);
}

#[test]
fn another_cluster_refuses_and_both_sides_hear_of_it() {
    let mut net = Net::cluster(Profile::Local, 2);
    let init =
        CoreInit { cluster: id("other"), run: Run(99), seeds: 1, ..birth("stranger", 9, address(9), &net.settings) };
    let stranger = net.add_birth(init, vec![address(0)]);
    net.run(Duration::from_secs(6));
    let (by, refusal) = (address(0), Refusal::OtherCluster);
    assert_eq!(net.nodes[stranger].stopped, Some(StopReason::Refused { by, refusal }));
    assert!(net.nodes[0].notices.contains(&Notice::OtherCluster { from: address(9) }));
    assert_eq!(net.nodes[0].core.records().count(), 2);
}

#[test]
fn remembered_addresses_are_tried_before_a_node_without_seeds_starts_alone() {
    let mut net = Net::cluster(Profile::Local, 2);
    let init = |random_seed, remembered| CoreInit {
        run: Run(500 + random_seed),
        remembered,
        ..birth("back", random_seed, address(50), &Profile::Local.settings())
    };
    let back = net.add_birth(init(1, vec![address(77), address(1)]), Vec::new());
    net.run_until(ms(500), "found its cluster again", Net::all_agree);
    net.kill(back);
    let alone = net.add_birth(init(2, vec![address(77)]), Vec::new());
    net.run(net.settings.retry_interval * 3 + ms(100));
    assert!(net.nodes[alone].core.is_up(), "nobody answers: it starts");
}

#[test]
fn a_joiner_whose_path_loses_large_datagrams_pulls_smaller_pages() {
    let mut net = Net::cluster(Profile::Local, 30);
    net.is_lost = Some(|bytes| bytes.len() > 570);
    let joiner = net.add("late", 40, &[0]);
    net.run_until(Duration::from_secs(5), "the joiner is up", |net| net.nodes[joiner].core.is_up());
    assert_eq!(net.nodes[joiner].core.records().count(), 31);
    let told = Notice::PagesLost { sponsor: address(0), bytes: 1_400 };
    assert!(net.nodes[joiner].notices.contains(&told), "{}", net.describe());
    assert_eq!(net.nodes[joiner].core.counters().pages_shrunk, 1);
    net.run_until(Duration::from_secs(1), "everybody knows the joiner", Net::all_agree);
}

#[test]
fn a_sponsor_that_falls_silent_is_no_path_that_loses_large_datagrams() {
    let mut net = Net::cluster(Profile::Local, 30);
    net.is_lost = Some(|bytes| bytes.len() > 570);
    let joiner = net.add("late", 40, &[0]);
    net.run_until(Duration::from_secs(5), "it pulls", |net| net.nodes[joiner].core.is_pulling());
    net.kill(0);
    net.run(Duration::from_secs(20));
    let told = net.nodes[joiner].notices.iter().any(|notice| matches!(notice, Notice::PagesLost { .. }));
    assert!(!told, "{}", net.describe());
}

#[test]
fn a_joiner_whose_path_loses_datagrams_of_one_record_pulls_by_a_link() {
    let mut net = Net::linked(Profile::Local, 3);
    let tags = Tags::new([("pad".to_owned(), "x".repeat(400))].into()).expect("good tags");
    net.command(1, Command::SetTags { ticket: 1, tags });
    net.run_until(Duration::from_secs(1), "the tags are known", Net::all_agree);
    net.is_lost = Some(|bytes| bytes.len() > 400);
    let joiner = net.add("late", 40, &[0]);
    net.run_until(Duration::from_secs(10), "the joiner is up", |net| net.nodes[joiner].core.is_up());
    assert_eq!(net.nodes[joiner].core.records().count(), 4);
    net.run(Duration::from_secs(20));
    net.assert_all_up();
}

#[test]
fn a_joiner_that_pulls_by_a_link_alone_is_not_dropped_in_the_middle_of_a_long_view() {
    let mut net = Net::alone_with_a_large_view();
    net.lay_wires();
    net.block_all_datagrams(true);
    net.latency = ms(250);
    let joiner = net.add("late", 40, &[0]);
    net.run_until(Duration::from_secs(20), "it pulls", |net| net.nodes[0].core.sizes().joiners == 1);
    let began = net.now;
    net.run_until(Duration::from_secs(20), "the joiner is up", |net| net.nodes[joiner].core.is_up());
    assert!(net.now.since(began) > net.settings.down_timeout, "it took {:?}", net.now.since(began));
    assert!(!net.reported(0, "late").contains(&ChangeKind::Removed), "{:?}", net.reported(0, "late"));
}

#[test]
fn five_thousand_members_with_long_names_and_tags_arrive_in_small_datagrams() {
    const MEMBERS: u64 = 5_000;
    let mut net = Net::cluster(Profile::Default, 2);
    let tags = Tags::new(BTreeMap::from([("k".to_owned(), "v".repeat(200))])).expect("within bounds");
    for i in 0..MEMBERS {
        let mut member = record(&format!("{}-{i:05}", "long".repeat(14)), 5, Status::Up);
        member.run = Run(0xff_0000 + i);
        member.address = address(300 + i as usize);
        member.tags = tags.clone();
        // By its own word: of names that are hearsay a joiner is served fewer.
        net.input(0, Input::Tick);
        net.nodes[0].core.learn_of(member);
        net.drain(0);
    }
    assert_eq!(net.nodes[0].core.records().count(), MEMBERS as usize + 2);
    let joiner = net.add("late", 20, &[0]);
    net.run_until(ms(8_000), "the joiner is up", |net| net.nodes[joiner].core.is_up());
    assert_eq!(net.nodes[joiner].core.records().count(), MEMBERS as usize + 3);
    assert!(net.nodes.iter().all(|node| node.largest <= net.settings.mtu));
}

fn crowd(n: usize, seeds: &[usize]) -> Net {
    let mut net = Net::new(Profile::Lan);
    for i in 0..n {
        net.add(&format!("n{i:03}"), i, seeds);
    }
    net
}

#[test]
fn a_crowd_at_one_seed_agrees_soon_and_the_seed_does_not_carry_it() {
    let mut net = crowd(150, &[0]);
    net.run_until(Duration::from_secs(4), "all agree", Net::all_agree);
    let sent = net.nodes[0].core.counters().bytes_sent;
    let most = net.nodes.iter().map(|node| node.core.counters().bytes_sent).max().unwrap_or(0);
    assert!(sent < 600_000, "the seed sent {sent} bytes, nobody more than {most}");
}

#[test]
fn nobody_lags_behind_a_crowd_on_a_lossy_network() {
    for drop_one_in in [20, 7] {
        let mut net = crowd(60, &[0]);
        net.drop_one_in = drop_one_in;
        net.latency = ms(5);
        net.run_until(Duration::from_secs(8), "all agree", Net::all_agree);
    }
}

#[test]
fn a_single_joiner_knows_everybody_in_one_exchange() {
    let mut net = crowd(150, &[0]);
    net.run_until(Duration::from_secs(4), "all agree", Net::all_agree);
    net.run(Duration::from_secs(3));
    let joiner = net.add("late", 200, &[7]);
    // Join, Challenge, Join, Welcome, and then eight pages in each round trip.
    let pages = 150 / 10;
    let round_trips = 2 + (pages / 8 + 1);
    net.run_until(net.latency * 2 * round_trips, "the joiner is up", |net| net.nodes[joiner].core.is_up());
    assert_eq!(net.nodes[joiner].core.records().count(), 151);
}

/// Has a joiner at a host ask n0; returns the answer.
fn asks(net: &mut Net, host: usize, cookie: Option<Nonce>) -> Message {
    let mut joiner = record(&format!("j{host}"), 5, Status::Joining);
    (joiner.run, joiner.address) = (Run(0xbb_0000 + host as u64), address(host));
    let header = Header { cluster: Header::cluster_hash("test"), run: joiner.run, sequence: 1, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    packet.push(&Message::Join { nonce: Nonce(5), record: joiner, cookie });
    packet.pad_to(MIN_QUESTION_BYTES);
    let bytes = packet.finish();
    let seen = net.undelivered.len();
    net.input(0, Input::Packet { from: address(host), bytes: &bytes });
    net.run(ms(2));
    let answer = net.undelivered[seen..].iter().find(|(to, _)| *to == address(host)).expect("answered").1.clone();
    assert!(answer.len() <= bytes.len(), "{} bytes to an unproven address", answer.len());
    Packet::decode(&answer).expect("decodes").messages.pop().expect("says something")
}

/// Has joiners take all places at n0; returns the members that the next one is sent to.
fn all_places_taken(net: &mut Net) -> Vec<SocketAddr> {
    for host in 100..100 + MAX_VIEWS_SERVED {
        let Message::Challenge { cookie, .. } = asks(net, host, None) else { panic!("there is a place for {host}") };
        assert!(matches!(asks(net, host, Some(cookie)), Message::Welcome { .. }));
    }
    let Message::Elsewhere { members, .. } = asks(net, 200, None) else { panic!("all places are taken") };
    members.into_iter().flatten().collect()
}

#[test]
fn a_busy_sponsor_refers_to_members_that_are_up_with_fewer_bytes_than_it_was_asked_with() {
    let mut net = Net::cluster(Profile::Local, 6);
    let members = all_places_taken(&mut net);
    let others: Vec<_> = (1..6).map(address).collect();
    assert!(members.len() == MAX_REFERRALS && members.iter().all(|member| others.contains(member)), "{members:?}");
    // Nobody pulls: the places may be given to others.
    net.run(IDLE_PLACE);
    assert!(matches!(asks(&mut net, 200, None), Message::Challenge { .. }));
}

#[test]
fn a_busy_sponsor_refers_to_no_member_that_may_be_gone() {
    let mut net = Net::cluster(Profile::Local, 6);
    (1..4).for_each(|node| net.kill(node));
    let are_suspected = |net: &Net| (1..4).all(|node| net.status(0, &format!("n{node}")) == Some(Status::Suspect));
    net.run_until(net.settings.down_timeout, "they are suspected", are_suspected);
    let members = all_places_taken(&mut net);
    let others = [4, 5].map(address);
    assert!(!members.is_empty() && members.iter().all(|member| others.contains(member)), "{members:?}");
}

/// Tells a joiner, in the name of its seed at host 0, to go elsewhere; returns the hosts that it asked then.
fn misled(
    net: &mut Net,
    joiner: usize,
    nonce: Nonce,
    from: usize,
    members: [usize; 3],
    sequence: u64,
) -> BTreeSet<usize> {
    let header = Header { cluster: Header::cluster_hash("test"), run: Run(666), sequence, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    packet.push(&Message::Elsewhere { nonce, members: members.map(|member| Some(address(member))) });
    let seen = net.undelivered.len();
    net.input(joiner, Input::Packet { from: address(from), bytes: &packet.finish() });
    net.run(ms(2));
    let asked = net.undelivered[seen..].iter().map(|(to, _)| *to);
    asked.filter_map(|to| (0..2_000).find(|host| address(*host) == to)).collect()
}

#[test]
fn a_joiner_follows_referrals_only_where_it_asked_and_pauses_after_so_many_in_a_row() {
    let mut net = Net::new(Profile::Lan);
    let joiner = net.add("joiner", 5, &[0]);
    net.run(ms(5));
    let asked = net.undelivered.iter().find_map(|(_, bytes)| {
        Packet::decode(bytes).expect("decodes").messages.into_iter().find_map(|message| match message {
            Message::Join { nonce, .. } => Some(nonce),
            _ => None,
        })
    });
    let nonce = asked.expect("it asks its seed");
    assert!(misled(&mut net, joiner, Nonce(1), 0, [45, 46, 47], 1).is_empty(), "that is not what it asked");
    let mut followed = Vec::new();
    for i in 0..MAX_HOPS as usize * 2 {
        let members = [100 + 3 * i, 101 + 3 * i, 102 + 3 * i];
        followed.push(misled(&mut net, joiner, nonce, 0, members, 2 + i as u64).len());
    }
    let (in_a_row, later) = followed.split_at(MAX_HOPS as usize);
    assert!(in_a_row.iter().all(|asked| *asked == 1), "{followed:?}");
    assert!(later.iter().all(|asked| *asked == 0), "{followed:?}");
}

/// Adds a node whose seeds' names are looked up by the test; it has so many seeds.
fn add_looking_up(net: &mut Net, name: &str, host: usize, seeds: usize) -> usize {
    net.lookups_hang = true;
    net.add(name, host, &vec![host; seeds])
}

#[test]
fn a_name_that_is_looked_up_for_long_delays_no_seed_that_is_known() {
    let mut net = Net::cluster(Profile::Local, 3);
    let joiner = add_looking_up(&mut net, "late", 20, 2);
    net.input(joiner, Input::SomeSeedAddresses(vec![vec![], vec![]]));
    assert_eq!(net.nodes[joiner].sent, 0, "there is nobody to ask yet");
    net.input(joiner, Input::SomeSeedAddresses(vec![vec![], vec![address(0)]]));
    net.run_until(ms(100), "the joiner is up", |net| net.nodes[joiner].core.is_up());
}

#[test]
fn an_address_that_was_not_known_before_is_asked_at_once() {
    let mut net = Net::cluster(Profile::Default, 3);
    let joiner = add_looking_up(&mut net, "late", 20, 2);
    net.input(joiner, Input::SomeSeedAddresses(vec![vec![address(77)], vec![]]));
    // The next try is many seconds away.
    net.run(Duration::from_secs(14));
    assert!(!net.nodes[joiner].core.is_up());
    let sent = net.nodes[joiner].sent;
    net.input(joiner, Input::SeedAddresses(vec![vec![address(77)], vec![address(0)]]));
    assert_eq!(net.nodes[joiner].sent, sent + 1, "the new one alone is asked");
    net.run_until(ms(100), "the joiner is up", |net| net.nodes[joiner].core.is_up());
}

#[test]
fn addresses_that_are_told_again_change_nothing() {
    let mut net = Net::new(Profile::Local);
    let joiner = add_looking_up(&mut net, "lonely", 20, 3);
    let told = vec![vec![address(5)], vec![address(6), address(7)], vec![]];
    net.input(joiner, Input::SomeSeedAddresses(told.clone()));
    for is_whole in [false, true] {
        if is_whole {
            net.input(joiner, Input::SeedAddresses(told.clone()));
        }
        for pause in [0, 0, 40, 300, 2_000] {
            net.run(ms(pause));
            let (sent, deadline) = (net.nodes[joiner].sent, net.nodes[joiner].core.next_deadline());
            for told in [told.clone(), told.iter().rev().cloned().collect()] {
                let told = if is_whole { Input::SeedAddresses(told) } else { Input::SomeSeedAddresses(told) };
                net.input(joiner, told);
            }
            assert_eq!((net.nodes[joiner].sent, net.nodes[joiner].core.next_deadline()), (sent, deadline));
        }
    }
    net.add("n5", 5, &[]);
    net.lookups_hang = false;
    net.run_until(Duration::from_secs(3), "it joins", Net::all_agree);
    // Nor for a member.
    let (sent, deadline) = (net.nodes[joiner].sent, net.nodes[joiner].core.next_deadline());
    net.input(joiner, Input::SeedAddresses(told));
    assert_eq!((net.nodes[joiner].sent, net.nodes[joiner].core.next_deadline()), (sent, deadline));
}

#[test]
fn a_seed_founds_no_cluster_while_the_names_of_others_are_looked_up() {
    let mut net = Net::new(Profile::Default);
    net.add("n1", 1, &[]);
    let seed = add_looking_up(&mut net, "n0", 0, 2);
    net.input(seed, Input::SomeSeedAddresses(vec![vec![address(0)], vec![]]));
    net.run(Duration::from_secs(8));
    assert!(!net.nodes[seed].core.is_up(), "the other seed may be a cluster");
    net.input(seed, Input::SeedAddresses(vec![vec![address(0)], vec![address(1)]]));
    net.run_until(ms(100), "they are one cluster", Net::all_agree);
    assert!(!net.nodes[seed].notices.contains(&Notice::Founded));
}

#[test]
fn a_seed_whose_fellows_have_no_addresses_founds_its_cluster_when_that_is_known() {
    let mut net = Net::new(Profile::Default);
    let seed = add_looking_up(&mut net, "n0", 0, 2);
    net.input(seed, Input::SomeSeedAddresses(vec![vec![address(0)], vec![]]));
    net.run(Duration::from_secs(8));
    assert!(!net.nodes[seed].core.is_up());
    net.input(seed, Input::SeedAddresses(vec![vec![address(0)], vec![]]));
    net.run_until(ms(600), "it starts", |net| net.nodes[seed].core.is_up());
}

#[test]
fn a_seed_that_was_found_late_has_its_time_to_answer_before_a_cluster_is_founded() {
    let mut net = Net::new(Profile::Default);
    net.add("n1", 1, &[]);
    net.latency = ms(100);
    let rival = add_looking_up(&mut net, "n5", 5, 2);
    net.input(rival, Input::SeedAddresses(vec![vec![address(0)], vec![address(5)]]));
    let seed = add_looking_up(&mut net, "n0", 0, 3);
    net.input(seed, Input::SeedAddresses(vec![vec![address(0)], vec![address(5)], vec![]]));
    // Just before it would found, since of the two that are joining its address is the smaller.
    net.run(ms(450));
    net.input(seed, Input::SeedAddresses(vec![vec![address(0)], vec![address(5)], vec![address(1)]]));
    net.run_until(Duration::from_secs(20), "they are one cluster", Net::all_agree);
    assert!(!net.nodes[seed].notices.contains(&Notice::Founded), "{:?}", net.nodes[seed].notices);
}

#[test]
fn pages_are_told_lost_of_the_sponsor_alone_whose_smaller_ones_came() {
    for is_lossy in [false, true] {
        let mut net = Net::cluster(Profile::Local, 30);
        net.is_lost = Some(|bytes| bytes.len() > 570);
        net.pause(1, true);
        let joiner = net.add("late", 40, &[0, 1]);
        net.run_until(Duration::from_secs(5), "it pulls", |net| net.nodes[joiner].core.is_pulling());
        let silent = address(0);
        net.kill(0);
        net.pause(1, false);
        if !is_lossy {
            net.is_lost = None;
        }
        net.run_until(Duration::from_secs(20), "it is up", |net| net.nodes[joiner].core.is_up());
        let told = net.nodes[joiner].notices.iter().filter_map(|notice| match notice {
            Notice::PagesLost { sponsor, .. } => Some(*sponsor),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), usize::from(is_lossy), "{told:?}");
        assert!(!told.contains(&silent));
    }
}
