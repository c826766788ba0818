//! The verdict: one judgement of this node and its cluster, of all that the agent knows. Everybody who shows how things are shows
//! this: dashboard, `top`, `doctor`, `members`, systemd, metrics. `/readyz` says no where this is not well.
//!
//! Invariants: [`judge`] is a function of [`Facts`] alone, and the state is that of the worst reason. A code never changes its
//! meaning. What is counted since the start is a note, or counts in the last minute alone: what is over is no trouble. A node that
//! is not ready is not well.
//!
//! | code | state | reason |
//! |---|---|---|
//! | `stopped` | broken | the agent has stopped: no more is said than why |
//! | `task_died` | broken | a part of the agent has died, or stands still |
//! | `joining` | unsettled, broken after [`JOINS_FOR`] | this node is no member yet |
//! | `unreachable` | broken | this node does not answer at the address that it advertises |
//! | `cut` | degraded, broken unless this side is the larger one | members fell silent together |
//! | `member_down` | degraded | members are down |
//! | `member_suspected`, `member_leaving`, `member_joining` | unsettled | members that change |
//! | `member_draining` | well | members that get no new work |
//! | `views_differ` | unsettled, degraded once one has differed for long | members hold another view |
//! | `leader_down` | degraded | who leads is down, and its lease goes on |
//! | `no_leader`, `no_majority`, `no_voters` | unsettled, broken after a lease | nobody leads: why |
//! | `database_away` | degraded; while nobody leads as these | this node cannot use the database of the leases |
//! | `lease_vacant` | unsettled, broken after a lease | nobody holds a further lease that this node contends for |
//! | `voters_drain`, `voters_lost_data` | broken | nobody leads, and no election will end that |
//! | `no_voter_to_spare` | degraded | if one more voter fails, nobody leads |
//! | `vote_lost` | degraded | this node's vote does not count |
//! | `two_electorates` | broken | two may lead |
//! | `disk_refused` | broken | the ballot or the state cannot be written |
//! | `observation_doubted`, `links_degraded` | degraded | a starved machine; a bad network |
//! | `shut_out`, `packets_unused`, `packets_lost` | degraded | packets of the last minute that were not used, or lost |
//! | `clear_taken` | unsettled, degraded after [`seals::STEP_FOR`] | the way from clear packets to sealed ones is not finished |
//! | `keys_differ` | degraded | members seal with another key for longer than a rotation takes |
//! | `small_pages` | well | the path lost large datagrams when this node joined |
//! | `streams_taken` | degraded | no event stream is left |
//! | `handler_failed`, `log_lines_lost`, `http_panicked` | well | since the start |
//!
//! The last four come from the interfaces ([`Agent::also_judged_by`]). Must not know: who shows it.

mod facts;
mod packets;
mod recent;
mod seals;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use facts::Facts;
pub(super) use facts::Seen;
pub(super) use recent::{Recent, Tally};

use crate::core::{DetectionMethod, LeadershipState, NodeId, Status};

/// The time for which a node joins before that is a trouble.
const JOINS_FOR: Duration = Duration::from_secs(10);
/// The health score from which a node doubts itself.
const DOUBTFUL_SCORE: u32 = 3;
/// The length of a phrase of names beyond which only one is told.
const MAX_NAMES_LENGTH: usize = 48;
/// The least number of voters of which one can be lost.
const SPARES_ONE: usize = 3;

/// The state of a node and its cluster, the best one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// All is as it should be.
    Well,
    /// A change is under way, and ends by itself.
    Unsettled,
    /// All is served, and something has to be mended.
    Degraded,
    /// Something is not served.
    Broken,
}

impl State {
    /// All states.
    pub(crate) const ALL: [State; 4] = [State::Well, State::Unsettled, State::Degraded, State::Broken];
    /// Their names, in the same order.
    pub(crate) const NAMES: [&'static str; 4] = ["well", "unsettled", "degraded", "broken"];

    /// Returns the state's name in JSON.
    pub(crate) const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// One thing that is not as it should be, or worth a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) code: &'static str,
    /// The state that it alone would make.
    pub(crate) state: State,
    /// The fact, in a sentence.
    pub(crate) text: String,
    /// The members that it is about, sorted by name.
    pub(crate) nodes: Vec<NodeId>,
    /// A thing to try.
    pub(crate) hint: Option<String>,
}

impl Reason {
    pub(crate) fn new(code: &'static str, state: State, text: impl Into<String>) -> Self {
        Self { code, state, text: text.into(), nodes: Vec::new(), hint: None }
    }

