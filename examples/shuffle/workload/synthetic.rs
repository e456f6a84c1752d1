//! Batches of one Int32 column, each made when it is asked for.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::Batches;
use crate::cli::Key;

pub(super) const COLUMN: &str = "key";

#[derive(Clone, Copy, Debug)]
pub(super) struct Synthetic {
    pub(super) key: Key,
    /// Of each task.
    pub(super) batches: u32,
    pub(super) batch_rows: usize,
}

impl Synthetic {
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new(
            COLUMN,
            DataType::Int32,
            false,
        )]))
    }

    pub(super) fn batches_of(self, task: usize) -> Batches {
        let schema = self.schema();
        let first = task as u64 * u64::from(self.batches);
        Box::new((first..first + u64::from(self.batches)).map(move |number| {
            // Built anew, never cloned: a buffer that is buffered already charges nothing.
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(self.values(number))])
                .expect("one Int32 column without nulls is what the schema says")
        }))
    }

    /// The values of the batch with this number, counted over all tasks.
    fn values(self, number: u64) -> Int32Array {
        match self.key {
            Key::Constant => Int32Array::from_value(1, self.batch_rows),
            Key::Sequence => {
                let first = (number * self.batch_rows as u64) as i32;
                (0..self.batch_rows as i32)
                    .map(|row| first.wrapping_add(row))
                    .collect::<Vec<_>>()
                    .into()
            }
            Key::Random => {
                let mut random = fastrand::Rng::with_seed(number);
                (0..self.batch_rows)
                    .map(|_| random.i32(..))
                    .collect::<Vec<_>>()
                    .into()
            }
        }
    }
}

impl Display for Synthetic {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.key {
            Key::Constant => "a constant Int32",
            Key::Sequence => "ascending Int32s",
            Key::Random => "random Int32s",
        })
    }
}
