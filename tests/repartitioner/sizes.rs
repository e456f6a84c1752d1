//! The file holds the rows' own bytes, and none of those that merely came along.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray,
    StringViewArray, UInt8Array,
};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt8Type, UnionFields, UnionMode};
use arrow::util::display::array_value_to_string;
use arrow_ipc::root_as_message;
use datafusion_common::Result;
use datafusion_counting_pool::{Layout, PartitionBy, Repartitioner, Shuffle};

use crate::generate::{Random, batch, map_of};
use crate::recording_pool::RecordingPool;
use crate::support::{Output, runtime_of};

/// The lengths of all buffers of all messages of a partition: the file without its framing.
fn buffer_bytes(shuffle: &Shuffle, partition: usize) -> Result<usize> {
    let data = std::fs::read(shuffle.data_path())?;
    let start: u64 = (0..partition)
        .map(|partition| shuffle.partition_bytes(partition))
        .sum();
    let mut rest = &data[start as usize..][..shuffle.partition_bytes(partition) as usize];
    let mut bytes = 0;
    while rest.len() > 8 {
        let length = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let message = root_as_message(&rest[8..8 + length]).unwrap();
        let batch = match message.header_as_dictionary_batch() {
            Some(dictionary) => dictionary.data(),
            None => message.header_as_record_batch(),
        };
        let buffers = batch.and_then(|batch| batch.buffers());
        bytes += buffers
            .into_iter()
            .flatten()
            .map(|buffer| buffer.length() as usize)
            .sum::<usize>();
        rest = &rest[8 + length + message.bodyLength() as usize..];
    }
    Ok(bytes)
}

/// What the rows of an array take at least, with a validity bitmap where there are nulls. Of
/// dictionaries it is the keys.
fn logical_bytes(array: &dyn Array) -> usize {
    let rows = array.len();
    let validity = if array.null_count() > 0 {
        rows.div_ceil(8)
    } else {
        0
    };
    let text = |row: usize| {
        if array.is_null(row) {
            String::new()
        } else {
            array_value_to_string(array, row).unwrap()
        }
    };
    let lengths = |row: usize| match array.data_type() {
        DataType::Binary | DataType::BinaryView => text(row).len() / 2,
        _ => text(row).len(),
    };
    let elements = |lists: Vec<ArrayRef>| {
        let lists: Vec<&dyn Array> = lists.iter().map(AsRef::as_ref).collect();
        if lists.is_empty() {
            0
        } else {
            logical_bytes(&concat(&lists).unwrap())
        }
    };
    validity
        + match array.data_type() {
            DataType::Boolean => rows.div_ceil(8),
            DataType::FixedSizeBinary(size) => *size as usize * rows,
            DataType::Utf8 | DataType::Binary => {
                4 * (rows + 1) + (0..rows).map(lengths).sum::<usize>()
            }
            DataType::Utf8View | DataType::BinaryView => {
                16 * rows
                    + (0..rows)
                        .map(lengths)
                        .filter(|length| *length > 12)
                        .sum::<usize>()
            }
            DataType::Dictionary(..) => logical_bytes(array.as_any_dictionary().keys()) - validity,
            DataType::List(_) => {
                let valid = (0..rows).filter(|row| array.is_valid(*row));
                4 * (rows + 1)
                    + elements(valid.map(|row| array.as_list::<i32>().value(row)).collect())
            }
            DataType::ListView(_) => {
                let lists = (0..rows).map(|row| array.as_list_view::<i32>().value(row));
                8 * rows + elements(lists.collect())
            }
            DataType::Map(..) => {
                let valid = (0..rows).filter(|row| array.is_valid(*row));
                4 * (rows + 1)
                    + elements(
                        valid
                            .map(|row| Arc::new(array.as_map().value(row)) as _)
                            .collect(),
                    )
            }
            DataType::Struct(_) => array
                .as_struct()
                .columns()
                .iter()
                .map(|column| logical_bytes(column))
                .sum(),
            DataType::Union(_, UnionMode::Dense) => {
                let children: Vec<_> = (0..rows).map(|row| array.as_union().value(row)).collect();
                5 * rows
                    + children
                        .iter()
                        .map(|child| logical_bytes(child))
                        .sum::<usize>()
            }
            fixed => fixed.primitive_width().unwrap() * rows,
        }
}

/// The rows of a partition, each value that a dictionary column uses counted once.
fn logical_bytes_of(batches: &[RecordBatch]) -> usize {
    let rows: usize = batches
        .iter()
        .flat_map(RecordBatch::columns)
        .map(|column| logical_bytes(column))
        .sum();
    let columns = batches.first().map_or(0, RecordBatch::num_columns);
    let values: usize = (0..columns)
        .map(|column| used_values_bytes(batches, column))
        .sum();
    rows + values
}

fn used_values_bytes(batches: &[RecordBatch], column: usize) -> usize {
    let mut seen = HashSet::new();
    let mut used = vec![];
    for batch in batches {
        let Some(dictionary) = batch.column(column).as_any_dictionary_opt() else {
            return 0;
        };
        for (row, key) in dictionary.normalized_keys().into_iter().enumerate() {
            let value = || array_value_to_string(dictionary.values(), key).unwrap();
            if dictionary.is_valid(row) && seen.insert(value()) {
                used.push(dictionary.values().slice(key, 1));
            }
        }
    }
    let used: Vec<&dyn Array> = used.iter().map(AsRef::as_ref).collect();
    if used.is_empty() {
        0
    } else {
        logical_bytes(&concat(&used).unwrap())
    }
}

