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

/// The interval at which this machine is asked whether the address is still its own.
const REVIEW: Duration = Duration::from_secs(1);

/// The settings and addresses by which the address is found anew.
pub(super) struct Whereabouts {
    pub(super) advertised: SocketAddr,
    pub(super) bound: SocketAddr,
    pub(super) seeds: SeedSources,
    pub(super) resolver: Resolver,
    pub(super) journal: Journal,
}

impl Whereabouts {
    /// Follows the address of this machine until the driver is gone.
    pub(super) async fn follow(mut self, requests: mpsc::WeakSender<Request>) {
        loop {
            tokio::time::sleep(REVIEW).await;
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

    #[test]
    fn an_address_of_this_machine_is_told_from_others() {
        assert!(has([127, 0, 0, 1].into()));
        assert!(!has([192, 0, 2, 1].into()), "nobody has one that is set aside for documentation");
    }
}
