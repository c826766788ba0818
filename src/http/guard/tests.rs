//! What the checks let pass, and how answers are counted: kinds of requests, origins, turns, weights.

use super::*;

#[test]
fn every_origin_that_a_request_names_is_judged() {
    let is_ours = |origins: [&str; 2]| {
        let host = "127.0.0.1:7118";
        let request = Request::builder().header(header::HOST, host);
        let request = origins.iter().fold(request, |request, origin| request.header(header::ORIGIN, *origin));
        check_origin(&request.body(Body::empty()).expect("a request")).is_ok()
    };
    let (ours, foreign) = ("http://127.0.0.1:7118", "http://elsewhere");
    assert!(is_ours([ours, ours]));
    assert!(!is_ours([ours, foreign]) && !is_ours([foreign, ours]));
}

#[test]
fn a_page_is_this_agents_own_if_its_whole_authority_is_the_host_that_was_asked() {
    let is_ours = |host: &str, origin: &str| {
        let request = Request::builder().header(header::HOST, host).header(header::ORIGIN, origin);
        check_origin(&request.body(Body::empty()).expect("a request")).is_ok()
    };
    assert!(is_ours("127.0.0.1:7118", "http://127.0.0.1:7118"));
    assert!(is_ours("LocalHost:7118", "http://localhost:7118"));
    for foreign in [
        "http://127.0.0.1:71180",
        "http://127.0.0.1:7118.evil.example",
        "http://127.0.0.1:711",
        "http://127.0.0.1",
        "http://x127.0.0.1:7118",
        "127.0.0.1:7118",
        "null",
        "",
    ] {
        assert!(!is_ours("127.0.0.1:7118", foreign), "{foreign}");
    }
}

#[tokio::test]
async fn while_all_are_answered_health_checks_get_in_and_each_answer_is_the_last_of_its_connection() {
    use axum::routing::get;
    use futures_util::FutureExt as _;
    use tower::ServiceExt as _;

    let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
    let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
    let agent = crate::Agent::start(config).await.expect("started");
    let close = tokio_util::sync::CancellationToken::new();
    let table = super::super::Table::new(super::super::Limits::new(8, 8), close.clone());
    let settings = super::super::HttpSettings::default();
    let address = ([127, 0, 0, 1], 1).into();
    let app = App::new(Shared::new(agent.clone(), address, settings, Arc::clone(&table), close));
    let router = axum::Router::new()
        .route("/healthz", get(async || ()))
        .route("/v1/join", axum::routing::post(async || ()))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), guard));
    let mut seats = Vec::new();
    for _ in 0..8 {
        seats.push(table.admit().await.expect("a place"));
    }
    let spare = table.admit().await.expect("a place for health checks");
    let ask = async |method: &str, path: &str, line: &Arc<ConnectionState>| {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1");
        let request = request.extension(Arc::clone(line)).body(Body::empty()).expect("a request");
        let answer = router.clone().oneshot(request).await.expect("answered");
        (answer.status().as_u16(), answer.headers().get(header::CONNECTION).is_some_and(|value| value == "close"))
    };
    let usual = &seats[7].line;
    for (line, joins) in [(usual, 200), (&spare.line, 429)] {
        assert_eq!(ask("GET", "/healthz", line).await, (200, true));
        assert_eq!(ask("POST", "/v1/join", line).await, (joins, true));
        assert_eq!(ask("GET", "/nothing", line).await, (if joins == 200 { 404 } else { 429 }, true));
    }

    // Turns that were taken, and whose answers are not begun, hold up no health check.
    let mut turns: Vec<_> =
        (0..super::super::MAX_ANSWERS_MADE).map(|_| Box::pin(app.turns.take(false, std::future::ready(())))).collect();
    assert!(turns.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
    assert!(Box::pin(ask("POST", "/v1/join", usual)).as_mut().now_or_never().is_none());
    assert_eq!(ask("GET", "/healthz", &spare.line).await, (200, true));
    drop(spare);
    assert_eq!(ask("GET", "/healthz", usual).await, (200, false));
    agent.leave().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_weighs_until_it_has_been_read_or_is_given_up() {
    let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
    let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
    let agent = crate::Agent::start(config).await.expect("started");
    let app = App::new(Shared::of(agent.clone()));
    let mut seats = Vec::new();
    for _ in 0..4 {
        seats.push(app.table.admit().await.expect("a place"));
    }
    let count = |at: usize, bytes: usize| {
        count_answer(&app, Some(Arc::clone(&seats[at].line)), vec![0_u8; bytes].into_response())
    };
    // Small ones are not counted, and large ones up to the whole budget.
    let _small = count(0, MAX_UNCOUNTED_ANSWER_BYTES).expect("sent");
    assert_eq!(app.table.unread(Unread::Answer), 0);
    let half = MAX_UNREAD_BYTES / 2;
    let (one, two) = (count(0, half).expect("sent"), count(1, half).expect("sent"));
    let refused = count(2, MAX_UNCOUNTED_ANSWER_BYTES + 1).expect_err("too many").into_response();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(app.table.unread(Unread::Answer), 2 * half, "what is refused weighs nothing");
    drop(one);
    let mut read = axum::body::to_bytes(two.into_body(), usize::MAX).await.expect("read");
    assert_eq!((read.len(), app.table.unread(Unread::Answer)), (half, half), "it is not sent yet");
    // hyper keeps all of it until the last byte has left.
    let last = read.split_off(half - 1);
    drop(read);
    assert_eq!(app.table.unread(Unread::Answer), half);
    drop(last);
    assert_eq!(app.table.unread(Unread::Answer), 0);
    let _whole = count(3, MAX_UNREAD_BYTES * 2).expect("a single one may be larger");
    count(2, MAX_UNCOUNTED_ANSWER_BYTES + 1).expect_err("it is on its way");
    agent.leave().await;
}
