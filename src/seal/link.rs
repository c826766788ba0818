//! One end of a link: greetings, and frames bound to the connection, to the direction and to their place in it.
//!
//! ```text
//! opener ── greeting: random value ──▶ acceptor
//! opener ◀── greeting: random value, bound to the opener's ── acceptor
//! both: frames, bound to both values, counted from 0 in each direction
//! ```
//!
//! The first frame of a connection decides whether it is clear or sealed, and it stays so. What was recorded fits nowhere
//! else: another connection has other values, another direction another channel, another place another nonce. A greeting
//! that is played to an acceptor again leads nowhere: the next frame would have to be bound to a value that the acceptor has
//! just drawn. So nothing is remembered of greetings, and there is no window that somebody else's numbers could move.
//!
//! An acceptor that cannot open the first frame, or takes no clear one, says why in a [`turned_down`] frame and closes:
//! whoever looks for its cluster learns that one is there. Anybody on the way can forge that, and gains that somebody waits.
//!
//! Invariants: all greetings are of one length, so that the answer to one that was recorded is no longer than it was; an
//! error ends the connection; after an error nothing is sent or taken any more.

use super::SealError;
use super::cipher::{self, Channel, Nonce, TAG_BYTES};
use super::datagram::{FIXED_BYTES, run_in};
use super::key::{Key, KeyId};
use super::mode::SealMode;
use super::ring::KeyRing;
use headcount_core::wire::VERSION;
use headcount_core::{Run, Unopened};

/// The bytes that a sealed frame is longer than its contents.
pub const FRAME_OVERHEAD: usize = KeyId::BYTES + TAG_BYTES;
/// The mark of a greeting.
const GREETING: u8 = 2;
/// The mark of the answer to a first frame that is not taken.
const TURNED_DOWN: u8 = 4;
/// The mark of a clear frame that brings a broadcast past all links.
pub const DIRECT_CALL: u8 = 5;
const RANDOM_BYTES: usize = 16;

type Random = [u8; RANDOM_BYTES];

/// Returns the frame that tells an opener why its first frame is not taken.
pub fn turned_down(why: Unopened) -> [u8; 5] {
    let reason = Unopened::ALL.iter().position(|other| *other == why).unwrap_or_default();
    [b'H', b'C', VERSION, TURNED_DOWN, reason as u8]
}

/// Returns the reason in such a frame; `None` if it is another one. Whatever its version says, this is its form.
pub fn why_turned_down(frame: &[u8]) -> Option<Unopened> {
    match *frame {
        [b'H', b'C', _, TURNED_DOWN, reason] => Unopened::ALL.get(usize::from(reason)).copied(),
        _ => None,
    }
}

/// Returns true if a frame, of which this is the beginning, is a clear packet, or a clear direct call.
pub fn is_clear_packet(frame: &[u8]) -> bool {
    matches!(frame, [b'H', b'C', _, 0 | DIRECT_CALL, ..])
}

/// The next step after a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkStep {
    /// The other end greeted: send this greeting, if there is one. From now on frames can be sealed.
    Greeted(Option<Vec<u8>>),
    /// A packet.
    Frame(Vec<u8>),
    /// A packet that was not sealed: the frame itself.
    Clear,
}

/// One end of a connection.
#[derive(Debug)]
pub struct LinkSealer {
    run: Run,
    cluster: Box<str>,
    /// The number of this end of the connection, which no other end of this run has.
    number: u64,
    random: Random,
    is_opener: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing came yet.
    Waiting,
    Clear,
    Sealed {
        sends: Direction,
        takes: Direction,
        /// Both random values, the opener's first.
        binding: [u8; 2 * RANDOM_BYTES],
    },
    Failed,
}

/// One direction of a connection.
#[derive(Debug)]
struct Direction {
    channel: Channel,
    run: Run,
    number: u64,
    next: u64,
}

impl Direction {
    fn next(&mut self) -> Option<Nonce> {
        let place = self.next;
        self.next += 1;
        (place <= Nonce::MAX_PLACE).then(|| Nonce::new(self.channel, self.run, self.number, place))
    }
}

