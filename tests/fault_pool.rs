//! The pool that goes wrong on demand.

mod support;

use datafusion_common::{DataFusionError, Result, plan_datafusion_err};
use datafusion_counting_pool::{Fault, FaultPool, PoolMethod, is_resources_exhausted};
use datafusion_execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use support::{CallLog, Event, caught, register};

fn faulty(wrap: impl FnOnce(FaultPool) -> FaultPool) -> (Arc<FaultPool>, Arc<dyn MemoryPool>) {
    let inner = Arc::new(UnboundedMemoryPool::default());
    let faulty = Arc::new(wrap(FaultPool::new(inner)));
    let pool = Arc::clone(&faulty) as _;
    (faulty, pool)
}

/// One acquire of 8 bytes after the other: `.` is granted, `d` denied, `f` failed, `p` panicked.
fn acquire(reservation: &MemoryReservation, times: usize) -> String {
    let try_grow = || reservation.try_grow(8);
    (0..times)
        .map(|_| match support::quietly(try_grow) {
            Ok(Ok(())) => '.',
            Ok(Err(error)) if is_resources_exhausted(&error) => 'd',
            Ok(Err(_)) => 'f',
            Err(_) => 'p',
        })
        .collect()
}

#[test]
fn the_calls_of_one_s_choice_go_wrong_and_no_others() {
    for (pool, expected) in [
        (faulty(|pool| pool), "......"),
        (faulty(|pool| pool.deny_nth(1)), "d....."),
        (faulty(|pool| pool.deny_nth(3)), "..d..."),
        (faulty(|pool| pool.fail_nth(2)), ".f...."),
        (faulty(|pool| pool.panic_nth(6)), ".....p"),
        (
            faulty(|pool| pool.deny_nth(5).fail_nth(2).panic_nth(3).deny_nth(4)),
            ".fpdd.",
        ),
        // The first rule decides.
        (
            faulty(|pool| pool.fail_nth(1).deny_nth(1).panic_nth(1)),
            "f.....",
        ),
        // Numbers begin at 1.
        (faulty(|pool| pool.deny_nth(0)), "......"),
    ] {
        let (faulty, pool) = pool;
        let reservation = register(&pool, "a");
        assert_eq!(acquire(&reservation, 6), expected);
        // What went wrong did not reach the wrapped pool.
        let granted = expected.matches('.').count();
        assert_eq!(pool.reserved(), 8 * granted);
        assert_eq!(reservation.size(), 8 * granted);
        assert_eq!((faulty.acquires(), faulty.releases()), (6, 0));
    }
}

#[test]
fn a_second_pool_goes_wrong_in_the_same_places() {
    let chosen = |pool: FaultPool| {
        pool.with_fault(|call| (call.number % 3 == call.bytes as u64 % 2).then_some(Fault::Deny))
    };
    let runs = [faulty(chosen), faulty(chosen)].map(|(_, pool)| {
        let reservation = register(&pool, "a");
        acquire(&reservation, 30)
    });
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0].matches('d').count(), 10);
}

#[test]
fn acquires_are_numbered_together_and_releases_apart() {
    let (faulty, pool) = faulty(|pool| pool.deny_nth(4).panic_nth_release(2));
    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    a.grow(10);
    b.try_grow(10).unwrap();
    a.shrink(5);
    b.grow(10);
    a.try_grow(10).unwrap_err();
    caught(|| a.shrink(5));
    b.free();
    assert_eq!((faulty.acquires(), faulty.releases()), (4, 3));
}

#[test]
fn calls_of_zero_bytes_have_no_number_and_never_go_wrong() {
    let log = CallLog::default();
    let calls = log.calls();
    let faulty = Arc::new(FaultPool::new(Arc::new(log)).with_fault(|_| Some(Fault::Panic)));
    let pool: Arc<dyn MemoryPool> = faulty.clone();
    let a = register(&pool, "a");
    a.grow(0);
    a.try_grow(0).unwrap();
    a.shrink(0);
    assert_eq!((faulty.acquires(), faulty.releases()), (0, 0));
    assert_eq!(calls.lock().unwrap().len(), 4);
}

