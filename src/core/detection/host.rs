//! Evidence from the kernel: a process that hangs is told from a host that is gone.
//!
//! A process that is stopped, starved or swapped out is silent as a host without power is; but its host's kernel still accepts
//! connections, or refuses them. So where [`Settings::host_down_timeout`] is set, every observer of a silent member opens a
//! connection to it every half second, closes it at once, and tells the other observers of an answer. A host of which nobody hears is Down
//! at `host_down_timeout`; a process whose kernel answers has its whole `down_timeout` to go on.
//!
//! Invariants:
//! - The silence of a kernel counts only if it has answered this node before, at the same address: a firewall may drop what is
//!   asked. So each observed member's kernel is asked every five minutes while it is well.
//! - An answer that any observer had counts for [`HOST_ANSWER_LASTS`]: a process may hang, and its host be switched off then.
//! - An attempt that fails in another way (no descriptor, no route) is no silence.
//! - Whatever answers for a host, a proxy perhaps, only leaves the member more time.
//!
//! Must not know: how connections are opened.

use crate::detection::DetectorFacts;
use crate::limits::{HOST_ANSWER_LASTS, HOST_PATIENCE, HOST_QUESTION_INTERVAL};
use crate::member::{DetectionMethod, Status};
#[cfg(doc)]
use crate::settings::Settings;
use crate::time::Time;
use crate::view::{Entry, Host, Slot, is_due};
use std::time::Duration;

impl Host {
    /// Notes that it is asked, unless it could not be: of a silent member, or a well one, of which it is to show that it answers.
    pub(crate) fn note_question(&mut self, now: Time, is_asked: bool, is_silent: bool) {
        self.asked = Some(now);
        self.has_answered &= is_silent;
        self.unanswered_since = if is_asked && is_silent { self.unanswered_since.or(Some(now)) } else { None };
    }

    /// Notes that it has answered this node.
    pub(crate) fn note_answer(&mut self, now: Time) {
        self.has_answered = true;
        self.unanswered_since = None;
        self.answered = Some(now);
    }

    /// Returns true if it answered an observer a moment ago.
    fn is_heard(self, now: Time) -> bool {
        self.answered.is_some_and(|answered| now.since(answered) < HOST_ANSWER_LASTS)
    }
}

impl DetectorFacts<'_> {
    /// Returns the silence after which a member is Down if its host is silent, too; `None` if its kernel is not asked.
    pub(crate) fn host_down_timeout(&self, entry: &Entry) -> Option<Duration> {
        let is_ours = entry.record.timing.down_timeout() == self.settings.down_timeout;
        self.settings.host_down_timeout.filter(|host| is_ours && *host < self.settings.down_timeout)
    }

    /// Returns true if nobody has heard of a member's host since its last sign, although it was asked, and would have answered.
    fn is_host_silent(&self, entry: &Entry) -> bool {
        let host = entry.peer.rare().host;
        // An answer may take a round trip, and one of two questions be lost.
        let patience = HOST_PATIENCE.max(Self::host_question_interval(entry) * 2);
        let is_missed = host
            .unanswered_since
            .is_some_and(|since| self.now.since(since) >= patience && since > entry.peer.last_sign());
        host.has_answered && is_missed && !host.is_heard(self.now)
    }

    /// Returns the silence after which a suspect is Down.
    pub(super) fn down_timeout(&self, entry: &Entry) -> Duration {
        let silent_host = self.host_down_timeout(entry).filter(|_| self.is_host_silent(entry));
        silent_host.unwrap_or(entry.record.timing.down_timeout())
    }

    /// Returns the way in which a suspect is found to be Down.
    pub(super) fn method_of_death(&self, entry: &Entry) -> DetectionMethod {
        match self.host_down_timeout(entry) {
            Some(_) if self.is_host_silent(entry) => DetectionMethod::HostSilent,
            Some(_) if entry.peer.rare().host.is_heard(self.now) => DetectionMethod::ProcessStalled,
            _ => DetectionMethod::HeartbeatTimeout,
        }
    }

    /// Returns the time between two questions to the kernel of a silent member's host.
    pub(crate) fn host_question_interval(entry: &Entry) -> Duration {
        HOST_QUESTION_INTERVAL.max(entry.peer.rtt().unwrap_or_default() * 2)
    }

    /// Returns true if the kernel of a member's host may be asked: its answers matter here.
    pub(crate) fn may_ask_host(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let is_judged = self.observers.observes(slot) && matches!(entry.status, Status::Up | Status::Suspect);
        is_judged && self.host_down_timeout(entry).is_some()
    }

    /// Returns true if the kernel of a silent member's host is to be asked, and was not a moment ago.
    pub(crate) fn is_host_question_due(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let pause = Self::host_question_interval(entry);
        self.may_ask_host(slot) && is_due(self.now, entry.peer.rare().host.asked, pause)
    }
}
