//! Partition numbers of the rows of a batch.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DynComparator, RecordBatch, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion_common::hash_utils::{RandomState, create_hashes};
use datafusion_common::{
    Result, ScalarValue, config_err, exec_datafusion_err, internal_err, plan_datafusion_err,
    plan_err, validate_range_split_points,
};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

use crate::repartition::partition_by::{PartitionBy, PartitionKey};

/// The state `RepartitionExec` hashes with: its `REPARTITION_RANDOM_STATE` is of
/// datafusion-physical-plan, which is not depended upon for one constant. A workspace member's test
/// compares the partitions.
const HASH_STATE: RandomState = RandomState::with_seed(0);

/// Deals out batches as a [`PartitionBy`] says.
#[derive(Debug)]
pub(super) struct Partitioner {
    rule: Rule,
    partitions: usize,
    /// The answer for the last batch, kept for its allocation.
    ids: Vec<u32>,
}

enum Rule {
    Hash { keys: Vec<Key>, hashes: Vec<u64> },
    RoundRobin { next: usize },
    Range { keys: Vec<RangeKey> },
    Single,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash { .. } => "Hash",
            Self::RoundRobin { .. } => "RoundRobin",
            Self::Range { .. } => "Range",
            Self::Single => "Single",
        })
    }
}

enum Key {
    Column(usize),
    Expr(Arc<dyn PhysicalExpr>),
}

struct RangeKey {
    key: Key,
    options: SortOptions,
    /// The split points' values of this key.
    bounds: ArrayRef,
}

impl Partitioner {
    pub(super) fn try_new(
        by: &PartitionBy,
        schema: &Schema,
        input_partition: usize,
    ) -> Result<Self> {
        let partitions = by.partitions();
        if partitions == 0 {
            return config_err!("a shuffle needs at least 1 output partition, not 0");
        }
        if u32::try_from(partitions).is_err() {
            return config_err!(
                "a shuffle has at most {} output partitions, not {partitions}",
                u32::MAX
            );
        }
        let rule = match by {
            PartitionBy::Hash { keys, .. } => Rule::Hash {
                keys: keys
                    .iter()
                    .map(|key| Key::try_new(key, schema, "hash"))
                    .collect::<Result<_>>()?,
                hashes: vec![],
            },
            PartitionBy::RoundRobin { inputs, .. } => Rule::RoundRobin {
                next: round_robin_start(input_partition, *inputs, partitions)?,
            },
            PartitionBy::Range { keys, split_points } => {
                if keys.is_empty() {
                    return config_err!("range partitioning needs at least 1 key");
                }
                let options: Vec<_> = keys.iter().map(|(_, options)| *options).collect();
                validate_range_split_points(split_points, &options)?;
                // Without bounds there is one partition and nothing to compare.
                let keys = if split_points.is_empty() {
                    &[][..]
                } else {
                    keys
                };
                let keys = keys.iter().enumerate().map(|(i, (key, options))| {
                    let bounds = split_points.iter().map(|point| point.values()[i].clone());
                    RangeKey::try_new(key, *options, bounds, schema)
                });
                Rule::Range {
                    keys: keys.collect::<Result<_>>()?,
                }
            }
            PartitionBy::Single => Rule::Single,
        };
        Ok(Self {
            rule,
            partitions,
            ids: vec![],
        })
    }

    pub(super) fn partitions(&self) -> usize {
        self.partitions
    }

    /// The partition that all of the user's next batch goes to, where that can be said without
    /// looking at rows. To be asked once a batch: round robin counts them.
    pub(super) fn next_whole(&mut self) -> Option<usize> {
        match &mut self.rule {
            Rule::Single => Some(0),
            Rule::Range { keys } if keys.is_empty() => Some(0),
            Rule::RoundRobin { next } => {
                let partition = *next;
                *next = (partition + 1) % self.partitions;
                Some(partition)
            }
            Rule::Hash { .. } | Rule::Range { .. } => None,
        }
    }

