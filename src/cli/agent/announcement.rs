//! The line on standard output by which scripts and people learn where an agent listens.

use std::io::Write;
use std::net::SocketAddr;

use serde::Serialize;

use crate::agent::Agent;
use crate::cli::args::LineFormat;
use crate::cli::commands::json_line;
use crate::cli::failure::Failure;

/// The line on standard output: the addresses at which the node really listens.
#[derive(Debug, Serialize)]
pub(super) struct Announcement {
    node: String,
    gossip: String,
    http: Option<String>,
}

impl Announcement {
    pub(super) fn new(agent: &Agent, http: Option<SocketAddr>) -> Self {
        Self {
            node: agent.me().id.to_string(),
            gossip: agent.gossip_address().to_string(),
            http: http.map(|address| address.to_string()),
        }
    }

    pub(super) fn print(&self, out: &mut impl Write, format: LineFormat) -> Result<(), Failure> {
        let Self { node, gossip, http } = self;
        match format {
            LineFormat::Json => json_line(out, self),
            LineFormat::Text => {
                let http = http.as_deref().unwrap_or("-");
                writeln!(out, "headcount: node={node} gossip={gossip} http={http}")?;
                Ok(out.flush()?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announcement_keeps_its_shape() {
        let printed = |http: Option<&str>, format| {
            let http = http.map(str::to_owned);
            let announcement = Announcement { node: "a".to_owned(), gossip: "127.0.0.1:7117".to_owned(), http };
            let mut out = Vec::new();
            announcement.print(&mut out, format).expect("printed");
            String::from_utf8(out).expect("text")
        };
        let http = Some("127.0.0.1:7118");
        assert_eq!(printed(http, LineFormat::Text), "headcount: node=a gossip=127.0.0.1:7117 http=127.0.0.1:7118\n");
        assert_eq!(printed(None, LineFormat::Text), "headcount: node=a gossip=127.0.0.1:7117 http=-\n");
        assert_eq!(
            printed(http, LineFormat::Json),
            "{\"node\":\"a\",\"gossip\":\"127.0.0.1:7117\",\"http\":\"127.0.0.1:7118\"}\n"
        );
        assert_eq!(printed(None, LineFormat::Json), "{\"node\":\"a\",\"gossip\":\"127.0.0.1:7117\",\"http\":null}\n");
    }
}
