//! One round of one side, and the medians of several.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use datafusion_counting_pool::spark::{FairUnifiedPool, TaskMemory};
use datafusion_counting_pool::{CountingPool, Histogram};
use datafusion_execution::memory_pool::MemoryPool;
use jni::JavaVM;
use spark_memory::{LockedFairPool, OffHeapExecutor};

use crate::scenario::{Done, Scenario};

/// Of Spark's off-heap pool and of the fair pool.
pub(crate) const POOL_BYTES: usize = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The lock is held while Spark is called.
    Base,
    /// It is not.
    Head,
}

impl Side {
    /// The fair pool of this side, with a counting pool around it.
    pub(crate) fn pool(self, memory: Arc<dyn TaskMemory>) -> Arc<CountingPool> {
        let pool: Arc<dyn MemoryPool> = match self {
            Self::Base => Arc::new(LockedFairPool::new(memory, POOL_BYTES)),
            Self::Head => Arc::new(FairUnifiedPool::new(memory, POOL_BYTES)),
        };
        Arc::new(CountingPool::new(pool))
    }
}

/// What is shown of a side. Counts are those of a round.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) ops_per_s: f64,
    pub(crate) grow: Latency,
    pub(crate) release: Latency,
    pub(crate) short_grants: u64,
    pub(crate) rejects: u64,
    pub(crate) errors: u64,
    /// Bytes reserved in the pool after all threads have ended.
    pub(crate) pool_balance: u64,
    /// Bytes that Spark holds for the task then.
    pub(crate) spark_balance: u64,
}

/// Microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// All threads once, over an executor and a pool of their own.
pub(crate) fn round(
    jvm: &JavaVM,
    side: Side,
    scenario: Scenario,
    threads: usize,
    operations: u32,
) -> Figures {
    let executor = OffHeapExecutor::new(jvm, POOL_BYTES as i64).expect("Spark's memory manager");
    let task = Arc::new(executor.task(1).expect("a task's memory manager"));
    let taken = (POOL_BYTES - scenario.free(POOL_BYTES)) as i64;
    if taken > 0 {
        let granted = task.acquire_once(taken).expect("Spark grants memory");
        assert_eq!(granted, taken, "the pool is all this task's");
    }
    let counting = side.pool(Arc::clone(&task) as _);
    let pool: Arc<dyn MemoryPool> = Arc::clone(&counting) as _;

    let start = Barrier::new(threads + 1);
    let (done, elapsed) = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let (pool, start, task) = (&pool, &start, &task);
                scope.spawn(move || {
                    // So that attaching the thread to the JVM is not measured.
                    task.balance().expect("the JVM answers");
                    start.wait();
                    scenario.run(pool, thread, operations)
                })
            })
            .collect();
        start.wait();
        let started = Instant::now();
        let done: Vec<Done> = threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"))
            .collect();
        (done, started.elapsed())
    });

    if taken > 0 {
        task.release_once(taken).expect("Spark takes memory back");
    }
    let counts = counting.snapshot();
    let sum = |figure: fn(&Done) -> u64| done.iter().map(figure).sum::<u64>();
    Figures {
        ops_per_s: sum(|done| done.operations) as f64 / elapsed.as_secs_f64(),
        grow: Latency::of(&counts.acquire_latency),
        release: Latency::of(&counts.release_latency),
        short_grants: sum(|done| done.short_grants),
        rejects: sum(|done| done.rejects),
        errors: sum(|done| done.errors) + counts.total.panicked + counts.total.releases_panicked,
        pool_balance: pool.reserved() as u64,
        spark_balance: task.balance().expect("the JVM answers") as u64,
    }
}

impl Figures {
    /// Each figure's own median; but the worst of what has to be zero.
    pub(crate) fn medians(rounds: &[Self]) -> Self {
        let count = |figure: fn(&Self) -> u64| median(rounds.iter().map(figure).collect());
        let worst = |figure: fn(&Self) -> u64| rounds.iter().map(figure).max().unwrap_or(0);
        Self {
            ops_per_s: median_f64(rounds.iter().map(|round| round.ops_per_s)),
            grow: Latency::medians(rounds, |round| round.grow),
            release: Latency::medians(rounds, |round| round.release),
            short_grants: count(|round| round.short_grants),
            rejects: worst(|round| round.rejects),
            errors: worst(|round| round.errors),
            pool_balance: worst(|round| round.pool_balance),
            spark_balance: worst(|round| round.spark_balance),
        }
    }
}

impl Latency {
    fn of(histogram: &Histogram) -> Self {
        let us = |time: Option<Duration>| time.map_or(0.0, micros);
        Self {
            mean: us(histogram.mean()),
            p50: us(histogram.quantile(0.5)),
            p99: us(histogram.quantile(0.99)),
            p999: us(histogram.quantile(0.999)),
            max: us(histogram.max()),
        }
    }

    fn medians(rounds: &[Figures], latency: fn(&Figures) -> Self) -> Self {
        let of = |figure: fn(Self) -> f64| median_f64(rounds.iter().map(latency).map(figure));
        Self {
            mean: of(|latency| latency.mean),
            p50: of(|latency| latency.p50),
            p99: of(|latency| latency.p99),
            p999: of(|latency| latency.p999),
            max: of(|latency| latency.max),
        }
    }
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

pub(crate) fn median_f64(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[(figures.len() - 1) / 2]
}

fn median(mut figures: Vec<u64>) -> u64 {
    figures.sort_unstable();
    figures[(figures.len() - 1) / 2]
}
