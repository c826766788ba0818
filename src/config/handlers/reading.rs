//! Reads handlers from a file's tables, and tells everything that is wrong with them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{HandlerAction, HandlerConfig, MAX_CONCURRENCY, MAX_HANDLERS, MESSAGE, WebhookUrl};
use crate::config::given::{Item, Value};
use crate::config::problem::{Problem, printable};
use crate::config::words;
use crate::core::{NodeId, Tags, Topic};
use crate::event::EventKind;
use crate::text::{MAX_SHOWN, visible};

/// The range of `timeout` and the largest `retry_for`.
const TIMEOUTS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
/// The number of runs at one time where nothing is said.
const DEFAULT_CONCURRENCY: usize = 4;
/// The time for one run where nothing is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for which a web address is tried again where nothing is said.
const DEFAULT_RETRY_FOR: Duration = Duration::from_secs(60);
/// The keys of a handler, in the order of `config.toml`.
const KEYS: [&str; 11] =
    ["name", "command", "url", "token_file", "retry_for", "kinds", "nodes", "tags", "topics", "timeout", "concurrency"];

/// The amount by which a likeness of the last words of two names counts less than one of the whole names.
const LAST_WORD_ALONE: f64 = 0.02;

/// Reads all handlers, or returns all problems; `key` is the name of the whole list, and `range` what may be in it, in words.
pub(crate) fn read(
    (key, range): (&str, &str),
    whole: &Item,
    items: &[Item],
) -> Result<Vec<HandlerConfig>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut handlers: Vec<HandlerConfig> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let Value::Table(entries) = &item.value else {
            let problem = Problem::new(item.source.clone(), format!("is {}", item.value.type_name())).key(key);
            problems.push(problem.hint("write [[handlers]] on a line of its own, and its keys below"));
            continue;
        };
        let mut draft = Draft { item, problems: Vec::new() };
        match draft.handler(at, entries) {
            Some(handler) if handlers.iter().any(|other| other.name == handler.name) => {
                let reason = "is the name of another handler, too";
                let problem = Problem::new(item.source.clone(), reason).key("handlers.name");
                problems.push(problem.found(printable(&format!("\"{}\"", handler.name))));
            }
            Some(handler) => handlers.push(handler),
            None => {}
        }
        problems.append(&mut draft.problems);
    }
    if items.len() > MAX_HANDLERS {
        let problem = Problem::new(whole.source.clone(), "are too many").key(key);
        problems.push(problem.found(format!("a list of {}", items.len())).allowed(range));
    }
    if problems.is_empty() { Ok(handlers) } else { Err(problems) }
}

/// Returns the one of these names that a mistyped one most likely means. The last word says most: of `node_…` there are
/// many.
pub(crate) fn nearest<'a>(unknown: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |known: &&str| {
        let of_last = strsim::jaro_winkler(last_word(known), last_word(unknown)) - LAST_WORD_ALONE;
        strsim::jaro_winkler(known, unknown).max(of_last)
    };
    let alike = names.filter(|known| likeness(known) >= 0.8);
    alike.max_by(|one, other| likeness(one).total_cmp(&likeness(other)))
}

fn last_word(name: &str) -> &str {
    name.rsplit('_').next().unwrap_or(name)
}

/// One handler that is being read.
struct Draft<'a> {
    item: &'a Item,
    problems: Vec<Problem>,
}

