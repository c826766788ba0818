//! Clusters that a test makes up: a program's own logic sees members come, go, crash and lead, at the test's word.
//!
//! Behind [`Cluster::agent`] is an [`Agent`] without a core, socket or disk: what programs read of it (members, events,
//! leadership, messages) is published by the same code as a real one's, and what they ask of it is answered here. Nothing waits
//! for a clock, so that it works under a paused time, too.
//!
//! ```
//! use headcount::EventKind;
//! use headcount::testing::Cluster;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::new("a");
//! let mut events = cluster.agent().subscribe();
//! cluster.join("b");
//! cluster.crash("b");
//! assert!(matches!(events.recv().await?.kind, EventKind::NodeJoined { .. }));
//! assert!(matches!(events.recv().await?.kind, EventKind::NodeDetectedDown { .. }));
//!
//! let term = cluster.elect("a");
//! assert_eq!(cluster.agent().while_leader(|term| async move { term }).await?, term);
//! # Ok(())
//! # }
//! ```
//!
//! Must not know: the protocol.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::bus::Bus;
use super::clock::Clock;
use super::directory::Directory;
use super::driver::MAX_QUEUED_REQUESTS;
use super::error::Stop;
use super::keys::Keeper;
use super::request::{Request, Say};
use super::shared::Shared;
use super::{Agent, Inner};
use crate::config::{Config, LeadershipMode, Reach};
use crate::core::election::{ChangeError, Electorate, LossReason, Term, Unconfirmed};
use crate::core::{
    self, Change, ChangeKind, CommandError, Delivery, DeliveryKind, DetectionMethod, LeadershipState, LeaveReason,
    MessageId, NodeId, Payload, ProtocolRange, Record, Reply, Run, Status, StopReason, Tags, Topic,
};
use crate::event::EventKind;
use crate::journal::Journal;
use crate::member::Member;
use crate::transport::resolve::Resolver;
use crate::transport::sealing::Sealing;

/// The time for which a leader leads that nobody deposes: no test lasts as long.
const FOR_GOOD: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A cluster that a test makes up, with one agent in it. Its end is the agent's.
#[derive(Debug)]
pub struct Cluster {
    agent: Agent,
    stage: Arc<Stage>,
    said: mpsc::UnboundedReceiver<Said>,
}

/// A message that the agent sent to others.
#[derive(Debug)]
#[non_exhaustive]
pub struct Said {
    /// The member that it is for; `None` for a broadcast.
    pub to: Option<NodeId>,
    /// The topic.
    pub topic: Topic,
    /// The payload.
    pub payload: Payload,
    /// The way back, of a request.
    answer: Option<oneshot::Sender<Payload>>,
}

impl Said {
    /// Answers a request. One that is dropped without an answer fails as if none had come in time.
    ///
    /// # Panics
    ///
    /// If it is no request, or the payload is too large.
    pub fn answer(self, payload: &[u8]) {
        let answer = self.answer.expect("it is a request");
        // Nobody may wait for it any more.
        _ = answer.send(Payload::new(payload).expect("a payload that is not too large"));
    }
}

/// All calls are for tests, and panic where the test is wrong: a name that is none, a member that is not there, or is already.
impl Cluster {
    /// Makes an agent of this name, which is Up, alone, and has no leader.
    ///
    /// # Panics
    ///
    /// If the name is none, or this is called outside of a tokio runtime.
    pub fn new(me: &str) -> Self {
        let runtime = Handle::current();
        let mut config = Config::new(me).expect("a name");
        config.leadership.mode = LeadershipMode::Quorum;
        let (run, journal) = (Run(1), Journal::start(&config.name).expect("a thread"));
        let policy = Keeper::load(&config.seal).expect("no keys");
        let sealing = Sealing::new(run, config.cluster.as_str(), policy, journal.clone());
        let born = record(config.name.clone(), run);
        let reach = Reach { bound: born.address, advertised: None, cluster: config.cluster.clone() };
        let clock = Clock::start();
        let bus = Bus::new(Directory::new(config.name.clone(), clock));
        let shared = Shared::new(bus, clock, Arc::default(), Arc::default(), Arc::default(), journal.clone());
        let shared = Arc::new(shared);
        shared.needs_no_driver();
        let (said, heard) = mpsc::unbounded_channel();
        let stage = Arc::new(Stage { shared: Arc::clone(&shared), said, state: Mutex::default() });
        let (requests, asked) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let agent = Inner {
            shared,
            requests,
            runtime: runtime.clone(),
            users: runtime.clone(),
            resolver: Resolver::new(journal),
            run,
            gossip_address: born.address,
            #[cfg(feature = "agent")]
            link_budget: 0,
            keeper: Arc::new(Keeper::new(sealing, config.seal.clone(), reach)),
            draining: Arc::default(),
            born: Member::from_record(&born, None, SystemTime::now(), true),
            config,
        };
        stage.state().term = 1;
        stage.come(born);
        stage.vacate();
        runtime.spawn(Arc::clone(&stage).serve(asked));
        Self { agent: Agent { inner: Arc::new(agent) }, stage, said: heard }
    }

