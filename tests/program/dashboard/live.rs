//! The page tells what its agent sees, as it happens, and says so when it cannot.

use nix::sys::signal::Signal;

use super::browser::Browser;
use super::cluster::{Cluster, THREE};
use super::page::Page;
use crate::support::{Agent, own_address, wait_for};

/// The longest time between an agent's event and the page that shows it, in milliseconds.
const LATE_MS: f64 = 1_000.0;
/// Deaths of which all but one must be shown that soon, where the first one was not.
const TRIES: usize = 3;

#[test]
fn the_page_loads_under_its_policy_and_tells_verdict_members_leader_and_term() {
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    let (leader, term) = cluster.leader();
    let page = Page::open(browser, &cluster.agents[0].http, "expected=3");
    page.until_text("#verdict-text", "3 of 3 up");
    page.until_members(&["a up", "b up", "c up"]);
    page.until_text("#leader-value", &leader);
    page.until_text("#leader-note", &format!("term {term}"));
    page.until_text("#tolerance-value", "1 voter");
    // Who leads knows which voters vote; elsewhere that is not claimed.
    page.until_text("#tolerance-note", if leader == THREE[0] { "2 needed" } else { "if all of these vote" });
    page.until_text("#agreement-value", "all share it");
    page.until_text("#verdict-why", "Every expected member is up.");
    assert_eq!(page.value("document.title"), "3 of 3 up · headcount");
    let badges = page.list("#member-rows .badge-leader", "node.closest('[data-id]').dataset.id");
    assert_eq!(badges, [leader]);
    page.picture("healthy");

    page.visit(&format!("http://{}/dashboard#expected=5", cluster.agents[0].http));
    page.until_text("#verdict-text", "3 of 5 up");
    page.until_text("#verdict-why", "2 fewer than expected");
    page.until("the verdict is bad", "document.getElementById('verdict').dataset.level === 'down'");

    let foreign = "performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith(origin))";
    assert_eq!(page.value(foreign), serde_json::json!([]));
    page.assert_quiet();
}

#[test]
fn names_are_shown_without_the_end_that_all_of_them_share() {
    let Some(browser) = Browser::start() else { return };
    let first = Agent::start("a.rack-1.example.internal", &[], &[]);
    let second = Agent::start("b.rack-2.example.internal", &[&first.gossip], &[]);
    first.wait_for_up(&[&first.name, &second.name]);
    let page = Page::open(browser, &first.http, "");
    page.until_members(&["a.rack-1.example.internal up", "b.rack-2.example.internal up"]);
    page.until_text("#members-shown", "names without .example.internal");
    assert_eq!(page.list("#member-rows .name", "node.textContent"), ["a.rack-1", "b.rack-2"]);
    assert_eq!(page.list("#member-rows .name", "node.title"), [&*first.name, &second.name]);
    page.click("#events .who");
    page.until_shown("#detail", true);
    assert!(page.is("document.getElementById('detail-title').textContent.endsWith('.example.internal')"));
    page.click("#detail-close");

    let third = Agent::start("c", &[&first.gossip], &[]);
    page.until_text("#members-shown", "3 members");
    assert_eq!(page.list("#member-rows .name", "node.textContent"), [&*first.name, &second.name, &third.name]);
    page.assert_quiet();
}

#[test]
fn scripts_and_sources_of_others_are_refused() {
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "");
    page.assert_quiet();
    let smuggle = "const script = document.createElement('script'); script.textContent = 'window.smuggled = 1'; \
        document.body.append(script); document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">'); \
        const image = new Image(); image.src = arguments[0]; \
        fetch(arguments[0]).then(() => { window.smuggled = 2; }, () => {}).finally(() => { window.tried = 1; });";
    page.run(smuggle, &[format!("http://{}/v1/info", cluster.agents[1].http).into()]);
    page.until("the call has ended", "window.tried");
    assert!(!page.is("window.smuggled"));
    let mut console = Vec::new();
    wait_for("four refusals", || {
        console.extend(page.console());
        (console.iter().filter(|line| line.contains("Content Security Policy")).count() >= 4).then_some(())
    });
    for directive in ["script-src", "style-src", "img-src", "connect-src"] {
        assert!(console.iter().any(|line| line.contains(directive)), "{directive}: {console:#?}");
    }
}

