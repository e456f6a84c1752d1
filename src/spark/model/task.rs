//! Spark's `TaskMemoryManager` and its consumers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use datafusion_common::Result;
use parking_lot::Mutex;

use super::ExecutionMemoryModel;
use crate::spark::{JavaThrowable, TaskMemory, retry_missing_task_entry};

/// A model of Spark's `TaskMemoryManager`, which speaks for one attempt of a task.
///
/// Made by [`ExecutionMemoryModel::task`]. Clones are handles to the same manager. An acquire
/// holds the manager's monitor until it has its answer, parked or not, so that one acquire of a
/// task can be parked at a time, and others wait for it. Nothing else takes that monitor.
#[derive(Clone, Debug)]
pub struct TaskMemoryModel {
    manager: Arc<Manager>,
}

#[derive(Debug)]
struct Manager {
    pool: ExecutionMemoryModel,
    attempt_id: i64,
    /// The consumers that ever acquired.
    monitor: Mutex<Vec<Arc<Consumer>>>,
}

/// A model of one of Spark's own `MemoryConsumer`s, a sort in the JVM for instance, that shares
/// a task's memory with native code.
///
/// Made by [`TaskMemoryModel::jvm_consumer`]. Clones are handles to the same consumer.
#[derive(Clone, Debug)]
pub struct JvmConsumerModel {
    task: TaskMemoryModel,
    consumer: Arc<Consumer>,
}

#[derive(Debug)]
struct Consumer {
    bytes_per_spill: i64,
    used: AtomicI64,
    spills: AtomicU64,
}

impl TaskMemoryModel {
    pub(super) fn new(pool: ExecutionMemoryModel, attempt_id: i64) -> Self {
        let monitor = Mutex::new(Vec::new());
        Self {
            manager: Arc::new(Manager {
                pool,
                attempt_id,
                monitor,
            }),
        }
    }

    /// Asks for `bytes` on behalf of native code and returns how many were granted. Before it
    /// is short of any, the JVM-side consumers of the task that use memory are told to spill.
    ///
    /// # Errors
    ///
    /// - `AssertionError` where `bytes` is not positive.
    /// - `InterruptedException` where the task was interrupted while parked.
    /// - `NoSuchElementException` where the task's entry went while parked.
    pub fn acquire_execution_memory(&self, bytes: i64) -> Result<i64, JavaThrowable> {
        self.manager.acquire(bytes, None)
    }

    /// Gives `bytes` back. What is more than the balance is ignored, or panics where the pool
    /// is [strict](ExecutionMemoryModel::strict).
    pub fn release_execution_memory(&self, bytes: i64) {
        self.manager.release(bytes);
    }

    /// Bytes that this attempt has, native code and JVM together.
    pub fn balance(&self) -> i64 {
        self.manager.pool.balance(self.manager.attempt_id)
    }

    /// Releases all that the attempt has, as Spark does when it ends. Returns the bytes.
    pub fn clean_up_all_allocated_memory(&self) -> i64 {
        let balance = self.balance();
        self.release_execution_memory(balance);
        balance
    }

    /// Interrupts the task's thread as a kill does: the acquire that is parked, or the next one
    /// that would be, fails.
    pub fn interrupt(&self) {
        self.manager.pool.interrupt(self.manager.attempt_id);
    }

    /// A consumer of this task on the JVM side, which gives back at most `bytes_per_spill` each
    /// time it is told to spill.
    pub fn jvm_consumer(&self, bytes_per_spill: i64) -> JvmConsumerModel {
        JvmConsumerModel {
            task: self.clone(),
            consumer: Arc::new(Consumer {
                bytes_per_spill,
                used: AtomicI64::new(0),
                spills: AtomicU64::new(0),
            }),
        }
    }
}

impl Manager {
    fn acquire(&self, bytes: i64, asking: Option<&Arc<Consumer>>) -> Result<i64, JavaThrowable> {
        let mut consumers = self.monitor.lock();
        let mut got = self.pool.acquire(self.attempt_id, bytes)?;

        let is_asking =
            |consumer: &Arc<Consumer>| asking.is_some_and(|asking| Arc::ptr_eq(asking, consumer));
        // By what they use; the one that asks counts as using nothing and so comes last.
        let mut spillable: Vec<(i64, &Arc<Consumer>)> = consumers
            .iter()
            .filter(|consumer| consumer.used() > 0)
            .map(|consumer| {
                (
                    if is_asking(consumer) {
                        0
                    } else {
                        consumer.used()
                    },
                    consumer,
                )
            })
            .collect();
        spillable.sort_by_key(|(used, _)| *used);
        while got < bytes && !spillable.is_empty() {
            // The smallest that is enough on its own, or else the largest.
            let enough = spillable.partition_point(|(used, _)| *used < bytes - got);
            let chosen = enough.min(spillable.len() - 1);
            if self.spill(spillable[chosen].1) > 0 {
                got += self.pool.acquire(self.attempt_id, bytes - got)?;
            } else {
                spillable.remove(chosen);
            }
        }

        if let Some(asking) = asking
            && !consumers.iter().any(is_asking)
        {
            consumers.push(Arc::clone(asking));
        }
        Ok(got)
    }

    fn release(&self, bytes: i64) {
        self.pool.release(self.attempt_id, bytes);
    }

    fn spill(&self, consumer: &Consumer) -> i64 {
        consumer.spills.fetch_add(1, Ordering::Relaxed);
        let freed = consumer.used().min(consumer.bytes_per_spill);
        if freed > 0 {
            self.release(freed);
            consumer.used.fetch_sub(freed, Ordering::Relaxed);
        }
        freed
    }
}

impl Consumer {
    fn used(&self) -> i64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl JvmConsumerModel {
    /// Asks for `bytes` and returns how many were granted.
    ///
    /// # Errors
    ///
    /// As [`TaskMemoryModel::acquire_execution_memory`].
    pub fn acquire(&self, bytes: i64) -> Result<i64, JavaThrowable> {
        let granted = self.task.manager.acquire(bytes, Some(&self.consumer))?;
        self.consumer.used.fetch_add(granted, Ordering::Relaxed);
        Ok(granted)
    }

    /// Gives `bytes` back.
    pub fn release(&self, bytes: i64) {
        self.task.manager.release(bytes);
        self.consumer.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that this consumer has.
    pub fn used(&self) -> i64 {
        self.consumer.used()
    }

    /// How often it was told to spill.
    pub fn spills(&self) -> u64 {
        self.consumer.spills.load(Ordering::Relaxed)
    }
}

impl TaskMemory for TaskMemoryModel {
    fn acquire(&self, bytes: usize) -> Result<usize> {
        let granted = retry_missing_task_entry(|| self.acquire_execution_memory(bytes as i64))?;
        Ok(granted as usize)
    }

    fn release(&self, bytes: usize) -> Result<()> {
        self.release_execution_memory(bytes as i64);
        Ok(())
    }
}
