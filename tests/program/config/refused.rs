//! Values that are refused, each with its place and the range that is allowed.

use super::*;

/// One line of a file that is refused, with what the message must hold: key, value found, and the range or reason.
const REFUSED_LINES: &[(&str, &str, &str, &str)] = &[
    // name, cluster, profile
    ("name = \"a b\"", "name", "\"a b\"", "1 to 63 bytes of [A-Za-z0-9._-]"),
    ("name = \"\"", "name", "\"\"", "1 to 63 bytes"),
    ("name = 7", "name", "7", "is a whole number; allowed is 1 to 63 bytes"),
    ("cluster = \"ü\"", "cluster", "\"ü\"", "1 to 63 bytes of [A-Za-z0-9._-]"),
    ("profile = \"slow\"", "profile", "\"slow\"", "default, local, lan, wan, fast"),
    ("profile = true", "profile", "true", "write a string in quotes"),
    // addresses
    ("bind = \"7117\"", "bind", "\"7117\"", "IP:PORT"),
    ("bind = \"10.0.0.1\"", "bind", "\"10.0.0.1\"", "has no port"),
    ("bind = \"localhost:7117\"", "bind", "\"localhost:7117\"", "is not an IP address with a port"),
    ("bind = \"224.0.0.1:7117\"", "bind", "\"224.0.0.1:7117\"", "multicast"),
    ("bind = 7117", "bind", "7117", "IP:PORT"),
    ("advertise = \"0.0.0.0:7117\"", "advertise", "\"0.0.0.0:7117\"", "neither unspecified nor multicast"),
    ("advertise = \"10.0.0.1:0\"", "advertise", "\"10.0.0.1:0\"", "port not 0"),
    ("advertise = \"host\"", "advertise", "\"host\"", "is not an IP address with a port"),
    ("api_address = \"\"", "api_address", "\"\"", "1 to 100 bytes"),
    ("api_address = \"a\\u0007\"", "api_address", "\"a\\u0007\"", "control character"),
    // lists and tables
    ("seeds = \"a:1\"", "seeds", "\"a:1\"", "write a list of strings"),
    ("seeds = [\"a\"]", "seeds", "\"a\"", "has no port"),
    ("seeds = [\"a:70000\"]", "seeds", "\"a:70000\"", "port 1 to 65535"),
    ("seeds = [\"::1:7117\"]", "seeds", "\"::1:7117\"", "brackets"),
    ("seeds = [\"srv:example\"]", "seeds", "\"srv:example\"", "is no name of SRV records"),
    ("seeds_file = \"\"", "seeds_file", "\"\"", "is empty"),
    ("seeds_command = \"x\"", "seeds_command", "\"x\"", "write a list of strings"),
    ("seeds_command = [\"\"]", "seeds_command", "[\"\"]", "names no program"),
    ("seeds = [7117]", "seeds", "7117", "is a whole number"),
    ("data_dir = \"\"", "data_dir", "\"\"", "a path"),
    ("tags = [\"a=b\"]", "tags", "[\"a=b\"]", "write a table of strings"),
    ("tags = { n = 3 }", "tags.n", "3", "a tag is a string in quotes"),
    ("tags = { \"a=b\" = \"x\" }", "tags.a=b", "\"x\"", "at most 32 keys, 512 bytes"),
    ("tags.zone.a = \"x\"", "tags.zone", "{…}", "is a table, a tag is a string"),
    // numbers
    ("mtu = 9000", "mtu", "9000", "1000 to 1400"),
    ("mtu = 999", "mtu", "999", "1000 to 1400"),
    ("mtu = -1", "mtu", "-1", "1000 to 1400"),
    ("mtu = \"1400\"", "mtu", "\"1400\"", "write a whole number without quotes"),
    ("mtu = 1400.0", "mtu", "1400.0", "is a number with a fraction"),
    ("mtu = 1979-05-27", "mtu", "1979-05-27", "is a date or time"),
    ("observers = 1", "observers", "1", "2 to 64"),
    ("observers = 65", "observers", "65", "2 to 64"),
    ("timing.gossip_fanout = 0", "timing.gossip_fanout", "0", "1 to 16"),
    ("timing.gossip_fanout = 17", "timing.gossip_fanout", "17", "1 to 16"),
    // durations
    ("timing.heartbeat_interval = 5", "timing.heartbeat_interval", "5", "has no unit; write \"5s\""),
    ("timing.heartbeat_interval = \"5\"", "timing.heartbeat_interval", "\"5\"", "has no unit; write \"5s\""),
    (
        "timing.heartbeat_interval = \"5 lightyears\"",
        "timing.heartbeat_interval",
        "lightyears",
        "is not a valid duration",
    ),
    ("timing.heartbeat_interval = 5.5", "timing.heartbeat_interval", "5.5", "write a duration with its unit"),
    ("timing.heartbeat_interval = \"49ms\"", "timing.heartbeat_interval", "49ms", "50ms to 1m"),
    ("timing.heartbeat_interval = \"61s\"", "timing.heartbeat_interval", "\"61s\"", "50ms to 1m"),
    ("timing.suspect_timeout = \"1s\"", "timing.suspect_timeout", "1s", "1s 666ms (heartbeat_interval / 3) to 10m"),
    ("timing.suspect_timeout = \"11m\"", "timing.suspect_timeout", "11m", "to 10m"),
    ("timing.down_timeout = \"10s\"", "timing.down_timeout", "10s", "more than 10s (suspect_timeout), at most 1h"),
    ("timing.down_timeout = \"61m\"", "timing.down_timeout", "\"61m\"", "at most 1h"),
    (
        "timing.host_down_timeout = \"10s\"",
        "timing.host_down_timeout",
        "10s",
        "10s 1ms (suspect_timeout + 1ms) to 15s (down_timeout)",
    ),
    ("timing.host_down_timeout = \"16s\"", "timing.host_down_timeout", "16s", "to 15s (down_timeout)"),
    ("timing.gossip_interval = \"19ms\"", "timing.gossip_interval", "19ms", "20ms to 25s (5 × heartbeat_interval)"),
    ("timing.gossip_interval = \"26s\"", "timing.gossip_interval", "26s", "20ms to 25s (5 × heartbeat_interval)"),
    ("timing.probe_timeout = \"0ms\"", "timing.probe_timeout", "\"0ms\"", "1ms to 666ms (suspect_timeout / 15)"),
    ("timing.probe_timeout = \"700ms\"", "timing.probe_timeout", "700ms", "1ms to 666ms (suspect_timeout / 15)"),
    ("timing.probe_timeout = \"1500us\"", "timing.probe_timeout", "1500us", "whole number of milliseconds"),
    ("timing.retry_interval = \"99ms\"", "timing.retry_interval", "99ms", "100ms to 10m"),
    ("timing.retry_interval = \"11m\"", "timing.retry_interval", "11m", "100ms to 10m"),
    ("timing.reap_after = \"59s\"", "timing.reap_after", "59s", "1m to 30days"),
    ("timing.reap_after = \"31d\"", "timing.reap_after", "31d", "1m to 30days"),
    ("timing.link_keepalive = \"999ms\"", "timing.link_keepalive", "999ms", "1s to 10m"),
    ("timing.link_keepalive = \"11m\"", "timing.link_keepalive", "11m", "1s to 10m"),
    // hostile
    ("name = \"a\u{202e}b\"", "name", "\"a\\u{202e}b\"", "1 to 63 bytes"),
    ("log.level = \"a\u{202e}b\"", "log.level", "\"a\\u{202e}b\"", "not a valid level"),
    // leadership
    (
        "leadership.mode = \"raft\"",
        "leadership.mode",
        "\"raft\"",
        "is not a valid mode of leadership; allowed is none, quorum, lease",
    ),
    (
        "leadership.lease.url = \"sqlite://a.db\"",
        "leadership.lease.url",
        "\"sqlite://a.db\"",
        "is a database that nobody asks while leadership.mode is \"none\"; allowed is a url together with leadership.mode = \"lease\"",
    ),
    (
        "leadership = { mode = \"lease\", lease = { url = \"postgres://u:s3cret@h/d?nonsense=1\" } }",
        "leadership.lease.url",
        "\"postgres://u:…@h/d?…\"",
        "unknown keyword as option 1",
    ),
    (
        "leadership = { mode = \"lease\", lease = { url = \"postgres://u@h/d?sslmode=requir\" } }",
        "leadership.lease.url",
        "\"postgres://u@h/d?sslmode=requir\"",
        "sslmode \"requir\" is unknown; allowed is disable, prefer",
    ),
    (
        "leadership = { mode = \"lease\", lease = { url = \"postgres://u@h:x/d\" } }",
        "leadership.lease.url",
        "\"postgres://u@h:…/d\"",
        "port is none from 1 to 65535",
    ),
    (
        "leadership = { mode = \"lease\", lease = { url = \"sqlite://a.db\", schema = \"s\" } }",
        "leadership.lease.schema",
        "\"s\"",
        "SQLite files have none",
    ),
    (
        "leadership = { mode = \"lease\", lease = { url = \"sqlite://a.db\", statement_timeout = \"6s\" } }",
        "leadership.lease.statement_timeout",
        "6s",
        "10ms to 5s (renewal_interval)",
    ),
    ("leadership.lease.leases = \"billing\"", "leadership.lease.leases", "\"billing\"", "write a list of strings"),
    ("leadership.lease.leases = []", "leadership.lease.leases", "[]", "1 to 64 different names"),
    ("leadership.lease.leases = [\"a\", \"a\"]", "leadership.lease.leases", "a", "names \"a\" twice"),
    ("leadership.lease.leases = [\"a b\"]", "leadership.lease.leases", "\"a b\"", "is not a valid name"),
    ("leadership.lease.row_ttl = 30", "leadership.lease.row_ttl", "30", "has no unit"),
    (
        "leadership.mode = \"quorum\"",
        "leadership.mode",
        "\"quorum\"",
        "makes two leaders; allowed is quorum with data_dir",
    ),
    ("leadership.voters = \"a\"", "leadership.voters", "\"a\"", "write a list of strings"),
    ("leadership.voters = [\"a b\"]", "leadership.voters", "\"a b\"", "is not a valid name"),
    ("leadership.voters = [\"a\", \"a\"]", "leadership.voters", "a", "names \"a\" twice; allowed is at most 7"),
    ("leadership.priority = 256", "leadership.priority", "256", "is out of range; allowed is 0 to 255"),
    ("leadership.on_resign = \"wait\"", "leadership.on_resign", "\"wait\"", "is neither release nor expire"),
    ("leadership.lease_duration = \"499ms\"", "leadership.lease_duration", "499ms", "500ms to 10m"),
    ("leadership.renewal_interval = \"8s\"", "leadership.renewal_interval", "8s", "7s 500ms (half of lease_duration)"),
    // http and log
    ("http.bind = \"on\"", "http.bind", "\"on\"", "or \"off\""),
    ("http.bind = false", "http.bind", "false", "or \"off\""),
    ("http.bind = \"0.0.0.0:7118\"", "http.bind", "\"0.0.0.0:7118\"", "set http.token_file, or http.insecure = true"),
    ("http.bind = \"127.0.0.1:7117\"", "http.bind", "\"127.0.0.1:7117\"", "takes the port of gossip"),
    ("http.token_file = \"\"", "http.token_file", "\"\"", "a path"),
    ("http.insecure = \"false\"", "http.insecure", "\"false\"", "true or false, without quotes"),
    ("http.allowed_hosts = \"a\"", "http.allowed_hosts", "\"a\"", "write a list of strings"),
    ("http.allowed_hosts = [\"a:80\"]", "http.allowed_hosts", "\"a:80\"", "is not a host name without a port"),
    ("http.max_connections = 7", "http.max_connections", "7", "8 to 65536"),
    ("http.max_connections = 65537", "http.max_connections", "65537", "8 to 65536"),
    ("http.max_connections = -1", "http.max_connections", "-1", "8 to 65536"),
    ("http.max_streams = 0", "http.max_streams", "0", "1 to 65536"),
    ("log.level = \"verbose\"", "log.level", "\"verbose\"", "which is not a valid level; allowed is off, error, warn"),
    ("log.level = \"headcount=loud\"", "log.level", "\"headcount=loud\"", "target=level"),
    ("log.level = \"\"", "log.level", "\"\"", "to log nothing write \"off\""),
    ("log.format = \"xml\"", "log.format", "\"xml\"", "text, json"),
];

