//! Arrow IPC, message by message: writing.

use std::fmt;
use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use datafusion_common::Result;

use crate::repartition::types::{contains, is_dictionary};

/// What ends an IPC stream: the continuation marker and a length of 0.
pub(super) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Encodes record batches as the messages of an IPC stream without its schema message, so that the
/// messages of one partition can be put together from several files.
pub(super) struct MessageEncoder {
    schema: SchemaRef,
    options: IpcWriteOptions,
    schema_message: Vec<u8>,
    has_dictionaries: bool,
    encoder: StreamEncoder,
    /// Bytes of the encoder's schema message that are still to come, and to be left out.
    skip: usize,
}

impl fmt::Debug for MessageEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageEncoder")
            .field("schema", &self.schema)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl MessageEncoder {
    pub(super) fn try_new(schema: SchemaRef, compression: Option<CompressionType>) -> Result<Self> {
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        let encoder = || StreamEncoder::try_new_with_options(&schema, options.clone());
        // An empty stream is the schema message and the end.
        let empty = encoder()?.finish()?;
        let mut schema_message: Vec<u8> = empty
            .iter()
            .flat_map(|buffer| buffer.iter().copied())
            .collect();
        schema_message.truncate(schema_message.len() - END_OF_STREAM.len());
        Ok(Self {
            encoder: encoder()?,
            skip: schema_message.len(),
            has_dictionaries: schema
                .fields()
                .iter()
                .any(|field| contains(field.data_type(), &is_dictionary)),
            options,
            schema_message,
            schema,
        })
    }

    /// What an IPC stream of these messages starts with.
    pub(super) fn schema_message(&self) -> &[u8] {
        &self.schema_message
    }

    /// Forgets which dictionaries have been written: what follows must be readable on its own.
    pub(super) fn restart(&mut self) -> Result<()> {
        // Not where there are none: a new encoder has to set up its compression again.
        if self.has_dictionaries {
            self.encoder = StreamEncoder::try_new_with_options(&self.schema, self.options.clone())?;
            self.skip = self.schema_message.len();
        }
        Ok(())
    }

    /// Writes the messages of `batch`: those of dictionaries that are new, and its own.
    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut impl Write) -> Result<()> {
        for buffer in self.encoder.encode(batch)? {
            let skip = self.skip.min(buffer.len());
            self.skip -= skip;
            out.write_all(&buffer[skip..])?;
        }
        Ok(())
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
