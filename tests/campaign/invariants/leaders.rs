//! The promises of leaders and voters, checked by true time across nodes, runs and restarts.
//!
//! A claim counts until its end by the clock of the process that holds it, even if that process says meanwhile that it
//! leads no more: work under a claim may run until then. It ends earlier only if all that it led has ended, or with the
//! process.
//!
//! Must not know: how elections work. It looks at the leadership that processes show to their users, and at the votes
//! and acknowledgements that they send.

use std::collections::BTreeMap;

use super::Invariant;
use super::electorates::Electorates;
use super::per_node::PerNode;
use super::run_checker::Finding;
use headcount_core::election::{Body, Descent, Identity, Lineage, NumberedView, Term, ViewRef};
use headcount_core::wire::{Message, Packet};
use headcount_core::{Core, CoreInit, Leadership, LeadershipState, NodeId, Output, Run};
use headcount_sim::Clock;
use headcount_sim::network::Nanos;

/// Watches all elections of a world.
#[derive(Debug, Default)]
pub(super) struct Leaders {
    processes: PerNode<Process>,
    claims: BTreeMap<usize, Claim>,
    /// The process that claimed each term of each root: terms of electorates that were founded apart may be equal.
    claimants: BTreeMap<(Option<Lineage>, Term), (NodeId, Run)>,
    /// The leader that members name for each term of each root.
    named: BTreeMap<(Lineage, Term), NodeId>,
    /// The address to which each vote was sent.
    votes: BTreeMap<(Identity, Term), std::net::SocketAddr>,
    /// The view that was agreed under each number, by the root of its electorate and the term at which it began.
    agreed: BTreeMap<(Lineage, Term, u64), ViewRef>,
    /// The highest term that each node used on its present disk.
    used: BTreeMap<NodeId, Term>,
    /// Electorates that meet.
    pub(super) electorates: Electorates,
}

/// One run of one node.
#[derive(Debug)]
struct Process {
    id: NodeId,
    run: Run,
    clock: Clock,
    told: Leadership,
    /// The leader by the events of the process, folded.
    leader: Option<(NodeId, Term)>,
    is_unavailable: bool,
    agreed: Option<(Descent, u64)>,
}

/// What a node is in the electorates that there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// Its identity as a voter.
    pub(crate) identity: Option<Identity>,
    /// The electorate that it votes in.
    pub(crate) lineage: Option<Lineage>,
    /// The electorate that it is sure of.
    pub(crate) founded: Option<Descent>,
}

impl Standing {
    /// Returns what a core is.
    pub(crate) fn of(core: &Core) -> Self {
        let Some(election) = core.election() else { return Self::default() };
        Self { identity: Some(election.ballot().identity), lineage: election.lineage(), founded: election.founded() }
    }

    fn root(&self) -> Option<Lineage> {
        self.founded.map(|founded| founded.root)
    }
}

#[derive(Debug)]
struct Claim {
    term: Term,
    /// Lineage of the electorate. Recoveries make several lineages, each with claims of its own, until they meet.
    lineage: Option<Lineage>,
    until: Nanos,
}

#[expect(clippy::unnecessary_wraps, reason = "reads as what its callers return")]
fn broken(invariant: Invariant, detail: String) -> Option<Finding> {
    Some((invariant, detail))
}

impl Leaders {
    /// Takes note of a new process.
    pub(super) fn born(&mut self, node: usize, init: &CoreInit, clock: Clock) -> Option<Finding> {
        let quorum = init.leadership.as_ref()?;
        let (id, run, told) = (init.id.clone(), init.run, Leadership::DISABLED);
        let used = self.used.get(&id).copied().unwrap_or_default();
        let process = Process { id, run, clock, told, leader: None, is_unavailable: false, agreed: None };
        self.processes.insert(node, process);
        let term = quorum.ballot.term;
        if term < used {
            return broken(Invariant::TermsNeverFall, format!("its disk holds term {term}, it used {used}"));
        }
        self.electorates.born(&quorum.ballot)
    }

    /// Takes note that a process is gone, and leads nothing.
    pub(super) fn gone(&mut self, node: usize) {
        self.processes.remove(node);
        self.claims.remove(&node);
    }

    pub(super) fn disk_lost(&mut self, id: &NodeId) {
        self.used.remove(id);
    }

    pub(super) fn work_ended(&mut self, node: usize, term: Term) {
        if self.claims.get(&node).is_some_and(|claim| claim.term == term) {
            self.claims.remove(&node);
        }
    }

    pub(super) fn output(&mut self, node: usize, output: &Output) -> Option<Finding> {
        let process = self.processes.get_mut(node)?;
        match output {
            Output::Leadership(told) => {
                process.told = told.clone();
                None
            }
            Output::LeaderElected { leader, term } => {
                let before = process.leader.replace((leader.clone(), *term));
                let before = before.map(|(leader, term)| format!("{leader} of term {term} leads and was not lost"));
                before.and_then(|before| broken(Invariant::LeaderEventsFold, before))
            }
            Output::LeaderLost { leader, term, reason } => {
                let before = process.leader.take();
                let is_it = before.as_ref() == Some(&(leader.clone(), *term));
                let detail = || format!("lost {leader} of term {term} ({reason:?}), but {before:?} led");
                if is_it { None } else { broken(Invariant::LeaderEventsFold, detail()) }
            }
            Output::Quorum { is_reached, .. } => {
                let was_unavailable = std::mem::replace(&mut process.is_unavailable, !is_reached);
                let detail = || format!("a quorum is reached: {is_reached}, once more");
                if was_unavailable == *is_reached { None } else { broken(Invariant::LeaderEventsFold, detail()) }
            }
            Output::ViewAgreed(view) => self.view_agreed(node, view),
            Output::Transmit { to, bytes, .. } => self.transmit(node, *to, bytes),
            _ => None,
        }
    }

