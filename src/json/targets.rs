//! Targets, in the form of Prometheus' HTTP service discovery.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The prefix of labels that are there for relabelling, and are not stored.
const META: &str = "__meta_headcount_";

/// One member that serves something, as Prometheus discovers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct TargetGroup {
    /// The address at which its users reach it, as `host:port`.
    pub targets: Vec<String>,
    /// The labels `__meta_headcount_node`, `_cluster`, `_status`, `_version`, `_api_address` and `_gossip_address`, and
    /// `_tag_KEY` for each of its tags, with `_` for what no label may have.
    pub labels: BTreeMap<String, String>,
}

impl TargetGroup {
    /// Returns the target of a member; `None` if it should not be given work now, drains, or advertises no address with a host
    /// and a port.
    pub fn new(cluster: &str, member: &crate::Member) -> Option<Self> {
        let address = member.api_address.as_deref().filter(|_| member.may_work())?;
        let target = host_and_port(address)?;
        let label = |name: &str, value: &str| (format!("{META}{name}"), value.to_owned());
        let mut labels = BTreeMap::from([
            label("node", member.id.as_str()),
            label("cluster", cluster),
            label("status", member.status.name()),
            label("version", &member.version),
            label("api_address", address),
            label("gossip_address", &member.address.to_string()),
        ]);
        for (key, value) in member.tags.to_map() {
            let letters = key.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
            let (name, value) = label(&format!("tag_{}", letters.collect::<String>()), &value);
            // Of keys that become one, the first is told.
            labels.entry(name).or_insert(value);
        }
        Some(Self { targets: vec![target], labels })
    }
}

/// Returns `host:port` of an address that may have a scheme before it and a path behind it.
fn host_and_port(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://").map_or((None, address), |(scheme, rest)| (Some(scheme), rest));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || host.contains(['@', ' ']) {
        return None;
    }
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(before, port)| (!before.contains(':') || before.ends_with(']')) && port.parse::<u16>().is_ok());
    match (has_port, scheme) {
        (true, _) => Some(host.to_owned()),
        (false, Some("https")) => Some(format!("{host}:443")),
        (false, Some("http")) => Some(format!("{host}:80")),
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_port_whatever_is_around_it() {
        for (address, expected) in [
            ("10.0.0.1:9100", Some("10.0.0.1:9100")),
            ("http://web-1:8080/metrics?x=1", Some("web-1:8080")),
            ("https://web-1/", Some("web-1:443")),
            ("http://[fd00::1]", Some("[fd00::1]:80")),
            ("[fd00::1]:9100", Some("[fd00::1]:9100")),
            ("web-1", None),
            ("http://", None),
            ("http://me@web:80/", None),
        ] {
            assert_eq!(host_and_port(address).as_deref(), expected, "{address}");
        }
    }
}
