//! The store's worker: owns the store, and carries one request after the other to it.
//!
//! Invariants: rounds go before everything else, so that a listing or a sweep delays one by no more than itself; of other
//! requests at most [`MAX_REQUESTS`] wait. It says goodbye to the database when nobody can ask any more.
//!
//! Must not know: what an answer is worth.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::lease::store::{Store, StoreError};
use crate::lease::{Answer, NodeRow, Round};

/// Requests beside rounds that wait.
const MAX_REQUESTS: usize = 8;

/// A request beside a round.
#[derive(Debug)]
pub(super) enum StoreRequest {
    /// The liveness rows, after this round, which looks at a lease.
    Nodes(Round, oneshot::Sender<Result<(Answer, Vec<NodeRow>), StoreError>>),
    /// Deletes old rows.
    Sweep {
        /// The least age of a row that is deleted.
        row_ttl: Duration,
    },
}

/// An answer of the worker.
#[derive(Debug)]
pub(super) enum Brought {
    Round(Result<Answer, StoreError>),
    Swept(Result<usize, StoreError>),
}

/// The task's ends of the channels.
#[derive(Debug)]
pub(super) struct StoreWorker {
    rounds: mpsc::Sender<Round>,
    requests: mpsc::Sender<StoreRequest>,
    brought: mpsc::Receiver<Brought>,
}

/// Starts a worker. Inside a runtime.
pub(super) fn start(store: Store) -> StoreWorker {
    let (worker, ends) = open();
    tokio::spawn(run(store, ends));
    worker
}

/// The worker's ends of the channels.
pub(super) struct Ends {
    pub(super) rounds: mpsc::Receiver<Round>,
    pub(super) requests: mpsc::Receiver<StoreRequest>,
    bring: mpsc::Sender<Brought>,
}

pub(super) fn open() -> (StoreWorker, Ends) {
    let (rounds, round_receiver) = mpsc::channel(1);
    let (requests, request_receiver) = mpsc::channel(MAX_REQUESTS);
    let (bring, brought) = mpsc::channel(2);
    (StoreWorker { rounds, requests, brought }, Ends { rounds: round_receiver, requests: request_receiver, bring })
}

impl StoreWorker {
    /// Takes a round; there is one at a time. False if the worker is gone.
    pub(super) fn carry(&self, round: Round) -> bool {
        self.rounds.try_send(round).is_ok()
    }

    /// Takes a request, if not too many wait already.
    pub(super) fn run(&self, request: StoreRequest) -> Result<(), StoreRequest> {
        self.requests.try_send(request).map_err(|unsent| match unsent {
            mpsc::error::TrySendError::Full(request) | mpsc::error::TrySendError::Closed(request) => request,
        })
    }

    /// Returns the answer that is brought back next; `None` if the worker is gone. Cancel safe.
    pub(super) async fn brought(&mut self) -> Option<Brought> {
        self.brought.recv().await
    }
}

async fn run(mut store: Store, ends: Ends) {
    let Ends { mut rounds, mut requests, bring } = ends;
    loop {
        let brought = tokio::select! {
            biased;
            round = rounds.recv() => match round {
                Some(round) => Brought::Round(store.round(&round).await),
                None => break,
            },
            Some(request) = requests.recv() => match request {
                StoreRequest::Nodes(_, answer) if answer.is_closed() => continue,
                StoreRequest::Nodes(round, answer) => {
                    let _ = answer.send(list(&mut store, &round).await);
                    continue;
                }
                StoreRequest::Sweep { row_ttl } => Brought::Swept(store.sweep(row_ttl).await),
            },
        };
        if bring.send(brought).await.is_err() {
            break;
        }
    }
    store.close().await;
}

async fn list(store: &mut Store, round: &Round) -> Result<(Answer, Vec<NodeRow>), StoreError> {
    let answer = store.round(round).await?;
    Ok((answer, store.nodes().await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_requests_wait_and_the_next_one_is_given_back() {
        let (worker, mut ends) = open();
        let request = || StoreRequest::Sweep { row_ttl: Duration::from_secs(30) };
        for _ in 0..MAX_REQUESTS {
            worker.run(request()).expect("room");
        }
        assert!(worker.run(request()).is_err());
        ends.requests.try_recv().expect("one");
        worker.run(request()).expect("room again");
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_round_goes_before_requests_that_came_first() {
        use crate::lease::store::{StoreOptions, StoreUrl};
        let directory = tempfile::tempdir().expect("a directory");
        let url: StoreUrl = format!("sqlite://{}", directory.path().join("a.db").display()).parse().expect("a url");
        let store = Store::new(&url, StoreOptions::new("c").expect("a name")).expect("a store");
        let (mut worker, ends) = open();
        for _ in 0..2 {
            worker.run(StoreRequest::Sweep { row_ttl: Duration::from_secs(30) }).expect("room");
        }
        let round = Round {
            node: crate::NodeId::new("a").expect("a name"),
            rpc_address: None,
            lease_duration: Duration::from_secs(15),
            steps: Vec::new(),
        };
        assert!(worker.carry(round));
        tokio::spawn(run(store, ends));
        assert!(matches!(worker.brought().await, Some(Brought::Round(Ok(_)))));
        assert!(matches!(worker.brought().await, Some(Brought::Swept(Ok(_)))));
    }

    #[tokio::test]
    async fn nobody_hears_of_a_worker_that_is_gone() {
        let (mut worker, ends) = open();
        drop(ends);
        assert!(worker.brought().await.is_none());
        let round = Round {
            node: crate::NodeId::new("a").expect("a name"),
            rpc_address: None,
            lease_duration: Duration::from_secs(15),
            steps: Vec::new(),
        };
        assert!(!worker.carry(round));
    }
}
