//! The rows in memory, and which of them belong to which partition.

use arrow::array::RecordBatch;

use crate::repartition::allocations::Allocations;

/// Rows `start .. start + len` of buffered batch `batch`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) batch: u32,
    pub(super) start: u32,
    pub(super) len: u32,
}

/// Row `.1` of buffered batch `.0`.
pub(super) type RowIndex = (u32, u32);

/// Some rows of one partition, in input order.
#[derive(Debug)]
pub(super) enum Selection<'a> {
    Rows(&'a [RowIndex]),
    Runs(Vec<Run>),
}

/// Batches in memory and, for each partition, its rows among them in input order.
#[derive(Debug)]
pub(super) struct Buffer {
    batches: Vec<RecordBatch>,
    allocations: Allocations,
    /// Row by row, where rows are dealt out singly: the index vectors.
    rows: Vec<Vec<RowIndex>>,
    /// Batch by batch, where they are dealt out whole.
    runs: Vec<Vec<Run>>,
    /// How many rows of the batch being added go to each partition; all 0 in between.
    counts: Vec<u32>,
    max_batches: usize,
}

impl Buffer {
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            batches: vec![],
            allocations: Allocations::default(),
            rows: vec![vec![]; partitions],
            runs: vec![vec![]; partitions],
            counts: vec![0; partitions],
            max_batches: u32::MAX as usize,
        }
    }

    /// Whether the next batch would have no number.
    pub(super) fn is_full(&self) -> bool {
        self.batches.len() >= self.max_batches
    }

    pub(super) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Adds all rows of `batch` to `partition`, and gives the bytes charged for it.
    pub(super) fn add_whole(&mut self, batch: RecordBatch, partition: usize) -> usize {
        let run = Run {
            batch: self.batches.len() as u32,
            start: 0,
            len: batch.num_rows() as u32,
        };
        self.runs[partition].push(run);
        self.push(batch)
    }

    /// Adds the rows of `batch` to their `partitions`, and gives the bytes charged for it: new allocations, and
    /// by how much the index vectors grew.
    pub(super) fn add_rows(&mut self, batch: RecordBatch, partitions: &[u32]) -> usize {
        let number = self.batches.len() as u32;
        // Only what the batch touches is visited: with many partitions a small batch must stay cheap.
        let mut touched = vec![];
        for &partition in partitions {
            let count = &mut self.counts[partition as usize];
            if *count == 0 {
                touched.push(partition);
            }
            *count += 1;
        }
        let mut growth = 0;
        for partition in touched {
            let count = std::mem::take(&mut self.counts[partition as usize]);
            let rows = &mut self.rows[partition as usize];
            let before = rows.capacity();
            rows.reserve(count as usize);
            growth += (rows.capacity() - before) * size_of::<RowIndex>();
        }
        for (row, &partition) in partitions.iter().enumerate() {
            self.rows[partition as usize].push((number, row as u32));
        }
        growth + self.push(batch)
    }

    fn push(&mut self, batch: RecordBatch) -> usize {
        let bytes = self.allocations.add(&batch);
        self.batches.push(batch);
        bytes
    }

    pub(super) fn has_rows(&self, partition: usize) -> bool {
        !self.rows[partition].is_empty() || !self.runs[partition].is_empty()
    }

    /// The rows of `partition`, at most `max_rows` at a time.
    pub(super) fn selections(
        &self,
        partition: usize,
        max_rows: usize,
    ) -> impl Iterator<Item = Selection<'_>> {
        let rows = self.rows[partition].chunks(max_rows).map(Selection::Rows);
        let runs = Chunks {
            runs: &self.runs[partition],
            max_rows,
            taken: 0,
        }
        .map(Selection::Runs);
        rows.chain(runs)
    }

    /// Drops everything, the capacity of the index vectors too: it is charged anew when it grows again.
    pub(super) fn clear(&mut self) {
        self.batches = vec![];
        self.allocations.clear();
        self.rows.iter_mut().for_each(|rows| *rows = vec![]);
        self.runs.iter_mut().for_each(|runs| *runs = vec![]);
    }
}

/// Cuts runs into groups of `max_rows` rows; the last may have fewer.
struct Chunks<'a> {
    runs: &'a [Run],
    max_rows: usize,
    /// Rows of the first run that are in earlier groups.
    taken: u32,
}

impl Iterator for Chunks<'_> {
    type Item = Vec<Run>;

    fn next(&mut self) -> Option<Vec<Run>> {
        let mut chunk = vec![];
        let mut room = u32::try_from(self.max_rows).unwrap_or(u32::MAX);
        while let Some(first) = self.runs.first()
            && room > 0
        {
            let len = room.min(first.len - self.taken);
            chunk.push(Run {
                batch: first.batch,
                start: first.start + self.taken,
                len,
            });
            room -= len;
            self.taken += len;
            if self.taken == first.len {
                self.runs = &self.runs[1..];
                self.taken = 0;
            }
        }
        (!chunk.is_empty()).then_some(chunk)
    }
}
