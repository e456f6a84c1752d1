//! Which sizes are asked for most often: exactly for up to 16 distinct ones, within bounds
//! beyond.

mod support;

use datafusion_counting_pool::RequestSizes;
use datafusion_execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use support::{counting, register};

/// Calls by size, counted the plain way.
type Truth = HashMap<u64, u64>;

fn check(shown: &RequestSizes, truth: &Truth) {
    let calls: u64 = truth.values().sum();
    if truth.len() <= 16 {
        assert!(shown.is_exact(), "{shown:?}");
    }
    if shown.is_exact() {
        let listed: Truth = shown.iter().map(|size| (size.bytes, size.calls)).collect();
        assert_eq!(listed, *truth);
    }
    assert!(shown.iter().count() <= 16);
    for size in shown.iter() {
        let true_calls = truth.get(&size.bytes).copied().unwrap_or(0);
        assert!(
            size.calls - size.error <= true_calls && true_calls <= size.calls,
            "{size:?}, in truth {true_calls}"
        );
        assert_eq!(shown.calls_of(size.bytes as usize), size.calls);
    }
    let frequency: Vec<_> = shown.iter().map(|size| (size.calls, size.bytes)).collect();
    assert!(frequency.is_sorted_by(|a, b| a > b), "{frequency:?}");
    for (&bytes, &true_calls) in truth {
        if shown.calls_of(bytes as usize) == 0 {
            assert!(
                true_calls <= shown.unlisted_at_most(),
                "{bytes}: {true_calls} calls, {shown:?}"
            );
            assert!(
                true_calls * 10 <= calls,
                "{bytes}: {true_calls} of {calls} calls and not listed"
            );
        }
    }
}

#[test]
fn sixteen_sizes_are_exact_however_many_calls_and_consumers() {
    let (counting, pool) = counting(GreedyMemoryPool::new(1_000));
    let mut truth = Truth::new();
    for i in 0..20_u64 {
        let consumer = register(&pool, &format!("c{}", i % 3));
        for j in 0..500 {
            // 1 to 1,016, of which the last two are denied.
            let bytes = 1 + (i * j) % 16 * 67 + 10 * u64::from((i * j) % 16 == 15);
            *truth.entry(bytes).or_default() += 1;
            let _ = consumer.try_grow(bytes as usize);
            consumer.free();
        }
    }
    assert_eq!(truth.len(), 16);
    let snapshot = counting.snapshot();
    check(&snapshot.total.sizes, &truth);
    assert!(snapshot.total.denied.calls > 0);
}

#[test]
fn of_equally_frequent_sizes_the_larger_comes_first() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let consumer = register(&pool, "a");
    for bytes in [5, 7, 3, 7, 9, 3, 1] {
        consumer.grow(bytes);
    }
    let sizes = counting.snapshot().total.sizes;
    let listed: Vec<_> = sizes.iter().map(|size| (size.bytes, size.calls)).collect();
    assert_eq!(listed, [(7, 2), (3, 2), (9, 1), (5, 1), (1, 1)]);
    assert_eq!(sizes.most_frequent().map(|size| size.bytes), Some(7));
    assert_eq!(sizes.calls_of(4), 0);
}

/// Sizes of which a few are frequent, from all over.
fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 1..=4_u64,
        2 => (0..12_u32).prop_map(|i| 1 << i),
        3 => 1..=400_u64,
        // Ever new ones in a row, the worst case for a summary.
        1 => 1_000..=100_000_u64,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// By consumer, by name once they have gone, together, and between two snapshots.
    #[test]
    fn bounds_hold_wherever_counts_are_added_up_or_taken_off(
        before in vec((0..5_usize, any_bytes()), 0..400),
        after in vec((0..5_usize, any_bytes()), 0..400),
        gone in vec(any::<bool>(), 5),
    ) {
        let (counting, pool) = counting(UnboundedMemoryPool::default());
        // Two names, so that rows are merged from several consumers.
        let name = |i: usize| if i < 3 { "a" } else { "b" };
        let mut consumers: Vec<_> = (0..5).map(|i| register(&pool, name(i))).collect();
        let mut raw = vec![Truth::new(); 5];
        let mut by_name: HashMap<&str, Truth> = [("a", Truth::new()), ("b", Truth::new())].into();
        let mut total = Truth::new();
        let mut interval = Truth::new();
        let mut earlier = counting.snapshot();
        for (half, calls) in [before, after].into_iter().enumerate() {
            for (i, bytes) in calls {
                consumers[i].grow(bytes as usize);
                *raw[i].entry(bytes).or_default() += 1;
                *by_name.get_mut(name(i)).unwrap().entry(bytes).or_default() += 1;
                *total.entry(bytes).or_default() += 1;
                if half == 1 {
                    *interval.entry(bytes).or_default() += 1;
                }
            }
            if half == 0 {
                earlier = counting.snapshot();
                for (i, gone) in gone.iter().enumerate() {
                    if *gone {
                        consumers[i] = register(&pool, name(i));
                        raw[i].clear();
                    }
                }
            }
        }

        let snapshot = counting.snapshot();
        for (consumer, truth) in consumers.iter().zip(&raw) {
            let id = consumer.consumer().id();
            let row = snapshot.consumers.iter().find(|row| row.id == id).unwrap();
            check(&row.figures.sizes, truth);
        }
        for (name, truth) in &by_name {
            check(&snapshot.consumer(name).sizes, truth);
        }
        check(&snapshot.total.sizes, &total);

        let difference = snapshot.since(&earlier).total.sizes;
        for size in difference.iter() {
            let true_calls = interval.get(&size.bytes).copied().unwrap_or(0);
            prop_assert!(
                size.calls - size.error <= true_calls && true_calls <= size.calls,
                "{size:?}, in truth {true_calls}"
            );
        }
        for (&bytes, &true_calls) in &interval {
            if difference.calls_of(bytes as usize) == 0 {
                prop_assert!(true_calls <= difference.unlisted_at_most());
            }
        }
        if total.len() <= 16 {
            let listed: Truth = difference.iter().map(|size| (size.bytes, size.calls)).collect();
            prop_assert!(difference.is_exact());
            prop_assert_eq!(listed, interval);
        }
    }
}
