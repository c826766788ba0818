//! An event as handlers get it: one line of JSON, and variables for those that read none.
//!
//! Invariant: the JSON is the public shape, byte for byte what the event stream says.

use super::queue::Subject;
use crate::agent::Message;
use crate::core::Run;
use crate::json;

/// The prefix of the variables that describe an event.
const PREFIX: &str = "HEADCOUNT_EVENT_";

/// An event that waits for a handler, or is handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) id: String,
    /// The name of its kind.
    pub(super) kind: String,
    /// The time of observation, as in the JSON.
    pub(super) at: String,
    /// The node that it is about.
    pub(super) node: Subject,
    /// One line, without its end.
    pub(super) json: String,
    /// Names behind the prefix, and values.
    pub(super) variables: Vec<(&'static str, String)>,
}

impl Notice {
    /// Returns the notice of an event that this run observed.
    pub(super) fn of_event(run: Run, event: &crate::Event) -> serde_json::Result<Self> {
        let event = json::Event::new(run, event);
        let json = serde_json::to_string(&event)?;
        let optional = [
            ("ADDRESS", event.address),
            ("STATUS", event.member.map(|member| member.status)),
            ("LIVE_MEMBERS", event.live_members.map(|members| members.to_string())),
            ("REASON", event.reason),
            ("METHOD", event.method),
            ("TERM", event.term.map(|term| term.to_string())),
            ("LEASE", event.lease),
            ("NUMBER", event.number.map(|number| number.to_string())),
        ];
        Ok(Self::new(event.id, event.event, json::rfc3339(event.at), event.node, json, optional))
    }

    /// Returns the notice of a message.
    pub(super) fn of_message(message: &Message) -> serde_json::Result<Self> {
        let message = json::Message::from(message);
        let json = serde_json::to_string(&message)?;
        let json::Message { id, at, event: kind, node, topic, .. } = message;
        Ok(Self::new(id, kind, json::rfc3339(at), Some(node), json, [("TOPIC", Some(topic))]))
    }

    fn new<const N: usize>(
        id: String,
        kind: String,
        at: String,
        node: Subject,
        json: String,
        optional: [(&'static str, Option<String>); N],
    ) -> Self {
        let mut variables = vec![("ID", id.clone()), ("KIND", kind.clone()), ("AT", at.clone())];
        variables.extend(node.clone().map(|node| ("NODE", node)));
        variables.extend(optional.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
        Self { id, kind, at, node, json, variables }
    }

    /// Returns the variables of the environment that describe the event.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, &str)> {
        self.variables.iter().map(|(name, value)| (format!("{PREFIX}{name}"), value.as_str()))
    }

    /// Returns the number of bytes that it takes in a queue, about.
    pub(super) fn bytes(&self) -> usize {
        self.json.len()
    }
}

/// The variable with the number of events that the handler missed.
pub(super) const MISSED: &str = "HEADCOUNT_EVENT_MISSED";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_of_the_number_of_members() {
        let (at, kind) = (std::time::SystemTime::UNIX_EPOCH, crate::EventKind::QuorumLost { term: 3 });
        let event = crate::Event { sequence: 7, at, live_members: 12, kind };
        let notice = Notice::of_event(Run(1), &event).expect("JSON");
        assert!(notice.variables().any(|of| of == ("HEADCOUNT_EVENT_LIVE_MEMBERS".to_owned(), "12")));
    }
}
