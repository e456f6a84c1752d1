//! Random batches of any type.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    FixedSizeBinaryArray, FixedSizeListArray, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, LargeListArray, LargeStringArray, ListArray, ListViewArray, MapArray, NullArray,
    PrimitiveArray, RecordBatch, RecordBatchOptions, RunArray, StringArray, StringViewArray,
    StructArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array, UnionArray, downcast_integer,
    new_empty_array,
};
use arrow::array::{DictionaryArray, TimestampMicrosecondArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType, Field, FieldRef, Fields, Int16Type,
    Int32Type, SchemaRef, TimeUnit, UnionFields, UnionMode,
};
use proptest::prelude::*;

/// SplitMix64: the same numbers for the same seed, for ever.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn within(&mut self, range: Range<i64>) -> i64 {
        range.start + self.below((range.end - range.start) as usize) as i64
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Short ones, for views, fit into the view; long ones do not.
    fn bytes(&mut self) -> Vec<u8> {
        let len = if self.one_in(2) {
            self.below(12)
        } else {
            13 + self.below(40)
        };
        (0..len).map(|_| b'a' + self.below(4) as u8).collect()
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    fn nulls(&mut self, len: usize) -> Option<NullBuffer> {
        let odds = [0, 0, 2, 5][self.below(4)];
        (odds > 0).then(|| {
            (0..len)
                .map(|_| !self.one_in(odds))
                .collect::<Vec<_>>()
                .into()
        })
    }
}

pub(crate) fn any_type() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        4 => prop_oneof![
            Just(DataType::Int32),
            Just(DataType::Int64),
            Just(DataType::UInt8),
            Just(DataType::Float64),
            Just(DataType::Decimal128(15, 2)),
            Just(DataType::Date32),
            Just(DataType::Timestamp(TimeUnit::Microsecond, Some("+02:00".into()))),
            Just(DataType::Boolean),
            Just(DataType::Null),
            Just(DataType::FixedSizeBinary(3)),
        ],
        4 => prop_oneof![
            Just(DataType::Utf8),
            Just(DataType::LargeUtf8),
            Just(DataType::Binary),
            Just(DataType::Utf8View),
            Just(DataType::BinaryView),
        ],
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let field = inner.clone().prop_map(|data_type| Arc::new(Field::new("item", data_type, true)));
        prop_oneof![
            4 => (key_type(), dictionary_value(inner.clone()))
                .prop_map(|(keys, values)| DataType::Dictionary(Box::new(keys), Box::new(values))),
            1 => field.clone().prop_map(DataType::List),
            1 => field.clone().prop_map(DataType::LargeList),
            1 => field.clone().prop_map(DataType::ListView),
            1 => (field, 1..4_i32).prop_map(|(field, len)| DataType::FixedSizeList(field, len)),
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(|types| DataType::Struct(named(types).into())),
            1 => inner.clone().prop_map(map_of),
            1 => (prop::collection::vec(inner.clone(), 1..3), any::<bool>()).prop_map(|(types, dense)| {
                let fields = UnionFields::try_new(0..types.len() as i8, named(types)).unwrap();
                DataType::Union(fields, if dense { UnionMode::Dense } else { UnionMode::Sparse })
            }),
            1 => (any::<bool>(), inner).prop_map(|(short, values)| {
                let ends = if short { DataType::Int16 } else { DataType::Int32 };
                DataType::RunEndEncoded(
                    Arc::new(Field::new("run_ends", ends, false)),
                    Arc::new(Field::new("values", values, true)),
                )
            }),
        ]
    })
}

fn key_type() -> impl Strategy<Value = DataType> {
    prop_oneof![
        Just(DataType::Int8),
        Just(DataType::UInt8),
        Just(DataType::UInt16),
        Just(DataType::Int32),
        Just(DataType::UInt64),
    ]
}

/// Arrow IPC has no dictionaries of dictionaries, but of what holds dictionaries.
fn dictionary_value(inner: BoxedStrategy<DataType>) -> impl Strategy<Value = DataType> {
    let allowed =
        |data_type: &DataType| !matches!(data_type, DataType::Dictionary(..) | DataType::Null);
    prop_oneof![
        3 => prop_oneof![Just(DataType::Utf8), Just(DataType::Utf8View), Just(DataType::Int64)],
        1 => inner.prop_filter("a dictionary of dictionaries", allowed),
    ]
}

fn named(types: Vec<DataType>) -> Vec<FieldRef> {
    types
        .into_iter()
        .enumerate()
        .map(|(i, data_type)| Arc::new(Field::new(format!("f{i}"), data_type, true)))
        .collect()
}

