//! What a repartitioner has done.

use std::time::Duration;

/// What a [`Repartitioner`](crate::Repartitioner) has done so far. Every figure only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepartitionMetrics {
    /// Batches inserted, empty ones left out. One that is cut at the batch size counts once.
    pub input_batches: u64,
    /// Rows inserted.
    pub input_rows: u64,
    /// Bytes charged for buffering: each allocation behind the batches once between two spills, and
    /// the growth of the index vectors.
    pub buffered_bytes: u64,
    /// Spills that succeeded, each into a file of its own.
    pub spill_count: u64,
    /// Bytes that were in memory when they were spilled, those the pool had not granted included,
    /// slack not.
    pub spilled_bytes: u64,
    /// Bytes written to spill files.
    pub spilled_disk_bytes: u64,
    /// Bytes of the data file.
    pub output_bytes: u64,
    /// Pool calls that asked for memory, denied and failed ones included.
    pub pool_acquisitions: u64,
    /// Time spent in telling each row's partition, and in taking the rows in.
    pub partition_time: Duration,
    /// Time spent in putting the rows of a partition together.
    pub interleave_time: Duration,
    /// Time spent in encoding, compressing and writing, to spill files and to the data file.
    pub write_time: Duration,
}