#[test]
fn every_refusal_names_file_line_key_value_and_range() {
    for (line, key, found, reason) in REFUSED_LINES {
        let file = Written::new(&format!("# a comment\n\n{line}\n"));
        let problems = refused(&file.loader());
        let [problem] = problems.as_slice() else { panic!("{line}: {problems:#?}") };
        assert_eq!(problem.source, Source::File { path: file.path.clone(), line: 3 }, "{line}");
        assert_eq!(problem.key.as_deref(), Some(*key), "{line}");
        assert!(problem.allowed.is_some(), "{line}");
        let text = problem.to_string();
        assert!(text.starts_with(&format!("{}:3: {key} = ", file.path.display())), "{text}");
        assert!(text.contains(found) && text.contains(reason), "{line}: {text}");
    }
}

#[test]
fn what_is_not_known_is_refused_with_what_was_probably_meant() {
    for (text, line, reason, hint) in [
        ("nmae = \"a\"", 1, "unknown key nmae", "did you mean name?"),
        ("heartbeat_interval = \"5s\"", 1, "unknown key", "did you mean heartbeat_interval, in section [timing]?"),
        ("[timing]\nobservers = 3", 2, "unknown key timing.observers", "did you mean observers, at the top"),
        ("[timing]\nhearbeat_interval = \"5s\"", 2, "unknown key", "did you mean timing.heartbeat_interval?"),
        ("[http]\ncors = true", 2, "unknown key http.cors", "keys here are bind, token_file, read_token_file"),
        ("[http.tls]\ncert = \"x\"", 1, "unknown key http.tls", "keys here are bind, token_file, read_token_file"),
        ("\n[timings]\nx = 1", 2, "unknown section [timings]", "did you mean [timing]?"),
        (
            "[gadgets]",
            1,
            "unknown section [gadgets]",
            "are [timing], [seal], [leadership], [leadership.lease], [http], [metrics], [log]",
        ),
        ("timing = \"5s\"", 1, "[timing] is a section", "write [timing] on a line of its own"),
        (
            "[leadership.lease]\nulr = \"x\"",
            2,
            "unknown key leadership.lease.ulr",
            "keys here are url, schema, table_prefix",
        ),
        ("[leadership.leas]\nurl = \"x\"", 1, "unknown section [leadership.leas]", "did you mean [leadership.lease]?"),
        ("[leadership]\nvoter = [\"a\"]", 2, "unknown key leadership.voter", "did you mean leadership.voters?"),
        ("[handlers]\ncommand = [\"x\"]", 1, "handlers = … is a table", "write [[handlers]] on a line of its own"),
        (
            "[[handlers]]\n\n[[handlers]]\nurl = \"http://a/\"",
            1,
            "handlers has neither command nor url",
            "write command",
        ),
        ("[[handlers]]\ncomand = [\"x\"]", 2, "unknown key handlers.comand", "did you mean command?"),
        (
            "[[handlers]]\ncommand = [\"x\"]\nkinds = [\"node_detected_dwon\"]",
            3,
            "is no kind of event: did you mean node_detected_down?",
            "node_suspected",
        ),
        (
            "[[handlers]]\ncommand = [\"x\"]\nkinds = [\"node_dwon\"]",
            3,
            "is no kind of event: did you mean node_detected_down?",
            "node_suspected",
        ),
        ("[[handlers]]\ncommand = \"x y\"", 2, "handlers.command = \"x y\" is a string", "there is no shell"),
        ("[[handlers]]\ncommand = []", 2, "handlers.command = [] names no program", "a list of words"),
        ("[[handlers]]\ncommand = [\"x\", 1]", 2, "handlers.command = 1 is a whole number", "strings in quotes"),
        (
            "[[handlers]]\ncommand = [\"x\"]\nurl = \"http://a/\"",
            3,
            "handlers.url = … stands beside a command",
            "two handlers",
        ),
        ("[[handlers]]\nurl = \"ftp://a/s3cret\"", 2, "handlers.url = … does not begin with http://", "https://HOST"),
        (
            "[[handlers]]\ncommand = [\"x\"]\nretry_for = \"1s\"",
            3,
            "has a key beside it that only a url has",
            "with a url alone",
        ),
        (
            "[[handlers]]\ncommand = [\"x\"]\nkinds = [\"node_lost\"]",
            3,
            "handlers.kinds = \"node_lost\" is no kind",
            "node_joined",
        ),
        (
            "[[handlers]]\ncommand = [\"x\"]\nnodes = [\"a b\"]",
            3,
            "handlers.nodes = \"a b\" is not a valid name",
            "names of nodes",
        ),
        (
            "[[handlers]]\ncommand = [\"x\"]\ntopics = [\"t\"]",
            3,
            "handlers.topics = [\"t\"] are those of messages",
            "\"message\" in it",
        ),
        (
            "[[handlers]]\ncommand = [\"x\"]\ntimeout = \"99ms\"",
            3,
            "handlers.timeout = \"99ms\" is out of range",
            "100ms to 1h",
        ),
        ("[[handlers]]\ncommand = [\"x\"]\ntimeout = 5", 3, "handlers.timeout = 5 is a whole number", "in quotes"),
        (
            "[[handlers]]\ncommand = [\"x\"]\nconcurrency = 65",
            3,
            "handlers.concurrency = 65 is out of range",
            "1 to 64",
        ),
        (
            "[[handlers]]\ncommand = [\"x\"]\nname = \"a b\"",
            3,
            "handlers.name = \"a b\" is not a valid name",
            "1 to 63 bytes",
        ),
        (
            "[[handlers]]\nname = \"n\"\ncommand = [\"x\"]\n[[handlers]]\nname = \"n\"\ncommand = [\"x\"]",
            4,
            "handlers.name = \"n\" is the name of another",
            "",
        ),
        ("mtu = 1400\nmtu = 1200", 2, "not valid TOML: duplicate key", ""),
        ("mtu = 1400\nname = a", 2, "not valid TOML", ""),
    ] {
        let file = Written::new(text);
        let problems = refused(&file.loader());
        let [problem] = problems.as_slice() else { panic!("{text}: {problems:#?}") };
        let told = problem.to_string();
        assert!(told.starts_with(&format!("{}:{line}: ", file.path.display())), "{text}: {told}");
        assert!(told.contains(reason) && told.contains(hint), "{text}: {told}");
    }
}