    /// Names the members that it is about.
    fn of(mut self, nodes: &[NodeId]) -> Self {
        self.nodes = nodes.to_vec();
        self.nodes.sort();
        self
    }

    /// Adds a thing to try.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A state, and the reasons for it, the worst first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) state: State,
    pub(crate) reasons: Vec<Reason>,
}

/// One line: the state, and the reasons for it but for notes.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = self.reasons.iter().filter(|reason| reason.state > State::Well);
        let told: Vec<&str> = reasons.map(|reason| reason.text.as_str()).collect();
        let colon = if told.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.state.name(), told.join("; "))
    }
}

/// Returns names as one phrase: up to three, or two and how many more there are; of long names the first one alone.
fn names<T: fmt::Display>(names: &[T]) -> String {
    let phrase = match names {
        [] => return String::new(),
        [one] => return one.to_string(),
        [a, b] => format!("{a} and {b}"),
        [a, b, c] => format!("{a}, {b} and {c}"),
        [a, b, more @ ..] => format!("{a}, {b} and {} more", more.len()),
    };
    if phrase.len() > MAX_NAMES_LENGTH { format!("{} and {} more", names[0], names.len() - 1) } else { phrase }
}

/// Returns names and the verb for so many.
fn verb(nodes: &[NodeId], one: &str, many: &str) -> String {
    format!("{} {}", names(nodes), if nodes.len() == 1 { one } else { many })
}

/// Judges the facts.
pub(crate) fn judge(facts: Facts) -> Verdict {
    let mut reasons = Vec::new();
    if let Some(stop) = &facts.stop {
        let hint = "start it again; what else it shows is of its last moment";
        let reason = Reason::new("stopped", State::Broken, format!("the agent has stopped: {stop}")).hint(hint);
        return Verdict { state: reason.state, reasons: vec![reason] };
    }
    node(&facts, &mut reasons);
    if facts.status != Status::Joining {
        members(&facts, &mut reasons);
        views(&facts, &mut reasons);
        leadership(&facts, &mut reasons);
        leases(&facts, &mut reasons);
    }
    packets::judge(&facts, &mut reasons);
    seals::judge(&facts, &mut reasons);
    reasons.extend(facts.outside);
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.state));
    Verdict { state: reasons.first().map_or(State::Well, |reason| reason.state), reasons }
}

/// Judges the node itself: its tasks, its place in the cluster, its disk, its machine.
fn node(facts: &Facts, reasons: &mut Vec<Reason>) {
    use State::{Broken, Degraded, Unsettled};

    if let Some(failure) = &facts.failure {
        let text = format!("a part of the agent has died: {failure}");
        reasons.push(Reason::new("task_died", Broken, text).hint("restart the agent, and report its log"));
    }
    if facts.status == Status::Joining {
        let lacks = facts.lacks.as_ref().map(|lacks| format!(": {lacks}")).unwrap_or_default();
        let has_other_key = lacks.contains("does not open");
        let state = if facts.uptime < JOINS_FOR && !has_other_key { Unsettled } else { Broken };
        let key = facts.key.as_ref().map_or_else(|| "no key".to_owned(), |key| format!("key {key}"));
        let hint = if has_other_key {
            format!("give both the same key file, and send SIGHUP or restart: this is {key}")
        } else {
            format!(
                "check its seeds and the firewalls for UDP, and compare with a member (`headcount info` there): this is cluster {} \
                 with {key}",
                facts.cluster
            )
        };
        let text = format!("{} joins, and is not a member yet{lacks}", facts.me);
        reasons.push(Reason::new("joining", state, text).hint(hint));
    }
    if !facts.is_reached {
        let text = format!("others say that {} does not answer at {}, which it advertises", facts.me, facts.address);
        let hint = "set advertise to an address that all others reach, by UDP and TCP, and restart";
        reasons.push(Reason::new("unreachable", Broken, text).hint(hint));
    }
    if facts.is_aside {
        let text = format!("{} stands aside as a voter: its disk does not take its ballot", facts.me);
        let hint = "free space, check the disk; it votes again by itself";
        reasons.push(Reason::new("disk_refused", Broken, text).hint(hint));
    } else if facts.is_unwritten {
        let text = "the agent cannot write its state";
        let hint = "check the data directory and its disk: space, permissions, mount options, or removed; the log has the error";
        reasons.push(Reason::new("disk_refused", Broken, text).hint(hint));
    }
    if facts.health_score >= DOUBTFUL_SCORE {
        let text = format!("{} doubts its own observation: its timers are late, or its links bad", facts.me);
        let hint = "headcount_tick_lateness_seconds tells a starved machine from a bad network";
        reasons.push(Reason::new("observation_doubted", Degraded, text).hint(hint));
    }
    if facts.degraded_links > 0 {
        let text = format!("{} members are heard by others, and not by {}", facts.degraded_links, facts.me);
        let hint = "the agent's log names them: look at the network between";
        reasons.push(Reason::new("links_degraded", Degraded, text).hint(hint));
    }
}

