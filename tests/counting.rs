//! What is counted: calls and bytes.

mod support;

use datafusion_counting_pool::CountingPool;
use datafusion_execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryLimit, MemoryPool, TrackConsumersPool,
    UnboundedMemoryPool,
};
use std::num::NonZeroUsize;
use std::sync::Arc;
use support::{
    Asked, CallLog, Counted, ForgivingPool, caught, counted, counting, quietly, raw, register,
    register_spillable, shared, total,
};

/// Free and grow again, as a sort once did for every batch, against one resize.
#[test]
fn a_buffer_that_is_freed_and_grown_again_shows_in_the_calls() {
    for (times, bytes) in [(1, 1), (100, 64), (100, 4096), (32, 1 << 30)] {
        let (free_then_grow, pool) = counting(UnboundedMemoryPool::default());
        let reservation = register(&pool, "sort");
        for _ in 0..times {
            reservation.free();
            reservation.try_grow(bytes).unwrap();
        }
        let snapshot = free_then_grow.snapshot();
        let (times, bytes) = (times as u64, bytes as u64);
        let expected = Counted {
            registrations: 1,
            unspillable: 1,
            try_grow: Asked(times, times * bytes, times * bytes),
            // The first time there was nothing to free.
            releases: (times - 1, (times - 1) * bytes),
            reserved: bytes,
            peak: bytes,
            sizes: [(bytes, times)].into(),
            ..Counted::default()
        };
        assert_eq!(counted(&snapshot.total), expected);
        if times > 1 {
            let failure = caught(|| snapshot.assert_acquires_at_most(1)).message;
            assert!(failure.contains(&times.to_string()), "{failure}");
        }

        let (resized, pool) = counting(UnboundedMemoryPool::default());
        let reservation = register(&pool, "sort");
        for _ in 0..times {
            reservation.try_resize(bytes as usize).unwrap();
        }
        let snapshot = resized.snapshot();
        let expected = Counted {
            registrations: 1,
            unspillable: 1,
            try_grow: Asked(1, bytes, bytes),
            reserved: bytes,
            peak: bytes,
            sizes: [(bytes, 1)].into(),
            ..Counted::default()
        };
        assert_eq!(counted(&snapshot.total), expected);
        snapshot.assert_acquires_at_most(1);
    }
}

#[test]
fn every_way_to_give_memory_back_is_a_release_of_what_it_gave() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let reservation = register(&pool, "a");
    reservation.grow(200);
    let mut before = counting.snapshot();
    let mut released = |reserved| {
        let now = counting.snapshot();
        let difference = counted(&now.since(&before).total);
        before = now;
        assert_eq!(difference.reserved, reserved);
        difference.releases
    };

    reservation.try_shrink(30).unwrap();
    assert_eq!(released(170), (1, 30));
    reservation.shrink(10);
    assert_eq!(released(160), (1, 10));
    reservation.resize(120);
    assert_eq!(released(120), (1, 40));
    reservation.try_resize(119).unwrap();
    assert_eq!(released(119), (1, 1));
    drop(reservation.split(9));
    assert_eq!(released(110), (1, 9));
    pool.shrink(&reservation, 5);
    assert_eq!(released(105), (1, 5));
    // The reservation knows nothing of the raw release.
    reservation.shrink(60);
    assert_eq!(released(45), (1, 60));
    pool.grow(&reservation, 5);
    assert_eq!(reservation.free(), 50);
    assert_eq!(released(0), (1, 50));
    reservation.grow(3);
    drop(reservation);
    assert_eq!(released(0), (1, 3));

    let total = total(&counting);
    assert_eq!(total.releases, (9, 208));
    assert_eq!(total.grow, Asked(3, 208, 208));
    assert_eq!(total.anomalies, (0, 0));
}

