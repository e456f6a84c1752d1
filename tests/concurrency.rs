//! Many threads at once: nothing is lost, nobody waits for anybody, and what is shown meanwhile
//! makes sense.

mod support;

use datafusion_common::plan_datafusion_err;
use datafusion_counting_pool::{
    CountingPool, Fault, FaultPool, Figures, NamedFigures, Parked, Snapshot,
};
use datafusion_execution::memory_pool::{
    GreedyMemoryPool, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use support::{
    Asked, Counted, Event, RegisterHook, counted, counting, quietly, raw, register, shared, total,
};

const THREADS: u64 = 8;
const PAIRS: u64 = 100_000;

fn pairs(reservation: &MemoryReservation) {
    for _ in 0..PAIRS {
        reservation.try_grow(64).unwrap();
        reservation.shrink(64);
    }
}

fn is_exact(counting: &CountingPool, consumers: u64) {
    let (calls, bytes) = (THREADS * PAIRS, THREADS * PAIRS * 64);
    let snapshot = counting.snapshot();
    let figures = counted(&snapshot.total);
    assert!((64..=512).contains(&figures.peak), "{}", figures.peak);
    assert!(figures.acquire_nanos.0 >= figures.acquire_nanos.1);
    let expected = Counted {
        registrations: consumers,
        unspillable: consumers,
        try_grow: Asked(calls, bytes, bytes),
        releases: (calls, bytes),
        sizes: [(64, calls)].into(),
        peak: figures.peak,
        acquire_nanos: figures.acquire_nanos,
        release_nanos: figures.release_nanos,
        ..Counted::default()
    };
    assert_eq!(figures, expected);
    assert_eq!(snapshot.acquire_latency.count(), calls);
    assert_eq!(snapshot.release_latency.count(), calls);
}

#[test]
fn eight_threads_on_one_reservation_lose_nothing() {
    let (counting, pool) = shared(CountingPool::new(Arc::new(GreedyMemoryPool::new(512))));
    let reservation = register(&pool, "shared");
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| pairs(&reservation));
        }
    });
    is_exact(&counting, 1);
}

#[test]
fn eight_threads_on_siblings_lose_nothing() {
    let (counting, pool) = shared(CountingPool::new(Arc::new(GreedyMemoryPool::new(512))));
    let reservation = register(&pool, "siblings");
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let sibling = reservation.new_empty();
            scope.spawn(move || pairs(&sibling));
        }
    });
    is_exact(&counting, 1);
}

#[test]
fn eight_threads_on_distinct_consumers_lose_nothing() {
    let (counting, pool) = shared(CountingPool::new(Arc::new(GreedyMemoryPool::new(512))));
    let consumers: Vec<_> = (0..THREADS)
        .map(|i| register(&pool, &format!("consumer {i}")))
        .collect();
    thread::scope(|scope| {
        for consumer in &consumers {
            scope.spawn(|| pairs(consumer));
        }
    });
    is_exact(&counting, THREADS);
    let snapshot = counting.snapshot();
    for consumer in &consumers {
        let figures = raw(&snapshot, consumer);
        assert_eq!(figures.try_grow, Asked(PAIRS, PAIRS * 64, PAIRS * 64));
        assert_eq!(figures.releases, (PAIRS, PAIRS * 64));
        // Alone it never held more.
        assert_eq!((figures.reserved, figures.peak), (0, 64));
    }
}

#[test]
fn consumers_that_come_and_go_lose_nothing() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let rounds = 2_000;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..rounds {
                    // More at once than the pool began with room for.
                    let consumers = [0, 1, 2, 3].map(|i| {
                        let name = format!("Op{}[{round}]", (thread + i) % 3);
                        let consumer = register(pool, &name);
                        consumer.try_grow(10).unwrap();
                        consumer
                    });
                    for consumer in consumers {
                        consumer.shrink(4);
                    }
                }
            });
        }
    });
    let snapshot = counting.snapshot();
    let all = THREADS * rounds * 4;
    let figures = counted(&snapshot.total);
    assert_eq!((figures.registrations, figures.unregistrations), (all, all));
    assert_eq!(figures.try_grow, Asked(all, all * 10, all * 10));
    assert_eq!(figures.releases, (all * 2, all * 10));
    assert_eq!(figures.reserved, 0);
    let operators = snapshot.by_operator();
    let names: Vec<_> = operators.iter().map(|row| &*row.name).collect();
    assert_eq!(names, ["Op0", "Op1", "Op2"]);
    let calls: u64 = operators.iter().map(|row| row.figures.acquires.calls).sum();
    assert_eq!(calls, all);
}

