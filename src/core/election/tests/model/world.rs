//! The world of the model: voters, their disks and the messages under way.

use super::*;

pub(super) fn id(node: usize) -> NodeId {
    NodeId::new(&format!("v{node}")).expect("a name")
}

fn place(id: &NodeId) -> usize {
    usize::from(id.as_str().as_bytes()[1] - b'0')
}

/// A message under way. Equal ones are one: a message that is repeated anyway tells nothing new.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Envelope {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) message: ElectionMessage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) election: Election,
    pub(super) disk: Ballot,
    pub(super) writing: Vec<Ballot>,
    pub(super) claim: Option<(Term, Time)>,
    /// The latest term that others know this voter by: its acknowledged votes and promises.
    pub(super) spoken: Term,
    /// The highest term that it has heard, as a leader that changes nothing, of an electorate that its own stands over.
    pub(super) heard: Term,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) now: Time,
    pub(super) nodes: Vec<Node>,
    pub(super) envelopes: Vec<Envelope>,
    pub(super) members: Vec<NodeId>,
    pub(super) leaders: BTreeMap<(Lineage, Term), usize>,
    /// Terms in which somebody had a claim.
    pub(super) claimed: BTreeSet<Term>,
    /// The contents of agreed views, hashed, by the lineage and the view's number.
    pub(super) agreed: BTreeMap<(Lineage, u64), u64>,
    /// The electorates that had a claim, each with its latest term: anybody may hear of them at any time.
    pub(super) led: BTreeMap<Lineage, (Descent, Term)>,
    /// The lineages that each voter's disk had, in order, and none where it had none: no lineage comes back.
    pub(super) lineages: Vec<Vec<Option<Lineage>>>,
    pub(super) has_term_fallen: bool,
    pub(super) has_two_leaders: bool,
    pub(super) has_two_contents: bool,
    /// The events that may still happen.
    pub(super) crashes: u8,
    pub(super) repeats: u8,
    pub(super) steps: u8,
    pub(super) changes: u8,
    pub(super) resignations: u8,
    pub(super) revotes: u8,
    pub(super) recoveries: u8,
    pub(super) hearings: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Deliver(usize),
    DeliverAndKeep(usize),
    Stored(usize),
    Wake(usize),
    /// A process crashes and comes back at once, with this many of the writes under way.
    Crash(usize, usize),
    TimeGoesOn,
    MembersChange,
    Resign(usize),
    /// This leader is to add the node to the electorate, or to remove it.
    Revote(usize, usize),
    /// An operator recovers at this voter, with this one.
    Recover(usize, usize),
    /// This node hears of this electorate, which was led.
    Hear(usize, Lineage),
}

pub(super) fn context(now: Time, members: &dyn Fn() -> Vec<NodeId>) -> Context<'_> {
    Context { now, random: 0.0, is_up: true, members }
}

pub(super) fn born(node: usize, disk: Ballot, now: Time, flaw: Option<Flaw>) -> Election {
    let init = ElectionInit {
        me: id(node),
        timing: TIMING,
        view_interval: Duration::from_millis(100),
        voters: (0..VOTERS).map(id).collect(),
        ballot: disk,
        policy: LeaderPolicy::default(),
        floor: Term(0),
        wall_clock: EARLIEST_FOUNDING,
    };
    Election::planted(init, &context(now, &Vec::new), flaw)
}

impl World {
    /// Returns a world with an electorate that has formed, and nothing else.
    pub(super) fn formed(flaw: Option<Flaw>) -> Self {
        let voters = (0..VOTERS).map(|node| Voter { id: id(node), identity: Identity(node as u64) }).collect();
        let founding = NumberedView::founding(Electorate::founded_by(voters, EARLIEST_FOUNDING));
        let now = Time::ORIGIN + Duration::from_secs(1_000);
        let node = |node| {
            let disk = Ballot { accepted: Some(founding.clone()), ..Ballot::blank(Identity(node as u64)) };
            let election = born(node, disk.clone(), now, flaw);
            Node { election, disk, writing: Vec::new(), claim: None, spoken: Term(0), heard: Term(0) }
        };
        Self {
            now,
            nodes: (0..VOTERS).map(node).collect(),
            envelopes: Vec::new(),
            members: Vec::new(),
            leaders: BTreeMap::new(),
            claimed: BTreeSet::new(),
            agreed: BTreeMap::new(),
            led: BTreeMap::new(),
            lineages: vec![Vec::new(); VOTERS],
            has_term_fallen: false,
            has_two_leaders: false,
            has_two_contents: false,
            crashes: 0,
            repeats: 0,
            steps: 0,
            changes: 0,
            resignations: 0,
            revotes: 0,
            recoveries: 0,
            hearings: 0,
        }
    }

