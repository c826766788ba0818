//! The client of the client commands, and its errors in terms of the command line.
//!
//! Invariant: every error becomes one [`Failure`] that names the agent and says what to try, by the flags of the
//! command line instead of HTTP.

use std::path::Path;

use super::args::AgentAddress;
use super::failure::{Exit, Failure};
use super::human::plain;
use super::threads::{self, CLIENT_THREADS};
use crate::client::{Client, ClientError};
use crate::config::{Token, TokenFileError};
use crate::json::{LeaderAddress, Problem};

/// Returns a client of the agent that the arguments name.
pub(super) fn connect(agent: &AgentAddress) -> Result<Client, Failure> {
    threads::check(CLIENT_THREADS)?;
    let client = Client::new(&agent.http)?;
    let token = agent.token_file.as_deref().map(read_token).transpose()?;
    Ok(match token {
        Some(token) => client.with_token(token),
        None => client,
    })
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let what = error.to_string();
        match &error {
            ClientError::Refused(problem) => told(problem),
            ClientError::Address { .. } => Failure::usage(what).hint("write it as in --http 127.0.0.1:7118"),
            ClientError::HostNotFound { .. } => Failure::failed(what).hint("check the name given with --http"),
            ClientError::Unreachable { .. } => Failure::failed(what).hint(
                "is it running, and is that its HTTP port (7118 by default) and not its gossip port? one that ended says why in \
                 its log; start one with `headcount agent`, or name another with --http",
            ),
            ClientError::TimedOut { .. } => {
                Failure::failed(what).hint("its process is overloaded, stopped (SIGSTOP) or hangs: look at its log, then restart it")
            }
            ClientError::NotHttp { .. } => {
                Failure::failed(what).hint("the HTTP port is not the gossip port: by default it is 7118")
            }
            ClientError::Status { .. } => Failure::failed(what).hint("is this a headcount agent? name one with --http"),
            ClientError::Answer { .. } => Failure::failed(what)
                .hint("is this a headcount agent, and neither much newer nor older than this command?"),
        }
    }
}

/// Returns the failure for an agent's refusal, with a hint in terms of the command line instead of HTTP.
fn told(problem: &Problem) -> Failure {
    let failure = Failure::failed(plain(&problem.detail));
    let word = problem.kind.rsplit(':').next().unwrap_or_default();
    match (word, &problem.hint) {
        ("no-such-member", _) => failure.hint("`headcount members` lists them all"),
        ("may-be-alive", _) => failure
            .hint("mend the network first; --force removes it all the same, and ends its agent when it hears of that"),
        ("not-down", _) => failure.hint("--force removes it all the same, and its process will stop"),
        ("oneself", _) => failure.hint("`headcount leave` has it leave"),
        ("not-leader", _) => failure.hint(match &problem.leader {
            Some(leader) => {
                format!("ask {} by --http, with the HTTP address of its agent{}", plain(&leader.id), place(leader))
            }
            None => "`headcount leader` says who leads, or why nobody does".to_owned(),
        }),
        ("token", _) => failure.hint("name the file with the agent's token by --token-file"),
        (_, Some(hint)) => failure.hint(plain(hint)),
        (_, None) => failure,
    }
}

/// Returns the known addresses of a leader, as a text; its HTTP address is not among them.
fn place(leader: &LeaderAddress) -> String {
    let gossip = leader.address.as_ref().map(|address| format!("its gossip is at {}", plain(address)));
    let api = leader.api_address.as_ref().map(|address| format!("its api_address is {}", plain(address)));
    let known: Vec<_> = gossip.into_iter().chain(api).collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}

/// Reads the token from a file.
pub(super) fn read_token(path: &Path) -> Result<Token, Failure> {
    Token::read(path).map_err(|error| {
        let path = plain(&path.to_string_lossy());
        let hint = match &error {
            TokenFileError::Unreadable(_) => "name the file with the agent's token by --token-file",
            _ => "make one with `openssl rand -hex 32`",
        };
        Failure::new(Exit::USAGE, format!("the token file {path} {error}")).hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_a_mistake_in_the_command_line() {
        let refused = Client::new("https://10.0.0.1:7118").map_err(Failure::from).expect_err("not HTTP");
        assert_eq!(refused.exit(), Exit::USAGE);
        assert!(refused.to_string().contains("HTTPS") && refused.to_string().contains("--http"), "{refused}");
    }

    #[test]
    fn an_agent_that_is_not_there_is_said_so_with_what_to_try() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let http = listener.local_addr().expect("an address").to_string();
        drop(listener);
        let client = connect(&AgentAddress { http: http.clone(), token_file: None }).expect("a client");
        let failure = Failure::from(client.info().expect_err("nobody is there"));
        let text = failure.to_string();
        assert!(text.starts_with(&format!("cannot reach an agent at {http}")), "{text}");
        assert!(text.contains("headcount agent") && text.contains("--http"), "{text}");
        assert_eq!(failure.exit(), Exit::FAILED);
    }

    #[test]
    fn a_refusal_of_a_follower_says_whom_to_ask_and_how() {
        let told = |leader: &str| {
            let json = format!(
                r#"{{"type":"urn:headcount:problem:not-leader","title":"","status":409,"detail":"no","hint":"ask"{leader}}}"#
            );
            told(&serde_json::from_str(&json).expect("a problem")).to_string()
        };
        let leader = r#","leader":{"id":"b","address":"10.0.0.2:7117","api_address":null}"#;
        let expected = "no; ask b by --http, with the HTTP address of its agent (its gossip is at 10.0.0.2:7117)";
        assert_eq!(told(leader), expected);
        assert_eq!(told(""), "no; `headcount leader` says who leads, or why nobody does");
    }
}
