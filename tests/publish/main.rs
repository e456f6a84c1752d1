//! What is published of pools that come and go.

mod exposition;
mod labels;
mod latencies;
mod lifetimes;
mod model;
mod names;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/recording_pool.rs"]
mod recording_pool;
mod threads;

use std::sync::Arc;

use datafusion_counting_pool::{CountingPool, Registry};
use datafusion_execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};

/// A pool of this name, added to the registry.
fn pool(registry: &Registry, name: &str) -> Arc<CountingPool> {
    added(
        registry,
        CountingPool::new(Arc::new(UnboundedMemoryPool::default())),
        name,
    )
}

/// A pool with a limit.
fn limited(registry: &Registry, name: &str, bytes: usize) -> Arc<CountingPool> {
    added(
        registry,
        CountingPool::new(Arc::new(GreedyMemoryPool::new(bytes))),
        name,
    )
}

fn added(registry: &Registry, pool: CountingPool, name: &str) -> Arc<CountingPool> {
    let pool = Arc::new(pool.with_name(name).with_timing(false));
    assert!(registry.add(&pool));
    pool
}

fn consumer(pool: &Arc<CountingPool>, name: &str) -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::clone(pool) as _;
    MemoryConsumer::new(name).register(&pool)
}

/// A consumer that makes so many requests of a byte, and goes.
fn finished(pool: &Arc<CountingPool>, name: &str, acquires: usize) {
    let reservation = consumer(pool, name);
    for _ in 0..acquires {
        reservation.try_grow(1).unwrap();
    }
}
