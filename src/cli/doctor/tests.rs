//! Judgements on values.

use super::probe::{Probe, Udp};
use super::report::{Finding, Level, Report};
use super::*;
use crate::cli::paint::Paint;
use crate::core::ProtocolRange;

pub(super) fn level_of(findings: &[Finding], check: &str) -> Option<Level> {
    findings
        .iter()
        .filter(|finding| finding.check == check)
        .map(|finding| finding.level)
        .max_by_key(|level| *level as u8)
}

fn probed(udp: Udp, tcp: Result<(), String>) -> Vec<Probed> {
    vec![one("b", "10.0.0.2:7117", udp, tcp)]
}

pub(super) fn one(name: &str, address: &str, udp: Udp, tcp: Result<(), String>) -> Probed {
    let target = Target {
        name: name.to_owned(),
        address: address.parse().expect("an address"),
        manner: Manner::Clear,
        is_down: false,
    };
    Probed { target, probe: Probe { udp, tcp } }
}

pub(super) fn reach_of(check: &'static str, probed: &[Probed], all: usize) -> Vec<Finding> {
    reach::reach(check, "shop", probed, all)
}

fn holders(held: &[(&str, Option<&str>, &[&str])]) -> Vec<KeyHolder> {
    let holder = |(node, mode, keys): &(&str, Option<&str>, &[&str])| {
        let keys = mode.map(|_| keys.to_vec());
        serde_json::from_value(serde_json::json!({
            "node": node, "status": "up", "mode": mode, "keys": keys, "error": null
        }))
    };
    held.iter().map(holder).collect::<Result<_, _>>().expect("holders")
}

pub(super) fn key() -> Key {
    key_from(1)
}

/// Returns the key of these bytes, and of those that follow them.
pub(super) fn key_from(first: u8) -> Key {
    let bytes: [u8; Key::BYTES] = std::array::from_fn(|place| first.wrapping_add(place as u8));
    Key::from_bytes(&bytes).expect("a key")
}

#[test]
fn of_udp_that_was_not_tried_nothing_is_said_but_that() {
    let refused = || Err("Connection refused".to_owned());
    let untried = |tcp| {
        let mut probed = one("b", "10.0.0.2:7117", Udp::Untried, tcp);
        probed.target.manner = Manner::Untried;
        probed
    };
    let well = reach_of("members", &[untried(Ok(()))], 1);
    assert_eq!((well.len(), well[0].level), (1, Level::Ok), "{well:?}");
    assert!(well[0].found.starts_with("b takes TCP connections from here; UDP was not tried"), "{well:?}");
    let mixed = reach_of("members", &[untried(Ok(())), one("c", "10.0.0.3:7117", Udp::Somebody, Ok(()))], 2);
    assert!(mixed[0].found.starts_with("1 of 2 answer from here, by UDP and TCP; 1 take TCP"), "{mixed:?}");
    let gone = reach_of("members", &[untried(refused())], 1);
    assert_eq!((gone.len(), gone[0].level), (1, Level::Fail), "{gone:?}");
    assert!(!gone[0].found.contains("UDP"), "{gone:?}");
}

#[test]
fn a_sealed_question_without_an_answer_names_key_and_cluster() {
    let mut silent = one("seed", "10.0.0.2:7117", Udp::Silent, Ok(()));
    silent.target.manner = Manner::Sealed(key().id());
    let findings = reach_of("seeds", &[silent], 1);
    assert_eq!((findings.len(), findings[0].level), (1, Level::Fail), "{findings:?}");
    assert!(findings[0].found.contains(&format!("sealed with key {} for cluster shop", key().id())), "{findings:?}");
    assert!(findings[0].advice.as_ref().is_some_and(|advice| advice.contains("headcount keys list")), "{findings:?}");
}

#[test]
fn who_has_the_same_trouble_shares_a_finding() {
    let refused = |n: usize| one(&format!("n{n}"), "10.0.0.2:7117", Udp::Silent, Err("Connection refused".to_owned()));
    let mut probed: Vec<Probed> = (0..50).map(refused).collect();
    probed.push(one("x", "10.0.0.3:7117", Udp::OtherCluster, Ok(())));
    let findings = reach_of("members", &probed, 51);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].found.starts_with("each of 50 does not answer") && findings[0].found.ends_with("and 44 more"));
}

