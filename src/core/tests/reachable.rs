//! Up means reachable: wrong advertised addresses, translated ones, and families of addresses that do not meet.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::alone::{Alone, TELLER, member};
use super::hostile::{EVIL, EVIL_RUN, packet};
use super::net::{Net, address, birth, id, ms};
use super::speaker::Speaker;
use headcount_core::limits::{INCARNATION_STEP, MIN_QUESTION_BYTES};
use headcount_core::wire::{Message, Nonce, Note, Packet, Refusal};
use headcount_core::{
    ChangeKind, Command, CoreInit, DetectionMethod, Input, LinkEvent, LinkId, Notice, Output, Profile, Record, Run,
    Status, Tags,
};

/// Adds a node that advertises one address and speaks from another one.
pub(super) fn add_at(net: &mut Net, name: &str, advertised: SocketAddr, real: SocketAddr, seed: SocketAddr) -> usize {
    let init = CoreInit {
        run: Run(0xff_0000 + net.nodes.len() as u64),
        incarnation: 2_000_000,
        stored_bound: 2_000_000 + INCARNATION_STEP,
        seeds: 1,
        ..birth(name, net.nodes.len() as u64, advertised, &net.settings)
    };
    net.lookups_hang = true;
    let node = net.add_birth(init, vec![seed]);
    net.nodes[node].address = real;
    net.lookups_hang = false;
    net.input(node, Input::SeedAddresses(vec![vec![seed]]));
    node
}

fn v6(host: u16) -> SocketAddr {
    SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, host], 7117))
}

#[test]
fn a_joiner_whose_advertised_address_is_wrong_never_becomes_up_and_both_sides_name_the_addresses() {
    for profile in Profile::ALL {
        let mut net = Net::cluster(profile, 3);
        net.forget_reports();
        let (advertised, heard_from) = (address(77), address(20));
        let wrong = add_at(&mut net, "wrong", advertised, heard_from, address(0));
        net.run(net.settings.down_timeout * 3 + Duration::from_secs(10));
        assert_eq!((net.nodes[wrong].core.is_up(), &net.nodes[wrong].stopped), (false, &None), "{profile}");
        let refusal = Refusal::Unreachable { advertised, heard_from };
        assert!(net.nodes[wrong].notices.contains(&Notice::Refused { by: address(0), refusal }), "{}", net.describe());
        let told = Notice::JoinerUnreachable { id: id("wrong"), advertised, heard_from };
        assert!(net.nodes[0].notices.contains(&told), "{}", net.describe());
        assert!((0..3).all(|observer| net.reported(observer, "wrong").is_empty()), "nobody lists it");
        let words = told.to_string();
        assert!(words.contains("10.0.0.78:7117") && words.contains("10.0.0.21:7117"), "{words}");
    }
}

#[test]
fn a_member_of_an_older_build_whose_ipv4_address_is_written_as_ipv6_keeps_nobody_out() {
    // A core sends its own record as it was given: an agent brings the address into its one form first, older ones do not.
    for profile in Profile::ALL {
        let mut net = Net::cluster(profile, 2);
        let mapped = SocketAddr::from((Ipv4Addr::from([10, 0, 0, 77]).to_ipv6_mapped(), 7117));
        let older = add_at(&mut net, "older", mapped, address(76), address(0));
        let later = |net: &mut Net, name: &str, host| {
            let node = net.add(name, host, &[0]);
            net.run_until(Duration::from_secs(10), "it is up", |net| net.nodes[node].core.is_up());
            node
        };
        net.run_until(Duration::from_secs(10), "the older one is up", |net| net.nodes[older].core.is_up());
        // One is told of it by itself, one by others.
        let nodes = [0, 1, later(&mut net, "later", 3), later(&mut net, "last", 4)];
        net.command(
            older,
            Command::SetTags { ticket: 1, tags: Tags::new([("a".into(), "b".into())].into()).expect("good") },
        );
        net.run(Duration::from_secs(30));
        let held =
            |node: &usize| net.nodes[*node].core.record(&id("older")).map(|record| (record.address, record.status));
        assert!(nodes.iter().all(|node| held(node) == Some((address(76), Status::Up))), "{}", net.describe());
        let views: BTreeSet<u64> = nodes.iter().map(|node| net.nodes[*node].core.fingerprint()).collect();
        assert_eq!(views.len(), 1, "{profile}: the views of all but the older one are equal");
    }
}

