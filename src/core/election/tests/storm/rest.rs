//! Rest: everything is healed, and those who are left come to one leader and keep it.

use super::*;

impl Run {
    pub(super) fn heal(&mut self) {
        let p = &mut self.cluster;
        p.cut.clear();
        (p.loss, p.duplication, p.lateness) = (0.0, 0.0, 0.0);
        for node in 0..p.nodes.len() {
            (p.nodes[node].is_disk_full, p.nodes[node].write_delay) = (false, None);
            if p.nodes[node].election.is_none() {
                p.start(node);
            }
            if p.nodes[node].paused {
                p.resume(node);
            }
        }
    }

    /// Returns true if by each electorate that may count enough of its voters are there: with their disks, and knowing
    /// of it.
    pub(super) fn is_electable(&self) -> bool {
        let elections = || self.cluster.nodes.iter().filter_map(|node| node.election.as_ref());
        let newest = elections().filter_map(|election| election.electorate().map(|electorate| electorate.began)).max();
        let knows = |election: &Election| election.electorate().map(|electorate| electorate.began) == newest;
        let is_there = |identity| {
            elections()
                .any(|election| election.ballot.identity == identity && (LATE_COMERS_ARE_TOLD || knows(election)))
        };
        let views = elections().filter_map(|election| election.ballot.accepted.as_ref());
        newest.is_some()
            && views.filter(|view| Some(view.electorate.began) == newest).all(|view| {
                view.electorate.has_majority(is_there)
                    && view.former_electorate().is_none_or(|former| former.has_majority(is_there))
            })
    }

    pub(super) fn lease(&self) -> Duration {
        self.cluster.nodes.iter().map(|node| node.timing.lease_duration.max(node.disk.promise)).max().expect("some")
    }

    /// Returns the claim of the generation that began last, if it is the only one.
    fn sole_claim(&self) -> Option<(usize, Term)> {
        let claims = self.cluster.claims();
        let began = |node: &crate::election::tests::cluster::Node| {
            node.election.as_ref().and_then(Election::electorate).map(|electorate| electorate.began)
        };
        let newest = self.cluster.nodes.iter().filter_map(began).max();
        let [(leader, term)] = claims[..] else { return None };
        (began(&self.cluster.nodes[leader]) == newest).then_some((leader, term))
    }

    /// Runs for so long, or until this holds; says whether it does.
    pub(super) fn runs_on(&mut self, most: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.cluster.now + most.as_nanos() as u64;
        while !holds(self) && self.cluster.now < end {
            self.cluster.run_for(Duration::from_millis(50));
            self.gossip();
        }
        holds(self)
    }

    /// Checks that everything works from now on; says what does not come about in time.
    pub(super) fn comes_to_rest(&mut self) -> Result<(), String> {
        let lease = self.lease();
        // A voter that was restarted at the healing has waited for its promise meanwhile, at the usual lease.
        let most = lease * 2;
        if !self.runs_on(most, |run| run.sole_claim().is_some()) {
            return Err(format!("nobody leads {most:?} after healing: {:?}", self.states()));
        }
        // An electorate that was changing has changed: who was voted out has handed over.
        self.runs_on(lease * 2, |_| false);
        if EVERYBODY_ACKNOWLEDGES {
            self.is_acknowledged_by_all()?;
        }
        self.lasts(lease * 2)?;
        self.no_follower_is_needed(lease)
    }

    /// Checks that the leader of now leads on.
    fn lasts(&mut self, duration: Duration) -> Result<(), String> {
        let before = self.sole_claim();
        let is_other = self.runs_on(duration, |run| run.sole_claim() != before || before.is_none());
        if is_other {
            return Err(format!("{before:?} led, and then {:?}: {:?}", self.cluster.claims(), self.states()));
        }
        Ok(())
    }

    /// Returns true if a voter that runs has promised its leader not to vote.
    pub(super) fn acknowledges(&self, node: usize, leader: usize) -> bool {
        let election = self.cluster.election(node);
        let leader = &self.cluster.nodes[leader];
        election.volatile.leader == Some(leader.identity)
            && election.promised_until > self.cluster.local(node, self.cluster.now)
    }

    /// Checks that every voter that runs, and has its disk, has promised its leader not to vote.
    fn is_acknowledged_by_all(&self) -> Result<(), String> {
        let Some((leader, _)) = self.sole_claim() else { return Err("nobody leads".to_owned()) };
        let Some(electorate) = self.cluster.election(leader).electorate() else { return Ok(()) };
        let is_voter = |node: &usize| electorate.contains(self.cluster.nodes[*node].identity);
        let others = (0..self.nodes()).filter(|node| is_voter(node) && *node != leader);
        match others.filter(|node| !self.acknowledges(*node, leader)).collect::<Vec<_>>()[..] {
            [] => Ok(()),
            ref stuck => Err(format!("{leader} leads, and {stuck:?} do not acknowledge it: {:?}", self.states())),
        }
    }

    /// Checks that a follower that crashes and is not needed for the majority deposes nobody, neither then nor when it
    /// comes back.
    fn no_follower_is_needed(&mut self, lease: Duration) -> Result<(), String> {
        let Some((leader, _)) = self.sole_claim() else { return Err("nobody leads".to_owned()) };
        let Some(electorate) = self.cluster.election(leader).electorate().cloned() else { return Ok(()) };
        let places = 0..self.nodes();
        let is_voter = |node: &usize| electorate.contains(self.cluster.nodes[*node].identity);
        let bound: Vec<usize> = places.filter(is_voter).filter(|node| self.acknowledges(*node, leader)).collect();
        let follower = bound.iter().copied().find(|node| *node != leader);
        let Some(follower) = follower.filter(|_| bound.len() > electorate.majority()) else { return Ok(()) };
        self.cluster.crash(follower);
        self.lasts(lease * 2).map_err(|why| format!("{follower} crashed: {why}"))?;
        self.cluster.start(follower);
        self.lasts(lease * 2).map_err(|why| format!("{follower} came back: {why}"))
    }

    fn states(&self) -> Vec<String> {
        let state = |election: &Election| {
            let electorate =
                election.electorate().map(|e| (e.began, e.voters.iter().map(|v| v.id.to_string()).collect::<Vec<_>>()));
            let role = match election.role {
                Role::Forming(_) => "forming",
                Role::Outside => "outside",
                Role::Follower => "follower",
                Role::Candidate(_) => "standing",
                Role::Leading(_) => "leading",
            };
            format!("{role} {} {:?} voter {} {electorate:?}", election.term(), election.newest(), election.is_voter())
        };
        self.cluster.nodes.iter().filter_map(|node| node.election.as_ref()).map(state).collect()
    }
}