impl LinkSealer {
    /// Returns the opener's end. `number` is drawn once per connection end of a run; `random` is drawn for this
    /// connection alone.
    pub fn opener(run: Run, cluster: &str, number: u64, random: [u8; 16]) -> Self {
        Self { run, cluster: cluster.into(), number, random, is_opener: true, state: State::Waiting }
    }

    /// Returns the acceptor's end, with the same arguments.
    pub fn acceptor(run: Run, cluster: &str, number: u64, random: [u8; 16]) -> Self {
        Self { is_opener: false, ..Self::opener(run, cluster, number, random) }
    }

    /// Returns the greeting with which the opener begins a sealed connection.
    pub fn greeting(&self, key: &Key) -> Vec<u8> {
        self.greet(key, Channel::OpenerGreeting, &[])
    }

    /// Makes the connection clear, as an opener that seals nothing begins one.
    pub fn stay_clear(&mut self) {
        self.state = State::Clear;
    }

    /// Returns true if frames can be sent.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Clear | State::Sealed { .. })
    }

    /// Returns true if the connection is clear.
    pub fn is_clear(&self) -> bool {
        matches!(self.state, State::Clear)
    }

    /// Seals a packet; `None` if the connection is not greeted, failed, or is clear.
    pub fn seal(&mut self, key: &Key, packet: &[u8]) -> Option<Vec<u8>> {
        let State::Sealed { sends, binding, .. } = &mut self.state else { return None };
        let nonce = sends.next()?;
        let mut frame = Vec::with_capacity(packet.len() + FRAME_OVERHEAD);
        frame.extend_from_slice(&key.id().0);
        frame.extend_from_slice(packet);
        let tag = cipher::seal(key.secret(), nonce, &bound(key.id(), binding), &mut frame[KeyId::BYTES..]);
        frame.extend_from_slice(&tag);
        Some(frame)
    }

    /// Takes a frame.
    pub fn take(&mut self, mode: SealMode, ring: &KeyRing, frame: &[u8]) -> Result<LinkStep, SealError> {
        let step = self.step(mode, ring, frame);
        if step.is_err() {
            self.state = State::Failed;
        }
        step
    }

    fn step(&mut self, mode: SealMode, ring: &KeyRing, frame: &[u8]) -> Result<LinkStep, SealError> {
        match &mut self.state {
            State::Failed => Err(SealError::Malformed),
            State::Clear if mode.accepts_clear() => Ok(LinkStep::Clear),
            State::Clear => Err(SealError::Unsealed),
            State::Sealed { takes, binding, .. } => {
                let nonce = takes.next().ok_or(SealError::Malformed)?;
                open(ring, nonce, binding, frame).map(LinkStep::Frame)
            }
            State::Waiting => self.take_first(mode, ring, frame),
        }
    }

    fn take_first(&mut self, mode: SealMode, ring: &KeyRing, frame: &[u8]) -> Result<LinkStep, SealError> {
        if frame.get(3) != Some(&GREETING) || !frame.starts_with(b"HC") {
            // An opener that greeted expects a greeting and nothing else.
            if self.is_opener || !mode.accepts_clear() {
                return Err(SealError::Unsealed);
            }
            self.state = State::Clear;
            return Ok(LinkStep::Clear);
        }
        if !mode.accepts_sealed() {
            return Err(SealError::Unsealed);
        }
        let (channel, bound_to) = if self.is_opener {
            (Channel::AcceptorGreeting, &self.random[..])
        } else {
            (Channel::OpenerGreeting, &[][..])
        };
        let Greeting { run, number, random, key } = read_greeting(ring, channel, &self.bind(bound_to), frame)?;
        let theirs = |channel| Direction { channel, run, number, next: 0 };
        let ours = |channel| Direction { channel, run: self.run, number: self.number, next: 0 };
        let (greeting, sends, takes, binding) = if self.is_opener {
            (None, ours(Channel::OpenerFrame), theirs(Channel::AcceptorFrame), [self.random, random])
        } else {
            let greeting = self.greet(&key, Channel::AcceptorGreeting, &random);
            (Some(greeting), ours(Channel::AcceptorFrame), theirs(Channel::OpenerFrame), [random, self.random])
        };
        let mut both = [0; 2 * RANDOM_BYTES];
        both.copy_from_slice(binding.as_flattened());
        self.state = State::Sealed { sends, takes, binding: both };
        Ok(LinkStep::Greeted(greeting))
    }

    /// Returns what a greeting is authenticated with beside its header: the cluster's name, and the opener's value in an answer.
    fn bind(&self, opener: &[u8]) -> Vec<u8> {
        [self.cluster.as_bytes(), opener].concat()
    }

    fn greet(&self, key: &Key, channel: Channel, bound_to: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&[b'H', b'C', VERSION, GREETING]);
        bytes.extend_from_slice(&self.run.0.to_le_bytes());
        bytes.extend_from_slice(&key.id().0);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        let header = [&bytes[..], &self.bind(bound_to)].concat();
        let mut contents = self.random;
        let nonce = Nonce::new(channel, self.run, self.number, 0);
        let tag = cipher::seal(key.secret(), nonce, &header, &mut contents);
        bytes.extend_from_slice(&contents);
        bytes.extend_from_slice(&tag);
        bytes
    }
}

