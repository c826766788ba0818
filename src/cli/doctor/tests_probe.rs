//! Probes of real agents on loopback.

use std::net::SocketAddr;

use super::probe::{Probe, Udp, Voice, probe};
use super::report::Level;
use super::tests::{key, key_from, level_of};
use super::*;
use crate::{Agent, Config, Profile};

pub(super) fn agent_of(runtime: &tokio::runtime::Runtime, name: &str, cluster: &str) -> (Agent, SocketAddr) {
    let config = Config::new(name).expect("a name").with_profile(Profile::Local);
    start(runtime, config, cluster)
}

pub(super) fn start(runtime: &tokio::runtime::Runtime, mut config: Config, cluster: &str) -> (Agent, SocketAddr) {
    config.cluster = cluster.parse().expect("a cluster");
    let start = async {
        let agent = Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("started");
        agent.wait_until_up().await.expect("up");
        agent
    };
    let agent = runtime.block_on(start);
    let address = agent.gossip_address();
    (agent, address)
}

#[test]
fn a_stranger_learns_who_answers_and_joins_nothing() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (agent, address) = agent_of(&runtime, "a", "shop");
    let Probe { udp: Udp::Member(record), tcp } = probe(address, Some(Voice::clear("shop"))) else {
        panic!("it is a member")
    };
    assert_eq!((record.id.as_str(), record.address, tcp), ("a", address, Ok(())));
    assert!(matches!(probe(address, Some(Voice::clear("other"))).udp, Udp::OtherCluster));
    assert_eq!(agent.members().len(), 1, "nobody joined");
    runtime.block_on(agent.leave());
    drop(agent);
    let gone = probe(address, Some(Voice::clear("shop")));
    assert!(matches!(gone.udp, Udp::Silent | Udp::Failed(_)) && gone.tcp.is_err(), "{gone:?}");
}

#[test]
fn members_with_different_timing_are_told_apart() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (agent, address) = agent_of(&runtime, "a", "shop");
    let target = || Target { name: "a".to_owned(), address, manner: Manner::Clear, is_down: false };
    let found = || Probed { target: target(), probe: probe(address, Some(Voice::clear("shop"))) };
    let mut both = vec![found(), found()];
    assert_eq!(level_of(&reach::records(&both), "timing"), Some(Level::Ok));
    if let Udp::Member(record) = &mut both[1].probe.udp {
        record.timing = Profile::Wan.settings().timing().expect("valid");
        record.address = "10.9.9.9:7117".parse().expect("an address");
    }
    let findings = reach::records(&both);
    assert_eq!(level_of(&findings, "timing"), Some(Level::Warn), "{findings:?}");
    assert_eq!(level_of(&findings, "advertised"), Some(Level::Warn), "{findings:?}");
    runtime.block_on(agent.leave());
}

#[test]
fn who_takes_sealed_packets_alone_answers_the_holder_of_its_key_in_its_cluster() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut config = Config::new("a").expect("a name").with_profile(Profile::Local);
    config.seal.keys.push(key());
    let (agent, address) = start(&runtime, config, "shop");
    let asked = |cluster: &str, key: &Key| probe(address, Some(Voice::sealed(cluster, key)));
    let Probe { udp: Udp::Member(record), tcp } = asked("shop", &key()) else { panic!("it is a member") };
    assert_eq!((record.id.as_str(), record.address, tcp), ("a", address, Ok(())));
    let unsealed = || agent.info().refused_seals[crate::seal::SealError::Unsealed.index()];
    assert_eq!(unsealed(), 0, "nothing clear was sent");
    let other = key_from(100);
    for (cluster, key) in [("shop", &other), ("blue", &key())] {
        let said = asked(cluster, key);
        assert!(matches!(said.udp, Udp::Silent) && said.tcp.is_ok(), "{said:?}");
    }
    assert!(matches!(probe(address, None).udp, Udp::Untried));
    assert_eq!(unsealed(), 0, "nothing clear was sent");
    assert_eq!(agent.members().len(), 1, "nobody joined");
    runtime.block_on(agent.leave());
}
