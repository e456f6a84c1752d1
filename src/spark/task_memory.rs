//! The seam between the pools and Spark.

use std::fmt::Debug;

use datafusion_common::Result;

/// The execution memory of one Spark task attempt, as its `TaskMemoryManager` gives it out.
///
/// [`FairUnifiedPool`] and [`GreedyUnifiedPool`] call it with no lock of theirs held, from any
/// thread, and never with zero bytes or with more than [`isize::MAX`], so that a request fits into
/// Java's `long`.
///
/// An implementation must not take the monitor of the `TaskMemoryManager` outside of its
/// `acquireExecutionMemory`: that monitor is held for as long as an acquire of the task is
/// parked, so that logging the task's memory usage on a short grant, say, would wait for it.
///
/// [`FairUnifiedPool`]: super::FairUnifiedPool
/// [`GreedyUnifiedPool`]: super::GreedyUnifiedPool
pub trait TaskMemory: Debug + Send + Sync {
    /// Asks Spark for `bytes` and returns how many of them it granted, which may be fewer, and
    /// none at all.
    ///
    /// May park the calling thread with no time limit: Spark keeps a task waiting until it can
    /// have half of an even share of the memory.
    ///
    /// # Errors
    ///
    /// Where Spark failed, by whatever exception, in which case nothing was granted. A short
    /// grant is no error, and neither is the exception that [`retry_missing_task_entry`] is for.
    ///
    /// [`retry_missing_task_entry`]: super::retry_missing_task_entry
    fn acquire(&self, bytes: usize) -> Result<usize>;

    /// Gives `bytes` that were granted before back to Spark. It waits for no acquire.
    ///
    /// # Errors
    ///
    /// Where Spark failed. The pools then take it that Spark still holds the bytes.
    fn release(&self, bytes: usize) -> Result<()>;
}