    /// The partition of each row of `batch`, where [`next_whole`](Self::next_whole) gave none.
    pub(super) fn assign(&mut self, batch: &RecordBatch) -> Result<&[u32]> {
        self.ids.clear();
        match &mut self.rule {
            Rule::Single | Rule::RoundRobin { .. } => {
                return internal_err!("{:?} partitioning deals out whole batches", self.rule);
            }
            Rule::Range { keys } => {
                let comparators = keys
                    .iter()
                    .map(|key| key.comparator(batch))
                    .collect::<Result<Vec<_>>>()?;
                let bounds = self.partitions - 1;
                self.ids.extend(
                    (0..batch.num_rows()).map(|row| range_partition(&comparators, row, bounds)),
                );
            }
            Rule::Hash { keys, hashes } => {
                let arrays = keys
                    .iter()
                    .map(|key| key.evaluate(batch))
                    .collect::<Result<Vec<_>>>()?;
                hashes.clear();
                hashes.resize(batch.num_rows(), 0);
                create_hashes(&arrays, &HASH_STATE, hashes)?;
                let partitions = self.partitions as u64;
                self.ids
                    .extend(hashes.iter().map(|hash| (hash % partitions) as u32));
            }
        }
        Ok(&self.ids)
    }
}

fn round_robin_start(input: usize, inputs: usize, partitions: usize) -> Result<usize> {
    if input >= inputs {
        return config_err!(
            "input partition {input} of {inputs}: round robin counts inputs from 0"
        );
    }
    // In u128, for the product of two large numbers.
    Ok((input as u128 * partitions as u128 / inputs as u128) as usize)
}

/// The number of bounds that are not above the row.
fn range_partition(comparators: &[DynComparator], row: usize, bounds: usize) -> u32 {
    let (mut low, mut high) = (0, bounds);
    while low < high {
        let middle = low + (high - low) / 2;
        let ordering = comparators
            .iter()
            .map(|compare| compare(row, middle))
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal);
        if ordering.is_lt() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low as u32
}

impl Key {
    fn try_new(key: &PartitionKey, schema: &Schema, what: &str) -> Result<Self> {
        match key {
            PartitionKey::Column(name) => {
                let index = schema.index_of(name).map_err(|_| {
                    let names: Vec<_> = schema
                        .fields()
                        .iter()
                        .map(|field| field.name().as_str())
                        .collect();
                    plan_datafusion_err!("no {what} column {name:?}; the schema has {names:?}")
                })?;
                Ok(Self::Column(index))
            }
            PartitionKey::Expr(expr) => Ok(Self::Expr(Arc::clone(expr))),
        }
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        match self {
            Self::Column(index) => Ok(Arc::clone(batch.column(*index))),
            Self::Expr(expr) => expr.evaluate(batch)?.into_array_of_size(batch.num_rows()),
        }
    }
}

impl RangeKey {
    fn try_new(
        key: &PartitionKey,
        options: SortOptions,
        bounds: impl Iterator<Item = ScalarValue>,
        schema: &Schema,
    ) -> Result<Self> {
        let resolved = Key::try_new(key, schema, "range")?;
        let expected = match &resolved {
            Key::Column(index) => schema.field(*index).data_type().clone(),
            Key::Expr(expr) => expr.data_type(schema)?,
        };
        let bounds = bounds
            .map(|bound| match bound {
                // A null of no type in particular is a null of any.
                ScalarValue::Null => ScalarValue::try_from(&expected),
                bound if bound.data_type() == expected => Ok(bound),
                bound => plan_err!(
                    "split point {bound} of range key {key} is of type {}, the key of type {expected}",
                    bound.data_type()
                ),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            key: resolved,
            options,
            bounds: ScalarValue::iter_to_array(bounds)?,
        })
    }

    /// Compares row and bound, by their numbers, in the order of the key.
    fn comparator(&self, batch: &RecordBatch) -> Result<DynComparator> {
        let values = self.key.evaluate(batch)?;
        make_comparator(&values, &self.bounds, self.options).map_err(|error| {
            exec_datafusion_err!(
                "cannot compare range keys of type {}: {error}",
                values.data_type()
            )
        })
    }
}
