//! How long calls took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use datafusion_counting_pool::{Clock, CountingPool, Registry};
use datafusion_execution::memory_pool::UnboundedMemoryPool;

use crate::consumer;
use crate::exposition::{Series, fresh};

/// The calls between two readings take, one after another, as long as the list says.
#[derive(Debug)]
struct Script {
    nanos: Vec<u64>,
    readings: AtomicU64,
}

impl Clock for Script {
    fn now_nanos(&self) -> u64 {
        let reading = self.readings.fetch_add(1, SeqCst);
        let ended = reading.div_ceil(2) as usize;
        self.nanos[..ended].iter().sum()
    }
}

/// The series of a pool in which each call that acquires took as long as the list says, and each
/// release no time.
fn after(nanos: &[u64]) -> Series {
    let script = Script {
        nanos: nanos.iter().flat_map(|&nanos| [nanos, 0]).collect(),
        readings: AtomicU64::new(0),
    };
    let inner = Arc::new(UnboundedMemoryPool::default());
    let pool = CountingPool::new(inner).with_clock(Arc::new(script));
    let pool = Arc::new(pool.with_name("p"));
    let registry = Registry::new();
    registry.add(&pool);
    let reservation = consumer(&pool, "x");
    for _ in nanos {
        reservation.try_grow(1).unwrap();
        reservation.shrink(1);
    }
    fresh(&registry)
}

/// Bound in seconds, as the label has it and as a number of nanoseconds, and calls within it.
fn calls_within(series: &Series, operation: &str) -> Vec<(String, f64, f64)> {
    let prefix = format!(r#"calls_within_total{{pool="p",operation="{operation}",bound_seconds=""#);
    let mut calls: Vec<_> = series
        .iter()
        .filter_map(|(name, &calls)| {
            let bound = name.strip_prefix(&prefix)?.trim_end_matches("\"}");
            let seconds: f64 = bound.parse().unwrap();
            Some((bound.to_owned(), (seconds * 1e9).round(), calls))
        })
        .collect();
    calls.sort_by(|a, b| a.1.total_cmp(&b.1));
    calls
}

#[test]
fn calls_within_each_bound_are_right() {
    // Uniform, and on both sides of every bound.
    let uniform: Vec<u64> = (1..=1_000).map(|i| i * 1_000_000).collect();
    let edges: Vec<u64> = (0..40)
        .flat_map(|i| [(1 << i) - 1, 1 << i, (1 << i) + 1])
        .collect();
    for nanos in [&uniform[..], &edges, &[]] {
        let series = after(nanos);
        let calls = calls_within(&series, "acquire");
        assert_eq!(calls.len(), 28);
        for (label, bound, calls) in calls {
            let expected = nanos.iter().filter(|&&nanos| nanos as f64 <= bound).count();
            assert_eq!(calls, expected as f64, "{label}");
        }
        let releases = calls_within(&series, "release");
        assert!(
            releases
                .iter()
                .all(|&(.., calls)| calls == nanos.len() as f64)
        );
        let total = series[r#"acquire_nanoseconds_total{pool="p",consumer="x"}"#];
        assert_eq!(total, nanos.iter().sum::<u64>() as f64);
        assert_eq!(
            series[r#"release_nanoseconds_total{pool="p",consumer="x"}"#],
            0.0
        );
    }
}

/// What `histogram_quantile` makes of them: a straight line through the bucket of the quantile.
#[test]
fn the_median_is_within_the_bounds_around_the_true_one() {
    let nanos: Vec<u64> = (1..=1_000).map(|i| i * 1_000_000).collect();
    let calls = calls_within(&after(&nanos), "acquire");
    let at = calls
        .iter()
        .position(|&(.., calls)| calls >= 500.0)
        .unwrap();
    let ((_, from, before), (_, to, within)) = (&calls[at - 1], &calls[at]);
    let median = from + (to - from) * (500.0 - before) / (within - before);
    assert!((from..to).contains(&&500e6), "{from} to {to} ns");
    assert!((*from..*to).contains(&median), "{median} ns");
}

#[test]
fn the_calls_of_a_pool_without_timing_are_in_none() {
    let registry = Registry::new();
    crate::finished(&crate::pool(&registry, "p"), "x", 3);
    let series = fresh(&registry);
    for operation in ["acquire", "release"] {
        let calls = calls_within(&series, operation);
        assert!(calls.iter().all(|&(.., calls)| calls == 0.0));
    }
}
