//! A memory reservation that grows in steps, so that it asks the pool less often.

use std::cmp::Ordering;

use datafusion_common::{
    DataFusionError, Result, internal_datafusion_err, resources_datafusion_err,
};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};

use crate::exhausted::is_resources_exhausted;

/// The step of a new [`SteppedReservation`], in bytes: 1 MiB.
pub const DEFAULT_STEP: usize = 1 << 20;

/// No reservation holds more, in bytes: the bound of a single allocation in Rust.
const MAX_SIZE: usize = isize::MAX as usize;

/// Tracks the exact bytes its owner uses and keeps a [`MemoryReservation`] at or above that figure,
/// growing in steps: many small growths become few pool calls.
///
/// - [`size`](Self::size) is what the owner uses, exactly.
/// - [`reserved`](Self::reserved) is what the pool has granted.
/// - [`slack`](Self::slack) is what is reserved beyond the size: at most one step after a growth.
///
/// When the size outgrows the reservation, the pool is asked for the deficit or for one step,
/// whichever is more. Denied a step, it is asked again for the deficit alone, so that a growth
/// which fitted without stepping still fits. Only an error that is at its root
/// [`ResourcesExhausted`](datafusion_common::DataFusionError::ResourcesExhausted) counts as denied;
/// any other comes out as it is, with no second attempt.
///
/// There are two ways to grow. [`try_charge`](Self::try_charge) is for memory that exists already:
/// the size rises whatever the answer. [`try_grow`](Self::try_grow) asks before: on an error
/// nothing has changed. The other methods have the names and the meaning they have on
/// [`MemoryReservation`]. Dropping releases everything.
///
/// ```
/// use std::sync::Arc;
/// use datafusion_counting_pool::SteppedReservation;
/// use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
///
/// # fn main() -> datafusion_common::Result<()> {
/// let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
/// let mut memory = SteppedReservation::new(
///     MemoryConsumer::new("MyExec[0]").with_can_spill(true).register(&pool),
/// );
/// for _ in 0..100 {
///     memory.try_charge(10_000)?;
/// }
/// assert_eq!(memory.size(), 1_000_000);
/// assert_eq!(memory.reserved(), 1 << 20);
/// assert_eq!(memory.acquisitions(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SteppedReservation {
    reservation: MemoryReservation,
    size: usize,
    step: usize,
    limit: Option<usize>,
    acquisitions: u64,
}

impl SteppedReservation {
    /// Grows `reservation` in steps of [`DEFAULT_STEP`]. What it holds already counts as used.
    pub fn new(reservation: MemoryReservation) -> Self {
        Self {
            size: reservation.size(),
            reservation,
            step: DEFAULT_STEP,
            limit: None,
            acquisitions: 0,
        }
    }

    /// Sets the step, in bytes. 0 means exact growth: one pool call for each growth.
    pub fn with_step(mut self, step: usize) -> Self {
        self.step = step;
        self
    }

