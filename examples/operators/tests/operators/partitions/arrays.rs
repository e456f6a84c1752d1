//! Arrays of any type, made of small numbers.

use arrow::array::{
    Array, ArrayRef, BinaryArray, FixedSizeBinaryArray, Float64Array, Int64Array,
    IntervalMonthDayNanoArray, ListArray, NullArray, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use std::sync::{Arc, LazyLock};

/// Types that rows are dealt out by range of.
pub(super) static ORDERED: LazyLock<Vec<DataType>> = LazyLock::new(|| {
    let utc = || Some("UTC".into());
    let dictionary = |keys, values| DataType::Dictionary(Box::new(keys), Box::new(values));
    vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal32(5, 1),
        DataType::Decimal64(12, 2),
        DataType::Decimal128(20, 3),
        DataType::Decimal256(50, 4),
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Microsecond, utc()),
        DataType::Duration(TimeUnit::Millisecond),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(3),
        dictionary(DataType::Int8, DataType::Utf8),
        dictionary(DataType::UInt16, DataType::Utf8View),
        dictionary(DataType::Int64, DataType::Int64),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::List(Arc::new(list_item())),
        DataType::Struct(struct_fields()),
    ]
});

/// Types that rows are dealt out by hash of.
pub(super) static HASHED: LazyLock<Vec<DataType>> = LazyLock::new(|| {
    let mut types = ORDERED.clone();
    types.push(DataType::Null);
    types
});

fn list_item() -> Field {
    Field::new_list_field(DataType::Utf8, true)
}

fn struct_fields() -> Fields {
    Fields::from(vec![
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8View, true),
    ])
}

/// Equal values for equal numbers, nulls for none.
pub(super) fn array(data_type: &DataType, numbers: &[Option<i8>]) -> ArrayRef {
    let from_number = || Int64Array::from_iter(numbers.iter().map(|n| n.map(i64::from)));
    match data_type {
        DataType::Null => Arc::new(NullArray::new(numbers.len())),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            let numbers = numbers.iter().map(|n| n.map(|n| i64::from(n) + 6));
            converted(&Int64Array::from_iter(numbers), data_type)
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let numbers = numbers.iter().map(|n| n.map(float));
            converted(&Float64Array::from_iter(numbers), data_type)
        }
        DataType::Date32 | DataType::Time32(_) => {
            converted(&converted(&from_number(), &DataType::Int32), data_type)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            converted(&strings(numbers), data_type)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = BinaryArray::from_iter(numbers.iter().map(|n| n.map(|n| [n as u8; 2])));
            converted(&bytes, data_type)
        }
        DataType::FixedSizeBinary(size) => {
            let bytes = numbers
                .iter()
                .map(|n| n.map(|n| vec![n as u8; *size as usize]));
            let bytes = FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, *size);
            Arc::new(bytes.unwrap())
        }
        DataType::Interval(_) => {
            let interval = |n: i8| IntervalMonthDayNano::new(n.into(), -i32::from(n), 1);
            let intervals = numbers.iter().map(|n| n.map(interval));
            Arc::new(IntervalMonthDayNanoArray::from_iter(intervals))
        }
        DataType::Dictionary(_, values) => converted(&array(values, numbers), data_type),
        // As many items as the last digit says, of which the first may be null.
        DataType::List(item) => {
            let length = |n: &Option<i8>| n.map_or(0, |n| n.unsigned_abs() as usize % 3);
            let items: Vec<_> = numbers
                .iter()
                .flat_map(|n| (0..length(n)).map(|i| (i > 0).then_some(*n).flatten()))
                .collect();
            Arc::new(ListArray::new(
                Arc::clone(item),
                OffsetBuffer::from_lengths(numbers.iter().map(length)),
                Arc::new(strings(&items)),
                nulls(numbers),
            ))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| array(field.data_type(), numbers));
            Arc::new(StructArray::new(
                fields.clone(),
                columns.collect(),
                nulls(numbers),
            ))
        }
        _ => converted(&from_number(), data_type),
    }
}

fn converted(array: &dyn Array, data_type: &DataType) -> ArrayRef {
    cast(array, data_type).unwrap()
}

fn nulls(numbers: &[Option<i8>]) -> Option<NullBuffer> {
    Some(numbers.iter().map(Option::is_some).collect())
}

/// Both zeros and both NaNs are among them.
fn float(number: i8) -> f64 {
    match number {
        0 => 0.0,
        1 => -0.0,
        2 => f64::NAN,
        3 => -f64::NAN,
        4 => f64::INFINITY,
        5 => f64::NEG_INFINITY,
        number => f64::from(number) / 2.0,
    }
}

/// Short ones, which views hold themselves, and long ones, which they do not.
fn strings(numbers: &[Option<i8>]) -> StringArray {
    let string = |n: i8| match n % 3 {
        0 => format!("{n}"),
        _ => format!("more than twelve bytes: {n}"),
    };
    numbers.iter().map(|n| n.map(string)).collect()
}
