//! The table of all calls, in the order in which people look for them.

use axum::routing::{delete, get, post, put};

use super::super::table::Kind;
use super::super::{
    MAX_ANSWER_WAIT, REQUEST_TIMEOUT, calls, dashboard, events, health, keys, leadership, messages, metrics, reference,
};
use super::{Access, Answer, Call, Content, Form, Handler, Parameter, Taken};

const LEASE: Parameter = Parameter {
    name: "lease",
    form: Form::Lease,
    meaning: "the lease in a database that the call is about; `default`, or none, is what the cluster is led by",
};
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

const fn ok(content: Content, meaning: &'static str) -> Answer {
    Answer { status: 200, content, meaning }
}

const fn accepted(content: Content, meaning: &'static str) -> Answer {
    Answer { status: 202, content, meaning }
}

/// A call that takes and answers nothing yet, for callers that may read, or that may do all.
const fn call(method: &'static str, path: &'static str, brief: &'static str, handler: Handler) -> Call {
    let access = if method.len() == 3 && method.as_bytes()[0] == b'G' { Access::Read } else { Access::Write };
    Call {
        method,
        path,
        brief,
        more: "",
        query: &[],
        body: None,
        answers: &[],
        refusals: &[],
        handler,
        access,
        needs_token: false,
        is_health: false,
        lasts: None,
        patience: REQUEST_TIMEOUT,
    }
}