/// Judges the statuses of members.
fn members(facts: &Facts, reasons: &mut Vec<Reason>) {
    use State::{Broken, Degraded, Unsettled, Well};

    let cut = facts.named(|member| {
        matches!(member.status, Status::Down | Status::Suspect) && facts.unreachable.binary_search(&member.id).is_ok()
    });
    if !cut.is_empty() {
        let here = facts.named(|member| member.status.is_here() && cut.binary_search(&member.id).is_err());
        let state = if here.len() > cut.len() { Degraded } else { Broken };
        let text =
            format!("this looks like a cut in the network: on this side {}, beyond it {}", names(&here), names(&cut));
        let hint = "mend the network, and they are back by themselves (`headcount watch --kind partition_healed`); do not remove \
                    them, nor recover voters, before you know that they are dead: they may live on the other side";
        reasons.push(Reason::new("cut", state, text).of(&cut).hint(hint));
    }
    let down = facts.named(|member| member.status == Status::Down && cut.binary_search(&member.id).is_err());
    if let Some(first) = down.first() {
        let is_of_these = |member: &&facts::Seen| down.binary_search(&member.id).is_ok();
        let mut methods = facts.members.iter().filter(is_of_these).map(|member| member.method);
        let method = methods.next().flatten().filter(|method| methods.all(|other| other == Some(*method)));
        let cause = method.map(|method| format!(" ({})", method.name().replace('_', " "))).unwrap_or_default();
        let text = format!("{}{cause}", verb(&down, "is down", "are down"));
        // Silence is also what a process that stands still looks like.
        let look = match method {
            Some(DetectionMethod::HeartbeatTimeout) => {
                "see whether the process hangs, or its machine or network is away; then "
            }
            Some(DetectionMethod::HostSilent) => "see whether its machine or network is away; then ",
            Some(DetectionMethod::ProcessStalled) => "its machine answers: see why the process hangs; then ",
            _ => "",
        };
        let is_led = facts.leadership.as_ref().is_some_and(|led| led.leader.is_some());
        let hint = if down.iter().any(|id| facts.voters.iter().any(|voter| voter.id == *id)) {
            // Without a majority nobody can be replaced, and a reason of its own says what to do.
            let replaced = "; a voter that is gone for good is replaced: `headcount voters replace OLD NEW`";
            format!("{look}start them again{}", if is_led { replaced } else { "" })
        } else if down.len() == 1 {
            format!("{look}start it again, or `headcount remove {first}` if it is gone for good")
        } else {
            format!("{look}start them again, or `headcount remove NAME` those that are gone for good")
        };
        reasons.push(Reason::new("member_down", Degraded, text).of(&down).hint(hint));
    }
    let of_status =
        |status: Status| facts.named(|member| member.status == status && cut.binary_search(&member.id).is_err());
    let changing = [
        ("member_suspected", Status::Suspect, "is suspected", "are suspected"),
        ("member_leaving", Status::Leaving, "is leaving", "are leaving"),
        ("member_joining", Status::Joining, "is joining", "are joining"),
    ];
    for (code, status, one, many) in changing {
        let those = of_status(status);
        if !those.is_empty() {
            let reason = Reason::new(code, Unsettled, verb(&those, one, many)).of(&those);
            let silent = "if it lasts: see if their machines stand still, or their network";
            reasons.push(if status == Status::Suspect { reason.hint(silent) } else { reason });
        }
    }
    let draining = facts.named(|member| member.is_draining && member.status == Status::Up);
    if let Some(first) = draining.first() {
        let text = verb(&draining, "is draining", "are draining");
        let at = if draining.len() == 1 { first.as_str() } else { "each of them" };
        reasons.push(
            Reason::new("member_draining", Well, text)
                .of(&draining)
                .hint(format!("`headcount undrain` at {at} ends that")),
        );
    }
}

