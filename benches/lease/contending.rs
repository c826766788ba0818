//! A contender with a real store, driven as an agent drives it, without the rest of the agent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headcount::NodeId;
use headcount::core::Time;
use headcount::lease::store::{Store, StoreOptions, StoreUrl};
use headcount::lease::{Contender, ContenderInit, ContenderTiming, LeaseName, Output, StepRequest};

/// Figures of all contenders.
#[derive(Debug, Default)]
pub struct Done {
    /// The time of each round that renewed something.
    pub renewals: Vec<Duration>,
    pub rounds: u64,
    pub failures: u64,
}

/// Returns so many leases, by name.
pub fn leases(count: usize) -> Vec<LeaseName> {
    (0..count).map(|at| LeaseName::new(&format!("lease-{at}")).expect("a name")).collect()
}

pub fn store(url: &str, cluster: &str) -> Store {
    let url: StoreUrl = url.parse().expect("an address");
    let options = StoreOptions::new(cluster).expect("a name").with_statement_timeout(Duration::from_secs(2));
    Store::new(&url, options.expect("within bounds")).expect("a store")
}

/// Contends until it is dropped.
pub async fn contend(
    name: String,
    seed: u64,
    mut store: Store,
    timing: ContenderTiming,
    leases: Vec<LeaseName>,
    done: Arc<Mutex<Done>>,
) {
    let began = Instant::now();
    let now = || Time::ORIGIN + began.elapsed();
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let node = NodeId::new(&name).expect("a name");
    let init = ContenderInit { node, timing, leases, terms: BTreeMap::new(), floors: BTreeMap::new(), seed: bytes };
    let mut contender = Contender::new(init, now());
    loop {
        contender.tick(now());
        drain(&mut contender, now());
        if let Some(round) = contender.begin(now()) {
            drain(&mut contender, now());
            let sent = Instant::now();
            let answer = store.round(&round).await;
            let took = sent.elapsed();
            let is_renewal = round.steps.iter().any(|step| matches!(step.request, StepRequest::Renew { .. }));
            {
                let mut done = done.lock().expect("not poisoned");
                done.rounds += 1;
                done.failures += u64::from(answer.is_err());
                if is_renewal && answer.is_ok() {
                    done.renewals.push(took);
                }
            }
            match answer {
                Ok(answer) => contender.answered(now(), &answer),
                Err(error) => contender.failed(now(), error.is_outcome_known()),
            }
            drain(&mut contender, now());
        }
        let pause = contender.next_deadline().map_or(Duration::from_secs(1), |deadline| deadline.since(now()));
        tokio::time::sleep(pause).await;
    }
}

/// Ends all led work that is to end.
fn drain(contender: &mut Contender, now: Time) {
    while let Some(output) = contender.poll() {
        if let Output::AwaitWork { lease, term } = output {
            contender.work_ended(now, &lease, term);
        }
    }
}
