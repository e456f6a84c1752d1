//! The data file and its index.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamReader;
use datafusion_common::Result;
use datafusion_counting_pool::{PartitionBy, Repartitioner, Shuffle};

use crate::recording_pool::RecordingPool;
use crate::support::{Output, keys, read, runtime_of};

fn names(rows: std::ops::Range<i32>) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(
        rows.clone().map(|row| row % 5),
    ));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter(rows.map(|row| {
            (row % 3 != 0).then(|| format!("the name of row {row}"))
        })));
    RecordBatch::try_from_iter([("key", keys), ("name", names)]).unwrap()
}

/// Batches of 100 rows, spilled twice along the way.
fn write(compression: Option<CompressionType>, output: &Output) -> Result<Shuffle> {
    let mut writer =
        Repartitioner::builder(names(0..5).schema(), PartitionBy::hash_columns(["key"], 3))
            .with_compression(compression)
            .with_max_buffer_bytes(Some(30_000))
            .build(0, &runtime_of(&RecordingPool::unbounded()))?;
    for batch in 0..20 {
        writer.insert_batch(names(batch * 100..(batch + 1) * 100))?;
    }
    let shuffle = writer.finish(output.path())?;
    assert_eq!(shuffle.metrics().spill_count, 2);
    Ok(shuffle)
}

#[test]
fn compression_changes_the_size_and_not_the_rows() -> Result<()> {
    let output = Output::new();
    let plain = write(None, &output)?;
    let expected = read(&plain)?;
    let plain_bytes = plain.metrics().output_bytes;
    assert_eq!(
        expected.iter().map(|batch| batch.num_rows()).sum::<usize>(),
        2000
    );
    for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let compressed = write(Some(compression), &output)?;
        assert_eq!(read(&compressed)?, expected, "{compression:?}");
        let bytes = compressed.metrics().output_bytes;
        assert!(
            bytes < plain_bytes / 2,
            "{compression:?}: {bytes} of {plain_bytes} bytes"
        );
        assert_eq!(std::fs::metadata(compressed.data_path())?.len(), bytes);
    }
    Ok(())
}

#[test]
fn what_is_written_can_be_opened_again() -> Result<()> {
    let output = Output::new();
    let written = write(None, &output)?;
    let opened = Shuffle::open(output.path(), written.schema())?;
    assert_eq!(opened.partitions(), 3);
    assert_eq!(opened.index_path(), written.index_path());
    assert_eq!(read(&opened)?, read(&written)?);
    Ok(())
}

#[test]
fn the_index_holds_the_offsets_of_plain_ipc_streams() -> Result<()> {
    let output = Output::new();
    let shuffle = write(None, &output)?;
    let data = std::fs::read(output.path())?;
    let index = std::fs::read(output.path().with_extension("data.index"))?;
    assert_eq!(index.len(), 8 * 4);
    let offsets: Vec<usize> = index
        .chunks(8)
        .map(|offset| u64::from_le_bytes(offset.try_into().unwrap()) as usize)
        .collect();
    assert_eq!((offsets[0], offsets[3]), (0, data.len()));

    for (partition, expected) in read(&shuffle)?.into_iter().enumerate() {
        let bytes = &data[offsets[partition]..offsets[partition + 1]];
        assert_eq!(shuffle.partition_bytes(partition), bytes.len() as u64);
        if expected.num_rows() == 0 {
            assert!(bytes.is_empty());
            continue;
        }
        let stream = StreamReader::try_new(bytes, None)?;
        assert_eq!(stream.schema(), shuffle.schema());
        let rows: usize = stream.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, expected.num_rows());
    }
    Ok(())
}

#[test]
fn a_shuffle_of_nothing_is_an_empty_file_and_an_index_of_zeroes() -> Result<()> {
    let output = Output::new();
    let pool = RecordingPool::unbounded();
    let mut writer =
        Repartitioner::builder(keys([]).schema(), PartitionBy::hash_columns(["key"], 4))
            .build(0, &runtime_of(&pool))?;
    writer.insert_batch(keys([]))?;
    let shuffle = writer.finish(output.path())?;
    assert_eq!(shuffle.metrics().input_batches, 0);
    assert!(std::fs::read(output.path())?.is_empty());
    assert_eq!(std::fs::read(shuffle.index_path())?, [0; 8 * 5]);
    let shuffle = Shuffle::open(output.path(), keys([]).schema())?;
    assert_eq!(read(&shuffle)?, vec![keys([]); 4]);
    assert_eq!(pool.calls(), []);
    Ok(())
}
