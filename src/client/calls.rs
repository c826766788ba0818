//! The calls: one method each, typed.
//!
//! Invariant: names and topics are escaped, so that no text of a caller becomes another path.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::Client;
use super::address::{percent, with_query};
use super::error::ClientError;
use crate::json::{
    AddKey, AddVoter, Drained, Info, JoinRequest, JoinResult, JoinResults, Keys, Leader, LeaseNodes, LedWork, Member,
    Problem, Recover, Removed, Resign, Sent, SetTags, Verdict, View, Voters,
};
use crate::lease::LeaseName;
use crate::seal::{Key, KeyId};

/// The status of a removal that enough peers have confirmed.
const CONFIRMED: u16 = 200;
/// The time for which an agent's answer is awaited beyond the timeout of the request to another member.
const GRACE: Duration = Duration::from_secs(5);

/// The members that are asked for: all but those that left, unless statuses are named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberQuery {
    statuses: Vec<String>,
    tags: Vec<String>,
}

impl MemberQuery {
    /// Returns a query for all members but those that left.
    pub fn all() -> Self {
        Self::default()
    }

    /// Asks for members in these statuses only, by their [names](crate::Status::NAMES).
    #[must_use]
    pub fn statuses(mut self, statuses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.statuses.extend(statuses.into_iter().map(Into::into));
        self
    }

    /// Asks for members with these tags only, each `key=value`, or `key` for any value.
    #[must_use]
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }
}

/// The answer of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// True if the check passed.
    pub is_ok: bool,
    /// The agent's word: `ok`, or the reason why not.
    pub reason: String,
}

impl Client {
    /// Returns the members that the agent sees, without those that left, sorted by name.
    pub fn members(&self) -> Result<Vec<Member>, ClientError> {
        self.members_where(&MemberQuery::all())
    }

    /// Returns some of the members that the agent sees, sorted by name.
    pub fn members_where(&self, query: &MemberQuery) -> Result<Vec<Member>, ClientError> {
        self.get(&with_query("/v1/members", &[("status", &query.statuses), ("tag", &query.tags)]))?.json()
    }