    pub(super) fn terms_claimed(&self) -> usize {
        self.claimants.len()
    }

    fn view_agreed(&mut self, node: usize, view: &NumberedView) -> Option<Finding> {
        let (descent, number) = (view.electorate.descent(), view.number);
        let key = (descent.root, descent.began, number);
        let process = self.processes.get_mut(node)?;
        let before = process.agreed.replace((descent, number));
        let is_later = before.is_none_or(|(before, number_before)| {
            if before.lineage == descent.lineage { number > number_before } else { descent.stands_over(&before) }
        });
        if !is_later {
            return broken(Invariant::OneViewPerNumber, format!("view {key:?} is agreed after {before:?}"));
        }
        let agreed = *self.agreed.entry(key).or_insert_with(|| view.reference());
        let detail = || format!("view {key:?} has two contents: {agreed:?} and {:?}", view.reference());
        if agreed.digest == view.reference().digest { None } else { broken(Invariant::OneViewPerNumber, detail()) }
    }

    /// Checks a packet's votes and acknowledgements, and notes their terms as used: they rest on what the disk keeps.
    fn transmit(&mut self, node: usize, to: std::net::SocketAddr, bytes: &[u8]) -> Option<Finding> {
        // Few packets hold any, and each packet comes here.
        let packet = Packet::holds(bytes, Message::ELECTION_KIND).then(|| Packet::decode(bytes).ok()).flatten()?;
        for message in &packet.messages {
            let Message::Election(word) = message else { continue };
            let over = self.electorates.said(word);
            if over.is_some() {
                return over;
            }
            match word.body {
                Body::RenewalAck { term, .. } => self.uses(node, term),
                Body::VoteReply { term, is_granted: true, .. } => {
                    self.uses(node, term);
                    let first = *self.votes.entry((word.from, term)).or_insert(to);
                    if first != to {
                        return broken(Invariant::OneVotePerTerm, format!("in term {term}: {first} and {to}"));
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn uses(&mut self, node: usize, term: Term) {
        if let Some(process) = self.processes.get(node) {
            let used = self.used.entry(process.id.clone()).or_default();
            *used = term.max(*used);
        }
    }

    /// Checks a node's leadership after a step.
    pub(super) fn look(&mut self, now: Nanos, node: usize, told: &Leadership, standing: &Standing) -> Option<Finding> {
        // Both calls are made, since each takes note of something.
        let claimed = self.claimed(now, node, told, standing);
        self.shown(node, told, standing).filter(|_| claimed.is_none()).or(claimed)
    }

    fn shown(&mut self, node: usize, told: &Leadership, standing: &Standing) -> Option<Finding> {
        let process = self.processes.get_mut(node)?;
        let before = std::mem::replace(&mut process.told, told.clone());
        if told.term < before.term {
            return broken(Invariant::TermsNeverFall, format!("it shows term {}, after {}", told.term, before.term));
        }
        let shown = told.leader.clone().map(|leader| (leader, told.term));
        let is_consistent = (told.state == LeadershipState::Led) == told.leader.is_some()
            && (told.state == LeadershipState::Unavailable) == process.is_unavailable
            && (!told.is_me || told.leader.as_ref() == Some(&process.id))
            && told.valid_until.is_some() == told.leader.is_some();
        if before != *told || shown != process.leader || !is_consistent {
            let detail = format!("it shows {told:?}, told {before:?}, its events say {:?}", process.leader);
            return broken(Invariant::LeaderEventsFold, detail);
        }
        let ((leader, term), Some(root)) = (shown?, standing.root()) else { return None };
        let named = self.named.entry((root, term)).or_insert_with(|| leader.clone());
        let detail = || format!("term {term}: {named} and {leader} are named");
        if *named == leader { None } else { broken(Invariant::OneLeaderPerTerm, detail()) }
    }

    fn claimed(&mut self, now: Nanos, node: usize, told: &Leadership, standing: &Standing) -> Option<Finding> {
        if !told.is_me {
            return None;
        }
        self.uses(node, told.term);
        let process = self.processes.get(node)?;
        let (term, until) = (told.term, told.valid_until?);
        let local = process.clock.local(now);
        if until <= local {
            let detail = format!("it leads until {until:?}, and its clock shows {local:?}");
            return broken(Invariant::ClaimsEndInTime, detail);
        }
        let claimant = (process.id.clone(), process.run);
        let first = self.claimants.entry((standing.root(), term)).or_insert_with(|| claimant.clone());
        if *first != claimant {
            let detail = format!("term {term}: {} run {} and {} run {}", first.0, first.1, claimant.0, claimant.1);
            return broken(Invariant::OneLeaderPerTerm, detail);
        }
        let (lineage, until) = (standing.lineage, process.clock.true_time(until));
        self.claims.insert(node, Claim { term, lineage, until });
        let is_beside = |claim: &Claim| claim.until > now && claim.lineage == lineage;
        let other = self.claims.iter().find(|(other, claim)| **other != node && is_beside(claim));
        let beside = other.and_then(|(other, claim)| {
            let other = self.processes.get(*other).map(|process| &process.id);
            let left = std::time::Duration::from_nanos(claim.until - now);
            let detail = format!("it claims term {term} while the claim of {other:?} to {} lasts {left:?}", claim.term);
            broken(Invariant::OneClaimAtATime, detail)
        });
        beside.or_else(|| self.electorates.leads(term, standing))
    }
}
