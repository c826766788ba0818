//! Keys are seen by nobody, and told to nobody but members.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use super::cluster::{Files, dropped, three};
use crate::support::{self, Agent};

#[test]
fn keys_do_not_travel_where_packets_are_clear_and_programs_do_not_speak_of_them() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let key = key.to_str().expect("a text");
    let config = files.path("c.toml");
    std::fs::write(&config, format!("[seal]\nmode = \"prefer\"\nkey_file = \"{key}\"\n")).expect("written");
    let token = files.path("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").expect("written");
    let a = Agent::start_asking("a", &[], Some(&token), &["--config", config.to_str().expect("a text")]);
    a.wait_for_up(&["a"]);
    let answer = a.post("/v1/keys", &serde_json::json!({"key": std::fs::read_to_string(key).expect("a key").trim()}));
    assert!(answer.starts_with("HTTP/1.1 409") && answer.contains("seal.mode = require"), "{answer}");
    let (status, text) = a.client(&["broadcast", "_headcount.keys", "x"]);
    assert!(!status.success(), "{text}");
    let (status, text) = a.client(&["listen", "_headcount.keys"]);
    assert!(!status.success(), "{text}");
}

#[test]
fn no_key_is_ever_shown() {
    let files = Files::new();
    let [a, b, _c] = three(&files);
    let secret = std::fs::read_to_string(files.path("a")).expect("a key");
    let secret = secret.trim();
    let (_, listed) = a.client(&["keys", "list"]);
    let (_, added) = a.client(&["keys", "add"]);
    let new = std::fs::read_to_string(files.path("b")).expect("two keys");
    let new = new.lines().nth(1).expect("the new one").to_owned();
    let shown = a.client_alone(&["config", "show", "--key-file", files.path("a").to_str().expect("a text")]).1;
    let texts = [listed, added, shown, a.log(), b.log(), a.get("/v1/keys"), a.get("/metrics"), a.get("/v1/info")];
    for text in &texts {
        assert!(!text.contains(secret) && !text.contains(&new), "{text}");
    }
}

#[test]
fn a_sealed_cluster_is_well_in_the_eyes_of_doctor() {
    let files = Files::new();
    let [a, b, _c] = three(&files);
    let (status, said) = a.client(&["doctor"]);
    assert!(status.success(), "{said}");
    assert!(
        said.contains("take TCP connections from here; UDP was not tried")
            && said.contains("require: the same at all 3"),
        "{said}"
    );
    assert!(dropped(&b, "unsealed") < 1.0, "nothing clear was sent:\n{}", b.log());
    let file = files.path("doctor.toml");
    let asked = |cluster: &str, key: &str| {
        let text = format!("cluster = {cluster:?}\nseeds = [{:?}]\nseal.key_file = {:?}\n", a.gossip, files.path(key));
        std::fs::write(&file, text).expect("written");
        a.client_alone(&["doctor", "--config", file.to_str().expect("a path")])
    };
    let (status, said) = asked("headcount", "a");
    assert!(status.success() && said.contains("answers from here, by UDP and TCP"), "{said}");
    std::fs::write(files.path("other"), "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n").expect("written");
    for (cluster, key) in [("headcount", "other"), ("blue", "a")] {
        let (status, said) = asked(cluster, key);
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("does not answer a question by UDP that is sealed with key"), "{said}");
    }
}

#[test]
fn programs_do_not_hear_what_agents_say_about_keys() {
    let files = Files::new();
    let [a, b, _c] = three(&files);
    let mut stream = TcpStream::connect(&b.http).expect("listening");
    stream.set_read_timeout(Some(support::PATIENCE)).expect("set");
    let token = "authorization: Bearer 0123456789abcdef0123456789abcdef";
    let request = format!("GET /v1/events?kind=message HTTP/1.1\r\nhost: {}\r\n{token}\r\n\r\n", b.http);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut heard = String::new();
    let mut hear = |word: &str| {
        let mut buffer = [0; 4_096];
        while !heard.contains(word) {
            let length = stream.read(&mut buffer).expect("something comes");
            assert!(length > 0, "it ended: {heard}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        heard.clone()
    };
    hear("\r\n\r\n");
    let (status, text) = a.client(&["keys", "add"]);
    assert!(status.success(), "{text}\n{}", a.log());
    let answer = a.post("/v1/send/b/afterwards", &Value::Null);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let heard = hear("afterwards");
    assert!(!heard.contains("_headcount"), "the new key among them: {heard}");
}
