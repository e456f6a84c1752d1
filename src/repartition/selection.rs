//! Which rows of which buffered batches.

use std::ops::Range;

/// Rows `start .. start + len` of buffered batch `batch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) batch: u32,
    pub(super) start: u32,
    pub(super) len: u32,
}

/// Row `.1` of buffered batch `.0`.
pub(super) type RowIndex = (u32, u32);

/// Some rows of one partition, in input order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection<'a> {
    Rows(&'a [RowIndex]),
    Runs(Vec<Run>),
}

impl<'a> Selection<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Runs(runs) => runs.iter().map(|run| run.len as usize).sum(),
        }
    }

    /// The batch that the first row is of. There must be one.
    pub(super) fn first_batch(&self) -> usize {
        match self {
            Self::Rows(rows) => rows[0].0 as usize,
            Self::Runs(runs) => runs[0].batch as usize,
        }
    }

    /// The rows of the selection in `range`, which must lie within it.
    pub(super) fn slice(&self, range: Range<usize>) -> Selection<'a> {
        match self {
            Self::Rows(rows) => Selection::Rows(&rows[range]),
            Self::Runs(runs) => {
                let mut sliced = vec![];
                let mut first = 0;
                for run in runs {
                    let len = run.len as usize;
                    let (start, end) = (
                        range.start.clamp(first, first + len),
                        range.end.clamp(first, first + len),
                    );
                    if start < end {
                        sliced.push(Run {
                            batch: run.batch,
                            start: run.start + (start - first) as u32,
                            len: (end - start) as u32,
                        });
                    }
                    first += len;
                }
                Selection::Runs(sliced)
            }
        }
    }

    /// The selection cut so that each part is of one batch.
    pub(super) fn by_batch(&self) -> Vec<Selection<'a>> {
        match self {
            Self::Rows(rows) => rows
                .chunk_by(|a, b| a.0 == b.0)
                .map(Selection::Rows)
                .collect(),
            Self::Runs(runs) => runs.iter().map(|run| Selection::Runs(vec![*run])).collect(),
        }
    }

    /// The batches selected from, and the selected rows as pairs of a place among these and a row.
    ///
    /// Only those batches, because `interleave` looks at every array it is given: all buffered ones
    /// for each partition would be partitions times batches.
    pub(super) fn pairs(&self) -> (Vec<u32>, Vec<(usize, usize)>) {
        let mut batches: Vec<u32> = vec![];
        let mut place = |batch| {
            if batches.last() != Some(&batch) {
                batches.push(batch);
            }
            batches.len() - 1
        };
        let pairs = match self {
            Self::Rows(rows) => rows
                .iter()
                .map(|&(batch, row)| (place(batch), row as usize))
                .collect(),
            Self::Runs(runs) => runs
                .iter()
                .flat_map(|run| {
                    let place = place(run.batch);
                    (run.start..run.start + run.len).map(move |row| (place, row as usize))
                })
                .collect(),
        };
        (batches, pairs)
    }
}

/// Cuts runs into groups of `max_rows` rows; the last may have fewer.
pub(super) struct Chunks<'a> {
    runs: &'a [Run],
    max_rows: u32,
    /// Rows of the first run that are in earlier groups.
    taken: u32,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(runs: &'a [Run], max_rows: usize) -> Self {
        let max_rows = u32::try_from(max_rows).unwrap_or(u32::MAX);
        Self {
            runs,
            max_rows,
            taken: 0,
        }
    }
}

impl Iterator for Chunks<'_> {
    type Item = Vec<Run>;

    fn next(&mut self) -> Option<Vec<Run>> {
        let mut chunk = vec![];
        let mut room = self.max_rows;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(batch: u32, start: u32, len: u32) -> Run {
        Run { batch, start, len }
    }

    #[test]
    fn runs_are_cut_at_the_row_limit() {
        let runs = [run(0, 0, 5), run(1, 10, 1), run(2, 0, 9)];
        let chunks: Vec<_> = Chunks::new(&runs, 4).collect();
        assert_eq!(
            chunks,
            [
                vec![run(0, 0, 4)],
                vec![run(0, 4, 1), run(1, 10, 1), run(2, 0, 2)],
                vec![run(2, 2, 4)],
                vec![run(2, 6, 3)],
            ]
        );
        assert_eq!(
            Chunks::new(&runs, usize::MAX).collect::<Vec<_>>(),
            [runs.to_vec()]
        );
        assert_eq!(Chunks::new(&[], 4).next(), None);
    }

    #[test]
    fn a_selection_can_be_sliced_and_told_by_batch() {
        let runs = Selection::Runs(vec![run(3, 0, 5), run(4, 10, 1), run(4, 20, 9)]);
        let rows = [
            (3, 0),
            (3, 1),
            (3, 2),
            (3, 3),
            (3, 4),
            (4, 10),
            (4, 20),
            (4, 21),
        ];
        assert_eq!(runs.len(), 15);
        assert_eq!(
            runs.slice(2..8),
            Selection::Runs(vec![run(3, 2, 3), run(4, 10, 1), run(4, 20, 2)])
        );
        assert_eq!(runs.slice(5..6), Selection::Runs(vec![run(4, 10, 1)]));
        assert_eq!(
            Selection::Rows(&rows).slice(2..6),
            Selection::Rows(&rows[2..6])
        );

        let pairs = vec![(0, 2), (0, 3), (0, 4), (1, 10), (1, 20), (1, 21)];
        assert_eq!(runs.slice(2..8).pairs(), (vec![3, 4], pairs.clone()));
        assert_eq!(Selection::Rows(&rows[2..]).pairs(), (vec![3, 4], pairs));

        let by_batch = Selection::Rows(&rows).by_batch();
        assert_eq!(
            by_batch,
            [Selection::Rows(&rows[..5]), Selection::Rows(&rows[5..])]
        );
    }
}
