//! Random numbers: of one seed, a stream for each part of the core. A change of what one part draws moves no choice of
//! another, but for who is told besides of what others spread (`gossip`).
//!
//! Must not know: what is drawn.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The streams, each named after what is drawn from it: for commands, for the detector, for gossip, and so on.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    pub(crate) messages: ChaCha8Rng,
}

impl Streams {
    /// Returns the streams of one seed.
    pub(crate) fn new(seed: u64) -> Self {
        let of = |number| stream(seed, number);
        Self { messages: of(7) }
    }
}

/// The number of the stream of commands.
pub(crate) const COMMANDS: u64 = 1;
/// The number of the stream of the detector.
pub(crate) const DETECTOR: u64 = 2;
/// The number of the stream of gossip.
pub(crate) const GOSSIP: u64 = 3;
/// The number of the stream of a joiner.
pub(crate) const JOINER: u64 = 4;
/// The number of the stream of what is known of leaders.
pub(crate) const LEAD: u64 = 5;
/// The number of the stream of this node's own changes.
pub(crate) const ME: u64 = 6;
/// The number of the stream of connections.
pub(crate) const PATHS: u64 = 8;
/// The number of the stream of the search for seeds and the lost.
pub(crate) const REUNION: u64 = 9;
/// The number of the stream of a sponsor.
pub(crate) const SPONSOR: u64 = 10;

/// Returns one stream of a seed. A number stands for the same part for good: a new part gets a new one. 0 is the prover's.
pub(crate) fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}
