//! The measurement as a table for people and as JSON for programs.

use comfy_table::{CellAlignment, ContentArrangement, Table};
use datafusion_counting_pool::{Figures, RequestSize};
use serde_json::{Value, json};

use crate::cli::{Cli, Compression, PoolKind};
use crate::measure::{Measurement, Round, Task};
use crate::units::{bytes, count, duration, of, size, spread};
use crate::workload::Workload;

/// A line under the header, and none else.
const LINES: &str = "     ──            ";

/// One JSON object, its keys as the documentation of `--json` has them.
pub(crate) fn json(cli: &Cli, measurement: &Measurement) -> Value {
    json!({
        "tasks": cli.tasks,
        "rows": measurement.rows,
        "partitions": cli.partitions,
        "exact": json_of_side(&measurement.exact),
        "stepped": json_of_side(&measurement.stepped),
        "outputs_equal": measurement.comparison.difference.is_none(),
    })
}

fn json_of_side(round: &Round) -> Value {
    let total = &round.counts.total;
    let most_frequent = most_frequent(total);
    json!({
        "step_bytes": round.side.step,
        "acquires": total.acquires.calls,
        "acquires_of_most_frequent_size": most_frequent.map_or(0, |size| size.calls),
        "most_frequent_size_bytes": most_frequent.map_or(0, |size| size.bytes),
        "acquired_bytes": total.acquires.acquired_bytes,
        "denied": total.denied.calls,
        "releases": total.releases.calls,
        "released_bytes": total.releases.bytes,
        "spills": round.tasks.iter().map(Task::spills).sum::<u64>(),
        "spilled_bytes": round.tasks.iter().map(Task::spilled_bytes).sum::<u64>(),
        "peak_bytes": total.peak_bytes,
        "acquire_time_ns": total.acquire_time.total.as_nanos() as u64,
        "release_time_ns": total.release_time.total.as_nanos() as u64,
        "elapsed_ns": round.elapsed.as_nanos() as u64,
        "per_task": round.tasks.iter().map(json_of_task).collect::<Vec<_>>(),
    })
}

fn json_of_task(task: &Task) -> Value {
    json!({
        "acquires": task.figures.acquires.calls,
        "acquired_bytes": task.figures.acquires.acquired_bytes,
        "releases": task.figures.releases.calls,
        "spills": task.spills(),
    })
}

/// What was run, the figures side by side, and what is to be concluded.
pub(crate) fn table(cli: &Cli, workload: &Workload, measurement: &Measurement) -> String {
    let mut report = heading(cli, workload, measurement.rows);
    report.push_str("\n\n");
    report.push_str(&figures(cli, measurement));
    report.push_str("\n\n");
    report.push_str(&conclusion(cli, measurement));
    report
}

fn heading(cli: &Cli, workload: &Workload, rows: u64) -> String {
    let rows = of(rows, "row");
    let tasks = of(u64::from(cli.tasks), "task");
    let partitions = of(u64::from(cli.partitions), "partition");
    let columns = workload.hash_columns().join(", ");
    let pool = match cli.pool {
        PoolKind::Unbounded => "unbounded pool".to_owned(),
        PoolKind::Greedy => format!("greedy pool of {}", size(cli.pool_bytes() as u64)),
        PoolKind::Fair => format!("fair pool of {}", size(cli.pool_bytes() as u64)),
    };
    let limit = match cli.max_buffer {
        None => "no buffer limit".to_owned(),
        Some(limit) => format!("buffer limit {}", size(limit as u64)),
    };
    let compression = match cli.compression {
        Compression::None => "no compression",
        Compression::Lz4 => "LZ4",
        Compression::Zstd => "ZSTD",
    };
    // The rule of the reservation that the example sets up.
    let step = cli
        .max_buffer
        .map_or(cli.step, |limit| cli.step.min(limit / 8));
    let after = match step {
        0 => "exact growth as well".to_owned(),
        step if step < cli.step => {
            format!(
                "steps of {}, an eighth of the buffer limit",
                size(step as u64)
            )
        }
        step => format!("steps of {}", size(step as u64)),
    };
    format!(
        "Shuffle of {workload}: {rows}, {tasks} at the same time\n\
         {partitions} by the hash of {columns} · {pool} · {limit} · {compression}\n\
         Before: exact growth. After: {after}."
    )
}

