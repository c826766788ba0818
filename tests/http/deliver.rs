//! `POST /v1/deliver`: what other agents bring, and what is refused.

use serde_json::{Value, json};

use crate::TOKEN;
use crate::support::{Answer, Node, first, node};

/// `x` in base64.
const X: &str = "eA==";

async fn deliver(node: &Node, body: &Value) -> Answer {
    node.send_json("POST", "/v1/deliver", &body.to_string()).await
}

fn with(key: &str, value: Value) -> Value {
    let mut body = json!({"id": "00000000000000ff-2", "topic": "t", "payload": X});
    body[key] = value;
    body
}

#[tokio::test]
async fn what_a_call_brings_is_heard_once() {
    let a = first("a").await;
    let mut inbox = a.agent.listen(["t"]).expect("a listener");
    for (node, from) in [(Value::Null, "00000000000000ff"), ("far".into(), "far")] {
        let mut body = with("node", node);
        body["id"] = format!("00000000000000ff-{}", 2 * from.len()).into();
        let answer = deliver(&a, &body).await;
        assert_eq!((answer.status, answer.json()), (202, json!({"id": body["id"], "delivered": true})));
        let heard = inbox.try_recv().expect("none is missed").expect("it is there by the answer");
        assert_eq!(
            (heard.id.to_string().as_str(), heard.from.as_str(), &heard.payload[..]),
            (body["id"].as_str().expect("text"), from, &b"x"[..])
        );
        assert_eq!(deliver(&a, &body).await.json(), json!({"id": body["id"], "delivered": false}));
        assert!(inbox.try_recv().expect("none is missed").is_none());
    }
    let counted = a.agent.info().counters.messages;
    assert_eq!((counted.received, counted.delivered, counted.duplicate), (4, 2, 2));
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_said_and_nothing_is_heard() {
    let a = first("a").await;
    let mut inbox = a.agent.listen([]).expect("a listener");
    let own = a.agent.run();
    for (body, status, problem) in [
        (with("id", "nonsense".into()), 422, "value"),
        (with("id", "00000000000000ff-3".into()), 422, "value"),
        (with("id", "00000000000000ff-0".into()), 422, "value"),
        (with("id", "00000000000000ff-18446744073709551614".into()), 422, "value"),
        (with("id", 7.into()), 422, "value"),
        (with("topic", "a b".into()), 422, "value"),
        (with("payload", "!".into()), 422, "value"),
        (with("node", "a b".into()), 422, "value"),
        (with("node", "a".into()), 409, "other-origin"),
        (with("to", "b".into()), 409, "not-me"),
        (with("cluster", "another".into()), 409, "not-me"),
        (json!({"id": "00000000000000ff-2"}), 422, "value"),
    ] {
        let answer = deliver(&a, &body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, problem), "{body} {answer:?}");
    }
    let forged = json!({"id": format!("{own}-2"), "topic": "t", "payload": X, "node": "b"});
    assert_eq!(deliver(&a, &forged).await.problem(), "other-origin");
    assert_eq!(a.send_json("POST", "/v1/deliver", "{").await.problem(), "syntax");
    assert_eq!(a.ask("POST", "/v1/deliver", &[], "{}").await.problem(), "media-type");
    assert_eq!(a.get("/v1/deliver").await.status, 405);
    let page = ["content-type: application/json", "origin: http://evil.example"];
    assert_eq!(a.ask("POST", "/v1/deliver", &page, &with("age_ms", 0.into()).to_string()).await.problem(), "origin");
    assert!(inbox.try_recv().expect("none is missed").is_none());
    assert_eq!(deliver(&a, &with("to", "a".into())).await.status, 202, "and what is right is heard");
    assert!(inbox.try_recv().expect("none is missed").is_some());
}

#[tokio::test]
async fn the_largest_payload_is_taken_and_one_byte_more_is_not() {
    use base64_of::encode;
    let a = first("a").await;
    assert_eq!(deliver(&a, &with("payload", encode(65_536).into())).await.status, 202);
    let beyond = deliver(&a, &with("payload", encode(65_537).into())).await;
    assert_eq!((beyond.status, beyond.problem().as_str()), (413, "body-too-large"));
    let far_beyond = deliver(&a, &with("payload", encode(80_000).into())).await;
    assert_eq!((far_beyond.status, far_beyond.problem().as_str()), (413, "body-too-large"));
    // Others have the bound that they had.
    let long = "x".repeat(65_537);
    assert_eq!(a.ask("POST", "/v1/broadcast/t", &[], &long).await.status, 413);
}

mod base64_of {
    /// Returns so many zero bytes in base64.
    pub(super) fn encode(bytes: usize) -> String {
        let rest = ["", "AA==", "AAA="][bytes % 3];
        "AAAA".repeat(bytes / 3) + rest
    }
}

#[tokio::test]
async fn whoever_brings_something_needs_the_token() {
    let a = node("a", None, Some(TOKEN)).await;
    let body = with("age_ms", 5.into());
    assert_eq!(deliver(&a, &body).await.problem(), "token");
    let json = "content-type: application/json";
    let wrong = ["authorization: Bearer fedcba9876543210fedcba9876543210", json];
    assert_eq!(a.ask("POST", "/v1/deliver", &wrong, &body.to_string()).await.problem(), "token");
    assert_eq!(a.agent.info().counters.messages.received, 0);
    let right = [&*format!("authorization: Bearer {TOKEN}"), json];
    assert_eq!(a.ask("POST", "/v1/deliver", &right, &body.to_string()).await.status, 202);
}