#[test]
fn variables_and_flags_are_refused_by_name() {
    for (name, value, reason) in [
        ("HEADCOUNT_MTU", "9000", "mtu = 9000 is out of range; allowed is 1000 to 1400"),
        ("HEADCOUNT_MTU", "large", "mtu = \"large\" is a string; allowed is 1000 to 1400"),
        ("HEADCOUNT_NAME", "", "name = \"\" is not a valid name"),
        ("HEADCOUNT_TIMING__DOWN_TIMEOUT", "15", "has no unit; write \"15s\""),
        ("HEADCOUNT_HTTP__INSECURE", "1", "http.insecure = \"1\" is a string; allowed is true or false"),
        ("HEADCOUNT_SEEDS", "a:1,b", "seeds = \"b\" has no port"),
        ("HEADCOUNT_TAGS", "zone", "tags = \"zone\" has no '='"),
        ("HEADCOUNT_DATA_DIR", "", "data_dir = \"\" is empty"),
        ("HEADCOUNT_CONFIG", "x", "is not a known variable; "),
        ("HEADCOUNT_TIMING_DOWN_TIMEOUT", "9s", "did you mean HEADCOUNT_TIMING__DOWN_TIMEOUT?"),
        ("HEADCOUNT_HANDLERS", "x", "is given in a configuration file alone"),
        ("HEADCOUNT_SEAL__KEY_FILE", "/nowhere/x", "seal.key_file = \"/nowhere/x\" cannot be read"),
        ("HEADCOUNT_SEAL__KEY_FILE", "", "seal.key_file = \"\" is empty; leave the key out instead"),
        ("HEADCOUNT_HTTP__TOKEN_FILE", "", "http.token_file = \"\" is empty; leave the key out instead"),
        ("HEADCOUNT_SEAL__KEYS", "hunter2", "seal.keys = … is no key: a key is 32 random bytes"),
        ("HEADCOUNT_SEAL__KEYS", "", "seal.keys = … names no key, so that nothing would be sealed"),
        ("HEADCOUNT_SEAL__KEYS", " , ", "seal.keys = … names no key"),
        ("HEADCOUNT_SEAL__MODE", "require", "seal.mode = \"require\" needs keys, and there are none"),
        (
            "HEADCOUNT_SEAL__MODE",
            "on",
            "seal.mode = \"on\" is not a mode of sealing; allowed is off, permit, prefer, require",
        ),
        ("HEADCOUNT_LEADERSHIP__LEASE__URL", "x", "leadership.lease.url = \"x\" is a database that nobody asks"),
        ("HEADCOUNT_LEADERSHIP__MODE", "lease", "leadership.mode = \"lease\" needs a database, and none is named"),
        ("HEADCOUNT_LEADERSHIP__MODE", "x", "leadership.mode = \"x\" is not a valid mode of leadership"),
        ("HEADCOUNT_LEADERSHIP__VOTERS", "a,b", "leadership.voters = [\"a\", \"b\"] have no effect"),
    ] {
        let problems = refused(&Loader::new().host_name("host").environment(variables(&[(name, value)])));
        let [problem] = problems.as_slice() else { panic!("{name}: {problems:#?}") };
        let told = problem.to_string();
        assert!(told.starts_with(&format!("environment {name}: ")) && told.contains(reason), "{name}: {told}");
    }
    for (key, name, value, reason) in [
        ("name", "--name", "a b", "name = \"a b\" is not a valid name"),
        ("http.bind", "--http", "0.0.0.0:7118", "set http.token_file"),
        ("seeds", "--seed", "a", "seeds = \"a\" has no port"),
        ("tags", "--tag", "a", "tags = \"a\" has no '='"),
        ("log.level", "--log-level", "loud", "log.level = \"loud\""),
    ] {
        let told = Loader::new().host_name("host").flag(key, name, value).load().expect_err(name).to_string();
        assert!(told.starts_with(&format!("flag {name}: ")) && told.contains(reason), "{name}: {told}");
    }
}

