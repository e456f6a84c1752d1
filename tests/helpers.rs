//! What tests of operators assert, and what a failure says: the figures it judged, the consumers
//! there are, and the caller's line.

mod support;

use datafusion_counting_pool::{CountingPool, Snapshot};
use datafusion_execution::memory_pool::{
    GreedyMemoryPool, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use std::sync::Arc;
use support::{caught, register, register_spillable, shared};

/// A sort that asked often and was denied, and a join that holds memory.
struct Scene {
    counting: Arc<CountingPool>,
    pool: Arc<dyn MemoryPool>,
    sorts: Vec<MemoryReservation>,
    join: MemoryReservation,
}

fn scene() -> Scene {
    let counting = CountingPool::new(Arc::new(GreedyMemoryPool::new(10_000))).with_name("shared");
    let (counting, pool) = shared(counting.with_timing(false));
    let sorts: Vec<_> = (0..2)
        .map(|i| register_spillable(&pool, &format!("Sort[{i}]")))
        .collect();
    let join = register(&pool, "Join (a < b)");
    for _ in 0..17 {
        sorts[0].try_grow(123).unwrap();
        sorts[0].free();
    }
    sorts[1].grow(1_000);
    join.try_grow(8_765).unwrap();
    sorts[0].try_grow(4_321).unwrap_err();
    sorts[1].free();
    Scene {
        counting,
        pool,
        sorts,
        join,
    }
}

#[track_caller]
fn says(message: &str, expected: &[&str]) {
    for text in expected {
        assert!(message.contains(text), "{text:?} is not in\n{message}");
    }
}

/// The line of the message that speaks of this consumer.
#[track_caller]
fn line<'a>(message: &'a str, consumer: &str) -> &'a str {
    let line = message
        .lines()
        .find(|line| line.trim_start().starts_with(consumer));
    line.unwrap_or_else(|| panic!("{consumer} is not in\n{message}"))
}

/// The panic of a helper, and the line that called it.
macro_rules! failure {
    ($call:expr) => {
        (caught(|| $call), line!())
    };
}

#[test]
fn a_failure_points_at_the_line_that_asserted() {
    let snapshot = scene().counting.snapshot();
    let failures = [
        failure!(snapshot.assert_acquires_at_most(3)),
        failure!(snapshot.assert_nothing_denied()),
        failure!(snapshot.assert_everything_released()),
        failure!(snapshot.assert_every_consumer_spillable()),
    ];
    for (panic, line) in failures {
        assert_eq!(panic.at, (file!().to_owned(), line), "{}", panic.message);
        // And none of them leaves out which pool it judged.
        says(&panic.message, &["\"shared\""]);
    }
}

#[test]
fn a_lookup_that_fails_points_at_the_line_that_looked() {
    let snapshot = scene().counting.snapshot();
    for (panic, line) in [
        failure!(snapshot.operator("Scan")),
        failure!(snapshot.consumer("Scan")),
    ] {
        assert_eq!(panic.at, (file!().to_owned(), line), "{}", panic.message);
        says(&panic.message, &["\"shared\""]);
    }
}

#[test]
fn acquires_at_most_counts_every_acquire() {
    let scene = scene();
    let snapshot = scene.counting.snapshot();
    // 17, 1, 1 and a denied one.
    snapshot.assert_acquires_at_most(20);
    snapshot.assert_acquires_at_most(u64::MAX);
    let message = caught(|| snapshot.assert_acquires_at_most(19)).message;
    says(&message, &["19", "20"]);
    says(
        line(&message, "Sort[0]"),
        &["18", "17 of 123 bytes", "1 of 4321 bytes"],
    );
    says(line(&message, "Sort[1]"), &["1 of 1000 bytes"]);
    says(line(&message, "Join (a < b)"), &["1 of 8765 bytes"]);

    // Those that never asked are told apart from those that did.
    register(&scene.pool, "Idle");
    let message = caught(|| scene.counting.snapshot().assert_acquires_at_most(0)).message;
    says(message.lines().last().unwrap(), &["Idle"]);
}

#[test]
fn nothing_denied_says_who_was_and_who_held_the_memory() {
    let scene = scene();
    let message = caught(|| scene.counting.snapshot().assert_nothing_denied()).message;
    says(message.lines().next().unwrap(), &["1", "4321 bytes"]);
    says(line(&message, "Sort[0]"), &["1 of 18", "4321 bytes"]);
    // Both held memory at that moment.
    says(&message, &["Sort[1]", "Join (a < b)"]);
    says(line(&message, "denial 1"), &["Sort[0]#", "4.2 KB"]);
    says(line(&message, "8.6 KB"), &["Join (a < b)#"]);
    says(line(&message, "1000.0 B"), &["Sort[1]#"]);

    let (counting, pool) = support::counting(GreedyMemoryPool::new(10));
    counting.snapshot().assert_nothing_denied();
    register(&pool, "a").grow(11);
    counting.snapshot().assert_nothing_denied();
    // An interval without a denial has none.
    let before = scene.counting.snapshot();
    scene.join.free();
    scene
        .counting
        .snapshot()
        .since(&before)
        .assert_nothing_denied();
}

