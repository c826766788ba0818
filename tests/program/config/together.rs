//! Values that are good alone and not together, and those that are warned about.

use super::*;

#[test]
fn two_keys_that_do_not_go_together_are_told_with_both_places() {
    let file = Written::new("[timing]\nsuspect_timeout = \"2s\"\ndown_timeout = \"20s\"\n");
    let problems = refused(&file.loader().flag("timing.heartbeat_interval", "--heartbeat", "8s"));
    let [problem] = problems.as_slice() else { panic!("{problems:#?}") };
    assert_eq!(
        problem.to_string(),
        format!(
            "{}:2: timing.suspect_timeout = \"2s\" is out of range; allowed is 2s 666ms (heartbeat_interval / 3) to 10m; \
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
    assert!(told.contains("--key-file") && told.contains("take the line out"), "{told}");
    assert!(told.ends_with("seeds = [\"10.0.0.1:7117\", \"10.0.0.2:7117\"] comes from flag --seed"), "{told}");
    // The flag repairs what the file says.
    assert!(elsewhere_with_bind(&file).load().is_ok_and(|loaded| loaded.warnings.is_empty()));
    let told = Written::new("[leadership]\nvoters = [\"a\"]\n").loader().load().expect_err("nobody is elected");
    let told = told.to_string();
    assert!(
        told.contains(":2: leadership.voters = [\"a\"] have no effect while leadership.mode is \"none\"; "),
        "{told}"
    );
    assert!(told.contains("together with leadership.mode = \"quorum\""), "{told}");
    assert!(told.ends_with("leadership.mode = none comes from default"), "{told}");
    // The figure that does not fit may be the profile's; the hint still leads to what was written.
    let file = Written::new("timing.heartbeat_interval = \"40s\"\n");
    let told = file.loader().load().expect_err("13.3s > 10s").to_string();
    assert!(told.starts_with("profile default: timing.suspect_timeout = 10s"), "{told}");
    assert!(told.ends_with(&format!("comes from file {}:1", file.path.display())), "{told}");
    // Alone the file is good, also where something stronger is not.
    assert!(check_file(&Written::new("timing.suspect_timeout = \"15s\"\ntiming.down_timeout = \"20s\"").path).is_ok());
}

#[test]
fn beside_an_unknown_profile_all_is_judged_that_does_not_follow_from_it() {
    let file = Written::new("nmae = \"d\"\nprofile = \"LAN\"\nmtu = 9000\n[timing]\nsuspect_timeout = \"9m\"\n");
    let told: Vec<_> = refused(&file.loader()).iter().map(ToString::to_string).collect();
    // The profile that was meant may have a down_timeout of ten minutes.
    assert!(told.len() == 3 && told[2].contains("mtu = 9000 is out of range"), "{told:#?}");
}

fn elsewhere_with_bind(file: &Written) -> Loader {
    let elsewhere = file.loader().flag("seeds", "--seed", "10.0.0.1:7117").flag("bind", "--bind", "0.0.0.0:7117");
    elsewhere.flag("seal.mode", "--insecure", "off").flag("cluster", "--cluster", "mine")
}

#[test]
fn other_machines_are_let_in_with_a_key_or_with_consent_and_a_name_and_else_the_ways_out_are_told() {
    const KEY: (&str, &str) = ("HEADCOUNT_SEAL__KEYS", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let with = |text: &str, environment: &[(&str, &str)]| {
        let file = Written::new(text);
        let place = file.path.display().to_string();
        let loaded = file.loader().environment(variables(environment)).load();
        loaded.map(|_| ()).map_err(|error| error.to_string().replace(&place, "c.toml"))
    };
    let seeds_file = Written::new("");
    for (text, said) in [
        ("bind = \"0.0.0.0:7117\"".to_owned(), "c.toml:1: bind = \"0.0.0.0:7117\" lets other machines in, "),
        ("bind = \"[::]:7117\"\nseeds = [\"10.0.0.1:7117\"]".to_owned(), "c.toml:1: bind = \"[::]:7117\" lets "),
        (
            "advertise = \"10.0.0.1:7117\"".to_owned(),
            "c.toml:1: advertise = \"10.0.0.1:7117\" tells other machines to send ",
        ),
        (
            "seeds = [\"127.0.0.1:1\", \"b:1\"]".to_owned(),
            "c.toml:1: seeds = [\"127.0.0.1:1\", \"b:1\"] may name other machines, ",
        ),
        ("seeds_command = [\"/bin/seeds\"]".to_owned(), "c.toml:1: seeds_command = [\"/bin/seeds\"] may name "),
        (format!("seeds_file = {:?}", seeds_file.path), "c.toml:1: seeds_file = "),
    ] {
        let told = with(&text, &[]).expect_err(&text);
        assert!(
            told.starts_with(said) && told.contains("this node has no key: whoever can send to it could"),
            "{told}"
        );
        let ways: Vec<&str> =
            told.lines().skip(1).map(|line| line.trim_start().split("  ").next().unwrap_or(line)).collect();
        assert_eq!(ways.len(), 3, "{told}");
        assert!(ways[0].starts_with("seal it:") && told.contains("headcount keys generate cluster.key"), "{told}");
        assert!(ways[1].starts_with("or consent:") && ways[2].starts_with("or stay here:"), "{told}");
        assert_eq!(with(&text, &[KEY]), Ok(()), "{text}");
        let consent = [("HEADCOUNT_SEAL__MODE", "off")];
        let told = with(&text, &consent).expect_err(&text);
        assert!(
            told.starts_with("default: cluster = headcount is what every cluster is called")
                && told.contains("--cluster"),
            "{told}"
        );
        for mode in ["off", "permit", "prefer"] {
            let consent = [KEY, ("HEADCOUNT_SEAL__MODE", mode), ("HEADCOUNT_CLUSTER", "mine")];
            assert_eq!(with(&text, &consent), Ok(()), "{text}, {mode}");
        }
    }
    // Nobody else is asked in, nor named.
    for text in [
        "",
        "bind = \"127.0.0.2:1\"",
        "bind = \"[::1]:0\"\nseeds = [\"b:1\"]",
        "seeds = [\"localhost:1\", \"[::1]:2\"]",
    ] {
        assert_eq!(with(text, &[]), Ok(()), "{text}");
        assert_eq!(with(text, &[("HEADCOUNT_SEAL__MODE", "off"), ("HEADCOUNT_CLUSTER", "mine")]), Ok(()), "{text}");
    }
    // What does not help.
    let told = with("bind = \"0.0.0.0:1\"\n[http]\ninsecure = true", &[]).expect_err("HTTP is another matter");
    assert!(told.contains("lets other machines in"), "{told}");
    // One thing that is wrong is told alone.
    let told = with("bind = \"nowhere\"\nseeds = [\"b:1\"]", &[]).expect_err("no address");
    assert!(told.starts_with("c.toml:1: bind = \"nowhere\" is not") && told.lines().count() == 1, "{told}");
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
        assert!(told[0].contains("--key-file"), "{told:?}");
    }
    let hook = |url: &str| format!("[[handlers]]\nname = \"hook\"\nurl = \"{url}\"\ntoken_file = \"t\"\n");
    assert_eq!(warned(&hook("https://hooks.example/s3cret")), none);
    assert_eq!(warned(&hook("http://127.0.0.1:8080/s3cret")), none);
    assert_eq!(warned(&hook("http://hooks.example/").replace("token_file", "#")), none);
    let told = warned(&hook("http://hooks.example/s3cret"));
    assert!(
        told.len() == 1 && told[0].contains("send the token of hook to http://hooks.example/… in the clear"),
        "{told:?}"
    );
    assert!(!told[0].contains("s3cret"), "{told:?}");
    let quorum = "data_dir = \"d\"\n[leadership]\nmode = \"quorum\"\nvoters = ";
    assert_eq!(warned(&format!("{quorum}[\"a\", \"b\", \"c\"]")), none);
    let told = warned(&format!("{quorum}[\"a\", \"b\", \"c\", \"d\"]"));
    assert!(
        told.len() == 1 && told[0].starts_with("c.toml:4: leadership.voters = ") && told[0].contains("than 3 would")
    );
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

#[cfg(unix)]
#[test]
fn a_key_file_that_others_may_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let key = TokenFile::new(secret);
    let file = Written::new(&format!("[seal]\nkey_file = \"{}\"\n", key.path()));
    let warnings = |mode: u32| {
        std::fs::set_permissions(key.path(), std::fs::Permissions::from_mode(mode)).expect("set");
        check_file(&file.path).expect("a good key").warnings
    };
    assert_eq!(warnings(0o600), []);
    for mode in [0o644, 0o640, 0o604, 0o602] {
        let told = warnings(mode)[0].to_string();
        assert!(told.starts_with(&format!("{}:2: seal.key_file = ", file.path.display())), "{told}");
        let said = format!("is open to other users of this machine (mode {mode:o})");
        assert!(told.contains(&said) && told.contains("chmod 600 it: whoever reads a key"), "{told}");
        assert!(!told.contains(&secret[..8]), "{told}");
    }
    // A file that is not read is not judged.
    let text = format!("cluster = \"mine\"\n[seal]\nmode = \"off\"\nkey_file = \"{}\"\n", key.path());
    let file = Written::new(&text);
    assert_eq!(check_file(&file.path).expect("not looked at").warnings, []);
}

#[test]
fn a_token_for_reading_needs_another_one_beside_it() {
    let (token, same, read) =
        (TokenFile::new("0123456789abcdef"), TokenFile::new("0123456789abcdef"), TokenFile::new("fedcba9876543210"));
    let text = |all: &str, read: &TokenFile| format!("[http]\n{all}read_token_file = \"{}\"\n", read.path());
    let all = format!("token_file = \"{}\"\n", token.path());
    let loaded = load(&text(&all, &read));
    assert!(loaded.token.is_some() && loaded.read_token.is_some() && loaded.token != loaded.read_token);
    for (text, reason) in
        [(text("", &read), "is of no use alone"), (text(&all, &same), "holds the token that may do all")]
    {
        let file = Written::new(&text);
        let problems = refused(&file.loader());
        let [problem] = problems.as_slice() else { panic!("{text}: {problems:#?}") };
        let told = problem.to_string();
        assert!(told.contains("http.read_token_file") && told.contains(reason) && !told.contains("012345"), "{told}");
    }
}

#[test]
fn http_on_the_port_of_gossip_names_both() {
    let file = Written::new("bind = \"127.0.0.1:7118\"\n");
    let told = file.loader().load().expect_err("one port").to_string();
    assert!(told.contains("http.bind = 127.0.0.1:7118 takes the port of gossip"), "{told}");
    assert!(told.contains(&format!("comes from file {}:1", file.path.display())), "{told}");
}
