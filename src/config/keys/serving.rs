//! The keys of what a node shows: HTTP, metrics, handlers of events and the log.

use serde_json::json;

use super::{Key, LivePart, Repeated, Slot, Special, cell, optional};
use crate::config::HandlerConfig;
use crate::config::agent::LogFormat;
use crate::config::words;

pub(super) static KEYS: [Key; 11] = [
    Key {
        name: "http.bind",
        default: "127.0.0.1:7118",
        range: "IP:PORT of this machine, or \"off\"; port 0 takes a free one",
        doc: "Where HTTP requests are accepted.",
        special: Special::NONE,
        slot: Slot::Text(|agent, text| {
            agent.http.bind = if text == "off" { None } else { Some(words::address(text)?) };
            Ok(())
        }),
        get: |agent| json!(agent.http.bind.map_or("off".to_owned(), |address| address.to_string())),
    },
    Key {
        name: "http.token_file",
        default: "none",
        range: "a path",
        doc: "The file with the token that every request must bear.",
        special: Special::NONE,
        slot: Slot::Path(|agent| &mut agent.http.token_file),
        get: |agent| optional(agent.http.token_file.as_ref().map(|path| path.display())),
    },
    Key {
        name: "http.read_token_file",
        default: "none",
        range: "a path",
        doc: "The file with a second token, for requests that change nothing.",
        special: Special::NONE,
        slot: Slot::Path(|agent| &mut agent.http.read_token_file),
        get: |agent| optional(agent.http.read_token_file.as_ref().map(|path| path.display())),
    },
    Key {
        name: "http.insecure",
        default: "false",
        range: "true or false",
        doc: "Whether other machines may reach HTTP without a token.",
        special: Special::NONE,
        slot: Slot::Switch(|agent| &mut agent.http.insecure),
        get: |agent| json!(agent.http.insecure),
    },
    Key {
        name: "http.allowed_hosts",
        default: "none",
        range: "at most 64 host names without ports",
        doc: "Names by which HTTP may be asked without a token, beside addresses and localhost.",
        special: Special::NONE,
        slot: Slot::Hosts,
        get: |agent| json!(agent.http.allowed_hosts),
    },
    Key {
        name: "http.max_connections",
        default: "1024",
        range: "8 to 65536",
        doc: "HTTP connections open at one time, event streams included.",
        special: Special::NONE,
        slot: Slot::CountWithin(8..=65_536, |agent| &mut agent.http.max_connections),
        get: |agent| json!(agent.http.max_connections),
    },
    Key {
        name: "http.max_streams",
        default: "1024",
        range: "1 to 65536",
        doc: "Event streams open at one time.",
        special: Special::NONE,
        slot: Slot::CountWithin(1..=65_536, |agent| &mut agent.http.max_streams),
        get: |agent| json!(agent.http.max_streams),
    },
    Key {
        name: "metrics.per_member",
        default: "false",
        range: "true or false",
        doc: "Whether metrics have two series for each member, in views of at most 200 live ones.",
        special: Special::NONE,
        slot: Slot::Switch(|agent| &mut agent.metrics.per_member),
        get: |agent| json!(agent.metrics.per_member),
    },
    Key {
        name: "handlers",
        default: "none",
        range: "at most 64 of [[handlers]], each with a command or a url",
        doc: "What is told of events.",
        special: Special {
            // A handler's address may be a secret.
            repeated: Repeated::Never,
            // One line cannot hold all that is said of handlers.
            cell: |handlers| cell(&handlers.as_array()?.iter().map(|handler| handler["name"].clone()).collect()),
            // The handlers themselves are compared: `get` leaves out some of what they hold.
            differs: |_, old, new| old.handlers != new.handlers,
            ..Special::live(LivePart::Handlers)
        },
        slot: Slot::Handlers,
        get: |agent| agent.handlers.iter().map(HandlerConfig::json).collect(),
    },
    Key {
        name: "log.level",
        default: "info",
        range: "off, error, warn, info, debug, trace, or target=level, with commas between",
        doc: "What is logged.",
        special: Special::live(LivePart::LogLevel),
        slot: Slot::Text(|agent, text| {
            agent.log.level = words::directives(text)?;
            Ok(())
        }),
        get: |agent| json!(agent.log.level),
    },
    Key {
        name: "log.format",
        default: "text",
        range: "text, json",
        doc: "How a log line looks.",
        special: Special::NONE,
        slot: Slot::Text(|agent, text| {
            agent.log.format = text.parse::<LogFormat>().map_err(|_| "is not a valid log format".to_owned())?;
            Ok(())
        }),
        get: |agent| json!(agent.log.format.name()),
    },
];