/// Judges whether members hold the same view: after a change others are told of it within seconds.
fn views(facts: &Facts, reasons: &mut Vec<Reason>) {
    let Some(first) = facts.differing.first() else { return };
    let state = if facts.differs_for < facts.settling { State::Unsettled } else { State::Degraded };
    let count = facts.differing_count;
    let (members, more) = if count == 1 { ("member holds", "") } else { ("members hold", " among them") };
    let text = format!("{count} {members} another view than {} ({first}{more})", facts.me);
    let hint = "normal for seconds after a change; if it lasts, look at the network between them, and compare `headcount members`";
    reasons.push(Reason::new("views_differ", state, text).of(&facts.differing).hint(hint));
}

/// Judges who leads, and who can.
fn leadership(facts: &Facts, reasons: &mut Vec<Reason>) {
    let Some(led) = &facts.leadership else { return };
    match &led.leader {
        Some(leader) => {
            if let Some(status @ (Status::Down | Status::Left(_))) = facts.status_of(leader) {
                let left = led.remaining.map(|left| format!(" in {} s", left.as_secs().max(1))).unwrap_or_default();
                let is = if status == Status::Down { "is down" } else { "has left" };
                let text = format!("{leader} leads in term {} until its lease ends{left}, and {is}", led.term);
                let hint =
                    "another one leads then, if a majority of the voters, or the database, answers: `headcount leader`";
                let reason = Reason::new("leader_down", State::Degraded, text);
                reasons.push(reason.of(std::slice::from_ref(leader)).hint(hint));
            }
            spare_voters(facts, reasons);
        }
        None => reasons.push(nobody_leads(facts, led)),
    }
    own_vote(facts, reasons);
    other_electorate(facts, led, reasons);
}

/// A thing to try where the database of the leases cannot be used.
const ASK_DATABASE: &str = "`headcount leader --nodes` says what the database answers";

/// Judges further leases, and how the database of all of them is reached.
fn leases(facts: &Facts, reasons: &mut Vec<Reason>) {
    if facts.is_database_away && reasons.iter().all(|reason| reason.code != "database_away") {
        let text = format!("{} cannot use the database, and can lead by no lease", facts.me);
        reasons.push(Reason::new("database_away", State::Degraded, text).hint(ASK_DATABASE));
    }
    let Some(longest) = facts.vacant_leases.iter().map(|(_, vacant_for)| *vacant_for).max() else { return };
    let leases: Vec<_> = facts.vacant_leases.iter().map(|(lease, _)| lease).collect();
    let what = if leases.len() == 1 { "the lease" } else { "the leases" };
    let text = format!("nobody holds {what} {}", names(&leases));
    let hint = format!("`headcount leader --lease {} --nodes` shows who contends for it", leases[0]);
    reasons.push(Reason::new("lease_vacant", vacant(facts, longest), text).hint(hint));
}

/// Returns the state of a leadership that nobody has had for this long.
fn vacant(facts: &Facts, vacant_for: Duration) -> State {
    if vacant_for > facts.lease_duration { State::Broken } else { State::Unsettled }
}