    /// Returns the agent, as the program under test has it.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Has a member join; one that is Down or has left comes back with a new run.
    pub fn join(&self, name: &str) -> Member {
        self.join_with_tags(name, Tags::default())
    }

    /// Has a member join that has tags.
    ///
    /// # Panics
    ///
    /// If the name is none, or is a member's that is not gone.
    pub fn join_with_tags(&self, name: &str, tags: Tags) -> Member {
        let id = NodeId::new(name).expect("a name");
        let run = self.stage.next_run();
        self.stage.come(Record { tags, ..record(id.clone(), run) });
        self.agent.member(&id).expect("it joined")
    }

    /// Has a member be suspected.
    pub fn suspect(&self, name: &str) {
        self.stage.turn(name, Status::Suspect, ChangeKind::Suspected, Some(DetectionMethod::HeartbeatTimeout));
    }

    /// Has a suspected member refute that.
    pub fn recover(&self, name: &str) {
        self.stage.turn(name, Status::Up, ChangeKind::Recovered, None);
    }

    /// Has a member crash. If it leads, nobody does.
    pub fn crash(&self, name: &str) {
        let method = DetectionMethod::ConnectionLost;
        self.stage.turn(name, Status::Down, ChangeKind::DetectedDown(method), Some(method));
    }

    /// Has a member leave. If it leads, nobody does.
    pub fn leave(&self, name: &str) {
        let reason = LeaveReason::Graceful;
        self.stage.turn(name, Status::Left(reason), ChangeKind::Left(reason), None);
    }

    /// Has a member that is gone be forgotten.
    pub fn forget(&self, name: &str) {
        self.stage.forget(&self.stage.held(name).id);
    }

    /// Gives a member other tags.
    pub fn set_tags(&self, name: &str, tags: Tags) {
        self.stage.update(name, |record| record.tags = tags);
    }

    /// Has a member drain, or end that.
    pub fn set_draining(&self, name: &str, is_draining: bool) {
        self.stage.set_draining(name, is_draining);
    }

    /// Has a member lead, in the next term, which is returned.
    pub fn elect(&self, name: &str) -> u64 {
        self.stage.elect(&self.stage.held(name).id)
    }

    /// Has nobody lead any more.
    pub fn depose(&self) {
        self.stage.depose(LossReason::Resigned);
    }

    /// Has a member say something to this node alone.
    pub fn send(&self, from: &str, topic: &str, payload: &[u8]) {
        let id = self.stage.next_id(self.stage.held(from).run, false);
        self.stage.deliver(id, from, topic, payload, DeliveryKind::Sent);
    }

    /// Has a member say something to all members.
    pub fn broadcast(&self, from: &str, topic: &str, payload: &[u8]) {
        let id = self.stage.next_id(self.stage.held(from).run, true);
        self.stage.deliver(id, from, topic, payload, DeliveryKind::Broadcast);
    }

    /// Has a member ask this node, and returns the answer of the program; `None` once the agent has stopped.
    pub async fn request(&self, from: &str, topic: &str, payload: &[u8]) -> Option<Payload> {
        let (answer, answered) = oneshot::channel();
        let id = self.stage.next_id(self.stage.held(from).run, false);
        // It may be answered while it is delivered.
        self.stage.state().questions.insert(id, answer);
        self.stage.deliver(id, from, topic, payload, DeliveryKind::Request { within: FOR_GOOD });
        answered.await.ok()
    }

