//! Sealing at the edge: what the socket's driver and the links share, and what is told of packets that were refused.
//!
//! Owns the mode and the ring in force, which are replaced as a whole while everything runs, the numbers of connections,
//! the counters, and who seals otherwise than this node does. Refused datagrams are never answered, and first frames of links
//! by the reason alone; the operator is told of them once per [`TELL_INTERVAL`] and reason, with what to try.
//!
//! Must not know: members, and where keys are kept.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::TryRng as _;
use rand::rngs::SysRng;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Level;

use crate::core::{Run, Unopened};
use crate::journal::Journal;
use crate::quiet::Quiet;
use crate::seal::{KeyId, KeyRing, LinkSealer, LinkStep, SealError, SealMode, is_clear_packet};

/// The shortest time between two lines of the log about packets that were refused for one reason.
pub(crate) const TELL_INTERVAL: Duration = Duration::from_secs(30);

/// The number of misdirected packets within [`TELL_INTERVAL`] that the operator is told of, once in that time.
pub(crate) const MANY_MISDIRECTED: u64 = 1_000;

/// The time for which a datagram that is sealed otherwise than this node's is remembered.
const OTHERWISE_FOR: Duration = Duration::from_secs(60);

/// The number of senders of such datagrams that are remembered.
const MAX_OTHERWISE: usize = 64;

/// The datagrams of one sender that were taken and are sealed otherwise than this node's: with another key of the ring, or not
/// at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Otherwise {
    /// The key; `None`: none.
    pub(crate) key: Option<KeyId>,
    first: Instant,
    last: Instant,
}

impl Otherwise {
    /// Returns the time between the first and the last of them.
    #[cfg(feature = "metrics")]
    pub(crate) fn lasted(&self) -> Duration {
        self.last - self.first
    }

    #[cfg(all(test, feature = "metrics"))]
    pub(crate) fn lasting(key: Option<KeyId>, lasted: Duration) -> Self {
        let first = Instant::now();
        Self { key, first, last: first + lasted }
    }

    fn is_recent(&self, now: Instant) -> bool {
        now - self.last < OTHERWISE_FOR
    }
}

/// The number of packets within one interval.
#[derive(Debug, Default)]
struct Tally {
    began: Option<Instant>,
    count: u64,
}

impl Tally {
    /// Counts one more; returns the number within this interval.
    fn add(&mut self) -> u64 {
        let now = Instant::now();
        if self.began.is_none_or(|began| now - began >= TELL_INTERVAL) {
            *self = Self { began: Some(now), count: 0 };
        }
        self.count += 1;
        self.count
    }
}

/// The mode and the ring in force. A mode other than off has a ring.
#[derive(Debug, Default)]
pub(crate) struct SealPolicy {
    mode: SealMode,
    ring: Option<KeyRing>,
    /// Somebody said that clear packets of other machines are taken.
    is_consented: bool,
}

impl SealPolicy {
    /// Returns the policy of a mode, which was said if it takes clear packets, and a ring. The default policy is that of
    /// nodes without keys, which hear this machine alone.
    pub(crate) fn new(mode: SealMode, ring: KeyRing) -> Self {
        Self { mode, ring: Some(ring), is_consented: mode.accepts_clear() }
    }

    /// Returns the policy of nodes that seal nothing, and hear other machines.
    pub(crate) fn clear() -> Self {
        Self { is_consented: true, ..Self::default() }
    }

    /// Returns the mode.
    pub(crate) fn mode(&self) -> SealMode {
        self.mode
    }

    /// Returns true if somebody said that clear packets of other machines are taken.
    pub(crate) fn is_consented(&self) -> bool {
        self.is_consented
    }

    /// Returns true if nothing is taken from there, and nothing said to: clear packets are taken of this machine alone, and it
    /// is another one. (Something may carry what others send to a loopback address.)
    pub(crate) fn keeps_out(&self, other: SocketAddr) -> bool {
        self.mode.accepts_clear() && !self.is_consented && !other.ip().to_canonical().is_loopback()
    }

    /// Returns the ring, unless the mode is off.
    pub(crate) fn ring(&self) -> Option<&KeyRing> {
        self.ring.as_ref().filter(|_| self.mode.accepts_sealed())
    }
}