    /// Returns a world of two electorates that were founded apart: the first node alone has an earlier one.
    pub(super) fn founded_apart(flaw: Option<Flaw>) -> Self {
        let mut world = Self::formed(flaw);
        for (nodes, founded) in [(0..1, EARLIEST_FOUNDING), (1..VOTERS, EARLIEST_FOUNDING + 1)] {
            let voters = nodes.clone().map(|node| Voter { id: id(node), identity: Identity(node as u64) }).collect();
            let founding = NumberedView::founding(Electorate::founded_by(voters, founded));
            for node in nodes {
                let disk = Ballot { accepted: Some(founding.clone()), ..Ballot::blank(Identity(node as u64)) };
                world.nodes[node].election = born(node, disk.clone(), world.now, flaw);
                world.nodes[node].disk = disk;
                world.drain(node);
            }
        }
        world
    }

    /// Has a node hear of an electorate that was led, by any member.
    pub(super) fn hear(&mut self, node: usize, lineage: Lineage) {
        let (leads, term) = self.led[&lineage];
        match self.nodes[node].election.founded() {
            Some(own) if own.stands_over(&leads) => {
                let place = &mut self.nodes[node];
                if place.claim.is_some() && !place.election.is_changing() {
                    place.heard = place.heard.max(term);
                }
                self.with(node, |election, context| election.lead_above(context, term));
            }
            Some(own) if own != leads => {
                self.nodes[node].heard = Term(0);
                self.with(node, Election::stop_leading);
            }
            _ => {}
        }
        self.with(node, |election, context| election.learn_of(context, Some(leads), None));
    }

    /// Returns a world with a formed electorate, and one more node that may be voted in.
    pub(super) fn formed_and_one_more(flaw: Option<Flaw>) -> Self {
        let mut world = Self::formed(flaw);
        let disk = Ballot::blank(Identity(77));
        let election = born(VOTERS, disk.clone(), world.now, flaw);
        world.lineages.push(Vec::new());
        world.nodes.push(Node { election, disk, writing: Vec::new(), claim: None, spoken: Term(0), heard: Term(0) });
        world
    }

    pub(super) fn with<T>(&mut self, node: usize, act: impl FnOnce(&mut Election, &Context<'_>) -> T) -> T {
        let members = self.members.clone();
        let members = move || members.clone();
        let result = act(&mut self.nodes[node].election, &context(self.now, &members));
        self.drain(node);
        result
    }

    pub(super) fn drain(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].election.poll() {
            match action {
                Action::Send { to, message } => self.send(node, place(&to), message),
                Action::Persist(ballot) => self.nodes[node].writing.push(ballot),
                Action::Claimed { term, until, .. } => {
                    self.nodes[node].claim = Some((term, until));
                    self.claimed.insert(term);
                    let leads = self.nodes[node].election.electorate().expect("it leads it").descent();
                    self.led.insert(leads.lineage, (leads, term));
                }
                Action::Lost { term, reason } => {
                    self.nodes[node].claim = None;
                    if reason == LossReason::Resigned {
                        let now = self.now;
                        self.nodes[node].election.work_ended(&context(now, &Vec::new), term);
                    }
                }
                Action::Agreed(view) => {
                    let digest = view.reference().digest.0;
                    let key = (view.electorate.lineage, view.number);
                    self.has_two_contents |= *self.agreed.entry(key).or_insert(digest) != digest;
                }
                // Contents are never further away than the next step: whoever has them gives them.
                Action::Wanted { view, from } => {
                    let found =
                        self.nodes[place(&from)].election.view_of(view.digest).map(|found| found.under(view.term));
                    if let Some(found) = found {
                        let now = self.now;
                        self.nodes[node].election.contents(&context(now, &Vec::new), &found);
                    }
                }
                _ => {}
            }
        }
        self.nodes[node].election.forget_counts();
    }

    fn send(&mut self, from: usize, to: usize, message: ElectionMessage) {
        let (leads, says) = match &message.body {
            Body::Renew(renewal) => (Some(renewal.term), Some(renewal.term)),
            Body::VoteReply { term, is_granted: true, .. } | Body::RenewalAck { term, .. } => (None, Some(*term)),
            _ => (None, None),
        };
        if let Some(term) = leads {
            let root = self.nodes[from].election.electorate().expect("it leads it").root;
            self.has_two_leaders |= *self.leaders.entry((root, term)).or_insert(from) != from;
        }
        if let Some(term) = says {
            self.nodes[from].spoken = self.nodes[from].spoken.max(term);
        }
        let envelope = Envelope { from, to, message };
        if !self.envelopes.contains(&envelope) {
            self.envelopes.push(envelope);
        }
    }

