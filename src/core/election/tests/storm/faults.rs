//! Faults and operators: what may strike a run, and whom.

use super::*;

impl Run {
    pub(super) fn new(seed: u64, storm: Storm) -> Self {
        let founders = [3, 5, 3, 4, 5, 3, 5, 2][(seed % 8) as usize];
        let mut cluster = Cluster::new(seed, founders);
        cluster.flaw = storm.flaw;
        cluster.delay = (MS / 5, *[2 * MS, 2 * MS, 40 * MS].choose(&mut cluster.rng).expect("three"));
        cluster.loss = *[0.0, 0.0, 0.1].choose(&mut cluster.rng).expect("three");
        cluster.duplication = 0.05;
        cluster.lateness = *[0.0, 0.03].choose(&mut cluster.rng).expect("two");
        for _ in 0..usize::from(storm.changes) * 2 {
            cluster.add(Vec::new());
        }
        for node in 0..cluster.nodes.len() {
            cluster.nodes[node].rate_ppm = *WORST.choose(&mut cluster.rng).expect("two");
        }
        cluster.start_all();
        // A voter that loses its disk while an electorate forms leaves the others apart for good; that is not the
        // subject here.
        let has_formed = |p: &Cluster| (0..founders).all(|node| p.nodes[node].disk.accepted.is_some());
        cluster.run_up_to(LEASE * 10, has_formed);
        assert!(has_formed(&cluster), "seed {seed}: no electorate forms");
        let backups = vec![None; cluster.nodes.len()];
        Self { cluster, storm, reinstalled: 0, backups, tickets: 0 }
    }

    pub(super) fn nodes(&self) -> usize {
        self.cluster.nodes.len()
    }

    pub(super) fn runs(&self, node: usize) -> bool {
        let place = &self.cluster.nodes[node];
        place.election.is_some() && !place.paused
    }

    /// Draws a node; every other time the one that leads, or would like to.
    fn victim(&mut self) -> usize {
        let leaders: Vec<usize> = (0..self.nodes()).filter(|node| self.is_leading(*node)).collect();
        let p = &mut self.cluster;
        match leaders.choose(&mut p.rng) {
            Some(leader) if p.rng.random_bool(0.5) => *leader,
            _ => p.rng.random_range(0..p.nodes.len()),
        }
    }