#[test]
fn a_node_that_advertises_its_only_seeds_address_founds_nothing_beside_it() {
    for profile in Profile::ALL {
        let mut net = Net::cluster(profile, 1);
        let wrong = add_at(&mut net, "wrong", address(0), address(20), address(0));
        net.run(net.settings.down_timeout * 3 + Duration::from_secs(10));
        assert_eq!((net.nodes[wrong].core.is_up(), &net.nodes[wrong].stopped), (false, &None), "{profile}");
        assert!(
            net.nodes[0].notices.iter().any(|notice| notice.to_string().contains("10.0.0.21:7117")),
            "{}",
            net.describe()
        );
        assert!(net.nodes[wrong].notices.iter().any(|notice| notice.to_string().contains("10.0.0.1:7117")));
    }
}

#[test]
fn an_unreachable_joiner_joins_as_soon_as_its_address_answers() {
    let mut net = Net::cluster(Profile::Local, 3);
    let node = add_at(&mut net, "late", address(77), address(20), address(0));
    net.run(Duration::from_secs(20));
    assert!(!net.nodes[node].core.is_up());
    net.further.push((node, address(77)));
    net.run_until(net.settings.retry_interval * 2, "it is up", |net| net.nodes[node].core.is_up());
}

#[test]
fn a_joiner_behind_a_translated_address_is_let_in_where_it_says_it_is() {
    let mut net = Net::cluster(Profile::Default, 3);
    net.nodes.reserve(1);
    net.further.push((3, address(77)));
    let node = add_at(&mut net, "inside", address(77), address(20), address(0));
    assert_eq!(node, 3);
    net.run_until(ms(100), "it is up", |net| net.nodes[node].core.is_up());
}

#[test]
fn a_joiner_that_only_its_sponsor_reaches_does_not_become_up_and_both_say_so() {
    let mut net = Net::cluster(Profile::Local, 3);
    // n0 has both families; the others and their records are IPv4.
    net.further.push((0, v6(1)));
    net.forget_reports();
    let node = add_at(&mut net, "six", v6(9), v6(9), v6(1));
    net.run(net.settings.retry_interval * 4);
    assert!(!net.nodes[node].core.is_up(), "{}", net.describe());
    let others = |notice: &Notice| matches!(notice, Notice::NotReached { advertised, .. } if *advertised == v6(9));
    assert!(net.nodes[node].notices.iter().any(others), "{}", net.describe());
    assert!((1..3).all(|observer| !net.reported(observer, "six").contains(&ChangeKind::Joined)));
    let stuck = Notice::JoinerNotReached { id: id("six"), advertised: v6(9), here: address(0) };
    assert!(net.nodes[0].notices.contains(&stuck), "{}", net.describe());
    let words = stuck.to_string();
    assert!(words.contains("[fd00::9]:7117 (IPv6)") && words.contains("10.0.0.1:7117 (IPv4)"), "{words}");
}

/// Returns three members that have addresses of both families, as the next node will have.
fn of_both_families(profile: Profile) -> Net {
    let mut net = Net::cluster(profile, 3);
    for host in 0..3 {
        net.further.push((host, v6(1 + host as u16)));
    }
    net.further.push((3, address(9)));
    net
}

#[test]
fn a_joiner_of_another_family_that_the_others_reach_becomes_up_and_no_sponsor_complains() {
    let mut net = of_both_families(Profile::Local);
    let node = add_at(&mut net, "six", v6(9), v6(9), v6(1));
    net.run_until(ms(200), "it is up", |net| net.nodes[node].core.is_up());
    net.run_until(Duration::from_secs(2), "all agree", Net::all_agree);
    net.run(net.settings.retry_interval * 4);
    let complains = |notice: &Notice| matches!(notice, Notice::JoinerNotReached { .. });
    assert!((0..3).all(|node| !net.nodes[node].notices.iter().any(complains)));
}