type Park = fn(FaultPool) -> (FaultPool, Parked);
type Call = fn(&MemoryReservation);

/// While one call is inside the wrapped pool, everybody else goes on: this very test would hang.
#[test]
fn a_call_that_hangs_in_the_wrapped_pool_delays_nobody() {
    let scenes: [(Park, Call); 3] = [
        (|pool| pool.park_nth(2), |a| a.try_grow(30).unwrap()),
        (|pool| pool.park_nth(2), |a| a.grow(30)),
        (|pool| pool.park_nth_release(1), |a| a.shrink(10)),
    ];
    for (park, call) in scenes {
        let inner = FaultPool::new(Arc::new(GreedyMemoryPool::new(1_000)));
        let (inner, parked) = park(inner);
        let (counting, pool) = shared(CountingPool::new(Arc::new(inner)));
        let a = register(&pool, "a");
        a.grow(100);
        let sibling = a.new_empty();
        thread::scope(|scope| {
            scope.spawn(|| call(&a));
            parked.wait();

            // Another consumer comes, does what one does, and goes.
            let b = register(&pool, "b");
            b.try_grow(50).unwrap();
            b.grow(5);
            b.shrink(5);
            b.try_grow(10_000).unwrap_err();
            drop(b);
            // The same consumer too.
            sibling.try_grow(7).unwrap();
            sibling.free();
            // And whoever looks on.
            let snapshot = counting.snapshot();
            let figures = counted(&snapshot.consumer("b"));
            assert_eq!((figures.releases, figures.denied), ((2, 55), (1, 10_000)));
            assert!(snapshot.consumer("a").reserved_bytes <= 100);
            assert!(!snapshot.to_string().is_empty());
            assert!(!format!("{counting} {counting:?} {pool} {}", snapshot.summary()).is_empty());
            assert_eq!(pool.name(), "greedy");
            assert_eq!(pool.reserved(), 100);
            assert!(counting.leak_check().message().is_some());
            counting
                .released_within_blocking(Duration::ZERO)
                .unwrap_err();

            parked.let_go();
        });
        let figures = counted(&counting.snapshot().consumer("a"));
        assert_eq!(figures.reserved, pool.reserved() as u64);
        assert_eq!(figures.reserved, a.size() as u64);
    }
}

#[test]
fn a_registration_that_hangs_delays_nobody() {
    for method in ["register", "unregister"] {
        let [reached, go_on]: [Arc<Event>; 2] = Default::default();
        let armed = Arc::new(AtomicBool::new(method == "register"));
        let hook = {
            let (reached, go_on, armed) = (reached.clone(), go_on.clone(), armed.clone());
            RegisterHook::new(move |called| {
                if called == method && armed.swap(false, SeqCst) {
                    reached.set();
                    go_on.wait();
                }
            })
        };
        let (counting, pool) = counting(hook);
        thread::scope(|scope| {
            scope.spawn(|| {
                let slow = register(&pool, "slow");
                armed.store(method == "unregister", SeqCst);
                drop(slow);
            });
            reached.wait();
            let quick = register(&pool, "quick");
            quick.grow(10);
            assert_eq!(counting.snapshot().consumer("quick").reserved_bytes, 10);
            drop(quick);
            go_on.set();
        });
        let figures = total(&counting);
        assert_eq!((figures.registrations, figures.unregistrations), (2, 2));
    }
}

