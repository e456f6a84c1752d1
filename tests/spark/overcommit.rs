//! Bytes that were grown into without a grant.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use datafusion_common::exec_err;
use datafusion_execution::memory_pool::MemoryPool;

use crate::scripted::{Acquire, Release, Scripted};
use crate::watchdog::watched;
use crate::{fair, greedy, refusal, register};

/// Grants as much of each request as `budget` says at that time.
fn budgeted(budget: &Arc<AtomicUsize>) -> Arc<Scripted> {
    let budget = Arc::clone(budget);
    Arc::new(Scripted::new(move |bytes| {
        Ok(bytes.min(budget.load(Ordering::Relaxed)))
    }))
}

#[test]
fn grow_takes_a_short_grant_and_remembers_the_rest() {
    let memory = Arc::new(Scripted::stingy(30));
    let (fair, greedy) = (fair(&memory, 10), greedy(&memory));
    for (reservation, overcommitted) in [
        (
            register(&fair, "A"),
            &(|| fair.overcommitted()) as &dyn Fn() -> usize,
        ),
        (register(&greedy, "A"), &(|| greedy.overcommitted())),
    ] {
        // The limit of the fair pool is no obstacle.
        reservation.grow(100);
        assert_eq!((reservation.size(), overcommitted()), (100, 70));
        reservation.grow(20);
        assert_eq!(overcommitted(), 70);
        // 120 were taken, of which Spark has granted 50. Releases repay first.
        reservation.shrink(60);
        assert_eq!(overcommitted(), 10);
        reservation.shrink(25);
        assert_eq!(overcommitted(), 0);
        reservation.shrink(15);
        drop(reservation);
        assert_eq!(
            memory.take_calls(),
            [
                Acquire(100),
                Acquire(20),
                Release(15),
                Release(15),
                Release(20)
            ]
        );
    }
    assert_eq!((fair.reserved(), greedy.reserved()), (0, 0));
}

#[test]
fn try_grow_asks_for_the_overcommit_as_well_all_or_nothing() {
    let budget = Arc::new(AtomicUsize::new(0));
    let memory = budgeted(&budget);
    let pool = fair(&memory, 1000);
    let a = register(&pool, "A");
    a.grow(100);
    assert_eq!(pool.overcommitted(), 100);

    budget.store(109, Ordering::Relaxed);
    let text = refusal(a.try_grow(10));
    assert!(
        text.contains("Spark's short grant allowed 109 for these and 100 overcommitted"),
        "{text}"
    );
    assert_eq!((pool.reserved(), pool.overcommitted()), (100, 100));
    budget.store(110, Ordering::Relaxed);
    a.try_grow(10).unwrap();
    assert_eq!((pool.reserved(), pool.overcommitted()), (110, 0));
    a.try_grow(5).unwrap();
    drop(a);
    assert_eq!(
        memory.take_calls(),
        [
            Acquire(100),
            Acquire(110),
            Release(109),
            Acquire(110),
            Acquire(5),
            Release(115)
        ]
    );
}

#[test]
fn a_try_grow_that_is_granted_the_overcommit_does_not_need_it_where_others_repaid_meanwhile() {
    let (asked, is_asked) = channel();
    let (answer, answers) = channel();
    let ends = Mutex::new((asked, answers));
    let memory = Arc::new(Scripted::new(move |bytes| {
        let ends = ends.lock().unwrap();
        ends.0.send(bytes).unwrap();
        Ok(ends.1.recv().unwrap_or(0))
    }));
    let pool = fair(&memory, 1000);
    let state = Arc::clone(&pool);
    watched(
        move || format!("{state:?}"),
        move || {
            let (a, b) = (register(&pool, "A"), register(&pool, "B"));
            answer.send(40).unwrap();
            a.grow(100);
            assert_eq!((is_asked.recv(), pool.overcommitted()), (Ok(100), 60));

            thread::scope(|scope| {
                let grown = scope.spawn(|| b.try_grow(10));
                assert_eq!(is_asked.recv(), Ok(70));
                a.shrink(45);
                assert_eq!((pool.overcommitted(), pool.reserved()), (15, 65));
                answer.send(70).unwrap();
                grown.join().unwrap().unwrap();
            });
            // Of the 60 for the overcommit, 45 were no longer needed.
            assert_eq!((pool.overcommitted(), pool.reserved()), (0, 65));
            drop((a, b));
            assert_eq!(
                memory.take_calls(),
                [
                    Acquire(100),
                    Acquire(70),
                    Release(45),
                    Release(55),
                    Release(10)
                ]
            );
        },
    );
}

