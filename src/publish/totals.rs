//! The pools of one name, added up.

use super::calls_within::CallsWithin;
use super::labels::{Labels, OTHER};
use super::reading::{Counters, Held, Labelled, Reading};
use crate::counting_pool::CountingPool;
use datafusion_execution::memory_pool::MemoryLimit;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

/// Tells pools apart while one of them is known here: the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolKey(usize);

impl PoolKey {
    pub(super) fn of(pool: &CountingPool) -> Self {
        Self(std::ptr::from_ref(pool).addr())
    }
}

/// All that is known of the pools of one name.
#[derive(Debug)]
pub(super) struct PoolsOfName {
    labels: Labels,
    live: HashMap<PoolKey, Member>,
    /// What pools had counted that have gone.
    gone: Totals,
    limit_was_shown: bool,
}

#[derive(Debug)]
struct Member {
    // As long as this stands here, no other pool can have the same address.
    pool: Weak<CountingPool>,
    /// As last read. While a pool is being dropped it can be read no more and has not said its
    /// last word: these are the figures then, so that no counter goes back.
    counted: Totals,
}

/// What only ever rises.
#[derive(Clone, Debug, Default)]
struct Totals {
    by_label: BTreeMap<Arc<str>, Counters>,
    acquires_within: CallsWithin,
    releases_within: CallsWithin,
    label_overflow: u64,
}

/// What is published of the pools of one name.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) by_label: BTreeMap<Arc<str>, (Counters, Held)>,
    pub(super) acquires_within: CallsWithin,
    pub(super) releases_within: CallsWithin,
    pub(super) label_overflow: u64,
    pub(super) peak_bytes: u64,
    /// `None` leaves it out.
    pub(super) limit_bytes: Option<f64>,
}

impl PoolsOfName {
    pub(super) fn new(labels: Labels) -> Self {
        Self {
            labels,
            live: HashMap::new(),
            gone: Totals::default(),
            limit_was_shown: false,
        }
    }

    pub(super) fn add(&mut self, pool: &Arc<CountingPool>) {
        let member = Member {
            pool: Arc::downgrade(pool),
            counted: Totals::default(),
        };
        self.live.insert(PoolKey::of(pool), member);
    }

    pub(super) fn contains(&self, pool: PoolKey) -> bool {
        self.live.contains_key(&pool)
    }

    pub(super) fn live(&self) -> impl Iterator<Item = Arc<CountingPool>> + '_ {
        self.live
            .values()
            .filter_map(|member| member.pool.upgrade())
    }

    /// Keeps what a pool had counted when it went.
    pub(super) fn retire(&mut self, pool: PoolKey, last: &Reading) {
        self.live.remove(&pool);
        let counted = self.counted(last);
        self.gone.add(&counted);
    }

    /// Adds up the readings of the pools that are live, and what is known of the others.
    pub(super) fn publish(&mut self, readings: &[(PoolKey, Reading)]) -> Published {
        for (pool, reading) in readings {
            let counted = self.counted(reading);
            if let Some(member) = self.live.get_mut(pool) {
                member.counted = counted;
            }
        }
        let mut sum = self.gone.clone();
        for member in self.live.values() {
            sum.add(&member.counted);
        }

        let zeroes = self
            .labels
            .iter()
            .map(|label| (Arc::clone(label), Default::default()));
        let mut by_label: BTreeMap<_, (Counters, Held)> = zeroes.collect();
        for (label, counters) in sum.by_label {
            by_label.entry(label).or_default().0 = counters;
        }
        for (_, reading) in readings {
            for (label, labelled) in self.labelled(reading) {
                let held = &mut by_label.entry(label).or_default().1;
                held.consumers += labelled.held.consumers;
                held.reserved_bytes += labelled.held.reserved_bytes;
            }
        }
        let peaks = readings.iter().map(|(_, reading)| reading.peak_bytes);
        Published {
            by_label,
            acquires_within: sum.acquires_within,
            releases_within: sum.releases_within,
            label_overflow: sum.label_overflow,
            peak_bytes: peaks.max().unwrap_or(0),
            limit_bytes: self.limit(readings),
        }
    }

    /// The counters of a reading, under no more labels than the bound allows.
    fn counted(&mut self, reading: &Reading) -> Totals {
        // The busiest first: they are the ones that somebody will look for.
        let mut new: Vec<_> = reading
            .by_label
            .iter()
            .filter(|(label, _)| &***label != OTHER && !self.labels.contains(label))
            .collect();
        new.sort_by_key(|(_, labelled)| Reverse(labelled.acquires));
        for (label, _) in new {
            self.labels.give(label);
        }

        let mut totals = Totals {
            acquires_within: reading.acquires_within,
            releases_within: reading.releases_within,
            ..Totals::default()
        };
        for (label, labelled) in self.labelled(reading) {
            totals.add_counters(&label, &labelled.counters);
        }
        totals.label_overflow = reading.others.registrations;
        for (label, labelled) in &reading.by_label {
            if &**label != OTHER && !self.labels.contains(label) {
                totals.label_overflow += labelled.registrations;
            }
        }
        totals
    }

    /// The rows of a reading under the labels that they got.
    fn labelled<'a>(
        &'a self,
        reading: &'a Reading,
    ) -> impl Iterator<Item = (Arc<str>, &'a Labelled)> {
        let others = (reading.others.counters != Counters::default())
            .then(|| (OTHER.into(), &reading.others));
        reading
            .by_label
            .iter()
            .map(|(label, labelled)| {
                let given = if self.labels.contains(label) {
                    Arc::clone(label)
                } else {
                    OTHER.into()
                };
                (given, labelled)
            })
            .chain(others)
    }

    fn limit(&mut self, readings: &[(PoolKey, Reading)]) -> Option<f64> {
        let limits = readings.iter().map(|(_, reading)| match reading.limit {
            MemoryLimit::Finite(bytes) => Some(bytes as f64),
            MemoryLimit::Infinite | MemoryLimit::Unknown => None,
        });
        match limits.sum::<Option<f64>>() {
            Some(bytes) if !readings.is_empty() => {
                self.limit_was_shown = true;
                Some(bytes)
            }
            // A series cannot be taken back.
            Some(nothing) => self.limit_was_shown.then_some(nothing),
            None => self.limit_was_shown.then_some(f64::NAN),
        }
    }
}

impl Totals {
    fn add(&mut self, other: &Self) {
        for (label, counters) in &other.by_label {
            self.add_counters(label, counters);
        }
        self.acquires_within.add(&other.acquires_within);
        self.releases_within.add(&other.releases_within);
        self.label_overflow += other.label_overflow;
    }

    fn add_counters(&mut self, label: &Arc<str>, counters: &Counters) {
        let sums = self.by_label.entry(Arc::clone(label)).or_default();
        for (sum, counter) in sums.iter_mut().zip(counters) {
            *sum += counter;
        }
    }
}
