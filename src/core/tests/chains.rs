//! Moves in a row, and moves where packets are lost: a node takes one address, and another one before all that follows
//! from the first is settled.

use std::time::Duration;

use super::net::*;
use headcount_core::*;

const SECOND: Duration = Duration::from_secs(1);
/// The time in which everybody knows where everybody is, after the last one noticed that it is elsewhere.
const SOON: Duration = Duration::from_secs(2);

/// Returns a number below `most`, drawn by these.
fn lot(seed: u64, nth: u64, most: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&[seed.to_le_bytes(), nth.to_le_bytes()].concat()) % most
}

/// Has two nodes take each other's addresses, and notice that when their drivers look, so long after.
fn exchange(net: &mut Net, [one, other]: [usize; 2], notices: [Duration; 2]) {
    let hosts = [net.nodes[one].address, net.nodes[other].address];
    for (node, address) in [(one, hosts[1]), (other, hosts[0])] {
        net.rehouse_to(node, address);
    }
    let mut turns = [(notices[0], one), (notices[1], other)];
    turns.sort_unstable();
    let mut passed = Duration::ZERO;
    for (at, node) in turns {
        net.run(at - passed);
        passed = at;
        let address = net.nodes[node].address;
        net.command(node, Command::SetAddress { ticket: 1, address });
    }
}

/// Returns what is held otherwise than it is, and by whom.
fn wrong(net: &Net) -> Vec<String> {
    let pairs = net.running().flat_map(|observer| net.running().map(move |other| (observer, other)));
    let wrong = pairs.filter_map(|(observer, other)| {
        let held = observer.core.record(&other.core.me().id)?;
        let is_right = (held.address, held.status) == (other.address, Status::Up);
        (!is_right).then(|| {
            let (by, of) = (&observer.core.me().id, &held.id);
            format!("{by}: {of} {} at {}, is at {}", held.status, held.address, other.address)
        })
    });
    wrong.collect()
}

/// Runs until everybody knows where everybody is; returns the time that it took, or what is wrong in the end.
fn converges(net: &mut Net, within: Duration) -> Result<Duration, Vec<String>> {
    let since = net.now;
    while !wrong(net).is_empty() {
        if net.now.since(since) >= within {
            return Err(wrong(net));
        }
        net.run(ms(5));
    }
    Ok(net.now.since(since))
}

/// Returns the members that were held as dead meanwhile, and by whom.
fn deaths(net: &Net) -> Vec<String> {
    let is_death = |kind: ChangeKind| matches!(kind, ChangeKind::DetectedDown(_) | ChangeKind::Left(_));
    let told = net.running().flat_map(|node| node.changes.iter().map(move |told| (node, told)));
    let told = told.filter(|(_, (_, change))| is_death(change.kind));
    told.map(|(node, (at, change))| format!("{}: {} {:?} {at:?}", node.core.me().id, change.record.id, change.kind))
        .collect()
}

#[test]
fn exchanges_in_a_row_leave_nobody_apart() {
    let mut failures = Vec::new();
    for profile in [Profile::Local, Profile::Lan, Profile::Default] {
        for seed in 0..12 {
            let mut net = Net::linked(profile, 6);
            net.run(SECOND * 60);
            net.forget_reports();
            net.shuffle_losses(seed);
            net.jitter = ms(2);
            for (nth, pair) in (0..).zip([[4, 5], [4, 3]]) {
                let most = 1_000.min(net.settings.suspect_timeout.as_millis() as u64 / 3);
                let notices = [lot(seed, 2 * nth, most), lot(seed, 2 * nth + 1, most)].map(ms);
                exchange(&mut net, pair, notices);
                match converges(&mut net, SOON) {
                    Ok(took) => eprintln!("{profile} {seed} {nth} {notices:?}: {took:?}"),
                    Err(wrong) => failures.push(format!("{profile} {seed} {nth} {notices:?}: {wrong:?}")),
                }
                net.run(ms(300));
            }
            net.run(net.settings.down_timeout);
            let gone = deaths(&net);
            if !gone.is_empty() {
                failures.push(format!("{profile} {seed}: {gone:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn moves_under_loss(one_in: u64, is_moved: bool) -> Vec<String> {
    let mut failures = Vec::new();
    for profile in [Profile::Local, Profile::Lan] {
        for seed in 0..10 {
            let mut net = Net::linked(profile, 7);
            net.run(SECOND * 60);
            net.forget_reports();
            net.shuffle_losses(seed);
            (net.drop_one_in, net.jitter) = (one_in, ms(2));
            net.run(SECOND * 5);
            for (nth, mover) in (0..).zip([4, 1, 5, 0]) {
                if is_moved {
                    net.rehouse(mover, 70 + nth);
                    let address = net.nodes[mover].address;
                    net.command(mover, Command::SetAddress { ticket: 1, address });
                    let within = net.settings.suspect_timeout;
                    match converges(&mut net, within) {
                        Ok(took) => eprintln!("{profile} {seed} {nth}: {took:?}"),
                        Err(wrong) => failures.push(format!("{profile} {seed} n{mover}: {wrong:?}")),
                    }
                }
                net.run(net.settings.down_timeout);
            }
            let gone = deaths(&net);
            if !gone.is_empty() {
                failures.push(format!("{profile} {seed}: {gone:?}"));
            }
        }
    }
    failures
}

#[test]
fn moves_where_a_fifth_of_the_datagrams_are_lost_accuse_nobody() {
    assert_eq!(moves_under_loss(5, true), [""; 0]);
}

#[test]
fn moves_where_half_of_the_datagrams_are_lost_accuse_nobody() {
    assert_eq!(moves_under_loss(2, false), [""; 0], "without moves");
    assert_eq!(moves_under_loss(2, true), [""; 0]);
}
