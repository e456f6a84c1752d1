//! Leaves behind what an array holds but its rows do not use.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, OffsetSizeTrait, UInt32Array, make_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::Result;

use crate::repartition::types::is_view;

/// The same rows in an array that was gathered, so that it holds no others, but may hold too much
/// of these.
///
/// - Views drag every buffer along that one of their rows lies in, and Arrow IPC writes all of
///   them: they get
///   buffers of exactly the bytes of their rows.
/// - A null may cover content, which the kernels move like any other.
pub(super) fn compact(array: ArrayRef) -> Result<ArrayRef> {
    let array = if covers_content(&array) {
        uncover(&array)?
    } else {
        array
    };
    match array.data_type() {
        DataType::Utf8View => Ok(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(array.as_binary_view().gc())),
        nested if nested.is_nested() => {
            let data = array.to_data();
            if data.child_data().iter().any(is_loose) {
                return Ok(make_array(compact_children(data)?));
            }
            Ok(array)
        }
        _ => Ok(array),
    }
}

/// Whether compacting would change anything.
fn is_loose(data: &ArrayData) -> bool {
    is_view(data.data_type())
        || covers_content(&make_array(data.clone()))
        || data.child_data().iter().any(is_loose)
}

fn compact_children(data: ArrayData) -> Result<ArrayData> {
    let children = data
        .child_data()
        .iter()
        .map(|child| Ok(compact(make_array(child.clone()))?.to_data()))
        .collect::<Result<Vec<_>>>()?;
    Ok(data.into_builder().child_data(children).build()?)
}

fn covers_content(array: &ArrayRef) -> bool {
    let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return false;
    };
    match array.data_type() {
        DataType::Utf8 => covers(nulls, array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => covers(nulls, array.as_string::<i64>().offsets()),
        DataType::Binary => covers(nulls, array.as_binary::<i32>().offsets()),
        DataType::LargeBinary => covers(nulls, array.as_binary::<i64>().offsets()),
        DataType::List(_) => covers(nulls, array.as_list::<i32>().offsets()),
        DataType::LargeList(_) => covers(nulls, array.as_list::<i64>().offsets()),
        DataType::Map(..) => covers(nulls, array.as_map().offsets()),
        _ => false,
    }
}

fn covers<O: OffsetSizeTrait>(nulls: &NullBuffer, offsets: &OffsetBuffer<O>) -> bool {
    (0..nulls.len()).any(|row| nulls.is_null(row) && offsets[row] != offsets[row + 1])
}

fn uncover(array: &ArrayRef) -> Result<ArrayRef> {
    // A null index makes a null of no length.
    let rows: UInt32Array = (0..array.len())
        .map(|row| array.is_valid(row).then_some(row as u32))
        .collect();
    Ok(take(array, &rows, None)?)
}
