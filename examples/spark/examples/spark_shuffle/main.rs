//! The shuffle of the `shuffle` example, with all of its memory from real Spark.
//!
//! ```text
//! cargo run --release -p spark-memory --example spark_shuffle
//! ```
//!
//! Several tasks run at the same time, each with a `TaskMemoryManager` of its own over one
//! off-heap pool, a fair pool over that, and a `CountingPool` around it. Once each task reserves
//! exactly what it uses, once in steps. Both are warmed up and take turns.

#[path = "../../../shuffle/compare.rs"]
mod compare;
#[path = "../../../shuffle/failure.rs"]
#[expect(dead_code, reason = "this example has no usage errors of its own")]
mod failure;
#[path = "../../../shuffle/first_difference.rs"]
mod first_difference;
mod measure;
mod report;
#[path = "../../../shuffle/units.rs"]
mod units;

use std::process::ExitCode;

use clap::Parser;

use failure::Failure;
use measure::Measurement;

/// A shuffle with its memory from Spark, reserved exactly and in steps
#[derive(Debug, Parser)]
struct Cli {
    /// Tasks at the same time
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    tasks: u16,
    /// Batches of each task
    #[arg(long, default_value_t = 256)]
    batches: u32,
    /// Rows of each batch
    #[arg(long, default_value_t = 8192)]
    batch_rows: u32,
    /// Output partitions
    #[arg(long, default_value_t = 201, value_parser = clap::value_parser!(u16).range(1..))]
    partitions: u16,
    /// Recorded rounds of each side; the one whose time in the pool is the median is shown
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let measurement: Measurement = measure::measure(cli)?;
    if cli.json {
        println!("{}", report::json(cli, &measurement));
    } else {
        println!("{}", report::table(cli, &measurement));
    }
    match &measurement.comparison.difference {
        Some(difference) => Err(Failure::run(difference)),
        None => Ok(()),
    }
}
