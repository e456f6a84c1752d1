//! What went wrong in published pools over Spark.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use datafusion_common::{DataFusionError, Result};
use datafusion_counting_pool::spark::{FairUnifiedPool, TaskMemory};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use crate::subject::{Executor, Stage, Task};

const MIB: usize = 1 << 20;

/// A task that another one leaves little room.
struct Crowded {
    executor: Arc<dyn Executor>,
    other: Arc<dyn Task>,
    task: Arc<dyn Task>,
    pool: Arc<FairUnifiedPool>,
    /// What the task has in its pool.
    own: MemoryReservation,
}

impl Crowded {
    /// Of `bytes` the other task has `others`, and this one `own`.
    fn new(stage: &Stage, bytes: usize, others: usize, own: usize) -> Self {
        let executor = stage.executor(bytes as i64);
        let other = executor.task(1);
        assert_eq!(other.acquire(others).unwrap(), others);
        let task = executor.task(2);
        let pool = stage.fair(Arc::clone(&task) as _, usize::MAX);
        let reservation = register(&pool, "own");
        reservation.try_grow(own).unwrap();
        Self {
            executor,
            other,
            task,
            pool,
            own: reservation,
        }
    }
}

fn register(pool: &Arc<FairUnifiedPool>, name: &str) -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::clone(pool) as _;
    MemoryConsumer::new(name).register(&pool)
}

/// The two ways to grow.
const BOTH_WAYS: [fn(&MemoryReservation, usize) -> Result<()>; 2] =
    [MemoryReservation::try_grow, |reservation, bytes| {
        reservation.grow(bytes);
        Ok(())
    }];

pub(crate) fn a_parked_grow_survives_the_release_of_the_tasks_last_bytes(stage: &Stage) {
    for grow in BOTH_WAYS {
        let Crowded {
            executor,
            task,
            pool,
            own,
            ..
        } = Crowded::new(stage, 100, 90, 10);
        let sibling = own.new_empty();
        thread::scope(|scope| {
            let parked = scope.spawn(|| grow(&sibling, 10));
            executor.wait_for_parked(1);
            assert_eq!(own.free(), 10);
            parked.join().unwrap().unwrap();
        });
        assert_eq!(
            (sibling.size(), pool.reserved(), pool.overcommitted()),
            (10, 10, 0)
        );
        assert_eq!(task.balance(), 10);
        drop((sibling, own));
        assert_eq!(
            (pool.reserved(), executor.active_tasks()),
            (0, vec![(1, 90)])
        );
    }
}

pub(crate) fn a_release_gives_spark_every_byte_so_that_the_minimum_can_be_met(stage: &Stage) {
    let crowded = Crowded::new(stage, 1024 * MIB, 924 * MIB, 100 * MIB);
    let Crowded {
        executor,
        pool,
        own,
        ..
    } = &crowded;
    let sibling = register(pool, "sibling");
    thread::scope(|scope| {
        let parked = scope.spawn(|| sibling.try_grow(100 * MIB));
        executor.wait_for_parked(1);
        own.shrink(100 * MIB - 1);
        own.shrink(1);
        parked.join().unwrap().unwrap();
    });
    assert_eq!(
        (own.size(), sibling.size(), pool.reserved()),
        (0, 100 * MIB, 100 * MIB)
    );
}

/// Holds releases up until told to go on.
#[derive(Debug)]
struct LateRelease {
    task: Arc<dyn Task>,
    sent: Mutex<Sender<()>>,
    land: Mutex<Receiver<()>>,
}

impl TaskMemory for LateRelease {
    fn acquire(&self, bytes: usize) -> Result<usize> {
        self.task.acquire(bytes)
    }

    fn release(&self, bytes: usize) -> Result<()> {
        self.sent.lock().unwrap().send(()).unwrap();
        // An error is a test that wants no more delay.
        let _ = self.land.lock().unwrap().recv();
        self.task.release(bytes)
    }
}

pub(crate) fn a_release_sent_before_an_acquire_may_land_after_it_parked(stage: &Stage) {
    for grow in BOTH_WAYS {
        let executor = stage.executor(100);
        assert_eq!(executor.task(1).acquire(90).unwrap(), 90);
        let ((sent, is_sent), (go, land)) = (channel(), channel());
        let task = executor.task(2);
        let memory = LateRelease {
            task: Arc::clone(&task),
            sent: sent.into(),
            land: land.into(),
        };
        let pool = stage.fair(Arc::new(memory), 100);
        let (a, b) = (register(&pool, "A"), register(&pool, "B"));
        a.try_grow(10).unwrap();
        thread::scope(|scope| {
            let released = scope.spawn(|| a.free());
            is_sent.recv().unwrap();
            let parked = scope.spawn(|| grow(&b, 10));
            executor.wait_for_parked(1);
            assert_eq!(pool.reserved(), 20);
            go.send(()).unwrap();
            assert_eq!(released.join().unwrap(), 10);
            parked.join().unwrap().unwrap();
        });
        assert_eq!((b.size(), pool.reserved(), task.balance()), (10, 10, 10));
        drop((go, b));
        assert_eq!((pool.reserved(), task.balance()), (0, 0));
    }
}

