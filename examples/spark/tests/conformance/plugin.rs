//! Called as in a plugin of Spark's, by a thread of the JVM.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_counting_pool::spark::{FairUnifiedPool, TaskMemory};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool};
use jni::objects::{JClass, JObject};
use jni::sys::jlong;
use jni::{Env, bind_java_type};
use spark_memory::{CallError, OffHeapExecutor, SparkTaskMemory};

use crate::spark::jvm;

bind_java_type! {
    TaskThread => "org.apache.spark.memory.counting.TaskThread",
    methods {
        static fn run(manager: org.apache.spark.memory.TaskMemoryManager, bytes: jlong) -> jlong,
    },
    native_methods {
        static fn run_plan {
            sig = (manager: org.apache.spark.memory.TaskMemoryManager, bytes: jlong) -> jlong,
            fn = run_plan,
        },
    },
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature of a native method"
)]
fn run_plan<'local>(
    env: &mut Env<'local>,
    _class: JClass<'local>,
    manager: JObject<'local>,
    bytes: jlong,
) -> Result<jlong, CallError> {
    let task = Arc::new(SparkTaskMemory::new(env, &manager)?);
    let memory: Arc<dyn TaskMemory> = Arc::clone(&task) as _;
    let pool: Arc<dyn MemoryPool> = Arc::new(FairUnifiedPool::new(memory, 1000));
    let reservation = MemoryConsumer::new("plan").register(&pool);
    let other = reservation.new_empty();
    std::thread::scope(|scope| {
        // Native code has threads of its own, which the JVM has not seen.
        scope.spawn(|| reservation.try_grow(bytes as usize).unwrap());
    });
    other.try_grow(1).unwrap();
    task.balance()
}

#[test]
fn a_thread_of_the_jvm_may_call_the_pool() {
    let Some(jvm) = jvm() else { return };
    let executor = OffHeapExecutor::new(&jvm, 1000).unwrap();
    let task = executor.task(1).unwrap();
    let held = jvm.attach_current_thread(|env| TaskThread::run(env, task.manager(), 600));
    assert_eq!(held.unwrap(), 601);
    assert_eq!(executor.active_tasks().unwrap(), []);
}