#[test]
fn a_host_name_that_is_no_node_name_asks_for_one() {
    let told = Loader::new().host_name("my host").load().expect_err("a space").to_string();
    assert!(told.contains("\"my host\"") && told.contains("--name") && told.contains("[A-Za-z0-9._-]"), "{told}");
    assert!(Loader::new().host_name("my host").flag("name", "--name", "a").load().is_ok());
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file_and_none_follows_from_another() {
    let text = "mtu = 9000\nname = \"a b\"\n[timing]\nheartbeat_interval = 20\nsuspect_timeout = \"1s\"\n\
                [http]\nbind = \"0.0.0.0:1\"\ntoken_file = 3\n[hppt]\n";
    let file = Written::new(text);
    let problems = refused(&file.loader().environment(variables(&[("HEADCOUNT_OBSERVERS", "1")])));
    let told: Vec<_> = problems
        .iter()
        .map(|problem| match &problem.source {
            Source::File { line, .. } => format!("{line}"),
            source => source.to_string(),
        })
        .collect();
    // Neither suspect_timeout (heartbeat_interval is refused) nor http.bind (token_file is) is judged.
    assert_eq!(told, ["1", "2", "4", "8", "9", "environment HEADCOUNT_OBSERVERS"], "{problems:#?}");
    let whole = LoadError::Refused { problems }.to_string();
    assert!(whole.starts_with("6 problems in the configuration:\n  ") && whole.lines().count() == 7, "{whole}");
}

#[test]
fn an_entry_of_a_list_is_refused_on_its_own_line() {
    let file = Written::new("seeds = [\n  \"a:1\",\n  \"b\",\n]\n[tags]\nzone = \"eu\"\nrack = 7\n");
    let problems = refused(&file.loader());
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains("config.toml:3: seeds = \"b\" has no port"), "{lines:?}");
    assert!(lines[1].contains("config.toml:7: tags.rack = 7 is a whole number"), "{lines:?}");
}