    fn is_leading(&self, node: usize) -> bool {
        let election = self.cluster.nodes[node].election.as_ref();
        election.is_some_and(|election| matches!(election.role, Role::Leading(_)))
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn strike(&mut self) {
        let node = self.victim();
        let nodes = self.nodes();
        match self.cluster.rng.random_range(0..32) {
            0..=2 => self.crash(node),
            3 => self.lose_power(),
            4 => {
                for other in 0..nodes {
                    if self.cluster.rng.random_bool(0.5) {
                        self.crash(other);
                    }
                }
            }
            5..=8 => {
                let share = *[0.5, 1.0].choose(&mut self.cluster.rng).expect("two");
                self.start_some(share);
            }
            9..=11 => self.cut(node),
            12 => {
                let other = self.cluster.rng.random_range(0..nodes);
                self.cluster.cut.insert((node, other));
            }
            13..=15 => self.cluster.cut.clear(),
            20 => self.pause_or_resume(node),
            21 => self.cluster.lose_messages(),
            22 | 23 => self.disturb_disk(node),
            24 => {
                if self.runs(node) {
                    self.cluster.with(node, Election::resign);
                }
            }
            25 => {
                let rate = *WORST.choose(&mut self.cluster.rng).expect("two");
                self.cluster.set_rate(node, rate);
            }
            26 | 27 if self.storm.changes => self.change_electorate(),
            28 if self.storm.recovers => self.recover(node),
            29 if self.storm.reinstalls => self.reinstall(node),
            30 if self.storm.relets => self.relet(node),
            31 if self.storm.restores => self.restore(node),
            // Most often, and in place of what this run does not do.
            _ => self.change_members(),
        }
    }

    /// Ends a process, mostly before what it was writing has reached the disk.
    pub(super) fn crash(&mut self, node: usize) {
        if self.cluster.rng.random_bool(0.5) {
            self.cluster.crash_when_written(node, 0);
        } else {
            self.cluster.crash(node);
        }
    }

    /// Ends most processes at one instant, and starts some of them at once.
    fn lose_power(&mut self) {
        for node in 0..self.nodes() {
            if self.cluster.rng.random_bool(0.8) {
                self.cluster.crash_when_written(node, 0);
            }
        }
        let share = *[0.6, 1.0].choose(&mut self.cluster.rng).expect("two");
        self.start_some(share);
    }

    fn start_some(&mut self, share: f64) {
        for node in 0..self.nodes() {
            if self.cluster.nodes[node].election.is_none() && self.cluster.rng.random_bool(share) {
                self.cluster.start(node);
            }
        }
    }

    /// Cuts the network into two sides, or into a side and every other node alone.
    pub(super) fn cut(&mut self, node: usize) {
        let nodes = self.nodes();
        let most = self.cluster.rng.random_range(1..=nodes / 2);
        let mut side = vec![node];
        while side.len() < most {
            let other = self.cluster.rng.random_range(0..nodes);
            if !side.contains(&other) {
                side.push(other);
            }
        }
        let rest: Vec<usize> = (0..nodes).filter(|other| !side.contains(other)).collect();
        if self.cluster.rng.random_bool(0.7) {
            self.cluster.split(&[&side, &rest]);
        } else {
            let alone: Vec<Vec<usize>> = rest.iter().map(|other| vec![*other]).collect();
            let groups: Vec<&[usize]> = std::iter::once(&side[..]).chain(alone.iter().map(|one| &one[..])).collect();
            self.cluster.split(&groups);
        }
        if self.cluster.rng.random_bool(0.5) {
            self.cluster.lose_messages();
        }
    }

    fn change_members(&mut self) {
        let member = id(self.cluster.rng.random_range(0..40));
        match self.cluster.members.binary_search(&member) {
            Ok(at) => drop(self.cluster.members.remove(at)),
            Err(at) => self.cluster.members.insert(at, member),
        }
        for node in 0..self.nodes() {
            if self.runs(node) {
                self.cluster.with(node, Election::members_changed);
            }
        }
    }

    fn pause_or_resume(&mut self, node: usize) {
        let paused: Vec<usize> = (0..self.nodes()).filter(|node| self.cluster.nodes[*node].paused).collect();
        if paused.is_empty() {
            self.cluster.nodes[node].paused = self.cluster.nodes[node].election.is_some();
        }
        for node in paused {
            self.cluster.resume(node);
        }
    }

    /// Has disks take nothing for a while, or take long, or take again what they are given.
    fn disturb_disk(&mut self, node: usize) {
        match self.cluster.rng.random_range(0..6) {
            0 => self.cluster.nodes[node].is_disk_full = true,
            1 => self.cluster.nodes.iter_mut().for_each(|node| node.is_disk_full = false),
            2 if self.runs(node) => {
                self.cluster.with(node, Election::store_failed);
            }
            3 => self.cluster.nodes.iter_mut().for_each(|node| node.write_delay = None),
            _ => self.cluster.nodes[node].write_delay = Some((50 * MS, 1_500 * MS)),
        }
    }

    /// Has an operator ask each node that leads, or thinks it does, for the same change: there may be two.
    fn change_electorate(&mut self) {
        let node = id(self.cluster.rng.random_range(0..self.nodes()));
        let adds = self.cluster.rng.random_bool(0.5);
        for leader in 0..self.nodes() {
            if self.runs(leader) && self.is_leading(leader) {
                let ticket = self.ticket();
                let node = node.clone();
                self.cluster.with(leader, |election, context| {
                    if adds {
                        election.add_voter(context, ticket, node);
                    } else {
                        election.remove_voter(context, ticket, &node);
                    }
                });
            }
        }
    }

    /// Has an operator recover at this voter, and perhaps another one elsewhere at the same time.
    pub(super) fn recover(&mut self, node: usize) {
        if self.cluster.rng.random_bool(0.5) {
            self.recover_at(node);
            let other = self.cluster.rng.random_range(0..self.nodes());
            return self.recover_at(other);
        }
        // Nobody else is at it, who would take voters away meanwhile.
        let elections = || self.cluster.nodes.iter().filter_map(|node| node.election.as_ref());
        let is_alone = elections().all(|election| election.recovery.is_none() && election.pending_recovery.is_none());
        let is_majority_there = is_alone && self.reaches_majority(node);
        self.recover_at(node);
        let ticket = self.tickets;
        self.cluster.run_for(IDENTITY_TIMEOUT + Duration::from_millis(500));
        let is_recovered = self.cluster.answers.iter().any(|(of, answer)| *of == ticket && answer.is_ok());
        if is_majority_there && is_recovered {
            self.cluster.violations.push(format!("{node} recovers while a majority answers"));
        }
    }

    /// Returns true if a majority of its electorate runs, and hears this voter, and is heard by it.
    fn reaches_majority(&self, node: usize) -> bool {
        if !self.runs(node) {
            return false;
        }
        let p = &self.cluster;
        let mine = p.election(node);
        let answers = |other: &usize| {
            let is_connected = !p.cut.contains(&(node, *other)) && !p.cut.contains(&(*other, node));
            self.runs(*other) && is_connected && p.election(*other).lineage() == mine.lineage()
        };
        let there: Vec<_> = (0..self.nodes()).filter(answers).map(|other| p.nodes[other].identity).collect();
        mine.electorate().is_some_and(|electorate| electorate.has_majority(|identity| there.contains(&identity)))
    }

    fn recover_at(&mut self, node: usize) {
        let (ticket, lineage) = (self.ticket(), self.cluster.rng.random());
        let mut named: Vec<NodeId> = Vec::new();
        for other in 0..self.nodes() {
            let is_voter = self.cluster.nodes[other].election.as_ref().is_some_and(Election::is_voter);
            if is_voter && !self.cluster.cut.contains(&(node, other)) && self.cluster.rng.random_bool(0.8) {
                named.push(id(other));
            }
        }
        if self.runs(node) {
            self.cluster.with(node, |election, context| election.recover(context, ticket, named, lineage, None));
        }
    }

    /// Takes a voter's disk, and starts it again. It learns from others that the cluster has an electorate, before it
    /// would form another one.
    pub(super) fn reinstall(&mut self, node: usize) {
        self.cluster.wipe(node);
        self.cluster.nodes[node].configured = Vec::new();
        self.cluster.start(node);
        self.reinstalled += 1;
    }

    fn relet(&mut self, node: usize) {
        self.crash(node);
        let lease_duration = LEASE * self.cluster.rng.random_range(1..=3);
        self.cluster.nodes[node].timing = LeaseTiming { lease_duration, renewal_interval: lease_duration / 4 };
        self.cluster.start(node);
    }

    /// Backs up a node's data directory, or puts its backup back.
    fn restore(&mut self, node: usize) {
        match self.backups[node].take() {
            Some(backup) => {
                self.cluster.crash(node);
                self.cluster.nodes[node].latest = backup.term;
                self.cluster.nodes[node].disk = backup;
                self.cluster.start(node);
            }
            None => self.backups[node] = Some(self.cluster.nodes[node].disk.clone()),
        }
    }

    /// Waits for a while, or up to the next moment at which a fault hurts.
    pub(super) fn wait(&mut self) {
        let before = self.cluster.watch.moments;
        let patience = LEASE * 2;
        let p = &mut self.cluster;
        match p.rng.random_range(0..10) {
            8 | 9 => {}
            0 | 1 => {
                let pause = p.rng.random_range(0..30);
                p.run_for(Duration::from_millis(pause));
            }
            2 | 3 => {
                let pause = p.rng.random_range(0..900);
                p.run_for(Duration::from_millis(pause));
            }
            4 => p.run_up_to(patience, |p| p.watch.moments.elected > before.elected),
            5 => p.run_up_to(patience, |p| p.watch.moments.accepted > before.accepted + 1),
            6 => p.run_up_to(patience, |p| p.watch.moments.agreed > before.agreed),
            _ => p.run_up_to(patience * 2, |p| p.leader().is_some() && p.watch.moments.elected > before.elected),
        }
    }

    /// Does what gossip does: whoever hears of a leader of another electorate ends its own, or has that one end.
    pub(super) fn gossip(&mut self) {
        self.cluster.gossip();
    }
}
