//! Signs of life: a fresh packet of a member shows that it lives, whatever it says.
//!
//! Invariant: a sign makes nobody Up, and refutes nothing. It moves the time from which silence counts, and ends what began
//! with silence. (A run that was removed by force, was told, and is still there is removed again.)
//!
//! Must not know: what the packet says.

use crate::Core;
use crate::doors::Output;
use crate::member::Status;
use crate::time::Time;
use crate::view::Slot;

impl Core {
    /// Takes a packet of a member's run as a sign that it lives. The status that it is held at does not change by that.
    pub(crate) fn sign_of_life(&mut self, slot: Slot, arrived: Time) {
        let record = self.view.record(slot);
        let (id, run) = (record.id.clone(), record.run);
        if self.grounds().counts_as_alive(slot) {
            self.sign_counts(slot, arrived);
        }
        self.cx.output(Output::Heard(id));
        if self.observers.heard_on_the_way(slot) {
            self.doubts_changed(slot);
        }
        if self.is_case(run) {
            self.heard_suspected_crash(slot);
        }
    }

    /// Counts a packet of a member's run that shows that the member lives (see `echo`).
    pub(crate) fn sign_counts(&mut self, slot: Slot, arrived: Time) {
        self.cx.counters.signs_of_life += 1;
        self.measure_age(slot, arrived);
        if matches!(self.view.record(slot).status, Status::Up | Status::Suspect | Status::Leaving) {
            self.remember_flapping(slot);
            self.view.peer_mut(slot).lived_at(arrived);
        }
        if let Some(session) = &mut self.view.peer_mut(slot).session {
            session.sign = session.sign.max(arrived);
        }
        self.heard_directly(slot);
    }

    /// Measures the age that the last sign of life of an observed member has reached.
    fn measure_age(&mut self, slot: Slot, arrived: Time) {
        if !self.observers.observes(slot) {
            return;
        }
        let age = self.view.entry(slot).peer.session.as_ref().map(|session| arrived.since(session.sign));
        // The session begins with the first sign, which ends no silence.
        if let Some(age) = age.filter(|age| !age.is_zero()) {
            self.cx.counters.heartbeat_ages.observe(age);
        }
    }
}
