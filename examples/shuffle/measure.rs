//! Runs the two sides in turn, counts what each asks of its pool, and compares what they wrote.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_ipc::CompressionType;
use datafusion_counting_pool::{
    CountingPool, Figures, Layout, PartitionBy, Repartitioner, Shuffle, Snapshot,
};
use datafusion_execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryPool, UnboundedMemoryPool,
};
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

use crate::cli::{Cli, Compression, PoolKind};
use crate::compare::{Comparison, compare};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::workload::{Batches, Workload};

/// One of the two ways to reserve memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) name: &'static str,
    /// Least growth of a reservation, in bytes; 0 is exact growth.
    pub(crate) step: usize,
}

/// What one side did in one round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) side: Side,
    /// From the first batch to the last file, all tasks, their input included.
    pub(crate) elapsed: Duration,
    /// What the pool was asked.
    pub(crate) counts: Snapshot,
    pub(crate) tasks: Vec<Task>,
}

/// What one task did.
#[derive(Debug)]
pub(crate) struct Task {
    /// What it asked of the pool.
    pub(crate) figures: Figures,
    pub(crate) shuffle: Shuffle,
}

/// Both sides, each by its round of median elapsed time, and whether they agree.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) rows: u64,
    pub(crate) exact: Round,
    pub(crate) stepped: Round,
    pub(crate) comparison: Comparison,
}

/// Runs one round of each side to warm up, then `--rounds` of each with the order alternating.
/// Each round writes its files to `folder` over those of the round before.
///
/// # Errors
/// An input that cannot be read, a run that fails, memory that is not released, and counts that
/// differ between rounds without a denial.
pub(crate) fn measure(
    cli: &Cli,
    workload: &Workload,
    folder: &Path,
    progress: &Progress,
) -> Result<Measurement, Failure> {
    let sides = [
        Side {
            name: "exact",
            step: 0,
        },
        Side {
            name: "stepped",
            step: cli.step,
        },
    ];
    let runner = Runner {
        cli,
        workload,
        folder,
        progress,
    };
    let mut rounds: [Vec<Round>; 2] = [Vec::new(), Vec::new()];

    for side in sides {
        progress.start(&format!("warming up, {}", side.name));
        let rows = runner.round(side)?.rows();
        progress.expect(rows * 2 * (u64::from(cli.rounds) + 1));
    }
    let mut comparison = Comparison::default();
    for number in 1..=cli.rounds {
        let order = if number % 2 == 1 { [0, 1] } else { [1, 0] };
        for side in order {
            progress.start(&format!(
                "round {number} of {}, {}",
                cli.rounds, sides[side].name
            ));
            let round = runner.round(sides[side])?;
            if let Some(earlier) = rounds[side].last() {
                check_same_calls(earlier, &round)?;
            }
            rounds[side].push(round);
        }
        progress.start(&format!("round {number} of {}, reading back", cli.rounds));
        let [exact, stepped] = &rounds;
        let [exact, stepped] = [exact, stepped].map(|rounds| rounds.last().expect("one was run"));
        comparison = compare(&exact.tasks, &stepped.tasks)?;
        if comparison.difference.is_some() {
            break;
        }
        // Both sides could have lost the same rows.
        if comparison.equal_rows != exact.rows() {
            let (read, written) = (comparison.equal_rows, exact.rows());
            return Err(Failure::run(format!(
                "{written} rows went into the data files and {read} came out of them"
            )));
        }
    }
    let [exact, stepped] = rounds.map(median);
    Ok(Measurement {
        rows: exact.rows(),
        exact,
        stepped,
        comparison,
    })
}

/// Without denials nothing depends on which task asked first.
fn check_same_calls(earlier: &Round, later: &Round) -> Result<(), Failure> {
    let calls = |round: &Round| -> Vec<_> {
        let of_task = |task: &Task| {
            let figures = &task.figures;
            (
                figures.acquires.calls,
                figures.acquires.acquired_bytes,
                figures.releases,
            )
        };
        round.tasks.iter().map(of_task).collect()
    };
    let denied = earlier.counts.total.denied.calls + later.counts.total.denied.calls;
    if denied == 0 && calls(earlier) != calls(later) {
        return Err(Failure::run(format!(
            "the {} side's pool calls differ from one round to the next though none was denied",
            later.side.name
        )));
    }
    Ok(())
}

fn median(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by_key(|round| round.elapsed);
    rounds.swap_remove((rounds.len() - 1) / 2)
}

impl Round {
    pub(crate) fn rows(&self) -> u64 {
        self.tasks
            .iter()
            .map(|task| task.shuffle.metrics().input_rows)
            .sum()
    }
}

