//! Tables at their bounds: full to the last place, and not one more.

use std::net::SocketAddr;

use super::alone::{Alone, TELLER, member};
use headcount_core::limits::{MAX_JOINERS, MAX_MEMBERS, MAX_NAME_PROBES};
use headcount_core::wire::Message;
use headcount_core::{DropReason, Record, Run, Status};

#[test]
fn a_view_holds_so_many_members_and_goes_on_learning_of_them() {
    let mut alone = Alone::with_teller();
    // The last one's place is still free.
    let others = MAX_MEMBERS - 2;
    alone.introduces(100_000..100_000 + others);
    assert_eq!(alone.core.counts()[Status::Up.index()], MAX_MEMBERS);
    assert_eq!(alone.core.counters().dropped(DropReason::TableFull), 0);
    let (one_more, known) = (member(1, Status::Up), Record { incarnation: 6, ..member(100_000, Status::Up) });
    alone.introduces(1..2);
    alone.told_by(TELLER, &[(None, known.clone())]);
    assert_eq!(alone.core.counters().dropped(DropReason::TableFull), 1);
    assert_eq!(alone.core.record(&one_more.id), None);
    assert_eq!(alone.core.record(&known.id).map(|record| record.incarnation), Some(6));
    assert_eq!(alone.core.counts()[Status::Up.index()], MAX_MEMBERS);
}

#[test]
fn who_is_joining_itself_remembers_so_many_that_asked_it() {
    let mut alone = Alone::new(1);
    for host in 0..MAX_JOINERS + 2 {
        let told = alone.joins(&member(host, Status::Joining));
        let [Message::NotUp { joiners, .. }] = told[..] else { panic!("{told:?}") };
        assert_eq!(joiners as usize, (host + 1).min(MAX_JOINERS));
    }
}

#[test]
fn so_many_names_are_asked_for_at_one_time() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..MAX_NAME_PROBES + 1, Status::Up);
    for host in 0..=MAX_NAME_PROBES {
        let mut newcomer = Record { incarnation: 6, ..member(host, Status::Joining) };
        let holder = newcomer.address;
        // Each of another network, so that nobody gives way to another one (see `shares`).
        let [.., high, low] = host.to_be_bytes();
        let at = SocketAddr::from(([20, high, low, 1], 7_117));
        (newcomer.run, newcomer.address) = (Run(0x20_0000 + host as u64), at);
        let challenge = alone.asks(&newcomer, None);
        let [(_, Message::Challenge { cookie, .. })] = challenge[..] else { panic!("{challenge:?}") };
        let sent = alone.asks(&newcomer, Some(cookie));
        let to = |at, what: fn(&Message) -> bool| sent.iter().any(|(to, message)| *to == at && what(message));
        assert!(to(newcomer.address, |message| matches!(message, Message::Wait { .. })), "{host}: {sent:?}");
        let is_probed = to(holder, |message| matches!(message, Message::WhoAreYou { .. }));
        assert_eq!(is_probed, host < MAX_NAME_PROBES, "{host}");
    }
}
