//! What went wrong in published pools over Spark, each against the model of Spark.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use datafusion_common::{DataFusionError, Result};
use datafusion_counting_pool::spark::{ExecutionMemoryModel, TaskMemory, TaskMemoryModel};
use datafusion_execution::memory_pool::{MemoryPool, MemoryReservation};

use crate::watchdog::watched;
use crate::{Fair, fair, refusal, register};

const MIB: usize = 1 << 20;

/// Another task, with `others` of the bytes, and a pool of this task with `own` of them.
struct Executor {
    spark: ExecutionMemoryModel,
    other: TaskMemoryModel,
    task: Arc<TaskMemoryModel>,
    pool: Fair,
    own: MemoryReservation,
}

impl Executor {
    fn new(bytes: usize, others: usize, own: usize) -> Self {
        let spark = ExecutionMemoryModel::strict(bytes as i64);
        let other = spark.task(1);
        assert_eq!(other.acquire(others).unwrap(), others);
        let task = Arc::new(spark.task(2));
        let pool = fair(&task, usize::MAX);
        let reservation = register(&pool, "own");
        reservation.try_grow(own).unwrap();
        Self {
            spark,
            other,
            task,
            pool,
            own: reservation,
        }
    }

    fn run(self, body: impl FnOnce(Self) + Send + 'static) {
        let (spark, pool) = (self.spark.clone(), Arc::clone(&self.pool));
        watched(move || format!("{spark:?}\n{pool:?}"), || body(self));
    }
}

/// Grows by `bytes` either way.
fn grow(reservation: &MemoryReservation, bytes: usize, infallibly: bool) -> Result<()> {
    if infallibly {
        reservation.grow(bytes);
        return Ok(());
    }
    reservation.try_grow(bytes)
}

#[test]
fn a_parked_grow_survives_the_release_of_the_tasks_last_bytes() {
    for infallibly in [true, false] {
        Executor::new(100, 90, 10).run(
            move |Executor {
                      spark,
                      task,
                      pool,
                      own,
                      ..
                  }| {
                let sibling = own.new_empty();
                thread::scope(|scope| {
                    let parked = scope.spawn(|| grow(&sibling, 10, infallibly));
                    spark.wait_for_parked(1);
                    assert_eq!(own.free(), 10);
                    parked.join().unwrap().unwrap();
                });
                assert_eq!(
                    (sibling.size(), pool.reserved(), pool.overcommitted()),
                    (10, 10, 0)
                );
                assert_eq!(task.balance(), 10);
                drop((sibling, own));
                assert_eq!((pool.reserved(), spark.active_tasks()), (0, vec![(1, 90)]));
            },
        );
    }
}

#[test]
fn a_release_gives_spark_every_byte_so_that_the_minimum_share_can_be_met() {
    Executor::new(1024 * MIB, 924 * MIB, 100 * MIB).run(|executor| {
        let Executor {
            spark, pool, own, ..
        } = &executor;
        let sibling = register(pool, "sibling");
        thread::scope(|scope| {
            let parked = scope.spawn(|| sibling.try_grow(100 * MIB));
            spark.wait_for_parked(1);
            // All but a byte does not help: the task is below its minimum, and stays parked.
            own.shrink(100 * MIB - 1);
            assert!(!parked.is_finished());
            own.shrink(1);
            parked.join().unwrap().unwrap();
        });
        assert_eq!(
            (own.size(), sibling.size(), pool.reserved()),
            (0, 100 * MIB, 100 * MIB)
        );
    });
}

