//! What reaches Spark, in which order, and what happens where Spark does not do as asked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use datafusion_common::{DataFusionError, exec_datafusion_err, exec_err};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool};

use crate::scripted::{Acquire, Release, Scripted};
use crate::watchdog::watched;
use crate::{fair, greedy, refusal, register};

/// A point in a scripted call that says that it was reached, and waits to be let go.
fn gate() -> (impl Fn() + Send + Sync + 'static, Receiver<()>, Sender<()>) {
    let (reached, is_reached) = channel();
    let (let_go, go) = channel::<()>();
    let ends = Mutex::new((reached, go));
    let pass = move || {
        let ends = ends.lock().unwrap();
        ends.0.send(()).unwrap();
        // An error is a test that has failed and gone.
        let _ = ends.1.recv();
    };
    (pass, is_reached, let_go)
}

#[test]
fn nothing_but_bytes_reaches_spark() {
    let memory = Arc::new(Scripted::generous());
    let (fair, greedy) = (fair(&memory, 100), greedy(&memory));
    for reservation in [register(&fair, "A"), register(&greedy, "A")] {
        reservation.grow(0);
        reservation.try_grow(0).unwrap();
        reservation.shrink(0);
        reservation.resize(0);
        assert_eq!(reservation.free(), 0);
        drop(reservation.new_empty());
    }
    fair.shrink(&register(&fair, "B"), 0);
    assert_ne!(format!("{fair:?} {fair}"), format!("{greedy:?} {greedy}"));
    assert_eq!(fair.reserved() + greedy.reserved(), 0);
    drop((fair, greedy));
    assert_eq!(memory.take_calls(), []);
}

#[test]
fn spark_is_asked_for_exactly_what_is_needed() {
    let memory = Arc::new(Scripted::generous());
    let (fair, greedy) = (fair(&memory, 100), greedy(&memory));
    for reservation in [register(&fair, "A"), register(&greedy, "A")] {
        reservation.try_grow(60).unwrap();
        reservation.grow(40);
        reservation.shrink(1);
        reservation.try_resize(50).unwrap();
        drop(reservation);
        assert_eq!(
            memory.take_calls(),
            [
                Acquire(60),
                Acquire(40),
                Release(1),
                Release(49),
                Release(50)
            ]
        );
    }
    assert_eq!((fair.reserved(), greedy.reserved()), (0, 0));
}

#[test]
fn a_short_grant_goes_back_and_is_refused() {
    let memory = Arc::new(Scripted::stingy(30));
    let (fair, greedy) = (fair(&memory, 100), greedy(&memory));
    for (reservation, pool) in [
        (register(&fair, "A"), "fair"),
        (register(&greedy, "A"), "greedy"),
    ] {
        assert_eq!(
            refusal(reservation.try_grow(31)),
            format!(
                "{pool}_unified: A asked for 31 bytes, holds 0, and Spark's short grant allowed 30"
            )
        );
        assert_eq!(memory.take_calls(), [Acquire(31), Release(30)]);
        reservation.try_grow(30).unwrap();
        drop(reservation);
        assert_eq!(memory.take_calls(), [Acquire(30), Release(30)]);
    }

    let broke = Arc::new(Scripted::stingy(0));
    let pool = crate::fair(&broke, 100);
    refusal(register(&pool, "A").try_grow(1));
    assert_eq!(broke.take_calls(), [Acquire(1)]);
}

#[test]
fn a_short_grant_stays_charged_until_spark_has_it_back_and_the_rest_does_not() {
    let (pass, reached, let_go) = gate();
    let memory = Arc::new(Scripted::stingy(30).with_release(move |bytes| {
        if bytes == 30 {
            pass();
        }
        Ok(())
    }));
    let pool = fair(&memory, 100);
    let state = Arc::clone(&pool);
    watched(
        move || format!("{state:?}"),
        move || {
            let (a, b) = (register(&pool, "A"), register(&pool, "B"));
            thread::scope(|scope| {
                let short = scope.spawn(|| refusal(a.try_grow(50)));
                reached.recv().unwrap();
                // 30 of the 50 are on their way back. A has 20 left of its share of 50.
                assert_eq!(pool.reserved(), 30);
                assert!(
                    refusal(a.try_grow(21)).contains("holds 30 and is allowed a fair share of 50")
                );
                a.try_grow(20).unwrap();
                b.try_grow(29).unwrap();
                b.try_grow(21).unwrap();
                let c = register(&pool, "C");
                assert!(refusal(c.try_grow(1)).contains("limit of 100, of which 100 are in use"));
                let_go.send(()).unwrap();
                short.join().unwrap();
                c.try_grow(29).unwrap();
            });
            assert_eq!((a.size(), b.size(), pool.reserved()), (20, 50, 70));
        },
    );
}

