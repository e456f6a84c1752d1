//! The least that could count the same.

use datafusion_common::Result;
use datafusion_execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What [`FloorPool`] does in each call, to be printed beside its figures.
pub(crate) const OPERATIONS: &str = "\
The floor makes these operations and no others, all relaxed, on counters found in advance:
  try_grow: 2 clock reads; fetch_add to the consumer's reserved bytes, granted calls, granted
            bytes, time and the count of the request's size, to the pool's reserved bytes and
            to a bucket of its histogram; a load of the size, of both peaks and of the maximum
  shrink:   2 clock reads; fetch_sub from both reserved bytes; fetch_add to released calls,
            released bytes, time and a bucket; a load of the maximum";

#[derive(Debug)]
pub(crate) struct FloorPool {
    inner: Arc<dyn MemoryPool>,
    clock: quanta::Clock,
    consumer: Consumer,
    pool: Totals,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Consumer {
    reserved: AtomicU64,
    peak: AtomicU64,
    granted: AtomicU64,
    granted_bytes: AtomicU64,
    released: AtomicU64,
    released_bytes: AtomicU64,
    acquire_nanos: AtomicU64,
    acquire_max: AtomicU64,
    release_nanos: AtomicU64,
    release_max: AtomicU64,
    size: AtomicU64,
    size_calls: AtomicU64,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Totals {
    reserved: AtomicU64,
    peak: AtomicU64,
    acquire_buckets: Vec<AtomicU64>,
    release_buckets: Vec<AtomicU64>,
}

impl FloorPool {
    pub(crate) fn new(inner: Arc<dyn MemoryPool>) -> Self {
        let buckets = || (0..512).map(|_| AtomicU64::new(0)).collect();
        Self {
            inner,
            clock: quanta::Clock::new(),
            consumer: Consumer::default(),
            pool: Totals {
                reserved: AtomicU64::new(0),
                peak: AtomicU64::new(0),
                acquire_buckets: buckets(),
                release_buckets: buckets(),
            },
        }
    }
}

fn raise(counter: &AtomicU64, peak: &AtomicU64, by: u64) {
    let now = counter.fetch_add(by, Relaxed) + by;
    if now > peak.load(Relaxed) {
        peak.store(now, Relaxed);
    }
}

fn time(total: &AtomicU64, max: &AtomicU64, buckets: &[AtomicU64], nanos: u64) {
    total.fetch_add(nanos, Relaxed);
    if nanos > max.load(Relaxed) {
        max.store(nanos, Relaxed);
    }
    // As many steps as any logarithmic bucket needs.
    let octave = (nanos | 8).ilog2();
    let bucket = (octave as usize) * 8 + (nanos >> (octave - 3)) as usize % 8;
    buckets[bucket].fetch_add(1, Relaxed);
}

impl MemoryPool for FloorPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let (consumer, pool, bytes) = (&self.consumer, &self.pool, shrink as u64);
        consumer.reserved.fetch_sub(bytes, Relaxed);
        pool.reserved.fetch_sub(bytes, Relaxed);
        let start = self.clock.raw();
        self.inner.shrink(reservation, shrink);
        let nanos = self.clock.delta_as_nanos(start, self.clock.raw());
        consumer.released.fetch_add(1, Relaxed);
        consumer.released_bytes.fetch_add(bytes, Relaxed);
        time(
            &consumer.release_nanos,
            &consumer.release_max,
            &pool.release_buckets,
            nanos,
        );
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (consumer, pool, bytes) = (&self.consumer, &self.pool, additional as u64);
        let start = self.clock.raw();
        self.inner.try_grow(reservation, additional)?;
        let nanos = self.clock.delta_as_nanos(start, self.clock.raw());
        if consumer.size.load(Relaxed) != bytes {
            consumer.size.store(bytes, Relaxed);
        }
        consumer.size_calls.fetch_add(1, Relaxed);
        consumer.granted.fetch_add(1, Relaxed);
        consumer.granted_bytes.fetch_add(bytes, Relaxed);
        raise(&consumer.reserved, &consumer.peak, bytes);
        raise(&pool.reserved, &pool.peak, bytes);
        time(
            &consumer.acquire_nanos,
            &consumer.acquire_max,
            &pool.acquire_buckets,
            nanos,
        );
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

impl Display for FloorPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner, f)
    }
}
