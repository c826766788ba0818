//! Who makes room, and the room that each kind of lasting call leaves free.

use futures_util::FutureExt as _;

use super::*;

fn table(connections: usize, streams: usize) -> Arc<Table> {
    Table::new(Limits::new(connections, streams), CancellationToken::new())
}

async fn admit(table: &Arc<Table>) -> Seat {
    table.admit().await.expect("a place")
}

/// Returns connections that are being answered and take all places but the spare ones.
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
fn each_kind_leaves_room_for_the_next_and_all_of_them_for_the_rest_whatever_the_limits() {
    for connections in (0..200).chain([512, 1_024, 65_536]) {
        for streams in [0, 1, 100, 1_024, usize::MAX] {
            let limits = Limits::new(connections, streams);
            assert!(limits.up_to.is_sorted_by(|before, after| before < after), "{limits:?}");
            assert!(limits.up_to[KINDS - 1] < limits.connections, "{limits:?}");
            assert!((1..=limits.up_to[0]).contains(&limits.streams()), "{limits:?}");
            assert!(limits.calls.iter().all(|calls| *calls > 0), "{limits:?}");
        }
    }
    assert_eq!(Limits::new(1_024, 1_024).streams(), 1_000, "the documented figure");
}

#[tokio::test(start_paused = true)]
async fn calls_that_last_are_counted_as_long_as_they_do_and_take_the_places_that_are_left_to_them() {
    let table = table(16, 16);
    let seats = full(&table).await;
    let enter = |at: usize, kind: Kind| table.enter(&seats[at].line, kind);
    let mut streams: Vec<Hold> = (0..table.limits.streams()).map(|at| enter(at, Kind::Stream).expect("room")).collect();
    let next = streams.len();
    assert!(enter(next, Kind::Stream).is_none());
    let message = enter(next, Kind::Message).expect("room for the next kind");
    assert!(enter(next + 1, Kind::Message).is_none());
    let _reply = enter(next + 1, Kind::Reply).expect("room");
    let _commands = [next + 2, next + 3].map(|at| enter(at, Kind::Command).expect("room"));
    assert!(enter(next + 4, Kind::Command).is_none());
    assert!(seats[0].line.is_stream() && !seats[next].line.is_stream());
    assert_eq!(table.figures().streams, streams.len());
    drop((streams.pop(), message));
    assert!(!seats[next - 1].line.is_stream());
    assert!(enter(next, Kind::Stream).is_some(), "what was left to them is free again");
}

#[tokio::test(start_paused = true)]
async fn who_has_waited_for_its_peer_for_the_longest_makes_room_and_the_newcomer_waits_until_it_is_gone() {
    let table = table(8, 8);
    let mut seats = full(&table).await;
    for at in [5, 3] {
        seats[at].line.set_phase(Phase::Reading);
    }
    // It takes nothing, and got on a moment after the others came.
    seats[6].line.progressed();
    seats[6].line.set_phase(Phase::Writing);
    tokio::time::advance(TAKES_NOTHING).await;
    seats[1].line.progressed();
    seats[1].line.set_phase(Phase::Writing);
    for expected in [3, 5, 6] {
        let mut newcomer = Box::pin(admit(&table));
        assert!(newcomer.as_mut().now_or_never().is_none());
        let [victim] = shed(&seats)[..] else { panic!("one at a time: {:?}", shed(&seats)) };
        let id = seats[victim].id;
        seats.remove(victim);
        assert_eq!(id, expected as u64 + 1);
        seats.push(newcomer.await);
    }
    assert_eq!((table.figures().connections, table.figures().shed), (8, 3));
    seats.push(admit(&table).await);
    assert!(shed(&seats).is_empty(), "of the others one took something a moment ago, and the rest is being answered");
}

