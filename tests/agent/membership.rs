//! Members as a program sees them: joining, leaving, events, tags, names.

use super::*;

#[tokio::test]
async fn two_agents_find_each_other_through_a_seed() {
    let a = start("a", &[]).await;
    up(&a).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let names = |agent: &Agent| agent.members().iter().map(|member| member.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&a), ["a", "b"]);
    assert_eq!(names(&b), ["a", "b"]);

    let of_b = a.member(&name("b")).expect("listed");
    assert_eq!((of_b.address, of_b.run, of_b.is_me), (b.gossip_address(), b.run(), false));
    assert!(b.me().is_me);
    assert_eq!(b.me().version, env!("CARGO_PKG_VERSION"));
    let info = a.info();
    assert_eq!(info.members, [0, 2, 0, 0, 0, 0]);
    // Figures are published a moment after events.
    in_time(async {
        while a.info().counters.packets_received == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(a.health(), Ok(()));
    assert_eq!(a.stop(), None);
}

#[tokio::test]
async fn heard_and_round_trip_times_reach_the_listing() {
    let a = start("a", &[]).await;
    up(&a).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    in_time(async {
        // The first heartbeats need some hundred milliseconds, and nothing announces them.
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        let is_whole = |b: headcount::Member| {
            let intervals = b.heard_interval.and(b.sent_interval);
            b.last_heard.and(b.last_sent).and(intervals).and(b.rtt).is_some()
        };
        while !a.member(&name("b")).is_some_and(is_whole) {
            tick.tick().await;
        }
    })
    .await;
    assert_eq!((a.me().last_heard, a.me().last_sent), (None, None));
}

#[tokio::test]
async fn leaving_is_seen_as_leaving_by_the_others() {
    let a = start("a", &[]).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let mut events = a.subscribe();
    assert_eq!(in_time(b.leave()).await, Stop::Core(StopReason::Left));
    assert_eq!(b.stop().map(|stop| stop.exit_code()), Some(0));
    let EventKind::NodeLeft { reason, .. } = next_of(&mut events, "node_left", "b").await else { unreachable!() };
    assert_eq!(reason, LeaveReason::Graceful);
    assert_eq!(b.set_tags(Tags::default()).await, Err(AgentError::Stopped));
    assert_eq!(in_time(b.leave()).await, Stop::Core(StopReason::Left), "leaving twice is no error");
}

#[tokio::test]
async fn dropping_the_last_handle_stops_the_agent_without_a_goodbye() {
    let a = start("a", &[]).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let address = b.gossip_address();
    let (mut of_a, mut of_b) = (a.subscribe(), b.subscribe());
    let clone = b.clone();
    drop(b);
    assert_eq!(clone.stop(), None, "a handle is left");
    drop(clone);
    while in_time(of_b.recv()).await != Err(RecvError::Closed) {}
    std::net::UdpSocket::bind(address).expect("the port is free again");
    next_of(&mut of_a, "node_detected_down", "b").await;
}

#[tokio::test]
async fn shutting_down_stops_at_once_and_says_so() {
    let a = start("a", &[]).await;
    a.shutdown();
    assert_eq!(in_time(a.stopped()).await, Stop::Cancelled);
    assert_eq!(a.wait_until_up().await, Err(Stop::Cancelled));
    assert_eq!(a.me().id, name("a"), "what was known stays readable");
}

#[tokio::test]
async fn a_taken_port_is_a_bind_error() {
    let a = start("a", &[]).await;
    let mut second = config("b", &[]);
    second.bind = Some(a.gossip_address());
    let error = Agent::start(second).await.expect_err("taken");
    assert!(matches!(error, StartError::Bind { address, .. } if address == a.gossip_address()), "{error}");
    assert_eq!(error.exit_code(), 3);
}

#[tokio::test]
async fn two_agents_on_one_data_directory_are_one_too_many() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Agent::start(with_data(config("a", &[]), directory.path())).await.expect("starts");
    let error = Agent::start(with_data(config("b", &[]), directory.path())).await.expect_err("locked");
    assert!(matches!(error, StartError::Store(StoreError::InUse { .. })), "{error}");
    assert_eq!(error.exit_code(), 4);
    let incarnation = first.me().incarnation;
    in_time(first.leave()).await;

    let again = Agent::start(with_data(config("a", &[]), directory.path())).await.expect("free again");
    assert!(again.me().incarnation > incarnation);
}

#[tokio::test]
async fn a_state_file_of_another_cluster_refuses_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Agent::start(with_data(config("a", &[]), directory.path())).await.expect("starts");
    in_time(first.leave()).await;
    let mut other = with_data(config("a", &[]), directory.path());
    other.cluster = name("other");
    let error = Agent::start(other).await.expect_err("refused");
    assert!(matches!(error, StartError::Store(StoreError::OtherCluster { .. })), "{error}");
}

