//! A node's address changes while it runs.

use super::alone::Alone;
use super::net::address;
use crate::io::{Command, CommandError, Input, Output, Reply};

#[test]
fn a_move_that_is_under_way_when_a_node_joins_anew_is_answered() {
    let mut alone = Alone::with_teller();
    alone.core.handle(alone.now, Input::Command(Command::SetAddress { ticket: 7, address: address(99) }));
    alone.outputs();
    alone.core.rejoin();
    let refused = Reply::Refused(CommandError::NotReached { address: address(99) });
    assert!(alone.outputs().contains(&Output::Reply { ticket: 7, reply: refused }));
}
