//! Spill files: one for each spill, with the partitions' ranges kept in memory.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

use datafusion_common::{Result, exec_err, not_impl_err};
use datafusion_execution::disk_manager::DiskManager;
use datafusion_execution::{SpillFile, SpillWriter};

use crate::repartition::messages::Counted;

const WRITE_BUFFER_BYTES: usize = 128 << 10;

/// A range of a spill file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    start: u64,
    len: u64,
}

impl Range {
    pub(super) fn len(self) -> u64 {
        self.len
    }
}

/// The bytes of memory that a spill keeps for each partition.
pub(super) const BYTES_PER_PARTITION: usize = size_of::<Range>();

/// A spill file being written, partition after partition.
pub(super) struct SpillInProgress {
    file: Arc<dyn SpillFile>,
    path: PathBuf,
    out: Counted<BufWriter<Box<dyn SpillWriter>>>,
    ranges: Vec<Range>,
}

impl SpillInProgress {
    pub(super) fn create(
        disk_manager: &Arc<DiskManager>,
        description: &str,
        partitions: usize,
    ) -> Result<Self> {
        let file = disk_manager.create_tmp_file(description)?;
        let Some(path) = file.path().map(ToOwned::to_owned) else {
            return not_impl_err!(
                "{description}: spill files of a custom backend cannot be read by range; a local file is needed"
            );
        };
        let out = Counted {
            out: BufWriter::with_capacity(WRITE_BUFFER_BYTES, file.open_writer()?),
            bytes: 0,
        };
        Ok(Self {
            file,
            path,
            out,
            ranges: Vec::with_capacity(partitions),
        })
    }

    /// Where the messages of the current partition go.
    pub(super) fn out(&mut self) -> &mut impl Write {
        &mut self.out
    }

    pub(super) fn end_partition(&mut self) {
        let start = self.ranges.last().map_or(0, |last| last.start + last.len);
        self.ranges.push(Range {
            start,
            len: self.out.bytes - start,
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
            _file: self.file,
            path: self.path,
            ranges: self.ranges,
            bytes,
        })
    }
}

/// A spill file, deleted when it is dropped.
pub(super) struct Spill {
    _file: Arc<dyn SpillFile>,
    path: PathBuf,
    ranges: Vec<Range>,
    bytes: u64,
}

impl Spill {
    /// The length of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn range(&self, partition: usize) -> Range {
        self.ranges[partition]
    }

    pub(super) fn open(&self) -> Result<SpillReader> {
        Ok(SpillReader {
            file: File::open(&self.path)?,
        })
    }
}

pub(super) struct SpillReader {
    file: File,
}

impl SpillReader {
    /// The bytes of a range of the file.
    pub(super) fn read(&mut self, range: Range) -> Result<impl Read> {
        self.file.seek(SeekFrom::Start(range.start))?;
        Ok((&mut self.file).take(range.len))
    }

    /// Copies a range of the file to `out`.
    pub(super) fn copy(&mut self, range: Range, out: &mut impl Write) -> Result<()> {
        let copied = io::copy(&mut self.read(range)?, out)?;
        if copied != range.len {
            return exec_err!("a spill file ends {} bytes early", range.len - copied);
        }
        Ok(())
    }
}
