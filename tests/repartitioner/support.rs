//! What the tests of the repartitioner share.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int32Type;
use datafusion_common::Result;
use datafusion_counting_pool::{PartitionBy, Repartitioner, RepartitionerBuilder, Shuffle};
use datafusion_execution::memory_pool::MemoryPool;
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use tempfile::TempDir;

use crate::recording_pool::RecordingPool;

pub(crate) fn runtime(pool: Arc<dyn MemoryPool>) -> Arc<RuntimeEnv> {
    RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .build_arc()
        .unwrap()
}

pub(crate) fn runtime_of(pool: &Arc<RecordingPool>) -> Arc<RuntimeEnv> {
    runtime(pool.as_pool())
}

/// A place for a data file, with nothing else in its folder.
pub(crate) struct Output {
    folder: TempDir,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("shuffle.data")
    }

    /// The names of the files that are there, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// One column, named `key`.
pub(crate) fn keys(values: impl Into<Vec<i32>>) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int32Array::from(values.into()));
    RecordBatch::try_from_iter([("key", array)]).unwrap()
}

/// The values of the column that [`keys`] makes.
pub(crate) fn values(batch: &RecordBatch) -> Vec<i32> {
    batch
        .column(0)
        .as_primitive::<Int32Type>()
        .values()
        .to_vec()
}

/// The rows of each partition, as one batch.
pub(crate) fn read(shuffle: &Shuffle) -> Result<Vec<RecordBatch>> {
    (0..shuffle.partitions())
        .map(|partition| {
            let batches = shuffle.partition(partition)?.collect::<Result<Vec<_>>>()?;
            Ok(concat_batches(&shuffle.schema(), &batches)?)
        })
        .collect()
}

/// Of batches of one `Int32` column, which are charged 4 bytes a row and nothing else.
pub(crate) fn single() -> RepartitionerBuilder {
    Repartitioner::builder(keys([]).schema(), PartitionBy::single())
}

pub(crate) fn by_key(partitions: usize) -> RepartitionerBuilder {
    Repartitioner::builder(
        keys([]).schema(),
        PartitionBy::hash_columns(["key"], partitions),
    )
}

/// Batches of 100 rows, which hold their number.
pub(crate) fn insert(writer: &mut Repartitioner, batches: Range<i32>) -> Result<()> {
    batches
        .into_iter()
        .try_for_each(|batch| writer.insert_batch(keys(vec![batch; 100])))
}

pub(crate) fn numbers(shuffle: &Shuffle) -> Result<Vec<i32>> {
    let rows = read(shuffle)?;
    Ok(rows.iter().flat_map(values).collect())
}

pub(crate) fn in_order(batches: Range<i32>) -> Vec<i32> {
    batches.flat_map(|batch| [batch; 100]).collect()
}
