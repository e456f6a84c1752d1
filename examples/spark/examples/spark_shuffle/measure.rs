//! Runs the two sides in turn over one memory manager of Spark's.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_counting_pool::spark::{FairUnifiedPool, TaskMemory};
use datafusion_counting_pool::{
    CountingPool, DEFAULT_STEP, Figures, Layout, PartitionBy, Repartitioner, Shuffle,
};
use datafusion_execution::memory_pool::MemoryPool;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use spark_memory::{CallError, OffHeapExecutor};

use crate::Cli;
use crate::compare::{Comparison, compare};
use crate::failure::Failure;

/// Of Spark's off-heap pool.
pub(crate) const EXECUTOR_BYTES: usize = 4 << 30;

/// Acquires and releases that are made before anything is measured, so that the JVM has compiled
/// them.
const WARM_UP_CALLS: usize = 20_000;

const COLUMN: &str = "key";

/// One side in one round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) step: usize,
    pub(crate) elapsed: Duration,
    pub(crate) tasks: Vec<Task>,
    /// Bytes that Spark holds for all tasks after they have ended.
    pub(crate) spark_balance: u64,
}

/// What one task did.
#[derive(Debug)]
pub(crate) struct Task {
    /// What it asked of its pool.
    pub(crate) figures: Figures,
    pub(crate) shuffle: Shuffle,
}

/// Both sides, each by its round of median time in the pools.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) exact: Round,
    pub(crate) stepped: Round,
    pub(crate) comparison: Comparison,
}

impl Round {
    /// Of all tasks together.
    pub(crate) fn sum(&self, figure: impl Fn(&Task) -> u64) -> u64 {
        self.tasks.iter().map(figure).sum()
    }

    /// Of all tasks together, in nanoseconds.
    pub(crate) fn acquire_nanos(&self) -> u64 {
        self.sum(|task| task.figures.acquire_time.total.as_nanos() as u64)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::run(error)
    }
}

pub(crate) fn measure(cli: &Cli) -> Result<Measurement, Failure> {
    let jvm = spark_memory::jvm().map_err(Failure::run)?;
    let executor = OffHeapExecutor::new(&jvm, EXECUTOR_BYTES as i64)?;
    warm_up(&executor)?;

    let folder = tempfile::tempdir().map_err(Failure::run)?;
    let mut rounds: [Vec<Round>; 2] = [Vec::new(), Vec::new()];
    let mut comparison = Comparison::default();
    // The first round is not recorded.
    for number in 0..=cli.rounds {
        let mut order = [(0, 0), (1, DEFAULT_STEP)];
        if number % 2 == 1 {
            order.reverse();
        }
        let mut both = [None, None];
        for (side, step) in order {
            both[side] = Some(round(cli, &executor, number, step, folder.path())?);
        }
        let [Some(exact), Some(stepped)] = both else {
            unreachable!("each side was run");
        };
        comparison = compare(&exact.tasks, &stepped.tasks)?;
        if number > 0 {
            rounds[0].push(exact);
            rounds[1].push(stepped);
        }
        if comparison.difference.is_some() {
            break;
        }
    }
    let [exact, stepped] = rounds.map(median);
    Ok(Measurement {
        exact,
        stepped,
        comparison,
    })
}

fn warm_up(executor: &OffHeapExecutor) -> Result<(), Failure> {
    let task = executor.task(-1)?;
    for _ in 0..WARM_UP_CALLS {
        let granted = task.acquire(DEFAULT_STEP)?;
        task.release(granted)?;
    }
    Ok(())
}

fn median(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by_key(Round::acquire_nanos);
    rounds.swap_remove((rounds.len() - 1) / 2)
}

/// All tasks once, each an attempt that Spark has not seen before.
fn round(
    cli: &Cli,
    executor: &OffHeapExecutor,
    number: u16,
    step: usize,
    folder: &Path,
) -> Result<Round, Failure> {
    let started = Instant::now();
    let tasks = thread::scope(|scope| {
        let tasks: Vec<_> = (0..cli.tasks)
            .map(|partition| {
                let attempt = i64::from(number) * i64::from(cli.tasks) + i64::from(partition);
                let path = folder.join(format!("{step}-{partition}.data"));
                scope.spawn(move || {
                    task(cli, executor, attempt, step, usize::from(partition), &path)
                })
            })
            .collect();
        tasks
            .into_iter()
            .map(|task| task.join().map_err(|_| Failure::run("a task panicked"))?)
            .collect::<Result<Vec<_>, Failure>>()
    })?;
    let elapsed = started.elapsed();
    let spark_balance = executor
        .active_tasks()?
        .iter()
        .map(|(_, bytes)| *bytes as u64)
        .sum();
    Ok(Round {
        step,
        elapsed,
        tasks,
        spark_balance,
    })
}

fn task(
    cli: &Cli,
    executor: &OffHeapExecutor,
    attempt: i64,
    step: usize,
    partition: usize,
    path: &Path,
) -> Result<Task, Failure> {
    let memory = Arc::new(executor.task(attempt)?);
    let share = EXECUTOR_BYTES / usize::from(cli.tasks);
    let pool = CountingPool::new(Arc::new(FairUnifiedPool::new(memory, share)));
    let pool = Arc::new(pool);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(&pool) as Arc<dyn MemoryPool>)
        .build_arc()?;

    let schema = Arc::new(Schema::new(vec![Field::new(
        COLUMN,
        DataType::Int32,
        false,
    )]));
    let by = PartitionBy::hash_columns([COLUMN], usize::from(cli.partitions));
    let mut writer = Repartitioner::builder(Arc::clone(&schema), by)
        .with_reservation_step(step)
        // The layout that the published figures are of.
        .with_layout(Layout::Indexed)
        .build(partition, &runtime)?;
    for _ in 0..cli.batches {
        // Built anew each time: a buffer that is buffered already charges nothing.
        let values = Int32Array::from_value(1, cli.batch_rows as usize);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)])
            .map_err(Failure::run)?;
        writer.insert_batch(batch)?;
    }
    let shuffle = writer.finish(path)?;
    Ok(Task {
        figures: pool.snapshot().total,
        shuffle,
    })
}
