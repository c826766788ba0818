//! The description of the interface, held against a real agent: each call answers with a status that is described, and
//! a body that fits its schema to the key.

use std::collections::BTreeSet;

use headcount::config::LeadershipMode;
use headcount::http::{HttpSettings, Token};
use headcount::{Config, NodeId, Profile};
use serde_json::{Value, json};

use super::support::{Answer, Node, PATIENCE, config, first, of, until_up};

/// A judge of answers, by the description that an agent gives of itself.
struct Judge {
    document: Value,
    /// The calls that succeeded.
    done: BTreeSet<(String, String)>,
    /// The header by which it shows its token, if it has one.
    authorization: Option<String>,
}

impl Judge {
    async fn of(node: &Node) -> Self {
        let answer = node.get("/openapi.json").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let mut judge = Self { document: answer.json(), done: BTreeSet::new(), authorization: None };
        judge.judge("GET", "/openapi.json", &answer);
        // A key that no schema has would be allowed otherwise.
        for schema in judge.document["components"]["schemas"].as_object_mut().expect("schemas").values_mut() {
            schema["additionalProperties"] = false.into();
        }
        judge
    }

    /// Fails unless a value fits a schema of the description.
    fn fits(&self, schema: &Value, value: &Value, what: &str) {
        let mut root = schema.clone();
        root["components"] = self.document["components"].clone();
        let validator = jsonschema::validator_for(&root).expect("a schema");
        let flaws: Vec<String> =
            validator.iter_errors(value).map(|flaw| format!("{flaw} at {}", flaw.instance_path())).collect();
        assert!(flaws.is_empty(), "{what}: {flaws:?} in {value}");
    }

    fn judge(&mut self, method: &str, path: &str, answer: &Answer) {
        let what = format!("{method} {path}: {}", answer.status);
        let responses = &self.document["paths"][path][method.to_ascii_lowercase()]["responses"];
        let response = &responses[answer.status.to_string()];
        assert!(response.is_object(), "{what} is not described: {answer:?}");
        if answer.status < 400 {
            self.done.insert((method.to_owned(), path.to_owned()));
        }
        let content = response["content"].as_object().expect("contents");
        if content.is_empty() {
            return assert_eq!(answer.body, "", "{what}");
        }
        let kind = answer.header("content-type").unwrap_or_default();
        let schema = &content.get(kind).unwrap_or_else(|| panic!("{what}: {kind} is not described"))["schema"];
        if kind.ends_with("json") {
            self.fits(schema, &answer.json(), &what);
        }
    }

    /// Asks a node and judges the answer; returns it if it has the expected status.
    async fn ask(&mut self, node: &Node, call: (&str, &str, &str), body: &str, status: u16) -> Answer {
        let (method, path, query) = call;
        let filled = query.starts_with('/');
        let asked = if filled { query.to_owned() } else { format!("{path}{query}") };
        let json = body.starts_with('{').then_some("content-type: application/json");
        let headers: Vec<&str> = json.into_iter().chain(self.authorization.as_deref()).collect();
        let answer = node.ask(method, &asked, &headers, body).await;
        self.judge(method, path, &answer);
        assert_eq!(answer.status, status, "{method} {asked}: {answer:?}");
        answer
    }
}

async fn is_up(node: &Node) {
    let up = tokio::time::timeout(PATIENCE, node.agent.wait_until_up()).await;
    up.expect("in time").expect("up");
}

