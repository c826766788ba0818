//! The one table of keys: name, form, default, range and meaning of everything that can be configured.
//!
//! File, environment, flags, `config show`, error messages and the test of `config.toml` all read this table; adding a
//! key is adding a row (and its paragraph in `config.toml`, which a test asks for). A row judges its value alone; what
//! goes together is judged after merging, by [`Config::problems`](super::Config::problems) and the layers.
//!
//! Bounds of figures are not repeated here as numbers, only as text for people: the core checks them.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::agent::{AgentConfig, LogFormat};
use super::{DatabaseUrl, LeadershipMode, set};
use crate::core::election::OnResign;
use crate::core::{NodeId, Profile};
use crate::lease::LeaseName;

/// One key of the configuration.
#[derive(Debug)]
pub struct Key {
    name: &'static str,
    default: &'static str,
    range: &'static str,
    doc: &'static str,
    reload: Reload,
    pub(super) slot: Slot,
    pub(super) get: fn(&AgentConfig) -> Json,
}

/// When a changed value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reload {
    /// A running agent takes it up when it reads its configuration again.
    Live,
    /// The next start takes it up.
    Restart,
}

/// Where a value goes; the setter of each form. What a setter refuses it says in a few words that fit behind the value.
#[derive(Debug)]
pub(super) enum Slot {
    Text(fn(&mut AgentConfig, &str) -> Result<(), String>),
    Duration(fn(&mut AgentConfig) -> &mut Duration),
    Count(fn(&mut AgentConfig) -> &mut usize),
    /// A count that nobody else judges.
    CountWithin(RangeInclusive<usize>, fn(&mut AgentConfig) -> &mut usize),
    /// A number from 0 to 255.
    Byte(fn(&mut AgentConfig) -> &mut u8),
    Switch(fn(&mut AgentConfig) -> &mut bool),
    /// A duration that follows from others where nobody says it.
    DerivedDuration(fn(&mut AgentConfig) -> &mut Option<Duration>),
    Leases,
    Seeds,
    Voters,
    Hosts,
    Tags,
}

/// The form that a key's value has in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Duration,
    Count,
    Switch,
    List,
    Table,
}

impl Form {
    /// What to write.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Form::Text => "a string in quotes",
            Form::Duration => "a duration with its unit in quotes, as in \"5s\" or \"500ms\"",
            Form::Count => "a whole number without quotes",
            Form::Switch => "true or false, without quotes",
            Form::List => "a list of strings, as in [\"a:7117\", \"b:7117\"]",
            Form::Table => "a table of strings, as in { zone = \"eu-1\" }",
        }
    }
}

