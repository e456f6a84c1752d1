//! A shuffle in a real plan: takes the stream of any DataFusion plan, writes it to a file
//! partition by partition, and reads the partitions back as streams.
//!
//! ```sh
//! cargo run --package counting-pool-operators --example shuffle_stream
//! ```

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion_common::{DataFusionError, Result};
use datafusion_counting_pool::{CountingPool, PartitionBy, Repartitioner, Shuffle};
use datafusion_execution::memory_pool::GreedyMemoryPool;
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalSortExpr;
use datafusion_physical_expr::expressions::col;
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion_physical_plan::test::TestMemoryExec;
use datafusion_physical_plan::{ExecutionPlan, common};
use futures::TryStreamExt;
use std::path::PathBuf;
use std::sync::Arc;

const PARTITIONS: usize = 4;

/// Writes what `input`, the stream of input partition `partition`, yields.
async fn write(
    mut input: SendableRecordBatchStream,
    partition: usize,
    by: PartitionBy,
    runtime: &Arc<RuntimeEnv>,
    path: PathBuf,
) -> Result<Shuffle> {
    let mut repartitioner = Repartitioner::builder(input.schema(), by).build(partition, runtime)?;
    // Dropped before the end, as when the query is cancelled, it leaves nothing behind.
    while let Some(batch) = input.try_next().await? {
        repartitioner.insert_batch(batch)?;
    }
    // Most of the work is done here, and none of it can be awaited.
    tokio::task::spawn_blocking(move || repartitioner.finish(path))
        .await
        .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

/// The batches of one output partition. They are read ahead by two, on a thread that may block.
fn read(shuffle: &Shuffle, partition: usize) -> Result<SendableRecordBatchStream> {
    let batches = shuffle.partition(partition)?;
    let mut stream = RecordBatchReceiverStreamBuilder::new(shuffle.schema(), 2);
    let sender = stream.tx();
    stream.spawn_blocking(move || {
        for batch in batches {
            if sender.blocking_send(batch).is_err() {
                // Nobody listens any more.
                break;
            }
        }
        Ok(())
    });
    Ok(stream.build())
}

/// The plan whose output is shuffled: a sort of 100 batches of 1,000 numbers.
fn plan() -> Result<Arc<dyn ExecutionPlan>> {
    let batches = (0..100)
        .map(|batch| {
            let keys = (0..1_000).map(|row| (batch * 1_000 + row) * 7_919 % 100_000);
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
            RecordBatch::try_from_iter([("key", keys)])
        })
        .collect::<Result<Vec<_>, _>>()?;
    let schema = batches[0].schema();
    let by_key = [PhysicalSortExpr::new_default(col("key", &schema)?)];
    let input = TestMemoryExec::try_new_exec(&[batches], schema, None)?;
    Ok(Arc::new(SortExec::new(by_key.into(), input)))
}

/// The batches of each output partition.
async fn shuffle(runtime: &Arc<RuntimeEnv>) -> Result<Vec<Vec<RecordBatch>>> {
    let context = Arc::new(TaskContext::default().with_runtime(Arc::clone(runtime)));
    let input = plan()?.execute(0, context)?;
    let by = PartitionBy::hash_columns(["key"], PARTITIONS);
    let folder = tempfile::tempdir()?;
    let shuffle = write(input, 0, by, runtime, folder.path().join("shuffle_0.data")).await?;

    let mut partitions = vec![];
    for partition in 0..shuffle.partitions() {
        // Whatever takes a stream can take this one: another plan, a socket, ...
        partitions.push(common::collect(read(&shuffle, partition)?).await?);
    }
    Ok(partitions)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let pool = Arc::new(CountingPool::new(Arc::new(GreedyMemoryPool::new(64 << 20))));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool.clone())
        .build_arc()?;
    for (partition, batches) in shuffle(&runtime).await?.iter().enumerate() {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        println!(
            "partition {partition}: {rows} rows in {} batches",
            batches.len()
        );
    }
    println!("\n{}", pool.snapshot());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    fn keys(batches: &[RecordBatch]) -> Vec<i64> {
        batches
            .iter()
            .flat_map(|batch| {
                batch
                    .column(0)
                    .as_primitive::<Int64Type>()
                    .values()
                    .to_vec()
            })
            .collect()
    }

    #[tokio::test]
    async fn every_row_comes_back_once_and_in_order() -> Result<()> {
        let partitions = shuffle(&Arc::new(RuntimeEnv::default())).await?;
        assert_eq!(partitions.len(), PARTITIONS);
        let mut all = vec![];
        for batches in &partitions {
            let keys = keys(batches);
            assert!(!keys.is_empty() && keys.is_sorted());
            all.extend(keys);
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(0..100_000));
        Ok(())
    }

    #[tokio::test]
    async fn a_stream_that_is_dropped_stops_the_reading() -> Result<()> {
        let runtime = Arc::new(RuntimeEnv::default());
        let context = Arc::new(TaskContext::default().with_runtime(Arc::clone(&runtime)));
        let input = plan()?.execute(0, context)?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("shuffle.data");
        let shuffle = write(input, 0, PartitionBy::single(), &runtime, path).await?;
        let mut stream = read(&shuffle, 0)?;
        assert!(stream.try_next().await?.is_some());
        drop(stream);
        // The runtime of this test waits for its blocking threads.
        Ok(())
    }
}
