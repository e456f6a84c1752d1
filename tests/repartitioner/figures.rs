//! The seed's figures, to the byte.

use datafusion_common::Result;
use datafusion_counting_pool::{DEFAULT_STEP, PartitionBy, Repartitioner, Shuffle};

use crate::recording_pool::RecordingPool;
use crate::support::{Output, keys, read, runtime_of};
use std::sync::Arc;

const KIB: usize = 1024;

/// 256 batches of 8,192 rows that all go to one of 201 partitions.
fn one_task(step: usize) -> Result<(Arc<RecordingPool>, Shuffle, Output)> {
    let pool = RecordingPool::unbounded();
    let output = Output::new();
    let batch = || keys(vec![1; 8192]);
    let mut writer =
        Repartitioner::builder(batch().schema(), PartitionBy::hash_columns(["key"], 201))
            .with_reservation_step(step)
            .build(0, &runtime_of(&pool))?;
    for _ in 0..256 {
        writer.insert_batch(batch())?;
    }
    let shuffle = writer.finish(output.path())?;
    Ok((pool, shuffle, output))
}

#[test]
fn one_task_of_the_shuffle_asks_256_times_without_a_step() -> Result<()> {
    let (pool, shuffle, _output) = one_task(0)?;
    let acquired = pool.acquired();
    assert_eq!(acquired.len(), 256);
    assert_eq!(
        acquired.iter().filter(|bytes| **bytes == 32 * KIB).count(),
        247
    );
    // The index vector starts with room for one batch, 8 bytes a row, and doubles before batches 2,
    // 3, 5, 9...
    let doubled: Vec<_> = acquired
        .iter()
        .filter(|bytes| **bytes != 32 * KIB)
        .copied()
        .collect();
    let expected: Vec<_> = [64, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
        .map(|kib| (32 + kib) * KIB)
        .into();
    assert_eq!(doubled, expected);
    assert_eq!(acquired.iter().sum::<usize>(), 25_165_824);
    assert_eq!(pool.released(), [25_165_824]);
    assert_eq!(pool.as_pool().reserved(), 0);

    let metrics = shuffle.metrics();
    assert_eq!(metrics.pool_acquisitions, 256);
    assert_eq!(metrics.buffered_bytes, 25_165_824);
    assert_eq!(
        (metrics.input_batches, metrics.input_rows),
        (256, 2_097_152)
    );
    assert_eq!(
        (
            metrics.spill_count,
            metrics.spilled_bytes,
            metrics.spilled_disk_bytes
        ),
        (0, 0, 0)
    );
    Ok(())
}

#[test]
fn one_task_of_the_shuffle_asks_13_times_with_a_step_of_a_mebibyte() -> Result<()> {
    let (pool, shuffle, _output) = one_task(DEFAULT_STEP)?;
    let acquired = pool.acquired();
    assert_eq!(acquired.len(), 13);
    assert!(!acquired.contains(&(32 * KIB)));
    assert_eq!(acquired.iter().sum::<usize>(), 25_198_592);
    assert_eq!(pool.released(), [25_198_592]);
    assert_eq!(shuffle.metrics().pool_acquisitions, 13);
    Ok(())
}

#[test]
fn the_step_changes_nothing_in_the_output() -> Result<()> {
    let (_, exact, _output) = one_task(0)?;
    let (_, stepped, _other_output) = one_task(DEFAULT_STEP)?;
    assert_eq!(
        std::fs::read(exact.data_path())?,
        std::fs::read(stepped.data_path())?
    );
    assert_eq!(
        std::fs::read(exact.index_path())?,
        std::fs::read(stepped.index_path())?
    );

    let partitions = read(&stepped)?;
    assert_eq!(partitions.len(), 201);
    let filled: Vec<_> = partitions
        .iter()
        .filter(|batch| batch.num_rows() > 0)
        .collect();
    assert_eq!(filled.len(), 1);
    assert_eq!(filled[0], &keys(vec![1; 256 * 8192]));
    Ok(())
}

#[test]
fn forty_small_batches_ask_once_or_forty_times() -> Result<()> {
    for (step, acquisitions) in [(DEFAULT_STEP, 1), (1, 40), (0, 40)] {
        let pool = RecordingPool::unbounded();
        let mut writer =
            Repartitioner::builder(keys([]).schema(), PartitionBy::hash_columns(["key"], 201))
                .with_reservation_step(step)
                .build(0, &runtime_of(&pool))?;
        for batch in 0..40 {
            writer.insert_batch(keys(vec![batch; 100]))?;
        }
        assert_eq!(pool.acquired().len(), acquisitions, "step {step}");
    }
    Ok(())
}

#[test]
fn a_buffer_seen_before_charges_nothing() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut writer = Repartitioner::builder(keys([]).schema(), PartitionBy::single())
        .with_reservation_step(0)
        .build(0, &runtime_of(&pool))?;
    let batch = keys(vec![7; 100]);
    for _ in 0..40 {
        writer.insert_batch(batch.clone())?;
        writer.insert_batch(batch.slice(10, 20))?;
    }
    // 4 bytes a value; a single partition has no index vectors.
    assert_eq!(pool.acquired(), [400]);
    Ok(())
}
