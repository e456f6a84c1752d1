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

/// Makes output batches that hold nothing but the rows selected. The dictionaries of a partition's batches grow
/// from one to the next, so that each value need be written once a partition.
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

    /// Starts the dictionaries of a partition.
    pub(super) fn start_partition(&mut self) {
        self.unifiers.iter_mut().for_each(Unifier::reset);
    }

    /// Must be called before batches that were gathered from are dropped within a partition.
    pub(super) fn forget_sources(&mut self) {
        self.unifiers.iter_mut().for_each(Unifier::forget_sources);
    }

    /// The selected rows of `batches`: in one batch, or in several where a type can hold no more in one.
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
            gathered => gathered,
        }
    }

    fn try_gather(
        &mut self,
        batches: &[Batch],
        selection: &Selection<'_>,
    ) -> Result<Vec<RecordBatch>> {
        if !self.has_dictionaries() {
            return Ok(vec![self.finish(batches, selection, &[])?]);
        }
        let mut gathered = vec![];
        // One translated piece a batch gathered from, for each column with dictionaries.
        let mut pieces: Vec<Vec<ArrayRef>> = vec![];
        let (mut start, mut end) = (0, 0);
        for part in selection.by_batch() {
            let taken = self.take_keys(batches, &part)?;
            if !self.learn(batches, &part, &taken)? {
                // The keys are used up. What there is goes out, and the rest starts a new dictionary.
                if start < end {
                    gathered.push(self.finish(batches, &selection.slice(start..end), &pieces)?);
                    start = end;
                    pieces.clear();
                }
                self.start_partition();
                if !self.learn(batches, &part, &taken)? {
                    return internal_err!("a dictionary has more values in use than it has keys");
                }
            }
            pieces.push(self.translate(batches, &part, &taken)?);
            end += part.len();
        }
        gathered.push(self.finish(batches, &selection.slice(start..end), &pieces)?);
        Ok(gathered)
    }

    fn with_dictionaries(&self) -> impl Iterator<Item = (usize, &Column)> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(_, column)| !column.dictionaries.is_empty())
    }

    /// The key forms of the rows of `part`, which is of one batch, for each column with dictionaries.
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

    fn learn(
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

    /// One output batch. `pieces` are the translated keys of its rows, by batch and column with dictionaries.
    fn finish(
        &mut self,
        batches: &[Batch],
        selection: &Selection<'_>,
        pieces: &[Vec<ArrayRef>],
    ) -> Result<RecordBatch> {
        let mut with_dictionaries = 0;
        let mut columns = Vec::with_capacity(self.columns.len());
        for (i, column) in self.columns.iter().enumerate() {
            let gathered = if column.dictionaries.is_empty() {
                gather_column(batches, selection, i, column.sticky)?
            } else {
                let keys: Vec<&dyn Array> = pieces
                    .iter()
                    .map(|piece| piece[with_dictionaries].as_ref())
                    .collect();
                with_dictionaries += 1;
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
