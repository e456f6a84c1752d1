//! Pools, consumers, recorders and exporters come and go in any order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use datafusion_common::exec_datafusion_err;
use datafusion_counting_pool::{CountingPool, Registry};
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_util::MetricKindMask;

use crate::exposition::{fresh, recorder, scrape, scrape_text, series};
use crate::recording_pool::RecordingPool;
use crate::{added, consumer, finished, limited, pool};

const ACQUIRES: &str = r#"acquires_total{pool="p",consumer="x"}"#;
const RESERVED: &str = r#"reserved_bytes{pool="p",consumer="x"}"#;

#[test]
fn a_pool_published_or_added_twice_is_shown_once() {
    let (registry, recorder) = (Registry::new(), recorder());
    let pool = pool(&registry, "p");
    finished(&pool, "x", 3);
    let once = scrape(&registry, &recorder);
    assert_eq!(once[ACQUIRES], 3.0);
    assert!(registry.add(&pool));
    let same = registry.clone();
    assert!(same.add(&pool));
    assert_eq!(scrape(&registry, &recorder), once);
}

#[test]
fn a_pool_belongs_to_the_first_registry() {
    let (first, second) = (Registry::new(), Registry::new());
    let pool = pool(&first, "p");
    assert!(!second.add(&pool));
    finished(&pool, "x", 1);
    assert_eq!(fresh(&first)[ACQUIRES], 1.0);
    // Not even zeroes, which would look like a pool that nobody uses.
    assert!(fresh(&second).is_empty());
}

#[test]
fn a_pool_taken_out_of_its_arc_is_counted_once() {
    let (registry, recorder) = (Registry::new(), recorder());
    let shared = pool(&registry, "p");
    finished(&shared, "x", 3);
    assert_eq!(scrape(&registry, &recorder)[ACQUIRES], 3.0);
    drop(Arc::try_unwrap(shared).unwrap());
    assert_eq!(scrape(&registry, &recorder)[ACQUIRES], 3.0);
    assert_eq!(scrape(&registry, &recorder)[ACQUIRES], 3.0);
}

#[test]
fn an_exporter_that_expires_idle_series_loses_nothing() {
    // Every series that was not touched since the last rendering is idle for long enough.
    let recorder = PrometheusBuilder::new()
        .idle_timeout(MetricKindMask::ALL, Some(Duration::from_nanos(1)))
        .build_recorder();
    let registry = Registry::new();
    let pool = pool(&registry, "p");
    let render = || series(&recorder.handle().render());

    finished(&pool, "x", 5);
    assert_eq!(scrape(&registry, &recorder)[ACQUIRES], 5.0);
    assert_eq!(
        render().get(ACQUIRES),
        None,
        "nothing touched it in between"
    );
    finished(&pool, "x", 7);
    assert_eq!(scrape(&registry, &recorder)[ACQUIRES], 12.0);
    finished(&pool, "x", 1);
    assert_eq!(scrape(&registry, &recorder)[ACQUIRES], 13.0);
    assert_eq!(scrape(&registry, &recorder)[ACQUIRES], 13.0);
}

#[test]
fn a_recorder_that_comes_later_misses_nothing() {
    let registry = Registry::new();
    let pool = pool(&registry, "p");
    let reservation = consumer(&pool, "x");
    reservation.try_grow(64).unwrap();
    // Nobody listens yet.
    registry.publish();
    let seen = fresh(&registry);
    assert_eq!((seen[ACQUIRES], seen[RESERVED]), (1.0, 64.0));
}

