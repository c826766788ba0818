//! The address that this node advertises, while it runs: a machine may get another one.
//!
//! Only an address that nobody configured is followed, and only when this machine has lost it: a second network card, or
//! another route, is no reason to move.
//!
//! Invariants:
//! - The task keeps no agent alive, and ends with its runtime.
//! - Nothing here blocks: binding a socket to an address sends nothing and waits for nobody.
//!
//! Must not know: how others come to believe the new address (see the core's `names`).

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::Level;

use super::driver::Request;
use crate::core::Reply;
use crate::journal::Journal;
use crate::transport::resolve::{self, Resolver};
use crate::transport::sources::SeedSources;

/// The longest interval at which this machine is asked whether the address is still its own.
const LONGEST_REVIEW: Duration = Duration::from_secs(1);
/// The part of its suspect timeout in which a node notices that it is elsewhere: others hear it from there, and it hears
/// nobody, until they know.
const REVIEWS_PER_SUSPICION: u32 = 5;

/// Returns the interval at which a node with this suspect timeout asks where it is. One question is a socket that is bound
/// and closed: some ten microseconds.
fn review_interval(suspect_timeout: Duration) -> Duration {
    LONGEST_REVIEW.min(suspect_timeout / REVIEWS_PER_SUSPICION)
}

/// The settings and addresses by which the address is found anew.
pub(super) struct Whereabouts {
    pub(super) advertised: SocketAddr,
    pub(super) bound: SocketAddr,
    pub(super) seeds: SeedSources,
    pub(super) resolver: Resolver,
    /// The silence after which others suspect this node.
    pub(super) suspect_timeout: Duration,
    pub(super) journal: Journal,
}

impl Whereabouts {
    /// Follows the address of this machine until the driver is gone.
    pub(super) async fn follow(mut self, requests: mpsc::WeakSender<Request>) {
        let interval = review_interval(self.suspect_timeout);
        loop {
            tokio::time::sleep(interval).await;
            if has(self.advertised.ip()) {
                continue;
            }
            let found = resolve::advertised(None, self.bound, &self.seeds, &self.resolver).await.address;
            if found.ip().is_loopback() || found == self.advertised {
                // The machine has no address at the moment: the old one may come back.
                continue;
            }
            let Some(requests) = requests.upgrade() else { return };
            let (answer, answered) = oneshot::channel();
            if requests.send(Request::SetAddress { address: found, answer }).await.is_err() {
                return;
            }
            drop(requests);
            match answered.await {
                Ok(Reply::AddressSet) => self.moved_to(found),
                // Busy, or leaving: looked at again.
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    fn moved_to(&mut self, found: SocketAddr) {
        let lost = std::mem::replace(&mut self.advertised, found);
        self.journal.say(
            Level::WARN,
            format!("this machine has lost the address {lost}: advertising {found} from now on; set `advertise` to choose one"),
        );
    }
}

/// Returns true if this machine has an address, or if that cannot be found out.
fn has(ip: IpAddr) -> bool {
    !matches!(UdpSocket::bind((ip, 0)), Err(error) if error.kind() == ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Profile;

    #[test]
    fn a_node_notices_that_it_is_elsewhere_before_it_is_suspected() {
        for profile in [Profile::Local, Profile::Lan, Profile::Default] {
            let suspect_timeout = profile.settings().suspect_timeout;
            let interval = review_interval(suspect_timeout);
            assert!(interval <= LONGEST_REVIEW && interval * 5 <= suspect_timeout, "{profile}: {interval:?}");
        }
    }

    #[test]
    fn an_address_of_this_machine_is_told_from_others() {
        assert!(has([127, 0, 0, 1].into()));
        assert!(!has([192, 0, 2, 1].into()), "nobody has one that is set aside for documentation");
    }
}