    /// Waits for the next message of the agent to others; `None` once it has stopped, and all were taken.
    pub async fn said(&mut self) -> Option<Said> {
        self.said.recv().await
    }

    /// Returns the next message of the agent to others, if there is one.
    pub fn try_said(&mut self) -> Option<Said> {
        self.said.try_recv().ok()
    }
}

/// Returns the record of a member in its first moment.
fn record(id: NodeId, run: Run) -> Record {
    // Addresses of documentation (RFC 3849): nothing is ever sent there.
    let ip = std::net::Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(run.0));
    Record {
        id,
        run,
        incarnation: 1,
        status: Status::Up,
        address: SocketAddr::from((ip, 7117)),
        api_address: None,
        tags: Tags::default(),
        timing: core::Settings::default().timing().expect("the default"),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol: ProtocolRange::OURS,
    }
}

/// The members and the leader, and the place where both are published.
#[derive(Debug)]
struct Stage {
    shared: Arc<Shared>,
    said: mpsc::UnboundedSender<Said>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<NodeId, Arc<Record>>,
    runs: u64,
    leader: Option<NodeId>,
    term: u64,
    messages: u64,
    questions: BTreeMap<MessageId, oneshot::Sender<Payload>>,
}

impl Stage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a run that no member has had: this node has the first one.
    fn next_run(&self) -> Run {
        let mut state = self.state();
        state.runs += 1;
        Run(state.runs + 1)
    }

    fn next_id(&self, run: Run, is_broadcast: bool) -> MessageId {
        let mut state = self.state();
        state.messages += 1;
        MessageId { run, sequence: state.messages * 2 + u64::from(!is_broadcast) }
    }

    fn held(&self, name: &str) -> Arc<Record> {
        self.state().records.get(name).cloned().unwrap_or_else(|| panic!("{name:?} is no member"))
    }

    fn publish(&self, kind: ChangeKind, record: Record, method: Option<DetectionMethod>) {
        let record = Arc::new(record);
        let previous = match kind {
            ChangeKind::Removed => self.state().records.remove(&record.id),
            _ => self.state().records.insert(record.id.clone(), Arc::clone(&record)),
        };
        self.shared.publish(&Change { kind, record, method, previous }, SystemTime::now());
    }

    fn come(&self, record: Record) {
        let before = self.state().records.get(&record.id).cloned();
        assert!(before.is_none_or(|before| !before.status.is_live()), "{} is a member already", record.id);
        self.publish(ChangeKind::Joined, record, None);
    }

    fn turn(&self, name: &str, status: Status, kind: ChangeKind, method: Option<DetectionMethod>) {
        let held = self.held(name);
        assert!(held.status.is_live(), "{name} is {}", held.status);
        self.publish(kind, Record { incarnation: held.incarnation + 1, ..held.with_status(status) }, method);
        if !status.is_live() && self.state().leader.as_ref() == Some(&held.id) {
            self.depose(LossReason::Expired);
        }
    }

    fn update(&self, name: &str, change: impl FnOnce(&mut Record)) {
        let held = self.held(name);
        let mut record = Record { incarnation: held.incarnation + 1, ..Record::clone(&held) };
        change(&mut record);
        self.publish(ChangeKind::Updated, record, None);
    }

    fn set_draining(&self, name: &str, is_draining: bool) {
        self.update(name, |record| record.tags = record.tags.with_draining(is_draining).expect("room for that"));
    }

    fn forget(&self, id: &NodeId) {
        self.publish(ChangeKind::Removed, Record::clone(&self.held(id.as_str())), None);
    }

    fn elect(&self, leader: &NodeId) -> u64 {
        let status = self.held(leader.as_str()).status;
        assert!(status.is_here(), "{leader} is {status}");
        self.depose(LossReason::Superseded);
        let mut state = self.state();
        (state.leader, state.term) = (Some(leader.clone()), state.term + 1);
        let term = state.term;
        drop(state);
        self.lead(Some(leader), term);
        let member = self.shared.directory().member(leader);
        let leader = leader.clone();
        self.shared.announce(EventKind::LeaderElected { leader, member, term, lease: None }, SystemTime::now());
        term
    }

    fn depose(&self, reason: LossReason) {
        let mut state = self.state();
        let (leader, term) = (state.leader.take(), state.term);
        drop(state);
        let Some(leader) = leader else { return };
        self.lead(None, term);
        let member = self.shared.directory().member(&leader);
        self.shared.announce(EventKind::LeaderLost { leader, member, term, reason, lease: None }, SystemTime::now());
    }

    fn vacate(&self) {
        let term = self.state().term;
        self.lead(None, term);
    }

    fn lead(&self, leader: Option<&NodeId>, term: u64) {
        self.shared.publish_leadership(core::Leadership {
            state: if leader.is_some() { LeadershipState::Led } else { LeadershipState::Vacant },
            leader: leader.cloned(),
            term: Term(term),
            is_me: leader == Some(&self.shared.me),
            valid_until: leader.map(|_| self.shared.clock.now() + FOR_GOOD),
        });
    }

    fn deliver(&self, id: MessageId, from: &str, topic: &str, payload: &[u8], kind: DeliveryKind) {
        let from = self.held(from);
        let topic = Topic::of_program(topic).expect("a topic");
        let payload = Payload::new(payload).expect("a payload that is not too large");
        let delivery = Delivery { id, from: from.id.clone(), topic, payload, kind };
        self.shared.listeners.deliver(delivery, SystemTime::now());
    }
}

