//! A snapshot and the model, brought into one form.

use crate::sequential::{Denied, Model, OPERATORS};
use crate::support::{Asked, Counted, NAMES, counted};
use datafusion_counting_pool::{Histogram, NamedFigures, Snapshot};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    total: Counted,
    /// By id: name, whether it can spill, and what was counted.
    registered: BTreeMap<usize, (String, bool, Counted)>,
    by_name: BTreeMap<String, Counted>,
    by_operator: BTreeMap<String, Counted>,
    /// The last 16.
    denials: Vec<Denied>,
    acquires_timed: u64,
    releases_timed: u64,
    /// Consumers that have no row by name. The model has few names.
    overflowed: u64,
}

impl View {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let named = |rows: Vec<NamedFigures>| -> BTreeMap<_, _> {
            let row = |row: &NamedFigures| (row.name.to_string(), counted(&row.figures));
            rows.iter().map(row).collect()
        };
        let registered = snapshot.consumers.iter().map(|row| {
            let figures = counted(&row.figures);
            (row.id, (row.name.to_string(), row.can_spill, figures))
        });
        let denials = snapshot.denials.iter().map(|denial| {
            let holders = denial.largest_holders.iter();
            (
                denial.number,
                denial.id,
                denial.asked_bytes,
                denial.held_bytes,
                holders
                    .map(|holder| (holder.id, holder.reserved_bytes))
                    .collect(),
            )
        });
        Self {
            total: counted(&snapshot.total),
            registered: registered.collect(),
            by_name: named(snapshot.by_name()),
            by_operator: named(snapshot.by_operator()),
            denials: denials.collect(),
            acquires_timed: timed(&snapshot.acquire_latency, snapshot.total.acquire_time.total),
            releases_timed: timed(&snapshot.release_latency, snapshot.total.release_time.total),
            overflowed: snapshot.overflowed_consumers,
        }
    }

    pub(crate) fn of_model(model: &Model) -> Self {
        let summed = |key: fn(usize) -> &'static str| {
            let mut sums: BTreeMap<String, Counted> = BTreeMap::new();
            for consumer in &model.consumers {
                let sum = sums.entry(key(consumer.name).into()).or_default();
                *sum = add(sum, &consumer.counted);
            }
            sums
        };
        let registered = model
            .consumers
            .iter()
            .filter(|consumer| consumer.is_registered());
        let mut total = Counted::default();
        for consumer in &model.consumers {
            total = add(&total, &consumer.counted);
        }
        total.peak = model.peak;
        let acquires = total.try_grow.0 + total.grow.0;
        Self {
            registered: registered
                .map(|consumer| {
                    let name = NAMES[consumer.name].to_owned();
                    (
                        consumer.id,
                        (name, consumer.can_spill, consumer.counted.clone()),
                    )
                })
                .collect(),
            by_name: summed(|name| NAMES[name]),
            by_operator: summed(|name| OPERATORS[name]),
            denials: model.denials[model.denials.len().saturating_sub(16)..].to_vec(),
            acquires_timed: acquires - total.panicked,
            releases_timed: total.releases.0,
            overflowed: 0,
            total,
        }
    }

    /// What has happened between an earlier view and this one.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let rows = |now: &BTreeMap<String, Counted>, then: &BTreeMap<String, Counted>| {
            let nothing = Counted::default();
            now.iter()
                .map(|(name, row)| {
                    let difference = subtract(row, then.get(name).unwrap_or(&nothing));
                    (name.clone(), difference)
                })
                .collect()
        };
        let registered = self.registered.iter().map(|(id, (name, can_spill, row))| {
            let earlier = earlier.registered.get(id);
            let row = match earlier {
                Some((_, _, earlier)) => subtract(row, earlier),
                None => row.clone(),
            };
            (*id, (name.clone(), *can_spill, row))
        });
        let seen = earlier.denials.last().map_or(0, |denial| denial.0);
        let denials = self.denials.iter().filter(|denial| denial.0 > seen);
        Self {
            total: subtract(&self.total, &earlier.total),
            registered: registered.collect(),
            by_name: rows(&self.by_name, &earlier.by_name),
            by_operator: rows(&self.by_operator, &earlier.by_operator),
            denials: denials.cloned().collect(),
            acquires_timed: self.acquires_timed - earlier.acquires_timed,
            releases_timed: self.releases_timed - earlier.releases_timed,
            overflowed: 0,
        }
    }

    /// In a difference the longest call of a row is that since the beginning, where the row has
    /// spent any time; of a sum of rows that depends on which of them have.
    pub(crate) fn without_longest_of_sums(mut self) -> Self {
        let sums = self
            .by_name
            .values_mut()
            .chain(self.by_operator.values_mut());
        for row in sums.chain([&mut self.total]) {
            row.acquire_nanos.1 = 0;
            row.release_nanos.1 = 0;
        }
        self
    }
}

