//! [`Agent::join`]: contacting other nodes on demand, name lookups included; [`Agent::joining`]: why a node is not up yet.
//!
//! Invariant: a join ends within [`CONTACT_TIMEOUT`] and a moment, whatever name servers do.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::error::AgentError;
use super::keys::Keeper;
use super::request::Request;
use super::{Agent, ask};
use crate::config::check_host_port;
use crate::core::limits::{CONTACT_TIMEOUT, MAX_SEEDS};
use crate::core::{Contacted, NodeId, Reply};
use crate::transport::resolve::Resolver;

/// The outcome of one address of [`Agent::join`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinResult {
    /// The `host:port` that was asked for.
    pub address: String,
    /// The member that answered, or why none did.
    pub outcome: Result<NodeId, JoinFailure>,
}

/// Why no member answered at an address of [`Agent::join`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinFailure {
    /// A node answered that is joining itself.
    #[error(
        "{} answered, but is not up yet: it is joining itself; look at its log, or give the address of a node that is up",
        .node.as_ref().map_or("a node", |node| node.as_str())
    )]
    NotUp {
        /// Its name, if it said so.
        node: Option<NodeId>,
    },
    /// A node answered, and will have nothing to do with this one.
    #[error("refused: {reason}")]
    Refused {
        /// In words.
        reason: String,
    },
    /// No node answered.
    #[error("nobody answered within {} s", CONTACT_TIMEOUT.as_secs())]
    Silent,
    /// No node could be asked: the text is no address, its name does not resolve, or the agent is busy.
    #[error("{reason}")]
    NotAsked {
        /// In words.
        reason: String,
    },
}

/// The state of joining, of a node that is not up yet: the answer of [`Agent::joining`]. As a text it says what is missing, in
/// the words of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinStatus {
    /// The addresses that are asked, as the seeds resolved, and the last answer of each in the last retry intervals.
    pub asked: Vec<JoinResult>,
    /// The reason why it is not up, and one thing to try; `None` while that is not known, or nothing is: it is on its way.
    pub missing: Option<String>,
}

impl fmt::Display for JoinStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.missing.as_deref().unwrap_or("asks its seeds"))
    }
}

impl JoinFailure {
    /// One word for programs: `not_up`, `refused`, `silent` or `not_asked`.
    pub fn kind(&self) -> &'static str {
        match self {
            JoinFailure::NotUp { .. } => "not_up",
            JoinFailure::Refused { .. } => "refused",
            JoinFailure::Silent => "silent",
            JoinFailure::NotAsked { .. } => "not_asked",
        }
    }
}

impl Agent {
    /// Returns what is known of joining: which addresses are asked, what each answered last, what is missing. `None` once this
    /// node is up.
    ///
    /// [`Agent::wait_until_up`] waits for as long as it takes. With a deadline this says why it was not met:
    ///
    /// ```
    /// # use headcount::{Agent, Config, Profile};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut config = Config::new("a")?.with_profile(Profile::Local);
    /// # config.bind = Some("127.0.0.1:0".parse()?);
    /// let agent = Agent::start(config).await?;
    /// if tokio::time::timeout(Duration::from_secs(30), agent.wait_until_up()).await.is_err()
    ///     && let Some(joining) = agent.joining()
    /// {
    ///     return Err(format!("not up after 30 s: {joining}").into());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn joining(&self) -> Option<JoinStatus> {
        let report = self.inner.shared.figures().joining?;
        let result = |(address, contacted): &(SocketAddr, Contacted)| JoinResult {
            address: address.to_string(),
            outcome: best(std::iter::once(contacted.clone())),
        };
        let missing = report.lacks.as_ref().map(ToString::to_string);
        Some(JoinStatus { asked: report.asked.iter().map(result).collect(), missing })
    }

    /// Contacts addresses (`host:port`, at most 64) once and merges with whoever answers; waits at most 5 s.
    pub async fn join(&self, addresses: Vec<String>) -> Result<Vec<JoinResult>, AgentError> {
        if addresses.len() > MAX_SEEDS {
            return Err(AgentError::TooManyAddresses { asked: addresses.len() });
        }
        // The core's own patience is as long; a moment more lets it say who did answer.
        let patience = CONTACT_TIMEOUT + Duration::from_millis(250);
        // One command for each, so that a slow name server does not use up the time of the others.
        let mut contacts = JoinSet::new();
        for (place, address) in addresses.iter().enumerate() {
            let (resolver, requests) = (self.inner.resolver.clone(), self.inner.requests.clone());
            let keeper = Arc::clone(&self.inner.keeper);
            let address = address.clone();
            let contact = async move {
                let contact = timeout(patience, contact(&resolver, &requests, &keeper, &address)).await;
                (place, contact.unwrap_or(Ok(Err(JoinFailure::Silent))))
            };
            // A name server that hangs must not keep the caller's runtime from its end.
            contacts.spawn_on(contact, &self.inner.runtime);
        }
        let mut results: Vec<_> = addresses
            .into_iter()
            .map(|address| JoinResult { address, outcome: Err(not_asked("the attempt ended unexpectedly")) })
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
    keeper: &Keeper,
    address: &str,
) -> Result<Result<NodeId, JoinFailure>, AgentError> {
    if let Err(fault) = check_host_port(address) {
        return Ok(Err(not_asked(fault)));
    }
    let addresses = match resolver.resolve(address).await {
        Ok(addresses) => addresses,
        Err(error) => return Ok(Err(not_asked(error))),
    };
    if addresses.iter().all(|address| keeper.keeps_out(*address)) {
        return Ok(Err(not_asked(
            "this node has no key, and hears its own machine alone: give it the cluster's key file (seal.key_file), and restart it",
        )));
    }
    match ask(requests, |answer| Request::Join { addresses, answer }).await? {
        Reply::Joined(answers) => Ok(best(answers.into_iter().map(|(_, contacted)| contacted))),
        Reply::Refused(error) => Ok(Err(not_asked(error))),
        _ => Err(AgentError::Stopped),
    }
}

/// Of all addresses behind one name, the one that says most.
fn best(contacted: impl Iterator<Item = Contacted>) -> Result<NodeId, JoinFailure> {
    match contacted.max_by_key(Contacted::rank) {
        Some(Contacted::Answered { id }) => Ok(id),
        Some(Contacted::Refused(refusal)) => Err(JoinFailure::Refused { reason: refusal.to_string() }),
        Some(Contacted::Unopened(why)) => Err(JoinFailure::Refused { reason: why.to_string() }),
        Some(Contacted::NotUp { id }) => Err(JoinFailure::NotUp { node: id }),
        Some(Contacted::Silent | Contacted::Unreached) | None => Err(JoinFailure::Silent),
    }
}

fn not_asked(why: impl std::fmt::Display) -> JoinFailure {
    JoinFailure::NotAsked { reason: why.to_string() }
}