#[test]
fn what_has_no_error_to_give_goes_on_to_the_wrapped_pool() {
    let (_, pool) = faulty(|pool| {
        pool.with_fault(|call| {
            Some(match call.number {
                1 => Fault::Deny,
                _ => Fault::Fail(plan_datafusion_err!("no")),
            })
        })
    });
    let a = register(&pool, "a");
    a.grow(10);
    a.grow(20);
    assert_eq!(pool.reserved(), 30);
    a.shrink(1);
    a.shrink(2);
    assert_eq!(pool.reserved(), 27);
    // `try_grow` has.
    a.try_grow(40).unwrap_err();
    assert_eq!(pool.reserved(), 27);
}

#[test]
fn texts_say_which_call_it_was() {
    let (_, pool) = faulty(|pool| {
        pool.deny_nth(1)
            .fail_nth(2)
            .panic_nth(3)
            .panic_nth_release(1)
    });
    let a = register(&pool, "ExternalSorter[0]");
    let who = format!("ExternalSorter[0]#{}", a.consumer().id());
    let denied = a.try_grow(64).unwrap_err();
    assert_eq!(
        denied.strip_backtrace(),
        format!(
            "Resources exhausted: FaultPool denied acquire 1, a try_grow of 64 bytes for {who}"
        )
    );
    let failed = a.try_grow(65).unwrap_err();
    assert!(matches!(failed, DataFusionError::Execution(_)));
    assert_eq!(
        failed.strip_backtrace(),
        format!("Execution error: FaultPool failed acquire 2, a try_grow of 65 bytes for {who}")
    );
    assert_eq!(
        caught(|| a.grow(66)).message,
        format!("FaultPool panicked in acquire 3, a grow of 66 bytes for {who}")
    );
    assert_eq!(
        caught(|| pool.shrink(&a, 67)).message,
        format!("FaultPool panicked in release 1, a shrink of 67 bytes for {who}")
    );
}

#[test]
fn a_closure_sees_every_call_and_chooses_the_error() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let (_, pool) = faulty(|pool| {
        pool.with_fault(move |call| {
            let consumer = call.reservation.consumer().name().to_owned();
            let size = call.reservation.size();
            notes
                .lock()
                .unwrap()
                .push((consumer, call.method, call.number, call.bytes, size));
            (call.bytes == 13).then(|| Fault::Fail(plan_datafusion_err!("unlucky")))
        })
    });
    let (a, b) = (register(&pool, "a"), register(&pool, "b"));
    a.grow(10);
    b.try_grow(20).unwrap();
    assert!(matches!(a.try_grow(13), Err(DataFusionError::Plan(_))));
    a.shrink(4);
    drop(b);
    let (a, b) = ("a".to_owned(), "b".to_owned());
    assert_eq!(
        *seen.lock().unwrap(),
        [
            (a.clone(), PoolMethod::Grow, 1, 10, 0),
            (b.clone(), PoolMethod::TryGrow, 2, 20, 0),
            (a.clone(), PoolMethod::TryGrow, 3, 13, 10),
            // The size after.
            (a, PoolMethod::Shrink, 1, 4, 6),
            (b, PoolMethod::Shrink, 2, 20, 0),
        ]
    );
}

#[test]
fn a_parked_call_waits_and_others_pass() {
    let inner = Arc::new(UnboundedMemoryPool::default());
    let (pool, parked) = FaultPool::new(inner).park_nth(2);
    let (pool, released) = pool.park_nth_release(1);
    let pool: Arc<dyn MemoryPool> = Arc::new(pool);
    let (slow, quick) = (register(&pool, "slow"), register(&pool, "quick"));
    slow.grow(1);
    thread::scope(|scope| {
        scope.spawn(|| slow.grow(10));
        parked.wait();
        // It stays where it is, and a second look finds it there.
        parked.wait();
        assert_eq!(pool.reserved(), 1);
        quick.try_grow(100).unwrap();
        assert_eq!(pool.reserved(), 101);
        parked.let_go();
    });
    assert_eq!(pool.reserved(), 111);

    thread::scope(|scope| {
        scope.spawn(|| slow.free());
        released.wait();
        assert_eq!(pool.reserved(), 111);
        quick.free();
        assert_eq!(pool.reserved(), 11);
        released.let_go();
    });
    assert_eq!(pool.reserved(), 0);
}

