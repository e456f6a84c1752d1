//! Batches, schemas and options of all kinds, case by case.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::Result;
use datafusion_counting_pool::{Layout, PartitionBy, Repartitioner, Shuffle};

use crate::recording_pool::RecordingPool;
use crate::support::{Output, by_key, in_order, insert, keys, numbers, runtime_of, single};

#[test]
fn rows_without_columns_keep_their_number() -> Result<()> {
    let schema = Arc::new(Schema::empty());
    let rows = |count| {
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap()
    };
    for by in [
        PartitionBy::single(),
        PartitionBy::round_robin(2),
        PartitionBy::hash_columns([""; 0], 2),
    ] {
        for limit in [None, Some(0)] {
            let output = Output::new();
            let mut writer = Repartitioner::builder(Arc::clone(&schema), by.clone())
                .with_max_buffer_bytes(limit)
                .build(0, &runtime_of(&RecordingPool::unbounded()))?;
            for count in [10_000, 0, 5] {
                writer.insert_batch(rows(count))?;
            }
            let shuffle = Shuffle::open(
                writer.finish(output.path())?.data_path(),
                Arc::clone(&schema),
            )?;
            let mut total = 0;
            for partition in 0..shuffle.partitions() {
                for batch in shuffle.partition(partition)? {
                    total += batch?.num_rows();
                }
            }
            assert_eq!(total, 10_005, "{by:?}");
        }
    }
    Ok(())
}

#[test]
fn a_large_batch_is_taken_in_by_slices_and_goes_out_in_batches() -> Result<()> {
    let output = Output::new();
    let mut writer = single()
        .with_batch_size(30)
        .with_max_buffer_bytes(Some(400))
        .build(0, &runtime_of(&RecordingPool::unbounded()))?;
    writer.insert_batch(keys((0..100).collect::<Vec<_>>()))?;
    assert_eq!(
        (writer.metrics().input_batches, writer.metrics().input_rows),
        (1, 100)
    );
    // The first slice is charged the 400 bytes that it pins, the others nothing more.
    assert_eq!(
        (
            writer.metrics().buffered_bytes,
            writer.metrics().spill_count
        ),
        (400, 0)
    );
    let shuffle = writer.finish(output.path())?;
    let batches: Vec<_> = shuffle.partition(0)?.collect::<Result<_>>()?;
    let lengths: Vec<_> = batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(lengths, [30, 30, 30, 10]);
    assert_eq!(numbers(&shuffle)?, (0..100).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn the_reordered_layout_is_charged_for_what_it_holds() -> Result<()> {
    // A batch of 10 rows out of 1,000: the indexed layout pins them all.
    let slice = || keys(vec![1; 1000]).slice(500, 10);
    for (layout, bytes) in [
        (Layout::Indexed, 4000 + 10 * 8),
        (Layout::Reordered, 10 * 4 + 4 * 12),
    ] {
        let mut writer = by_key(5)
            .with_layout(layout)
            .build(0, &runtime_of(&RecordingPool::unbounded()))?;
        writer.insert_batch(slice())?;
        assert_eq!(writer.metrics().buffered_bytes, bytes, "{layout:?}");
    }
    Ok(())
}

#[test]
fn more_dictionary_values_than_keys_are_written_by_and_by() -> Result<()> {
    use arrow::array::DictionaryArray;
    use arrow::datatypes::Int8Type;

    // 20 dictionaries of 100 values each, of which 128 have a key.
    let batch = |number: i32| {
        let values = StringArray::from_iter_values(
            (0..100).map(|value| format!("value {}", value + number * 50)),
        );
        let keys = (0..100)
            .map(|key| (key % 7 != 0).then_some(key as i8))
            .collect();
        let array: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(values)));
        RecordBatch::try_from_iter([("d", array)]).unwrap()
    };
    let text = |batch: &RecordBatch| {
        let column = batch.column(0);
        let value = |row| {
            column
                .is_valid(row)
                .then(|| arrow::util::display::array_value_to_string(column, row).unwrap())
        };
        (0..batch.num_rows()).map(value).collect::<Vec<_>>()
    };
    for limit in [None, Some(5000)] {
        let output = Output::new();
        let mut writer = Repartitioner::builder(batch(0).schema(), PartitionBy::single())
            .with_max_buffer_bytes(limit)
            .build(0, &runtime_of(&RecordingPool::unbounded()))?;
        let mut expected = vec![];
        for number in 0..20 {
            expected.extend(text(&batch(number)));
            writer.insert_batch(batch(number))?;
        }
        let shuffle = writer.finish(output.path())?;
        let batches: Vec<_> = shuffle.partition(0)?.collect::<Result<_>>()?;
        assert_eq!(batches.iter().flat_map(text).collect::<Vec<_>>(), expected);
    }
    Ok(())
}

