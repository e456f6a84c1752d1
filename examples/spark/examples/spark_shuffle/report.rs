//! The measurement as a table for people and as JSON for programs.

use std::time::Duration;

use comfy_table::{CellAlignment, Table};
use datafusion_counting_pool::{Figures, RequestSize};
use serde_json::{Value, json};

use crate::Cli;
use crate::measure::{Measurement, Round, Task};
use crate::units::{bytes, count, duration, of, size, spread};

/// The keys of the `shuffle` example, and Spark's balance.
pub(crate) fn json(cli: &Cli, measurement: &Measurement) -> Value {
    json!({
        "tasks": cli.tasks,
        "rows": measurement.exact.sum(|task| task.shuffle.metrics().input_rows),
        "partitions": cli.partitions,
        "exact": json_of_side(&measurement.exact),
        "stepped": json_of_side(&measurement.stepped),
        "outputs_equal": measurement.comparison.difference.is_none(),
    })
}

fn json_of_side(round: &Round) -> Value {
    let sum = |figure: fn(&Figures) -> u64| round.sum(|task| figure(&task.figures));
    let most_frequent = most_frequent(round);
    json!({
        "step_bytes": round.step,
        "acquires": sum(|figures| figures.acquires.calls),
        "acquires_of_most_frequent_size": most_frequent.map_or(0, |bytes| calls_of(round, bytes)),
        "most_frequent_size_bytes": most_frequent.unwrap_or(0),
        "acquired_bytes": sum(|figures| figures.acquires.acquired_bytes),
        "denied": sum(|figures| figures.denied.calls),
        "releases": sum(|figures| figures.releases.calls),
        "released_bytes": sum(|figures| figures.releases.bytes),
        "spills": round.sum(|task| task.shuffle.metrics().spill_count),
        "spilled_bytes": round.sum(|task| task.shuffle.metrics().spilled_bytes),
        "peak_bytes": sum(|figures| figures.peak_bytes),
        "acquire_time_ns": round.acquire_nanos(),
        "release_time_ns": sum(|figures| figures.release_time.total.as_nanos() as u64),
        "elapsed_ns": round.elapsed.as_nanos() as u64,
        "spark_balance_bytes": round.spark_balance,
        "per_task": round.tasks.iter().map(json_of_task).collect::<Vec<_>>(),
    })
}

fn json_of_task(task: &Task) -> Value {
    json!({
        "acquires": task.figures.acquires.calls,
        "acquired_bytes": task.figures.acquires.acquired_bytes,
        "releases": task.figures.releases.calls,
        "spills": task.shuffle.metrics().spill_count,
    })
}

/// The request size that most calls of all tasks have.
fn most_frequent(round: &Round) -> Option<u64> {
    let of_task = |task: &Task| task.figures.sizes.most_frequent();
    let size = |size: RequestSize| size.bytes;
    let sizes = round.tasks.iter().filter_map(of_task).map(size);
    sizes.max_by_key(|bytes| calls_of(round, *bytes))
}

fn calls_of(round: &Round, bytes: u64) -> u64 {
    round.sum(|task| task.figures.sizes.calls_of(bytes as usize))
}

pub(crate) fn table(cli: &Cli, measurement: &Measurement) -> String {
    let Measurement {
        exact,
        stepped,
        comparison,
    } = measurement;
    let mut table = Table::new();
    // A line under the header, and none else.
    table
        .load_preset("     ──            ")
        .set_header(["a task", "before", "after"]);
    let mut row = |label: &str, figure: &dyn Fn(&Task) -> u64, show: fn(u64) -> String| {
        let [before, after] = [exact, stepped].map(|round| {
            let figures = || round.tasks.iter().map(figure);
            let end = |figure: Option<u64>| figure.map_or_else(String::new, show);
            spread(&end(figures().min()), &end(figures().max()))
        });
        table.add_row([label, &before, &after]);
    };
    row("acquires", &|task| task.figures.acquires.calls, count);
    row(
        "bytes acquired",
        &|task| task.figures.acquires.acquired_bytes,
        count,
    );
    row("releases", &|task| task.figures.releases.calls, count);
    row("denials", &|task| task.figures.denied.calls, count);
    let time = |time: Duration| time.as_nanos() as u64;
    let show = |nanos| duration(Duration::from_nanos(nanos));
    row(
        "time acquiring",
        &|task| time(task.figures.acquire_time.total),
        show,
    );
    row(
        "  the longest",
        &|task| time(task.figures.acquire_time.max),
        show,
    );
    row(
        "time releasing",
        &|task| time(task.figures.release_time.total),
        show,
    );
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }

    let rows = exact.sum(|task| task.shuffle.metrics().input_rows);
    let [before, after] =
        [exact, stepped].map(|round| round.acquire_nanos() as f64 / f64::from(cli.tasks));
    let outputs = match comparison.difference {
        None => format!(
            "Same rows in the same partitions before and after: {}, read back.",
            of(comparison.equal_rows, "row")
        ),
        Some(_) => "The outputs are not the same.".to_owned(),
    };
    format!(
        "Shuffle of {}, {} at the same time, {}, memory from Spark: an off-heap pool of {}\n\
         Before: exact growth. After: steps of {}.\n\n\
         {}\n\n\
         Time acquiring, a task in the mean: {} before, {} after, {:.1} times less.\n\
         Spark's balance at the end: {} before, {} after.\n\
         {outputs}\n\n\
         Each side is shown by its round of median time acquiring, of {}.",
        of(rows, "row"),
        of(u64::from(cli.tasks), "task"),
        of(u64::from(cli.partitions), "partition"),
        size(crate::measure::EXECUTOR_BYTES as u64),
        size(stepped.step as u64),
        table.trim_fmt(),
        show(before as u64),
        show(after as u64),
        before / after,
        bytes(exact.spark_balance),
        bytes(stepped.spark_balance),
        cli.rounds,
    )
}
