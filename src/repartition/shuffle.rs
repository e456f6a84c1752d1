//! Reads what a repartitioner has written.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::{Result, exec_err};

use crate::repartition::data_file::{index_path, read_index};
use crate::repartition::decoder::BatchDecoder;
use crate::repartition::metrics::RepartitionMetrics;

/// A shuffle on disk: a data file, which holds one Arrow IPC stream for each partition that is not
/// empty, and its index, the offsets at which the partitions start and, last, the length of the
/// data file, each a little-endian `u64`.
///
/// ```no_run
/// # fn consume(batch: arrow::array::RecordBatch) {}
/// # fn read(schema: arrow::datatypes::SchemaRef) -> datafusion_common::Result<()> {
/// use datafusion_counting_pool::Shuffle;
///
/// let shuffle = Shuffle::open("shuffle_0.data", schema)?;
/// for partition in 0..shuffle.partitions() {
///     for batch in shuffle.partition(partition)? {
///         consume(batch?);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Shuffle {
    schema: SchemaRef,
    data_path: PathBuf,
    offsets: Vec<u64>,
    metrics: RepartitionMetrics,
}

impl Shuffle {
    /// Opens the shuffle whose data file is at `data_path`. The schema has to be given, for the
    /// files tell none where all partitions are empty.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read, or the index does not fit the data file.
    pub fn open(data_path: impl AsRef<Path>, schema: SchemaRef) -> Result<Self> {
        let data_path = data_path.as_ref();
        Ok(Self::written(
            data_path.to_owned(),
            schema,
            read_index(data_path)?,
            RepartitionMetrics::default(),
        ))
    }

    pub(super) fn written(
        data_path: PathBuf,
        schema: SchemaRef,
        offsets: Vec<u64>,
        metrics: RepartitionMetrics,
    ) -> Self {
        Self {
            schema,
            data_path,
            offsets,
            metrics,
        }
    }

    /// The number of partitions, empty ones included.
    pub fn partitions(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Where the data file is.
    pub fn data_path(&self) -> &Path {
        &self.data_path
    }

    /// Where the index is: beside the data file, with `.index` appended to its name.
    pub fn index_path(&self) -> PathBuf {
        index_path(&self.data_path)
    }

    /// The bytes of the data file that belong to `partition`; none if it is empty.
    ///
    /// # Panics
    ///
    /// Where there is no such partition.
    pub fn partition_bytes(&self, partition: usize) -> u64 {
        self.offsets[partition + 1] - self.offsets[partition]
    }

    /// What the repartitioner did to write this; all 0 if the shuffle was opened and not written.
    pub fn metrics(&self) -> &RepartitionMetrics {
        &self.metrics
    }

    /// The batches of `partition`, read as they are asked for. Several partitions can be read at
    /// the same time.
    ///
    /// # Errors
    ///
    /// Where there is no such partition, or the data file cannot be read, or does not hold batches
    /// of the schema.
    pub fn partition(&self, partition: usize) -> Result<PartitionReader> {
        if partition >= self.partitions() {
            return exec_err!(
                "no partition {partition}: {} has {}",
                self.data_path.display(),
                self.partitions()
            );
        }
        let description = format!("partition {partition} of {}", self.data_path.display());
        let decoder = match self.partition_bytes(partition) {
            0 => None,
            length => Some(
                self.decode(self.offsets[partition], length)
                    .map_err(|error| error.context(format!("opening {description}")))?,
            ),
        };
        Ok(PartitionReader {
            decoder,
            schema: Arc::clone(&self.schema),
            description,
        })
    }

    fn decode(&self, start: u64, length: u64) -> Result<BatchDecoder<BufReader<File>>> {
        let mut file = File::open(&self.data_path)?;
        file.seek(SeekFrom::Start(start))?;
        let decoder = BatchDecoder::try_new(BufReader::new(file), length)?;
        check_schema(decoder.schema(), &self.schema)?;
        Ok(decoder)
    }
}

fn check_schema(found: &Schema, expected: &Schema) -> Result<()> {
    let matches = found.fields().len() == expected.fields().len()
        && found
            .fields()
            .iter()
            .zip(expected.fields())
            .all(|(found, expected)| found.data_type().equals_datatype(expected.data_type()));
    if matches {
        Ok(())
    } else {
        exec_err!("the file holds batches of {found}, not of {expected}")
    }
}

/// The batches of one partition.
#[derive(Debug)]
pub struct PartitionReader {
    decoder: Option<BatchDecoder<BufReader<File>>>,
    schema: SchemaRef,
    description: String,
}

impl PartitionReader {
    /// The schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Iterator for PartitionReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let batch = self.decoder.as_mut()?.next_batch().transpose();
        if !matches!(batch, Some(Ok(_))) {
            // Nothing can be read after the end, nor after a broken message.
            self.decoder = None;
        }
        let batch = batch?.and_then(|batch| with_schema(&batch, &self.schema));
        Some(batch.map_err(|error| error.context(format!("reading {}", self.description))))
    }
}

/// The batch with all that the schema given says of its fields: the file need not say the same of
/// their metadata.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new()
        .with_match_field_names(false)
        .with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}
