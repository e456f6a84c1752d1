//! The rows that are shuffled.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::{Result, exec_datafusion_err};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

/// Also the rows of a batch that is written.
pub(crate) const BATCH_ROWS: usize = 8192;

pub(crate) struct Lineitem {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) schema: SchemaRef,
    pub(crate) rows: usize,
    /// Of the batches, in memory.
    pub(crate) bytes: usize,
}

impl Lineitem {
    pub(crate) fn generate(scale: f64) -> Result<Self> {
        let generator = LineItemGenerator::new(scale, 1, 1);
        let batches: Vec<_> = LineItemArrow::new(generator)
            .with_batch_size(BATCH_ROWS)
            .collect();
        let first = batches
            .first()
            .ok_or_else(|| exec_datafusion_err!("lineitem is empty at scale {scale}"))?;
        Ok(Self {
            schema: first.schema(),
            rows: batches.iter().map(RecordBatch::num_rows).sum(),
            bytes: batches.iter().map(RecordBatch::get_array_memory_size).sum(),
            batches,
        })
    }
}
