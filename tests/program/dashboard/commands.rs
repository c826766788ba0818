//! Commands: offered to those who may give them, done after their effect was confirmed, and not before.

use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::browser::{Browser, key};
use super::cluster::{Cluster, THREE};
use super::page::Page;
use crate::support::{Agent, wait_for};

const WRITE: &str = "all-all-all-all-all";
const READ: &str = "read-read-read-read";

fn token(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("set");
}

#[test]
fn commands_are_hidden_until_a_token_that_permits_them_is_given() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let [all, read, config] = ["all", "read", "config.toml"].map(|name| folder.path().join(name));
    token(&all, WRITE);
    token(&read, READ);
    token(&config, &format!("[http]\ntoken_file = {all:?}\nread_token_file = {read:?}\n"));
    let first = Agent::start("a", &[], &["--config", config.to_str().expect("text")]);
    let second = Agent::start("b", &[&first.gossip], &[]);
    second.wait_for_up(&["a", "b"]);

    browser.visit(&format!("http://{}/dashboard#node=b", first.http));
    let page = Page::of(browser);
    page.until_shown("#token", true);
    assert_eq!(page.text("#verdict-text"), "Sign in to see");
    assert!(page.members().is_empty() && !page.shows("#open-actions"));
    page.picture("token");
    page.press("not-a-token-at-all");
    page.press(key::ENTER);
    page.until_text("#token-outcome", "does not take this token");
    page.run("document.getElementById('token-input').value = ''", &[]);
    page.press(READ);
    page.press(key::ENTER);
    page.until_shown("#token", false);
    page.until_live();
    page.until_text("#detail-title", "b");
    page.until_members(&["a up", "b up"]);
    page.until_text("#view-note", "live");
    assert!(!page.shows("#open-actions") && !page.shows("#detail-actions"), "it may only look");

    page.press(key::ESCAPE);
    page.until_shown("#detail", false);
    page.click("#open-token");
    page.press(WRITE);
    page.press(key::ENTER);
    page.until_shown("#token", false);
    page.until_shown("#open-actions", true);

    // Neither in the address, nor kept beyond the page.
    assert!(
        !page.is("(location.href + JSON.stringify(sessionStorage) + JSON.stringify(localStorage)).includes('all-all')")
    );
    page.reload();
    page.until_shown("#token", true);
    assert!(!page.shows("#open-actions"));
    let other: Vec<_> = page.console().into_iter().filter(|line| !line.contains("401")).collect();
    assert!(other.is_empty(), "the console has {other:#?}");
}

/// Chooses a command among the actions, and returns the effects that its dialog tells.
fn choose(page: &Page, command: &str) -> Vec<String> {
    page.click("#open-actions");
    page.click(&format!("#do-{command}"));
    page.until_shown("#confirm", true);
    page.list("#confirm-effects > li", "node.textContent")
}

fn json(agent: &Agent, words: &[&str]) -> Value {
    let (_, text) = agent.client(&[words, &["--format", "json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn drains(agent: &Agent) -> bool {
    json(agent, &["members"]).as_array().expect("a list").iter().any(|member| member["draining"] == true)
}

#[test]
fn a_drain_is_done_once_confirmed_is_marked_and_is_taken_back() {
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "expected=3");
    page.until_shown("#open-actions", true);
    let effects = choose(&page, "drain");
    assert!(effects.iter().any(|effect| effect.contains("never leads")), "{effects:?}");
    assert_eq!(page.value("document.activeElement.id"), "confirm-cancel", "Enter alone does nothing");
    page.picture("confirm");
    page.press(key::ENTER);
    page.until_shown("#confirm", false);
    assert!(!drains(&cluster.agents[0]), "it was not confirmed");

    choose(&page, "drain");
    page.click("#confirm-do");
    page.until_text("#confirm-outcome", "a is draining");
    assert!(drains(&cluster.agents[0]));
    page.click("#confirm-cancel");
    page.until_members(&["a draining", "b up", "c up"]);
    page.until_text("#chip-draining", "1");
    page.until_text("#verdict-why", "a is draining");
    page.until_text("#events", "a is draining");
    page.picture("draining");
    page.click("[data-id=a] .name");
    page.until_text("#detail-status", "draining");
    page.click("#detail-undrain");
    page.click("#confirm-do");
    page.until_text("#confirm-outcome", "is no longer draining");
    assert!(!drains(&cluster.agents[0]));
    page.assert_quiet();
}

#[test]
fn where_all_voters_drain_no_election_is_said_to_be_under_way() {
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "expected=3");
    for agent in &cluster.agents {
        let (status, said) = agent.client(&["drain"]);
        assert!(status.success(), "{said}");
    }
    page.until_text("#leader-note", "no election is due: all voters that are up drain (a, b and c)");
    page.assert_quiet();
}

#[test]
fn leadership_is_given_up_once_confirmed() {
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "");
    page.until_shown("#open-actions", true);
    let (leader, term) = cluster.leader();
    let effects = choose(&page, "resign");
    assert!(effects.iter().any(|effect| effect.contains("Another voter is elected")), "{effects:?}");
    assert!(page.text("#confirm-title").contains(&leader));
    page.click("#confirm-do");
    page.until_shown("#confirm-do", false);
    page.until("it was done", "document.getElementById('confirm-outcome').dataset.level === 'up'");
    page.click("#confirm-cancel");
    page.until_text("#events", &format!("{leader} no longer leads, term {term}"));
    page.until_text("#events", "it gave leadership up");
    let (next, later) = wait_for("somebody leads", || Some(cluster.leader()).filter(|(_, now)| *now > term));
    page.until_text("#leader-value", &next);
    page.until_text("#leader-note", &format!("term {later}"));
    page.assert_quiet();
}

