//! The table that a person reads.

use super::{Denial, NamedFigures, Snapshot};
use crate::figures::{CallTime, Figures, Histogram, RequestSizes};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, Table, Width, presets};
use datafusion_execution::memory_pool::{
    human_readable_count, human_readable_duration, human_readable_size,
};
use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Rows that a person still reads.
const MOST_ROWS: usize = 20;
/// The width of the first column: with the others the table stays within 100 columns.
const NAME_WIDTH: u16 = 27;

const COLUMNS: [&str; 8] = [
    "consumer",
    "acquires",
    "denied",
    "acquired",
    "most often",
    "releases",
    "held / peak",
    "in pool",
];

impl Display for Snapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary())?;
        let mut rows = self.by_name();
        // What has no row by name any more is shown by operator.
        rows.extend(self.overflow.iter().cloned());
        rows.sort_by_key(|row| Reverse(row.figures.acquires.calls));
        if !rows.is_empty() {
            writeln!(f, "{}", table(&rows, &self.total))?;
        }
        if rows.len() > MOST_ROWS {
            writeln!(f, "and {} more consumers", rows.len() - MOST_ROWS)?;
        }
        latency(f, "acquire", &self.acquire_latency)?;
        latency(f, "release", &self.release_latency)?;
        for denial in &self.denials {
            writeln!(f, "{denial}")?;
        }
        Ok(())
    }
}

impl Snapshot {
    /// One line: how many calls, bytes and denials, what is held and what the calls took.
    pub fn summary(&self) -> String {
        let Figures {
            acquires,
            denied,
            releases,
            reserved_bytes,
            peak_bytes,
            ..
        } = &self.total;
        let time = self.total.acquire_time.total + self.total.release_time.total;
        format!(
            "pool {:?}: {} acquires of {}, {} denied, {} releases, {} held, peak {}, {} in the pool",
            self.pool,
            count(acquires.calls),
            size(acquires.acquired_bytes),
            count(denied.calls),
            count(releases.calls),
            size(*reserved_bytes),
            size(*peak_bytes),
            duration(time),
        )
    }
}

impl Display for Denial {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "denial {}: {}#{} asked for {}, held {}",
            self.number,
            self.consumer,
            self.id,
            size(self.asked_bytes),
            size(self.held_bytes),
        )?;
        for (i, holder) in self.largest_holders.iter().enumerate() {
            let before = if i == 0 { "; most held by" } else { "," };
            write!(
                f,
                "{before} {}#{} {}",
                holder.consumer,
                holder.id,
                size(holder.reserved_bytes)
            )?;
        }
        Ok(())
    }
}

fn table(rows: &[NamedFigures], total: &Figures) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(COLUMNS);
    for row in rows.iter().take(MOST_ROWS) {
        table.add_row(cells(&row.name, &row.figures));
    }
    if rows.len() > 1 {
        table.add_row(cells("total", total));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        match i {
            0 => {
                column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(NAME_WIDTH)));
            }
            _ => column.set_cell_alignment(CellAlignment::Right),
        }
    }
    table
}

fn cells(name: &str, figures: &Figures) -> Vec<Cell> {
    let held_and_peak = match figures.reserved_bytes {
        0 => size(figures.peak_bytes),
        held => format!("{} / {}", size(held), size(figures.peak_bytes)),
    };
    [
        shortened(name),
        count(figures.acquires.calls),
        if figures.denied.calls == 0 {
            "-".into()
        } else {
            count(figures.denied.calls)
        },
        size(figures.acquires.acquired_bytes),
        most_frequent(&figures.sizes),
        count(figures.releases.calls),
        held_and_peak,
        in_pool(figures.acquire_time, figures.release_time),
    ]
    .map(Cell::new)
    .into()
}

fn most_frequent(sizes: &RequestSizes) -> String {
    let Some(most) = sizes.most_frequent() else {
        return "-".into();
    };
    let error = if most.error > 0 {
        format!(" -{}", count(most.error))
    } else {
        String::new()
    };
    format!("{} x {}{error}", count(most.calls), size(most.bytes))
}

fn in_pool(acquiring: CallTime, releasing: CallTime) -> String {
    duration(acquiring.total + releasing.total)
}

fn latency(f: &mut Formatter<'_>, what: &str, histogram: &Histogram) -> fmt::Result {
    let Some(mean) = histogram.mean() else {
        return Ok(());
    };
    write!(f, "{what}: mean {}", duration(mean))?;
    for (name, q) in [
        ("p50", 0.5),
        ("p90", 0.9),
        ("p99", 0.99),
        ("p99.9", 0.999),
        ("max", 1.0),
    ] {
        if let Some(value) = histogram.quantile(q) {
            write!(f, ", {name} {}", duration(value))?;
        }
    }
    writeln!(f)
}

/// A long name loses its middle: the operator stands at its beginning, the partition often at
/// its end.
fn shortened(name: &str) -> String {
    let width = usize::from(NAME_WIDTH) - 2;
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= width {
        return name.into();
    }
    let (head, tail) = (width / 2, width - width / 2 - 1);
    chars[..head]
        .iter()
        .chain(&['…'])
        .chain(&chars[chars.len() - tail..])
        .collect()
}

fn count(n: u64) -> String {
    // Below this, every digit tells.
    if n < 100_000 {
        n.to_string()
    } else {
        human_readable_count(n as usize)
    }
}

fn size(bytes: u64) -> String {
    human_readable_size(bytes as usize)
}

fn duration(d: Duration) -> String {
    human_readable_duration(d.as_nanos() as u64)
}
