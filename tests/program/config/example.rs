//! `config.toml`, the example that documents every key.

use super::*;

/// Returns the path of `config.toml` at the top level.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config.toml")
}

/// Returns the example with every commented key in force: lines that begin with `#` and a letter, or name a handler.
/// The file that it names as its example of a token is replaced by this one.
fn example_in_full(tokens: &[TokenFile; 2]) -> String {
    let text = std::fs::read_to_string(example()).expect("config.toml");
    let is_key = |line: &str| line.starts_with(|first: char| first.is_ascii_lowercase()) && line.contains(" = ");
    let line = |line: &str| {
        line.strip_prefix('#').filter(|rest| is_key(rest) || *rest == "[[handlers]]").unwrap_or(line).to_owned() + "\n"
    };
    let text: String = text.lines().map(line).collect();
    let mut named = text;
    for (example, file) in ["\"token\"", "\"read-token\""].into_iter().zip(tokens) {
        let next = named.replace(&format!("token_file = {example}"), &format!("token_file = \"{}\"", file.path()));
        assert_ne!(next, named, "the example names two token files");
        named = next;
    }
    // A database is refused where no lease is asked for.
    let led = named.replace("mode = \"none\"", "mode = \"lease\"");
    assert_ne!(led, named, "the example shows the mode");
    led
}

#[test]
fn the_example_runs_as_it_stands_on_loopback() {
    check_file(example()).expect("config.toml");
    let loaded = Loader::new().host_name("host").file(example()).load().expect("config.toml");
    // Without a key that is loopback alone.
    assert_eq!(loaded.agent.config, Config::new("host").expect("a good name"), "all keys are commented out");
    assert_eq!(loaded.agent.http, HttpConfig::default());
}

#[test]
fn the_example_documents_every_key_and_no_other() {
    let tokens = ["0123456789abcdef", "fedcba9876543210"].map(TokenFile::new);
    let file = Written::new(&example_in_full(&tokens));
    let loaded = file.loader().load().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.warnings, []);
    for key in keys() {
        assert!(layer(&loaded, key.name()).starts_with("file "), "config.toml does not show {}", key.name());
    }
}

#[test]
fn the_example_shows_every_key_of_a_handler() {
    let tokens = ["0123456789abcdef", "fedcba9876543210"].map(TokenFile::new);
    let shown = Written::new(&example_in_full(&tokens)).loader().load().expect("the example").json();
    let settings = shown["settings"].as_array().expect("a list");
    let handlers = settings.iter().find(|setting| setting["key"] == "handlers").expect("they are shown");
    let handlers = handlers["value"].as_array().expect("a list");
    assert_eq!(handlers.len(), 2);
    for key in handlers[0].as_object().expect("a table").keys() {
        let is_said = |handler: &serde_json::Value| {
            let value = &handler[key];
            !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
        };
        assert!(handlers.iter().any(is_said), "config.toml does not show {key}");
    }
    // As they are where nothing is said.
    for (key, default) in [("timeout", "30s"), ("retry_for", "1m")] {
        assert!(handlers.iter().any(|handler| handler[key] == default), "{key}");
    }
    assert_eq!(handlers[0]["concurrency"], 4);
    assert_eq!(handlers[1]["url"], "https://hooks.example.internal/…", "its path may be a secret");
}

#[test]
fn the_example_shows_the_defaults() {
    let tokens = ["0123456789abcdef", "fedcba9876543210"].map(TokenFile::new);
    let file = Written::new(&example_in_full(&tokens));
    let (shown, defaults) = (file.loader().load().expect("the example"), Loader::new().host_name("a").load());
    let (shown, defaults) = (shown.json(), defaults.expect("defaults").json());
    let pairs =
        shown["settings"].as_array().into_iter().flatten().zip(defaults["settings"].as_array().into_iter().flatten());
    let mut compared = 0;
    for (shown, default) in pairs {
        // Examples stand where there is no default to show.
        let is_example =
            ["tags", "handlers", "leadership.mode", "seeds_command"].iter().any(|key| default["key"] == *key);
        let has_none = default["value"].is_null() || is_example;
        if !has_none {
            assert_eq!(shown["value"], default["value"], "{}", default["key"]);
            compared += 1;
        }
    }
    assert_eq!(compared, keys().count() - 14);
}

/// Returns the addresses that a line has a node bind to, as it is said in a file, a variable, a flag, or in code.
fn bound_in(line: &str) -> Vec<&str> {
    let words = ["--bind ", "bind = ", "bind to ", "HEADCOUNT_BIND=", "HEADCOUNT_BIND: ", "with_bind("];
    let after = words.iter().flat_map(|word| line.match_indices(word).map(|(at, word)| &line[at + word.len()..]));
    let end = |character: char| !(character.is_ascii_alphanumeric() || ".:[]".contains(character));
    let address = after.filter_map(|rest| rest.trim_start_matches(['"', '\\', '`']).split(end).next());
    address.filter(|address| address.contains(':') && address.parse::<std::net::SocketAddr>().is_ok()).collect()
}

/// Whoever copies such a line has a node that other machines reach: with a key, or it does not start.
#[test]
fn every_address_to_bind_that_pages_and_messages_name_is_loopback_or_has_a_key_beside_it() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("README.md"), root.join("config.toml")];
    let mut folders = vec![root.join("src"), root.join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() { folders.push(entry) } else { files.push(entry) }
        }
    }
    let mut named = 0;
    for file in files {
        let is_test = file.iter().any(|part| part.to_string_lossy().starts_with("tests"));
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in text.lines().filter(|_| !is_test) {
            // HTTP has a token instead.
            for address in bound_in(line).into_iter().filter(|_| !line.contains("http.bind") && !line.contains("7118"))
            {
                named += 1;
                let is_here = address.parse::<std::net::SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
                let has_key = ["--key-file", "key_file"].iter().any(|key| line.contains(key));
                assert!(is_here || has_key, "{}: {line}", file.display());
            }
        }
    }
    assert!(named > 5, "{named}");
}
