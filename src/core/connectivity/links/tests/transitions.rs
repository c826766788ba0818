//! Each input in each state; what failures, full tables and lost links lead to.

use super::*;
use crate::limits::{
    LINK_BACKOFF, LINK_COURTESY, LINK_FIRST_PAUSE, LINK_LINGER, LINK_MESH_SETTLE, LINK_NEWCOMER_COURTESY, LINK_SETTLE,
    LINK_TIMEOUT, MAX_LINK_BACKOFF, MAX_LINKS,
};

/// Where a link may stand: the columns of the table.
const STATES: [&str; 5] = ["idle", "opening", "greeting", "ours", "theirs"];

/// Returns links of which the one to [`IT`] is in this state, and its connection, or one that ended.
fn links_in(state: &str) -> (Links, LinkId) {
    let mut links = Links::default();
    links.came_up(at(0));
    if state == "theirs" {
        links.accept(at(1), IT, ITS, facts(Wish::Observed, false));
        return (links, ITS);
    }
    let link = opened(&links.ensure(IT, address(IT))).expect("there is room");
    match state {
        "idle" => drop(links.unlinked(IT, link)),
        "greeting" | "ours" => drop(links.connected(IT, link)),
        _ => {}
    }
    if state == "ours" {
        links.spoke(at(1), IT, Wish::Observed);
    }
    (links, link)
}

/// Returns the state of the link to [`IT`].
fn state(links: &Links) -> &'static str {
    match links.open(IT) {
        Some(LinkId::Opened(_)) => "ours",
        Some(LinkId::Accepted(_)) => "theirs",
        None if links.is_greeting(IT) => "greeting",
        None if links.is_idle(IT) => "idle",
        None => "opening",
    }
}

type Input = fn(&mut Links, LinkId) -> Vec<Action>;

const NEWS: NeighbourFacts = NeighbourFacts { is_ours: true, is_news: true, is_for_good: false };
const OTHER: LinkId = LinkId::Accepted(71);