impl Key {
    /// The name, with its section in front: `timing.heartbeat_interval`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The default in words; the figures of `[timing]` are those of the profile `default`.
    pub const fn default(&self) -> &'static str {
        self.default
    }

    /// What is allowed, in words.
    pub const fn range(&self) -> &'static str {
        self.range
    }

    /// What it means, in one line.
    pub const fn doc(&self) -> &'static str {
        self.doc
    }

    /// Whether a running agent takes up a changed value when it reads its configuration again (SIGHUP).
    pub fn is_reloadable(&self) -> bool {
        self.reload == Reload::Live
    }

    /// The variable of the environment: `HEADCOUNT_TIMING__HEARTBEAT_INTERVAL`.
    pub fn variable(&self) -> String {
        variable_of(self.name)
    }

    /// Section and name in it.
    pub fn section(&self) -> Option<&'static str> {
        self.name.rsplit_once('.').map(|(section, _)| section)
    }

    /// The name without its section.
    pub(super) fn short(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, short)| short)
    }

    pub(super) const fn form(&self) -> Form {
        match self.slot {
            Slot::Text(_) => Form::Text,
            Slot::Duration(_) | Slot::DerivedDuration(_) => Form::Duration,
            Slot::Count(_) | Slot::CountWithin(..) | Slot::Byte(_) => Form::Count,
            Slot::Switch(_) => Form::Switch,
            Slot::Seeds | Slot::Voters | Slot::Hosts | Slot::Leases => Form::List,
            Slot::Tags => Form::Table,
        }
    }

    /// Whether the profile decides where nobody else does.
    pub(super) fn is_of_the_profile(&self) -> bool {
        self.section() == Some("timing") || matches!(self.slot, Slot::Duration(_))
    }

    /// A value as messages repeat it: without a password.
    pub(super) fn showable(&self, found: &str) -> String {
        if self.name == "leadership.lease.url" { DatabaseUrl::new(found).to_string() } else { found.to_owned() }
    }

    /// The key whose value this one's bounds follow from.
    pub(super) fn follows(&self) -> Option<&'static Key> {
        find(match self.name {
            "timing.suspect_timeout" | "timing.gossip_interval" => "timing.heartbeat_interval",
            "timing.down_timeout" | "timing.probe_timeout" => "timing.suspect_timeout",
            "timing.reap_after" => "timing.down_timeout",
            "leadership.renewal_interval" | "leadership.lease.liveness_window" | "leadership.lease.row_ttl" => {
                "leadership.lease_duration"
            }
            "leadership.lease.statement_timeout" => "leadership.renewal_interval",
            _ => return None,
        })
    }
}

/// All keys, in the order of `config.toml`.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
}

pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// What every variable begins with.
pub(super) const PREFIX: &str = "HEADCOUNT_";
/// Sections that hold keys.
pub(super) const SECTIONS: [&str; 5] = ["timing", "leadership", "leadership.lease", "http", "log"];
/// Sections that later versions will know: refused, since a node that ignores its key file is worse than none.
pub(super) const UNAVAILABLE: [&str; 2] = ["seal", "handlers"];

fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('.', "__").to_uppercase())
}

/// The known key that an unknown name was probably meant to be.
pub(super) fn nearest(unknown: &str) -> Option<&'static Key> {
    let (section, short) = unknown.rsplit_once('.').map_or((None, unknown), |(section, short)| (Some(section), short));
    let likeness = |key: &Key| {
        let whole = if section.is_none() { strsim::jaro_winkler(unknown, key.name) } else { 0.0 };
        // The right name in the wrong section is nearly right.
        let misplaced = if section == key.section() { 0.0 } else { 0.02 };
        whole.max(strsim::jaro_winkler(short, key.short()) - misplaced)
    };
    let (best, likeness) =
        KEYS.iter().map(|key| (key, likeness(key))).max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    (likeness >= 0.8).then_some(best)
}

/// An optional text as JSON.
fn optional(text: Option<impl ToString>) -> Json {
    text.map_or(Json::Null, |text| Json::String(text.to_string()))
}

fn duration(duration: Duration) -> Json {
    Json::String(humantime::format_duration(duration).to_string())
}

fn lease_timing(agent: &AgentConfig) -> crate::lease::LeaseTiming {
    agent.config.leadership.lease.timing(agent.config.leadership.timing)
}

