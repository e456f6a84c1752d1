//! One dictionary out of many.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, UInt64Array, downcast_integer_array,
    new_empty_array,
};
use arrow::compute::{concat, take};
use arrow::datatypes::{ArrowNativeType, DataType};
use arrow::row::{RowConverter, SortField};
use datafusion_common::{HashMap, Result, internal_datafusion_err, internal_err};

use crate::repartition::compact::compact;
use crate::repartition::types::{contains, is_dictionary};

/// Brings the keys of arrays with several dictionaries to one common dictionary, which holds each
/// value that is used, once.
#[derive(Debug)]
pub(super) struct Unifier {
    value_type: DataType,
    /// How many values the key type can tell apart.
    capacity: usize,
    known: Known,
}

#[derive(Debug)]
enum Known {
    Merged {
        converter: RowConverter,
        /// The place of each value, by its row encoding.
        places: HashMap<Box<[u8]>, usize>,
        /// The place of each value of each dictionary that has been met, by the dictionary's
        /// address. Who calls keeps the dictionaries alive.
        sources: HashMap<usize, HashMap<usize, usize>>,
        /// The values, in the order of their places: those of the last answer and those since.
        values: Vec<ArrayRef>,
    },
    /// Values that hold dictionaries of their own: they can be merged as little as any dictionary,
    /// so that one source after the other is used as it is.
    AsIs { source: Option<ArrayRef> },
}

impl Unifier {
    pub(super) fn try_new(key_type: &DataType, value_type: &DataType) -> Result<Self> {
        let field = SortField::new(value_type.clone());
        let mergeable = !contains(value_type, &is_dictionary)
            && RowConverter::supports_fields(std::slice::from_ref(&field));
        Ok(Self {
            value_type: value_type.clone(),
            capacity: key_capacity(key_type),
            known: if mergeable {
                Known::Merged {
                    converter: RowConverter::new(vec![field])?,
                    places: HashMap::default(),
                    sources: HashMap::default(),
                    values: vec![],
                }
            } else {
                Known::AsIs { source: None }
            },
        })
    }

    /// Makes sure that the values of `source` which `keys` use have a place. Gives `false`, and no
    /// place to any, where there are more of them than keys. After a [`reset`](Self::reset) the
    /// values that the keys of one array use always fit.
    pub(super) fn learn(&mut self, source: &ArrayRef, keys: &dyn Array) -> Result<bool> {
        let (converter, places, sources, values) = match &mut self.known {
            Known::AsIs { source: current } => {
                let current = current.get_or_insert_with(|| Arc::clone(source));
                return Ok(Arc::ptr_eq(current, source) || current == source);
            }
            Known::Merged {
                converter,
                places,
                sources,
                values,
            } => (converter, places, sources, values),
        };
        let known = sources.entry(address(source)).or_default();
        let mut unknown = used(keys)?;
        unknown.retain(|key| !known.contains_key(key));
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() {
            return Ok(true);
        }

        let taken = take_all(source, &unknown)?;
        let rows = converter.convert_columns(std::slice::from_ref(&taken))?;
        let mut new: Vec<usize> = (0..unknown.len())
            .filter(|i| !places.contains_key(rows.row(*i).as_ref()))
            .collect();
        // A dictionary may hold a value twice.
        let mut first = HashMap::new();
        new.retain(|i| first.insert(rows.row(*i).data(), ()).is_none());
        if places.len() + new.len() > self.capacity {
            return Ok(false);
        }
        for &i in &new {
            places.insert(rows.row(i).as_ref().into(), places.len());
        }
        for (i, key) in unknown.into_iter().enumerate() {
            known.insert(key, places[rows.row(i).as_ref()]);
        }
        if !new.is_empty() {
            values.push(take_all(&taken, &new)?);
        }
        Ok(true)
    }

    /// The keys of the common dictionary for `keys` of `source`, whose values must have been
    /// learned.
    pub(super) fn translate(&self, source: &ArrayRef, keys: &ArrayRef) -> Result<ArrayRef> {
        match &self.known {
            Known::AsIs { .. } => Ok(Arc::clone(keys)),
            Known::Merged { sources, .. } => {
                let known = sources
                    .get(&address(source))
                    .ok_or_else(|| internal_datafusion_err!("a dictionary has not been learned"))?;
                let keys: &dyn Array = keys.as_ref();
                downcast_integer_array!(
                    keys => translate(keys, known),
                    other => internal_err!("dictionary keys of type {other}")
                )
            }
        }
    }

    /// The values of the common dictionary.
    pub(super) fn values(&mut self) -> Result<ArrayRef> {
        match &mut self.known {
            Known::AsIs { source } => Ok(source
                .clone()
                .unwrap_or_else(|| new_empty_array(&self.value_type))),
            Known::Merged { values, .. } => {
                if values.len() != 1 {
                    let parts: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
                    let all = if parts.is_empty() {
                        new_empty_array(&self.value_type)
                    } else {
                        compact(concat(&parts)?)?
                    };
                    *values = vec![all];
                }
                Ok(Arc::clone(&values[0]))
            }
        }
    }

    /// Starts a new dictionary.
    pub(super) fn reset(&mut self) {
        match &mut self.known {
            Known::AsIs { source } => *source = None,
            Known::Merged {
                places,
                sources,
                values,
                ..
            } => {
                places.clear();
                sources.clear();
                values.clear();
            }
        }
    }

    /// Forgets the dictionaries that have been met, which may go now, and keeps the values.
    pub(super) fn forget_sources(&mut self) {
        if let Known::Merged { sources, .. } = &mut self.known {
            sources.clear();
        }
    }
}

fn address(source: &ArrayRef) -> usize {
    Arc::as_ptr(source).cast::<()>() as usize
}

fn take_all(values: &ArrayRef, indices: &[usize]) -> Result<ArrayRef> {
    let indices = UInt64Array::from_iter_values(indices.iter().map(|i| *i as u64));
    Ok(take(values, &indices, None)?)
}

fn used(keys: &dyn Array) -> Result<Vec<usize>> {
    downcast_integer_array!(
        keys => Ok(keys.iter().flatten().map(|key| key.as_usize()).collect()),
        other => internal_err!("dictionary keys of type {other}")
    )
}

fn translate<K: ArrowPrimitiveType>(
    keys: &PrimitiveArray<K>,
    known: &HashMap<usize, usize>,
) -> Result<ArrayRef> {
    let translated = keys.iter().map(|key| {
        let Some(key) = key else { return Ok(None) };
        match known
            .get(&key.as_usize())
            .and_then(|key| K::Native::from_usize(*key))
        {
            Some(key) => Ok(Some(key)),
            None => internal_err!("dictionary key {key:?} was not learned"),
        }
    });
    Ok(Arc::new(translated.collect::<Result<PrimitiveArray<K>>>()?))
}

fn key_capacity(key_type: &DataType) -> usize {
    match key_type {
        DataType::Int8 => 1 << 7,
        DataType::UInt8 => 1 << 8,
        DataType::Int16 => 1 << 15,
        DataType::UInt16 => 1 << 16,
        DataType::Int32 => 1 << 31,
        // More than there can be rows in a batch.
        _ => usize::MAX,
    }
}
