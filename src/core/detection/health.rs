//! Local health: how far this node can trust its own observation, and the consequences.
//!
//! A failure detector that is itself starved, or whose own links are bad, accuses the healthy (Lifeguard, DSN 2018,
//! section 3: nearly all false accusations come from few ill members). So a node gathers evidence against itself:
//!
//! | evidence | points, up to |
//! |---|---|
//! | a tick came late by a quarter of what counts as a pause | 1, 7 |
//! | a tick came so late that it was a pause | 2, 7 |
//! | a member had not heard this node for its suspect timeout, and it had to refute | 1, 7 |
//! | others hear two or more members that this node does not hear | 1, 3 |
//!
//! The points are the *score* (`detector` multiplies its timeouts by it). A node with score s waits 1 + s times as long
//! before it accuses anybody, and before it declares a suspected member Down; half a suspect timeout of ticks in time
//! takes a point away. Time that this process slept through takes none away. Lifeguard counts probes that nobody
//! answers, and this node does not: the silence of many at once is what a cut or a crash of many looks like, and must
//! not delay its own report. Only if a third member proves that the silent ones are well is it evidence against the
//! listener.
//!
//! A node is not starved while it works: many packets at once, or a view of thousands to look through, delay its ticks as
//! well, and whoever can send it such work could otherwise make it blind. So the time that the driver itself worked
//! since a deadline is taken off the delay (see [`Input::Worked`](crate::Input)).
//!
//! Packets that waited in the socket meanwhile are dated back to the deadline that was missed: a starved witness must
//! not make the dead look alive. They may be older still, from just after the last input before: news of a leader,
//! whose time is short, counts from then.
//!
//! A pause does more: all pending verdicts are void and observation starts anew. That is one time, `awake_since`,
//! before which no silence counts.
//!
//! Invariants:
//! - Its health is this node's own business: it is never told to others, and its records and notes look like those of any
//!   node. Healthy nodes reach Down at the same moment whatever those in poor health do (which then learn it from them).
//! - The score is an integer between 0 and [`MAX_HEALTH_SCORE`], a function of inputs alone.
//!
//! Must not know: which members it would accuse.

use std::time::Duration;

use crate::context::Context;
use crate::io::{HealthEvidence, Notice, Output};
use crate::limits::{MAX_DAMPING, MAX_HEALTH_SCORE, MAX_LINK_SCORE, MIN_PAUSE, STALL, UNHEALTHY_FROM};
use crate::settings::Settings;
use crate::time::Time;
use crate::view::Entry;

/// The state of this node's attention: how far it can trust its own observation.
#[derive(Debug, Clone)]
pub(crate) struct LocalHealth {
    /// The time before which silence counts for nothing, since this node was not looking.
    awake_since: Time,
    /// The time of the last sign of life of any member.
    last_heard: Time,
    /// The time at which a member last received something from this node, as far as is known.
    received: Time,
    /// The shortest time in which one of the members observed since `last_heard` is surely heard.
    contact_expected: Duration,
    /// The time of the first sign of life after nobody had been heard for long, or of the last refutation of what was
    /// judged meanwhile.
    heard_again: Time,
    /// The time since when nobody answered anything that was sent, if that was found out by accusing a member.
    unheard_since: Option<Time>,
    /// The missed deadline that was already counted as a pause.
    counted: Option<Time>,
    /// The time of the last input before the driver came late, while what waited meanwhile is handed in.
    stalled_since: Option<Time>,
    /// The time for which the driver last worked although a deadline had passed: from when, and until when.
    worked: (Time, Time),
    /// The points of evidence against this node.
    score: u32,
    /// The time at which the score last changed.
    changed: Time,
    /// True if the operator was told that this node is unhealthy.
    is_told: bool,
}