#[test]
fn who_is_down_is_asked_last_and_told_of_if_it_answers() {
    let down = |udp: Udp, tcp| {
        let mut probed = one("c", "10.0.0.2:7117", udp, tcp);
        probed.target.is_down = true;
        probed
    };
    let alive = reach_of("members", &[down(Udp::Somebody, Ok(()))], 1);
    assert!(alive[0].level == Level::Warn && alive[0].found.ends_with("reached from here: c"), "{alive:?}");
    assert!(alive[0].advice.as_ref().is_some_and(|advice| advice.contains("do not remove")), "{alive:?}");
    let gone = reach_of("members", &[down(Udp::Silent, Err("timed out".to_owned()))], 1);
    assert_eq!((gone.len(), gone[0].level), (1, Level::Ok), "the agent's verdict says what to do: {gone:?}");
    assert!(gone[0].found.ends_with("silent from here, too: c"), "{gone:?}");
}

#[test]
fn a_process_that_stands_still_is_not_said_to_be_reached() {
    for udp in [Udp::Untried, Udp::Silent] {
        let mut hung = one("c", "10.0.0.2:7117", udp, Ok(()));
        hung.target.is_down = true;
        let findings = reach_of("members", &[hung], 1);
        assert!(findings.len() == 1 && findings[0].level != Level::Ok, "{findings:?}");
        assert!(!findings[0].found.contains("reached"), "{findings:?}");
        let advice = findings[0].advice.clone().unwrap_or_default();
        assert!(advice.contains("may hang") && advice.contains("restart"), "{advice}");
    }
}

#[test]
fn the_agents_verdict_is_told_with_its_codes_states_and_hints() {
    let told = |state: &str, reasons: serde_json::Value| {
        let verdict = serde_json::json!({"state": state, "reasons": reasons});
        judge::verdict(&serde_json::from_value(verdict).expect("a verdict"))
    };
    let reason = |code: &str, state: &str| serde_json::json!({"code": code, "state": state, "text": "it is", "nodes": ["b"], "hint": "mend it"});
    let well = told("well", serde_json::json!([reason("member_draining", "well")]));
    assert_eq!(
        well.iter().map(|finding| (&*finding.check, finding.level)).collect::<Vec<_>>(),
        [("verdict", Level::Ok), ("member_draining", Level::Ok)]
    );
    for (state, level) in [("unsettled", Level::Warn), ("degraded", Level::Warn), ("broken", Level::Fail)] {
        let findings = told(state, serde_json::json!([reason("cut", state)]));
        let [Finding { check, level: found, advice, .. }] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((&**check, *found, advice.as_deref()), ("cut", level, Some("mend it")));
    }
}

pub(super) fn member(id: &str, status: &str) -> Member {
    serde_json::from_str(&format!(
        r#"{{"id":"{id}","run":"00000000000000ab","address":"10.0.0.1:7117","api_address":null,"status":"{status}",
        "incarnation":1,"since":"2026-01-01T00:00:00.000Z","last_heard_ms":1,"rtt_ms":1.0,"tags":{{}},
        "version":"0.1.0","is_me":{},"method":null,"reason":null}}"#,
        id == "a"
    ))
    .expect("a member")
}

#[test]
fn members_are_as_their_agents_say_and_those_that_cannot_be_asked_as_this_one_is() {
    let members = [member("a", "up"), member("b", "up"), member("c", "suspect"), member("d", "down")];
    let sealed_ones = |held: &[KeyHolder]| -> Vec<String> {
        let all = targets(&members, held, None).into_iter();
        all.filter(|target| target.manner == Manner::Untried).map(|target| target.name).collect()
    };
    assert_eq!(sealed_ones(&[]), Vec::<String>::new());
    let held = holders(&[("a", Some("require"), &["x"]), ("b", Some("prefer"), &["x"]), ("c", None, &[])]);
    assert_eq!(sealed_ones(&held), ["a", "c", "d"]);
    let all = targets(&members, &held, Some(&key()));
    assert!(
        all[3].is_down && all.iter().filter(|target| target.is_down).count() == 1,
        "who is down comes last: {all:?}"
    );
    assert_eq!((all[0].manner, all[1].manner), (Manner::Sealed(key().id()), Manner::Clear));
}

