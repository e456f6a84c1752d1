//! What happened between two snapshots.

mod support;

use datafusion_execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
use std::thread;
use support::{Asked, Counted, counted, counting, raw, register, register_spillable};

#[test]
fn two_snapshots_in_a_row_are_equal_and_their_difference_is_zero() {
    let (counting, pool) = counting(GreedyMemoryPool::new(100));
    let check = || {
        let (first, second) = (counting.snapshot(), counting.snapshot());
        assert_eq!(first, second);
        let difference = second.since(&first);
        assert!(difference.total.is_zero(), "{difference}");
        assert!(difference.denials.is_empty());
        assert_eq!(difference.acquire_latency.count(), 0);
        assert_eq!(difference.release_latency.count(), 0);
        assert_eq!(difference.overflowed_consumers, 0);
        for row in difference.by_name().iter().chain(&difference.by_operator()) {
            assert!(row.figures.is_zero(), "{row:?}");
        }
        for row in &difference.consumers {
            assert!(row.figures.is_zero(), "{row:?}");
        }
    };
    check();
    let (a, b) = (register(&pool, "a[0]"), register_spillable(&pool, "a[1]"));
    check();
    a.try_grow(60).unwrap();
    b.grow(30);
    check();
    b.try_grow(60).unwrap_err();
    a.shrink(0);
    pool.shrink(&b, 31);
    check();
    drop(a);
    check();
    drop(b);
    check();
    // From another thread as well, and when everybody has gone.
    thread::scope(|scope| scope.spawn(check).join().unwrap());
    assert_ne!(counting.snapshot(), {
        register(&pool, "c");
        counting.snapshot()
    });
}

#[test]
fn a_difference_has_the_figures_of_the_interval() {
    let (counting, pool) = counting(GreedyMemoryPool::new(100));
    let stays = register(&pool, "s");
    let goes = register(&pool, "g");
    stays.try_grow(10).unwrap();
    goes.try_grow(50).unwrap();
    goes.try_grow(50).unwrap_err();
    let earlier = counting.snapshot();

    stays.try_grow(20).unwrap();
    stays.shrink(5);
    goes.try_grow(50).unwrap_err();
    drop(goes);
    // Comes and goes in between.
    register(&pool, "g").grow(7);
    let comes = register_spillable(&pool, "c");
    comes.grow(1);

    let difference = counting.snapshot().since(&earlier);
    let stayed = Counted {
        try_grow: Asked(1, 20, 20),
        releases: (1, 5),
        // These two are not counters: they are as they are now.
        reserved: 25,
        peak: 30,
        sizes: [(20, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(raw(&difference, &stays), stayed);
    assert_eq!(counted(&difference.consumer("s")), stayed);
    let went = Counted {
        registrations: 1,
        unspillable: 1,
        unregistrations: 2,
        try_grow: Asked(1, 50, 0),
        grow: Asked(1, 7, 7),
        denied: (1, 50),
        releases: (2, 57),
        peak: 50,
        sizes: [(50, 1), (7, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(counted(&difference.consumer("g")), went);
    let came = Counted {
        registrations: 1,
        grow: Asked(1, 1, 1),
        reserved: 1,
        peak: 1,
        sizes: [(1, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(raw(&difference, &comes), came);
    let all = Counted {
        registrations: 2,
        unspillable: 1,
        unregistrations: 2,
        try_grow: Asked(2, 70, 20),
        grow: Asked(2, 8, 8),
        denied: (1, 50),
        releases: (3, 62),
        reserved: 26,
        // 30 and 50
        peak: 80,
        sizes: [(20, 1), (50, 1), (7, 1), (1, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(counted(&difference.total), all);
    let denials: Vec<_> = difference
        .denials
        .iter()
        .map(|denial| denial.number)
        .collect();
    assert_eq!(denials, [2]);
}

#[test]
fn intervals_add_up_to_the_whole() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let early = register(&pool, "early");
    early.grow(1_000);
    let mut intervals = counting.intervals();
    let mut next = || counted(&intervals.next().unwrap().total);
    for bytes in [10, 20, 30] {
        let reservation = register(&pool, "a");
        for _ in 0..bytes {
            reservation.try_grow(bytes).unwrap();
        }
        drop(reservation);
        let bytes = bytes as u64;
        let expected = Counted {
            registrations: 1,
            unspillable: 1,
            unregistrations: 1,
            try_grow: Asked(bytes, bytes * bytes, bytes * bytes),
            releases: (1, bytes * bytes),
            reserved: 1_000,
            peak: 1_000 + bytes * bytes,
            sizes: [(bytes, bytes)].into(),
            ..Counted::default()
        };
        assert_eq!(next(), expected);
    }
    let nothing = next();
    assert_eq!(
        (nothing.try_grow, nothing.releases),
        (Asked(0, 0, 0), (0, 0))
    );
}
