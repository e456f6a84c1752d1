//! Puts rows of several buffered batches together into one output batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{concat, interleave};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::Result;

use crate::repartition::buffer::{RowIndex, Run, Selection};

/// The selected rows of `batches` as one batch that holds nothing but them.
pub(super) fn gather(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    selection: &Selection<'_>,
) -> Result<RecordBatch> {
    let (columns, rows) = match selection {
        Selection::Rows(rows) => (gather_rows(schema, batches, rows)?, rows.len()),
        Selection::Runs(runs) => (
            gather_runs(schema, batches, runs)?,
            runs.iter().map(|run| run.len as usize).sum(),
        ),
    };
    let columns = columns.into_iter().map(compact).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

fn gather_rows(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    rows: &[RowIndex],
) -> Result<Vec<ArrayRef>> {
    // Only the batches that are selected from: `interleave` looks at every array it is given, which with all
    // buffered batches would cost partitions times batches.
    let mut sources: Vec<u32> = vec![];
    let indices: Vec<(usize, usize)> = rows
        .iter()
        .map(|&(batch, row)| {
            if sources.last() != Some(&batch) {
                sources.push(batch);
            }
            (sources.len() - 1, row as usize)
        })
        .collect();
    (0..schema.fields().len())
        .map(|column| {
            let arrays: Vec<&dyn Array> = sources
                .iter()
                .map(|&batch| batches[batch as usize].column(column).as_ref())
                .collect();
            Ok(interleave(&arrays, &indices)?)
        })
        .collect()
}

fn gather_runs(schema: &SchemaRef, batches: &[RecordBatch], runs: &[Run]) -> Result<Vec<ArrayRef>> {
    (0..schema.fields().len())
        .map(|column| {
            let slices: Vec<ArrayRef> = runs
                .iter()
                .map(|run| {
                    let array = batches[run.batch as usize].column(column);
                    array.slice(run.start as usize, run.len as usize)
                })
                .collect();
            let slices: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
            Ok(concat(&slices)?)
        })
        .collect()
}

/// Leaves behind what the array's rows do not use.
fn compact(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => array,
    }
}
