//! The page of the crate's documentation, for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::openapi::{document, refusal};
use super::{Access, CALLS, Call, Content, EVENT_STREAM, Form, Taken};

const HEAD: &str = "\
The HTTP interface: every call, every status, every field. This page and `GET /openapi.json` are made from one table and from the
types in [`json`](crate::json); `GET /` lists the calls.

- **Where**: `http.bind`, `127.0.0.1:7118` by default.
- **Access**: without tokens, whoever reaches the address may do all; calls are then taken under addresses, `localhost` and
  `http.allowed_hosts` alone. With `http.token_file` requests bear `Authorization: Bearer TOKEN`; with `http.read_token_file` there is a
  second token, which may do what is marked *read* below. *Open* calls ask for none. When a token is replaced, open streams end.
  Requests that web pages of others make (`Origin`, `Sec-Fetch-Site`) are refused with 403.
- **JSON**: keys are only ever added. All keys are always present unless they are marked *optional*; unknown values are `null`. Times
  are RFC 3339 in UTC with milliseconds, durations end in `_ms`, runs and fingerprints are 16 hex digits, terms stay below 2^53.
- **Queries**: unknown keys and values are refused with 400. Lists have commas between their items, or repeat the key.
- **Refusals** are `application/problem+json`, a [Problem](#problem): programs look at `type` and `status`, people read `detail` and
  `hint`. Where a leader matters, `leader` names it with its addresses. 405 names the methods that there are in `Allow`, 429 says in
  `Retry-After` when to try again, 401 asks for a token by `WWW-Authenticate`.
- **Bounds**: heads of 8 KiB and 100 lines, 2 KiB of what is read in them (431), paths with their queries of 3 KiB (414), 256 items in a query, bodies of 64 KiB
  (413), answers within 10 s (408), `http.max_connections` and `http.max_streams`.
- **Order**: what a call changes at the agent that is asked (tags, draining, members removed, counters) is in the next answer of that
  agent, but for snapshots of streams, which may be a moment older (a stream brings what its snapshot lacks). Voters, leaders,
  and what others see come a moment later.
- `HEAD` is answered wherever `GET` is.

## Calls

";

/// Returns the page.
pub(super) fn text() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("| call | access | |\n|---|---|---|\n");
    let mut anchors: Vec<String> = Vec::new();
    for call in CALLS {
        let base = anchor(call);
        let same = anchors.iter().filter(|known| **known == base).count();
        anchors.push(base.clone());
        let anchor = if same == 0 { base } else { format!("{base}-{same}") };
        let _ = writeln!(
            page,
            "| [`{} {}`](#{anchor}) | {} | {} |",
            call.method,
            call.path,
            call.access.name(),
            call.brief
        );
    }
    for call in CALLS {
        page.push_str(&section(call));
    }
    page.push_str(&statuses());
    page.push_str("\n## Shapes\n");
    let document = document();
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        page.push_str(&shape(name, schema));
    }
    page
}

/// Returns the anchor that rustdoc and others give to the heading of a call.
fn anchor(call: &Call) -> String {
    let heading = format!("{} {}", call.method, call.path).to_ascii_lowercase();
    let letters = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_') => Some(letter),
        _ => None,
    });
    letters.collect()
}

fn section(call: &Call) -> String {
    let stop = if call.brief.ends_with('?') { "" } else { "." };
    let mut text = format!("\n### `{} {}`\n\n{}{stop}", call.method, call.path, capital(call.brief));
    if call.access == Access::Write {
        text.push_str(" Asks for the token that may do all.");
    }
    if !call.more.is_empty() {
        let _ = write!(text, " {}", call.more);
    }
    text.push_str("\n\n");
    for parameter in call.query {
        let _ = writeln!(text, "- `?{}=` {}: {}", parameter.name, form(parameter.form), parameter.meaning);
    }
    match &call.body {
        Some(Taken::Json(schema, example)) => {
            let _ = writeln!(text, "- body: [{schema}](#{}), as in `{example}`", schema.to_ascii_lowercase());
        }
        Some(Taken::Optional(schema, example)) => {
            let lower = schema.to_ascii_lowercase();
            let _ = writeln!(text, "- body: none, or [{schema}](#{lower}), as in `{example}`");
        }
        Some(Taken::Bytes) => text.push_str("- body: any bytes\n"),
        None => {}
    }
    for answer in call.answers {
        let content = match answer.content {
            Content::Nothing => "no body".to_owned(),
            Content::Json(schema) => format!("[{schema}](#{})", schema.to_ascii_lowercase()),
            Content::List(schema) => format!("a list of [{schema}](#{})", schema.to_ascii_lowercase()),
            Content::Text(kinds) => format!("`{}`", kinds.join("` or `")),
            Content::Events(shapes) => {
                let links: Vec<_> =
                    shapes.iter().map(|shape| format!("[{shape}](#{})", shape.to_ascii_lowercase())).collect();
                format!("`{EVENT_STREAM}` of {}", links.join(", "))
            }
            Content::Bytes => "`application/octet-stream`".to_owned(),
            Content::OpenApi => "`application/json`".to_owned(),
        };
        let _ = writeln!(text, "- **{}** {content}: {}", answer.status, answer.meaning);
    }
    let refused: Vec<String> = call.refused().iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "- refused with {}", refused.join(", "));
    text
}

const fn form(form: Form) -> &'static str {
    match form {
        Form::Names => "(names of members)",
        Form::Lease => "(name)",
        Form::Leases => "(names of leases)",
        Form::Topics => "(topics)",
        Form::Tags => "(`key=value` or `key`, several)",
        Form::Statuses => "(`joining`, `up`, `suspect`, `leaving`, `down`, `left`, several)",
        Form::Kinds => "(several)",
        Form::Flag => "(`true` or `false`)",
        Form::EventId => "(`run-sequence`)",
        Form::Wait => "(1 to 25000)",
    }
}

/// Returns the table of the statuses of refusals.
fn statuses() -> String {
    let mut all: Vec<u16> = CALLS.iter().flat_map(Call::refused).collect();
    all.sort_unstable();
    all.dedup();
    let mut text = "\n## Refusals\n\n| status | meaning |\n|---|---|\n".to_owned();
    for status in all {
        let _ = writeln!(text, "| {status} | {} |", refusal(status));
    }
    text
}

fn shape(name: &str, schema: &Value) -> String {
    let about = schema["description"].as_str().unwrap_or_default();
    let mut text = format!("\n### {name}\n\n{about}\n\n| key | type | |\n|---|---|---|\n");
    let required = schema["required"].as_array();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.is_some_and(|required| required.iter().any(|name| name == key));
        let optional = if is_required { "" } else { ", *optional*" };
        let about = property["description"].as_str().unwrap_or_default().replace('|', "\\|");
        let _ = writeln!(text, "| `{key}` | {}{optional} | {about} |", kind(property));
    }
    text
}

/// Returns the type of a value in words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_str().unwrap_or("null"))).collect();
        return words.join(", ");
    }
    let one = |kind: &str| match kind {
        "array" => format!("list of {}", self::kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map to {}", self::kind(&schema["additionalProperties"]))
        }
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        "string" => "text".to_owned(),
        "boolean" => "true or false".to_owned(),
        kind => kind.to_owned(),
    };
    match &schema["type"] {
        Value::String(kind) => one(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
