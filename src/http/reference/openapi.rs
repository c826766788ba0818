//! The description in the form of OpenAPI 3.1, whose schemas are JSON Schema 2020-12.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::{Access, CALLS, Call, Content, EVENT_STREAM, Form, Taken};
use crate::core::Status;
use crate::event::EventKind;
use crate::http::MAX_ANSWER_WAIT;
use crate::json::{self as shapes, patterns};

/// Returns the description as it is served: one object or little more a line, so that changes of it can be read.
pub(super) fn text() -> String {
    let text = document().to_string().replace("},\"", "},\n\"");
    assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(document()), "no text in it has such an end");
    text
}

/// Returns the whole description.
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    // One that ends with a slash only leads to the same path without it.
    for call in CALLS.iter().filter(|call| call.path == "/" || !call.path.ends_with('/')) {
        let path = paths.entry(call.path).or_insert_with(|| json!({}));
        path[call.method.to_ascii_lowercase()] = operation(call);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "headcount",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Who is here, who is gone, and who leads. Keys are only ever added; all keys are always present \
                unless they are optional here; unknown values are null. Times are RFC 3339 in UTC, durations end in _ms, \
                runs and fingerprints are 16 hex digits.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "the agent that this description is from" }],
        "tags": TAGS.map(|(name, description)| json!({ "name": name, "description": description })),
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token in http.token_file, which may do all, or for reading the one in \
                        http.read_token_file. None is asked for where neither is set.",
                },
            },
        },
    })
}

/// The groups of calls, and what they are about.
const TAGS: [(&str, &str); 7] = [
    ("members", "who is here, and what happens to them"),
    ("node", "the node whose agent is asked"),
    ("leadership", "who leads, and who elects"),
    ("keys", "the keys of the seal"),
    ("messages", "what programs say to each other"),
    ("monitoring", "for supervisors, load balancers and Prometheus"),
    ("pages", "for people"),
];

/// Returns the group of a call.
fn tag(path: &str) -> &'static str {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    match path.split('/').nth(1).unwrap_or_default() {
        "members" | "events" => "members",
        "leader" | "lease" | "view" | "voters" | "recover" => "leadership",
        "keys" => "keys",
        "broadcast" | "send" | "request" | "reply" => "messages",
        "metrics" | "targets" | "healthz" | "readyz" | "leaderz" => "monitoring",
        "" | "dashboard" | "openapi.json" => "pages",
        _ => "node",
    }
}