/// Every counter there is, by its name.
fn counters(figures: &Figures) -> [(&'static str, u64); 25] {
    let (try_grow, grow) = (&figures.acquires.try_grow, &figures.acquires.grow);
    [
        ("registrations", figures.registrations),
        ("unspillable", figures.unspillable_registrations),
        ("unregistrations", figures.unregistrations),
        ("acquires", figures.acquires.calls),
        ("asked", figures.acquires.asked_bytes),
        ("acquired", figures.acquires.acquired_bytes),
        ("try_grow calls", try_grow.calls),
        ("try_grow asked", try_grow.asked_bytes),
        ("try_grow acquired", try_grow.acquired_bytes),
        ("grow calls", grow.calls),
        ("grow asked", grow.asked_bytes),
        ("grow acquired", grow.acquired_bytes),
        ("denied calls", figures.denied.calls),
        ("denied bytes", figures.denied.bytes),
        ("failed", figures.failed),
        ("panicked", figures.panicked),
        ("releases", figures.releases.calls),
        ("released", figures.releases.bytes),
        ("releases panicked", figures.releases_panicked),
        ("anomalies", figures.anomalies.calls),
        ("anomaly bytes", figures.anomalies.bytes),
        ("zero byte calls", figures.zero_byte_calls),
        ("acquire time", figures.acquire_time.total.as_nanos() as u64),
        ("release time", figures.release_time.total.as_nanos() as u64),
        ("granted", figures.granted()),
    ]
}

/// What holds of one row at any moment.
fn makes_sense(name: &str, figures: &Figures) {
    let acquires = &figures.acquires;
    assert!(
        figures.releases.bytes <= acquires.acquired_bytes,
        "{name}: {figures:?}"
    );
    assert!(
        acquires.acquired_bytes <= acquires.asked_bytes,
        "{name}: {figures:?}"
    );
    assert_eq!(
        acquires.calls,
        acquires.try_grow.calls + acquires.grow.calls,
        "{name}"
    );
    assert!(figures.denied.calls + figures.failed + figures.panicked <= acquires.calls);
    // Far more than any thread here ever holds: a difference that had wrapped would show.
    assert!(figures.reserved_bytes < 1 << 40, "{name}: {figures:?}");
    assert!(
        figures.unregistrations <= figures.registrations,
        "{name}: {figures:?}"
    );
}

fn never_goes_down(name: &str, earlier: &Figures, later: &Figures) {
    for ((counter, earlier), (_, later)) in counters(earlier).into_iter().zip(counters(later)) {
        assert!(
            earlier <= later,
            "{counter} of {name} went from {earlier} to {later}"
        );
    }
}

/// All rows by what names them. Raw ones are by id.
fn rows(snapshot: &Snapshot) -> HashMap<String, Figures> {
    let raw = snapshot
        .consumers
        .iter()
        .map(|row| (format!("#{}", row.id), row.figures.clone()));
    let named = |kind: &'static str, rows: Vec<NamedFigures>| {
        rows.into_iter()
            .map(move |row| (format!("{kind} {}", row.name), row.figures))
    };
    raw.chain(named("name", snapshot.by_name()))
        .chain(named("operator", snapshot.by_operator()))
        .chain([("total".into(), snapshot.total.clone())])
        .collect()
}

/// Traffic of every kind, from four threads, until they are done; `look` is called all the time.
fn traffic(mut look: impl FnMut(&CountingPool) + Send) -> Arc<CountingPool> {
    let inner =
        FaultPool::new(Arc::new(GreedyMemoryPool::new(100_000))).with_fault(|call| {
            match (call.bytes, call.number % 50) {
                (300.., 0) => Some(Fault::Panic),
                (300.., 1) => Some(Fault::Fail(plan_datafusion_err!("no"))),
                (300.., 2) => Some(Fault::Deny),
                _ => None,
            }
        });
    let (counting, pool) = shared(CountingPool::new(Arc::new(inner)));
    let handed_over = Arc::new(register(&pool, "handed over"));
    let (sender, receiver) = channel();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for thread in 0..2 {
            let pool = &pool;
            workers.push(scope.spawn(move || {
                for round in 0..1_500_usize {
                    let consumer = register(pool, &format!("Op{thread}[{}]", round % 7));
                    let sibling = consumer.new_empty();
                    for bytes in [10, 0, 250, 400, 1_000, 200_000] {
                        let _ = quietly(|| consumer.try_grow(bytes));
                        let _ = quietly(|| sibling.grow(bytes / 2));
                        let _ = quietly(|| consumer.try_shrink(bytes / 3));
                    }
                    let _ = quietly(|| drop(sibling));
                    let _ = quietly(|| drop(consumer));
                }
            }));
        }
        // What one thread acquires, another one releases.
        let growing = Arc::clone(&handed_over);
        workers.push(scope.spawn(move || {
            for _ in 0..20_000 {
                growing.grow(64);
                sender.send(64).unwrap();
            }
        }));
        let shrinking = Arc::clone(&handed_over);
        workers.push(scope.spawn(move || {
            for bytes in receiver {
                shrinking.shrink(bytes);
            }
        }));
        let (counting, done) = (&counting, &done);
        let looking = scope.spawn(move || {
            while !done.load(SeqCst) {
                look(counting);
            }
            look(counting);
        });
        let ended: Vec<_> = workers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, SeqCst);
        looking.join().unwrap();
        for end in ended {
            end.unwrap();
        }
    });
    drop(handed_over);
    counting
}