#[tokio::test(start_paused = true)]
async fn while_all_are_being_answered_a_few_more_get_in() {
    let table = table(8, 8);
    let mut seats = full(&table).await;
    for _ in 0..SPARE_CONNECTIONS {
        assert!(!table.is_crowded() || seats.len() > 8);
        seats.push(admit(&table).await);
        assert!(seats.last().expect("it").line.is_spare() && table.is_crowded());
    }
    assert!(shed(&seats).is_empty());
    let begun = Instant::now();
    assert!(table.admit().await.is_none());
    assert_eq!((begun.elapsed(), table.figures().refused), (ADMIT_PATIENCE, 1));
    // One is done while the next waits.
    let (newcomer, ()) = tokio::join!(admit(&table), async { drop(seats.pop()) });
    assert!(newcomer.line.is_spare());
    drop((seats, newcomer));
    assert!(!admit(&table).await.line.is_spare() && !table.is_crowded());
}

#[tokio::test(start_paused = true)]
async fn who_is_to_make_room_and_does_not_end_keeps_no_newcomer_out() {
    let table = table(8, 8);
    let seats = full(&table).await;
    seats[3].line.set_phase(Phase::Reading);
    let begun = Instant::now();
    assert!(admit(&table).await.line.is_spare());
    assert_eq!((shed(&seats), begun.elapsed(), table.figures().refused), (vec![3], ADMIT_PATIENCE, 0));
}

#[tokio::test(start_paused = true)]
async fn for_a_descriptor_an_event_stream_makes_room_too_the_one_without_events_for_the_longest() {
    let table = table(8, 8);
    let mut seats = full(&table).await;
    let _streams = [2, 4].map(|at| table.enter(&seats[at].line, Kind::Stream).expect("room"));
    seats[2].line.progressed();
    let begun = Instant::now();
    table.make_room_for_descriptor(Duration::from_millis(50)).await;
    assert_eq!((shed(&seats), begun.elapsed()), (vec![4], Duration::from_millis(50)), "it has not ended yet");
    table.make_room_for_descriptor(Duration::from_millis(50)).await;
    assert_eq!(shed(&seats), [4], "one at a time");
    tokio::join!(table.make_room_for_descriptor(Duration::from_secs(9)), async { drop(seats.remove(4)) });
    assert_eq!(begun.elapsed(), Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn of_those_that_do_not_take_what_waits_for_them_the_longest_goes_when_there_is_too_much() {
    for what in [Unread::Answer, Unread::Message] {
        let table = table(8, 8);
        let seats = full(&table).await;
        let weigh = |at: usize, bytes: usize| table.weigh(&seats[at].line, what, bytes);
        let mut weights: Vec<Weight> = (0..4).map(|at| weigh(at, MAX_UNREAD_BYTES / 4)).collect();
        for at in [1, 2, 5] {
            seats[at].line.set_phase(Phase::Writing);
        }
        weights.push(weigh(6, 1));
        // An answer may be on its way still; a message, of which there may be one for each stream, is not waited for.
        assert_eq!(shed(&seats), if what == Unread::Answer { vec![] } else { vec![1] });
        tokio::time::advance(TAKES_NOTHING).await;
        weights.push(weigh(6, 1));
        assert_eq!(shed(&seats), [1], "one is enough");
        weights.push(weigh(6, MAX_UNREAD_BYTES / 4));
        assert_eq!(shed(&seats), [1, 2], "and who holds nothing need not go");
        weights.push(weigh(6, MAX_UNREAD_BYTES));
        assert_eq!(shed(&seats), [1, 2], "who is being answered stays");
        drop(weights);
        assert_eq!(table.unread(what), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_large_answer_slowly_has_its_time_and_no_more_while_others_wait() {
    let table = table(8, 8);
    let seats = full(&table).await;
    let _slow = table.weigh(&seats[0].line, Unread::Answer, MAX_UNREAD_BYTES);
    for (after, is_gone) in [(Duration::ZERO, false), (READ_TIME * 9 / 10, false), (READ_TIME, true)] {
        tokio::time::advance(after).await;
        seats[0].line.progressed();
        seats[0].line.set_phase(Phase::Writing);
        drop(table.weigh(&seats[1].line, Unread::Answer, 1));
        assert_eq!(!shed(&seats).is_empty(), is_gone, "{after:?}");
    }
}
