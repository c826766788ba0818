//! Outputs: the core's wishes are carried out, and what others may know without asking is published.
//!
//! Invariant: after an input the core is drained to the last output.
//!
//! Must not know: why the core wants something.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;
use tracing::Level;

use super::{Driver, Parts};
use crate::agent::directory::Sign;
use crate::agent::error::Stop;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::agent::lease_state::{ONE_MODE, OTHER_MODE_TOLD_AGAIN_AFTER, VotersHeard};
use crate::agent::shared::Figures;
use crate::agent::start::unix_milliseconds;
#[cfg(feature = "metrics")]
use crate::agent::verdict::Tally;
use crate::core::election::{Alarm, Election, EndedElectorate};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::core::wire::LeaseUpdate;
use crate::core::{Change, ChangeKind, Input, Notice, Observation, Output, Status, StopReason, Time};
use crate::event::EventKind;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::lease::LeaseName;

impl Driver {
    /// Carries out everything that the core wants done.
    pub(super) fn drain(&mut self, now: Time) {
        loop {
            while let Some(output) = self.parts.core.poll() {
                self.carry_out(output, now);
            }
            if let Some(wall_clock) = self.wall_clock.take() {
                self.parts.core.handle(now, Input::WallClock(wall_clock));
            } else if std::mem::take(&mut self.is_unwritten) && self.end.is_none() {
                self.parts.core.handle(now, Input::PersistFailed);
            } else {
                return;
            }
        }
    }

    fn carry_out(&mut self, output: Output, now: Time) {
        let Parts { core, links, resolver, seeds, state_writer, shared, .. } = &mut self.parts;
        match output {
            Output::Transmit { to, receiver, bytes } => self.send_datagram(to, receiver, &bytes),
            Output::OpenLink { link, to } => links.open(link, to),
            Output::SendFrame { link, bytes } => links.send(link, bytes),
            Output::CloseLink { link } => links.close(link),
            Output::Change(change) => self.publish(&change, now),
            Output::PartitionSuspected { unreachable, reachable } => {
                self.announce(EventKind::PartitionSuspected { unreachable, reachable });
            }
            Output::PartitionHealed { unreachable, reachable } => {
                self.announce(EventKind::PartitionHealed { unreachable, reachable });
            }
            Output::Leadership(leadership) => shared.publish_leadership(leadership),
            Output::LeaderElected { leader, term } => {
                self.leaders_elected += 1;
                let member = shared.directory().member(&leader);
                self.announce(EventKind::LeaderElected { leader, member, term: term.0, lease: None });
            }
            Output::LeaderLost { leader, term, reason } => {
                let member = shared.directory().member(&leader);
                self.announce(EventKind::LeaderLost { leader, member, term: term.0, reason, lease: None });
            }
            // Leadership was published as ended before: no work begins any more, and what runs is told by that.
            Output::EndWork { term } => self.ending = Some(term),
            Output::Quorum { term, is_reached: true } => self.announce(EventKind::QuorumRegained { term: term.0 }),
            Output::Quorum { term, is_reached: false } => self.announce(EventKind::QuorumLost { term: term.0 }),
            Output::ViewAgreed(view) => {
                self.announce(EventKind::ViewAgreed { term: view.term.0, number: view.number });
            }
            Output::Heard(id) => {
                let Observation { rtt, fingerprint, is_observed, .. } = core.observation(&id).unwrap_or_default();
                let sign = Sign { rtt, fingerprint, own_fingerprint: core.fingerprint(), is_observed };
                shared.directory().heard(&id, now, sign);
            }
            Output::HeartbeatSent(id) => shared.directory().sent(&id, now),
            Output::Persist(durable) => {
                state_writer.persist(durable);
                self.is_unwritten |= self.writer_died;
            }
            Output::ResolveSeeds => {
                if self.lookup.is_none() {
                    self.seeds_found.clear();
                    self.lookup = Some(resolver.look_up(seeds));
                }
            }
            Output::Reply { ticket, reply } => {
                if let Some(caller) = self.waiting.remove(&ticket) {
                    self.answered.push((caller, reply));
                }
            }
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            Output::LeaseUpdate { update, is_believed } => {
                if let Some(leases) = shared.leases() {
                    leases.hear(update, is_believed);
                } else if is_believed && update.kind == LeaseUpdate::LED && update.lease.as_str() == LeaseName::DEFAULT
                {
                    self.tell_led_by_lease(&update);
                }
            }
            #[cfg(any(feature = "sqlite", feature = "postgres"))]
            Output::VotersHeard { by, is_led, leader } => {
                if let Some(leases) = shared.leases() {
                    leases.hear_voters(VotersHeard {
                        by,
                        is_led,
                        leader: leader.map(|(leader, term)| (leader, term.0)),
                    });
                } else if is_led {
                    self.tell_led_unseen("quorum");
                }
            }
            #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
            Output::LeaseUpdate { .. } => {}
            #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
            Output::VotersHeard { is_led, .. } => {
                if is_led {
                    self.tell_led_unseen("quorum");
                }
            }
            Output::Message(message) if message.topic.is_reserved() => self.parts.key_responder.take(*message),
            Output::Message(message) => {
                #[cfg(any(feature = "sqlite", feature = "postgres"))]
                if let Some(others) = shared.outbox.look_at(&message, core.me().run, now) {
                    let text = format!(
                        "a broadcast is brought by gossip alone, too many wait to be brought by calls ({others} others before it)"
                    );
                    shared.journal.say(Level::WARN, text);
                }
                shared.listeners.deliver(*message, SystemTime::now());
            }
            Output::Notice(notice) => {
                if notice == Notice::Election(Alarm::ClockBehind) {
                    self.wall_clock = Some(unix_milliseconds());
                }
                let has_ended = matches!(notice, Notice::Election(Alarm::ElectorateEnded { .. }));
                shared.journal.notice(notice);
                if has_ended {
                    self.announce(EventKind::ElectorateEnded);
                }
            }
            Output::Stopped(reason) => {
                let level = if reason == StopReason::Left { Level::INFO } else { Level::ERROR };
                shared.journal.say(level, reason.to_string());
                self.end.get_or_insert(Stop::Core(reason));
            }
        }
    }

