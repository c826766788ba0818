//! SRV records (RFC 2782): the names and ports of seeds, from the system's name servers.
//!
//! Invariant: an answer comes within [`LOOKUP_TIMEOUT`](crate::transport::LOOKUP_TIMEOUT); of many records the preferred ones count, by priority and weight.
//!
//! Must not know: to which addresses the names resolve: they are looked up as all names are.

#[cfg(feature = "srv")]
pub(super) use self::with_a_resolver::look_up;

use super::list::Seeds;

#[cfg(not(feature = "srv"))]
#[expect(clippy::unused_async, reason = "as where there is a resolver")]
pub(super) async fn look_up(_name: &str) -> Result<Seeds, String> {
    Err("this program was built without SRV records (cargo feature srv)".to_owned())
}

#[cfg(feature = "srv")]
mod with_a_resolver {
    use hickory_resolver::config::{ResolverConfig, ResolverOpts};
    use hickory_resolver::net::runtime::TokioRuntimeProvider;
    use hickory_resolver::proto::rr::RData;
    use hickory_resolver::{Resolver, TokioResolver};
    use tokio::time::timeout;

    use super::Seeds;
    use crate::config::check_host_port;
    use crate::core::limits::MAX_SEEDS;
    use crate::transport::LOOKUP_TIMEOUT;

    /// Returns the seeds that the SRV records of this name are.
    pub(crate) async fn look_up(name: &str) -> Result<Seeds, String> {
        // Read anew each time: name servers change while an agent runs.
        let read = tokio::task::spawn_blocking(hickory_resolver::system_conf::read_system_conf);
        let read = read.await.map_err(|died| died.to_string())?;
        let (config, options) = read.map_err(|error| format!("the system's name servers are not known: {error}"))?;
        look_up_at(name, config, options).await
    }

    /// Returns the seeds that these name servers know.
    pub(super) async fn look_up_at(name: &str, config: ResolverConfig, options: ResolverOpts) -> Result<Seeds, String> {
        let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        let resolver: TokioResolver = builder.build().map_err(|error| error.to_string())?;
        // Absolute: search domains would ask for other names when this one is not there.
        let name = format!("{}.", name.trim_end_matches('.'));
        let answer = timeout(LOOKUP_TIMEOUT, resolver.srv_lookup(name.as_str())).await;
        let answer = answer.map_err(|_| format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs()))?;
        let answer = answer.map_err(|error| error.to_string())?;
        let mut records: Vec<_> = answer
            .answers()
            .iter()
            .filter_map(|record| match &record.data {
                RData::SRV(srv) => {
                    Some((srv.priority, std::cmp::Reverse(srv.weight), srv.target.to_string(), srv.port))
                }
                _ => None,
            })
            .collect();
        records.sort();
        let seeds = records.into_iter().map(|(_, _, target, port)| format!("{}:{port}", target.trim_end_matches('.')));
        // A target of "." says that there is no such service.
        let seeds: Vec<String> = seeds.filter(|seed| check_host_port(seed).is_ok()).take(MAX_SEEDS).collect();
        if seeds.is_empty() { Err("it has none".to_owned()) } else { Ok(Seeds { seeds, refused: None }) }
    }
}

#[cfg(all(test, feature = "srv"))]
mod tests {
    use std::net::UdpSocket;

    use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};

    use super::Seeds;
    use super::with_a_resolver::look_up_at;

    /// One SRV record: priority, weight, port, target.
    type Srv = (u16, u16, u16, &'static str);

    fn name(text: &str) -> Vec<u8> {
        let labels = text.split('.').filter(|label| !label.is_empty());
        labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).chain([0]).collect()
    }

    /// Returns the answer to a query with one question: these records for this name, for another one that it does not exist.
    fn answer(query: &[u8], known: &str, records: &[Srv]) -> Vec<u8> {
        let end = 12 + query[12..].iter().position(|byte| *byte == 0).expect("the end of a name") + 5;
        let question = &query[12..end];
        let is_known = question.to_ascii_lowercase().starts_with(&name(known)) && question.ends_with(&[0, 33, 0, 1]);
        let count = if is_known { records.len() as u8 } else { 0 };
        let refused = if is_known { 0 } else { 3 };
        let mut answer = [&query[..2], &[0x85, 0x80 | refused, 0, 1, 0, count, 0, 0, 0, 0], question].concat();
        for (priority, weight, port, target) in records.iter().take(count.into()) {
            let target = name(target);
            // The name of the question, SRV, IN, five seconds.
            answer.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 5]);
            answer.extend((6 + target.len() as u16).to_be_bytes());
            answer.extend([priority, weight, port].iter().flat_map(|number| number.to_be_bytes()));
            answer.extend(target);
        }
        answer
    }

    /// Starts a little name server on loopback, and returns where it is.
    fn name_server(known: &'static str, records: &'static [Srv]) -> ResolverConfig {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let address = socket.local_addr().expect("an address");
        std::thread::spawn(move || {
            let mut query = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut query) {
                let _ = socket.send_to(&answer(&query[..length], known, records), from);
            }
        });
        at(address.port())
    }

    fn at(port: u16) -> ResolverConfig {
        let mut server = NameServerConfig::udp([127, 0, 0, 1].into());
        server.connections[0].port = port;
        ResolverConfig::from_name_servers(vec![server])
    }

    const NAME: &str = "_headcount._udp.example.internal";

    #[tokio::test]
    async fn records_are_seeds_by_priority_and_weight() {
        let server = name_server(
            NAME,
            &[
                (20, 0, 7117, "last.example.internal"),
                (10, 1, 7117, "second.example.internal"),
                (10, 9, 7127, "first.example.internal."),
                (30, 0, 0, "."),
            ],
        );
        let found = look_up_at(NAME, server, ResolverOpts::default()).await;
        let seeds = ["first.example.internal:7127", "second.example.internal:7117", "last.example.internal:7117"];
        assert_eq!(found, Ok(Seeds { seeds: seeds.map(str::to_owned).into(), refused: None }));
    }

    #[tokio::test]
    async fn a_name_without_records_is_no_seed_and_the_search_list_is_not_tried() {
        let server = name_server(NAME, &[(1, 1, 7117, "a.internal")]);
        let error =
            look_up_at("_headcount._udp.example", server, ResolverOpts::default()).await.expect_err("not there");
        assert!(error.contains("_headcount._udp.example"), "{error}");
        let server = name_server(NAME, &[(0, 0, 0, ".")]);
        assert_eq!(look_up_at(NAME, server, ResolverOpts::default()).await, Err("it has none".to_owned()));
    }

    #[tokio::test]
    async fn a_name_server_that_does_not_answer_is_not_waited_for() {
        let deaf = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let server = at(deaf.local_addr().expect("an address").port());
        let began = std::time::Instant::now();
        assert!(look_up_at(NAME, server, ResolverOpts::default()).await.is_err());
        assert!(began.elapsed() < crate::transport::LOOKUP_TIMEOUT * 5, "{:?}", began.elapsed());
    }
}