/// The sealing of one agent. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Sealing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    run: Run,
    cluster: Box<str>,
    policy: watch::Sender<Arc<SealPolicy>>,
    /// The number of the last connection end.
    connections: AtomicU64,
    refused: [AtomicU64; SealError::COUNT],
    /// The senders of the last ones.
    refused_from: Mutex<[Option<SocketAddr>; SealError::COUNT]>,
    quiet: Mutex<[Quiet; SealError::COUNT]>,
    misdirected: Mutex<Tally>,
    /// The time at which the policy came into force, and who has sealed otherwise since.
    otherwise: Mutex<(Instant, BTreeMap<SocketAddr, Otherwise>)>,
    /// The key that a packet was sealed with, last of those that this node lacks.
    lacks_key: watch::Sender<Option<KeyId>>,
    journal: Journal,
}

impl Sealing {
    /// Returns the sealing of a run, in the cluster of this name.
    pub(crate) fn new(run: Run, cluster: &str, policy: SealPolicy, journal: Journal) -> Self {
        Self(Arc::new(Shared {
            run,
            cluster: cluster.into(),
            policy: watch::Sender::new(Arc::new(policy)),
            connections: AtomicU64::new(0),
            refused: Default::default(),
            refused_from: Mutex::default(),
            quiet: Mutex::default(),
            misdirected: Mutex::default(),
            otherwise: Mutex::new((Instant::now(), BTreeMap::new())),
            lacks_key: watch::Sender::new(None),
            journal,
        }))
    }

    /// Returns a sealing that seals nothing.
    #[cfg(test)]
    pub(crate) fn off(journal: Journal) -> Self {
        Self::new(Run(1), "test", SealPolicy::default(), journal)
    }

    /// Returns the name of the cluster.
    pub(crate) fn cluster(&self) -> &str {
        &self.0.cluster
    }

    /// Returns the policy in force.
    pub(crate) fn policy(&self) -> Arc<SealPolicy> {
        Arc::clone(&self.0.policy.borrow())
    }