#[test]
fn keys_and_modes_that_differ_are_told() {
    let judged = |held: &[(&str, Option<&str>, &[&str])]| judge::keys(&holders(held), false);
    assert_eq!(judged(&[("a", Some("off"), &[]), ("b", Some("off"), &[])]), []);
    let well = judged(&[("a", Some("require"), &["11", "22"]), ("b", Some("require"), &["11"])]);
    assert!(well.len() == 2 && well.iter().all(|finding| finding.level == Level::Ok), "{well:?}");
    let apart = judged(&[("a", Some("require"), &["11"]), ("b", Some("prefer"), &["22"]), ("c", None, &[])]);
    assert_eq!((level_of(&apart, "sealing"), level_of(&apart, "keys")), (Some(Level::Warn), Some(Level::Warn)));
    assert!(apart.iter().any(|finding| finding.found.starts_with("c did not say")), "{apart:?}");
    let mut held = holders(&[("a", Some("require"), &["11"]), ("c", None, &[])]);
    "down".clone_into(&mut held[1].status);
    assert_eq!(judge::keys(&held, false).len(), 2, "nobody asks who is down");
}

#[test]
fn a_name_of_several_addresses_is_reached_by_one_of_them() {
    let refused = || (Udp::Failed("refused".to_owned()), Err("refused".to_owned()));
    // localhost is both, and an agent listens on one of them.
    let (udp, tcp) = refused();
    let mut both = vec![one("seed", "[::1]:7117", udp, tcp), one("seed", "127.0.0.1:7117", Udp::Somebody, Ok(()))];
    reach::forgive(&mut both);
    let findings = reach_of("seeds", &both, 2);
    assert_eq!((findings.len(), findings[0].level), (1, Level::Ok), "{findings:?}");
    // Of several machines each one counts, and one is enough.
    let (udp, tcp) = refused();
    let mut both = vec![one("seed", "10.0.0.1:7117", udp, tcp), one("seed", "10.0.0.2:7117", Udp::Somebody, Ok(()))];
    reach::forgive(&mut both);
    let findings = reach_of("seeds", &both, 2);
    assert_eq!((findings.len(), findings[0].level), (1, Level::Warn), "{findings:?}");
    // All are told if none answers.
    let (udp, tcp) = refused();
    let mut none = vec![one("seed", "[::1]:7117", udp, tcp)];
    reach::forgive(&mut none);
    assert_eq!(reach_of("seeds", &none, 1)[0].level, Level::Fail);
}

#[test]
fn of_many_members_it_is_said_how_many_were_asked() {
    let asked = |count: usize| -> Vec<Probed> {
        (0..count).map(|n| one(&format!("n{n}"), "10.0.0.2:7117", Udp::Somebody, Ok(()))).collect()
    };
    assert_eq!(reach_of("members", &asked(MAX_PROBED), MAX_PROBED).len(), 1);
    let findings = reach_of("members", &asked(MAX_PROBED), 200);
    assert_eq!((findings.len(), findings[1].level), (2, Level::Ok), "{findings:?}");
    assert!(findings[1].found.starts_with("64 of 200 were asked"), "{findings:?}");
}

#[test]
fn of_many_members_some_that_are_down_are_asked_first_and_the_neighbours_by_name() {
    let named = |n: usize, status: &str| Member {
        address: format!("10.0.0.1:{}", 1_000 + n),
        ..member(&format!("n{n:03}"), status)
    };
    let mut members: Vec<Member> = (0..100).map(|n| named(n, "up")).collect();
    members.extend((100..140).map(|n| named(n, "down")));
    members[50].is_me = true;
    let asked = targets(&members, &[], None);
    assert_eq!(asked.len(), 140);
    let first: Vec<(bool, &str)> =
        asked[..MAX_PROBED].iter().map(|target| (target.is_down, target.name.as_str())).collect();
    assert_eq!((first[0], first[47]), ((false, "n050"), (false, "n097")), "{first:?}");
    assert_eq!((first[48], first[63]), ((true, "n100"), (true, "n115")), "{first:?}");
}

