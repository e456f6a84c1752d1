//! The ways to write a shuffle that are compared.

use crate::lineitem::{BATCH_ROWS, Lineitem};
use arrow::array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion_common::{DataFusionError, Result};
use datafusion_counting_pool::{DEFAULT_STEP, Layout, PartitionBy, Repartitioner, Shuffle};
use datafusion_execution::config::SessionConfig;
use datafusion_execution::runtime_env::RuntimeEnv;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::Partitioning;
use datafusion_physical_expr::expressions::col;
use datafusion_physical_plan::repartition::RepartitionExec;
use datafusion_physical_plan::test::TestMemoryExec;
use datafusion_physical_plan::{ExecutionPlan, execute_stream_partitioned};
use futures::TryStreamExt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::JoinSet;

const KEY: &str = "l_orderkey";

/// As large as the one that a `Repartitioner` writes its file through.
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// One way to write a shuffle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Contender {
    pub(crate) writer: Writer,
    /// Bytes that the memory pool grants; without a limit, all that are asked for.
    pub(crate) memory: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Writer {
    RepartitionExec,
    Repartitioner {
        /// The default's unless given.
        layout: Option<Layout>,
        step: usize,
    },
}

pub(crate) const REPARTITION_EXEC: Contender = Contender {
    writer: Writer::RepartitionExec,
    memory: None,
};

/// A `Repartitioner` as it comes.
pub(crate) const DEFAULT: Contender = Contender {
    writer: Writer::Repartitioner {
        layout: None,
        step: DEFAULT_STEP,
    },
    memory: None,
};

impl Contender {
    /// All of them, without and with memory pressure: a limit of an eighth of the input.
    pub(crate) fn all(input_bytes: usize) -> Vec<Self> {
        let mut all = vec![];
        for memory in [None, Some(input_bytes / 8)] {
            let writer = Writer::RepartitionExec;
            all.push(Self { writer, memory });
            for layout in [Layout::Reordered, Layout::Indexed] {
                for step in [DEFAULT_STEP, 0] {
                    let layout = Some(layout);
                    let writer = Writer::Repartitioner { layout, step };
                    all.push(Self { writer, memory });
                }
            }
        }
        all
    }

    /// Writes all of `lineitem` to files in `folder`.
    pub(crate) fn write(
        self,
        lineitem: &Lineitem,
        partitions: usize,
        compression: Option<CompressionType>,
        runtime: &Arc<RuntimeEnv>,
        folder: &Path,
    ) -> Result<Output> {
        match self.writer {
            Writer::RepartitionExec => {
                repartition_exec(lineitem, partitions, compression, runtime, folder)
            }
            Writer::Repartitioner { layout, step } => {
                let by = PartitionBy::hash_columns([KEY], partitions);
                let mut builder = Repartitioner::builder(lineitem.schema.clone(), by)
                    .with_batch_size(BATCH_ROWS)
                    .with_compression(compression)
                    .with_reservation_step(step);
                if let Some(layout) = layout {
                    builder = builder.with_layout(layout);
                }
                let mut repartitioner = builder.build(0, runtime)?;
                for batch in &lineitem.batches {
                    repartitioner.insert_batch(batch.clone())?;
                }
                let shuffle = repartitioner.finish(folder.join("shuffle.data"))?;
                Ok(Output {
                    spills: shuffle.metrics().spill_count,
                    files: Files::Shuffle(shuffle),
                })
            }
        }
    }
}

fn repartition_exec(
    lineitem: &Lineitem,
    partitions: usize,
    compression: Option<CompressionType>,
    runtime: &Arc<RuntimeEnv>,
    folder: &Path,
) -> Result<Output> {
    let batches = std::slice::from_ref(&lineitem.batches);
    let input = TestMemoryExec::try_new_exec(batches, lineitem.schema.clone(), None)?;
    let key = col(KEY, &lineitem.schema)?;
    let plan = RepartitionExec::try_new(input, Partitioning::Hash(vec![key], partitions))?;
    let plan = Arc::new(plan);
    let context = TaskContext::default()
        .with_session_config(SessionConfig::new().with_batch_size(BATCH_ROWS))
        .with_runtime(Arc::clone(runtime));
    let options = IpcWriteOptions::default().try_with_compression(compression)?;
    let streams = execute_stream_partitioned(plan.clone(), Arc::new(context))?;
    tokio::runtime::Builder::new_current_thread()
        .build()?
        .block_on(async {
            let mut tasks = JoinSet::new();
            for (partition, stream) in streams.into_iter().enumerate() {
                let path = partition_path(folder, partition);
                tasks.spawn(write_partition(stream, path, options.clone()));
            }
            while let Some(written) = tasks.join_next().await {
                written.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
            }
            Ok::<_, DataFusionError>(())
        })?;
    let spills = plan.metrics().and_then(|metrics| metrics.spill_count());
    Ok(Output {
        spills: spills.unwrap_or(0) as u64,
        files: Files::Streams(folder.to_owned()),
    })
}

async fn write_partition(
    mut stream: SendableRecordBatchStream,
    path: PathBuf,
    options: IpcWriteOptions,
) -> Result<()> {
    let file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, File::create(path)?);
    let mut writer = StreamWriter::try_new_with_options(file, &stream.schema(), options)?;
    while let Some(batch) = stream.try_next().await? {
        writer.write(&batch)?;
    }
    Ok(writer.into_inner()?.flush()?)
}

fn partition_path(folder: &Path, partition: usize) -> PathBuf {
    folder.join(format!("{partition}.arrow"))
}

/// What was written.
pub(crate) struct Output {
    pub(crate) spills: u64,
    files: Files,
}

enum Files {
    Shuffle(Shuffle),
    /// A folder with a file for each partition.
    Streams(PathBuf),
}

impl Output {
    pub(crate) fn partition(&self, partition: usize) -> Result<Vec<RecordBatch>> {
        match &self.files {
            Files::Shuffle(shuffle) => shuffle.partition(partition)?.collect(),
            Files::Streams(folder) => {
                let file = BufReader::new(File::open(partition_path(folder, partition))?);
                let batches = StreamReader::try_new(file, None)?;
                Ok(batches.collect::<Result<_, _>>()?)
            }
        }
    }
}
