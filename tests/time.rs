//! How long calls take. No test here takes time itself: the clock stands still until it is set.

mod support;

use datafusion_counting_pool::{CountingPool, FaultPool, Histogram, PoolMethod};
use datafusion_execution::memory_pool::{
    GreedyMemoryPool, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::{Event, ManualClock, caught, counted, raw, register, shared, total};

/// A pool in which a call takes as many nanoseconds as it is about bytes.
fn clocked(inner: impl MemoryPool) -> (Arc<ManualClock>, CountingPool) {
    let clock = Arc::new(ManualClock::default());
    let hands = Arc::clone(&clock);
    let inner = FaultPool::new(Arc::new(inner)).with_fault(move |call| {
        hands.advance(call.bytes as u64);
        None
    });
    let counting = CountingPool::new(Arc::new(inner)).with_clock(Arc::clone(&clock) as _);
    (clock, counting)
}

#[test]
fn the_time_is_that_of_the_inner_call() {
    let (clock, counting) = clocked(GreedyMemoryPool::new(1_000));
    let (counting, pool) = shared(counting);
    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    // Between the calls it passes unnoticed.
    let work = || clock.advance(1_000_000);
    a.try_grow(300).unwrap();
    work();
    a.grow(50);
    work();
    // A denied call takes its time as well.
    b.try_grow(900).unwrap_err();
    work();
    b.try_grow(7).unwrap();
    a.shrink(120);
    work();
    a.free();
    drop(b);

    let snapshot = counting.snapshot();
    let figures = raw(&snapshot, &a);
    assert_eq!(figures.acquire_nanos, (350, 300));
    assert_eq!(figures.release_nanos, (350, 230));
    let figures = counted(&snapshot.consumer("b"));
    assert_eq!(figures.acquire_nanos, (907, 900));
    assert_eq!(figures.release_nanos, (7, 7));
    let total = counted(&snapshot.total);
    assert_eq!(total.acquire_nanos, (1_257, 900));
    assert_eq!(total.release_nanos, (357, 230));

    let (acquire, release) = (&snapshot.acquire_latency, &snapshot.release_latency);
    assert_eq!((acquire.count(), release.count()), (4, 3));
    assert_eq!(acquire.max(), Some(Duration::from_nanos(900)));
    assert_eq!(acquire.mean(), Some(Duration::from_nanos(1_257 / 4)));
    assert_eq!(release.max(), Some(Duration::from_nanos(230)));
}

#[test]
fn the_time_of_an_interval_is_that_spent_in_it() {
    let (_, counting) = clocked(UnboundedMemoryPool::default());
    let (counting, pool) = shared(counting);
    let a = register(&pool, "a");
    a.grow(500);
    let earlier = counting.snapshot();
    a.grow(30);
    a.grow(40);
    let difference = counting.snapshot().since(&earlier);
    assert_eq!(
        difference.total.acquire_time.total,
        Duration::from_nanos(70)
    );
    assert_eq!(difference.total.release_time.total, Duration::ZERO);
    assert_eq!(difference.acquire_latency.count(), 2);
    assert_eq!(difference.release_latency.count(), 0);
}

#[test]
fn zero_byte_calls_take_no_time() {
    let (clock, counting) = clocked(UnboundedMemoryPool::default());
    let (counting, pool) = shared(counting);
    let a = register(&pool, "a");
    a.grow(0);
    a.try_grow(0).unwrap();
    a.shrink(0);
    assert_eq!(clock.reads(), 0);
    let snapshot = counting.snapshot();
    assert_eq!(snapshot.acquire_latency.count(), 0);
    assert_eq!(snapshot.release_latency.count(), 0);
}

#[test]
fn a_call_that_panicked_takes_no_time() {
    let clock = Arc::new(ManualClock::default());
    let hands = Arc::clone(&clock);
    let inner = FaultPool::new(Arc::new(UnboundedMemoryPool::default()))
        .with_fault(move |call| {
            hands.advance(call.bytes as u64);
            None
        })
        .panic_nth(2)
        .panic_nth_release(1);
    let (counting, pool) = shared(CountingPool::new(Arc::new(inner)).with_clock(clock));
    let a = register(&pool, "a");
    a.grow(10);
    caught(|| a.grow(1_000));
    caught(|| pool.shrink(&a, 2_000));
    a.free();
    let snapshot = counting.snapshot();
    let figures = counted(&snapshot.total);
    assert_eq!(figures.acquire_nanos, (10, 10));
    assert_eq!(figures.release_nanos, (10, 10));
    assert_eq!(snapshot.acquire_latency.count(), 1);
    assert_eq!(snapshot.release_latency.count(), 1);
}

#[test]
fn the_clock_is_read_twice_a_call() {
    let (clock, counting) = clocked(GreedyMemoryPool::new(10));
    let (_counting, pool) = shared(counting);
    let a = register(&pool, "a");
    let mut reads = 0;
    let mut twice = || {
        reads += 2;
        assert_eq!(clock.reads(), reads);
    };
    a.try_grow(10).unwrap();
    twice();
    a.try_grow(10).unwrap_err();
    twice();
    a.grow(10);
    twice();
    a.shrink(5);
    twice();
    drop(a);
    twice();
}

#[test]
fn with_timing_off_no_clock_is_read_and_everything_else_is_the_same() {
    let script = |counting: CountingPool| {
        let (counting, pool) = shared(counting);
        let (a, b) = (register(&pool, "a"), register(&pool, "b"));
        a.try_grow(60).unwrap();
        b.try_grow(60).unwrap_err();
        b.grow(60);
        a.shrink(0);
        a.shrink(20);
        pool.shrink(&b, 61);
        drop((a, b));
        counting.snapshot()
    };
    let (timed_clock, timed) = clocked(GreedyMemoryPool::new(100));
    let (untimed_clock, untimed) = clocked(GreedyMemoryPool::new(100));
    let mut timed = script(timed);
    let untimed = script(untimed.with_timing(false));
    assert_eq!(untimed_clock.reads(), 0);
    // Three acquires, four releases.
    assert_eq!(timed_clock.reads(), 14);

    assert_eq!(timed.acquire_latency.count(), 3);
    assert_eq!(untimed.acquire_latency.count(), 0);
    assert_eq!(untimed.acquire_latency.quantile(0.5), None);
    timed.acquire_latency = Histogram::default();
    timed.release_latency = Histogram::default();
    let figures = timed.finished.iter_mut().map(|row| &mut row.figures);
    for figures in figures.chain([&mut timed.total]) {
        figures.acquire_time = Default::default();
        figures.release_time = Default::default();
    }
    assert_eq!(timed.total, untimed.total);
    assert_eq!(timed.by_name(), untimed.by_name());
    assert_eq!(timed.by_operator(), untimed.by_operator());
    assert_eq!((timed.denials.len(), untimed.denials.len()), (1, 1));
}

#[test]
fn a_clock_that_steps_back_gives_no_absurd_time() {
    let clock = Arc::new(ManualClock::default());
    clock.advance(1_000);
    let hands = Arc::clone(&clock);
    let inner = FaultPool::new(Arc::new(UnboundedMemoryPool::default())).with_fault(move |call| {
        match call.bytes {
            1 => hands.step_back(500),
            bytes => hands.advance(bytes as u64),
        }
        None
    });
    let (counting, pool) = shared(CountingPool::new(Arc::new(inner)).with_clock(clock));
    let a = register(&pool, "a");
    a.grow(1);
    a.grow(20);
    a.shrink(1);
    let figures = total(&counting);
    assert_eq!(figures.acquire_nanos, (20, 20));
    assert_eq!(figures.release_nanos, (0, 0));
    assert_eq!(counting.snapshot().acquire_latency.count(), 2);
}

/// Against the sorted list of the recorded values, from 1 microsecond to 100 milliseconds.
#[test]
fn quantiles_are_within_a_tenth_of_the_recorded_values() {
    // Spread evenly over the orders of magnitude, evenly over the values, and all but constant.
    let spreads: [fn(u64) -> u64; 3] = [
        |i| (1_000.0 * 1.012_f64.powi(i as i32)) as u64,
        |i| 1_000 + i * 99_999,
        |i| {
            if i.is_multiple_of(100) {
                100_000_000
            } else {
                2_000 + i % 3
            }
        },
    ];
    for spread in spreads {
        let (_, counting) = clocked(UnboundedMemoryPool::default());
        let (counting, pool) = shared(counting);
        // Several consumers, so that no figure is that of one.
        let consumers: Vec<_> = (0..7).map(|i| register(&pool, &format!("c{i}"))).collect();
        let mut values: Vec<u64> = (0..968).map(spread).collect();
        for (i, &nanos) in values.iter().enumerate() {
            let consumer = &consumers[i % consumers.len()];
            consumer.grow(nanos as usize);
            consumer.free();
        }
        values.sort_unstable();
        let snapshot = counting.snapshot();
        for histogram in [&snapshot.acquire_latency, &snapshot.release_latency] {
            assert_eq!(histogram.count(), 968);
            for q in [0.0_f64, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
                // The value that a share q of all do not exceed.
                let rank = ((q * 968.0).ceil() as usize).max(1);
                let truth = values[rank - 1] as f64;
                let shown = histogram.quantile(q).unwrap().as_nanos() as f64;
                assert!(
                    (shown / truth - 1.0).abs() <= 0.1,
                    "{q}: {shown} for {truth}"
                );
            }
            let longest = Duration::from_nanos(values[967]);
            assert_eq!(histogram.max(), Some(longest));
            assert_eq!(histogram.quantile(1.0), Some(longest));
            let mean = values.iter().sum::<u64>() / 968;
            assert_eq!(histogram.mean(), Some(Duration::from_nanos(mean)));
        }
    }
}

/// An acquire of A waits inside the wrapped pool until B releases: neither holds the other up in
/// the decorator, and each has its own time.
#[test]
fn an_acquire_may_wait_for_the_release_of_another() {
    let clock = Arc::new(ManualClock::default());
    let [a_is_inside, b_released, a_is_back]: [Arc<Event>; 3] = Default::default();
    let inner = {
        let (clock, a_is_inside) = (Arc::clone(&clock), Arc::clone(&a_is_inside));
        let (b_released, a_is_back) = (Arc::clone(&b_released), Arc::clone(&a_is_back));
        FaultPool::new(Arc::new(UnboundedMemoryPool::default())).with_fault(move |call| {
            match (call.method, call.reservation.consumer().name()) {
                (PoolMethod::TryGrow, "A") => {
                    clock.advance(10);
                    a_is_inside.set();
                    b_released.wait();
                }
                (PoolMethod::Shrink, "B") => {
                    clock.advance(30);
                    b_released.set();
                    a_is_back.wait();
                    clock.advance(5);
                }
                _ => {}
            }
            None
        })
    };
    let (counting, pool) = shared(CountingPool::new(Arc::new(inner)).with_clock(clock));
    let (a, b) = (register(&pool, "A"), register(&pool, "B"));
    b.grow(64);
    thread::scope(|scope| {
        scope.spawn(|| {
            a.try_grow(64).unwrap();
            a_is_back.set();
        });
        a_is_inside.wait();
        b.shrink(64);
    });
    let snapshot = counting.snapshot();
    assert_eq!(raw(&snapshot, &a).acquire_nanos, (40, 40));
    assert_eq!(raw(&snapshot, &b).release_nanos, (35, 35));
    assert_eq!(raw(&snapshot, &b).acquire_nanos, (0, 0));
}

/// As a memory manager does that makes others spill before it denies: the release is made inside
/// the acquire, by the same thread.
#[test]
fn an_acquire_may_make_others_release_within_it() {
    let clock = Arc::new(ManualClock::default());
    let victim = Arc::new(Mutex::new(None::<MemoryReservation>));
    let inner = {
        let (clock, victim) = (Arc::clone(&clock), Arc::clone(&victim));
        FaultPool::new(Arc::new(GreedyMemoryPool::new(100))).with_fault(move |call| {
            clock.advance(call.bytes as u64);
            if call.reservation.consumer().name() == "asks" {
                drop(victim.lock().unwrap().take());
            }
            None
        })
    };
    let (counting, pool) = shared(CountingPool::new(Arc::new(inner)).with_clock(clock));
    let (asks, holds) = (register(&pool, "asks"), register(&pool, "holds"));
    holds.grow(80);
    *victim.lock().unwrap() = Some(holds);
    asks.try_grow(60).unwrap();

    let snapshot = counting.snapshot();
    let figures = raw(&snapshot, &asks);
    assert_eq!((figures.reserved, figures.acquire_nanos), (60, (140, 140)));
    let figures = counted(&snapshot.consumer("holds"));
    assert_eq!(
        (figures.releases, figures.release_nanos),
        ((1, 80), (80, 80))
    );
    assert_eq!(snapshot.total.reserved_bytes, 60);
    // They never held memory at the same time.
    assert_eq!(snapshot.total.peak_bytes, 80);
}

/// The system's clock, which no test can set: whatever it shows, it is sane.
#[test]
fn the_system_clock_gives_times_that_are_neither_negative_nor_absurd() {
    let started = std::time::Instant::now();
    let (counting, pool) = shared(CountingPool::new(Arc::new(UnboundedMemoryPool::default())));
    let a = register(&pool, "a");
    for _ in 0..10_000 {
        a.grow(1);
        a.free();
    }
    let snapshot = counting.snapshot();
    let total = &snapshot.total;
    let spent = total.acquire_time.total + total.release_time.total;
    assert!(spent <= started.elapsed(), "{spent:?}");
    assert!(total.acquire_time.max <= total.acquire_time.total);
    assert_eq!(snapshot.acquire_latency.count(), 10_000);
    assert_eq!(snapshot.acquire_latency.max(), Some(total.acquire_time.max));
}