#[test]
fn what_a_consumer_held_is_gone_when_it_is() {
    let (registry, recorder) = (Registry::new(), recorder());
    let pool = pool(&registry, "p");
    let reservation = consumer(&pool, "x");
    reservation.try_grow(64).unwrap();
    assert_eq!(scrape(&registry, &recorder)[RESERVED], 64.0);
    drop(reservation);
    for _ in 0..3 {
        let seen = scrape(&registry, &recorder);
        assert_eq!(seen[RESERVED], 0.0);
        assert_eq!(seen[r#"consumers{pool="p",consumer="x"}"#], 0.0);
        assert_eq!(seen[r#"released_bytes_total{pool="p",consumer="x"}"#], 64.0);
        assert_eq!(seen[r#"peak_reserved_bytes{pool="p"}"#], 64.0);
    }
}

/// Whether it was ever published before or not.
#[test]
fn a_pool_that_has_gone_leaves_its_totals_and_nothing_else() {
    for scraped_before in [false, true] {
        let (registry, recorder) = (Registry::new(), recorder());
        let pool = limited(&registry, "p", 100);
        let reservation = consumer(&pool, "x[0]");
        reservation.try_grow(64).unwrap();
        reservation.try_grow(64).unwrap_err();
        if scraped_before {
            let seen = scrape(&registry, &recorder);
            assert_eq!((seen[ACQUIRES], seen[RESERVED]), (2.0, 64.0));
            assert_eq!(seen[r#"limit_bytes{pool="p"}"#], 100.0);
        }
        drop((reservation, pool));

        let seen = scrape(&registry, &recorder);
        for (name, value) in [
            ("acquires_total", 2.0),
            ("acquired_bytes_total", 64.0),
            ("denied_total", 1.0),
            ("denied_bytes_total", 64.0),
            ("failures_total", 0.0),
            ("releases_total", 1.0),
            ("released_bytes_total", 64.0),
            ("registrations_total", 1.0),
            ("consumers", 0.0),
            ("finished_consumers_total", 1.0),
            ("finished_acquires_total", 2.0),
            ("reserved_bytes", 0.0),
        ] {
            let name = format!(r#"{name}{{pool="p",consumer="x"}}"#);
            assert_eq!(seen[&name], value, "{name}");
        }
        assert_eq!(seen[r#"peak_reserved_bytes{pool="p"}"#], 0.0);
        let limit = seen.get(r#"limit_bytes{pool="p"}"#);
        assert_eq!(limit, scraped_before.then_some(&0.0));
    }
}

#[test]
fn pools_of_one_name_are_added_up_and_never_go_back() {
    let (registry, recorder) = (Registry::new(), recorder());
    let mut acquires = 0.0;
    for generation in 1..=20 {
        let pools = [pool(&registry, "p"), pool(&registry, "p")];
        let held: Vec<_> = pools.iter().map(|pool| consumer(pool, "x")).collect();
        held[0].try_grow(10 * generation).unwrap();
        held[1].try_grow(1).unwrap();
        finished(&pools[1], "x", 2);
        acquires += 4.0;

        let seen = scrape(&registry, &recorder);
        assert_eq!(seen[ACQUIRES], acquires);
        assert_eq!(seen[RESERVED], 10.0 * generation as f64 + 1.0);
        assert_eq!(seen[r#"consumers{pool="p",consumer="x"}"#], 2.0);
        // Of the two peaks the higher one.
        let peak = (10.0 * generation as f64).max(3.0);
        assert_eq!(seen[r#"peak_reserved_bytes{pool="p"}"#], peak);
        drop((held, pools));
        // A recorder that has seen nothing yet is shown the same.
        for seen in [scrape(&registry, &recorder), fresh(&registry)] {
            assert_eq!((seen[ACQUIRES], seen[RESERVED]), (acquires, 0.0));
        }
    }
}

#[test]
fn a_pool_for_each_task_leaves_its_totals() {
    let registry = Registry::new();
    for task in 0..500 {
        let pool = pool(&registry, "tasks");
        finished(&pool, &format!("x[{task}]"), 1);
    }
    let seen = fresh(&registry);
    assert_eq!(seen[r#"acquires_total{pool="tasks",consumer="x"}"#], 500.0);
    assert_eq!(
        seen[r#"finished_consumers_total{pool="tasks",consumer="x"}"#],
        500.0
    );
}

#[test]
fn limits_are_added_up_where_all_are_known() {
    let (registry, recorder) = (Registry::new(), recorder());
    let limit = || {
        scrape(&registry, &recorder)
            .get(r#"limit_bytes{pool="p"}"#)
            .copied()
    };
    let unlimited = pool(&registry, "p");
    assert_eq!(limit(), None);
    drop(unlimited);
    let a = limited(&registry, "p", 100);
    assert_eq!(limit(), Some(100.0));
    let b = limited(&registry, "p", 50);
    assert_eq!(limit(), Some(150.0));
    let unlimited = pool(&registry, "p");
    // The exporter cannot be told to forget it.
    assert!(limit().is_some_and(f64::is_nan));
    drop((unlimited, a));
    assert_eq!(limit(), Some(50.0));
    drop(b);
    assert_eq!(limit(), Some(0.0));
}

/// A task's registrations are finished when it is; one that runs has none yet.
#[test]
fn acquires_for_each_finished_consumer_leave_out_those_that_run() {
    let registry = Registry::new();
    let pool = pool(&registry, "p");
    let running = consumer(&pool, "x[0]");
    for _ in 0..1_000 {
        running.try_grow(1).unwrap();
    }
    for task in 1..=4 {
        finished(&pool, &format!("x[{task}]"), 256);
    }
    let seen = fresh(&registry);
    assert_eq!(seen[ACQUIRES], 2_024.0);
    assert_eq!(
        seen[r#"finished_acquires_total{pool="p",consumer="x"}"#],
        1_024.0
    );
    assert_eq!(
        seen[r#"finished_consumers_total{pool="p",consumer="x"}"#],
        4.0
    );
    assert_eq!(seen[r#"consumers{pool="p",consumer="x"}"#], 1.0);
}

#[test]
fn calls_for_consumers_that_never_registered_are_no_finished_ones() {
    let registry = Registry::new();
    let inner: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    let stranger = datafusion_execution::memory_pool::MemoryConsumer::new("x").register(&inner);
    let pool = pool(&registry, "p");
    pool.grow(&stranger, 5);
    let seen = fresh(&registry);
    let of = |name: &str| seen[&format!(r#"{name}{{pool="p",consumer="(never registered)"}}"#)];
    assert_eq!(of("acquires_total"), 1.0);
    assert_eq!(
        (
            of("finished_acquires_total"),
            of("finished_consumers_total")
        ),
        (0.0, 0.0)
    );
    assert_eq!(of("reserved_bytes"), 5.0);
    pool.shrink(&stranger, 5);
}

#[test]
fn a_scope_is_counted_under_its_own_name_and_its_parents() {
    let registry = Registry::new();
    let sessions = pool(&registry, "sessions");
    let query = sessions.scope("query 42");
    assert!(registry.add(&query));
    finished(&query, "x", 2);
    finished(&sessions, "x", 1);
    let seen = fresh(&registry);
    assert_eq!(seen[r#"acquires_total{pool="sessions",consumer="x"}"#], 3.0);
    assert_eq!(seen[r#"acquires_total{pool="query 42",consumer="x"}"#], 2.0);
}

#[test]
fn a_registry_keeps_no_pool_and_a_pool_no_registry() {
    let registry = Registry::new();
    let inner = Arc::new(GreedyMemoryPool::new(1));
    let pool = Arc::new(CountingPool::new(Arc::clone(&inner) as _));
    registry.add(&pool);
    registry.publish();
    drop(pool);
    assert_eq!(Arc::strong_count(&inner), 1);

    let pool = Arc::new(CountingPool::new(inner));
    registry.add(&pool);
    drop(registry);
    finished(&pool, "x", 1);
}

#[test]
fn names_and_values_are_the_same_with_the_recommended_naming() {
    let registry = Registry::new();
    let pool = limited(&registry, "p", 10);
    finished(&pool, "x", 1);
    let plain = scrape_text(&registry, &recorder());
    let recommended = PrometheusBuilder::new()
        .with_recommended_naming(true)
        .build_recorder();
    let recommended = scrape_text(&registry, &recommended);
    assert_eq!(series(&plain), series(&recommended));
    let descriptions = |text: &str| {
        let mut lines: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with('#'))
            .map(str::to_owned)
            .collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(descriptions(&plain), descriptions(&recommended));
}

/// One test, for a process has one global registry.
#[test]
fn the_global_registry_can_be_ones_own_until_it_is_used() {
    let options = || Registry::builder().with_expected("global", ["x"]);
    let installed = options().install().unwrap();
    let expected = r#"acquires_total{pool="global",consumer="x"}"#;
    assert_eq!(fresh(installed)[expected], 0.0);
    assert_eq!(fresh(Registry::global())[expected], 0.0);
    let error = options().install().unwrap_err();
    assert!(error.to_string().contains("is there already"), "{error}");
}

/// What fails is neither granted nor denied.
#[test]
fn failures_are_calls_that_failed_or_panicked() {
    let inner =
        RecordingPool::with_answer(UnboundedMemoryPool::default(), |number, _| match number {
            0 => None,
            1 | 2 => Some(exec_datafusion_err!("the manager is gone")),
            _ => panic!("the manager is broken"),
        });
    let registry = Registry::new();
    let pool = added(&registry, CountingPool::new(inner), "p");
    let reservation = consumer(&pool, "x");
    reservation.try_grow(8).unwrap();
    for _ in 0..2 {
        reservation.try_grow(8).unwrap_err();
    }
    catch_unwind(AssertUnwindSafe(|| reservation.try_grow(8))).unwrap_err();

    let seen = fresh(&registry);
    for (name, value) in [
        ("acquires_total", 4.0),
        ("acquired_bytes_total", 8.0),
        ("denied_total", 0.0),
        ("failures_total", 3.0),
        ("reserved_bytes", 8.0),
    ] {
        let name = format!(r#"{name}{{pool="p",consumer="x"}}"#);
        assert_eq!(seen[&name], value, "{name}");
    }
}
