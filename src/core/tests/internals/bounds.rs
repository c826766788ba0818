//! More tables at their bounds: what is asked, dialled, bootstrapped, remembered of others' reports and of commands.

use std::net::SocketAddr;
use std::time::Duration;

use super::alone::{Alone, member};
use super::net::{Net, address, id, ms};
use crate::connectivity::links::{Action, Failure};
use crate::counters::DropReason;
use crate::io::{Command, CommandError, Input, LinkEvent, LinkId, Output, Reply};
use crate::limits::{
    BOOTSTRAP_LIFE, CONTACT_TIMEOUT, CRASH_PATIENCE, FALLBACK_HEARTBEATS, LINK_LINGER, LINK_TIMEOUT,
    MANY_CRASHES_PATIENCE, MAX_ADDRESSES_PER_SEED, MAX_BOOTSTRAP_LINKS, MAX_PARTNERS, MAX_PENDING_COMMANDS,
    MAX_REMEMBERED_ADDRESSES, MAX_SEEDS, MIN_CRASH_PROBE_GAP, UNPROVEN_PROBE_INTERVAL,
};
use crate::member::{Record, Status};
use crate::settings::Profile;
use crate::time::Time;
use crate::view::Slot;
use crate::wire::{Header, PacketBuilder};

impl Alone {
    fn drops(&self) -> u64 {
        self.core.counters().dropped(DropReason::TableFull)
    }
}

#[test]
fn so_many_partners_that_do_not_answer_are_given_a_link() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..200, Status::Up);
    let strangers: Vec<_> = (0..200)
        .filter_map(|host| alone.core.view.slot_of_run(member(host, Status::Up).run))
        .filter(|slot| !alone.core.observers.observes(*slot))
        .take(MAX_PARTNERS + 1)
        .collect();
    assert_eq!(strangers.len(), MAX_PARTNERS + 1, "no neighbours");
    let patience = alone.core.view.record(strangers[0]).timing.heartbeat_interval() * FALLBACK_HEARTBEATS;
    let mut opened = Vec::new();
    for round in 0..2 {
        for slot in &strangers {
            let packet = alone.core.out().packet_to(*slot);
            alone.core.send_to_voter(*slot, packet);
        }
        opened = alone.outputs();
        opened.retain(|output| matches!(output, Output::OpenLink { .. }));
        assert!(round == 1 || opened.is_empty(), "each may answer first");
        alone.core.cx.now = alone.core.cx.now + patience;
    }
    assert_eq!(opened.len(), MAX_PARTNERS, "and not one more");
}

#[test]
fn a_partner_that_nothing_was_said_to_for_long_gives_way() {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
    for i in 0..60 {
        net.settings.observers = 4;
        net.add(&format!("n{i}"), i, &[0]);
    }
    // Recent members are observed for a while.
    net.run(Duration::from_secs(30));
    let now = net.now;
    let core = &mut net.nodes[3].core;
    core.cx.now = now;
    let mut others =
        (4..60).filter_map(|i| core.view.slot_of(&format!("n{i}"))).filter(|slot| !core.observers.observes(*slot));
    let others: Vec<_> = others.by_ref().take(MAX_PARTNERS + 1).collect();
    let second = Duration::from_secs(1);
    let mut opens = |slots: &[Slot], from: Time| {
        let mut opened = 0;
        for at in [from, from + ms(500)] {
            core.cx.now = at;
            for slot in slots {
                let packet = core.out().packet_to(*slot);
                core.send_to_voter(*slot, packet);
            }
            let outputs = std::iter::from_fn(|| core.poll());
            opened += outputs.filter(|output| matches!(output, Output::OpenLink { .. })).count();
        }
        opened
    };
    let (full, late) = others.split_at(MAX_PARTNERS);
    assert_eq!(opens(full, now), MAX_PARTNERS);
    assert_eq!(opens(late, now + second), 0, "one more has no place");
    assert_eq!(opens(late, now + second + LINK_LINGER), 1, "until the others are idle");
}