#[test]
fn a_joiner_of_another_family_whose_first_answers_are_lost_gets_further_ones_before_it_begins_anew() {
    let mut net = of_both_families(Profile::Default);
    net.is_lost = Some(|bytes| {
        let messages = Packet::decode(bytes).expect("decodes").messages;
        messages.iter().any(|message| matches!(message, Message::Reached { .. }))
    });
    let node = add_at(&mut net, "six", v6(9), v6(9), v6(1));
    net.run(ms(300));
    assert!(!net.nodes[node].core.is_up());
    net.is_lost = None;
    net.run_until(ms(1_100), "it is up", |net| net.nodes[node].core.is_up());
}

#[test]
fn a_joiner_of_another_family_is_not_kept_waiting_for_the_dead() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.further.push((0, v6(1)));
    // Alone with a member of its own family, and with the dead.
    let sponsor = add_at(&mut net, "gone", v6(5), v6(5), v6(1));
    net.kill(sponsor);
    for node in [1, 2] {
        net.kill(node);
    }
    net.further.push((4, address(9)));
    let node = add_at(&mut net, "six", v6(9), v6(9), v6(1));
    net.run_until(Duration::from_secs(20), "it is up", |net| net.nodes[node].core.is_up());
    net.run_until(ms(2_000), "n0 knows it", |net| net.status(0, "six") == Some(Status::Up));
}

#[test]
fn both_sides_say_that_a_joiner_advertises_the_other_family_of_addresses() {
    let mut net = Net::cluster(Profile::Local, 2);
    net.forget_reports();
    let (advertised, heard_from) = (v6(9), address(9));
    let node = add_at(&mut net, "six", advertised, heard_from, address(0));
    net.run(Duration::from_secs(15));
    assert!(!net.nodes[node].core.is_up());
    let told = Notice::JoinerUnreachable { id: id("six"), advertised, heard_from };
    let refused = Notice::Refused { by: address(0), refusal: Refusal::Unreachable { advertised, heard_from } };
    for (side, notice) in [(0, told), (node, refused)] {
        assert!(net.nodes[side].notices.contains(&notice), "{}", net.describe());
        let words = notice.to_string();
        assert!(words.contains("(IPv6)") && words.contains("(IPv4)") && words.contains("two families"), "{words}");
    }
    let alike = Notice::JoinerUnreachable { id: id("six"), advertised: address(7), heard_from }.to_string();
    assert!(!alike.contains("IPv"), "nothing is said of families: {alike}");
}

/// Moves a node, which is not reached at its advertised address any more: it speaks, and is answered, from elsewhere.
fn move_away(net: &mut Net, node: usize) -> (SocketAddr, SocketAddr) {
    let (advertised, heard_from) = (net.nodes[node].address, address(50));
    net.nodes[node].address = heard_from;
    (advertised, heard_from)
}

#[test]
fn a_member_whose_advertised_address_stops_working_is_told_so_by_name_of_both_addresses_and_is_not_ready() {
    for profile in Profile::ALL {
        let mut net = Net::cluster(profile, 3);
        net.run(net.settings.down_timeout);
        net.forget_reports();
        let (advertised, heard_from) = move_away(&mut net, 2);
        assert!(net.nodes[2].core.is_reachable(), "nobody knows yet");
        let within = net.settings.down_timeout * 2 + net.settings.retry_interval * 6;
        net.run_until(within, "it knows", |net| !net.nodes[2].core.is_reachable());
        assert!(net.nodes[2].core.is_up());
        let refusal = Refusal::Unreachable { advertised, heard_from };
        let is_told = |notice: &Notice| matches!(notice, Notice::Refused { refusal: told, .. } if *told == refusal);
        assert!(net.nodes[2].notices.iter().any(is_told), "{}", net.describe());
        let said = Notice::MemberUnreachable { id: id("n2"), advertised, heard_from };
        assert!((0..2).any(|node| net.nodes[node].notices.contains(&said)), "{}", net.describe());
        let words = said.to_string();
        assert!(words.contains("10.0.0.3:7117") && words.contains("10.0.0.51:7117"), "{words}");
        assert!((0..2).all(|node| net.nodes[node].core.is_reachable()), "the others are where they say");
        // It is not Up again by what it sends from elsewhere.
        net.run(net.settings.down_timeout * 2);
        net.forget_reports();
        let incarnation = net.nodes[2].core.me().incarnation;
        net.run(net.settings.down_timeout + net.settings.retry_interval * 3);
        assert!((0..2).all(|node| net.reported(node, "n2").is_empty()), "{profile}: {}", net.describe());
        assert_eq!(net.nodes[2].core.me().incarnation, incarnation, "{profile}");
        // The address works again.
        net.nodes[2].address = advertised;
        net.run_until(within, "it is back", |net| net.nodes[2].core.is_reachable() && net.all_agree());
    }
}

