//! Takes dictionaries out of arrays and puts others in.
//!
//! Rows of several batches come with several dictionaries, and the kernels that bring them together
//! either keep all of these or, once the key type is exhausted, fail or panic. So rows are moved
//! with bare keys in the place of dictionary arrays (the key form of an array) and get the one
//! dictionary of their partition at last.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::datatypes::DataType;
use datafusion_common::Result;

use crate::repartition::types::{children, contains, is_dictionary, key_form};

/// Splits an array into its key form and its dictionaries' values, in the order of the type.
pub(super) fn take_out(array: &ArrayRef) -> Result<(ArrayRef, Vec<ArrayRef>)> {
    let data_type = array.data_type();
    let mut values = vec![];
    let keys = Walk {
        result_type: &key_form,
    }
    .walk(array.to_data(), data_type, &mut |data, _| {
        values.extend(
            data.child_data()
                .iter()
                .map(|values| make_array(values.clone())),
        );
        let keys = data.data_type().clone();
        Ok(data
            .into_builder()
            .data_type(key_form(&keys))
            .child_data(vec![])
            .build()?)
    })?;
    Ok((make_array(keys), values))
}

/// The array of `data_type` whose key form is `keys`, with these dictionary values in the order of
/// the type.
pub(super) fn put_in(
    keys: &ArrayRef,
    data_type: &DataType,
    values: &[ArrayRef],
) -> Result<ArrayRef> {
    let mut values = values.iter();
    let array = Walk {
        result_type: &DataType::clone,
    }
    .walk(keys.to_data(), data_type, &mut |data, data_type| {
        let values = values.next().map(|values| values.to_data());
        let builder = data.into_builder().data_type(data_type.clone());
        Ok(builder.child_data(values.into_iter().collect()).build()?)
    })?;
    Ok(make_array(array))
}

/// The key form `keys` of an array of `data_type` with other keys in the place of each dictionary:
/// what `change` gives for the number of the dictionary in the order of the type, and its keys.
pub(super) fn change_keys(
    keys: &ArrayRef,
    data_type: &DataType,
    mut change: impl FnMut(usize, ArrayRef) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    if is_dictionary(data_type) {
        return change(0, Arc::clone(keys));
    }
    let mut number = 0;
    let array = Walk {
        result_type: &key_form,
    }
    .walk(keys.to_data(), data_type, &mut |data, _| {
        let changed = change(number, make_array(data))?;
        number += 1;
        Ok(changed.to_data())
    })?;
    Ok(make_array(array))
}

/// Rebuilds an array, or its key form, with other data in the place of each dictionary.
struct Walk<'a> {
    /// From the type of an array to that of what is put in its place.
    result_type: &'a dyn Fn(&DataType) -> DataType,
}

type Leaf<'a> = dyn FnMut(ArrayData, &DataType) -> Result<ArrayData> + 'a;

impl Walk<'_> {
    fn walk(
        &self,
        data: ArrayData,
        data_type: &DataType,
        leaf: &mut Leaf<'_>,
    ) -> Result<ArrayData> {
        if is_dictionary(data_type) {
            return leaf(data, data_type);
        }
        if !contains(data_type, &is_dictionary) {
            return Ok(data);
        }
        let walked = data
            .child_data()
            .iter()
            .zip(children(data_type))
            .map(|(child, field)| self.walk(child.clone(), field.data_type(), leaf))
            .collect::<Result<Vec<_>>>()?;
        let data_type = (self.result_type)(data_type);
        Ok(data
            .into_builder()
            .data_type(data_type)
            .child_data(walked)
            .build()?)
    }
}
