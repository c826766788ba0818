//! The status of joining: what each seed answered a joiner, and what it lacks, for whoever waits for it to be Up.
//!
//! A seed of which an agent takes the connection and does not open what comes has a cluster, or looks for one, that this
//! node has no key for (see [`Unopened`]). While a seed says so, this node founds none: it would be an island.
//!
//! Must not know: how answers come.

use std::net::SocketAddr;
use std::time::Duration;

use super::join::Joiner;
use crate::context::Context;
use crate::discovery::Reunion;
use crate::io::{Contacted, Notice, Unopened};
use crate::limits::FOUNDING_RETRIES;
use crate::packet::Outbox;
use crate::settings::Settings;
use crate::view::View;
use crate::wire::Refusal;

/// The report of a node that is joining.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinReport {
    /// The addresses that it asks, with the last answer of each.
    pub asked: Vec<(SocketAddr, Contacted)>,
    /// The reason why it is not Up, if that is known by now.
    pub lacks: Option<Notice>,
}

impl Joiner {
    /// Returns what is known of joining, if this node is joining.
    pub(crate) fn report(&self, cx: &Context, view: &View, reunion: &Reunion) -> Option<JoinReport> {
        let joining = self.joining.as_ref()?;
        let asked = self.answers_of_seeds(cx, view, reunion);
        let is_late = joining.waited(cx.now) >= cx.settings.retry_interval;
        let lacks = match joining.reached {
            Some(_) => None,
            None if is_late && reunion.join_targets(true).is_empty() => Some(Notice::SeedsUnresolved),
            None => lacks(&asked, is_late),
        };
        Some(JoinReport { asked, lacks })
    }

    /// Tells the operator what this node lacks to join, if that is known by now.
    pub(crate) fn tell_what_it_lacks(&mut self, out: &mut Outbox<'_>, reunion: &Reunion) {
        let report = self.report(out.cx, out.view, reunion);
        let Some(lacks) = report.and_then(|report| report.lacks) else { return };
        let kind = match lacks {
            Notice::SeedsUnresolved => "seeds unresolved",
            Notice::NoSeedAnswered { .. } => "no seed answered",
            Notice::WaitingForSeeds { .. } => "waiting for seeds",
            Notice::Unopened { .. } => "unopened",
            _ => "refused",
        };
        out.cx.notice(kind, lacks);
    }

    /// Takes note that an agent at an address does not open what this node sends there.
    pub(crate) fn turned_down(&mut self, cx: &mut Context, by: SocketAddr, why: Unopened) {
        let now = cx.now;
        if let Some(joining) = &mut self.joining
            && joining.asked.is_told(by)
        {
            joining.asked.answered(by, Contacted::Unopened(why), now);
            cx.notice("unopened", Notice::Unopened { by, why });
        }
    }

    /// Takes note of addresses to which a bootstrap link was opened in vain.
    pub(crate) fn note_unreached(&mut self, cx: &Context, addresses: Vec<SocketAddr>) {
        for address in addresses {
            self.note_connection(cx, address, false);
        }
    }

    /// Takes note that there is, or is not, a connection to an address from which nothing else was heard.
    pub(crate) fn note_connection(&mut self, cx: &Context, at: SocketAddr, is_open: bool) {
        let (now, at_most) = (cx.now, answers_count_for(&cx.settings));
        let Some(joining) = &mut self.joining else { return };
        let heard = joining.asked.answer(at, now, at_most);
        if heard.is_none_or(|heard| matches!(heard, Contacted::Silent | Contacted::Unreached)) {
            let answer = if is_open { Contacted::Silent } else { Contacted::Unreached };
            joining.asked.answered(at, answer, now);
        }
    }

    /// Returns the addresses that may keep this node from founding a cluster, with the last answer of each, if that is not too
    /// old: those that an operator named, or all that are remembered if there are none; not this node's own.
    pub(crate) fn answers_of_seeds(
        &self,
        cx: &Context,
        view: &View,
        reunion: &Reunion,
    ) -> Vec<(SocketAddr, Contacted)> {
        let Some(joining) = &self.joining else { return Vec::new() };
        let (now, at_most) = (cx.now, answers_count_for(&cx.settings));
        let is_mine = |seed| seed == view.me().address || reunion.is_mine(seed);
        let others = reunion.join_targets(false).into_iter().filter(|seed| !is_mine(*seed));
        let answer = |seed| joining.asked.answer(seed, now, at_most).cloned().unwrap_or(Contacted::Silent);
        others.map(|seed| (seed, answer(seed))).collect()
    }

    /// Returns true if a seed keeps this node from founding a cluster. A remembered address may be somebody else's by now.
    pub(crate) fn is_held_up(&self, cx: &Context, view: &View, reunion: &Reunion) -> bool {
        self.answers_of_seeds(cx, view, reunion)
            .iter()
            .any(|(seed, answer)| holds_up(answer) && reunion.is_contact(*seed))
    }
}

/// Returns the time for which an answer of a seed counts: it is asked once in a retry interval.
pub(crate) fn answers_count_for(settings: &Settings) -> Duration {
    settings.retry_interval * (FOUNDING_RETRIES - 1)
}

/// Returns what a joiner with these answers lacks; what no waiting mends comes first, and the rest once it has waited.
fn lacks(asked: &[(SocketAddr, Contacted)], is_late: bool) -> Option<Notice> {
    let unopened = asked.iter().find_map(|(by, answer)| match answer {
        Contacted::Unopened(why) => Some(Notice::Unopened { by: *by, why: *why }),
        _ => None,
    });
    let refused = asked.iter().find_map(|(by, answer)| match answer {
        Contacted::Refused(refusal) => Some(Notice::Refused { by: *by, refusal: refusal.clone() }),
        _ => None,
    });
    let answered = asked.iter().filter(|(_, answer)| matches!(answer, Contacted::NotUp { .. })).count();
    let waits = || match (asked.len(), answered) {
        (0, _) => None,
        (_, 0) => {
            let (unreached, silent) = asked.iter().partition(|(_, answer)| *answer == Contacted::Unreached);
            let addresses = |asked: Vec<&(SocketAddr, Contacted)>| asked.into_iter().map(|(seed, _)| *seed).collect();
            Some(Notice::NoSeedAnswered { unreached: addresses(unreached), silent: addresses(silent) })
        }
        (_, answered) => Some(Notice::WaitingForSeeds { answered }),
    };
    unopened.or(refused).or_else(|| waits().filter(|_| is_late))
}

/// Returns true if an answer keeps a joiner from founding a cluster: a seed has keys that are not its, or the other way round. One
/// whose cluster has another name only is named by mistake.
fn holds_up(answer: &Contacted) -> bool {
    matches!(answer, Contacted::Unopened(why) if *why != Unopened::OtherCluster)
}

/// Returns true if all refuse a joiner with these answers because of its cluster's name.
pub(super) fn are_all_of_another_cluster(asked: &[(SocketAddr, Contacted)]) -> bool {
    !asked.is_empty() && asked.iter().all(|(_, answer)| *answer == Contacted::Refused(Refusal::OtherCluster))
}