#[test]
fn an_excess_is_charged_until_spark_has_it_back() {
    let (releasing, is_releasing) = channel();
    let (asked, is_asked) = channel();
    let ends = Mutex::new(releasing);
    let answers = Mutex::new(asked);
    let gate = Arc::new(Mutex::new(()));
    let closed = Arc::clone(&gate);
    let acquired = Arc::new(Mutex::new(()));
    let parked = Arc::clone(&acquired);
    let memory = Arc::new(
        Scripted::new(move |bytes| {
            answers.lock().unwrap().send(bytes).unwrap();
            drop(parked.lock());
            Ok(if bytes == 90 { 0 } else { bytes })
        })
        .with_release(move |bytes| {
            ends.lock().unwrap().send(bytes).unwrap();
            drop(closed.lock());
            Ok(())
        }),
    );
    let pool = fair(&memory, 200);
    let state = Arc::clone(&pool);
    watched(
        move || format!("{state:?}"),
        move || {
            let a = register(&pool, "A");
            let b = register(&pool, "B");
            a.grow(90);
            assert_eq!(is_asked.recv(), Ok(90));

            let parks = acquired.lock().unwrap();
            let closes = gate.lock().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| b.try_grow(10).unwrap());
                assert_eq!(is_asked.recv(), Ok(100));
                a.shrink(90);
                drop(parks);
                assert_eq!(is_releasing.recv(), Ok(90));
                assert_eq!((pool.reserved(), b.consumer().name()), (100, "B"));
                assert!(
                    refusal(b.try_grow(1)).contains("holds 100 and is allowed a fair share of 100")
                );
                drop(closes);
            });
            assert_eq!((pool.reserved(), pool.overcommitted()), (10, 0));
        },
    );
}

#[test]
fn where_spark_fails_a_grow_overcommits_all_of_it() {
    let memory = Arc::new(Scripted::new(|_| exec_err!("no executor")));
    let pool = fair(&memory, 100);
    let a = register(&pool, "A");
    a.grow(25);
    assert_eq!((pool.reserved(), pool.overcommitted()), (25, 25));
    assert_eq!(a.free(), 25);
    assert_eq!((pool.reserved(), pool.overcommitted()), (0, 0));
    assert_eq!(memory.take_calls(), [Acquire(25)]);
}

#[test]
fn a_grow_beyond_what_java_can_count_is_overcommitted_without_a_call() {
    let memory = Arc::new(Scripted::generous());
    let (fair, greedy) = (fair(&memory, 100), greedy(&memory));
    for pool in [fair as Arc<dyn MemoryPool>, greedy] {
        let a = datafusion_execution::memory_pool::MemoryConsumer::new("A").register(&pool);
        a.grow(usize::MAX);
        assert_eq!(pool.reserved(), usize::MAX);
        let overflow = catch_unwind(AssertUnwindSafe(|| a.grow(1))).unwrap_err();
        let message = overflow.downcast_ref::<String>().unwrap();
        assert!(message.contains("cannot grow by 1 bytes"), "{message}");
        assert!(refusal(a.try_grow(1)).contains("A asked for 1 bytes"));
        assert_eq!((a.size(), pool.reserved()), (usize::MAX, usize::MAX));
        drop(a);
        assert_eq!(pool.reserved(), 0);
    }
    assert_eq!(memory.take_calls(), []);
}