pub(crate) static CALLS: &[Call] = &[
    Call {
        more: "Sorted by name; this node is among them. Members that left are listed only if their status is asked for. In \
            views of more than 32 members what others changed may be missing for a moment.",
        query: &[
            Parameter { name: "status", form: Form::Statuses, meaning: "only members of one of these statuses" },
            Parameter { name: "tag", form: Form::Tags, meaning: "only members with all of these tags" },
        ],
        answers: &[ok(Content::List("Member"), "the members")],
        ..call("GET", "/v1/members", "all members", || get(calls::members))
    },
    Call {
        answers: &[ok(Content::Json("Member"), "the member")],
        refusals: &[404],
        ..call("GET", "/v1/members/{id}", "one member", || get(calls::member))
    },
    Call {
        more: "Takes a member that is Down out of the listing, or any with `force`: its process stops. 404 if there is no such \
            member, 409 if it is not Down, is this node, or is a voter that may be alive beyond a suspected partition.",
        query: &[Parameter {
            name: "force",
            form: Form::Flag,
            meaning: "also a member that is not Down, or may be alive",
        }],
        answers: &[
            ok(Content::Json("Removed"), "the removal is known to enough members"),
            accepted(Content::Json("Removed"), "it is not known to enough members yet, and spreads"),
        ],
        refusals: &[404, 409, 503],
        lasts: Some(Kind::Command),
        ..call("DELETE", "/v1/members/{id}", "take a member out", || delete(calls::remove))
    },
    Call {
        more: "`id:` is `run-sequence`, `event:` the kind, `data:` an `Event`. The stream begins now; \
            after the event named by the header `Last-Event-ID` or by `after`; or with `event: snapshot`, a `Snapshot`. Where \
            the events asked for are no longer kept, `event: lagged`, a `Lagged`, and a snapshot come instead. Messages \
            between programs are `event: message`, a `Message`, without `id:`, and only if asked for by kind, with a token that \
            may do all: they are the programs' own, and who listens may be asked to answer. Missed ones are told by \
            `lagged`, a `Missed`. A comment is sent every 15 s. The header `Last-Event-ID` of the answer names the \
            event after which the stream begins. 429 if too many streams are open.",
        query: &[
            Parameter { name: "after", form: Form::EventId, meaning: "begin after the event of this id" },
            Parameter { name: "kind", form: Form::Kinds, meaning: "only events of these kinds" },
            Parameter { name: "node", form: Form::Names, meaning: "only events about these members" },
            Parameter { name: "lease", form: Form::Leases, meaning: "only events about leaders by these leases" },
            Parameter { name: "snapshot", form: Form::Flag, meaning: "begin with all members" },
            Parameter {
                name: "topic",
                form: Form::Topics,
                meaning: "only messages of these topics, with kind=message",
            },
        ],
        answers: &[ok(
            Content::Events(&["Event", "Snapshot", "Lagged", "Message", "Missed"]),
            "the stream, which has no end",
        )],
        ..call("GET", "/v1/events", "server-sent events", || get(events::events))
    },
    Call {
        more: "Waits for 5 s at most. 502 if nobody answered: `results` says why, for each address.",
        body: Some(Taken::Json("JoinRequest", r#"{"addresses":["10.0.0.1:7117"]}"#)),
        answers: &[ok(Content::Json("JoinResults"), "the outcome for each address; at least one answered")],
        refusals: &[409, 415, 422, 502, 503],
        lasts: Some(Kind::Command),
        ..call("POST", "/v1/join", "contact other nodes", || post(calls::join))
    },
    Call {
        more: "For whoever had no answer from a program at that node: the detector asks it now, and where no connection to it \
            stands, tries its port, which shows at once if its process is gone. No evidence against it. Once a second at most.",
        answers: &[accepted(Content::Nothing, "it is asked")],
        refusals: &[404, 409, 503],
        lasts: Some(Kind::Command),
        ..call("POST", "/v1/doubt/{node}", "a member gives no answer: have it asked now", || post(calls::doubt))
    },
    Call {
        more: "The agent says goodbye, and its process ends. Asking twice is no mistake.",
        answers: &[accepted(Content::Nothing, "it will")],
        ..call("POST", "/v1/leave", "leave and stop", || post(calls::leave))
    },
    Call {
        more: "The node stays up, hands over what it leads, leads nothing, and is left out of `/v1/targets`. Asking twice is no \
            mistake.",
        answers: &[ok(Content::Json("Drained"), "it drains")],
        refusals: &[409, 503],
        lasts: Some(Kind::Command),
        ..call("POST", "/v1/drain", "lead nothing, and say so to everybody", || post(calls::drain))
    },
    Call {
        answers: &[ok(Content::Json("Drained"), "it does not drain any more")],
        refusals: &[409, 503],
        lasts: Some(Kind::Command),
        ..call("POST", "/v1/undrain", "take drain back", || post(calls::undrain))
    },
    Call {
        body: Some(Taken::Json("SetTags", r#"{"tags":{"key":"value"}}"#)),
        answers: &[ok(Content::Json("SetTags"), "the tags as they are now")],
        refusals: &[409, 415, 422, 503],
        lasts: Some(Kind::Command),
        ..call("PUT", "/v1/tags", "replace this node's tags", || put(calls::set_tags))
    },
    Call {
        more: "With `confirm` only the leader itself answers, once a majority, or the database, has confirmed that it leads: \
            409 elsewhere, with the leader's addresses.",
        query: &[Parameter { name: "confirm", form: Form::Flag, meaning: "have it confirmed now" }, LEASE],
        answers: &[ok(Content::Json("Leader"), "the leader, or the reason why there is none")],
        refusals: &[404, 409, 503],
        ..call("GET", "/v1/leader", "who leads; confirmed now, if asked for", || get(leadership::leader))
    },
    Call {
        more: "Forwarded to the leader. Without a body, or without `to`, the leader chooses who follows; a lease goes to whoever \
            takes it.",
        query: &[LEASE],
        body: Some(Taken::Optional("Resign", r#"{"to":"node"}"#)),
        answers: &[ok(Content::Json("Leader"), "the leader as this node knows it then")],
        refusals: &[404, 409, 415, 422, 503, 504],
        lasts: Some(Kind::Command),
        ..call("POST", "/v1/leader/resign", "have the leader give leadership up", || post(leadership::resign))
    },
    Call {
        query: &[LEASE],
        answers: &[ok(Content::Json("LeaseNodes"), "the nodes")],
        refusals: &[404, 409, 503],
        lasts: Some(Kind::Command),
        ..call("GET", "/v1/lease/nodes", "nodes in the table of a database, the leader first", || {
            get(leadership::lease_nodes)
        })
    },
    Call {
        more: "A hand-over waits for the end of all work. 409 where this node does not lead, with the leader's addresses.",
        query: &[LEASE],
        answers: &[ok(Content::Json("LedWork"), "the work, and the time for which it may go on")],
        refusals: &[404, 409, 503],
        lasts: Some(Kind::Command),
        ..call("POST", "/v1/leader/work", "begin work that is done only while this node leads", || {
            post(leadership::begin_work)
        })
    },
    Call {
        answers: &[ok(Content::Json("LedWork"), "the work, and the time for which it may go on")],
        refusals: &[404],
        ..call("POST", "/v1/leader/work/{id}", "for how long it may go on; ask often", || post(leadership::renew_work))
    },
    Call {
        answers: &[ok(Content::Json("LedWork"), "the work that has ended")],
        refusals: &[404],
        ..call("DELETE", "/v1/leader/work/{id}", "it has ended, so that leadership may be handed over", || {
            delete(leadership::end_work)
        })
    },
    Call {
        answers: &[ok(Content::Json("View"), "the newest agreed view that this node knows")],
        ..call("GET", "/v1/view", "the members that voters agreed on", || get(leadership::view))
    },
    Call {
        answers: &[ok(Content::Json("Voters"), "the electorate, as this node knows it")],
        ..call("GET", "/v1/voters", "who elects", || get(leadership::voters))
    },
    Call {
        more: "Forwarded to the leader. `replaces` names a voter that is removed as soon as the new one votes.",
        body: Some(Taken::Json("AddVoter", r#"{"id":"node"}"#)),
        answers: &[ok(Content::Json("Voters"), "the electorate as it is then")],
        refusals: &[409, 415, 422, 503, 504],
        lasts: Some(Kind::Command),
        ..call("POST", "/v1/voters", "add a voter", || post(leadership::add))
    },
    Call {
        more: "Forwarded to the leader.",
        answers: &[ok(Content::Json("Voters"), "the electorate as it is then")],
        refusals: &[404, 409, 503, 504],
        lasts: Some(Kind::Command),
        ..call("DELETE", "/v1/voters/{id}", "remove a voter", || delete(leadership::remove))
    },
    Call {
        more: "Begins a new generation above every old term. Refused while a majority answers or any voter hears a leader. With \
            `\"anew\": true` none of the voters has its data any more; if some are not heard from here, that takes \
            `\"end_unheard\": true` as well, since those that live behind a cut give way.",
        body: Some(Taken::Json("Recover", r#"{"voters":["node"]}"#)),
        answers: &[ok(Content::Json("Voters"), "the electorate as it is then")],
        refusals: &[409, 415, 422, 503, 504],
        lasts: Some(Kind::Command),
        ..call("POST", "/v1/recover", "a new electorate, when most of the old one is lost for good", || {
            post(leadership::recover)
        })
    },
    Call {
        more: "Asks every member, at most once a second whoever asks; ids stand for keys. `error` of a member says why its keys are \
            not known. 429 if too many calls that others are asked for are under way.",
        answers: &[ok(Content::Json("Keys"), "the keys, and who holds them")],
        lasts: Some(Kind::Command),
        ..call("GET", "/v1/keys", "who holds which key of the seal", || get(keys::list))
    },
    Call {
        more: "403 where the agent has no token (`http.token_file`). The body is a secret. Nobody seals with the key yet. 409 unless everything is sealed (`seal.mode` is `require`) and the \
            keys are in a file. `error` of a member says why it was not done there.",
        body: Some(Taken::Json("AddKey", r#"{"key":"base64"}"#)),
        answers: &[ok(Content::Json("Keys"), "the keys as they are then, and who holds them")],
        refusals: &[409, 415, 422, 500, 503],
        lasts: Some(Kind::Command),
        needs_token: true,
        ..call("POST", "/v1/keys", "have all members accept one more key", || post(keys::add))
    },
    Call {
        more: "403 where the agent has no token (`http.token_file`). 409 while a member lacks it, or cannot be asked, unless forced.",
        query: &[Parameter { name: "force", form: Form::Flag, meaning: "even if members are locked out by it" }],
        answers: &[ok(Content::Json("Keys"), "the keys as they are then, and who holds them")],
        refusals: &[404, 409, 422, 500, 503],
        lasts: Some(Kind::Command),
        needs_token: true,
        ..call("POST", "/v1/keys/{id}/use", "have all members seal with a key", || post(keys::use_key))
    },
    Call {
        more: "403 where the agent has no token (`http.token_file`). 409 while a member seals with it, or cannot be asked, unless forced.",
        query: &[Parameter { name: "force", form: Form::Flag, meaning: "even if members are locked out by it" }],
        answers: &[ok(Content::Json("Keys"), "the keys as they are then, and who holds them")],
        refusals: &[404, 409, 422, 500, 503],
        lasts: Some(Kind::Command),
        needs_token: true,
        ..call("DELETE", "/v1/keys/{id}", "have all members accept a key no more", || delete(keys::remove))
    },
    Call {
        more: "413 beyond 64 KiB.",
        body: Some(Taken::Bytes),
        answers: &[accepted(Content::Json("Sent"), "it is on its way")],
        refusals: &[409, 422, 503],
        lasts: Some(Kind::Command),
        ..call("POST", "/v1/broadcast/{topic}", "say something to every live member; bodies are raw bytes", || {
            post(messages::broadcast)
        })
    },
    Call {
        more: "413 beyond 64 KiB, 404 if there is no such member, 503 if there is no link to it. 504 if it did not answer in \
            time: it is then not known whether it has the message.",
        body: Some(Taken::Bytes),
        answers: &[ok(Content::Json("Sent"), "its agent has it")],
        refusals: &[404, 409, 422, 503, 504],
        lasts: Some(Kind::Message),
        ..call(
            "POST",
            "/v1/send/{node}/{topic}",
            "say something to one member, and wait until its agent has it",
            || post(messages::send),
        )
    },
    Call {
        more: "As for `/v1/send`.",
        query: &[Parameter {
            name: "timeout_ms",
            form: Form::Wait,
            meaning: "the time to wait for the answer; 5000 by default",
        }],
        body: Some(Taken::Bytes),
        answers: &[ok(Content::Bytes, "the answer of a program there, as it was given")],
        refusals: &[404, 409, 422, 503, 504],
        lasts: Some(Kind::Message),
        patience: REQUEST_TIMEOUT.saturating_add(MAX_ANSWER_WAIT),
        ..call("POST", "/v1/request/{node}/{topic}", "ask one member something, and wait for the answer", || {
            post(messages::request)
        })
    },
    Call {
        more: "Requests come as `event: message` with a `reply_within_ms`, and their `id` is named here.",
        body: Some(Taken::Bytes),
        answers: &[ok(Content::Json("Sent"), "the answer is on its way")],
        refusals: &[404, 409, 503, 504],
        lasts: Some(Kind::Reply),
        ..call("POST", "/v1/reply/{id}", "answer a request; those come with GET /v1/events?kind=message&topic=", || {
            post(messages::reply)
        })
    },
    Call {
        answers: &[ok(Content::Json("Info"), "this node")],
        ..call("GET", "/v1/info", "this node", || get(calls::info))
    },
    Call {
        more: "The one judgement that dashboard, `top`, `doctor`, `members`, systemd and metrics show. The operations guide says \
            what each code means.",
        answers: &[ok(Content::Json("Verdict"), "the state, and the reasons for it")],
        ..call("GET", "/v1/verdict", "how are this node and its cluster, and what is to be done?", || {
            get(health::verdict)
        })
    },
    Call {
        more: "Members that may be given work, do not drain, and advertise an `api_address` with a host and a port, in the form that Prometheus' \
            `http_sd_configs` takes.",
        query: &[Parameter { name: "tag", form: Form::Tags, meaning: "only members with all of these tags" }],
        answers: &[ok(Content::List("TargetGroup"), "one group for each member, sorted by name")],
        ..call("GET", "/v1/targets", "addresses that members advertise, for Prometheus to discover", || {
            get(calls::targets)
        })
    },
    Call {
        more: "Prometheus' text form; OpenMetrics for whoever asks for it by `Accept`. The metrics reference says what each metric \
            means.",
        answers: &[ok(
            Content::Text(&[
                "text/plain; version=0.0.4; charset=utf-8",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ]),
            "the metrics",
        )],
        refusals: &[500],
        ..call("GET", "/metrics", "metrics for Prometheus", || get(metrics::metrics))
    },
    Call {
        answers: &[
            ok(Content::Text(&[TEXT]), "all parts are alive"),
            Answer { status: 503, content: Content::Text(&[TEXT]), meaning: "the part that died: restart the process" },
        ],
        access: Access::Open,
        is_health: true,
        ..call("GET", "/healthz", "are all parts alive?", || get(health::healthz))
    },
    Call {
        answers: &[
            ok(Content::Text(&[TEXT]), "it may be given requests"),
            Answer {
                status: 503,
                content: Content::Text(&[TEXT]),
                meaning: "the reason why it should not be asked: its status, `unreachable`, \
                          `unavailable` or `stopped`",
            },
        ],
        access: Access::Open,
        is_health: true,
        ..call("GET", "/readyz", "has it joined, is it reached, and can somebody lead?", || get(health::readyz))
    },
    Call {
        query: &[LEASE],
        answers: &[
            ok(Content::Text(&[TEXT]), "this node leads at this moment"),
            Answer { status: 503, content: Content::Text(&[TEXT]), meaning: "it does not" },
        ],
        refusals: &[404],
        access: Access::Open,
        is_health: true,
        ..call("GET", "/leaderz", "200 on the leader, 503 elsewhere: for load balancers", || get(leadership::leaderz))
    },
    Call {
        answers: &[ok(Content::OpenApi, "the description")],
        access: Access::Open,
        ..call("GET", "/openapi.json", "all of this in the form of OpenAPI 3.1", || get(reference::openapi))
    },
    Call {
        more: "Browsers, which accept HTML, get the dashboard.",
        answers: &[ok(Content::Text(&[TEXT, HTML]), "the list of calls, or the dashboard")],
        access: Access::Open,
        ..call("GET", "/", "this list", || get(reference::index))
    },
    Call {
        answers: &[ok(Content::Text(&[HTML]), "the page")],
        access: Access::Open,
        ..call("GET", "/dashboard", "the same for people, in a browser", || get(dashboard::page))
    },
    Call {
        answers: &[Answer { status: 308, content: Content::Nothing, meaning: "the page is at `/dashboard`" }],
        access: Access::Open,
        ..call("GET", "/dashboard/", "leads to the dashboard", || get(dashboard::redirect))
    },
    Call {
        answers: &[ok(
            Content::Text(&["text/javascript; charset=utf-8", "text/css; charset=utf-8", "image/svg+xml"]),
            "the part",
        )],
        refusals: &[404],
        access: Access::Open,
        ..call("GET", "/dashboard/{part}", "a part of the dashboard", || get(dashboard::part))
    },
];
