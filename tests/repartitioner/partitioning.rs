//! Which partition a row goes to.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use datafusion_common::utils::compare_rows;
use datafusion_common::{Result, ScalarValue, SplitPoint};
use datafusion_counting_pool::{Layout, PartitionBy, PartitionKey, Repartitioner};
use datafusion_expr_common::columnar_value::ColumnarValue;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use proptest::prelude::*;

use crate::generate::{Random, batch};
use crate::model::rows;
use crate::recording_pool::RecordingPool;
use crate::support::{Output, keys, read, runtime_of, values};

const LAYOUTS: [Layout; 2] = [Layout::Indexed, Layout::Reordered];

fn repartition(
    by: &PartitionBy,
    input: usize,
    batches: &[RecordBatch],
    layout: Layout,
) -> Result<Vec<RecordBatch>> {
    let output = Output::new();
    let mut writer = Repartitioner::builder(batches[0].schema(), by.clone())
        .with_layout(layout)
        .with_batch_size(64)
        .build(input, &runtime_of(&RecordingPool::unbounded()))?;
    for batch in batches {
        writer.insert_batch(batch.clone())?;
    }
    read(&writer.finish(output.path())?)
}

fn numbers(
    by: &PartitionBy,
    input: usize,
    batches: &[RecordBatch],
    layout: Layout,
) -> Result<Vec<Vec<i32>>> {
    Ok(repartition(by, input, batches, layout)?
        .iter()
        .map(values)
        .collect())
}

// ---------- by hash

/// The number of column 0 without its last digit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Tens;

impl fmt::Display for Tens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tens")
    }
}

