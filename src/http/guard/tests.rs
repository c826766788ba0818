//! What the checks let pass, and how answers are counted: kinds of requests, origins, turns, weights.

use std::net::Ipv4Addr;

use super::*;

#[test]
fn messages_that_wait_are_counted_apart_from_commands_and_renewals_of_led_work_are_not() {
    for (path, kind) in [
        ("/v1/request/a/t", Some(Kind::Message)),
        ("/v1/send/a/t", Some(Kind::Message)),
        ("/v1/reply/a-1", Some(Kind::Reply)),
        ("/v1/leader/work/7", None),
        ("/v1/leader/work", Some(Kind::Command)),
        ("/v1/leave", None),
        ("/v1/leader/resign", Some(Kind::Command)),
        ("/v1/leader/workers", Some(Kind::Command)),
        ("/v1/broadcast/t", Some(Kind::Command)),
    ] {
        assert_eq!(lasting(path), kind, "{path}");
    }
}

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
async fn while_a_newcomer_waits_for_a_place_each_answer_is_the_last_one_of_its_connection() {
    use tower::ServiceExt as _;

    let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
    let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
    let agent = crate::Agent::start(config).await.expect("started");
    let close = tokio_util::sync::CancellationToken::new();
    let table = super::super::Table::new(super::super::Limits::new(4, 4), close.clone());
    let address = ([127, 0, 0, 1], 1).into();
    let settings = super::super::HttpSettings::default();
    let router = super::super::router(agent.clone(), address, settings, Arc::clone(&table), close);
    let is_last = async || {
        let request = Request::builder().uri("/healthz").body(Body::empty()).expect("a request");
        let answer = router.clone().oneshot(request).await.expect("answered");
        answer.headers().get(header::CONNECTION).is_some_and(|value| value == "close")
    };
    let mut seats = Vec::new();
    for _ in 0..4 {
        seats.extend(table.admit(Ipv4Addr::LOCALHOST.into()).await);
    }
    assert!(seats.len() == 4 && !is_last().await, "all places are taken, and nobody waits");
    let mut newcomer = Box::pin(table.admit(Ipv4Addr::LOCALHOST.into()));
    assert!(futures_util::FutureExt::now_or_never(newcomer.as_mut()).is_none());
    assert!(is_last().await);
    seats.pop();
    assert!(newcomer.await.is_some() && !is_last().await);
    agent.leave().await;
}

#[tokio::test]
async fn who_waits_for_its_turn_makes_room_who_is_being_answered_does_not_and_health_checks_wait_for_nobody() {
    use axum::routing::get;
    use futures_util::FutureExt as _;
    use tower::ServiceExt as _;

    let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
    let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
    let agent = crate::Agent::start(config).await.expect("started");
    let close = tokio_util::sync::CancellationToken::new();
    let table = super::super::Table::new(super::super::Limits::new(4, 4), close.clone());
    let settings = super::super::HttpSettings::default();
    let address = ([127, 0, 0, 1], 1).into();
    let app = App::new(Shared::new(agent.clone(), address, settings, Arc::clone(&table), close));
    let router = axum::Router::new()
        .route("/healthz", get(async || ()))
        .route("/slow", get(std::future::pending::<()>))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), guard));
    let admit = || table.admit(Ipv4Addr::LOCALHOST.into()).now_or_never().flatten();
    let seats: Vec<_> = (0..4).map(|_| admit().expect("a place")).collect();
    let is_shed = |at: usize| seats[at].line.shed().now_or_never().is_some();
    let ask = |path: &str, at: usize| {
        let request = Request::builder().uri(path).header(header::HOST, "127.0.0.1");
        let request = request.extension(Arc::clone(&seats[at].line)).body(Body::empty()).expect("a request");
        Box::pin(router.clone().oneshot(request))
    };
    let mut begun = ask("/slow", 0);
    for _ in 0..2 {
        assert!(begun.as_mut().now_or_never().is_none());
    }
    // Turns that were taken, and whose answers are not begun.
    let mut turns: Vec<_> = (0..super::super::MAX_ANSWERS_MADE)
        .map(|_| Box::pin(app.turns.take(false, || (), std::future::ready(()))))
        .collect();
    assert!(turns.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
    let mut waiting = ask("/slow", 1);
    assert!(waiting.as_mut().now_or_never().is_none());

    let mut health = ask("/healthz", 2);
    let answered = (0..2).find_map(|_| health.as_mut().now_or_never());
    assert_eq!(answered.expect("answered").expect("an answer").status(), StatusCode::OK);
    let newcomer = admit();
    assert!(newcomer.is_some() && is_shed(1), "its answer is not begun");
    assert!(admit().is_none() && !is_shed(0), "it is being answered");
    agent.leave().await;
}