pub(crate) fn an_exact_fit_fits(stage: &Stage) {
    let executor = stage.executor(100);
    let task = executor.task(1);
    let pool = stage.fair(Arc::clone(&task) as _, 100);
    let a = register(&pool, "A");
    a.try_grow(60).unwrap();
    a.try_grow(40).unwrap();
    a.shrink(100);
    a.grow(100);
    assert_eq!((pool.overcommitted(), task.balance()), (0, 100));
    a.grow(1);
    a.shrink(1);
    assert_eq!((pool.overcommitted(), task.balance()), (0, 100));

    // Half of the pool is all that two tasks get, and to the byte.
    a.shrink(60);
    assert_eq!(executor.task(2).acquire(50).unwrap(), 50);
    a.try_grow(10).unwrap();
    let refused = a.try_grow(1).unwrap_err().to_string();
    assert!(
        refused.contains("Spark's short grant allowed 0"),
        "{refused}"
    );
}

pub(crate) fn the_jvm_may_free_the_tasks_last_page_under_a_parked_acquire(stage: &Stage) {
    for grow in BOTH_WAYS {
        let Crowded {
            executor,
            task,
            pool,
            own,
            ..
        } = Crowded::new(stage, 100, 80, 10);
        let jvm = task.jvm_consumer(0);
        assert_eq!(jvm.acquire(10), Ok(10));
        own.free();
        thread::scope(|scope| {
            let parked = scope.spawn(|| grow(&own, 20));
            executor.wait_for_parked(1);
            jvm.release(10);
            parked.join().unwrap().unwrap();
        });
        assert_eq!(
            (own.size(), pool.reserved(), pool.overcommitted()),
            (20, 20, 0)
        );
        assert_eq!(task.balance(), 20);
    }
}

pub(crate) fn a_plan_that_reserves_nothing_never_becomes_an_active_task(stage: &Stage) {
    let executor = stage.executor(100);
    let other = executor.task(1);
    assert_eq!(other.acquire(100).unwrap(), 100);
    let pool = stage.fair(executor.task(2), 100);
    let idle = register(&pool, "idle");
    idle.try_grow(0).unwrap();
    drop((idle, pool));
    assert_eq!(executor.active_tasks(), [(1, 100)]);
    // Had the task become active, the other one could have half of the pool only.
    other.release(100).unwrap();
    assert_eq!(other.acquire(100).unwrap(), 100);
}

pub(crate) fn no_lock_is_shared_between_the_pools_of_a_process(stage: &Stage) {
    let Crowded {
        executor,
        own,
        other,
        ..
    } = Crowded::new(stage, 100, 90, 10);
    let neighbour = stage.fair(stage.executor(100).task(1), 100);
    thread::scope(|scope| {
        let parked = scope.spawn(|| own.new_empty().try_grow(10));
        executor.wait_for_parked(1);
        let reservation = register(&neighbour, "neighbour");
        reservation.try_grow(100).unwrap();
        drop(reservation);
        assert_eq!(neighbour.reserved(), 0);
        other.release(90).unwrap();
        parked.join().unwrap().unwrap();
    });
}

pub(crate) fn reserved_and_releases_go_on_while_a_grow_is_parked(stage: &Stage) {
    let Crowded {
        executor,
        own,
        other,
        pool,
        task,
    } = Crowded::new(stage, 100, 90, 10);
    let second = register(&pool, "second");
    thread::scope(|scope| {
        let parked = scope.spawn(|| second.grow(10));
        executor.wait_for_parked(1);
        assert_eq!(pool.reserved(), 20);
        own.shrink(4);
        assert_eq!((pool.reserved(), task.balance()), (16, 6));
        assert!(format!("{pool} {pool:?}").contains("16"));
        other.release(50).unwrap();
        parked.join().unwrap();
    });
    assert_eq!(
        (second.size(), pool.reserved(), task.balance()),
        (10, 16, 16)
    );
}

pub(crate) fn a_task_that_is_killed_while_parked_hears_of_it(stage: &Stage) {
    for (grow, overcommit) in BOTH_WAYS.into_iter().zip([0, 10]) {
        let Crowded {
            executor,
            own,
            pool,
            ..
        } = Crowded::new(stage, 100, 90, 10);
        let second = register(&pool, "second");
        let answer = thread::scope(|scope| {
            let parked = scope.spawn(|| grow(&second, 10));
            executor.wait_for_parked(1);
            executor.interrupt(2);
            parked.join().unwrap()
        });
        match answer {
            Ok(()) => assert_eq!(overcommit, 10),
            Err(error) => {
                assert!(matches!(error, DataFusionError::External(_)), "{error:?}");
                assert!(error.to_string().contains("java.lang.InterruptedException"));
                assert_eq!(overcommit, 0);
            }
        }
        assert_eq!(
            (second.size(), pool.overcommitted()),
            (overcommit, overcommit)
        );
        assert_eq!(pool.reserved(), 10 + overcommit);
        drop((own, second));
        assert_eq!(
            (pool.reserved(), executor.active_tasks()),
            (0, vec![(1, 90)])
        );
    }
}

pub(crate) use crate::subject::strict_model as model;

/// Hands the names of all cases to a macro that makes tests of them.
macro_rules! for_each_case {
    ($tests:ident) => {
        $tests! {
            cases:
            a_parked_grow_survives_the_release_of_the_tasks_last_bytes
            a_release_gives_spark_every_byte_so_that_the_minimum_can_be_met
            a_release_sent_before_an_acquire_may_land_after_it_parked
            an_exact_fit_fits
            the_jvm_may_free_the_tasks_last_page_under_a_parked_acquire
            a_plan_that_reserves_nothing_never_becomes_an_active_task
            no_lock_is_shared_between_the_pools_of_a_process
            reserved_and_releases_go_on_while_a_grow_is_parked
            a_task_that_is_killed_while_parked_hears_of_it
        }
    };
}
pub(crate) use for_each_case;
