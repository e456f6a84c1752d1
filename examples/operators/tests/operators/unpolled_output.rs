//! A `RepartitionExec` buffers what it has for an output that nobody polls, as long as another
//! output is hungry. An error from the pool names neither the operator's output nor who is at
//! fault; the rows of a snapshot do.

use crate::support::{column, context, in_memory};
use arrow::array::{Int64Array, RecordBatch};
use datafusion_common::Result;
use datafusion_counting_pool::CountingPool;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
use datafusion_physical_expr::Partitioning;
use datafusion_physical_plan::repartition::RepartitionExec;
use datafusion_physical_plan::{ExecutionPlan, execute_stream_partitioned};
use futures::TryStreamExt;
use futures::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const OUTPUTS: usize = 16;
const BATCH_ROWS: usize = 100;

/// 64 batches in one partition.
fn input() -> Arc<dyn ExecutionPlan> {
    let batches: Vec<_> = (0..64)
        .map(|batch| {
            let keys = (0..BATCH_ROWS).map(|row| (batch * BATCH_ROWS + row) as i64);
            let keys = Arc::new(Int64Array::from_iter_values(keys));
            RecordBatch::try_from_iter([("key", keys as _)]).unwrap()
        })
        .collect();
    let schema = batches[0].schema();
    in_memory(&[batches], schema)
}

fn name(output: usize) -> String {
    format!("RepartitionExec[{output}]")
}

/// Drains all outputs but `unpolled`, and looks who holds memory then, and how much.
async fn holders(partitioning: Partitioning, unpolled: &[usize]) -> Result<()> {
    let pool = Arc::new(CountingPool::new(Arc::new(UnboundedMemoryPool::default())));
    let config = SessionConfig::new().with_batch_size(BATCH_ROWS);
    let plan = Arc::new(RepartitionExec::try_new(input(), partitioning)?);
    let streams = execute_stream_partitioned(plan, context(config, pool.clone()))?;
    let (waiting, polled): (Vec<_>, Vec<_>) = streams
        .into_iter()
        .enumerate()
        .partition(|(output, _)| unpolled.contains(output));
    try_join_all(
        polled
            .into_iter()
            .map(|(_, stream)| stream.try_collect::<Vec<_>>()),
    )
    .await?;

    let counts = pool.snapshot();
    let raw: BTreeMap<String, u64> = counts
        .consumers
        .iter()
        .filter(|row| row.figures.reserved_bytes > 0)
        .map(|row| (row.name.to_string(), row.figures.reserved_bytes))
        .collect();
    let names: Vec<_> = unpolled.iter().map(|output| name(*output)).collect();
    assert!(raw.keys().eq(&BTreeSet::from_iter(names)), "{counts}");
    let operator = counts.operator("RepartitionExec");
    assert_eq!(operator.registrations, OUTPUTS as u64);
    assert_eq!(operator.reserved_bytes, raw.values().sum::<u64>());
    assert_eq!(operator.reserved_bytes, counts.total.reserved_bytes);

    let mut buffered = BTreeMap::new();
    for (output, stream) in waiting {
        let batches: Vec<_> = stream.try_collect().await?;
        let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        buffered.insert(name(output), bytes as u64);
    }
    assert_eq!(raw, buffered, "unpolled outputs {unpolled:?}");

    // Whoever was polled had to ask as well.
    for output in 0..OUTPUTS {
        assert!(pool.snapshot().consumer(&name(output)).acquires.calls > 0);
    }
    pool.snapshot().assert_everything_released();
    Ok(())
}

#[tokio::test]
async fn raw_rows_show_which_output_holds_the_memory() -> Result<()> {
    let key = column("key", &input().schema());
    for unpolled in (0..OUTPUTS).map(|output| vec![output]).chain([
        vec![0, 15],
        vec![3, 7, 8],
        (1..OUTPUTS).collect(),
    ]) {
        holders(Partitioning::RoundRobinBatch(OUTPUTS), &unpolled).await?;
        holders(Partitioning::Hash(vec![key.clone()], OUTPUTS), &unpolled).await?;
    }
    Ok(())
}

/// Round robin gives each output 4 of the 64 batches of 100 eight-byte values.
#[tokio::test]
async fn what_waits_is_what_was_sent() -> Result<()> {
    let batch_bytes = BATCH_ROWS * 8 + size_of::<Int64Array>();
    let pool = Arc::new(CountingPool::new(Arc::new(GreedyMemoryPool::new(1 << 20))));
    let config = SessionConfig::new().with_batch_size(BATCH_ROWS);
    let partitioning = Partitioning::RoundRobinBatch(OUTPUTS);
    let plan = Arc::new(RepartitionExec::try_new(input(), partitioning)?);
    let mut streams = execute_stream_partitioned(plan, context(config, pool.clone()))?;
    let waiting = streams.remove(5);
    try_join_all(
        streams
            .into_iter()
            .map(|stream| stream.try_collect::<Vec<_>>()),
    )
    .await?;

    let counts = pool.snapshot();
    let row = counts.consumer("RepartitionExec[5]");
    assert_eq!(row.acquires.calls, 4);
    assert_eq!(row.sizes.calls_of(batch_bytes), 4);
    assert_eq!(row.reserved_bytes, 4 * batch_bytes as u64);
    assert_eq!(counts.operator("RepartitionExec").acquires.calls, 64);
    counts.assert_nothing_denied();
    counts.assert_every_consumer_spillable();
    drop(waiting);
    Ok(())
}
