//! The fair pool as it was before it let go of its lock, to compare with.

use std::fmt::{Debug, Display, Formatter};
use std::sync::Arc;

use datafusion_common::{HashMap, Result, resources_datafusion_err};
use datafusion_counting_pool::spark::TaskMemory;
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

/// A fair pool that holds its lock while it calls Spark, so that whoever comes next, a release
/// or a mere question included, waits for as long as Spark parks an acquire.
///
/// For benchmarks and tests only. It does what those do, and no more: a short `grow` panics.
#[derive(Debug)]
pub struct LockedFairPool {
    memory: Arc<dyn TaskMemory>,
    pool_size: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Bytes of each registered consumer, by its id.
    consumers: HashMap<usize, usize>,
}

impl LockedFairPool {
    /// A pool of `pool_size` bytes over `memory`.
    pub fn new(memory: Arc<dyn TaskMemory>, pool_size: usize) -> Self {
        Self {
            memory,
            pool_size,
            state: Mutex::default(),
        }
    }
}

impl MemoryPool for LockedFairPool {
    fn name(&self) -> &str {
        "locked_fair"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.state.lock().consumers.insert(consumer.id(), 0);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.state.lock().consumers.remove(&consumer.id());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.try_grow(reservation, additional)
            .unwrap_or_else(|error| panic!("{error}"));
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if shrink == 0 {
            return;
        }
        let mut state = self.state.lock();
        self.memory
            .release(shrink)
            .unwrap_or_else(|error| panic!("{error}"));
        state.used -= shrink;
        *state
            .consumers
            .entry(reservation.consumer().id())
            .or_default() -= shrink;
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if additional == 0 {
            return Ok(());
        }
        let mut state = self.state.lock();
        let share = self.pool_size / state.consumers.len().max(1);
        let id = reservation.consumer().id();
        let held = state.consumers.get(&id).copied().unwrap_or(0);
        if held + additional > share {
            return Err(resources_datafusion_err!(
                "over the fair share of {share} bytes"
            ));
        }
        if state.used + additional > self.pool_size {
            return Err(resources_datafusion_err!(
                "over the limit of {} bytes",
                self.pool_size
            ));
        }
        let granted = self.memory.acquire(additional)?;
        if granted < additional {
            if granted > 0 {
                self.memory.release(granted)?;
            }
            return Err(resources_datafusion_err!(
                "Spark's short grant of {granted} bytes"
            ));
        }
        state.used += additional;
        *state.consumers.entry(id).or_default() += additional;
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.state.lock().used
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.pool_size)
    }
}

impl Display for LockedFairPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(pool_size: {})", self.name(), self.pool_size)
    }
}
