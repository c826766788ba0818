//! The order in which connections are shed, and the room that is kept for each kind.

use super::connection_state::STALLED_AFTER;
use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn table(connections: usize, streams: usize) -> Arc<Table> {
    Table::new(Limits::new(connections, streams), CancellationToken::new())
}

async fn admit(table: &Arc<Table>) -> Seat {
    table.admit(HERE).await.expect("a place")
}

/// A full table of connections that are being answered.
async fn full(table: &Arc<Table>) -> Vec<Seat> {
    let mut seats = Vec::new();
    for _ in 0..table.limits.connections {
        seats.push(admit(table).await);
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    seats
}

fn shed(seats: &[Seat]) -> Vec<usize> {
    (0..seats.len()).filter(|at| seats[*at].line.shed.is_cancelled()).collect()
}

#[test]
fn every_tier_keeps_room_for_those_above_it_whatever_the_limits() {
    for connections in (0..200).chain([512, 1_024, 65_536]) {
        for streams in [0, 1, 100, 1_024, usize::MAX] {
            let limits = Limits::new(connections, streams);
            let tiers = [Kind::Stream, Kind::Large, Kind::Command, Kind::Short].map(|kind| limits.tier(kind));
            assert!(tiers.is_sorted_by(|below, above| below < above), "{limits:?}: {tiers:?}");
            assert!((1..=tiers[0]).contains(&limits.streams), "{limits:?}");
            let waiting = [Kind::Message, Kind::Reply].map(|kind| limits.tier(kind));
            assert!(tiers[1] <= waiting[0] && waiting[0] <= waiting[1] && waiting[1] < tiers[2], "{limits:?}");
            let lasting = [Kind::Large, Kind::Message, Kind::Reply, Kind::Command];
            assert!(lasting.iter().all(|kind| limits.of(*kind) > 0));
        }
    }
    assert_eq!(Limits::new(1_024, 1_024).streams, 1_000, "the documented figure");
}

#[tokio::test(start_paused = true)]
async fn of_those_that_may_go_one_of_the_host_with_the_most_connections_goes_first() {
    for phase in [Phase::Reading, Phase::Writing, Phase::Waiting] {
        let table = table(8, 8);
        let elsewhere = IpAddr::from([10, 0, 0, 1]);
        let mut seats = Vec::new();
        // The two of this host are the oldest.
        for peer in [HERE, HERE].into_iter().chain([elsewhere; 6]) {
            seats.push(table.admit(peer).await.expect("a place"));
            seats.last().expect("it").line.set_phase(phase);
            tokio::time::advance(STALLED_AFTER).await;
        }
        for _ in 0..4 {
            seats.push(table.admit(elsewhere).await.expect("a place"));
        }
        assert_eq!(shed(&seats), [2, 3, 4, 5], "{phase:?}");
        drop(seats);
        assert_eq!(table.figures().connections, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_late_end_of_an_answer_ends_no_later_use_of_its_connection() {
    let table = table(64, 64);
    let seat = admit(&table).await;
    let answer = table.enter(&seat.line, Kind::Large).expect("room");
    // The next request came by the same connection before the last bytes of the answer were sent.
    let stream = table.enter(&seat.line, Kind::Stream).expect("room");
    drop(answer);
    assert!(seat.line.is(Kind::Stream));
    drop(stream);
    assert!(seat.line.is(Kind::Short));
}

#[tokio::test(start_paused = true)]
async fn the_one_that_owes_a_request_for_the_longest_goes_first() {
    let table = table(8, 8);
    let mut seats = full(&table).await;
    for at in [5, 3, 6] {
        seats[at].line.set_phase(Phase::Reading);
    }
    seats.push(admit(&table).await);
    assert_eq!(shed(&seats), [3]);
    // An answer makes a connection young again.
    seats[5].line.progressed();
    seats[5].line.set_phase(Phase::Reading);
    seats.push(admit(&table).await);
    assert_eq!(shed(&seats), [3, 6]);
    assert_eq!((table.figures().connections, table.figures().shed), (8, 2));
}

#[tokio::test(start_paused = true)]
async fn then_go_readers_that_take_nothing_and_answers_last() {
    let table = table(8, 8);
    let mut seats = full(&table).await;
    for at in [4, 2] {
        seats[at].line.progressed();
        seats[at].line.set_phase(Phase::Writing);
    }
    tokio::time::advance(STALLED_AFTER).await;
    seats[2].line.progressed();
    seats[2].line.set_phase(Phase::Writing);
    seats.push(admit(&table).await);
    assert_eq!(shed(&seats), [4], "the other one got on a moment ago");
    let begun = Instant::now();
    seats.push(admit(&table).await);
    assert_eq!(shed(&seats), [2, 4], "somebody must go");
    assert!(begun.elapsed() <= ADMIT_PATIENCE + ADMIT_RETRY);
    assert!(table.admit(HERE).await.is_none(), "those that are being answered stay");
    assert_eq!((table.figures().refused, table.figures().connections), (1, 8));
    drop(seats.pop());
    admit(&table).await;
}

#[tokio::test(start_paused = true)]
async fn of_those_whose_answer_is_not_begun_the_one_with_the_most_answers_goes_first() {
    let table = table(8, 8);
    let mut seats = full(&table).await;
    for (at, answers) in [(1, 0), (5, 3), (3, 3), (6, 1)] {
        for _ in 0..answers {
            seats[at].line.begins();
        }
        seats[at].line.set_phase(Phase::Waiting);
    }
    for expected in [&[3][..], &[3, 5], &[3, 5, 6], &[1, 3, 5, 6]] {
        let begun = Instant::now();
        seats.push(admit(&table).await);
        assert_eq!((shed(&seats), begun.elapsed()), (expected.to_vec(), Duration::ZERO));
    }
    seats[0].line.set_phase(Phase::Waiting);
    seats[0].line.begins();
    assert!(table.admit(HERE).await.is_none(), "it is being answered");
}

#[tokio::test(start_paused = true)]
async fn a_table_is_crowded_while_a_newcomer_waits_and_no_longer() {
    let table = table(8, 8);
    let mut seats = full(&table).await;
    assert!(!table.is_crowded(), "full, and nobody waits");
    let waiting = tokio::spawn({
        let table = Arc::clone(&table);
        async move { table.admit(HERE).await }
    });
    tokio::time::sleep(ADMIT_RETRY / 2).await;
    assert!(table.is_crowded());
    drop(seats.pop());
    seats.extend(waiting.await.expect("not cancelled"));
    assert!(seats.len() == 8 && !table.is_crowded());
    seats[3].line.set_phase(Phase::Reading);
    seats.push(admit(&table).await);
    assert!(!table.is_crowded(), "somebody could be shed at once");
    assert!(table.admit(HERE).await.is_none() && !table.is_crowded(), "it waits no more");
}

#[tokio::test(start_paused = true)]
async fn so_many_large_answers_are_sent_at_one_time_and_the_next_one_waits_for_a_reader() {
    let table = table(1_024, 1_000);
    let (mut seats, mut holds) = (Vec::new(), Vec::new());
    for _ in 0..MAX_LARGE_ANSWERS {
        seats.push(admit(&table).await);
        holds.push(table.enter(&seats.last().expect("one").line, Kind::Large).expect("a place"));
    }
    let late = admit(&table).await;
    assert!(table.enter(&late.line, Kind::Large).is_none());
    seats[7].line.set_phase(Phase::Writing);
    tokio::time::advance(STALLED_AFTER).await;
    holds.push(table.enter(&late.line, Kind::Large).expect("the place of one that reads nothing"));
    assert_eq!(shed(&seats), [7]);
}

#[tokio::test(start_paused = true)]
async fn a_descriptor_is_taken_from_who_waits_then_from_the_oldest_stream_and_never_from_a_command() {
    let table = table(32, 8);
    let mut seats = Vec::new();
    for _ in 0..7 {
        seats.push(admit(&table).await);
    }
    let mut holds = Vec::new();
    for (at, kind) in [(2, Kind::Large), (1, Kind::Stream), (0, Kind::Stream), (3, Kind::Command), (6, Kind::Large)] {
        holds.push(table.enter(&seats[at].line, kind).expect("a place"));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    seats[6].line.set_phase(Phase::Writing);
    seats[5].line.set_phase(Phase::Reading);
    tokio::time::advance(STALLED_AFTER).await;
    let mut order = Vec::new();
    while let Some(victim) = table.shed_for_descriptor() {
        order.extend(seats.iter().position(|seat| Arc::ptr_eq(&seat.line, &victim)));
    }
    assert_eq!(order, [5, 1, 0, 6, 2]);
}

#[tokio::test(start_paused = true)]
async fn nothing_that_lasts_takes_the_places_of_what_is_above_it() {
    let table = table(48, 1_000);
    let mut seats = Vec::new();
    let mut holds = Vec::new();
    let mut fill = async |kind: Kind| {
        let before = holds.len();
        loop {
            let seat = admit(&table).await;
            let hold = table.enter(&seat.line, kind);
            let is_full = hold.is_none();
            holds.extend(hold);
            if is_full {
                break;
            }
            seats.push(seat);
        }
        holds.len() - before
    };
    assert_eq!(fill(Kind::Stream).await, 42);
    assert_eq!(fill(Kind::Large).await, 2);
    assert_eq!(fill(Kind::Command).await, 2);
    assert_eq!(table.figures().streams, 42);
    assert_eq!(table.figures().connections, 46, "two are left for short answers");
    drop(holds);
    assert_eq!(table.figures().streams, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_reads_makes_room_for_one_that_somebody_does() {
    let table = table(8, 2);
    let seats = [admit(&table).await, admit(&table).await, admit(&table).await];
    let _first = table.enter(&seats[0].line, Kind::Stream).expect("a place");
    let _second = table.enter(&seats[1].line, Kind::Stream).expect("a place");
    assert!(table.enter(&seats[2].line, Kind::Stream).is_none());
    seats[1].line.set_phase(Phase::Writing);
    assert!(table.enter(&seats[2].line, Kind::Stream).is_none(), "not yet");
    tokio::time::advance(STALLED_AFTER).await;
    let _third = table.enter(&seats[2].line, Kind::Stream).expect("a place");
    assert_eq!(shed(&seats), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_yields_to_another_when_it_had_its_time() {
    let table = table(8, 2);
    let mut seats = Vec::new();
    let mut holds = Vec::new();
    for _ in 0..table.limits.of(Kind::Large) {
        let seat = admit(&table).await;
        holds.push(table.enter(&seat.line, Kind::Large).expect("a place"));
        seats.push(seat);
    }
    let late = admit(&table).await;
    assert!(table.enter(&late.line, Kind::Large).is_none());
    tokio::time::advance(MIN_READ_TIME).await;
    holds.push(table.enter(&late.line, Kind::Large).expect("a place"));
    assert_eq!(shed(&seats).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_counted_and_leaves_a_free_place() {
    let table = table(8, 2);
    let seat = admit(&table).await;
    let task = tokio::spawn(async move {
        let _seat = seat;
        panic!("on purpose");
    });
    assert!(task.await.expect_err("it panics").is_panic());
    assert_eq!((table.figures().panics, table.figures().connections), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_leave_their_places_to_replies_and_commands() {
    let table = table(1_024, 1_000);
    let (mut seats, mut holds) = (Vec::new(), Vec::new());
    for (kind, most) in [(Kind::Message, MAX_MESSAGES), (Kind::Reply, MAX_REPLIES), (Kind::Command, MAX_COMMANDS)] {
        for _ in 0..most {
            seats.push(admit(&table).await);
            holds.push(table.enter(&seats.last().expect("one").line, kind).expect("a place of its own"));
        }
        seats.push(admit(&table).await);
        assert!(table.enter(&seats.last().expect("one").line, kind).is_none(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn frames_that_readers_do_not_take_cost_no_more_than_their_bound() {
    let table = table(64, 64);
    let frame = MAX_UNREAD_MESSAGE_BYTES / 8;
    let (mut seats, mut holds) = (Vec::new(), Vec::new());
    for at in 0..8 {
        seats.push(admit(&table).await);
        holds.push(table.hold_frame(&seats[at].line, frame));
        seats[at].line.set_phase(Phase::Writing);
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert_eq!(shed(&seats), [0; 0], "exactly at the bound");
    seats.push(admit(&table).await);
    holds.push(table.hold_frame(&seats[8].line, frame));
    assert_eq!(shed(&seats), [0], "the longest without progress");
    // What was shed is free at once, and not once more when its task is dropped.
    drop(holds.remove(0));
    assert_eq!(table.unread_messages(), MAX_UNREAD_MESSAGE_BYTES);
    seats[1].line.progressed();
    seats.push(admit(&table).await);
    let last = table.hold_frame(&seats[9].line, 1);
    assert_eq!(shed(&seats), [0, 2], "one that got on since, or that is not being written, stays");
    drop((holds, last));
    assert_eq!(table.unread_messages(), 0);
}

#[tokio::test(start_paused = true)]
async fn frames_on_their_way_to_readers_that_read_shed_nobody() {
    let table = table(64, 64);
    let mut seats = Vec::new();
    let mut holds = Vec::new();
    for at in 0..20 {
        seats.push(admit(&table).await);
        holds.push(table.hold_frame(&seats[at].line, MAX_UNREAD_MESSAGE_BYTES / 8));
    }
    assert_eq!(shed(&seats), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn so_many_that_were_shed_may_still_be_there_and_the_next_newcomer_waits_for_one_of_them() {
    let table = table(MAX_LEAVING + 8, 8);
    let mut seats = full(&table).await;
    for seat in &seats {
        seat.line.set_phase(Phase::Reading);
    }
    for _ in 0..MAX_LEAVING {
        let begun = Instant::now();
        seats.push(admit(&table).await);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
    let waits = tokio::time::timeout(ADMIT_PATIENCE * 2, table.admit(HERE)).await;
    assert!(waits.is_err(), "memory of one more would not be counted");
    let ((), newcomer) = tokio::join!(async { drop(seats.remove(0)) }, admit(&table));
    assert_eq!(table.leaving.load(Ordering::Relaxed), MAX_LEAVING, "one is gone, and one was shed");
    drop((newcomer, seats));
    assert_eq!((table.leaving.load(Ordering::Relaxed), table.figures().connections), (0, 0));
    admit(&table).await;
}
