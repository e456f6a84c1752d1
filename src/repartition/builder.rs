//! Options of a repartitioner.

use arrow::datatypes::SchemaRef;
use arrow_ipc::CompressionType;

use crate::repartition::layout::Layout;
use crate::repartition::partition_by::PartitionBy;
use crate::stepped_reservation::DEFAULT_STEP;

/// Options of a [`Repartitioner`](crate::Repartitioner), which [`build`](Self::build) makes.
#[derive(Clone, Debug)]
pub struct RepartitionerBuilder {
    pub(super) schema: SchemaRef,
    pub(super) by: PartitionBy,
    pub(super) step: usize,
    pub(super) max_buffer_bytes: Option<usize>,
    pub(super) batch_size: usize,
    pub(super) compression: Option<CompressionType>,
    pub(super) layout: Layout,
}

impl RepartitionerBuilder {
    pub(super) fn new(schema: SchemaRef, by: PartitionBy) -> Self {
        Self {
            schema,
            by,
            step: DEFAULT_STEP,
            max_buffer_bytes: None,
            batch_size: 8192,
            compression: None,
            layout: Layout::default(),
        }
    }

    /// The step in which the memory reservation grows, in bytes: [`DEFAULT_STEP`] unless set. 0
    /// means exact growth, one pool call for each batch.
    pub fn with_reservation_step(mut self, step: usize) -> Self {
        self.step = step;
        self
    }

    /// Spills as soon as more than this many bytes are buffered, whatever the pool would grant; a
    /// batch may overshoot it by its own size. With `None`, the default, only the pool's denials
    /// make it spill.
    pub fn with_max_buffer_bytes(mut self, limit: Option<usize>) -> Self {
        self.max_buffer_bytes = limit;
        self
    }

    /// The rows of an output batch, at most: 8,192 unless set. Larger input batches are taken in by
    /// slices of this size.
    pub fn with_batch_size(mut self, rows: usize) -> Self {
        self.batch_size = rows;
        self
    }

    /// How the buffers of the Arrow IPC messages are compressed: not at all unless set.
    pub fn with_compression(mut self, compression: Option<CompressionType>) -> Self {
        self.compression = compression;
        self
    }

    /// How rows are kept in memory. It decides what is charged for them, and how fast they are
    /// written.
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }
}
