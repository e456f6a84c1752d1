//! The shuffle writer.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_ipc::CompressionType;
use datafusion_common::{Result, config_err, exec_err, plan_err};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::runtime_env::RuntimeEnv;

use crate::exhausted::is_resources_exhausted;
use crate::repartition::buffer::Buffer;
use crate::repartition::data_file::DataFile;
use crate::repartition::gather::gather;
use crate::repartition::messages::{END_OF_STREAM, MessageEncoder};
use crate::repartition::metrics::RepartitionMetrics;
use crate::repartition::partition_by::PartitionBy;
use crate::repartition::partitioner::Partitioner;
use crate::repartition::shuffle::Shuffle;
use crate::repartition::spill::{BYTES_PER_PARTITION, Spill, SpillInProgress};
use crate::stepped_reservation::{DEFAULT_STEP, SteppedReservation};

/// Options of a [`Repartitioner`].
#[derive(Clone, Debug)]
pub struct RepartitionerBuilder {
    schema: SchemaRef,
    by: PartitionBy,
    step: usize,
    max_buffer_bytes: Option<usize>,
    batch_size: usize,
    compression: Option<CompressionType>,
}

impl RepartitionerBuilder {
    /// The step in which the memory reservation grows, in bytes: [`DEFAULT_STEP`] unless set. 0 means exact
    /// growth, one pool call for each batch.
    pub fn with_reservation_step(mut self, step: usize) -> Self {
        self.step = step;
        self
    }

    /// Spills as soon as more than this many bytes are buffered, whatever the pool would grant; a batch may
    /// overshoot it by its own size. With `None`, the default, only the pool's denials make it spill.
    pub fn with_max_buffer_bytes(mut self, limit: Option<usize>) -> Self {
        self.max_buffer_bytes = limit;
        self
    }

    /// The rows of an output batch, at most: 8,192 unless set. Larger input batches are taken in by slices of
    /// this size.
    pub fn with_batch_size(mut self, rows: usize) -> Self {
        self.batch_size = rows;
        self
    }

    /// How the buffers of the Arrow IPC messages are compressed: not at all unless set.
    pub fn with_compression(mut self, compression: Option<CompressionType>) -> Self {
        self.compression = compression;
        self
    }

    /// Makes the repartitioner of input `partition`. It reserves memory from the pool of `runtime`, as a spillable
    /// consumer named `ShuffleRepartitioner[<partition>]`, and spills through its disk manager.
    ///
    /// # Errors
    ///
    /// Where a key is not in the schema, there are no output partitions, split points are not sorted or not of
    /// their keys' types, the batch size is 0, or Arrow IPC cannot hold the schema.
    pub fn build(self, partition: usize, runtime: &Arc<RuntimeEnv>) -> Result<Repartitioner> {
        if self.batch_size == 0 {
            return config_err!("the batch size of a shuffle must be at least 1 row, not 0");
        }
        let partitioner = Partitioner::try_new(&self.by, &self.schema, partition)?;
        let encoder = MessageEncoder::try_new(Arc::clone(&self.schema), self.compression)?;
        let reservation = MemoryConsumer::new(format!("ShuffleRepartitioner[{partition}]"))
            .with_can_spill(true)
            .register(&runtime.memory_pool);
        Ok(Repartitioner {
            buffer: Buffer::new(partitioner.partitions()),
            partitioner,
            encoder,
            bookkeeping: reservation.new_empty(),
            memory: SteppedReservation::new(reservation)
                .with_step(self.step)
                .with_limit(self.max_buffer_bytes),
            spills: vec![],
            runtime: Arc::clone(runtime),
            metrics: RepartitionMetrics::default(),
            abandoned: false,
            // Rows of a batch are numbered with `u32`.
            batch_size: self.batch_size.min(u32::MAX as usize),
            max_buffer_bytes: self.max_buffer_bytes,
            schema: self.schema,
        })
    }
}

/// A shuffle writer: takes record batches, deals their rows out to output partitions and writes each partition's
/// rows, in the order they came, to one data file with an index. What does not fit into memory is spilled.
///
/// It charges the memory pool for what the buffered batches keep alive: every distinct allocation behind them
/// once, however many arrays or batches share it, and the index vectors, 8 bytes for each row's place and as many
/// again while they double.
///
/// After an error it has given everything back, files and memory, and only another error can be had from it. (A
/// batch of the wrong schema is refused without that.) Dropped before it is finished, it leaves nothing behind.
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
/// let mut writer = Repartitioner::builder(batch.schema(), PartitionBy::hash_columns(["key"], 4)).build(0, &runtime)?;
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
    /// The spills' ranges, beside the buffer: they stay when it is freed.
    bookkeeping: MemoryReservation,
    spills: Vec<Spill>,
    encoder: MessageEncoder,
    runtime: Arc<RuntimeEnv>,
    batch_size: usize,
    max_buffer_bytes: Option<usize>,
    metrics: RepartitionMetrics,
    abandoned: bool,
}

