//! Writing to the recorder.

use super::names::{self, CONSUMER_COUNTERS, Metric};
use super::totals::Published;
use metrics::{Key, Label, Level, Metadata, Recorder, SharedString};
use std::sync::Arc;

const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Writes everything, under new handles: one from before a recorder was installed is dead, and
/// so is one from before an exporter expired an idle series.
pub(super) fn publish(published: &[(Arc<str>, Published)]) {
    metrics::with_recorder(|recorder| {
        for metric in names::counters() {
            recorder.describe_counter(metric.name.into(), Some(metric.unit), metric.help.into());
        }
        for metric in names::gauges() {
            recorder.describe_gauge(metric.name.into(), Some(metric.unit), metric.help.into());
        }
        for (pool, published) in published {
            let pool = Pool {
                recorder,
                label: Label::new("pool", SharedString::from(Arc::clone(pool))),
            };
            pool.publish(published);
        }
    });
}

struct Pool<'a> {
    recorder: &'a dyn Recorder,
    label: Label,
}

impl Pool<'_> {
    fn publish(&self, published: &Published) {
        for (consumer, (counters, held)) in &published.by_label {
            let consumer = [Label::new(
                "consumer",
                SharedString::from(Arc::clone(consumer)),
            )];
            for (counter, value) in CONSUMER_COUNTERS.iter().zip(counters) {
                self.counter(counter.metric, &consumer, *value);
            }
            self.gauge(names::CONSUMERS, &consumer, held.consumers as f64);
            self.gauge(names::RESERVED_BYTES, &consumer, held.reserved_bytes as f64);
        }
        for (operation, calls_within) in [
            ("acquire", published.acquires_within),
            ("release", published.releases_within),
        ] {
            for (bound, calls) in calls_within.iter() {
                let labels = [
                    Label::from_static_parts("operation", operation),
                    Label::new("bound_seconds", bound),
                ];
                self.counter(names::CALLS_WITHIN, &labels, calls);
            }
        }
        self.counter(names::LABEL_OVERFLOW, &[], published.label_overflow);
        self.gauge(names::PEAK_RESERVED_BYTES, &[], published.peak_bytes as f64);
        if let Some(limit) = published.limit_bytes {
            self.gauge(names::LIMIT_BYTES, &[], limit);
        }
    }

    fn counter(&self, metric: Metric, labels: &[Label], value: u64) {
        self.recorder
            .register_counter(&self.key(metric, labels), &METADATA)
            .absolute(value);
    }

    fn gauge(&self, metric: Metric, labels: &[Label], value: f64) {
        self.recorder
            .register_gauge(&self.key(metric, labels), &METADATA)
            .set(value);
    }

    fn key(&self, metric: Metric, labels: &[Label]) -> Key {
        let pool = std::iter::once(&self.label);
        Key::from_parts(metric.name, pool.chain(labels).cloned().collect::<Vec<_>>())
    }
}
