//! Handlers that change while they run, without processes: the other side of every webhook here refuses.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;
use crate::config::{Config, HandlerAction, WebhookUrl};
use crate::core::Tags;

const PATIENCE: Duration = Duration::from_secs(30);

async fn agent() -> Agent {
    let config = Config::new("a").expect("a name").with_profile(crate::Profile::Local);
    let agent = Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("started");
    agent.wait_until_up().await.expect("up");
    agent
}

/// A handler that fails at once, for what is said of these nodes.
fn handler(name: &str, path: &str, nodes: &[&str]) -> HandlerConfig {
    // Nobody listens there.
    let url = WebhookUrl::parse(&format!("http://127.0.0.1:1/{path}")).expect("an address");
    HandlerConfig {
        name: name.to_owned(),
        action: HandlerAction::Webhook { url, token_file: None, retry_for: Duration::ZERO },
        kinds: Vec::new(),
        nodes: nodes.iter().map(|node| node.parse().expect("a name")).collect(),
        tags: std::collections::BTreeMap::new(),
        topics: Vec::new(),
        timeout: Duration::from_secs(30),
        concurrency: 4,
    }
}

async fn change_tags(agent: &Agent, round: usize) {
    let tags = Tags::new([("round".to_owned(), round.to_string())].into()).expect("tags");
    agent.set_tags(tags).await.expect("it is up");
}

/// Returns the names of the handlers and the numbers of runs that each has had.
fn runs(board: &Board) -> Vec<(String, u64)> {
    board.figures().into_iter().map(|(name, figures)| (name, figures.runs)).collect()
}

#[tokio::test]
async fn what_came_before_a_change_is_handled_as_it_would_have_been() {
    let agent = agent().await;
    for round in 0..16 {
        let (board, end) = (Board::default(), CancellationToken::new());
        let context = Context { node: "a".to_owned(), cluster: "c".to_owned(), http: None };
        let make = |name: &str, nodes: &[&str]| {
            let config = handler(name, "x", nodes);
            Arc::new(Handler::new(config, context.clone(), agent.run(), board.add(name), end.clone()))
        };
        let old = make("old", &[]);
        let feed = Feed::open(agent.clone(), &old, false);
        change_tags(&agent, round).await;
        // Both an event and an order wait when the task begins.
        let (order, orders) = watch::channel(Some(Arc::clone(&old)));
        let newer = (round % 2 == 0).then(|| make("new", &["elsewhere"]));
        let goes_on = newer.is_some();
        order.send_replace(newer);
        let task = tokio::spawn(task::run(old, feed, orders));
        let handled = async {
            while runs(&board).iter().all(|(_, runs)| *runs == 0) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, handled).await.expect("the event is handled");
        assert_eq!(runs(&board)[0], ("old".to_owned(), 1));
        if goes_on {
            task.abort();
        } else {
            timeout(PATIENCE, task).await.expect("it ends, as it was told").expect("well");
        }
    }
    agent.leave().await;
}

#[tokio::test]
async fn a_changed_handler_goes_on_in_its_task_by_its_action_or_its_name() {
    let agent = agent().await;
    let (one, two, three) = (handler("one", "1", &[]), handler("two", "2", &[]), handler("three", "3", &[]));
    let mut handlers = Handlers::start(&agent, &[one.clone(), two.clone()], Board::default(), None);
    let tasks = |handlers: &Handlers| handlers.tasks.len();
    assert_eq!(tasks(&handlers), 2);
    let orders = |handlers: &Handlers| -> Vec<(String, watch::Receiver<Option<Arc<Handler>>>)> {
        handlers.running.iter().map(|running| (running.config.name.clone(), running.order.subscribe())).collect()
    };
    let is_same = |one: &watch::Receiver<_>, other: &watch::Receiver<_>| one.same_channel(other);

    // The first is gone, and the second has its name, as happens to names by position.
    let before = orders(&handlers);
    let moved = HandlerConfig { name: "one".to_owned(), ..two.clone() };
    handlers.replace(&[moved.clone(), three.clone()]);
    let after = orders(&handlers);
    assert!(is_same(&before[1].1, &after[0].1), "it is the one with this action");
    assert!(before[0].1.has_changed().is_err(), "the other one ends");
    assert!(!is_same(&before[0].1, &after[1].1), "and this one is new");

    // Of the same name, with another action.
    let before = orders(&handlers);
    handlers.replace(&[moved, HandlerConfig { name: "three".to_owned(), ..one }]);
    let after = orders(&handlers);
    assert!(is_same(&before[0].1, &after[0].1) && is_same(&before[1].1, &after[1].1));
    agent.leave().await;
    timeout(PATIENCE, handlers.finish()).await.expect("all end");
}

#[tokio::test]
async fn a_changed_handler_hears_what_it_asks_for_now_and_can_be_changed_back() {
    let agent = agent().await;
    let (elsewhere, all) = (handler("one", "1", &["elsewhere"]), handler("one", "1", &[]));
    let board = Board::default();
    let mut handlers = Handlers::start(&agent, std::slice::from_ref(&elsewhere), board.clone(), None);
    let count = || runs(&board).iter().map(|(_, runs)| *runs).sum::<u64>();
    let mut rounds = 0..;
    let mut change = async || change_tags(&agent, rounds.next().expect("endless")).await;
    handlers.replace(std::slice::from_ref(&all));
    let hears = async {
        while count() == 0 {
            change().await;
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, hears).await.expect("it hears of this node now");
    handlers.replace(&[elsewhere]);
    let is_quiet = async {
        loop {
            let before = count();
            change().await;
            sleep(Duration::from_millis(300)).await;
            if count() == before {
                break;
            }
        }
    };
    timeout(PATIENCE, is_quiet).await.expect("it hears of it no more");
    agent.leave().await;
    timeout(PATIENCE, handlers.finish()).await.expect("all end");
}
