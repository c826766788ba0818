//! The facts that a verdict is made of, and where an agent has them from.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::packets::Lately;
use super::recent::Tally;
use super::{Reason, Verdict, judge};
use crate::agent::{Agent, Failure, Inner, Stop};
use crate::config::LeadershipMode;
use crate::core::{DetectionMethod, LeadershipState, NodeId, OtherElectorate, Status};
use crate::lease::LeaseName;
use crate::seal::SealMode;
use crate::transport::sealing::Otherwise;

/// All that is judged.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "findings, each by itself")]
pub(crate) struct Facts {
    pub(super) me: NodeId,
    pub(super) status: Status,
    pub(super) cluster: NodeId,
    pub(super) address: SocketAddr,
    pub(super) uptime: Duration,
    /// The packets that are taken and sent, and for how long that has been so.
    pub(super) seal_mode: SealMode,
    pub(super) sealed_for: Duration,
    /// The id of the key that seals, if one does.
    pub(super) key: Option<String>,
    /// The id of the last key that a packet was sealed with and this node lacks.
    pub(super) lacked_key: Option<String>,
    /// Those whose packets of the last minute were sealed with another key than this node's, or not at all.
    pub(super) otherwise: Vec<(SocketAddr, Otherwise)>,
    /// The thing that this node lacks to join.
    pub(super) lacks: Option<String>,
    /// The part of the agent that died, and how.
    pub(super) failure: Option<Failure>,
    /// The reason why the agent has stopped, if it has.
    pub(super) stop: Option<Stop>,
    /// True if members reach this node at the address that it advertises.
    pub(super) is_reached: bool,
    /// The members that have not left, sorted by name.
    pub(super) members: Vec<Seen>,
    /// The members of a suspected partition that are missing, sorted by name.
    pub(super) unreachable: Vec<NodeId>,
    /// The first of the members that hold another view, and their number.
    pub(super) differing: Vec<NodeId>,
    pub(super) differing_count: usize,
    /// The longest time for which one of them has held another view.
    pub(super) differs_for: Duration,
    /// The time within which everybody has heard of a change.
    pub(super) settling: Duration,
    /// `None` where leaders are not elected.
    pub(super) leadership: Option<Led>,
    /// Further leases that this node contends for and nobody holds, sorted, and for how long.
    pub(super) vacant_leases: Vec<(LeaseName, Duration)>,
    pub(super) lease_duration: Duration,
    /// True if the database does not carry out what this node asks of it.
    pub(super) is_database_away: bool,
    /// The voters, sorted by name.
    pub(super) voters: Vec<Voter>,
    /// True if an operator's recovery formed the electorate, of fewer voters than this node's configuration names.
    pub(super) is_recovered: bool,
    /// The number of voters that may yet fail, where that is known.
    pub(super) tolerance: Option<usize>,
    pub(super) other: Option<Arc<OtherElectorate>>,
    pub(super) is_aside: bool,
    pub(super) is_unwritten: bool,
    pub(super) health_score: u32,
    pub(super) degraded_links: usize,
    pub(super) pages_shrunk: u64,
    /// The packets of the last minute that were not used, or lost.
    pub(super) lately: Lately,
    /// The senders of the last packets that were refused because of their seals, each with the reason.
    pub(super) refused_from: Vec<(&'static str, SocketAddr)>,
    /// The reasons of the agent's interfaces.
    pub(super) outside: Vec<Reason>,
}

/// One member.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) id: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) status: Status,
    pub(crate) method: Option<DetectionMethod>,
    pub(crate) is_draining: bool,
}

/// The leadership at this moment.
#[derive(Debug, Clone)]
pub(super) struct Led {
    pub(super) is_by_lease: bool,
    pub(super) state: LeadershipState,
    pub(super) leader: Option<NodeId>,
    pub(super) term: u64,
    pub(super) remaining: Option<Duration>,
    /// The time for which nobody has led.
    pub(super) vacant_for: Duration,
}

/// One voter, and what is known of its vote.
#[derive(Debug, Clone)]
pub(super) struct Voter {
    pub(super) id: NodeId,
    pub(super) status: Option<Status>,
    pub(super) votes: Option<bool>,
    pub(super) has_lost_disk: bool,
    /// True if its disk does not take its ballot.
    pub(super) is_aside: bool,
}