#[tokio::test]
async fn every_call_answers_as_it_is_described() {
    let folder = tempfile::tempdir().expect("a folder");
    let voter = |name: &str, seed: Option<&Node>| -> Config {
        let mut config = config(name, seed);
        config.data_dir = Some(folder.path().join(name));
        config.leadership.mode = LeadershipMode::Quorum;
        config.api_address = Some(format!("http://127.0.0.1:80/{name}"));
        config
    };
    let a = of(voter("a", None).with_voters(["a"]).expect("names"), HttpSettings::default()).await;
    let b = of(voter("b", Some(&a)), HttpSettings::default()).await;
    let c = of(config("c", Some(&a)), HttpSettings::default()).await;
    for node in [&a, &b, &c] {
        is_up(node).await;
        until_up(node, 3).await;
    }
    let led = async {
        while !a.agent.leadership().get().is_leader_now() || b.agent.leadership().get().leader.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, led).await.expect("a leads");

    let mut judge = Judge::of(&a).await;
    // Call (with its query, or the path that it becomes), body, status.
    type Case<'a> = ((&'a str, &'a str, &'a str), &'a str, u16);
    let gossip = format!(r#"{{"addresses":["{}"]}}"#, b.agent.gossip_address());
    let begins: &[Case<'_>] = &[
        (("GET", "/v1/members", ""), "", 200),
        (("GET", "/v1/members", "?status=up,suspect&tag=zone"), "", 200),
        (("GET", "/v1/members", "?status=nope"), "", 400),
        (("GET", "/v1/members/{id}", "/v1/members/b"), "", 200),
        (("GET", "/v1/members/{id}", "/v1/members/z"), "", 404),
        (("GET", "/v1/members/{id}", "/v1/members/%ff"), "", 400),
        (("DELETE", "/v1/members/{id}", "/v1/members/z"), "", 404),
        (("DELETE", "/v1/members/{id}", "/v1/members/c"), "", 409),
        (("GET", "/v1/events", "?kind=nope"), "", 400),
        (("POST", "/v1/join", ""), &gossip, 200),
        (("POST", "/v1/join", ""), r#"{"addresses":["nonsense"]}"#, 502),
        (("POST", "/v1/join", ""), r#"{"addresses":[]}"#, 422),
        (("POST", "/v1/join", ""), "{", 400),
        (("POST", "/v1/join", ""), "no json", 415),
        (("PUT", "/v1/tags", ""), r#"{"tags":{"zone":"eu"}}"#, 200),
        (("PUT", "/v1/tags", ""), r#"{"tags":{"a=b":""}}"#, 422),
        (("GET", "/v1/leader", ""), "", 200),
        (("GET", "/v1/leader", "?confirm=true"), "", 200),
        (("GET", "/v1/leader", "?lease=x"), "", 404),
        (("GET", "/v1/leader", "?lease="), "", 400),
        (("GET", "/leaderz", ""), "", 200),
        (("GET", "/leaderz", "?lease=x"), "", 404),
        (("GET", "/v1/lease/nodes", ""), "", 409),
        (("GET", "/v1/view", ""), "", 200),
        (("GET", "/v1/voters", ""), "", 200),
        (("POST", "/v1/voters", ""), r#"{"id":"a"}"#, 409),
        (("POST", "/v1/voters", ""), r#"{"id":"no name"}"#, 422),
        (("POST", "/v1/voters", ""), r#"{"id":"b"}"#, 200),
        (("DELETE", "/v1/voters/{id}", "/v1/voters/z"), "", 409),
        (("POST", "/v1/recover", ""), r#"{"voters":["a"]}"#, 409),
        (("POST", "/v1/recover", ""), r#"{"voters":[]}"#, 422),
        (("POST", "/v1/leader/resign", ""), r#"{"to":"z"}"#, 409),
        (("POST", "/v1/leader/work/{id}", "/v1/leader/work/none"), "", 404),
        (("DELETE", "/v1/leader/work/{id}", "/v1/leader/work/none"), "", 404),
        (("POST", "/v1/broadcast/{topic}", "/v1/broadcast/news"), "hello", 202),
        (("POST", "/v1/broadcast/{topic}", "/v1/broadcast/no%20topic"), "hello", 422),
        (("POST", "/v1/send/{node}/{topic}", "/v1/send/b/news"), "hello", 200),
        (("POST", "/v1/send/{node}/{topic}", "/v1/send/z/news"), "hello", 404),
        (("POST", "/v1/request/{node}/{topic}", "/v1/request/b/q?timeout_ms=1"), "?", 504),
        (("POST", "/v1/request/{node}/{topic}", "/v1/request/b/q?timeout_ms=0"), "?", 400),
        (("POST", "/v1/reply/{id}", "/v1/reply/none"), "!", 404),
        (("POST", "/v1/doubt/{node}", "/v1/doubt/b"), "", 202),
        (("POST", "/v1/doubt/{node}", "/v1/doubt/z"), "", 404),
        (("POST", "/v1/undrain", ""), "", 200),
        (("GET", "/v1/info", ""), "", 200),
        (("GET", "/v1/verdict", ""), "", 200),
        (("GET", "/v1/verdict", "?x=1"), "", 400),
        (("GET", "/v1/info", "?x=1"), "", 400),
        (("GET", "/v1/targets", ""), "", 200),
        (("GET", "/v1/targets", "?tag=zone=eu"), "", 200),
        (("GET", "/metrics", ""), "", 200),
        (("GET", "/healthz", ""), "", 200),
        (("GET", "/readyz", ""), "", 200),
        (("GET", "/", ""), "", 200),
        (("GET", "/dashboard", ""), "", 200),
        (("GET", "/dashboard/{part}", "/dashboard/app.js"), "", 200),
        (("GET", "/dashboard/{part}", "/dashboard/none.js"), "", 404),
    ];
    for (call, body, status) in begins {
        judge.ask(&a, *call, body, *status).await;
    }

    let targets = a.get("/v1/targets").await.json();
    let names: Vec<&Value> =
        targets.as_array().expect("a list").iter().map(|group| &group["labels"]["__meta_headcount_node"]).collect();
    assert_eq!((names, &targets[0]["targets"]), (vec![&json!("a"), &json!("b")], &json!(["127.0.0.1:80"])));
    assert_eq!(targets[0]["labels"]["__meta_headcount_tag_zone"], "eu");

    // A request that a program answers.
    let mut asked = b.agent.listen(["q"]).expect("a topic");
    let answering = async {
        let message = asked.recv().await.expect("a question");
        let path = format!("/v1/reply/{}", message.id);
        let answer = b.ask("POST", &path, &[], "yes").await;
        judge.judge("POST", "/v1/reply/{id}", &answer);
    };
    let (answer, ()) = tokio::join!(a.ask("POST", "/v1/request/b/q", &[], "?"), answering);
    judge.judge("POST", "/v1/request/{node}/{topic}", &answer);
    assert_eq!((answer.status, answer.body.as_str()), (200, "yes"));

    // Work, on the leader; elsewhere the leader is named for programs.
    let work = judge.ask(&a, ("POST", "/v1/leader/work", ""), "", 200).await.json();
    let path = format!("/v1/leader/work/{}", work["id"].as_str().expect("an id"));
    judge.ask(&a, ("POST", "/v1/leader/work/{id}", &path), "", 200).await;
    judge.ask(&a, ("DELETE", "/v1/leader/work/{id}", &path), "", 200).await;
    let leader =
        json!({"id": "a", "address": a.agent.gossip_address().to_string(), "api_address": "http://127.0.0.1:80/a"});
    for call in [("GET", "/v1/leader", "?confirm=true"), ("POST", "/v1/leader/work", "")] {
        assert_eq!(judge.ask(&b, call, "", 409).await.json()["leader"], leader, "{call:?}");
    }
    let refused = judge.ask(&b, ("POST", "/v1/leader/resign", ""), r#"{"to":"z"}"#, 409).await;
    assert_eq!(refused.json()["leader"], leader);
    judge.ask(&b, ("GET", "/leaderz", ""), "", 503).await;

    // The stream: what it says before, of all members, and of what happens.
    let mut events = a.events("?snapshot=true&kind=node_updated", &[]).await;
    assert!(events.head.contains("content-type: text/event-stream"), "{}", events.head);
    judge.done.insert(("GET".to_owned(), "/v1/events".to_owned()));
    let shape = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    judge.fits(&shape("Snapshot"), &events.expect("snapshot").await.data, "snapshot");
    judge.ask(&a, ("PUT", "/v1/tags", ""), r#"{"tags":{}}"#, 200).await;
    judge.fits(&shape("Event"), &events.expect("node_updated").await.data, "event");
    let mut messages = a.events("?kind=message&topic=news", &[]).await;
    judge.ask(&a, ("POST", "/v1/broadcast/{topic}", "/v1/broadcast/news"), "hello", 202).await;
    judge.fits(&shape("Message"), &messages.expect("message").await.data, "message");
    let mut late = a.events("?after=0000000000000001-1", &[]).await;
    judge.fits(&shape("Lagged"), &late.expect("lagged").await.data, "lagged");

    // A node that drains is no target.
    judge.ask(&b, ("POST", "/v1/drain", ""), "", 200).await;
    let targets = judge.ask(&b, ("GET", "/v1/targets", ""), "", 200).await.json();
    assert!(!targets.to_string().contains("127.0.0.1:80/b"), "{targets}");
    judge.ask(&b, ("POST", "/v1/undrain", ""), "", 200).await;
    let may_lead = tokio::time::timeout(PATIENCE, async {
        while judge.ask(&a, ("GET", "/v1/members/{id}", "/v1/members/b"), "", 200).await.json()["draining"] == true {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    may_lead.await.expect("the leader hears that");

    // What ends something.
    judge.ask(&a, ("POST", "/v1/leader/resign", ""), r#"{"to":"b"}"#, 200).await;
    let led = tokio::time::timeout(PATIENCE, async {
        let b_name = NodeId::new("b").expect("a name");
        while a.agent.leadership().get().leader.as_ref() != Some(&b_name) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    led.await.expect("b leads");
    judge.ask(&b, ("DELETE", "/v1/voters/{id}", "/v1/voters/a"), "", 200).await;
    judge.ask(&a, ("DELETE", "/v1/members/{id}", "/v1/members/c?force=true"), "", 200).await;
    judge.ask(&a, ("POST", "/v1/leave", ""), "", 202).await;
    a.agent.stopped().await;
    judge.ask(&a, ("GET", "/readyz", ""), "", 503).await;
    judge.ask(&a, ("PUT", "/v1/tags", ""), r#"{"tags":{}}"#, 503).await;

    // Leaders by a lease.
    let url = format!("sqlite://{}", folder.path().join("leases.db").display());
    let holder =
        of(Config::new("d").expect("a name").with_profile(Profile::Local).with_lease(&url), HttpSettings::default());
    let holder = holder.await;
    judge.ask(&holder, ("GET", "/v1/lease/nodes", ""), "", 200).await;
    judge.ask(&holder, ("GET", "/v1/leader", "?lease=other"), "", 404).await;
    judge.ask(&holder, ("GET", "/v1/leader", ""), "", 200).await;

    // Keys, of a node that seals.
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").expect("written");
    let sealed = Config::new("e").expect("a name").with_profile(Profile::Local).with_key_file(&keys);
    let token = "all-all-all-all-all";
    let sealed = of(sealed, HttpSettings::new(Token::new(token).ok())).await;
    judge.authorization = Some(format!("authorization: Bearer {token}"));
    let another = r#"{"key":"ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="}"#;
    let sealing = |keys: &Value| keys["members"][0]["keys"][0].as_str().expect("a key seals").to_owned();
    let old = sealing(&judge.ask(&sealed, ("GET", "/v1/keys", ""), "", 200).await.json());
    let both = judge.ask(&sealed, ("POST", "/v1/keys", ""), another, 200).await.json();
    assert_eq!(sealing(&both), old);
    let added = both["members"][0]["keys"][1].as_str().expect("two keys").to_owned();
    let removed = format!("/v1/keys/{old}");
    judge.ask(&sealed, ("DELETE", "/v1/keys/{id}", &removed), "", 409).await;
    let used = format!("/v1/keys/{added}/use");
    assert_eq!(sealing(&judge.ask(&sealed, ("POST", "/v1/keys/{id}/use", &used), "", 200).await.json()), added);
    let left = judge.ask(&sealed, ("DELETE", "/v1/keys/{id}", &removed), "", 200).await.json();
    assert_eq!(left["members"][0]["keys"], json!([added]));

    let mut undone = Vec::new();
    for (path, calls) in judge.document["paths"].as_object().expect("paths") {
        for method in calls.as_object().expect("calls").keys().map(|method| method.to_ascii_uppercase()) {
            // A recovery succeeds only where most voters are lost.
            if path != "/v1/recover" && !judge.done.contains(&(method.clone(), path.clone())) {
                undone.push(format!("{method} {path}"));
            }
        }
    }
    assert!(undone.is_empty(), "nobody saw it succeed: {undone:?}");
}

#[tokio::test]
async fn what_any_call_may_be_refused_with_is_described_for_all() {
    let a = first("a").await;
    let judge = Judge::of(&a).await;
    for (path, calls) in judge.document["paths"].as_object().expect("paths") {
        for (method, call) in calls.as_object().expect("calls") {
            for status in ["400", "403", "408", "429"] {
                assert!(call["responses"][status].is_object(), "{status} of {method} {path}");
            }
            let asks = call["security"].as_array().is_some_and(|ways| !ways.is_empty());
            assert_eq!(call["responses"]["401"].is_object(), asks, "{method} {path}");
        }
    }
}
