//! Waiting until everything is released, and saying what was not.

mod support;

use datafusion_counting_pool::CountingPool;
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use futures::executor::block_on;
use futures::future::{join, poll_fn};
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, Once};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use support::{Event, caught, register, shared};

/// Longer than any test: whoever waits that long was not woken.
const LONG: Duration = Duration::from_secs(3_600);

/// A future that tells when `inner` has been polled and was not ready.
async fn telling<F: Future>(inner: F, waits: &Event) -> F::Output {
    let mut inner = pin!(inner);
    poll_fn(|cx| {
        let poll = inner.as_mut().poll(cx);
        if poll.is_pending() {
            waits.set();
        }
        poll
    })
    .await
}

#[test]
fn a_release_in_another_thread_wakes_the_future() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let a = register(&pool, "a");
    a.grow(64);
    let waits = Event::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            waits.wait();
            drop(a);
        });
        block_on(telling(counting.released_within(LONG), &waits)).unwrap();
    });
    counting.snapshot().assert_everything_released();
}

/// On one thread: a future that blocked it would wait for ever.
#[test]
fn a_release_by_another_task_of_the_same_thread_wakes_the_future() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    a.grow(64);
    b.grow(64);
    let mut steps = 0;
    let task = poll_fn(|cx| {
        // Polled after the other, which waits by then; and once more for each.
        steps += 1;
        match steps {
            1 => a.shrink(32),
            2 => drop(b.free()),
            3 => drop(a.free()),
            _ => return Poll::Ready(()),
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    let (released, ()) = block_on(join(counting.released_within(LONG), task));
    released.unwrap();
}

#[test]
fn where_nothing_is_held_nobody_waits() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    block_on(counting.released_within(Duration::ZERO)).unwrap();
    counting.released_within_blocking(Duration::ZERO).unwrap();
    let a = register(&pool, "a");
    a.grow(64);
    a.free();
    // The consumer may stay; only its memory has to go.
    block_on(counting.released_within(Duration::ZERO)).unwrap();
    counting.released_within_blocking(Duration::ZERO).unwrap();
    // What it gave back too much is no one's.
    pool.shrink(&a, 5);
    block_on(counting.released_within(LONG)).unwrap();
}

#[test]
fn a_deadline_may_be_as_long_as_one_likes() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let waits = Event::default();
    for blocking in [false, true] {
        let a = register(&pool, "a");
        a.grow(64);
        thread::scope(|scope| {
            scope.spawn(|| {
                if !blocking {
                    waits.wait();
                }
                drop(a);
            });
            if blocking {
                counting.released_within_blocking(Duration::MAX).unwrap();
            } else {
                let wait = counting.released_within(Duration::MAX);
                block_on(telling(wait, &waits)).unwrap();
            }
        });
    }
}

#[test]
fn several_wait_and_all_are_woken() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let a = register(&pool, "a");
    a.grow(64);
    let waits: Vec<Event> = (0..4).map(|_| Event::default()).collect();
    thread::scope(|scope| {
        for waits in &waits {
            let counting = &counting;
            scope.spawn(move || {
                block_on(telling(counting.released_within(LONG), waits)).unwrap();
            });
            scope.spawn(|| counting.released_within_blocking(LONG).unwrap());
        }
        waits.iter().for_each(Event::wait);
        a.free();
    });
}

/// The release and the wait race for each other, over and over: no wake-up may be lost.
#[test]
fn no_release_is_missed() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let names = ["a", "b"];
    for round in 0..2_000 {
        let held = names.map(|name| {
            let reservation = register(&pool, name);
            reservation.grow(64);
            reservation
        });
        thread::scope(|scope| {
            for reservation in held {
                scope.spawn(move || drop(reservation));
            }
            if round % 2 == 0 {
                block_on(counting.released_within(LONG)).unwrap();
            } else {
                counting.released_within_blocking(LONG).unwrap();
            }
        });
    }
}

#[test]
fn a_future_that_is_dropped_leaves_nothing_behind() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let a = register(&pool, "a");
    a.grow(64);
    for _ in 0..3 {
        let mut wait = Box::pin(counting.released_within(LONG));
        block_on(poll_fn(|cx| {
            assert!(wait.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        }));
    }
    a.free();
    block_on(counting.released_within(LONG)).unwrap();
}

#[test]
fn what_is_still_held_at_the_deadline_is_said() {
    let inner = Arc::new(GreedyMemoryPool::new(1_000));
    let (counting, pool) = shared(CountingPool::new(inner).with_name("shared"));
    let (a, b) = (register(&pool, "Sort[0]"), register(&pool, "Join (a < b)"));
    a.grow(123);
    b.grow(77);
    b.free();
    let soon = Duration::from_millis(1);
    let errors = [
        block_on(counting.released_within(soon)).unwrap_err(),
        counting.released_within_blocking(soon).unwrap_err(),
        block_on(counting.released_within(Duration::ZERO)).unwrap_err(),
        counting
            .released_within_blocking(Duration::ZERO)
            .unwrap_err(),
    ];
    for error in errors {
        let message = error.to_string();
        for text in ["123 bytes", "Sort[0]", "Join (a < b)", "\"shared\""] {
            assert!(message.contains(text), "{text} is not in\n{message}");
        }
        assert_eq!(error.snapshot().total.reserved_bytes, 123);
        assert_eq!(*error.snapshot(), counting.snapshot());
    }
    let message = block_on(counting.released_within(soon))
        .unwrap_err()
        .to_string();
    assert!(message.contains("1ms"), "{message}");
}

