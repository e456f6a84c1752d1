//! What most people write first: the `metrics` macros in every call.

use datafusion_common::Result;
use datafusion_execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use metrics::{counter, gauge};
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Instant;

/// Counts, bytes, reserved bytes and time, by consumer: less than [`CountingPool`] has.
///
/// [`CountingPool`]: datafusion_counting_pool::CountingPool
#[derive(Debug)]
pub(crate) struct MacrosPool {
    inner: Arc<dyn MemoryPool>,
}

impl MacrosPool {
    pub(crate) fn new(inner: Arc<dyn MemoryPool>) -> Self {
        Self { inner }
    }
}

fn name(reservation: &MemoryReservation) -> String {
    reservation.consumer().name().to_string()
}

impl MemoryPool for MacrosPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let start = Instant::now();
        self.inner.shrink(reservation, shrink);
        let nanos = start.elapsed().as_nanos() as u64;
        counter!("releases_total", "consumer" => name(reservation)).increment(1);
        counter!("released_bytes_total", "consumer" => name(reservation)).increment(shrink as u64);
        counter!("release_nanoseconds_total", "consumer" => name(reservation)).increment(nanos);
        gauge!("reserved_bytes", "consumer" => name(reservation)).decrement(shrink as f64);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let start = Instant::now();
        self.inner.try_grow(reservation, additional)?;
        let nanos = start.elapsed().as_nanos() as u64;
        counter!("acquires_total", "consumer" => name(reservation)).increment(1);
        counter!("acquired_bytes_total", "consumer" => name(reservation))
            .increment(additional as u64);
        counter!("acquire_nanoseconds_total", "consumer" => name(reservation)).increment(nanos);
        gauge!("reserved_bytes", "consumer" => name(reservation)).increment(additional as f64);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

impl Display for MacrosPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner, f)
    }
}