#[tokio::test]
async fn new_tags_reach_the_other_side_with_the_ones_before() {
    let a = start("a", &[]).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let since = a.member(&name("b")).expect("listed").since;
    let mut events = a.subscribe();
    let tags = Tags::new(BTreeMap::from([("zone".to_owned(), "eu-1".to_owned())])).expect("good tags");
    in_time(b.set_tags(tags.clone())).await.expect("set");
    assert_eq!(b.me().tags, tags);
    loop {
        let EventKind::NodeUpdated { member, previous } = next_of(&mut events, "node_updated", "b").await else {
            unreachable!()
        };
        if member.tags == tags {
            assert!(previous.tags.is_empty());
            assert_eq!(member.since, since, "new tags do not make a node younger");
            break;
        }
    }
}

#[tokio::test]
async fn a_subscriber_that_is_too_slow_is_told_and_harms_nobody() {
    let a = start("a", &[]).await;
    up(&a).await;
    let mut slow = a.subscribe();
    let mut quick = a.subscribe();
    let before = a.info().last_event;
    let mut value = 0u64;
    while a.info().last_event <= before + KEPT_EVENTS as u64 {
        value += 1;
        let tags = BTreeMap::from([("n".to_owned(), value.to_string())]);
        in_time(a.set_tags(Tags::new(tags).expect("good tags"))).await.expect("set");
        while quick.try_recv().expect("it keeps up").is_some() {}
    }
    let missed = a.info().last_event - before - KEPT_EVENTS as u64;
    assert_eq!(slow.try_recv(), Err(RecvError::Lagged { missed }));
    assert_eq!(slow.resync().members.len(), 1);
    assert_eq!(slow.try_recv(), Ok(None));
    assert!(a.subscribe_after(before).is_err());
}

#[tokio::test]
async fn a_snapshot_and_what_follows_give_the_listing() {
    let a = start("a", &[]).await;
    up(&a).await;
    let followers: Vec<_> = {
        let mut followers = vec![a.subscribe_from_snapshot()];
        for id in ["b", "c", "d"] {
            let node = start(id, &[&a]).await;
            followers.push(a.subscribe_from_snapshot());
            up(&node).await;
            sees(&a, id, Status::Up).await;
            followers.push(a.subscribe_from_snapshot());
            in_time(node.leave()).await;
            sees(&a, id, Status::Left(LeaveReason::Graceful)).await;
        }
        followers
    };
    let listing: BTreeMap<_, _> = a.members().into_iter().map(|member| (member.id.clone(), member.status)).collect();
    let last = a.info().last_event;
    for (snapshot, mut events) in followers {
        let mut members: BTreeMap<_, _> = snapshot.members.into_iter().map(|m| (m.id.clone(), m.status)).collect();
        for sequence in snapshot.sequence + 1..=last {
            let event = events.try_recv().expect("nothing is lost").expect("nothing is missing");
            assert_eq!(event.sequence, sequence);
            match event.kind {
                EventKind::NodeRemoved { member } => drop(members.remove(&member.id)),
                kind => members.extend(kind.member().map(|member| (member.id.clone(), member.status))),
            }
        }
        assert_eq!(members, listing, "from {}", snapshot.sequence);
    }
}

#[tokio::test]
async fn events_can_be_replayed_from_the_first_and_filtered() {
    let a = start("a", &[]).await;
    up(&a).await;
    let mut all = a.subscribe_after(0).expect("everything is kept");
    assert_eq!(next(&mut all).await.sequence, 1);
    let joined = Filter::all().kinds(["node_joined"]).expect("known").nodes([name("a")]);
    let mut joined = a.subscribe_after(0).expect("everything is kept").filtered(joined);
    assert!(matches!(next(&mut joined).await.kind, EventKind::NodeJoined { member } if member.is_me));
}

#[tokio::test]
async fn join_tells_for_each_address_who_answered() {
    let (a, b) = (start("a", &[]).await, start("b", &[]).await);
    up(&a).await;
    up(&b).await;
    let there = b.gossip_address().to_string();
    let gone = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let silent = gone.local_addr().expect("an address").to_string();
    let asked = vec![there.clone(), "no colon".to_owned(), silent.clone()];
    let results = in_time(a.join(asked)).await.expect("it runs");
    assert_eq!((results[0].address.as_str(), &results[0].outcome), (there.as_str(), &Ok(name("b"))));
    assert!(results[1].outcome.as_ref().is_err_and(|error| error.to_string().contains("has no port")));
    assert!(results[2].outcome.as_ref().is_err_and(|error| error.to_string().contains("nobody answered")));
    sees(&a, "b", Status::Up).await;
    sees(&b, "a", Status::Up).await;

    let many = vec![there; MAX_SEEDS + 1];
    assert_eq!(a.join(many).await, Err(AgentError::TooManyAddresses { asked: MAX_SEEDS + 1 }));
}

