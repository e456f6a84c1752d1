//! Memory stays flat however many consumers there were, and nothing of what they did is lost.
//! `allocation_counter` puts its allocator under the whole test binary; what it shows is what a
//! thread allocated and has not given back.

mod support;

use allocation_counter::measure;
use datafusion_counting_pool::CountingPool;
use datafusion_execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use std::sync::Arc;
use support::{Asked, Counted, counted, counting, register};

const MILLION: u64 = 1_000_000;
/// By then all rows there can be are made.
const FIRST: u64 = 5_000;

/// So many consumers, one after the other. Gives the pool, after checking that it holds no more
/// memory for all of them than for the first thousands.
fn after(consumers: u64, name: impl Fn(u64) -> String) -> Arc<CountingPool> {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let each = |i: u64| {
        let consumer = register(&pool, &name(i));
        // Two sizes, in turn.
        consumer.grow(if i.is_multiple_of(2) { 100 } else { 200 });
    };
    let first = measure(|| (0..FIRST).for_each(each));
    let rest = measure(|| (FIRST..consumers).for_each(each));
    assert!(first.bytes_current > 0);
    assert_eq!(rest.bytes_current, 0, "after {first:?}");
    counting
}

/// What so many of them have done.
fn done(consumers: u64) -> Counted {
    let half = consumers / 2;
    Counted {
        registrations: consumers,
        unspillable: consumers,
        unregistrations: consumers,
        grow: Asked(consumers, 300 * half, 300 * half),
        releases: (consumers, 300 * half),
        peak: 200,
        sizes: [(100, half), (200, half)].into(),
        ..Counted::default()
    }
}

#[test]
fn of_a_million_consumers_of_one_name_one_row_is_kept() {
    let counting = after(MILLION, |_| {
        "GroupedHashAggregateStream[6] (count(1), sum(a))".into()
    });
    let snapshot = counting.snapshot();
    assert_eq!(counted(&snapshot.total), done(MILLION));
    assert_eq!(snapshot.by_name().len(), 1);
    let name = "GroupedHashAggregateStream[6] (count(1), sum(a))";
    assert_eq!(counted(&snapshot.consumer(name)), done(MILLION));
    assert_eq!(snapshot.overflowed_consumers, 0);
}

#[test]
fn of_a_million_names_of_one_operator_a_thousand_rows_are_kept() {
    let counting = after(MILLION, |i| {
        format!("GroupedHashAggregateStream[6] (sum(a + {i}))")
    });
    let snapshot = counting.snapshot();
    assert_eq!(counted(&snapshot.total), done(MILLION));
    let operator = snapshot.operator("GroupedHashAggregateStream");
    assert_eq!(counted(&operator), done(MILLION));
    assert_eq!(snapshot.finished.len(), 1_000);
    assert_eq!(snapshot.overflowed_consumers, MILLION - 1_000);
    let [overflow] = &snapshot.overflow[..] else {
        panic!("{:?}", snapshot.overflow)
    };
    assert_eq!(counted(&overflow.figures), done(MILLION - 1_000));
}

#[test]
fn of_a_hundred_thousand_operators_two_thousand_rows_are_kept() {
    let counting = after(100_000, |i| format!("udaf_{i}[0]"));
    let snapshot = counting.snapshot();
    assert_eq!(counted(&snapshot.total), done(100_000));
    // A thousand names, a thousand operators, and the others.
    assert_eq!(snapshot.finished.len(), 1_000);
    assert_eq!(snapshot.overflow.len(), 1_001);
    assert_eq!(snapshot.overflowed_consumers, 100_000 - 1_000);
    assert_eq!(counted(&snapshot.operator("other")), done(100_000 - 2_000));
    assert_eq!(
        snapshot
            .operator("udaf_1999[0]".trim_end_matches("[0]"))
            .registrations,
        1
    );
}

#[test]
fn a_live_consumer_takes_at_most_a_kilobyte() {
    for consumers in [1_000, 10_000, 50_000] {
        let (_counting, pool): (_, Arc<dyn MemoryPool>) = counting(UnboundedMemoryPool::default());
        let bare: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let registered = |pool: &Arc<dyn MemoryPool>| {
            let mut held = Vec::with_capacity(consumers);
            let bytes = measure(|| {
                held.extend((0..consumers).map(|i| register(pool, &format!("Sort[{i}]"))));
            });
            bytes.bytes_current
        };
        // The consumer itself, its name and its registration are DataFusion's.
        let ours = registered(&pool) - registered(&bare);
        let each = ours / consumers as i64;
        assert!(
            each <= 1_024,
            "{each} bytes for each of {consumers} consumers"
        );
    }
}

/// Consumers that lived together leave room for as many others, and no more is ever taken.
#[test]
fn waves_of_consumers_take_no_more_than_the_first() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let wave = || {
        let consumers: Vec<_> = (0..2_000)
            .map(|i| register(&pool, &format!("c[{i}]")))
            .collect();
        consumers.iter().for_each(|consumer| consumer.grow(7));
    };
    wave();
    wave();
    let more = measure(|| (0..50).for_each(|_| wave()));
    assert_eq!(more.bytes_current, 0);
    assert_eq!(counting.snapshot().total.registrations, 52 * 2_000);
}

/// A snapshot owns what it shows, and gives it back.
#[test]
fn looking_leaves_nothing_behind() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let _consumers: Vec<_> = (0..100)
        .map(|i| {
            let consumer = register(&pool, &format!("c[{i}]"));
            consumer.grow(7);
            consumer
        })
        .collect();
    let looks = measure(|| {
        let mut intervals = counting.intervals();
        for _ in 0..10 {
            let snapshot = counting.snapshot();
            drop((
                snapshot.to_string(),
                snapshot.summary(),
                snapshot.by_operator(),
            ));
            drop(intervals.next());
        }
    });
    assert_eq!(looks.bytes_current, 0);
}