#[test]
fn snapshots_during_traffic_make_sense_and_counters_never_go_down() {
    let mut last: HashMap<String, Figures> = HashMap::new();
    let mut last_latency = (0, 0);
    let counting = traffic(|counting| {
        let snapshot = counting.snapshot();
        let rows = rows(&snapshot);
        for (name, figures) in &rows {
            makes_sense(name, figures);
            if let Some(earlier) = last.get(name) {
                never_goes_down(name, earlier, figures);
            }
        }
        for name in last.keys() {
            // Only a consumer's own row may go.
            assert!(
                name.starts_with('#') || rows.contains_key(name),
                "{name} is gone"
            );
        }
        let latency = (
            snapshot.acquire_latency.count(),
            snapshot.release_latency.count(),
        );
        assert!(last_latency.0 <= latency.0 && last_latency.1 <= latency.1);
        assert!(snapshot.denials.is_sorted_by_key(|denial| denial.number));
        (last, last_latency) = (rows, latency);
    });

    // And at rest it is exact.
    let figures = counted(&counting.snapshot().total);
    assert_eq!(figures.registrations, 3_001);
    assert_eq!(figures.registrations, figures.unregistrations);
    // 20,000 handed over, and of two threads 1,500 rounds of five that were more than nothing.
    assert_eq!(figures.try_grow.0, 15_000);
    assert_eq!(figures.grow.0, 35_000);
    assert_eq!(figures.reserved, counting.reserved() as u64);
    assert_eq!(
        figures.reserved,
        figures.try_grow.2 + figures.grow.2 - figures.releases.1
    );
    assert_eq!(figures.anomalies, (0, 0));
}

#[test]
fn intervals_during_traffic_add_up_to_the_whole() {
    let mut sums = [0; 25];
    let mut last = None;
    let counting = traffic(|counting| {
        let now = counting.snapshot();
        let interval = match &last {
            Some(earlier) => now.since(earlier).total,
            None => now.total.clone(),
        };
        for (sum, (_, counter)) in sums.iter_mut().zip(counters(&interval)) {
            *sum += counter;
        }
        last = Some(now);
    });
    // All but the last consumer's unregistration, which came when nobody looked any more.
    let whole = counters(&counting.snapshot().total);
    for (sum, (counter, whole)) in sums.into_iter().zip(whole) {
        let unseen = u64::from(counter == "unregistrations");
        assert_eq!(sum, whole - unseen, "{counter}");
    }
}

#[test]
fn a_peak_during_traffic_never_goes_down() {
    let mut last: (u64, HashMap<usize, u64>) = (0, HashMap::new());
    traffic(|counting| {
        let snapshot = counting.snapshot();
        assert!(last.0 <= snapshot.total.peak_bytes);
        assert!(snapshot.total.reserved_bytes <= snapshot.total.peak_bytes);
        let mut peaks = HashMap::new();
        for row in &snapshot.consumers {
            let figures = &row.figures;
            assert!(figures.reserved_bytes <= figures.peak_bytes, "{row:?}");
            assert!(
                last.1
                    .get(&row.id)
                    .is_none_or(|&peak| peak <= figures.peak_bytes)
            );
            peaks.insert(row.id, figures.peak_bytes);
        }
        last = (snapshot.total.peak_bytes, peaks);
    });
}