    /// Returns one member; `None` if the agent knows none of this name.
    pub fn member(&self, id: &str) -> Result<Option<Member>, ClientError> {
        match self.get(&format!("/v1/members/{}", percent(id))) {
            Ok(answer) => answer.json().map(Some),
            Err(error) if error.problem_word() == "no-such-member" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the agent's own state and settings.
    pub fn info(&self) -> Result<Info, ClientError> {
        self.get("/v1/info")?.json()
    }

    /// Returns the agent's judgement of its node and its cluster: the state, the reasons, and what to do.
    pub fn verdict(&self) -> Result<Verdict, ClientError> {
        self.get("/v1/verdict")?.json()
    }

    /// Returns the agent's own state and settings, and the time by its clock, in whole seconds, if it says it.
    pub fn info_with_time(&self) -> Result<(Info, Option<SystemTime>), ClientError> {
        let answer = self.get("/v1/info")?;
        let at = answer.date().and_then(|date| date_of(&date));
        Ok((answer.json()?, at))
    }

    /// Has the agent contact other nodes. If none of them answers, the [`Problem`] of the error has all outcomes.
    pub fn join(&self, addresses: impl IntoIterator<Item = impl Into<String>>) -> Result<Vec<JoinResult>, ClientError> {
        let request = JoinRequest { addresses: addresses.into_iter().map(Into::into).collect() };
        self.send_json("POST", "/v1/join", &request).map(|answer: JoinResults| answer.results)
    }

    /// Has the agent leave its cluster and stop. It is still there for a moment when this returns.
    pub fn leave(&self) -> Result<(), ClientError> {
        self.post("/v1/leave").map(drop)
    }

    /// Tells the agent that a member gave no answer: its detector asks that one now.
    pub fn doubt(&self, id: &str) -> Result<(), ClientError> {
        self.post(&format!("/v1/doubt/{}", percent(id))).map(drop)
    }

    /// Takes a member out of the listing; with `force` even if it is not down.
    pub fn remove(&self, id: &str, force: bool) -> Result<Removed, ClientError> {
        let force = if force { "?force=true" } else { "" };
        let path = format!("/v1/members/{}{force}", percent(id));
        let answer = self.delete(&path)?;
        let is_confirmed = answer.status() == CONFIRMED;
        let removed: Removed = answer.json()?;
        // The status says the same, and did so before there was a key for it.
        Ok(Removed { confirmed: is_confirmed, ..removed })
    }

    /// Replaces all tags of the agent's node; returns those that it has now.
    pub fn set_tags(&self, tags: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ClientError> {
        self.send_json("PUT", "/v1/tags", &SetTags { tags }).map(|answer: SetTags| answer.tags)
    }

    /// Has the agent's node drain: it stays up, and neither leads nor is to be given new work.
    pub fn drain(&self) -> Result<Drained, ClientError> {
        self.send_json("POST", "/v1/drain", &())
    }

    /// Ends the draining of the agent's node.
    pub fn undrain(&self) -> Result<Drained, ClientError> {
        self.send_json("POST", "/v1/undrain", &())
    }

    /// Returns the leader that the agent knows: of the cluster, or by a lease in a database.
    pub fn leader(&self, lease: Option<&LeaseName>) -> Result<Leader, ClientError> {
        self.get(&with_lease("/v1/leader", lease))?.json()
    }

    /// Returns the agent's own node as the leader, confirmed by a majority or the database; an error unless it leads.
    pub fn confirm_leader(&self, lease: Option<&LeaseName>) -> Result<Leader, ClientError> {
        self.get(&with_lease("/v1/leader?confirm=true", lease))?.json()
    }

    /// Has the leader give leadership up, to a voter if one is named; returns the leader that the agent knows then.
    pub fn resign(&self, to: Option<&str>, lease: Option<&LeaseName>) -> Result<Leader, ClientError> {
        let request = Resign { to: to.map(str::to_owned) };
        self.send_json("POST", &with_lease("/v1/leader/resign", lease), &request)
    }

    /// Begins a piece of work that is done only while the agent's node leads.
    pub fn begin_work(&self, lease: Option<&LeaseName>) -> Result<LedWork, ClientError> {
        self.send_json("POST", &with_lease("/v1/leader/work", lease), &())
    }

    /// Asks for how long a piece of work may go on.
    pub fn renew_work(&self, id: &str) -> Result<LedWork, ClientError> {
        self.send_json("POST", &format!("/v1/leader/work/{}", percent(id)), &())
    }

    /// Reports that a piece of work has ended, so that leadership may be handed over.
    pub fn end_work(&self, id: &str) -> Result<LedWork, ClientError> {
        self.delete(&format!("/v1/leader/work/{}", percent(id)))?.json()
    }

    /// Returns the nodes in the table of a lease, the leader first.
    pub fn lease_nodes(&self, lease: Option<&LeaseName>) -> Result<LeaseNodes, ClientError> {
        self.get(&with_lease("/v1/lease/nodes", lease))?.json()
    }

    /// Returns the voters, and how each of them stands.
    pub fn voters(&self) -> Result<Voters, ClientError> {
        self.get("/v1/voters")?.json()
    }

    /// Adds a voter.
    pub fn add_voter(&self, id: &str) -> Result<Voters, ClientError> {
        self.send_json("POST", "/v1/voters", &AddVoter { id: id.to_owned(), replaces: None })
    }

    /// Puts a member in the place of a voter.
    pub fn replace_voter(&self, old: &str, new: &str) -> Result<Voters, ClientError> {
        self.send_json("POST", "/v1/voters", &AddVoter { id: new.to_owned(), replaces: Some(old.to_owned()) })
    }

    /// Takes a voter out.
    pub fn remove_voter(&self, id: &str) -> Result<Voters, ClientError> {
        self.delete(&format!("/v1/voters/{}", percent(id)))?.json()
    }

    /// Begins a new electorate, when the majority of the old one is lost for good.
    pub fn recover(&self, request: &Recover) -> Result<Voters, ClientError> {
        self.send_json("POST", "/v1/recover", request)
    }

    /// Returns the keys that packets are sealed with, by their ids, and who holds them.
    pub fn keys(&self) -> Result<Keys, ClientError> {
        self.get("/v1/keys")?.json()
    }

    /// Has all members accept one more key; returns who holds what then.
    pub fn add_key(&self, key: &Key) -> Result<Keys, ClientError> {
        self.send_json("POST", "/v1/keys", &AddKey { key: key.to_base64().as_str().to_owned() })
    }

    /// Has all members accept a key that the agent holds, such as members that were away when it was added; returns who
    /// holds what then.
    pub fn add_key_again(&self, id: KeyId) -> Result<Keys, ClientError> {
        self.send_json("POST", "/v1/keys", &AddKey { key: id.to_string() })
    }

    /// Has all members seal with a key; returns who holds what then.
    pub fn use_key(&self, id: KeyId, force: bool) -> Result<Keys, ClientError> {
        self.post(&format!("/v1/keys/{id}/use?force={force}"))?.json()
    }

    /// Has all members accept a key no more; returns who holds what then.
    pub fn remove_key(&self, id: KeyId, force: bool) -> Result<Keys, ClientError> {
        self.delete(&format!("/v1/keys/{id}?force={force}"))?.json()
    }

    /// Returns the members that the voters agreed on last.
    pub fn view(&self) -> Result<View, ClientError> {
        self.get("/v1/view")?.json()
    }

    /// Says something to every live member.
    pub fn broadcast(&self, topic: &str, payload: &[u8]) -> Result<Sent, ClientError> {
        self.post_bytes(&format!("/v1/broadcast/{}", percent(topic)), payload)?.json()
    }

    /// Says something to one member, and waits until its agent has it.
    pub fn send(&self, node: &str, topic: &str, payload: &[u8]) -> Result<Sent, ClientError> {
        self.post_bytes(&format!("/v1/send/{}/{}", percent(node), percent(topic)), payload)?.json()
    }

    /// Asks one member something, and returns the answer of a program there. The time limit of the client does not
    /// count, but `timeout` alone.
    pub fn request(&self, node: &str, topic: &str, payload: &[u8], timeout: Duration) -> Result<Vec<u8>, ClientError> {
        let millis = timeout.as_millis();
        let path = format!("/v1/request/{}/{}?timeout_ms={millis}", percent(node), percent(topic));
        let patient = self.clone().with_timeout(timeout.saturating_add(GRACE));
        patient.post_bytes(&path, payload)?.bytes()
    }

    /// Answers the request of this id.
    pub fn reply(&self, id: &str, payload: &[u8]) -> Result<Sent, ClientError> {
        self.post_bytes(&format!("/v1/reply/{}", percent(id)), payload)?.json()
    }

    /// Asks if the agent's process should go on, or be restarted (`/healthz`).
    pub fn health(&self) -> Result<Health, ClientError> {
        self.health_at("/healthz")
    }

    /// Asks if the agent's node should be given requests (`/readyz`).
    pub fn readiness(&self) -> Result<Health, ClientError> {
        self.health_at("/readyz")
    }

    /// Returns the agent's figures, in the OpenMetrics text format.
    pub fn metrics(&self) -> Result<String, ClientError> {
        let answer = self.get("/metrics")?.bytes()?;
        String::from_utf8(answer).map_err(|_| self.unreadable("/metrics", "it is not UTF-8"))
    }

    fn health_at(&self, path: &str) -> Result<Health, ClientError> {
        const UNAVAILABLE: u16 = 503;
        let (status, text) = self.get_text(path)?;
        if status == CONFIRMED || (status == UNAVAILABLE && serde_json::from_str::<Problem>(&text).is_err()) {
            return Ok(Health { is_ok: status == CONFIRMED, reason: text.trim().to_owned() });
        }
        Err(match serde_json::from_str::<Problem>(&text) {
            Ok(problem) => ClientError::Refused(Box::new(problem)),
            Err(_) => ClientError::Status { agent: self.address().to_owned(), status, path: path.to_owned() },
        })
    }
}

/// Returns a path that asks about this lease, if one is given.
fn with_lease(path: &str, lease: Option<&LeaseName>) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    lease.map_or_else(|| path.to_owned(), |lease| format!("{path}{separator}lease={lease}"))
}

/// Parses the date of an HTTP header, as in `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date_of(date: &str) -> Option<SystemTime> {
    jiff::fmt::rfc2822::parse(date).ok().map(|at| at.timestamp().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_are_read() {
        let at = date_of("Thu, 01 Jan 2026 00:00:00 GMT").expect("a date");
        assert_eq!(crate::json::rfc3339(at), "2026-01-01T00:00:00.000Z");
        assert_eq!(date_of("yesterday"), None);
    }

    #[test]
    fn a_lease_is_added_to_any_path() {
        let lease = LeaseName::new("billing").expect("a name");
        assert_eq!(with_lease("/v1/leader", None), "/v1/leader");
        assert_eq!(with_lease("/v1/leader", Some(&lease)), "/v1/leader?lease=billing");
        assert_eq!(with_lease("/v1/leader?confirm=true", Some(&lease)), "/v1/leader?confirm=true&lease=billing");
    }
}
