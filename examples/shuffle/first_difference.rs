//! Compares rows that come in batches.

use arrow::array::RecordBatch;
use datafusion_common::Result;

/// What the comparison of two sequences of rows has shown.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// All rows, this many.
    Equal(u64),
    /// The first row that differs, or that one side has and the other has not.
    DifferentAt(u64),
}

/// Compares the rows in order; where one batch ends and the next begins makes no difference.
pub(crate) fn first_difference(
    left: impl Iterator<Item = Result<RecordBatch>>,
    right: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<Outcome> {
    let (mut left, mut right) = (Rows::new(left), Rows::new(right));
    let mut row = 0;
    loop {
        let rows = match (left.available()?, right.available()?) {
            (0, 0) => return Ok(Outcome::Equal(row)),
            (0, _) | (_, 0) => return Ok(Outcome::DifferentAt(row)),
            (left, right) => left.min(right),
        };
        let (left, right) = (left.take(rows), right.take(rows));
        if left != right {
            let equal = (0..rows).take_while(|&row| left.slice(row, 1) == right.slice(row, 1));
            return Ok(Outcome::DifferentAt(row + equal.count() as u64));
        }
        row += rows as u64;
    }
}

/// The rows of a sequence of batches, taken in pieces of any size.
struct Rows<I> {
    batches: I,
    /// What is left of the batch that was read last.
    rest: Option<RecordBatch>,
}

impl<I: Iterator<Item = Result<RecordBatch>>> Rows<I> {
    fn new(batches: I) -> Self {
        Self {
            batches,
            rest: None,
        }
    }

    /// Rows that can be taken at once; 0 only at the end.
    fn available(&mut self) -> Result<usize> {
        loop {
            match &self.rest {
                Some(rest) if rest.num_rows() > 0 => return Ok(rest.num_rows()),
                _ => match self.batches.next() {
                    Some(batch) => self.rest = Some(batch?),
                    None => return Ok(0),
                },
            }
        }
    }

    fn take(&mut self, rows: usize) -> RecordBatch {
        let rest = self
            .rest
            .take()
            .expect("no more is taken than is available");
        self.rest = Some(rest.slice(rows, rest.num_rows() - rows));
        rest.slice(0, rows)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int32Array};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    /// Batches of the given values, one column of them as integers and one as floats, which are
    /// NaN for negative ones.
    fn batches(values: &[&[i32]]) -> impl Iterator<Item = Result<RecordBatch>> {
        let schema = Arc::new(Schema::new(vec![
            Field::new("integer", DataType::Int32, false),
            Field::new("float", DataType::Float64, false),
        ]));
        let batch = |values: &&[i32]| {
            let floats = values.iter().map(|&value| f64::from(value).sqrt());
            let columns: Vec<arrow::array::ArrayRef> = vec![
                Arc::new(Int32Array::from(values.to_vec())),
                Arc::new(Float64Array::from_iter_values(floats)),
            ];
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
        };
        values.iter().map(batch).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn batches_may_end_anywhere() {
        let left = batches(&[&[1, 2, 3], &[], &[4, -5]]);
        let right = batches(&[&[], &[1], &[2, 3, 4, -5]]);
        assert_eq!(first_difference(left, right).unwrap(), Outcome::Equal(5));
        assert_eq!(
            first_difference(batches(&[]), batches(&[&[]])).unwrap(),
            Outcome::Equal(0)
        );
    }

    #[test]
    fn the_first_row_that_differs_is_found() {
        let different = |left: &[&[i32]], right: &[&[i32]]| {
            first_difference(batches(left), batches(right)).unwrap()
        };
        assert_eq!(
            different(&[&[1, 2], &[3, 4]], &[&[1, 2, 3, 5]]),
            Outcome::DifferentAt(3)
        );
        assert_eq!(different(&[&[2, 1]], &[&[1, 2]]), Outcome::DifferentAt(0));
        assert_eq!(
            different(&[&[1, 2]], &[&[1, 2, 3]]),
            Outcome::DifferentAt(2)
        );
        assert_eq!(different(&[&[1]], &[]), Outcome::DifferentAt(0));
    }
}