impl LocalHealth {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            awake_since: now,
            last_heard: now,
            received: now,
            contact_expected: Duration::MAX,
            heard_again: now,
            unheard_since: None,
            counted: None,
            stalled_since: None,
            worked: (now, now),
            score: 0,
            changed: now,
            is_told: false,
        }
    }

    pub(crate) fn heard(&mut self, now: Time) {
        self.last_heard = now;
        self.contact_expected = Duration::MAX;
    }

    /// Notes that members are observed of which one is surely heard in this time.
    pub(crate) fn expect_contact(&mut self, quickest: Duration) {
        self.contact_expected = self.contact_expected.min(quickest);
    }

    /// Returns true if no member is known to have received anything since then.
    fn is_unheard_since(&self, since: Time) -> bool {
        self.received.max(self.awake_since) < since
    }

    /// Returns true if nobody has answered anything since the time noted by `note_unheard`.
    pub(crate) fn is_unheard(&self) -> bool {
        self.unheard_since.is_some_and(|since| self.is_unheard_since(since))
    }

    /// Notes that a member is heard after nobody was for long, or refutes what was judged meanwhile.
    fn hears_again(&mut self, now: Time) {
        self.heard_again = now;
        self.unheard_since = None;
    }

    /// Returns the time at which a member was last heard after nobody was for long, or refuted what was judged meanwhile.
    pub(crate) fn heard_again(&self) -> Time {
        self.heard_again
    }

    /// Starts observation (anew).
    pub(crate) fn start(&mut self, now: Time) {
        self.awake_since = now;
    }

    /// Returns the time since when silence counts.
    pub(crate) fn awake_since(&self) -> Time {
        self.awake_since
    }

    /// Returns the factor by which timeouts are stretched (Lifeguard's local health multiplier).
    pub(crate) fn stretch(&self) -> u32 {
        1 + self.score
    }

    fn add(&mut self, now: Time, points: u32, most: u32) {
        // A score above `most` is none of this evidence's: it is neither raised nor held up by it.
        if self.score <= most {
            self.score = (self.score + points).min(most);
            self.changed = now;
        }
    }

    /// Takes away a point for each `step` without evidence.
    fn forgive(&mut self, now: Time, step: Duration) {
        while self.score > 0 && now.since(self.changed) >= step {
            self.score -= 1;
            self.changed = self.changed + step;
        }
    }
}

/// Returns the longest delay of a tick that is not yet a pause of this process.
fn pause_from(settings: &Settings) -> Duration {
    MIN_PAUSE.max(settings.heartbeat_interval / 4)
}

/// Returns the time for which ticks must be in time to take a point away.
pub(super) fn forgiving_step(settings: &Settings) -> Duration {
    settings.suspect_timeout / 2
}

/// How late this process comes to the input at hand, as it is when the input is handed in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lateness {
    /// The earliest deadline, which has passed.
    deadline: Time,
    /// The time since then in which the driver did not work, as far as is known.
    idle: Duration,
}

/// Pauses, and ticks that come late.
impl LocalHealth {
    /// Notes that the driver has worked for so long since the deadline that has passed.
    pub(crate) fn note_work(&mut self, now: Time, worked: Duration) {
        self.worked = (now - worked, now);
    }

    /// Notes an input, before anything is made of it, `before` being the time of the one before; returns how late it comes, if
    /// a deadline has passed. What waited is handed in before the tick that is due.
    pub(crate) fn note_input(&mut self, cx: &mut Context, before: Time) -> Option<Lateness> {
        // Nearly every input comes before the deadline, and costs no more than this comparison.
        let deadline = cx.timers.next().filter(|deadline| *deadline <= cx.now);
        let passed = deadline.map_or(Duration::ZERO, |deadline| cx.now.since(deadline));
        self.stalled_since = (passed > STALL).then(|| self.stalled_since.unwrap_or(before));
        cx.arrived = deadline.filter(|_| passed >= pause_from(&cx.settings) / 4).unwrap_or(cx.now);
        let (from, until) = self.worked;
        let idle = |deadline| passed.saturating_sub(until.since(from.max(deadline)));
        deadline.map(|deadline| Lateness { deadline, idle: idle(deadline) })
    }