/// Returns why nobody leads.
fn nobody_leads(facts: &Facts, led: &facts::Led) -> Reason {
    let state = vacant(facts, led.vacant_for);
    let lost = facts.lost_majority();
    if !lost.is_empty() {
        let text = format!(
            "nobody leads, and nobody can: {} of {} voters lost the data directory ({}), votes needed: {}",
            lost.len(),
            facts.voters.len(),
            names(&lost),
            facts.majority()
        );
        return Reason::new("voters_lost_data", State::Broken, text).of(&lost).hint(recover_lost(facts));
    }
    let up: Vec<NodeId> = facts.voters_that(|voter| voter.status == Some(Status::Up));
    let drained = facts.named(|member| member.is_draining && up.contains(&member.id));
    if !up.is_empty() && drained.len() == up.len() {
        let text = format!("nobody leads, and no election is due: all voters that are up drain ({})", names(&drained));
        let hint = format!("`headcount undrain` at {}", if up.len() == 1 { up[0].as_str() } else { "one of them" });
        return Reason::new("voters_drain", State::Broken, text).of(&drained).hint(hint);
    }
    if led.is_by_lease {
        return if led.state == LeadershipState::Unavailable {
            Reason::new("database_away", state, "nobody leads: the database cannot be used").hint(ASK_DATABASE)
        } else {
            let text = "nobody leads: nobody holds the lease";
            Reason::new("no_leader", state, text).hint("`headcount leader --nodes` shows who contends for it")
        };
    }
    if facts.voters.is_empty() {
        let hint = "leadership.voters (--voters) names them, and all of them must have met once; if this cluster had voters, and \
                    all have lost their data directories: `headcount recover --anew`";
        return Reason::new("no_voters", state, "nobody leads, and this agent knows no voters").hint(hint);
    }
    let missing = facts.voters_that(|voter| !voter.may_vote());
    if facts.voters.len() - missing.len() < facts.majority() {
        return no_majority(facts, state, "nobody leads", &missing);
    }
    if led.state == LeadershipState::Unavailable {
        let text = "nobody leads: too few voters are reached from here, or vote";
        return Reason::new("no_majority", state, text).hint(RECOVER);
    }
    let text = "nobody leads: an election is due";
    let see = "too few voters vote: `headcount voters list`, and `headcount doctor` at each of them says why";
    let hint = match state {
        State::Broken => see.to_owned(),
        _ => format!("normal for a lease after a leader is gone; if it lasts, {see}"),
    };
    Reason::new("no_leader", state, text).hint(hint)
}

/// A thing to try where a majority of the voters is missing: the last one of all is to be taken by people alone.
const RECOVER: &str = "start the voters that are missing (`headcount voters list`); only if a majority of them is lost for good, \
    disks and all: `headcount recover --voters NAME` at one that is left, and never while they may be alive behind a cut";

fn no_majority(facts: &Facts, state: State, what: &str, missing: &[NodeId]) -> Reason {
    let (all, majority) = (facts.voters.len(), facts.majority());
    let text = format!(
        "{what}: {} of {all} voters can vote, {majority} are needed (missing: {})",
        all - missing.len(),
        names(missing)
    );
    let aside = facts.voters_that(|voter| voter.may_acknowledge() && voter.is_aside);
    let first = if aside.is_empty() { String::new() } else { format!("{}; ", make_room(&aside)) };
    Reason::new("no_majority", state, text).of(missing).hint(first + RECOVER)
}

/// Returns what to do about voters whose disks refuse.
fn make_room(aside: &[NodeId]) -> String {
    format!("make room on the disk of {}, or mend it: it does not take the ballot", names(aside))
}

/// Returns what to do about voters that have lost their data directories, if the others cannot elect anybody.
fn recover_lost(facts: &Facts) -> String {
    let is_up = |voter: &facts::Voter| voter.status == Some(Status::Up);
    let up = facts.voters_that(is_up);
    let left = facts.voters_that(|voter| is_up(voter) && !voter.has_lost_disk);
    let silent = facts.voters_that(|voter| !is_up(voter) && !voter.has_lost_disk);
    let named = up.iter().map(NodeId::as_str).collect::<Vec<_>>().join(",");
    let first = "start them with their old data directories, if those are still there; if not";
    match (left.first(), silent.as_slice()) {
        (Some(left), _) => format!("{first}: `headcount recover --voters {named}` at {left}, which has its own"),
        (None, []) => format!("{first}: `headcount recover --anew --voters {named}` at any member"),
        (None, silent) => format!(
            "{first}: start {} with what it has, and give `headcount recover --voters …` there; only if that is lost as well: \
             `headcount recover --anew --voters {named}` at any member",
            names(silent)
        ),
    }
}