#[tokio::test]
async fn an_answer_weighs_until_it_has_been_read_or_is_given_up() {
    let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
    let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
    let agent = crate::Agent::start(config).await.expect("started");
    let app = App::new(Shared::of(agent.clone()));
    let mut seats = Vec::new();
    let mut count = async |bytes: usize| {
        let seat = app.table.admit(Ipv4Addr::LOCALHOST.into()).await.expect("a place");
        let line = Arc::clone(&seat.line);
        seats.push(seat);
        count_answer(&app, Some(line), vec![0_u8; bytes].into_response())
    };
    // Small ones are not counted, and large ones up to the whole budget.
    let _small = count(MAX_UNCOUNTED_ANSWER_BYTES).await.expect("sent");
    let half = MAX_COUNTED_ANSWER_BYTES / 2;
    let (one, two) = (count(half).await.expect("sent"), count(half).await.expect("sent"));
    assert_eq!(app.weight.available_permits(), 0);
    let refused = count(MAX_UNCOUNTED_ANSWER_BYTES + 1).await.expect_err("too many").into_response();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let _small = count(MAX_UNCOUNTED_ANSWER_BYTES).await.expect("sent");
    drop(one);
    let mut read = axum::body::to_bytes(two.into_body(), usize::MAX).await.expect("read");
    assert_eq!((read.len(), app.weight.available_permits()), (half, half / 1024), "it is not sent yet");
    // hyper keeps all of it until the last byte has left.
    let last = read.split_off(half - 1);
    drop(read);
    assert_eq!(app.weight.available_permits(), half / 1024);
    drop(last);
    assert_eq!(app.weight.available_permits(), MAX_COUNTED_ANSWER_BYTES / 1024);
    let _whole = count(MAX_COUNTED_ANSWER_BYTES * 2).await.expect("a single one may be larger");
    assert_eq!(app.weight.available_permits(), 0);
    agent.leave().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_makes_room_for_others() {
    let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
    let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
    let agent = crate::Agent::start(config).await.expect("started");
    let app = App::new(Shared::of(agent.clone()));
    let (slow, next) = (
        app.table.admit(Ipv4Addr::LOCALHOST.into()).await.expect("a place"),
        app.table.admit(Ipv4Addr::LOCALHOST.into()).await.expect("a place"),
    );
    let count = |seat: &super::super::table::Seat, bytes: usize| {
        count_answer(&app, Some(Arc::clone(&seat.line)), vec![0_u8; bytes].into_response())
    };
    let unread = count(&slow, MAX_COUNTED_ANSWER_BYTES).expect("sent");
    count(&next, MAX_UNCOUNTED_ANSWER_BYTES + 1).expect_err("it has its time");
    let is_shed = async || tokio::time::timeout(std::time::Duration::ZERO, slow.line.shed()).await.is_ok();
    assert!(!is_shed().await, "not yet");
    tokio::time::advance(super::super::table::MIN_READ_TIME).await;
    count(&next, MAX_UNCOUNTED_ANSWER_BYTES + 1).expect_err("there is room a moment later");
    assert!(is_shed().await, "it had its time");
    drop(unread);
    count(&next, MAX_UNCOUNTED_ANSWER_BYTES + 1).expect("sent");
    agent.leave().await;
}
