//! The pools, as DataFusion sees them.

use std::fmt::{Debug, Display, Formatter};
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion_common::{Result, resources_datafusion_err};
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};
use log::warn;

use super::TaskMemory;
use super::ledger::Policy;
use super::unified::{GrowError, Unified};

/// A pool over the execution memory of one Spark task attempt: a [`FairUnifiedPool`] or a
/// [`GreedyUnifiedPool`].
///
/// Spark is called with no lock held, so that an acquire that Spark parks delays no release and
/// no [`reserved`](MemoryPool::reserved). An acquire enters the pool's books before it reaches
/// Spark, and a release leaves them after Spark has it: the limits cover what Spark is being
/// asked for, and what it has not got back yet.
///
/// A `grow` is never refused. What Spark does not grant is [overcommitted](Self::overcommitted):
/// the next releases repay it, and each `try_grow` asks Spark for it besides its own bytes.
///
/// # Panics
///
/// `shrink` panics if the consumer holds fewer bytes, and `grow` if the sum of all bytes
/// reserved would overflow; nothing has changed then. A panic of the [`TaskMemory`] goes on
/// unwinding: bytes that were being acquired are off the books, bytes that were being released
/// stay on them.
pub struct UnifiedPool<P> {
    unified: Unified,
    policy: Policy,
    kind: PhantomData<fn() -> P>,
}

/// Marks a [`FairUnifiedPool`].
#[derive(Debug)]
pub enum Fair {}

/// Marks a [`GreedyUnifiedPool`].
#[derive(Debug)]
pub enum Greedy {}

/// A [`UnifiedPool`] that gives every registered consumer an even share of a size of its own.
///
/// A `try_grow` is refused with `ResourcesExhausted` where
/// - the consumer would have more than the pool's size divided by the number of registered
///   consumers (all reservations of one consumer have one share between them),
/// - all consumers together would have more than the pool's size, or
/// - Spark grants less than was asked for.
///
/// Registering a consumer makes every share smaller, but takes nothing from those who have more.
///
/// The limit is [`MemoryLimit::Finite`], the pool's size. Displayed as
/// `fair_unified(used: 1.0 MB, pool_size: 64.0 MB)`.
pub type FairUnifiedPool = UnifiedPool<Fair>;

/// A [`UnifiedPool`] that gives whoever asks first whatever Spark grants.
///
/// A `try_grow` is refused with `ResourcesExhausted` where Spark grants less than was asked for.
///
/// The limit is [`MemoryLimit::Unknown`], since that of Spark is finite, but moves with the
/// number of tasks. Displayed as `greedy_unified(used: 1.0 MB)`.
pub type GreedyUnifiedPool = UnifiedPool<Greedy>;

impl FairUnifiedPool {
    /// A pool of `pool_size` bytes over `memory`. Spark is not called until somebody grows.
    pub fn new(memory: Arc<dyn TaskMemory>, pool_size: usize) -> Self {
        Self::with_policy(memory, Policy::Fair { pool_size })
    }
}

impl GreedyUnifiedPool {
    /// A pool over `memory`. Spark is not called until somebody grows.
    pub fn new(memory: Arc<dyn TaskMemory>) -> Self {
        Self::with_policy(memory, Policy::Greedy)
    }
}

impl<P> UnifiedPool<P> {
    fn with_policy(memory: Arc<dyn TaskMemory>, policy: Policy) -> Self {
        Self {
            unified: Unified::new(memory, policy),
            policy,
            kind: PhantomData,
        }
    }

    /// Bytes that consumers have by a `grow` and that Spark has not granted.
    pub fn overcommitted(&self) -> usize {
        self.unified.with(|ledger| ledger.overcommitted())
    }

    fn used(&self) -> usize {
        self.unified.with(|ledger| ledger.charged())
    }

    fn kind(&self) -> &'static str {
        match self.policy {
            Policy::Fair { .. } => "fair_unified",
            Policy::Greedy => "greedy_unified",
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<P: 'static> MemoryPool for UnifiedPool<P> {
    fn name(&self) -> &str {
        self.kind()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.unified.with(|ledger| ledger.register(consumer.id()));
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.unified.with(|ledger| ledger.unregister(consumer.id()));
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if additional > 0 {
            self.unified.grow(reservation.consumer().id(), additional);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let consumer = reservation.consumer();
        if shrink > 0
            && let Err(held) = self.unified.shrink(consumer.id(), shrink)
        {
            panic!(
                "{}: {} cannot release {shrink} bytes, as it holds {held}",
                self.kind(),
                consumer.name(),
            );
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if additional == 0 {
            return Ok(());
        }
        let consumer = reservation.consumer();
        self.unified
            .try_grow(consumer.id(), additional)
            .map_err(|error| match error {
                GrowError::Refused(refusal) => resources_datafusion_err!(
                    "{}",
                    refusal.message(self.kind(), consumer.name(), additional)
                ),
                GrowError::Failed(error) => error,
            })
    }

    /// Bytes of all consumers, with those that Spark is being asked for and those that it is
    /// getting back. Waits for no call into Spark.
    fn reserved(&self) -> usize {
        self.used()
    }

    fn memory_limit(&self) -> MemoryLimit {
        match self.policy {
            Policy::Fair { pool_size } => MemoryLimit::Finite(pool_size),
            Policy::Greedy => MemoryLimit::Unknown,
        }
    }
}

impl<P> Display for UnifiedPool<P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let used = human_readable_size(self.used());
        write!(f, "{}(used: {used}", self.kind())?;
        if let Policy::Fair { pool_size } = self.policy {
            write!(f, ", pool_size: {}", human_readable_size(pool_size))?;
        }
        f.write_str(")")
    }
}

impl<P> Debug for UnifiedPool<P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.unified.with(|ledger| {
            f.debug_struct(self.kind())
                .field("policy", &self.policy)
                .field("consumers", &ledger.consumers())
                .field("used", &ledger.charged())
                .field("overcommitted", &ledger.overcommitted())
                .finish_non_exhaustive()
        })
    }
}

impl<P> Drop for UnifiedPool<P> {
    fn drop(&mut self) {
        let used = self.used();
        if used > 0 {
            warn!(
                "{} is dropped with {used} bytes reserved, which Spark frees with the task",
                self.kind()
            );
        }
    }
}