impl Task {
    pub(crate) fn spills(&self) -> u64 {
        self.shuffle.metrics().spill_count
    }

    /// Bytes in memory that were spilled.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.shuffle.metrics().spilled_bytes
    }
}

struct Runner<'a> {
    cli: &'a Cli,
    workload: &'a Workload,
    folder: &'a Path,
    progress: &'a Progress,
}

impl Runner<'_> {
    /// All tasks once, over a pool of their own.
    fn round(&self, side: Side) -> Result<Round, Failure> {
        let pool = Arc::new(CountingPool::new(self.pool()).with_name(side.name));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool) as Arc<dyn MemoryPool>)
            .with_temp_file_path(self.folder)
            .build_arc()?;
        let tasks = usize::from(self.cli.tasks);
        // All consumers are registered before the first batch: a fair pool divides by their number.
        let writers = (0..tasks)
            .map(|task| self.writer(side, task, &runtime))
            .collect::<Result<Vec<_>, _>>()?;

        let started = Instant::now();
        let shuffles = self.run(side, writers)?;
        let elapsed = started.elapsed();

        let counts = pool.snapshot();
        if counts.total.reserved_bytes != 0 {
            return Err(Failure::run(format!(
                "the {} side has not released its memory: {}",
                side.name,
                counts.summary()
            )));
        }
        let mut figures: HashMap<_, _> = counts
            .by_name()
            .into_iter()
            .map(|row| (row.name, row.figures))
            .collect();
        let tasks = shuffles
            .into_iter()
            .enumerate()
            .map(|(task, shuffle)| {
                let name = format!("ShuffleRepartitioner[{task}]");
                let figures = figures.remove(name.as_str()).unwrap_or_default();
                Task { figures, shuffle }
            })
            .collect();
        Ok(Round {
            side,
            elapsed,
            counts,
            tasks,
        })
    }

    fn run(&self, side: Side, writers: Vec<Repartitioner>) -> Result<Vec<Shuffle>, Failure> {
        thread::scope(|scope| {
            let (inputs, dealer) = self.workload.deal(scope, writers.len());
            let tasks: Vec<_> = writers
                .into_iter()
                .zip(inputs)
                .enumerate()
                .map(|(task, (writer, input))| {
                    let path = self.data_path(side, task);
                    scope.spawn(move || self.task(writer, input, &path))
                })
                .collect();
            // In order of their number, so that of several errors the first task's is reported.
            let shuffles: Vec<_> = tasks
                .into_iter()
                .map(|task| task.join().map_err(|_| Failure::run("a task panicked"))?)
                .collect();
            // The tasks take an input that broke off for one that has ended: its error comes first.
            if let Some(dealer) = dealer {
                dealer
                    .join()
                    .map_err(|_| Failure::run("reading the input panicked"))??;
            }
            shuffles.into_iter().collect()
        })
    }

    fn task(
        &self,
        mut writer: Repartitioner,
        input: Batches,
        path: &Path,
    ) -> Result<Shuffle, Failure> {
        for batch in input {
            let rows = batch.num_rows() as u64;
            writer.insert_batch(batch)?;
            self.progress.advance(rows);
        }
        Ok(writer.finish(path)?)
    }

    fn pool(&self) -> Arc<dyn MemoryPool> {
        match self.cli.pool {
            PoolKind::Unbounded => Arc::new(UnboundedMemoryPool::default()),
            PoolKind::Greedy => Arc::new(GreedyMemoryPool::new(self.cli.pool_bytes())),
            PoolKind::Fair => Arc::new(FairSpillPool::new(self.cli.pool_bytes())),
        }
    }

    fn writer(
        &self,
        side: Side,
        task: usize,
        runtime: &Arc<RuntimeEnv>,
    ) -> Result<Repartitioner, Failure> {
        let hash =
            PartitionBy::hash_columns(self.workload.hash_columns(), self.cli.partitions as usize);
        let compression = match self.cli.compression {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
        };
        // What is refused here was asked for: columns that cannot be hashed or written.
        Repartitioner::builder(Arc::clone(self.workload.schema()), hash)
            .with_reservation_step(side.step)
            // The layout that the published figures are of.
            .with_layout(Layout::Indexed)
            .with_max_buffer_bytes(self.cli.max_buffer)
            .with_compression(compression)
            .build(task, runtime)
            .map_err(|error| Failure::usage(error.strip_backtrace()))
    }

    fn data_path(&self, side: Side, task: usize) -> PathBuf {
        self.folder.join(format!("{}-task-{task}.data", side.name))
    }
}