#[test]
fn so_many_bootstrap_links_stand_at_one_time() {
    let mut alone = Alone::with_teller();
    let open = |alone: &mut Alone, host: usize| {
        alone.core.out().open_bootstrap(address(host));
        let outputs = alone.outputs();
        outputs.iter().any(|output| matches!(output, Output::OpenLink { to, .. } if *to == address(host)))
    };
    for host in 0..MAX_BOOTSTRAP_LINKS {
        assert!(open(&mut alone, host), "{host}");
    }
    let before = alone.drops();
    assert!(!open(&mut alone, MAX_BOOTSTRAP_LINKS), "one more is not opened");
    assert_eq!((alone.core.paths.bootstrap.len(), alone.drops()), (MAX_BOOTSTRAP_LINKS, before + 1));
    alone.core.cx.now = alone.core.cx.now + BOOTSTRAP_LIFE / 4;
    assert!(open(&mut alone, MAX_BOOTSTRAP_LINKS), "until the others have lasted for a while");
    assert_eq!(alone.core.paths.bootstrap.len(), MAX_BOOTSTRAP_LINKS, "of which the oldest has given way");
    alone.core.cx.now = alone.core.cx.now + BOOTSTRAP_LIFE;
    assert!(open(&mut alone, 0), "until all of them are over");
    assert_eq!(alone.core.paths.bootstrap.len(), 1);
}

/// Hands in a frame over a connection that somebody opened, in a member's name; returns true if the connection is
/// closed.
fn is_dismissed(alone: &mut Alone, link: LinkId, cluster: &str, peer: &Record) -> bool {
    alone.sequence += 1;
    let header =
        Header { cluster: Header::cluster_hash(cluster), run: peer.run, sequence: alone.sequence, fingerprint: 0 };
    let bytes = PacketBuilder::new(&header, 1_400).finish();
    let event = LinkEvent::Frame { from: peer.address, bytes: &bytes };
    alone.core.handle(alone.now, Input::Link { link, event });
    alone.outputs().contains(&Output::CloseLink { link })
}

#[test]
fn an_unproven_link_speaks_in_the_name_of_one_member_that_lives_in_this_cluster() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..2, Status::Up);
    alone.told_of(2..3, Status::Down);
    let [one, other, dead] = [0, 1, 2].map(|host| member(host, Status::Up));
    assert!(is_dismissed(&mut alone, LinkId::Accepted(1), "other", &one), "another cluster's");
    assert!(is_dismissed(&mut alone, LinkId::Accepted(2), "test", &dead), "who is down");
    let link = LinkId::Accepted(3);
    assert!(!is_dismissed(&mut alone, link, "test", &one));
    assert!(is_dismissed(&mut alone, link, "test", &other), "in another name now");
}

#[test]
fn an_unproven_link_that_proves_nothing_is_dismissed_in_the_end() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let link = LinkId::Accepted(1);
    assert!(!is_dismissed(&mut alone, link, "test", &member(0, Status::Up)));
    let began = alone.now;
    let mut dismissed_after = None;
    while dismissed_after.is_none() && alone.now.since(began) < LINK_TIMEOUT * 2 {
        alone.now = alone.now + UNPROVEN_PROBE_INTERVAL / 2;
        alone.core.handle(alone.now, Input::Tick);
        if alone.outputs().contains(&Output::CloseLink { link }) {
            dismissed_after = Some(alone.now.since(began));
        }
    }
    let after = dismissed_after.expect("it is closed");
    assert!((LINK_TIMEOUT..=LINK_TIMEOUT + UNPROVEN_PROBE_INTERVAL).contains(&after), "{after:?}");
}