#[test]
fn there_may_be_more_spills_than_files_are_kept_open() -> Result<()> {
    use arrow::array::Int32DictionaryArray;

    let output = Output::new();
    let runtime = runtime_of(&RecordingPool::unbounded());
    let mut writer = by_key(3)
        .with_max_buffer_bytes(Some(0))
        .build(0, &runtime)?;
    for batch in 0..300 {
        writer.insert_batch(keys([batch, batch + 1, batch + 2]))?;
    }
    // DataFusion keeps each of them open, and a process may open some thousand.
    let files = runtime.disk_manager.spilling_progress().active_files_count;
    assert_eq!(files, 32);
    let shuffle = writer.finish(output.path())?;
    assert_eq!(shuffle.metrics().spill_count, 300);
    let mut expected: Vec<_> = (0..300)
        .flat_map(|batch| [batch, batch + 1, batch + 2])
        .collect();
    let mut found = numbers(&shuffle)?;
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);

    // With dictionaries the spills are read twice.
    let batch = |number: i32| {
        let array: ArrayRef = Arc::new(
            [format!("value {}", number % 10).as_str()]
                .into_iter()
                .collect::<Int32DictionaryArray>(),
        );
        RecordBatch::try_from_iter([("d", array)]).unwrap()
    };
    let mut writer = Repartitioner::builder(batch(0).schema(), PartitionBy::single())
        .with_max_buffer_bytes(Some(0))
        .build(0, &runtime_of(&RecordingPool::unbounded()))?;
    (0..300).try_for_each(|number| writer.insert_batch(batch(number)))?;
    let shuffle = writer.finish(output.path())?;
    let rows: Vec<_> = shuffle
        .partition(0)?
        .map(|batch| crate::model::rows(&batch.unwrap()).remove(0))
        .collect();
    assert_eq!(
        rows,
        (0..300)
            .map(|number| format!("\"value {}\";", number % 10))
            .collect::<Vec<_>>()
    );
    Ok(())
}

#[test]
fn what_cannot_be_is_told_at_once() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Int32, true),
    ]));
    let build = |by: PartitionBy| {
        let runtime = runtime_of(&RecordingPool::unbounded());
        Repartitioner::builder(Arc::clone(&schema), by)
            .build(5, &runtime)
            .unwrap_err()
            .to_string()
    };
    let message = build(PartitionBy::hash_columns(["a", "c"], 3));
    assert!(
        message.contains(r#"no hash column "c"; the schema has ["a", "b"]"#),
        "{message}"
    );
    let message = build(PartitionBy::hash_columns(["a"], 0));
    assert!(
        message.contains("at least 1 output partition, not 0"),
        "{message}"
    );
    let message = build(PartitionBy::round_robin(0));
    assert!(
        message.contains("at least 1 output partition, not 0"),
        "{message}"
    );
    let message = build(PartitionBy::hash_columns(["a"], usize::MAX));
    assert!(
        message.contains("at most 4294967295 output partitions"),
        "{message}"
    );
    let message = build(PartitionBy::RoundRobin {
        partitions: 3,
        inputs: 5,
    });
    assert!(message.contains("input partition 5 of 5"), "{message}");

    let runtime = runtime_of(&RecordingPool::unbounded());
    let message = single()
        .with_batch_size(0)
        .build(0, &runtime)
        .unwrap_err()
        .to_string();
    assert!(message.contains("at least 1 row, not 0"), "{message}");
}

#[test]
fn a_batch_of_another_schema_is_refused_and_nothing_is_lost() -> Result<()> {
    let output = Output::new();
    let mut writer = single().build(0, &runtime_of(&RecordingPool::unbounded()))?;
    insert(&mut writer, 0..1)?;
    let refused = |writer: &mut Repartitioner, name: &str, column: ArrayRef| {
        let batch = RecordBatch::try_from_iter([(name, column)]).unwrap();
        writer.insert_batch(batch).unwrap_err().to_string()
    };
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let message = refused(&mut writer, "key", Arc::clone(&text));
    assert!(
        message.contains(r#"column "key" of type Utf8"#) && message.contains("Int32"),
        "{message}"
    );
    let message = refused(&mut writer, "other", Arc::clone(keys([1]).column(0)));
    assert!(
        message.contains(r#""other""#) && message.contains(r#""key""#),
        "{message}"
    );
    let message = refused(
        &mut writer,
        "key",
        Arc::new(arrow::array::Int32Array::from(vec![None])),
    );
    assert!(
        message.contains(r#"nulls in the column "key""#),
        "{message}"
    );
    let two = RecordBatch::try_from_iter([("key", Arc::clone(keys([1]).column(0))), ("b", text)])?;
    let message = writer.insert_batch(two).unwrap_err().to_string();
    assert!(
        message.contains("2 columns, the shuffle's schema 1"),
        "{message}"
    );

    insert(&mut writer, 1..2)?;
    assert_eq!(numbers(&writer.finish(output.path())?)?, in_order(0..2));
    Ok(())
}

#[test]
fn it_can_be_sent_to_another_thread() {
    fn sent<T: Send>() {}
    sent::<Repartitioner>();
    sent::<Shuffle>();
    sent::<datafusion_counting_pool::PartitionReader>();
}