#[test]
fn the_dead_are_removed_on_confirmation_and_the_living_once_their_name_is_typed() {
    let Some(browser) = Browser::start() else { return };
    let mut cluster = Cluster::start();
    cluster.agents[2].signal(Signal::SIGKILL);
    let page = Page::open(browser, &cluster.agents[0].http, "");
    page.until_members(&["c down", "a up", "b up"]);
    page.until_shown("#open-actions", true);
    page.click("[data-id=c] .name");
    page.until_shown("#detail-remove", true);
    page.click("#detail-remove");
    page.until_text("#confirm-effects", "no longer counts as down");
    page.click("#confirm-do");
    page.until_text("#confirm-outcome", "Removed");
    page.click("#confirm-cancel");
    page.until_text("#detail-status", "left");
    page.click("#detail-close");
    page.until_members(&["a up", "b up"]);
    page.until_text("#verdict-why", "c left");

    page.click("[data-id=b] .name");
    page.click("#detail-remove");
    page.until_text("#confirm-effects", "will end with exit code 6");
    assert!(page.is("document.getElementById('confirm-do').disabled"), "its name was not typed");
    page.press("bb");
    assert!(page.is("document.getElementById('confirm-do').disabled"), "another name was typed");
    page.run("document.getElementById('confirm-input').value = ''", &[]);
    page.press("b");
    assert!(cluster.agents[1].is_running());
    page.click("#confirm-do");
    page.until_text("#confirm-outcome", "emoved");
    assert_eq!(cluster.agents[1].wait().code(), Some(6));
    page.until("b has left", "!document.querySelector('#member-rows [data-id=b]')");
    page.assert_quiet();
}

#[test]
fn a_node_that_was_told_to_leave_has_left_and_the_page_says_so() {
    let Some(browser) = Browser::start() else { return };
    let mut cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "");
    page.until_shown("#open-actions", true);
    page.until_members(&THREE.map(|name| format!("{name} up")).each_ref().map(String::as_str));
    let effects = choose(&page, "leave");
    assert!(effects.iter().any(|effect| effect.contains("this page loses its agent")), "{effects:?}");
    page.click("#confirm-do");
    page.until_text("#confirm-outcome", "a is leaving");
    assert_eq!(cluster.agents[0].wait().code(), Some(0));
    page.click("#confirm-cancel");
    page.until_shown("#banner", true);
    page.until_text("#banner-title", "a has left, and its process ended.");
}

#[test]
fn a_command_that_is_refused_says_why_and_may_be_tried_again() {
    let Some(browser) = Browser::start() else { return };
    let agent = Agent::start("a", &[], &[]);
    let page = Page::open(browser, &agent.http, "");
    page.until_shown("#open-actions", true);
    choose(&page, "join");
    page.press("127.0.0.1:1");
    page.click("#confirm-do");
    page.until_text("#confirm-outcome", "Nobody answered: ");
    page.until_text("#confirm-outcome", "Try: check that an agent runs there");
    assert_eq!(page.value("document.getElementById('confirm-outcome').dataset.level"), "down");
    assert!(page.shows("#confirm-do") && !page.is("document.getElementById('confirm-do').disabled"));
}

#[test]
fn a_join_that_is_answered_says_who_did() {
    let Some(browser) = Browser::start() else { return };
    let (first, second) = (Agent::start("a", &[], &[]), Agent::start("b", &[], &[]));
    let page = Page::open(browser, &first.http, "");
    page.until_shown("#open-actions", true);
    choose(&page, "join");
    page.press(&second.gossip);
    page.click("#confirm-do");
    page.until_text("#confirm-outcome", &format!("{}: b", second.gossip));
    assert_eq!(page.value("document.getElementById('confirm-outcome').dataset.level"), "up");
    page.until_members(&["a up", "b up"]);
}