fn figures(cli: &Cli, measurement: &Measurement) -> String {
    let mut rows = Rows {
        sides: [&measurement.exact, &measurement.stepped],
        table: Table::new(),
    };
    rows.table
        .load_preset(LINES)
        .set_content_arrangement(ContentArrangement::Disabled);
    rows.table.set_header(match cli.tasks {
        1 => vec!["", "before", "after"],
        _ => vec![
            "",
            "each task\nbefore",
            "\nafter",
            "all tasks\nbefore",
            "\nafter",
        ],
    });

    rows.each("acquires", |figures| figures.acquires.calls, count);
    rows.each(
        "  most frequent size",
        |figures| most_frequent(figures).map(|size| size.bytes),
        |bytes| bytes.map_or_else(String::new, size),
    );
    rows.add("  of that size", |round| {
        let tasks = round.tasks.iter().map(|task| &task.figures);
        [tasks.collect(), vec![&round.counts.total]].map(calls_of_most_frequent)
    });
    rows.each(
        "bytes acquired",
        |figures| figures.acquires.acquired_bytes,
        bytes,
    );
    rows.each("peak reserved", |figures| figures.peak_bytes, bytes);
    rows.each("releases", |figures| figures.releases.calls, count);
    rows.each("denials", |figures| figures.denied.calls, count);
    rows.each_and_sum("spills", Task::spills, count);
    let mut tasks = rows.sides.iter().flat_map(|side| &side.tasks);
    if tasks.any(|task| task.spills() > 0) {
        rows.each_and_sum("  bytes spilled", Task::spilled_bytes, bytes);
    }
    let in_pool = |figures: &Figures| figures.acquire_time.total + figures.release_time.total;
    rows.each("time in the pool", in_pool, duration);
    let mean = |figures: &Figures| {
        let calls = u32::try_from(figures.acquires.calls).unwrap_or(u32::MAX);
        figures.acquire_time.total.checked_div(calls)
    };
    let or_nothing = |time: Option<_>| time.map_or_else(String::new, duration);
    rows.each("  an acquire, mean", mean, or_nothing);
    rows.all("  p50", |round| {
        or_nothing(round.counts.acquire_latency.quantile(0.5))
    });
    rows.all("  p99", |round| {
        or_nothing(round.counts.acquire_latency.quantile(0.99))
    });
    rows.all("elapsed", |round| duration(round.elapsed));
    rows.finish()
}

fn conclusion(cli: &Cli, measurement: &Measurement) -> String {
    let rows = count(measurement.comparison.equal_rows);
    let mut text = match &measurement.comparison.difference {
        None => format!(
            "Both sides wrote the same rows to the same partitions: {rows}, read back after each round.\n\
             All memory was released."
        ),
        Some(_) => "The outputs are not the same.".to_owned(),
    };
    if let Some(folder) = &cli.out {
        let folder = folder.display();
        text += &format!(
            "\nFiles: {folder}/exact-task-*.data and stepped-task-*.data, each with its index."
        );
    }
    text += "\n\n";
    if cli.rounds > 1 {
        text += "Each side is shown by its round of median elapsed time. ";
    }
    text += "Elapsed includes reading the input.";
    text
}

fn most_frequent(figures: &Figures) -> Option<RequestSize> {
    figures.sizes.most_frequent()
}

/// Its calls, from the least that any has for certain to the most that any may have.
fn calls_of_most_frequent(figures: Vec<&Figures>) -> String {
    let sizes = figures.into_iter().filter_map(most_frequent);
    let least = sizes.clone().map(|size| size.calls - size.error).min();
    let most = sizes.map(|size| size.calls).max();
    spread(&count(least.unwrap_or(0)), &count(most.unwrap_or(0)))
}

/// The table's rows, each with a cell for a task and for all tasks, before and after.
struct Rows<'a> {
    sides: [&'a Round; 2],
    table: Table,
}

impl Rows<'_> {
    /// A figure of each task, and the same of the whole pool.
    fn each<T: Ord>(
        &mut self,
        label: &str,
        figure: impl Fn(&Figures) -> T,
        show: impl Fn(T) -> String,
    ) {
        self.add(label, |round| {
            let tasks = spread_of(round, |task| figure(&task.figures), &show);
            [tasks, show(figure(&round.counts.total))]
        });
    }

    /// A figure of each task, and its sum.
    fn each_and_sum(
        &mut self,
        label: &str,
        figure: impl Fn(&Task) -> u64,
        show: impl Fn(u64) -> String,
    ) {
        self.add(label, |round| {
            [
                spread_of(round, &figure, &show),
                show(round.tasks.iter().map(&figure).sum()),
            ]
        });
    }

    /// A figure that only all tasks together have.
    fn all(&mut self, label: &str, cell: impl Fn(&Round) -> String) {
        self.add(label, |round| [String::new(), cell(round)]);
    }

    fn add(&mut self, label: &str, cells: impl Fn(&Round) -> [String; 2]) {
        let [[task_before, all_before], [task_after, all_after]] = self.sides.map(cells);
        let mut row = vec![label.to_owned()];
        // One task is all tasks.
        if self.sides[0].tasks.len() > 1 {
            row.extend([task_before, task_after]);
        }
        row.extend([all_before, all_after]);
        self.table.add_row(row);
    }

    fn finish(mut self) -> String {
        for (index, column) in self.table.column_iter_mut().enumerate() {
            let (alignment, padding) = match index {
                0 => (CellAlignment::Left, (0, 1)),
                _ => (CellAlignment::Right, (2, 1)),
            };
            column.set_cell_alignment(alignment);
            column.set_padding(padding);
        }
        self.table.trim_fmt()
    }
}

/// What all tasks have, or the least and the most of them.
fn spread_of<T: Ord>(
    round: &Round,
    figure: impl Fn(&Task) -> T,
    show: impl Fn(T) -> String,
) -> String {
    let tasks = || round.tasks.iter().map(&figure);
    let cell = |figure: Option<T>| figure.map_or_else(String::new, &show);
    spread(&cell(tasks().min()), &cell(tasks().max()))
}
