//! The machine by itself: each input in each state, its bounds, its pauses, and two of them whose links cross.

mod crossing;
mod histories;
mod transitions;

use std::net::SocketAddr;
use std::time::Duration;

use super::io::{Action, Failure, LinkFacts, NeighbourFacts, Parting, Pause, Wish};
use super::machine::Links;
use crate::io::LinkId;
use crate::member::Run;
use crate::time::Time;

const SECOND: Duration = Duration::from_secs(1);
/// The member that most tests are about.
const IT: Run = Run(7);
/// A connection that it opened.
const ITS: LinkId = LinkId::Accepted(70);

fn address(run: Run) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, run.0 as u8], 7117))
}

fn facts(wish: Wish, is_ours: bool) -> LinkFacts {
    LinkFacts { wish, address: address(IT), is_ours }
}

fn at(seconds: u64) -> Time {
    Time::ORIGIN + SECOND * seconds as u32
}

/// Returns the shortest and the longest that a pause may be.
fn range(pause: Pause) -> (Duration, Duration) {
    (pause.with(|| 0.0), pause.with(|| 1.0))
}

/// Returns the words for some actions, in order.
fn words(actions: &[Action]) -> String {
    let word = |action: &Action| match action {
        Action::Open(..) => "open",
        Action::Greet(_) => "greet",
        Action::Welcome(_) => "welcome",
        Action::Part(_, Parting::Over) => "part",
        Action::Part(_, Parting::TheyMoved | Parting::WeMoved) => "part-moved",
        Action::Close(_) => "close",
        Action::Wait(_) => "wait",
        Action::WaitAtMost(_) => "wait-at-most",
        Action::Rest => "rest",
        Action::Full => "full",
        Action::Broke => "broke",
        Action::Opened => "opened",
        Action::Reopening => "reopening",
        Action::Failed { how: Failure::Refused, .. } => "refused",
        Action::Failed { how: Failure::ClosedUnanswered, .. } => "unanswered",
        Action::Failed { how: Failure::LostAgain, .. } => "lost-again",
        Action::Failed { how: Failure::ProvesNothing, .. } => "failed",
        Action::Silent => "silent",
        Action::Moved => "moved",
        Action::Gone => "gone",
    };
    actions.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns the connection that some actions open.
fn opened(actions: &[Action]) -> Option<LinkId> {
    actions.iter().find_map(|action| if let Action::Open(link, _) = action { Some(*link) } else { None })
}

/// Returns the last pause that some actions plan.
fn pause(actions: &[Action]) -> Option<Pause> {
    actions.iter().rev().find_map(|action| match action {
        Action::Wait(pause) | Action::WaitAtMost(pause) => Some(*pause),
        _ => None,
    })
}
