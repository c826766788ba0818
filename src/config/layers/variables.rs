//! Variables of the environment: which of them are ours, and the keys that they mean.
//!
//! A variable with our prefix is part of the configuration, or known to be something else (a client's, a handler's, a
//! Kubernetes service link), or refused: a misspelt one never passes unseen. Reads no environment; names and values are
//! handed in.

use super::Given;
use crate::config::given::Item;
use crate::config::keys::{PREFIX, UNAVAILABLE, keys, nearest};
use crate::config::problem::{Problem, Source, printable};

/// Variables with our prefix that are not part of the configuration: the agent that client commands talk to, the file
/// with its token, and what `headcount lead` passes to its command.
const OF_CLIENTS: [&str; 4] = ["HEADCOUNT_AGENT", "HEADCOUNT_NODE", "HEADCOUNT_TERM", "HEADCOUNT_TOKEN_FILE"];
/// The prefix of the variables that describe an event to a handler; present where an agent is started by a handler.
const EVENT_PREFIX: &str = "HEADCOUNT_EVENT_";

/// Turns a variable into a value of its key; `None` if the variable is not part of the configuration.
pub(super) fn variable(name: &str, value: Option<&str>) -> Result<Option<Given>, Vec<Problem>> {
    if OF_CLIENTS.contains(&name) || name.starts_with(EVENT_PREFIX) {
        return Ok(None);
    }
    let source = Source::Environment(printable(name));
    let meant = name.trim_start_matches(PREFIX).to_lowercase().replace("__", ".");
    let Some(key) = keys().find(|key| key.variable() == name) else {
        let is_in = |section: &&str| meant.strip_prefix(*section).is_some_and(|rest| rest.starts_with(['.', '_']));
        if let Some(section) = UNAVAILABLE.into_iter().find(is_in) {
            let reason = format!("section [{section}] is not available in this version");
            return Err(vec![Problem::new(source, reason).hint("unset it")]);
        }
        let hint = if matches!(meant.as_str(), "insecure" | "seal.insecure") {
            "did you mean HEADCOUNT_SEAL__MODE=off?".to_owned()
        } else if let Some(key) = nearest(&meant) {
            format!("did you mean {}?", key.variable())
        } else {
            format!("unset it; variables are {PREFIX}<KEY> and {PREFIX}<SECTION>__<KEY>")
        };
        return Err(vec![Problem::new(source, "is not a known variable").hint(hint)]);
    };
    let Some(value) = value else {
        return Err(vec![Problem::new(source, "is not UTF-8").key(key.name()).allowed(key.range())]);
    };
    Ok(Some((key, Item::from_variable(key, source, value)?)))
}

/// Returns true if a variable is a Kubernetes service link. For a service named `headcount…` Kubernetes sets
/// `HEADCOUNT_SERVICE_HOST`, `HEADCOUNT_PORT_7117_UDP_ADDR` and more in every pod of the namespace. None of them is a
/// key of ours.
pub(super) fn is_service_link(name: &str, value: &str) -> bool {
    if keys().any(|key| key.variable() == name) {
        return false;
    }
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let is_part = ["_TCP", "_UDP", "_SCTP"].iter().any(|part| name.contains(part)) && name.contains("_PORT_");
    is_address || is_part || name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT")
}

pub(super) fn service_link(name: &str) -> Problem {
    let reason = "is ignored: it looks like a Kubernetes service link, made for a service named \"headcount\"";
    let hint = "to be rid of it set enableServiceLinks: false in the pod's specification";
    Problem::new(Source::Environment(printable(name)), reason).hint(hint)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_manifest_restarts_the_dead_and_gives_work_to_the_ready() {
        let text = include_str!("../../../examples/deploy/kubernetes/headcount.yaml");
        for (probe, path) in [("livenessProbe:", "/healthz"), ("readinessProbe:", "/readyz")] {
            let asked = text.split_once(probe).and_then(|(_, rest)| rest.split_once("path: ")).expect(probe).1;
            assert_eq!(asked.split([',', ' ', '\n']).next(), Some(path), "{probe}");
            assert_eq!(text.matches(probe).count(), 1);
        }
    }

    #[test]
    fn the_files_for_deployment_set_variables_that_there_are_and_name_a_key_file() {
        for (file, text) in [
            ("compose", include_str!("../../../examples/deploy/compose/compose.yaml")),
            ("kubernetes", include_str!("../../../examples/deploy/kubernetes/headcount.yaml")),
            ("systemd", include_str!("../../../examples/deploy/systemd/headcount.service")),
        ] {
            let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
            let named: BTreeSet<&str> =
                text.split(|c| !is_part(c)).filter(|name| name.starts_with(PREFIX) && *name != PREFIX).collect();
            let is_one = |name: &str| OF_CLIENTS.contains(&name) || keys().any(|key| key.variable() == name);
            let foreign: Vec<&&str> = named.iter().filter(|name| !is_one(name)).collect();
            assert_eq!(foreign, Vec::<&&str>::new(), "{file}");
            assert!(named.contains("HEADCOUNT_SEAL__KEY_FILE"), "{file}");
        }
    }
}
