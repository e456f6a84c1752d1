//! The task memory of a real Apache Spark, over JNI, for the pools of
//! [`datafusion_counting_pool::spark`].
//!
//! # Inside an executor
//!
//! [`SparkTaskMemory`] stands over a task's `TaskMemoryManager`, which the JVM hands to native
//! code, and calls it through a small Java class. The classes in this package's `java` folder have
//! to be on the executor's class path, `NativeTaskMemory` at least.
//!
//! ```
//! use std::sync::Arc;
//!
//! use datafusion_counting_pool::spark::FairUnifiedPool;
//! use datafusion_execution::memory_pool::MemoryPool;
//! use jni::EnvUnowned;
//! use jni::errors::ThrowRuntimeExAndDefault;
//! use jni::objects::{JClass, JObject};
//! use spark_memory::{CallError, SparkTaskMemory};
//!
//! /// The plugin's `static native void startTask(TaskMemoryManager manager)`.
//! extern "system" fn start_task<'local>(
//!     mut env: EnvUnowned<'local>,
//!     _class: JClass<'local>,
//!     manager: JObject<'local>,
//! ) {
//!     let outcome = env.with_env(|env| {
//!         let memory = Arc::new(SparkTaskMemory::new(env, &manager)?);
//!         let pool: Arc<dyn MemoryPool> = Arc::new(FairUnifiedPool::new(memory, 1 << 30));
//!         // Keep the pool by the task attempt's id, for all of its native plans.
//!         # drop(pool);
//!         Ok::<_, CallError>(())
//!     });
//!     outcome.resolve::<ThrowRuntimeExAndDefault>()
//! }
//! ```
//!
//! # Without an executor
//!
//! For tests and benchmarks [`jvm`] starts a JVM in this process, and [`OffHeapExecutor`] builds
//! Spark's memory management in it. `fetch.py` gets the jars. [`LockedFairPool`] is the pool to
//! compare with.

mod baseline;
mod executor;
mod jvm;
mod setup;
mod task_memory;
mod throwable;

pub use baseline::LockedFairPool;
pub use executor::{OffHeapExecutor, SpillingConsumer};
pub use jvm::{StartError, jvm};
pub use setup::{NotSetUp, class_path};
pub use task_memory::{CallError, SparkTaskMemory};
