//! How rows are kept in memory.

/// How a [`Repartitioner`](crate::Repartitioner) keeps rows that are dealt out singly, by hash or
/// by range, until they are written. What it writes is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Input batches are kept as they came, and each partition has an index vector: a pair of two
    /// `u32`, batch and row, for each of its rows. Charged are the distinct allocations behind the
    /// input batches and the capacity of the index vectors, which at least doubles when it grows.
    /// Writing gathers rows one by one from all over memory.
    #[default]
    Indexed,
    /// The rows of each batch are ordered by partition as it arrives, while it is in the cache, and
    /// each partition has one 12-byte run for each batch with rows of it. Charged are the distinct
    /// allocations behind the ordered batches, which are as large as their rows, and the capacity
    /// of the vectors of runs. Writing copies slices.
    Reordered,
}
