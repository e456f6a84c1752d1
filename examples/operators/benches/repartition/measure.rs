//! Rounds in which the contenders take turns.

use crate::contenders::{Contender, Output, REPARTITION_EXEC};
use crate::lineitem::Lineitem;
use crate::rows::check_same;
use arrow_ipc::CompressionType;
use datafusion_common::Result;
use datafusion_counting_pool::{CountingPool, Snapshot};
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What every contender is to do, and how often.
pub(crate) struct Task<'a> {
    pub(crate) lineitem: &'a Lineitem,
    pub(crate) partitions: usize,
    pub(crate) folder: &'a Path,
    pub(crate) rounds: usize,
}

/// All contenders, with one compression. The first is what the others are compared with.
pub(crate) struct Measured {
    pub(crate) compression: Option<CompressionType>,
    pub(crate) contenders: Vec<(Contender, Figures)>,
}

/// Of one contender.
pub(crate) struct Figures {
    /// The median.
    pub(crate) rows_per_s: f64,
    /// The median of the rounds' ratios to the first contender, or the first under the same
    /// memory limit.
    pub(crate) ratio: f64,
    pub(crate) cost: Cost,
}

/// What does not depend on the machine's mood.
pub(crate) struct Cost {
    /// Bytes of the most memory allocated at once by the thread that writes, beyond the input.
    pub(crate) peak_heap: u64,
    pub(crate) pool: Snapshot,
    /// Bytes written to files of the output.
    pub(crate) output_bytes: u64,
    pub(crate) spills: u64,
}

impl Task<'_> {
    pub(crate) fn measure_each(&self, contenders: &[Contender]) -> Result<Vec<Measured>> {
        [None, Some(CompressionType::LZ4_FRAME)]
            .into_iter()
            .map(|compression| self.measure(contenders, compression))
            .collect()
    }

    fn measure(
        &self,
        contenders: &[Contender],
        compression: Option<CompressionType>,
    ) -> Result<Measured> {
        let costs = self.check(contenders, compression)?;
        let mut rounds = vec![];
        for round in 0..self.rounds {
            let mut took = vec![Duration::ZERO; contenders.len()];
            let mut turns: Vec<_> = (0..contenders.len()).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for turn in turns {
                took[turn] = self.time(contenders[turn], compression)?;
            }
            rounds.push(took.iter().map(Duration::as_secs_f64).collect::<Vec<_>>());
        }
        let figures = costs.into_iter().enumerate().map(|(i, cost)| {
            let base = contenders
                .iter()
                .position(|base| base.memory == contenders[i].memory)
                .unwrap_or(i);
            Figures {
                rows_per_s: self.lineitem.rows as f64 / median(rounds.iter().map(|took| took[i])),
                ratio: median(rounds.iter().map(|took| took[base] / took[i])),
                cost,
            }
        });
        Ok(Measured {
            compression,
            contenders: contenders.iter().copied().zip(figures).collect(),
        })
    }

    /// Lets each write once, untimed, and compares what it wrote with what `RepartitionExec` did.
    fn check(
        &self,
        contenders: &[Contender],
        compression: Option<CompressionType>,
    ) -> Result<Vec<Cost>> {
        let folder = tempfile::tempdir_in(self.folder)?;
        let (_, expected) = self.write(REPARTITION_EXEC, compression, folder.path())?;
        contenders
            .iter()
            .map(|contender| {
                let folder = tempfile::tempdir_in(self.folder)?;
                let mut written = None;
                let allocated = allocation_counter::measure(|| {
                    written = Some(self.write(*contender, compression, folder.path()));
                });
                let (pool, output) = written.expect("it ran")?;
                let schema = &self.lineitem.schema;
                let name = format!("{contender:?}");
                check_same(&output, &expected, schema, self.partitions, &name)?;
                Ok(Cost {
                    peak_heap: allocated.bytes_max,
                    pool: pool.snapshot(),
                    output_bytes: bytes_in(folder.path())?,
                    spills: output.spills,
                })
            })
            .collect()
    }

    fn time(&self, contender: Contender, compression: Option<CompressionType>) -> Result<Duration> {
        // The folder goes with its files before the next turn, dirty pages and all.
        let folder = tempfile::tempdir_in(self.folder)?;
        let started = Instant::now();
        self.write(contender, compression, folder.path())?;
        Ok(started.elapsed())
    }

    fn write(
        &self,
        contender: Contender,
        compression: Option<CompressionType>,
        folder: &Path,
    ) -> Result<(Arc<CountingPool>, Output)> {
        let inner: Arc<dyn MemoryPool> = match contender.memory {
            Some(bytes) => Arc::new(GreedyMemoryPool::new(bytes)),
            None => Arc::new(UnboundedMemoryPool::default()),
        };
        let pool = Arc::new(CountingPool::new(inner));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(pool.clone())
            .with_temp_file_path(folder)
            .build_arc()?;
        let output = contender.write(
            self.lineitem,
            self.partitions,
            compression,
            &runtime,
            folder,
        )?;
        Ok((pool, output))
    }
}

fn bytes_in(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let metadata = entry?.metadata()?;
        if metadata.is_file() {
            bytes += metadata.len();
        }
    }
    Ok(bytes)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
