//! The keys of a node itself and of its pace.

use serde_json::json;

use super::{Key, Reload, Slot, duration, optional};
use crate::config::words;
use crate::core::{NodeId, Profile};

pub(super) static KEYS: [Key; 21] = [
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
        slot: Slot::Text(|agent, text| words::address(text).map(|address| agent.config.bind = Some(address))),
        get: |agent| optional(agent.config.bind),
    },
    Key {
        name: "advertise",
        default: "automatic",
        range: "IP:PORT, neither unspecified nor multicast, port not 0",
        doc: "Where others send to; by itself the bound address, or the one toward the first seed.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| words::address(text).map(|address| agent.config.advertise = Some(address))),
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
        range: "at most 64 of host:port, port 1 to 65535, or srv:NAME",
        doc: "Nodes to join through.",
        reload: Reload::Restart,
        slot: Slot::Seeds,
        get: |agent| json!(agent.config.seeds),
    },
    Key {
        name: "seeds_file",
        default: "none",
        range: "a path",
        doc: "A file of further seeds, one a line, read again at every try.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| words::path(text).map(|path| agent.config.seeds_file = Some(path))),
        get: |agent| optional(agent.config.seeds_file.as_ref().map(|path| path.display())),
    },
    Key {
        name: "seeds_command",
        default: "none",
        range: "a program and its arguments",
        doc: "A command that prints further seeds, one a line, run again at every try.",
        reload: Reload::Restart,
        slot: Slot::Words(|agent| &mut agent.config.seeds_command),
        get: |agent| json!(agent.config.seeds_command),
    },
    Key {
        name: "data_dir",
        default: "none",
        range: "a path",
        doc: "The directory of the state that survives a restart.",
        reload: Reload::Restart,
        slot: Slot::Text(|agent, text| words::path(text).map(|path| agent.config.data_dir = Some(path))),
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
];
