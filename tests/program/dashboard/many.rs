//! A thousand members: the page stays quick, and what it cannot see it says.

use std::time::{Duration, Instant};

use serde_json::json;

use super::browser::{Browser, key};
use super::crowd::Crowd;
use super::page::Page;
use crate::support::Agent;

const MANY: usize = 1_000;
/// The time that events go on for.
const STORM: Duration = Duration::from_secs(5);
/// The pause between two events of the storm.
const PAUSE: Duration = Duration::from_millis(20);
/// A page that does not answer for so long seems to hang.
const HANGING_MS: f64 = 1_000.0;
/// Storms in one of which the page must not hang: machines differ, and this one may be busy.
const TRIES: usize = 3;

#[test]
fn a_thousand_members_and_fifty_events_a_second_leave_the_page_quick() {
    let Some(browser) = Browser::start() else { return };
    let agent = Agent::start("a", &[], &[]);
    let crowd = Crowd::before(&agent, MANY);
    let page = Page::open(browser, &crowd.http, "");
    page.until_text("#verdict-text", "1,000 of 1,000 up");
    assert!(page.members().len() < 60, "only the rows in sight are in the page");
    let record = "window.tasks = []; new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((task) => task.duration))) \
        .observe({ type: 'longtask' }); window.frames_seen = 0; const count = () => { window.frames_seen += 1; requestAnimationFrame(count); }; count();";
    page.run(record, &[]);

    // A browser that begins takes both cores of a small machine for a while; a page that hangs does so each time.
    let mut longest = Vec::new();
    while longest.iter().all(|longest| *longest >= HANGING_MS) {
        assert!(longest.len() < TRIES, "the page did not answer for {longest:?} ms");
        longest.push(storm(&page, &crowd));
    }
    page.until("the search has been typed", "document.getElementById('search').value === 'worker-9'");
    // worker-9, -90 to -99, -900 to -999.
    page.until_text("#members-shown", "111 of 1,000 shown");
    page.press(key::TAB);
    assert!(page.members().len() < 60);
    page.assert_quiet();
}

/// Has many events come while somebody types and scrolls, all members in the list at first. Returns the longest time for
/// which the page did not answer, in milliseconds.
fn storm(page: &Page, crowd: &Crowd) -> f64 {
    let afresh = "const search = document.getElementById('search'); search.value = ''; search.dispatchEvent(new Event('input')); search.blur(); \
        document.getElementById('members-scroll').scrollTop = 0";
    page.run(afresh, &[]);
    page.until_text("#members-shown", "1,000 members");
    page.press("/");
    let mut words = "worker-9".chars();
    page.run("window.tasks = []; window.frames_seen = 0", &[]);
    let began = Instant::now();
    for turn in 0.. {
        if began.elapsed() >= STORM {
            break;
        }
        let at = 1 + turn * 7 % (MANY - 1);
        match turn % 3 {
            0 => crowd.change(at, "node_suspected", &json!({ "status": "suspect", "method": "heartbeat_timeout" })),
            1 => crowd.change(at - 7 % at, "node_recovered", &json!({ "status": "up", "method": null })),
            _ => crowd.change(at, "node_updated", &json!({ "tags": { "turn": turn.to_string() } })),
        }
        if turn % 20 == 19 {
            if let Some(letter) = words.next() {
                page.press(&letter.to_string());
            }
            page.run("document.getElementById('members-scroll').scrollTop += 300", &[]);
        }
        std::thread::sleep(PAUSE);
    }
    let lasted = began.elapsed().as_millis();
    let tasks: Vec<f64> = serde_json::from_value(page.value("window.tasks")).expect("numbers");
    let (blocked, longest) = (tasks.iter().sum::<f64>(), tasks.iter().copied().fold(0.0, f64::max));
    let frames = page.value("window.frames_seen").as_u64().expect("a number");
    println!(
        "{lasted} ms of events: {frames} frames, {} tasks over 50 ms, {blocked} ms in all, the longest {longest} ms",
        tasks.len()
    );
    words.for_each(|letter| page.press(&letter.to_string()));
    longest
}

#[test]
fn a_cut_is_said_loudly_until_it_is_over() {
    let Some(browser) = Browser::start() else { return };
    let agent = Agent::start("a", &[], &[]);
    let crowd = Crowd::before(&agent, 8);
    let page = Page::open(browser, &crowd.http, "");
    page.until_text("#verdict-text", "8 of 8 up");
    assert!(!page.shows("#partition"));
    let cut = ["worker-5", "worker-6", "worker-7"];
    crowd.judge("degraded", "cut", "this looks like a cut in the network: beyond it worker-5, worker-6 and worker-7");
    for at in 5..8 {
        crowd.change(at, "node_suspected", &json!({ "status": "suspect", "method": "heartbeat_timeout" }));
    }
    crowd.tell(
        json!({ "event": "partition_suspected", "node": null, "unreachable": cut, "reachable": ["a", "worker-1"] }),
    );
    for at in 5..8 {
        crowd.change(at, "node_detected_down", &json!({ "status": "down", "method": "network_partition" }));
    }
    page.until_shown("#partition", true);
    page.until_text("#partition-text", "Beyond it worker-5, worker-6 and worker-7");
    page.until_text("#partition-text", "Said at");
    page.until_text("#verdict-text", "5 of 8 up");
    page.until_text("#verdict-why", "a cut in the network");
    page.picture("partitioned");

    crowd.judge("well", "", "");
    for at in 5..8 {
        crowd.change(at, "node_joined", &json!({ "status": "up", "method": null }));
    }
    crowd.tell(json!({ "event": "partition_healed", "node": null, "unreachable": [], "reachable": cut }));
    page.until_shown("#partition", false);
    page.until_text("#verdict-text", "8 of 8 up");
    page.assert_quiet();
}
