//! What leaves Spark by an exception or by an error.

use std::sync::Arc;

use datafusion_common::DataFusionError;
use datafusion_counting_pool::spark::{FairUnifiedPool, TaskMemory};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool};
use spark_memory::{OffHeapExecutor, SpillingConsumer};

use crate::spark::jvm;

/// What a `try_grow` ends in, where the task's only other consumer spills as `bytes_per_spill`
/// says.
fn error_of_try_grow(bytes_per_spill: i64) -> Option<String> {
    let executor = OffHeapExecutor::new(&jvm()?, 1000).unwrap();
    let task = Arc::new(executor.task(1).unwrap());
    let consumer = SpillingConsumer::new(&task, bytes_per_spill).unwrap();
    assert_eq!(consumer.acquire(800).unwrap(), 800);

    let memory: Arc<dyn TaskMemory> = Arc::clone(&task) as _;
    let pool: Arc<dyn MemoryPool> = Arc::new(FairUnifiedPool::new(memory, 1000));
    let reservation = MemoryConsumer::new("native").register(&pool);
    let error = reservation.try_grow(300).unwrap_err();
    assert!(matches!(error, DataFusionError::External(_)), "{error:?}");
    assert_eq!((pool.reserved(), reservation.size()), (0, 0));

    // Spark has granted the 200 that were free, and forgets them with the exception. They are
    // nobody's until the attempt is cleaned up.
    assert_eq!(executor.active_tasks().unwrap(), [(1, 1000)]);
    assert_eq!(task.clean_up_all_allocated_memory().unwrap(), 1000);
    Some(error.to_string())
}

#[test]
fn a_consumer_that_fails_to_spill_is_an_error_and_no_denial() {
    if let Some(error) = error_of_try_grow(SpillingConsumer::FAILS) {
        assert!(
            error.contains("org.apache.spark.memory.SparkOutOfMemoryError: "),
            "{error}"
        );
        assert!(error.contains("disk full"), "{error}");
    }
}

#[test]
fn a_task_that_is_killed_while_its_consumer_spills_is_an_error() {
    if let Some(error) = error_of_try_grow(SpillingConsumer::IS_KILLED) {
        assert!(error.contains("java.lang.RuntimeException"), "{error}");
    }
}

#[test]
fn what_is_thrown_leaves_no_exception_pending() {
    let Some(jvm) = jvm() else { return };
    let task = OffHeapExecutor::new(&jvm, 1000).unwrap().task(1).unwrap();
    for _ in 0..1000 {
        let error = task.acquire_once(0).unwrap_err().to_string();
        assert_eq!(
            error,
            "java.lang.AssertionError: assertion failed: invalid number of bytes requested: 0"
        );
        assert_eq!(task.acquire_once(1).unwrap(), 1);
    }
    assert_eq!(task.balance().unwrap(), 1000);
}

#[test]
fn an_object_of_another_class_is_refused() {
    let Some(jvm) = jvm() else { return };
    let refused = jvm.attach_current_thread(|env| {
        let text = jni::objects::JString::from_str(env, "not a TaskMemoryManager")?;
        Ok::<_, jni::errors::Error>(spark_memory::SparkTaskMemory::new(env, &text).is_err())
    });
    assert!(refused.unwrap());
}
