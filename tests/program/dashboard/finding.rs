//! Search, filters and details: kept in the address, and reached by the keyboard alone.

use nix::sys::signal::Signal;

use super::browser::{Browser, key};
use super::cluster::Cluster;
use super::page::Page;

/// The most times that Tab is pressed on the way to something.
const MOST_TABS: usize = 25;

#[test]
fn search_filter_and_order_are_kept_in_the_address_and_come_back_after_a_reload() {
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    cluster.agents[1].client(&["tags", "zone=eu-1"]);
    cluster.agents[2].signal(Signal::SIGKILL);
    let page = Page::open(browser, &cluster.agents[0].http, "expected=3");
    page.until_members(&["c down", "a up", "b up"]);

    page.press("/");
    page.press("zone=eu");
    page.until_members(&["b up"]);
    page.until_text("#members-shown", "1 of 3 shown");
    assert_eq!(page.value("location.hash"), "#expected=3&q=zone=eu");
    page.reload();
    page.until_live();
    page.until_members(&["b up"]);
    assert_eq!(page.value("document.getElementById('search').value"), "zone=eu");
    page.run(
        "const search = document.getElementById('search'); search.value = ''; search.dispatchEvent(new Event('input'))",
        &[],
    );
    page.until_members(&["c down", "a up", "b up"]);

    page.click("#chip-down");
    page.until_members(&["c down"]);
    page.choose("order", "name");
    assert_eq!(page.value("location.hash"), "#expected=3&status=down&order=name");
    page.reload();
    page.until_live();
    page.until_members(&["c down"]);
    assert_eq!(page.list(".chip[aria-pressed=true]", "node.id"), ["chip-down"]);
    page.click("#chip-down");
    page.until_members(&["a up", "b up", "c down"]);
    assert_eq!(page.value("document.getElementById('order').value"), "name");

    // By hand, and by the buttons of the browser.
    page.run("location.hash = '#q=nobody'", &[]);
    page.until_text("#members-empty", "No member fits");
    page.assert_quiet();
}

#[test]
fn events_are_filtered_by_type_and_cause_and_the_filter_is_kept() {
    let Some(browser) = Browser::start() else { return };
    let mut cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "");
    let kinds = || page.list("#events > li", "node.dataset.event");
    page.until(
        "what was before is told too",
        "document.querySelector('#events [data-event=node_joined][data-node=c]')",
    );
    drop(cluster.agents.pop());
    page.until("a death", "document.querySelector('#events [data-event=node_detected_down][data-node=c]')");

    let times = page.list("#events time", "node.dateTime");
    assert!(times.is_sorted_by(|newer, older| newer >= older), "newest first: {times:?}");

    page.choose("kind", "failures");
    page.until("only failures", "!document.querySelector('#events [data-event=node_joined]')");
    assert!(kinds().iter().all(|kind| kind.starts_with("node_") || kind.starts_with("quorum_")), "{:?}", kinds());
    page.choose("kind", "node_joined");
    page.until("only who joined", "!document.querySelector('#events [data-event=node_detected_down]')");
    assert!(kinds().len() >= 2 && kinds().iter().all(|kind| kind == "node_joined"), "{:?}", kinds());
    page.choose("kind", "");
    page.choose("cause", "connection_lost");
    page.until("the death alone", "document.querySelector('#events').children.length <= 2");
    assert_eq!(page.value("location.hash"), "#cause=connection_lost");
    page.reload();
    page.until_live();
    page.until(
        "the death is told again",
        "document.querySelector('#events [data-event=node_detected_down][data-node=c]')",
    );
    assert!(!kinds().contains(&"node_joined".to_owned()), "{:?}", kinds());
    page.choose("cause", "forced");
    page.until_text("#events-empty", "No event fits");
    page.assert_quiet();
}

#[test]
fn details_are_reached_and_left_by_the_keyboard_alone() {
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "");
    page.until_members(&["a up", "b up", "c up"]);
    let focused = || {
        page.value("document.activeElement.id || document.activeElement.textContent.slice(0, 30)")
            .as_str()
            .map(str::to_owned)
    };

    page.press(key::TAB);
    assert_eq!(focused().as_deref(), Some("skip"), "the first stop leads past the header");
    page.press(key::ENTER);
    assert_eq!(focused().as_deref(), Some("main"));
    let mut stops = Vec::new();
    while !page.is("document.activeElement.closest('#member-rows')") {
        page.press(key::TAB);
        stops.push(focused());
        assert!(stops.len() < MOST_TABS, "no member among {stops:?}");
        assert!(page.is("document.activeElement.matches(':focus-visible')"), "{stops:?}");
    }
    assert!(stops.iter().flatten().any(|stop| stop == "search"), "{stops:?}");
    assert_eq!(focused().as_deref(), Some("a"));
    page.press(key::DOWN);
    assert_eq!(focused().as_deref(), Some("b"));
    page.press(key::ENTER);
    page.until_shown("#detail", true);
    assert_eq!(page.text("#detail-title"), "b");
    assert_eq!(page.value("location.hash"), "#node=b");
    let run = page.list("#detail-record > div", "node.innerText.replace(/\\s+/g, ' ')");
    let (_, info) = cluster.agents[1].client(&["info", "--format", "json"]);
    let info: serde_json::Value = serde_json::from_str(&info).expect("json");
    for (row, key) in [("Run", "run"), ("Address", "address"), ("Version", "version")] {
        let wanted = format!("{row} {}", info[key].as_str().expect("a text"));
        assert!(run.contains(&wanted), "{wanted:?} in {run:?}");
    }
    assert!(page.list("#detail-events > li", "node.dataset.node ?? ''").contains(&"b".to_owned()));
    // The dialog keeps the keyboard.
    for _ in 0..MOST_TABS {
        page.press(key::TAB);
        assert!(
            page.is("document.activeElement === document.body || document.activeElement.closest('#detail')"),
            "{:?}",
            focused()
        );
    }
    page.press(key::ESCAPE);
    page.until_shown("#detail", false);
    assert_eq!(focused().as_deref(), Some("b"), "the focus is where it was");
    assert_eq!(page.value("location.hash"), "");

    // An address with a node opens its detail.
    page.press(key::DOWN);
    page.press(key::ENTER);
    page.until_text("#detail-title", "c");
    page.reload();
    page.until_live();
    page.until_text("#detail-title", "c");
    page.assert_quiet();
}
