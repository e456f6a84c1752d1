//! Memory that is short, case by case.

use datafusion_common::{DataFusionError, Result};
use datafusion_counting_pool::is_resources_exhausted;
use datafusion_execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion_execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, UnboundedMemoryPool,
};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;

use crate::recording_pool::Call::{Forced, Granted, Refused, Released};
use crate::recording_pool::RecordingPool;
use crate::support::{Output, by_key, in_order, insert, keys, numbers, runtime_of, single};

#[test]
fn denied_a_step_but_not_the_deficit_it_does_not_spill() -> Result<()> {
    let pool = RecordingPool::new(GreedyMemoryPool::new(1500));
    let output = Output::new();
    let mut writer = single()
        .with_reservation_step(1000)
        .build(0, &runtime_of(&pool))?;
    insert(&mut writer, 0..3)?;
    assert_eq!(pool.calls(), [Granted(1000), Refused(1000), Granted(200)]);
    let shuffle = writer.finish(output.path())?;
    assert_eq!(shuffle.metrics().spill_count, 0);
    assert_eq!(numbers(&shuffle)?, in_order(0..3));
    Ok(())
}

#[test]
fn denied_both_it_spills_what_did_not_fit_too() -> Result<()> {
    let pool = RecordingPool::new(GreedyMemoryPool::new(1100));
    let output = Output::new();
    let mut writer = single()
        .with_reservation_step(1000)
        .build(0, &runtime_of(&pool))?;
    insert(&mut writer, 0..3)?;
    // 1,200 bytes are in memory, of which 1,000 are reserved; slack was never among them.
    assert_eq!(
        pool.calls(),
        [
            Granted(1000),
            Refused(1000),
            Refused(200),
            Released(1000),
            Forced(16)
        ]
    );
    assert_eq!(writer.metrics().spilled_bytes, 1200);
    insert(&mut writer, 3..4)?;
    let shuffle = writer.finish(output.path())?;
    assert_eq!(shuffle.metrics().spilled_bytes, 1200);
    assert_eq!(numbers(&shuffle)?, in_order(0..4));
    assert_eq!(pool.as_pool().reserved(), 0);
    Ok(())
}

#[test]
fn slack_is_not_reported_as_spilled() -> Result<()> {
    let pool = RecordingPool::unbounded();
    let mut writer = single()
        .with_reservation_step(1000)
        .with_max_buffer_bytes(Some(8000))
        .build(0, &runtime_of(&pool))?;
    insert(&mut writer, 0..21)?;
    // 21 batches are the first beyond 8,000 bytes. 9,000 were reserved.
    assert_eq!(pool.released(), [9000]);
    assert_eq!(writer.metrics().spilled_bytes, 8400);
    Ok(())
}

#[test]
fn the_same_allocation_counts_again_in_a_later_spill() -> Result<()> {
    let mut writer = single()
        .with_max_buffer_bytes(Some(0))
        .build(0, &runtime_of(&RecordingPool::unbounded()))?;
    let batch = keys(vec![1; 100]);
    for _ in 0..3 {
        writer.insert_batch(batch.clone())?;
    }
    assert_eq!(
        (writer.metrics().spill_count, writer.metrics().spilled_bytes),
        (3, 1200)
    );
    Ok(())
}

#[test]
fn another_error_of_the_pool_is_no_reason_to_spill() -> Result<()> {
    let pool = RecordingPool::with_answer(UnboundedMemoryPool::default(), |number, _| {
        (number == 2).then(|| DataFusionError::Execution("the pool is broken".into()))
    });
    let runtime = runtime_of(&pool);
    let mut writer = single().with_reservation_step(0).build(0, &runtime)?;
    let error = insert(&mut writer, 0..3).unwrap_err();
    assert_eq!(error.to_string(), "Execution error: the pool is broken");
    assert_eq!(
        pool.calls(),
        [Granted(400), Granted(400), Refused(400), Released(800)]
    );
    assert_eq!(
        runtime.disk_manager.spilling_progress().active_files_count,
        0
    );
    Ok(())
}

#[test]
fn after_an_error_there_is_nothing_but_errors() -> Result<()> {
    let pool = RecordingPool::with_answer(UnboundedMemoryPool::default(), |_, _| {
        Some(DataFusionError::Execution("the pool is broken".into()))
    });
    let output = Output::new();
    let mut writer = single().build(3, &runtime_of(&pool))?;
    insert(&mut writer, 0..1).unwrap_err();
    let error = insert(&mut writer, 1..2).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("ShuffleRepartitioner[3] has failed before"),
        "{error}"
    );
    let error = writer.finish(output.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("ShuffleRepartitioner[3] has failed before"),
        "{error}"
    );
    assert!(output.files().is_empty());
    Ok(())
}

#[test]
fn the_very_first_batch_may_be_denied() -> Result<()> {
    for pool_bytes in [0, 399] {
        for step in [0, 1 << 20] {
            let pool = RecordingPool::new(GreedyMemoryPool::new(pool_bytes));
            let output = Output::new();
            let mut writer = single()
                .with_reservation_step(step)
                .build(0, &runtime_of(&pool))?;
            insert(&mut writer, 0..2)?;
            // A spill leaves 16 bytes behind, so the second batch does not fit either.
            assert_eq!(
                (writer.metrics().spill_count, writer.metrics().spilled_bytes),
                (2, 800)
            );
            assert_eq!(numbers(&writer.finish(output.path())?)?, in_order(0..2));
            assert_eq!(pool.as_pool().reserved(), 0);
        }
    }
    Ok(())
}

