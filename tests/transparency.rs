//! With and without the decorator everything reads and behaves the same.

mod support;

use datafusion_common::DataFusionError;
use datafusion_counting_pool::{CountingPool, FaultPool};
use datafusion_execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, TrackConsumersPool,
    UnboundedMemoryPool,
};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use proptest::collection::vec;
use proptest::prelude::*;
use std::num::NonZeroUsize;
use std::sync::Arc;
use support::{CallLog, ForgivingPool, Op, Player, any_op, register, register_spillable, shared};

type Pool = Arc<dyn MemoryPool>;

/// More consumers than any test has: which of two equally large ones is left out is chance.
const TOP: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

const BARE: [fn() -> Pool; 6] = [
    || Arc::new(GreedyMemoryPool::new(1_000)),
    || Arc::new(FairSpillPool::new(1_000)),
    || Arc::new(UnboundedMemoryPool::default()),
    || Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(1_000), TOP)),
    || Arc::new(TrackConsumersPool::new(FairSpillPool::new(1_000), TOP)),
    || Arc::new(ForgivingPool::new(1_000)),
];

/// First the bare pool itself.
const DECORATED: [fn(Pool) -> Pool; 6] = [
    |pool| pool,
    counted,
    |pool| counted(counted(pool)),
    |pool| Arc::new(CountingPool::new(pool)).scope("query"),
    |pool| Arc::new(FaultPool::new(pool)),
    |pool| counted(Arc::new(FaultPool::new(pool))),
];

fn counted(pool: Pool) -> Pool {
    Arc::new(CountingPool::new(pool).with_name("sessions"))
}

/// A consumer's id is the process's: `#17` becomes `#<id>`. Lines that list consumers are
/// brought in order, since equally large ones come as they like.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for (i, part) in text.split('#').enumerate() {
        if i > 0 {
            masked.push_str("#<id>");
            masked.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
        } else {
            masked.push_str(part);
        }
    }
    let mut lines: Vec<_> = masked
        .lines()
        .map(|line| line.trim_end_matches([',', '.']))
        .collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn limit(pool: &dyn MemoryPool) -> String {
    match pool.memory_limit() {
        MemoryLimit::Infinite => "infinite".into(),
        MemoryLimit::Finite(bytes) => bytes.to_string(),
        MemoryLimit::Unknown => "unknown".into(),
    }
}