#[test]
fn a_killed_node_is_shown_down_within_a_second_of_the_agents_own_event() {
    let Some(browser) = Browser::start() else { return };
    let mut cluster = Cluster::start();
    let watch = cluster.agents[0].watch();
    let page = Page::open(browser, &cluster.agents[0].http, "expected=3");
    page.until_members(&["a up", "b up", "c up"]);
    let record = "new MutationObserver(() => { \
        if (document.querySelector('#member-rows [data-id=c]')?.dataset.status === 'down') window.shownAt ??= Date.now(); \
        }).observe(document.getElementById('member-rows'), { attributes: true, childList: true, subtree: true })";
    page.run(record, &[]);
    let mut late = Vec::new();
    loop {
        page.run("delete window.shownAt", &[]);
        drop(cluster.agents.pop().expect("c"));
        watch.wait_for("c", "node_detected_down");
        page.until_members(&["c down", "a up", "b up"]);
        let event = watch.events().into_iter().rfind(|event| event["event"] == "node_detected_down").expect("seen");
        let shown = page.run("return window.shownAt - Date.parse(arguments[0])", &[event["at"].clone()]);
        late.push(shown.as_f64().expect("a number"));
        println!("shown {shown} ms after the agent's event");
        // A browser that begins takes both cores of a small machine for that long, once.
        let too_late = late.iter().filter(|late| **late >= LATE_MS).count();
        assert!(too_late < 2, "shown so late after the agent's event: {late:?} ms");
        if too_late == 0 || late.len() == TRIES {
            break;
        }
        let again = cluster.start_node("c", &[]);
        cluster.agents.push(again);
        page.until_members(&["a up", "b up", "c up"]);
        let is_back = || watch.about("c").last().is_some_and(|last| last != "node_detected_down");
        wait_for("c is back in the stream, too", || is_back().then_some(()));
    }

    page.until_text("#verdict-text", "2 of 3 up");
    page.until_text("#verdict-why", "c is down (connection lost)");
    page.until_text("#verdict-hint", "headcount voters replace");
    page.until("that is no alarm", "document.getElementById('verdict').dataset.level === 'suspect'");
    page.until_text("#chip-down", "1");
    page.until_text("#events", "c is down");
    page.until_text("#tolerance-value", "none");
    page.picture("degraded");
    page.assert_quiet();
}

/// Lets the page read its history only when told to, in one part that has a death in it, and its stream's first part
/// alone until that history was read. The page does not lose its patience with that (5 s) meanwhile.
const HOLD_HISTORY: &str = "\
    let read; const wasRead = new Promise((done) => { read = done; }); \
    const asked = new Promise((done) => { window.readHistory = done; }); \
    const real = window.fetch, later = window.setTimeout; \
    window.setTimeout = (run, after) => after === 5000 ? 0 : later(run, after); \
    window.fetch = async (url, options) => { \
        if (String(url).includes('events?after=')) { \
            window.holdsHistory = true; \
            await asked; \
            options.signal.addEventListener('abort', () => setTimeout(read, 0)); \
            const body = (await real(url, options)).body.pipeThrough(new TextDecoderStream()).getReader(); \
            let past = ''; \
            while (!past.includes('node_detected_down')) past += (await body.read()).value; \
            return new Response(past); \
        } \
        const answer = await real(url, options); \
        if (!String(url).includes('events?')) return answer; \
        let parts = 0; \
        const held = new TransformStream({ transform: async (part, to) => { if (parts++) await wasRead; to.enqueue(part); } }); \
        return new Response(answer.body.pipeThrough(held), { status: answer.status, headers: answer.headers }); \
    };";

#[test]
fn a_node_that_dies_while_the_page_reads_its_history_is_shown_down() {
    let Some(browser) = Browser::start() else { return };
    let mut cluster = Cluster::start();
    let killed = cluster.agents.pop().expect("c");
    let watch = cluster.agents[0].watch();
    browser.command("Page.addScriptToEvaluateOnNewDocument", &serde_json::json!({ "source": HOLD_HISTORY }));
    let page = Page::open(browser, &cluster.agents[0].http, "expected=3");
    page.until_members(&["a up", "b up", "c up"]);
    page.until("the page asks for its history", "window.holdsHistory === true");
    killed.signal(Signal::SIGKILL);
    watch.wait_for("c", "node_detected_down");
    assert_eq!(page.members(), ["a up", "b up", "c up"], "its stream is held");
    page.run("window.readHistory()", &[]);
    page.until_members(&["c down", "a up", "b up"]);
    page.until_text("#events", "c is down");
    page.assert_quiet();
}