    /// Returns the time for which the current input may have waited.
    pub(crate) fn may_have_waited(&self, now: Time) -> Duration {
        self.stalled_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Finds out if this process stood still since a tick was due, before anything is judged; returns the time since when nobody was
    /// heard, if that is a new pause.
    pub(crate) fn note_pause(&mut self, cx: &mut Context, Lateness { deadline, idle }: Lateness) -> Option<Duration> {
        if idle <= pause_from(&cx.settings) {
            return None;
        }
        self.awake_since = cx.now;
        if self.counted.replace(deadline) == Some(deadline) {
            return None;
        }
        cx.counters.pauses += 1;
        cx.notice("paused", Notice::Paused { late_ms: idle.as_millis() as u64 });
        Some(cx.now.since(self.last_heard))
    }

    /// Takes note of a tick that is due: one that comes late is evidence, and those in time take it away.
    pub(crate) fn tick(&mut self, cx: &mut Context, Lateness { deadline, idle }: Lateness) {
        cx.counters.tick_lateness.observe(cx.now.since(deadline));
        if idle >= pause_from(&cx.settings) / 4 {
            return self.add_evidence(cx, HealthEvidence::LateTicks { late_ms: idle.as_millis() as u64 });
        }
        if self.score > 0 {
            self.forgive(cx.now, forgiving_step(&cx.settings));
        }
        if self.score == 0 && std::mem::take(&mut self.is_told) {
            cx.output(Output::Notice(Notice::HealthyAgain));
        }
    }

    /// Adds evidence against this node's own observation, and tells the operator, once, that it is unhealthy.
    pub(crate) fn add_evidence(&mut self, cx: &mut Context, why: HealthEvidence) {
        let (points, most) = match why {
            HealthEvidence::LateTicks { late_ms } if u128::from(late_ms) > pause_from(&cx.settings).as_millis() => {
                (2, MAX_HEALTH_SCORE)
            }
            HealthEvidence::LateTicks { .. } | HealthEvidence::Refuted => (1, MAX_HEALTH_SCORE),
            HealthEvidence::DegradedLinks { .. } => (1, MAX_LINK_SCORE),
        };
        self.add(cx.now, points, most);
        if self.score >= UNHEALTHY_FROM && !self.is_told {
            self.is_told = cx.notice("unhealthy", Notice::Unhealthy { why, stretch: self.stretch() });
        }
    }

    /// Returns the points of evidence against this node's own observation.
    pub(crate) fn score(&self) -> u32 {
        self.score
    }
}

/// Deafness: a node that is in contact with no member keeps its verdicts to itself.
///
/// A node is in contact if it hears a member that hears it (see `heartbeat`): a node that nobody hears is no better placed.
///
/// A node to which nothing gets through finds all members silent, one after the other, and each of its accusations
/// would be believed by all that do not observe the accused themselves. (Rapid, ATC 2018, section 2, measures it: one
/// such node makes a whole cluster suspect itself.) It still judges, since it must know where it stands and report a
/// partition; but until it has heard again for a while, it neither floods nor gossips nor syncs the verdicts that it
/// reached meanwhile. Where a record must be sent, as to a joiner, it sends the member's own last record in place of such
/// a verdict.
///
/// A node whose own packets get lost is no better off, and finds it out sooner: from its first accusation on it is deaf
/// if no member has received anything that it sent since the first probe of that inquiry, its questions to witnesses included. An
/// echo that was held since before then shows nothing.
///
/// ```text
/// last contact ──suspect_timeout / 2, or──▶ deaf: verdicts are kept ──contact──▶ inquiries begin anew, the accused
///                probed in vain                                                  │        are told at each gossip tick
///                                                             suspect_timeout, for the accused to refute;
///                                                             as long again from each refutation on
///                                                                                ▼
///                                                                    what still stands is told
/// ```
///
/// The timeout is the shortest of those of the members that it observes. A slow node that hears nobody judges the quick
/// members, and walks past them to others, long before it would miss members as slow as itself; and as long as it hears
/// anybody, it hears the quick ones all the time. A quick node whose neighbours are all slow hears them rarely.
///
/// Invariants:
/// - The accused members are told, again and again, by bootstrap links as well (see `detector`): their refutations are what a
///   node that hears again learns first, also where datagrams do not pass and TCP does.
/// - A node that hears again accuses no member before six new probes stayed unanswered.
impl LocalHealth {
    /// Returns true if this node has been in contact with no member for so long that its report of others is worth
    /// nothing, or has accused a member though nobody answered anything since the first probe of that inquiry.
    pub(crate) fn is_deaf(&self, now: Time, settings: &Settings) -> bool {
        let expected = self.contact_expected;
        let patience = if expected == Duration::MAX { settings.longest_quiet() } else { expected };
        // The time until which this node heard somebody, or could not have.
        let listened_until = self.last_heard.max(self.awake_since);
        self.is_unheard() || now.since(listened_until) >= patience / 2
    }

    /// Notes, before a member is accused that was probed `since` then, if nobody has answered anything meanwhile.
    pub(crate) fn note_unheard(&mut self, since: Time) {
        if self.is_unheard_since(since) && !self.is_unheard() {
            self.unheard_since = Some(since);
        }
    }

    /// Notes that this node is in contact with a member, which had `received` something from it by then; returns true if it
    /// was deaf, and hears again.
    pub(crate) fn note_contact(&mut self, now: Time, received: Time, settings: &Settings) -> bool {
        let was_deaf = self.is_deaf(now, settings);
        self.received = self.received.max(received);
        let is_over = was_deaf && !self.is_unheard();
        if is_over {
            self.hears_again(now);
        }
        self.heard(now);
        is_over
    }