pub(crate) fn map_of(values: DataType) -> DataType {
    let entries = Fields::from(vec![
        Field::new("keys", DataType::Utf8, false),
        Field::new("values", values, true),
    ]);
    DataType::Map(
        Arc::new(Field::new("entries", DataType::Struct(entries), false)),
        false,
    )
}

/// A batch of the schema, its columns with offsets more often than not.
pub(crate) fn batch(random: &mut Random, schema: &SchemaRef, rows: usize) -> RecordBatch {
    let columns = schema
        .fields()
        .iter()
        .map(|field| {
            let (before, after) = (random.below(4), random.below(4));
            array(random, field.data_type(), before + rows + after).slice(before, rows)
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).unwrap()
}

pub(crate) fn array(random: &mut Random, data_type: &DataType, len: usize) -> ArrayRef {
    macro_rules! primitive {
        ($array:ty, $range:expr) => {{
            let values: Vec<_> = (0..len).map(|_| random.within($range) as _).collect();
            Arc::new(<$array>::new(values.into(), random.nulls(len)))
        }};
    }
    macro_rules! bytes {
        ($array:ty, $value:ident) => {{
            let nulls = random.nulls(len);
            let value = |i| {
                nulls
                    .as_ref()
                    .is_none_or(|nulls| nulls.is_valid(i))
                    .then(|| random.$value())
            };
            Arc::new((0..len).map(value).collect::<$array>())
        }};
    }
    match data_type {
        DataType::Int8 => primitive!(Int8Array, -128..128),
        DataType::Int16 => primitive!(Int16Array, -9..9),
        DataType::Int32 => primitive!(Int32Array, -9..9),
        DataType::Int64 => primitive!(Int64Array, -1000..1000),
        DataType::UInt8 => primitive!(UInt8Array, 0..256),
        DataType::UInt16 => primitive!(UInt16Array, 0..9),
        DataType::UInt32 => primitive!(UInt32Array, 0..9),
        DataType::UInt64 => primitive!(UInt64Array, 0..9),
        DataType::Date32 => primitive!(Date32Array, 0..9999),
        DataType::Float64 => {
            let special = [0.0, -0.0, f64::NAN, f64::INFINITY, 1.5, -2.25];
            let values: Vec<_> = (0..len).map(|_| special[random.below(6)]).collect();
            Arc::new(Float64Array::new(values.into(), random.nulls(len)))
        }
        DataType::Decimal128(precision, scale) => {
            let values: Vec<_> = (0..len)
                .map(|_| i128::from(random.within(-99..99)))
                .collect();
            let array = Decimal128Array::new(values.into(), random.nulls(len));
            Arc::new(array.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let values: Vec<_> = (0..len).map(|_| random.within(0..1 << 40)).collect();
            let array = TimestampMicrosecondArray::new(values.into(), random.nulls(len));
            Arc::new(array.with_timezone_opt(zone.clone()))
        }
        DataType::Boolean => {
            let values: Vec<_> = (0..len).map(|_| random.one_in(2)).collect();
            Arc::new(BooleanArray::new(values.into(), random.nulls(len)))
        }
        DataType::Null => Arc::new(NullArray::new(len)),
        DataType::FixedSizeBinary(size) => {
            let values: Vec<u8> = (0..len * *size as usize)
                .map(|_| random.next() as u8)
                .collect();
            Arc::new(FixedSizeBinaryArray::new(
                *size,
                values.into(),
                random.nulls(len),
            ))
        }
        DataType::Utf8 => bytes!(StringArray, text),
        DataType::LargeUtf8 => bytes!(LargeStringArray, text),
        DataType::Binary => bytes!(BinaryArray, bytes),
        DataType::Utf8View => bytes!(StringViewArray, text),
        DataType::BinaryView => bytes!(BinaryViewArray, bytes),
        DataType::Dictionary(keys, values) => {
            macro_rules! dictionary {
                ($key:ty) => {
                    dictionary::<$key>(random, values, len)
                };
            }
            downcast_integer! {
                keys.as_ref() => (dictionary),
                other => panic!("dictionary keys of type {other}")
            }
        }
        DataType::List(field) => {
            let (offsets, values) = list(random, field, len);
            Arc::new(ListArray::new(
                Arc::clone(field),
                offsets,
                values,
                random.nulls(len),
            ))
        }
        DataType::LargeList(field) => {
            let (offsets, values) = list(random, field, len);
            let offsets =
                OffsetBuffer::new(offsets.iter().map(|offset| i64::from(*offset)).collect());
            Arc::new(LargeListArray::new(
                Arc::clone(field),
                offsets,
                values,
                random.nulls(len),
            ))
        }
        DataType::ListView(field) => {
            // Views in no order, which overlap.
            let elements = random.below(8);
            let values = array(random, field.data_type(), elements);
            let offsets: Vec<i32> = (0..len)
                .map(|_| random.below(elements + 1) as i32)
                .collect();
            let sizes: Vec<i32> = offsets
                .iter()
                .map(|offset| random.below(elements - *offset as usize + 1) as i32)
                .collect();
            let nulls = random.nulls(len);
            Arc::new(ListViewArray::new(
                Arc::clone(field),
                offsets.into(),
                sizes.into(),
                values,
                nulls,
            ))
        }
        DataType::FixedSizeList(field, size) => {
            let values = array(random, field.data_type(), len * *size as usize);
            let nulls = random.nulls(len);
            let list = FixedSizeListArray::try_new_with_length(
                Arc::clone(field),
                *size,
                values,
                nulls,
                len,
            );
            Arc::new(list.unwrap())
        }
        DataType::Struct(fields) => {
            let columns = fields
                .iter()
                .map(|field| array(random, field.data_type(), len))
                .collect();
            let nulls = random.nulls(len);
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, len).unwrap())
        }
        DataType::Map(entries, sorted) => {
            let DataType::Struct(fields) = entries.data_type() else {
                panic!("map entries: {entries}")
            };
            let (offsets, _) = list(random, &fields[1], len);
            let count = offsets[len] as usize;
            let keys: ArrayRef = Arc::new(StringArray::from_iter_values(
                (0..count).map(|_| random.text()),
            ));
            let columns = vec![keys, array(random, fields[1].data_type(), count)];
            let values = StructArray::new(fields.clone(), columns, None);
            let nulls = random.nulls(len);
            Arc::new(MapArray::new(
                Arc::clone(entries),
                offsets,
                values,
                nulls,
                *sorted,
            ))
        }
        DataType::Union(fields, mode) => union(random, fields, *mode, len),
        DataType::RunEndEncoded(ends, values) => {
            let mut last = 0;
            let mut run_ends = vec![];
            while last < len {
                last = len.min(last + 1 + random.below(5));
                run_ends.push(last as i32);
            }
            let values = array(random, values.data_type(), run_ends.len());
            if len == 0 {
                return new_empty_array(data_type);
            }
            match ends.data_type() {
                DataType::Int16 => {
                    let ends: PrimitiveArray<Int16Type> =
                        run_ends.iter().map(|end| *end as i16).collect();
                    Arc::new(RunArray::try_new(&ends, &values).unwrap())
                }
                _ => Arc::new(RunArray::<Int32Type>::try_new(&run_ends.into(), &values).unwrap()),
            }
        }
        other => panic!("no generator for {other}"),
    }
}

