//! Eight threads, while Spark's limit moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use datafusion_counting_pool::spark::ExecutionMemoryModel;
use datafusion_execution::memory_pool::MemoryPool;

use crate::storm::{ENOUGH, storm};
use crate::watchdog::watched;
use crate::{fair, greedy};

/// Runs the storm over a pool that panics where it is given back more than it granted.
fn storm_with_a_moving_limit(spark: &ExecutionMemoryModel, pool: &Arc<dyn MemoryPool>) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(ENOUGH as u64);
            while !over.load(Ordering::Relaxed) {
                spark.set_pool_bytes(random.i64(0..=ENOUGH as i64));
                thread::yield_now();
            }
        });
        storm(pool);
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!((pool.reserved(), spark.active_tasks()), (0, vec![]));
}

#[test]
fn fair_pool_under_stress() {
    let spark = ExecutionMemoryModel::strict(ENOUGH as i64);
    let pool = fair(&Arc::new(spark.task(1)), ENOUGH);
    let state = (spark.clone(), Arc::clone(&pool));
    watched(
        move || format!("{state:?}"),
        move || {
            storm_with_a_moving_limit(&spark, &(Arc::clone(&pool) as _));
            assert_eq!(pool.overcommitted(), 0);
        },
    );
}

#[test]
fn greedy_pool_under_stress() {
    let spark = ExecutionMemoryModel::strict(ENOUGH as i64);
    let pool = greedy(&Arc::new(spark.task(1)));
    let state = (spark.clone(), Arc::clone(&pool));
    watched(
        move || format!("{state:?}"),
        move || {
            storm_with_a_moving_limit(&spark, &(Arc::clone(&pool) as _));
            assert_eq!(pool.overcommitted(), 0);
        },
    );
}