impl Voter {
    /// Returns true if it may keep the leader that there is, as far as is known: who does not lead knows the statuses alone.
    pub(super) fn may_acknowledge(&self) -> bool {
        self.votes != Some(false) && matches!(self.status, Some(Status::Up | Status::Suspect))
    }

    /// Returns true if it may elect another one, as far as is known.
    pub(super) fn may_vote(&self) -> bool {
        self.may_acknowledge() && !self.is_aside
    }
}

impl Facts {
    /// Returns the names of some members.
    pub(super) fn named(&self, is: impl Fn(&Seen) -> bool) -> Vec<NodeId> {
        self.members.iter().filter(|member| is(member)).map(|member| member.id.clone()).collect()
    }

    pub(super) fn status_of(&self, id: &NodeId) -> Option<Status> {
        self.members.iter().find(|member| member.id == *id).map(|member| member.status)
    }

    /// Returns the names of some voters.
    pub(super) fn voters_that(&self, is: impl Fn(&Voter) -> bool) -> Vec<NodeId> {
        self.voters.iter().filter(|voter| is(voter)).map(|voter| voter.id.clone()).collect()
    }

    /// Returns what [`Agent::why_not_ready`] returns of an agent of which this is known.
    #[cfg(test)]
    pub(super) fn why_not_ready(&self) -> Option<&'static str> {
        let elects = self.leadership.as_ref().filter(|led| !led.is_by_lease);
        let has_stopped = self.stop.is_some() || self.failure.as_ref().is_some_and(is_of_driver);
        why_not_ready(self.status, has_stopped, self.is_reached, elects.map(|led| led.state))
    }

    /// Returns the number of voters that elect.
    pub(super) fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Returns the voters that have lost their data directories, if so many have that the others cannot elect anybody.
    pub(super) fn lost_majority(&self) -> Vec<NodeId> {
        let lost = self.voters_that(|voter| voter.has_lost_disk);
        if !lost.is_empty() && self.voters.len() - lost.len() < self.majority() { lost } else { Vec::new() }
    }
}

/// Returns true if the driver died: the members are those of its last moment.
fn is_of_driver(failure: &Failure) -> bool {
    failure.task == "driver"
}

/// Returns the word of `/readyz` for why a node should be given no requests; `None` if it is ready. `elects`: the state of the
/// leadership where voters elect. A database that cannot be reached is out of reach for all: taking all nodes out of
/// service would make it worse.
fn why_not_ready(
    status: Status,
    has_stopped: bool,
    is_reached: bool,
    elects: Option<LeadershipState>,
) -> Option<&'static str> {
    match status {
        _ if has_stopped => Some("stopped"),
        // Others hold it as Down, or soon will.
        Status::Up | Status::Suspect if !is_reached => Some("unreachable"),
        // It belongs to a minority, whose view may be far behind.
        Status::Up | Status::Suspect => {
            elects.filter(|state| *state == LeadershipState::Unavailable).map(LeadershipState::name)
        }
        not_yet_or_no_more => Some(not_yet_or_no_more.name()),
    }
}

