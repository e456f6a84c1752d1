//! The decorator.

mod denials;
mod leak_check;
#[cfg(feature = "metrics")]
mod on_drop;
mod release;

pub use leak_check::LeakCheck;
pub use release::NotReleased;

use crate::consumers::Consumers;
use crate::counters::{AcquireBy, Block, Clock, Latency, Level, Timer};
use crate::exhausted::is_resources_exhausted;
use crate::snapshot::{Intervals, PoolReading, Snapshot};
use datafusion_common::Result;
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use denials::Denials;
use release::Releases;
use std::fmt::{self, Debug, Display, Formatter};
use std::sync::Arc;
use std::time::Instant;

/// A [`MemoryPool`] that hands every call on to another and records who asked, how often, for
/// what sizes, what came of it and how long it took.
///
/// ```
/// # use datafusion_common::Result;
/// use datafusion_counting_pool::CountingPool;
/// use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
/// use std::sync::Arc;
///
/// # fn main() -> Result<()> {
/// let counting = Arc::new(CountingPool::new(Arc::new(GreedyMemoryPool::new(1024))));
/// let pool: Arc<dyn MemoryPool> = counting.clone();
/// let reservation = MemoryConsumer::new("ExternalSorter[0]").register(&pool);
/// reservation.try_grow(400)?;
/// reservation.try_grow(700).unwrap_err();
/// drop(reservation);
///
/// let sorter = counting.snapshot().operator("ExternalSorter");
/// assert_eq!((sorter.acquires.calls, sorter.denied.calls), (2, 1));
/// assert_eq!((sorter.peak_bytes, sorter.reserved_bytes), (400, 0));
/// # Ok(())
/// # }
/// ```
///
/// Wrapping changes nothing but the type that the pool downcasts to: results, error texts,
/// [`name`](MemoryPool::name) and `Display` are the wrapped pool's, and a call that is granted
/// allocates nothing. No lock is held while the wrapped pool is called, so a call that it is slow
/// to answer delays no other, nor a [`snapshot`](Self::snapshot).
///
/// A pool that holds memory already can be wrapped: the figures count from then on. So can a
/// counting pool, see [`scope`](Self::scope).
pub struct CountingPool {
    inner: Arc<dyn MemoryPool>,
    pool_name: Arc<str>,
    timer: Timer,
    consumers: Consumers,
    level: Level,
    acquire_latency: Latency,
    release_latency: Latency,
    denials: Denials,
    releases: Releases,
    #[cfg(feature = "metrics")]
    on_drop: on_drop::OnDrop,
    made: Instant,
}

impl CountingPool {
    /// Counts and times the calls of `inner`.
    ///
    /// The first one in a process calibrates the processor's time stamp counter, which takes up to
    /// 200 ms.
    pub fn new(inner: Arc<dyn MemoryPool>) -> Self {
        Self::with_timer(inner, Timer::system())
    }

    fn with_timer(inner: Arc<dyn MemoryPool>, timer: Timer) -> Self {
        Self {
            inner,
            pool_name: "default".into(),
            timer,
            consumers: Consumers::default(),
            level: Level::default(),
            acquire_latency: Latency::default(),
            release_latency: Latency::default(),
            denials: Denials::default(),
            releases: Releases::default(),
            #[cfg(feature = "metrics")]
            on_drop: on_drop::OnDrop::default(),
            made: Instant::now(),
        }
    }

