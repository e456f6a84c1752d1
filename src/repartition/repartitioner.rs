//! The shuffle writer.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion_common::{Result, config_err, exec_err, plan_err};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::runtime_env::RuntimeEnv;

use crate::exhausted::is_resources_exhausted;
use crate::repartition::buffer::Buffer;
use crate::repartition::builder::RepartitionerBuilder;
use crate::repartition::data_file::DataFile;
use crate::repartition::metrics::RepartitionMetrics;
use crate::repartition::partition_by::PartitionBy;
use crate::repartition::partitioner::Partitioner;
use crate::repartition::shuffle::Shuffle;
use crate::repartition::spill::{BYTES_PER_PARTITION, Spill, SpillInProgress};
use crate::repartition::writer::{PartitionWriter, Spilled};
use crate::stepped_reservation::SteppedReservation;

impl RepartitionerBuilder {
    /// Makes the repartitioner of input `partition`. It reserves memory from the pool of `runtime`,
    /// as a spillable consumer named `ShuffleRepartitioner[<partition>]`, and spills through its
    /// disk manager.
    ///
    /// # Errors
    ///
    /// Where a key is not in the schema, there are no output partitions, split points are not
    /// sorted or not of their keys' types, the batch size is 0, or Arrow IPC cannot hold the
    /// schema.
    pub fn build(self, partition: usize, runtime: &Arc<RuntimeEnv>) -> Result<Repartitioner> {
        if self.batch_size == 0 {
            return config_err!("the batch size of a shuffle must be at least 1 row, not 0");
        }
        // Rows of a batch are numbered with `u32`.
        let batch_size = self.batch_size.min(u32::MAX as usize);
        let partitioner = Partitioner::try_new(&self.by, &self.schema, partition)?;
        let writer =
            PartitionWriter::try_new(Arc::clone(&self.schema), self.compression, batch_size)?;
        let reservation = MemoryConsumer::new(format!("ShuffleRepartitioner[{partition}]"))
            .with_can_spill(true)
            .register(&runtime.memory_pool);
        Ok(Repartitioner {
            buffer: Buffer::new(partitioner.partitions(), self.layout),
            partitioner,
            writer,
            bookkeeping: reservation.new_empty(),
            memory: SteppedReservation::new(reservation)
                .with_step(self.step)
                .with_limit(self.max_buffer_bytes),
            spills: vec![],
            runtime: Arc::clone(runtime),
            metrics: RepartitionMetrics::default(),
            abandoned: false,
            batch_size,
            max_buffer_bytes: self.max_buffer_bytes,
            schema: self.schema,
        })
    }
}

/// A shuffle writer: takes record batches, deals their rows out to output partitions and writes
/// each partition's rows, in the order they came, to one data file with an index. What does not fit
/// into memory is spilled.
///
/// It charges the memory pool for what the rows it buffers keep alive: every distinct allocation
/// once, however many arrays or batches share it, and what it needs to find a partition's rows
/// again; [`Layout`](crate::Layout) has the details. It spills when the pool denies that, or beyond
/// [`with_max_buffer_bytes`](RepartitionerBuilder::with_max_buffer_bytes).
///
/// After an error it has given everything back, files and memory, and only another error can be had
/// from it. (A batch of the wrong schema is refused without that.) Dropped before it is finished,
/// it leaves nothing behind.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{Int64Array, RecordBatch};
/// use datafusion_counting_pool::{PartitionBy, Repartitioner};
/// use datafusion_execution::runtime_env::RuntimeEnv;
///
/// # fn main() -> datafusion_common::Result<()> {
/// let batch = RecordBatch::try_from_iter([("key", Arc::new(Int64Array::from(vec![1, 2, 3])) as _)])?;
/// let runtime = Arc::new(RuntimeEnv::default());
/// let mut writer = Repartitioner::builder(batch.schema(), PartitionBy::hash_columns(["key"], 4))
///     .build(0, &runtime)?;
/// writer.insert_batch(batch)?;
///
/// let folder = tempfile::tempdir()?;
/// let shuffle = writer.finish(folder.path().join("shuffle.data"))?;
/// let mut rows = 0;
/// for partition in 0..shuffle.partitions() {
///     for batch in shuffle.partition(partition)? {
///         rows += batch?.num_rows();
///     }
/// }
/// assert_eq!(rows, 3);
/// # Ok(())
/// # }
/// ```
pub struct Repartitioner {
    schema: SchemaRef,
    partitioner: Partitioner,
    buffer: Buffer,
    memory: SteppedReservation,
    /// For the spills' ranges, apart from the buffer: they stay when it is freed.
    bookkeeping: MemoryReservation,
    spills: Vec<Spill>,
    writer: PartitionWriter,
    runtime: Arc<RuntimeEnv>,
    batch_size: usize,
    max_buffer_bytes: Option<usize>,
    metrics: RepartitionMetrics,
    abandoned: bool,
}

