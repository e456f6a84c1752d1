//! Leaves behind what an array holds but its rows do not use.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::datatypes::DataType;
use datafusion_common::Result;

use crate::repartition::types::{contains, is_view};

/// The same rows, with view arrays that own exactly the bytes of their rows. A view array that was gathered drags
/// every buffer along that one of its rows lies in, and Arrow IPC writes them all.
pub(super) fn compact(array: ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8View => Ok(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(array.as_binary_view().gc())),
        nested if contains(nested, &is_view) => Ok(make_array(compact_children(array.to_data())?)),
        _ => Ok(array),
    }
}

fn compact_children(data: ArrayData) -> Result<ArrayData> {
    let children = data
        .child_data()
        .iter()
        .map(|child| Ok(compact(make_array(child.clone()))?.to_data()))
        .collect::<Result<Vec<_>>>()?;
    Ok(data.into_builder().child_data(children).build()?)
}