#[test]
fn a_member_that_was_known_behind_a_translator_is_told_as_well() {
    let mut net = Net::cluster(Profile::Local, 3);
    let (advertised, heard_from) = (address(2), address(50));
    net.seen_at.insert(advertised, heard_from);
    net.run(net.settings.down_timeout * 4);
    net.assert_all_up();
    net.seen_at.clear();
    move_away(&mut net, 2);
    let within = net.settings.down_timeout * 3 + net.settings.retry_interval * 6;
    net.run_until(within, "it knows", |net| !net.nodes[2].core.is_reachable());
    let refusal = Refusal::Unreachable { advertised, heard_from };
    let is_told = |notice: &Notice| matches!(notice, Notice::Refused { refusal: told, .. } if *told == refusal);
    assert!(net.nodes[2].notices.iter().any(is_told), "{}", net.describe());
}

#[test]
fn a_member_that_is_cut_off_from_all_others_is_not_said_to_be_unreachable() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.cut(0, 2, true);
    net.cut(1, 2, true);
    net.run(net.settings.down_timeout * 3);
    assert!(net.nodes[2].core.is_reachable(), "nobody could tell");
    net.cut(0, 2, false);
    net.cut(1, 2, false);
    net.run_until(net.settings.retry_interval * 3, "healed", Net::all_agree);
    assert!((0..3).all(|node| net.nodes[node].core.is_reachable()));
}

#[test]
fn a_founder_whose_advertised_address_is_wrong_is_found_out_by_its_first_joiner() {
    let mut net = Net::new(Profile::Local);
    let (advertised, heard_from) = (address(77), address(0));
    let founder = add_at(&mut net, "founder", advertised, heard_from, heard_from);
    net.run_until(Duration::from_secs(20), "it is the first", |net| net.nodes[founder].core.is_up());
    let joiner = net.add("n1", 1, &[0]);
    net.run(Duration::from_secs(20));
    assert!(!net.nodes[joiner].core.is_up(), "two clusters of one node each would help nobody");
    let found = Notice::SponsorUnreachable { advertised, heard_from };
    assert!(net.nodes[joiner].notices.contains(&found), "{}", net.describe());
    let refusal = Refusal::Unreachable { advertised, heard_from };
    assert!(
        net.nodes[founder].notices.contains(&Notice::Refused { by: address(1), refusal }),
        "the founder is told: {}",
        net.describe()
    );
    let words = found.to_string();
    assert!(words.contains("10.0.0.78:7117") && words.contains("10.0.0.1:7117"), "{words}");
    // As soon as the address works, the joiner is in.
    net.further.push((founder, advertised));
    net.run_until(Duration::from_secs(10), "it is up", |net| net.nodes[joiner].core.is_up());
}

#[test]
fn a_founder_behind_a_translated_address_lets_its_first_joiner_in() {
    let mut net = Net::new(Profile::Local);
    net.further.push((0, address(77)));
    let founder = add_at(&mut net, "founder", address(77), address(0), address(0));
    net.run_until(Duration::from_secs(20), "it is the first", |net| net.nodes[founder].core.is_up());
    let joiner = net.add("n1", 1, &[0]);
    net.run_until(ms(200), "it is up", |net| net.nodes[joiner].core.is_up());
    net.run_until(ms(3_000), "all agree", Net::all_agree);
}

#[test]
fn an_ordinary_joiner_is_asked_for_no_further_proof() {
    let mut net = Net::cluster(Profile::Local, 3);
    let joiner = net.add("late", 20, &[0]);
    // Join, Challenge, Join, Welcome, Pull, Page.
    net.run_until(net.latency * 6, "it is up", |net| net.nodes[joiner].core.is_up());
    net.command(joiner, Command::Leave);
}