    /// Sets the name that snapshots and metrics show, `default` unless set.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.pool_name = name.into().into();
        self
    }

    /// Whether to measure how long calls take, on unless turned off. Turned off, no clock is
    /// read; everything else is the same.
    #[must_use]
    pub fn with_timing(mut self, timing: bool) -> Self {
        self.timer.turn(timing);
        self
    }

    /// Takes the time from this clock instead of the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.timer.set_clock(clock);
        self
    }

    /// The name that [`with_name`](Self::with_name) gave. ([`MemoryPool::name`] is the wrapped
    /// pool's.)
    pub fn pool_name(&self) -> &str {
        &self.pool_name
    }

    /// The wrapped pool.
    pub fn inner(&self) -> &Arc<dyn MemoryPool> {
        &self.inner
    }

    /// The counting pool that this pool is, `None` where it is another: for instance where
    /// `SET datafusion.runtime.memory_limit` has replaced the pool of a session and thereby
    /// dropped the decorator. Of nested ones it is the outermost.
    ///
    /// ```
    /// use datafusion_counting_pool::CountingPool;
    /// use datafusion_execution::memory_pool::UnboundedMemoryPool;
    /// use datafusion_execution::runtime_env::RuntimeEnvBuilder;
    /// use std::sync::Arc;
    ///
    /// # fn main() -> datafusion_common::Result<()> {
    /// let counting = CountingPool::new(Arc::new(UnboundedMemoryPool::default()));
    /// let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(counting)).build()?;
    ///
    /// let found = CountingPool::from_pool(&*runtime.memory_pool).expect("it was just installed");
    /// assert_eq!(found.snapshot().total.acquires.calls, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_pool(pool: &dyn MemoryPool) -> Option<&Self> {
        pool.downcast_ref()
    }

    /// A counting pool around this one, with figures of its own: for one query of a session, say.
    /// This one goes on counting everything. It takes its time from the same clock.
    ///
    /// Put the scope into the `RuntimeEnv` of the query; it can be dropped when the query is done.
    pub fn scope(self: &Arc<Self>, name: impl Into<String>) -> Arc<Self> {
        let inner = Arc::clone(self) as _;
        Arc::new(Self::with_timer(inner, self.timer.clone()).with_name(name))
    }

    /// The figures now. Waits for no pool call, and no call but `register`, `unregister` and one
    /// that was denied can wait for it, for as long as it takes to copy the figures.
    pub fn snapshot(&self) -> Snapshot {
        let pool = PoolReading {
            pool: Arc::clone(&self.pool_name),
            elapsed: self.made.elapsed(),
            level: self.level.read(),
            acquire_buckets: self.acquire_latency.read(),
            release_buckets: self.release_latency.read(),
            denials: self.denials.read(),
        };
        Snapshot::new(self.consumers.read(), pool)
    }

    /// Differences between successive moments: each [`next`](Iterator::next) gives what was
    /// counted since the one before, the first since this call. It never ends.
    pub fn intervals(&self) -> Intervals<impl Fn() -> Snapshot + '_> {
        Intervals::new(|| self.snapshot())
    }

    #[inline]
    fn acquire<R>(
        &self,
        how: AcquireBy,
        reservation: &MemoryReservation,
        bytes: usize,
        call: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let id = reservation.consumer().id();
        let block = self.consumers.block(id);
        if bytes == 0 {
            block.zero_byte_call();
            return call();
        }
        let bytes = bytes as u64;
        let on_panic = OnUnwind(|| block.panicked(how, bytes));
        let start = self.timer.read();
        let result = call();
        let nanos = self.timer.nanos_since(start);
        on_panic.disarm();

        match &result {
            Ok(_) => {
                // First the pool's, last in a release: it is never below the sum of the consumers'.
                self.level.raise(bytes);
                block.granted(how, bytes);
            }
            Err(error) if is_resources_exhausted(error) => self.denied(reservation, block, bytes),
            Err(_) => block.failed(bytes),
        }
        if self.timer.is_on() {
            block.acquire_took(nanos);
            self.acquire_latency.record(id, nanos);
        }
        result
    }

    #[cold]
    fn denied(&self, reservation: &MemoryReservation, block: &Block, bytes: u64) {
        block.denied(bytes);
        self.denials.record(
            reservation.consumer(),
            bytes,
            block.reserved(),
            &self.consumers,
        );
    }

    #[inline]
    fn release(&self, reservation: &MemoryReservation, bytes: usize, call: impl FnOnce()) {
        let id = reservation.consumer().id();
        let block = self.consumers.block(id);
        if bytes == 0 {
            block.zero_byte_call();
            return call();
        }
        let bytes = bytes as u64;
        // Down before the call and up after a grant: what is shown as reserved is never more
        // than what the wrapped pool holds.
        let not_held = block.releasing(bytes);
        self.level.lower(bytes - not_held);
        let on_panic = OnUnwind(|| {
            self.level.raise(bytes - not_held);
            block.release_panicked(bytes, not_held);
        });
        let start = self.timer.read();
        call();
        let nanos = self.timer.nanos_since(start);
        on_panic.disarm();

        if self.timer.is_on() {
            block.release_took(nanos);
            self.release_latency.record(id, nanos);
        }
        block.released(bytes, not_held);
        self.releases.one_done(&self.level);
    }
}

/// Forwards every method explicitly: a method that a later DataFusion gives a default body must
/// not pass the wrapped pool by.
#[deny(clippy::missing_trait_methods)]
impl MemoryPool for CountingPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        // First the wrapped pool: where it panics, nobody has registered.
        self.inner.register(consumer);
        self.consumers
            .register(consumer.id(), consumer.name(), consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        // Last the wrapped pool: where it panics, the consumer has gone all the same.
        let left_behind = self.consumers.unregister(consumer.id(), consumer.name());
        if left_behind > 0 {
            log::warn!(
                "Memory consumer {}#{} has gone and left {left_behind} bytes reserved in pool {:?}",
                consumer.name(),
                consumer.id(),
                self.pool_name,
            );
        }
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let call = || {
            self.inner.grow(reservation, additional);
            Ok(())
        };
        // It has no error that it could give.
        let _ = self.acquire(AcquireBy::Grow, reservation, additional, call);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.release(reservation, shrink, || {
            self.inner.shrink(reservation, shrink)
        });
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let call = || self.inner.try_grow(reservation, additional);
        self.acquire(AcquireBy::TryGrow, reservation, additional, call)
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

/// The wrapped pool's: a text reads the same with and without the decorator.
impl Display for CountingPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner, f)
    }
}

impl Debug for CountingPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountingPool")
            .field("pool_name", &self.pool_name)
            .field("inner", &self.inner)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl Drop for CountingPool {
    fn drop(&mut self) {
        #[cfg(feature = "metrics")]
        self.tell_that_it_goes();
        if log::log_enabled!(log::Level::Debug) {
            let snapshot = self.snapshot();
            if !snapshot.total.is_zero() {
                log::debug!("{}", snapshot.summary());
            }
        }
    }
}

/// Does what it was given when it is dropped in a panic.
struct OnUnwind<F: FnMut()>(F);

impl<F: FnMut()> OnUnwind<F> {
    #[inline]
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl<F: FnMut()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