static KEYS: [Key; 40] = [
    Key {
        name: "name",
        default: "the host name",
        range: "1 to 63 bytes of [A-Za-z0-9._-], unique in the cluster",
        doc: "The node's name.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            agent.config.name = NodeId::new(text).map_err(|error| format!("is not a valid name: {error}"))?;
            Ok(())
        }),
        get: |agent| json!(agent.config.name.as_str()),
    },
    Key {
        name: "cluster",
        default: "headcount",
        range: "1 to 63 bytes of [A-Za-z0-9._-]",
        doc: "The cluster's name; nodes of other clusters refuse each other.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            agent.config.cluster = NodeId::new(text).map_err(|error| format!("is not a valid name: {error}"))?;
            Ok(())
        }),
        get: |agent| json!(agent.config.cluster.as_str()),
    },
    Key {
        name: "profile",
        default: "default",
        range: "default, local, lan, wan",
        doc: "The set of figures that [timing] starts from.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            // Replaces all figures: the layers set it before any other key.
            let profile: Profile = text.parse().map_err(|_| "is not a valid profile".to_owned())?;
            agent.config = agent.config.clone().with_profile(profile);
            Ok(())
        }),
        get: |agent| json!(agent.config.profile().name()),
    },
    Key {
        name: "bind",
        default: "[::]:7117, IPv6 and IPv4",
        range: "IP:PORT of this machine; port 0 takes a free one",
        doc: "Where gossip is received, UDP and TCP.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| set::address(text).map(|address| agent.config.bind = Some(address))),
        get: |agent| optional(agent.config.bind),
    },
    Key {
        name: "advertise",
        default: "automatic",
        range: "IP:PORT, neither unspecified nor multicast, port not 0",
        doc: "Where others send to; by itself the bound address, or the one toward the first seed.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| set::address(text).map(|address| agent.config.advertise = Some(address))),
        get: |agent| optional(agent.config.advertise),
    },
    Key {
        name: "api_address",
        default: "none",
        range: "1 to 100 bytes without control characters",
        doc: "Where users of this node reach it: free text for the members' listing.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            agent.config.api_address = Some(text.to_owned());
            Ok(())
        }),
        get: |agent| optional(agent.config.api_address.as_deref()),
    },
    Key {
        name: "seeds",
        default: "none",
        range: "at most 64 of host:port, port 1 to 65535",
        doc: "Nodes to join through.",
        reload: Reload::Restart,
        slot: Slot::Seeds,
        get: |agent| json!(agent.config.seeds),
    },
    Key {
        name: "data_dir",
        default: "none",
        range: "a path",
        doc: "The directory of the state that survives a restart.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| set::path(text).map(|path| agent.config.data_dir = Some(path))),
        get: |agent| optional(agent.config.data_dir.as_ref().map(|path| path.display())),
    },
    Key {
        name: "tags",
        default: "none",
        range: "at most 32 keys, 512 bytes in all",
        doc: "What the node tells about itself.",
        reload: Reload::Live,
        slot: Slot::Tags,
        get: |agent| json!(agent.config.tags.to_map()),
    },
    Key {
        name: "mtu",
        default: "1400",
        range: "1000 to 1400",
        doc: "The largest UDP payload, in bytes.",
        reload: Reload::Restart,
        slot: Slot::Count(|agent| &mut agent.config.settings.mtu),
        get: |agent| json!(agent.config.settings.mtu),
    },
    Key {
        name: "observers",
        default: "10",
        range: "2 to 64",
        doc: "About how many peers observe each node.",
        reload: Reload::Restart,
        slot: Slot::Count(|agent| &mut agent.config.settings.observers),
        get: |agent| json!(agent.config.settings.observers),
    },
    Key {
        name: "timing.heartbeat_interval",
        default: "5s",
        range: "50ms to 1m",
        doc: "At least one packet per observer in this time.",
        reload: Reload::Restart,
        slot: Slot::Duration(|agent| &mut agent.config.settings.heartbeat_interval),
        get: |agent| duration(agent.config.settings.heartbeat_interval),
    },
    Key {
        name: "timing.suspect_timeout",
        default: "10s",
        range: "2 × heartbeat_interval to 10m",
        doc: "Silence after which a node is Suspect.",
        reload: Reload::Restart,
        slot: Slot::Duration(|agent| &mut agent.config.settings.suspect_timeout),
        get: |agent| duration(agent.config.settings.suspect_timeout),
    },
    Key {
        name: "timing.down_timeout",
        default: "15s",
        range: "more than suspect_timeout, at most 1h",
        doc: "Silence after which a node is Down.",
        reload: Reload::Restart,
        slot: Slot::Duration(|agent| &mut agent.config.settings.down_timeout),
        get: |agent| duration(agent.config.settings.down_timeout),
    },
    Key {
        name: "timing.gossip_interval",
        default: "1s",
        range: "20ms to 5 × heartbeat_interval",
        doc: "How often a node gossips.",
        reload: Reload::Restart,
        slot: Slot::Duration(|agent| &mut agent.config.settings.gossip_interval),
        get: |agent| duration(agent.config.settings.gossip_interval),
    },
    Key {
        name: "timing.gossip_fanout",
        default: "3",
        range: "1 to 16",
        doc: "Peers per gossip tick.",
        reload: Reload::Restart,
        slot: Slot::Count(|agent| &mut agent.config.settings.gossip_fanout),
        get: |agent| json!(agent.config.settings.gossip_fanout),
    },
    Key {
        name: "timing.probe_timeout",
        default: "500ms",
        range: "1ms to suspect_timeout / 15",
        doc: "How long the answer to a probe may take.",
        reload: Reload::Restart,
        slot: Slot::Duration(|agent| &mut agent.config.settings.probe_timeout),
        get: |agent| duration(agent.config.settings.probe_timeout),
    },
    Key {
        name: "timing.retry_interval",
        default: "5s",
        range: "100ms to 10m",
        doc: "Pace of lasting efforts: joining, finding lost members and seeds again.",
        reload: Reload::Restart,
        slot: Slot::Duration(|agent| &mut agent.config.settings.retry_interval),
        get: |agent| duration(agent.config.settings.retry_interval),
    },
    Key {
        name: "timing.reap_after",
        default: "24h",
        range: "1m to 30days, at least down_timeout",
        doc: "Age at which members that are Down or Left are forgotten.",
        reload: Reload::Restart,
        slot: Slot::Duration(|agent| &mut agent.config.settings.reap_after),
        get: |agent| duration(agent.config.settings.reap_after),
    },
    Key {
        name: "leadership.mode",
        default: "none",
        range: "none, quorum, lease",
        doc: "Whether leaders are elected.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            agent.config.leadership.mode = match text {
                "none" => LeadershipMode::None,
                "quorum" => LeadershipMode::Quorum,
                "lease" => LeadershipMode::Lease,
                _ => return Err("is not a valid mode of leadership".to_owned()),
            };
            Ok(())
        }),
        get: |agent| json!(agent.config.leadership.mode.name()),
    },
    Key {
        name: "leadership.voters",
        default: "none",
        range: "at most 7 different names of nodes",
        doc: "Who forms the first electorate.",
        reload: Reload::Restart,
        slot: Slot::Voters,
        get: |agent| json!(agent.config.leadership.voters.iter().map(NodeId::as_str).collect::<Vec<_>>()),
    },
    Key {
        name: "leadership.lease_duration",
        default: "15s",
        range: "500ms to 10m",
        doc: "How long a leader leads without a renewal.",
        reload: Reload::Restart,
        slot: Slot::Duration(|agent| &mut agent.config.leadership.timing.lease_duration),
        get: |agent| duration(agent.config.leadership.timing.lease_duration),
    },
    Key {
        name: "leadership.renewal_interval",
        default: "5s",
        range: "50ms to less than half of lease_duration",
        doc: "How often a leader renews its lease.",
        reload: Reload::Restart,
        slot: Slot::Duration(|agent| &mut agent.config.leadership.timing.renewal_interval),
        get: |agent| duration(agent.config.leadership.timing.renewal_interval),
    },
    Key {
        name: "leadership.priority",
        default: "0",
        range: "0 to 255",
        doc: "How much this node is preferred as a leader.",
        reload: Reload::Restart,
        slot: Slot::Byte(|agent| &mut agent.config.leadership.policy.priority),
        get: |agent| json!(agent.config.leadership.policy.priority),
    },
    Key {
        name: "leadership.on_resign",
        default: "release",
        range: "release, expire",
        doc: "Whether a leader that gives leadership up releases its voters at once.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            let known = OnResign::ALL.into_iter().find(|known| known.name() == text);
            agent.config.leadership.policy.on_resign = known.ok_or("is neither release nor expire")?;
            Ok(())
        }),
        get: |agent| json!(agent.config.leadership.policy.on_resign.name()),
    },
    Key {
        name: "leadership.lease.url",
        default: "none",
        range: "sqlite://FILE, or postgres://USER@HOST/DATABASE",
        doc: "The database that leadership comes from.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            agent.config.leadership.lease.url = Some(DatabaseUrl::new(text));
            Ok(())
        }),
        get: |agent| optional(agent.config.leadership.lease.url.as_ref()),
    },
    Key {
        name: "leadership.lease.schema",
        default: "the role's own",
        range: "1 to 40 characters of a-z, 0-9 and _, not beginning with a digit; PostgreSQL only",
        doc: "The schema of the tables.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            agent.config.leadership.lease.schema = Some(text.to_owned());
            Ok(())
        }),
        get: |agent| optional(agent.config.leadership.lease.schema.as_deref()),
    },
    Key {
        name: "leadership.lease.table_prefix",
        default: "cluster_",
        range: "1 to 40 characters of a-z, 0-9 and _, not beginning with a digit",
        doc: "The beginning of the tables' names.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            text.clone_into(&mut agent.config.leadership.lease.table_prefix);
            Ok(())
        }),
        get: |agent| json!(agent.config.leadership.lease.table_prefix),
    },
    Key {
        name: "leadership.lease.leases",
        default: "default",
        range: "1 to 64 different names of 1 to 63 bytes of [A-Za-z0-9._-]",
        doc: "The leases that this node contends for.",
        reload: Reload::Restart,
        slot: Slot::Leases,
        get: |agent| json!(agent.config.leadership.lease.leases.iter().map(LeaseName::as_str).collect::<Vec<_>>()),
    },
    Key {
        name: "leadership.lease.statement_timeout",
        default: "2s",
        range: "100ms to renewal_interval",
        doc: "How long the database may take for one round.",
        reload: Reload::Restart,
        slot: Slot::DerivedDuration(|agent| &mut agent.config.leadership.lease.statement_timeout),
        get: |agent| duration(lease_timing(agent).statement_timeout),
    },
    Key {
        name: "leadership.lease.liveness_window",
        default: "10s",
        range: "more than renewal_interval, less than lease_duration",
        doc: "How old a node's last round may be that is listed as active.",
        reload: Reload::Restart,
        slot: Slot::DerivedDuration(|agent| &mut agent.config.leadership.lease.liveness_window),
        get: |agent| duration(lease_timing(agent).liveness_window),
    },
    Key {
        name: "leadership.lease.row_ttl",
        default: "30s",
        range: "lease_duration or more",
        doc: "How old rows of nodes become before they are deleted.",
        reload: Reload::Restart,
        slot: Slot::DerivedDuration(|agent| &mut agent.config.leadership.lease.row_ttl),
        get: |agent| duration(lease_timing(agent).row_ttl),
    },
    Key {
        name: "http.bind",
        default: "127.0.0.1:7118",
        range: "IP:PORT of this machine, or \"off\"; port 0 takes a free one",
        doc: "Where HTTP requests are accepted.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            agent.http.bind = if text == "off" { None } else { Some(set::address(text)?) };
            Ok(())
        }),
        get: |agent| json!(agent.http.bind.map_or("off".to_owned(), |address| address.to_string())),
    },
    Key {
        name: "http.token_file",
        default: "none",
        range: "a path",
        doc: "The file with the token that every request must bear.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| set::path(text).map(|path| agent.http.token_file = Some(path))),
        get: |agent| optional(agent.http.token_file.as_ref().map(|path| path.display())),
    },
    Key {
        name: "http.insecure",
        default: "false",
        range: "true or false",
        doc: "Whether other machines may reach HTTP without a token.",
        reload: Reload::Restart,
        slot: Slot::Switch(|agent| &mut agent.http.insecure),
        get: |agent| json!(agent.http.insecure),
    },
    Key {
        name: "http.allowed_hosts",
        default: "none",
        range: "at most 64 host names without ports",
        doc: "Names by which HTTP may be asked without a token, beside addresses and localhost.",
        reload: Reload::Restart,
        slot: Slot::Hosts,
        get: |agent| json!(agent.http.allowed_hosts),
    },
    Key {
        name: "http.max_connections",
        default: "1024",
        range: "8 to 65536",
        doc: "HTTP connections open at one time, event streams included.",
        reload: Reload::Restart,
        slot: Slot::CountWithin(8..=65_536, |agent| &mut agent.http.max_connections),
        get: |agent| json!(agent.http.max_connections),
    },
    Key {
        name: "http.max_streams",
        default: "1024",
        range: "1 to 65536",
        doc: "Event streams open at one time.",
        reload: Reload::Restart,
        slot: Slot::CountWithin(1..=65_536, |agent| &mut agent.http.max_streams),
        get: |agent| json!(agent.http.max_streams),
    },
    Key {
        name: "log.level",
        default: "info",
        range: "off, error, warn, info, debug, trace, or target=level, with commas between",
        doc: "What is logged.",
        reload: Reload::Live,
        slot: Slot::Text(|agent, text| {
            agent.log.level = set::directives(text)?;
            Ok(())
        }),
        get: |agent| json!(agent.log.level),
    },
    Key {
        name: "log.format",
        default: "text",
        range: "text, json",
        doc: "How a log line looks.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| {
            agent.log.format = text.parse::<LogFormat>().map_err(|_| "is not a valid log format".to_owned())?;
            Ok(())
        }),
        get: |agent| json!(agent.log.format.name()),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_defaults_in_words_are_the_defaults() {
        let agent = AgentConfig::new(Config::new("a").expect("a good name"));
        for key in keys().filter(|key| key.name != "name") {
            let shown = match (key.get)(&agent) {
                Json::String(text) => text,
                Json::Null => continue,
                Json::Array(list) if list.is_empty() => "none".to_owned(),
                Json::Array(list) => list.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(", "),
                Json::Object(map) if map.is_empty() => "none".to_owned(),
                other => other.to_string(),
            };
            if key.form() == Form::Duration {
                let parse = |text: &str| humantime::parse_duration(text).expect("a duration");
                assert_eq!(parse(&shown), parse(key.default), "{}", key.name);
            } else {
                assert_eq!(shown, key.default, "{}", key.name);
            }
        }
    }

    #[test]
    fn names_are_unique_and_sections_known() {
        for (at, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..at].iter().all(|other| other.name != key.name), "{}", key.name);
            assert!(key.section().is_none_or(|section| SECTIONS.contains(&section)), "{}", key.name);
            assert!(!key.range.is_empty() && !key.doc.is_empty());
        }
        let live: Vec<_> = keys().filter(|key| key.is_reloadable()).map(Key::name).collect();
        assert_eq!(live, ["tags", "log.level"]);
        assert_eq!(variable_of("timing.reap_after"), "HEADCOUNT_TIMING__REAP_AFTER");
    }

    #[test]
    fn a_mistyped_or_misplaced_key_is_recognised() {
        for (unknown, meant) in [
            ("nmae", "name"),
            ("heartbeat_interval", "timing.heartbeat_interval"),
            ("timing.hartbeat_intervall", "timing.heartbeat_interval"),
            ("timing.heartbeat", "timing.heartbeat_interval"),
            ("timing_heartbeat_interval", "timing.heartbeat_interval"),
            ("timing.observers", "observers"),
            ("http.token", "http.token_file"),
            ("log.formt", "log.format"),
            ("tag", "tags"),
        ] {
            assert_eq!(nearest(unknown).map(Key::name), Some(meant), "{unknown}");
        }
        assert_eq!(nearest("zzz").map(Key::name), None);
    }
}