impl std::fmt::Debug for Repartitioner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        RepartitionerBuilder {
            schema,
            by,
            step: DEFAULT_STEP,
            max_buffer_bytes: None,
            batch_size: 8192,
            compression: None,
        }
    }

    /// Takes in a batch, and spills where memory runs out.
    ///
    /// # Errors
    ///
    /// Where the batch is not of the schema, a key cannot be evaluated, a spill fails, or the pool fails other than
    /// by a denial. A denial is an error only where the disk manager is disabled.
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

    /// Writes the data file to `data_path` and the index beside it, with `.index` appended to the name. Both
    /// appear complete or not at all, and replace files of these names. They are not synced to the disk.
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
        if batch.num_rows() <= self.batch_size {
            return self.insert_slice(batch, whole);
        }
        for start in (0..batch.num_rows()).step_by(self.batch_size) {
            let rows = self.batch_size.min(batch.num_rows() - start);
            self.insert_slice(batch.slice(start, rows), whole)?;
        }
        Ok(())
    }

    fn insert_slice(&mut self, slice: RecordBatch, whole: Option<usize>) -> Result<()> {
        if self.buffer.is_full() {
            self.spill()?;
        }
        let started = Instant::now();
        let bytes = match whole {
            Some(partition) => self.buffer.add_whole(slice, partition),
            None => {
                let partitions = self.partitioner.assign(&slice)?;
                self.buffer.add_rows(slice, partitions)
            }
        };
        self.metrics.partition_time += started.elapsed();
        self.metrics.buffered_bytes += bytes as u64;
        self.charge(bytes)
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        let charged = self.memory.try_charge(bytes);
        self.count_acquisitions();
        match charged {
            Err(denied) if is_resources_exhausted(&denied) => {
                // The disk manager would tell of its own state; the cause is that there is no memory.
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
        self.count_acquisitions();
        Ok(())
    }

    fn write_spill(&mut self, description: &str) -> Result<Spill> {
        let partitions = self.partitioner.partitions();
        let mut spill =
            SpillInProgress::create(&self.runtime.disk_manager, description, partitions)?;
        for partition in 0..partitions {
            self.write_buffered(partition, spill.out())?;
            spill.end_partition();
        }
        let started = Instant::now();
        let spill = spill.finish()?;
        self.metrics.write_time += started.elapsed();
        Ok(spill)
    }

    fn write_data_file(&mut self, path: &Path) -> Result<Vec<u64>> {
        let mut file = DataFile::create(path)?;
        let mut spilled = self
            .spills
            .iter()
            .map(Spill::open)
            .collect::<Result<Vec<_>>>()?;
        for partition in 0..self.partitioner.partitions() {
            let ranges: Vec<_> = self
                .spills
                .iter()
                .map(|spill| spill.range(partition))
                .collect();
            let empty =
                ranges.iter().all(|range| range.is_empty()) && !self.buffer.has_rows(partition);
            if !empty {
                let started = Instant::now();
                file.out().write_all(self.encoder.schema_message())?;
                for (reader, range) in spilled.iter_mut().zip(ranges) {
                    reader.copy(range, file.out())?;
                }
                self.metrics.write_time += started.elapsed();
                self.write_buffered(partition, file.out())?;
                file.out().write_all(&END_OF_STREAM)?;
            }
            file.end_partition();
        }
        let started = Instant::now();
        let offsets = file.finish()?;
        self.metrics.write_time += started.elapsed();
        Ok(offsets)
    }

    /// Writes the messages of a partition's buffered rows.
    fn write_buffered(&mut self, partition: usize, out: &mut impl Write) -> Result<()> {
        self.encoder.restart()?;
        for selection in self.buffer.selections(partition, self.batch_size) {
            let started = Instant::now();
            let batch = gather(&self.schema, self.buffer.batches(), &selection)?;
            let gathered = started.elapsed();
            self.encoder.write(&batch, out)?;
            self.metrics.interleave_time += gathered;
            self.metrics.write_time += started.elapsed() - gathered;
        }
        Ok(())
    }

    /// Gives everything back after an error.
    fn abandon(&mut self) {
        self.abandoned = true;
        self.buffer.clear();
        self.memory.free();
        self.spills.clear();
        self.bookkeeping.free();
    }

    fn count_acquisitions(&mut self) {
        // The bookkeeping has grown once with each spill.
        self.metrics.pool_acquisitions = self.memory.acquisitions() + self.metrics.spill_count;
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
