//! Puts rows of several buffered batches together into output batches.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{concat, interleave};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::{DataFusionError, Result, internal_err};

use crate::repartition::batch::Batch;
use crate::repartition::compact::compact;
use crate::repartition::dictionaries::{change_keys, put_in};
use crate::repartition::selection::Selection;
use crate::repartition::types::{children, contains, is_dictionary, is_view};
use crate::repartition::unifier::Unifier;

/// Makes output batches that hold nothing but the rows selected. Their dictionaries are common to
/// all rows that have been learned, so that each value used need be written but once.
#[derive(Debug)]
pub(super) struct Gatherer {
    schema: SchemaRef,
    columns: Vec<Column>,
    /// One for each dictionary, in the order of the schema.
    unifiers: Vec<Unifier>,
}

#[derive(Debug)]
struct Column {
    data_type: DataType,
    /// Whether slices of it hold more than their rows, so that runs have to be gathered row by row.
    sticky: bool,
    /// Its dictionaries among all.
    dictionaries: Range<usize>,
}

impl Gatherer {
    pub(super) fn try_new(schema: SchemaRef) -> Result<Self> {
        let mut unifiers = vec![];
        let columns = schema
            .fields()
            .iter()
            .map(|field| {
                let data_type = field.data_type().clone();
                let first = unifiers.len();
                add_unifiers(&data_type, &mut unifiers)?;
                Ok(Column {
                    sticky: is_sticky(&data_type),
                    dictionaries: first..unifiers.len(),
                    data_type,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            schema,
            columns,
            unifiers,
        })
    }

    pub(super) fn has_dictionaries(&self) -> bool {
        !self.unifiers.is_empty()
    }

    /// Starts new dictionaries.
    pub(super) fn reset(&mut self) {
        self.unifiers.iter_mut().for_each(Unifier::reset);
    }

    /// To be called before batches that were learned or gathered from are dropped and others
    /// follow.
    pub(super) fn forget_sources(&mut self) {
        self.unifiers.iter_mut().for_each(Unifier::forget_sources);
    }

    /// Adds to the dictionaries what the selected rows use, which must be of one batch. Gives
    /// `false` where there are not enough keys for that: then what has been learned must be
    /// gathered, and new dictionaries started.
    pub(super) fn learn(&mut self, batches: &[Batch], selection: &Selection<'_>) -> Result<bool> {
        let taken = self.take_keys(batches, selection)?;
        self.learn_keys(batches, selection, &taken)
    }

    /// The selected rows of `batches`: in one batch, or in several where a type can hold no more in
    /// one. What dictionaries they use must have been learned.
    pub(super) fn gather(
        &mut self,
        batches: &[Batch],
        selection: &Selection<'_>,
    ) -> Result<Vec<RecordBatch>> {
        match self.try_gather(batches, selection) {
            // Too much for the offsets or run ends of one array may not be for two.
            Err(DataFusionError::ArrowError(..)) if selection.len() > 1 => {
                let (middle, end) = (selection.len() / 2, selection.len());
                let mut gathered = self.gather(batches, &selection.slice(0..middle))?;
                gathered.extend(self.gather(batches, &selection.slice(middle..end))?);
                Ok(gathered)
            }
            gathered => Ok(vec![gathered?]),
        }
    }

    fn try_gather(&mut self, batches: &[Batch], selection: &Selection<'_>) -> Result<RecordBatch> {
        // The keys in the dictionaries of the partition, by batch gathered from and column with
        // dictionaries.
        let mut pieces: Vec<Vec<ArrayRef>> = vec![];
        if self.has_dictionaries() {
            for part in selection.by_batch() {
                let taken = self.take_keys(batches, &part)?;
                if !self.learn_keys(batches, &part, &taken)? {
                    return internal_err!(
                        "rows are gathered whose dictionaries have not been learned"
                    );
                }
                pieces.push(self.translate(batches, &part, &taken)?);
            }
        }
        let mut pieces_before = 0;
        let mut columns = Vec::with_capacity(self.columns.len());
        for (i, column) in self.columns.iter().enumerate() {
            let gathered = if column.dictionaries.is_empty() {
                gather_column(batches, selection, i, column.sticky)?
            } else {
                let keys: Vec<&dyn Array> = pieces
                    .iter()
                    .map(|piece| piece[pieces_before].as_ref())
                    .collect();
                pieces_before += 1;
                let values = self.unifiers[column.dictionaries.clone()]
                    .iter_mut()
                    .map(Unifier::values)
                    .collect::<Result<Vec<_>>>()?;
                put_in(&concat(&keys)?, &column.data_type, &values)?
            };
            columns.push(compact(gathered)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(selection.len()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns,
            &options,
        )?)
    }

    fn with_dictionaries(&self) -> impl Iterator<Item = (usize, &Column)> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(_, column)| !column.dictionaries.is_empty())
    }

    /// The key forms of the rows of `part`, which is of one batch, for each column with
    /// dictionaries.
    fn take_keys(&self, batches: &[Batch], part: &Selection<'_>) -> Result<Vec<ArrayRef>> {
        self.with_dictionaries()
            .map(|(i, column)| match part {
                Selection::Runs(runs) if is_dictionary(&column.data_type) => {
                    let run = runs[0];
                    let keys = &batches[run.batch as usize].columns[i];
                    Ok(keys.slice(run.start as usize, run.len as usize))
                }
                // A slice of anything nested would drag all its children along.
                part => interleave_column(batches, part, i),
            })
            .collect()
    }

    fn learn_keys(
        &mut self,
        batches: &[Batch],
        part: &Selection<'_>,
        taken: &[ArrayRef],
    ) -> Result<bool> {
        let sources = &batches[part.first_batch()].dictionaries;
        let mut fits = true;
        let unifiers = &mut self.unifiers;
        let columns = self
            .columns
            .iter()
            .filter(|column| !column.dictionaries.is_empty());
        for (column, keys) in columns.zip(taken) {
            let first = column.dictionaries.start;
            change_keys(keys, &column.data_type, |i, keys| {
                fits = fits && unifiers[first + i].learn(&sources[first + i], &keys)?;
                Ok(keys)
            })?;
        }
        Ok(fits)
    }

    fn translate(
        &self,
        batches: &[Batch],
        part: &Selection<'_>,
        taken: &[ArrayRef],
    ) -> Result<Vec<ArrayRef>> {
        let sources = &batches[part.first_batch()].dictionaries;
        self.with_dictionaries()
            .zip(taken)
            .map(|((_, column), keys)| {
                let first = column.dictionaries.start;
                change_keys(keys, &column.data_type, |i, keys| {
                    self.unifiers[first + i].translate(&sources[first + i], &keys)
                })
            })
            .collect()
    }
}

fn add_unifiers(data_type: &DataType, unifiers: &mut Vec<Unifier>) -> Result<()> {
    if let DataType::Dictionary(keys, values) = data_type {
        unifiers.push(Unifier::try_new(keys, values)?);
    }
    children(data_type).try_for_each(|child| add_unifiers(child.data_type(), unifiers))
}

fn is_sticky(data_type: &DataType) -> bool {
    let keeps_children = |inner: &DataType| {
        matches!(
            inner,
            DataType::ListView(_)
                | DataType::LargeListView(_)
                | DataType::Union(..)
                | DataType::RunEndEncoded(..)
        )
    };
    contains(data_type, &keeps_children) || (!is_view(data_type) && contains(data_type, &is_view))
}

/// The selected rows of a column, in the key form where it has dictionaries.
fn gather_column(
    batches: &[Batch],
    selection: &Selection<'_>,
    column: usize,
    sticky: bool,
) -> Result<ArrayRef> {
    match selection {
        Selection::Runs(runs) if !sticky => {
            let slices: Vec<ArrayRef> = runs
                .iter()
                .map(|run| {
                    batches[run.batch as usize].columns[column]
                        .slice(run.start as usize, run.len as usize)
                })
                .collect();
            let slices: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
            Ok(concat(&slices)?)
        }
        selection => interleave_column(batches, selection, column),
    }
}

fn interleave_column(
    batches: &[Batch],
    selection: &Selection<'_>,
    column: usize,
) -> Result<ArrayRef> {
    let (sources, pairs) = selection.pairs();
    let arrays: Vec<&dyn Array> = sources
        .iter()
        .map(|batch| batches[*batch as usize].columns[column].as_ref())
        .collect();
    Ok(interleave(&arrays, &pairs)?)
}
