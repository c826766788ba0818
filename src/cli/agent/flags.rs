//! The configuration of a node from its command line: flags over environment over file.
//!
//! Invariant: each flag has a key of the configuration; nothing is decided here.

use crate::cli::args::NodeArgs;
use crate::cli::failure::Failure;
use crate::config::{LoadError, Loaded, Loader};

pub(super) fn load(args: &NodeArgs) -> Result<Loaded, Failure> {
    loader(args).load().map_err(|error| refused(&error))
}

/// Returns the layers of the configuration: flags, environment, file.
pub(super) fn loader(args: &NodeArgs) -> Loader {
    let mut loader = Loader::new().process_environment();
    if let Some(path) = &args.config {
        loader = loader.file(path);
    }
    let single = [
        ("name", "--name", &args.name),
        ("cluster", "--cluster", &args.cluster),
        ("bind", "--bind", &args.bind),
        ("advertise", "--advertise", &args.advertise),
        ("profile", "--profile", &args.profile),
        ("http.bind", "--http", &args.http),
        ("data_dir", "--data-dir", &args.data_dir),
        ("seal.key_file", "--key-file", &args.key_file),
        ("leadership.lease.url", "--lease-url", &args.lease_url),
        ("log.level", "--log-level", &args.log_level),
        ("log.format", "--log-format", &args.log_format),
    ];
    for (key, flag, value) in single {
        if let Some(value) = value {
            loader = loader.flag(key, flag, value);
        }
    }
    if args.insecure {
        loader = loader.flag("seal.mode", "--insecure", "off");
    }
    if !args.voters.is_empty() {
        loader = loader.flag("leadership.mode", "--voters", "quorum");
    }
    if args.lease_url.is_some() {
        loader = loader.flag("leadership.mode", "--lease-url", "lease");
    }
    for (key, flag, values) in [
        ("seeds", "--seed", &args.seeds),
        ("tags", "--tag", &args.tags),
        ("leadership.voters", "--voters", &args.voters),
    ] {
        for value in values {
            loader = loader.flag(key, flag, value);
        }
    }
    loader
}

pub(super) fn refused(error: &LoadError) -> Failure {
    Failure::usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::failure::Exit;

    #[test]
    fn flags_reach_their_keys() {
        let text = |text: &str| Some(text.to_owned());
        let args = NodeArgs {
            name: text("a"),
            cluster: text("c"),
            bind: text("127.0.0.1:0"),
            advertise: text("10.0.0.1:7117"),
            seeds: vec!["x:1".to_owned(), "y:2".to_owned()],
            profile: text("lan"),
            http: text("off"),
            data_dir: text("d"),
            key_file: None,
            insecure: true,
            voters: vec!["a".to_owned(), "b".to_owned()],
            lease_url: None,
            tags: vec!["zone=eu-1".to_owned(), "role=x".to_owned()],
            log_level: text("debug"),
            log_format: text("json"),
            config: None,
        };
        let loaded = loader(&args).load().expect("a good configuration");
        let config = &loaded.agent.config;
        assert_eq!((config.name.as_str(), config.cluster.as_str()), ("a", "c"));
        assert_eq!(config.bind, "127.0.0.1:0".parse().ok());
        assert_eq!(config.seal.mode, Some(crate::seal::SealMode::Off));
        assert_eq!(config.advertise, "10.0.0.1:7117".parse().ok());
        assert_eq!(config.seeds, ["x:1", "y:2"]);
        assert_eq!(config.profile(), crate::Profile::Lan);
        assert_eq!(loaded.agent.http.bind, None);
        assert_eq!(config.data_dir.as_deref(), Some(Path::new("d")));
        assert_eq!(config.tags.get("role"), Some("x"));
        assert_eq!(config.leadership.mode, crate::config::LeadershipMode::Quorum);
        assert_eq!(config.leadership.voters.len(), 2);
        assert_eq!(loaded.agent.log.level, "debug");
        assert_eq!(loaded.agent.log.format, crate::config::LogFormat::Json);
    }

    #[test]
    fn a_database_is_a_mode_of_leadership() {
        let lease = NodeArgs { lease_url: Some("sqlite://a.db".to_owned()), ..NodeArgs::default() };
        let loaded = load(&lease).expect("a good configuration");
        assert_eq!(loaded.agent.config.leadership.mode, crate::config::LeadershipMode::Lease);
        let both = NodeArgs { voters: vec!["a".to_owned()], data_dir: Some("d".to_owned()), ..lease };
        let failure = load(&both).expect_err("two sources of leadership");
        assert!(failure.to_string().contains("while leadership.mode is \"lease\""), "{failure}");
    }

    #[test]
    fn a_refused_flag_is_a_usage_error_that_names_it() {
        let args = NodeArgs { name: Some("a b".to_owned()), ..NodeArgs::default() };
        let failure = load(&args).expect_err("no name");
        assert_eq!(failure.exit(), Exit::USAGE);
        assert!(failure.to_string().contains("--name"), "{failure}");
    }
}