    /// Returns a watch on the policy.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<SealPolicy>> {
        self.0.policy.subscribe()
    }

    /// Puts another policy in force: with the next packet, and for links that it forbids, at once.
    pub(crate) fn set_policy(&self, policy: SealPolicy) {
        let policy = Arc::new(policy);
        let before = self.0.policy.send_replace(Arc::clone(&policy));
        // A configuration that is read again and says the same changes nothing.
        if (before.mode(), before.ring()) != (policy.mode(), policy.ring()) {
            *self.otherwise() = (Instant::now(), BTreeMap::new());
        }
    }

    /// Notes whether a datagram that was taken is sealed otherwise than this node's: with another key of the ring, or not at all
    /// although there is one.
    pub(crate) fn note(&self, from: SocketAddr, ring: &KeyRing, key: Option<KeyId>) {
        let (now, mut noted) = (Instant::now(), self.otherwise());
        let senders = &mut noted.1;
        if key == Some(ring.sealing().id()) {
            senders.remove(&from);
            return;
        }
        if let Some(sender) = senders.get_mut(&from).filter(|sender| sender.key == key && sender.is_recent(now)) {
            sender.last = now;
            return;
        }
        if senders.len() >= MAX_OTHERWISE {
            senders.retain(|_, sender| sender.is_recent(now));
        }
        if senders.len() < MAX_OTHERWISE || senders.contains_key(&from) {
            senders.insert(from, Otherwise { key, first: now, last: now });
        }
    }

    fn otherwise(&self) -> std::sync::MutexGuard<'_, (Instant, BTreeMap<SocketAddr, Otherwise>)> {
        self.0.otherwise.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time for which the policy has been in force, and who has lately sealed otherwise.
    #[cfg(feature = "metrics")]
    pub(crate) fn lately(&self) -> (Duration, Vec<(SocketAddr, Otherwise)>) {
        let (now, noted) = (Instant::now(), self.otherwise());
        let recent = noted.1.iter().filter(|(_, sender)| sender.is_recent(now));
        (now - noted.0, recent.map(|(from, sender)| (*from, *sender)).collect())
    }

    /// Returns the numbers of datagrams and frames refused, in the order of [`SealError::NAMES`].
    pub(crate) fn refused(&self) -> [u64; SealError::COUNT] {
        std::array::from_fn(|place| self.0.refused[place].load(Ordering::Relaxed))
    }

    /// Returns the senders of the last ones, each with the reason.
    #[cfg(feature = "metrics")]
    pub(crate) fn refused_from(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let last = *self.0.refused_from.lock().unwrap_or_else(PoisonError::into_inner);
        SealError::NAMES.into_iter().zip(last).filter_map(|(reason, from)| Some((reason, from?)))
    }

    /// Returns one end of a new connection; `None` if the system has no random numbers.
    pub(super) fn link(&self, is_opener: bool) -> Option<LinkSealer> {
        let mut random = [0; 16];
        SysRng.try_fill_bytes(&mut random).ok()?;
        let number = self.0.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let end = if is_opener { LinkSealer::opener } else { LinkSealer::acceptor };
        Some(end(self.0.run, &self.0.cluster, number, random))
    }

    /// Takes a frame of a connection, and counts one that is refused.
    pub(super) fn take(&self, link: &mut LinkSealer, from: SocketAddr, frame: &[u8]) -> Result<LinkStep, SealError> {
        let policy = self.policy();
        let step = match policy.ring() {
            Some(ring) => link.take(policy.mode(), ring, frame),
            None if !link.is_ready() && crate::seal::key_id_of(frame).is_none() => {
                link.stay_clear();
                Ok(LinkStep::Clear)
            }
            None if link.is_clear() => Ok(LinkStep::Clear),
            None => Err(crate::seal::key_id_of(frame).map_or(SealError::Malformed, SealError::UnknownKey)),
        };
        if let Err(error) = step {
            self.refuse(from, error);
        }
        step
    }

    /// Returns what the opener of a link is told whose first frame was refused; `None`: nothing.
    pub(super) fn why_unopened(&self, error: SealError, frame: &[u8]) -> Option<Unopened> {
        match error {
            SealError::Unsealed => is_clear_packet(frame).then_some(Unopened::KeyNeeded),
            SealError::UnknownKey(_) if self.policy().ring().is_none() => Some(Unopened::NoKeys),
            SealError::UnknownKey(_) => Some(Unopened::OtherKey),
            SealError::Forged => Some(Unopened::OtherCluster),
            _ => None,
        }
    }

    /// Returns a watch on the keys that packets are sealed with and this node lacks: the last one.
    pub(crate) fn lacks_key(&self) -> watch::Receiver<Option<KeyId>> {
        self.0.lacks_key.subscribe()
    }

    /// Counts a packet that was refused, and tells of it if that is due.
    pub(crate) fn refuse(&self, from: SocketAddr, error: SealError) {
        let place = error.index();
        if let SealError::UnknownKey(id) = error {
            self.0.lacks_key.send_replace(Some(id));
        }
        self.0.refused[place].fetch_add(1, Ordering::Relaxed);
        self.0.refused_from.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(from);
        if let Some(count) = self.told_now(error) {
            let text = words(error, count, from, self.policy().mode());
            self.0.journal.say(Level::WARN, text);
        }
    }

    /// Notes a packet that was refused; returns the number of packets to tell of if that is due.
    fn told_now(&self, error: SealError) -> Option<u64> {
        match error {
            // The network repeats packets, and what was recorded costs nothing but a count.
            SealError::Replayed | SealError::Malformed => None,
            // A node that was restarted is sent what is bound to its former run: a few of them mean nothing.
            SealError::Misdirected => {
                let mut misdirected = self.0.misdirected.lock().unwrap_or_else(PoisonError::into_inner);
                Some(misdirected.add()).filter(|count| *count == MANY_MISDIRECTED)
            }
            _ => {
                let mut quiet = self.0.quiet.lock().unwrap_or_else(PoisonError::into_inner);
                quiet[error.index()].take_turn(TELL_INTERVAL, 1).map(|before| before + 1)
            }
        }
    }
}