#[test]
fn lists_and_tags_beyond_their_bounds_are_refused() {
    let seeds = vec!["\"a:1\""; 65].join(", ");
    let tags = (0..33).map(|number| format!("k{number} = \"v\"")).collect::<Vec<_>>().join("\n");
    let handlers = |count| "[[handlers]]\ncommand = [\"x\"]\n".repeat(count);
    let cases = [
        (handlers(65), "a list of 65"),
        (format!("seeds = [{seeds}]"), "at most 64"),
        (format!("http.allowed_hosts = [{}]", vec!["\"a\""; 65].join(", ")), "at most 64"),
        (format!("[tags]\n{tags}"), "at most 32"),
        (format!("tags = {{ k = \"{}\" }}", "v".repeat(512)), "512 bytes"),
        (format!("tags = {{ k = \"{0}\", l = \"{0}\" }}", "v".repeat(300)), "512 bytes"),
        (format!("api_address = \"{}\"", "a".repeat(101)), "has 101 bytes; allowed is 1 to 100"),
        (format!("name = \"{}\"", "n".repeat(64)), "at most 63 bytes"),
        (format!("log.level = \"{}\"", "x".repeat(100_000)), "not a valid level"),
        (format!("profile = \"{}\"", "\u{202e}".repeat(100_000)), "not a valid profile"),
        (format!("seeds = [\"{}\"]", "x".repeat(100_000)), "has no port"),
        (format!("api_address = \"{}\"", "x".repeat(100_000)), "has 100000 bytes"),
        (format!("tags = {{ {} = \"\" }}", "k".repeat(100_000)), "at most 512 bytes"),
        (format!("timing.reap_after = \"{}\"", "1x".repeat(50_000)), "not a valid duration"),
        (format!("leadership.voters = [\"{}\"]", "v".repeat(100_000)), "at most 63 bytes"),
    ];
    for (text, reason) in cases {
        let told = Written::new(&text).loader().load().expect_err(reason).to_string();
        assert!(told.contains(reason) && told.contains("config.toml:1: "), "{told}");
        assert!(told.len() < 700 && !told.contains('\u{202e}'), "endless: {told}");
    }
    assert!(Written::new(&handlers(64)).loader().load().is_ok());
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing.toml");
    let told = check_file(&missing).expect_err("no file").to_string();
    assert!(told.contains("missing.toml") && told.contains("check its path"), "{told}");
    let broken = directory.path().join("broken.toml");
    std::fs::write(&broken, [0xff, 0xfe]).expect("a file");
    let told = check_file(&broken).expect_err("no text").to_string();
    assert!(told.contains("broken.toml:1: the file is UTF-16") && !told.contains("check its path"), "{told}");
    for (path, kind) in [(directory.path(), "a directory"), (Path::new("/dev/zero"), "a device")] {
        let told = check_file(path).expect_err(kind).to_string();
        assert!(told.contains(&format!("it is {kind}, not a regular file")), "{told}");
    }
    std::fs::write(&broken, vec![b'#'; (1 << 20) + 1]).expect("a file");
    assert!(check_file(&broken).expect_err("too large").to_string().contains("more than 1 MiB"));
}