#[test]
fn a_release_leaves_the_books_after_spark_has_it() {
    let (pass, reached, let_go) = gate();
    let memory = Arc::new(Scripted::generous().with_release(move |_| {
        pass();
        Ok(())
    }));
    let pool = fair(&memory, 100);
    let state = Arc::clone(&pool);
    watched(
        move || format!("{state:?}"),
        move || {
            let a = register(&pool, "A");
            a.try_grow(100).unwrap();
            let b = register(&pool, "B");
            thread::scope(|scope| {
                scope.spawn(|| a.shrink(60));
                reached.recv().unwrap();
                assert_eq!(pool.reserved(), 100);
                assert!(refusal(b.try_grow(50)).contains("limit of 100, of which 100 are in use"));
                // What is on its way cannot be released once more, by nobody.
                assert_eq!(a.size(), 40);
                let twice = catch_unwind(AssertUnwindSafe(|| pool.shrink(&a, 41)));
                assert!(twice.is_err());
                let_go.send(()).unwrap();
            });
            assert_eq!(pool.reserved(), 40);
            b.try_grow(50).unwrap();
            let_go.send(()).unwrap();
            let_go.send(()).unwrap();
            drop((a, b));
            assert_eq!(pool.reserved(), 0);
            let releases = memory
                .take_calls()
                .into_iter()
                .filter(|call| matches!(call, Release(_)));
            assert_eq!(
                releases.collect::<Vec<_>>(),
                [Release(60), Release(40), Release(50)]
            );
        },
    );
}

#[test]
fn nothing_waits_for_a_parked_acquire() {
    let (pass, reached, let_go) = gate();
    let memory = Arc::new(Scripted::new(move |bytes| {
        if bytes == 7 {
            pass();
        }
        Ok(bytes)
    }));
    let pool = fair(&memory, 100);
    let state = Arc::clone(&pool);
    watched(
        move || format!("{state:?}"),
        move || {
            let (a, b) = (register(&pool, "A"), register(&pool, "B"));
            b.try_grow(20).unwrap();
            for infallibly in [true, false] {
                thread::scope(|scope| {
                    scope.spawn(|| {
                        if infallibly {
                            a.grow(7)
                        } else {
                            a.try_grow(7).unwrap()
                        }
                    });
                    reached.recv().unwrap();
                    let before = pool.reserved();
                    assert_eq!(before, a.size() + b.size() + 7);
                    b.shrink(5);
                    b.try_grow(1).unwrap();
                    b.grow(1);
                    let sibling = a.new_empty();
                    sibling.try_grow(2).unwrap();
                    drop((sibling, register(&pool, "C")));
                    assert_eq!(pool.reserved(), before - 3);
                    assert!(format!("{pool} {pool:?}").contains("used"));
                    // Bytes that Spark has not granted yet are not A's to release.
                    let early = catch_unwind(AssertUnwindSafe(|| pool.shrink(&a, a.size() + 1)));
                    assert!(early.is_err());
                    let_go.send(()).unwrap();
                });
            }
            assert_eq!((a.size(), b.size(), pool.reserved()), (14, 14, 28));
        },
    );
}

#[test]
fn an_error_of_spark_comes_out_as_it_is_and_nothing_is_charged() {
    let memory = Arc::new(Scripted::new(|_| exec_err!("no executor")));
    let pool = fair(&memory, 100);
    let a = register(&pool, "A");
    for _ in 0..3 {
        let error = a.try_grow(100).unwrap_err();
        assert!(
            matches!(&error, DataFusionError::Execution(text) if text == "no executor"),
            "{error:?}"
        );
        assert_eq!((pool.reserved(), a.size()), (0, 0));
    }
    assert_eq!(memory.take_calls(), [Acquire(100); 3]);
}