/// Holds releases up until told to go on.
#[derive(Debug)]
struct LateRelease {
    task: TaskMemoryModel,
    sent: std::sync::Mutex<std::sync::mpsc::Sender<()>>,
    land: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
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

#[test]
fn a_release_sent_before_an_acquire_may_land_after_it_parked() {
    for infallibly in [true, false] {
        let spark = ExecutionMemoryModel::strict(100);
        let other = spark.task(1);
        assert_eq!(other.acquire(90).unwrap(), 90);
        let ((sent, is_sent), (go, land)) = (channel(), channel());
        let memory = Arc::new(LateRelease {
            task: spark.task(2),
            sent: sent.into(),
            land: land.into(),
        });
        let pool = fair(&memory, 100);
        let (model, state) = (spark.clone(), Arc::clone(&pool));
        watched(
            move || format!("{model:?}\n{state:?}"),
            move || {
                let (a, b) = (register(&pool, "A"), register(&pool, "B"));
                a.try_grow(10).unwrap();
                thread::scope(|scope| {
                    let released = scope.spawn(|| a.free());
                    is_sent.recv().unwrap();
                    let parked = scope.spawn(|| grow(&b, 10, infallibly));
                    spark.wait_for_parked(1);
                    assert_eq!(pool.reserved(), 20);
                    go.send(()).unwrap();
                    assert_eq!(released.join().unwrap(), 10);
                    parked.join().unwrap().unwrap();
                });
                assert_eq!(
                    (b.size(), pool.reserved(), memory.task.balance()),
                    (10, 10, 10)
                );
                drop(go);
                drop(b);
                assert_eq!((pool.reserved(), memory.task.balance()), (0, 0));
            },
        );
    }
}

#[test]
fn an_exact_fit_fits() {
    let spark = ExecutionMemoryModel::strict(100);
    let task = Arc::new(spark.task(1));
    let pool = fair(&task, 100);
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
    assert_eq!(spark.task(2).acquire(50).unwrap(), 50);
    a.try_grow(10).unwrap();
    assert!(refusal(a.try_grow(1)).contains("short grant allowed 0"));
}

#[test]
fn the_jvm_may_free_the_tasks_last_page_under_a_parked_acquire() {
    for infallibly in [true, false] {
        Executor::new(100, 80, 10).run(move |executor| {
            let Executor {
                spark,
                task,
                pool,
                own,
                ..
            } = executor;
            let jvm = task.jvm_consumer(0);
            assert_eq!(jvm.acquire(10).unwrap(), 10);
            own.free();
            thread::scope(|scope| {
                let parked = scope.spawn(|| grow(&own, 20, infallibly));
                spark.wait_for_parked(1);
                jvm.release(10);
                parked.join().unwrap().unwrap();
            });
            assert_eq!(
                (own.size(), pool.reserved(), pool.overcommitted()),
                (20, 20, 0)
            );
            assert_eq!(task.balance(), 20);
        });
    }
}

#[test]
fn a_plan_that_reserves_nothing_never_becomes_an_active_task() {
    let spark = ExecutionMemoryModel::strict(100);
    let other = spark.task(1);
    assert_eq!(other.acquire(100).unwrap(), 100);
    let pool = fair(&Arc::new(spark.task(2)), 100);
    let idle = register(&pool, "idle");
    idle.try_grow(0).unwrap();
    drop((idle, pool));
    assert_eq!(spark.active_tasks(), [(1, 100)]);
    // Had the task become active, the other one could have half of the pool only.
    other.release_execution_memory(100);
    assert_eq!(other.acquire(100).unwrap(), 100);
}

#[test]
fn no_lock_is_shared_between_the_pools_of_a_process() {
    Executor::new(100, 90, 10).run(
        |Executor {
             spark, own, other, ..
         }| {
            let elsewhere = ExecutionMemoryModel::strict(100);
            let neighbour = fair(&Arc::new(elsewhere.task(1)), 100);
            thread::scope(|scope| {
                let parked = scope.spawn(|| own.new_empty().try_grow(10));
                spark.wait_for_parked(1);
                let reservation = register(&neighbour, "neighbour");
                reservation.try_grow(100).unwrap();
                drop(reservation);
                assert_eq!(neighbour.reserved(), 0);
                assert!(!parked.is_finished());
                other.release_execution_memory(90);
                parked.join().unwrap().unwrap();
            });
        },
    );
}

#[test]
fn reserved_and_releases_go_on_while_a_grow_is_parked() {
    Executor::new(100, 90, 10).run(
        |Executor {
             spark,
             own,
             other,
             pool,
             task,
         }| {
            let second = register(&pool, "second");
            thread::scope(|scope| {
                let parked = scope.spawn(|| second.grow(10));
                spark.wait_for_parked(1);
                assert_eq!(pool.reserved(), 20);
                own.shrink(4);
                assert_eq!((pool.reserved(), task.balance()), (16, 6));
                assert!(format!("{pool} {pool:?}").contains("16"));
                other.release_execution_memory(50);
                parked.join().unwrap();
            });
            assert_eq!(
                (second.size(), pool.reserved(), task.balance()),
                (10, 16, 16)
            );
        },
    );
}

#[test]
fn a_task_that_is_killed_while_parked_hears_of_it() {
    for infallibly in [true, false] {
        Executor::new(100, 90, 10).run(
            move |Executor {
                      spark,
                      own,
                      pool,
                      task,
                      ..
                  }| {
                let second = register(&pool, "second");
                thread::scope(|scope| {
                    let parked = scope.spawn(|| grow(&second, 10, infallibly));
                    spark.wait_for_parked(1);
                    task.interrupt();
                    match parked.join().unwrap() {
                        Ok(()) => assert!(infallibly),
                        Err(error @ DataFusionError::External(_)) => {
                            assert!(error.to_string().contains("java.lang.InterruptedException"));
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                });
                let overcommit = if infallibly { 10 } else { 0 };
                assert_eq!(
                    (second.size(), pool.overcommitted()),
                    (overcommit, overcommit)
                );
                assert_eq!(pool.reserved(), 10 + overcommit);
                drop((own, second));
                assert_eq!((pool.reserved(), spark.active_tasks()), (0, vec![(1, 90)]));
            },
        );
    }
}
