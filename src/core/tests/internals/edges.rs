//! Limits of exchanges: the last packet, question or try that there is, and not one more.

use super::alone::{Alone, member, sent};
use super::net::{address, ms};
use crate::io::Input;
use crate::limits::{CATCH_UP_AFTER, CATCH_UP_RETRY, MAX_CATCH_UP_TRIES, MAX_SEEDS};
use crate::member::Status;
use crate::wire::Message;

#[test]
fn so_many_members_are_drawn_for_a_comparison_if_no_address_is_proven() {
    let mut alone = Alone::with_teller();
    alone.told_of(100_000..100_300, Status::Up);
    // Two comparisons, each after as many tries in vain.
    let tries = CATCH_UP_RETRY * (MAX_CATCH_UP_TRIES as u32 - 1);
    assert!(CATCH_UP_AFTER[0] + tries <= CATCH_UP_AFTER[1]);
    let over = CATCH_UP_AFTER[1] + tries;
    let begun = alone.now;
    alone.pass(over - ms(50));
    assert!(alone.core.gossip.is_catching_up(), "it has a try left");
    alone.pass(ms(100));
    assert!(!alone.core.gossip.is_catching_up(), "after {:?}", alone.now.since(begun));
}

#[test]
fn so_many_nodes_are_told_at_once_of_a_candidate_that_comes_first() {
    let mut alone = Alone::new(1);
    let seeds = (0..MAX_SEEDS).map(|seed| vec![address(30_000 + 2 * seed), address(30_001 + 2 * seed)]).collect();
    alone.core.handle(alone.now, Input::SeedAddresses(seeds));
    sent(&mut alone);
    for host in 0..MAX_SEEDS + 10 {
        alone.joins(&member(host, Status::Joining));
    }
    let core = &mut alone.core;
    let waiting = core.sponsor.joiners.all_waiting();
    core.joiner.tell_candidate(&mut outbox!(core), &core.reunion, &waiting);
    let told = sent(&mut alone);
    let count = |is: fn(&Message) -> bool| told.iter().filter(|(_, message)| is(message)).count();
    assert_eq!(count(|message| matches!(message, Message::NotUp { .. })), MAX_SEEDS, "of those that asked");
    let asked = count(|message| matches!(message, Message::Join { .. }));
    assert_eq!(asked, MAX_SEEDS, "of those that are asked");
}