/// Each input, and what it leads to in each of [`STATES`]: the actions, and the state if it is another one.
const TABLE: &[(&str, Input, [&str; 5])] = &[
    ("wanted", |links, _| links.wanted(at(9), IT, NEWS), ["wait-at-most", "", "", "", ""]),
    ("unwanted", |links, _| links.unwanted(IT), ["", "wait-at-most", "wait-at-most", "wait-at-most", "wait-at-most"]),
    ("ensured", |links, _| links.ensure(IT, address(IT)), ["wait open > opening", "", "", "", ""]),
    (
        "due, observed",
        |links, _| links.due(IT, Some(facts(Wish::Observed, true))),
        ["wait open > opening", "close wait failed > idle", "close wait failed > idle", "", ""],
    ),
    (
        "due, in passing",
        |links, _| links.due(IT, Some(facts(Wish::Passing, true))),
        ["wait open > opening", "close wait failed > idle", "close wait failed > idle", "wait", "wait"],
    ),
    (
        "due, theirs",
        |links, _| links.due(IT, Some(facts(Wish::Theirs, true))),
        ["rest gone", "rest part gone > idle", "rest part gone > idle", "rest part gone > idle", ""],
    ),
    (
        "due, nobody's",
        |links, _| links.due(IT, Some(facts(Wish::Nobody, true))),
        [
            "rest gone",
            "rest part gone > idle",
            "rest part gone > idle",
            "rest part gone > idle",
            "rest part gone > idle",
        ],
    ),
    (
        "due, gone",
        |links, _| links.due(IT, None),
        [
            "rest gone",
            "rest part gone > idle",
            "rest part gone > idle",
            "rest part gone > idle",
            "rest part gone > idle",
        ],
    ),
    ("connected", |links, link| links.connected(IT, link), ["", "greet > greeting", "", "", ""]),
    ("spoke, observed", |links, _| links.spoke(at(9), IT, Wish::Observed), ["", "", "rest opened > ours", "", ""]),
    ("spoke, in passing", |links, _| links.spoke(at(9), IT, Wish::Passing), ["", "", "wait opened > ours", "", ""]),
    (
        "accepted, the other opens",
        |links, _| links.accept(at(9), IT, OTHER, facts(Wish::Observed, false)),
        [
            "rest opened welcome > theirs",
            "close rest opened welcome > theirs",
            "part rest opened welcome > theirs",
            "part rest opened welcome > theirs",
            "part rest opened welcome",
        ],
    ),
    (
        "accepted, this one opens",
        |links, _| links.accept(at(9), IT, OTHER, facts(Wish::Observed, true)),
        [
            "rest opened welcome > theirs",
            "close rest opened welcome > theirs",
            "part",
            "part",
            "part rest opened welcome",
        ],
    ),
    (
        "accepted, not observed",
        |links, _| links.accept(at(9), IT, OTHER, facts(Wish::Theirs, false)),
        [
            "wait opened welcome > theirs",
            "close wait opened welcome > theirs",
            "part wait opened welcome > theirs",
            "part wait opened welcome > theirs",
            "part wait opened welcome",
        ],
    ),
    (
        "refused",
        |links, link| event(links, link, Links::refused),
        ["", "wait refused > idle", "wait refused > idle", "wait refused > idle", "wait refused > idle"],
    ),
    (
        "unreachable",
        |links, link| event(links, link, Links::unreachable),
        ["", "wait failed > idle", "wait failed > idle", "wait failed > idle", "wait failed > idle"],
    ),
    (
        "closed, observed",
        |links, link| event(links, link, |links, run| links.closed(at(9), run, Some(facts(Wish::Observed, true)))),
        [
            "",
            "wait unanswered > idle",
            "wait unanswered > idle",
            "broke wait open reopening > opening",
            "broke wait open reopening > opening",
        ],
    ),
    (
        "closed, not wanted",
        |links, link| event(links, link, |links, run| links.closed(at(9), run, Some(facts(Wish::Theirs, true)))),
        ["", "wait unanswered > idle", "wait unanswered > idle", "broke rest gone > idle", "broke rest gone > idle"],
    ),
    (
        "closed, gone",
        |links, link| event(links, link, |links, run| links.closed(at(9), run, None)),
        ["", "wait unanswered > idle", "wait unanswered > idle", "broke rest gone > idle", "broke rest gone > idle"],
    ),
    (
        "unlinked",
        |links, link| links.unlinked(IT, link),
        ["close", "wait close > idle", "wait close > idle", "wait close > idle", "wait close > idle"],
    ),
    (
        "garbled",
        |links, link| links.garbled(IT, link),
        [
            "close",
            "close wait failed > idle",
            "close wait failed > idle",
            "close wait failed > idle",
            "close wait failed > idle",
        ],
    ),
    (
        "denied",
        |links, link| event(links, link, |links, run| links.denied(run, link)),
        [
            "",
            "wait failed close > idle",
            "wait failed close > idle",
            "wait failed close > idle",
            "wait failed close > idle",
        ],
    ),
    (
        "forgotten",
        |links, _| links.forget(IT),
        [
            "rest gone",
            "rest part gone > idle",
            "rest part gone > idle",
            "rest part gone > idle",
            "rest part gone > idle",
        ],
    ),
    (
        "moved, wanted",
        |links, _| links.moved(IT, Parting::TheyMoved, facts(Wish::Observed, true), false),
        [
            "rest moved wait",
            "rest part-moved moved wait > idle",
            "rest part-moved moved wait > idle",
            "rest part-moved moved wait > idle",
            "rest part-moved moved wait > idle",
        ],
    ),
    (
        "moved, not wanted",
        |links, _| links.moved(IT, Parting::WeMoved, facts(Wish::Theirs, true), false),
        [
            "rest moved",
            "rest part-moved moved > idle",
            "rest part-moved moved > idle",
            "rest part-moved moved > idle",
            "rest part-moved moved > idle",
        ],
    ),
    (
        "silent",
        |links, _| links.silent(at(9), IT, address(IT), at(2), SECOND * 5),
        ["", "", "", "part silent wait open > opening", "part silent wait open > opening"],
    ),
    ("silent, not for long", |links, _| links.silent(at(9), IT, address(IT), at(5), SECOND * 5), ["", "", "", "", ""]),
];

