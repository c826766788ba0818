//! The keys of leadership: who leads, by voters or by a lease.

use serde_json::json;

use super::{Key, Repeated, Slot, Special, duration, optional};
use crate::config::agent::AgentConfig;
use crate::config::{DatabaseUrl, LeadershipMode};
use crate::core::NodeId;
use crate::core::election::OnResign;
use crate::lease::LeaseName;

fn without_password(url: &str) -> String {
    DatabaseUrl::new(url).to_string()
}

fn lease_timing(agent: &AgentConfig) -> crate::lease::ContenderTiming {
    agent.config.leadership.lease.timing(agent.config.leadership.timing)
}

pub(super) static KEYS: [Key; 13] = [
    Key {
        name: "leadership.mode",
        default: "none",
        range: "none, quorum, lease",
        doc: "Whether leaders are elected.",
        special: Special::NONE,
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
        special: Special::NONE,
        slot: Slot::Voters,
        get: |agent| json!(agent.config.leadership.voters.iter().map(NodeId::as_str).collect::<Vec<_>>()),
    },
    Key {
        name: "leadership.lease_duration",
        default: "15s",
        range: "500ms to 10m",
        doc: "How long a leader leads without a renewal.",
        special: Special::OF_PROFILE,
        slot: Slot::Duration(|agent| &mut agent.config.leadership.timing.lease_duration),
        get: |agent| duration(agent.config.leadership.timing.lease_duration),
    },
    Key {
        name: "leadership.renewal_interval",
        default: "5s",
        range: "50ms to less than half of lease_duration",
        doc: "How often a leader renews its lease.",
        special: Special::OF_PROFILE.following("leadership.lease_duration"),
        slot: Slot::Duration(|agent| &mut agent.config.leadership.timing.renewal_interval),
        get: |agent| duration(agent.config.leadership.timing.renewal_interval),
    },
    Key {
        name: "leadership.priority",
        default: "0",
        range: "0 to 255",
        doc: "How much this node is preferred as a leader.",
        special: Special::NONE,
        slot: Slot::Byte(|agent| &mut agent.config.leadership.policy.priority),
        get: |agent| json!(agent.config.leadership.policy.priority),
    },
    Key {
        name: "leadership.on_resign",
        default: "release",
        range: "release, expire",
        doc: "Whether a leader that gives leadership up releases its voters at once.",
        special: Special::NONE,
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
        special: Special { repeated: Repeated::As(without_password), ..Special::NONE },
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
        special: Special::NONE,
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
        special: Special::NONE,
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
        special: Special::NONE,
        slot: Slot::Leases,
        get: |agent| json!(agent.config.leadership.lease.leases.iter().map(LeaseName::as_str).collect::<Vec<_>>()),
    },
    Key {
        name: "leadership.lease.statement_timeout",
        default: "2s",
        range: "100ms to renewal_interval",
        doc: "How long the database may take for one round.",
        special: Special::NONE.following("leadership.renewal_interval"),
        slot: Slot::DerivedDuration(|agent| &mut agent.config.leadership.lease.statement_timeout),
        get: |agent| duration(lease_timing(agent).statement_timeout),
    },
    Key {
        name: "leadership.lease.liveness_window",
        default: "10s",
        range: "more than renewal_interval, less than lease_duration",
        doc: "How old a node's last round may be that is listed as active.",
        special: Special::NONE.following("leadership.lease_duration"),
        slot: Slot::DerivedDuration(|agent| &mut agent.config.leadership.lease.liveness_window),
        get: |agent| duration(lease_timing(agent).liveness_window),
    },
    Key {
        name: "leadership.lease.row_ttl",
        default: "30s",
        range: "lease_duration or more",
        doc: "How old rows of nodes become before they are deleted.",
        special: Special::NONE.following("leadership.lease_duration"),
        slot: Slot::DerivedDuration(|agent| &mut agent.config.leadership.lease.row_ttl),
        get: |agent| duration(lease_timing(agent).row_ttl),
    },
];
