//! When the repartitioner spills, and what a spill changes.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_counting_pool::{
    PartitionBy, RepartitionMetrics, Repartitioner, RepartitionerBuilder, Shuffle,
};
use datafusion_execution::memory_pool::GreedyMemoryPool;

use crate::recording_pool::RecordingPool;
use crate::support::{Output, keys, read, runtime_of};

const BATCHES: i32 = 40;
const ROWS: i32 = 100;

/// Batch `i` holds the numbers from `100 * i` on, in one partition: 400 bytes, and 8 bytes of index
/// a row.
fn run(
    pool: &Arc<RecordingPool>,
    configure: impl FnOnce(RepartitionerBuilder) -> RepartitionerBuilder,
) -> Result<(Shuffle, Output)> {
    let output = Output::new();
    let builder = Repartitioner::builder(keys([]).schema(), PartitionBy::hash_columns(["key"], 7));
    let mut writer = configure(builder).build(0, &runtime_of(pool))?;
    for batch in 0..BATCHES {
        writer.insert_batch(keys((batch * ROWS..(batch + 1) * ROWS).collect::<Vec<_>>()))?;
    }
    let shuffle = writer.finish(output.path())?;
    assert_eq!(pool.as_pool().reserved(), 0);
    assert_eq!(
        pool.acquired().iter().sum::<usize>(),
        pool.released().iter().sum::<usize>()
    );
    assert_eq!(output.files(), ["shuffle.data", "shuffle.data.index"]);
    Ok((shuffle, output))
}

fn spills(metrics: &RepartitionMetrics) -> (u64, u64) {
    (metrics.spill_count, metrics.spilled_bytes)
}

#[test]
fn a_limit_triggers_spills_without_memory_pressure() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let (shuffle, _output) = run(&pool, |builder| builder.with_max_buffer_bytes(Some(2000)))?;
    assert!(shuffle.metrics().spill_count > 0, "{:?}", shuffle.metrics());
    assert_eq!(pool.refused(), 0);

    // 400 bytes a batch and no index: the sixth is the first beyond 2,000.
    let pool = RecordingPool::unbounded();
    let output = Output::new();
    let mut writer = Repartitioner::builder(keys([]).schema(), PartitionBy::single())
        .with_max_buffer_bytes(Some(2000))
        .build(0, &runtime_of(&pool))?;
    for batch in 0..BATCHES {
        writer.insert_batch(keys(vec![batch; 100]))?;
        let expected = (batch + 1) as u64 / 6;
        assert_eq!(spills(writer.metrics()), (expected, expected * 2400));
    }
    // Each spill freed the reservation at once, and keeps 16 bytes for its one partition to the
    // end. The step is an eighth of the limit, less than a batch.
    writer.finish(output.path())?;
    assert_eq!(
        pool.released(),
        [2400, 2400, 2400, 2400, 2400, 2400, 1600, 6 * 16]
    );
    Ok(())
}

#[test]
fn no_limit_leaves_spilling_to_memory_pressure() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let (shuffle, _output) = run(&pool, |builder| builder)?;
    assert_eq!(spills(shuffle.metrics()), (0, 0));

    let pool = RecordingPool::new(GreedyMemoryPool::new(6000));
    let (shuffle, _output) = run(&pool, |builder| builder.with_reservation_step(0))?;
    assert!(shuffle.metrics().spill_count > 0, "{:?}", shuffle.metrics());
    assert_eq!(shuffle.metrics().spill_count, pool.refused() as u64);
    Ok(())
}

#[test]
fn a_limit_preserves_the_output() -> Result<()> {
    let (unlimited, _output) = run(&RecordingPool::unbounded(), |builder| builder)?;
    let expected = read(&unlimited)?;
    assert_eq!(
        expected.iter().map(|batch| batch.num_rows()).sum::<usize>(),
        4000
    );
    for limit in [0, 7, 8, 1000, 2000, 10_000] {
        let pool = RecordingPool::unbounded();
        let (limited, _output) = run(&pool, |builder| builder.with_max_buffer_bytes(Some(limit)))?;
        assert!(limited.metrics().spill_count > 0, "limit {limit}");
        assert_eq!(read(&limited)?, expected, "limit {limit}");
    }
    let pool = RecordingPool::new(GreedyMemoryPool::new(3000));
    let (pressed, _output) = run(&pool, |builder| builder)?;
    assert!(pressed.metrics().spill_count > 0);
    assert_eq!(read(&pressed)?, expected);
    Ok(())
}
