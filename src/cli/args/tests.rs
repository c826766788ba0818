//! Command lines that are understood, those that are refused, and what help says.

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::members::pair;
use super::trial::share;
use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_documented_command_line_is_understood() {
    for line in [
        "headcount agent",
        "headcount agent --config c.toml --name a --cluster c --bind [::]:7117 --advertise 10.0.0.1:7117 \
         --seed x:1 --seed y:2 --profile lan --http off --data-dir d --tag a=b --tag c=d --log-level debug \
         --log-format json --voters a,b,c --format json",
        "headcount agent --insecure --cluster mine",
        "headcount keys generate --if-missing cluster.key",
        "headcount dev",
        "headcount broadcast cache.changed key-17 --format json",
        "headcount send b jobs -",
        "headcount request b health --timeout 2s",
        "headcount reply 00c0ffee00c0ffee-13 fine",
        "headcount listen cache.changed jobs --format json",
        "headcount dev --nodes 5",
        "headcount members --status up,suspect --tag zone=eu-1 --format json --http 10.0.0.1:7118",
        "headcount members --token-file t --format table",
        "headcount watch --after 8f00000000000000-7 --kind node_joined,node_left --snapshot --format json",
        "headcount top --http :7128",
        "headcount info",
        "headcount doctor --http :7128 --also :7138 --format json",
        "headcount doctor --config config.toml",
        "headcount doctor --seed 10.0.0.1:7117 --seed b:7117 --cluster shop",
        "headcount health --ready --timeout 1s",
        "headcount completions zsh",
        "headcount man target/man",
        "headcount join 10.0.0.1:7117 seeds.example.internal:7117",
        "headcount leave",
        "headcount remove b --force",
        "headcount doubt b --format json",
        "headcount tags zone=eu-1 role= --unset old --unset older",
        "headcount leader --format json",
        "headcount watch --lease billing,default --kind leader_elected",
        "headcount lease schema --schema app --table-prefix xx_ --role lim",
        "headcount request b health --timeout 25s",
        "headcount leader --confirm --http :7128",
        "headcount leader resign",
        "headcount leader resign --to b --http :7128 --format json",
        "headcount lead -- sleep 5",
        "headcount lead --http :7128 --grace 2s --keep -- sh -c true --http x",
        "headcount voters list",
        "headcount voters add d --http 10.0.0.1:7118",
        "headcount voters remove d",
        "headcount view",
        "headcount recover --voters a,b --yes",
        "headcount recover --anew --voters a,b,c",
        "headcount recover --anew --voters a,b,c --end-unheard --yes",
        "headcount watch --kind leader_elected,leader_lost,quorum_lost,quorum_regained,view_agreed",
        "headcount keys generate",
        "headcount keys generate cluster.key",
        "headcount keys list --format json",
        "headcount keys add",
        "headcount keys add - --http :7128",
        "headcount keys use 6251e6ca --force",
        "headcount keys remove 6251e6ca",
        "headcount agent --key-file cluster.key",
        "headcount wait --members 5 --timeout 30s",
        "headcount wait 5",
        "headcount watch --ids",
        "headcount simulate --format json",
        "headcount tune --rtt 80ms --nodes 200 --detect-within 20s --format json",
        "headcount members --http :7128",
        "headcount config check config.toml",
        "headcount config show --config config.toml --format json",
        "headcount simulate --nodes 50 --profile lan --loss 5% --latency 1ms --jitter 0s --scenario mass-crash --seed 7 \
         --formed --html report.html",
        "headcount tune --rtt 80ms --loss 2% --nodes 200 --detect-within 20s",
        "headcount tune --from :7118 --detect-within 20s --token-file t",
        "headcount tune --from http://127.0.0.1:7118 --nodes 500 --detect-within 20s",
        "headcount tune --rtt 1ms --nodes 3 --detect-within 2s --false-alarms-per-month 1 --no-simulation",
    ] {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).expect_err("it failed"));
    }
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    for line in [
        "headcount",
        "headcount nonsense",
        "headcount dev --nodes 0",
        "headcount members --status upp",
        "headcount watch --kind node_jioned",
        "headcount watch --after yesterday",
        "headcount join",
        "headcount remove",
        "headcount remove a/b",
        "headcount tags zone",
        "headcount tags =eu",
        "headcount wait",
        "headcount wait 3 --members 3",
        "headcount simulate --loss 5",
        "headcount simulate --loss 101%",
        "headcount simulate --loss nan",
        "headcount leader --confirm resign",
        "headcount leader resign b",
        "headcount leader resign --to a/b",
        "headcount lead",
        "headcount lead sleep 5",
        "headcount lead --grace soon -- sleep 5",
        "headcount voters",
        "headcount voters add",
        "headcount recover",
        "headcount recover --voters a/b",
        "headcount wait --members 5 --timeout soon",
        "headcount simulate --scenario crush",
        "headcount tune --rtt 80ms --nodes 200",
        "headcount tune --rtt 80ms --detect-within 20s",
        "headcount tune --from :7118",
        "headcount tune --rtt 80 --nodes 200 --detect-within 20s",
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
    assert_eq!(parse("headcount --help").expect_err("help").exit_code(), 0);
    let version = parse("headcount --version").expect_err("version");
    assert_eq!(version.kind(), ErrorKind::DisplayVersion);
    assert!(matches!(parse("headcount version --format json").expect("a command").command, Command::Version(_)));
}

