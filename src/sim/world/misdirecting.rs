//! A recorder with a plan: it plays what was meant for one node to others, with the sender's address, while it is news there.
//!
//! It comes to clear worlds as well. Unlike the recorder of `seals`, which plays anything at any time, it keeps the order of what it plays, so that each number is
//! one that its receiver has not seen.
//!
//! Must not know: the meaning of packets.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Event, World};

/// Time between two datagrams of the dead.
const PACE: Duration = Duration::from_millis(20);
/// Latency of what is played.
const UNDER_WAY: Duration = Duration::from_micros(300);
/// Datagrams that are kept of one node.
const KEPT: usize = 800;

/// The plan of a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misdirection {
    /// Every datagram for one of these two is played at once to the other one.
    Between(usize, usize),
    /// The datagrams of this node are kept, and played to the others in ascending order once it is gone.
    AfterDeath(usize),
}

/// A recorder with a plan, and what it keeps.
#[derive(Debug)]
pub(super) struct Misdirecting {
    plan: Misdirection,
    /// Receivers and datagrams, the oldest first.
    kept: VecDeque<(usize, Vec<u8>)>,
}

impl World {
    /// Lets a recorder in that carries out this plan from now on.
    pub fn misdirect(&mut self, plan: Misdirection) {
        self.misdirecting = Some(Misdirecting { plan, kept: VecDeque::new() });
        self.push_after(PACE, Event::Misdirected);
    }

    /// Shows the recorder a datagram on its way.
    pub(super) fn let_it_misdirect(&mut self, sender: usize, meant: usize, datagram: &[u8]) {
        let Some(misdirecting) = &mut self.misdirecting else { return };
        match misdirecting.plan {
            Misdirection::Between(one, other) if meant == one => self.play_to(sender, other, datagram),
            Misdirection::Between(one, other) if meant == other => self.play_to(sender, one, datagram),
            Misdirection::AfterDeath(subject) if subject == sender => {
                if misdirecting.kept.len() == KEPT {
                    misdirecting.kept.pop_front();
                }
                misdirecting.kept.push_back((meant, datagram.to_vec()));
            }
            Misdirection::Between(..) | Misdirection::AfterDeath(_) => {}
        }
    }

    /// Plays the next datagram of a node that is gone.
    pub(super) fn misdirect_next(&mut self) {
        let Some(misdirecting) = &mut self.misdirecting else { return };
        let Misdirection::AfterDeath(subject) = misdirecting.plan else { return };
        if self.nodes[subject].process.is_none()
            && let Some((meant, datagram)) = misdirecting.kept.pop_front()
        {
            self.play_to_others(subject, meant, &datagram);
        }
        self.push_after(PACE, Event::Misdirected);
    }

    fn play_to_others(&mut self, sender: usize, meant: usize, datagram: &[u8]) {
        for to in (0..self.nodes.len()).filter(|to| *to != meant) {
            self.play_to(sender, to, datagram);
        }
    }

    fn play_to(&mut self, sender: usize, to: usize, datagram: &[u8]) {
        if sender == to {
            return;
        }
        let from = self.nodes[sender].address;
        if let Some(seals) = &mut self.seals {
            seals.counts.played += 1;
        }
        self.push_after(UNDER_WAY, Event::Packet { from, to, bytes: datagram.to_vec(), delayed: false });
    }
}
