//! The agents: two that are flooded and told of, and one that is killed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headcount::client::{Client, EventQuery, EventUpdate};
use headcount::seal::{KeyFile, KeyId};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::support::{self, Agent, wait_for};
use crate::until;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// What an agent told of, and when that came here.
type Told = Arc<Mutex<Vec<(Instant, String, String)>>>;

pub struct Cluster {
    survivors: [Agent; 2],
    victim: Option<Agent>,
    /// What each survivor told of.
    told: [Told; 2],
    is_over: Arc<AtomicBool>,
    seal: Vec<String>,
    profile: String,
    pub key_id: Option<KeyId>,
    _keys: TempDir,
}

/// What the survivors have used, or the greater of the two.
#[derive(Debug, Default, Clone, Copy)]
pub struct Costs {
    /// Datagrams that the system dropped, since they came faster than they were read; of both.
    pub lost: f64,
    /// The most memory so far, in bytes.
    pub memory: f64,
    /// The processor time of the busier one, in seconds.
    pub processor: f64,
    each: [f64; 2],
}

impl Costs {
    pub fn since(&self, before: &Self) -> Self {
        let each = [0, 1].map(|at| self.each[at] - before.each[at]);
        let processor = each[0].max(each[1]);
        Self { lost: self.lost - before.lost, memory: self.memory, processor, each }
    }

    pub fn and(&self, other: &Self) -> Self {
        Self {
            lost: self.lost + other.lost,
            memory: self.memory.max(other.memory),
            processor: self.processor + other.processor,
            each: [0.0; 2],
        }
    }
}

impl Cluster {
    pub fn start(is_sealed: bool, profile: &str) -> Self {
        let keys = tempfile::tempdir().expect("a directory");
        let (mut seal, mut key_id) = (Vec::new(), None);
        if is_sealed {
            let path = keys.path().join("cluster.key");
            support::generate_key(&path);
            let text = std::fs::read_to_string(&path).expect("a key file");
            key_id = Some(KeyFile::parse(&text).expect("keys").ring().expect("keys").ids()[0]);
            seal = vec!["--key-file".to_owned(), path.display().to_string()];
        }
        let a = agent("a", &[], profile, &seal);
        let b = agent("b", &[&a.gossip], profile, &seal);
        let is_over = Arc::new(AtomicBool::new(false));
        let told = [&a, &b].map(|agent| listen(agent, Arc::clone(&is_over)));
        let profile = profile.to_owned();
        let mut cluster = Self { survivors: [a, b], victim: None, told, is_over, seal, profile, key_id, _keys: keys };
        cluster.is_whole();
        cluster
    }

    /// Starts another agent that looks for a cluster there.
    pub fn lure(&self, to: SocketAddr) -> Agent {
        agent("lured", &[&to.to_string()], &self.profile, &self.seal)
    }

    pub fn survivors(&self) -> &[Agent; 2] {
        &self.survivors
    }

    /// Waits until all are there and linked; starts the third one, if it is not.
    pub fn is_whole(&mut self) {
        let seed = self.survivors[0].gossip.clone();
        let victim = self.victim.get_or_insert_with(|| agent("c", &[&seed], &self.profile, &self.seal));
        for agent in self.survivors.iter().chain([&*victim]) {
            // Names that the flood brought along are nobody's.
            wait_for(&format!("{} lists all as up", agent.name), || {
                let members = agent.members();
                let is_up = |name: &&str| members.contains(&((*name).to_owned(), "up".to_owned()));
                NAMES.iter().all(is_up).then_some(())
            });
            wait_for(&format!("{} has its links", agent.name), || {
                (agent.metric("headcount_links") >= 2.0).then_some(())
            });
        }
    }

    /// Kills the third one; returns when.
    pub fn kill(&mut self) -> Instant {
        let mut victim = self.victim.take().expect("it runs");
        let now = Instant::now();
        victim.signal(Signal::SIGKILL);
        victim.wait();
        now
    }

    /// Waits until each survivor told of the kill; returns how long each took.
    pub fn told_since(&self, killed: Instant, patience: Duration) -> Vec<Duration> {
        let told = |told: &Told| {
            let found = until(killed + patience, || {
                let events = told.lock().expect("not poisoned");
                let is_it = |event: &&(Instant, String, String)| {
                    event.0 >= killed && event.1 == "node_detected_down" && event.2 == "c"
                };
                events.iter().find(is_it).map(|event| event.0)
            });
            found.map_or(patience, |at| at - killed)
        };
        self.told.iter().map(told).collect()
    }

    /// Returns how often a survivor was suspected, or held as gone, by the other one.
    pub fn wrong_alarms(&self) -> usize {
        let of = |told: &Told| {
            let events = told.lock().expect("not poisoned");
            events.iter().filter(|(_, _, node)| ["a", "b"].contains(&node.as_str())).count()
        };
        self.told.iter().map(of).sum()
    }

    pub fn targets(&self) -> [SocketAddr; 2] {
        [0, 1].map(|at| self.survivors[at].gossip.parse().expect("an address"))
    }

    pub fn costs(&self) -> Costs {
        let lost = |agent: &Agent| agent.metric("headcount_receive_buffer_overflows_total");
        let each = [0, 1].map(|at| processor(&self.survivors[at]));
        Costs {
            lost: self.survivors.iter().map(lost).sum(),
            memory: self.survivors.iter().map(memory).fold(0.0, f64::max),
            processor: 0.0,
            each,
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn agent(name: &str, seeds: &[&str], profile: &str, seal: &[String]) -> Agent {
    let mut arguments = vec!["--profile", profile];
    arguments.extend(seal.iter().map(String::as_str));
    Agent::start(name, seeds, &arguments)
}

/// Takes down what an agent tells of losses.
fn listen(agent: &Agent, is_over: Arc<AtomicBool>) -> Told {
    let query = EventQuery::all().kinds(["node_suspected", "node_detected_down"]);
    let events = Client::new(&agent.http).and_then(|client| client.events(&query)).expect("the agent answers");
    let told = Told::default();
    let sink = Arc::clone(&told);
    std::thread::spawn(move || {
        for update in events.map_while(Result::ok) {
            match update {
                EventUpdate::Event(event) => {
                    let about = (Instant::now(), event.event, event.node.unwrap_or_default());
                    sink.lock().expect("not poisoned").push(about);
                }
                EventUpdate::Lost { .. } if is_over.load(Ordering::Relaxed) => return,
                _ => {}
            }
        }
    });
    told
}

/// Returns the most memory that an agent has had, in bytes.
fn memory(agent: &Agent) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1_024.0
}

/// Returns the seconds for which an agent has run on a processor.
fn processor(agent: &Agent) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", agent.id())).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    // A tick is a hundredth of a second on every Linux that matters.
    (ticks(11) + ticks(12)) / 100.0
}
