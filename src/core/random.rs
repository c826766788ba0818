//! Random numbers: of one seed, a stream for each machine, which owns it. A change of what one draws moves no choice of another.
//!
//! Must not know: what is drawn.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The machines that draw, each with the number of its stream, which stands for it for good: a new machine gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Stream {
    Prover = 0,
    Confirmations = 1,
    Detector = 2,
    Gossip = 3,
    Joiner = 4,
    Lead = 5,
    Moving = 6,
    Messages = 7,
    Paths = 8,
    Reunion = 9,
    Sponsor = 10,
}

/// Returns one stream of a seed.
pub(crate) fn stream(seed: u64, of: Stream) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(of as u64);
    rng
}
