//! Configuration as a person meets it: precedence and provenance of the layers, every refusal with its place,
//! and the example file that documents every key.

mod example;
mod layers;
mod refused;
mod together;

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