    /// Warns of a leader by a lease, where this node elects leaders by voters.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn tell_led_by_lease(&mut self, update: &LeaseUpdate) {
        let Parts { core, shared, .. } = &self.parts;
        if core.election().is_none() {
            return self.tell_led_unseen("lease");
        }
        let now = Instant::now();
        if self.told_other_mode.is_some_and(|told| now - told < OTHER_MODE_TOLD_AGAIN_AFTER) {
            return;
        }
        self.told_other_mode = Some(now);
        let LeaseUpdate { node, term, .. } = update;
        let text = format!(
            "{node} leads by a lease in a database (leadership.mode = \"lease\", term {term}), and {} is set to have voters elect \
             leaders (\"quorum\"): two nodes may lead at once; {ONE_MODE}",
            shared.me
        );
        shared.journal.say(Level::WARN, text);
    }

    /// Says once that the cluster has a leader that this node, whose mode is "none", does not show.
    fn tell_led_unseen(&mut self, mode: &str) {
        if self.told_other_mode.replace(Instant::now()).is_some() {
            return;
        }
        let shared = &self.parts.shared;
        let text = format!(
            "other nodes of this cluster have a leader (leadership.mode = \"{mode}\"), and {} is set to know of none (\"none\"): \
             nobody who asks this node learns who leads; set the same mode here, or ask other nodes",
            shared.me
        );
        shared.journal.say(Level::INFO, text);
    }

    fn announce(&self, kind: EventKind) {
        let shared = &self.parts.shared;
        shared.journal.event(&shared.announce(kind, SystemTime::now()));
    }

    /// Takes a change to directory and subscribers. News of who was gone before this node was a member is no news.
    fn publish(&mut self, change: &Change, now: Time) {
        let Parts { core, shared, .. } = &self.parts;
        let (id, at) = (&change.record.id, SystemTime::now());
        if *id == shared.me {
            match change.record.status {
                Status::Joining => self.up_since = None,
                Status::Up => {
                    self.up_since = self.up_since.or(Some(now));
                    shared.note_beginning(core.has_begun_alone());
                }
                _ => {}
            }
        }
        let is_first_word = change.previous.is_none() && change.kind != ChangeKind::Removed;
        let was_gone_before = || match self.up_since {
            None => true,
            Some(since) => {
                core.observation(id).and_then(|seen| seen.gone_for).is_some_and(|age| age > now.since(since))
            }
        };
        if is_first_word && matches!(change.record.status, Status::Down | Status::Left(_)) && was_gone_before() {
            shared.list(change, at);
        } else {
            shared.journal.event(&shared.publish(change, at));
        }
    }

    /// Publishes what others may know without asking: up to date whenever the driver waits.
    pub(super) fn publish_figures(&mut self) {
        let core = &self.parts.core;
        #[cfg(feature = "metrics")]
        {
            let Parts { shared, sealing, clock, .. } = &self.parts;
            // A node that is not a member yet knows of no leader.
            let vacant = || if core.is_up() { shared.vacant() } else { Vec::new() };
            let tally = || Tally::new(core.counters(), sealing.refused(), shared.socket.overflows());
            shared.recent.note(clock.now(), vacant, tally);
        }
        if core.electorate() != self.electorate.as_deref() {
            self.electorate = core.electorate().cloned().map(Arc::new);
        }
        if !core.unreachable().eq(self.unreachable.iter()) {
            self.unreachable = Arc::new(core.unreachable().cloned().collect());
        }
        let ended = core.election().and_then(ended_of);
        if ended != self.ended.as_deref() {
            self.ended = ended.cloned().map(Arc::new);
        }
        self.parts.shared.set_figures(Figures {
            changes: core.changes(),
            fingerprint: core.fingerprint(),
            counters: core.counters().clone(),
            open_links: core.open_links(),
            health_score: core.health_score(),
            degraded_links: core.degraded_links(),
            unreachable: Arc::clone(&self.unreachable),
            joining: core.joining().map(Arc::new),
            is_misplaced: !core.is_reachable(),
            oldest_sign: core.oldest_sign(),
            leaders_elected: self.leaders_elected,
            voter_aside: core.election().is_some_and(Election::is_aside),
            agreed: core.agreed_view().cloned(),
            electorate: self.electorate.clone(),
            standings: core.standings().map(Arc::new),
            lineage: core.election().and_then(Election::founded).map(|descent| descent.lineage),
            ended: self.ended.clone(),
            other_electorate: core.other_electorate().cloned().map(Arc::new),
        });
    }
}

/// Returns the electorate in which this node voted until that ended, if it votes in none since.
fn ended_of(election: &Election) -> Option<&EndedElectorate> {
    election.ballot().ended.as_ref().filter(|_| !election.is_voter())
}
