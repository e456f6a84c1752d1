//! What has to be known of a column's type before its rows can be moved.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, UnionFields};

/// Whether `found` holds for the type or for any inside it. The value types of dictionaries are not
/// looked into.
pub(super) fn contains(data_type: &DataType, found: &impl Fn(&DataType) -> bool) -> bool {
    found(data_type) || children(data_type).any(|child| contains(child.data_type(), found))
}

pub(super) fn is_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
}

pub(super) fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// The fields that arrays of the type have child arrays for, in their order.
pub(super) fn children(data_type: &DataType) -> impl Iterator<Item = &FieldRef> {
    let fields: Vec<&FieldRef> = match data_type {
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _) => vec![child],
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends, values],
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field).collect(),
        _ => vec![],
    };
    fields.into_iter()
}

/// The type with the key type in the place of every dictionary.
pub(super) fn key_form(data_type: &DataType) -> DataType {
    let form = |field: &FieldRef| -> FieldRef {
        let form = key_form(field.data_type());
        Arc::new(Field::clone(field).with_data_type(form))
    };
    match data_type {
        DataType::Dictionary(keys, _) => DataType::clone(keys),
        DataType::List(child) => DataType::List(form(child)),
        DataType::LargeList(child) => DataType::LargeList(form(child)),
        DataType::ListView(child) => DataType::ListView(form(child)),
        DataType::LargeListView(child) => DataType::LargeListView(form(child)),
        DataType::FixedSizeList(child, len) => DataType::FixedSizeList(form(child), *len),
        DataType::Map(entries, sorted) => DataType::Map(form(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(form).collect()),
        DataType::RunEndEncoded(ends, values) => {
            DataType::RunEndEncoded(Arc::clone(ends), form(values))
        }
        DataType::Union(fields, mode) => {
            let fields: UnionFields = fields.iter().map(|(id, field)| (id, form(field))).collect();
            DataType::Union(fields, *mode)
        }
        other => other.clone(),
    }
}
