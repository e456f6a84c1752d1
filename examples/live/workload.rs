//! Tasks that shuffle, one round of them after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{Int32Array, RecordBatch};
use datafusion_common::Result;
use datafusion_counting_pool::{CountingPool, DEFAULT_STEP, PartitionBy, Repartitioner};
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use signal_hook::consts::{SIGINT, SIGTERM};
use tempfile::TempDir;

/// Tasks of a round, at the same time.
pub(crate) const TASKS: usize = 2;
/// A round begins each time this has passed, so that as many tasks are done a second before the
/// switch as after. A second is no multiple of it: who looks once a second sees a round at all
/// its moments.
pub(crate) const PERIOD: Duration = Duration::from_millis(700);

const BATCHES: usize = 256;
const BATCH_ROWS: usize = 8192;
const PARTITIONS: usize = 201;

pub(crate) struct Workload {
    runtime: Arc<RuntimeEnv>,
    folder: TempDir,
    started: Instant,
    switch_after: Duration,
    stopped: Arc<AtomicBool>,
}

impl Workload {
    pub(crate) fn new(pool: Arc<CountingPool>, switch_after: Duration) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(pool)
            .with_temp_file_path(folder.path())
            .build_arc()?;
        Ok(Self {
            runtime,
            folder,
            started: Instant::now(),
            switch_after,
            stopped: Arc::default(),
        })
    }

    /// Time since the first round began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether tasks that begin now reserve memory in steps.
    pub(crate) fn in_steps(&self) -> bool {
        self.elapsed() >= self.switch_after
    }

    /// Lets no task begin any more once the process is asked to end.
    pub(crate) fn stop_on_signals(&self) -> std::io::Result<()> {
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&self.stopped))?;
        }
        Ok(())
    }

    /// Lets no task begin any more.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Runs the task with this number of each round, until it is stopped or a task fails.
    pub(crate) fn run(&self, number: usize) -> Result<()> {
        let mut round = 0;
        while !self.is_stopped() {
            self.task(number).inspect_err(|_| self.stop())?;
            // Rounds that a slow machine has missed are left out.
            round = (self.elapsed().div_duration_f64(PERIOD) as u32).max(round) + 1;
            thread::sleep((PERIOD * round).saturating_sub(self.elapsed()));
        }
        Ok(())
    }

    fn task(&self, number: usize) -> Result<()> {
        let step = if self.in_steps() { DEFAULT_STEP } else { 0 };
        let schema = batch()?.schema();
        let mut writer =
            Repartitioner::builder(schema, PartitionBy::hash_columns(["key"], PARTITIONS))
                .with_reservation_step(step)
                .build(number, &self.runtime)?;
        for _ in 0..BATCHES {
            writer.insert_batch(batch()?)?;
        }
        writer.finish(self.folder.path().join(format!("task-{number}.data")))?;
        Ok(())
    }
}

/// Made anew each time: a buffer that is buffered already charges nothing.
fn batch() -> Result<RecordBatch> {
    let key = Int32Array::from_value(1, BATCH_ROWS);
    Ok(RecordBatch::try_from_iter([("key", Arc::new(key) as _)])?)
}
