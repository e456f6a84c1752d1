//! The steps of the pools, in every order in which threads can take them.
//!
//! The pools' own sources are compiled here once more, over the lock of a model checker.

#[path = "../../../../src/spark/ledger.rs"]
#[expect(dead_code, reason = "the pools' display needs more of it")]
mod ledger;
#[path = "../../../../src/spark/refusal.rs"]
#[expect(dead_code, reason = "nobody reads the words")]
mod refusal;
#[path = "../../../../src/spark/unified.rs"]
mod unified;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use datafusion_common::Result;
use datafusion_counting_pool::spark::TaskMemory;
use loom::sync::Condvar;
use loom::thread;

use ledger::{Ledger, Policy};
use unified::{GrowError, Locked, Unified};

const MAX_REQUEST: usize = isize::MAX as usize;

type Checked = loom::sync::Mutex<Ledger>;
type Pool = Arc<Unified<Checked>>;

impl Locked for Checked {
    fn new(ledger: Ledger) -> Self {
        Self::new(ledger)
    }

    fn with<R>(&self, step: impl FnOnce(&mut Ledger) -> R) -> R {
        // Locking is where the checker may let another thread go first. The step itself is not
        // interrupted.
        step(&mut self.lock().unwrap())
    }
}

/// Grants what is left of a limit, and panics where it gets back more than it granted.
#[derive(Debug)]
struct Spark {
    limit: usize,
    parks: bool,
    /// Changed under `lock` only. A step of the ledger's reads it, and must not be interrupted.
    held: Mutex<usize>,
    lock: loom::sync::Mutex<()>,
    released: Condvar,
}

impl Spark {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self::build(limit, false))
    }

    /// One that parks an acquire until it can be had in full.
    fn parking(limit: usize) -> Arc<Self> {
        Arc::new(Self::build(limit, true))
    }

    fn build(limit: usize, parks: bool) -> Self {
        Self {
            limit,
            parks,
            held: Mutex::new(0),
            lock: loom::sync::Mutex::new(()),
            released: Condvar::new(),
        }
    }

    fn held(&self) -> usize {
        *self.held.lock().unwrap()
    }
}

impl TaskMemory for Spark {
    fn acquire(&self, bytes: usize) -> Result<usize> {
        let mut lock = self.lock.lock().unwrap();
        while self.parks && bytes > self.limit - self.held() {
            lock = self.released.wait(lock).unwrap();
        }
        let granted = bytes.min(self.limit - self.held());
        *self.held.lock().unwrap() += granted;
        drop(lock);
        Ok(granted)
    }

    fn release(&self, bytes: usize) -> Result<()> {
        let lock = self.lock.lock().unwrap();
        let rest = self.held().checked_sub(bytes);
        *self.held.lock().unwrap() = rest.expect("no more is released than was granted");
        drop(lock);
        self.released.notify_all();
        Ok(())
    }
}

fn fair(spark: &Arc<Spark>, pool_size: usize) -> Pool {
    let pool = Unified::new(Arc::clone(spark) as _, Policy::Fair { pool_size });
    Arc::new(pool)
}

/// Runs all of `threads`, and checks that nothing is left anywhere when they have ended.
fn run(spark: &Arc<Spark>, pool: &Pool, threads: Vec<Box<dyn FnOnce() + Send>>) {
    at_once(threads);
    let books = pool.with(|ledger| (ledger.charged(), ledger.overcommitted()));
    assert_eq!((books, spark.held()), ((0, 0), 0));
}

