//! Spill files: one for each spill until there are many, with the partitions' ranges kept in
//! memory.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

use datafusion_common::{DataFusionError, Result, exec_err, not_impl_err};
use datafusion_execution::disk_manager::DiskManager;
use datafusion_execution::{SpillFile, SpillWriter};

use crate::repartition::messages::Counted;

const BUFFER_BYTES: usize = 128 << 10;

/// Where the messages of a partition lie in a spill file.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    len: u64,
}

/// The bytes of memory that a spill keeps for each partition.
pub(super) const BYTES_PER_PARTITION: usize = size_of::<Range>();

/// Spill files of one repartitioner. DataFusion keeps each of them open, and a process may open no
/// more than a thousand, so that beyond these a spill is written behind an earlier one.
const MAX_FILES: usize = 32;

/// A spill being written, partition after partition.
pub(super) struct SpillInProgress {
    file: Arc<dyn SpillFile>,
    path: PathBuf,
    out: Counted<BufWriter<Box<dyn SpillWriter>>>,
    /// Where it starts in the file.
    start: u64,
    ranges: Vec<Range>,
}

impl SpillInProgress {
    pub(super) fn create(
        disk_manager: &Arc<DiskManager>,
        description: &str,
        partitions: usize,
        earlier: &[Spill],
    ) -> Result<Self> {
        let (file, start) = match earlier.len().checked_sub(MAX_FILES) {
            None => (disk_manager.create_tmp_file(description)?, 0),
            Some(number) => (Arc::clone(&earlier[number].file), earlier[number].end()),
        };
        let Some(path) = file.path().map(ToOwned::to_owned) else {
            return not_impl_err!("spill files that are not local, for they are read by range");
        };
        let out = Counted {
            out: BufWriter::with_capacity(BUFFER_BYTES, file.open_writer()?),
            bytes: 0,
        };
        Ok(Self {
            file,
            path,
            out,
            start,
            ranges: Vec::with_capacity(partitions),
        })
    }

    /// Where the messages of the current partition go.
    pub(super) fn out(&mut self) -> &mut impl Write {
        &mut self.out
    }

    pub(super) fn end_partition(&mut self) {
        let start = self
            .ranges
            .last()
            .map_or(self.start, |last| last.start + last.len);
        self.ranges.push(Range {
            start,
            len: self.start + self.out.bytes - start,
        });
    }

    pub(super) fn finish(self) -> Result<Spill> {
        let bytes = self.out.bytes;
        let mut writer = self
            .out
            .out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        writer.finish()?;
        Ok(Spill {
            file: self.file,
            path: self.path,
            ranges: self.ranges,
            bytes,
        })
    }
}

/// A spill. Its file is deleted when the last spill in it is dropped.
pub(super) struct Spill {
    file: Arc<dyn SpillFile>,
    path: PathBuf,
    ranges: Vec<Range>,
    bytes: u64,
}

impl Spill {
    /// What it takes of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the file goes on after it.
    fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |last| last.start + last.len)
    }

    fn open(&self, buffer_bytes: usize) -> Result<BufReader<File>> {
        let file = File::open(&self.path).map_err(|error| {
            DataFusionError::from(error)
                .context(format!("opening the spill file {}", self.path.display()))
        })?;
        Ok(BufReader::with_capacity(buffer_bytes, file))
    }
}

/// How many spill files are kept open while they are read. There may be more of them than a process
/// may open.
const MAX_OPEN_FILES: usize = 32;

/// What the buffers of all spill files together hold while they are read.
const READ_BUFFERS_BYTES: usize = 8 << 20;

/// Reads the partitions of a spill file, one after the other. They lie in it in that order.
pub(super) struct SpillReader<'a> {
    spill: &'a Spill,
    file: Option<BufReader<File>>,
    /// Where the file has been read to.
    position: u64,
    keep_open: bool,
    buffer_bytes: usize,
}

impl<'a> SpillReader<'a> {
    pub(super) fn for_all(spills: &'a [Spill]) -> Vec<Self> {
        let buffer_bytes = BUFFER_BYTES
            .min(READ_BUFFERS_BYTES / spills.len().max(1))
            .max(4096);
        let reader = |(number, spill)| Self {
            spill,
            file: None,
            position: 0,
            keep_open: number < MAX_OPEN_FILES,
            buffer_bytes,
        };
        spills.iter().enumerate().map(reader).collect()
    }

    pub(super) fn has_rows(&self, partition: usize) -> bool {
        self.spill.ranges[partition].len > 0
    }

    /// The messages of a partition and their length, if there are any. They must be read to their
    /// end.
    pub(super) fn read(&mut self, partition: usize) -> Result<Option<(impl Read, u64)>> {
        let Range { start, len } = self.spill.ranges[partition];
        if len == 0 {
            return Ok(None);
        }
        if !self.keep_open {
            self.file = None;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                self.position = 0;
                none.insert(self.spill.open(self.buffer_bytes)?)
            }
        };
        if self.position != start {
            file.seek(SeekFrom::Start(start))?;
        }
        self.position = start + len;
        Ok(Some((file.take(len), len)))
    }

    /// Copies the messages of a partition to `out`.
    pub(super) fn copy(&mut self, partition: usize, out: &mut impl Write) -> Result<()> {
        let path = &self.spill.path;
        if let Some((mut messages, len)) = self.read(partition)? {
            let copied = io::copy(&mut messages, out)?;
            if copied != len {
                return exec_err!(
                    "the spill file {} ends {} bytes early",
                    path.display(),
                    len - copied
                );
            }
        }
        Ok(())
    }
}
