//! A counting pool and the pool it wraps: what it counts where there are several, and when.

mod support;

use datafusion_counting_pool::CountingPool;
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use support::{Asked, Counted, SpiedPool, counted, counting, register, shared, total};

/// What two tests in parallel do.
fn alone_with_its_pool(bytes: usize, times: u64) {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let names = ["ExternalSorter[0]", "RepartitionExec[0]"];
    for _ in 0..times {
        for name in names {
            let reservation = register(&pool, name);
            reservation.try_grow(bytes).unwrap();
        }
    }
    let snapshot = counting.snapshot();
    for name in names {
        let bytes = bytes as u64;
        let expected = Counted {
            registrations: times,
            unspillable: times,
            unregistrations: times,
            try_grow: Asked(times, times * bytes, times * bytes),
            releases: (times, times * bytes),
            peak: bytes,
            sizes: [(bytes, times)].into(),
            ..Counted::default()
        };
        assert_eq!(counted(&snapshot.consumer(name)), expected);
    }
}

#[test]
fn pools_share_no_counters() {
    thread::scope(|scope| {
        for bytes in 1..=8 {
            scope.spawn(move || alone_with_its_pool(bytes, 1_000));
        }
    });
}

#[test]
fn the_figures_of_a_pool_that_is_in_use_count_from_the_wrapping_on() {
    let greedy: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
    let earlier = register(&greedy, "earlier");
    earlier.grow(70);
    let (counting, pool) = shared(CountingPool::new(Arc::clone(&greedy)));
    assert!(counting.snapshot().total.is_zero());
    assert_eq!(pool.reserved(), 70);

    let later = register(&pool, "later");
    later.try_grow(30).unwrap();
    later.try_grow(1).unwrap_err();
    earlier.shrink(50);
    let snapshot = counting.snapshot();
    assert_eq!(snapshot.consumers.len(), 1);
    let figures = counted(&snapshot.total);
    assert_eq!((figures.reserved, figures.peak), (30, 30));
    assert_eq!((figures.releases, figures.denied), ((0, 0), (1, 1)));
    assert_eq!(pool.reserved(), 50);
}

#[test]
fn a_scope_counts_its_own_and_the_shared_pool_counts_everything() {
    let (sessions, pool) = counting(GreedyMemoryPool::new(1000));
    let other = register(&pool, "a");
    other.grow(100);

    let query = sessions.scope("query 42");
    assert_eq!(query.pool_name(), "query 42");
    let scoped: Arc<dyn MemoryPool> = query.clone();
    let a = register(&scoped, "a");
    a.try_grow(300).unwrap();
    a.try_grow(601).unwrap_err();
    a.shrink(200);
    drop(a);

    let own = Counted {
        registrations: 1,
        unspillable: 1,
        unregistrations: 1,
        try_grow: Asked(2, 901, 300),
        denied: (1, 601),
        releases: (2, 300),
        peak: 300,
        sizes: [(300, 1), (601, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(total(&query), own);
    let everything = Counted {
        registrations: 2,
        unspillable: 2,
        grow: Asked(1, 100, 100),
        reserved: 100,
        peak: 400,
        sizes: [(100, 1), (300, 1), (601, 1)].into(),
        ..own
    };
    assert_eq!(total(&sessions), everything);
}

/// Looked at from inside the wrapped pool, just before and just after it has done its part of
/// each call.
#[test]
fn reserved_is_never_more_than_the_wrapped_pool_holds() {
    let decorator = Arc::new(OnceLock::<Weak<CountingPool>>::new());
    let seen = Arc::clone(&decorator);
    let looks = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&looks);
    let spied = SpiedPool::new(100, move |held| {
        counter.fetch_add(1, SeqCst);
        let counting = seen.get().unwrap().upgrade().unwrap();
        let total = counting.snapshot().total;
        assert!(total.reserved_bytes <= held as u64);
        assert!(total.peak_bytes <= 150);
    });
    let (counting, pool) = counting(spied);
    decorator.set(Arc::downgrade(&counting)).unwrap();

    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    a.try_grow(60).unwrap();
    b.try_grow(50).unwrap_err();
    b.grow(90);
    assert_eq!(total(&counting).peak, 150);
    a.shrink(60);
    b.shrink(10);
    a.try_grow(20).unwrap();
    a.free();
    b.free();
    assert_eq!(total(&counting).peak, 150);
    assert_eq!(total(&counting).reserved, 0);
    assert_eq!(looks.load(SeqCst), 16);
}
