//! Commands that ask nobody: configuration, simulations, proposals.

use super::*;
use crate::support::wait_for;

#[test]
fn configuration_is_checked_and_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.toml");
    std::fs::write(&file, "name = \"a\"\nmtu = 9000\n").expect("written");
    let path = file.to_str().expect("text");
    let (code, _, errors) = run(&["config", "check", path]);
    assert_eq!(code, 2);
    assert!(errors.contains("config.toml:2") && errors.contains("mtu"), "{errors}");
    std::fs::write(&file, "name = \"a\"\n").expect("written");
    assert_eq!(run(&["config", "check", path]).0, 0);
    let misspelt = headcount(&["config", "check", path]).env("HEADCOUNT_NMAE", "a").output().expect("it runs");
    let errors = String::from_utf8_lossy(&misspelt.stderr);
    assert!(misspelt.status.code() == Some(2) && errors.contains("did you mean HEADCOUNT_NAME?"), "{errors}");
    let (code, table, _) = run(&["config", "show", "--config", path, "--profile", "lan"]);
    assert_eq!(code, 0);
    assert!(table.contains("config.toml:1") && table.contains("profile lan"), "{table}");
}

#[test]
fn a_simulation_prints_its_figures_and_writes_a_page_that_stands_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("report.html");
    let page = page.to_str().expect("text");
    let arguments = ["simulate", "--nodes", "6", "--profile", "local", "--scenario", "crash", "--seed", "3"];
    let (code, plain, _) = run(&arguments);
    assert_eq!(code, 0);
    let (code, output, errors) = run(&[&arguments[..], &["--html", page]].concat());
    assert_eq!((code, errors.as_str()), (0, ""), "no bar where nobody looks");
    assert_eq!(output, plain, "the same run, whatever else is written");
    assert!(output.starts_with("crash of 6 nodes, profile local, loss 0.0 %") && output.contains("5 of 5"), "{output}");
    let html = std::fs::read_to_string(page).expect("the page");
    let trace = output.lines().find_map(|line| line.strip_prefix("trace")).expect("a trace").trim();
    assert!(html.contains(trace) && html.contains("timing.down_timeout") && html.matches("<svg").count() == 3);
    // The page names a command by which the run is seen again, and it is one.
    let replay = html.lines().find_map(|line| line.split("<code>headcount ").nth(1)).expect("a command");
    let replay: Vec<&str> = replay.split("</code>").next().expect("its end").split_whitespace().collect();
    assert_eq!(run(&replay), (0, plain, String::new()));
}

