//! Proofs without memory: nonces and cookies are keyed hashes of the facts that they prove, so that asking a million
//! strangers needs no table. The key lives as long as the run.
//!
//! Invariants: a nonce or a cookie holds for one address (and run) and two minutes at most.
//!
//! Must not know: what is granted for a proof.

use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use rand::Rng;
use siphasher::sip::SipHasher24;

use crate::member::Run;
use crate::time::Time;
use crate::wire::Nonce;

/// Makes and checks nonces (SipHash-2-4; Aumasson and Bernstein, 2012).
#[derive(Debug, Clone)]
pub(crate) struct Prover {
    key: [u8; 16],
}

impl Prover {
    pub(crate) fn new(rng: &mut impl Rng) -> Self {
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        Self { key }
    }

    /// Returns the nonce that a node that receives packets at `address` can echo, in the minute it is made and in the
    /// next.
    pub(crate) fn nonce(&self, address: SocketAddr, now: Time) -> Nonce {
        self.seal(0, address, Run(0), minute(now))
    }

    /// Returns true if a nonce was sent to this address in the last minutes.
    pub(crate) fn is_nonce(&self, nonce: Nonce, address: SocketAddr, now: Time) -> bool {
        (0..2).any(|ago| self.seal(0, address, Run(0), minute(now) - ago) == nonce)
    }

    /// Returns the cookie that a joiner must return: valid in the minute it is made and in the next.
    pub(crate) fn cookie(&self, address: SocketAddr, run: Run, now: Time) -> Nonce {
        self.seal(1, address, run, minute(now))
    }

    /// Returns true if this run returned a cookie that was sent to this address in the last minutes.
    pub(crate) fn is_cookie(&self, cookie: Nonce, address: SocketAddr, run: Run, now: Time) -> bool {
        (0..2).any(|ago| self.seal(1, address, run, minute(now) - ago) == cookie)
    }

    fn seal(&self, purpose: u8, address: SocketAddr, run: Run, minute: u64) -> Nonce {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        purpose.hash(&mut hasher);
        match address {
            SocketAddr::V4(v4) => v4.ip().octets().hash(&mut hasher),
            SocketAddr::V6(v6) => v6.ip().octets().hash(&mut hasher),
        }
        address.port().hash(&mut hasher);
        run.0.hash(&mut hasher);
        minute.hash(&mut hasher);
        Nonce(hasher.finish())
    }
}

fn minute(now: Time) -> u64 {
    now.as_nanos() / 60_000_000_000
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_cookie_holds_for_its_address_its_run_and_a_minute() {
        let prover = Prover::new(&mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
        let (here, there) = ("10.0.0.1:1".parse().expect("address"), "10.0.0.2:1".parse().expect("address"));
        let now = Time::ORIGIN;
        let cookie = prover.cookie(here, Run(1), now);
        assert!(prover.is_cookie(cookie, here, Run(1), now + Duration::from_secs(60)));
        assert!(!prover.is_cookie(cookie, here, Run(1), now + Duration::from_secs(121)));
        assert!(!prover.is_cookie(cookie, there, Run(1), now));
        assert!(!prover.is_cookie(cookie, here, Run(2), now));
        assert_ne!(prover.nonce(here, now), prover.nonce(there, now));
        let nonce = prover.nonce(here, now);
        assert!(prover.is_nonce(nonce, here, now + Duration::from_secs(60)));
        assert!(!prover.is_nonce(nonce, here, now + Duration::from_secs(121)));
    }
}