/// Judges what the loss of one more voter would do, while somebody leads.
fn spare_voters(facts: &Facts, reasons: &mut Vec<Reason>) {
    let all = facts.voters.len();
    if all < SPARES_ONE {
        // One or two voters may be meant so, but not where more were configured and a recovery left them.
        if facts.is_recovered {
            let text = "a recovery left too few voters: if one more fails, nobody leads";
            let hint = "`headcount voters add NAME`, up to three again; old ones that are back are added, too";
            reasons.push(Reason::new("no_voter_to_spare", State::Degraded, text).hint(hint));
        }
        return;
    }
    let unheard = facts.voters_that(|voter| !voter.may_acknowledge());
    if all - unheard.len() < facts.majority() {
        return reasons.push(no_majority(facts, State::Broken, "nobody leads once the lease ends", &unheard));
    }
    let missing = facts.voters_that(|voter| !voter.may_vote());
    let left = all - missing.len();
    if facts.tolerance.unwrap_or(left.saturating_sub(facts.majority())) > 0 {
        return;
    }
    let is_here = |voter: &facts::Voter| matches!(voter.status, Some(Status::Up | Status::Suspect));
    let silent = facts.voters_that(|voter| !is_here(voter) && !voter.has_lost_disk);
    let idle =
        facts.voters_that(|voter| is_here(voter) && !voter.may_vote() && !voter.has_lost_disk && !voter.is_aside);
    let aside = facts.voters_that(|voter| is_here(voter) && voter.is_aside);
    let lost = facts.voters_that(|voter| voter.has_lost_disk);
    let mut hint = Vec::new();
    if let Some(first) = silent.first() {
        hint.push(format!(
            "start {}; put another member in the place of one that is gone for good: `headcount voters replace {first} NEW`",
            names(&silent)
        ));
    }
    if !aside.is_empty() {
        hint.push(make_room(&aside));
    }
    if !idle.is_empty() {
        let at: Vec<NodeId> = idle.iter().filter(|id| **id != facts.me).cloned().collect();
        if !at.is_empty() {
            hint.push(format!("`headcount doctor` at {} says why it does not vote, though it is up", names(&at)));
        }
    }
    if let Some(one) = lost.first() {
        hint.push(format!(
            "{} lost the data directory: `headcount voters remove {one}`, then `headcount voters add {one}`",
            names(&lost)
        ));
    }
    let who = if missing.is_empty() {
        String::new()
    } else {
        format!(": {}", verb(&missing, "does not vote", "do not vote"))
    };
    // Voters that stand aside keep the leader that they have.
    let next = if left < facts.majority() { "the leader" } else { "one more voter" };
    let text = format!("if {next} fails, nobody leads{who}");
    let hint =
        if hint.is_empty() { "`headcount voters list` at the leader shows them".to_owned() } else { hint.join("; ") };
    reasons.push(Reason::new("no_voter_to_spare", State::Degraded, text).of(&missing).hint(hint));
}

/// Judges the vote of this node. Without a majority there is nobody who could remove it, and more is said of that.
fn own_vote(facts: &Facts, reasons: &mut Vec<Reason>) {
    let is_lost = facts.voters.iter().any(|voter| voter.id == facts.me && voter.votes == Some(false));
    if !is_lost || facts.is_aside || !facts.lost_majority().is_empty() {
        return;
    }
    let me = &facts.me;
    let text =
        format!("{me} does not vote: the voters know its name with another identity than its data directory has");
    let hint = format!(
        "its old data directory is lost, or another one was given: `headcount voters remove {me}`, then `headcount voters add \
         {me}`; or start it with the old one, if that is still there"
    );
    reasons.push(Reason::new("vote_lost", State::Degraded, text).of(std::slice::from_ref(me)).hint(hint));
}

/// Judges another electorate of which members tell: each one alone finds nothing wrong with itself, and yet two lead.
fn other_electorate(facts: &Facts, led: &facts::Led, reasons: &mut Vec<Reason>) {
    let Some(other) = &facts.other else { return };
    let leads = |name: Option<&NodeId>, term: u64| {
        name.map_or_else(|| "nobody leads".to_owned(), |name| format!("{name} leads in term {term}"))
    };
    let text = format!(
        "there are two electorates in this cluster: here {}; by the word of {}, {} of the other one",
        leads(led.leader.as_ref(), led.term),
        other.by,
        leads(other.leader.as_ref(), other.term.0)
    );
    let hint = "one of the two ends by itself, within seconds: of the lower generation, or else the one that began at the lower \
                term or was founded later; if both still lead in a minute, mend the network between the two sides";
    reasons.push(Reason::new("two_electorates", State::Broken, text).hint(hint));
}