/// Requests of the program under test to its agent.
impl Stage {
    async fn serve(self: Arc<Self>, mut asked: mpsc::Receiver<Request>) {
        let stop = loop {
            tokio::select! {
                () = self.shared.cancel.cancelled() => break self.shared.cancelled_by(),
                request = asked.recv() => match request {
                    Some(Request::Leave) => {
                        let reason = LeaveReason::Graceful;
                        let me = self.shared.me.as_str();
                        self.turn(me, Status::Left(reason), ChangeKind::Left(reason), None);
                        break Stop::Core(StopReason::Left);
                    }
                    Some(request) => self.carry_out(request),
                    None => break Stop::Dropped,
                },
            }
        };
        self.shared.close_publishers();
        self.state().questions.clear();
        self.shared.finish(stop);
    }

    fn carry_out(&self, request: Request) {
        let me = &self.shared.me;
        let (answer, reply) = match request {
            Request::Say { what, answer } => return self.say(what, answer),
            Request::SetTags { tags, answer } => {
                let is_draining = self.held(me.as_str()).is_draining();
                (answer, self.retag(tags.with_draining(is_draining).ok(), Reply::TagsSet))
            }
            Request::Drain { is_draining, answer } => {
                let tags = self.held(me.as_str()).tags.with_draining(is_draining).ok();
                (answer, self.retag(tags, Reply::Draining { may_lead: None }))
            }
            Request::Remove { id, force, answer } => (answer, self.remove(id, force)),
            Request::Doubt { id, answer } => (answer, self.why_not_to(&id).map_or(Reply::Doubted, Reply::Refused)),
            Request::Resign { to, answer } => (answer, self.resign(to)),
            Request::ConfirmLeadership { answer } => {
                let state = self.state();
                let until = self.shared.clock.now() + FOR_GOOD;
                let is_me = state.leader.as_ref() == Some(me);
                let confirmed = Reply::Confirmed { term: Term(state.term), until };
                let refused = || Reply::Refused(Unconfirmed::NotLeader.into());
                (answer, if is_me { confirmed } else { refused() })
            }
            // Nobody is waited for: the test says what becomes of addresses and voters.
            Request::Join { answer, .. }
            | Request::SetAddress { answer, .. }
            | Request::AddVoter { answer, .. }
            | Request::ReplaceVoter { answer, .. }
            | Request::RemoveVoter { answer, .. }
            | Request::Recover { answer, .. }
            | Request::FoundAnew { answer, .. } => (answer, Reply::Refused(CommandError::NoQuorumMode)),
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            Request::TellLease(_) | Request::KeepLeaseTerm { .. } => return,
            Request::Leave => return,
        };
        // Whoever asked may be gone.
        _ = answer.send(reply);
    }

