//! The table that a person reads.

use super::{Denial, NamedFigures, Snapshot};
use crate::figures::{Figures, Histogram};
use comfy_table::{CellAlignment, Table, presets};
use datafusion_execution::memory_pool::{
    human_readable_count, human_readable_duration, human_readable_size,
};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Rows that a person still reads.
const MOST_ROWS: usize = 20;
/// Columns of a terminal that is not wide.
const WIDTH: usize = 100;
/// Between two columns.
const GAP: usize = 1;
/// A name that is cut further says nothing.
const SHORTEST_NAME: usize = 9;

const COLUMNS: [&str; 9] = [
    "consumer",
    "acquires",
    "denied",
    "acquired",
    "most often",
    "releases",
    "held",
    "peak",
    "in pool",
];

impl Display for Snapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows = self.busiest_first();
        if rows.is_empty() {
            return writeln!(f, "{}", self.summary());
        }
        let pool = shortened(&self.pool, WIDTH / 2);
        writeln!(f, "pool {pool:?} after {}", duration(self.elapsed))?;
        writeln!(f, "{}", table(&rows, &self.total))?;
        if rows.len() > MOST_ROWS {
            writeln!(f, "and {} more consumers", rows.len() - MOST_ROWS)?;
        }
        let wrong = went_wrong(&self.total);
        if !wrong.is_empty() {
            writeln!(f, "went wrong: {}", wrong.join(", "))?;
        }
        latency(f, "acquire", &self.acquire_latency)?;
        latency(f, "release", &self.release_latency)?;
        for denial in self.last_denials() {
            writeln!(f, "{denial}")?;
        }
        Ok(())
    }
}

impl Snapshot {
    /// One line: how many calls, bytes and denials, what is held, what the calls took, and what
    /// went wrong if anything did.
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
        let mut summary = format!(
            "pool {:?}: {} acquires of {}, {} denied, {} releases, {} held, peak {}, {} in the pool",
            self.pool,
            count(acquires.calls),
            size(acquires.acquired_bytes),
            count(denied.calls),
            count(releases.calls),
            size(*reserved_bytes),
            size(*peak_bytes),
            duration(time),
        );
        for wrong in went_wrong(&self.total) {
            summary.push_str(", ");
            summary.push_str(&wrong);
        }
        summary
    }

    /// The denials that a person is shown. One that is denied asks again, so that more of them
    /// only say the same.
    pub(super) fn last_denials(&self) -> &[Denial] {
        const MOST: usize = 3;
        &self.denials[self.denials.len().saturating_sub(MOST)..]
    }
}

/// What should not happen at all.
fn went_wrong(figures: &Figures) -> Vec<String> {
    let anomalies = format!("over-releases, {} too much", size(figures.anomalies.bytes));
    [
        (figures.failed, "failed"),
        (figures.panicked, "panicked"),
        (figures.releases_panicked, "releases panicked"),
        (figures.anomalies.calls, &anomalies),
    ]
    .into_iter()
    .filter(|(calls, _)| *calls > 0)
    .map(|(calls, what)| format!("{} {what}", count(calls)))
    .collect()
}

/// Several lines: who asked, and then a line for each of the largest holders.
impl Display for Denial {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "denial {}: {} asked for {} and held {}",
            self.number,
            numbered(&self.consumer, self.id),
            size(self.asked_bytes),
            size(self.held_bytes),
        )?;
        if !self.largest_holders.is_empty() {
            write!(f, "; held most:")?;
        }
        for holder in &self.largest_holders {
            let bytes = size(holder.reserved_bytes);
            write!(
                f,
                "\n    {bytes:>9}  {}",
                numbered(&holder.consumer, holder.id)
            )?;
        }
        Ok(())
    }
}

/// A consumer's name and id, as DataFusion's own errors have them.
fn numbered(consumer: &str, id: usize) -> String {
    const NAME: usize = 36;
    format!("{}#{id}", shortened(consumer, NAME))
}

fn table(rows: &[NamedFigures], total: &Figures) -> Table {
    let mut lines: Vec<_> = rows
        .iter()
        .take(MOST_ROWS)
        .map(|row| cells(&row.name, &row.figures))
        .collect();
    if rows.len() > 1 {
        lines.push(cells("total", total));
    }
    let others: usize = (1..COLUMNS.len())
        .map(|column| {
            let widest = lines.iter().map(|line| line[column].chars().count()).max();
            widest.unwrap_or(0).max(COLUMNS[column].len()) + GAP
        })
        .sum();
    let name_width = WIDTH.saturating_sub(others).max(SHORTEST_NAME);

    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(COLUMNS);
    for mut line in lines {
        line[0] = shortened(&line[0], name_width);
        table.add_row(line);
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        if i == 0 {
            column.set_padding((0, 0));
        } else {
            column.set_padding((GAP as u16, 0));
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(name: &str, figures: &Figures) -> [String; COLUMNS.len()] {
    let denied = match figures.denied.calls {
        0 => "-".into(),
        calls => count(calls),
    };
    [
        name.into(),
        count(figures.acquires.calls),
        denied,
        size(figures.acquires.acquired_bytes),
        most_often(figures),
        count(figures.releases.calls),
        size(figures.reserved_bytes),
        size(figures.peak_bytes),
        duration(figures.acquire_time.total + figures.release_time.total),
    ]
}

/// The most frequent size and its share of the acquires, a range where it is not known exactly.
fn most_often(figures: &Figures) -> String {
    let Some(most) = figures.sizes.most_frequent() else {
        return "-".into();
    };
    let percent = |calls: u64| 100 * calls / figures.acquires.calls.max(1);
    let (least, most_calls) = (
        percent(most.calls - most.error),
        percent(most.calls).min(100),
    );
    match (least, most_calls) {
        // It may just be the last of many sizes that were asked for once.
        (0, _) => "varied".into(),
        (share, same) if share == same => format!("{} {share} %", size(most.bytes)),
        _ => format!("{} {least}-{most_calls} %", size(most.bytes)),
    }
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
fn shortened(name: &str, width: usize) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= width {
        return name.into();
    }
    let tail = (width - 1) / 2;
    let head = width - 1 - tail;
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
