//! What a person meets who configures an agent: precedence and provenance of the layers, every refusal with its place,
//! and the example file that documents every key.
#![cfg(feature = "agent")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use headcount::config::{
    HttpConfig, LeadershipMode, LoadError, Loaded, Loader, LogFormat, Problem, Source, check_file, keys,
};
use headcount::{Config, Profile};

/// A file of this text, and what loading it gives.
struct Written {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Written {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("config.toml");
        std::fs::write(&path, text).expect("a file");
        Self { _directory: directory, path }
    }

    fn loader(&self) -> Loader {
        Loader::new().host_name("host").file(&self.path)
    }
}

/// A file of this text that only its owner reads.
struct TokenFile(tempfile::NamedTempFile);

impl TokenFile {
    fn new(text: &str) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        Self(file)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().expect("text")
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn load(text: &str) -> Loaded {
    Written::new(text).loader().load().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(loader: &Loader) -> Vec<Problem> {
    match loader.load() {
        Err(LoadError::Refused { problems }) => problems,
        other => panic!("not refused: {other:?}"),
    }
}

fn layer(loaded: &Loaded, key: &str) -> String {
    loaded.source(key).expect("a key").to_string()
}

#[test]
fn nothing_said_gives_the_defaults() {
    let loaded = Loader::new().host_name("host").load().expect("defaults");
    assert_eq!(loaded.agent.config, Config::new("host").expect("a good name"));
    assert_eq!(loaded.agent.http, HttpConfig::default());
    assert_eq!((loaded.agent.log.level.as_str(), loaded.agent.log.format), ("info", LogFormat::Text));
    assert_eq!(layer(&loaded, "name"), "default");
    assert_eq!(layer(&loaded, "timing.down_timeout"), "profile default");
}

#[test]
fn each_layer_beats_the_ones_below_and_says_so() {
    let file = Written::new("profile = \"wan\"\n\n[timing]\ngossip_interval = \"3s\"\n");
    let key = "timing.gossip_interval";
    let gossip = |loaded: &Loaded| loaded.agent.config.settings.gossip_interval;
    let variable = variables(&[("HEADCOUNT_TIMING__GOSSIP_INTERVAL", "4s")]);
    let seconds = Duration::from_secs;

    let defaults = Loader::new().host_name("host").load().expect("defaults");
    assert_eq!((gossip(&defaults), layer(&defaults, key)), (seconds(1), "profile default".into()));

    let profile = Loader::new().host_name("host").flag("profile", "--profile", "local").load().expect("a profile");
    assert_eq!((gossip(&profile), layer(&profile, key)), (Duration::from_millis(500), "profile local".into()));
    assert_eq!(layer(&profile, "profile"), "flag --profile");

    let from_file = file.loader().load().expect("a file");
    assert_eq!((gossip(&from_file), layer(&from_file, key)), (seconds(3), format!("file {}:4", file.path.display())));
    assert_eq!(layer(&from_file, "timing.heartbeat_interval"), "profile wan");
    assert_eq!(from_file.agent.config.profile(), Profile::Wan);

    let environment = file.loader().environment(variable.clone()).load().expect("a variable");
    assert_eq!(gossip(&environment), seconds(4));
    assert_eq!(layer(&environment, key), "environment HEADCOUNT_TIMING__GOSSIP_INTERVAL");

    // The order of the calls is no part of the precedence.
    let flag = Loader::new().flag(key, "--gossip", "5s").environment(variable).file(&file.path).host_name("host");
    let flag = flag.load().expect("a flag");
    assert_eq!((gossip(&flag), layer(&flag, key)), (seconds(5), "flag --gossip".into()));
}

#[test]
fn a_stronger_profile_does_not_undo_figures_of_a_weaker_layer() {
    let file = Written::new("profile = \"wan\"\n[timing]\nheartbeat_interval = \"3s\"\n");
    let loaded = file.loader().flag("profile", "--profile", "lan").load().expect("both");
    assert_eq!(loaded.agent.config.settings.heartbeat_interval, Duration::from_secs(3));
    assert_eq!(loaded.agent.config.settings.suspect_timeout, Duration::from_secs(6));
    assert_eq!(layer(&loaded, "timing.suspect_timeout"), "profile lan");
    assert!(layer(&loaded, "timing.heartbeat_interval").starts_with("file "));
}

#[test]
fn lists_and_tags_replace_those_below_as_a_whole() {
    let file = Written::new("seeds = [\"a:1\"]\ntags = { zone = \"eu\", role = \"db\" }\n");
    let environment = variables(&[("HEADCOUNT_SEEDS", "b:1, [::1]:2"), ("HEADCOUNT_TAGS", "zone=us")]);
    let loaded = file.loader().environment(environment.clone()).load().expect("variables");
    assert_eq!(loaded.agent.config.seeds, ["b:1", "[::1]:2"]);
    assert_eq!(loaded.agent.config.tags.iter().collect::<Vec<_>>(), [("zone", "us")]);

    let with_flags = file.loader().environment(environment);
    let with_flags =
        with_flags.flag("seeds", "--seed", "c:1").flag("seeds", "--seed", "d:1").flag("tags", "--tag", "k=v,w");
    let loaded = with_flags.load().expect("flags");
    assert_eq!(loaded.agent.config.seeds, ["c:1", "d:1"]);
    assert_eq!(loaded.agent.config.tags.iter().collect::<Vec<_>>(), [("k", "v,w")]);
    assert_eq!(layer(&loaded, "seeds"), "flag --seed");

    let loaded = file.loader().environment(variables(&[("HEADCOUNT_SEEDS", "")])).load().expect("an empty list");
    assert!(loaded.agent.config.seeds.is_empty());
    assert_eq!(layer(&loaded, "seeds"), "environment HEADCOUNT_SEEDS");
}

#[test]
fn every_key_can_be_said_in_the_environment() {
    let token = TokenFile::new("0123456789abcdef");
    let environment = [
        ("HEADCOUNT_NAME", "n"),
        ("HEADCOUNT_CLUSTER", "c"),
        ("HEADCOUNT_PROFILE", "lan"),
        ("HEADCOUNT_BIND", "127.0.0.1:1"),
        ("HEADCOUNT_ADVERTISE", "10.0.0.1:1"),
        ("HEADCOUNT_API_ADDRESS", "x"),
        ("HEADCOUNT_SEEDS", "a:1"),
        ("HEADCOUNT_DATA_DIR", "d"),
        ("HEADCOUNT_TAGS", "k=v"),
        ("HEADCOUNT_MTU", "1200"),
        ("HEADCOUNT_OBSERVERS", "5"),
        ("HEADCOUNT_TIMING__HEARTBEAT_INTERVAL", "1s"),
        ("HEADCOUNT_TIMING__SUSPECT_TIMEOUT", "3s"),
        ("HEADCOUNT_TIMING__DOWN_TIMEOUT", "4s"),
        ("HEADCOUNT_TIMING__GOSSIP_INTERVAL", "2s"),
        ("HEADCOUNT_TIMING__GOSSIP_FANOUT", "4"),
        ("HEADCOUNT_TIMING__PROBE_TIMEOUT", "100ms"),
        ("HEADCOUNT_TIMING__RETRY_INTERVAL", "1s"),
        ("HEADCOUNT_TIMING__REAP_AFTER", "1h"),
        ("HEADCOUNT_LEADERSHIP__MODE", "quorum"),
        ("HEADCOUNT_LEADERSHIP__VOTERS", "a,b, c"),
        ("HEADCOUNT_LEADERSHIP__LEASE__SCHEMA", "s"),
        ("HEADCOUNT_LEADERSHIP__LEASE__TABLE_PREFIX", "p_"),
        ("HEADCOUNT_LEADERSHIP__LEASE__LEASES", "default, billing"),
        ("HEADCOUNT_LEADERSHIP__LEASE__STATEMENT_TIMEOUT", "500ms"),
        ("HEADCOUNT_LEADERSHIP__LEASE__LIVENESS_WINDOW", "2s"),
        ("HEADCOUNT_LEADERSHIP__LEASE__ROW_TTL", "1m"),
        ("HEADCOUNT_LEADERSHIP__LEASE_DURATION", "3s"),
        ("HEADCOUNT_LEADERSHIP__RENEWAL_INTERVAL", "1s"),
        ("HEADCOUNT_LEADERSHIP__PRIORITY", "3"),
        ("HEADCOUNT_LEADERSHIP__ON_RESIGN", "expire"),
        ("HEADCOUNT_HTTP__BIND", "0.0.0.0:2"),
        ("HEADCOUNT_HTTP__TOKEN_FILE", token.path()),
        ("HEADCOUNT_HTTP__INSECURE", "true"),
        ("HEADCOUNT_HTTP__ALLOWED_HOSTS", "a.example,b"),
        ("HEADCOUNT_HTTP__MAX_CONNECTIONS", "8"),
        ("HEADCOUNT_HTTP__MAX_STREAMS", "1"),
        ("HEADCOUNT_LOG__LEVEL", "debug"),
        ("HEADCOUNT_LOG__FORMAT", "json"),
    ];
    let loaded = Loader::new().host_name("host").environment(variables(&environment)).load().expect("all keys");
    // A database goes with leases alone, and voters do not.
    let of_lease = environment.iter().filter(|(name, _)| !name.ends_with("__VOTERS") && !name.ends_with("__MODE"));
    let with_mode = of_lease.chain(&[
        ("HEADCOUNT_LEADERSHIP__MODE", "lease"),
        ("HEADCOUNT_LEADERSHIP__LEASE__URL", "postgres://u:s3cret@h/d"),
    ]);
    let of_lease = variables(&with_mode.copied().collect::<Vec<_>>());
    let of_lease = Loader::new().host_name("host").environment(of_lease).load().expect("all keys of leases");
    for key in keys() {
        let loaded = if key.name() == "leadership.lease.url" { &of_lease } else { &loaded };
        assert_eq!(layer(loaded, key.name()), format!("environment {}", key.variable()));
    }
    let shown = of_lease.table() + &of_lease.json().to_string();
    assert!(shown.contains("postgres://u:…@h") && !shown.contains("s3cret"), "{shown}");
    let lease = &of_lease.agent.config.leadership.lease;
    assert_eq!((lease.leases.len(), lease.row_ttl), (2, Some(Duration::from_secs(60))));
    assert_eq!(loaded.agent.config.settings.reap_after, Duration::from_secs(3600));
    let leadership = &loaded.agent.config.leadership;
    assert_eq!((leadership.mode, leadership.voters.len()), (LeadershipMode::Quorum, 3));
    assert_eq!(leadership.timing.renewal_interval, Duration::from_secs(1));
    assert_eq!((leadership.policy.priority, leadership.policy.on_resign.name()), (3, "expire"));
    assert_eq!(loaded.agent.http.bind, "0.0.0.0:2".parse().ok());
    assert!(loaded.agent.http.insecure);
    assert_eq!(loaded.agent.http.allowed_hosts, ["a.example", "b"]);
    assert_eq!((loaded.agent.http.max_connections, loaded.agent.http.max_streams), (8, 1));
    assert_eq!(loaded.agent.log.format, LogFormat::Json);
}

#[test]
fn http_can_be_off_and_remote_with_a_token_or_on_purpose() {
    assert_eq!(load("[http]\nbind = \"off\"").agent.http.bind, None);
    let token = TokenFile::new("0123456789abcdef");
    load(&format!("[http]\nbind = \"0.0.0.0:7118\"\ntoken_file = \"{}\"", token.path()));
    load("[http]\nbind = \"0.0.0.0:7118\"\ninsecure = true");
}

/// One line of a file that is refused, with what the message must hold: key, value found, and the range or reason.
const REFUSED_LINES: &[(&str, &str, &str, &str)] = &[
    // name, cluster, profile
    ("name = \"a b\"", "name", "\"a b\"", "1 to 63 bytes of [A-Za-z0-9._-]"),
    ("name = \"\"", "name", "\"\"", "1 to 63 bytes"),
    ("name = 7", "name", "7", "is a whole number; allowed is 1 to 63 bytes"),
    ("cluster = \"ü\"", "cluster", "\"ü\"", "1 to 63 bytes of [A-Za-z0-9._-]"),
    ("profile = \"fast\"", "profile", "\"fast\"", "default, local, lan, wan"),
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
    ("timing.suspect_timeout = \"9s\"", "timing.suspect_timeout", "9s", "10s (2 × heartbeat_interval) to 10m"),
    ("timing.suspect_timeout = \"11m\"", "timing.suspect_timeout", "11m", "to 10m"),
    ("timing.down_timeout = \"10s\"", "timing.down_timeout", "10s", "more than 10s (suspect_timeout), at most 1h"),
    ("timing.down_timeout = \"61m\"", "timing.down_timeout", "\"61m\"", "at most 1h"),
    ("timing.gossip_interval = \"19ms\"", "timing.gossip_interval", "19ms", "20ms to 25s (5 × heartbeat_interval)"),
    ("timing.gossip_interval = \"26s\"", "timing.gossip_interval", "26s", "20ms to 25s (5 × heartbeat_interval)"),
    ("timing.probe_timeout = \"0ms\"", "timing.probe_timeout", "\"0ms\"", "1ms to 666ms (suspect_timeout / 15)"),
    ("timing.probe_timeout = \"700ms\"", "timing.probe_timeout", "700ms", "1ms to 666ms (suspect_timeout / 15)"),
    ("timing.probe_timeout = \"1500us\"", "timing.probe_timeout", "1500us", "whole number of milliseconds"),
    ("timing.retry_interval = \"99ms\"", "timing.retry_interval", "99ms", "100ms to 10m"),
    ("timing.retry_interval = \"11m\"", "timing.retry_interval", "11m", "100ms to 10m"),
    ("timing.reap_after = \"59s\"", "timing.reap_after", "59s", "1m to 30days"),
    ("timing.reap_after = \"31d\"", "timing.reap_after", "31d", "1m to 30days"),
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
        "is a database that nobody asks while leadership.mode is \"none\"; allowed is leadership.mode = \"lease\" beside",
    ),
    (
        "leadership = { mode = \"lease\", lease = { url = \"postgres://u:s3cret@h/d?nonsense=1\" } }",
        "leadership.lease.url",
        "postgres://u:…@h/d?nonsense=1",
        "unknown keyword",
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
    ("leadership.lease.leases = [\"a\", \"a\"]", "leadership.lease.leases", "a", "is named twice"),
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
    ("leadership.voters = [\"a\", \"a\"]", "leadership.voters", "a", "is named twice; allowed is at most 7"),
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
        ("[http]\ncors = true", 2, "unknown key http.cors", "keys here are bind, token_file, insecure"),
        ("[http.tls]\ncert = \"x\"", 1, "unknown key http.tls", "keys here are bind, token_file, insecure"),
        ("\n[timings]\nx = 1", 2, "unknown section [timings]", "did you mean [timing]?"),
        ("[gadgets]", 1, "unknown section [gadgets]", "are [timing], [leadership], [leadership.lease], [http], [log]"),
        ("timing = \"5s\"", 1, "[timing] is a section", "write [timing] on a line of its own"),
        ("[seal]\nkey_file = \"k\"", 1, "section [seal] is not available in this version", "remove it"),
        (
            "[leadership.lease]\nulr = \"x\"",
            2,
            "unknown key leadership.lease.ulr",
            "keys here are url, schema, table_prefix",
        ),
        ("[leadership.leas]\nurl = \"x\"", 1, "unknown section [leadership.leas]", "did you mean [leadership.lease]?"),
        ("[leadership]\nvoter = [\"a\"]", 2, "unknown key leadership.voter", "did you mean leadership.voters?"),
        ("[[handlers]]\ncommand = \"x\"", 1, "section [handlers] is not available in this version", "remove it"),
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
        ("HEADCOUNT_SEAL__KEY_FILE", "x", "section [seal] is not available in this version"),
        ("HEADCOUNT_LEADERSHIP__LEASE__URL", "x", "leadership.lease.url = \"x\" is a database that nobody asks"),
        ("HEADCOUNT_LEADERSHIP__MODE", "lease", "leadership.mode = \"lease\" needs a database, and none is named"),
        ("HEADCOUNT_LEADERSHIP__MODE", "x", "leadership.mode = \"x\" is not a valid mode of leadership"),
        ("HEADCOUNT_LEADERSHIP__VOTERS", "a,b", "leadership.voters = [\"a\", \"b\"] elect nobody"),
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
fn two_keys_that_do_not_go_together_are_told_with_both_places() {
    let file = Written::new("[timing]\nsuspect_timeout = \"15s\"\ndown_timeout = \"20s\"\n");
    let problems = refused(&file.loader().flag("timing.heartbeat_interval", "--heartbeat", "8s"));
    let [problem] = problems.as_slice() else { panic!("{problems:#?}") };
    assert_eq!(
        problem.to_string(),
        format!(
            "{}:2: timing.suspect_timeout = \"15s\" is out of range; allowed is 16s (2 × heartbeat_interval) to 10m; \
             timing.heartbeat_interval = \"8s\" comes from flag --heartbeat",
            file.path.display()
        )
    );
    // A combination of two keys that bound each other in no range has both places, too.
    let file = Written::new("\nbind = \"127.0.0.1:7117\"\n");
    let elsewhere = file.loader().flag("seeds", "--seed", "10.0.0.1:7117").flag("seeds", "--seed", "10.0.0.2:7117");
    let told = elsewhere.load().expect_err("nobody is reached").to_string();
    let path = file.path.display();
    assert!(
        told.starts_with(&format!("{path}:2: bind = \"127.0.0.1:7117\" is reached from this machine only")),
        "{told}"
    );
    assert!(told.contains("--bind \"0.0.0.0:7117\"") && told.contains("take the line out"), "{told}");
    assert!(told.ends_with("seeds = [\"10.0.0.1:7117\", \"10.0.0.2:7117\"] comes from flag --seed"), "{told}");
    // The flag repairs what the file says.
    assert!(elsewhere_with_bind(&file).load().is_ok_and(|loaded| loaded.warnings.is_empty()));
    let told = Written::new("[leadership]\nvoters = [\"a\"]\n").loader().load().expect_err("nobody is elected");
    let told = told.to_string();
    assert!(
        told.contains(":2: leadership.voters = [\"a\"] elect nobody while leadership.mode is \"none\"; "),
        "{told}"
    );
    assert!(told.contains("leadership.mode = \"quorum\" beside them"), "{told}");
    assert!(told.ends_with("leadership.mode = none comes from default"), "{told}");
    // The figure that does not fit may be the profile's; the hint still leads to what was written.
    let file = Written::new("timing.heartbeat_interval = \"8s\"\n");
    let told = file.loader().load().expect_err("16s > 10s").to_string();
    assert!(told.starts_with("profile default: timing.suspect_timeout = 10s"), "{told}");
    assert!(told.ends_with(&format!("comes from file {}:1", file.path.display())), "{told}");
    // Alone the file is good, also where something stronger is not.
    assert!(check_file(&Written::new("timing.suspect_timeout = \"15s\"\ntiming.down_timeout = \"20s\"").path).is_ok());
}

fn elsewhere_with_bind(file: &Written) -> Loader {
    file.loader().flag("seeds", "--seed", "10.0.0.1:7117").flag("bind", "--bind", "0.0.0.0:7117")
}

#[test]
fn voters_on_the_command_line_mean_quorum_whatever_the_file_says() {
    let file = Written::new("data_dir = \"d\"\n[leadership]\nmode = \"none\"\n");
    let loader = file.loader().flag("leadership.mode", "--voters", "quorum").flag("leadership.voters", "--voters", "a");
    let leadership = loader.load().expect("the flag wins").agent.config.leadership;
    assert_eq!((leadership.mode, leadership.voters.len()), (LeadershipMode::Quorum, 1));
}

#[test]
fn what_works_and_is_hardly_meant_is_a_warning_with_its_place() {
    let warned = |text: &str| {
        let file = Written::new(text);
        let warnings = file.loader().load().unwrap_or_else(|error| panic!("{text}: {error}")).warnings;
        let place = file.path.display().to_string();
        warnings.iter().map(|warning| warning.to_string().replace(&place, "c.toml")).collect::<Vec<_>>()
    };
    let loopback = "bind = \"127.0.0.1:7117\"\nseeds = ";
    let none: [String; 0] = [];
    assert_eq!(warned(&format!("{loopback}[\"127.0.0.1:1\", \"localhost:2\", \"[::1]:3\"]")), none);
    for seeds in ["[\"127.0.0.1:1\", \"10.0.0.1:7117\"]", "[\"seeds.example.internal:7117\"]"] {
        let told = warned(&format!("{loopback}{seeds}"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("c.toml:1: bind = \"127.0.0.1:7117\" is reached from this machine only"),
            "{told:?}"
        );
        assert!(told[0].contains("0.0.0.0:7117"), "{told:?}");
    }
    let quorum = "data_dir = \"d\"\n[leadership]\nmode = \"quorum\"\nvoters = ";
    assert_eq!(warned(&format!("{quorum}[\"a\", \"b\", \"c\"]")), none);
    let told = warned(&format!("{quorum}[\"a\", \"b\", \"c\", \"d\"]"));
    assert!(told.len() == 1 && told[0].starts_with("c.toml:4: leadership.voters = ") && told[0].contains("than 3 do"));
}

#[test]
fn a_token_file_that_gives_no_token_is_refused_with_line_and_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo runs").success());
    let weak = TokenFile::new("weak");
    let long = TokenFile::new(&"x".repeat(5_000));
    for (path, reason) in [
        ("/nonexistent/token", "No such file"),
        ("/dev/zero", "it is a device"),
        (fifo.to_str().expect("text"), "it is a pipe"),
        (directory.path().to_str().expect("text"), "it is a directory"),
        (weak.path(), "holds no valid token"),
        (long.path(), "has 5000 bytes"),
    ] {
        let file = Written::new(&format!("[http]\ntoken_file = \"{path}\"\n"));
        for problems in [refused(&file.loader()), check_file(&file.path).expect_err(path).problems().to_vec()] {
            let [problem] = problems.as_slice() else { panic!("{path}: {problems:#?}") };
            let told = problem.to_string();
            let start = format!("{}:2: http.token_file = \"", file.path.display());
            assert!(told.starts_with(&start) && told.contains(reason), "{told}");
        }
    }
    // Nobody is asked for a token where nothing is served.
    load("[http]\nbind = \"off\"\ntoken_file = \"/nonexistent/token\"");
}

#[cfg(unix)]
#[test]
fn a_token_that_others_may_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let token = TokenFile::new("0123456789abcdef");
    let file = Written::new(&format!("[http]\ntoken_file = \"{}\"\n", token.path()));
    assert_eq!(check_file(&file.path).expect("a good token").warnings, []);
    std::fs::set_permissions(token.path(), std::fs::Permissions::from_mode(0o644)).expect("set");
    let warnings = check_file(&file.path).expect("a good token").warnings;
    let told = warnings[0].to_string();
    assert!(told.starts_with(&format!("{}:2: http.token_file = ", file.path.display())), "{told}");
    assert!(told.contains("mode 644") && told.contains("chmod 600"), "{told}");
    assert!(!told.contains("0123456789"), "{told}");
}

#[test]
fn http_on_the_port_of_gossip_names_both() {
    let file = Written::new("bind = \"127.0.0.1:7118\"\n");
    let told = file.loader().load().expect_err("one port").to_string();
    assert!(told.contains("http.bind = 127.0.0.1:7118 takes the port of gossip"), "{told}");
    assert!(told.contains(&format!("comes from file {}:1", file.path.display())), "{told}");
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file_and_none_follows_from_another() {
    let text = "mtu = 9000\nname = \"a b\"\n[timing]\nheartbeat_interval = 20\nsuspect_timeout = \"5s\"\n\
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
fn a_value_is_judged_where_it_stands_even_if_a_stronger_layer_hides_it() {
    let file = Written::new("bind = \"nowhere\"\n");
    let problems = refused(&file.loader().flag("bind", "--bind", "127.0.0.1:0"));
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].key.as_deref(), Some("bind"));
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
    let cases = [
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
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing.toml");
    let told = check_file(&missing).expect_err("no file").to_string();
    assert!(told.contains("missing.toml") && told.contains("--config"), "{told}");
    let broken = directory.path().join("broken.toml");
    std::fs::write(&broken, [0xff, 0xfe]).expect("a file");
    let told = check_file(&broken).expect_err("no text").to_string();
    assert!(told.contains("broken.toml:1: the file is UTF-16") && !told.contains("--config"), "{told}");
    for (path, kind) in [(directory.path(), "a directory"), (Path::new("/dev/zero"), "a device")] {
        let told = check_file(path).expect_err(kind).to_string();
        assert!(told.contains(&format!("it is {kind}, not a regular file")), "{told}");
    }
    std::fs::write(&broken, vec![b'#'; (1 << 20) + 1]).expect("a file");
    assert!(check_file(&broken).expect_err("too large").to_string().contains("more than 1 MiB"));
}

/// `config.toml` at the top level.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config.toml")
}

/// The example with every commented key in force: lines that begin with `#` and a letter. The file that it names as its
/// example of a token is this one.
fn example_in_full(token: &TokenFile) -> String {
    let text = std::fs::read_to_string(example()).expect("config.toml");
    let is_key = |line: &str| line.starts_with(|first: char| first.is_ascii_lowercase()) && line.contains(" = ");
    let line = |line: &str| line.strip_prefix('#').filter(|rest| is_key(rest)).unwrap_or(line).to_owned() + "\n";
    let text: String = text.lines().map(line).collect();
    let named = text.replace("token_file = \"token\"", &format!("token_file = \"{}\"", token.path()));
    assert_ne!(named, text, "the example names a token file");
    // A database is refused where no lease is asked for.
    let led = named.replace("mode = \"none\"", "mode = \"lease\"");
    assert_ne!(led, named, "the example shows the mode");
    led
}

#[test]
fn the_example_runs_as_it_stands_on_loopback() {
    check_file(example()).expect("config.toml");
    let loaded = Loader::new().host_name("host").file(example()).load().expect("config.toml");
    assert_eq!(loaded.agent.config.bind, "127.0.0.1:7117".parse().ok());
    let others = Config::new("host").expect("a good name").with_bind("127.0.0.1:7117".parse().expect("an address"));
    assert_eq!(loaded.agent.config, others, "all other keys are commented out");
    assert_eq!(loaded.agent.http, HttpConfig::default());
}

#[test]
fn the_example_documents_every_key_and_no_other() {
    let token = TokenFile::new("0123456789abcdef");
    let file = Written::new(&example_in_full(&token));
    let loaded = file.loader().load().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.warnings, []);
    for key in keys() {
        assert!(layer(&loaded, key.name()).starts_with("file "), "config.toml does not show {}", key.name());
    }
}

#[test]
fn the_example_shows_the_defaults() {
    let token = TokenFile::new("0123456789abcdef");
    let file = Written::new(&example_in_full(&token));
    let (shown, defaults) = (file.loader().load().expect("the example"), Loader::new().host_name("a").load());
    let (shown, defaults) = (shown.json(), defaults.expect("defaults").json());
    let pairs =
        shown["settings"].as_array().into_iter().flatten().zip(defaults["settings"].as_array().into_iter().flatten());
    let mut compared = 0;
    for (shown, default) in pairs {
        // Examples stand where there is no default to show.
        let has_none = default["value"].is_null() || default["key"] == "tags" || default["key"] == "leadership.mode";
        if !has_none {
            assert_eq!(shown["value"], default["value"], "{}", default["key"]);
            compared += 1;
        }
    }
    assert_eq!(compared, keys().count() - 9);
}
