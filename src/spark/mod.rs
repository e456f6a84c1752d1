#![doc = include_str!("embedding.md")]

mod ledger;
#[cfg(feature = "testing")]
mod model;
mod pool;
mod refusal;
mod task_memory;
mod throwable;
mod unified;

#[cfg(feature = "testing")]
pub use model::{ExecutionMemoryModel, JvmConsumerModel, TaskMemoryModel};
pub use pool::{Fair, FairUnifiedPool, Greedy, GreedyUnifiedPool, UnifiedPool};
pub use task_memory::TaskMemory;
pub use throwable::{JavaThrowable, retry_missing_task_entry};

/// The most bytes that Spark is asked for in one call, since Java counts in a signed `long`.
const MAX_REQUEST: usize = isize::MAX as usize;
