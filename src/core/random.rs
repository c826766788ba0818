//! Random numbers: of one seed, a stream for each part of the core. A change of what one part draws moves no choice of
//! another, but for who is told besides of what others spread (`gossip`).
//!
//! Must not know: what is drawn.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The streams, each named after what is drawn from it: for commands, for the detector, for gossip, and so on.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    pub(crate) commands: ChaCha8Rng,
    pub(crate) detector: ChaCha8Rng,
    pub(crate) gossip: ChaCha8Rng,
    pub(crate) joiner: ChaCha8Rng,
    pub(crate) lead: ChaCha8Rng,
    pub(crate) me: ChaCha8Rng,
    pub(crate) paths: ChaCha8Rng,
    pub(crate) reunion: ChaCha8Rng,
    pub(crate) sponsor: ChaCha8Rng,
}

impl Streams {
    /// Returns the streams of one seed.
    pub(crate) fn new(seed: u64) -> Self {
        let of = |number| stream(seed, number);
        Self {
            commands: of(1),
            detector: of(2),
            gossip: of(3),
            joiner: of(4),
            lead: of(5),
            me: of(6),
            paths: of(8),
            reunion: of(9),
            sponsor: of(10),
        }
    }
}

/// Returns one stream of a seed. A number stands for the same part for good: a new part gets a new one. 0 is the prover's, and 7
/// the messages'.
pub(crate) fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}
