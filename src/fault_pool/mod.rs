//! A decorator that lets calls go wrong, for tests of the unhappy path.

mod fault;
mod parking;

pub use fault::{Fault, PoolCall, PoolMethod};
pub use parking::Parked;

use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking::Gate;
use std::fmt::{self, Debug, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A [`MemoryPool`] that denies, fails, panics or parks the calls of one's choice, and hands
/// all others on to another pool.
///
/// ```
/// # use datafusion_common::Result;
/// use datafusion_counting_pool::{FaultPool, is_resources_exhausted};
/// use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
/// use std::sync::Arc;
///
/// # fn main() -> Result<()> {
/// let inner = Arc::new(UnboundedMemoryPool::default());
/// let pool: Arc<dyn MemoryPool> = Arc::new(FaultPool::new(inner).deny_nth(2));
///
/// let reservation = MemoryConsumer::new("ExternalSorter[0]").register(&pool);
/// reservation.try_grow(64)?;
/// let error = reservation.try_grow(64).unwrap_err();
/// assert!(is_resources_exhausted(&error));
/// reservation.try_grow(64)?;
/// assert_eq!(pool.reserved(), 128);
/// # Ok(())
/// # }
/// ```
///
/// Calls are numbered from 1: acquires (`try_grow` and `grow`) together, and releases (`shrink`)
/// by themselves. Calls of zero bytes have no number and always go on to the wrapped pool, for
/// DataFusion makes many that mean nothing. Which call goes wrong depends on nothing but these
/// numbers, and in [`with_fault`](Self::with_fault) and [`park_when`](Self::park_when) on what
/// the closure makes of it; where several threads call, the order in which they arrive decides.
///
/// A call that goes wrong never reaches the wrapped pool. Rules are asked in the order they were
/// added, until one has a fault. A call may be parked first and then go wrong.
///
/// Like [`CountingPool`](crate::CountingPool) it has the wrapped pool's
/// [`name`](MemoryPool::name) and `Display`, and holds no lock while it calls.
///
/// Available with the feature `testing`.
pub struct FaultPool {
    inner: Arc<dyn MemoryPool>,
    rules: Vec<Rule>,
    acquires: AtomicU64,
    releases: AtomicU64,
}

type Rule = Box<dyn Fn(&PoolCall<'_>) -> Option<Fault> + Send + Sync>;

impl FaultPool {
    /// Hands every call on to `inner`, until told otherwise.
    pub fn new(inner: Arc<dyn MemoryPool>) -> Self {
        Self {
            inner,
            rules: Vec::new(),
            acquires: AtomicU64::new(0),
            releases: AtomicU64::new(0),
        }
    }

    /// Denies the `n`th acquire, with `ResourcesExhausted`. If it is a `grow`, which has no
    /// error to give, it goes on to the wrapped pool.
    #[must_use]
    pub fn deny_nth(self, n: u64) -> Self {
        self.with_fault(move |call| call.is_acquire(n).then_some(Fault::Deny))
    }

    /// Lets the `n`th acquire fail, with [`DataFusionError::Execution`]. If it is a `grow`, which
    /// has no error to give, it goes on to the wrapped pool.
    #[must_use]
    pub fn fail_nth(self, n: u64) -> Self {
        self.with_fault(move |call| {
            call.is_acquire(n)
                .then(|| Fault::Fail(DataFusionError::Execution(call.told("failed"))))
        })
    }

    /// Panics in the `n`th acquire.
    #[must_use]
    pub fn panic_nth(self, n: u64) -> Self {
        self.with_fault(move |call| call.is_acquire(n).then_some(Fault::Panic))
    }

    /// Panics in the `n`th release.
    #[must_use]
    pub fn panic_nth_release(self, n: u64) -> Self {
        self.with_fault(move |call| call.is_release(n).then_some(Fault::Panic))
    }

    /// Parks the `n`th acquire: the thread that makes it blocks until it is let go through the
    /// handle, and then goes on.
    pub fn park_nth(self, n: u64) -> (Self, Parked) {
        self.park_when(move |call| call.is_acquire(n))
    }

    /// Parks the `n`th release: the thread that makes it blocks until it is let go through the
    /// handle, and then goes on.
    pub fn park_nth_release(self, n: u64) -> (Self, Parked) {
        self.park_when(move |call| call.is_release(n))
    }

    /// Asks the closure about every acquire and release of more than zero bytes, just before the
    /// wrapped pool is called; `None` lets the call go on.
    ///
    /// ```
    /// use datafusion_counting_pool::{Fault, FaultPool};
    /// use datafusion_execution::memory_pool::UnboundedMemoryPool;
    /// use std::sync::Arc;
    ///
    /// // A pool in which nobody gets more than a kilobyte at once.
    /// let pool = FaultPool::new(Arc::new(UnboundedMemoryPool::default()))
    ///     .with_fault(|call| (call.bytes > 1024).then_some(Fault::Deny));
    /// ```
    #[must_use]
    pub fn with_fault(
        mut self,
        rule: impl Fn(&PoolCall<'_>) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        self.rules.push(Box::new(rule));
        self
    }

    /// Parks the calls that the closure chooses, until they are let go through the handle; those
    /// that come later are not parked any more. It is asked about every acquire and release of
    /// more than zero bytes.
    pub fn park_when(
        self,
        when: impl Fn(&PoolCall<'_>) -> bool + Send + Sync + 'static,
    ) -> (Self, Parked) {
        let gate = Arc::new(Gate::default());
        let parked = Parked::new(Arc::clone(&gate));
        let pool = self.with_fault(move |call| {
            if when(call) {
                gate.park();
            }
            None
        });
        (pool, parked)
    }

    /// The wrapped pool.
    pub fn inner(&self) -> &Arc<dyn MemoryPool> {
        &self.inner
    }

    /// How many acquires of more than zero bytes there were, those that went wrong included.
    pub fn acquires(&self) -> u64 {
        self.acquires.load(Relaxed)
    }

    /// How many releases of more than zero bytes there were, those that went wrong included.
    pub fn releases(&self) -> u64 {
        self.releases.load(Relaxed)
    }

    /// The error that the call ends in, `None` where the wrapped pool is to be called.
    ///
    /// # Panics
    /// Where a rule says so.
    fn fault(
        &self,
        method: PoolMethod,
        reservation: &MemoryReservation,
        bytes: usize,
    ) -> Option<DataFusionError> {
        if bytes == 0 {
            return None;
        }
        let calls = match method {
            PoolMethod::TryGrow | PoolMethod::Grow => &self.acquires,
            PoolMethod::Shrink => &self.releases,
        };
        let call = PoolCall {
            method,
            number: calls.fetch_add(1, Relaxed) + 1,
            reservation,
            bytes,
        };
        match self.rules.iter().find_map(|rule| rule(&call))? {
            Fault::Deny => Some(DataFusionError::ResourcesExhausted(call.told("denied"))),
            Fault::Fail(error) => Some(error),
            Fault::Panic => panic!("{}", call.told("panicked in")),
        }
    }
}

/// Forwards every method explicitly: a method that a later DataFusion gives a default body must
/// not pass the wrapped pool by.
#[deny(clippy::missing_trait_methods)]
impl MemoryPool for FaultPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        // An error has nowhere to go, here and in `shrink`: the call goes on.
        let _ = self.fault(PoolMethod::Grow, reservation, additional);
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let _ = self.fault(PoolMethod::Shrink, reservation, shrink);
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        match self.fault(PoolMethod::TryGrow, reservation, additional) {
            Some(error) => Err(error),
            None => self.inner.try_grow(reservation, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

/// The wrapped pool's: a text reads the same with and without the decorator.
impl Display for FaultPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner, f)
    }
}

impl Debug for FaultPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultPool")
            .field("inner", &self.inner)
            .field("rules", &self.rules.len())
            .field("acquires", &self.acquires())
            .field("releases", &self.releases())
            .finish()
    }
}