impl PhysicalExpr for Tens {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        let tens: Int32Array = numbers.unary(|number| number / 10);
        Ok(ColumnarValue::Array(Arc::new(tens)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![]
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[test]
fn an_expression_is_hashed_as_a_column_of_its_values_is() -> Result<()> {
    let numbers: Vec<i32> = (0..1000).collect();
    let tens: Vec<i32> = numbers.iter().map(|number| number / 10).collect();
    for layout in LAYOUTS {
        let by_expr = numbers_of(
            &PartitionBy::hash(vec![Arc::new(Tens)], 7),
            &numbers,
            layout,
        )?;
        let by_column = numbers_of(&PartitionBy::hash_columns(["key"], 7), &tens, layout)?;
        let tens_of = |partition: &Vec<i32>| {
            partition
                .iter()
                .map(|number| number / 10)
                .collect::<Vec<_>>()
        };
        assert_eq!(by_expr.iter().map(tens_of).collect::<Vec<_>>(), by_column);
        assert!(by_column.iter().all(|partition| !partition.is_empty()));
    }
    Ok(())
}

fn numbers_of(by: &PartitionBy, values: &[i32], layout: Layout) -> Result<Vec<Vec<i32>>> {
    numbers(by, 0, &[keys(values)], layout)
}

// ---------- round robin

#[test]
fn whole_batches_go_round_from_the_inputs_own_start() -> Result<()> {
    let batches: Vec<_> = (0..7).map(|batch| keys(vec![batch; 2])).collect();
    let twice = |batches: &[i32]| {
        batches
            .iter()
            .flat_map(|batch| [*batch; 2])
            .collect::<Vec<_>>()
    };
    let by = |inputs| PartitionBy::RoundRobin {
        partitions: 3,
        inputs,
    };
    for layout in LAYOUTS {
        let found = numbers(&by(1), 0, &batches, layout)?;
        assert_eq!(found, [twice(&[0, 3, 6]), twice(&[1, 4]), twice(&[2, 5])]);
        // Input i of 4 starts at i * 3 / 4: 0, 0, 1, 2.
        for (input, first) in [0, 0, 1, 2].into_iter().enumerate() {
            let found = numbers(&by(4), input, &batches, layout)?;
            assert_eq!(found[first], twice(&[0, 3, 6]), "input {input}");
        }
    }
    Ok(())
}

#[test]
fn empty_batches_have_no_turn_and_large_ones_one() -> Result<()> {
    let large: Vec<i32> = (0..200).collect();
    let batches = [
        keys([]),
        keys(large.clone()),
        keys([]),
        keys([7]),
        keys([8]),
    ];
    let found = numbers(&PartitionBy::round_robin(2), 0, &batches, Layout::default())?;
    assert_eq!(found, [[large, vec![8]].concat(), vec![7]]);
    Ok(())
}

// ---------- by range

fn bounds(numbers: &[Option<i32>]) -> Vec<SplitPoint> {
    numbers
        .iter()
        .map(|number| SplitPoint::new(vec![ScalarValue::Int32(*number)]))
        .collect()
}

fn order(descending: bool, nulls_first: bool) -> SortOptions {
    SortOptions {
        descending,
        nulls_first,
    }
}

#[test]
fn equal_keys_go_to_the_partition_that_their_split_point_starts() -> Result<()> {
    let input = [keys([5, 10, 15, 20, 9, 19, 21, 10])];
    let by = |descending, points: &[Option<i32>]| {
        PartitionBy::range([("key", order(descending, true))], bounds(points))
    };
    for layout in LAYOUTS {
        let found = numbers(&by(false, &[Some(10), Some(20)]), 0, &input, layout)?;
        assert_eq!(found, [vec![5, 9], vec![10, 15, 19, 10], vec![20, 21]]);
        let found = numbers(&by(true, &[Some(20), Some(10)]), 0, &input, layout)?;
        assert_eq!(found, [vec![21], vec![15, 20, 19], vec![5, 10, 9, 10]]);
        let found = numbers(&by(false, &[]), 0, &input, layout)?;
        assert_eq!(found, [vec![5, 10, 15, 20, 9, 19, 21, 10]]);
    }
    Ok(())
}

#[test]
fn nulls_lie_where_the_order_puts_them() -> Result<()> {
    let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let input = [RecordBatch::try_from_iter([("key", column)])?];
    let text = |by: &PartitionBy| -> Result<Vec<Vec<String>>> {
        Ok(repartition(by, 0, &input, Layout::default())?
            .iter()
            .map(rows)
            .collect())
    };
    let by = |nulls_first, points: &[Option<i32>]| {
        PartitionBy::range([("key", order(false, nulls_first))], bounds(points))
    };
    assert_eq!(
        text(&by(true, &[Some(2)]))?,
        [vec!["1;", "null;"], vec!["3;"]]
    );
    assert_eq!(
        text(&by(false, &[Some(2)]))?,
        [vec!["1;"], vec!["null;", "3;"]]
    );
    // A split point may be null itself, of the key's type or of none.
    assert_eq!(
        text(&by(false, &[Some(2), None]))?,
        [vec!["1;"], vec!["3;"], vec!["null;"]]
    );
    let untyped = vec![SplitPoint::new(vec![ScalarValue::Null])];
    assert_eq!(
        text(&PartitionBy::range([("key", order(false, false))], untyped))?,
        [vec!["1;", "3;"], vec!["null;"]]
    );
    Ok(())
}

#[test]
fn an_expression_can_be_a_range_key() -> Result<()> {
    let key = PartitionKey::Expr(Arc::new(Tens));
    let by = PartitionBy::range([(key, order(false, true))], bounds(&[Some(1)]));
    assert_eq!(
        numbers(&by, 0, &[keys([3, 12, 9, 10])], Layout::default())?,
        [vec![3, 9], vec![12, 10]]
    );
    Ok(())
}

#[test]
fn split_points_that_cannot_be_are_told() {
    let build = |by: PartitionBy| {
        let runtime = runtime_of(&RecordingPool::unbounded());
        Repartitioner::builder(keys([]).schema(), by)
            .build(0, &runtime)
            .unwrap_err()
            .to_string()
    };
    let by = |points| PartitionBy::range([("key", order(false, true))], points);
    let message = build(by(bounds(&[Some(2), Some(2)])));
    assert!(message.contains("must be strictly ordered"), "{message}");
    let message = build(by(vec![SplitPoint::new(vec![])]));
    assert!(
        message.contains("has width 0, but ordering has width 1"),
        "{message}"
    );
    let message = build(by(vec![SplitPoint::new(vec![ScalarValue::Int64(Some(2))])]));
    assert!(
        message.contains("split point 2 of range key key is of type Int64, the key of type Int32"),
        "{message}"
    );
    let message = build(PartitionBy::range(
        [("kee", order(false, true))],
        bounds(&[Some(2)]),
    ));
    assert!(
        message.contains(r#"no range column "kee"; the schema has ["key"]"#),
        "{message}"
    );
    let message = build(PartitionBy::Range {
        keys: vec![],
        split_points: vec![],
    });
    assert!(message.contains("at least 1 key"), "{message}");
}

proptest! {
    /// Compared with DataFusion's own comparison of rows, bound by bound.
    #[test]
    fn ranges_are_those_of_datafusions_row_comparison(
        seed in any::<u64>(),
        types in prop::collection::vec(
            prop_oneof![
                Just(DataType::Int32),
                Just(DataType::Utf8),
                Just(DataType::Utf8View),
                Just(DataType::Float64),
                Just(DataType::Boolean),
                Just(DataType::Decimal128(15, 2)),
            ],
            1..4,
        ),
        orders in prop::collection::vec(any::<(bool, bool)>(), 3),
        points in 0..8_usize,
    ) {
        let mut random = Random(seed);
        let names: Vec<_> = (0..types.len()).map(|i| format!("c{i}")).collect();
        let fields = names.iter().zip(&types).map(|(name, data_type)| Field::new(name, data_type.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options: Vec<_> = orders.iter().take(types.len()).map(|(d, n)| order(*d, *n)).collect();
        let row = |batch: &RecordBatch, row| -> Vec<ScalarValue> {
            batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row).unwrap()).collect()
        };
        let compare = |a: &[ScalarValue], b: &[ScalarValue]| compare_rows(a, b, &options).unwrap();

        let candidates = batch(&mut random, &schema, points);
        let mut bounds: Vec<_> = (0..points).map(|i| row(&candidates, i)).collect();
        bounds.sort_by(|a, b| compare(a, b));
        bounds.dedup_by(|a, b| compare(a, b).is_eq());

        let batches: Vec<_> = [30, 1, 70].into_iter().map(|rows| batch(&mut random, &schema, rows)).collect();
        let mut expected = vec![vec![]; bounds.len() + 1];
        for batch in &batches {
            for (i, text) in rows(batch).into_iter().enumerate() {
                let key = row(batch, i);
                expected[bounds.iter().filter(|bound| compare(&key, bound).is_ge()).count()].push(text);
            }
        }
        let by = PartitionBy::range(
            names.iter().map(String::as_str).zip(options.clone()),
            bounds.into_iter().map(SplitPoint::new).collect(),
        );
        for layout in LAYOUTS {
            let found: Vec<_> = repartition(&by, 0, &batches, layout).unwrap().iter().map(rows).collect();
            prop_assert_eq!(&found, &expected);
        }
    }
}

#[test]
fn zeroes_and_nans_lie_where_datafusion_compares_them() -> Result<()> {
    let column: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, f64::NAN, f64::INFINITY]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["-0", "0", "nan", "inf"]));
    let input = [RecordBatch::try_from_iter([
        ("key", column),
        ("name", text),
    ])?];
    let points =
        [0.0, f64::NAN].map(|point| SplitPoint::new(vec![ScalarValue::Float64(Some(point))]));
    let by = PartitionBy::range([("key", order(false, true))], points.to_vec());
    let found = repartition(&by, 0, &input, Layout::default())?;
    let names = |batch: &RecordBatch| {
        batch
            .column(1)
            .as_string::<i32>()
            .iter()
            .map(|n| n.unwrap().to_owned())
            .collect()
    };
    let found: Vec<Vec<String>> = found.iter().map(names).collect();
    assert_eq!(found, [vec!["-0"], vec!["0", "inf"], vec!["nan"]]);
    Ok(())
}
