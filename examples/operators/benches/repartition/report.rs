//! The figures as people and programs want them.

use crate::contenders::Writer;
use crate::measure::{Figures, Measured, Task};
use arrow_ipc::CompressionType;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Map, Value, json};

/// The defaults against `RepartitionExec`.
pub(crate) fn json(measured: &[Measured]) -> Value {
    let figures = measured.iter().map(|measured| {
        let of = |at: usize| &measured.contenders[at].1;
        let (base, own) = (of(0), of(1));
        let figures = json!({
            "rows_per_s": own.rows_per_s,
            "repartition_exec_rows_per_s": base.rows_per_s,
            "ratio": own.ratio,
        });
        (name(measured.compression).to_owned(), figures)
    });
    Value::Object(Map::from_iter(figures))
}

fn name(compression: Option<CompressionType>) -> &'static str {
    match compression {
        None => "none",
        Some(CompressionType::ZSTD) => "zstd",
        Some(_) => "lz4",
    }
}

pub(crate) fn heading(task: &Task<'_>) -> String {
    format!(
        "lineitem: {} rows, {} in {} batches, by the hash of l_orderkey to {} partitions, on one \
         thread.\nMedians of {} rounds in which all take turns. Peak memory is beyond that of \
         the input.",
        HumanCount(task.lineitem.rows as u64),
        HumanBytes(task.lineitem.bytes as u64),
        HumanCount(task.lineitem.batches.len() as u64),
        HumanCount(task.partitions as u64),
        task.rounds,
    )
}

pub(crate) fn table(measured: &Measured) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        &format!("compression: {}", name(measured.compression)),
        "memory",
        "step",
        "Mrows/s",
        "ratio",
        "peak",
        "reserved",
        "acquires",
        "spills",
        "written",
    ]);
    for (contender, figures) in &measured.contenders {
        let (writer, step) = match contender.writer {
            Writer::RepartitionExec => ("RepartitionExec".to_owned(), String::new()),
            Writer::Repartitioner { layout, step } => {
                let layout = layout.unwrap_or_default();
                (format!("Repartitioner, {layout:?}"), step_size(step))
            }
        };
        let memory = contender.memory.map_or_else(String::new, bytes);
        let mut row = vec![writer, memory, step];
        row.extend(cells(figures));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn cells(figures: &Figures) -> [String; 7] {
    let Figures {
        rows_per_s,
        ratio,
        cost,
    } = figures;
    let pool = &cost.pool.total;
    [
        format!("{:.2}", rows_per_s / 1e6),
        format!("{ratio:.2}"),
        bytes(cost.peak_heap as usize),
        bytes(pool.peak_bytes as usize),
        HumanCount(pool.acquires.calls).to_string(),
        HumanCount(cost.spills).to_string(),
        bytes(cost.output_bytes as usize),
    ]
}

fn bytes(bytes: usize) -> String {
    HumanBytes(bytes as u64).to_string()
}

fn step_size(step: usize) -> String {
    if step == 0 {
        "exact".to_owned()
    } else {
        bytes(step)
    }
}