#[test]
fn an_answer_to_a_question_that_was_not_asked_makes_nobody_up() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.further.push((0, v6(1)));
    let node = add_at(&mut net, "six", v6(9), v6(9), v6(1));
    for i in 0..2_000 {
        net.run(ms(2));
        let bytes = packet(EVIL_RUN, 1 + i, &[Message::Reply, Message::Reached { nonce: Nonce(7) }]);
        net.input(node, Input::Packet { from: address(EVIL), bytes: &bytes });
        assert!(!net.nodes[node].core.is_up());
    }
}

#[test]
fn one_member_alone_makes_no_member_unreachable_that_hears_the_others() {
    let mut net = Net::cluster(Profile::Local, 3);
    let nonce = net.nodes[0].core.nonce(address(1), net.now);
    let refusal = Refusal::Unreachable { advertised: address(0), heard_from: address(50) };
    Speaker::new(1).says(&mut net, 0, &[Message::Refused { nonce, refusal: refusal.clone() }]);
    assert!(net.nodes[0].notices.contains(&Notice::Refused { by: address(1), refusal }), "{}", net.describe());
    assert!(net.nodes[0].core.is_reachable());
}

#[test]
fn a_sponsor_is_proven_at_the_address_that_was_asked_alone() {
    let mut net = Net::cluster(Profile::Local, 3);
    // It advertises its IPv4 address.
    net.further.push((0, v6(1)));
    let node = add_at(&mut net, "six", v6(9), v6(9), v6(1));
    let run = net.nodes[0].core.me().run;
    let has_the_view = |net: &Net| {
        let core = &net.nodes[node].core;
        !core.is_pulling() && core.knows(run)
    };
    net.run_until(ms(1_000), "it has the view", has_the_view);
    let core = &net.nodes[node].core;
    assert!(!core.is_up() && !core.is_proven(run));
}

/// Returns a node that suspects a member, and that member.
fn suspecting() -> (Alone, Record) {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let silent = member(0, Status::Suspect);
    let note = Some(Note { age_ms: 1, method: DetectionMethod::HeartbeatTimeout });
    alone.told_by(TELLER, &[(note, silent.clone())]);
    assert_eq!(alone.core.record(&silent.id).map(|held| held.status), Some(Status::Suspect));
    (alone, silent)
}

fn is_unreachable(message: &Message) -> bool {
    matches!(message, Message::Refused { refusal: Refusal::Unreachable { .. }, .. })
}

fn is_introduction(message: &Message) -> bool {
    matches!(message, Message::IAm { .. })
}

#[test]
fn a_silent_member_that_says_where_it_is_by_now_is_not_told_that_its_address_does_not_answer() {
    for has_moved in [false, true] {
        let (mut alone, silent) = suspecting();
        let from = address(50);
        let nonce = alone.core.nonce(from, alone.now);
        let sent = alone.hand_in(from, silent.run, |packet| {
            if has_moved {
                let record = Record { address: from, status: Status::Up, ..silent.clone() };
                packet.push(&Message::IAm { nonce, record });
            }
            packet.push(&Message::WhoAreYou { nonce: Nonce(1), echo: Some(nonce) });
            packet.pad_to(MIN_QUESTION_BYTES);
        });
        let told: Vec<_> = sent.into_iter().filter(|(to, _)| *to == from).map(|(_, message)| message).collect();
        assert!(told.iter().any(is_introduction), "{told:?}");
        assert_eq!(told.iter().any(is_unreachable), !has_moved, "{told:?}");
    }
}

#[test]
fn a_silent_member_that_opens_a_bootstrap_link_is_not_told_that_its_address_does_not_answer() {
    let (mut alone, silent) = suspecting();
    // A passing port.
    let (link, from) = (LinkId::Accepted(1), SocketAddr::new(silent.address.ip(), 40_000));
    let nonce = alone.core.nonce(from, alone.now);
    let bytes = packet(silent.run, 900, &[Message::WhoAreYou { nonce: Nonce(1), echo: Some(nonce) }]);
    alone.core.handle(alone.now, Input::Link { link, event: LinkEvent::Frame { from, bytes: &bytes } });
    let told: Vec<_> = alone
        .outputs()
        .into_iter()
        .filter_map(|output| match output {
            Output::SendFrame { link: by, bytes } if by == link => Some(bytes),
            _ => None,
        })
        .flat_map(|bytes| Packet::decode(&bytes).expect("decodes").messages)
        .collect();
    assert!(told.iter().any(is_introduction) && !told.iter().any(is_unreachable), "{told:?}");
}
