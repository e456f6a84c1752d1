//! The same shuffle with memory reserved exactly and in steps: how many pool calls, of what sizes,
//! at what cost, and that both write the same.
//!
//! ```text
//! cargo run --release --example shuffle
//! cargo run --release --example shuffle -- --help
//! ```

mod cli;
mod compare;
mod failure;
mod first_difference;
mod measure;
mod progress;
mod report;
mod units;
mod workload;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use cli::Cli;
use failure::Failure;
use measure::measure;
use progress::Progress;
use workload::Workload;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}

fn run() -> Result<(), Failure> {
    let Some(cli) = Cli::parse_from_args(std::env::args_os())? else {
        return Ok(());
    };
    let workload = Workload::new(&cli)?;
    let temporary;
    let folder = match &cli.out {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::usage(format!(
                    "cannot create the folder {}: {error}",
                    folder.display()
                ))
            })?;
            folder.as_path()
        }
        None => {
            temporary = tempfile::tempdir().map_err(|error| {
                Failure::run(format!("cannot create a temporary folder: {error}"))
            })?;
            temporary.path()
        }
    };

    let progress = Progress::new();
    let measurement = measure(&cli, &workload, folder, &progress);
    progress.clear();
    let measurement = measurement?;

    let report = if cli.json {
        report::json(&cli, &measurement).to_string()
    } else {
        report::table(&cli, &workload, &measurement)
    };
    print(&report)?;
    match measurement.comparison.difference {
        Some(difference) => Err(Failure::run(difference)),
        None => Ok(()),
    }
}

/// A reader that has seen enough, `head` for one, is no failure.
fn print(report: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout().lock(), "{report}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::run(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}