fn operation(call: &Call) -> Value {
    let mut operation = json!({
        "tags": [tag(call.path)],
        "operationId": operation_id(call),
        "summary": call.brief,
        "security": if call.access == Access::Open { json!([]) } else { json!([{}, { "token": [] }]) },
        "responses": responses(call),
    });
    if !call.more.is_empty() {
        operation["description"] = call.more.into();
    }
    let in_path = call
        .placeholders()
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": in_path(name) }));
    let in_query = call.query.iter().map(|parameter| {
        let mut shown = json!({
            "name": parameter.name, "in": "query", "required": false,
            "description": parameter.meaning, "schema": schema_of(parameter.form),
        });
        if shown["schema"]["type"] == "array" {
            shown["style"] = "form".into();
            shown["explode"] = false.into();
        }
        shown
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    let body = match &call.body {
        Some(Taken::Json(schema, example)) => Some((schema, example, true)),
        Some(Taken::Optional(schema, example)) => Some((schema, example, false)),
        Some(Taken::Bytes) => {
            let any = json!({ "application/octet-stream": { "schema": {} } });
            operation["requestBody"] = json!({ "required": false, "content": any });
            None
        }
        None => None,
    };
    if let Some((schema, example, required)) = body {
        let example: Value = serde_json::from_str(example).unwrap_or_default();
        let content = json!({ "application/json": { "schema": reference(schema), "example": example } });
        operation["requestBody"] = json!({ "required": required, "content": content });
    }
    operation
}

fn responses(call: &Call) -> Value {
    let mut responses = Map::new();
    for status in call.refused() {
        let content = json!({ "application/problem+json": { "schema": reference("Problem") } });
        responses.insert(status.to_string(), json!({ "description": refusal(status), "content": content }));
    }
    for answer in call.answers {
        let content: Map<String, Value> = match answer.content {
            Content::Nothing => Map::new(),
            Content::Json(schema) => Map::from_iter([json_of(&reference(schema))]),
            Content::List(schema) => Map::from_iter([json_of(&json!({ "type": "array", "items": reference(schema) }))]),
            Content::OpenApi => Map::from_iter([json_of(&json!({ "type": "object" }))]),
            Content::Text(kinds) => {
                let text = json!({ "schema": { "type": "string" } });
                kinds.iter().map(|kind| ((*kind).to_owned(), text.clone())).collect()
            }
            Content::Events(shapes) => {
                let any: Vec<Value> = shapes.iter().map(|shape| reference(shape)).collect();
                let data = json!({ "description": "The `data:` of one event.", "anyOf": any });
                let stream = json!({ "type": "string", "contentMediaType": EVENT_STREAM, "contentSchema": data });
                Map::from_iter([(EVENT_STREAM.to_owned(), json!({ "schema": stream }))])
            }
            Content::Bytes => Map::from_iter([("application/octet-stream".to_owned(), json!({ "schema": {} }))]),
        };
        let entry = responses.entry(answer.status.to_string()).or_insert_with(|| json!({ "content": {} }));
        entry["description"] = answer.meaning.into();
        if let Some(known) = entry["content"].as_object_mut() {
            known.extend(content);
        }
    }
    Value::Object(responses)
}

fn json_of(schema: &Value) -> (String, Value) {
    ("application/json".to_owned(), json!({ "schema": schema }))
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn operation_id(call: &Call) -> String {
    let words = call.path.split('/').filter(|part| !part.is_empty() && *part != "v1");
    let words: Vec<String> = words.map(|part| part.trim_matches(['{', '}']).replace('.', "_")).collect();
    let words = if words.is_empty() { "list".into() } else { words.join("_") };
    format!("{}_{words}", call.method.to_ascii_lowercase())
}

/// Returns the meaning of the status of a refusal.
pub(super) const fn refusal(status: u16) -> &'static str {
    match status {
        400 => "the request is malformed, or its query is not understood",
        401 => "a token is required, and none that this agent takes was presented",
        403 => {
            "the token may only look, or none is configured where one is needed, the host is not allowed, or a web page of another origin asks"
        }
        404 => "there is nothing of this name",
        408 => "the request was not complete and answered in time",
        409 => "the state of this node or of the cluster does not allow it: `detail` says why",
        413 => "the body is too large",
        414 => "the path with its query is too long",
        415 => "the body is not said to be JSON",
        422 => "a value is refused",
        429 => "too many such requests are under way: try again soon",
        431 => "the headers are too long",
        500 => "a bug of the agent",
        502 => "nobody answered",
        503 => "this node is stopping, or what the call needs is not there now",
        504 => "no answer came in time: it is not known if the command was carried out",
        _ => "refused",
    }
}

/// Returns the schema of a part of the path. Names of nothing are answered with 404, topics that are none with 422.
fn in_path(name: &str) -> Value {
    match name {
        "topic" => json!({ "type": "string", "pattern": patterns::TOPIC }),
        _ => json!({ "type": "string", "minLength": 1 }),
    }
}

fn schema_of(form: Form) -> Value {
    // An empty list would name nothing.
    let list = |items: Value| json!({ "type": "array", "minItems": 1, "items": items });
    match form {
        Form::Names | Form::Leases => list(json!({ "type": "string", "pattern": patterns::NAME })),
        Form::Lease => json!({ "type": "string", "pattern": patterns::NAME }),
        Form::Topics => list(json!({ "type": "string", "pattern": patterns::TOPIC })),
        Form::Tags => list(json!({ "type": "string", "pattern": "^[^=,][^,]*$" })),
        Form::Statuses => list(json!({ "enum": Status::NAMES })),
        Form::Kinds => {
            let kinds: Vec<&str> = EventKind::NAMES.iter().copied().chain(["message"]).collect();
            list(json!({ "enum": kinds }))
        }
        Form::Flag => json!({ "type": "boolean" }),
        Form::EventId => json!({ "type": "string", "pattern": patterns::ID }),
        Form::Wait => json!({ "type": "integer", "minimum": 1, "maximum": MAX_ANSWER_WAIT.as_millis() as u64 }),
    }
}

/// Returns the schemas of all shapes: of requests as they are read, of all else as it is written.
fn schemas() -> Map<String, Value> {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
    };
    let mut written = settings().for_serialize().into_generator();
    macro_rules! add {
        ($generator:ident: $($shape:ty),+ $(,)?) => { $(let _ = $generator.subschema_for::<$shape>();)+ };
    }
    add!(written: shapes::Member, shapes::Removed, shapes::Event, shapes::Snapshot, shapes::Lagged, shapes::Missed);
    add!(written: shapes::Message, shapes::JoinResults, shapes::Leader, shapes::LeaseNodes, shapes::LedWork, shapes::View);
    add!(written: shapes::Voters, shapes::Sent, shapes::Info, shapes::TargetGroup, shapes::Problem, shapes::Drained);
    add!(written: shapes::Keys, shapes::Verdict);
    let mut read = settings().for_deserialize().into_generator();
    add!(read: shapes::JoinRequest, shapes::SetTags, shapes::Resign, shapes::AddVoter, shapes::Recover);
    add!(read: shapes::AddKey);
    let taken = |generator: &mut SchemaGenerator, is_read: bool| generator.take_definitions(!is_read);
    let mut all = taken(&mut written, false);
    // Those of serde are what a reader takes for a key that an older agent does not write; this one writes them all.
    let written = all.values_mut().filter_map(|schema| schema["properties"].as_object_mut());
    written.flat_map(Map::values_mut).filter_map(Value::as_object_mut).for_each(|key| drop(key.remove("default")));
    all.extend(taken(&mut read, true));
    all.values_mut().for_each(plain);
    all
}

/// Turns links of the crate's documentation into plain words.
fn plain(value: &mut Value) {
    match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                match value {
                    Value::String(text) if key == "description" => *text = without_links(text),
                    value => plain(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(plain),
        _ => {}
    }
}

fn without_links(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        plain.push_str(before);
        plain.push('`');
        plain.push_str(name);
        plain.push('`');
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    // Lines of comments are broken where the source is.
    format!("{plain}{rest}").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn links_become_words() {
        assert_eq!(without_links("one of [`A::B`](crate::A::B), see\n[`C`]."), "one of `A::B`, see `C`.");
        assert_eq!(without_links("no link [`"), "no link [`");
    }

    #[test]
    fn every_schema_that_is_named_is_there_and_every_key_is_described() {
        let document = document();
        let text = document.to_string();
        for name in text.split("#/components/schemas/").skip(1) {
            let name = name.split('"').next().unwrap_or_default();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
        for (shape, schema) in document["components"]["schemas"].as_object().expect("schemas") {
            for (key, property) in schema["properties"].as_object().expect("properties") {
                let is_told = property["description"].as_str().is_some_and(|text| !text.is_empty());
                assert!(is_told, "{key} of {shape}");
            }
        }
    }

    /// Calls `f` with each schema that has a default or an example, and with that value.
    fn with_values(value: &Value, is_of_names: bool, f: &mut impl FnMut(&Value, &Value)) {
        if let Value::Object(keys) = value {
            // Of a map from names, a key may be called so.
            if !is_of_names {
                keys.get("default").into_iter().for_each(|default| f(value, default));
                keys.get("example").into_iter().for_each(|example| f(keys.get("schema").unwrap_or(value), example));
            }
            keys.iter().for_each(|(key, value)| with_values(value, !is_of_names && key == "properties", f));
        }
        value.as_array().into_iter().flatten().for_each(|value| with_values(value, false, f));
    }

    #[test]
    fn every_default_and_every_example_fits_its_schema() {
        let document = document();
        let mut seen = 0;
        with_values(&document, false, &mut |schema, value| {
            let mut root = schema.clone();
            root["components"] = document["components"].clone();
            let validator = jsonschema::validator_for(&root).expect("a schema");
            assert!(validator.is_valid(value), "{value} of {schema}");
            seen += 1;
        });
        let bodies = CALLS.iter().filter(|call| matches!(call.body, Some(Taken::Json(..) | Taken::Optional(..))));
        assert!(seen > bodies.count(), "this test sees too few");
    }

    #[test]
    fn every_schema_is_used_and_every_call_is_of_a_group() {
        let document = document();
        let text = document.to_string();
        for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
            assert!(text.contains(&format!("#/components/schemas/{name}\"")), "{name}");
        }
        let used: BTreeSet<&str> = CALLS.iter().map(|call| tag(call.path)).collect();
        assert_eq!(used, TAGS.iter().map(|(name, _)| *name).collect());
    }

    #[test]
    fn keys_that_are_always_there_are_required_even_if_they_may_be_null() {
        let schemas = schemas();
        let required = |shape: &str| schemas[shape]["required"].as_array().expect("required").clone();
        for key in ["rtt_ms", "api_address", "method"] {
            assert!(required("Member").contains(&key.into()), "{key}");
        }
        assert!(required("Info").contains(&"leases".into()));
        assert!(!required("Event").contains(&"reason".into()));
    }
}
