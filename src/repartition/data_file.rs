//! The data file and its index, which appear complete or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use datafusion_common::{DataFusionError, Result, exec_datafusion_err};
use tempfile::NamedTempFile;

use crate::repartition::messages::Counted;

const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Where the index of the data file at `data_path` lies: beside it, with `.index` appended to its
/// name.
pub(super) fn index_path(data_path: &Path) -> PathBuf {
    let mut name = OsString::from(data_path);
    name.push(".index");
    PathBuf::from(name)
}

/// A data file being written, partition after partition, under a temporary name beside its own.
pub(super) struct DataFile {
    path: PathBuf,
    out: Counted<BufWriter<NamedTempFile>>,
    offsets: Vec<u64>,
}

impl DataFile {
    pub(super) fn create(path: &Path) -> Result<Self> {
        Ok(Self {
            out: Counted {
                out: BufWriter::with_capacity(WRITE_BUFFER_BYTES, temp_file_beside(path)?),
                bytes: 0,
            },
            path: path.to_owned(),
            offsets: vec![0],
        })
    }

    /// Where the bytes of the current partition go.
    pub(super) fn out(&mut self) -> &mut impl Write {
        &mut self.out
    }

    pub(super) fn end_partition(&mut self) {
        self.offsets.push(self.out.bytes);
    }

    /// Gives the files their names, and the offsets of the partitions.
    pub(super) fn finish(self) -> Result<Vec<u64>> {
        let data = self
            .out
            .out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        let index_path = index_path(&self.path);
        let mut index = temp_file_beside(&index_path)?;
        let bytes: Vec<u8> = self
            .offsets
            .iter()
            .flat_map(|offset| offset.to_le_bytes())
            .collect();
        index.write_all(&bytes)?;
        // Everything is written; only the names are missing. A data file without an index must not
        // stay.
        data.persist(&self.path)
            .map_err(|error| naming(&self.path, error.error))?;
        if let Err(error) = index.persist(&index_path) {
            fs::remove_file(&self.path).ok();
            return Err(naming(&index_path, error.error));
        }
        Ok(self.offsets)
    }
}

fn temp_file_beside(path: &Path) -> Result<NamedTempFile> {
    let name = path.file_name().ok_or_else(|| {
        exec_datafusion_err!("{} cannot be written: it names no file", path.display())
    })?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(name).suffix(".tmp");
    // A temporary file is private by default; this one is to be read by whoever may read its
    // folder's files.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(directory).map_err(|error| {
        DataFusionError::from(error).context(format!("creating {}", path.display()))
    })
}

fn naming(path: &Path, error: io::Error) -> DataFusionError {
    DataFusionError::from(error).context(format!("naming {}", path.display()))
}

/// Reads the offsets of the data file at `data_path`, and checks them against the file's length.
pub(super) fn read_index(data_path: &Path) -> Result<Vec<u64>> {
    let index_path = index_path(data_path);
    let bytes = fs::read(&index_path).map_err(|error| {
        DataFusionError::from(error).context(format!("reading {}", index_path.display()))
    })?;
    let length = File::open(data_path)
        .and_then(|file| file.metadata())
        .map_err(|error| {
            DataFusionError::from(error).context(format!("opening {}", data_path.display()))
        })?
        .len();
    let corrupt = |what: String| {
        exec_datafusion_err!(
            "{} is not the index of its data file: {what}",
            index_path.display()
        )
    };

    let (offsets, rest) = bytes.as_chunks::<8>();
    if offsets.len() < 2 || !rest.is_empty() {
        return Err(corrupt(format!(
            "it has {} bytes, where 8 for each partition and 8 more are expected",
            bytes.len()
        )));
    }
    let offsets: Vec<u64> = offsets
        .iter()
        .map(|offset| u64::from_le_bytes(*offset))
        .collect();
    if offsets[0] != 0 {
        return Err(corrupt(format!(
            "it starts at offset {}, not 0",
            offsets[0]
        )));
    }
    if let Some(i) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(corrupt(format!(
            "partition {i} starts at {} and ends at {}",
            offsets[i],
            offsets[i + 1]
        )));
    }
    let end = offsets[offsets.len() - 1];
    if end != length {
        return Err(corrupt(format!(
            "it ends at {end}, the data file at {length}"
        )));
    }
    Ok(offsets)
}
