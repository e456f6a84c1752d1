//! What happened between two snapshots.

use super::{NamedFigures, OTHER, Snapshot};
use crate::figures::Figures;
use crate::operator_name::operator_name;
use std::collections::HashMap;
use std::sync::Arc;

impl Snapshot {
    /// What was counted since an earlier snapshot of the same pool.
    ///
    /// Counters are differences; bytes reserved and peaks are the later snapshot's. Rows of
    /// consumers that have gone in between count what they did in between.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        difference.elapsed = self.elapsed.saturating_sub(earlier.elapsed);
        difference.total.subtract(&earlier.total);
        difference
            .acquire_latency
            .subtract(&earlier.acquire_latency);
        difference
            .release_latency
            .subtract(&earlier.release_latency);
        difference.overflowed_consumers -=
            earlier.overflowed_consumers.min(self.overflowed_consumers);
        let seen = earlier.denials.last().map_or(0, |denial| denial.number);
        difference.denials.retain(|denial| denial.number > seen);

        subtract_rows(&mut difference.finished, &earlier.finished);
        subtract_rows(&mut difference.overflow, &earlier.overflow);
        let mut gone: HashMap<usize, _> =
            earlier.consumers.iter().map(|row| (row.id, row)).collect();
        for row in &mut difference.consumers {
            if let Some(earlier) = gone.remove(&row.id) {
                row.figures.subtract(&earlier.figures);
            }
        }
        for consumer in gone.into_values() {
            if let Some(row) = difference.folded_into(&consumer.name) {
                row.subtract(&consumer.figures);
            }
        }
        difference
    }

    /// The row that the figures of a consumer of this name went into when it left.
    fn folded_into(&mut self, name: &Arc<str>) -> Option<&mut Figures> {
        fn row<'a>(rows: &'a mut [NamedFigures], name: &str) -> Option<&'a mut Figures> {
            rows.iter_mut()
                .find(|row| &*row.name == name)
                .map(|row| &mut row.figures)
        }
        row(&mut self.finished, name).or_else(|| {
            // Two look-ups, since the first borrow would last for both.
            let operator = operator_name(name);
            let has_operator = self.overflow.iter().any(|row| &*row.name == operator);
            row(
                &mut self.overflow,
                if has_operator { operator } else { OTHER },
            )
        })
    }
}

fn subtract_rows(rows: &mut [NamedFigures], earlier: &[NamedFigures]) {
    let earlier: HashMap<_, _> = earlier
        .iter()
        .map(|row| (&row.name, &row.figures))
        .collect();
    for row in rows {
        if let Some(earlier) = earlier.get(&row.name) {
            row.figures.subtract(earlier);
        }
    }
}

/// Successive differences; see [`CountingPool::intervals`](crate::CountingPool::intervals).
#[derive(Debug)]
pub struct Intervals<F> {
    take: F,
    last: Snapshot,
}

impl<F: Fn() -> Snapshot> Intervals<F> {
    pub(crate) fn new(take: F) -> Self {
        let last = take();
        Self { take, last }
    }
}

impl<F: Fn() -> Snapshot> Iterator for Intervals<F> {
    type Item = Snapshot;

    fn next(&mut self) -> Option<Snapshot> {
        let now = (self.take)();
        let difference = now.since(&self.last);
        self.last = now;
        Some(difference)
    }
}
