//! The screen on a terminal of cells: what is seen when all is well, when it is not, when the agent is silent, and when
//! there is hardly any room; and what keys do.
//!
//! The pictures are files in `snapshots`. `WRITE_SNAPSHOTS=1 cargo test --lib top` writes them anew: look at
//! the difference before it is committed.

use std::path::PathBuf;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::feed::Figures;
use super::screen::{MAX_TIMELINE, Mode, Order};
use super::*;
use crate::client::EventUpdate;
use crate::json::{Event, Info, Leader, Member, parse_rfc3339};

const NOW: &str = "2026-01-01T00:10:00.000Z";

fn now() -> SystemTime {
    parse_rfc3339(NOW).expect("a time")
}

fn look(coloured: bool) -> Look {
    Look { now: now(), zone: TimeZone::UTC, coloured }
}

fn info(agreement: &str) -> Info {
    let json = format!(
        r#"{{"node":"n1","run":"00000000000000ab","cluster":"shop","version":"0.1.0","protocol":{{"min":1,"max":1}},
        "status":"up","incarnation":1,"address":"10.0.0.1:7117","http":"127.0.0.1:7118","changes":3,
        "fingerprint":"00000000000000aa","members":{{"joining":0,"up":3,"suspect":0,"leaving":0,"down":0,"left":0}},
        "profile":"lan","timing":{{"heartbeat_interval_ms":2000,"suspect_timeout_ms":6000,"down_timeout_ms":10000,
        "gossip_interval_ms":1000,"gossip_fanout":3,"probe_timeout_ms":200,"retry_interval_ms":5000,
        "reap_after_ms":86400000}},"uptime_ms":600000,"tasks":"ok","agreement":{agreement},"leases":null}}"#
    );
    serde_json::from_str(&json).expect("an info")
}

fn leader(name: Option<&str>) -> Leader {
    let (leader, state) =
        name.map_or_else(|| ("null".to_owned(), "unavailable"), |name| (format!("\"{name}\""), "led"));
    let json = format!(
        r#"{{"leader":{leader},"term":7,"is_me":false,"mode":"quorum","state":"{state}","lease_remaining_ms":4000}}"#
    );
    serde_json::from_str(&json).expect("a leader")
}

fn member(id: &str, status: &str, cause: &str, since: &str, tags: &str) -> Member {
    let json = format!(
        r#"{{"id":"{id}","run":"00000000000000ab","address":"10.0.0.{}:7117","api_address":null,"status":"{status}",
        "incarnation":1,"since":"2026-01-01T00:{since}.000Z","last_heard_ms":{},"heard_interval_ms":5000,"last_sent_ms":3000,
        "sent_interval_ms":4000,"rtt_ms":{},"tags":{{{tags}}},
        "version":"0.1.0","is_me":{},"method":{cause},"reason":null}}"#,
        id.trim_start_matches(|letter: char| !letter.is_ascii_digit()),
        if id == "n1" { "null" } else { "1200" },
        if id == "n1" { "null" } else { "0.42" },
        id == "n1"
    );
    serde_json::from_str(&json).expect("a member")
}

fn event(sequence: u64, kind: &str, at: &str, member: &Member, more: &str) -> News {
    let json = format!(
        r#"{{"id":"00000000000000ab-{sequence}","sequence":{sequence},"at":"2026-01-01T00:{at}.000Z","event":"{kind}",
        "node":{},"address":"{}","member":{}{more}}}"#,
        serde_json::to_string(&member.id).expect("JSON"),
        member.address,
        serde_json::to_string(member).expect("JSON")
    );
    let event: Event = serde_json::from_str(&json).expect("an event");
    News::Update(EventUpdate::Event(Box::new(event)))
}

fn figures(info: Info, leader: Leader, members: Vec<Member>) -> News {
    judged(info, leader, members, "well", &[])
}

/// Returns figures with a verdict: its state, and the texts of its reasons.
fn judged(info: Info, leader: Leader, members: Vec<Member>, state: &str, texts: &[&str]) -> News {
    let reason = |text| serde_json::json!({"code": "x", "state": state, "text": text, "nodes": [], "hint": null});
    let reasons: Vec<_> = texts.iter().map(reason).collect();
    let verdict = serde_json::from_value(serde_json::json!({"state": state, "reasons": reasons})).expect("a verdict");
    News::Figures(Box::new(Figures { info, leader, members, verdict: Some(verdict) }))
}