    /// Tells of a limit, in bytes, at which the owner means to stop growing. The step is then at
    /// most an eighth of it, so that the slack stays small beside the limit; under 8 bytes that is
    /// exact growth.
    ///
    /// The limit itself is the owner's to keep: compare it with [`size`](Self::size).
    pub fn with_limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }

    /// The bytes the owner uses.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The bytes the pool has granted.
    pub fn reserved(&self) -> usize {
        self.reservation.size()
    }

    /// The bytes granted but not used.
    pub fn slack(&self) -> usize {
        self.reserved().saturating_sub(self.size)
    }

    /// The bytes used but not granted: not 0 only after a [`try_charge`](Self::try_charge) that
    /// failed.
    pub fn unreserved(&self) -> usize {
        self.size.saturating_sub(self.reserved())
    }

    /// The step in force, in bytes: the one set, or an eighth of the limit where that is less.
    pub fn step(&self) -> usize {
        self.limit
            .map_or(self.step, |limit| self.step.min(limit / 8))
    }

    /// The pool calls made so far to acquire memory, denied and failed ones included.
    pub fn acquisitions(&self) -> u64 {
        self.acquisitions
    }

    /// The consumer on whose behalf memory is reserved.
    pub fn consumer(&self) -> &MemoryConsumer {
        self.reservation.consumer()
    }

    /// Adds `n` bytes that are in use already: the size rises whatever the answer, and on an error
    /// [`unreserved`](Self::unreserved) tells what was not granted. The next growth asks for that
    /// too.
    ///
    /// # Errors
    ///
    /// The pool's error. A size above `isize::MAX` is `ResourcesExhausted` without a pool call, and
    /// the size stays at `isize::MAX`.
    pub fn try_charge(&mut self, n: usize) -> Result<()> {
        let Some(size) = self.grown(n) else {
            let error = self.too_large(n);
            self.size = MAX_SIZE;
            return Err(error);
        };
        self.size = size;
        self.cover(size)
    }

    /// Grows by `n` bytes, or changes nothing.
    ///
    /// # Errors
    ///
    /// The pool's error. A size above `isize::MAX` is `ResourcesExhausted` without a pool call.
    pub fn try_grow(&mut self, n: usize) -> Result<()> {
        let size = self.grown(n).ok_or_else(|| self.too_large(n))?;
        self.cover(size)?;
        self.size = size;
        Ok(())
    }

    /// Grows by `n` bytes whatever the pool's limit. Only the deficit is forced upon the pool: the
    /// rest of a step is taken if it is to be had. The size saturates at `isize::MAX`.
    pub fn grow(&mut self, n: usize) {
        self.size = self.grown(n).unwrap_or(MAX_SIZE);
        let deficit = self.unreserved();
        if deficit == 0 {
            return;
        }
        let stepped = self.stepped(deficit);
        if stepped > deficit && self.ask(stepped).is_ok() {
            return;
        }
        self.acquisitions += 1;
        self.reservation.grow(deficit);
    }

    /// Gives `n` bytes back. The pool hears of it once the slack is more than a step, and half a
    /// step is kept then, so that neither shrinking nor growing again calls it at once.
    ///
    /// # Panics
    ///
    /// Where `n` is more than the size, as [`MemoryReservation::shrink`] does.
    pub fn shrink(&mut self, n: usize) {
        if let Err(error) = self.try_shrink(n) {
            panic!("{}", error.strip_backtrace());
        }
    }

    /// As [`shrink`](Self::shrink), and gives the new size.
    ///
    /// # Errors
    ///
    /// Where `n` is more than the size; nothing has changed then.
    pub fn try_shrink(&mut self, n: usize) -> Result<usize> {
        self.size = self.size.checked_sub(n).ok_or_else(|| {
            internal_datafusion_err!(
                "Cannot free {n} bytes out of the {} bytes in use",
                self.size
            )
        })?;
        let step = self.step();
        let slack = self.slack();
        if slack > step {
            self.reservation.shrink(slack - step / 2);
        }
        Ok(self.size)
    }

    /// Sets the size to `n` bytes, by [`grow`](Self::grow) or [`shrink`](Self::shrink).
    pub fn resize(&mut self, n: usize) {
        match n.cmp(&self.size) {
            Ordering::Greater => self.grow(n - self.size),
            Ordering::Less => self.shrink(self.size - n),
            Ordering::Equal => {}
        }
    }

    /// Sets the size to `n` bytes, by [`try_grow`](Self::try_grow) or [`shrink`](Self::shrink).
    ///
    /// # Errors
    ///
    /// As [`try_grow`](Self::try_grow); nothing has changed then.
    pub fn try_resize(&mut self, n: usize) -> Result<()> {
        match n.cmp(&self.size) {
            Ordering::Greater => self.try_grow(n - self.size),
            Ordering::Less => self.try_shrink(self.size - n).map(drop),
            Ordering::Equal => Ok(()),
        }
    }

    /// Gives everything back in one pool call, and tells the size there was: the slack, which
    /// nobody used, is not in it, so that the answer can be reported as freed or spilled.
    pub fn free(&mut self) -> usize {
        self.reservation.free();
        std::mem::take(&mut self.size)
    }

    /// An empty reservation of the same consumer, with the same step and limit.
    pub fn new_empty(&self) -> Self {
        self.sibling(0, self.reservation.new_empty())
    }

    /// Moves `n` bytes of the size to a reservation of its own, without a pool call. The slack
    /// stays here.
    ///
    /// # Panics
    ///
    /// Where `n` is more than the size, as [`MemoryReservation::split`] does.
    pub fn split(&mut self, n: usize) -> Self {
        let Some(rest) = self.size.checked_sub(n) else {
            panic!("Cannot split {n} bytes off the {} bytes in use", self.size);
        };
        let reserved = n.min(self.reserved());
        self.size = rest;
        self.sibling(n, self.reservation.split(reserved))
    }

    /// Moves everything, the slack included, to a reservation of its own, without a pool call.
    pub fn take(&mut self) -> Self {
        let reservation = self.reservation.take();
        let size = std::mem::take(&mut self.size);
        self.sibling(size, reservation)
    }

    fn sibling(&self, size: usize, reservation: MemoryReservation) -> Self {
        Self {
            reservation,
            size,
            step: self.step,
            limit: self.limit,
            acquisitions: 0,
        }
    }

    fn grown(&self, n: usize) -> Option<usize> {
        self.size.checked_add(n).filter(|size| *size <= MAX_SIZE)
    }

    fn too_large(&self, n: usize) -> DataFusionError {
        resources_datafusion_err!(
            "{} cannot grow by {n} bytes: with the {} bytes in use that is more than isize::MAX",
            self.consumer().name(),
            self.size
        )
    }

    /// What to ask for when `deficit` bytes are missing.
    fn stepped(&self, deficit: usize) -> usize {
        // Pools add without looking, and wrap or panic beyond this.
        self.step()
            .min(MAX_SIZE.saturating_sub(self.reserved()))
            .max(deficit)
    }

    /// Asks the pool until at least `size` bytes are reserved.
    fn cover(&mut self, size: usize) -> Result<()> {
        let deficit = size.saturating_sub(self.reserved());
        if deficit == 0 {
            return Ok(());
        }
        let stepped = self.stepped(deficit);
        match self.ask(stepped) {
            Err(denied) if stepped > deficit && is_resources_exhausted(&denied) => {
                self.ask(deficit)
            }
            answer => answer,
        }
    }

    fn ask(&mut self, bytes: usize) -> Result<()> {
        self.acquisitions += 1;
        self.reservation.try_grow(bytes)
    }
}
