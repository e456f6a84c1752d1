//! Whatever comes in goes out once, in its partition and in order; and the pool is asked for what
//! it should be.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_ipc::CompressionType;
use datafusion_common::hash_utils::{RandomState, create_hashes};
use datafusion_common::{DataFusionError, Result};
use datafusion_counting_pool::{Layout, PartitionBy, Repartitioner};
use datafusion_execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
use proptest::prelude::*;

use crate::generate::{Random, any_type, batch};
use crate::model::{Accounts, rows};
use crate::recording_pool::RecordingPool;
use crate::support::{Output, runtime_of};

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    types: Vec<DataType>,
    batches: Vec<usize>,
    batch_size: usize,
    partitions: usize,
    by: By,
    layout: Layout,
    step: usize,
    limit: Option<usize>,
    pool: Option<usize>,
    denials: HashSet<usize>,
    compression: Option<CompressionType>,
}

#[derive(Clone, Copy, Debug)]
enum By {
    Hash,
    RoundRobin,
    Single,
}

fn case() -> impl Strategy<Value = Case> {
    let partitioning = (
        1..9_usize,
        prop_oneof![4 => Just(By::Hash), 1 => Just(By::RoundRobin), 1 => Just(By::Single)],
        prop_oneof![Just(Layout::Indexed), Just(Layout::Reordered)],
    );
    let memory = (
        prop_oneof![Just(0), Just(1), Just(100), Just(5000), Just(1 << 20)],
        prop_oneof![2 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(7)), 2 => (0..20_000_usize).prop_map(Some)],
        prop_oneof![2 => Just(None), 1 => Just(Some(0)), 2 => (0..20_000_usize).prop_map(Some)],
        prop::collection::hash_set(0..30_usize, 0..6),
    );
    let compression = prop_oneof![
        Just(None),
        Just(Some(CompressionType::LZ4_FRAME)),
        Just(Some(CompressionType::ZSTD))
    ];
    let data = (
        any::<u64>(),
        prop::collection::vec(any_type(), 0..4),
        prop::collection::vec(0..40_usize, 0..10),
        1..50_usize,
    );
    (data, partitioning, memory, compression).prop_map(
        |(
            (seed, types, batches, batch_size),
            (partitions, by, layout),
            (step, limit, pool, denials),
            compression,
        )| Case {
            seed,
            types,
            batches,
            batch_size,
            partitions: if matches!(by, By::Single) {
                1
            } else {
                partitions
            },
            by,
            layout,
            step,
            limit,
            pool,
            denials,
            compression,
        },
    )
}

impl Case {
    /// With a key in front where one is needed.
    fn schema(&self) -> SchemaRef {
        let key = matches!(self.by, By::Hash).then(|| Field::new("key", DataType::Int32, true));
        let others = self.types.iter().enumerate();
        let others =
            others.map(|(i, data_type)| Field::new(format!("c{i}"), data_type.clone(), true));
        Arc::new(Schema::new(
            key.into_iter().chain(others).collect::<Vec<_>>(),
        ))
    }

    fn partition_by(&self) -> PartitionBy {
        match self.by {
            By::Hash => PartitionBy::hash_columns(["key"], self.partitions),
            By::RoundRobin => PartitionBy::round_robin(self.partitions),
            By::Single => PartitionBy::single(),
        }
    }

    /// New batches, slices of one large one, and batches that have been there before.
    fn input(&self) -> Vec<RecordBatch> {
        let mut random = Random(self.seed);
        let schema = self.schema();
        let large = batch(&mut random, &schema, 40);
        let mut input: Vec<RecordBatch> = vec![];
        for rows in &self.batches {
            input.push(match random.below(4) {
                0 => large.slice(random.below(41 - rows), *rows),
                1 if !input.is_empty() => input[random.below(input.len())].clone(),
                _ => batch(&mut random, &schema, *rows),
            });
        }
        input
    }