#[test]
fn no_message_holds_a_piece_of_a_password() {
    let listed = "leadership = { mode = \"lease\", lease = { url = [\"postgres://u:S3cret@h/d\"] } }";
    let problems = refused(&Written::new(listed).loader());
    assert!(!format!("{problems:?}").contains("S3c"), "{problems:?}");
    let long = "S3cret".repeat(40);
    for url in [
        "postgres://hc:S3c@ret/w#S3cret@127.0.0.1:15499/app".to_owned(),
        "postgres://hc:S3c?S3cret@h/app".to_owned(),
        "postgres://hc:S3cret/app".to_owned(),
        "postgres://h/d?pasword=S3cret".to_owned(),
        "postgres://h/d?Password=S3cret&sslmode=requir".to_owned(),
        "postgres:/u:S3cret@h".to_owned(),
        "sqlite://u:S3cret@h/d".to_owned(),
        "mysql://u:S3cret@h/d".to_owned(),
        // Longer than what messages repeat of a value.
        format!("postgres://hc:p/{long}@h/app?nonsense=1"),
        format!("postgres://hc:{long}@h/app?nonsense=1"),
    ] {
        let text = format!("leadership = {{ mode = \"lease\", lease = {{ url = \"{url}\" }} }}\n");
        let error = Written::new(&text).loader().load().expect_err(&url);
        assert!(!format!("{error} {error:?}").contains("S3c"), "{url}: {error}");
        assert!(error.to_string().contains("leadership.lease.url"), "{url}: {error}");
        for loader in [
            Loader::new().host_name("h").flag("leadership.lease.url", "--lease-url", &url),
            Loader::new().host_name("h").environment(variables(&[("HEADCOUNT_LEADERSHIP__LEASE__URL", &*url)])),
        ] {
            let error = loader.flag("leadership.mode", "--mode", "lease").load().expect_err(&url);
            assert!(!format!("{error} {error:?}").contains("S3c"), "{url}: {error}");
        }
    }
}