struct Greeting {
    run: Run,
    number: u64,
    random: Random,
    key: Key,
}

fn read_greeting(ring: &KeyRing, channel: Channel, bound_to: &[u8], frame: &[u8]) -> Result<Greeting, SealError> {
    if frame[2] != VERSION {
        return Err(SealError::UnknownVersion);
    }
    let id = frame
        .get(FIXED_BYTES..)
        .and_then(|rest| rest.first_chunk())
        .map(|id| KeyId(*id))
        .ok_or(SealError::Malformed)?;
    let rest = &frame[FIXED_BYTES + KeyId::BYTES..];
    let (number, sealed) = rest.split_first_chunk().ok_or(SealError::Malformed)?;
    if sealed.len() != RANDOM_BYTES + TAG_BYTES {
        return Err(SealError::Malformed);
    }
    let number = u64::from_le_bytes(*number);
    let key = ring.find(id).ok_or(SealError::UnknownKey(id))?;
    let header = [&frame[..frame.len() - sealed.len()], bound_to].concat();
    let run = run_in(&frame[4..]).ok_or(SealError::Malformed)?;
    let mut random = [0; RANDOM_BYTES];
    random.copy_from_slice(&sealed[..RANDOM_BYTES]);
    let nonce = Nonce::new(channel, run, number, 0);
    if run.is_nobody() || !cipher::open(key.secret(), nonce, &header, &mut random, &sealed[RANDOM_BYTES..]) {
        return Err(SealError::Forged);
    }
    Ok(Greeting { run, number, random, key: key.clone() })
}

fn open(ring: &KeyRing, nonce: Nonce, binding: &[u8; 2 * RANDOM_BYTES], frame: &[u8]) -> Result<Vec<u8>, SealError> {
    let (id, sealed) = frame.split_first_chunk().ok_or(SealError::Malformed)?;
    let id = KeyId(*id);
    let (contents, tag) = sealed.split_at_checked(sealed.len().wrapping_sub(TAG_BYTES)).ok_or(SealError::Malformed)?;
    let key = ring.find(id).ok_or(SealError::UnknownKey(id))?;
    let mut contents = contents.to_vec();
    if cipher::open(key.secret(), nonce, &bound(id, binding), &mut contents, tag) {
        Ok(contents)
    } else {
        Err(SealError::Forged)
    }
}

/// Returns the bytes that a frame is authenticated with.
fn bound(id: KeyId, binding: &[u8; 2 * RANDOM_BYTES]) -> [u8; KeyId::BYTES + 2 * RANDOM_BYTES] {
    let mut bytes = [0; KeyId::BYTES + 2 * RANDOM_BYTES];
    bytes[..KeyId::BYTES].copy_from_slice(&id.0);
    bytes[KeyId::BYTES..].copy_from_slice(binding);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_ends_when_there_is_no_place_left_that_was_not_used() {
        let last = Nonce::MAX_PLACE;
        let mut direction = Direction { channel: Channel::OpenerFrame, run: Run(1), number: 2, next: last };
        assert_eq!(direction.next(), Some(Nonce::new(Channel::OpenerFrame, Run(1), 2, last)));
        assert_eq!([direction.next(), direction.next()], [None, None], "none is used twice");
    }
}
