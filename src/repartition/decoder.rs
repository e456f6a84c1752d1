//! Arrow IPC, message by message: reading.

use std::fmt;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::Schema;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{Message, MessageHeader, root_as_message};
use datafusion_common::{Result, exec_datafusion_err, exec_err};

const CONTINUATION: [u8; 4] = [0xff; 4];

/// Decodes the batches of an IPC stream of known length.
///
/// Arrow's decoders believe the lengths and offsets they read, and ask for absurd amounts of memory
/// where these are wrong: here they are compared first with the bytes there are. What is left makes
/// them panic, which is caught.
pub(super) struct BatchDecoder<R> {
    source: R,
    remaining: u64,
    schema: Schema,
    decoder: StreamDecoder,
    /// What is not yet decoded of the last message.
    pending: Buffer,
    ended: bool,
}

impl<R> fmt::Debug for BatchDecoder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchDecoder")
            .field("schema", &self.schema)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

impl<R: Read> BatchDecoder<R> {
    /// Decodes what `source` gives, a stream of `length` bytes.
    pub(super) fn try_new(source: R, length: u64) -> Result<Self> {
        let mut decoder = Self {
            source,
            remaining: length,
            schema: Schema::empty(),
            decoder: StreamDecoder::new(),
            pending: Buffer::from([]),
            ended: false,
        };
        let (message, schema) = decoder.read_message(|message, _| {
            let Some(schema) = message.header_as_schema() else {
                return exec_err!(
                    "a stream starts with a {:?}, not a schema",
                    message.header_type()
                );
            };
            guarded(|| fb_to_schema(schema))
        })?;
        decoder.pending = message;
        decoder.schema =
            schema.ok_or_else(|| exec_datafusion_err!("a stream ends before its schema"))?;
        Ok(decoder)
    }

    /// The schema that the stream starts with.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The next batch, or `None` at the end of the stream.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            // The decoder takes in a message without a body only with the bytes that follow it:
            // with the next message, so that one may give a batch and still be there.
            while !self.pending.is_empty() {
                if let Some(batch) = guarded(|| self.decoder.decode(&mut self.pending))?? {
                    return Ok(Some(batch));
                }
            }
            if self.ended {
                return Ok(None);
            }
            (self.pending, _) = self.read_message(check_body)?;
        }
    }

    /// Reads the bytes of a message, and what can be seen when its metadata and its body are looked
    /// at: nothing at the end of the stream.
    fn read_message<T>(
        &mut self,
        look: impl FnOnce(Message<'_>, &[u8]) -> Result<T>,
    ) -> Result<(Buffer, Option<T>)> {
        let mut prefix = [0; 8];
        self.read(&mut prefix)?;
        let [marker, length] = [&prefix[..4], &prefix[4..]];
        if marker != CONTINUATION {
            return exec_err!("{marker:02x?} is found where a message should start");
        }
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
        if length == 0 {
            self.ended = true;
            if self.remaining > 0 {
                return exec_err!("a stream ends {} bytes early", self.remaining);
            }
            return Ok((Buffer::from(&prefix), None));
        }
        let mut metadata = self.room_for(i64::from(length))?;
        self.read(&mut metadata)?;
        let message = root_as_message(&metadata)
            .map_err(|error| exec_datafusion_err!("no message: {error}"))?;
        let mut body = self.room_for(message.bodyLength())?;
        self.read(&mut body)?;
        let seen = look(message, &body)?;
        // One allocation, so that the body lies in it as aligned as it lies in the stream.
        let mut bytes = MutableBuffer::with_capacity(prefix.len() + metadata.len() + body.len());
        bytes.extend_from_slice(&prefix);
        bytes.extend_from_slice(&metadata);
        bytes.extend_from_slice(&body);
        Ok((bytes.into(), Some(seen)))
    }

    fn room_for(&self, length: i64) -> Result<Vec<u8>> {
        match u64::try_from(length) {
            Ok(bytes) if bytes <= self.remaining => Ok(vec![0; bytes as usize]),
            _ => exec_err!(
                "a message of {length} bytes is announced where there are {}",
                self.remaining
            ),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        let Some(remaining) = self.remaining.checked_sub(bytes.len() as u64) else {
            return exec_err!("a stream breaks off without an end");
        };
        self.source.read_exact(bytes)?;
        self.remaining = remaining;
        Ok(())
    }
}

/// What `decode` gives, unless it panics.
fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T> {
    // What `decode` was working on is not used again after an error.
    catch_unwind(AssertUnwindSafe(decode)).or_else(|_| exec_err!("a message makes no sense"))
}

/// How many times its size a buffer may have before it is compressed: more than LZ4 and ZSTD can
/// do.
const MAX_RATIO: i64 = 1 << 17;

/// Checks that what a message says of its body can be true.
fn check_body(message: Message<'_>, body: &[u8]) -> Result<()> {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message
            .header_as_dictionary_batch()
            .and_then(|batch| batch.data()),
        other => return exec_err!("a message of type {other:?} is found among batches"),
    };
    let Some(batch) = batch else {
        return exec_err!("a message holds no batch");
    };
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let range = usize::try_from(offset).ok().zip(offset.checked_add(length));
        let range = range.and_then(|(start, end)| Some(start..usize::try_from(end).ok()?));
        let Some(bytes) = range.and_then(|range| body.get(range)) else {
            return exec_err!(
                "a buffer of {length} bytes at {offset} lies outside of its message's {}",
                body.len()
            );
        };
        if batch.compression().is_some()
            && let Some(uncompressed) = bytes.first_chunk()
            && i64::from_le_bytes(*uncompressed) / MAX_RATIO > length
        {
            return exec_err!("a buffer of {length} bytes claims to hold more than that can be");
        }
    }
    let counts_fit = |length: i64, nulls: i64| (0..=length).contains(&nulls);
    let mut nodes = batch.nodes().into_iter().flatten();
    if batch.length() < 0 || !nodes.all(|node| counts_fit(node.length(), node.null_count())) {
        return exec_err!("a batch has impossible lengths");
    }
    Ok(())
}