fn at_once(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Acquires and releases if it can, and else makes sure that it was refused.
fn try_grow_and_shrink(pool: &Pool, consumer: usize, bytes: usize) -> bool {
    match pool.try_grow(consumer, bytes) {
        Ok(()) => {
            pool.shrink(consumer, bytes).unwrap();
            true
        }
        Err(GrowError::Refused(refusal)) => {
            assert!(refusal.to_string().contains("holds"));
            false
        }
        Err(GrowError::Failed(error)) => panic!("{error}"),
    }
}

macro_rules! thread_of {
    ($pool:ident => $body:expr) => {{
        let $pool = Arc::clone(&$pool);
        Box::new(move || $body) as Box<dyn FnOnce() + Send>
    }};
}

fn a_short_grant_beside_a_full_one() {
    // Two ask for more together than Spark has: one of them may be short.
    let spark = Spark::new(3);
    let pool = fair(&spark, 10);
    let threads = vec![
        thread_of!(pool => { try_grow_and_shrink(&pool, 1, 2); }),
        thread_of!(pool => { try_grow_and_shrink(&pool, 2, 2); }),
    ];
    run(&spark, &pool, threads);
}

fn siblings_in_one_share() {
    // Two reservations of one consumer ask for more together than its share.
    let spark = Spark::new(10);
    let pool = fair(&spark, 3);
    pool.with(|ledger| ledger.register(1));
    let threads = vec![
        thread_of!(pool => {
            try_grow_and_shrink(&pool, 1, 2);
            assert!(pool.with(|ledger| ledger.charged()) <= 3);
        }),
        thread_of!(pool => { try_grow_and_shrink(&pool, 1, 2); }),
    ];
    run(&spark, &pool, threads);
}

fn a_release_repays_what_a_try_grow_asks_for() {
    // 2 of 4 are overcommitted.
    let spark = Spark::new(2);
    let pool = fair(&spark, 100);
    pool.grow(1, 4);
    let threads = vec![
        thread_of!(pool => {
            pool.shrink(1, 3).unwrap();
            pool.shrink(1, 1).unwrap();
        }),
        thread_of!(pool => { try_grow_and_shrink(&pool, 2, 1); }),
    ];
    run(&spark, &pool, threads);
}

fn two_try_grows_ask_for_the_same_overcommit() {
    // There is enough for both to get it. One of them has to give it back.
    let spark = Spark::new(9);
    let pool = fair(&spark, 100);
    *spark.held.lock().unwrap() = 9;
    pool.grow(1, 2);
    *spark.held.lock().unwrap() = 0;
    at_once(vec![
        thread_of!(pool => pool.try_grow(2, 1).unwrap()),
        thread_of!(pool => pool.try_grow(3, 1).unwrap()),
    ]);
    let books = pool.with(|ledger| (ledger.charged(), ledger.overcommitted()));
    assert_eq!((books, spark.held()), ((4, 0), 4));
}

fn an_acquire_is_parked_until_a_release() {
    // Were a lock held over the call, the release would never come. The checker would notice.
    let spark = Spark::parking(4);
    let pool = fair(&spark, 100);
    pool.grow(1, 3);
    let threads = vec![
        thread_of!(pool => pool.shrink(1, 3).unwrap()),
        thread_of!(pool => assert!(try_grow_and_shrink(&pool, 2, 2))),
    ];
    run(&spark, &pool, threads);
}

fn spark_never_holds_what_is_not_charged() {
    let spark = Spark::new(3);
    let pool = fair(&spark, 10);
    let threads = vec![
        thread_of!(pool => { try_grow_and_shrink(&pool, 1, 2); }),
        thread_of!(pool => { try_grow_and_shrink(&pool, 2, 2); }),
        {
            let (pool, spark) = (Arc::clone(&pool), Arc::clone(&spark));
            Box::new(move || {
                for _ in 0..3 {
                    let (charged, held) = pool.with(|ledger| (ledger.charged(), spark.held()));
                    assert!(held <= charged, "{held} held, {charged} charged");
                }
            })
        },
    ];
    run(&spark, &pool, threads);
}

fn everybody_grows_and_releases() {
    let spark = Spark::new(4);
    let pool = fair(&spark, 100);
    pool.grow(9, 1);
    let threads = vec![
        thread_of!(pool => {
            pool.grow(1, 3);
            pool.shrink(1, 2).unwrap();
            pool.shrink(1, 1).unwrap();
        }),
        thread_of!(pool => {
            pool.grow(2, 2);
            pool.shrink(2, 2).unwrap();
        }),
        thread_of!(pool => {
            try_grow_and_shrink(&pool, 3, 2);
            pool.shrink(9, 1).unwrap();
        }),
    ];
    run(&spark, &pool, threads);
}

fn several_acquires_are_parked() {
    let spark = Spark::parking(4);
    let pool = fair(&spark, 100);
    pool.grow(1, 3);
    let threads = vec![
        thread_of!(pool => pool.shrink(1, 3).unwrap()),
        thread_of!(pool => assert!(try_grow_and_shrink(&pool, 2, 2))),
        thread_of!(pool => {
            pool.grow(3, 4);
            pool.shrink(3, 4).unwrap();
        }),
    ];
    run(&spark, &pool, threads);
}

/// The scenarios of two threads, in every order.
macro_rules! in_every_order {
    ($($scenario:ident)*) => {
        mod in_every_order {
            $(
                #[test]
                fn $scenario() {
                    loom::model(super::$scenario);
                }
            )*
        }
    };
}

in_every_order! {
    a_short_grant_beside_a_full_one
    siblings_in_one_share
    a_release_repays_what_a_try_grow_asks_for
    two_try_grows_ask_for_the_same_overcommit
    an_acquire_is_parked_until_a_release
}

/// Those of three threads have too many orders. Each with at most two changes of thread at
/// places where none is forced.
macro_rules! in_likely_orders {
    ($($scenario:ident)*) => {
        mod in_likely_orders {
            $(
                #[test]
                fn $scenario() {
                    let mut checker = loom::model::Builder::new();
                    checker.preemption_bound = Some(2);
                    checker.check(super::$scenario);
                }
            )*
        }
    };
}

in_likely_orders! {
    spark_never_holds_what_is_not_charged
    everybody_grows_and_releases
    several_acquires_are_parked
}