#[test]
fn so_many_commands_wait_for_their_answers() {
    let mut net = Net::cluster(Profile::Local, 1);
    let join = |ticket| Command::Join { ticket, addresses: vec![address(60)] };
    for ticket in 0..MAX_PENDING_COMMANDS as u64 {
        net.command(0, join(ticket));
    }
    assert_eq!(net.nodes[0].replies, []);
    net.command(0, join(1 << 32));
    assert_eq!(net.nodes[0].replies, [Reply::Refused(CommandError::Busy)], "one more is told to come again");
    net.run(CONTACT_TIMEOUT + ms(1));
    assert_eq!(net.nodes[0].replies.len(), 1 + MAX_PENDING_COMMANDS, "all the others are answered");
    net.command(0, join(1 << 33));
    assert_eq!(net.nodes[0].replies.len(), 1 + MAX_PENDING_COMMANDS, "there is room again");
}

#[test]
fn so_many_addresses_are_remembered() {
    let mut alone = Alone::with_teller();
    let many = |count: usize| (0..count).map(address).collect::<Vec<_>>();
    for (count, kept) in [(MAX_REMEMBERED_ADDRESSES, MAX_REMEMBERED_ADDRESSES), (MAX_REMEMBERED_ADDRESSES + 1, 256)] {
        alone.core.reunion.remember(many(count).into_iter());
        assert_eq!(alone.core.reunion.remembered().len(), kept);
        assert_eq!(
            crate::discovery::Reunion::new(crate::random::stream(1, crate::random::Stream::Reunion), 0, many(count))
                .remembered()
                .len(),
            kept,
            "from the disk"
        );
    }
}

#[test]
fn so_many_seeds_have_so_many_addresses() {
    let mut alone = Alone::with_teller();
    let seeds = |seeds: usize, addresses: usize| -> Vec<Vec<SocketAddr>> {
        (0..seeds).map(|seed| (0..addresses).map(|i| address(seed * 100 + i)).collect()).collect()
    };
    for (names, addresses) in [(MAX_SEEDS, MAX_ADDRESSES_PER_SEED), (MAX_SEEDS + 1, MAX_ADDRESSES_PER_SEED + 1)] {
        alone.core.reunion.set_seeds(seeds(names, addresses));
        assert_eq!(alone.core.reunion.seeds().len(), MAX_SEEDS * MAX_ADDRESSES_PER_SEED);
    }
}

#[test]
fn so_many_addresses_are_known_as_this_nodes_own() {
    let mut alone = Alone::new(0);
    for host in 0..=MAX_SEEDS * MAX_ADDRESSES_PER_SEED {
        alone.core.reunion.note_own_address(address(host));
    }
    assert_eq!(alone.core.reunion.size(), MAX_SEEDS * MAX_ADDRESSES_PER_SEED);
}

#[test]
fn a_second_observer_is_awaited_for_so_long_and_longer_where_others_may_be_gone_too() {
    // Among few, everybody observes everybody; among many, an unresponsive neighbour is walked past, and others may be
    // unresponsive.
    for (members, patience) in [(3, CRASH_PATIENCE), (200, MANY_CRASHES_PATIENCE)] {
        let mut alone = Alone::with_teller();
        alone.told_of(0..members, Status::Up);
        let of_host =
            |alone: &Alone, host| alone.core.view.slot_of_run(member(host, Status::Up).run).expect("a member");
        let neighbour =
            (0..members).find(|host| alone.core.observers.observes(of_host(&alone, *host))).expect("a neighbour");
        let run = member(neighbour, Status::Up).run;
        let began = alone.core.cx.now;
        alone.core.act_on_link(run, vec![Action::Failed { how: Failure::Refused, is_first: true }]);
        alone.outputs();
        while alone.core.crashes.is_case(run) {
            alone.now = alone.core.next_deadline().expect("a case has a timer");
            assert!(alone.now.since(began) < std::time::Duration::from_secs(8), "{members}");
            alone.core.handle(alone.now, Input::Tick);
            alone.outputs();
        }
        assert_eq!(
            alone.now.since(began),
            MIN_CRASH_PROBE_GAP * (3 + patience),
            "{members}: three probes, and so long"
        );
    }
}
