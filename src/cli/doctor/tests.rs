//! Judgements on values, and a probe of real agents on loopback.

use std::net::SocketAddr;

use super::judge;
use super::probe::{Probe, Udp, probe};
use super::report::{Finding, Level, Report};
use super::*;
use crate::cli::paint::Paint;
use crate::core::ProtocolRange;
use crate::{Agent, Config, Profile};

fn level_of(findings: &[Finding], check: &str) -> Option<Level> {
    findings
        .iter()
        .filter(|finding| finding.check == check)
        .map(|finding| finding.level)
        .max_by_key(|level| *level as u8)
}

fn probed(udp: Udp, tcp: Result<(), String>) -> Vec<Probed> {
    vec![one("b", "10.0.0.2:7117", udp, tcp)]
}

fn one(name: &str, address: &str, udp: Udp, tcp: Result<(), String>) -> Probed {
    let target = Target { name: name.to_owned(), address: address.parse().expect("an address"), is_sealed: false };
    Probed { target, probe: Probe { udp, tcp } }
}

fn sealed(mut probed: Probed) -> Probed {
    probed.target.is_sealed = true;
    probed
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

#[test]
fn who_takes_sealed_packets_alone_need_not_answer_by_udp() {
    let refused = || Err("Connection refused".to_owned());
    for (udp, tcp, level) in [
        (Udp::Silent, Ok(()), Level::Ok),
        (Udp::Sealed, Ok(()), Level::Ok),
        (Udp::Silent, refused(), Level::Fail),
        (Udp::Failed("Connection refused".to_owned()), Ok(()), Level::Fail),
        (Udp::OtherCluster, Ok(()), Level::Fail),
    ] {
        let findings = judge::reach("members", &[sealed(one("b", "10.0.0.2:7117", udp, tcp))], 1);
        assert_eq!((findings.len(), findings[0].level), (1, level), "{findings:?}");
        assert!(level != Level::Ok || findings[0].found.contains("sealed packets alone"), "{findings:?}");
    }
}

#[test]
fn members_are_as_their_agents_say_and_those_that_cannot_be_asked_as_this_one_is() {
    let member = |id: &str, status: &str| -> Member {
        serde_json::from_str(&format!(
            r#"{{"id":"{id}","run":"00000000000000ab","address":"10.0.0.1:7117","api_address":null,"status":"{status}",
            "incarnation":1,"since":"2026-01-01T00:00:00.000Z","last_heard_ms":1,"rtt_ms":1.0,"tags":{{}},
            "version":"0.1.0","is_me":{},"method":null,"reason":null}}"#,
            id == "a"
        ))
        .expect("a member")
    };
    let members = [member("a", "up"), member("b", "up"), member("c", "suspect"), member("d", "down")];
    let sealed_ones = |held: &[KeyHolder]| -> Vec<String> {
        targets(&members, held).into_iter().filter(|target| target.is_sealed).map(|target| target.name).collect()
    };
    assert_eq!(sealed_ones(&[]), Vec::<String>::new());
    let held = holders(&[("a", Some("require"), &["x"]), ("b", Some("prefer"), &["x"]), ("c", None, &[])]);
    assert_eq!(sealed_ones(&held), ["a", "c"]);
    assert_eq!(targets(&members, &held).len(), 3, "who is down is not asked");
}

#[test]
fn keys_and_modes_that_differ_are_told() {
    let judged = |held: &[(&str, Option<&str>, &[&str])]| judge::keys(&holders(held));
    assert_eq!(judged(&[("a", Some("off"), &[]), ("b", Some("off"), &[])]), []);
    let well = judged(&[("a", Some("require"), &["11", "22"]), ("b", Some("require"), &["11"])]);
    assert!(well.len() == 2 && well.iter().all(|finding| finding.level == Level::Ok), "{well:?}");
    let apart = judged(&[("a", Some("require"), &["11"]), ("b", Some("prefer"), &["22"]), ("c", None, &[])]);
    assert_eq!((level_of(&apart, "sealing"), level_of(&apart, "keys")), (Some(Level::Warn), Some(Level::Warn)));
    assert!(apart.iter().any(|finding| finding.found.starts_with("c did not say")), "{apart:?}");
}

#[test]
fn a_name_of_several_addresses_is_reached_by_one_of_them() {
    let refused = || (Udp::Failed("refused".to_owned()), Err("refused".to_owned()));
    // localhost is both, and an agent listens on one of them.
    let (udp, tcp) = refused();
    let mut both = vec![one("seed", "[::1]:7117", udp, tcp), one("seed", "127.0.0.1:7117", Udp::Somebody, Ok(()))];
    judge::forgive(&mut both);
    let findings = judge::reach("seeds", &both, 2);
    assert_eq!((findings.len(), findings[0].level), (1, Level::Ok), "{findings:?}");
    // Of several machines each one counts, and one is enough.
    let (udp, tcp) = refused();
    let mut both = vec![one("seed", "10.0.0.1:7117", udp, tcp), one("seed", "10.0.0.2:7117", Udp::Somebody, Ok(()))];
    judge::forgive(&mut both);
    let findings = judge::reach("seeds", &both, 2);
    assert_eq!((findings.len(), findings[0].level), (1, Level::Warn), "{findings:?}");
    // All are told if none answers.
    let (udp, tcp) = refused();
    let mut none = vec![one("seed", "[::1]:7117", udp, tcp)];
    judge::forgive(&mut none);
    assert_eq!(judge::reach("seeds", &none, 1)[0].level, Level::Fail);
}

