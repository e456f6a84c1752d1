//! Who is counted: raw rows, rows by name and by operator, consumers that have gone, denials.

mod support;

use datafusion_counting_pool::{Denial, Holder, NamedFigures};
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, UnboundedMemoryPool};
use support::{Asked, Counted, counted, counting, raw, register, register_spillable, total};

fn names(rows: &[NamedFigures]) -> Vec<&str> {
    rows.iter().map(|row| &*row.name).collect()
}

#[test]
fn consumers_of_one_name_have_raw_rows_of_their_own_and_one_row_by_name() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let (plain, spillable) = (register(&pool, "foo"), register_spillable(&pool, "foo"));
    plain.try_grow(10).unwrap();
    plain.try_grow(10).unwrap();
    spillable.grow(70);
    spillable.shrink(30);

    let snapshot = counting.snapshot();
    let ids: Vec<_> = snapshot.consumers.iter().map(|row| row.id).collect();
    assert_eq!(ids, [plain.consumer().id(), spillable.consumer().id()]);
    let can_spill: Vec<_> = snapshot.consumers.iter().map(|row| row.can_spill).collect();
    assert_eq!(can_spill, [false, true]);
    let first = Counted {
        registrations: 1,
        unspillable: 1,
        try_grow: Asked(2, 20, 20),
        reserved: 20,
        peak: 20,
        sizes: [(10, 2)].into(),
        ..Counted::default()
    };
    let second = Counted {
        registrations: 1,
        grow: Asked(1, 70, 70),
        releases: (1, 30),
        reserved: 40,
        peak: 70,
        sizes: [(70, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(raw(&snapshot, &plain), first);
    assert_eq!(raw(&snapshot, &spillable), second);

    let sums = Counted {
        registrations: 2,
        unspillable: 1,
        try_grow: Asked(2, 20, 20),
        grow: Asked(1, 70, 70),
        releases: (1, 30),
        reserved: 60,
        // Of a name it is the highest of any one consumer.
        peak: 70,
        sizes: [(10, 2), (70, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(names(&snapshot.by_name()), ["foo"]);
    assert_eq!(counted(&snapshot.consumer("foo")), sums);
    assert_eq!(counted(&snapshot.operator("foo")), sums);
    // Of the pool it is that of the sum.
    assert_eq!(counted(&snapshot.total), Counted { peak: 90, ..sums });
}

#[test]
fn an_operator_is_the_sum_of_its_partitions() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let consumers: Vec<_> = [
        "ExternalSorter[0]",
        "ExternalSorter[1]",
        "ExternalSorterMerge[0]",
        "RepartitionExec[Merge 3]",
        "RepartitionExec[3]",
        "NestedLoopJoinLoad[fallback]",
        "HashJoinInput",
        "GroupedHashAggregateStream[6] (count(1), sum(a))",
        "",
        "[0]",
    ]
    .into_iter()
    .enumerate()
    .map(|(i, name)| {
        let consumer = register(&pool, name);
        consumer.grow(1 << i);
        consumer
    })
    .collect();
    let expected = [
        ("ExternalSorter", 0b11),
        ("ExternalSorterMerge", 0b100),
        ("GroupedHashAggregateStream", 0b1000_0000),
        ("HashJoinInput", 0b100_0000),
        ("NestedLoopJoinLoad", 0b10_0000),
        ("RepartitionExec", 0b1_1000),
        ("[0]", 0b10_0000_0000),
        ("unnamed", 0b1_0000_0000),
    ];
    let held = |rows: Vec<NamedFigures>| -> Vec<(String, u64)> {
        rows.iter()
            .map(|row| (row.name.to_string(), row.figures.reserved_bytes))
            .collect()
    };
    let expected: Vec<_> = expected.map(|(name, held)| (name.to_owned(), held)).into();
    assert_eq!(held(counting.snapshot().by_operator()), expected);
    assert_eq!(counting.snapshot().by_name().len(), consumers.len());

    // The same when they have gone.
    drop(consumers);
    let acquired: Vec<_> = counting
        .snapshot()
        .by_operator()
        .iter()
        .map(|row| (row.name.to_string(), row.figures.acquires.acquired_bytes))
        .collect();
    assert_eq!(acquired, expected);
}

#[test]
fn nothing_is_lost_when_a_consumer_goes() {
    let (counting, pool) = counting(GreedyMemoryPool::new(100));
    let a = register(&pool, "a");
    a.try_grow(40).unwrap();
    a.try_grow(61).unwrap_err();
    a.grow(0);
    pool.shrink(&a, 10);
    a.free();
    drop(a);
    let mut expected = Counted {
        registrations: 1,
        unspillable: 1,
        unregistrations: 1,
        try_grow: Asked(2, 101, 40),
        denied: (1, 61),
        // 10 and then the 40 that the reservation believed in; 30 were left.
        releases: (2, 40),
        anomalies: (1, 10),
        peak: 40,
        sizes: [(40, 1), (61, 1)].into(),
        zero_byte_calls: 1,
        ..Counted::default()
    };
    let snapshot = counting.snapshot();
    assert!(snapshot.consumers.is_empty());
    assert_eq!(counted(&snapshot.consumer("a")), expected);
    assert_eq!(counted(&snapshot.total), expected);

    // The next of that name, alive, is in the same row.
    let a = register(&pool, "a");
    assert_eq!(
        raw(&counting.snapshot(), &a),
        Counted {
            registrations: 1,
            unspillable: 1,
            ..Counted::default()
        }
    );
    expected.registrations = 2;
    expected.unspillable = 2;
    assert_eq!(counted(&counting.snapshot().consumer("a")), expected);
}

#[test]
fn what_a_raw_grow_left_behind_stays_reserved_when_the_consumer_goes() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    b.grow(5);
    a.grow(10);
    pool.grow(&a, 32);
    drop(a);
    assert_eq!(pool.reserved(), 37);
    let snapshot = counting.snapshot();
    assert_eq!(snapshot.consumer("a").reserved_bytes, 32);
    assert_eq!(snapshot.total.reserved_bytes, 37);
}

#[test]
fn calls_for_a_consumer_that_never_registered_are_counted_somewhere() {
    // A reservation of one pool handed to another.
    let (_, pool) = counting(UnboundedMemoryPool::default());
    let stranger = register(&pool, "stranger");
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    pool.grow(&stranger, 10);
    pool.shrink(&stranger, 4);
    let figures = total(&counting);
    assert_eq!(figures.grow, Asked(1, 10, 10));
    assert_eq!(figures.releases, (1, 4));
    assert_eq!((figures.reserved, figures.registrations), (6, 0));
}

#[test]
fn a_consumer_that_registers_twice_goes_with_its_second_unregister() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let a = register(&pool, "a");
    pool.register(a.consumer());
    a.grow(10);
    pool.unregister(a.consumer());
    let figures = raw(&counting.snapshot(), &a);
    assert_eq!((figures.registrations, figures.unregistrations), (2, 1));
    assert_eq!(figures.reserved, 10);
    drop(a);
    let figures = total(&counting);
    assert_eq!((figures.registrations, figures.unregistrations), (2, 2));
    assert_eq!(figures.reserved, 0);
    assert!(counting.snapshot().consumers.is_empty());
}

#[test]
fn a_thousand_names_keep_their_rows_and_further_ones_go_to_their_operator() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let name = |i: usize| format!("Aggregate[0] (sum({i}))");
    for i in 0..1_500 {
        register(&pool, &name(i)).grow(i + 1);
    }
    // A name that has its row keeps it.
    register(&pool, &name(7)).grow(8);
    let alive = register(&pool, "Window[0] (rank)");
    alive.grow(3);

    let snapshot = counting.snapshot();
    assert_eq!(snapshot.finished.len(), 1_000);
    assert_eq!(snapshot.overflowed_consumers, 500);
    assert_eq!(names(&snapshot.overflow), ["Aggregate"]);
    for i in [0, 7, 999] {
        let registrations = if i == 7 { 2 } else { 1 };
        let figures = snapshot.consumer(&name(i));
        assert_eq!(figures.registrations, registrations);
        assert_eq!(
            figures.acquires.acquired_bytes,
            registrations * (i as u64 + 1)
        );
    }
    assert_eq!(snapshot.get_consumer(&name(1_000)), None);
    assert_eq!(snapshot.consumer("Window[0] (rank)").registrations, 1);

    // 1,001 + ... + 1,500
    assert_eq!(
        snapshot.overflow[0].figures.acquires.acquired_bytes,
        625_250
    );
    let operator = snapshot.operator("Aggregate");
    assert_eq!(operator.registrations, 1_501);
    // 1 + ... + 1,500, and 8
    assert_eq!(operator.acquires.acquired_bytes, 1_125_758);
    assert_eq!(operator.releases.bytes, 1_125_758);
    assert_eq!(operator.peak_bytes, 1_500);
    assert_eq!(snapshot.total.registrations, 1_502);
    assert_eq!(snapshot.total.acquires.acquired_bytes, 1_125_761);

    // One that is still there has its row by name, however many have gone.
    drop(alive);
    let snapshot = counting.snapshot();
    assert_eq!(snapshot.get_consumer("Window[0] (rank)"), None);
    assert_eq!(snapshot.operator("Window").registrations, 1);
    assert_eq!(snapshot.overflowed_consumers, 501);
}

#[test]
fn the_hog_is_visible_and_not_only_who_asked_last() {
    let (counting, pool) = counting(GreedyMemoryPool::new(100));
    let (a, b) = (register(&pool, "A"), register(&pool, "B"));
    a.try_grow(90).unwrap();
    b.try_grow(20).unwrap_err();

    let snapshot = counting.snapshot();
    let expected = Counted {
        registrations: 1,
        unspillable: 1,
        try_grow: Asked(1, 20, 0),
        denied: (1, 20),
        sizes: [(20, 1)].into(),
        ..Counted::default()
    };
    assert_eq!(raw(&snapshot, &b), expected);
    assert_eq!(raw(&snapshot, &a).reserved, 90);
    let [denial] = &snapshot.denials[..] else {
        panic!("{:?}", snapshot.denials)
    };
    assert_eq!((&*denial.consumer, denial.id), ("B", b.consumer().id()));
    assert_eq!((denial.asked_bytes, denial.held_bytes), (20, 0));
    assert_eq!(holders(denial), [("A".to_owned(), 90)]);
}

fn holders(denial: &Denial) -> Vec<(String, u64)> {
    denial
        .largest_holders
        .iter()
        .map(
            |Holder {
                 consumer,
                 reserved_bytes,
                 ..
             }| (consumer.to_string(), *reserved_bytes),
        )
        .collect()
}

#[test]
fn the_last_16_denials_are_kept_each_with_the_three_largest_holders() {
    let (counting, pool) = counting(GreedyMemoryPool::new(100));
    let consumers: Vec<_> = (0..5).map(|i| register(&pool, &format!("c{i}"))).collect();
    for (consumer, bytes) in consumers.iter().zip([5, 40, 10, 30, 0]) {
        consumer.try_grow(bytes).unwrap();
    }
    for i in 0..20 {
        consumers[i % 5].try_grow(100 + i).unwrap_err();
    }
    let snapshot = counting.snapshot();
    let seen: Vec<_> = snapshot
        .denials
        .iter()
        .map(|denial| {
            (
                denial.number,
                &*denial.consumer,
                denial.asked_bytes,
                denial.held_bytes,
            )
        })
        .collect();
    let expected: Vec<_> = (4..20)
        .map(|i: usize| {
            let who = ["c0", "c1", "c2", "c3", "c4"][i % 5];
            (i as u64 + 1, who, 100 + i as u64, [5, 40, 10, 30, 0][i % 5])
        })
        .collect();
    assert_eq!(seen, expected);
    for denial in &snapshot.denials {
        let largest = [("c1", 40), ("c3", 30), ("c2", 10)];
        assert_eq!(
            holders(denial),
            largest.map(|(name, held)| (name.to_owned(), held))
        );
    }
    let denied = snapshot.total.denied;
    assert_eq!((denied.calls, denied.bytes), (20, 2_190));
}

#[test]
fn a_copied_consumer_is_another_consumer() {
    let (counting, pool) = counting(UnboundedMemoryPool::default());
    let consumer = MemoryConsumer::new("a");
    let copy = consumer.clone_with_new_id().register(&pool);
    let original = consumer.register(&pool);
    copy.grow(1);
    original.grow(2);
    let snapshot = counting.snapshot();
    assert_eq!(raw(&snapshot, &copy).reserved, 1);
    assert_eq!(raw(&snapshot, &original).reserved, 2);
    assert_eq!(snapshot.consumer("a").reserved_bytes, 3);
}