impl Draft<'_> {
    fn handler(&mut self, at: usize, entries: &[(String, Item)]) -> Option<HandlerConfig> {
        for (name, item) in entries.iter().filter(|(name, _)| !KEYS.contains(&name.as_str())) {
            let hint = match nearest(name, KEYS.into_iter()) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("keys of a handler are {}", KEYS.join(", ")),
            };
            let reason = format!("unknown key handlers.{}", printable(name));
            self.problems.push(Problem::new(item.source.clone(), reason).hint(hint));
        }
        let given = |name: &str| entries.iter().find(|(given, _)| given == name).map(|(_, item)| item);
        let name = given("name").map_or_else(|| Some(format!("handler-{}", at + 1)), |item| self.name(item));
        let all_kinds = format!("{}, {MESSAGE}", EventKind::NAMES.join(", "));
        let kinds = self.words("kinds", given("kinds"), &all_kinds, |kind| {
            let is_known = kind == MESSAGE || EventKind::NAMES.contains(&kind);
            if is_known {
                return Ok(kind.to_owned());
            }
            let meant = nearest(kind, EventKind::NAMES.iter().copied().chain([MESSAGE]));
            Err(meant.map_or_else(
                || "is no kind of event".to_owned(),
                |meant| format!("is no kind of event: did you mean {meant}?"),
            ))
        });
        let nodes = self.words("nodes", given("nodes"), "names of nodes", |node| {
            NodeId::new(node).map_err(|error| format!("is not a valid name: {error}"))
        });
        let topics = self.words("topics", given("topics"), "1 to 63 characters of [A-Za-z0-9._-]", |topic| {
            Topic::new(topic).map(|topic| topic.to_string()).map_err(|error| format!("is not a valid topic: {error}"))
        });
        let tags = self.tags(given("tags"));
        let timeout = self.duration("timeout", given("timeout"), DEFAULT_TIMEOUT, *TIMEOUTS.start());
        let concurrency = self.concurrency(given("concurrency"));
        let action = match (given("command"), given("url")) {
            (Some(command), None) => self.command(command, given("token_file").or(given("retry_for"))),
            (None, Some(url)) => self.webhook(url, given("token_file"), given("retry_for")),
            (Some(_), Some(url)) => {
                let reason = "stands beside a command: a handler has one of the two";
                self.refuse_url(url, reason, "two handlers for both")
            }
            // An action that was refused is unknown, and was told.
            (None, None) if !self.problems.is_empty() => None,
            (None, None) => {
                let problem = Problem::new(self.item.source.clone(), "has neither command nor url").key("handlers");
                let hint = "write command = [\"/usr/local/bin/notify\"], or url = \"https://…\"";
                self.problems.push(problem.hint(hint));
                None
            }
        };
        let handler = HandlerConfig {
            name: name?,
            action: action?,
            kinds: kinds?,
            nodes: nodes?,
            tags: tags?,
            topics: topics?,
            timeout: timeout?,
            concurrency: concurrency?,
        };
        if let Some(item) = given("topics").filter(|_| !handler.wants_messages()) {
            self.refuse::<()>(
                item,
                "topics",
                "are those of messages, which this handler does not get",
                "kinds with \"message\" in it",
            );
        }
        self.problems.is_empty().then_some(handler)
    }

    fn name(&mut self, item: &Item) -> Option<String> {
        let Value::Text(name) = &item.value else { return self.wrong_type(item, "name", "a string in quotes") };
        match NodeId::new(name) {
            Ok(_) => Some(name.clone()),
            Err(_) => self.refuse(
                item,
                "name",
                "is not a valid name",
                "1 to 63 bytes of [A-Za-z0-9._-], different for each handler",
            ),
        }
    }

    fn command(&mut self, item: &Item, of_a_url: Option<&Item>) -> Option<HandlerAction> {
        const LIST: &str = "a list of words, as in [\"/usr/local/bin/notify\", \"--all\"]";
        if let Some(other) = of_a_url {
            let reason = "has a key beside it that only a url has";
            self.refuse_url::<()>(other, reason, "token_file and retry_for with a url alone");
        }
        let words = match &item.value {
            Value::List(_) => self.words("command", Some(item), "strings in quotes", |word| {
                if word.contains('\0') { Err("contains a NUL byte".to_owned()) } else { Ok(word.to_owned()) }
            })?,
            Value::Text(_) => {
                let allowed = format!("{LIST}; there is no shell, for one write [\"sh\", \"-c\", \"…\"]");
                return self.refuse(item, "command", "is a string", &allowed);
            }
            _ => return self.wrong_type(item, "command", LIST),
        };
        if words.first().is_none_or(String::is_empty) {
            return self.refuse(item, "command", "names no program", LIST);
        }
        Some(HandlerAction::Command(words))
    }

    fn webhook(&mut self, item: &Item, token_file: Option<&Item>, retry_for: Option<&Item>) -> Option<HandlerAction> {
        let retry_for = self.duration("retry_for", retry_for, DEFAULT_RETRY_FOR, Duration::ZERO);
        let token_file = match token_file.map(|item| (item, &item.value)) {
            None => Some(None),
            Some((item, Value::Text(path))) => match words::path(path) {
                Ok(path) => Some(Some(path)),
                Err(reason) => self.refuse(item, "token_file", &reason, "a path"),
            },
            Some((item, _)) => self.wrong_type(item, "token_file", "a path in quotes"),
        };
        let Value::Text(text) = &item.value else { return self.wrong_type(item, "url", "a string in quotes") };
        match WebhookUrl::parse(text) {
            Ok(url) => Some(HandlerAction::Webhook { url, token_file: token_file?, retry_for: retry_for? }),
            Err(reason) => self.refuse_url(item, &reason, "http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH"),
        }
    }

    fn words<T>(
        &mut self,
        key: &str,
        item: Option<&Item>,
        allowed: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let Some(item) = item else { return Some(Vec::new()) };
        let Value::List(items) = &item.value else {
            return self.wrong_type(item, key, "a list of strings");
        };
        let mut words = Vec::new();
        for item in items {
            let parsed = match &item.value {
                Value::Text(text) => parse(text),
                value => Err(format!("is {}, not a string in quotes", value.type_name())),
            };
            match parsed {
                Ok(word) => words.push(word),
                Err(reason) => {
                    self.refuse::<()>(item, key, &reason, allowed);
                }
            }
        }
        (words.len() == items.len()).then_some(words)
    }

    fn tags(&mut self, item: Option<&Item>) -> Option<BTreeMap<String, String>> {
        let Some(item) = item else { return Some(BTreeMap::new()) };
        let Value::Table(entries) = &item.value else {
            return self.wrong_type(item, "tags", "a table of strings, as in { zone = \"eu-1\" }");
        };
        let mut tags = BTreeMap::new();
        for (name, entry) in entries {
            let Value::Text(text) = &entry.value else {
                return self.wrong_type(entry, "tags", "strings in quotes");
            };
            tags.insert(name.clone(), text.clone());
        }
        match Tags::new(tags.clone()) {
            Ok(_) => Some(tags),
            Err(error) => {
                self.refuse(item, "tags", &format!("are no tags: {error}"), "at most 32 keys, 512 bytes in all")
            }
        }
    }

    fn duration(&mut self, key: &str, item: Option<&Item>, default: Duration, least: Duration) -> Option<Duration> {
        let Some(item) = item else { return Some(default) };
        let Value::Text(text) = &item.value else {
            return self.wrong_type(item, key, "a duration with its unit in quotes, as in \"5s\"");
        };
        let most = *TIMEOUTS.end();
        let allowed = format!("{} to {}", humantime::format_duration(least), humantime::format_duration(most));
        match words::duration(text) {
            Ok(time) if (least..=most).contains(&time) => Some(time),
            Ok(_) => self.refuse(item, key, "is out of range", &allowed),
            Err(reason) => self.refuse(item, key, &reason, &allowed),
        }
    }

    fn concurrency(&mut self, item: Option<&Item>) -> Option<usize> {
        let Some(item) = item else { return Some(DEFAULT_CONCURRENCY) };
        let Value::Integer(number) = &item.value else {
            return self.wrong_type(item, "concurrency", "a whole number without quotes");
        };
        let count = usize::try_from(*number).ok().filter(|count| (1..=MAX_CONCURRENCY).contains(count));
        if count.is_none() {
            self.refuse::<()>(item, "concurrency", "is out of range", &format!("1 to {MAX_CONCURRENCY}"));
        }
        count
    }

    fn wrong_type<T>(&mut self, item: &Item, key: &str, write: &str) -> Option<T> {
        let problem = Problem::new(item.source.clone(), format!("is {}", item.value.type_name()));
        self.problems
            .push(problem.key(format!("handlers.{key}")).found(item.found.clone()).hint(format!("write {write}")));
        None
    }

    fn refuse<T>(&mut self, item: &Item, key: &str, reason: &str, allowed: &str) -> Option<T> {
        let problem = Problem::new(item.source.clone(), reason).key(format!("handlers.{key}"));
        self.problems.push(problem.found(visible(&item.found, MAX_SHOWN)).allowed(allowed));
        None
    }

    /// Refuses what a url is, or what stands beside it, without what was found: a url may hold a secret.
    fn refuse_url<T>(&mut self, item: &Item, reason: &str, allowed: &str) -> Option<T> {
        let problem = Problem::new(item.source.clone(), reason).key("handlers.url");
        self.problems.push(problem.found("…").allowed(allowed));
        None
    }
}
