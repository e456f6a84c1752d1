//! The rows in memory, and which of them belong to which partition.

use arrow::array::{RecordBatch, UInt32Array};
use datafusion_common::Result;

use crate::repartition::allocations::Allocations;
use crate::repartition::batch::Batch;
use crate::repartition::layout::Layout;
use crate::repartition::selection::{Chunks, RowIndex, Run, Selection};

/// Batches in memory and, for each partition, its rows among them in input order.
#[derive(Debug)]
pub(super) struct Buffer {
    layout: Layout,
    batches: Vec<Batch>,
    allocations: Allocations,
    /// Row by row: the index vectors of [`Layout::Indexed`].
    rows: Vec<Vec<RowIndex>>,
    /// Run by run: of [`Layout::Reordered`], and of batches that are dealt out whole.
    runs: Vec<Vec<Run>>,
    /// How many rows of the batch being added go to each partition; all 0 in between.
    counts: Vec<u32>,
    max_batches: usize,
}

impl Buffer {
    pub(super) fn new(partitions: usize, layout: Layout) -> Self {
        Self {
            layout,
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

    pub(super) fn batches(&self) -> &[Batch] {
        &self.batches
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
        let runs = Chunks::new(&self.runs[partition], max_rows).map(Selection::Runs);
        rows.chain(runs)
    }

    /// Adds all rows of `batch` to `partition`, and gives the bytes charged for it: those of new
    /// allocations.
    pub(super) fn add_whole(&mut self, batch: RecordBatch, partition: usize) -> Result<usize> {
        let run = Run {
            batch: self.next_number(),
            start: 0,
            len: batch.num_rows() as u32,
        };
        self.runs[partition].push(run);
        Ok(self.push(Batch::try_new(batch)?))
    }

    /// Adds the rows of `batch` to their `partitions`, and gives the bytes charged for it: those of
    /// new allocations, and those by which the vectors of indices or runs grew.
    pub(super) fn add_rows(&mut self, batch: RecordBatch, partitions: &[u32]) -> Result<usize> {
        let batch = Batch::try_new(batch)?;
        match self.layout {
            Layout::Indexed => Ok(self.index(partitions) + self.push(batch)),
            Layout::Reordered => {
                let (order, growth) = self.reorder(partitions);
                Ok(growth + self.push(batch.reordered(&order)?))
            }
        }
    }

    /// Drops everything, the capacity of the vectors too: it is charged anew when they grow again.
    pub(super) fn clear(&mut self) {
        self.batches = vec![];
        self.allocations.clear();
        self.rows.iter_mut().for_each(|rows| *rows = vec![]);
        self.runs.iter_mut().for_each(|runs| *runs = vec![]);
    }

    fn next_number(&self) -> u32 {
        self.batches.len() as u32
    }

    fn push(&mut self, mut batch: Batch) -> usize {
        if let Some(last) = self.batches.last() {
            batch.share_dictionaries(last);
        }
        let bytes = batch
            .arrays()
            .map(|array| self.allocations.add(array))
            .sum();
        self.batches.push(batch);
        bytes
    }

    /// Counts the rows of each partition, and gives the partitions that have any. Only these are to
    /// be visited: with many partitions a small batch must stay cheap.
    fn count(&mut self, partitions: &[u32]) -> Vec<u32> {
        let mut touched = vec![];
        for &partition in partitions {
            let count = &mut self.counts[partition as usize];
            if *count == 0 {
                touched.push(partition);
            }
            *count += 1;
        }
        touched
    }

    /// Appends the rows of the next batch to the index vectors.
    fn index(&mut self, partitions: &[u32]) -> usize {
        let number = self.next_number();
        let mut growth = 0;
        for partition in self.count(partitions) {
            let count = std::mem::take(&mut self.counts[partition as usize]);
            growth += reserve(&mut self.rows[partition as usize], count as usize);
        }
        for (row, &partition) in partitions.iter().enumerate() {
            self.rows[partition as usize].push((number, row as u32));
        }
        growth
    }

    /// Appends the runs of the next batch once its rows are ordered by partition, and gives that
    /// order.
    fn reorder(&mut self, partitions: &[u32]) -> (UInt32Array, usize) {
        let number = self.next_number();
        let mut growth = 0;
        let mut start = 0;
        for partition in self.count(partitions) {
            let count = &mut self.counts[partition as usize];
            let run = Run {
                batch: number,
                start,
                len: *count,
            };
            // From here on it is where the partition's next row goes.
            *count = start;
            start += run.len;
            let runs = &mut self.runs[partition as usize];
            growth += reserve(runs, 1);
            runs.push(run);
        }
        let mut order = vec![0; partitions.len()];
        for (row, &partition) in partitions.iter().enumerate() {
            let place = &mut self.counts[partition as usize];
            order[*place as usize] = row as u32;
            *place += 1;
        }
        for &partition in partitions {
            self.counts[partition as usize] = 0;
        }
        (UInt32Array::from(order), growth)
    }
}

/// Makes room for more items, and gives the bytes by which that made the vector grow.
fn reserve<T>(items: &mut Vec<T>, more: usize) -> usize {
    let before = items.capacity();
    items.reserve(more);
    (items.capacity() - before) * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;

    use super::*;

    fn batch(values: &[i32]) -> RecordBatch {
        RecordBatch::try_from_iter([("v", Arc::new(Int32Array::from(values.to_vec())) as _)])
            .unwrap()
    }

    #[test]
    fn a_batch_beyond_the_last_number_does_not_fit() {
        let mut buffer = Buffer::new(1, Layout::Indexed);
        assert_eq!(buffer.max_batches, 4_294_967_295);
        buffer.max_batches = 2;
        for _ in 0..2 {
            assert!(!buffer.is_full());
            buffer.add_rows(batch(&[1]), &[0]).unwrap();
        }
        assert!(buffer.is_full());
        buffer.clear();
        assert!(!buffer.is_full());
    }

    #[test]
    fn reordering_keeps_the_order_within_a_partition() {
        let mut buffer = Buffer::new(3, Layout::Reordered);
        buffer
            .add_rows(batch(&[10, 11, 12, 13, 14]), &[2, 0, 2, 0, 2])
            .unwrap();
        buffer.add_rows(batch(&[15, 16]), &[0, 2]).unwrap();
        assert_eq!(buffer.counts, [0; 3]);
        let column = |i: usize| Arc::clone(&buffer.batches[i].columns[0]);
        assert_eq!(
            column(0).as_ref(),
            &Int32Array::from(vec![10, 12, 14, 11, 13])
        );
        assert_eq!(column(1).as_ref(), &Int32Array::from(vec![15, 16]));
        let run = |batch, start, len| Run { batch, start, len };
        assert_eq!(
            buffer.runs,
            [
                vec![run(0, 3, 2), run(1, 0, 1)],
                vec![],
                vec![run(0, 0, 3), run(1, 1, 1)]
            ]
        );
    }

    #[test]
    fn charges_are_of_allocations_and_of_index_growth() {
        // 5 values of 4 bytes. Vectors of pairs start with room for 4, and at least double.
        let mut buffer = Buffer::new(3, Layout::Indexed);
        assert_eq!(
            buffer.add_rows(batch(&[0; 5]), &[2, 0, 2, 0, 2]).unwrap(),
            20 + 2 * 4 * 8
        );
        assert_eq!(
            buffer.add_rows(batch(&[0; 3]), &[2, 2, 2]).unwrap(),
            12 + 4 * 8
        );
        let shared = batch(&[0; 2]);
        assert_eq!(buffer.add_rows(shared.clone(), &[0, 0]).unwrap(), 8);
        assert_eq!(buffer.add_rows(shared, &[1, 1]).unwrap(), 4 * 8);

        // Runs are 12 bytes, and start with room for 4 too.
        let mut buffer = Buffer::new(3, Layout::Reordered);
        assert_eq!(
            buffer.add_rows(batch(&[0; 5]), &[2, 0, 2, 0, 2]).unwrap(),
            20 + 2 * 4 * 12
        );
        assert_eq!(buffer.add_rows(batch(&[0; 3]), &[2, 2, 2]).unwrap(), 12);
        buffer.clear();
        assert_eq!(
            buffer.add_rows(batch(&[0; 3]), &[2, 2, 2]).unwrap(),
            12 + 4 * 12
        );
    }
}