#[test]
fn an_unwrap_says_it_as_well() {
    let (counting, pool) = support::counting(UnboundedMemoryPool::default());
    let a = register(&pool, "Sort[0]");
    a.grow(123);
    let panic = caught(|| counting.released_within_blocking(Duration::ZERO).unwrap());
    let error = counting
        .released_within_blocking(Duration::ZERO)
        .unwrap_err();
    assert!(
        panic.message.contains(&error.to_string()),
        "{}",
        panic.message
    );
    assert!(panic.message.len() < 500, "{}", panic.message);
}

// What goes through `log`. The logger is the process's, so each test has a pool name of its own.

struct Lines(Mutex<Vec<(Level, String)>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("datafusion_counting_pool")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = (record.level(), record.args().to_string());
            self.0.lock().unwrap().push(line);
        }
    }

    fn flush(&self) {}
}

/// What was logged of this pool.
fn logged(pool_name: &str) -> Vec<(Level, String)> {
    let lines = LINES.0.lock().unwrap();
    let of_pool = |line: &&(Level, String)| line.1.contains(pool_name);
    lines.iter().filter(of_pool).cloned().collect()
}

fn logging(pool_name: &str) -> (Arc<CountingPool>, Arc<dyn MemoryPool>) {
    static LOGGER: Once = Once::new();
    LOGGER.call_once(|| {
        log::set_logger(&LINES).unwrap();
        log::set_max_level(LevelFilter::Debug);
    });
    let inner = Arc::new(UnboundedMemoryPool::default());
    shared(CountingPool::new(inner).with_name(pool_name))
}

#[test]
fn a_forgotten_reservation_is_said_once_when_the_guard_goes() {
    let (counting, pool) = logging("forgotten");
    {
        let _check = counting.leak_check();
        let forgotten = register(&pool, "Sort[0]");
        forgotten.try_grow(100).unwrap();
        std::mem::forget(forgotten);
        let released = register(&pool, "Join (a < b)");
        released.grow(50);
        drop(released);
        assert!(logged("forgotten").is_empty());
    }
    let [(level, message)] = &logged("forgotten")[..] else {
        panic!("{:?}", logged("forgotten"))
    };
    assert_eq!(*level, Level::Warn);
    for text in ["100 bytes", "Sort[0]", "150 acquired", "50 released"] {
        assert!(message.contains(text), "{text} is not in\n{message}");
    }
    // The forgotten reservation keeps the pool alive, so that nothing else would have said it.
    let alive = Arc::downgrade(&counting);
    drop((counting, pool));
    assert!(alive.upgrade().is_some());
}

#[test]
fn where_everything_was_released_the_guard_says_nothing() {
    let (counting, pool) = logging("tidy");
    {
        let check = counting.leak_check();
        let a = register(&pool, "a");
        a.grow(100);
        assert!(check.message().unwrap().contains("100 bytes"));
        drop(a);
        assert_eq!(check.message(), None);
    }
    assert_eq!(logged("tidy"), []);
}

/// The guard says what it has to say while a panic unwinds, and does not make it worse.
#[test]
fn the_guard_keeps_calm_in_a_panic() {
    let (counting, pool) = logging("panicking");
    let a = register(&pool, "a");
    let panic = caught(|| {
        let _check = counting.leak_check();
        a.grow(100);
        panic!("the test fails");
    });
    assert_eq!(panic.message, "the test fails");
    assert_eq!(logged("panicking").len(), 1);
}

#[test]
fn a_consumer_that_goes_and_leaves_bytes_behind_is_said() {
    let (_counting, pool) = logging("left behind");
    let a = register(&pool, "Sort[0]");
    a.grow(10);
    pool.grow(&a, 32);
    drop(a);
    let [(level, message)] = &logged("left behind")[..] else {
        panic!("{:?}", logged("left behind"))
    };
    assert_eq!(*level, Level::Warn);
    assert!(
        message.contains("Sort[0]#") && message.contains("32 bytes"),
        "{message}"
    );

    // Who leaves nothing behind is not mentioned.
    let a = register(&pool, "Join (a < b)");
    a.grow(10);
    drop(a);
    assert_eq!(logged("left behind").len(), 1);
}

#[test]
fn a_pool_that_saw_a_call_says_its_summary_when_it_goes() {
    let (counting, pool) = logging("summary");
    register(&pool, "a").grow(64);
    let summary = counting.snapshot().summary();
    assert!(logged("summary").is_empty());
    drop((counting, pool));
    assert_eq!(logged("summary"), [(Level::Debug, summary)]);

    // One that saw none says nothing.
    drop(logging("no calls at all"));
    assert_eq!(logged("no calls at all"), []);
}
