//! What an exporter shows, read back.

use std::collections::BTreeMap;

use datafusion_counting_pool::Registry;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

/// Series and their values. `pool{a="b"}` stands for `datafusion_memory_pool_pool{a="b"}`.
pub(crate) type Series = BTreeMap<String, f64>;

pub(crate) fn recorder() -> PrometheusRecorder {
    PrometheusBuilder::new().build_recorder()
}

/// Publishes to the recorder, and reads what it then shows.
pub(crate) fn scrape(registry: &Registry, recorder: &PrometheusRecorder) -> Series {
    series(&scrape_text(registry, recorder))
}

pub(crate) fn scrape_text(registry: &Registry, recorder: &PrometheusRecorder) -> String {
    metrics::with_local_recorder(recorder, || registry.publish());
    recorder.handle().render()
}

/// As one publish shows it to somebody who has seen none before.
pub(crate) fn fresh(registry: &Registry) -> Series {
    scrape(registry, &recorder())
}

/// # Panics
/// Where a line is no sample, or a series comes twice.
pub(crate) fn series(text: &str) -> Series {
    let mut series = Series::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect(line);
        let name = name.trim_start_matches("datafusion_memory_pool_");
        let earlier = series.insert(name.to_owned(), value.parse().expect(line));
        assert_eq!(earlier, None, "{name} comes twice");
    }
    series
}

/// The series of the name, `consumer` label first to value.
pub(crate) fn by_consumer(series: &Series, name: &str) -> BTreeMap<String, f64> {
    let prefix = format!("{name}{{");
    series
        .iter()
        .filter(|(series, _)| series.starts_with(&prefix))
        .map(|(series, &value)| {
            let (_, after) = series.split_once("consumer=\"").expect(series);
            let (consumer, _) = after.split_once("\"}").expect(series);
            (consumer.to_owned(), value)
        })
        .collect()
}