impl fmt::Debug for Repartitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repartitioner")
            .field("partitioner", &self.partitioner)
            .field("memory", &self.memory)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

impl Repartitioner {
    /// Options for a repartitioner of batches of `schema`.
    pub fn builder(schema: SchemaRef, by: PartitionBy) -> RepartitionerBuilder {
        RepartitionerBuilder::new(schema, by)
    }

    /// Takes in a batch, and spills where memory runs out.
    ///
    /// # Errors
    ///
    /// Where the batch is not of the schema, a key cannot be evaluated, a spill fails, or the pool
    /// fails other than by a denial. A denial is an error only where the disk manager is disabled.
    pub fn insert_batch(&mut self, batch: RecordBatch) -> Result<()> {
        self.check_usable()?;
        check_batch(&batch, &self.schema)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.metrics.input_batches += 1;
        self.metrics.input_rows += batch.num_rows() as u64;
        let inserted = self.insert_slices(batch);
        if inserted.is_err() {
            self.abandon();
        }
        inserted
    }

    /// What has been done so far.
    pub fn metrics(&self) -> &RepartitionMetrics {
        &self.metrics
    }

    /// Writes the data file to `data_path` and the index beside it, with `.index` appended to the
    /// name. Both appear complete or not at all, and replace files of these names. They are not
    /// synced to the disk.
    ///
    /// # Errors
    ///
    /// Where an earlier call has failed, a file cannot be written, or a spill file cannot be read.
    pub fn finish(mut self, data_path: impl AsRef<Path>) -> Result<Shuffle> {
        self.check_usable()?;
        let data_path = data_path.as_ref();
        let offsets = self.write_data_file(data_path).map_err(|error| {
            error.context(format!("writing the shuffle {}", data_path.display()))
        })?;
        self.metrics.output_bytes = offsets[offsets.len() - 1];
        self.update_metrics();
        Ok(Shuffle::written(
            data_path.to_owned(),
            self.schema,
            offsets,
            self.metrics,
        ))
    }

    fn check_usable(&self) -> Result<()> {
        if self.abandoned {
            return exec_err!(
                "{} has failed before and holds no rows",
                self.memory.consumer().name()
            );
        }
        Ok(())
    }

    fn insert_slices(&mut self, batch: RecordBatch) -> Result<()> {
        let whole = self.partitioner.next_whole();
        let mut rest = batch;
        while rest.num_rows() > self.batch_size {
            let slice = rest.slice(0, self.batch_size);
            rest = rest.slice(self.batch_size, rest.num_rows() - self.batch_size);
            self.insert_slice(slice, whole)?;
        }
        self.insert_slice(rest, whole)
    }