#[test]
fn grow_50_shrink_30_drop_is_two_releases() {
    let (counting, pool) = counting(GreedyMemoryPool::new(50));
    let reservation = register(&pool, "a");
    reservation.grow(50);
    reservation.try_shrink(30).unwrap();
    drop(reservation);
    let expected = Counted {
        registrations: 1,
        unspillable: 1,
        unregistrations: 1,
        grow: Asked(1, 50, 50),
        releases: (2, 50),
        peak: 50,
        sizes: [(50, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(total(&counting), expected);
}

/// DataFusion's own tracking knows reserved and peak bytes: the two must agree.
#[test]
fn reserved_and_peak_agree_with_track_consumers() {
    let tracking = Arc::new(TrackConsumersPool::new(
        GreedyMemoryPool::new(1000),
        NonZeroUsize::new(5).unwrap(),
    ));
    let (counting, pool) = shared(CountingPool::new(Arc::clone(&tracking) as _));
    let a = register(&pool, "a");
    let b = register_spillable(&pool, "b");
    let agree = || {
        let snapshot = counting.snapshot();
        let metrics = tracking.metrics();
        assert_eq!(metrics.len(), 2);
        for metric in metrics {
            let row = snapshot
                .consumers
                .iter()
                .find(|row| *row.name == *metric.name)
                .unwrap();
            assert_eq!(row.can_spill, metric.can_spill);
            assert_eq!(row.figures.reserved_bytes, metric.reserved as u64);
            assert_eq!(row.figures.peak_bytes, metric.peak as u64);
        }
        assert_eq!(snapshot.total.reserved_bytes, tracking.reserved() as u64);
    };

    a.grow(50);
    a.shrink(20);
    agree();
    let figures = raw(&counting.snapshot(), &a);
    assert_eq!((figures.reserved, figures.peak), (30, 50));

    b.try_grow(700).unwrap();
    b.try_grow(271).unwrap_err();
    a.try_resize(10).unwrap();
    agree();
    b.try_grow(271).unwrap();
    a.grow(500);
    agree();
    a.free();
    b.free();
    agree();
}

#[test]
fn the_peak_of_the_pool_is_that_of_the_sum() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    // 90 alone, 60 + 50 together, 80 alone: each peaks at another time than the pool does.
    a.grow(90);
    a.shrink(30);
    b.grow(50);
    a.free();
    b.grow(30);
    b.free();
    let snapshot = counting.snapshot();
    assert_eq!(raw(&snapshot, &a).peak, 90);
    assert_eq!(raw(&snapshot, &b).peak, 80);
    assert_eq!(snapshot.total.peak_bytes, 110);
}

/// FairSpillPool does not enforce its total, and an infallible grow passes any limit.
#[test]
fn reserved_and_peak_are_what_the_pool_holds_even_above_its_limit() {
    let (counting, pool) = counting(FairSpillPool::new(100));
    let (a, b) = (register_spillable(&pool, "a"), register(&pool, "b"));
    a.try_grow(100).unwrap();
    b.grow(250);
    let figures = total(&counting);
    assert_eq!((figures.reserved, figures.peak), (350, 350));
    assert_eq!(pool.reserved(), 350);
}

#[test]
fn more_released_than_held_is_an_anomaly_and_nothing_wraps() {
    for (held, shrink) in [
        (0, 500),
        (0, 6_088_256),
        (300, 500),
        (499, 500),
        (1, isize::MAX as usize),
    ] {
        let (counting, pool) = counting(ForgivingPool::new(10_000));
        let (other, a) = (register(&pool, "other"), register(&pool, "a"));
        other.grow(7_000);
        a.grow(held);
        pool.shrink(&a, shrink);

        let snapshot = counting.snapshot();
        let (held, shrink) = (held as u64, shrink as u64);
        let expected = Counted {
            registrations: 1,
            unspillable: 1,
            grow: Asked(u64::from(held > 0), held, held),
            // The call is a release, of what was there.
            releases: (1, held),
            anomalies: (1, shrink - held),
            peak: held,
            sizes: (held > 0).then_some((held, 1)).into_iter().collect(),
            zero_byte_calls: u64::from(held == 0),
            ..Counted::default()
        };
        assert_eq!(raw(&snapshot, &a), expected);
        // What the others hold is none of its business.
        assert_eq!(raw(&snapshot, &other).reserved, 7_000);
        assert_eq!(snapshot.total.reserved_bytes, 7_000);
        assert_eq!(snapshot.total.peak_bytes, 7_000 + held);

        // Counting goes on from zero.
        a.try_grow(20).unwrap();
        pool.shrink(&a, 21);
        let figures = raw(&counting.snapshot(), &a);
        assert_eq!(figures.reserved, 0);
        assert_eq!(figures.releases, (2, held + 20));
        assert_eq!(figures.anomalies, (2, shrink - held + 1));
    }
}

#[test]
fn an_over_release_panics_only_where_the_wrapped_pool_does() {
    // These wrap.
    let (greedy, pool) = counting(GreedyMemoryPool::new(10_000));
    let a = register(&pool, "a");
    pool.shrink(&a, 500);
    assert_eq!(pool.reserved(), 0_usize.wrapping_sub(500));
    assert_eq!(total(&greedy).anomalies, (1, 500));
    let (unbounded, pool) = counting(UnboundedMemoryPool::default());
    let a = register(&pool, "a");
    pool.shrink(&a, 6_088_256);
    assert_eq!(total(&unbounded).anomalies, (1, 6_088_256));
    assert_eq!(total(&unbounded).reserved, 0);

    // This one subtracts with the checks of a debug build. A shrink that panicked is no release.
    let (fair, pool) = counting(FairSpillPool::new(10_000));
    let a = register(&pool, "a");
    a.grow(300);
    let result = quietly(|| pool.shrink(&a, 500));
    let figures = total(&fair);
    if cfg!(debug_assertions) {
        assert!(result.unwrap_err().message.contains("overflow"));
        assert_eq!(figures.releases_panicked, 1);
        assert_eq!((figures.releases, figures.anomalies), ((0, 0), (0, 0)));
        assert_eq!(figures.reserved, 300);
    } else {
        assert_eq!((figures.releases, figures.anomalies), ((1, 300), (1, 200)));
        assert_eq!(figures.reserved, 0);
    }
}

#[test]
fn siblings_belong_to_one_consumer() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let mut first = register(&pool, "a");
    first.try_grow(60).unwrap();
    let empty = first.new_empty();
    empty.grow(40);
    let split = first.split(25);
    let taken = first.take();
    assert_eq!(
        [first.size(), empty.size(), split.size(), taken.size()],
        [0, 40, 25, 35]
    );

    let snapshot = counting.snapshot();
    assert_eq!(snapshot.consumers.len(), 1);
    let mut expected = Counted {
        registrations: 1,
        unspillable: 1,
        try_grow: Asked(1, 60, 60),
        grow: Asked(1, 40, 40),
        reserved: 100,
        peak: 100,
        sizes: [(60, 1), (40, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(raw(&snapshot, &first), expected);

    // The consumer goes with the last of them.
    drop((first, empty, split));
    assert_eq!(counting.snapshot().consumers.len(), 1);
    drop(taken);
    expected.unregistrations = 1;
    expected.releases = (3, 100);
    expected.reserved = 0;
    assert_eq!(total(&counting), expected);
    assert!(counting.snapshot().consumers.is_empty());
}

#[test]
fn zero_byte_calls_reach_the_pool_and_are_counted_apart() {
    let log = CallLog::default();
    let calls = log.calls();
    let (counting, pool) = counting(log);
    let a = register(&pool, "a");
    a.grow(0);
    a.try_grow(0).unwrap();
    a.shrink(0);
    a.try_shrink(0).unwrap();
    assert_eq!(
        *calls.lock().unwrap(),
        [
            "register a 0",
            "grow a 0",
            "try_grow a 0",
            "shrink a 0",
            "shrink a 0"
        ]
    );
    let expected = Counted {
        registrations: 1,
        unspillable: 1,
        zero_byte_calls: 4,
        ..Counted::default()
    };
    assert_eq!(total(&counting), expected);
}

#[test]
fn what_never_reaches_a_pool_is_not_counted() {
    let log = CallLog::default();
    let calls = log.calls();
    let (counting, pool) = counting(log);
    let mut a = register(&pool, "a");
    a.free();
    let b = a.new_empty();
    drop(b);
    a.grow(10);
    let before = (counting.snapshot(), calls.lock().unwrap().len());

    let b = a.split(4);
    let c = a.take();
    a.free();
    a.resize(0);
    c.resize(6);
    c.try_resize(6).unwrap();
    c.try_shrink(7).unwrap_err();
    caught(|| c.shrink(7));
    caught(|| c.split(7));
    assert_eq!((b.size(), c.size()), (4, 6));
    assert_eq!((counting.snapshot(), calls.lock().unwrap().len()), before);
}

#[test]
fn an_unbounded_pool_is_counted_and_stays_without_limit() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let a = register(&pool, "a");
    a.try_grow(1 << 40).unwrap();
    a.grow(1 << 40);
    assert!(matches!(pool.memory_limit(), MemoryLimit::Infinite));
    let figures = total(&counting);
    assert_eq!(figures.try_grow, Asked(1, 1 << 40, 1 << 40));
    assert_eq!(figures.grow, Asked(1, 1 << 40, 1 << 40));
    assert_eq!((figures.reserved, figures.peak), (2 << 40, 2 << 40));
}
