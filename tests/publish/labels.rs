//! The label `consumer`: mapped, clean, bounded, and there from the start.

use std::collections::BTreeMap;

use datafusion_counting_pool::Registry;

use crate::exposition::{by_consumer, fresh, recorder, scrape, scrape_text};
use crate::{consumer, finished, pool};

fn values<const N: usize>(values: [(&str, f64); N]) -> BTreeMap<String, f64> {
    values
        .map(|(label, value)| (label.to_owned(), value))
        .into()
}

#[test]
fn further_labels_than_the_bound_are_other() {
    let registry = Registry::builder().with_label_bound(2).build();
    let pool = pool(&registry, "p");
    // The busiest get a label, whatever their names.
    for (name, acquires) in [("z", 10), ("a", 3), ("y", 5)] {
        finished(&pool, name, acquires);
    }
    let expected = values([("z", 10.0), ("y", 5.0), ("other", 3.0)]);
    let overflow = r#"label_overflow_total{pool="p"}"#;
    let seen = fresh(&registry);
    assert_eq!(by_consumer(&seen, "acquires_total"), expected);
    assert_eq!(seen[overflow], 1.0);

    // A label stays where it is, however busy another gets: a counter must not go down.
    let held = consumer(&pool, "a");
    for _ in 0..100 {
        held.try_grow(1).unwrap();
    }
    let expected = values([("z", 10.0), ("y", 5.0), ("other", 103.0)]);
    let seen = fresh(&registry);
    assert_eq!(by_consumer(&seen, "acquires_total"), expected);
    assert_eq!(seen[overflow], 2.0);
    let reserved = values([("z", 0.0), ("y", 0.0), ("other", 100.0)]);
    assert_eq!(by_consumer(&seen, "reserved_bytes"), reserved);

    // The same after all have gone, and for the next pool of the name.
    drop((held, pool));
    let pool = crate::pool(&registry, "p");
    finished(&pool, "new", 1);
    let expected = values([("z", 10.0), ("y", 5.0), ("other", 104.0)]);
    let seen = fresh(&registry);
    assert_eq!(by_consumer(&seen, "acquires_total"), expected);
    assert_eq!(seen[overflow], 3.0);
    // Another name has a bound of its own.
    finished(&crate::pool(&registry, "q"), "new", 1);
    assert_eq!(
        fresh(&registry)[r#"acquires_total{pool="q",consumer="new"}"#],
        1.0
    );
}

#[test]
fn there_are_two_hundred_labels_unless_told_otherwise() {
    let registry = Registry::new();
    let pool = pool(&registry, "p");
    for name in 0..1_000 {
        finished(&pool, &format!("operator {name}"), 1);
    }
    let seen = fresh(&registry);
    let acquires = by_consumer(&seen, "acquires_total");
    assert_eq!(acquires.len(), 201);
    assert_eq!(acquires["other"], 800.0);
    assert_eq!(acquires.values().sum::<f64>(), 1_000.0);
    assert_eq!(seen[r#"label_overflow_total{pool="p"}"#], 800.0);
}

/// More names, and more operators, than a pool itself tells apart.
#[test]
fn totals_stay_right_over_any_number_of_names() {
    let registry = Registry::new();
    let pool = pool(&registry, "p");
    let overflow = r#"label_overflow_total{pool="p"}"#;
    let mut overflowed = 0.0;
    for name in 1..=5_000 {
        finished(&pool, &format!("operator {name}"), 2);
        if name % 500 == 0 {
            let seen = fresh(&registry);
            let acquires = by_consumer(&seen, "acquires_total");
            assert_eq!(acquires.values().sum::<f64>(), f64::from(2 * name));
            assert_eq!(acquires.len(), 201);
            assert_eq!(seen[overflow], f64::from(name) - 200.0);
            assert!(seen[overflow] > overflowed);
            overflowed = seen[overflow];
        }
    }
}

#[test]
fn names_with_expressions_become_their_operators() {
    let registry = Registry::new();
    let pool = pool(&registry, "p");
    for name in [
        "ExternalSorter[3]",
        "ExternalSorter[4]",
        "RepartitionExec[Merge 3]",
        "NestedLoopJoinLoad[fallback]",
        "HashJoinInput",
        "GroupedHashAggregateStream[6] (count(1), sum(a))",
        "Window {a < 3}",
        "cast<int>(a)",
        "(a)",
        "",
    ] {
        finished(&pool, name, 1);
    }
    let expected = values([
        ("ExternalSorter", 2.0),
        ("RepartitionExec", 1.0),
        ("NestedLoopJoinLoad", 1.0),
        ("HashJoinInput", 1.0),
        ("GroupedHashAggregateStream", 1.0),
        ("Window", 1.0),
        ("cast", 1.0),
        ("(a)", 1.0),
        ("unnamed", 1.0),
    ]);
    assert_eq!(by_consumer(&fresh(&registry), "acquires_total"), expected);
}

#[test]
fn the_mapping_can_be_ones_own() {
    let registry = Registry::builder()
        .with_label(|name| name.chars().filter(char::is_ascii_uppercase).collect())
        .build();
    let pool = pool(&registry, "p");
    finished(&pool, "ExternalSorter[1]", 1);
    finished(&pool, "EmptyStage", 1);
    let expected = values([("ES", 2.0)]);
    assert_eq!(by_consumer(&fresh(&registry), "acquires_total"), expected);
}

/// Values that differ only in what a label cannot hold are one series, not the same one twice
/// (which `series` would notice).
#[test]
fn labels_are_clean() {
    let registry = Registry::builder().with_label(str::to_owned).build();
    for pool_name in ["a\\b", "a\\\\b", "two\r\nlines", "two\u{2028}lines", ""] {
        let pool = pool(&registry, pool_name);
        for name in [
            "x\\y",
            "x\\\\y",
            "x\ny",
            "x\ry",
            "x\u{2029}y",
            "x\u{0}y",
            "say \"x\"",
        ] {
            finished(&pool, name, 1);
        }
    }
    let text = scrape_text(&registry, &recorder());
    for (number, line) in text.lines().enumerate() {
        assert!(
            !line.contains(|c: char| c.is_control()),
            "line {number}: {line:?}"
        );
    }
    let seen = fresh(&registry);
    let slash = r#"acquires_total{pool="a/b",consumer="x/y"}"#;
    assert_eq!(seen[slash], 1.0);
    for pool in ["a/b", "a//b", "two  lines", "two lines", "unnamed"] {
        for (consumer, acquires) in [
            ("x/y", 1.0),
            ("x//y", 1.0),
            ("x y", 4.0),
            ("say \\\"x\\\"", 1.0),
        ] {
            let name = format!(r#"acquires_total{{pool="{pool}",consumer="{consumer}"}}"#);
            assert_eq!(seen[&name], acquires, "{name}");
        }
    }
}

#[test]
fn expected_consumers_are_there_before_they_come() {
    let registry = Registry::builder()
        .with_expected("p", ["x", "y"])
        .with_expected("p", ["z"])
        .build();
    let recorder = recorder();
    let zeroes = values([("x", 0.0), ("y", 0.0), ("z", 0.0)]);
    let seen = scrape(&registry, &recorder);
    for name in [
        "acquires_total",
        "finished_consumers_total",
        "consumers",
        "reserved_bytes",
    ] {
        assert_eq!(by_consumer(&seen, name), zeroes, "{name}");
    }
    assert_eq!(
        seen[r#"calls_within_total{pool="p",operation="acquire",bound_seconds="+Inf"}"#],
        0.0
    );

    let pool = pool(&registry, "p");
    assert_eq!(
        by_consumer(&scrape(&registry, &recorder), "acquires_total"),
        zeroes
    );
    finished(&pool, "y[1]", 7);
    let expected = values([("x", 0.0), ("y", 7.0), ("z", 0.0)]);
    assert_eq!(
        by_consumer(&scrape(&registry, &recorder), "acquires_total"),
        expected
    );
}

#[test]
fn an_operator_that_is_called_other_is_no_overflow() {
    let registry = Registry::builder().with_label_bound(1).build();
    let pool = pool(&registry, "p");
    finished(&pool, "other[1]", 2);
    finished(&pool, "x", 1);
    let seen = fresh(&registry);
    let expected = values([("other", 2.0), ("x", 1.0)]);
    assert_eq!(by_consumer(&seen, "acquires_total"), expected);
    assert_eq!(seen[r#"label_overflow_total{pool="p"}"#], 0.0);
}
