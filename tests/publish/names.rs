//! Names, kinds and labels are what dashboards and rules are written against.

use std::collections::BTreeMap;

use datafusion_counting_pool::Registry;

use crate::exposition::{recorder, scrape_text};
use crate::{finished, limited};

const POOL_AND_CONSUMER: &[&str] = &["pool", "consumer"];
const POOL: &[&str] = &["pool"];
const POOL_OPERATION_AND_BOUND: &[&str] = &["pool", "operation", "bound_seconds"];

const METRICS: [(&str, &str, &[&str]); 18] = [
    ("acquires_total", "counter", POOL_AND_CONSUMER),
    ("acquired_bytes_total", "counter", POOL_AND_CONSUMER),
    ("denied_total", "counter", POOL_AND_CONSUMER),
    ("denied_bytes_total", "counter", POOL_AND_CONSUMER),
    ("failures_total", "counter", POOL_AND_CONSUMER),
    ("releases_total", "counter", POOL_AND_CONSUMER),
    ("released_bytes_total", "counter", POOL_AND_CONSUMER),
    ("registrations_total", "counter", POOL_AND_CONSUMER),
    ("consumers", "gauge", POOL_AND_CONSUMER),
    ("finished_consumers_total", "counter", POOL_AND_CONSUMER),
    ("finished_acquires_total", "counter", POOL_AND_CONSUMER),
    ("reserved_bytes", "gauge", POOL_AND_CONSUMER),
    ("peak_reserved_bytes", "gauge", POOL),
    ("limit_bytes", "gauge", POOL),
    ("acquire_nanoseconds_total", "counter", POOL_AND_CONSUMER),
    ("release_nanoseconds_total", "counter", POOL_AND_CONSUMER),
    ("calls_within_total", "counter", POOL_OPERATION_AND_BOUND),
    ("label_overflow_total", "counter", POOL),
];

fn text() -> String {
    let registry = Registry::new();
    let pool = limited(&registry, "p", 100);
    finished(&pool, "x", 1);
    scrape_text(&registry, &recorder())
}

#[test]
fn every_metric_has_its_name_its_kind_and_its_labels() {
    let mut seen: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let text = text();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').unwrap();
            let earlier = seen.insert(name.to_owned(), (kind.to_owned(), vec![]));
            assert_eq!(earlier, None, "{name} has two types");
        } else if let Some((name, labels)) = line.split_once('{') {
            let labels = labels
                .split("=\"")
                .map(|part| part.rsplit(',').next().unwrap());
            let labels = labels
                .filter(|label| !label.contains('"'))
                .map(str::to_owned);
            seen.get_mut(name).unwrap().1 = labels.collect();
        }
    }
    let expected = METRICS.map(|(name, kind, labels)| {
        let labels: Vec<_> = labels.iter().map(|&label| label.to_owned()).collect();
        (
            format!("datafusion_memory_pool_{name}"),
            (kind.to_owned(), labels),
        )
    });
    assert_eq!(seen, BTreeMap::from(expected));
}

#[test]
fn the_documentation_has_every_metric_with_its_help_text() {
    let documented = include_str!("../../src/publish/metrics.md");
    let text = text();
    for (name, kind, labels) in METRICS {
        let help = format!("# HELP datafusion_memory_pool_{name} ");
        let help = text
            .lines()
            .find_map(|line| line.strip_prefix(&help))
            .unwrap();
        let row = format!("| `{name}` | {kind} | {} | {help} |", labels.join(", "));
        assert!(documented.contains(&row), "{row}");
    }
}
