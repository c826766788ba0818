//! The ports and the name of a node that need not run: whether they are free for it, or who has them.
//!
//! Invariants: a port is tried without anybody listening there, and at no moment by two; nothing is believed of a process
//! that does not answer as a member does.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

use super::probe::Udp;
use super::report::Finding;
use super::{Manner, Probed, Target, probe_all};
use crate::cli::human::plain;
use crate::config::Config;
use crate::core::NodeId;
use crate::seal::Key;
use crate::transport::advertised::first_of_interfaces;

/// The holder of a node's gossip port on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder {
    /// The port is free.
    Nobody,
    /// An agent of the cluster, by its node's name, and the address that it tells others.
    Member(String, SocketAddr),
    /// A process that does not say who it is.
    Somebody,
}

/// Returns the holder of the gossip port of this configuration: whoever has it is asked who it is.
pub(super) fn holder(config: &Config, cluster: &str, key: Option<&Key>) -> Holder {
    let bind = config.listens_at();
    // The system chooses a free one.
    if bind.port() == 0 || !(is_taken(bind, Type::DGRAM) || is_taken(bind, Type::STREAM)) {
        return Holder::Nobody;
    }
    let ip = match bind.ip() {
        IpAddr::V4(four) if !four.is_unspecified() => bind.ip(),
        IpAddr::V6(six) if !six.is_unspecified() => bind.ip(),
        // Whoever listens on all addresses of IPv6 does so on those of IPv4.
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    let manner = key.map_or(Manner::Clear, |key| Manner::Sealed(key.id()));
    let address = SocketAddr::new(ip, bind.port());
    let target = Target { name: "this machine".to_owned(), address, manner, is_down: false };
    match probe_all(vec![target], cluster, key).into_iter().next().map(|probed| probed.probe.udp) {
        Some(Udp::Member(record)) => Holder::Member(record.id.to_string(), record.address),
        _ => Holder::Somebody,
    }
}

/// Returns true if a process of this machine holds a port.
pub(super) fn is_taken(address: SocketAddr, kind: Type) -> bool {
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), kind, None)?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // As agents bind: a connection that ended just now holds no port.
        #[cfg(unix)]
        if kind == Type::STREAM {
            socket.set_reuse_address(true)?;
        }
        socket.bind(&address.into())
    };
    matches!(bind(), Err(error) if error.kind() == ErrorKind::AddrInUse)
}

/// Returns the address of this machine, other than loopback, at which a port is taken, as by an agent that is bound to all
/// addresses.
pub(super) fn also_listens_at(port: u16) -> Option<SocketAddr> {
    let every = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let address = SocketAddr::new(first_of_interfaces(every)?, port);
    is_taken(address, Type::DGRAM).then_some(address)
}

/// Judges the holder of the gossip port, and the HTTP port if it is taken.
pub(super) fn judge(config: &Config, holder: &Holder, taken_http: Option<SocketAddr>) -> Vec<Finding> {
    let (name, bind) = (&config.name, config.listens_at());
    let port = bind.port();
    let which = format!("`ss -lntup 'sport = :{port}'` names the process");
    let mut findings = vec![match holder {
        Holder::Nobody => Finding::ok("ports", "the gossip port is free"),
        Holder::Member(id, told) if *id == name.as_str() && told.ip().is_loopback() && !bind.ip().is_loopback() => {
            let found = format!(
                "this node's agent runs here and tells others {told}, where this machine alone reaches it; it is to listen at {bind}"
            );
            Finding::warn("ports", found, Some("restart it: the address counts from the next start on"))
        }
        Holder::Member(id, _) if *id == name.as_str() => {
            Finding::ok("ports", format!("this node's agent runs here, on port {port}"))
        }
        Holder::Member(id, _) => Finding::fail(
            "ports",
            format!("the gossip port {port} is taken by the agent of {}", plain(id)),
            "give each agent of a machine ports of its own (bind, http.bind)",
        ),
        Holder::Somebody => Finding::warn(
            "ports",
            format!("the gossip port {port} is taken, and who has it does not say that it is this node"),
            Some(&format!("right if this node's agent runs there, and joins; else choose another bind: {which}")),
        ),
    }];
    let runs_here = matches!(holder, Holder::Member(id, _) if *id == name.as_str());
    if let Some(http) = taken_http.filter(|_| !runs_here && *holder != Holder::Somebody) {
        findings.push(Finding::fail(
            "ports",
            format!("the address for HTTP, {http}, is taken by another process"),
            &format!("choose another http.bind; `ss -lntp 'sport = :{}'` names the process", http.port()),
        ));
    }
    findings
}

/// Returns the finding that a live member elsewhere has this node's name. Of two such nodes one ends.
pub(super) fn name_in_use(name: &NodeId, holder: &Holder, probed: &[Probed]) -> Option<Finding> {
    // It may be this very node: seeds may name it.
    if *holder != Holder::Nobody {
        return None;
    }
    let other = probed.iter().find(|one| matches!(&one.probe.udp, Udp::Member(record) if record.id == *name))?;
    Some(Finding::fail(
        "name",
        format!("{name} is the name of the member at {}, and no agent of this node runs here", other.target.address),
        "names are unique: choose another one; an agent that starts with it ends at once",
    ))
}