fn list(random: &mut Random, field: &FieldRef, len: usize) -> (OffsetBuffer<i32>, ArrayRef) {
    let offsets = OffsetBuffer::from_lengths((0..len).map(|_| random.below(4)));
    let values = array(random, field.data_type(), offsets[len] as usize);
    (offsets, values)
}

fn dictionary<K: ArrowDictionaryKeyType>(
    random: &mut Random,
    values: &DataType,
    len: usize,
) -> ArrayRef {
    // Up to what 8 bits can hold, so that several dictionaries together are too many.
    let most = if random.one_in(2) { 5 } else { 100 };
    let count = 1 + random.below(most);
    let values = array(random, values, count);
    let keys: Vec<_> = (0..len)
        .map(|_| K::Native::usize_as(random.below(count)))
        .collect();
    let keys = PrimitiveArray::<K>::new(keys.into(), random.nulls(len));
    Arc::new(DictionaryArray::new(keys, values))
}

fn union(random: &mut Random, fields: &UnionFields, mode: UnionMode, len: usize) -> ArrayRef {
    let ids: Vec<i8> = (0..len).map(|_| random.below(fields.len()) as i8).collect();
    let mut counts = vec![0; fields.len()];
    let offsets: ScalarBuffer<i32> = ids
        .iter()
        .map(|id| {
            counts[*id as usize] += 1;
            counts[*id as usize] - 1
        })
        .collect();
    let dense = mode == UnionMode::Dense;
    let children = fields
        .iter()
        .zip(counts)
        .map(|((_, field), count)| {
            array(
                random,
                field.data_type(),
                if dense { count as usize } else { len },
            )
        })
        .collect();
    Arc::new(
        UnionArray::try_new(
            fields.clone(),
            ids.into(),
            dense.then_some(offsets),
            children,
        )
        .unwrap(),
    )
}