#[test]
fn of_many_members_it_is_said_how_many_were_asked() {
    let asked = |count: usize| -> Vec<Probed> {
        (0..count).map(|n| one(&format!("n{n}"), "10.0.0.2:7117", Udp::Somebody, Ok(()))).collect()
    };
    assert_eq!(judge::reach("members", &asked(MAX_PROBED), MAX_PROBED).len(), 1);
    let findings = judge::reach("members", &asked(MAX_PROBED), 200);
    assert_eq!((findings.len(), findings[1].level), (2, Level::Warn), "{findings:?}");
    assert!(findings[1].found.starts_with("64 of 200 were asked"), "{findings:?}");
}

#[test]
fn seeds_are_those_of_all_sources_and_trouble_with_one_is_told() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("seeds");
    let look = |sources: &SeedSources| {
        let mut report = Report::default();
        seeds_answer(sources, None, false, &mut report);
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
        let findings = judge::reach("seeds", &probed(udp, tcp), 1);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].level, level, "{findings:?}");
        assert!(findings[0].found.contains(word), "{findings:?}");
        assert_eq!(findings[0].advice.is_some(), level != Level::Ok, "{findings:?}");
    }
}

#[test]
fn figures_tell_of_dropped_packets_and_of_disks_that_refuse() {
    let judged = |text: &str| figures::judge(&figures::parse(text));
    let well = "# TYPE headcount_packets_received counter\nheadcount_packets_received_total 100000\nheadcount_dropped_total{reason=\"own\"} 12\nheadcount_voter_aside 0\n# EOF\n";
    let findings = judged(well);
    assert!(findings.iter().all(|finding| finding.level == Level::Ok), "{findings:?}");
    for (line, check, level, word) in [
        ("headcount_dropped_total{reason=\"other_cluster\"} 5000", "packets", Level::Warn, "cluster names"),
        ("headcount_receive_buffer_overflows_total 3", "packets", Level::Warn, "rmem_max"),
        ("headcount_voter_aside 1", "disk", Level::Fail, "space"),
        ("headcount_state_write_failures_total 2", "disk", Level::Warn, "data_dir"),
        ("headcount_health_score 4", "machine", Level::Warn, "lateness"),
        ("headcount_partition_unreachable 2", "network", Level::Warn, "both sides"),
    ] {
        let findings = judged(&format!("headcount_packets_received_total 100000\n{line}\n"));
        assert_eq!(level_of(&findings, check), Some(level), "{line}: {findings:?}");
        let advice = findings.iter().find(|finding| finding.level == level).and_then(|finding| finding.advice.clone());
        assert!(advice.is_some_and(|advice| advice.contains(word)), "{line}: {findings:?}");
    }
    assert!(
        judged("nothing like it\n").iter().all(|finding| finding.level == Level::Ok),
        "other versions have other figures"
    );
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

fn agent_of(runtime: &tokio::runtime::Runtime, name: &str, cluster: &str) -> (Agent, SocketAddr) {
    let start = async {
        let mut config = Config::new(name).expect("a name").with_profile(Profile::Local);
        config.cluster = cluster.parse().expect("a cluster");
        let agent = Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("started");
        agent.wait_until_up().await.expect("up");
        agent
    };
    let agent = runtime.block_on(start);
    let address = agent.gossip_address();
    (agent, address)
}

#[test]
fn a_stranger_learns_who_answers_and_joins_nothing() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (agent, address) = agent_of(&runtime, "a", "shop");
    let Probe { udp: Udp::Member(record), tcp } = probe(address, "shop") else { panic!("it is a member") };
    assert_eq!((record.id.as_str(), record.address, tcp), ("a", address, Ok(())));
    assert!(matches!(probe(address, "other").udp, Udp::OtherCluster));
    assert_eq!(agent.members().len(), 1, "nobody joined");
    runtime.block_on(agent.leave());
    drop(agent);
    let gone = probe(address, "shop");
    assert!(matches!(gone.udp, Udp::Silent | Udp::Failed(_)) && gone.tcp.is_err(), "{gone:?}");
}

#[test]
fn members_with_different_timing_are_told_apart() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (agent, address) = agent_of(&runtime, "a", "shop");
    let target = || Target { name: "a".to_owned(), address, is_sealed: false };
    let found = || Probed { target: target(), probe: probe(address, "shop") };
    let mut both = vec![found(), found()];
    assert_eq!(level_of(&judge::records(&both), "timing"), Some(Level::Ok));
    if let Udp::Member(record) = &mut both[1].probe.udp {
        record.timing = Profile::Wan.settings().timing().expect("valid");
        record.address = "10.9.9.9:7117".parse().expect("an address");
    }
    let findings = judge::records(&both);
    assert_eq!(level_of(&findings, "timing"), Some(Level::Warn), "{findings:?}");
    assert_eq!(level_of(&findings, "advertised"), Some(Level::Warn), "{findings:?}");
    runtime.block_on(agent.leave());
}