/// Hands an event of a connection in, unless it is one that ended: those are nobody's.
fn event(links: &mut Links, link: LinkId, take: impl FnOnce(&mut Links, Run) -> Vec<Action>) -> Vec<Action> {
    links.run_of(link).map(|run| take(links, run)).unwrap_or_default()
}

#[test]
fn each_input_in_each_state_has_its_actions_and_its_next_state() {
    for (name, input, expected) in TABLE {
        for (before, expected) in STATES.into_iter().zip(expected) {
            let (mut links, link) = links_in(before);
            assert_eq!(state(&links), before);
            let actions = input(&mut links, link);
            let after = Some(state(&links)).filter(|after| *after != before);
            let found = format!("{}{}", words(&actions), after.map_or(String::new(), |after| format!(" > {after}")));
            assert_eq!(&found.trim_start(), expected, "{name}, {before}");
        }
    }
}

#[test]
fn a_number_of_a_link_that_ended_is_nobodys() {
    for state in STATES {
        let (mut links, link) = links_in(state);
        links.forget(IT);
        assert_eq!((links.run_of(link), links.size()), (None, 0), "{state}");
    }
}

#[test]
fn pauses_double_up_to_a_bound_and_a_link_in_use_forgives_them() {
    let (mut links, mut before) = (Links::default(), Duration::ZERO);
    let observed = Some(facts(Wish::Observed, true));
    for attempt in 0..12 {
        links.due(IT, observed);
        let actions = links.unreachable(IT);
        let (least, most) = range(pause(&actions).expect("the next attempt is planned"));
        let middle = (LINK_BACKOFF * 2_u32.pow(attempt)).min(MAX_LINK_BACKOFF);
        assert_eq!((least, most), (middle / 2, middle * 3 / 2), "attempt {attempt}");
        assert_eq!(actions[1], Action::Failed { how: Failure::ProvesNothing, is_first: attempt == 0 });
        assert!(least >= before, "ever later");
        before = least;
    }
    let link = opened(&links.due(IT, observed)).expect("opened");
    links.connected(IT, link);
    links.spoke(at(1), IT, Wish::Observed);
    links.unlinked(IT, link);
    links.ensure(IT, address(IT));
    assert_eq!(links.refused(IT)[1], Action::Failed { how: Failure::Refused, is_first: true });
}

#[test]
fn who_opens_a_link_and_how_soon_is_told_by_the_addresses_and_by_who_is_new() {
    let mut links = Links::default();
    links.came_up(at(10));
    let plan = |now, is_ours, is_news, is_for_good| {
        let actions = links.wanted(at(now), IT, NeighbourFacts { is_ours, is_news, is_for_good });
        range(pause(&actions).expect("planned"))
    };
    let (none, courtesy) = (Duration::ZERO, LINK_NEWCOMER_COURTESY);
    assert_eq!(plan(10, true, true, true), (LINK_FIRST_PAUSE, LINK_FIRST_PAUSE * 2), "this node is new");
    assert_eq!(plan(20, true, true, false), (none, LINK_SETTLE));
    assert_eq!(plan(20, true, true, true), (none, LINK_MESH_SETTLE), "it stays a neighbour");
    assert_eq!(plan(20, false, true, true), (courtesy, courtesy * 3 / 2), "it is new, and opens");
    assert_eq!(plan(20, false, false, true), (LINK_COURTESY, LINK_COURTESY + LINK_SETTLE), "it opens, at its leisure");
    assert_eq!(plan(10, false, true, true).0, LINK_COURTESY, "new to a newcomer is no newcomer");
}

