//! Nobody scrapes, and still no memory piles up. In a process of its own, for it installs a
//! recorder.

use std::sync::Arc;

use datafusion_counting_pool::{CountingPool, Registry};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use metrics_exporter_prometheus::PrometheusBuilder;

const CALLS: usize = 1_000_000;
const TASKS: usize = 10_000;

fn pool(registry: &Registry) -> Arc<CountingPool> {
    let pool = CountingPool::new(Arc::new(UnboundedMemoryPool::default()));
    let pool = Arc::new(pool.with_name("tasks"));
    assert!(registry.add(&pool));
    pool
}

fn consumer(pool: &Arc<CountingPool>) -> datafusion_execution::memory_pool::MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::clone(pool) as _;
    MemoryConsumer::new("x").register(&pool)
}

/// Bytes that `work` allocates and does not give back.
fn kept(work: impl FnOnce()) -> i64 {
    allocation_counter::measure(work).bytes_current
}

#[test]
fn memory_stays_flat_while_nobody_scrapes() {
    // A recorder that runs no upkeep.
    PrometheusBuilder::new().install_recorder().unwrap();
    let registry = Registry::new();
    let lasting = pool(&registry);
    let reservation = consumer(&lasting);
    registry.publish();

    let calls = kept(|| {
        for _ in 0..CALLS {
            reservation.try_grow(64).unwrap();
            reservation.shrink(64);
        }
    });
    assert_eq!(calls, 0, "bytes over {CALLS} calls");

    let task = || {
        let pool = pool(&registry);
        consumer(&pool).try_grow(64).unwrap();
    };
    // The first task makes room that the others use again.
    task();
    let tasks = kept(|| (1..TASKS).for_each(|_| task()));
    assert_eq!(
        tasks, 0,
        "bytes over {TASKS} tasks, each with a pool of its own"
    );
    assert_eq!(lasting.snapshot().total.acquires.calls, CALLS as u64);
}