    /// Gives this node other tags, if there is room for them.
    fn retag(&self, tags: Option<Tags>, done: Reply) -> Reply {
        let Some(tags) = tags else { return Reply::Refused(CommandError::NoRoomToDrain) };
        self.update(self.shared.me.as_str(), |record| record.tags = tags);
        done
    }

    fn remove(&self, id: NodeId, force: bool) -> Reply {
        let held = self.state().records.get(&id).cloned();
        let Some(held) = held else { return Reply::Refused(CommandError::NoSuchMember { id }) };
        if held.status.is_live() && !force {
            return Reply::Refused(CommandError::NotDown { id, status: held.status });
        }
        if held.status.is_live() {
            let reason = LeaveReason::Forced;
            self.turn(id.as_str(), Status::Left(reason), ChangeKind::Left(reason), None);
        }
        self.forget(&id);
        Reply::Removed { held_by: 0, confirmed: true }
    }

    fn resign(&self, to: Option<NodeId>) -> Reply {
        if self.state().leader.is_none() {
            return Reply::Refused(ChangeError::NotLeader.into());
        }
        if let Some(error) = to.as_ref().and_then(|to| self.why_not_to(to)) {
            return Reply::Refused(error);
        }
        self.depose(LossReason::Resigned);
        if let Some(to) = to {
            self.elect(&to);
        }
        Reply::Electorate(Electorate::founded_by(Vec::new(), 0))
    }

    fn say(&self, what: Say, answer: oneshot::Sender<Reply>) {
        let run = self.held(self.shared.me.as_str()).run;
        let id = self.next_id(run, matches!(what, Say::Broadcast { .. }));
        let delivered = Reply::Delivered { id };
        let reply = match what {
            Say::Answer { request, payload } => {
                let asked = self.state().questions.remove(&request);
                let is_there = asked.is_some_and(|asked| asked.send(payload).is_ok());
                let refused = || Reply::Refused(CommandError::NoSuchRequest { id: request });
                if is_there { delivered } else { refused() }
            }
            Say::Broadcast { topic, payload } => {
                let addressed = self.state().records.values().filter(|record| record.status.is_live()).count();
                // A broadcast reaches its sender's programs, too.
                let (from, kind) = (self.shared.me.clone(), DeliveryKind::Broadcast);
                let delivery = Delivery { id, from, topic: topic.clone(), payload: payload.clone(), kind };
                self.shared.listeners.deliver(delivery, SystemTime::now());
                self.tell(Said { to: None, topic, payload, answer: None })
                    .map_or_else(Reply::Refused, |()| Reply::Broadcast { id, addressed })
            }
            Say::Send { to, topic, payload } => {
                let said = Said { to: Some(to), topic, payload, answer: None };
                self.tell(said).map_or_else(Reply::Refused, |()| delivered)
            }
            Say::Request { to, topic, payload, .. } => {
                let (reply, replied) = oneshot::channel();
                if let Err(error) = self.tell(Said { to: Some(to.clone()), topic, payload, answer: Some(reply) }) {
                    Reply::Refused(error)
                } else {
                    tokio::spawn(async move {
                        let answered = replied.await.map(|payload| Reply::Answered { id, payload });
                        _ = answer.send(answered.unwrap_or(Reply::Refused(CommandError::NoAnswer { id: to })));
                    });
                    return;
                }
            }
        };
        _ = answer.send(reply);
    }

    /// Gives the test what is said to a member that is live, or to all; the test may not care for it.
    fn tell(&self, said: Said) -> Result<(), CommandError> {
        let refused = said.to.as_ref().and_then(|to| self.why_not_to(to));
        if refused.is_none() {
            _ = self.said.send(said);
        }
        refused.map_or(Ok(()), Err)
    }

    /// Returns the reason why nothing is asked of a member, if there is one.
    fn why_not_to(&self, id: &NodeId) -> Option<CommandError> {
        let id = id.clone();
        match self.state().records.get(&id).map(|record| record.status) {
            None => Some(CommandError::NoSuchMember { id }),
            Some(status) if !status.is_here() => Some(CommandError::NotLive { id, status }),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
