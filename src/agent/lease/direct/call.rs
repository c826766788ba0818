//! One call at an address, over a connection that is kept for the next one.
//!
//! Invariant: a call ends within [`CALL_TIMEOUT`].
//!
//! Must not know: which message goes where, whether a call is tried again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::CALL_TIMEOUT;
use crate::agent::messages::{DirectAnswer, DirectCall, Said};
use crate::agent::shared::Shared;
use crate::core::NodeId;
use crate::core::limits::BROADCAST_LIFE;
use crate::text::{MAX_SHOWN, visible};
use crate::transport::links::Exchange;
use crate::transport::sealing::Sealing;

/// The parts that all calls of this agent have in common.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cluster: NodeId,
    pub(crate) sealing: Sealing,
    pub(crate) keepalive: Duration,
}

/// The reason why a call failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Broken(String),
    /// The answer did not come in time.
    #[error("no answer within {} s", CALL_TIMEOUT.as_secs())]
    TimedOut,
    /// The other node refused.
    #[error("it refused: {why}")]
    Refused {
        /// True if it may take the same call in a moment.
        is_passing: bool,
        /// Its reason.
        why: String,
    },
    /// The message is too old to be taken by anybody.
    #[error("messages wait for too long: it answers too slowly")]
    TooOld,
}

impl CallError {
    /// Returns true if the same call may fare better in a moment.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            CallError::Broken(_) => true,
            CallError::Refused { is_passing, .. } => *is_passing,
            CallError::TimedOut | CallError::TooOld => false,
        }
    }
}

impl Caller {
    /// Calls a node at an address; says whether it had the message first by this call. The connection is kept if it is good
    /// for another one.
    pub(super) async fn call(
        &self,
        kept: &mut Option<Exchange>,
        to: &NodeId,
        address: SocketAddr,
        said: &Said,
    ) -> Result<bool, CallError> {
        let age = self.shared.clock.now().since(said.at);
        if age > BROADCAST_LIFE {
            return Err(CallError::TooOld);
        }
        let call = DirectCall {
            cluster: self.cluster.clone(),
            to: to.clone(),
            from: self.shared.me.clone(),
            run: said.id.run,
            sequence: said.id.sequence,
            age_ms: age.as_millis() as u64,
            topic: said.topic.clone(),
            payload: said.payload.clone(),
        };
        let connection = kept.take();
        let exchange = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => Exchange::open(address, &self.sealing, self.keepalive).await?,
            };
            let answer = connection.ask(call.frame()).await?;
            Ok((answer, connection))
        };
        let exchanged = timeout(CALL_TIMEOUT, exchange).await.map_err(|_| CallError::TimedOut)?;
        let (answer, connection) = exchanged.map_err(CallError::Broken)?;
        *kept = Some(connection);
        match DirectAnswer::read(&answer) {
            Ok(DirectAnswer::Taken { is_new }) => Ok(is_new),
            Ok(DirectAnswer::Refused { is_passing, why }) => {
                Err(CallError::Refused { is_passing, why: visible(&why, MAX_SHOWN) })
            }
            Err(_) => Err(CallError::Refused { is_passing: false, why: "not what an agent answers".to_owned() }),
        }
    }
}