#[test]
fn seeds_are_those_of_all_sources_and_trouble_with_one_is_told() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("seeds");
    let look = |sources: &SeedSources| {
        let mut report = Report::default();
        seeds_answer(sources, None, DEFAULT_CLUSTER, None, &mut report);
        serde_json::to_value(&report).expect("JSON")["checks"].to_string()
    };
    let none = look(&SeedSources::new(&[], Some(&file), &[]));
    assert!(none.contains("seeds_file") && none.contains("No such file"), "{none}");
    // Ports on which nobody listens.
    std::fs::write(&file, "127.0.0.1:1\nno seed\n").expect("written");
    let command = ["sh", "-c", "echo 127.0.0.1:2"].map(str::to_owned);
    let found = look(&SeedSources::new(&["127.0.0.1:3".to_owned()], Some(&file), &command));
    for seed in ["seed 127.0.0.1:1 ", "seed 127.0.0.1:2 ", "seed 127.0.0.1:3 ", "line 2"] {
        assert!(found.contains(seed), "{seed} in {found}");
    }
}

#[test]
fn each_way_of_not_answering_has_its_advice() {
    let refused = || Err("Connection refused".to_owned());
    for (udp, tcp, level, word) in [
        (Udp::Somebody, Ok(()), Level::Ok, "by UDP and TCP"),
        (Udp::Somebody, refused(), Level::Warn, "not by TCP"),
        (Udp::Silent, Ok(()), Level::Fail, "does not answer by UDP"),
        (Udp::Silent, refused(), Level::Fail, "neither by UDP nor by TCP"),
        (Udp::Failed("unreachable".to_owned()), refused(), Level::Fail, "(unreachable)"),
        (Udp::OtherCluster, Ok(()), Level::Fail, "another cluster"),
        (Udp::OtherVersion(ProtocolRange { min: 2, max: 3 }), Ok(()), Level::Fail, "versions 2 to 3"),
        (Udp::Sealed, Ok(()), Level::Warn, "key"),
    ] {
        let findings = reach_of("seeds", &probed(udp, tcp), 1);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].level, level, "{findings:?}");
        assert!(findings[0].found.contains(word), "{findings:?}");
        assert_eq!(findings[0].advice.is_some(), level != Level::Ok, "{findings:?}");
    }
}

#[test]
fn clocks_are_judged_beyond_what_the_answer_can_tell() {
    let clock = |ahead: f64| Clock { name: "a".to_owned(), ahead, error: 1.0 };
    let level = |ahead: f64| judge::clocks(&[clock(ahead)]).level;
    assert_eq!([level(0.0), level(-2.9), level(3.5), level(-61.5)], [Level::Ok, Level::Ok, Level::Warn, Level::Fail]);
    assert!(judge::clocks(&[clock(-120.0)]).found.contains("a is 120 s behind"));
    assert_eq!(judge::clocks(&[]).level, Level::Warn, "what was not looked at is no success");
}

#[test]
fn a_report_fails_by_its_failures_alone_and_says_what_to_do() {
    let mut report = Report::default();
    report.add(Finding::ok("agent", "fine"));
    report.add(Finding::warn("clocks", "apart", Some("run chrony")));
    assert!(report.is_ok());
    report.add(Finding::fail("disk", "full", "free some"));
    assert!(!report.is_ok());
    let mut out = Vec::new();
    report.print(&mut out, Paint::OFF).expect("written");
    let expected = "\
ok    agent   fine
warn  clocks  apart
              → run chrony
FAIL  disk    full
              → free some

1 failed; 1 warning
";
    assert_eq!(String::from_utf8(out).expect("text"), expected);
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!((&json["ok"], &json["checks"][2]["level"]), (&false.into(), &"fail".into()));
    assert_eq!(json["checks"][0]["advice"], serde_json::Value::Null);
}

#[cfg(unix)]
#[test]
fn a_data_directory_that_others_may_write_to_fails() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().expect("a directory");
    let with = |mode| {
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).expect("changed");
        let findings = local::data_directory(folder.path(), true);
        assert!(level_of(&findings, "disk").is_some_and(|level| level != Level::Fail), "{findings:?}");
        level_of(&findings, "data_dir")
    };
    assert_eq!([with(0o700), with(0o750), with(0o777)], [Some(Level::Ok), Some(Level::Warn), Some(Level::Fail)]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a directory").count(), 0, "nothing stays behind");
    let missing = local::data_directory(&folder.path().join("none"), true);
    assert_eq!(level_of(&missing, "data_dir"), Some(Level::Warn));
}

/// Returns what an agent would say of itself, with these values in the place of its own.
fn info_with(changes: &[(&str, serde_json::Value)]) -> Info {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (agent, _) = super::tests_probe::agent_of(&runtime, "a", "shop");
    let info = Info::new(&agent.info(), None, "ok".to_owned()).with_agreement(&agent.agreement());
    runtime.block_on(agent.leave());
    let mut value = serde_json::to_value(&info).expect("JSON");
    for (name, change) in changes {
        value[*name] = change.clone();
    }
    serde_json::from_value(value).expect("an info")
}

