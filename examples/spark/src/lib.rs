//! The task memory of a real Apache Spark, over JNI, for the pools of
//! [`datafusion_counting_pool::spark`].
//!
//! - Inside an executor: [`SparkTaskMemory`] over a task's `TaskMemoryManager`, which the JVM
//!   hands to native code. The classes in this package's `java` folder have to be on the
//!   executor's class path.
//! - Without an executor, for tests and benchmarks: [`jvm`] starts a JVM in this process, and
//!   [`OffHeapExecutor`] builds Spark's memory management in it. `fetch.py` gets the jars.

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