#[test]
fn everything_released_says_who_holds_how_much() {
    let scene = scene();
    let message = caught(|| scene.counting.snapshot().assert_everything_released()).message;
    // 17 times 123, 1,000 and 8,765 acquired.
    says(
        message.lines().next().unwrap(),
        &["8765 bytes", "11856 acquired", "3091 released"],
    );
    says(line(&message, "Join (a < b)"), &["8765 bytes held"]);
    says(message.lines().last().unwrap(), &["Sort[0]", "Sort[1]"]);

    let Scene {
        counting,
        sorts,
        join,
        ..
    } = scene;
    join.free();
    counting.snapshot().assert_everything_released();
    drop((sorts, join));
    counting.snapshot().assert_everything_released();
    // What was over-released was never held.
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let a = register(&pool, "a");
    a.grow(10);
    pool.shrink(&a, 20);
    counting.snapshot().assert_everything_released();
}

#[test]
fn what_was_acquired_before_an_interval_may_be_released_in_it() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let a = register(&pool, "a");
    a.grow(100);
    let before = counting.snapshot();
    a.shrink(100);
    counting
        .snapshot()
        .since(&before)
        .assert_everything_released();
    // But not what is still held at its end.
    a.grow(5);
    let message = caught(|| {
        counting
            .snapshot()
            .since(&before)
            .assert_everything_released()
    })
    .message;
    says(line(&message, "a:"), &["5 bytes held"]);
}

#[test]
fn what_a_consumer_that_has_gone_left_behind_is_not_released() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let a = register(&pool, "a");
    pool.grow(&a, 77);
    drop(a);
    let message = caught(|| counting.snapshot().assert_everything_released()).message;
    says(line(&message, "a:"), &["77 bytes held", "0 of 1"]);
}

#[test]
fn every_consumer_spillable_says_who_is_not() {
    let scene = scene();
    let message = caught(|| scene.counting.snapshot().assert_every_consumer_spillable()).message;
    says(message.lines().next().unwrap(), &["1 of 3"]);
    says(line(&message, "Join (a < b)"), &["1 of 1"]);
    says(message.lines().last().unwrap(), &["Sort[0]", "Sort[1]"]);

    // Gone or not, and of a name that both kinds have.
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    drop(register_spillable(&pool, "a"));
    counting.snapshot().assert_every_consumer_spillable();
    let _b = register_spillable(&pool, "b");
    counting.snapshot().assert_every_consumer_spillable();
    drop(register(&pool, "a"));
    let message = caught(|| counting.snapshot().assert_every_consumer_spillable()).message;
    says(line(&message, "a:"), &["1 of 2"]);
}

/// A test whose operator never ran should not pass.
#[test]
fn of_nobody_it_cannot_be_said_that_they_spill() {
    let (counting, _) = support::counting(UnboundedMemoryPool::default());
    caught(|| counting.snapshot().assert_every_consumer_spillable());
}

#[test]
fn a_lookup_that_fails_lists_what_there_is() {
    let snapshot = scene().counting.snapshot();
    let message = caught(|| snapshot.operator("Sorter")).message;
    says(&message, &["\"Sorter\"", "\"Sort\"", "\"Join\""]);
    let message = caught(|| snapshot.consumer("Sort")).message;
    says(&message, &["\"Sort\"", "operator(\"Sort\")"]);
    let message = caught(|| snapshot.consumer("Sort[2]")).message;
    says(
        &message,
        &[
            "\"Sort[2]\"",
            "\"Sort[0]\"",
            "\"Sort[1]\"",
            "\"Join (a < b)\"",
        ],
    );
    assert_eq!(snapshot.get_operator("Sorter"), None);
    assert_eq!(snapshot.get_consumer("Sort"), None);

    // They find what there is, gone or not.
    assert_eq!(snapshot.operator("Sort").acquires.calls, 19);
    assert_eq!(
        snapshot.get_operator("Sort"),
        Some(snapshot.operator("Sort"))
    );
    assert_eq!(snapshot.consumer("Sort[0]").acquires.calls, 18);
    assert_eq!(
        snapshot.get_consumer("Sort[0]"),
        Some(snapshot.consumer("Sort[0]"))
    );

    let (empty, _) = support::counting(UnboundedMemoryPool::default());
    let message = caught(|| empty.snapshot().operator("Sort")).message;
    says(&message, &["\"Sort\"", "nobody"]);
}

#[test]
fn the_guiltiest_are_named_however_many_there_are() {
    let (counting, pool) = support::counting(GreedyMemoryPool::new(100_000));
    let consumers: Vec<_> = (0..500)
        .map(|i| register(&pool, &format!("c{i}")))
        .collect();
    for consumer in &consumers {
        consumer.grow(10);
    }
    let guilty = &consumers[499];
    guilty.grow(80_000);
    for _ in 0..3 {
        guilty.try_grow(50_000).unwrap_err();
    }
    for consumer in &consumers[..100] {
        consumer.try_grow(60_000).unwrap_err();
    }
    let snapshot = counting.snapshot();
    for assert in [
        Snapshot::assert_everything_released,
        Snapshot::assert_nothing_denied,
        |snapshot: &Snapshot| snapshot.assert_acquires_at_most(1),
    ] {
        let message = caught(|| assert(&snapshot)).message;
        // First of all rows.
        says(message.lines().nth(1).unwrap(), &["c499"]);
        assert!(message.lines().count() < 50, "{message}");
    }
}