#[test]
fn whatever_answers_for_a_host_at_an_unused_port_is_named_where_the_silence_of_hosts_counts() {
    let mut info = info_with(&[]);
    let mut other = member("b", "up");
    other.address = "127.0.0.1:7117".to_owned();
    let members = [member("a", "up"), other];
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    assert!(proxy(&info, &members, port).is_none(), "hosts are not asked");
    info.timing.host_down_timeout_ms -= 1;
    let finding = proxy(&info, &members, port).expect("it answers");
    assert!(finding.level == Level::Warn && finding.found.contains("host of b"), "{finding:?}");
    drop(listener);
    assert!(proxy(&info, &members, port).is_none(), "nobody answers");
}

#[test]
fn agents_of_two_clusters_are_a_failure_and_other_differences_are_a_warning() {
    let one = info_with(&[("node", "a".into())]);
    let other = |name: &str, value: &str| {
        let mut other = serde_json::to_value(&one).expect("JSON");
        (other["node"], other[name]) = ("b".into(), value.into());
        judge::infos(&[one.clone(), serde_json::from_value(other).expect("an info")])
    };
    assert_eq!(judge::infos(std::slice::from_ref(&one)), [], "there is nothing to compare");
    for (name, value, check, level) in [
        ("cluster", "blue", "clusters", Level::Fail),
        ("profile", "wan", "profiles", Level::Warn),
        ("fingerprint", "0000000000000001", "views", Level::Warn),
    ] {
        let findings = other(name, value);
        for checked in ["clusters", "profiles", "views"] {
            let expected = if checked == check { level } else { Level::Ok };
            assert_eq!(level_of(&findings, checked), Some(expected), "{name}: {findings:?}");
        }
    }
}

/// Returns members that have answered at their own address: their names, and the versions of the protocol that they speak.
fn answered(members: &[(&str, u8, u8)]) -> Vec<Probed> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (agent, address) = super::tests_probe::agent_of(&runtime, "a", "shop");
    let probe = super::probe::probe(address, Some(super::probe::Voice::clear("shop")));
    runtime.block_on(agent.leave());
    let Probe { udp: Udp::Member(record), .. } = probe else { panic!("it is a member") };
    let answered = |(name, min, max): &(&str, u8, u8)| {
        let mut record = record.clone();
        record.id = name.parse().expect("a name");
        record.protocol = ProtocolRange { min: *min, max: *max };
        one(name, &address.to_string(), Udp::Member(record), Ok(()))
    };
    members.iter().map(answered).collect()
}

#[test]
fn members_without_a_version_of_the_protocol_in_common_fail() {
    let protocol = |members: &[(&str, u8, u8)]| level_of(&reach::records(&answered(members)), "protocol");
    assert_eq!(protocol(&[("a", 1, 2), ("b", 2, 3)]), Some(Level::Ok));
    assert_eq!(protocol(&[("a", 1, 2), ("b", 3, 4)]), Some(Level::Fail));
}

#[test]
fn a_member_elsewhere_that_tells_others_a_loopback_address_fails() {
    let mut elsewhere = answered(&[("a", 1, 2)]);
    elsewhere[0].target.address = "10.0.0.2:7117".parse().expect("an address");
    let findings = reach::records(&elsewhere);
    assert_eq!(level_of(&findings, "advertised"), Some(Level::Fail), "{findings:?}");
    assert!(findings[0].advice.as_ref().is_some_and(|advice| advice == "set advertise there"), "{findings:?}");
}

#[test]
fn clear_gossip_that_others_reach_is_warned_of() {
    let others = "10.0.0.1:7117".parse().ok();
    let level = |mode, address| judge::clear(mode, address).map(|finding| finding.level);
    assert_eq!(level(Some("off"), others), Some(Level::Warn));
    assert_eq!([level(Some("require"), others), level(Some("off"), None), level(None, others)], [None; 3]);
    assert_eq!([level(Some("permit"), others), level(Some("prefer"), others)], [None; 2], "the verdict says so");
}

