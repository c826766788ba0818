//! Looks: narrow screens, light and dark, and what people need who cannot see or cannot use a mouse.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::browser::Browser;
use super::cluster::Cluster;
use super::page::Page;
use crate::support::{Agent, skip};

/// The checker of accessibility. Its licence (MPL-2.0) is why it is fetched, and not kept here.
const AXE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/axe-core/package/axe.min.js");
/// The sum that tells that it is the version which these tests were written with.
const AXE_SUM: &str = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c";
/// The width of the narrowest screens that the page is made for.
const NARROW: u32 = 360;

/// Reads the checker; `None`, with a reason printed, where it is missing.
fn axe() -> Option<String> {
    let Ok(script) = std::fs::read_to_string(AXE) else {
        skip(&format!("no axe-core at {AXE} (the step \"tools\" of .ci/run fetches it)"));
        return None;
    };
    let output = Command::new("sha256sum").arg(Path::new(AXE)).output().expect("sha256sum runs");
    let sum = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(sum.starts_with(AXE_SUM), "{AXE} is another version: {sum}");
    Some(script)
}

/// Fails with all that the checker finds wrong on the page as it is.
fn assert_accessible(page: &Page, axe: &str, state: &str) {
    if !page.is("window.axe") {
        page.run(axe, &[]);
    }
    let check = "return axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.flatMap(({ id, help, nodes }) => \
        nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html}: ${failureSummary}`)))";
    let found: Vec<String> = serde_json::from_value(page.run(check, &[])).expect("texts");
    assert!(found.is_empty(), "{state}: {found:#?}");
}

/// Fails if something in the page needs scrolling sideways, or begins or ends beyond the window.
fn assert_fits(page: &Page, state: &str) {
    let width = page.value("innerWidth");
    page.picture(&format!("{state}-{width}"));
    let wide = "[document.documentElement, ...document.querySelectorAll('.scroll, dialog[open]')].filter((node) => { \
        const { left, right } = node.getBoundingClientRect(); \
        return node.scrollWidth > node.clientWidth || left < 0 || right > document.documentElement.clientWidth; \
        }).map((node) => `${node.id || node.tagName}: ${node.scrollWidth} in ${node.clientWidth}, from ${node.getBoundingClientRect().left}`)";
    assert_eq!(page.value(wide), json!([]), "{state} at {width}");
}

#[test]
fn narrow_screens_show_all_without_scrolling_sideways() {
    let Some(browser) = Browser::start() else { return };
    let first = Agent::start(
        "a-node-with-a-long-name.rack-17.zone-a.example.internal",
        &[],
        &["--tag", "zone=eu-central-1", "--tag", "rack=17"],
    );
    let second = Agent::start("b", &[&first.gossip], &["--tag", "role=database-of-many-things-with-a-long-value"]);
    let third = Agent::start("c", &[&first.gossip], &[]);
    third.wait_for_up(&[&first.name, "b", "c"]);
    first.wait_for_up(&[&first.name, "b", "c"]);
    second.signal(Signal::SIGKILL);
    browser.resize(NARROW, 780);
    let page = Page::open(browser, &first.http, "expected=4");
    page.until_shown("#open-actions", true);
    page.until("b is down", "document.querySelector('#member-rows [data-id=b][data-status=down]')");
    for width in [NARROW, 500, 768, 840, 1100, 1272, 1280] {
        page.resize(width, 780);
        page.until("it has the width", &format!("innerWidth === {width}"));
        assert_fits(&page, "page");
    }
    page.resize(NARROW, 780);
    page.run("document.getElementById('members').scrollIntoView()", &[]);
    assert_fits(&page, "members");
    page.click(&format!("[data-id='{}'] .name", first.name));
    page.until_shown("#detail", true);
    assert_fits(&page, "detail");
    page.click("#detail-leave");
    page.until_shown("#confirm", true);
    assert_fits(&page, "confirm");
    page.assert_quiet();
}

#[test]
fn dark_and_light_are_as_the_visitor_prefers() {
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "");
    let lightness = || -> u64 {
        let colour = page.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)");
        let parts: Vec<u64> = serde_json::from_value::<Vec<Value>>(colour)
            .expect("a colour")
            .iter()
            .filter_map(Value::as_u64)
            .take(3)
            .collect();
        parts.iter().sum::<u64>() / 3
    };
    for (scheme, is_light) in [("light", true), ("dark", false)] {
        page.prefer(scheme);
        page.until("it is as preferred", &format!("matchMedia('(prefers-color-scheme: {scheme})').matches"));
        assert_eq!(lightness() > 127, is_light, "{scheme}: {}", lightness());
        page.picture(scheme);
    }
    page.assert_quiet();
}

#[test]
fn nothing_bars_people_who_cannot_see_well_or_use_a_mouse() {
    let Some(axe) = axe() else { return };
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "expected=3");
    page.until_shown("#open-actions", true);
    page.until_text("#gauges", "Round trip");
    // Colours that are on their way are not judged.
    page.prefer("light");
    assert_accessible(&page, &axe, "healthy");
    page.prefer("dark");
    assert_accessible(&page, &axe, "healthy, dark");

    cluster.agents[2].signal(Signal::SIGKILL);
    page.until_members(&["c down", "a up", "b up"]);
    cluster.agents[1].client(&["drain"]);
    page.until_members(&["c down", "b draining", "a up"]);
    page.until("nothing moves", "document.getAnimations().length === 0");
    assert_accessible(&page, &axe, "degraded, dark");
    page.prefer("light");
    assert_accessible(&page, &axe, "degraded");
    page.click("#chip-down");
    page.resize(NARROW, 780);
    assert_accessible(&page, &axe, "filtered, narrow");
    page.resize(1280, 900);

    page.click("[data-id=c] .name");
    page.until_shown("#detail", true);
    assert_accessible(&page, &axe, "detail");
    page.click("#detail-remove");
    page.until_shown("#confirm", true);
    assert_accessible(&page, &axe, "confirmation");
    page.click("#confirm-cancel");
    page.click("#detail-close");
    page.click("#open-actions");
    page.until_shown("#actions", true);
    assert_accessible(&page, &axe, "actions");
    page.prefer("dark");
    assert_accessible(&page, &axe, "actions, dark");
    page.click("#actions-close");

    cluster.agents[0].signal(Signal::SIGKILL);
    page.until_shown("#banner", true);
    assert_accessible(&page, &axe, "silent, dark");
    page.prefer("light");
    assert_accessible(&page, &axe, "silent");
}
