//! What is exported: names, units, help texts, and the figure behind each.

use crate::figures::Figures;
use metrics::Unit;

#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) help: &'static str,
}

/// A counter with the labels `pool` and `consumer`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConsumerCounter {
    pub(super) metric: Metric,
    pub(super) read: fn(&Row<'_>) -> u64,
}

/// The figures of one consumer, or of all consumers of a name that have gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) figures: &'a Figures,
    pub(super) gone: bool,
}

/// Units are part of the names: an exporter that appends them changes nothing.
macro_rules! metric {
    ($name:literal, $unit:ident, $help:literal) => {
        Metric {
            name: concat!("datafusion_memory_pool_", $name),
            unit: Unit::$unit,
            help: $help,
        }
    };
}

pub(super) const CONSUMER_COUNTERS: [ConsumerCounter; 12] = [
    ConsumerCounter {
        metric: metric!(
            "acquires_total",
            Count,
            "Calls that asked for memory (grow and try_grow), denied ones included."
        ),
        read: |row| row.figures.acquires.calls,
    },
    ConsumerCounter {
        metric: metric!("acquired_bytes_total", Bytes, "Bytes granted."),
        read: |row| row.figures.acquires.acquired_bytes,
    },
    ConsumerCounter {
        metric: metric!("denied_total", Count, "Calls denied for want of memory."),
        read: |row| row.figures.denied.calls,
    },
    ConsumerCounter {
        metric: metric!(
            "denied_bytes_total",
            Bytes,
            "Bytes asked for in calls that were denied."
        ),
        read: |row| row.figures.denied.bytes,
    },
    ConsumerCounter {
        metric: metric!(
            "failures_total",
            Count,
            "Calls that failed otherwise, or panicked."
        ),
        read: |row| row.figures.failed + row.figures.panicked + row.figures.releases_panicked,
    },
    ConsumerCounter {
        metric: metric!("releases_total", Count, "Calls that gave memory back."),
        read: |row| row.figures.releases.calls,
    },
    ConsumerCounter {
        metric: metric!("released_bytes_total", Bytes, "Bytes given back."),
        read: |row| row.figures.releases.bytes,
    },
    ConsumerCounter {
        metric: metric!("registrations_total", Count, "Consumers registered."),
        read: |row| row.figures.registrations,
    },
    ConsumerCounter {
        metric: metric!(
            "finished_consumers_total",
            Count,
            "Consumers that have unregistered."
        ),
        read: |row| {
            if row.gone {
                row.figures.unregistrations
            } else {
                0
            }
        },
    },
    ConsumerCounter {
        metric: metric!(
            "finished_acquires_total",
            Count,
            "Acquires that consumers made which have unregistered."
        ),
        read: |row| {
            if row.gone {
                row.figures.acquires.calls
            } else {
                0
            }
        },
    },
    ConsumerCounter {
        metric: metric!(
            "acquire_nanoseconds_total",
            Nanoseconds,
            "Time inside the wrapped pool's grow and try_grow."
        ),
        read: |row| row.figures.acquire_time.total.as_nanos() as u64,
    },
    ConsumerCounter {
        metric: metric!(
            "release_nanoseconds_total",
            Nanoseconds,
            "Time inside the wrapped pool's shrink."
        ),
        read: |row| row.figures.release_time.total.as_nanos() as u64,
    },
];

/// Gauges, labelled `pool` and `consumer`.
pub(super) const CONSUMERS: Metric = metric!("consumers", Count, "Consumers registered now.");
pub(super) const RESERVED_BYTES: Metric = metric!("reserved_bytes", Bytes, "Bytes reserved now.");

/// Gauges, labelled `pool`.
pub(super) const PEAK_RESERVED_BYTES: Metric = metric!(
    "peak_reserved_bytes",
    Bytes,
    "Highest sum of reserved bytes since the pool was made; of several pools of the name, the highest."
);
pub(super) const LIMIT_BYTES: Metric = metric!(
    "limit_bytes",
    Bytes,
    "The limit, added up over the live pools of the name; left out where one has none or does not tell."
);
/// A counter, labelled `pool`, `operation` and `bound_seconds`.
pub(super) const CALLS_WITHIN: Metric = metric!(
    "calls_within_total",
    Count,
    "Calls that took at most bound_seconds, cumulative; operation is acquire or release."
);
/// A counter, labelled `pool`.
pub(super) const LABEL_OVERFLOW: Metric = metric!(
    "label_overflow_total",
    Count,
    "Consumers counted under other because the label bound was reached."
);

pub(super) fn counters() -> impl Iterator<Item = Metric> {
    CONSUMER_COUNTERS
        .iter()
        .map(|counter| counter.metric)
        .chain([CALLS_WITHIN, LABEL_OVERFLOW])
}

pub(super) fn gauges() -> impl Iterator<Item = Metric> {
    [CONSUMERS, RESERVED_BYTES, PEAK_RESERVED_BYTES, LIMIT_BYTES].into_iter()
}
