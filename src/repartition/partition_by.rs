//! How rows are dealt out to output partitions, as the user says it.

use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion_common::SplitPoint;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

/// A key that rows are partitioned by: a column by its name, or any expression over the batch.
#[derive(Clone, Debug)]
pub enum PartitionKey {
    /// The column of this name. Names are compared as they are, upper and lower case apart.
    Column(String),
    /// What this expression evaluates to.
    Expr(Arc<dyn PhysicalExpr>),
}

impl From<&str> for PartitionKey {
    fn from(name: &str) -> Self {
        Self::Column(name.to_owned())
    }
}

impl From<String> for PartitionKey {
    fn from(name: String) -> Self {
        Self::Column(name)
    }
}

impl From<Arc<dyn PhysicalExpr>> for PartitionKey {
    fn from(expr: Arc<dyn PhysicalExpr>) -> Self {
        Self::Expr(expr)
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => f.write_str(name),
            Self::Expr(expr) => write!(f, "{expr}"),
        }
    }
}

/// Which output partition a row goes to. Every way is the one DataFusion's `RepartitionExec` has,
/// row by row, so that what is partitioned here can be joined with what is partitioned there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PartitionBy {
    /// By the hash of the keys, with DataFusion's hash and seed, modulo the number of partitions.
    Hash {
        /// What to hash. With none, every row goes to partition 0.
        keys: Vec<PartitionKey>,
        /// The number of output partitions.
        partitions: usize,
    },
    /// Whole input batches in turn. Input `i` of `inputs` starts at partition `i * partitions /
    /// inputs`, so that the first batches of several inputs do not all go to the same one.
    RoundRobin {
        /// The number of output partitions.
        partitions: usize,
        /// The number of inputs, this one included.
        inputs: usize,
    },
    /// By where the keys lie among sorted split points: `n` of them make `n + 1` partitions, and
    /// keys equal to split point `i` go to partition `i + 1`.
    Range {
        /// The keys, the most significant first, each with its order.
        keys: Vec<(PartitionKey, SortOptions)>,
        /// The bounds between the partitions, strictly increasing in the order of the keys; each
        /// has one value a key, of the key's type.
        split_points: Vec<SplitPoint>,
    },
    /// Everything to one partition, with neither hashing nor index vectors.
    Single,
}

impl PartitionBy {
    /// By the hash of the columns of these names.
    pub fn hash_columns<C>(columns: impl IntoIterator<Item = C>, partitions: usize) -> Self
    where
        C: Into<String>,
    {
        Self::Hash {
            keys: columns
                .into_iter()
                .map(|column| PartitionKey::Column(column.into()))
                .collect(),
            partitions,
        }
    }

    /// By the hash of these expressions.
    pub fn hash(exprs: Vec<Arc<dyn PhysicalExpr>>, partitions: usize) -> Self {
        Self::Hash {
            keys: exprs.into_iter().map(PartitionKey::Expr).collect(),
            partitions,
        }
    }

    /// Whole batches in turn, for the only input there is.
    pub fn round_robin(partitions: usize) -> Self {
        Self::RoundRobin {
            partitions,
            inputs: 1,
        }
    }

    /// By where the keys lie among `split_points`.
    pub fn range<K: Into<PartitionKey>>(
        keys: impl IntoIterator<Item = (K, SortOptions)>,
        split_points: Vec<SplitPoint>,
    ) -> Self {
        Self::Range {
            keys: keys
                .into_iter()
                .map(|(key, options)| (key.into(), options))
                .collect(),
            split_points,
        }
    }

    /// Everything to one partition.
    pub fn single() -> Self {
        Self::Single
    }

    /// The number of output partitions.
    pub fn partitions(&self) -> usize {
        match self {
            Self::Hash { partitions, .. } | Self::RoundRobin { partitions, .. } => *partitions,
            Self::Range { split_points, .. } => split_points.len() + 1,
            Self::Single => 1,
        }
    }
}