    /// Returns true if the accused are told again and again, to refute what was held of them while nobody was heard.
    pub(crate) fn is_telling(&self, now: Time, settings: &Settings) -> bool {
        now < self.heard_again + settings.suspect_timeout && !self.is_deaf(now, settings)
    }

    /// Returns true if a verdict of this node is not to be told (yet).
    pub(crate) fn is_withheld(&self, now: Time, entry: &Entry, settings: &Settings) -> bool {
        let to_refute = entry.record.timing.suspect_timeout().min(settings.suspect_timeout);
        entry.peer.rare().is_judged_unheard
            && entry.status.is_accused()
            && (self.is_deaf(now, settings) || now < self.heard_again + to_refute)
    }

    /// Notes that a member refutes what is held of it. If that is withheld, the others that were judged with it are most
    /// likely as well as this one, and are merely asked later: they have as long as at first.
    pub(crate) fn note_withheld_refutation(&mut self, now: Time, entry: &Entry, settings: &Settings) {
        if self.is_withheld(now, entry, settings) && !self.is_deaf(now, settings) {
            self.hears_again(now);
        }
    }

    /// Returns the time until which a member that was accused while nobody was heard may still refute.
    pub(super) fn may_refute_until(&self, entry: &Entry) -> Option<Time> {
        let timing = entry.record.timing;
        let spare = timing.down_timeout().saturating_sub(timing.suspect_timeout());
        let until = self.heard_again + spare / (1 << MAX_DAMPING);
        // Contact may come and go.
        let at_last = entry.peer.rare().accused_since.map(|since| since + timing.down_timeout());
        entry.peer.rare().is_judged_unheard.then_some(at_last.map_or(until, |at_last| until.min(at_last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Run;
    use crate::timers::Timer;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn an_input_is_as_late_as_the_driver_was_idle_and_may_be_as_old_as_the_deadline_that_was_missed() {
        let settings = Settings::default();
        let pause = pause_from(&settings);
        let mut cx = Context::new(at(0), Run(1), 1, settings, 0);
        let mut health = LocalHealth::new(at(0));
        let (before, due) = (at(900), at(1_000));
        cx.timers.set(Timer::Gossip, due);
        let mut comes = |health: &mut LocalHealth, now: Time| {
            cx.now = now;
            let late = health.note_input(&mut cx, before);
            (late.map(|late| late.idle), cx.arrived, health.may_have_waited(now))
        };
        let (soon, late) = (due + pause / 8, due + pause);
        assert_eq!(comes(&mut health, at(999)), (None, at(999), Duration::ZERO));
        assert_eq!(comes(&mut health, due), (Some(Duration::ZERO), due, Duration::ZERO));
        assert_eq!(comes(&mut health, soon), (Some(pause / 8), soon, soon.since(before)));
        assert_eq!(comes(&mut health, late), (Some(pause), due, late.since(before)));
        health.note_work(late, pause / 4);
        assert_eq!(comes(&mut health, late), (Some(pause * 3 / 4), due, late.since(before)));
    }

    #[test]
    fn the_score_stays_within_its_bounds_and_is_forgiven_step_by_step() {
        let step = Duration::from_millis(500);
        let mut local_health = LocalHealth::new(at(0));
        for _ in 0..100 {
            local_health.add(at(1_000), 2, MAX_HEALTH_SCORE);
        }
        assert_eq!((local_health.score, local_health.stretch()), (MAX_HEALTH_SCORE, 8));
        local_health.add(at(1_000), 1, MAX_LINK_SCORE);
        assert_eq!(local_health.score, MAX_HEALTH_SCORE, "lesser evidence takes nothing away");
        local_health.forgive(at(1_499), step);
        assert_eq!(local_health.score, MAX_HEALTH_SCORE);
        local_health.forgive(at(2_600), step);
        assert_eq!(local_health.score, MAX_HEALTH_SCORE - 3);
        // Lesser evidence, again and again, adds nothing, and holds up no more than what it may add.
        for tenth in 27..100 {
            local_health.add(at(tenth * 100), 1, MAX_LINK_SCORE);
            local_health.forgive(at(tenth * 100), step);
        }
        assert_eq!(local_health.score, MAX_LINK_SCORE);
        local_health.forgive(at(60_000), step);
        assert_eq!(local_health.score, 0);
        local_health.add(at(60_000), 9, MAX_LINK_SCORE);
        assert_eq!(local_health.score, MAX_LINK_SCORE);
    }
}
