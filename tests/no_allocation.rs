//! A call that succeeds allocates nothing in the decorator. `allocation_counter` puts its
//! allocator under the whole test binary, and counts for each thread by itself.

mod support;

use allocation_counter::measure;
use datafusion_counting_pool::{CountingPool, FaultPool};
use datafusion_execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryPool, MemoryReservation, TrackConsumersPool,
    UnboundedMemoryPool,
};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use support::{ManualClock, register};

type Pool = Arc<dyn MemoryPool>;

const DECORATED: [fn(Pool) -> Pool; 6] = [
    |pool| Arc::new(CountingPool::new(pool)),
    |pool| Arc::new(CountingPool::new(pool).with_timing(false)),
    |pool| Arc::new(CountingPool::new(pool).with_clock(Arc::new(ManualClock::default()))),
    |pool| Arc::new(CountingPool::new(pool)).scope("query"),
    |pool| Arc::new(FaultPool::new(pool)),
    |pool| {
        Arc::new(CountingPool::new(Arc::new(
            FaultPool::new(pool).deny_nth(1_000_000),
        )))
    },
];

const BARE: [fn() -> Pool; 4] = [
    || Arc::new(GreedyMemoryPool::new(1 << 30)),
    || Arc::new(FairSpillPool::new(1 << 30)),
    || Arc::new(UnboundedMemoryPool::default()),
    || {
        let greedy = GreedyMemoryPool::new(1 << 30);
        Arc::new(TrackConsumersPool::new(greedy, NonZeroUsize::MIN))
    },
];

#[track_caller]
fn allocates_nothing(what: &str, f: impl FnOnce()) {
    let allocations = measure(f);
    assert_eq!(allocations.count_total, 0, "{what}: {allocations:?}");
}

/// Whoever reads a zero below should know that the counter counts.
#[test]
fn an_allocation_would_be_seen() {
    assert_eq!(
        measure(|| drop(std::hint::black_box(Box::new(1_u64)))).count_total,
        1
    );
    // So does a denial's, which has its text to write.
    let pool: Pool = Arc::new(CountingPool::new(Arc::new(GreedyMemoryPool::new(1))));
    let a = register(&pool, "a");
    assert!(measure(|| drop(a.try_grow(2).unwrap_err())).count_total > 0);
}

fn every_call(pool: &Pool, a: &MemoryReservation) {
    allocates_nothing("the first call", || a.try_grow(64).unwrap());
    allocates_nothing("grow", || a.grow(64));
    allocates_nothing("shrink", || a.shrink(1));
    allocates_nothing("try_shrink", || assert_eq!(a.try_shrink(1).unwrap(), 126));
    allocates_nothing("resize", || {
        a.resize(1_000);
        a.resize(500);
    });
    allocates_nothing("try_resize", || {
        a.try_resize(1_000).unwrap();
        a.try_resize(500).unwrap();
    });
    allocates_nothing("free", || assert_eq!(a.free(), 500));
    allocates_nothing("calls of zero bytes", || {
        a.grow(0);
        a.try_grow(0).unwrap();
        a.shrink(0);
    });
    allocates_nothing("calls past the reservation", || {
        pool.grow(a, 10);
        pool.try_grow(a, 10).unwrap();
        pool.shrink(a, 20);
    });
    // More sizes than are told apart.
    allocates_nothing("a thousand sizes", || {
        for bytes in 1..1_000 {
            a.try_grow(bytes).unwrap();
            a.shrink(bytes);
        }
    });
    allocates_nothing("what a pool is asked about itself", || {
        let _ = (pool.reserved(), pool.memory_limit(), pool.name());
    });
}

#[test]
fn a_call_that_succeeds_allocates_nothing() {
    for bare in BARE {
        for decorate in DECORATED {
            let pool = decorate(bare());
            every_call(&pool, &register(&pool, "a"));
        }
    }
}

#[test]
fn nor_does_the_first_call_of_a_thread_or_of_the_thousandth_consumer() {
    for decorate in DECORATED {
        let pool = decorate(Arc::new(GreedyMemoryPool::new(1 << 30)));
        let consumers: Vec<_> = (0..1_000)
            .map(|i| register(&pool, &format!("c{i}")))
            .collect();
        for consumer in &consumers {
            allocates_nothing("the first call", || consumer.try_grow(64).unwrap());
        }
        thread::scope(|scope| {
            for consumer in &consumers[..4] {
                let pool = &pool;
                scope.spawn(move || {
                    // Takes the place of another consumer that is held by nobody.
                    let new = register(pool, "new");
                    allocates_nothing("another thread's first call", || consumer.grow(64));
                    allocates_nothing("and its second", || new.try_grow(64).unwrap());
                    allocates_nothing("and its release", || assert_eq!(new.free(), 64));
                });
            }
        });
    }
}

#[test]
fn nor_does_a_release_that_somebody_waits_for() {
    use futures::executor::block_on;
    use futures::future::poll_fn;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    a.grow(64);
    b.grow(64);
    let mut wait = pin!(counting.released_within(Duration::from_secs(3_600)));
    block_on(poll_fn(|cx| {
        assert!(wait.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    }));
    // The last one wakes those who wait, which is theirs to pay for.
    allocates_nothing("a release that is not the last", || {
        assert_eq!(a.free(), 64)
    });
}
