//! Whether two outputs have the same rows in each partition, in whatever order.

use crate::contenders::Output;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion_common::{Result, exec_err};

/// Compares, and fails where the rows of a partition differ.
pub(crate) fn check_same(
    output: &Output,
    expected: &Output,
    schema: &SchemaRef,
    partitions: usize,
    what: &str,
) -> Result<()> {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| SortField::new(field.data_type().clone()));
    let converter = RowConverter::new(fields.collect())?;
    for partition in 0..partitions {
        let found = sorted_rows(&converter, &output.partition(partition)?)?;
        let expected = sorted_rows(&converter, &expected.partition(partition)?)?;
        if found != expected {
            return exec_err!(
                "{what} wrote other rows to partition {partition}: {} of them, not {}, or other values",
                found.len(),
                expected.len()
            );
        }
    }
    Ok(())
}

fn sorted_rows(converter: &RowConverter, batches: &[RecordBatch]) -> Result<Vec<OwnedRow>> {
    let mut rows = vec![];
    for batch in batches {
        let converted = converter.convert_columns(batch.columns())?;
        rows.extend(converted.iter().map(|row| row.owned()));
    }
    rows.sort_unstable();
    Ok(rows)
}
