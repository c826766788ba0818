//! The layers of configuration: which one counts, and what each can say.

use super::*;

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
    let file = Written::new("seeds = [\"127.0.0.1:1\"]\ntags = { zone = \"eu\", role = \"db\" }\n");
    let environment = variables(&[("HEADCOUNT_SEEDS", "localhost:1, [::1]:2"), ("HEADCOUNT_TAGS", "zone=us")]);
    let loaded = file.loader().environment(environment.clone()).load().expect("variables");
    assert_eq!(loaded.agent.config.seeds, ["localhost:1", "[::1]:2"]);
    assert_eq!(loaded.agent.config.tags.iter().collect::<Vec<_>>(), [("zone", "us")]);

    let with_flags = file.loader().environment(environment);
    let with_flags = with_flags
        .flag("seeds", "--seed", "127.0.0.3:1")
        .flag("seeds", "--seed", "127.0.0.4:1")
        .flag("tags", "--tag", "k=v,w");
    let loaded = with_flags.load().expect("flags");
    assert_eq!(loaded.agent.config.seeds, ["127.0.0.3:1", "127.0.0.4:1"]);
    assert_eq!(loaded.agent.config.tags.iter().collect::<Vec<_>>(), [("k", "v,w")]);
    assert_eq!(layer(&loaded, "seeds"), "flag --seed");

    let loaded = file.loader().environment(variables(&[("HEADCOUNT_SEEDS", "")])).load().expect("an empty list");
    assert!(loaded.agent.config.seeds.is_empty());
    assert_eq!(layer(&loaded, "seeds"), "environment HEADCOUNT_SEEDS");
}

#[test]
fn every_key_can_be_said_in_the_environment() {
    let token = TokenFile::new("0123456789abcdef");
    let read_token = TokenFile::new("fedcba9876543210");
    let environment = [
        ("HEADCOUNT_NAME", "n"),
        ("HEADCOUNT_CLUSTER", "c"),
        ("HEADCOUNT_PROFILE", "lan"),
        ("HEADCOUNT_BIND", "127.0.0.1:1"),
        ("HEADCOUNT_ADVERTISE", "10.0.0.1:1"),
        ("HEADCOUNT_API_ADDRESS", "x"),
        ("HEADCOUNT_SEEDS", "a:1"),
        ("HEADCOUNT_SEEDS_FILE", "f"),
        ("HEADCOUNT_SEEDS_COMMAND", "c, x"),
        ("HEADCOUNT_DATA_DIR", "d"),
        ("HEADCOUNT_TAGS", "k=v"),
        ("HEADCOUNT_MTU", "1200"),
        ("HEADCOUNT_OBSERVERS", "5"),
        ("HEADCOUNT_TIMING__HEARTBEAT_INTERVAL", "1s"),
        ("HEADCOUNT_TIMING__SUSPECT_TIMEOUT", "3s"),
        ("HEADCOUNT_TIMING__DOWN_TIMEOUT", "4s"),
        ("HEADCOUNT_TIMING__HOST_DOWN_TIMEOUT", "4s"),
        ("HEADCOUNT_TIMING__GOSSIP_INTERVAL", "2s"),
        ("HEADCOUNT_TIMING__GOSSIP_FANOUT", "4"),
        ("HEADCOUNT_TIMING__PROBE_TIMEOUT", "100ms"),
        ("HEADCOUNT_TIMING__RETRY_INTERVAL", "1s"),
        ("HEADCOUNT_TIMING__REAP_AFTER", "1h"),
        ("HEADCOUNT_TIMING__LINK_KEEPALIVE", "1m"),
        ("HEADCOUNT_SEAL__MODE", "off"),
        ("HEADCOUNT_SEAL__KEY_FILE", "k"),
        ("HEADCOUNT_SEAL__KEYS", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
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
        ("HEADCOUNT_HTTP__READ_TOKEN_FILE", read_token.path()),
        ("HEADCOUNT_HTTP__INSECURE", "true"),
        ("HEADCOUNT_HTTP__ALLOWED_HOSTS", "a.example,b"),
        ("HEADCOUNT_METRICS__PER_MEMBER", "true"),
        ("HEADCOUNT_HTTP__MAX_CONNECTIONS", "8"),
        ("HEADCOUNT_HTTP__MAX_STREAMS", "1"),
        ("HEADCOUNT_LOG__LEVEL", "debug"),
        ("HEADCOUNT_LOG__FORMAT", "json"),
    ];
    let loaded = Loader::new().host_name("host").environment(variables(&environment)).load().expect("all keys");
    // A database goes with leases alone, and voters do not.
    let of_lease =
        environment.iter().filter(|(name, _)| !name.ends_with("__VOTERS") && !name.ends_with("LEADERSHIP__MODE"));
    let with_mode = of_lease.chain(&[
        ("HEADCOUNT_LEADERSHIP__MODE", "lease"),
        ("HEADCOUNT_LEADERSHIP__LEASE__URL", "postgres://u:s3cret@h/d"),
    ]);
    let of_lease = variables(&with_mode.copied().collect::<Vec<_>>());
    let of_lease = Loader::new().host_name("host").environment(of_lease).load().expect("all keys of leases");
    // Handlers have too many parts for a variable.
    for key in keys().filter(|key| key.name() != "handlers") {
        let loaded = if key.name() == "leadership.lease.url" { &of_lease } else { &loaded };
        assert_eq!(layer(loaded, key.name()), format!("environment {}", key.variable()));
    }
    let shown = loaded.table() + &loaded.json().to_string();
    assert!(shown.contains("6251e6ca") && !shown.contains("AAECAwQF"), "a key is shown by its id: {shown}");
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

#[test]
fn voters_on_the_command_line_mean_quorum_whatever_the_file_says() {
    let file = Written::new("data_dir = \"d\"\n[leadership]\nmode = \"none\"\n");
    let loader = file.loader().flag("leadership.mode", "--voters", "quorum").flag("leadership.voters", "--voters", "a");
    let leadership = loader.load().expect("the flag wins").agent.config.leadership;
    assert_eq!((leadership.mode, leadership.voters.len()), (LeadershipMode::Quorum, 1));
}

#[test]
fn a_value_is_judged_where_it_stands_even_if_a_stronger_layer_hides_it() {
    let file = Written::new("bind = \"nowhere\"\n");
    let problems = refused(&file.loader().flag("bind", "--bind", "127.0.0.1:0"));
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].key.as_deref(), Some("bind"));
}
