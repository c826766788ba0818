//! Memory per known member: bytes that stay allocated in the core; and the number of allocations in which the core
//! handles one packet.
//!
//! The bytes counted are those that were asked for; an allocator rounds each allocation up and adds its own header, so
//! the number of allocations is printed too. The budget is 250 bytes at 100,000 members.
//!
//! `cargo bench --bench memory`

mod crowd;

use std::collections::BTreeMap;
use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use headcount::Tags;
use headcount::core::Record;

use crowd::{Crowd, member};

fn main() {
    println!("{:>8}  {:26}  {:>13}  {:>18}  {:>11}", "members", "", "bytes/member", "allocations/member", "when heard");
    for (what, record) in [("name and address", member as fn(usize) -> Record), ("with 2 tags, API address", tagged)] {
        for members in [1_000, 10_000, 100_000] {
            let (known, heard) = cost(members, record);
            let per_member = |figure: i64| figure as f64 / (members - 1) as f64;
            println!(
                "{members:>8}  {what:26}  {:>13.1}  {:>18.1}  {:>11.1}",
                per_member(known.bytes_current),
                per_member(known.count_current),
                per_member(known.bytes_current + heard.bytes_current),
            );
        }
    }
    println!("\n{:34}  {:>13}  {:>13}", "one packet at 1,000 members", "allocations", "bytes");
    for (what, allocated) in packets(1_000) {
        println!("{what:34}  {:>13}  {:>13}", allocated.count_total, allocated.bytes_total);
    }
}

/// Returns a member with realistic tags.
fn tagged(i: usize) -> Record {
    let mut record = member(i);
    let tags = [("zone", "eu-1a"), ("role", "cache")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    record.tags = Tags::new(BTreeMap::from(tags)).expect("good tags");
    record.api_address = Some(format!("{}:8080", record.address.ip()).into());
    record
}

/// Measures the allocations that remain after learning of all members but the first, and after then hearing each of
/// them once.
fn cost(members: usize, record: fn(usize) -> Record) -> (AllocationInfo, AllocationInfo) {
    let mut crowd = Crowd::meeting((0..members).map(record).collect());
    let introductions = crowd.tell_of_all();
    let known = measure(|| {
        for datagram in &introductions {
            crowd.hand_in(datagram);
        }
        // By then the news has been spread, and gossip has begun its round.
        crowd.pass(Duration::from_secs(10));
    });
    crowd.assert_all_known();
    let heartbeats: Vec<_> = (1..members).map(|i| crowd.packet(i, [])).collect();
    let signs = crowd.core.counters().signs_of_life;
    let heard = measure(|| {
        for datagram in &heartbeats {
            crowd.hand_in(datagram);
        }
        crowd.pass(Duration::from_secs(10));
    });
    assert_eq!(crowd.core.counters().signs_of_life - signs, members as u64 - 1, "everybody was heard");
    (known, heard)
}

/// Measures all allocations, lasting or not, of handling one packet of a member that was heard before.
fn packets(members: usize) -> [(&'static str, AllocationInfo); 3] {
    let mut crowd = Crowd::of((0..members).map(member).collect());
    let handle = |crowd: &mut Crowd, updates| {
        let datagram = crowd.packet(0, 1..=updates);
        measure(|| crowd.hand_in(&datagram))
    };
    let empty = handle(&mut crowd, 0);
    let known = handle(&mut crowd, 10);
    for i in 1..=10 {
        crowd.change(i);
    }
    let new = handle(&mut crowd, 10);
    crowd.assert_all_known();
    [("empty", empty), ("10 known updates", known), ("10 new updates", new)]
}
