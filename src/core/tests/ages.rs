//! The time for which members have been gone, as those know who saw it and those who were told.

use std::time::Duration;

use super::net::{Net, address, id, ms};
use headcount_core::{Command, LeaveReason, Profile, Status};

/// Tolerance of a told age: it may be older by the time that it travels and by rounding, and as much younger.
const TOLERANCE: Duration = Duration::from_millis(50);

fn gone_for(net: &Net, observer: usize, name: &str) -> Option<Duration> {
    net.nodes[observer].core.observation(&id(name)).and_then(|seen| seen.gone_for)
}

#[track_caller]
fn assert_same_age(net: &Net, told: usize, witness: usize, name: &str) {
    // Everybody's clock stands where it was at its last input.
    let age = gone_for(net, told, name).expect("it is gone");
    let truth = gone_for(net, witness, name).expect("it is gone");
    assert!(age.abs_diff(truth) <= TOLERANCE + net.settings.heartbeat_interval, "{age:?} is told, {truth:?} it is");
    assert!(truth >= ms(10_000), "{truth:?}: the age shows that it is old news");
}

#[test]
fn a_member_that_falls_silent_is_gone_since_its_last_sign_of_life() {
    let mut net = Net::cluster(Profile::Local, 3);
    for name in ["n0", "n1", "n2", "nobody"] {
        assert_eq!(gone_for(&net, 0, name), None, "{name} is not gone");
    }
    let killed = net.now;
    net.kill(2);
    net.run_until(Duration::from_secs(30), "n2 is suspected", |net| net.status(0, "n2") == Some(Status::Suspect));
    assert_eq!(gone_for(&net, 0, "n2"), None, "who is suspected is not gone");
    net.run_until(Duration::from_secs(30), "n2 is down", |net| net.status(0, "n2") == Some(Status::Down));
    let age = gone_for(&net, 0, "n2").expect("it is gone");
    let since_death = net.now.since(killed);
    assert!(age >= since_death.saturating_sub(ms(1)), "{age:?} for a death {since_death:?} ago");
    assert!(age <= since_death + net.settings.heartbeat_interval, "{age:?} for a death {since_death:?} ago");
    net.run(Duration::from_secs(5));
    assert!(gone_for(&net, 0, "n2").is_some_and(|later| later > age + ms(4_000)), "and it grows");
}

#[test]
fn a_joiner_learns_with_the_view_how_long_the_dead_and_the_departed_have_been_gone() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.command(3, Command::Leave);
    net.kill(4);
    net.run(Duration::from_secs(20));
    let late = net.add("late", 9, &[0]);
    net.run_until(ms(1_000), "the joiner is up", |net| net.nodes[late].core.is_up());
    assert_eq!(net.status(late, "n3"), Some(Status::Left(LeaveReason::Graceful)));
    assert_eq!(net.status(late, "n4"), Some(Status::Down));
    for name in ["n3", "n4"] {
        assert_same_age(&net, late, 0, name);
    }
}

#[test]
fn islands_that_merge_learn_by_sync_how_long_the_dead_of_the_other_have_been_gone() {
    let mut net = Net::new(Profile::Local);
    for (name, host, seeds) in [("a0", 0, vec![]), ("a1", 1, vec![0]), ("b0", 2, vec![]), ("b1", 3, vec![2])] {
        net.add(name, host, &seeds);
    }
    net.run(Duration::from_secs(3));
    net.kill(1);
    net.run(Duration::from_secs(20));
    net.command(2, Command::Join { ticket: 1, addresses: vec![address(0)] });
    net.run_until(Duration::from_secs(30), "the islands are one", Net::all_agree);
    for told in [2, 3] {
        assert_eq!(net.status(told, "a1"), Some(Status::Down));
        assert_same_age(&net, told, 0, "a1");
    }
}
