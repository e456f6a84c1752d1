//! A `Repartitioner` deals out rows as `RepartitionExec` does: the same partitions, row by row
//! and in order, so that what one has written can be joined with what the other has.

mod arrays;

use crate::support::{column, context, in_memory, read};
use arrays::{HASHED, ORDERED, array};
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::{
    SortOptions, concat_batches, filter_record_batch, sort_to_indices, take_record_batch,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion_common::utils::compare_rows;
use datafusion_common::{Result, ScalarValue, SplitPoint};
use datafusion_counting_pool::{Layout, PartitionBy, PartitionKey, Repartitioner};
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::UnboundedMemoryPool;
use datafusion_execution::runtime_env::RuntimeEnv;
use datafusion_expr_common::operator::Operator;
use datafusion_physical_expr::expressions::binary;
use datafusion_physical_expr::{
    LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr, RangePartitioning,
};
use datafusion_physical_plan::collect_partitioned;
use datafusion_physical_plan::repartition::RepartitionExec;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::cmp::Ordering;
use std::slice::from_ref;
use std::sync::Arc;

/// The numbers that a row's values are made of, one for each key. Few, so that there are ties.
type Numbers = [Option<i8>; 3];

fn numbers() -> impl Strategy<Value = Numbers> {
    let number = || option::weighted(0.85, -6_i8..=6);
    [number(), number(), number()]
}

/// The rows of one input, in batches that are slices of one, empty ones among them.
#[derive(Clone, Debug)]
struct Input {
    rows: Vec<Numbers>,
    batch_rows: Vec<usize>,
}

fn input() -> impl Strategy<Value = Input> {
    (vec(numbers(), 0..200), vec(0..60_usize, 0..8))
        .prop_map(|(rows, batch_rows)| Input { rows, batch_rows })
}

impl Input {
    /// Key columns `k0`, `k1` and so on, of `types`, and the number of the row.
    fn batches(&self, types: &[DataType]) -> Vec<RecordBatch> {
        let mut columns = columns(&self.rows, types);
        columns.push(Arc::new(UInt64Array::from_iter_values(
            0..self.rows.len() as u64,
        )));
        let whole = RecordBatch::try_new(schema(types), columns).unwrap();
        let mut batches = vec![];
        let mut start = 0;
        for rows in self.batch_rows.iter().copied().chain([self.rows.len()]) {
            let rows = rows.min(whole.num_rows() - start);
            batches.push(whole.slice(start, rows));
            start += rows;
        }
        batches
    }
}

fn schema(types: &[DataType]) -> SchemaRef {
    let keys = types.iter().enumerate();
    let mut fields: Vec<_> = keys
        .map(|(i, data_type)| Field::new(key_name(i), data_type.clone(), true))
        .collect();
    fields.push(Field::new("row", DataType::UInt64, false));
    Arc::new(Schema::new(fields))
}

fn key_name(i: usize) -> String {
    format!("k{i}")
}

fn columns(rows: &[Numbers], types: &[DataType]) -> Vec<Arc<dyn Array>> {
    let column = |(i, data_type): (usize, &DataType)| {
        let numbers: Vec<_> = rows.iter().map(|row| row[i]).collect();
        array(data_type, &numbers)
    };
    types.iter().enumerate().map(column).collect()
}

/// How a repartitioner is set up. None of it may change which rows a partition has.
#[derive(Clone, Debug)]
struct Setup {
    layout: Layout,
    batch_size: usize,
    max_buffer_bytes: Option<usize>,
}

fn setup() -> impl Strategy<Value = Setup> {
    (
        select(&[Layout::Indexed, Layout::Reordered]),
        1..80_usize,
        option::of(0..20_000_usize),
    )
        .prop_map(|(layout, batch_size, max_buffer_bytes)| Setup {
            layout,
            batch_size,
            max_buffer_bytes,
        })
}

/// The rows of each partition, as one batch.
fn repartitioner(
    input: usize,
    batches: &[RecordBatch],
    by: PartitionBy,
    setup: &Setup,
) -> Result<Vec<RecordBatch>> {
    let mut repartitioner = Repartitioner::builder(batches[0].schema(), by)
        .with_layout(setup.layout)
        .with_batch_size(setup.batch_size)
        .with_max_buffer_bytes(setup.max_buffer_bytes)
        .build(input, &Arc::new(RuntimeEnv::default()))?;
    for batch in batches {
        repartitioner.insert_batch(batch.clone())?;
    }
    let folder = tempfile::tempdir()?;
    read(&repartitioner.finish(folder.path().join("shuffle.data"))?)
}

/// The rows of each partition, as one batch. Those of one input are in its order.
fn repartition_exec(
    inputs: &[Vec<RecordBatch>],
    partitioning: Partitioning,
) -> Result<Vec<RecordBatch>> {
    let schema = inputs[0][0].schema();
    let plan = RepartitionExec::try_new(in_memory(inputs, Arc::clone(&schema)), partitioning)?;
    let config = SessionConfig::new().with_batch_size(64);
    let context = context(config, Arc::new(UnboundedMemoryPool::default()));
    tokio::runtime::Builder::new_current_thread()
        .build()?
        .block_on(collect_partitioned(Arc::new(plan), context))?
        .iter()
        .map(|batches| Ok(concat_batches(&schema, batches)?))
        .collect()
}

fn key_columns(types: &[DataType]) -> Vec<Arc<dyn PhysicalExpr>> {
    (0..types.len())
        .map(|i| column(&key_name(i), &schema(types)))
        .collect()
}

fn check_hash(input: &Input, types: &[DataType], partitions: usize, setup: &Setup) {
    let batches = input.batches(types);
    let keys = key_columns(types);
    let expected = repartition_exec(
        from_ref(&batches),
        Partitioning::Hash(keys.clone(), partitions),
    );
    let names: Vec<_> = (0..types.len()).map(key_name).collect();
    for by in [
        PartitionBy::hash_columns(names, partitions),
        PartitionBy::hash(keys, partitions),
    ] {
        let partitions = repartitioner(0, &batches, by, setup).unwrap();
        assert_eq!(&partitions, expected.as_ref().unwrap(), "{types:?}");
    }
}

#[derive(Clone, Debug)]
struct Range {
    options: Vec<SortOptions>,
    bounds: Vec<Numbers>,
}

fn range() -> impl Strategy<Value = Range> {
    let options =
        (any::<bool>(), any::<bool>()).prop_map(|(descending, nulls_first)| SortOptions {
            descending,
            nulls_first,
        });
    (vec(options, 3), vec(numbers(), 0..8)).prop_map(|(options, bounds)| Range { options, bounds })
}

fn check_range(input: &Input, types: &[DataType], range: &Range, setup: &Setup) {
    let options = &range.options[..types.len()];
    let bounds = columns(&range.bounds, types);
    let mut points: Vec<Vec<ScalarValue>> = (0..range.bounds.len())
        .map(|row| {
            let columns = bounds.iter();
            columns
                .map(|column| ScalarValue::try_from_array(column, row).unwrap())
                .collect()
        })
        .collect();
    points.sort_by(|a, b| compare_rows(a, b, options).unwrap());
    points.dedup_by(|a, b| compare_rows(a, b, options).unwrap() == Ordering::Equal);
    let points: Vec<_> = points.into_iter().map(SplitPoint::new).collect();

    let keys = key_columns(types);
    let sorts = keys.iter().zip(options);
    let sorts = sorts.map(|(key, options)| PhysicalSortExpr::new(Arc::clone(key), *options));
    let ordering = LexOrdering::new(sorts).unwrap();
    let partitioning = RangePartitioning::try_new(ordering, points.clone()).unwrap();

    let batches = input.batches(types);
    let expected = repartition_exec(from_ref(&batches), Partitioning::Range(partitioning)).unwrap();
    let keys = keys.into_iter().map(PartitionKey::Expr);
    let by = PartitionBy::range(keys.zip(options.iter().copied()), points);
    let partitions = repartitioner(0, &batches, by, setup).unwrap();
    assert_eq!(partitions, expected, "{types:?} by {options:?}");
}

proptest! {
    #[test]
    fn hash(
        input in input(),
        types in vec(select(HASHED.as_slice()), 1..=3),
        partitions in 1..=40_usize,
        setup in setup(),
    ) {
        check_hash(&input, &types, partitions, &setup);
    }

    #[test]
    fn range_of_one_key_or_several(
        input in input(),
        types in vec(select(ORDERED.as_slice()), 1..=3),
        range in range(),
        setup in setup(),
    ) {
        check_range(&input, &types, &range, &setup);
    }

    #[test]
    fn hash_and_range_of_an_expression(
        input in input(),
        partitions in 1..=20_usize,
        setup in setup(),
    ) {
        let types = [DataType::Int64, DataType::Int64];
        let batches = input.batches(&types);
        let schema = batches[0].schema();
        let sum = binary(column("k0", &schema), Operator::Plus, column("k1", &schema), &schema)
            .unwrap();
        let expected = repartition_exec(
            from_ref(&batches),
            Partitioning::Hash(vec![Arc::clone(&sum)], partitions),
        ).unwrap();
        let by = PartitionBy::hash(vec![Arc::clone(&sum)], partitions);
        prop_assert_eq!(repartitioner(0, &batches, by, &setup).unwrap(), expected);

        let options = SortOptions::default();
        let points: Vec<_> = (0..partitions as i64 - 1)
            .map(|bound| SplitPoint::new(vec![ScalarValue::from(bound - 8)]))
            .collect();
        let ordering = LexOrdering::new([PhysicalSortExpr::new(Arc::clone(&sum), options)]);
        let partitioning = RangePartitioning::try_new(ordering.unwrap(), points.clone()).unwrap();
        let expected =
            repartition_exec(from_ref(&batches), Partitioning::Range(partitioning)).unwrap();
        let by = PartitionBy::range([(PartitionKey::from(sum), options)], points);
        prop_assert_eq!(repartitioner(0, &batches, by, &setup).unwrap(), expected);
    }

    /// The key of a row is the number of its input.
    #[test]
    fn round_robin_of_several_inputs(
        inputs in vec((vec(0..30_usize, 0..12), setup()), 1..=5),
        partitions in 1..=12_usize,
    ) {
        let (inputs, setups): (Vec<_>, Vec<_>) = inputs.into_iter().unzip();
        let batches: Vec<Vec<RecordBatch>> = inputs
            .into_iter()
            .enumerate()
            .map(|(number, batch_rows)| {
                let rows = vec![[Some(number as i8); 3]; batch_rows.iter().sum()];
                Input { rows, batch_rows }.batches(&[DataType::Int64])
            })
            .collect();
        let expected = repartition_exec(&batches, Partitioning::RoundRobinBatch(partitions))
            .unwrap();
        for (number, (batches, setup)) in batches.iter().zip(&setups).enumerate() {
            let by = PartitionBy::RoundRobin { partitions, inputs: setups.len() };
            let partitions = repartitioner(number, batches, by, setup).unwrap();
            let expected: Vec<_> = expected.iter().map(|all| of_input(all, number)).collect();
            prop_assert_eq!(partitions, expected, "input {}", number);
        }
    }
}

/// The rows of one input, in its order: over several, `RepartitionExec` keeps none.
fn of_input(batch: &RecordBatch, input: usize) -> RecordBatch {
    let keys = batch.column(0).as_primitive::<Int64Type>().values();
    let own: Vec<bool> = keys.iter().map(|key| *key == input as i64).collect();
    let own = filter_record_batch(batch, &BooleanArray::from(own)).unwrap();
    let order = sort_to_indices(own.column(1), None, None).unwrap();
    take_record_batch(&own, &order).unwrap()
}

/// Each type at least once, whatever chance brings.
#[test]
fn every_type() {
    let number = |i: usize| (!i.is_multiple_of(7)).then(|| (i * 5 % 13) as i8 - 6);
    let input = Input {
        rows: (0..300)
            .map(|i| [number(i), number(i + 1), number(i + 2)])
            .collect(),
        batch_rows: vec![50, 0, 101, 1],
    };
    let range = Range {
        options: vec![
            SortOptions {
                descending: true,
                nulls_first: false
            };
            3
        ],
        bounds: vec![[Some(-3); 3], [None; 3], [Some(0); 3], [Some(4); 3]],
    };
    for layout in [Layout::Indexed, Layout::Reordered] {
        let setup = Setup {
            layout,
            batch_size: 32,
            max_buffer_bytes: None,
        };
        for data_type in HASHED.iter() {
            check_hash(&input, from_ref(data_type), 7, &setup);
        }
        for data_type in ORDERED.iter() {
            check_range(&input, from_ref(data_type), &range, &setup);
        }
    }
}