/// Calls in the histogram, after holding its mean against the total time.
fn timed(histogram: &Histogram, total: std::time::Duration) -> u64 {
    let calls = histogram.count();
    let mean = histogram.mean().map(|mean| mean.as_nanos());
    assert_eq!(mean, total.as_nanos().checked_div(u128::from(calls)));
    calls
}

/// Both together. Peaks do not add up: the higher one stays.
fn add(a: &Counted, b: &Counted) -> Counted {
    let mut sizes = a.sizes.clone();
    for (&bytes, &calls) in &b.sizes {
        *sizes.entry(bytes).or_default() += calls;
    }
    Counted {
        acquire_nanos: (
            a.acquire_nanos.0 + b.acquire_nanos.0,
            a.acquire_nanos.1.max(b.acquire_nanos.1),
        ),
        release_nanos: (
            a.release_nanos.0 + b.release_nanos.0,
            a.release_nanos.1.max(b.release_nanos.1),
        ),
        reserved: a.reserved + b.reserved,
        peak: a.peak.max(b.peak),
        sizes,
        ..combine(a, b, |a, b| a + b)
    }
}

fn subtract(now: &Counted, then: &Counted) -> Counted {
    let mut sizes = now.sizes.clone();
    for (bytes, calls) in &then.sizes {
        *sizes.get_mut(bytes).expect("a count that went down") -= calls;
    }
    sizes.retain(|_, calls| *calls > 0);
    let time = |now: (u64, u64), then: (u64, u64)| {
        let total = now.0 - then.0;
        (total, if total > 0 { now.1 } else { 0 })
    };
    Counted {
        acquire_nanos: time(now.acquire_nanos, then.acquire_nanos),
        release_nanos: time(now.release_nanos, then.release_nanos),
        reserved: now.reserved,
        peak: now.peak,
        sizes,
        ..combine(now, then, |now, then| now - then)
    }
}

/// The counters, number by number.
fn combine(a: &Counted, b: &Counted, op: fn(u64, u64) -> u64) -> Counted {
    let asked = |a: Asked, b: Asked| Asked(op(a.0, b.0), op(a.1, b.1), op(a.2, b.2));
    let pair = |a: (u64, u64), b: (u64, u64)| (op(a.0, b.0), op(a.1, b.1));
    Counted {
        registrations: op(a.registrations, b.registrations),
        unspillable: op(a.unspillable, b.unspillable),
        unregistrations: op(a.unregistrations, b.unregistrations),
        try_grow: asked(a.try_grow, b.try_grow),
        grow: asked(a.grow, b.grow),
        denied: pair(a.denied, b.denied),
        failed: op(a.failed, b.failed),
        panicked: op(a.panicked, b.panicked),
        releases: pair(a.releases, b.releases),
        releases_panicked: op(a.releases_panicked, b.releases_panicked),
        anomalies: pair(a.anomalies, b.anomalies),
        zero_byte_calls: op(a.zero_byte_calls, b.zero_byte_calls),
        ..Counted::default()
    }
}
