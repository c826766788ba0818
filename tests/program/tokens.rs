//! Tokens of a running agent: replaced by SIGHUP, and asked for by what a client wants.

use std::path::Path;

use crate::support::{Agent, wait_for};
use nix::sys::signal::Signal;

fn write(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("set");
}

#[test]
fn sighup_reads_both_token_files_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let [all, read, config, old] = ["all", "read", "config.toml", "old"].map(|name| folder.path().join(name));
    write(&all, "all-all-all-all-all");
    write(&read, "read-read-read-read");
    write(&old, "all-all-all-all-all");
    write(&config, &format!("[http]\ntoken_file = {all:?}\nread_token_file = {read:?}\n"));
    let agent = Agent::start("a", &[], &["--config", config.to_str().expect("text")]);
    let may = |token: &Path, words: &[&str]| {
        let token = ["--token-file", token.to_str().expect("text")];
        agent.client(&[words, &token].concat()).0.success()
    };
    assert!(may(&all, &["tags", "x=1"]) && may(&read, &["info"]) && may(&old, &["info"]));
    assert!(!may(&read, &["tags", "x=2"]), "it may only look");

    // A file without a token changes nothing.
    write(&all, "short");
    agent.signal(Signal::SIGHUP);
    wait_for("the refusal in the log", || agent.log().contains("not reloaded").then_some(()));
    assert!(may(&old, &["info"]), "{}", agent.log());

    write(&all, "new-new-new-new-new");
    write(&read, "look-look-look-look");
    agent.signal(Signal::SIGHUP);
    wait_for("the new token", || may(&all, &["tags", "x=3"]).then_some(()));
    assert!(may(&read, &["info"]) && !may(&old, &["info"]), "{}", agent.log());
    for key in ["reloaded http.token_file", "reloaded http.read_token_file"] {
        assert!(agent.log().contains(key), "{}", agent.log());
    }
    assert!(!agent.log().contains("new-new"), "{}", agent.log());
}

#[test]
fn a_token_for_reading_is_replaced_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let [all, read, config, old] = ["all", "read", "config.toml", "old"].map(|name| folder.path().join(name));
    write(&all, "all-all-all-all-all");
    write(&read, "read-read-read-read");
    write(&old, "read-read-read-read");
    write(&config, &format!("[http]\ntoken_file = {all:?}\nread_token_file = {read:?}\n"));
    let agent = Agent::start("a", &[], &["--config", config.to_str().expect("text")]);
    let may = |token: &Path| agent.client(&["info", "--token-file", token.to_str().expect("text")]).0.success();
    assert!(may(&read) && may(&all));
    write(&read, "look-look-look-look");
    agent.signal(Signal::SIGHUP);
    wait_for("the new token", || may(&read).then_some(()));
    assert!(!may(&old) && may(&all), "{}", agent.log());
}

#[test]
fn a_token_file_that_the_configuration_names_no_more_opens_no_door_before_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let [all, config] = ["all", "config.toml"].map(|name| folder.path().join(name));
    write(&all, "all-all-all-all-all");
    write(&config, &format!("[http]\ntoken_file = {all:?}\n"));
    let agent = Agent::start("a", &[], &["--config", config.to_str().expect("text")]);
    let is_closed = || agent.get("/v1/info").starts_with("HTTP/1.1 401");
    assert!(is_closed());
    write(&config, "");
    agent.signal(Signal::SIGHUP);
    wait_for("it is told", || agent.log().contains("counts only after a restart: http.token_file").then_some(()));
    assert!(is_closed(), "{}", agent.log());
}
