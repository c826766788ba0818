//! The roster: nodes that the table lists as active, with the addresses that they recorded.
//!
//! Invariants: the table is asked at most once in [`ROSTER_AGE`]. A node that it lists as active counts until it is
//! asked again; where it cannot be read then, until the node's last heartbeat is older than the liveness window.
//!
//! Must not know: who is called.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::Level;

use super::ROSTER_AGE;
use crate::agent::lease_state::{LeaseNodes, Leases};
use crate::core::NodeId;
use crate::journal::Journal;
use crate::lease::LeaseName;
use crate::trouble::Trouble;

/// The time for which the answer of the table is awaited: more than a statement takes, and less than a message lives.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
struct Listed {
    node: NodeId,
    address: SocketAddr,
    /// Until when it counts without another heartbeat.
    until: Instant,
}

/// The nodes that the table listed last.
#[derive(Debug)]
pub(super) struct Roster {
    window: Duration,
    listed: Vec<Listed>,
    asked_at: Option<Instant>,
    /// True if the table could be read when it was asked last.
    was_read: bool,
    /// True if it could ever be read.
    is_known: bool,
    trouble: Trouble,
}

impl Roster {
    /// Returns a roster that was never read, of nodes that are active for this time after a heartbeat.
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            listed: Vec::new(),
            asked_at: None,
            was_read: false,
            is_known: false,
            trouble: Trouble::default(),
        }
    }

    /// Nodes that are active now and have recorded an address, as far as is known.
    pub(super) async fn active(&mut self, leases: &Leases, journal: &Journal) -> Vec<(NodeId, SocketAddr)> {
        if self.is_due() {
            let asked_at = Instant::now();
            self.was_read = false;
            match timeout(LIST_TIMEOUT, leases.nodes(LeaseName::default())).await {
                Ok(Ok(nodes)) => self.read(asked_at, nodes),
                Ok(Err(error)) => self.tell(journal, &error),
                Err(_) => self.tell(journal, &"the database did not answer in time"),
            }
            // Also after an error: a database in trouble is not asked for each message.
            self.asked_at = Some(Instant::now());
        }
        self.now()
    }

    fn is_due(&self) -> bool {
        self.asked_at.is_none_or(|at| at.elapsed() >= ROSTER_AGE)
    }

    fn read(&mut self, asked_at: Instant, nodes: LeaseNodes) {
        (self.was_read, self.is_known) = (true, true);
        let _ = self.trouble.end();
        // A row without an address is no agent's.
        let listed = nodes.nodes.into_iter().filter_map(|row| {
            let until = asked_at + self.window.checked_sub(row.heartbeat_age)?;
            Some(Listed { node: row.node, address: row.rpc_address?, until })
        });
        self.listed = listed.collect();
    }

    /// Returns nodes that were listed as active and are not called any more, since the table cannot be read: they may be
    /// active still.
    pub(super) fn out_of_reach(&self) -> impl Iterator<Item = &NodeId> {
        let now = Instant::now();
        self.listed.iter().filter(move |row| !self.was_read && row.until < now).map(|row| &row.node)
    }

    /// Returns true if the table could be read at any time: without it nobody can say whom a broadcast does not reach.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    fn tell(&mut self, journal: &Journal, why: &dyn std::fmt::Display) {
        if self.trouble.begins() {
            let text =
                format!("broadcasts reach only nodes that gossip reaches: the table of leases cannot be read: {why}");
            journal.say(Level::WARN, text);
        }
    }

    fn now(&self) -> Vec<(NodeId, SocketAddr)> {
        let now = Instant::now();
        // A heartbeat that has become too old since may have been followed by another one.
        let is_news = self.was_read && !self.is_due();
        self.listed
            .iter()
            .filter(|row| is_news || row.until >= now)
            .map(|row| (row.node.clone(), row.address))
            .collect()
    }
}

#[cfg(test)]
impl Roster {
    /// Lists these nodes as active until a moment ago, in a table that cannot be read any more.
    pub(super) async fn lose_for_tests(&mut self, names: &[&str]) {
        let row = |name: &&str| Listed {
            node: NodeId::new(name).expect("a name"),
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            until: Instant::now(),
        };
        (self.listed, self.was_read, self.is_known) = (names.iter().map(row).collect(), false, true);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::agent::clock::Clock;
    use crate::agent::leadership::LeadershipPublisher;
    use crate::agent::lease_state::LeaseNode;

    fn name(text: &str) -> NodeId {
        NodeId::new(text).expect("a name")
    }

    fn row(text: &str, age: u64, port: Option<u16>) -> LeaseNode {
        let rpc_address = port.map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        LeaseNode::for_tests(name(text), rpc_address, Duration::from_secs(age))
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_active_and_has_an_address_counts_until_its_heartbeat_is_too_old() {
        let mut roster = Roster::new(Duration::from_secs(10));
        assert!(roster.is_due());
        let rows = vec![row("a", 2, Some(1)), row("b", 11, Some(2)), row("c", 2, None), row("d", 10, Some(4))];
        roster.read(Instant::now(), LeaseNodes::for_tests(rows));
        let names = |roster: &Roster| roster.now().into_iter().map(|(node, _)| node).collect::<Vec<_>>();
        assert_eq!(names(&roster), [name("a"), name("d")]);
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!(names(&roster), [name("a")], "nobody could ask again");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(names(&roster).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_was_active_counts_until_the_table_is_asked_again_though_its_heartbeat_grows_old() {
        let mut roster = Roster::new(Duration::from_secs(2));
        roster.read(Instant::now(), LeaseNodes::for_tests(vec![row("a", 2, Some(1))]));
        roster.asked_at = Some(Instant::now());
        let moment = Duration::from_millis(1);
        tokio::time::advance(ROSTER_AGE.saturating_sub(moment)).await;
        assert_eq!(roster.now().len(), 1, "it may have written another heartbeat");
        tokio::time::advance(moment).await;
        assert!(roster.is_due() && roster.now().is_empty(), "the table can be asked again");
        (roster.asked_at, roster.was_read) = (Some(Instant::now()), false);
        assert!(roster.now().is_empty(), "it was asked in vain");
        assert_eq!(roster.out_of_reach().collect::<Vec<_>>(), [&name("a")], "what is said now does not reach it");
        roster.read(Instant::now(), LeaseNodes::for_tests(Vec::new()));
        assert_eq!(roster.out_of_reach().count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_asked_once_in_a_while() {
        let mut roster = Roster::new(Duration::from_secs(10));
        roster.asked_at = Some(Instant::now());
        let moment = Duration::from_millis(1);
        tokio::time::advance(ROSTER_AGE.saturating_sub(moment)).await;
        assert!(!roster.is_due());
        tokio::time::advance(moment).await;
        assert!(roster.is_due());
    }

    #[tokio::test]
    async fn a_table_that_cannot_be_read_is_not_asked_again_for_each_message() {
        // The task that asks the database is gone.
        let (leases, _) = Leases::open(LeadershipPublisher::new(), Clock::start(), &[], BTreeMap::new());
        let mut roster = Roster::new(Duration::from_secs(10));
        assert_eq!(roster.active(&leases, &Journal::start(&name("me")).expect("a thread")).await, []);
        assert!(!roster.is_due() && !roster.is_known(), "there is no table");
    }
}