#[test]
fn a_number_of_members_is_understood_either_way() {
    for line in ["headcount wait 3", "headcount wait --members 3"] {
        let Command::Wait(args) = parse(line).expect(line).command else { panic!("{line}") };
        assert_eq!(args.wanted(), 3);
    }
}

#[test]
fn shares_are_percentages_or_fractions_and_a_bare_percentage_is_recognised() {
    assert_eq!((share("5%"), share("0.05"), share("100%"), share("1")), (Ok(0.05), Ok(0.05), Ok(1.0), Ok(1.0)));
    assert!(share("5").is_err_and(|error| error.contains("did you mean 5%?")));
    for text in ["", "x", "NaN", "inf", "101%"] {
        assert!(share(text).is_err(), "{text}");
    }
}

#[test]
fn the_help_names_variables_precedence_and_exit_codes() {
    // However wide the terminal is.
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = |line: &str| words(parse(line).expect_err("help").to_string());
    let agent = help("headcount agent --help");
    for text in ["HEADCOUNT_<SECTION>__<KEY>", "a flag beats a variable", "config show", "130 second signal"] {
        assert!(agent.contains(text), "{text}: {agent}");
    }
    assert!(help("headcount lead --help").contains("Exit codes: the command's own"));
    for line in ["members", "watch", "info", "join", "leave", "remove", "tags", "leader", "view", "recover", "wait"] {
        assert!(help(&format!("headcount {line} --help")).contains("Exit codes: 0 "), "{line}");
    }
    assert!(help("headcount watch --help").contains("node_joining and node_joined"));
}

#[test]
fn tags_keep_what_follows_the_first_equals_sign() {
    assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
    assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
}

#[test]
fn what_is_refused_says_what_is_taken_instead() {
    for (line, told) in [
        ("headcount watch --kind message", "headcount listen TOPIC"),
        ("headcount watch --kind node_jined", "did you mean node_joined? there are node_joining"),
        ("headcount watch --kind node_dwon", "did you mean node_detected_down?"),
        ("headcount watch --kind xyz", ": there are node_joining"),
        ("headcount request b ask --timeout 30s", "1ms to 25s"),
        ("headcount request b ask --timeout 0s", "1ms to 25s"),
    ] {
        let error = parse(line).expect_err(line);
        assert!(error.to_string().contains(told) && error.exit_code() == 2, "{line}: {error}");
    }
}
