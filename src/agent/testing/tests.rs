//! A made-up cluster shows a program what a real one would.

use super::*;
use crate::agent::{ConfirmError, LeadError, MessageError, RecvError};

fn names(agent: &Agent) -> Vec<String> {
    agent.live_members().iter().filter(|member| member.may_work()).map(|member| member.id.to_string()).collect()
}

fn id(name: &str) -> NodeId {
    NodeId::new(name).expect("a name")
}

#[tokio::test(start_paused = true)]
async fn members_come_and_go_at_the_tests_word_and_each_change_is_an_event() {
    let cluster = Cluster::new("a");
    let agent = cluster.agent();
    agent.wait_until_up().await.expect("it is from the start");
    let (snapshot, mut events) = agent.subscribe_from_snapshot();
    assert_eq!(snapshot.members.len(), 1);
    let b = cluster.join("b");
    cluster.join("c");
    cluster.suspect("b");
    cluster.recover("b");
    cluster.set_draining("c", true);
    assert_eq!(names(agent), ["a", "b"]);
    cluster.set_draining("c", false);
    cluster.crash("b");
    cluster.leave("c");
    assert_eq!(names(agent), ["a"]);
    assert_ne!(cluster.join("b").run, b.run, "another process");
    cluster.forget("c");
    assert_eq!(agent.members().len(), 2);
    let mut kinds = Vec::new();
    while let Some(event) = events.try_recv().expect("no event is missing") {
        kinds.push(event.kind.name());
    }
    let expected = [
        "node_joined",
        "node_joined",
        "node_suspected",
        "node_recovered",
        "node_updated",
        "node_updated",
        "node_detected_down",
        "node_left",
        "node_joined",
        "node_removed",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(agent.health(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn work_runs_while_this_node_leads_and_terms_rise() {
    let cluster = Cluster::new("a");
    let agent = cluster.agent();
    cluster.join("b");
    assert_eq!(agent.confirm_leadership().await, Err(ConfirmError::NotLeader { leader: None }));
    let first = cluster.elect("b");
    assert!(!agent.is_leader_now());
    cluster.crash("b");
    assert_eq!(agent.leadership().get().leader, None, "it led");
    let term = cluster.elect("a");
    assert!(term > first && agent.is_leader_now());
    assert_eq!(agent.confirm_leadership().await.map(|confirmed| confirmed.term), Ok(term));
    let (tells, mut began) = mpsc::unbounded_channel();
    let works = tokio::spawn({
        let agent = agent.clone();
        async move {
            let work = |term| {
                tells.send(term).expect("the test waits");
                std::future::pending::<()>()
            };
            agent.while_leader(work).await
        }
    });
    assert_eq!(began.recv().await, Some(term));
    agent.resign(None).await.expect("it led");
    let next = cluster.elect("a");
    assert_eq!(began.recv().await, Some(next), "the work of the term before was dropped");
    let stop = agent.leave().await;
    assert_eq!(stop, Stop::Core(StopReason::Left));
    assert_eq!(works.await.expect("no panic"), Err(LeadError::Stopped(stop)));
}

#[tokio::test(start_paused = true)]
async fn messages_go_both_ways_and_requests_are_answered() {
    let mut cluster = Cluster::new("a");
    let agent = cluster.agent().clone();
    cluster.join("b");
    let mut inbox = agent.listen(["jobs"]).expect("a topic");
    cluster.broadcast("b", "jobs", b"one");
    cluster.send("b", "other", b"nobody listens");
    assert_eq!(inbox.recv().await.map(|message| message.payload.to_vec()), Ok(b"one".to_vec()));

    assert_eq!(agent.broadcast("jobs", b"two").await.map(|said| said.addressed), Ok(2));
    assert_eq!(inbox.recv().await.map(|message| message.from), Ok(id("a")), "its own listeners hear it, too");
    agent.send(&id("b"), "jobs", b"three").await.expect("it is there");
    let said = [cluster.said().await, cluster.try_said()].map(|said| said.expect("said"));
    assert_eq!([None, Some(id("b"))], said.map(|said| said.to));
    assert!(matches!(agent.send(&id("c"), "jobs", b"").await, Err(MessageError::Refused(_))), "there is no c");

    let asks = tokio::spawn({
        let agent = agent.clone();
        async move { agent.request(&id("b"), "sum", b"1+1", Duration::from_secs(1)).await }
    });
    cluster.said().await.expect("a request").answer(b"2");
    assert_eq!(asks.await.expect("no panic"), Ok(b"2".to_vec()));

    let mut questions = agent.listen(["sum"]).expect("a topic");
    let replies = async {
        let question = questions.recv().await.expect("a question");
        agent.reply(question.id, b"4").await.expect("somebody waits");
    };
    let (answer, ()) = tokio::join!(cluster.request("b", "sum", b"2+2"), replies);
    assert_eq!(answer.map(|answer| answer.to_vec()), Some(b"4".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn what_a_program_says_of_itself_is_seen_and_its_end_is_an_end() {
    let cluster = Cluster::new("a");
    let agent = cluster.agent().clone();
    let mut events = agent.subscribe();
    let tags = Tags::new(BTreeMap::from([("role".to_owned(), "cache".to_owned())])).expect("small");
    agent.drain().await.expect("it drains");
    agent.set_tags(tags.clone()).await.expect("small");
    assert!(agent.me().draining && agent.me().tags == tags);
    cluster.join("b");
    assert!(agent.remove(&id("b"), false).await.is_err(), "it is up");
    assert!(agent.remove(&id("b"), true).await.expect("by force").confirmed);
    agent.shutdown();
    assert_eq!(agent.stopped().await, Stop::Cancelled);
    while events.recv().await != Err(RecvError::Closed) {}
    assert!(agent.broadcast("jobs", b"").await.is_err());
}
