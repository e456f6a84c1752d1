//! Spark's execution memory, modelled in this process, for tests that need no JVM.

mod task;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use log::warn;
use parking_lot::{Condvar, Mutex};

use super::JavaThrowable;
pub use task::{JvmConsumerModel, TaskMemoryModel};

/// A model of Spark's `ExecutionMemoryPool`, which shares the execution memory of one executor
/// out among its tasks, as Spark 3.4 to 4.1 have it.
///
/// Sizes are Java's: signed and in bytes. A task is known by its attempt's id, and is active
/// from its first acquire until its balance is back at zero. With N active tasks,
/// - no task gets more than an Nth of the pool,
/// - a task that cannot be given all it asks for, and would have less than half of an Nth with
///   what there is, is parked until others have released enough, with no time limit, and
/// - a parked task whose entry goes, because its last bytes were released meanwhile, fails with
///   a `NoSuchElementException`.
///
/// Clones are handles to the same pool.
///
/// ```
/// use datafusion_counting_pool::spark::{ExecutionMemoryModel, JavaThrowable};
///
/// let pool = ExecutionMemoryModel::new(1024);
/// let task = pool.task(1);
/// assert_eq!(task.acquire_execution_memory(600)?, 600);
/// assert_eq!(task.acquire_execution_memory(600)?, 424);
/// assert_eq!(task.acquire_execution_memory(600)?, 0);
/// task.release_execution_memory(1024);
/// assert_eq!(pool.active_tasks(), []);
/// # Ok::<(), JavaThrowable>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExecutionMemoryModel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    strict: bool,
    state: Mutex<State>,
    /// What Spark calls `lock.notifyAll()` for.
    changed: Condvar,
    /// That one more acquire is parked.
    parked: Condvar,
}

#[derive(Debug)]
struct State {
    pool_bytes: i64,
    memory_for_task: BTreeMap<i64, i64>,
    interrupted: BTreeSet<i64>,
    parked: usize,
}

impl ExecutionMemoryModel {
    /// A pool of `pool_bytes` that treats releases of more than a task has as Spark does: it
    /// takes what there is, and logs a warning.
    pub fn new(pool_bytes: i64) -> Self {
        Self::build(pool_bytes, false)
    }

    /// A pool of `pool_bytes` that panics where more is released than was granted.
    pub fn strict(pool_bytes: i64) -> Self {
        Self::build(pool_bytes, true)
    }

    fn build(pool_bytes: i64, strict: bool) -> Self {
        let state = State {
            pool_bytes,
            memory_for_task: BTreeMap::new(),
            interrupted: BTreeSet::new(),
            parked: 0,
        };
        Self {
            shared: Arc::new(Shared {
                strict,
                state: Mutex::new(state),
                changed: Condvar::new(),
                parked: Condvar::new(),
            }),
        }
    }

    /// A `TaskMemoryManager` for one attempt of a task. Another one for the same attempt shares
    /// its balance, but not its monitor.
    pub fn task(&self, attempt_id: i64) -> TaskMemoryModel {
        TaskMemoryModel::new(self.clone(), attempt_id)
    }

    /// Moves the pool's size, as storage does when it takes or returns memory. What was granted
    /// stays granted.
    pub fn set_pool_bytes(&self, pool_bytes: i64) {
        self.shared.state.lock().pool_bytes = pool_bytes;
        self.shared.changed.notify_all();
    }

    /// The active tasks' attempt ids and balances in bytes, by id.
    pub fn active_tasks(&self) -> Vec<(i64, i64)> {
        let state = self.shared.state.lock();
        state
            .memory_for_task
            .iter()
            .map(|(id, bytes)| (*id, *bytes))
            .collect()
    }

    /// Bytes granted to the attempt and not yet released; 0 where it is not active.
    pub fn balance(&self, attempt_id: i64) -> i64 {
        let state = self.shared.state.lock();
        state.memory_for_task.get(&attempt_id).copied().unwrap_or(0)
    }

    /// Blocks until at least `acquires` are parked.
    pub fn wait_for_parked(&self, acquires: usize) {
        let mut state = self.shared.state.lock();
        self.shared
            .parked
            .wait_while(&mut state, |state| state.parked < acquires);
    }

    fn acquire(&self, attempt_id: i64, bytes: i64) -> Result<i64, JavaThrowable> {
        if bytes <= 0 {
            return Err(not_positive(bytes));
        }
        let shared = &self.shared;
        let mut state = shared.state.lock();
        if let Entry::Vacant(entry) = state.memory_for_task.entry(attempt_id) {
            entry.insert(0);
            shared.changed.notify_all();
        }
        loop {
            let tasks = state.memory_for_task.len() as i64;
            let Some(&current) = state.memory_for_task.get(&attempt_id) else {
                return Err(missing_entry(attempt_id));
            };
            let most = (state.pool_bytes / tasks - current).max(0);
            let grant = bytes.min(most).min(state.free());
            if grant == bytes || current + grant >= state.pool_bytes / (2 * tasks) {
                state.memory_for_task.insert(attempt_id, current + grant);
                return Ok(grant);
            }
            if state.interrupted.remove(&attempt_id) {
                return Err(throwable("java.lang.InterruptedException", None));
            }
            state.parked += 1;
            shared.parked.notify_all();
            shared.changed.wait(&mut state);
            state.parked -= 1;
        }
    }

    fn release(&self, attempt_id: i64, bytes: i64) {
        let mut state = self.shared.state.lock();
        let held = state.memory_for_task.get(&attempt_id).copied();
        let balance = held.unwrap_or(0);
        if balance < bytes {
            assert!(
                !self.shared.strict,
                "task {attempt_id} releases {bytes} bytes out of the {balance} it was granted"
            );
            warn!("task {attempt_id} releases {bytes} bytes, but has only {balance}");
        }
        if held.is_some() {
            // A negative figure is added: Spark does not look at the sign.
            let rest = balance - bytes.min(balance);
            if rest > 0 {
                state.memory_for_task.insert(attempt_id, rest);
            } else {
                state.memory_for_task.remove(&attempt_id);
            }
        }
        self.shared.changed.notify_all();
    }

    fn interrupt(&self, attempt_id: i64) {
        self.shared.state.lock().interrupted.insert(attempt_id);
        self.shared.changed.notify_all();
    }
}

impl State {
    fn free(&self) -> i64 {
        let used: i64 = self.memory_for_task.values().sum();
        // Spark never makes its pool smaller than what is granted; this one may be.
        (self.pool_bytes - used).max(0)
    }
}

fn not_positive(bytes: i64) -> JavaThrowable {
    let message = match bytes {
        0 => "assertion failed: invalid number of bytes requested: 0",
        _ => "assertion failed",
    };
    throwable("java.lang.AssertionError", Some(message.to_owned()))
}

fn missing_entry(attempt_id: i64) -> JavaThrowable {
    throwable(
        "java.util.NoSuchElementException",
        Some(format!("key not found: {attempt_id}")),
    )
}

fn throwable(class: &str, message: Option<String>) -> JavaThrowable {
    let calls = [
        "ExecutionMemoryPool.acquireMemory",
        "UnifiedMemoryManager.acquireExecutionMemory",
        "TaskMemoryManager.acquireExecutionMemory",
    ];
    JavaThrowable {
        class: class.to_owned(),
        message,
        frames: calls
            .map(|call| format!("org.apache.spark.memory.{call}"))
            .to_vec(),
    }
}
