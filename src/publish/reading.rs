//! The figures of one pool, by label.

use super::calls_within::CallsWithin;
use super::labels::{OTHER, clean};
use super::names::{CONSUMER_COUNTERS, Row};
use crate::counting_pool::CountingPool;
use crate::figures::Figures;
use datafusion_execution::memory_pool::{MemoryLimit, MemoryPool};
use std::collections::BTreeMap;
use std::sync::Arc;

/// From a consumer's name to its label.
pub(super) type LabelOf = dyn Fn(&str) -> String + Send + Sync;

/// The values of [`CONSUMER_COUNTERS`], in their order.
pub(super) type Counters = [u64; CONSUMER_COUNTERS.len()];

/// What holds at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) consumers: u64,
    pub(super) reserved_bytes: u64,
}

/// All consumers with the same label.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Labelled {
    pub(super) counters: Counters,
    pub(super) held: Held,
    pub(super) registrations: u64,
    pub(super) acquires: u64,
}

pub(super) struct Reading {
    pub(super) by_label: BTreeMap<Arc<str>, Labelled>,
    /// Consumers that the pool itself has no name left for.
    pub(super) others: Labelled,
    pub(super) acquires_within: CallsWithin,
    pub(super) releases_within: CallsWithin,
    pub(super) peak_bytes: u64,
    pub(super) limit: MemoryLimit,
}

impl Reading {
    pub(super) fn of(pool: &CountingPool, label_of: &LabelOf) -> Self {
        let snapshot = pool.snapshot();
        let mut by_label: BTreeMap<_, Labelled> = BTreeMap::new();
        let mut others = Labelled::default();
        for row in &snapshot.consumers {
            let labelled = by_label.entry(clean(&label_of(&row.name))).or_default();
            labelled.add(&row.figures, false);
            labelled.held.consumers += 1;
        }
        for row in &snapshot.finished {
            let labelled = by_label.entry(clean(&label_of(&row.name))).or_default();
            // One row is of consumers that were never here, and so have not gone.
            labelled.add(&row.figures, row.figures.unregistrations > 0);
        }
        for row in &snapshot.overflow {
            let labelled = match &*row.name {
                OTHER => &mut others,
                operator => by_label.entry(clean(&label_of(operator))).or_default(),
            };
            labelled.add(&row.figures, true);
        }
        Self {
            by_label,
            others,
            acquires_within: CallsWithin::of(&snapshot.acquire_latency),
            releases_within: CallsWithin::of(&snapshot.release_latency),
            peak_bytes: snapshot.total.peak_bytes,
            limit: pool.memory_limit(),
        }
    }
}

impl Labelled {
    fn add(&mut self, figures: &Figures, gone: bool) {
        let row = Row { figures, gone };
        for (sum, counter) in self.counters.iter_mut().zip(&CONSUMER_COUNTERS) {
            *sum += (counter.read)(&row);
        }
        self.held.reserved_bytes += figures.reserved_bytes;
        self.registrations += figures.registrations;
        self.acquires += figures.acquires.calls;
    }
}
