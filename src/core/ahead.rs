//! Looking ahead: reads what an input to come is going to need, and does nothing with it.
//!
//! A driver of thousands of cores in one process finds each of them in slow memory, and handling an input is a chain of
//! look-ups each of which waits for the one before. Taken link by link for several cores at once, the waits overlap.
//!
//! Invariants: nothing here changes anything, and nothing may depend on what it returns; what is foreseen wrongly costs
//! time and nothing else. Must not know: who drives, or when.

use crate::core::Core;
use crate::core::member::Run;
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::Slot;
use crate::core::wire::sender_of;

/// An input to come to one core, as far as it is foreseen.
#[derive(Debug)]
pub struct Ahead {
    foreseen: Foreseen,
    /// The sender of the packet, or the member that the first timer is about.
    run: Option<Run>,
    slot: Option<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Foreseen {
    Packet,
    Tick,
    /// A tick that looks at all neighbours.
    Gossip,
}

impl Ahead {
    /// The number of steps after which everything is read.
    pub const STEPS: u32 = 5;

    /// Foresees that a packet of these bytes is handed in.
    pub fn packet(bytes: &[u8]) -> Self {
        Self { foreseen: Foreseen::Packet, run: sender_of(bytes), slot: None }
    }

    /// Foresees that a tick is handed in.
    pub fn tick() -> Self {
        Self { foreseen: Foreseen::Tick, run: None, slot: None }
    }

    /// Takes one step. It reads what the step before has found, and decides by that alone: a branch that waits for
    /// memory would let all others wait. The figure that it returns is for [`std::hint::black_box`].
    pub fn step(&mut self, step: u32, core: &Core) -> u64 {
        let is_packet = self.foreseen == Foreseen::Packet;
        match step {
            0 => core.touch(),
            1 if is_packet => self.run.map_or(0, |run| core.view.touch_place_of(run)),
            1 => core.timers.touch(),
            2 if is_packet => self.find(core),
            2 => {
                self.foresee(core);
                let place = self.run.map_or(0, |run| core.view.touch_place_of(run));
                place ^ core.timers.touch_place() ^ self.each_neighbour(core, |slot| core.view.touch(slot))
            }
            3 if is_packet => self.slot.map_or(0, |slot| core.view.touch_peer(slot)),
            3 => {
                let found = self.find(core);
                found ^ core.timers.touch_setting() ^ self.each_neighbour(core, |slot| core.view.touch_peer(slot))
            }
            _ if is_packet => 0,
            _ => self.slot.map_or(0, |slot| core.view.touch_peer(slot)),
        }
    }

    /// Finds the subject of the next tick.
    fn foresee(&mut self, core: &Core) {
        match core.timers.first() {
            Some(Timer::Judge(run) | Timer::Heartbeat(run) | Timer::Link(run)) => self.run = Some(run),
            Some(Timer::Gossip) => self.foreseen = Foreseen::Gossip,
            _ => {}
        }
    }

    fn find(&mut self, core: &Core) -> u64 {
        self.slot = self.run.and_then(|run| core.view.probable_slot_of(run));
        self.slot.map_or(0, |slot| core.view.touch(slot))
    }

    fn each_neighbour(&self, core: &Core, touch: impl Fn(Slot) -> u64) -> u64 {
        if self.foreseen == Foreseen::Gossip { core.neighbours().map(touch).fold(0, |sum, one| sum ^ one) } else { 0 }
    }
}

impl Core {
    /// Reads the core itself here and there: it is some dozen lines of memory.
    fn touch(&self) -> u64 {
        let due = self.timers.next().map_or(0, Time::as_nanos);
        let sizes = self.outputs.len() ^ self.view.len() ^ self.view.live().len() ^ self.settings.mtu;
        let counted = self.counters.packets_received ^ self.counters.suspicions_raised;
        let paces = self.settings.heartbeat_interval.subsec_nanos() ^ self.settings.retry_interval.subsec_nanos();
        let found = self.degraded_links() ^ usize::from(self.is_case(self.run)) ^ self.gossiping.heartbeats;
        due ^ counted
            ^ u64::from(paces)
            ^ self.changed_at.as_nanos()
            ^ self.sequence
            ^ (sizes ^ found) as u64
            ^ u64::from(self.local_health.stretch())
    }
}
