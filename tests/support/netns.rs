//! A little network of namespaces: one per host, joined by a bridge, with cuts and losses between any two of them.
//!
//! Needs root, `ip` and `nft`. All names carry this process's id, and everything is taken down when dropped.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::NamedTempFile;

/// Hosts 10.77.0.1, 10.77.0.2, … behind one bridge.
pub struct Network {
    names: Vec<String>,
    switch: String,
    key: NamedTempFile,
}

impl Network {
    /// Makes a network of `hosts` hosts; the error says why that cannot be had here.
    pub fn new(hosts: usize) -> Result<Self, String> {
        for tool in ["ip", "nft"] {
            let found = Command::new(tool).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
            found.map_err(|error| format!("`{tool}` is needed: {error}"))?;
        }
        static NETWORKS: AtomicU32 = AtomicU32::new(0);
        let tag = format!("{}x{}", std::process::id(), NETWORKS.fetch_add(1, Ordering::Relaxed));
        let switch = format!("hc{tag}sw");
        let mut key = NamedTempFile::new().map_err(|error| format!("no file for a key: {error}"))?;
        key.write_all(b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").map_err(|error| error.to_string())?;
        let mut network = Self { names: Vec::new(), switch: switch.clone(), key };
        run(&["ip", "netns", "add", &switch])?;
        inside(&switch, &["ip", "link", "add", "br0", "type", "bridge"])?;
        inside(&switch, &["ip", "link", "set", "br0", "up"])?;
        for host in 0..hosts {
            network.add_host(&tag, host)?;
        }
        Ok(network)
    }

    fn add_host(&mut self, tag: &str, host: usize) -> Result<(), String> {
        let name = format!("hc{tag}n{host}");
        run(&["ip", "netns", "add", &name])?;
        self.names.push(name.clone());
        let port = format!("p{host}");
        let switch = self.switch.clone();
        inside(&switch, &["ip", "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
        inside(&switch, &["ip", "link", "set", &port, "master", "br0", "up"])?;
        let address = format!("{}/24", self.ip(host));
        inside(&name, &["ip", "address", "add", &address, "dev", "eth0"])?;
        inside(&name, &["ip", "link", "set", "eth0", "up"])?;
        inside(&name, &["ip", "link", "set", "lo", "up"])?;
        inside(&name, &["nft", "add", "table", "inet", "cuts"])?;
        for hook in ["input", "output"] {
            let chain = format!("{{ type filter hook {hook} priority 0 ; }}");
            inside(&name, &["nft", "add", "chain", "inet", "cuts", hook, &chain])?;
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "addresses belong to a network")]
    pub fn ip(&self, host: usize) -> String {
        format!("10.77.0.{}", host + 1)
    }

    /// Returns the path of the file with the key of all its agents.
    pub fn key(&self) -> &str {
        self.key.path().to_str().expect("text")
    }

    /// Runs a program on a host.
    pub fn run(&self, host: usize, words: &[&str]) {
        inside(&self.names[host], words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }

    /// Returns the words that run a program on a host.
    pub fn on(&self, host: usize) -> Vec<String> {
        ["ip", "netns", "exec", &self.names[host]].map(str::to_owned).to_vec()
    }

    /// Drops everything between the hosts of two sides, in both directions.
    pub fn cut(&self, one: &[usize], other: &[usize]) {
        for (side, far) in [(one, other), (other, one)] {
            for (host, peer) in side.iter().flat_map(|host| far.iter().map(move |peer| (*host, *peer))) {
                let ip = self.ip(peer);
                let name = self.names[host].clone();
                for (chain, field) in [("input", "saddr"), ("output", "daddr")] {
                    inside(&name, &["nft", "add", "rule", "inet", "cuts", chain, "ip", field, &ip, "drop"])
                        .expect("a cut");
                }
            }
        }
    }

    /// Drops so many of a hundred packets (1 to 100) from one host to another, in that direction only.
    pub fn lose(&self, from: usize, to: usize, percent: u32) {
        let (name, ip, percent) = (&self.names[to], self.ip(from), (percent - 1).to_string());
        let mut rule = vec!["nft", "add", "rule", "inet", "cuts", "input", "ip", "saddr", &ip];
        rule.extend(["numgen", "random", "mod", "100", "<=", &percent, "drop"]);
        inside(name, &rule).expect("a loss");
    }

    /// Has a firewall before a host drop all datagrams from now on.
    pub fn drop_udp(&self, host: usize) {
        for chain in ["input", "output"] {
            let rule = ["nft", "add", "rule", "inet", "cuts", chain, "meta", "l4proto", "udp", "drop"];
            inside(&self.names[host], &rule).expect("a firewall");
        }
    }

    /// Gives a host another address in place of the old one; returns it.
    pub fn readdress(&self, host: usize) -> String {
        let (name, old, new) = (&self.names[host], self.ip(host), format!("10.77.0.{}", host + 101));
        inside(name, &["ip", "address", "add", &format!("{new}/24"), "dev", "eth0"]).expect("a new address");
        inside(name, &["ip", "address", "delete", &format!("{old}/24"), "dev", "eth0"]).expect("the old one goes");
        // Deleting the first address of a network may take the others with it.
        let _ = inside(name, &["ip", "address", "add", &format!("{new}/24"), "dev", "eth0"]);
        new
    }

    /// Takes a host's address away, or gives it back.
    pub fn set_addressed(&self, host: usize, is_addressed: bool) {
        let (verb, address) = (if is_addressed { "add" } else { "delete" }, format!("{}/24", self.ip(host)));
        inside(&self.names[host], &["ip", "address", verb, &address, "dev", "eth0"]).expect("an address more or less");
    }

    /// Has a firewall before a host answer all of TCP on a port with a reset from now on, and resets what stood as
    /// well.
    pub fn reject_tcp(&self, host: usize, port: u16) {
        let name = &self.names[host];
        for (chain, field) in [("input", "dport"), ("output", "dport")] {
            let port = port.to_string();
            let rule =
                ["nft", "add", "rule", "inet", "cuts", chain, "tcp", field, &port, "reject", "with", "tcp", "reset"];
            inside(name, &rule).expect("a firewall");
        }
        // It says "invalid argument" of sockets that went with the first half of a pair.
        let _ = inside(name, &["ss", "-K", "state", "established", &format!("( sport = :{port} or dport = :{port} )")]);
    }

    /// Returns the number of TCP connections of a host that stand on this port, at either end.
    pub fn connections(&self, host: usize, port: u16) -> usize {
        let filter = format!("( sport = :{port} or dport = :{port} )");
        let words = ["netns", "exec", &self.names[host], "ss", "-Htn", "state", "established", &filter];
        let output = std::process::Command::new("ip").args(words).output().expect("ss runs");
        String::from_utf8_lossy(&output.stdout).lines().count()
    }

    /// Takes all cuts and losses back.
    pub fn heal(&self) {
        for name in &self.names {
            inside(name, &["nft", "flush", "table", "inet", "cuts"]).expect("healed");
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.names.iter().chain([&self.switch]) {
            let _ = run(&["ip", "netns", "delete", name]);
        }
    }
}

fn inside(name: &str, words: &[&str]) -> Result<(), String> {
    let mut all = vec!["ip", "netns", "exec", name];
    all.extend(words);
    run(&all)
}

fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{words:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