/// Everything that a caller of the pool gets to see.
fn seen(pool: Pool, ops: &[Op]) -> Vec<String> {
    let mut player = Player::new(pool);
    ops.iter()
        .map(|&op| {
            let outcome = player.play(op);
            let sizes: Vec<_> = player.reservations.iter().map(|r| r.size()).collect();
            let pool = &player.pool;
            masked(&format!(
                "{op:?}: {outcome}; sizes {sizes:?}, {} reserved of {}; {} = {pool}",
                pool.reserved(),
                limit(&**pool),
                pool.name(),
            ))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_calls_have_the_same_results(ops in vec(any_op(), 1..60)) {
        for bare in BARE {
            let expected = seen(bare(), &ops);
            for decorate in &DECORATED[1..] {
                prop_assert_eq!(&seen(decorate(bare()), &ops), &expected);
            }
        }
    }
}

/// What holds of every pool of DataFusion's holds of each of them decorated.
fn for_each_pool(test: impl Fn(&Pool)) {
    for bare in BARE {
        for decorate in DECORATED {
            test(&decorate(bare()));
        }
    }
}

#[test]
fn reserved_follows_every_operation() {
    for_each_pool(|pool| {
        let (a, mut b) = (register(pool, "a"), register_spillable(pool, "b"));
        a.try_grow(100).unwrap();
        b.grow(200);
        assert_eq!((pool.reserved(), a.size(), b.size()), (300, 100, 200));
        a.shrink(30);
        assert_eq!(pool.reserved(), 270);
        assert_eq!(b.try_shrink(50).unwrap(), 150);
        assert_eq!(pool.reserved(), 220);
        let c = b.split(60);
        let d = b.take();
        let e = a.new_empty();
        assert_eq!(
            [a.size(), b.size(), c.size(), d.size(), e.size()],
            [70, 0, 60, 90, 0]
        );
        assert_eq!(pool.reserved(), 220);
        e.try_grow(5).unwrap();
        drop(c);
        assert_eq!(pool.reserved(), 165);
        a.try_resize(71).unwrap();
        d.resize(0);
        assert_eq!(pool.reserved(), 76);
        assert_eq!(a.free(), 71);
        drop((a, b, d, e));
        assert_eq!(pool.reserved(), 0);
    });
}

#[test]
fn a_denied_try_grow_changes_nothing() {
    for_each_pool(|pool| {
        let MemoryLimit::Finite(limit) = pool.memory_limit() else {
            return;
        };
        let (a, b) = (register(pool, "a"), register(pool, "b"));
        a.try_grow(limit - 10).unwrap();
        let error = b.try_grow(11).unwrap_err();
        assert!(matches!(error, DataFusionError::ResourcesExhausted(_)));
        assert_eq!((pool.reserved(), b.size()), (limit - 10, 0));
        b.try_grow(10).unwrap();
        a.try_grow(1).unwrap_err();
        // Only what cannot fail goes past the limit.
        b.grow(5);
        assert_eq!(pool.reserved(), limit + 5);
        b.try_resize(limit).unwrap_err();
        assert_eq!((b.size(), pool.reserved()), (15, limit + 5));
        drop(a);
        b.try_grow(limit - 15).unwrap();
        assert_eq!(pool.reserved(), limit);
    });
}

#[test]
fn spillable_consumers_share_fairly_behind_the_decorator() {
    for decorate in DECORATED {
        let pool = decorate(Arc::new(FairSpillPool::new(1_000)));
        let unspillable = register(&pool, "u");
        unspillable.try_grow(400).unwrap();
        let a = register_spillable(&pool, "a");
        a.try_grow(600).unwrap();
        a.free();
        // With a second one, each has half of what is left; with it gone, all again.
        let b = register_spillable(&pool, "b");
        a.try_grow(301).unwrap_err();
        a.try_grow(300).unwrap();
        b.try_grow(301).unwrap_err();
        drop(b);
        a.try_grow(300).unwrap();
    }
}

#[test]
fn a_denial_reads_the_same() {
    let expected = "Resources exhausted: Failed to allocate additional 20.0 B for B with 0.0 B \
        already allocated for this reservation - 10.0 B remain available for the total memory \
        pool: greedy(used: 90.0 B, pool_size: 100.0 B)";
    for decorate in DECORATED {
        let pool = decorate(Arc::new(GreedyMemoryPool::new(100)));
        let (a, b) = (register(&pool, "A"), register(&pool, "B"));
        a.try_grow(90).unwrap();
        assert_eq!(b.try_grow(20).unwrap_err().strip_backtrace(), expected);
        assert_eq!(pool.name(), "greedy");
        assert_eq!(pool.to_string(), "greedy(used: 90.0 B, pool_size: 100.0 B)");
    }
    // The other order of things: tracking around the decorator.
    let pool: Pool = Arc::new(TrackConsumersPool::new(
        CountingPool::new(Arc::new(GreedyMemoryPool::new(100))),
        TOP,
    ));
    let b = register(&pool, "B");
    let message = b.try_grow(200).unwrap_err().to_string();
    assert!(message.contains("B#") && message.contains("greedy(used: 0.0 B, pool_size: 100.0 B)"));
}

#[test]
fn limits_come_out_unchanged() {
    for decorate in DECORATED {
        let limit = |bare: Pool| limit(&*decorate(bare));
        assert_eq!(limit(Arc::new(GreedyMemoryPool::new(100))), "100");
        assert_eq!(limit(Arc::new(FairSpillPool::new(0))), "0");
        assert_eq!(
            limit(Arc::new(GreedyMemoryPool::new(usize::MAX))),
            usize::MAX.to_string()
        );
        assert_eq!(limit(Arc::new(UnboundedMemoryPool::default())), "infinite");
        // This one leaves the method to the trait.
        assert_eq!(limit(Arc::new(CallLog::default())), "unknown");
    }
}

/// Every method of the trait, each with what it was given.
#[test]
fn every_call_reaches_the_wrapped_pool() {
    for decorate in DECORATED {
        let log = CallLog::default();
        let calls = log.calls();
        let pool = decorate(Arc::new(log));
        let a = MemoryConsumer::new("a")
            .with_can_spill(true)
            .register(&pool);
        a.grow(1);
        a.try_grow(2).unwrap();
        pool.shrink(&a, 1);
        assert_eq!(pool.reserved(), 17);
        assert_eq!(
            (pool.name(), pool.to_string().as_str()),
            ("log", "log(everything)")
        );
        drop(a);
        assert_eq!(
            *calls.lock().unwrap(),
            [
                "register a 0",
                "grow a 1",
                "try_grow a 2",
                "shrink a 1",
                "shrink a 3",
                "unregister a 0"
            ]
        );
    }
}

#[test]
fn a_runtime_gives_the_decorator_back() {
    let (counting, _) = support::counting(GreedyMemoryPool::new(100));
    let builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&counting) as _);
    let runtime = builder.build_arc().unwrap();
    register(&runtime.memory_pool, "a").grow(10);
    let found = CountingPool::from_pool(&*runtime.memory_pool).unwrap();
    assert_eq!(found.snapshot().consumer("a").acquires.acquired_bytes, 10);
    assert!(std::ptr::eq(found, &*counting));

    // As from a clone of the environment's settings.
    let runtime = RuntimeEnvBuilder::from_runtime_env(&runtime)
        .build()
        .unwrap();
    let found = CountingPool::from_pool(&*runtime.memory_pool).unwrap();
    assert!(std::ptr::eq(found, &*counting));

    // A new limit is a new pool.
    let builder = RuntimeEnvBuilder::from_runtime_env(&runtime).with_memory_limit(100, 1.0);
    let runtime = builder.build().unwrap();
    assert!(CountingPool::from_pool(&*runtime.memory_pool).is_none());
}

#[test]
fn only_a_counting_pool_is_found() {
    for bare in BARE {
        let bare = bare();
        assert!(CountingPool::from_pool(&*bare).is_none());
        let counting = CountingPool::new(Arc::clone(&bare));
        assert!(Arc::ptr_eq(counting.inner(), &bare));
        assert!(CountingPool::from_pool(&counting).is_some());
        assert!(CountingPool::from_pool(&FaultPool::new(Arc::new(counting))).is_none());
    }
    // The outermost one.
    let (sessions, _) = shared(CountingPool::new(Arc::new(UnboundedMemoryPool::default())));
    let query = sessions.scope("query");
    let found = CountingPool::from_pool(&*query).unwrap();
    assert_eq!(found.pool_name(), "query");
    let within = CountingPool::from_pool(&**found.inner()).unwrap();
    assert_eq!(within.pool_name(), "default");
}
