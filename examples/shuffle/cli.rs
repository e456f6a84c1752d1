//! The command line, and what of it does not go together.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Parser, ValueEnum, value_parser};
use datafusion_counting_pool::DEFAULT_STEP;

use crate::failure::Failure;

/// Shuffle the same rows twice, the memory reserved exactly and in steps, and compare the calls
///
/// A number of tasks shuffle at the same time, each on a thread of its own and all over one
/// memory pool: before, with a pool call for each growth; after, with growth in steps. Both sides
/// are run once to warm up and then in turn. After each round both sides' data files are read back
/// and compared, row by row.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "shuffle",
    after_long_help = "\
The figures of a side are those of one of its rounds: the one whose elapsed time is the median. \
Without denials the calls are the same in every round, and it is an error if they are not; with \
denials they depend on which task asked first.

Sizes are bytes, with a unit if need be: 65536, 64KiB, 1MiB; kB and MB are powers of 1,000.

Exit codes: 0; 1 where the run failed or the outputs differ; 2 for a wrong value, a file that \
does not exist or is corrupt, or a column that is not there.",
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Tasks that shuffle at the same time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u16).range(1..=1000))]
    #[arg(help_heading = "Input")]
    pub tasks: u16,

    /// Batches of each task [default: 256]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    #[arg(help_heading = "Input", conflicts_with_all = ["input", "tpch"])]
    pub batches: Option<u32>,

    /// Rows of a batch [default: 8192]
    ///
    /// An Arrow IPC file has batches of its own, and this option has no meaning there.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1 << 24))]
    #[arg(help_heading = "Input")]
    pub batch_rows: Option<u32>,

    /// Values of the one column of a task's batches, an Int32 named "key" [default: constant]
    #[arg(long, value_enum, help_heading = "Input", conflicts_with_all = ["input", "tpch"])]
    pub key: Option<Key>,

    /// Shuffle a Parquet or Arrow IPC file instead, its batches dealt out to the tasks in turn
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Input",
        conflicts_with = "tpch"
    )]
    pub input: Option<PathBuf>,

    /// Shuffle a generated TPC-H table instead, its batches dealt out to the tasks in turn
    #[arg(long, value_enum, value_name = "TABLE", help_heading = "Input")]
    pub tpch: Option<Table>,

    /// Scale factor of the TPC-H table [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_scale)]
    #[arg(help_heading = "Input", requires = "tpch")]
    pub scale: Option<f64>,

    /// Output partitions
    #[arg(long, value_name = "N", default_value_t = 201, value_parser = value_parser!(u32).range(1..=1_000_000))]
    #[arg(help_heading = "Shuffle")]
    pub partitions: u32,

    /// Columns whose hash decides on the partition [default: "key", or the TPC-H table's key]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "Shuffle"
    )]
    pub hash_columns: Option<Vec<String>>,

    /// Least growth of the stepped side's reservations; 0 is exact growth
    #[arg(long, value_name = "SIZE", default_value_t = DEFAULT_STEP, value_parser = parse_size)]
    #[arg(help_heading = "Shuffle")]
    pub step: usize,

    /// DataFusion's memory pool
    #[arg(
        long,
        value_enum,
        default_value = "unbounded",
        help_heading = "Shuffle"
    )]
    pub pool: PoolKind,

    /// Size of a greedy or fair pool [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Shuffle")]
    pub memory: Option<usize>,

    /// Bytes that a task buffers before it spills, whatever the pool has left [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Shuffle")]
    pub max_buffer: Option<usize>,

    /// Compression of the data and spill files
    #[arg(long, value_enum, default_value = "none", help_heading = "Shuffle")]
    pub compression: Compression,

    /// Measured rounds of each side, after one to warm up
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u16).range(1..))]
    #[arg(help_heading = "Output")]
    pub rounds: u16,

    /// Keep the data files of the last round in this folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,

    /// Print one JSON object instead of the table, with all figures in full
    ///
    /// Sizes are in bytes and times in nanoseconds. Where the pool saw more than 16 distinct
    /// request sizes, "acquires_of_most_frequent_size" may be too high by what the table shows.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(crate) enum Key {
    /// Always 1: all rows in one partition
    #[default]
    Constant,
    /// 0, 1, 2 and so on, over all batches and tasks
    Sequence,
    /// Random, the same values in each run
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Table {
    Customer,
    Lineitem,
    Nation,
    Orders,
    Part,
    Partsupp,
    Region,
    Supplier,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum PoolKind {
    /// UnboundedMemoryPool
    Unbounded,
    /// GreedyMemoryPool of --memory bytes
    Greedy,
    /// FairSpillPool of --memory bytes
    Fair,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Compression {
    None,
    Lz4,
    Zstd,
}

impl Cli {
    /// The command line, or `None` where only help or the version was asked for, which is printed.
    pub(crate) fn parse_from_args(
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<Option<Self>, Failure> {
        let cli = match Self::try_parse_from(args) {
            Ok(cli) => cli,
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp) => {
                return error.print().map(|()| None).map_err(Failure::run);
            }
            Err(error) => return Err(Failure::usage(first_paragraph(&error.to_string()))),
        };
        if cli.memory.is_some() && cli.pool == PoolKind::Unbounded {
            return Err(Failure::usage(
                "--memory has no meaning with an unbounded pool; add --pool greedy or --pool fair",
            ));
        }
        Ok(Some(cli))
    }

    /// Size of a greedy or fair pool, in bytes.
    pub(crate) fn pool_bytes(&self) -> usize {
        self.memory.unwrap_or(64 << 20)
    }
}

/// What is wrong, without the usage and the tips that follow it.
fn first_paragraph(message: &str) -> &str {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    message.split("\n\n").next().unwrap_or(message)
}

fn parse_size(text: &str) -> Result<usize, String> {
    parse_size::parse_size(text)
        .map_err(|error| error.to_string())
        .and_then(|bytes| usize::try_from(bytes).map_err(|error| error.to_string()))
        .map_err(|error| format!("{error}; a size is written like 65536, 64KiB or 1MiB"))
}

/// The bounds are those of the generator: below, tables come out empty; above, keys overflow.
fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=100_000.0).contains(&scale) => Ok(scale),
        _ => Err("a scale factor is a number from 0.001 to 100000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Cli, Failure> {
        let args = ["shuffle"].iter().chain(args).map(OsString::from);
        Ok(Cli::parse_from_args(args)?.expect("no help was asked for"))
    }

    #[test]
    fn sizes_take_units() {
        let sizes = [
            ("0", 0),
            ("65536", 65_536),
            ("64KiB", 65_536),
            ("1MiB", 1 << 20),
            ("1.5 GiB", 3 << 29),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse(&["--step", text]).unwrap().step, bytes, "{text}");
        }
        assert_eq!(
            parse(&["--max-buffer", "2MB"]).unwrap().max_buffer,
            Some(2_000_000)
        );
        assert_eq!(parse(&[]).unwrap().step, 1 << 20);
    }

    #[test]
    fn errors_are_one_line_that_names_the_argument() {
        let wrong: [(&[&str], &str); 8] = [
            (&["--step", "much"], "--step"),
            (
                &["--pool", "big"],
                "possible values: unbounded, greedy, fair",
            ),
            (&["--tasks", "0"], "--tasks"),
            (&["--memory", "1MiB"], "--pool greedy"),
            (&["--tpch", "lineitem", "--scale", "0"], "--scale"),
            (&["--scale", "1"], "--tpch"),
            (&["--tpch", "lineitem", "--batches", "3"], "--batches"),
            (&["--tpch", "lineitem", "--input", "a.parquet"], "--input"),
        ];
        for (args, expected) in wrong {
            match parse(args) {
                Err(Failure::Usage(line)) => {
                    assert!(
                        line.contains(expected) && !line.contains('\n'),
                        "{args:?}: {line}"
                    );
                }
                other => panic!("{args:?}: {other:?}"),
            }
        }
    }
}