impl Agent {
    /// Returns the reason why this node should be given no requests, in one word; `None` if it is ready. Who is not ready is
    /// not well; but supervisors ask for this alone, and often, so that no member is looked at for it.
    #[cfg(feature = "agent")]
    pub(crate) fn why_not_ready(&self) -> Option<&'static str> {
        let shared = &self.inner.shared;
        let has_stopped = self.stop().is_some() || shared.failure().as_ref().is_some_and(is_of_driver);
        let elects = self.inner.config.leadership.mode == LeadershipMode::Quorum;
        let state = elects.then(|| self.leadership().get().state);
        why_not_ready(self.me().status, has_stopped, !shared.figures().is_misplaced, state)
    }

    /// Returns the judgement of this node and its cluster, as of now. Never asks the driver.
    pub(crate) fn verdict(&self) -> Verdict {
        judge(self.facts())
    }

    /// Has an interface of this agent tell its own reasons; only the first one counts.
    #[cfg(feature = "agent")]
    pub(crate) fn also_judged_by(&self, judge: impl Fn() -> Vec<Reason> + Send + Sync + 'static) {
        self.inner.shared.recent.also_judged_by(Box::new(judge));
    }

    fn facts(&self) -> Facts {
        let Inner { shared, config, keeper, .. } = &*self.inner;
        let (me, figures, now, mode) = (self.me(), shared.figures(), shared.clock.now(), config.leadership.mode);
        let members = shared.directory().seen();
        let agreement = self.agreement();
        let others = || agreement.groups.iter().skip(1);
        let status = |id: &NodeId| self.member(id).map(|member| member.status);
        let standings = figures.standings.as_deref();
        let voter = |voter: &crate::core::election::Voter| {
            let standing = standings.and_then(|all| Some((all, all.voters.iter().find(|it| it.voter == *voter)?)));
            Voter {
                id: voter.id.clone(),
                status: status(&voter.id),
                votes: standing.and_then(|(all, standing)| all.votes(standing, now)),
                has_lost_disk: standing.is_some_and(|(_, standing)| standing.has_lost_disk),
                is_aside: standing.is_some_and(|(_, standing)| standing.is_aside),
            }
        };
        let electorate = figures.electorate.as_deref().filter(|_| mode == LeadershipMode::Quorum);
        let leadership = self.leadership().get();
        let is_led = leadership.leader.is_some();
        // Of leases only those that are contended for here are to be held by somebody.
        let (vacant, default) = (shared.vacant(), LeaseName::default());
        let is_to_be_led = is_led || mode == LeadershipMode::Quorum || vacant.contains(&default);
        let further = vacant.into_iter().filter(|lease| *lease != default);
        let mut unreachable = figures.unreachable.to_vec();
        unreachable.sort_unstable();
        let recent = shared.recent.at(now);
        let (sealing, (sealed_for, otherwise)) = (keeper.info(), keeper.lately());
        let tally = Tally::new(&figures.counters, keeper.refused(), shared.socket.overflows());
        Facts {
            status: me.status,
            me: me.id,
            cluster: config.cluster.clone(),
            address: me.address,
            uptime: shared.clock.elapsed(),
            seal_mode: sealing.mode,
            sealed_for,
            key: sealing.key.map(|key| key.to_string()),
            lacked_key: keeper.lacked().map(|key| key.to_string()),
            otherwise,
            lacks: figures.joining.as_ref().and_then(|report| report.lacks.as_ref().map(ToString::to_string)),
            failure: shared.failure(),
            stop: self.stop(),
            is_reached: !figures.is_misplaced,
            members,
            unreachable,
            differing: others().flat_map(|group| group.members.iter().cloned()).collect(),
            differing_count: others().map(|group| group.count).sum(),
            differs_for: agreement.differs_for,
            settling: config.settings.suspect_timeout.max(Duration::from_secs(10)),
            leadership: (mode != LeadershipMode::None && is_to_be_led).then(|| Led {
                is_by_lease: mode != LeadershipMode::Quorum,
                state: leadership.state,
                leader: leadership.leader,
                term: leadership.term,
                remaining: leadership.valid_until.map(|until| until.remaining()),
                vacant_for: if is_led { Duration::ZERO } else { recent.vacant_for(&default) },
            }),
            vacant_leases: further.map(|lease| (lease.clone(), recent.vacant_for(&lease))).collect(),
            lease_duration: config.leadership.timing.lease_duration,
            is_database_away: shared.is_database_away(),
            voters: electorate.map(|electorate| electorate.voters.iter().map(voter).collect()).unwrap_or_default(),
            is_recovered: electorate.is_some_and(|electorate| {
                electorate.lineage != electorate.root && electorate.voters.len() < config.leadership.voters.len()
            }),
            tolerance: standings.and_then(|standings| standings.failure_tolerance(now)),
            other: figures.other_electorate,
            is_aside: figures.voter_aside,
            is_unwritten: shared.state_writer().failing() > 0,
            health_score: figures.health_score,
            degraded_links: figures.degraded_links,
            pages_shrunk: figures.counters.pages_shrunk,
            lately: Lately::since(&tally, &recent.before),
            refused_from: keeper.refused_from().collect(),
            outside: shared.recent.outside(),
        }
    }
}
