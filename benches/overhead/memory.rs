//! How many bytes a live consumer takes.

use datafusion_counting_pool::CountingPool;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use std::sync::Arc;

const CONSUMERS: usize = 10_000;

/// What the pool itself allocates when consumers register, their names included.
pub(crate) fn bytes_per_consumer() -> f64 {
    let pool = CountingPool::new(Arc::new(UnboundedMemoryPool::default()));
    let consumers: Vec<_> = (0..CONSUMERS)
        .map(|partition| MemoryConsumer::new(format!("GroupedHashAggregateStream[{partition}]")))
        .collect();
    let allocated = allocation_counter::measure(|| {
        for consumer in &consumers {
            pool.register(consumer);
        }
    });
    allocated.bytes_current as f64 / CONSUMERS as f64
}