#[test]
fn a_simulation_gives_its_figures_to_programs_too() {
    let arguments = ["simulate", "--nodes", "6", "--profile", "local", "--scenario", "crash", "--format", "json"];
    let (code, output, errors) = run(&arguments);
    assert_eq!((code, errors.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&output).expect("one object");
    assert_eq!(
        (&report["scenario"], &report["nodes"], &report["succession"]),
        (&"crash".into(), &6.into(), &Value::Null)
    );
    assert_eq!((&report["down_after"]["reports"], &report["down_after"]["expected"]), (&5.into(), &5.into()));
    assert!(report["down_after"]["p99_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{report}");
    assert_eq!(report["false_alarms"]["suspect"], 0);
    let replay = report["replay"].as_str().expect("a command");
    let plain = run(&replay.split_whitespace().skip(1).collect::<Vec<_>>()).1;
    assert!(plain.contains(report["trace"].as_str().expect("a trace")), "{plain}");

    let goal = ["tune", "--rtt", "2ms", "--nodes", "8", "--detect-within", "4s", "--no-simulation", "--format", "json"];
    let (code, output, errors) = run(&goal);
    assert_eq!((code, errors.as_str()), (0, ""));
    let proposal: Value = serde_json::from_str(&output).expect("one object");
    assert!(proposal["timing"]["down_timeout_ms"].as_u64().is_some_and(|ms| ms <= 4_000), "{proposal}");
    assert!(proposal["expected"]["bytes_per_second"].is_f64() && proposal["simulated"].is_null(), "{proposal}");
}

#[test]
fn a_simulation_that_cannot_be_is_refused_with_a_hint() {
    for (arguments, code, said) in [
        (vec!["simulate", "--nodes", "1"], 2, "2 to 20000"),
        (vec!["simulate", "--loss", "99%"], 2, "0 to 0.9"),
        (vec!["simulate", "--loss", "5"], 2, "did you mean 5%?"),
        (vec!["simulate", "--scenario", "crush"], 2, "crash"),
        (vec!["simulate", "--node", "5"], 2, "--nodes"),
        (vec!["simulate", "--html", "/nowhere/report.html"], 1, "cannot write /nowhere/report.html"),
    ] {
        let (found, output, errors) = run(&arguments);
        assert_eq!((found, output.as_str()), (code, ""), "{arguments:?}: {errors}");
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
}

#[test]
fn tuning_proposes_a_configuration_that_is_accepted() {
    let arguments = ["tune", "--rtt", "2ms", "--loss", "1%", "--nodes", "8", "--detect-within", "4s"];
    let (code, output, errors) = run(&arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{output}");
    assert!(output.contains("[timing]") && output.contains("simulated with 8 nodes"), "{output}");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.toml");
    std::fs::write(&file, &output).expect("written");
    let (code, said, errors) = run(&["config", "check", file.to_str().expect("text")]);
    assert_eq!(code, 0, "{said}{errors}\n{output}");
}

#[test]
fn tuning_says_no_with_the_reason_and_the_nearest_goal() {
    let goal = |within: &str| {
        let arguments = ["tune", "--rtt", "80ms", "--nodes", "200", "--no-simulation", "--detect-within", within];
        run(&arguments)
    };
    let (code, output, errors) = goal("1s");
    assert_eq!((code, output.as_str()), (1, ""));
    let nearest = errors.trim().rsplit(' ').next().expect("a time");
    assert!(errors.contains("1s is too soon") && errors.contains("--detect-within"), "{errors}");
    let (code, output, errors) = goal(nearest);
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains("[timing]"), "{output}");
    assert_eq!(run(&["tune", "--rtt", "9s", "--nodes", "5", "--detect-within", "1m"]).0, 2);
}

#[test]
fn tuning_takes_what_is_not_given_from_a_running_agent() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.toml");
    // A hundred heartbeats a second, which are not missed where a busy machine is half a second late.
    let timing =
        "gossip_interval = \"30ms\"\nprobe_timeout = \"500ms\"\nsuspect_timeout = \"10s\"\ndown_timeout = \"15s\"\n";
    std::fs::write(&config, format!("[timing]\n{timing}")).expect("written");
    let config = ["--config", config.to_str().expect("text")];
    let a = node("a", &config);
    let url = format!("http://{}", a.http);
    let tune = |more: &[&str]| {
        let goal = ["tune", "--from", &url, "--detect-within", "1m", "--no-simulation"];
        run(&[&goal[..], more].concat())
    };
    let (code, output, errors) = tune(&[]);
    assert_eq!((code, output.as_str()), (1, ""));
    assert!(errors.contains(&a.http) && errors.contains("live node") && errors.contains("give --nodes"), "{errors}");

    let _b = node("b", &[&config[..], &["--seed", &a.gossip]].concat());
    let (output, proposal) = wait_for("enough is measured", || {
        let (code, output, errors) = tune(&["--format", "json"]);
        assert!(code == 0 || errors.contains("too few to go by"), "{errors}");
        Some((output.clone(), serde_json::from_str::<Value>(&output).ok()?))
    });
    let measured = &proposal["measured"];
    assert_eq!((&measured["agent"], &measured["nodes"]), (&a.http.as_str().into(), &2.into()), "{output}");
    assert!(measured["rtt_p99_ms"].as_f64().is_some_and(|ms| ms > 0.0) && measured["round_trips"].is_u64(), "{output}");
    assert!(measured["loss"].as_f64().is_some_and(|loss| loss > 0.0 && loss < 0.5), "{output}");

    let (code, output, errors) = tune(&["--rtt", "80ms", "--loss", "2%"]);
    assert_eq!(code, 0, "{errors}");
    let said = format!("\n# measured at {}: 2 nodes, ", a.http);
    assert!(
        output.starts_with("# headcount tune --rtt 80ms --loss 0.02 --nodes 2 ") && output.contains(&said),
        "{output}"
    );
}
