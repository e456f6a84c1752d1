//! The figures as tables for people and as JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::parked::{Parked, Waits};
use crate::round::{Figures, Latency};
use crate::{Cli, Row};

pub(crate) fn json(rows: &[Row], parked: &Parked) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "scenario": row.scenario.name(),
                "threads": row.threads,
                "base": json_of_side(&row.base),
                "head": json_of_side(&row.head),
            })
        })
        .collect();
    let waits =
        |waits: Waits| json!({ "release_us": waits.release, "reserved_us": waits.reserved });
    json!({
        "rows": rows,
        "parked": { "base": waits(parked.base), "head": waits(parked.head) },
    })
}

fn json_of_side(figures: &Figures) -> Value {
    json!({
        "ops_per_s": figures.ops_per_s,
        "grow_us": json_of_latency(figures.grow),
        "release_us": json_of_latency(figures.release),
        "short_grants": figures.short_grants,
        "rejects": figures.rejects,
        "errors": figures.errors,
        "pool_balance": figures.pool_balance,
        "spark_balance": figures.spark_balance,
    })
}

fn json_of_latency(latency: Latency) -> Value {
    json!({
        "mean": latency.mean,
        "p50": latency.p50,
        "p99": latency.p99,
        "p999": latency.p999,
        "max": latency.max,
    })
}

pub(crate) fn tables(cli: &Cli, rows: &[Row], parked: &Parked) -> String {
    let mut text = format!(
        "A fair pool over real Spark, its lock held while Spark is called (base) and not (head).\n\
         Medians of {} rounds of {} operations a thread. Times in microseconds.\n\n\
         {:37}{:>35}{:>37}\n\
         {:8}{:>8}  {:4}{:>8}{:>6}",
        cli.rounds,
        cli.operations,
        "",
        "grow",
        "release",
        "scenario",
        "threads",
        "",
        "op/s",
        "short",
    );
    for _ in 0..2 {
        for heading in ["mean", "p50", "p99", "p99.9", "max"] {
            write!(text, "{heading:>7}").expect("a string takes what is written");
        }
        text.push_str("  ");
    }
    for row in rows {
        let (scenario, threads) = (row.scenario.name(), row.threads);
        for (side, figures) in [("base", &row.base), ("head", &row.head)] {
            write!(
                text,
                "\n{scenario:8}{threads:>8}  {side:4}{:>7.2}M{:>6}{}  {}{}",
                figures.ops_per_s / 1e6,
                figures.short_grants,
                cells(figures.grow),
                cells(figures.release),
                not_zero(figures),
            )
            .expect("a string takes what is written");
        }
    }
    write!(
        text,
        "\n\nWhile an acquire of the task is parked for a second:\n\
         base: a release takes {:.1} us, reserved() {:.1} us\n\
         head: a release takes {:.1} us, reserved() {:.1} us",
        parked.base.release, parked.base.reserved, parked.head.release, parked.head.reserved,
    )
    .expect("a string takes what is written");
    text
}

fn cells(latency: Latency) -> String {
    let cell = |us: f64| match us {
        us if us < 10.0 => format!("{us:>7.2}"),
        us if us < 100.0 => format!("{us:>7.1}"),
        us => format!("{us:>7.0}"),
    };
    [
        latency.mean,
        latency.p50,
        latency.p99,
        latency.p999,
        latency.max,
    ]
    .map(cell)
    .concat()
}

/// What should not be there.
fn not_zero(figures: &Figures) -> String {
    [
        ("rejects", figures.rejects),
        ("errors", figures.errors),
        ("bytes in the pool", figures.pool_balance),
        ("bytes in Spark", figures.spark_balance),
    ]
    .iter()
    .filter(|(_, figure)| *figure > 0)
    .map(|(name, figure)| format!("  {figure} {name}!"))
    .collect()
}
