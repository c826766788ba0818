//! The trace: a running hash over everything that happened and, if asked for, lines for people.
//!
//! Invariant: two runs have the same hash if and only if (up to chance) the same inputs and outputs happened at the
//! same nodes at the same times in the same order. Must not know: the meaning of inputs and outputs for membership.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::network::Nanos;
use headcount_core::{Change, ChangeKind, Input, NodeId, Output};

/// The record of all inputs and outputs of a run.
pub struct Trace {
    hash: Xxh3,
    lines: Option<Vec<String>>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("hash", &self.hash.digest()).field("lines", &self.lines).finish()
    }
}

impl Trace {
    /// Creates an empty trace, which keeps lines as well if `verbose` is set.
    pub fn new(verbose: bool) -> Self {
        Self { hash: Xxh3::new(), lines: verbose.then(Vec::new) }
    }

    /// Returns the hash of everything so far.
    pub fn digest(&self) -> u64 {
        self.hash.digest()
    }

    /// Returns the lines so far.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// Adds a line for people; its text is only put together if lines are kept.
    pub fn say(&mut self, now: Nanos, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{} {}", Seconds(now), what()));
        }
    }

    /// Records an input to a node.
    pub fn input(&mut self, now: Nanos, node: usize, input: &Input<'_>) {
        self.head(now, node);
        match input {
            Input::Packet { from, bytes } | Input::UnboundPacket { from, bytes } => {
                self.tag(1);
                self.address(*from);
                self.hash.update(bytes);
            }
            Input::Tick => self.tag(2),
            Input::Command(command) => {
                self.tag(3);
                self.text(format_args!("{command:?}"));
            }
            Input::SeedAddresses(seeds) => {
                self.tag(4);
                for address in seeds.iter().flatten() {
                    self.address(*address);
                }
            }
            Input::Persisted { incarnation_bound, ballot_version } => {
                self.tag(5);
                self.hash.update(&incarnation_bound.to_le_bytes());
                self.hash.update(&ballot_version.to_le_bytes());
            }
            Input::Link { link, event } => {
                self.tag(7);
                self.text(format_args!("{link:?} {event:?}"));
            }
            // For inputs that are added to the core before they are added here.
            #[allow(unreachable_patterns)]
            other => {
                self.tag(6);
                self.text(format_args!("{other:?}"));
            }
        }
    }

    /// Records an output of a node.
    pub fn output(&mut self, now: Nanos, node: usize, name: &NodeId, output: &Output) {
        // Its packet is recorded.
        if matches!(output, Output::HeartbeatSent(_)) {
            return;
        }
        self.head(now, node);
        match output {
            Output::Transmit { to, bytes, .. } => {
                self.tag(101);
                self.address(*to);
                self.hash.update(bytes);
            }
            Output::Heard(id) => {
                self.tag(102);
                self.hash.update(id.as_str().as_bytes());
            }
            Output::Change(change) => {
                self.tag(103);
                self.text(format_args!("{:?}", change.kind));
                // A run and an incarnation identify the record but for its status, the only field that others than its
                // owner write.
                let record = &change.record;
                self.hash.update(&record.run.0.to_le_bytes());
                self.hash.update(&record.incarnation.to_le_bytes());
                self.text(format_args!("{:?}", record.status));
                self.say(now, || format!("{name}: {}", Told(change)));
            }
            other => {
                self.tag(104);
                self.text(format_args!("{other:?}"));
                self.say(now, || format!("{name}: {other:?}"));
            }
        }
    }

    /// Records something that happens at a node beside its core.
    pub fn note(&mut self, now: Nanos, node: usize, name: &NodeId, what: &impl fmt::Debug) {
        self.head(now, node);
        self.tag(201);
        self.text(format_args!("{what:?}"));
        self.say(now, || format!("{name}: {what:?}"));
    }

    fn head(&mut self, now: Nanos, node: usize) {
        self.hash.update(&now.to_le_bytes());
        self.hash.update(&(node as u64).to_le_bytes());
    }

    fn tag(&mut self, tag: u8) {
        self.hash.update(&[tag]);
    }

    fn address(&mut self, address: SocketAddr) {
        match address {
            SocketAddr::V4(address) => self.hash.update(&address.ip().octets()),
            SocketAddr::V6(address) => self.hash.update(&address.ip().octets()),
        }
        self.hash.update(&address.port().to_le_bytes());
    }

    fn text(&mut self, text: fmt::Arguments<'_>) {
        struct Sink<'a>(&'a mut Xxh3);
        impl fmt::Write for Sink<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.update(text.as_bytes());
                Ok(())
            }
        }
        // Writing to the sink cannot fail.
        let _ = fmt::write(&mut Sink(&mut self.hash), text);
    }
}

/// A time in seconds, for people.
pub(crate) struct Seconds(pub(crate) Nanos);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:10.4}s", Duration::from_nanos(self.0).as_secs_f64())
    }
}

/// A change, for people.
struct Told<'a>(&'a Change);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { kind, record, method, .. } = self.0;
        match kind {
            ChangeKind::Removed => write!(f, "removed {}", record.id)?,
            kind => write!(f, "{kind:?} {}", record.id)?,
        }
        write!(f, " = {} {} run {}", record.status, record.incarnation, record.run)?;
        method.map_or(Ok(()), |method| write!(f, " ({})", method.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_when_and_where_is_in_the_hash() {
        let digest = |now, node, input: &Input<'_>| {
            let mut trace = Trace::new(false);
            trace.input(now, node, input);
            trace.digest()
        };
        let from = "10.0.0.1:7117".parse().expect("an address");
        let packet = Input::Packet { from, bytes: &[1, 2, 3] };
        assert_eq!(digest(1, 0, &packet), digest(1, 0, &packet));
        assert_ne!(digest(1, 0, &packet), digest(2, 0, &packet));
        assert_ne!(digest(1, 0, &packet), digest(1, 1, &packet));
        assert_ne!(digest(1, 0, &packet), digest(1, 0, &Input::Tick));
        assert_ne!(digest(1, 0, &packet), digest(1, 0, &Input::Packet { from, bytes: &[1, 2, 4] }));
    }

    #[test]
    fn lines_are_kept_only_if_asked_for() {
        let mut quiet = Trace::new(false);
        quiet.say(1, || unreachable!("nobody asked"));
        let mut verbose = Trace::new(true);
        verbose.say(1_500_000_000, || "hello".to_owned());
        assert_eq!(verbose.lines(), ["    1.5000s hello"]);
    }
}
