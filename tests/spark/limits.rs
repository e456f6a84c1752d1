//! Who may have how much.

use std::sync::Arc;

use datafusion_execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool};

use crate::scripted::{Acquire, Scripted};
use crate::{fair, greedy, refusal, register};

#[test]
fn a_consumer_may_have_its_share_to_the_byte() {
    let memory = Arc::new(Scripted::generous());
    let pool = fair(&memory, 100);
    let (a, _b, c) = (
        register(&pool, "A"),
        register(&pool, "B"),
        register(&pool, "C"),
    );

    a.try_grow(33).unwrap();
    assert_eq!(
        refusal(a.try_grow(1)),
        "fair_unified: A asked for 1 bytes, holds 33 and is allowed a fair share of 33 \
         (100 among 3 registered consumers)"
    );
    // What A has is nothing to C, whose share is its own.
    c.try_grow(33).unwrap();
    assert_eq!(memory.take_calls(), [Acquire(33), Acquire(33)]);
    assert_eq!(pool.reserved(), 66);
}

#[test]
fn siblings_share_one_allowance() {
    let memory = Arc::new(Scripted::generous());
    let pool = fair(&memory, 100);
    let mut first = register(&pool, "A");
    let _other = register(&pool, "B");

    first.try_grow(20).unwrap();
    let second = first.new_empty();
    second.try_grow(20).unwrap();
    let third = first.split(15);
    let fourth = first.take();
    for sibling in [&first, &second, &third, &fourth] {
        assert!(
            refusal(sibling.try_grow(11)).contains("holds 40 and is allowed a fair share of 50")
        );
    }
    fourth.try_grow(10).unwrap();
    assert_eq!(pool.reserved(), 50);

    drop((second, third));
    assert_eq!(pool.reserved(), 15);
    first.try_grow(35).unwrap();
}

#[test]
fn the_pool_has_a_limit_besides_the_shares() {
    let memory = Arc::new(Scripted::generous());
    let pool = fair(&memory, 100);
    let early = register(&pool, "early");
    early.try_grow(90).unwrap();

    // Registering halves the share, and takes nothing away.
    let late = register(&pool, "late");
    assert_eq!((pool.reserved(), early.size()), (90, 90));
    assert_eq!(
        refusal(late.try_grow(20)),
        "fair_unified: late asked for 20 bytes, holds 0, and the pool is allowed a limit of 100, \
         of which 90 are in use"
    );
    late.try_grow(10).unwrap();
    assert!(refusal(early.try_grow(1)).contains("holds 90 and is allowed a fair share of 50"));

    drop(late);
    early.try_grow(10).unwrap();
    assert_eq!(memory.take_calls()[..2], [Acquire(90), Acquire(10)]);
}

#[test]
fn the_three_refusals_read_differently() {
    let memory = Arc::new(Scripted::stingy(10));
    let pool = fair(&memory, 100);
    let a = register(&pool, "A");
    a.grow(80);
    let b = register(&pool, "B");

    let texts = [
        refusal(b.try_grow(51)), // over its share of 50
        refusal(b.try_grow(30)), // 80 + 30 is over 100
        refusal(b.try_grow(15)), // Spark grants 10 of the 15 and of the 70 overcommitted
    ];
    assert!(texts[0].contains("B asked for 51 bytes, holds 0 and is allowed a fair share of 50"));
    assert!(
        texts[1].contains("B asked for 30 bytes, holds 0, and the pool is allowed a limit of 100")
    );
    assert_eq!(
        texts[2],
        "fair_unified: B asked for 15 bytes, holds 0, and Spark's short grant allowed 10 \
         for these and 70 overcommitted before"
    );
}

#[test]
fn a_pool_outside_of_registration_still_keeps_its_limit() {
    let memory = Arc::new(Scripted::generous());
    let pool = fair(&memory, 100);
    // A decorator that forwards no `register` leaves the pool with no consumer.
    let elsewhere = register(&fair(&memory, 0), "A");
    pool.try_grow(&elsewhere, 100).unwrap();
    assert!(refusal(pool.try_grow(&elsewhere, 1)).contains("fair share of 100"));
    pool.shrink(&elsewhere, 100);
    assert_eq!(pool.reserved(), 0);
}

#[test]
fn unregistering_never_panics_and_what_was_left_behind_can_be_released() {
    let memory = Arc::new(Scripted::generous());
    let pool = fair(&memory, 100);
    let consumer = MemoryConsumer::new("A");
    pool.unregister(&consumer);
    pool.register(&consumer);
    pool.register(&consumer);

    let reservation = register(&pool, "B");
    pool.grow(&reservation, 70);
    pool.unregister(reservation.consumer());
    pool.unregister(reservation.consumer());
    assert_eq!(pool.reserved(), 70);
    pool.shrink(&reservation, 70);
    assert_eq!(pool.reserved(), 0);

    pool.unregister(&consumer);
    pool.unregister(&consumer);
    let alone = register(&pool, "C");
    alone.try_grow(100).unwrap();
}

#[test]
fn sums_that_overflow_are_refused_without_a_call() {
    let memory = Arc::new(Scripted::generous());
    let (fair, greedy) = (fair(&memory, usize::MAX), greedy(&memory));
    let (a, b) = (register(&fair, "A"), register(&greedy, "B"));
    for reservation in [&a, &b] {
        let too_large = isize::MAX as usize + 1;
        assert!(
            refusal(reservation.try_grow(usize::MAX))
                .contains("9223372036854775807 can be counted")
        );
        assert!(refusal(reservation.try_grow(too_large)).contains("holds 0"));
        assert_eq!(memory.take_calls(), []);

        reservation.try_grow(10).unwrap();
        for bytes in [usize::MAX, usize::MAX - 9, isize::MAX as usize] {
            refusal(reservation.try_grow(bytes));
        }
        assert_eq!(memory.take_calls(), [Acquire(10)]);
    }
    assert_eq!((fair.reserved(), greedy.reserved()), (10, 10));
}

#[test]
fn limits_names_and_display() {
    let memory = Arc::new(Scripted::generous());
    let (fair, greedy) = (fair(&memory, 64 << 20), greedy(&memory));
    assert!(matches!(
        fair.memory_limit(),
        MemoryLimit::Finite(67_108_864)
    ));
    assert!(matches!(greedy.memory_limit(), MemoryLimit::Unknown));
    assert_eq!(
        (fair.name(), greedy.name()),
        ("fair_unified", "greedy_unified")
    );

    register(&greedy, "A").grow(0);
    let reservation = register(&fair, "A");
    reservation.grow(1 << 20);
    assert_eq!(
        fair.to_string(),
        "fair_unified(used: 1024.0 KB, pool_size: 64.0 MB)"
    );
    assert_eq!(greedy.to_string(), "greedy_unified(used: 0.0 B)");
    assert_eq!(
        format!("{fair:?}"),
        "fair_unified { policy: Fair { pool_size: 67108864 }, consumers: 1, used: 1048576, \
         overcommitted: 0, .. }"
    );
}
