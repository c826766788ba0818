//! [`Agent::join`]: contacting other nodes on demand, name lookups included.
//!
//! Invariant: a join ends within [`CONTACT_TIMEOUT`] and a moment, whatever name servers do.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::driver::Request;
use super::error::AgentError;
use super::{Agent, ask};
use crate::config::check_host_port;
use crate::core::limits::{CONTACT_TIMEOUT, MAX_SEEDS};
use crate::core::{NodeId, Reply};
use crate::transport::resolve::Resolver;

/// What became of one address of [`Agent::join`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinResult {
    /// The `host:port` that was asked for.
    pub address: String,
    /// Who answered, or why nobody did.
    pub outcome: Result<NodeId, String>,
}

impl Agent {
    /// Contacts addresses (`host:port`, at most 64) once and merges with whoever answers; waits at most 5 s.
    pub async fn join(&self, addresses: Vec<String>) -> Result<Vec<JoinResult>, AgentError> {
        if addresses.len() > MAX_SEEDS {
            return Err(AgentError::TooManyAddresses { asked: addresses.len() });
        }
        // The core's own patience is as long; a moment more lets it say who did answer.
        let deadline = Instant::now() + CONTACT_TIMEOUT + Duration::from_millis(250);
        // One command for each, so that a slow name server does not use up the time of the others.
        let mut contacts = JoinSet::new();
        for (place, address) in addresses.iter().enumerate() {
            let (resolver, requests) = (self.inner.resolver.clone(), self.inner.requests.clone());
            let address = address.clone();
            let contact = async move {
                let contact = timeout_at(deadline, contact(&resolver, &requests, &address)).await;
                (place, contact.unwrap_or_else(|_| Ok(Err(nobody_answered()))))
            };
            // A name server that hangs must not keep the caller's runtime from its end.
            contacts.spawn_on(contact, &self.inner.runtime);
        }
        let mut results: Vec<_> = addresses
            .into_iter()
            .map(|address| JoinResult { address, outcome: Err("the attempt ended unexpectedly".to_owned()) })
            .collect();
        while let Some(contact) = contacts.join_next().await {
            match contact {
                Ok((place, outcome)) => results[place].outcome = outcome?,
                // Its runtime has ended, and with it the agent.
                Err(ended) if ended.is_cancelled() => return Err(AgentError::Stopped),
                Err(_) => {}
            }
        }
        Ok(results)
    }
}

/// Contacts everybody behind one `host:port`. The only error is that the agent has stopped; the outcome is the first who
/// answered, or a sentence why nobody did.
async fn contact(
    resolver: &Resolver,
    requests: &mpsc::Sender<Request>,
    address: &str,
) -> Result<Result<NodeId, String>, AgentError> {
    if let Err(fault) = check_host_port(address) {
        return Ok(Err(fault.to_string()));
    }
    let addresses = match resolver.resolve(address).await {
        Ok(addresses) => addresses,
        Err(error) => return Ok(Err(error.to_string())),
    };
    match ask(requests, |answer| Request::Join { addresses, answer }).await? {
        Reply::Joined(answers) => Ok(answers.into_iter().find_map(|(_, who)| who).ok_or_else(nobody_answered)),
        Reply::Refused(error) => Ok(Err(error.to_string())),
        _ => Err(AgentError::Stopped),
    }
}

fn nobody_answered() -> String {
    format!("nobody answered within {} s", CONTACT_TIMEOUT.as_secs())
}
