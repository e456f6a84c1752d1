//! A batch as it is buffered.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use datafusion_common::Result;

use crate::repartition::compact::compact;
use crate::repartition::dictionaries::take_out;
use crate::repartition::types::{contains, is_dictionary};

/// The columns of a record batch in their key form, and beside them the dictionaries' values, in
/// the order of the schema. Without dictionaries that is the batch itself.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) dictionaries: Vec<ArrayRef>,
    pub(super) rows: usize,
}

impl Batch {
    pub(super) fn try_new(batch: RecordBatch) -> Result<Self> {
        let mut dictionaries = vec![];
        let (_, columns, rows) = batch.into_parts();
        let columns = columns
            .into_iter()
            .map(|column| {
                if !contains(column.data_type(), &is_dictionary) {
                    return Ok(column);
                }
                let (keys, values) = take_out(&column)?;
                dictionaries.extend(values);
                Ok(keys)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            columns,
            dictionaries,
            rows,
        })
    }

    /// The rows in this order, in arrays of their own.
    pub(super) fn reordered(self, order: &UInt32Array) -> Result<Self> {
        let columns = self
            .columns
            .iter()
            .map(|column| compact(take(column, order, None)?))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { columns, ..self })
    }

    /// Shares the arrays of those dictionaries that `other` has too, so that they can be told by
    /// their address.
    pub(super) fn share_dictionaries(&mut self, other: &Self) {
        for (own, others) in self.dictionaries.iter_mut().zip(&other.dictionaries) {
            if own.to_data().ptr_eq(&others.to_data()) {
                *own = Arc::clone(others);
            }
        }
    }

    /// Everything that is kept alive.
    pub(super) fn arrays(&self) -> impl Iterator<Item = &ArrayRef> {
        self.columns.iter().chain(&self.dictionaries)
    }
}