    fn insert_slice(&mut self, slice: RecordBatch, whole: Option<usize>) -> Result<()> {
        if self.buffer.is_full() {
            self.spill()?;
        }
        let started = Instant::now();
        let bytes = match whole {
            Some(partition) => self.buffer.add_whole(slice, partition)?,
            None => {
                let partitions = self.partitioner.assign(&slice)?;
                self.buffer.add_rows(slice, partitions)?
            }
        };
        self.metrics.partition_time += started.elapsed();
        self.metrics.buffered_bytes += bytes as u64;
        self.charge(bytes)
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        let charged = self.memory.try_charge(bytes);
        self.update_metrics();
        match charged {
            Err(denied) if is_resources_exhausted(&denied) => {
                // The disk manager would tell of its own state; the cause is that there is no
                // memory.
                if !self.runtime.disk_manager.tmp_files_enabled() {
                    return Err(denied);
                }
                self.spill()
            }
            Err(error) => Err(error),
            Ok(())
                if self
                    .max_buffer_bytes
                    .is_some_and(|limit| self.memory.size() > limit) =>
            {
                self.spill()
            }
            Ok(()) => Ok(()),
        }
    }

    fn spill(&mut self) -> Result<()> {
        let description = format!(
            "spill {} of {}",
            self.spills.len() + 1,
            self.memory.consumer().name()
        );
        let spill = self
            .write_spill(&description)
            .map_err(|error| error.context(format!("writing {description}")))?;
        self.buffer.clear();
        let bytes = self.memory.free();
        self.bookkeeping
            .grow(BYTES_PER_PARTITION * self.partitioner.partitions());
        self.metrics.spill_count += 1;
        self.metrics.spilled_bytes += bytes as u64;
        self.metrics.spilled_disk_bytes += spill.bytes();
        self.spills.push(spill);
        self.update_metrics();
        Ok(())
    }

    fn write_spill(&mut self, description: &str) -> Result<Spill> {
        let partitions = self.partitioner.partitions();
        let mut spill = SpillInProgress::create(
            &self.runtime.disk_manager,
            description,
            partitions,
            &self.spills,
        )?;
        for partition in 0..partitions {
            self.writer
                .write_messages(partition, &self.buffer, spill.out())?;
            spill.end_partition();
        }
        spill.finish()
    }

    fn write_data_file(&mut self, path: &Path) -> Result<Vec<u64>> {
        let mut file = DataFile::create(path)?;
        let mut spilled = Spilled::new(&self.spills);
        for partition in 0..self.partitioner.partitions() {
            self.writer
                .write_stream(partition, &mut spilled, &self.buffer, file.out())?;
            file.end_partition();
        }
        file.finish()
    }

    /// Gives everything back after an error.
    fn abandon(&mut self) {
        self.abandoned = true;
        self.buffer.clear();
        self.memory.free();
        self.spills.clear();
        self.bookkeeping.free();
    }

    fn update_metrics(&mut self) {
        // The bookkeeping has grown once with each spill.
        self.metrics.pool_acquisitions = self.memory.acquisitions() + self.metrics.spill_count;
        self.metrics.interleave_time = self.writer.interleave_time;
        self.metrics.write_time = self.writer.write_time;
    }
}

fn check_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<()> {
    let found = batch.schema_ref();
    if Arc::ptr_eq(found, schema) {
        return Ok(());
    }
    if found.fields().len() != schema.fields().len() {
        return plan_err!(
            "a batch has {} columns, the shuffle's schema {}",
            found.fields().len(),
            schema.fields().len()
        );
    }
    for ((field, expected), column) in found
        .fields()
        .iter()
        .zip(schema.fields())
        .zip(batch.columns())
    {
        if field.name() != expected.name() || field.data_type() != expected.data_type() {
            return plan_err!(
                "a batch has the column {:?} of type {}, where the shuffle's schema has {:?} of type {}",
                field.name(),
                field.data_type(),
                expected.name(),
                expected.data_type()
            );
        }
        if !expected.is_nullable() && column.null_count() > 0 {
            return plan_err!(
                "a batch has nulls in the column {:?}, where the shuffle's schema has none",
                field.name()
            );
        }
    }
    Ok(())
}
