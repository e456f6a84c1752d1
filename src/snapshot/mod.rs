//! A pool's figures at one moment, as plain values.

mod assertions;
mod difference;
mod display;

pub use difference::Intervals;

use crate::consumers::{Reading, Rows};
use crate::counters::LevelReading;
#[cfg(feature = "serde")]
use crate::figures::nanos;
use crate::figures::{Figures, Histogram};
use crate::operator_name::operator_name;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The figures of a [`CountingPool`](crate::CountingPool) at one moment.
///
/// Taking one consumes nothing and changes nothing. At rest every figure is exact. While pool
/// calls are under way a figure may lag behind, but no more bytes are shown as released than as
/// acquired. Two snapshots are equal where all figures are;
/// [`elapsed`](Self::elapsed) does not matter.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// The pool's name, as given to [`CountingPool::with_name`](crate::CountingPool::with_name).
    pub pool: Arc<str>,
    /// Time since the pool was made; in a difference, between the two snapshots. As JSON:
    /// `elapsed_ns`, a whole number.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "elapsed_ns", serialize_with = "nanos")
    )]
    pub elapsed: Duration,
    /// All consumers together, those that have gone included.
    pub total: Figures,
    /// Consumers registered now, by id. Names are not unique.
    pub consumers: Vec<ConsumerFigures>,
    /// Consumers that have gone, by name, for the first 1,000 names.
    pub finished: Vec<NamedFigures>,
    /// Consumers that have gone and whose name came too late for a row of its own, by operator;
    /// those whose operator came too late as well under `other`.
    pub overflow: Vec<NamedFigures>,
    /// How many consumers are in [`overflow`](Self::overflow).
    pub overflowed_consumers: u64,
    /// Time inside the wrapped pool's `try_grow` and `grow`, denied and failed calls included.
    pub acquire_latency: Histogram,
    /// Time inside the wrapped pool's `shrink`.
    pub release_latency: Histogram,
    /// The last denials, at most 16 of them, oldest first.
    pub denials: Vec<Denial>,
}

/// The figures of one consumer that is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ConsumerFigures {
    /// [`MemoryConsumer::id`](datafusion_execution::memory_pool::MemoryConsumer::id).
    pub id: usize,
    /// The name the consumer was given.
    pub name: Arc<str>,
    /// Whether it said that it can spill.
    pub can_spill: bool,
    /// What was counted of it.
    pub figures: Figures,
}

/// The figures of all consumers of one name, or of one operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NamedFigures {
    /// The name, or the operator.
    pub name: Arc<str>,
    /// What was counted of them.
    pub figures: Figures,
}

/// A `try_grow` that ended in `ResourcesExhausted`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Denial {
    /// 1 for the pool's first denial.
    pub number: u64,
    /// Name of the consumer that asked.
    pub consumer: Arc<str>,
    /// Its id.
    pub id: usize,
    /// Bytes that it asked for.
    pub asked_bytes: u64,
    /// Bytes that it held.
    pub held_bytes: u64,
    /// The consumers that held the most just after, at most three, largest first.
    pub largest_holders: Vec<Holder>,
}

/// A consumer that holds memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// Its name.
    pub consumer: Arc<str>,
    /// Its id.
    pub id: usize,
    /// Bytes that it holds.
    pub reserved_bytes: u64,
}

/// What the pool itself knows, beside its consumers.
pub(crate) struct PoolReading {
    pub(crate) pool: Arc<str>,
    pub(crate) elapsed: Duration,
    pub(crate) level: LevelReading,
    pub(crate) acquire_buckets: Vec<u64>,
    pub(crate) release_buckets: Vec<u64>,
    pub(crate) denials: Vec<Denial>,
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            pool,
            elapsed: _,
            total,
            consumers,
            finished,
            overflow,
            overflowed_consumers,
            acquire_latency,
            release_latency,
            denials,
        } = self;
        *pool == other.pool
            && *total == other.total
            && *consumers == other.consumers
            && *finished == other.finished
            && *overflow == other.overflow
            && *overflowed_consumers == other.overflowed_consumers
            && *acquire_latency == other.acquire_latency
            && *release_latency == other.release_latency
            && *denials == other.denials
    }
}

impl Eq for Snapshot {}

/// The row of operators that came too late for one of their own.
pub(crate) const OTHER: &str = "other";
/// The row of calls for consumers that never registered with this pool.
const UNREGISTERED: &str = "(never registered)";

impl Snapshot {
    pub(crate) fn new(reading: Reading, pool: PoolReading) -> Self {
        let Reading {
            live,
            folded,
            strangers,
        } = reading;
        let consumers: Vec<_> = live
            .into_iter()
            .map(|consumer| ConsumerFigures {
                id: consumer.id,
                name: consumer.name,
                can_spill: consumer.can_spill,
                figures: consumer.figures,
            })
            .collect();
        let mut finished = sorted(folded.names);
        let mut overflow = sorted(folded.operators);
        if *folded.others != Figures::default() {
            overflow.push(NamedFigures {
                name: OTHER.into(),
                figures: Arc::unwrap_or_clone(folded.others),
            });
        }
        if strangers != Figures::default() {
            finished.push(NamedFigures {
                name: UNREGISTERED.into(),
                figures: strangers,
            });
        }

        let mut total = Figures::default();
        for consumer in &consumers {
            total.add(&consumer.figures);
        }
        for row in finished.iter().chain(&overflow) {
            total.add(&row.figures);
        }
        total.reserved_bytes = pool.level.reserved;
        total.peak_bytes = pool.level.peak;
        let (acquire_time, release_time) = (total.acquire_time, total.release_time);
        Self {
            pool: pool.pool,
            elapsed: pool.elapsed,
            total,
            consumers,
            finished,
            overflow,
            overflowed_consumers: folded.overflowed,
            acquire_latency: Histogram::new(
                pool.acquire_buckets,
                acquire_time.total,
                acquire_time.max,
            ),
            release_latency: Histogram::new(
                pool.release_buckets,
                release_time.total,
                release_time.max,
            ),
            denials: pool.denials,
        }
    }

