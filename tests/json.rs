//! Snapshots as JSON, for programs.

mod support;

use datafusion_counting_pool::CountingPool;
use datafusion_execution::memory_pool::GreedyMemoryPool;
use serde_json::{Value, json};
use std::sync::Arc;
use support::{ManualClock, register, register_spillable, shared};

#[test]
fn a_snapshot_says_in_json_what_it_says_in_rust() {
    let clock = Arc::new(ManualClock::default());
    let counting = CountingPool::new(Arc::new(GreedyMemoryPool::new(100)))
        .with_name("sessions")
        .with_clock(clock);
    let (counting, pool) = shared(counting);
    let a = register(&pool, "Sort[0]");
    let b = register_spillable(&pool, "Sort[1]");
    a.try_grow(60).unwrap();
    b.try_grow(70).unwrap_err();
    b.grow(5);
    b.shrink(2);
    let (a_id, b_id) = (a.consumer().id(), b.consumer().id());
    drop(a);

    let json = serde_json::to_value(counting.snapshot()).unwrap();
    let at = |path: &str| {
        json.pointer(path)
            .unwrap_or_else(|| panic!("no {path} in {json:#}"))
    };
    for (path, expected) in [
        ("/pool", json!("sessions")),
        ("/total/registrations", json!(2)),
        ("/total/unregistrations", json!(1)),
        ("/total/acquires/calls", json!(3)),
        ("/total/acquires/asked_bytes", json!(135)),
        ("/total/acquires/acquired_bytes", json!(65)),
        ("/total/acquires/try_grow/calls", json!(2)),
        ("/total/acquires/grow/acquired_bytes", json!(5)),
        ("/total/denied", json!({"calls": 1, "bytes": 70})),
        ("/total/releases", json!({"calls": 2, "bytes": 62})),
        ("/total/anomalies", json!({"calls": 0, "bytes": 0})),
        ("/total/reserved_bytes", json!(3)),
        ("/total/peak_bytes", json!(65)),
        ("/consumers/0/id", json!(b_id)),
        ("/consumers/0/name", json!("Sort[1]")),
        ("/consumers/0/can_spill", json!(true)),
        ("/consumers/0/figures/reserved_bytes", json!(3)),
        ("/finished/0/name", json!("Sort[0]")),
        ("/finished/0/figures/peak_bytes", json!(60)),
        ("/denials/0/consumer", json!("Sort[1]")),
        ("/denials/0/asked_bytes", json!(70)),
        ("/denials/0/largest_holders/0/id", json!(a_id)),
        ("/denials/0/largest_holders/0/reserved_bytes", json!(60)),
        ("/total/acquire_time", json!({"total_ns": 0, "max_ns": 0})),
        ("/acquire_latency/count", json!(3)),
        ("/acquire_latency/max_ns", json!(0)),
        ("/release_latency/count", json!(2)),
    ] {
        assert_eq!(*at(path), expected, "{path}");
    }
    assert!(at("/elapsed_ns").is_u64());
    let sizes = at("/total/sizes/sizes").as_array().unwrap();
    let sizes: Vec<_> = sizes.iter().map(|size| &size["bytes"]).collect();
    assert_eq!(sizes, [&json!(70), &json!(60), &json!(5)]);
}

#[test]
fn what_nothing_is_known_of_is_null() {
    let (counting, _) = support::counting(GreedyMemoryPool::new(100));
    let json = serde_json::to_value(counting.snapshot()).unwrap();
    for quantile in ["mean_ns", "p50_ns", "p99_ns", "max_ns"] {
        assert_eq!(json["acquire_latency"][quantile], Value::Null);
    }
    assert_eq!(json["consumers"], json!([]));
}
