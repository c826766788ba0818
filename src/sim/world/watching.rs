//! Tells whoever watches, and what may be seen of a world beside its nodes' cores.
//!
//! Must not know: what is watched for.

use std::any::Any;

use super::{Nanos, Tcp, World};
use crate::watch::Watch;
use headcount_core::{Core, Settings};

impl World {
    /// Tells whoever watches.
    pub(crate) fn tell(&mut self, tell: impl FnOnce(&mut dyn Watch, &World)) {
        self.tell_and(|watch, world| tell(watch, world));
    }

    /// Tells whoever watches, and returns the answer.
    pub(crate) fn tell_and<T>(&mut self, tell: impl FnOnce(&mut dyn Watch, &World) -> T) -> Option<T> {
        let mut watch = self.watch.take()?;
        let answer = tell(&mut *watch, self);
        self.watch = Some(watch);
        Some(answer)
    }

    /// Returns whoever watches, if it is of this type.
    pub fn watched_by<W: Watch>(&self) -> Option<&W> {
        let watch: &dyn Any = self.watch.as_deref()?;
        watch.downcast_ref()
    }

    /// Returns whoever watches, if it is of this type, to be asked or told something.
    pub fn watched_by_mut<W: Watch>(&mut self) -> Option<&mut W> {
        let watch: &mut dyn Any = self.watch.as_deref_mut()?;
        watch.downcast_mut()
    }

    /// Returns the time for which nothing has been wrong with the network as a whole; `None` while something is.
    pub fn network_calm_since(&self) -> Option<Nanos> {
        self.network_calm_since
    }

    /// Returns true if nothing is wrong with the network now.
    pub fn is_network_calm(&self) -> bool {
        self.network.is_calm() && self.tcp == Tcp::Open
    }

    /// Returns the time since which the network has been well for a node; `None` while it is not.
    pub fn untroubled_since(&self, node: usize) -> Option<Nanos> {
        self.nodes[node].untroubled()
    }

    /// Returns the time since which a node's process has been neither paused nor slow; `None` while it is, or if there is none.
    pub fn undisturbed_since(&self, node: usize) -> Option<Nanos> {
        self.nodes[node].process.as_ref()?.undisturbed_since
    }

    /// Returns the time since which a node's process has been Up; `None` while it is not.
    pub fn up_since(&self, node: usize) -> Option<Nanos> {
        self.nodes[node].process.as_ref()?.up_since
    }

    /// Returns the core of a node's process, also if it has just stopped.
    pub fn last_core(&self, node: usize) -> Option<&Core> {
        self.nodes[node].process.as_ref().map(|process| &process.core)
    }

    /// Returns the settings of a node.
    pub fn settings(&self, node: usize) -> &Settings {
        &self.nodes[node].settings
    }

    /// Returns the number of bytes of a datagram's headers.
    pub fn header_bytes(&self) -> u64 {
        self.network.header_bytes()
    }
}