    /// The partition of each row of batch `number` among those that are not empty.
    fn destinations(&self, number: usize, batch: &RecordBatch) -> Result<Vec<u32>> {
        Ok(match self.by {
            By::Single => vec![0; batch.num_rows()],
            By::RoundRobin => vec![(number % self.partitions) as u32; batch.num_rows()],
            By::Hash => {
                let mut hashes = vec![0; batch.num_rows()];
                create_hashes([batch.column(0)], &RandomState::with_seed(0), &mut hashes)?;
                hashes
                    .iter()
                    .map(|hash| (hash % self.partitions as u64) as u32)
                    .collect()
            }
        })
    }

    fn pool(&self) -> Arc<RecordingPool> {
        let denials = self.denials.clone();
        let answer = move |number: usize, _| {
            let denied = || DataFusionError::ResourcesExhausted(format!("call {number}"));
            denials.contains(&number).then(denied)
        };
        match self.pool {
            None => RecordingPool::with_answer(UnboundedMemoryPool::default(), answer),
            Some(bytes) => RecordingPool::with_answer(GreedyMemoryPool::new(bytes), answer),
        }
    }

    fn check(&self) -> Result<()> {
        let schema = self.schema();
        let pool = self.pool();
        let output = Output::new();
        let mut writer = Repartitioner::builder(Arc::clone(&schema), self.partition_by())
            .with_batch_size(self.batch_size)
            .with_layout(self.layout)
            .with_reservation_step(self.step)
            .with_max_buffer_bytes(self.limit)
            .with_compression(self.compression)
            .build(0, &runtime_of(&pool))?;

        let row_by_row = matches!(self.by, By::Hash);
        let mut accounts = Accounts::new(row_by_row, self.partitions, self.step, self.limit);
        accounts.pool = self.pool.unwrap_or(usize::MAX);
        accounts.denied = self.denials.clone();
        let mut expected = vec![vec![]; self.partitions];
        let input = self.input();
        for (number, batch) in input
            .iter()
            .filter(|batch| batch.num_rows() > 0)
            .enumerate()
        {
            let destinations = self.destinations(number, batch)?;
            for (row, partition) in rows(batch).into_iter().zip(&destinations) {
                expected[*partition as usize].push(row);
            }
            for start in (0..batch.num_rows()).step_by(self.batch_size) {
                let len = self.batch_size.min(batch.num_rows() - start);
                accounts.insert(&batch.slice(start, len), &destinations[start..start + len]);
            }
        }
        for batch in &input {
            writer.insert_batch(batch.clone())?;
        }

        let shuffle = writer.finish(output.path())?;
        assert_eq!(pool.as_pool().reserved(), 0);
        assert_eq!(
            pool.acquired().iter().sum::<usize>(),
            pool.released().iter().sum::<usize>()
        );
        assert_eq!(output.files(), ["shuffle.data", "shuffle.data.index"]);
        let metrics = shuffle.metrics();
        assert_eq!(metrics.pool_acquisitions, pool.acquisitions() as u64);
        // The other layout is charged for arrays of its own, which a model cannot see.
        if !row_by_row || self.layout == Layout::Indexed {
            assert_eq!(metrics.buffered_bytes, accounts.buffered);
            assert_eq!(
                (metrics.spill_count, metrics.spilled_bytes),
                (accounts.spills, accounts.spilled)
            );
            assert_eq!(pool.acquisitions(), accounts.acquisitions);
        }

        assert_eq!(shuffle.partitions(), self.partitions);
        for (partition, expected) in expected.into_iter().enumerate() {
            let mut found = vec![];
            for batch in shuffle.partition(partition)? {
                let batch = batch?;
                assert_eq!(batch.schema(), schema);
                assert!(
                    (1..=self.batch_size).contains(&batch.num_rows()),
                    "{} rows",
                    batch.num_rows()
                );
                found.extend(rows(&batch));
            }
            assert_eq!(found, expected, "partition {partition}");
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_row_comes_back_once_in_its_partition_and_in_order(case in case()) {
        case.check().unwrap();
    }
}