    /// One row for each name, of consumers that are registered and of those that have gone, by
    /// name. Names that came too late for a row of their own are missing once their consumers
    /// have gone; see [`overflow`](Self::overflow).
    pub fn by_name(&self) -> Vec<NamedFigures> {
        let live = self.consumers.iter().map(|row| (&*row.name, &row.figures));
        let gone = self.finished.iter().map(|row| (&*row.name, &row.figures));
        added_up(live.chain(gone))
    }

    /// One row for each operator (see [`operator_name`]), by name: all consumers, those that
    /// have gone included.
    pub fn by_operator(&self) -> Vec<NamedFigures> {
        let live = self
            .consumers
            .iter()
            .map(|row| (operator_name(&row.name), &row.figures));
        let gone = self
            .finished
            .iter()
            .map(|row| (operator_name(&row.name), &row.figures));
        let overflow = self.overflow.iter().map(|row| (&*row.name, &row.figures));
        added_up(live.chain(gone).chain(overflow))
    }

    /// All that a person can be shown: rows by name and, where there is none, by operator.
    fn busiest_first(&self) -> Vec<NamedFigures> {
        let mut rows = self.by_name();
        rows.extend(self.overflow.iter().cloned());
        // In a difference there are rows of consumers that have gone long since.
        rows.retain(|row| !row.figures.is_zero() || row.figures.reserved_bytes > 0);
        rows.sort_by_key(|row| Reverse(row.figures.acquires.calls));
        rows
    }

    /// The figures of an operator (see [`operator_name`]): of all its consumers, those that have
    /// gone included.
    ///
    /// # Panics
    /// Where there was no such operator; the message lists those there were.
    #[track_caller]
    #[must_use]
    pub fn operator(&self, name: &str) -> Figures {
        match find(self.by_operator(), name) {
            Ok(figures) => figures,
            Err(rows) => panic!(
                "no operator {name:?} in pool {:?}; {}",
                self.pool,
                listed(&rows)
            ),
        }
    }

    /// Like [`operator`](Self::operator), `None` where there was no such operator.
    pub fn get_operator(&self, name: &str) -> Option<Figures> {
        find(self.by_operator(), name).ok()
    }

    /// The figures of the consumers of this full name, those that have gone included.
    ///
    /// # Panics
    /// Where there was no such consumer; the message lists those there were.
    #[track_caller]
    #[must_use]
    pub fn consumer(&self, name: &str) -> Figures {
        match find(self.by_name(), name) {
            Ok(figures) => figures,
            Err(rows) => {
                let hint = match self.get_operator(name) {
                    Some(_) => format!("; `operator({name:?})` has all of that operator"),
                    None => String::new(),
                };
                panic!(
                    "no consumer {name:?} in pool {:?}; {}{hint}",
                    self.pool,
                    listed(&rows)
                )
            }
        }
    }

    /// Like [`consumer`](Self::consumer), `None` where there was no such consumer.
    pub fn get_consumer(&self, name: &str) -> Option<Figures> {
        find(self.by_name(), name).ok()
    }
}

fn sorted(rows: Rows) -> Vec<NamedFigures> {
    let mut rows: Vec<_> = rows
        .into_iter()
        .map(|(name, figures)| NamedFigures {
            name,
            figures: Arc::unwrap_or_clone(figures),
        })
        .collect();
    rows.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn added_up<'a>(rows: impl Iterator<Item = (&'a str, &'a Figures)>) -> Vec<NamedFigures> {
    let mut sums: BTreeMap<&str, Figures> = BTreeMap::new();
    for (name, figures) in rows {
        sums.entry(name).or_default().add(figures);
    }
    sums.into_iter()
        .map(|(name, figures)| NamedFigures {
            name: name.into(),
            figures,
        })
        .collect()
}

/// The rows themselves where the name is not among them.
fn find(rows: Vec<NamedFigures>, name: &str) -> Result<Figures, Vec<NamedFigures>> {
    match rows.binary_search_by(|row| (*row.name).cmp(name)) {
        Ok(at) => Ok(rows
            .into_iter()
            .nth(at)
            .map(|row| row.figures)
            .unwrap_or_default()),
        Err(_) => Err(rows),
    }
}

fn listed(rows: &[NamedFigures]) -> String {
    /// More do not help to find a spelling mistake.
    const MOST: usize = 20;
    if rows.is_empty() {
        return "nobody has registered".into();
    }
    let names: Vec<_> = rows
        .iter()
        .take(MOST)
        .map(|row| format!("{:?}", row.name))
        .collect();
    match rows.len().saturating_sub(MOST) {
        0 => format!("there are {}", names.join(", ")),
        more => format!("there are {} and {more} more", names.join(", ")),
    }
}
