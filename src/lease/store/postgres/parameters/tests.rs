//! Tests of defaults and refusals as libpq's users expect them.

use std::path::Path;

use super::*;

fn with(url: &str, variables: &[(&str, &str)], files: &[&str]) -> Result<Parameters, StoreError> {
    let url = PostgresUrl::parse(url).expect("readable");
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let exists = |path: &Path| files.iter().any(|file| Path::new(file) == path);
    let environment = Environment { variable: &variable, user: Some("me".into()), exists: &exists };
    Parameters::new(&url, &StoreOptions::new("c").expect("a name"), &environment)
}

fn refusal(url: &str) -> String {
    with(url, &[], &[]).err().unwrap_or_else(|| panic!("{url} is refused")).to_string()
}

fn host(name: &str, port: u16) -> Host {
    Host { name: name.into(), port }
}

#[test]
fn nothing_said_is_the_local_server_the_own_name_and_its_database() {
    let found = with("", &[("HOME", "/home/me")], &["/var/run/postgresql"]).expect("enough");
    assert_eq!(found.hosts, [host("/var/run/postgresql", 5432)]);
    assert_eq!((found.user.as_str(), found.database.as_str()), ("me", "me"));
    assert_eq!((found.ssl_mode, found.roots, found.certificate), (SslMode::Prefer, None, None));
    assert_eq!(found.password_file, Some(PathBuf::from("/home/me/.pgpass")));
    assert_eq!(found.connect_timeout, StoreOptions::DEFAULT_CONNECT_TIMEOUT);
    assert!(!found.needs_primary);
    assert_eq!(with("", &[], &[]).expect("enough").hosts, [host("localhost", 5432)]);
}

#[test]
fn several_hosts_share_a_port_or_have_their_own_and_mean_the_primary() {
    let found = with("a,b:6000,c/x", &[], &[]).expect("good");
    assert_eq!(found.hosts, [host("a", 5432), host("b", 6000), host("c", 5432)]);
    assert!(found.needs_primary);
    let found = with("/x?host=a,b&port=7000", &[], &[]).expect("good");
    assert_eq!(found.hosts, [host("a", 7000), host("b", 7000)]);
    assert!(!with("a,b/x?target_session_attrs=any", &[], &[]).expect("good").needs_primary);
    assert!(with("a/x?target_session_attrs=read-write", &[], &[]).expect("good").needs_primary);
}

#[test]
fn the_environment_and_the_usual_files_are_found() {
    let variables =
        [("HOME", "/h"), ("PGUSER", "u"), ("PGDATABASE", "d"), ("PGPASSFILE", "/p"), ("PGSSLMODE", "verify-full")];
    let files = ["/h/.postgresql/root.crt", "/h/.postgresql/postgresql.crt", "/h/.postgresql/postgresql.key"];
    let found = with("h", &variables, &files).expect("good");
    assert_eq!((found.user.as_str(), found.database.as_str()), ("u", "d"));
    assert_eq!(found.password_file, Some(PathBuf::from("/p")));
    assert_eq!(found.ssl_mode, SslMode::VerifyFull);
    assert_eq!(found.roots, Some(Roots::File(files[0].into())));
    assert_eq!(found.certificate, Some((files[1].into(), files[2].into())));
    let found = with("h?sslmode=verify-ca&sslrootcert=system", &variables[..1], &[]).expect("good");
    assert_eq!((found.ssl_mode, found.roots), (SslMode::VerifyCa, Some(Roots::System)));
}

#[test]
fn waiting_to_connect_has_an_end_whatever_is_said() {
    let timeout = |url| with(url, &[], &[]).expect("good").connect_timeout;
    assert_eq!(timeout("h?connect_timeout=7"), Duration::from_secs(7));
    assert_eq!(timeout("h?connect_timeout=0"), StoreOptions::DEFAULT_CONNECT_TIMEOUT);
}

#[test]
fn keepalives_can_be_set_and_switched_off() {
    let keepalive = |url| with(url, &[], &[]).expect("good").keepalive;
    assert_eq!(keepalive("h?keepalives=0"), None);
    let asked = keepalive("h?keepalives_idle=5&keepalives_interval=2&keepalives_count=3").expect("on");
    assert_eq!(
        (asked.idle, asked.interval, asked.count),
        (Duration::from_secs(5), Some(Duration::from_secs(2)), Some(3))
    );
}

#[test]
fn what_cannot_be_meant_is_refused_by_name() {
    let hosts = ["h"; MAX_HOSTS + 1].join(",");
    for (url, reason) in [
        ("h?sslmode=on", "sslmode \"on\" is unknown; allowed is disable"),
        ("h?sslmode=allow", "verify-full"),
        ("h?sslmode=verify-full", "no authorities"),
        ("h?sslcert=/c", "needs sslkey"),
        ("h:0", "port is none"),
        ("h:x", "port is none"),
        ("a:1,h:x", "port (of host 2)"),
        ("?host=a%40b", "name hosts alone"),
        ("h/a%40b", "as if it were an address"),
        ("h?dbname=postgres://h", "as if it were an address"),
        ("a,b?port=1,2,3", "one for all hosts"),
        ("h?target_session_attrs=standby", "leases are written"),
        ("h?channel_binding=maybe", "channel_binding \"maybe\" is unknown"),
        ("h?connect_timeout=soon", "a whole number"),
        (&hosts, "at most 8"),
    ] {
        let error = refusal(url);
        assert!(error.contains(reason), "{url}: {error}");
    }
    assert!(with(&["h"; MAX_HOSTS].join(","), &[], &[]).is_ok());
}

#[test]
fn a_word_in_the_wrong_place_is_repeated_only_if_it_is_like_a_right_one() {
    assert!(refusal("h?sslmode=requir").contains("sslmode \"requir\" is unknown; allowed is disable, prefer, require"));
    for url in
        ["h?sslmode=S3cret", "h?connect_timeout=S3cret", "h?target_session_attrs=S3cret", "me:S3cret", "me:S3cret/d"]
    {
        assert!(!refusal(url).contains("S3cret"), "{}", refusal(url));
    }
}
