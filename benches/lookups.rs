//! Members looked up by name by many tasks while one thread writes, and listed sorted by name: behind one lock, in
//! `dashmap`, and in `dashmap` with a lock for each entry, as the agent keeps them.
//!
//! Tasks never pause and share as many threads as there are processors; the writer pauses for 100 µs after each write.
//! The maps take turns; figures are medians of their rounds.
//!
//! `cargo bench --no-default-features --bench lookups`

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use dashmap::DashMap;
use headcount::core::NodeId;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, yield_now};

/// Number of rounds of each map, and the length of one.
const ROUNDS: (usize, Duration) = (7, Duration::from_millis(400));
/// A stride that is coprime to the numbers of members: turns go over all of them, in no order of memory.
const STRIDE: usize = 7_919;
/// Number of lookups of a task before the next task has its turn.
const TURNS: usize = 64;

/// As far from its name as the agent's: an entry refers to a record.
type Entry = Arc<Arc<NodeId>>;
type Locked = RwLock<BTreeMap<NodeId, Entry>>;
type Sharded = DashMap<NodeId, Entry>;
type Slots = DashMap<NodeId, RwLock<Entry>>;

/// A map, as functions: looks one up, writes one, lists all.
struct Map {
    get: fn(&Maps, &NodeId) -> Option<Entry>,
    put: fn(&Maps, Entry),
    sorted: fn(&Maps) -> Vec<Entry>,
}

#[derive(Default)]
struct Maps(Locked, Sharded, Slots);

const MAPS: [Map; 3] = [
    Map {
        get: |maps, id| maps.0.read().expect("sound").get(id).map(Arc::clone),
        put: |maps, entry| drop(maps.0.write().expect("sound").insert(NodeId::clone(&entry), entry)),
        sorted: |maps| maps.0.read().expect("sound").values().map(Arc::clone).collect(),
    },
    Map {
        get: |maps, id| maps.1.get(id).map(|held| Arc::clone(&held)),
        put: |maps, entry| drop(maps.1.insert(NodeId::clone(&entry), entry)),
        sorted: |maps| sort(maps.1.iter().map(|held| Arc::clone(&held)).collect()),
    },
    Map {
        get: |maps, id| maps.2.get(id).map(|slot| Arc::clone(&slot.read().expect("sound"))),
        put: |maps, entry| match maps.2.get(&**entry) {
            Some(slot) => *slot.write().expect("sound") = entry,
            None => drop(maps.2.insert(NodeId::clone(&entry), RwLock::new(entry))),
        },
        sorted: |maps| sort(maps.2.iter().map(|slot| Arc::clone(&slot.read().expect("sound"))).collect()),
    },
];

fn sort(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_unstable();
    entries
}

fn main() {
    println!(
        "| members | | one lock | dashmap | × | dashmap, a lock for each entry | × |\n|---|---|---|---|---|---|---|"
    );
    for count in [10, 10_000] {
        let ids =
            (0..count).map(|i| NodeId::new(&format!("node-{i:05}.eu-1")).expect("a good name")).collect::<Vec<_>>();
        let (ids, maps): (&[_], &Maps) = (ids.leak(), Box::leak(Box::default()));
        for id in ids {
            for map in MAPS {
                (map.put)(maps, Arc::new(Arc::new(id.clone())));
            }
        }
        for tasks in [1, 8, 64] {
            let rounds = [(); ROUNDS.0].map(|()| [0, 1, 2].map(|map| round(&MAPS[map], maps, ids, tasks)));
            show(count, &format!("{tasks} tasks: a million lookups/s"), rounds.map(|maps| maps.map(|of| of[0])));
            show(count, &format!("{tasks} tasks: a write, µs"), rounds.map(|maps| maps.map(|of| of[1])));
        }
        let listing = |map: &Map| {
            let start = Instant::now();
            assert!((0..50).all(|_| (map.sorted)(maps).len() == count));
            start.elapsed().as_secs_f64() * 1e6 / 50.0
        };
        show(count, "a sorted listing, µs", [(); ROUNDS.0].map(|()| [0, 1, 2].map(|map| listing(&MAPS[map]))));
    }
}

/// Returns millions of lookups of all tasks per second, and the mean duration of a write meanwhile, in microseconds.
fn round(map: &'static Map, maps: &'static Maps, ids: &'static [NodeId], tasks: usize) -> [f64; 2] {
    let state = Arc::new((AtomicBool::new(false), AtomicUsize::new(0)));
    let workers = thread::available_parallelism().expect("known").get();
    let work = |worker: usize| {
        let (runtime, mut set) = (Builder::new_current_thread().build().expect("a runtime"), JoinSet::new());
        for task in (worker..tasks).step_by(workers) {
            let (state, mut turns) = (Arc::clone(&state), (task..).step_by(STRIDE));
            let look_up = move |turn: usize| assert!((map.get)(maps, &ids[turn % ids.len()]).is_some());
            let run = async move {
                while !state.0.load(Ordering::Relaxed) {
                    turns.by_ref().take(TURNS).for_each(look_up);
                    state.1.fetch_add(TURNS, Ordering::Relaxed);
                    yield_now().await;
                }
            };
            set.spawn_on(run, runtime.handle());
        }
        thread::spawn(move || runtime.block_on(set.join_all()))
    };
    let (start, threads) = (Instant::now(), (0..workers).map(work).collect::<Vec<_>>());
    let (mut writes, mut writing) = (0, Duration::ZERO);
    while start.elapsed() < ROUNDS.1 {
        let entry = Arc::new(Arc::new(ids[writes * STRIDE % ids.len()].clone()));
        let before = Instant::now();
        (map.put)(maps, entry);
        writing += before.elapsed();
        writes += 1;
        thread::sleep(Duration::from_micros(100));
    }
    let lookups = state.1.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    state.0.store(true, Ordering::Relaxed);
    assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    [lookups / 1e6, writing.as_secs_f64() * 1e6 / writes as f64]
}

/// Prints the medians of a figure, and how they compare with the first.
fn show(count: usize, what: &str, rounds: [[f64; 3]; ROUNDS.0]) {
    let [lock, sharded, slots] = [0, 1, 2].map(|map| {
        let mut figures = rounds.map(|round| round[map]);
        figures.sort_by(f64::total_cmp);
        figures[ROUNDS.0 / 2]
    });
    let ratios = [sharded, slots].map(|figure| figure / lock);
    println!("| {count} | {what} | {lock:.2} | {sharded:.2} | {:.2} | {slots:.2} | {:.2} |", ratios[0], ratios[1]);
}
