//! Files that are not what was written.

use std::fs;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, ListArray, RecordBatch, StringArray, StringViewArray,
};
use arrow::datatypes::{Int32Type, SchemaRef};
use arrow_ipc::CompressionType;
use datafusion_common::Result;
use datafusion_counting_pool::{PartitionBy, Repartitioner, Shuffle};

use crate::recording_pool::RecordingPool;
use crate::support::{Output, keys, runtime_of};

fn write(output: &Output, batch: &RecordBatch, compression: Option<CompressionType>) -> Result<()> {
    let mut writer = Repartitioner::builder(batch.schema(), PartitionBy::hash_columns(["key"], 3))
        .with_compression(compression)
        .build(0, &runtime_of(&RecordingPool::unbounded()))?;
    writer.insert_batch(batch.clone())?;
    writer.finish(output.path())?;
    Ok(())
}

/// All there is to be read, or the first error.
fn read_all(output: &Output, schema: SchemaRef) -> Result<usize> {
    let shuffle = Shuffle::open(output.path(), schema)?;
    let mut rows = 0;
    for partition in 0..shuffle.partitions() {
        for batch in shuffle.partition(partition)? {
            rows += batch?.num_rows();
        }
    }
    Ok(rows)
}

fn error_of(output: &Output) -> String {
    read_all(output, keys([]).schema()).unwrap_err().to_string()
}

#[test]
fn an_index_that_does_not_fit_is_told_at_opening() -> Result<()> {
    let output = Output::new();
    write(&output, &keys((0..100).collect::<Vec<_>>()), None)?;
    let index_path = output.path().with_extension("data.index");
    let index = fs::read(&index_path)?;
    let with = |bytes: &[u8]| {
        fs::write(&index_path, bytes).unwrap();
        error_of(&output)
    };
    let offsets = |offsets: [u64; 4]| {
        offsets
            .iter()
            .flat_map(|offset| offset.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let end = fs::metadata(output.path())?.len();

    for (bytes, expected) in [
        (&index[..31], "it has 31 bytes"),
        (&index[..8], "it has 8 bytes"),
        (&[], "it has 0 bytes"),
        (&offsets([8, 9, 10, end]), "it starts at offset 8"),
        (
            &offsets([0, 90, 80, end]),
            "partition 1 starts at 90 and ends at 80",
        ),
        (&offsets([0, 9, 10, end + 1]), "the data file at"),
        (&offsets([0, 9, 10, 11]), "it ends at 11"),
    ] {
        let message = with(bytes);
        assert!(
            message.contains(expected) && message.contains("shuffle.data.index"),
            "{message}"
        );
    }
    // Offsets of nothing in particular can be told only when the partition is read.
    let message = with(&offsets([0, 9, 11, end]));
    assert!(
        message.contains("partition 0") && message.contains("shuffle.data"),
        "{message}"
    );

    fs::remove_file(&index_path)?;
    let message = error_of(&output);
    assert!(
        message.contains("reading") && message.contains("shuffle.data.index"),
        "{message}"
    );
    fs::write(&index_path, &index)?;
    fs::remove_file(output.path())?;
    let message = error_of(&output);
    assert!(
        message.contains("opening") && message.contains("shuffle.data"),
        "{message}"
    );
    Ok(())
}

#[test]
fn a_data_file_that_was_cut_is_told_at_opening() -> Result<()> {
    let output = Output::new();
    write(&output, &keys((0..100).collect::<Vec<_>>()), None)?;
    let data = fs::read(output.path())?;
    fs::write(output.path(), &data[..data.len() - 1])?;
    let message = error_of(&output);
    assert!(
        message.contains(&format!(
            "it ends at {}, the data file at {}",
            data.len(),
            data.len() - 1
        )),
        "{message}"
    );
    Ok(())
}

#[test]
fn another_schema_and_another_partition_are_told() -> Result<()> {
    let output = Output::new();
    write(&output, &keys((0..100).collect::<Vec<_>>()), None)?;
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let schema = RecordBatch::try_from_iter([("key", text)])?.schema();
    let message = read_all(&output, schema).unwrap_err().to_string();
    assert!(
        message.contains("Int32") && message.contains("Utf8"),
        "{message}"
    );

    let shuffle = Shuffle::open(output.path(), keys([]).schema())?;
    let message = shuffle.partition(3).unwrap_err().to_string();
    assert!(
        message.contains("no partition 3") && message.contains("has 3"),
        "{message}"
    );
    Ok(())
}

/// With one of everything that has buffers of its own kind.
fn many_types() -> RecordBatch {
    let keys = || Int32Array::from_iter_values(0..6);
    let text =
        || StringArray::from_iter((0..6).map(|row| (row % 3 > 0).then(|| format!("text {row}"))));
    let views = StringViewArray::from_iter(
        (0..6).map(|row| (row % 4 > 0).then(|| format!("text beyond a view {row}"))),
    );
    let lists = (0..6).map(|row| (row % 5 > 0).then(|| (0..row % 4).map(Some).collect::<Vec<_>>()));
    let codes = Int32Array::from_iter((0..6).map(|row| (row % 6 > 0).then_some(row % 7)));
    RecordBatch::try_from_iter([
        ("key", Arc::new(keys()) as ArrayRef),
        ("text", Arc::new(text())),
        ("views", Arc::new(views)),
        (
            "lists",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ),
        (
            "codes",
            Arc::new(DictionaryArray::new(codes, Arc::new(text()))),
        ),
    ])
    .unwrap()
}

#[test]
fn a_flipped_bit_is_an_error_or_another_value_but_no_panic() -> Result<()> {
    for compression in [
        None,
        Some(CompressionType::LZ4_FRAME),
        Some(CompressionType::ZSTD),
    ] {
        let output = Output::new();
        let batch = many_types();
        write(&output, &batch, compression)?;
        let data = fs::read(output.path())?;
        let mut errors = 0;
        for position in (0..data.len()).step_by(7) {
            let mut flipped = data.clone();
            flipped[position] ^= 1 << (position % 8);
            fs::write(output.path(), &flipped)?;
            match read_all(&output, batch.schema()) {
                Ok(_) => {}
                Err(error) => {
                    errors += 1;
                    assert!(error.to_string().contains("of /"), "{error}");
                }
            }
        }
        assert!(errors > 0);
    }
    Ok(())
}
