//! The address that this node advertises, while it runs: a machine may get another one.
//!
//! Only an address that nobody configured is followed, and only when this machine has lost it: a second network card, or
//! another route, is no reason to move. An address that was chosen because the machine had no other (it was still booting,
//! say) is a stopgap: the first other address takes its place.
//!
//! Invariants:
//! - The task keeps no agent alive, and ends with its runtime.
//! - Nothing here blocks: binding a socket to an address sends nothing and waits for nobody.
//!
//! Must not know: how it is found out that the new address is reached (see the core's `moving`).

use std::future::Future;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::Level;

use super::request::Request;
use crate::core::Reply;
use crate::journal::Journal;
use crate::transport::advertised::{self, Advertised};
use crate::transport::resolve::Resolver;
use crate::transport::sources::SeedSources;

/// The longest interval at which this machine is asked whether the address is still its own.
const LONGEST_REVIEW: Duration = Duration::from_secs(1);
/// The part of its suspect timeout in which a node notices that it is elsewhere: others hear it from there, and it hears
/// nobody, until they know.
const REVIEWS_PER_SUSPICION: u32 = 5;

/// The interval at which a machine that had no address is asked whether it has one now. The seeds are looked up each time.
const STOPGAP_REVIEW: Duration = Duration::from_secs(2);

/// Returns the interval at which a node with this suspect timeout asks where it is. One question is a socket that is bound
/// and closed: some ten microseconds.
fn review_interval(suspect_timeout: Duration) -> Duration {
    LONGEST_REVIEW.min(suspect_timeout / REVIEWS_PER_SUSPICION)
}

/// The addresses of a machine.
pub(super) trait Machine {
    /// Returns true if the machine has an address, or if that cannot be found out.
    fn has(&self, ip: IpAddr) -> bool;

    /// Chooses the address to advertise anew.
    fn choose(&self) -> impl Future<Output = Advertised> + Send;
}

/// The settings by which this machine's address is found.
pub(super) struct ThisMachine {
    pub(super) bound: SocketAddr,
    pub(super) seeds: SeedSources,
    pub(super) resolver: Resolver,
}

impl Machine for ThisMachine {
    fn has(&self, ip: IpAddr) -> bool {
        has(ip)
    }

    async fn choose(&self) -> Advertised {
        advertised::advertised(None, self.bound, &self.seeds, &self.resolver).await
    }
}

/// The advertised address, and the means by which another one is found.
pub(super) struct Whereabouts<M> {
    pub(super) advertised: Advertised,
    pub(super) machine: M,
    /// The silence after which others suspect this node.
    pub(super) suspect_timeout: Duration,
    pub(super) journal: Journal,
}

impl<M: Machine> Whereabouts<M> {
    /// Follows the address of this machine until the driver is gone.
    pub(super) async fn follow(mut self, requests: mpsc::WeakSender<Request>) {
        loop {
            let is_stopgap = self.advertised.is_stopgap();
            let interval = if is_stopgap { STOPGAP_REVIEW } else { review_interval(self.suspect_timeout) };
            tokio::time::sleep(interval).await;
            if !is_stopgap && self.machine.has(self.advertised.address.ip()) {
                continue;
            }
            let choice = self.machine.choose().await;
            let found = choice.address;
            if found.ip().is_loopback() || found == self.advertised.address {
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
                Ok(Reply::AddressSet) => self.moved_to(choice),
                // Busy, or leaving: looked at again.
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    fn moved_to(&mut self, choice: Advertised) {
        let lost = std::mem::replace(&mut self.advertised, choice);
        let (found, was) = (choice.address, lost.address);
        let reason = if lost.is_stopgap() {
            format!("this machine has another address than {was} now")
        } else {
            format!("this machine has lost the address {was}")
        };
        let text = format!("{reason}: advertising {found} from now on; set `advertise` to choose one");
        self.journal.say(Level::WARN, text);
    }
}

/// Returns true if this machine has an address, or if that cannot be found out.
fn has(ip: IpAddr) -> bool {
    !matches!(UdpSocket::bind((ip, 0)), Err(error) if error.kind() == ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::timeout;

    use super::*;
    use crate::core::{CommandError, Profile};

    #[test]
    fn a_node_notices_that_it_is_elsewhere_before_it_is_suspected() {
        for profile in [Profile::Local, Profile::Lan, Profile::Default] {
            let suspect_timeout = profile.settings().suspect_timeout;
            let interval = review_interval(suspect_timeout);
            assert!(interval <= LONGEST_REVIEW && interval * 5 <= suspect_timeout, "{profile}: {interval:?}");
        }
    }

    /// A machine with this address, or none but loopback.
    struct FakeMachine {
        address: Arc<Mutex<Option<SocketAddr>>>,
        bound: SocketAddr,
    }

    impl FakeMachine {
        fn address(&self) -> Option<SocketAddr> {
            *self.address.lock().expect("nobody panicked")
        }
    }

    impl Machine for FakeMachine {
        fn has(&self, ip: IpAddr) -> bool {
            ip.is_loopback() || self.address().is_some_and(|address| address.ip() == ip)
        }

        async fn choose(&self) -> Advertised {
            self.address().map_or_else(|| Advertised::stopgap(self.bound), Advertised::configured)
        }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_started_before_its_machine_had_an_address_moves_to_the_first_one_and_stays_there() {
        let journal = Journal::start(&crate::core::NodeId::new("me").expect("a name")).expect("a thread");
        let (sender, mut requests) = mpsc::channel(1);
        let bound = address("0.0.0.0:7117");
        let found = Arc::new(Mutex::new(None));
        let machine = FakeMachine { address: Arc::clone(&found), bound };
        let advertised = Advertised::stopgap(bound);
        let suspect_timeout = Duration::from_secs(2);
        let whereabouts = Whereabouts { advertised, machine, suspect_timeout, journal };
        let task = tokio::spawn(whereabouts.follow(sender.downgrade()));
        let next = timeout(Duration::from_secs(60), requests.recv()).await;
        assert!(next.is_err(), "a machine without an address stays where it is");
        for (has_room, text) in [(false, "10.0.0.5:7117"), (true, "10.0.0.5:7117"), (true, "10.0.0.6:7117")] {
            *found.lock().expect("nobody panicked") = Some(address(text));
            let next = timeout(STOPGAP_REVIEW * 2, requests.recv()).await.expect("it moves");
            let Some(Request::SetAddress { address: moved, answer }) = next else { panic!("another request") };
            assert_eq!(moved, address(text));
            let reply = if has_room { Reply::AddressSet } else { Reply::Refused(CommandError::Busy) };
            assert!(answer.send(reply).is_ok());
            if has_room {
                let next = timeout(Duration::from_secs(60), requests.recv()).await;
                assert!(next.is_err(), "it has an address");
            }
        }
        task.abort();
    }

    #[test]
    fn an_address_of_this_machine_is_told_from_others() {
        assert!(has([127, 0, 0, 1].into()));
        assert!(!has([192, 0, 2, 1].into()), "nobody has one that is set aside for documentation");
    }
}