#[test]
fn dropping_the_handle_lets_the_call_go() {
    let inner = Arc::new(UnboundedMemoryPool::default());
    let (pool, parked) = FaultPool::new(inner).park_nth(1);
    let pool: Arc<dyn MemoryPool> = Arc::new(pool);
    let a = register(&pool, "a");
    // As a test that fails would: the scope waits for the thread before the panic goes on.
    support::quietly(|| {
        thread::scope(|scope| {
            scope.spawn(|| a.grow(10));
            let parked = parked;
            parked.wait();
            panic!("the test fails");
        })
    })
    .unwrap_err();
    assert_eq!(pool.reserved(), 10);

    // Where it has gone before the call comes, nothing is parked.
    let inner = Arc::new(UnboundedMemoryPool::default());
    let (pool, parked) = FaultPool::new(inner).park_nth(1);
    parked.let_go();
    let pool: Arc<dyn MemoryPool> = Arc::new(pool);
    register(&pool, "a").grow(10);
}

#[test]
fn a_parked_call_may_go_wrong_afterwards() {
    let inner = Arc::new(UnboundedMemoryPool::default());
    let (pool, parked) = FaultPool::new(inner).park_nth(1);
    let pool: Arc<dyn MemoryPool> = Arc::new(pool.deny_nth(1));
    let a = register(&pool, "a");
    let result: Result<()> = thread::scope(|scope| {
        let call = scope.spawn(|| a.try_grow(10));
        parked.wait();
        parked.let_go();
        call.join().unwrap()
    });
    assert!(is_resources_exhausted(&result.unwrap_err()));
}

#[test]
fn a_closure_chooses_who_is_parked() {
    let inner = Arc::new(UnboundedMemoryPool::default());
    let (pool, parked) =
        FaultPool::new(inner).park_when(|call| call.reservation.consumer().name() == "slow");
    let pool: Arc<dyn MemoryPool> = Arc::new(pool);
    let (slow, quick) = (register(&pool, "slow"), register(&pool, "quick"));
    let also_slow = slow.new_empty();
    thread::scope(|scope| {
        scope.spawn(|| slow.grow(1));
        parked.wait();
        scope.spawn(|| also_slow.grow(2));
        quick.grow(10);
        quick.shrink(5);
        assert_eq!(pool.reserved(), 5);
        parked.let_go();
    });
    assert_eq!(pool.reserved(), 8);
}

#[test]
fn a_wait_that_came_first_is_woken() {
    let inner = Arc::new(UnboundedMemoryPool::default());
    let (pool, parked) = FaultPool::new(inner).park_nth(1);
    let pool: Arc<dyn MemoryPool> = Arc::new(pool);
    let a = register(&pool, "a");
    let (about_to_wait, let_go) = (Event::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            about_to_wait.set();
            parked.wait();
            let_go.store(true, SeqCst);
            parked.let_go();
        });
        about_to_wait.wait();
        a.grow(10);
        assert!(let_go.load(SeqCst));
    });
}

#[test]
fn it_can_be_looked_at() {
    let (faulty, pool) = faulty(|pool| pool.deny_nth(1));
    register(&pool, "a").try_grow(10).unwrap_err();
    assert_eq!(
        format!("{faulty:?}"),
        "FaultPool { inner: UnboundedMemoryPool { used: 0 }, rules: 1, acquires: 1, releases: 0 }"
    );
    assert_eq!(faulty.inner().to_string(), pool.to_string());
    assert_eq!(pool.name(), "unbounded");
}
