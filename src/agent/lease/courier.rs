//! The courier: owns the store, and carries one request after the other to it.
//!
//! Invariants: rounds go before everything else, so that a listing or a sweep delays one by no more than itself; of other
//! requests at most [`MAX_ERRANDS`] wait. It says goodbye to the database when nobody can ask any more.
//!
//! Must not know: what an answer is worth.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::lease::store::{Store, StoreError};
use crate::lease::{Answer, NodeRow, Round};

/// Requests beside rounds that wait.
const MAX_ERRANDS: usize = 8;

/// A request beside a round.
#[derive(Debug)]
pub(super) enum Errand {
    /// The liveness rows, after this round, which looks at a lease.
    Nodes(Round, oneshot::Sender<Result<(Answer, Vec<NodeRow>), StoreError>>),
    /// Deletes old rows.
    Sweep {
        /// The least age of a row that is deleted.
        row_ttl: Duration,
    },
}

/// An answer that the courier brings back.
#[derive(Debug)]
pub(super) enum Brought {
    Round(Result<Answer, StoreError>),
    Swept(Result<usize, StoreError>),
}

/// The task's ends of the channels.
#[derive(Debug)]
pub(super) struct Courier {
    rounds: mpsc::Sender<Round>,
    errands: mpsc::Sender<Errand>,
    brought: mpsc::Receiver<Brought>,
}

/// Sends a courier on its way. Inside a runtime.
pub(super) fn start(store: Store) -> Courier {
    let (courier, ends) = open();
    tokio::spawn(run(store, ends));
    courier
}

/// The courier's ends of the channels.
pub(super) struct Ends {
    pub(super) rounds: mpsc::Receiver<Round>,
    pub(super) errands: mpsc::Receiver<Errand>,
    bring: mpsc::Sender<Brought>,
}

pub(super) fn open() -> (Courier, Ends) {
    let (rounds, round_door) = mpsc::channel(1);
    let (errands, errand_door) = mpsc::channel(MAX_ERRANDS);
    let (bring, brought) = mpsc::channel(2);
    (Courier { rounds, errands, brought }, Ends { rounds: round_door, errands: errand_door, bring })
}

impl Courier {
    /// Takes a round along; there is one at a time. False if the courier is gone.
    pub(super) fn carry(&self, round: Round) -> bool {
        self.rounds.try_send(round).is_ok()
    }

    /// Takes an errand along, if not too many wait already.
    pub(super) fn run(&self, errand: Errand) -> Result<(), Errand> {
        self.errands.try_send(errand).map_err(|unsent| match unsent {
            mpsc::error::TrySendError::Full(errand) | mpsc::error::TrySendError::Closed(errand) => errand,
        })
    }

    /// Returns the answer that is brought back next; `None` if the courier is gone. Cancel safe.
    pub(super) async fn brought(&mut self) -> Option<Brought> {
        self.brought.recv().await
    }
}

async fn run(mut store: Store, ends: Ends) {
    let Ends { mut rounds, mut errands, bring } = ends;
    loop {
        let brought = tokio::select! {
            biased;
            round = rounds.recv() => match round {
                Some(round) => Brought::Round(store.round(&round).await),
                None => break,
            },
            Some(errand) = errands.recv() => match errand {
                Errand::Nodes(_, answer) if answer.is_closed() => continue,
                Errand::Nodes(round, answer) => {
                    let _ = answer.send(list(&mut store, &round).await);
                    continue;
                }
                Errand::Sweep { row_ttl } => Brought::Swept(store.sweep(row_ttl).await),
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
    fn so_many_errands_wait_and_the_next_one_is_given_back() {
        let (courier, mut ends) = open();
        let errand = || Errand::Sweep { row_ttl: Duration::from_secs(30) };
        for _ in 0..MAX_ERRANDS {
            courier.run(errand()).expect("room");
        }
        assert!(courier.run(errand()).is_err());
        ends.errands.try_recv().expect("one");
        courier.run(errand()).expect("room again");
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_round_goes_before_errands_that_came_first() {
        use crate::lease::store::{StoreOptions, StoreUrl};
        let directory = tempfile::tempdir().expect("a directory");
        let url: StoreUrl = format!("sqlite://{}", directory.path().join("a.db").display()).parse().expect("a url");
        let store = Store::new(&url, StoreOptions::new("c").expect("a name")).expect("a store");
        let (mut courier, ends) = open();
        for _ in 0..2 {
            courier.run(Errand::Sweep { row_ttl: Duration::from_secs(30) }).expect("room");
        }
        let round = Round {
            node: crate::NodeId::new("a").expect("a name"),
            rpc_address: None,
            lease_duration: Duration::from_secs(15),
            steps: Vec::new(),
        };
        assert!(courier.carry(round));
        tokio::spawn(run(store, ends));
        assert!(matches!(courier.brought().await, Some(Brought::Round(Ok(_)))));
        assert!(matches!(courier.brought().await, Some(Brought::Swept(Ok(_)))));
    }

    #[tokio::test]
    async fn nobody_hears_of_a_courier_that_is_gone() {
        let (mut courier, ends) = open();
        drop(ends);
        assert!(courier.brought().await.is_none());
        let round = Round {
            node: crate::NodeId::new("a").expect("a name"),
            rpc_address: None,
            lease_duration: Duration::from_secs(15),
            steps: Vec::new(),
        };
        assert!(!courier.carry(round));
    }
}