/// Says what was refused, and one thing to try.
fn words(error: SealError, count: u64, from: SocketAddr, mode: SealMode) -> String {
    let packets = if count == 1 { "a packet".to_owned() } else { format!("{count} packets, the last one") };
    match error {
        SealError::Unsealed => format!(
            "dropped {packets} from {from} that is not sealed, which this node requires (seal.mode = {mode}): if a node of \
             yours runs there, give it the cluster's keys; otherwise close this port to it"
        ),
        SealError::UnknownKey(id) if mode == SealMode::Off => format!(
            "dropped {packets} from {from}, sealed with key {id}: this node has no keys; if that is its cluster, give it the \
             cluster's key file (seal.key_file)"
        ),
        SealError::UnknownKey(id) => format!(
            "dropped {packets} from {from}, sealed with key {id}, which this node lacks: if a node of yours runs there, keys were \
             changed while one of the two was away: where `headcount keys list` at a member names {id}, copy that member's key file \
             here, else copy it there, and send SIGHUP; if not, never take that key: it is a stranger's"
        ),
        SealError::NotLoopback => format!(
            "dropped {packets} from {from}: without keys this node hears its own machine alone, and something carries packets \
             of others to its loopback address (a forwarded port, route_localnet); give it the cluster's key file (seal.key_file) and \
             restart it"
        ),
        SealError::UnknownVersion => format!(
            "dropped {packets} from {from} that is sealed in a format version this build does not speak: update the older \
             of the two"
        ),
        SealError::Misdirected => format!(
            "dropped {packets} from {from}, sealed for another node, or for this one before it was restarted: somebody plays \
             recorded packets to this port, or members look for a node at this address that is not there any more"
        ),
        error => format!(
            "dropped {packets} from {from}: {error}; it is of another cluster that has the same key, was changed on the \
             way, or is made up by somebody who knows the id of a key and not the key"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::key;
    use crate::core::NodeId;

    #[test]
    fn refused_packets_are_counted_each_and_told_of_once_in_a_while() {
        let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
        let sealing = Sealing::off(journal);
        let from = SocketAddr::from(([10, 0, 0, 9], 7117));
        for _ in 0..5 {
            sealing.refuse(from, SealError::Unsealed);
        }
        sealing.refuse(from, SealError::Replayed);
        assert_eq!(sealing.refused(), [5, 0, 0, 0, 0, 1, 0, 0]);
        let mut quiet = sealing.0.quiet.lock().expect("nobody panicked");
        assert_eq!(quiet[0].take_turn(Duration::ZERO, 1), Some(4), "all but the one that was told");
    }

    #[cfg(feature = "metrics")]
    #[tokio::test(start_paused = true)]
    async fn who_seals_otherwise_is_remembered_for_a_while_and_until_the_policy_changes() {
        let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
        let sealing = Sealing::off(journal);
        let ring = KeyRing::new([key(1), key(2)]).expect("a ring");
        let from = |number: u16| SocketAddr::from(([10, 0, 0, 9], number));
        let lately =
            || sealing.lately().1.iter().map(|(from, it)| (from.port(), it.key, it.lasted())).collect::<Vec<_>>();
        let second = Duration::from_secs(1);
        for _ in 0..3 {
            sealing.note(from(1), &ring, Some(key(1).id()));
            sealing.note(from(2), &ring, Some(key(2).id()));
            sealing.note(from(3), &ring, None);
            tokio::time::advance(10 * second).await;
        }
        let both = [(2, Some(key(2).id()), 20 * second), (3, None, 20 * second)];
        assert_eq!(lately(), both, "not who seals with the same key");
        sealing.note(from(3), &ring, Some(key(2).id()));
        assert_eq!(lately(), [both[0], (3, Some(key(2).id()), Duration::ZERO)], "it seals by now");
        tokio::time::advance(50 * second).await;
        assert_eq!(lately().len(), 1, "the other one has been silent for that long");
        sealing.note(from(3), &ring, Some(key(1).id()));
        assert_eq!(lately(), [], "what is mended is no trouble at once");
        let many = |sealing: &Sealing| (0..200).for_each(|number| sealing.note(from(number), &ring, None));
        many(&sealing);
        assert_eq!(lately().len(), MAX_OTHERWISE);
        assert_eq!(sealing.lately().0, OTHERWISE_FOR + 20 * second);
        let permit = || SealPolicy::new(SealMode::Permit, KeyRing::new([key(1)]).expect("a ring"));
        sealing.set_policy(permit());
        assert_eq!(sealing.lately(), (Duration::ZERO, Vec::new()));
        many(&sealing);
        sealing.set_policy(permit());
        assert_eq!(lately().len(), MAX_OTHERWISE, "what is read again and says the same changes nothing");
    }

    #[test]
    fn packets_refused_for_one_reason_do_not_keep_those_for_another_from_being_told() {
        let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
        let sealing = Sealing::off(journal);
        let reasons =
            [SealError::Unsealed, SealError::UnknownVersion, SealError::UnknownKey(key(1).id()), SealError::Forged];
        for told in [Some(1), None] {
            assert_eq!(reasons.map(|reason| sealing.told_now(reason)), [told; 4]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_misdirected_packets_is_told_of_once_in_a_while_and_a_few_are_not() {
        let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
        let sealing = Sealing::off(journal);
        let from = SocketAddr::from(([10, 0, 0, 9], 7117));
        let flood = |packets| (0..packets).filter_map(|_| sealing.told_now(SealError::Misdirected)).count();
        assert_eq!(flood(MANY_MISDIRECTED - 1), 0);
        assert_eq!(flood(10 * MANY_MISDIRECTED), 1);
        tokio::time::advance(TELL_INTERVAL).await;
        assert_eq!(flood(MANY_MISDIRECTED), 1);
        let told = words(SealError::Misdirected, MANY_MISDIRECTED, from, SealMode::Require);
        assert!(told.contains("1000 packets") && told.contains("10.0.0.9:7117"), "{told}");
    }

    #[test]
    fn every_end_of_a_connection_has_a_number_of_its_own() {
        let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
        let sealing = Sealing::off(journal);
        let number = |is_opener: bool| sealing.link(is_opener).expect("random numbers").greeting(&key(1))[16];
        assert_eq!([true, true, true].map(number), [1, 2, 3], "or two greetings have one nonce");
    }

    #[test]
    fn without_keys_and_consent_this_machine_alone_is_heard() {
        let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
        let sealing = Sealing::off(journal);
        let keeps_out = |sealing: &Sealing, from: &str| sealing.policy().keeps_out(from.parse().expect("an address"));
        for here in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(!keeps_out(&sealing, here), "{here}");
        }
        for elsewhere in ["10.0.0.9:1", "[fd00::1]:1", "[::ffff:10.0.0.9]:1"] {
            assert!(keeps_out(&sealing, elsewhere), "{elsewhere}");
        }
        sealing.set_policy(SealPolicy::clear());
        assert!(!keeps_out(&sealing, "10.0.0.9:1"), "somebody said so");
        for mode in [SealMode::Permit, SealMode::Prefer, SealMode::Require] {
            sealing.set_policy(SealPolicy::new(mode, KeyRing::new([key(1)]).expect("a ring")));
            assert!(!keeps_out(&sealing, "10.0.0.9:1"), "{mode}");
        }
    }

    #[test]
    fn who_lacks_a_key_is_told_which() {
        let id = KeyId([0xab, 0xcd, 0xef, 0x01]);
        let from = SocketAddr::from(([10, 0, 0, 9], 7117));
        for mode in SealMode::ALL {
            let told = words(SealError::UnknownKey(id), 3, from, mode);
            assert!(
                told.contains("abcdef01") && told.contains("10.0.0.9:7117") && told.contains("3 packets"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_node_without_keys_takes_no_sealed_connection_for_a_clear_one() {
        let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
        let (sealing, from) = (Sealing::off(journal), SocketAddr::from(([10, 0, 0, 9], 7117)));
        let greeting = sealing.link(true).expect("random numbers").greeting(&key(1));
        let mut link = sealing.link(false).expect("random numbers");
        assert_eq!(sealing.take(&mut link, from, &greeting), Err(SealError::UnknownKey(key(1).id())));
        assert!(!link.is_ready());
        let mut link = sealing.link(false).expect("random numbers");
        assert_eq!(sealing.take(&mut link, from, b"HC\x01\0"), Ok(LinkStep::Clear));
        assert_eq!(sealing.refused()[SealError::UnknownKey(key(1).id()).index()], 1);
    }

    #[test]
    fn every_connection_has_a_random_value_of_its_own() {
        // Of one run and one number, so that nothing but the value tells two greetings apart.
        let greeting = |is_opener: bool| {
            let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
            Sealing::off(journal).link(is_opener).expect("random numbers").greeting(&key(1))
        };
        for is_opener in [true, false] {
            assert_ne!(greeting(is_opener), greeting(is_opener), "whole connections could be recorded and played");
        }
    }
}
