//! A Parquet file, an Arrow IPC file or an Arrow IPC stream of the user's own.

mod guard;

use std::fmt::{Display, Formatter};
use std::io::Read;
use std::path::PathBuf;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow_ipc::reader::{FileReader, StreamReader};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::failure::Failure;
use guard::guarded;

/// Characters of a reader's error that are passed on.
const LONGEST_REASON: usize = 120;

#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    format: Format,
    batch_rows: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Parquet,
    IpcFile,
    IpcStream,
}

impl Format {
    /// By the first bytes of the file: its name may be anything.
    fn of(head: &[u8]) -> Option<Self> {
        match head {
            [b'P', b'A', b'R', b'1', ..] => Some(Self::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Some(Self::IpcFile),
            // The marker before a message's length.
            [0xff, 0xff, 0xff, 0xff, ..] => Some(Self::IpcStream),
            _ => None,
        }
    }
}

impl File {
    /// The file at `path`, read in batches of `batch_rows`; an IPC file has its own.
    pub(super) fn new(path: PathBuf, batch_rows: Option<usize>) -> Result<Self, Failure> {
        let mut file = Self {
            path,
            format: Format::Parquet,
            batch_rows: batch_rows.unwrap_or(8192),
        };
        let mut head = Vec::new();
        file.open()?
            .take(6)
            .read_to_end(&mut head)
            .map_err(|error| file.unreadable(error))?;
        file.format = Format::of(&head)
            .ok_or_else(|| file.unreadable("it is neither Parquet nor Arrow IPC"))?;
        if batch_rows.is_some() && file.format != Format::Parquet {
            return Err(Failure::usage(format!(
                "--batch-rows has no meaning with {}: an Arrow IPC file has batches of its own",
                file.path.display()
            )));
        }
        Ok(file)
    }

    pub(super) fn schema(&self) -> Result<SchemaRef, Failure> {
        Ok(self.reader()?.schema())
    }

    pub(super) fn batches(
        &self,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, Failure>>, Failure> {
        let mut reader = self.reader()?;
        Ok(std::iter::from_fn(move || {
            self.guarded(|| reader.next().transpose()).transpose()
        }))
    }

    fn reader(&self) -> Result<Box<dyn RecordBatchReader>, Failure> {
        let file = self.open()?;
        self.guarded(|| {
            let reader: Box<dyn RecordBatchReader> = match self.format {
                Format::Parquet => Box::new(
                    ParquetRecordBatchReaderBuilder::try_new(file)?
                        .with_batch_size(self.batch_rows)
                        .build()?,
                ),
                Format::IpcFile => Box::new(FileReader::try_new_buffered(file, None)?),
                Format::IpcStream => Box::new(StreamReader::try_new_buffered(file, None)?),
            };
            Ok(reader)
        })
    }

    fn guarded<T>(&self, read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, Failure> {
        guarded(read)
            .map_err(|panic| self.unreadable(panic))?
            .map_err(|error| self.unreadable(error))
    }

    /// Opened once for each pass, which is why a pipe will not do.
    fn open(&self) -> Result<std::fs::File, Failure> {
        match std::fs::metadata(&self.path) {
            Ok(found) if !found.is_file() => Err(self.unreadable("it is not a regular file")),
            Ok(_) => std::fs::File::open(&self.path).map_err(|error| self.unreadable(error)),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    /// Cut short, since some of the readers' errors retell the whole way to the fault.
    fn unreadable(&self, error: impl Display) -> Failure {
        let error = error.to_string();
        let (error, rest) = match error.char_indices().nth(LONGEST_REASON) {
            Some((end, _)) => (&error[..end], "..."),
            None => (error.as_str(), ""),
        };
        Failure::usage(format!(
            "cannot read {}: {error}{rest}",
            self.path.display()
        ))
    }
}

impl Display for File {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.path.display().fmt(f)
    }
}