#[test]
fn a_step_larger_than_the_pool_is_no_hindrance() -> Result<()> {
    let pool = RecordingPool::new(GreedyMemoryPool::new(4000));
    let output = Output::new();
    let mut writer = single()
        .with_reservation_step(5000)
        .build(0, &runtime_of(&pool))?;
    insert(&mut writer, 0..10)?;
    let shuffle = writer.finish(output.path())?;
    assert_eq!(shuffle.metrics().spill_count, 0);
    assert_eq!(pool.refused(), 10);
    assert_eq!(numbers(&shuffle)?, in_order(0..10));
    Ok(())
}

#[test]
fn a_hog_in_the_same_pool_makes_it_spill() -> Result<()> {
    let pool = RecordingPool::new(GreedyMemoryPool::new(1 << 20));
    let hog = MemoryConsumer::new("hog").register(&pool.as_pool());
    hog.try_grow((1 << 20) - 5000)?;
    let output = Output::new();
    let mut writer = by_key(7).build(0, &runtime_of(&pool))?;
    insert(&mut writer, 0..40)?;
    let shuffle = writer.finish(output.path())?;
    assert!(pool.refused() >= 1);
    assert!(
        shuffle.metrics().spill_count >= 1,
        "{:?}",
        shuffle.metrics()
    );
    let mut found = numbers(&shuffle)?;
    found.sort_unstable();
    assert_eq!(found, in_order(0..40));
    drop(hog);
    assert_eq!(pool.as_pool().reserved(), 0);
    Ok(())
}

#[test]
fn two_writers_share_a_fair_pool() -> Result<()> {
    let pool = RecordingPool::new(FairSpillPool::new(20_000));
    let runtime = runtime_of(&pool);
    let (first, second) = (Output::new(), Output::new());
    let mut writers = [by_key(3).build(0, &runtime)?, by_key(3).build(1, &runtime)?];
    for batch in 0..40 {
        for writer in &mut writers {
            insert(writer, batch..batch + 1)?;
        }
    }
    for (writer, output) in writers.into_iter().zip([&first, &second]) {
        let shuffle = writer.finish(output.path())?;
        assert!(
            shuffle.metrics().spill_count >= 1,
            "{:?}",
            shuffle.metrics()
        );
        let mut found = numbers(&shuffle)?;
        found.sort_unstable();
        assert_eq!(found, in_order(0..40));
    }
    assert_eq!(pool.as_pool().reserved(), 0);
    Ok(())
}

#[test]
fn the_bookkeeping_of_spills_is_charged_and_never_refused() -> Result<()> {
    // A pool that grants nothing: each batch is a spill of 16,000 ranges.
    let pool = RecordingPool::new(GreedyMemoryPool::new(0));
    let output = Output::new();
    let mut writer = by_key(16_000).build(0, &runtime_of(&pool))?;
    insert(&mut writer, 0..11)?;
    assert_eq!(writer.metrics().spill_count, 11);
    assert_eq!(pool.acquired(), [256_000; 11]);
    assert_eq!(pool.as_pool().reserved(), 11 * 16_000 * 16);
    let shuffle = writer.finish(output.path())?;
    assert_eq!(pool.released(), [2_816_000]);
    assert_eq!(
        shuffle.metrics().pool_acquisitions,
        pool.acquisitions() as u64
    );
    Ok(())
}

#[test]
fn a_disabled_disk_manager_shows_the_denial_of_the_pool() -> Result<()> {
    let pool = RecordingPool::new(GreedyMemoryPool::new(1000));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool.as_pool())
        .with_disk_manager_builder(
            DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
        )
        .build_arc()?;
    let mut writer = single().build(0, &runtime)?;
    let error = insert(&mut writer, 0..3).unwrap_err();
    assert!(is_resources_exhausted(&error), "{error}");
    assert!(
        error.to_string().contains("ShuffleRepartitioner[0]"),
        "{error}"
    );
    assert!(!error.to_string().contains("DiskManager"), "{error}");
    assert_eq!(pool.as_pool().reserved(), 0);

    // A limit of one's own has no denial to show.
    let mut writer = single().with_max_buffer_bytes(Some(0)).build(0, &runtime)?;
    let error = insert(&mut writer, 0..1).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("spill 1 of ShuffleRepartitioner[0]"),
        "{error}"
    );
    assert_eq!(pool.as_pool().reserved(), 0);
    Ok(())
}

#[test]
fn dropped_unfinished_it_leaves_nothing_behind() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pool = RecordingPool::unbounded();
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool.as_pool())
        .with_temp_file_path(folder.path())
        .build_arc()?;
    let files = || walk(folder.path());
    let mut writer = by_key(7)
        .with_max_buffer_bytes(Some(3000))
        .build(0, &runtime)?;
    insert(&mut writer, 0..10)?;
    let spills = writer.metrics().spill_count;
    assert!(spills > 0);
    assert_eq!(files() as u64, spills);
    assert!(pool.as_pool().reserved() > 0);
    drop(writer);
    assert_eq!(files(), 0);
    assert_eq!(pool.as_pool().reserved(), 0);
    assert_eq!(runtime.disk_manager.used_disk_space(), 0);
    Ok(())
}

fn walk(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| if path.is_dir() { walk(&path) } else { 1 })
        .sum()
}
