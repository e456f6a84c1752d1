//! How fast a shuffle is written: TPC-H lineitem, by the hash of `l_orderkey`, by a
//! `Repartitioner` and by `RepartitionExec` feeding one Arrow IPC `StreamWriter` a partition.
//!
//! `cargo bench --workspace --bench repartition` prints tables, `-- --json` one JSON object with
//! the defaults' figures.
//!
//! Both sides have the same batches in memory, one thread, the same IPC options and write
//! buffers, and write files to the same folder, through the page cache. They take turns, in an
//! order that alternates, and a ratio is the median of the rounds' ratios: on a shared machine
//! the mood changes faster than a series ends. A round before, which is not timed, checks that
//! all write the same rows to each partition and measures memory.
//!
//! The step makes no difference in calls here: a batch of lineitem is larger than one.

mod contenders;
mod lineitem;
mod measure;
mod report;
mod rows;

use clap::Parser;
use contenders::{Contender, DEFAULT, REPARTITION_EXEC};
use datafusion_common::Result;
use lineitem::Lineitem;
use measure::Task;
use std::path::PathBuf;

#[derive(Debug, Parser)]
struct Options {
    /// The scale factor of TPC-H.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,

    /// Output partitions.
    #[arg(long, default_value_t = 201)]
    partitions: usize,

    /// Rounds that are timed; the first, which is not, comes on top.
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// Where a folder for the output is made: the system's temporary files unless given.
    #[arg(long)]
    folder: Option<PathBuf>,

    /// Measure the defaults only, and print one JSON object.
    #[arg(long)]
    json: bool,

    /// Cargo says so to benchmarks.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// `cargo test` runs benchmarks too, without `--bench` and with a test runner's arguments.
    /// That they work is all it wants to know.
    fn read() -> Self {
        if std::env::args().any(|argument| argument == "--bench") {
            Self::parse()
        } else {
            Self::parse_from([
                "repartition",
                "--scale=0.002",
                "--partitions=7",
                "--rounds=1",
            ])
        }
    }
}

fn main() -> Result<()> {
    let options = Options::read();
    let lineitem = Lineitem::generate(options.scale)?;
    let folder = match &options.folder {
        Some(parent) => tempfile::tempdir_in(parent)?,
        None => tempfile::tempdir()?,
    };
    let task = Task {
        lineitem: &lineitem,
        partitions: options.partitions,
        folder: folder.path(),
        rounds: options.rounds,
    };
    if options.json {
        let measured = task.measure_each(&[REPARTITION_EXEC, DEFAULT])?;
        println!("{}", report::json(&measured));
    } else {
        println!("{}", report::heading(&task));
        let measured = task.measure_each(&Contender::all(lineitem.bytes))?;
        measured
            .iter()
            .for_each(|table| println!("\n{}", report::table(table)));
    }
    Ok(())
}
