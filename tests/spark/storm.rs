use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool};

use crate::subject::{Executor, Stage};

const THREADS: u64 = 8;
const OPERATIONS: u64 = 10_000;
/// Of one operation, in bytes.
const LARGEST: usize = 1000;

/// About what the eight hold at their worst, so that a limit below is in the way of some.
pub(crate) const ENOUGH: usize = 8 * LARGEST * 64;

/// Eight threads that each grow, try to grow and shrink ten thousand times at random, each with
/// a reservation of its own, and release what is left at the end.
pub(crate) fn storm(pool: &Arc<dyn MemoryPool>) {
    thread::scope(|scope| {
        for seed in 0..THREADS {
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let reservation = MemoryConsumer::new(format!("storm[{seed}]")).register(pool);
                for _ in 0..OPERATIONS {
                    let bytes = random.usize(0..=LARGEST);
                    match random.u8(0..5) {
                        0 => reservation.grow(bytes),
                        // Either answer will do: what counts is that the books agree.
                        1 | 2 => drop(reservation.try_grow(bytes)),
                        3 => drop(reservation.split(bytes.min(reservation.size()))),
                        _ => reservation.shrink(bytes.min(reservation.size())),
                    }
                }
            });
        }
    });
}

/// The storm, while another task takes and gives back up to half of the pool.
fn storm_beside_another_task(executor: &dyn Executor, pool: &Arc<dyn MemoryPool>) {
    let other = executor.task(2);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(THREADS);
            while !over.load(Ordering::Relaxed) {
                let granted = other.acquire(random.usize(1..=ENOUGH / 2)).unwrap();
                thread::yield_now();
                if granted > 0 {
                    other.release(granted).unwrap();
                }
            }
        });
        storm(pool);
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!((pool.reserved(), executor.active_tasks()), (0, vec![]));
}

pub(crate) fn a_fair_pool_stays_in_step_with_spark_under_stress(stage: &Stage) {
    let executor = stage.executor(ENOUGH as i64);
    let pool = stage.fair(executor.task(1), ENOUGH);
    storm_beside_another_task(&*executor, &(Arc::clone(&pool) as _));
    assert_eq!(pool.overcommitted(), 0);
}

pub(crate) fn a_greedy_pool_stays_in_step_with_spark_under_stress(stage: &Stage) {
    let executor = stage.executor(ENOUGH as i64);
    let pool = stage.greedy(executor.task(1));
    storm_beside_another_task(&*executor, &(Arc::clone(&pool) as _));
    assert_eq!(pool.overcommitted(), 0);
}

pub(crate) use crate::subject::strict_model as model;

/// Hands the names of all storms to a macro that makes tests of them.
macro_rules! for_each_storm {
    ($tests:ident) => {
        $tests! {
            storm:
            a_fair_pool_stays_in_step_with_spark_under_stress
            a_greedy_pool_stays_in_step_with_spark_under_stress
        }
    };
}
pub(crate) use for_each_storm;