#[test]
fn a_running_node_that_tells_others_a_loopback_address_is_warned_of_where_others_may_be_elsewhere() {
    let own = info_with(&[]);
    let elsewhere = "10.0.0.1:7117".parse().ok();
    let mut far = member("b", "up");
    far.address = "10.0.0.2:7117".to_owned();
    let told = |info: &Info, members: &[Member], listens_at| {
        judge::own_address(info, members, listens_at).map(|finding| finding.found)
    };
    assert_eq!(told(&own, &[], None), None, "all of it is on this machine");
    assert!(told(&own, &[far], None).is_some_and(|found| found.contains("while b is at 10.0.0.2:7117")));
    assert!(told(&own, &[], elsewhere).is_some_and(|found| found.contains("it listens at 10.0.0.1:7117, too")));
    let reached = info_with(&[("address", "10.0.0.3:7117".into())]);
    assert_eq!(told(&reached, &[], elsewhere), None);
}

#[test]
fn the_address_that_an_agent_would_choose_is_told_and_a_loopback_one_warned_of() {
    let told = |seeds: &[&str]| {
        let mut config = crate::Config::new("a").expect("a name").with_key_file("keys");
        config.seeds = seeds.iter().map(|seed| (*seed).to_owned()).collect();
        local::told_address(&config)
    };
    let here = told(&["127.0.0.1:7118"]);
    assert!(here.level == Level::Warn && here.found.contains("127.0.0.1:7117, since all seeds"), "{here:?}");
    let alone = told(&[]);
    let is_loopback = alone.found.contains("127.0.0.1");
    assert_eq!(alone.level, if is_loopback { Level::Warn } else { Level::Ok }, "{alone:?}");
}

#[test]
fn a_loopback_address_that_others_are_told_fails_where_seeds_are_elsewhere() {
    let level = |bind: &str, seeds: &[&str]| {
        let mut config = crate::Config::new("a").expect("a name").with_bind(bind.parse().expect("an address"));
        config.seeds = seeds.iter().map(|seed| (*seed).to_owned()).collect();
        local::told_address(&config).level
    };
    assert_eq!(level("127.0.0.1:7117", &["10.0.0.2:7117"]), Level::Fail);
    assert_eq!(level("127.0.0.1:7117", &["127.0.0.1:7118", "10.0.0.2:7117"]), Level::Fail);
    assert_eq!(level("127.0.0.1:7117", &["127.0.0.1:7118", "localhost:1", "[::1]:1"]), Level::Ok);
    assert_eq!(level("10.0.0.1:7117", &["10.0.0.2:7117"]), Level::Ok);
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_as_good_as_full_fails() {
    let level = |free| local::left(free, "/data").level;
    assert_eq!((level(local::LEAST_FREE_BYTES), level(local::LEAST_FREE_BYTES - 1)), (Level::Ok, Level::Fail));
}

#[test]
fn modes_of_leadership_that_differ_are_told() {
    let modes = |all: &[(&str, &str)]| {
        let all: Vec<_> = all.iter().map(|(node, mode)| ((*node).to_owned(), (*mode).to_owned())).collect();
        let finding = judge::modes(&all);
        (finding.level, finding.found)
    };
    assert_eq!(modes(&[("a", "quorum"), ("b", "quorum")]).0, Level::Ok);
    let (level, found) = modes(&[("a", "quorum"), ("b", "none"), ("c", "quorum")]);
    assert!(level == Level::Warn && found.ends_with("none at b"), "{found}");
}

#[test]
fn agents_of_different_electorates_fail_and_one_alone_is_compared_with_nobody() {
    let of = |all: &[(&str, &str)]| {
        let all: Vec<_> = all.iter().map(|(node, lineage)| ((*node).to_owned(), (*lineage).to_owned())).collect();
        judge::lineages(&all).map(|finding| finding.level)
    };
    assert_eq!(of(&[("a", "1"), ("b", "1")]), Some(Level::Ok));
    assert_eq!(of(&[("a", "1"), ("b", "2")]), Some(Level::Fail));
    assert_eq!(of(&[("a", "1")]), None);
    let holders = holders(&[("a", Some("require"), &["6251e6ca"])]);
    assert_eq!(level_of(&judge::keys(&holders, true), "keys"), Some(Level::Warn), "a node that joins");
    let lone = judge::keys(&holders, false);
    assert!(lone.iter().all(|finding| finding.found.contains("no other member to compare it with")), "{lone:?}");
}