    pub(super) fn deliver(&mut self, at: usize, keep: bool) {
        let Envelope { from, to, message } = if keep { self.envelopes[at].clone() } else { self.envelopes.remove(at) };
        self.with(to, |election, context| election.receive(context, &id(from), message));
    }

    pub(super) fn store(&mut self, node: usize) {
        let ballot = self.nodes[node].writing.remove(0);
        self.has_term_fallen |= ballot.term < self.nodes[node].disk.term;
        let version = ballot.version;
        let held = ballot.accepted.as_ref().map(|view| view.electorate.lineage);
        if self.lineages[node].last() != Some(&held) {
            self.lineages[node].push(held);
        }
        self.nodes[node].disk = ballot;
        self.with(node, |election, context| election.stored(context, version));
    }

    pub(super) fn crash(&mut self, node: usize, kept: usize, rules: &Rules) {
        let place = &mut self.nodes[node];
        if let Some(ballot) = place.writing.drain(..).take(kept).next_back() {
            place.disk = ballot;
        }
        if rules.forgets_term {
            (place.disk.term, place.disk.vote) = (Term(0), None);
        }
        (place.claim, place.heard) = (None, Term(0));
        place.election = born(node, place.disk.clone(), self.now, rules.flaw);
        self.drain(node);
    }

    /// Returns the greatest number of valid claims in one lineage.
    pub(super) fn claims(&self) -> usize {
        let valid = self.nodes.iter().filter(|node| node.claim.is_some_and(|(_, until)| self.now < until));
        let mut by_lineage = BTreeMap::new();
        for node in valid {
            *by_lineage.entry(node.election.lineage()).or_insert(0) += 1;
        }
        by_lineage.into_values().max().unwrap_or(0)
    }

    /// Returns the sights of a history that are worth looking at.
    pub(super) fn reached(&self) -> Reached {
        let electorates = || self.nodes.iter().filter_map(|node| node.election.electorate());
        let began = electorates().map(|electorate| electorate.began).max().unwrap_or_default();
        Reached {
            claim: !self.claimed.is_empty(),
            two_claimed_terms: self.claimed.len() >= 2,
            electorate_change: electorates()
                .any(|electorate| electorate.began == Term(0) && electorate.voters.len() != VOTERS),
            recovery: began > Term(0),
            blank_voter: self.nodes.get(VOTERS).is_some_and(|node| node.disk.accepted.is_some()),
            ending: self.nodes.iter().any(|node| node.disk.ended.is_some() && node.disk.accepted.is_none()),
            led_above: self.led.len() > 1 && {
                let standing = self.led.values().max_by_key(|(leads, _)| leads.rank());
                standing.map(|(_, term)| *term)
                    > Some(self.led.values().map(|(_, term)| *term).min().unwrap_or_default())
                    && standing
                        .is_some_and(|(_, term)| self.led.values().filter(|(_, other)| other == term).count() == 1)
            },
        }
    }

    /// Returns true if a voter went back to an electorate that it had left.
    pub(super) fn has_come_back(&self) -> bool {
        let comes_back = |held: &[Option<Lineage>], at: usize| held[at].is_some() && held[..at].contains(&held[at]);
        self.lineages.iter().any(|held| (0..held.len()).any(|at| comes_back(held, at)))
    }

    /// Returns true if somebody leads no higher than an electorate that ended for this one was led, and knows it.
    pub(super) fn has_stayed_below(&self) -> bool {
        self.nodes.iter().any(|node| node.claim.is_some_and(|(term, _)| term <= node.heard))
    }

    /// Returns true if no voter is left that has an electorate.
    pub(super) fn have_all_ended(&self) -> bool {
        self.nodes.iter().all(|node| node.disk.accepted.is_none() && node.disk.ended.is_some())
    }

    pub(super) fn check(&mut self) {
        self.has_term_fallen |= self.nodes.iter().any(|node| node.election.term() < node.spoken);
    }

    /// Lets messages through, first come first served, until there are none of this kind.
    pub(super) fn let_through(&mut self, is_such: impl Fn(&Envelope) -> bool) {
        loop {
            if let Some(node) = (0..self.nodes.len()).find(|node| !self.nodes[*node].writing.is_empty()) {
                self.store(node);
            } else if let Some(at) = self.envelopes.iter().position(&is_such) {
                self.deliver(at, false);
            } else {
                return;
            }
        }
    }

    pub(super) fn wake(&mut self, node: usize) {
        self.with(node, Election::tick);
    }
}
