//! Work that only a leader does.

use super::*;

/// Starts voters of one electorate, with their data below `data`, and waits until they are Up.
async fn voters(names: &[&str], data: &Path) -> Vec<Agent> {
    let mut agents: Vec<Agent> = Vec::new();
    for id in names {
        let seeds: Vec<&Agent> = agents.iter().take(1).collect();
        let config = config(id, &seeds).with_voters(names.iter().copied()).expect("names");
        agents.push(Agent::start(with_data(config, &data.join(id))).await.expect("starts"));
    }
    for agent in &agents {
        up(agent).await;
    }
    agents
}

/// Counts itself while it lives.
struct Present(Arc<AtomicUsize>);

impl Present {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0, "two leaders work at the same time");
        Self(Arc::clone(count))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn led_work_moves_with_leadership_in_ever_higher_terms_and_never_runs_twice_at_once() {
    let data = tempfile::tempdir().expect("a directory");
    let mut agents = voters(&["a", "b", "c"], data.path()).await;
    let present = Arc::new(AtomicUsize::new(0));
    let (terms, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut working = tokio::task::JoinSet::new();
    for agent in &agents {
        let (agent, present, terms) = (agent.clone(), Arc::clone(&present), terms.clone());
        working.spawn(async move {
            let me = agent.me().id;
            let work = |term| {
                let at_work = Present::new(&present);
                terms.send((me.clone(), term)).expect("read");
                async move {
                    let _at_work = at_work;
                    std::future::pending::<()>().await;
                }
            };
            agent.while_leader(work).await
        });
    }
    let (first, term) = in_time(begun.recv()).await.expect("somebody leads");
    let at = agents.iter().position(|agent| agent.me().id == first).expect("one of them");
    let leader = agents.remove(at);
    assert!(leader.is_leader_now());
    let shown = leader.leadership().get();
    assert_eq!((shown.state, shown.term, shown.is_me), (LeadershipState::Led, term, true));
    assert!(shown.valid_until.expect("a claim").remaining() <= Duration::from_secs(2));
    // Asked elsewhere for what only a leader does, the answer is the leader's own.
    let mut told = agents[0].leadership();
    in_time(told.wait_for(|told| told.leader.is_some())).await.expect("it hears of it");
    let error = in_time(agents[0].add_voter(name("d"))).await.expect_err("there is no such node");
    assert!(
        matches!(&error, AgentError::Refused(CommandError::Electorate(ChangeError::NoMember { id })) if *id == "d"),
        "{error}"
    );
    assert_eq!(in_time(leader.leave()).await, Stop::Core(StopReason::Left));
    assert!(!leader.is_leader_now());
    let (second, higher) = in_time(begun.recv()).await.expect("a successor");
    assert!(second != first && higher > term, "{second} in {higher} after {first} in {term}");
    for agent in &agents {
        agent.shutdown();
    }
    while let Some(end) = in_time(working.join_next()).await {
        assert!(matches!(
            end.expect("no panic"),
            Err(LeadError::Stopped(Stop::Cancelled | Stop::Core(StopReason::Left)))
        ));
    }
    assert_eq!(present.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn work_that_ends_by_itself_gives_its_value_and_leaving_waits_for_work_to_be_gone() {
    let data = tempfile::tempdir().expect("a directory");
    let agents = voters(&["a"], data.path()).await;
    let agent = &agents[0];
    let term = in_time(agent.while_leader(|term| async move { term })).await.expect("it leads");
    assert_eq!(term, agent.leadership().get().term);
    assert_eq!(agent.electorate().expect("its own").voters.len(), 1);
    let present = Arc::new(AtomicUsize::new(0));
    let (begins, begun) = tokio::sync::oneshot::channel();
    let (worker, count) = (agent.clone(), Arc::clone(&present));
    let working = tokio::spawn(async move {
        let mut begins = Some(begins);
        let work = |_| {
            let at_work = Present::new(&count);
            let _ = begins.take().expect("once").send(());
            async move {
                let _at_work = at_work;
                std::future::pending::<()>().await;
            }
        };
        worker.while_leader(work).await
    });
    in_time(begun).await.expect("it runs");
    assert_eq!(in_time(agent.leave()).await, Stop::Core(StopReason::Left));
    assert_eq!(present.load(Ordering::SeqCst), 0, "gone before the goodbye");
    assert_eq!(in_time(working).await.expect("no panic"), Err(Stop::Core(StopReason::Left).into()));
}

#[tokio::test]
async fn a_voter_whose_disk_takes_nothing_stands_aside_and_leads_on_where_nobody_else_could() {
    let data = tempfile::tempdir().expect("a directory");
    let agents = voters(&["a"], data.path()).await;
    let agent = &agents[0];
    let mut told = agent.leadership();
    let term = in_time(told.wait_for(|told| told.is_me)).await.expect("it leads").term;
    // A directory in the way of a rename is as good as a full disk.
    let state = data.path().join("a").join("headcount.state");
    // The agent may write its state in between.
    while std::fs::create_dir_all(state.join("in the way")).is_err() {
        let _ = std::fs::remove_file(&state);
    }
    // One more member is one more view, which has to be written.
    let b = start("b", &[agent]).await;
    up(&b).await;
    let stands_aside = async {
        while !agent.info().voter_aside {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(stands_aside).await;
    assert!(agent.info().state_write_failures >= 1);
    assert_eq!((told.get().is_me, told.get().term), (true, term), "no other voter could be elected");
    std::fs::remove_dir_all(&state).expect("removed");
    let votes_again = async {
        while agent.info().voter_aside {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(votes_again).await;
    assert!(in_time(told.wait_for(|told| told.is_me)).await.expect("it leads").term >= term);
}

#[tokio::test]
async fn work_of_a_leader_where_nobody_is_elected_is_an_error_and_does_not_wait() {
    let agent = start("a", &[]).await;
    let refused = in_time(agent.while_leader(|term| async move { term })).await.expect_err("nobody leads");
    assert_eq!(refused, LeadError::Disabled);
    assert!(refused.to_string().contains("with_voters"), "{refused}");
}
