//! Broadcasts beyond gossip: brought by calls to nodes that the table lists and the view lacks.

use std::net::SocketAddr;
use std::time::Duration;

use headcount::agent::Inbox;
use headcount::core::MessageId;
use headcount::seal::Key;
use headcount::{Agent, Config, Profile};
use tokio::net::TcpListener;

const PATIENCE: Duration = Duration::from_secs(60);
const KEY: Option<&str> = Some("MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=");
const OTHER_KEY: Option<&str> = Some("OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjEwOTg=");

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    in_time(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// A database for the agents of one test.
struct Table(tempfile::TempDir);

struct Node {
    agent: Agent,
    inbox: Inbox,
}

impl Table {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    /// Starts a node, and waits until it is Up.
    async fn node(&self, name: &str, seeds: &[&Node], key: Option<&str>) -> Node {
        self.node_at(name, seeds, key, None).await
    }

    /// Starts a node whose row says another address than its own.
    async fn node_at(&self, name: &str, seeds: &[&Node], key: Option<&str>, at: Option<SocketAddr>) -> Node {
        let url = format!("sqlite://{}", self.0.path().join("leases.db").display());
        let mut config = Config::new(name).expect("a name").with_profile(Profile::Local).with_lease(&url);
        if let Some(key) = key {
            config = config.with_keys([Key::parse(key).expect("a key")]);
        }
        config.bind = "127.0.0.1:0".parse().ok();
        config.seeds = seeds.iter().map(|seed| seed.agent.gossip_address().to_string()).collect();
        // Nobody is taken for inactive because the machine is busy.
        config.leadership.timing.lease_duration = Duration::from_secs(60);
        config.leadership.timing.renewal_interval = Duration::from_secs(4);
        config.leadership.lease.liveness_window = Some(Duration::from_secs(50));
        config.leadership.lease.rpc_address = at;
        let agent = Agent::start(config).await.expect("it starts");
        in_time("it is up", agent.wait_until_up()).await.expect("up");
        let inbox = agent.listen([]).expect("a listener");
        Node { agent, inbox }
    }
}

impl Node {
    /// Waits until the table lists so many nodes as active.
    async fn until_listed(&self, count: usize) {
        let lease = headcount::lease::LeaseName::default();
        until("all are listed", async || {
            let listed = self.agent.lease_nodes(&lease).await;
            listed.is_ok_and(|listed| listed.nodes.iter().filter(|node| node.is_active).count() == count)
        })
        .await;
    }

    /// Says something until it is looked at where it is said.
    async fn say(&self, text: &str) -> MessageId {
        in_time("it is said", self.agent.broadcast("t", text.as_bytes())).await.expect("said").id
    }

    /// Waits for the next so many messages of one sender; returns their ids.
    async fn hear(&mut self, count: usize, from: &str) -> Vec<MessageId> {
        let mut heard = Vec::new();
        while heard.len() < count {
            let message = in_time("a message", self.inbox.recv()).await.expect("none is missed");
            if message.from.as_str() == from {
                heard.push(message.id);
            }
        }
        heard
    }

    fn counted(&self) -> (u64, u64, u64) {
        let direct = self.agent.info().direct;
        (direct.delivered, direct.duplicate, direct.failed)
    }

    /// Waits until so many calls have ended.
    async fn until_called(&self, count: u64) {
        until("all calls end", async || {
            let (delivered, duplicate, failed) = self.counted();
            delivered + duplicate + failed >= count
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn islands_that_share_a_table_hear_each_others_broadcasts_once_and_in_order() {
    let table = Table::new();
    let mut a = table.node("a", &[], KEY).await;
    let mut b = table.node("b", &[], KEY).await;
    a.until_listed(2).await;
    b.until_listed(2).await;
    let mut said = Vec::new();
    for at in 0..30 {
        said.push(a.say(&format!("{at}")).await);
    }
    assert_eq!(b.hear(30, "a").await, said);
    a.until_called(30).await;
    assert_eq!(a.counted(), (30, 0, 0));
    // The largest payload fits, too, and the other way works as well.
    let large = in_time("said", b.agent.broadcast("t", &vec![b'x'; 65_536])).await.expect("said").id;
    assert_eq!(a.hear(1, "b").await, [large]);
    a.say("last").await;
    b.hear(1, "a").await;
    // Figures are those of the driver's last wait, which may be before a message that was heard just now.
    let counted = || {
        let counted = b.agent.info().counters.messages;
        (counted.delivered - counted.delivered_here, counted.duplicate)
    };
    until("all are counted", async || counted() == (31, 0)).await;
    a.until_called(31).await;
    assert_eq!(counted(), (31, 0));
    assert_eq!(a.agent.info().counters.messages.copies_sent, 31);
    assert!(b.inbox.try_recv().expect("none is missed").is_none_or(|message| message.from.as_str() == "b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_gossip_reaches_is_not_called_and_only_the_origin_calls() {
    let table = Table::new();
    let a = table.node("a", &[], None).await;
    let mut b = table.node("b", &[&a], None).await;
    let mut island = table.node("island", &[], None).await;
    // On the island of the third, and called itself.
    let mut friend = table.node("friend", &[&island], None).await;
    until("they see each other", async || {
        a.agent.live_members().len() == 2 && b.agent.live_members().len() == 2 && friend.agent.live_members().len() == 2
    })
    .await;
    a.until_listed(4).await;
    let mut said = Vec::new();
    for _ in 0..5 {
        said.push(a.say("x").await);
    }
    for node in [&mut b, &mut island, &mut friend] {
        assert_eq!(node.hear(5, "a").await, said);
    }
    a.until_called(10).await;
    assert_eq!(a.counted(), (10, 0, 0), "each of the other island once, and b never");
    for node in [&b, &island, &friend] {
        assert_eq!(node.counted(), (0, 0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hangs_and_one_that_is_down_keep_it_from_nobody() {
    let table = Table::new();
    let a = table.node("a", &[], None).await;
    // Taken in by the system, and never answered.
    let hanging = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let hangs = table.node_at("a-hangs", &[], None, hanging.local_addr().ok()).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr();
    let down = table.node_at("b-down", &[], None, nobody.ok()).await;
    let mut good = table.node("d-good", &[], None).await;
    a.until_listed(4).await;
    let mut said = Vec::new();
    for _ in 0..8 {
        said.push(a.say("x").await);
    }
    assert_eq!(good.hear(8, "a").await, said);
    let (_, _, failed) = a.counted();
    // One after the other they would all have failed at the node that hangs first, and that takes a quarter of a
    // minute.
    assert!(failed < 8 + 7, "{failed}");
    a.until_called(24).await;
    assert_eq!(a.counted(), (8, 0, 16));
    assert_eq!(a.agent.info().counters.messages.failed, 16);
    for node in [hangs, down] {
        assert_eq!(node.agent.info().counters.messages.received, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_another_key_or_another_name_is_brought_nothing() {
    let table = Table::new();
    let a = table.node("a", &[], KEY).await;
    let strangers = [table.node("b", &[], OTHER_KEY).await, table.node("clear", &[], None).await];
    // Its address has been somebody else's since: that one is not taken for it.
    let c = table.node("c", &[], KEY).await;
    let _moved = table.node_at("d", &[], KEY, Some(c.agent.gossip_address())).await;
    a.until_listed(5).await;
    a.say("x").await;
    a.until_called(4).await;
    assert_eq!(a.counted(), (1, 0, 3), "c alone");
    for stranger in strangers {
        assert_eq!(stranger.agent.info().counters.messages.received, 0);
        stranger.say("x").await;
        stranger.until_called(4).await;
        assert_eq!(stranger.counted(), (0, 0, 4), "nor does anybody take anything of it");
    }
    assert_eq!(c.agent.info().counters.messages.received, 1);
}

mod processes {
    //! Direct deliveries by the command line alone.

    use super::super::cluster::{Database, body};
    use crate::support::wait_for;

    /// Rows are active for long, however busy the machine is.
    const PACE: &str = "lease_duration = \"60s\"\nrenewal_interval = \"25s\"";

    #[test]
    fn agents_without_seeds_of_each_other_hear_each_other_by_their_table() {
        let database = Database::file();
        let agents = ["a", "b"].map(|name| database.agent_with(name, &[], PACE, &[]));
        wait_for("both are listed", || {
            let nodes = body(&agents[0].get_patiently("/v1/lease/nodes"));
            (nodes["nodes"].as_array()?.len() == 2).then_some(())
        });
        // Small whole numbers.
        let count = |at: usize, name: &str| agents[at].metric(&format!("headcount_{name}_total")) as u64;
        assert!(agents[0].client(&["broadcast", "news", "hello"]).0.success());
        wait_for("it arrives", || (count(1, "messages_received") > 0).then_some(()));
        assert_eq!(count(1, "messages_delivered"), 1);
        wait_for("it is counted", || (count(0, "direct_calls_delivered") > 0).then_some(()));
        assert_eq!(count(1, "messages_duplicate"), 0);
    }

    #[test]
    fn trouble_with_a_node_is_told_once_and_a_node_without_http_is_reached() {
        let database = Database::file();
        let a = database.agent_with("a", &[], PACE, &[]);
        let b = database.agent_with("b", &[], PACE, &["--http", "off"]);
        let c = database.agent_with("c", &[], PACE, &[]);
        let gossip = [&b.gossip, &c.gossip].map(String::clone);
        wait_for("all are listed", || {
            let nodes = body(&a.get_patiently("/v1/lease/nodes"));
            let nodes = nodes["nodes"].as_array()?;
            let address = |name: &str| nodes.iter().find(|node| node["node"] == name).map(|node| &node["rpc_address"]);
            (nodes.len() == 3 && *address("b")? == gossip[0] && *address("c")? == gossip[1]).then_some(())
        });
        // Killed: its row is there for a while.
        drop(c);
        for _ in 0..5 {
            assert!(a.client(&["broadcast", "news"]).0.success());
        }
        wait_for("it is counted", || (a.metric("headcount_direct_calls_failed_total") >= 5.0).then_some(()));
        wait_for("it arrives", || (a.metric("headcount_direct_calls_delivered_total") >= 5.0).then_some(()));
        wait_for("it is told", || a.log().contains("could not be brought to it at").then_some(()));
        assert_eq!(a.log().matches("could not be brought to it").count(), 1, "{}", a.log());
        drop(b);
    }
}
