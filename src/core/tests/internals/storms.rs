//! No storms: whatever answers at once, and whatever it answers, a joiner and its sponsor send a limited number of
//! packets.

use super::alone::{Alone, TELLER};
use super::net::address;
use crate::io::{Input, LinkEvent, Output};
use crate::limits::TOLD_INTERVAL;
use crate::member::Status;
use crate::wire::Message;

/// A process that was paused reads all at once how often it was held as gone meanwhile, by everybody who called it.
#[test]
fn however_often_a_node_hears_at_one_moment_that_it_is_gone_it_tells_each_of_its_calls_once() {
    const CALLS: usize = 5;
    let mut alone = Alone::with_teller();
    (0..CALLS).for_each(|host| alone.core.out().open_bootstrap(address(host)));
    for output in alone.outputs() {
        if let Output::OpenLink { link, .. } = output {
            alone.core.handle(alone.now, Input::Link { link, event: LinkEvent::Connected });
            alone.outputs();
        }
    }
    let told = |alone: &mut Alone, incarnation| {
        let run = alone.core.me().run;
        let before = alone.core.counters().frames_sent;
        alone.hand_in(address(19_999), TELLER, |packet| {
            packet.push(&Message::HeldStatus { run, incarnation, status: Status::Down, age_ms: 0 });
        });
        (alone.core.counters().frames_sent - before) as usize
    };
    let incarnation = alone.core.me().incarnation;
    assert_eq!(told(&mut alone, incarnation), CALLS);
    for _ in 0..100 {
        assert_eq!(told(&mut alone, incarnation), 0, "they have just been told");
    }
    assert_eq!(told(&mut alone, incarnation + 1), CALLS, "of another incarnation they have not");
    alone.pass(TOLD_INTERVAL);
    assert_eq!(told(&mut alone, incarnation + 1), CALLS, "they may not have believed it yet");
}