#[test]
fn a_hand_back_that_fails_stays_charged_and_the_refusal_is_the_ordinary_one() {
    let memory =
        Arc::new(Scripted::stingy(30).with_release(|_| Err(exec_datafusion_err!("not today"))));
    let pool = fair(&memory, 100);
    let a = register(&pool, "A");
    assert!(refusal(a.try_grow(50)).contains("Spark's short grant allowed 30"));
    assert_eq!((pool.reserved(), a.size()), (30, 0));
    assert!(refusal(a.try_grow(71)).contains("holds 30"));

    // The same goes for a release: Spark has the bytes until it says otherwise.
    let b = register(&pool, "B");
    b.try_grow(20).unwrap();
    assert_eq!(b.free(), 20);
    assert_eq!(pool.reserved(), 50);
}

#[test]
fn a_panic_in_an_acquire_leaves_no_phantom_bytes() {
    let memory = Arc::new(Scripted::new(|bytes| match bytes {
        13 => panic!("the JVM is gone"),
        _ => Ok(bytes),
    }));
    let (fair, greedy) = (fair(&memory, 100), greedy(&memory));
    for (reservation, pool) in [
        (
            register(&fair, "A"),
            Arc::clone(&fair) as Arc<dyn MemoryPool>,
        ),
        (register(&greedy, "A"), Arc::clone(&greedy) as _),
    ] {
        reservation.try_grow(50).unwrap();
        for infallibly in [true, false] {
            let panicked = catch_unwind(AssertUnwindSafe(|| match infallibly {
                true => reservation.grow(13),
                false => reservation.try_grow(13).unwrap(),
            }));
            assert_eq!(
                panicked.unwrap_err().downcast_ref(),
                Some(&"the JVM is gone")
            );
            assert_eq!((pool.reserved(), reservation.size()), (50, 50));
        }
        reservation.try_grow(50).unwrap();
        assert_eq!(reservation.free(), 100);
        assert_eq!(pool.reserved(), 0);
    }
    assert_eq!((fair.overcommitted(), greedy.overcommitted()), (0, 0));
}

#[test]
fn a_panic_in_a_release_leaves_the_bytes_charged() {
    let memory = Arc::new(Scripted::stingy(30).with_release(|_| panic!("the JVM is gone")));
    let pool = fair(&memory, 100);
    let a = register(&pool, "A");
    a.try_grow(20).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| a.shrink(20))).is_err());
    assert_eq!((pool.reserved(), a.size()), (20, 0));
    assert!(catch_unwind(AssertUnwindSafe(|| a.try_grow(40))).is_err());
    assert_eq!((pool.reserved(), a.size()), (50, 0));
}

#[test]
fn more_than_was_asked_for_is_not_taken_for_granted() {
    let memory = Arc::new(Scripted::new(|bytes| Ok(bytes + 1000)));
    let pool = fair(&memory, 100);
    let a = register(&pool, "A");
    a.try_grow(40).unwrap();
    a.grow(40);
    assert_eq!((pool.reserved(), pool.overcommitted()), (80, 0));
    drop(a);
    assert_eq!(memory.take_calls(), [Acquire(40), Acquire(40), Release(80)]);
}

#[test]
fn to_release_more_than_is_held_panics_and_changes_nothing() {
    let memory = Arc::new(Scripted::generous());
    let (fair, greedy) = (fair(&memory, 100), greedy(&memory));
    for pool in [
        Arc::clone(&fair) as Arc<dyn MemoryPool>,
        Arc::clone(&greedy) as _,
    ] {
        let [a, b] = ["A", "B"].map(|name| MemoryConsumer::new(name).register(&pool));
        a.try_grow(30).unwrap();
        b.try_grow(40).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| pool.shrink(&a, 31))).unwrap_err();
        let message = panicked.downcast_ref::<String>().unwrap();
        assert_eq!(
            message,
            &format!("{}: A cannot release 31 bytes, as it holds 30", pool.name())
        );
        assert_eq!(pool.reserved(), 70);
        assert_eq!(memory.take_calls(), [Acquire(30), Acquire(40)]);
        drop((a, b));
        assert_eq!(pool.reserved(), 0);
        memory.take_calls();
    }
}
