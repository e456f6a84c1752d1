//! All rows of a partition, wherever they are.

use std::collections::VecDeque;
use std::io::Read;
use std::slice;

use datafusion_common::{Result, internal_err};

use crate::repartition::batch::Batch;
use crate::repartition::buffer::Buffer;
use crate::repartition::decoder::BatchDecoder;
use crate::repartition::messages::END_OF_STREAM;
use crate::repartition::selection::{Run, Selection};
use crate::repartition::spill::SpillReader;

/// Some rows of a partition: all of a batch that was spilled, or some that are buffered.
pub(super) struct Part<'a> {
    pub(super) spilled: Option<Batch>,
    pub(super) selection: Selection<'a>,
}

impl Part<'_> {
    /// The batches that the selection is of.
    pub(super) fn batches<'a>(&'a self, buffer: &'a Buffer) -> &'a [Batch] {
        match &self.spilled {
            Some(batch) => slice::from_ref(batch),
            None => buffer.batches(),
        }
    }
}

/// The rows of a partition in input order: what was spilled, decoded as it is asked for, and what
/// is buffered.
pub(super) struct Parts<'a, 's> {
    partition: usize,
    spills: slice::IterMut<'a, SpillReader<'s>>,
    schema_message: &'a [u8],
    decoder: Option<BatchDecoder<Box<dyn Read + 'a>>>,
    buffered: Box<dyn Iterator<Item = Selection<'a>> + 'a>,
    /// What is left of the last buffered selection.
    queue: VecDeque<Selection<'a>>,
}

impl<'a, 's> Parts<'a, 's> {
    /// `schema_message` is what spilled messages would follow in a stream.
    pub(super) fn new(
        partition: usize,
        spills: &'a mut [SpillReader<'s>],
        buffer: &'a Buffer,
        schema_message: &'a [u8],
        batch_size: usize,
    ) -> Self {
        Self {
            partition,
            spills: spills.iter_mut(),
            schema_message,
            decoder: None,
            buffered: Box::new(buffer.selections(partition, batch_size)),
            queue: VecDeque::new(),
        }
    }

    /// The next rows, as many as are of one batch.
    pub(super) fn next_of_one_batch(&mut self) -> Result<Option<Part<'a>>> {
        if let Some(part) = self.next_spilled()? {
            return Ok(Some(part));
        }
        if self.queue.is_empty() {
            self.queue
                .extend(self.buffered.next().iter().flat_map(Selection::by_batch));
        }
        Ok(self.queue.pop_front().map(buffered))
    }

    /// The next rows, as many as make an output batch, but at most `max_rows`. Batches that were
    /// spilled are not cut.
    pub(super) fn next(&mut self, max_rows: usize) -> Result<Option<Part<'a>>> {
        if let Some(part) = self.next_spilled()? {
            if part.selection.len() > max_rows {
                return internal_err!(
                    "a spilled batch has {} rows, not {max_rows}",
                    part.selection.len()
                );
            }
            return Ok(Some(part));
        }
        let Some(selection) = self.queue.pop_front().or_else(|| self.buffered.next()) else {
            return Ok(None);
        };
        let rows = selection.len();
        if rows <= max_rows {
            return Ok(Some(buffered(selection)));
        }
        self.queue.push_front(selection.slice(max_rows..rows));
        Ok(Some(buffered(selection.slice(0..max_rows))))
    }

    fn next_spilled(&mut self) -> Result<Option<Part<'a>>> {
        loop {
            if let Some(decoder) = &mut self.decoder {
                if let Some(batch) = decoder.next_batch()? {
                    let batch = Batch::try_new(batch)?;
                    let whole = Run {
                        batch: 0,
                        start: 0,
                        len: batch.rows as u32,
                    };
                    return Ok(Some(Part {
                        selection: Selection::Runs(vec![whole]),
                        spilled: Some(batch),
                    }));
                }
                self.decoder = None;
            }
            let Some(spill) = self.spills.next() else {
                return Ok(None);
            };
            let Some((messages, length)) = spill.read(self.partition)? else {
                continue;
            };
            let (start, end) = (self.schema_message, &END_OF_STREAM[..]);
            let length = start.len() as u64 + length + end.len() as u64;
            let stream: Box<dyn Read> = Box::new(start.chain(messages).chain(end));
            self.decoder = Some(BatchDecoder::try_new(stream, length)?);
        }
    }
}

fn buffered(selection: Selection<'_>) -> Part<'_> {
    Part {
        spilled: None,
        selection,
    }
}