#[tokio::test]
async fn removing_asks_for_a_member_that_is_down_or_for_force() {
    let a = start("a", &[]).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let refused = in_time(a.remove(&name("b"), false)).await;
    assert!(matches!(refused, Err(AgentError::Refused(CommandError::NotDown { .. }))), "{refused:?}");
    let unknown = in_time(a.remove(&name("z"), true)).await;
    assert!(matches!(unknown, Err(AgentError::Refused(CommandError::NoSuchMember { .. }))), "{unknown:?}");
    in_time(a.remove(&name("b"), true)).await.expect("removed");
    assert_eq!(a.member(&name("b")).map(|b| b.status), Some(Status::Left(LeaveReason::Forced)));
    assert_eq!(in_time(b.stopped()).await, Stop::Core(StopReason::Removed));
}

#[tokio::test]
async fn a_name_in_use_stops_the_newcomer_and_says_where() {
    let a = start("a", &[]).await;
    let first = start("b", &[&a]).await;
    up(&first).await;
    let second = start("b", &[&a]).await;
    let error = in_time(second.wait_until_up()).await.expect_err("refused");
    assert_eq!(error.exit_code(), 5);
    assert!(error.to_string().contains(&first.gossip_address().to_string()), "{error}");
    assert_eq!(first.stop(), None);
}

#[tokio::test]
async fn members_that_were_gone_before_a_node_joined_are_listed_and_no_news() {
    let a = start("a", &[]).await;
    up(&a).await;
    // Somebody stays: a node that is alone with its verdicts may keep them from a joiner, if it hears nobody for long.
    let stays = start("stays", &[&a]).await;
    let (left, killed) = (start("left", &[&a]).await, start("killed", &[&a]).await);
    for agent in [&stays, &left, &killed] {
        up(agent).await;
        sees(&a, agent.me().id.as_str(), Status::Up).await;
    }
    in_time(left.leave()).await;
    // To its end: half stopped it might still refute that it is gone.
    killed.shutdown();
    in_time(killed.stopped()).await;
    drop(killed);
    sees(&a, "left", Status::Left(LeaveReason::Graceful)).await;
    sees(&a, "killed", Status::Down).await;

    let b = start("b", &[&a]).await;
    let mut events = b.subscribe_after(0).expect("all are kept");
    up(&b).await;
    let listed = |agent: &Agent| agent.members().iter().map(|member| member.id.to_string()).collect::<Vec<_>>();
    assert_eq!(listed(&b), ["a", "b", "killed", "left", "stays"]);
    let live: Vec<_> = b.live_members().iter().map(|member| member.id.to_string()).collect();
    assert_eq!(live, ["a", "b", "stays"], "those that may be given work");
    // A change from now on is news, also of members that were gone.
    let again = start("killed", &[&a]).await;
    up(&again).await;
    sees(&b, "killed", Status::Up).await;
    let mut told = Vec::new();
    while let Some(event) = events.try_recv().expect("few events") {
        if event.kind.node().is_some_and(|id| *id == "killed" || *id == "left") {
            told.push((event.kind.name(), event.kind.node().map(ToString::to_string)));
        }
    }
    assert_eq!(told, [("node_joined", Some("killed".to_owned()))]);
}

#[tokio::test]
async fn a_handle_says_what_its_node_lacks_until_it_is_up() {
    let a = start("a", &[]).await;
    up(&a).await;
    assert_eq!(a.joining(), None);
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let key = headcount::seal::Key::parse(key).expect("a key");
    let mut config = config("b", &[&a]).with_keys([key]);
    config.seeds.push("127.0.0.1:9".to_owned());
    let b = Agent::start(config).await.expect("starts");
    let joining = in_time(async {
        loop {
            let joining = b.joining().expect("it is joining");
            if joining.to_string().contains("does not open") {
                return joining;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let at = a.gossip_address().to_string();
    let missing = format!("{at} does not open what this node sends: it has no keys");
    assert!(joining.to_string().starts_with(&missing), "{joining}");
    let answer =
        |address: &str| joining.asked.iter().find(|asked| asked.address == address).map(|asked| &asked.outcome);
    assert!(matches!(answer(&at), Some(Err(JoinFailure::Refused { .. }))), "{joining:?}");
    assert_eq!(answer("127.0.0.1:9"), Some(&Err(JoinFailure::Silent)));
}