const AGREED: &str =
    r#"{"fingerprints":[{"fingerprint":"00000000000000aa","count":3,"members":["n1","n2","n3"]}],"unheard":0}"#;
const DIVIDED: &str = r#"{"fingerprints":[{"fingerprint":"00000000000000aa","count":2,"members":["n1","n2"]},
    {"fingerprint":"00000000000000ab","count":1,"members":["n3"]}],"unheard":1}"#;

fn healthy() -> Screen {
    let zone = r#""zone":"eu-1""#;
    let members = vec![
        member("n1", "up", "null", "00:00", zone),
        member("n2", "up", "null", "00:01", zone),
        member("n3", "up", "null", "00:02", r#""zone":"eu-2","role":"cache""#),
    ];
    let mut screen = Screen::new("127.0.0.1:7118".to_owned(), info("null"));
    for (sequence, member) in (1..).zip(&members) {
        screen.learn(event(sequence, "node_joined", &format!("00:0{sequence}"), member, ""), now());
    }
    screen.learn(figures(info(AGREED), leader(Some("n2")), members), now());
    screen
}

fn degraded() -> Screen {
    let mut screen = healthy();
    let suspect = member("n2", "suspect", r#""heartbeat_timeout""#, "09:30", "");
    let down = member("n3", "down", r#""connection_lost""#, "09:40", "");
    screen.learn(event(4, "node_suspected", "09:30", &suspect, ""), now());
    screen.learn(event(5, "node_detected_down", "09:40", &down, r#","method":"connection_lost""#), now());
    let members = vec![
        member("n1", "up", "null", "00:00", ""),
        suspect,
        down,
        member("n4", "joining", "null", "09:59", ""),
        member("n5", "left", "null", "05:00", ""),
    ];
    let reasons = [
        "nobody leads: 1 of 3 voters can vote, 2 are needed (missing: n2 and n3)",
        "n3 is down (connection lost)",
        "n2 is suspected",
        "n4 is joining",
    ];
    screen.learn(judged(info(DIVIDED), leader(None), members, "broken", &reasons), now());
    screen
}

fn lost() -> Screen {
    let mut screen = healthy();
    let at = now() - Duration::from_secs(12);
    screen.learn(News::Update(EventUpdate::Lost { reason: "ended".to_owned() }), at);
    screen.learn(News::Silent("cannot reach an agent at 127.0.0.1:7118 (Connection refused)".to_owned()), now());
    screen
}

fn drawn(known: &Screen, width: u16, height: u16, coloured: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw::screen(frame, known, &look(coloured))).expect("drawn");
    terminal.backend().buffer().clone()
}

/// Returns what is read on the screen, without spaces at the ends of lines.
fn text(buffer: &Buffer) -> String {
    let line =
        |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..buffer.area.height).map(line).collect()
}

/// Compares the screen with its picture.
fn looks_like(name: &str, known: &Screen, width: u16, height: u16) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/cli/top/snapshots/{name}.txt"));
    let seen = text(&drawn(known, width, height, true));
    assert_eq!(seen, text(&drawn(known, width, height, false)), "colours change no text");
    if std::env::var_os("WRITE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &seen).expect("written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(seen, expected, "{name} looks like this:\n{seen}");
}

fn press(screen: &mut Screen, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            other => KeyCode::Char(other),
        };
        assert!(screen.press(KeyEvent::new(code, KeyModifiers::NONE)).is_continue(), "{key:?} quits");
    }
}

fn names(screen: &Screen) -> Vec<&str> {
    screen.rows().iter().map(|member| member.id.as_str()).collect()
}

#[test]
fn a_healthy_cluster_is_seen_to_be_so() {
    looks_like("healthy", &healthy(), 80, 24);
}

#[test]
fn a_degraded_cluster_names_the_worst_first() {
    looks_like("degraded", &degraded(), 80, 24);
    looks_like("degraded_wide", &degraded(), 120, 24);
}

#[test]
fn a_silent_agent_is_said_so_and_nothing_is_claimed() {
    looks_like("lost", &lost(), 80, 24);
    let mut screen = lost();
    let is_silent = |screen: &Screen| text(&drawn(screen, 80, 24, true)).contains("SILENT");
    screen.learn(News::Update(EventUpdate::Resumed), now());
    assert!(is_silent(&screen), "polls are not answered");
    let members = || vec![member("n1", "up", "null", "00:00", "")];
    screen.learn(figures(info(AGREED), leader(None), members()), now());
    assert!(!is_silent(&screen));
    // A poll that took too long, while the stream is open.
    screen.learn(News::Silent("timed out".to_owned()), now());
    assert!(is_silent(&screen));
    screen.learn(figures(info(AGREED), leader(None), members()), now());
    assert!(!is_silent(&screen), "the next one was answered");
    // Answers are no sign that the stream is open.
    screen.learn(News::Update(EventUpdate::Lost { reason: "ended".to_owned() }), now());
    screen.learn(figures(info(AGREED), leader(None), members()), now());
    assert!(is_silent(&screen));
}

#[test]
fn an_agent_that_has_no_stream_to_spare_is_not_silent() {
    let refused: crate::json::Problem = serde_json::from_value(serde_json::json!({
        "type": "urn:headcount:problem:too-many-streams", "title": "Too many event streams", "status": 429,
        "detail": "1000 event streams are open, and no more are served", "hint": null
    }))
    .expect("a problem");
    let mut screen = healthy();
    screen.learn(super::feed::not_streamed(&crate::client::ClientError::Refused(Box::new(refused))), now());
    screen.learn(figures(info(AGREED), leader(Some("n1")), vec![member("n1", "up", "null", "00:00", "")]), now());
    let seen = text(&drawn(&screen, 120, 30, false));
    assert!(seen.contains("NO EVENTS, members are asked for") && seen.contains("1000 event streams"), "{seen}");
    assert!(!seen.contains("SILENT") && !seen.contains("UNKNOWN"), "{seen}");
    screen.learn(News::Update(EventUpdate::Resumed), now());
    assert_eq!(screen.unstreamed(), None);
    screen.learn(News::Unstreamed("full".to_owned()), now());
    screen.learn(News::Silent("refused".to_owned()), now());
    assert!(screen.silence().is_some() && screen.unstreamed().is_none(), "silence says more");
}

#[test]
fn the_verdict_is_the_agents_own_and_of_an_older_agent_there_is_none() {
    let seen = |news| {
        let mut screen = healthy();
        screen.learn(news, now());
        text(&drawn(&screen, 80, 24, true))
    };
    let members = || vec![member("n1", "up", "null", "00:00", "")];
    for (state, word) in [("well", " WELL "), ("unsettled", " UNSETTLED "), ("degraded", " DEGRADED ")] {
        let news = judged(info(AGREED), leader(Some("n1")), members(), state, &["the reason"]);
        let seen = seen(news);
        assert!(seen.contains(word) && seen.contains("1 of 1 up  the reason"), "{seen}");
    }
    let none = Figures { info: info(AGREED), leader: leader(Some("n1")), members: members(), verdict: None };
    assert!(seen(News::Figures(Box::new(none))).contains(" LOOKING "));
}

#[test]
fn a_verdict_is_read_in_full_with_what_to_do_about_it() {
    let reason = serde_json::json!({"code": "c", "state": "broken", "text": "long ".repeat(20) + "reason", "nodes": [],
        "hint": "restart it"});
    let told = Figures {
        info: info(AGREED),
        leader: leader(Some("n1")),
        members: vec![member("n1", "up", "null", "00:00", "")],
        verdict: serde_json::from_value(serde_json::json!({"state": "broken", "reasons": [reason]})).ok(),
    };
    let mut screen = healthy();
    screen.learn(News::Figures(Box::new(told)), now());
    let seen = |width| text(&drawn(&screen, width, 24, true)).split_whitespace().collect::<Vec<_>>().join(" ");
    for width in [80, 200] {
        assert!(seen(width).contains("long long reason") && seen(width).contains("→ restart it"), "{}", seen(width));
    }
    let small = text(&drawn(&screen, 80, 12, true));
    assert!(small.contains("BROKEN  1 of 1 up  long") && !small.contains('→'), "{small}");
}

#[test]
fn a_banner_has_room_for_its_reason_at_80_columns() {
    let seen = text(&drawn(&lost(), 80, 24, true));
    let seen = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(seen.contains("(Connection refused)"), "{seen}");
}

#[test]
fn events_of_long_ago_are_on_the_timeline_and_change_no_member() {
    let mut screen = healthy();
    let old = |status: &str, incarnation: u64| Member { incarnation, ..member("n2", status, "null", "00:00", "") };
    let now_known = Member { version: "9".to_owned(), ..old("up", 5) };
    screen.learn(figures(info(AGREED), leader(None), vec![now_known]), now());
    let events = screen.timeline.len();
    for (sequence, kind, member) in [
        (11, "node_joined", old("up", 3)),
        (12, "node_detected_down", old("down", 3)),
        (13, "node_removed", old("down", 3)),
        (14, "node_joined", old("joining", 5)),
    ] {
        screen.learn(event(sequence, kind, "00:01", &member, ""), now());
        let shown = screen.members.get("n2").expect("it is not removed");
        assert_eq!((&*shown.status, &*shown.version), ("up", "9"), "{kind}");
    }
    assert_eq!(screen.timeline.len(), events + 4);
    screen.learn(event(15, "node_suspected", "00:02", &old("suspect", 5), ""), now());
    assert_eq!(screen.members["n2"].status, "suspect");
    screen.learn(event(16, "node_removed", "00:03", &old("down", 5), ""), now());
    assert!(!screen.members.contains_key("n2"));
}

#[test]
fn a_small_terminal_shows_the_members_and_the_smallest_panics_not() {
    looks_like("small", &degraded(), 40, 12);
    looks_like("small_lost", &lost(), 40, 12);
    for mode in [Mode::List, Mode::Filter, Mode::Detail, Mode::Events, Mode::Help] {
        for (width, height) in [(1, 1), (2, 3), (10, 2), (3, 40), (300, 1), (20, 8)] {
            let mut screen = lost();
            screen.mode = mode;
            drawn(&screen, width, height, true);
        }
    }
}

#[test]
fn one_member_is_shown_in_full_and_help_lists_the_keys() {
    let mut screen = degraded();
    press(&mut screen, "↓\n");
    assert_eq!((screen.mode, screen.selected.as_deref()), (Mode::Detail, Some("n2")));
    looks_like("detail", &screen, 80, 24);
    press(&mut screen, "\u{1b}?");
    looks_like("help", &screen, 80, 24);
    press(&mut screen, "qe");
    looks_like("events", &screen, 80, 24);
}

#[test]
fn a_filter_shows_the_members_that_have_all_its_words() {
    let mut screen = degraded();
    press(&mut screen, "/connection");
    assert_eq!(names(&screen), ["n3"]);
    looks_like("filter", &screen, 80, 24);
    press(&mut screen, "\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}10.0.0. up\n");
    assert_eq!((names(&screen), screen.mode), (vec!["n1"], Mode::List));
    press(&mut screen, "\u{1b}");
    assert_eq!(names(&screen), ["n3", "n2", "n4", "n1"]);
    press(&mut screen, "/nothing is like this\n\n");
    assert_eq!(screen.mode, Mode::List, "there is nothing to show in full");
    assert!(text(&drawn(&screen, 80, 24, true)).contains("No member matches"));
    press(&mut screen, "/");
    press(&mut screen, &"x".repeat(500));
    assert_eq!(screen.filter.chars().count(), 64);
}

#[test]
fn keys_sort_and_show_those_that_left() {
    let mut screen = degraded();
    press(&mut screen, "s");
    assert_eq!((screen.order, names(&screen)), (Order::Name, vec!["n1", "n2", "n3", "n4"]));
    press(&mut screen, "s");
    assert_eq!(names(&screen), ["n4", "n3", "n2", "n1"], "the latest change first");
    press(&mut screen, "l");
    assert_eq!(names(&screen), ["n4", "n3", "n2", "n5", "n1"]);
    press(&mut screen, "ss");
    assert_eq!(names(&screen).last(), Some(&"n1"), "of oneself no round trip is known");
    press(&mut screen, "s");
    assert_eq!(screen.order, Order::Worst);
}

#[test]
fn the_selection_stays_on_its_member_while_rows_move() {
    let mut screen = healthy();
    press(&mut screen, "↓");
    assert_eq!(screen.selected.as_deref(), Some("n2"));
    let down = member("n3", "down", r#""connection_lost""#, "09:40", "");
    screen.learn(event(9, "node_detected_down", "09:40", &down, ""), now());
    let rows = screen.rows();
    assert_eq!((rows[0].id.as_str(), screen.selected_row(&rows)), ("n3", 2));
    let gone = member("n2", "left", "null", "09:50", "");
    screen.learn(event(10, "node_removed", "09:50", &gone, ""), now());
    assert!(!screen.members.contains_key("n2"));
    assert_eq!(screen.selected_row(&screen.rows()), 0);
    press(&mut screen, "↑↑↓↓↓↓↓↓");
    assert_eq!(screen.selected.as_deref(), Some("n1"), "the last row is the last");
}

#[test]
fn the_timeline_is_bounded_and_a_reader_of_old_events_stays_with_them() {
    let mut screen = healthy();
    let one = member("n2", "up", "null", "00:00", "");
    for sequence in 0..MAX_TIMELINE as u64 + 50 {
        screen.learn(event(sequence, "node_updated", "00:00", &one, ""), now());
    }
    assert_eq!(screen.timeline.len(), MAX_TIMELINE);
    press(&mut screen, "e↓↓");
    let first = screen.timeline[screen.scrolled].sequence;
    screen.learn(event(900, "node_updated", "00:00", &one, ""), now());
    assert_eq!(screen.timeline[screen.scrolled].sequence, first);
}

#[test]
fn q_and_control_c_quit_and_a_word_with_q_in_it_does_not() {
    let quits = |screen: &mut Screen, code, modifiers| screen.press(KeyEvent::new(code, modifiers)).is_break();
    assert!(quits(&mut healthy(), KeyCode::Char('q'), KeyModifiers::NONE));
    let mut screen = healthy();
    press(&mut screen, "/q");
    assert_eq!(screen.filter, "q");
    assert!(quits(&mut screen, KeyCode::Char('c'), KeyModifiers::CONTROL));
    let mut screen = healthy();
    press(&mut screen, "?q");
    assert_eq!(screen.mode, Mode::List, "the first q closes the page");
}

#[test]
fn states_are_coloured_and_nothing_is_without_colours() {
    let colours = |coloured| {
        let buffer = drawn(&degraded(), 80, 24, coloured);
        buffer.content.iter().flat_map(|cell| [cell.fg, cell.bg]).filter(|colour| *colour != Color::Reset).count()
    };
    assert!(colours(true) > 50);
    assert_eq!(colours(false), 0);
    let buffer = drawn(&degraded(), 120, 24, true);
    let red = buffer.content.iter().filter(|cell| cell.fg == Color::Red).map(Cell::symbol).collect::<String>();
    assert!(red.contains("down (connection_lost)"), "{red}");
}

#[test]
fn what_is_cut_ends_with_a_sign() {
    let name = "node-151.rack-07.eu-west-1.example.internal";
    let tags = r#""zone":"eu-west-1","role":"a-cache-of-many-things""#;
    let mut screen = degraded();
    screen
        .learn(event(6, "node_joined", "09:50", &member(name, "up", "null", "09:50", tags), r#","reason":"x""#), now());
    let lines = |width| text(&drawn(&screen, width, 24, false)).lines().map(str::to_owned).collect::<Vec<_>>();
    let narrow = lines(80);
    assert!(
        narrow[4].ends_with('…') && narrow.iter().any(|line| line.contains("node-151.rack-07.eu-wes…")),
        "{narrow:#?}"
    );
    let row = lines(180).into_iter().find(|line| line.contains(name)).expect("the whole name");
    assert!(row.contains("eu-west-1") || row.ends_with('…'), "{row}");
}

#[test]
fn names_from_elsewhere_bring_no_control_characters() {
    let mut screen = healthy();
    let mut liar = member("n9", "down", "null", "00:00", "");
    liar.id = "x\u{1b}[2J\n".to_owned();
    liar.tags.insert("a".to_owned(), "\u{202e}b".to_owned());
    let mut bad = leader(Some("c"));
    bad.leader = Some("\u{1b}c".to_owned());
    screen.learn(event(20, "node_detected_down", "09:00", &liar, ""), now());
    screen.learn(figures(info(AGREED), bad, vec![liar]), now());
    for key in ["", "\n", "\u{1b}e"] {
        press(&mut screen, key);
        let seen = text(&drawn(&screen, 120, 30, true));
        assert!(seen.lines().all(|line| !line.contains(char::is_control) && !line.contains('\u{202e}')), "{seen}");
        // The terminal's library drops them: what is left would read like another name.
        assert!(seen.contains("x\\u{1b}[2J\\n") && !seen.contains("x[2J"), "{seen}");
    }
}