#[test]
fn a_banner_says_that_the_agent_is_silent_until_it_answers_again() {
    let Some(browser) = Browser::start() else { return };
    let mut cluster = Cluster::start();
    // The first one is reached at an address of its own, so that it can come back there.
    drop(cluster.agents.remove(0));
    let first = cluster.start_node("a", &["--http", &own_address(), "--bind", &own_address()]);
    let (http, gossip) = (first.http.clone(), first.gossip.clone());
    first.wait_for_up(&THREE);
    cluster.agents.insert(0, first);
    cluster.leader();
    let page = Page::open(browser, &http, "expected=3");
    page.until_text("#verdict-text", "3 of 3 up");
    page.until_shown("#open-actions", true);
    assert!(!page.shows("#banner"));
    page.run("window.isSame = true", &[]);

    // Its connections stay, but nothing comes.
    cluster.agents[0].signal(Signal::SIGSTOP);
    page.until_shown("#banner", true);
    page.until_text("#banner-title", "a is silent");
    page.until_text("#verdict-text", "3 of 3 up, when last heard");
    assert!(!page.shows("#open-actions"), "nothing can be commanded");
    cluster.agents[0].signal(Signal::SIGCONT);
    page.until_shown("#banner", false);
    page.until_text("#verdict-text", "3 of 3 up");

    // Its process ends, and another takes its place.
    drop(cluster.agents.remove(0));
    page.until_shown("#banner", true);
    page.until_text("#banner-text", "What you see is old");
    page.until("the members look old", "getComputedStyle(document.querySelector('main > .columns')).filter !== 'none'");
    page.picture("silent");
    let again = cluster.start_node("a", &["--http", &http, "--bind", &gossip]);
    again.wait_for_up(&THREE);
    page.until_shown("#banner", false);
    page.until_members(&["a up", "b up", "c up"]);
    page.until_text("#link-word", "live");
    page.until_text("#view-note", "live");
    page.until_shown("#open-actions", true);
    assert!(page.is("window.isSame"), "it was not loaded again");
    // Calls that nobody answered are all that the console has.
    let other: Vec<_> = page.console().into_iter().filter(|line| !line.contains("net::ERR_")).collect();
    assert!(other.is_empty(), "the console has {other:#?}");
}

#[test]
fn an_agent_that_has_no_stream_to_spare_is_asked_for_its_members_instead() {
    let Some(browser) = Browser::start() else { return };
    let data = tempfile::tempdir().expect("a directory");
    let config = data.path().join("config.toml");
    std::fs::write(&config, "[http]\nmax_streams = 1\n").expect("written");
    let agent = Agent::start("a", &[], &["--config", config.to_str().expect("text")]);
    let watching = agent.watch();
    wait_for("the only stream is taken", || (agent.metric("headcount_http_streams") > 0.5).then_some(()));
    let page = Page::of(browser);
    page.visit(&format!("http://{}/dashboard", agent.http));
    page.until_text("#banner-title", "a answers, and has no event stream to spare");
    page.until_text("#link-word", "polled");
    page.until_text("#verdict-text", "1 of 1 up");
    page.until_shown("#open-actions", true);
    page.until_text("#view-note", "asked every 2 s");
    page.until_text("#events-empty", "Events are not told");
    page.until("the banner is a notice", "document.querySelector('#banner').classList.contains('notice')");
    assert_eq!(page.value("document.querySelector('#banner-shape').getAttribute('href')"), "#shape-suspect");
    page.until_text("#banner-text", "1 event stream is open");
    let other = Agent::start("b", &[&agent.gossip], &[]);
    page.until_members(&["a up", "b up"]);
    drop(other);
    page.until_members(&["b down", "a up"]);
    drop(watching);
    page.until("the page is live", "document.documentElement.dataset.link === 'live'");
    page.until_shown("#banner", false);
    page.until_text("#view-note", "live");
    page.until_members(&["b down", "a up"]);
}

#[test]
fn that_nobody_leads_is_said_in_the_verdict() {
    let Some(browser) = Browser::start() else { return };
    let cluster = Cluster::start();
    let page = Page::open(browser, &cluster.agents[0].http, "");
    page.until_text("#verdict-why", "Every expected member is up.");
    // One after the other: two that are gone at once may be behind a cut, and what to do about that comes first.
    for agent in cluster.agents[1..].iter().rev() {
        agent.signal(Signal::SIGKILL);
        let is_down = || cluster.agents[0].members().contains(&(agent.name.clone(), "down".to_owned()));
        wait_for("it is down", || is_down().then_some(()));
    }
    page.until_text("#verdict-why", "obody leads");
    page.until("it is bad", "document.getElementById('verdict').dataset.level === 'down'");
    page.until_text("#verdict-hint", "headcount voters list");
    page.until_text("#leader-note", "1 of 3 voters can vote, 2 are needed");
}

#[test]
fn members_with_another_view_are_said_to_be_settling_and_then_to_differ() {
    let Some(browser) = Browser::start() else { return };
    let agent = Agent::start("a", &[], &[]);
    let page = Page::of(browser);
    page.visit(&format!("http://{}/dashboard", agent.http));
    page.until_text("#agreement-value", "nobody to compare with");
    // The agent's answers tell of another member, whose view is another one.
    let script = "const real = window.fetch; window.state = 'unsettled'; \
        window.fetch = async (url, options) => { const answer = await real(url, options); \
        if (!String(url).includes('v1/verdict')) return answer; const verdict = await answer.json(); \
        verdict.reasons.push({ code: 'views_differ', state: window.state, text: 'of stranger', nodes: [], hint: null }); \
        return new Response(JSON.stringify(verdict), { status: answer.status, headers: answer.headers }); };";
    page.run(script, &[]);
    page.until_text("#agreement-value", "settling");
    page.run("window.state = 'degraded'", &[]);
    page.until_text("#agreement-value", "views differ");
    page.until_text("#agreement-note", "stranger");
    page.until("it is suspect", "document.getElementById('fact-agreement').dataset.level === 'suspect'");
}
