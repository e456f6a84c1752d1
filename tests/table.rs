//! The table and the line that a person reads.

mod support;

use datafusion_counting_pool::CountingPool;
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use std::sync::Arc;
use support::{ManualClock, caught, register, shared};

#[test]
fn says_who_asked_how_often_for_what_and_what_came_of_it() {
    let clock = Arc::new(ManualClock::default());
    let counting = CountingPool::new(Arc::new(GreedyMemoryPool::new(64 << 20)))
        .with_name("sessions")
        .with_clock(clock);
    let (counting, pool) = shared(counting);
    let sort = register(&pool, "ExternalSorter[0]");
    for _ in 0..12 {
        sort.try_grow(3 << 20).unwrap();
    }
    let join = register(&pool, "HashJoinInput");
    join.try_grow(40 << 20).unwrap_err();
    sort.shrink(6 << 20);

    let snapshot = counting.snapshot();
    let table = snapshot.to_string();
    let row = |name: &str| {
        let row = table.lines().find(|line| line.starts_with(name));
        row.unwrap_or_else(|| panic!("{name} is not in\n{table}"))
            .to_owned()
    };
    for text in ["12", "36.0 MB", "3.0 MB 100 %", "30.0 MB"] {
        assert!(
            row("ExternalSorter[0]").contains(text),
            "{text} is not in\n{table}"
        );
    }
    for text in ["1", "40.0 MB 100 %"] {
        assert!(
            row("HashJoinInput").contains(text),
            "{text} is not in\n{table}"
        );
    }
    assert!(row("total").contains("13"), "{table}");
    let mut denial = table
        .lines()
        .skip_while(|line| !line.contains("asked for 40.0 MB"));
    assert!(denial.next().unwrap().contains("HashJoinInput#"), "{table}");
    let holder = denial.next().unwrap();
    assert!(
        holder.contains("36.0 MB") && holder.contains("ExternalSorter[0]#"),
        "{table}"
    );
    // The one that asks most often comes first.
    let at = |name| table.find(&format!("\n{name}")).unwrap();
    assert!(at("ExternalSorter[0]") < at("HashJoinInput"));

    let summary = snapshot.summary();
    assert_eq!(summary.lines().count(), 1);
    for text in ["\"sessions\"", "13", "36.0 MB", "1 denied", "30.0 MB"] {
        assert!(summary.contains(text), "{text} is not in {summary}");
    }
}

#[test]
fn columns_stand_below_each_other() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    for (i, name) in ["a", "a much longer name", "Größe", "数据"]
        .into_iter()
        .enumerate()
    {
        let consumer = register(&pool, name);
        for _ in 0..10_usize.pow(i as u32) {
            consumer.grow(7_usize.pow(i as u32 * 4));
        }
    }
    let table = counting.snapshot().to_string();
    // Numbers end where their heading does.
    let lines: Vec<Vec<char>> = table.lines().map(|line| line.chars().collect()).collect();
    let text: String = lines[1].iter().collect();
    for heading in ["acquires", "acquired", "releases"] {
        let end = text.find(heading).unwrap() + heading.len();
        for line in lines[2..6].iter().filter(|line| line.is_ascii_row()) {
            assert!(
                line[end - 1] != ' ' && line[end] == ' ',
                "{heading}\n{table}"
            );
        }
    }
}

trait Row {
    fn is_ascii_row(&self) -> bool;
}

impl Row for Vec<char> {
    /// A wide character stands for two columns.
    fn is_ascii_row(&self) -> bool {
        self.iter().all(char::is_ascii)
    }
}

#[test]
fn a_pool_that_saw_nothing_says_so_without_a_table() {
    let (counting, _) = support::counting(UnboundedMemoryPool::default());
    let text = counting.snapshot().to_string();
    assert!(text.contains("0 acquires"), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
}

/// The largest figures and the longest names there are.
fn extreme() -> (Arc<CountingPool>, Arc<dyn MemoryPool>) {
    let clock = Arc::new(ManualClock::default());
    let counting = CountingPool::new(Arc::new(UnboundedMemoryPool::default()))
        .with_name("the pool that all the sessions of this executor share with each other")
        .with_clock(Arc::clone(&clock) as _);
    let (counting, pool) = shared(counting);
    for i in 0..30 {
        let name = format!(
            "GroupedHashAggregateStream[{i}] ({})",
            "sum(l_quantity), ".repeat(20)
        );
        let consumer = register(&pool, &name);
        for size in 0..20 {
            for _ in 0..30 {
                consumer.grow((1 << 40) + (1 << 30) * size + 12_345);
            }
        }
        pool.shrink(&consumer, 1023 << 40);
    }
    let holder = register(&pool, &"x".repeat(300));
    holder.grow(1023 << 40);
    std::mem::forget(holder);
    (counting, pool)
}

#[test]
fn is_at_most_100_columns_wide() {
    let (counting, _pool) = extreme();
    let mut tables = vec![counting.snapshot().to_string()];
    let (counting, pool) = support::counting(GreedyMemoryPool::new(1 << 40));
    let holders: Vec<_> = (0..3)
        .map(|i| register(&pool, &format!("ExternalSorterMerge[{i}]")))
        .collect();
    for holder in &holders {
        holder.try_grow(123_456_789_012).unwrap();
    }
    let name =
        "GroupedHashAggregateStream[6] (count(1), sum(lineitem.l_extendedprice), avg(l_tax))";
    register(&pool, name).try_grow(987_654_321_098).unwrap_err();
    tables.push(counting.snapshot().to_string());
    for table in tables {
        for line in table.lines() {
            let columns = line.chars().count();
            assert!(columns <= 100, "{columns} columns:\n{line}\nin\n{table}");
        }
    }
}

#[test]
fn what_went_wrong_is_visible() {
    use datafusion_common::plan_datafusion_err;
    use datafusion_counting_pool::{Fault, FaultPool};

    let inner = FaultPool::new(Arc::new(support::ForgivingPool::new(100)))
        .panic_nth(1)
        .with_fault(|call| {
            (call.bytes == 13).then(|| Fault::Fail(plan_datafusion_err!("unlucky")))
        });
    let (counting, pool) = support::counting(inner);
    let a = register(&pool, "a");
    caught(|| a.grow(5));
    a.try_grow(13).unwrap_err();
    pool.shrink(&a, 4_096);
    let text = counting.snapshot().to_string();
    for expected in ["1 panicked", "1 failed", "4.0 KB"] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

#[test]
fn many_consumers_are_cut_and_counted() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    for i in 0..100 {
        let consumer = register(&pool, &format!("c{i}"));
        for _ in 0..=i {
            consumer.grow(1);
        }
    }
    let table = counting.snapshot().to_string();
    assert!(table.lines().count() < 40, "{table}");
    // The most frequent callers are there, and how many are not.
    assert!(
        table.contains("\nc99 ") && table.contains("\nc80 "),
        "{table}"
    );
    assert!(
        !table.contains("\nc79 ") && table.contains("80 more"),
        "{table}"
    );
}