#[test]
fn a_link_that_is_lost_again_within_a_moment_waits() {
    let (mut links, _) = links_in("ours");
    let lose = |links: &mut Links, now| links.closed(now, IT, Some(facts(Wish::Observed, true)));
    let stand = |links: &mut Links, now, opening: &[Action]| {
        links.connected(IT, opened(opening).expect("it is being opened"));
        links.spoke(now, IT, Wish::Observed);
    };
    let broken = lose(&mut links, at(5));
    assert_eq!(words(&broken), "broke wait open reopening");
    stand(&mut links, at(5), &broken);
    assert_eq!(words(&lose(&mut links, at(5))), "broke wait lost-again");
    let later = links.ensure(IT, address(IT));
    stand(&mut links, at(5) + LINK_BACKOFF, &later);
    assert_eq!(words(&lose(&mut links, at(5) + LINK_BACKOFF)), "broke wait open reopening", "a while later it may be");
}

#[test]
fn beyond_the_bound_nothing_is_opened_or_accepted_but_what_takes_the_place_of_another() {
    let mut links = Links::default();
    let run = |number: usize| Run(1_000 + number as u64);
    for number in 0..MAX_LINKS {
        assert_eq!(words(&links.ensure(run(number), address(IT))), "wait open");
    }
    assert_eq!(words(&links.ensure(IT, address(IT))), "full wait");
    assert_eq!(words(&links.due(IT, Some(facts(Wish::Observed, true)))), "full wait");
    assert_eq!(words(&links.accept(at(0), IT, ITS, facts(Wish::Observed, false))), "full part");
    let accepted = links.accept(at(0), run(3), ITS, facts(Wish::Observed, true));
    assert_eq!(words(&accepted), "close rest opened welcome", "in place of its own");
    links.forget(run(0));
    assert_eq!(words(&links.ensure(IT, address(IT))), "wait open", "there is room again");
}

#[test]
fn a_link_is_silent_if_nothing_came_by_it_for_long_enough_since_something_was_asked() {
    let is_silent = |heard: Option<u64>, now| {
        let (mut links, _) = links_in("ours");
        if let Some(heard) = heard {
            links.heard(at(heard), IT);
        }
        !links.silent(at(now), IT, address(IT), at(2), SECOND * 5).is_empty()
    };
    assert_eq!([is_silent(None, 6), is_silent(None, 7)], [false, true], "since it was asked");
    assert_eq!([is_silent(Some(3), 7), is_silent(Some(3), 8)], [false, true], "since it was heard");
    assert!(is_silent(Some(1), 7), "it was heard before it was asked");
}

#[test]
fn a_link_leads_to_the_address_that_it_was_opened_to_and_nowhere_else() {
    let (links, link) = links_in("ours");
    assert!(links.leads_to(IT, link, address(IT)) && !links.leads_to(IT, link, address(Run(8))));
    assert!(!links.leads_to(IT, ITS, address(IT)), "another connection");
    let (links, link) = links_in("theirs");
    assert!(links.leads_to(IT, link, address(IT)), "it proved that it is there");
    let (links, link) = links_in("greeting");
    assert!(!links.leads_to(IT, link, address(IT)), "not answered yet");
}

#[test]
fn a_link_that_moved_is_opened_soon_and_at_once_if_something_waits() {
    let next = |is_ours, is_urgent| {
        let (mut links, _) = links_in("ours");
        let actions = links.moved(IT, Parting::WeMoved, facts(Wish::Observed, is_ours), is_urgent);
        range(pause(&actions).expect("planned"))
    };
    assert_eq!(next(true, false), (LINK_FIRST_PAUSE, LINK_FIRST_PAUSE * 2));
    assert_eq!(next(false, false), (LINK_NEWCOMER_COURTESY, LINK_NEWCOMER_COURTESY * 3 / 2));
    assert_eq!(next(false, true), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn deadlines_are_those_of_the_limits() {
    let exact = |actions: &[Action]| pause(actions).map(|pause| range(pause).0);
    assert_eq!(exact(&Links::default().ensure(IT, address(IT))), Some(LINK_TIMEOUT));
    let (mut links, link) = links_in("theirs");
    assert_eq!(exact(&links.unwanted(IT)), Some(LINK_LINGER));
    assert_eq!(exact(&links.unlinked(IT, link)), Some(LINK_LINGER));
}
