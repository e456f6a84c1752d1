//! Writes the rows of one partition after the other.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow_ipc::CompressionType;
use datafusion_common::Result;

use crate::repartition::batch::Batch;
use crate::repartition::buffer::Buffer;
use crate::repartition::decoder::BatchDecoder;
use crate::repartition::gather::Gatherer;
use crate::repartition::messages::{END_OF_STREAM, MessageEncoder};
use crate::repartition::selection::{Run, Selection};
use crate::repartition::spill::{Spill, SpillReader};

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
        self.start_partition()?;
        self.write_buffered(partition, buffer, out)
    }

    /// Writes a partition as an IPC stream: what was spilled and then what is buffered. Nothing is written for an
    /// empty one.
    pub(super) fn write_stream(
        &mut self,
        partition: usize,
        spills: &mut [(&Spill, SpillReader)],
        buffer: &Buffer,
        out: &mut impl Write,
    ) -> Result<()> {
        let spilled: u64 = spills
            .iter()
            .map(|(spill, _)| spill.range(partition).len())
            .sum();
        if spilled == 0 && !buffer.has_rows(partition) {
            return Ok(());
        }
        self.start_partition()?;
        self.timed(|writer| Ok(out.write_all(writer.encoder.schema_message())?))?;
        for (spill, reader) in spills {
            let range = spill.range(partition);
            if range.len() == 0 {
                continue;
            }
            if self.gatherer.has_dictionaries() {
                self.merge_spilled(reader.read(range)?, range.len(), out)?;
            } else {
                // Messages without dictionaries mean the same in every stream of the schema.
                self.timed(|_| reader.copy(range, out))?;
            }
        }
        self.write_buffered(partition, buffer, out)?;
        self.timed(|_| Ok(out.write_all(&END_OF_STREAM)?))
    }

    fn start_partition(&mut self) -> Result<()> {
        self.gatherer.start_partition();
        self.encoder.restart()
    }

    fn write_buffered(
        &mut self,
        partition: usize,
        buffer: &Buffer,
        out: &mut impl Write,
    ) -> Result<()> {
        for selection in buffer.selections(partition, self.batch_size) {
            self.write_selection(buffer.batches(), &selection, out)?;
        }
        Ok(())
    }

    /// Writes spilled messages again with the dictionaries of the partition, where each spill has its own.
    fn merge_spilled(
        &mut self,
        messages: impl Read,
        length: u64,
        out: &mut impl Write,
    ) -> Result<()> {
        let schema = self.encoder.schema_message().to_vec();
        let length = schema.len() as u64 + length + END_OF_STREAM.len() as u64;
        let stream = schema.chain(messages).chain(END_OF_STREAM.as_slice());
        let mut decoder = BatchDecoder::try_new(stream, length)?;
        while let Some(batch) = decoder.next_batch()? {
            let batch = Batch::try_new(batch)?;
            let whole = Selection::Runs(vec![Run {
                batch: 0,
                start: 0,
                len: batch.rows as u32,
            }]);
            self.write_selection(&[batch], &whole, out)?;
            self.gatherer.forget_sources();
        }
        Ok(())
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
