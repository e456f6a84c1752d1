//! A release, and a look at the pool, while an acquire of the same task is parked.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool};
use jni::JavaVM;
use spark_memory::OffHeapExecutor;

use crate::round::{POOL_BYTES, Side, median_f64, micros};

const MIB: usize = 1 << 20;

/// For how long the acquire is parked.
const PARKING: Duration = Duration::from_secs(1);

const ROUNDS: usize = 3;

/// Both sides.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) base: Waits,
    pub(crate) head: Waits,
}

/// Microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// That the release took.
    pub(crate) release: f64,
    /// That `reserved()` took.
    pub(crate) reserved: f64,
}

pub(crate) fn parked(jvm: &JavaVM) -> Parked {
    let medians = |side| {
        let rounds = [(); ROUNDS].map(|()| once(jvm, side));
        Waits {
            release: median_f64(rounds.iter().map(|waits| waits.release)),
            reserved: median_f64(rounds.iter().map(|waits| waits.reserved)),
        }
    };
    Parked {
        base: medians(Side::Base),
        head: medians(Side::Head),
    }
}

fn once(jvm: &JavaVM, side: Side) -> Waits {
    let executor = OffHeapExecutor::new(jvm, POOL_BYTES as i64).expect("Spark's memory manager");
    let task = Arc::new(executor.task(1).expect("a task's memory manager"));
    let other = executor.task(2).expect("a task's memory manager");
    let others = (POOL_BYTES - 100 * MIB) as i64;
    let granted = other.acquire_once(others).expect("Spark grants memory");
    assert_eq!(granted, others, "the other task is alone");

    let counting = side.pool(task);
    let pool: Arc<dyn MemoryPool> = Arc::clone(&counting) as _;
    let [held, parks] = ["held", "parks"].map(|name| MemoryConsumer::new(name).register(&pool));
    held.grow(100 * MIB);

    let reserved = thread::scope(|scope| {
        scope.spawn(|| parks.grow(100 * MIB));
        while executor.parked().expect("the JVM answers") == 0 {
            thread::yield_now();
        }
        scope.spawn(|| held.shrink(MIB));
        let reader = scope.spawn(|| {
            let started = Instant::now();
            pool.reserved();
            started.elapsed()
        });
        thread::sleep(PARKING);
        other.release_once(others).expect("Spark takes memory back");
        reader.join().expect("no thread panics")
    });
    let release = counting.snapshot().release_latency.max();
    Waits {
        release: micros(release.expect("there was a release")),
        reserved: micros(reserved),
    }
}
