//! Arrow IPC, message by message.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use datafusion_common::Result;

/// What ends an IPC stream: the continuation marker and a length of 0.
pub(super) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Encodes record batches as the messages of an IPC stream without its schema message, so that the messages of
/// one partition can be put together from several files.
#[derive(Debug)]
pub(super) struct MessageEncoder {
    schema: SchemaRef,
    options: IpcWriteOptions,
    schema_message: Vec<u8>,
    has_dictionaries: bool,
    stream: Stream,
}

struct Stream {
    encoder: StreamEncoder,
    /// Bytes of the schema message still to come, and to be left out.
    skip: usize,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("skip", &self.skip)
            .finish_non_exhaustive()
    }
}

impl MessageEncoder {
    pub(super) fn try_new(schema: SchemaRef, compression: Option<CompressionType>) -> Result<Self> {
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        // An empty stream is the schema message and the end.
        let empty = StreamEncoder::try_new_with_options(&schema, options.clone())?.finish()?;
        let mut schema_message: Vec<u8> = empty
            .iter()
            .flat_map(|buffer| buffer.iter().copied())
            .collect();
        schema_message.truncate(schema_message.len() - END_OF_STREAM.len());
        Ok(Self {
            stream: Stream::try_new(&schema, &options, schema_message.len())?,
            has_dictionaries: schema.fields().iter().any(|field| has_dictionary(field)),
            schema,
            options,
            schema_message,
        })
    }

    /// What an IPC stream of these messages starts with.
    pub(super) fn schema_message(&self) -> &[u8] {
        &self.schema_message
    }

    /// Forgets which dictionaries have been written: what follows must be readable on its own.
    pub(super) fn restart(&mut self) -> Result<()> {
        if self.has_dictionaries {
            self.stream = Stream::try_new(&self.schema, &self.options, self.schema_message.len())?;
        }
        Ok(())
    }

    /// Writes the messages of `batch`, and gives their length in bytes.
    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut impl Write) -> Result<u64> {
        let mut written = 0;
        for buffer in self.stream.encoder.encode(batch)? {
            let skip = self.stream.skip.min(buffer.len());
            self.stream.skip -= skip;
            out.write_all(&buffer[skip..])?;
            written += (buffer.len() - skip) as u64;
        }
        Ok(written)
    }
}

impl Stream {
    fn try_new(schema: &Schema, options: &IpcWriteOptions, skip: usize) -> Result<Self> {
        let encoder = StreamEncoder::try_new_with_options(schema, options.clone())?;
        Ok(Self { encoder, skip })
    }
}

fn has_dictionary(field: &Field) -> bool {
    match field.data_type() {
        DataType::Dictionary(..) => true,
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _)
        | DataType::RunEndEncoded(_, child) => has_dictionary(child),
        DataType::Struct(children) => children.iter().any(|child| has_dictionary(child)),
        DataType::Union(children, _) => children.iter().any(|(_, child)| has_dictionary(child)),
        _ => false,
    }
}

/// Passes bytes on and counts them.
#[derive(Debug)]
pub(super) struct Counted<W> {
    pub(super) out: W,
    pub(super) bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
