//! Writes the rows of one partition after the other.

use std::io::Write;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow_ipc::CompressionType;
use datafusion_common::{Result, internal_err};

use crate::repartition::batch::Batch;
use crate::repartition::buffer::Buffer;
use crate::repartition::gather::Gatherer;
use crate::repartition::messages::{END_OF_STREAM, MessageEncoder};
use crate::repartition::parts::{Part, Parts};
use crate::repartition::selection::Selection;
use crate::repartition::spill::{Spill, SpillReader};

/// Reads what was spilled, partition after partition.
pub(super) struct Spilled<'a> {
    readers: Vec<SpillReader<'a>>,
    /// To look at the rows of a partition before they are read.
    scouts: Vec<SpillReader<'a>>,
}

impl<'a> Spilled<'a> {
    pub(super) fn new(spills: &'a [Spill]) -> Self {
        Self {
            readers: SpillReader::for_all(spills),
            scouts: SpillReader::for_all(spills),
        }
    }
}

/// Gathers, encodes and writes, and measures how long that takes.
#[derive(Debug)]
pub(super) struct PartitionWriter {
    gatherer: Gatherer,
    encoder: MessageEncoder,
    batch_size: usize,
    pub(super) interleave_time: Duration,
    pub(super) write_time: Duration,
}

impl PartitionWriter {
    pub(super) fn try_new(
        schema: SchemaRef,
        compression: Option<CompressionType>,
        batch_size: usize,
    ) -> Result<Self> {
        Ok(Self {
            gatherer: Gatherer::try_new(SchemaRef::clone(&schema))?,
            encoder: MessageEncoder::try_new(schema, compression)?,
            batch_size,
            interleave_time: Duration::ZERO,
            write_time: Duration::ZERO,
        })
    }

    /// Writes the messages of a partition's buffered rows, for a spill.
    pub(super) fn write_messages(
        &mut self,
        partition: usize,
        buffer: &Buffer,
        out: &mut impl Write,
    ) -> Result<()> {
        if self.gatherer.has_dictionaries() {
            return self.write_with_dictionaries(partition, &mut Spilled::new(&[]), buffer, out);
        }
        for selection in buffer.selections(partition, self.batch_size) {
            self.write_selection(buffer.batches(), &selection, out)?;
        }
        Ok(())
    }

    /// Writes a partition as an IPC stream: what was spilled and then what is buffered. Nothing is
    /// written for an empty one.
    pub(super) fn write_stream(
        &mut self,
        partition: usize,
        spilled: &mut Spilled<'_>,
        buffer: &Buffer,
        out: &mut impl Write,
    ) -> Result<()> {
        let mut readers = spilled.readers.iter();
        if !buffer.has_rows(partition) && !readers.any(|reader| reader.has_rows(partition)) {
            return Ok(());
        }
        self.timed(|writer| Ok(out.write_all(writer.encoder.schema_message())?))?;
        if self.gatherer.has_dictionaries() {
            self.write_with_dictionaries(partition, spilled, buffer, out)?;
        } else {
            // Messages without dictionaries mean the same in every stream of the schema.
            self.timed(|_| {
                spilled
                    .readers
                    .iter_mut()
                    .try_for_each(|reader| reader.copy(partition, out))
            })?;
            self.write_messages(partition, buffer, out)?;
        }
        self.timed(|_| Ok(out.write_all(&END_OF_STREAM)?))
    }

    /// Writes the messages of a partition such that each value that a dictionary is used for is
    /// written once, or as seldom as the number of keys allows. For that all rows are looked at
    /// before they are written, and those of spills, which have dictionaries of their own, are
    /// decoded and encoded again.
    fn write_with_dictionaries(
        &mut self,
        partition: usize,
        spilled: &mut Spilled<'_>,
        buffer: &Buffer,
        out: &mut impl Write,
    ) -> Result<()> {
        self.encoder.restart()?;
        let schema = self.encoder.schema_message().to_vec();
        let mut scouted = Parts::new(
            partition,
            &mut spilled.scouts,
            buffer,
            &schema,
            self.batch_size,
        );
        let mut written = Parts::new(
            partition,
            &mut spilled.readers,
            buffer,
            &schema,
            self.batch_size,
        );
        let mut ahead = scouted.next_of_one_batch()?;
        while ahead.is_some() {
            self.gatherer.reset();
            let mut rows = 0;
            while let Some(part) = ahead.take() {
                let started = Instant::now();
                let learned = self.gatherer.learn(part.batches(buffer), &part.selection)?;
                self.interleave_time += started.elapsed();
                if !learned {
                    ahead = Some(part);
                    break;
                }
                rows += part.selection.len();
                self.forget(&part);
                ahead = scouted.next_of_one_batch()?;
            }
            if rows == 0 {
                return internal_err!("a dictionary has more values in use than it has keys");
            }
            while rows > 0 {
                let Some(part) = written.next(rows)? else {
                    return internal_err!("partition {partition} has fewer rows than it had");
                };
                rows -= part.selection.len();
                self.write_selection(part.batches(buffer), &part.selection, out)?;
                self.forget(&part);
            }
        }
        Ok(())
    }

    fn forget(&mut self, part: &Part<'_>) {
        if part.spilled.is_some() {
            self.gatherer.forget_sources();
        }
    }

    fn write_selection(
        &mut self,
        batches: &[Batch],
        selection: &Selection<'_>,
        out: &mut impl Write,
    ) -> Result<()> {
        let started = Instant::now();
        let gathered = self.gatherer.gather(batches, selection)?;
        self.interleave_time += started.elapsed();
        self.timed(|writer| {
            gathered
                .iter()
                .try_for_each(|batch| writer.encoder.write(batch, out))
        })
    }

    fn timed<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let started = Instant::now();
        let written = write(self);
        self.write_time += started.elapsed();
        written
    }
}
