//! A repartitioning and a sort in one pool that holds neither's input: both have to spill for
//! the query to end, and the rows by consumer show who held what.

use crate::support::{column, context, in_memory, read};
use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use datafusion_common::Result;
use datafusion_counting_pool::{
    CountingPool, Layout, PartitionBy, Repartitioner, Snapshot, is_resources_exhausted,
    operator_name,
};
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool};
use datafusion_physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr};
use datafusion_physical_plan::repartition::RepartitionExec;
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::{ExecutionPlan, execute_stream_partitioned};
use futures::TryStreamExt;
use std::sync::Arc;

const BATCHES: i64 = 64;
const BATCH_ROWS: i64 = 500;
const ROWS: i64 = BATCHES * BATCH_ROWS;
/// The input is more than three times as large.
const LIMIT: usize = 1 << 20;
const PARTITIONS: usize = 4;

/// Keys from 0 to `ROWS`, each once, in no order, with 100 bytes each.
fn input() -> Arc<dyn ExecutionPlan> {
    let batches: Vec<_> = (0..BATCHES)
        .map(|batch| {
            // 7,919 is prime and does not divide the number of rows.
            let rows = batch * BATCH_ROWS..(batch + 1) * BATCH_ROWS;
            let keys = Int64Array::from_iter_values(rows.map(|row| row * 7_919 % ROWS));
            let payload = keys.values().iter().map(|key| format!("{key:0>100}"));
            let payload = StringArray::from_iter_values(payload);
            RecordBatch::try_from_iter([
                ("key", Arc::new(keys) as _),
                ("payload", Arc::new(payload) as _),
            ])
            .unwrap()
        })
        .collect();
    let schema = batches[0].schema();
    in_memory(&[batches], schema)
}

fn by_key(plan: &Arc<dyn ExecutionPlan>) -> LexOrdering {
    [PhysicalSortExpr::new_default(column("key", &plan.schema()))].into()
}

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

fn pools() -> [Arc<dyn MemoryPool>; 2] {
    [
        Arc::new(GreedyMemoryPool::new(LIMIT)),
        Arc::new(FairSpillPool::new(LIMIT)),
    ]
}

fn counted(pool: Arc<dyn MemoryPool>) -> (Arc<CountingPool>, Arc<TaskContext>) {
    let pool = Arc::new(CountingPool::new(pool));
    let config = SessionConfig::new()
        .with_batch_size(BATCH_ROWS as usize)
        .with_sort_spill_reservation_bytes(128 << 10);
    let context = context(config, pool.clone());
    (pool, context)
}

/// Sorts each partition of a repartitioned input, one after the other, so that what the later
/// ones get has to wait.
struct SortedPartitions {
    repartition: Arc<dyn ExecutionPlan>,
    sort: SortExec,
}

impl SortedPartitions {
    fn new() -> Result<Self> {
        let plan = input();
        let keys = vec![column("key", &plan.schema())];
        let repartition: Arc<dyn ExecutionPlan> = Arc::new(RepartitionExec::try_new(
            plan,
            Partitioning::Hash(keys, PARTITIONS),
        )?);
        let sort = SortExec::new(by_key(&repartition), Arc::clone(&repartition))
            .with_preserve_partitioning(true);
        Ok(Self { repartition, sort })
    }

    async fn keys(&self, partition: usize, context: &Arc<TaskContext>) -> Result<Vec<i64>> {
        let stream = self.sort.execute(partition, Arc::clone(context))?;
        Ok(keys(&stream.try_collect::<Vec<_>>().await?))
    }
}

fn spills(plan: &dyn ExecutionPlan) -> usize {
    plan.metrics()
        .and_then(|metrics| metrics.spill_count())
        .unwrap_or(0)
}

/// Every consumer of this operator was granted something and denied something, and what one
/// held at most is in its own row.
fn assert_spilled(counts: &Snapshot, operator: &str) {
    let consumers = counts.by_name();
    let mut consumers = consumers
        .iter()
        .filter(|row| operator_name(&row.name) == operator)
        .peekable();
    assert!(consumers.peek().is_some(), "no {operator}\n{counts}");
    for row in consumers {
        let figures = &row.figures;
        assert!(
            figures.acquires.acquired_bytes > 0,
            "{}\n{counts}",
            row.name
        );
        assert!(figures.denied.calls > 0, "{}\n{counts}", row.name);
        let peak = figures.peak_bytes as usize;
        assert!(0 < peak && peak < LIMIT, "{}\n{counts}", row.name);
    }
}