/// Writes the batches by hash of the first column, and compares what is in the file with what need
/// be.
fn check(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    layout: Layout,
    limit: Option<usize>,
    partitions: usize,
) -> Result<()> {
    let output = Output::new();
    let by = match partitions {
        1 => PartitionBy::single(),
        partitions => PartitionBy::hash_columns([schema.field(0).name()], partitions),
    };
    let mut writer = Repartitioner::builder(Arc::clone(schema), by)
        .with_layout(layout)
        .with_max_buffer_bytes(limit)
        .with_batch_size(100)
        .build(0, &runtime_of(&RecordingPool::unbounded()))?;
    for batch in batches {
        writer.insert_batch(batch.clone())?;
    }
    let shuffle = writer.finish(output.path())?;
    assert_eq!(shuffle.metrics().spill_count > 0, limit.is_some());
    for partition in 0..partitions {
        let read: Vec<_> = shuffle.partition(partition)?.collect::<Result<_>>()?;
        let (found, logical) = (buffer_bytes(&shuffle, partition)?, logical_bytes_of(&read));
        assert!(
            found as f64 <= logical as f64 * 1.1,
            "partition {partition} of {partitions}, {layout:?}, limit {limit:?}: {found} bytes for {logical}"
        );
    }
    Ok(())
}

fn check_all(schema: &SchemaRef, batches: &[RecordBatch], limit: usize) -> Result<()> {
    for layout in [Layout::Indexed, Layout::Reordered] {
        for partitions in [1, 4] {
            for limit in [None, Some(limit)] {
                check(schema, batches, layout, limit, partitions)?;
            }
        }
    }
    Ok(())
}

fn keyed(name: &str, column: ArrayRef) -> RecordBatch {
    let keys = Int32Array::from_iter_values(0..column.len() as i32);
    RecordBatch::try_from_iter_with_nullable([
        ("key", Arc::new(keys) as ArrayRef, false),
        (name, column, true),
    ])
    .unwrap()
}

#[test]
fn views_own_the_bytes_of_their_rows() -> Result<()> {
    // Each batch has 300 of 20,000 views into the same buffers of a megabyte.
    let long = StringViewArray::from_iter_values(
        (0..20_000).map(|i| format!("a value that no view can hold: {i}")),
    );
    let long: ArrayRef = Arc::new(long);
    let batches: Vec<_> = (0..10)
        .map(|i| {
            let rows = Int32Array::from_iter_values((0..300).map(|row| (row * 66 + i) % 20_000));
            keyed("views", take(&long, &rows, None).unwrap())
        })
        .collect();
    check_all(&batches[0].schema(), &batches, 10_000)
}

#[test]
fn dictionaries_hold_the_values_in_use_once_a_partition() -> Result<()> {
    // Long values, of which each batch uses a few, from a dictionary of its own that has others
    // too.
    let batches: Vec<_> = (0..10)
        .map(|i| {
            let values =
                (0..500).map(|value| format!("a long value of a dictionary {}", value + i * 10));
            let keys = Int32Array::from_iter_values((0..300).map(|row| row % 40));
            let array = DictionaryArray::new(keys, Arc::new(StringArray::from_iter_values(values)));
            keyed("dictionary", Arc::new(array))
        })
        .collect();
    check_all(&batches[0].schema(), &batches, 10_000)
}

#[test]
fn one_dictionary_shared_by_all_batches_is_written_once_a_partition() -> Result<()> {
    let values: ArrayRef =
        Arc::new(StringViewArray::from_iter_values((0..200).map(|value| {
            format!("a long value that no view can hold {value}")
        })));
    let batches: Vec<_> = (0..20)
        .map(|i| {
            let keys =
                UInt8Array::from_iter_values((0..100).map(|row| ((row + i * 7) % 200) as u8));
            keyed(
                "dictionary",
                Arc::new(DictionaryArray::<UInt8Type>::new(keys, Arc::clone(&values))),
            )
        })
        .collect();
    check_all(&batches[0].schema(), &batches, 5_000)
}

#[test]
fn slices_leave_the_rest_behind() -> Result<()> {
    let text = StringArray::from_iter_values((0..20_000).map(|i| format!("row {i} of many")));
    let all = keyed("text", Arc::new(text));
    let batches: Vec<_> = (0..10).map(|i| all.slice(i * 2000 + 7, 120)).collect();
    check_all(&batches[0].schema(), &batches, 5_000)
}

#[test]
fn content_under_nulls_is_left_behind() -> Result<()> {
    let text = StringArray::from_iter_values((0..1000).map(|i| format!("the text of row {i}")));
    let (offsets, values, _) = text.into_parts();
    let nulls = (0..1000).map(|row| row % 3 == 0).collect::<Vec<_>>().into();
    let covered = keyed(
        "text",
        Arc::new(StringArray::new(offsets, values, Some(nulls))),
    );
    check_all(&covered.schema(), &[covered], 0)
}

#[test]
fn nested_types_hold_what_their_rows_hold() -> Result<()> {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let types = [
        DataType::List(item(DataType::Utf8View)),
        DataType::List(item(DataType::List(item(DataType::Utf8)))),
        DataType::ListView(item(DataType::Int32)),
        DataType::Struct(vec![item(DataType::BinaryView), item(DataType::Boolean)].into()),
        map_of(DataType::Utf8View),
        DataType::Union(
            UnionFields::try_new([0, 1], [item(DataType::Utf8View), item(DataType::Int32)])
                .unwrap(),
            UnionMode::Dense,
        ),
    ];
    for data_type in types {
        let schema = Arc::new(Schema::new(vec![
            Field::new("key", DataType::Int32, true),
            Field::new("nested", data_type, true),
        ]));
        let mut random = Random(7);
        let large = batch(&mut random, &schema, 4000);
        let batches: Vec<_> = (0..10).map(|i| large.slice(i * 400 + 3, 150)).collect();
        check_all(&schema, &batches, 0)?;
    }
    Ok(())
}
