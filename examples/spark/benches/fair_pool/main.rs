//! The fair pool with its lock held while Spark is called (base) and without (head), on real
//! Spark in a JVM in this process.
//!
//! ```text
//! cargo bench -p spark-memory --bench fair_pool
//! cargo bench -p spark-memory --bench fair_pool -- --json
//! ```
//!
//! All memory is that of one task over an off-heap pool of 1 GiB, and the fair pool's own limit
//! is the same. An operation is a `try_grow`, or the `shrink` that follows if it was granted.
//! - full: every thread asks for 64 KiB and gets it.
//! - partial: all but 1 MiB is taken. Every thread asks for 32 KiB to 1,056 KiB, in steps of
//!   32 KiB and all as likely: one in 33 is never to be had, and what threads hold at the same
//!   time is in each other's way.
//! - churn: as full, with a consumer registered for each pair and dropped after it.
//! - parked: another task holds the pool, a `grow` of this one is parked for a second, and
//!   meanwhile another reservation of this task is released and the pool asked what is reserved.
//!
//! Latencies are those that `CountingPool` measures around each pool. A row is the medians of
//! the recorded rounds; base and head take turns, and who goes first alternates.

mod parked;
mod report;
mod round;
mod scenario;

use std::process::ExitCode;

use clap::Parser;
use jni::JavaVM;

use round::{Figures, Side, round};
use scenario::{SCENARIOS, Scenario};

/// The fair pool with and without its lock held while Spark is called.
#[derive(Debug, Parser)]
struct Cli {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Recorded rounds of each side, of which the medians are shown
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Operations of each thread in a round
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    operations: u32,
    /// Cargo says this to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// Both sides of one scenario with so many threads.
#[derive(Debug)]
struct Row {
    scenario: Scenario,
    threads: usize,
    base: Figures,
    head: Figures,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let jvm = match spark_memory::jvm() {
        Ok(jvm) => jvm,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };

    warm_up(&jvm);
    let mut rows = Vec::new();
    for threads in [1, 4, 8] {
        for scenario in SCENARIOS {
            rows.push(row(&cli, &jvm, scenario, threads));
        }
    }
    let parked = parked::parked(&jvm);

    if cli.json {
        println!("{}", report::json(&rows, &parked));
    } else {
        println!("{}", report::tables(&cli, &rows, &parked));
    }
    ExitCode::SUCCESS
}

/// Until the JVM has compiled what is measured: the calls, and the way of a short grant.
fn warm_up(jvm: &JavaVM) {
    for scenario in SCENARIOS {
        for side in [Side::Base, Side::Head] {
            round(jvm, side, scenario, 2, 50_000);
        }
    }
}

fn row(cli: &Cli, jvm: &JavaVM, scenario: Scenario, threads: usize) -> Row {
    let mut rounds = [Vec::new(), Vec::new()];
    // The first one is not recorded.
    for number in 0..=cli.rounds {
        let mut order = [(0, Side::Base), (1, Side::Head)];
        if number % 2 == 1 {
            order.reverse();
        }
        for (index, side) in order {
            let figures = round(jvm, side, scenario, threads, cli.operations);
            if number > 0 {
                rounds[index].push(figures);
            }
        }
    }
    let [base, head] = rounds.map(|rounds| Figures::medians(&rounds));
    Row {
        scenario,
        threads,
        base,
        head,
    }
}