#[tokio::test]
async fn repartition_exec_and_sort_spill_beside_each_other() -> Result<()> {
    let (pool, context) = counted(Arc::new(FairSpillPool::new(LIMIT)));
    let plan = SortedPartitions::new()?;
    let mut all = vec![];
    for partition in 0..PARTITIONS {
        let keys = plan.keys(partition, &context).await?;
        assert!(keys.is_sorted());
        all.extend(keys);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..ROWS));

    assert!(spills(&plan.sort) > 0);
    assert!(spills(plan.repartition.as_ref()) > 0);
    let counts = pool.snapshot();
    assert_spilled(&counts, "ExternalSorter");
    for waiting in 1..PARTITIONS {
        let row = counts.consumer(&format!("RepartitionExec[{waiting}]"));
        assert!(row.denied.calls > 0, "{counts}");
        // Nothing of it was read before the first partition was sorted.
        assert_eq!(row.peak_bytes, row.acquires.acquired_bytes, "{counts}");
    }
    counts.assert_everything_released();
    Ok(())
}

/// Where the pool divides nothing, what waits in a repartitioning takes the memory that a sort
/// cannot do without. The error names the sort; the record of the denial names the holders.
#[tokio::test]
async fn a_starved_sort_is_not_at_fault() -> Result<()> {
    let (pool, context) = counted(Arc::new(GreedyMemoryPool::new(LIMIT)));
    let plan = SortedPartitions::new()?;
    let mut streams = execute_stream_partitioned(plan.repartition, Arc::clone(&context))?;
    let polled = streams.remove(0);
    polled.try_collect::<Vec<_>>().await?;

    let plan = input();
    let sort = SortExec::new(by_key(&plan), plan);
    let sorted = sort.execute(0, context)?;
    let error = sorted.try_collect::<Vec<_>>().await.unwrap_err();
    assert!(is_resources_exhausted(&error), "{error}");
    assert!(error.to_string().contains("ExternalSorter"), "{error}");

    let counts = pool.snapshot();
    let denial = counts.denials.last().unwrap();
    assert_eq!(operator_name(&denial.consumer), "ExternalSorterMerge");
    let holders = denial.largest_holders.iter();
    let mut holders: Vec<_> = holders.map(|holder| holder.consumer.as_ref()).collect();
    holders.sort_unstable();
    let waiting: Vec<_> = (1..PARTITIONS)
        .map(|output| format!("RepartitionExec[{output}]"))
        .collect();
    assert_eq!(holders, waiting, "{denial}");
    Ok(())
}

#[tokio::test]
async fn a_repartitioner_and_the_sort_below_it_spill_beside_each_other() -> Result<()> {
    for layout in [Layout::Indexed, Layout::Reordered] {
        for pool in pools() {
            let (pool, context) = counted(pool);
            let plan = input();
            let sort = SortExec::new(by_key(&plan), plan);
            let mut sorted = sort.execute(0, Arc::clone(&context))?;
            let by = PartitionBy::hash_columns(["key"], PARTITIONS);
            let mut repartitioner = Repartitioner::builder(sorted.schema(), by)
                .with_layout(layout)
                .build(0, &context.runtime_env())?;
            while let Some(batch) = sorted.try_next().await? {
                repartitioner.insert_batch(batch)?;
                // The rows account for all that the pool has granted, to the byte.
                let rows = pool.snapshot().consumers;
                let held: u64 = rows.iter().map(|row| row.figures.reserved_bytes).sum();
                assert_eq!(held, pool.inner().reserved() as u64);
            }
            drop(sorted);
            let folder = tempfile::tempdir()?;
            let shuffle = repartitioner.finish(folder.path().join("shuffle.data"))?;

            let mut all = vec![];
            for partition in read(&shuffle)? {
                let keys = keys(&[partition]);
                assert!(keys.is_sorted());
                all.extend(keys);
            }
            all.sort_unstable();
            assert!(all.into_iter().eq(0..ROWS));

            assert!(spills(&sort) > 0);
            assert!(shuffle.metrics().spill_count > 0);
            let counts = pool.snapshot();
            assert_spilled(&counts, "ExternalSorter");
            assert_spilled(&counts, "ShuffleRepartitioner");
            counts.assert_everything_released();
        }
    }
    Ok(())
}
