//! What the rules and the cases are run over: the model here, and real Spark in the
//! `spark-memory` example.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use datafusion_counting_pool::spark::{
    ExecutionMemoryModel, FairUnifiedPool, GreedyUnifiedPool, JavaThrowable, JvmConsumerModel,
    TaskMemory, TaskMemoryModel,
};

use crate::watchdog::watched;

/// Where a case makes its executors and pools, so that they are shown if it hangs.
pub(crate) struct Stage {
    make: Box<dyn Fn(i64) -> Arc<dyn Executor> + Send>,
    made: Arc<Mutex<Vec<Arc<dyn Debug + Send + Sync>>>>,
}

impl Stage {
    /// Runs `case` where executors of so many bytes are made by `make`.
    pub(crate) fn run(make: impl Fn(i64) -> Arc<dyn Executor> + Send + 'static, case: fn(&Self)) {
        let stage = Self {
            make: Box::new(make),
            made: Arc::default(),
        };
        let made = Arc::clone(&stage.made);
        watched(
            move || format!("{:#?}", made.lock().unwrap()),
            move || case(&stage),
        );
    }

    pub(crate) fn executor(&self, bytes: i64) -> Arc<dyn Executor> {
        let executor = (self.make)(bytes);
        self.made
            .lock()
            .unwrap()
            .push(Arc::new(Arc::clone(&executor)));
        executor
    }

    pub(crate) fn fair(&self, memory: Arc<dyn TaskMemory>, bytes: usize) -> Arc<FairUnifiedPool> {
        let pool = Arc::new(FairUnifiedPool::new(memory, bytes));
        self.made.lock().unwrap().push(Arc::clone(&pool) as _);
        pool
    }

    pub(crate) fn greedy(&self, memory: Arc<dyn TaskMemory>) -> Arc<GreedyUnifiedPool> {
        let pool = Arc::new(GreedyUnifiedPool::new(memory));
        self.made.lock().unwrap().push(Arc::clone(&pool) as _);
        pool
    }
}

/// The model, to panic where more is released than was granted.
pub(crate) fn strict_model(bytes: i64) -> Arc<dyn Executor> {
    Arc::new(ExecutionMemoryModel::strict(bytes))
}

/// The model as Spark is.
pub(crate) fn model(bytes: i64) -> Arc<dyn Executor> {
    Arc::new(ExecutionMemoryModel::new(bytes))
}

/// Bytes granted, or what was thrown.
pub(crate) type Granted = Result<i64, JavaThrowable>;

/// The memory management of one executor.
pub(crate) trait Executor: Debug + Send + Sync {
    fn task(&self, attempt_id: i64) -> Arc<dyn Task>;
    /// Ids and balances of the active tasks, by id.
    fn active_tasks(&self) -> Vec<(i64, i64)>;
    fn wait_for_parked(&self, acquires: usize);
    /// Interrupts the thread of the one acquire that is parked, one of the attempt's.
    fn interrupt(&self, attempt_id: i64);
}

/// The memory of one attempt, over a manager of its own.
pub(crate) trait Task: TaskMemory {
    fn acquire_once(&self, bytes: i64) -> Granted;
    fn release_once(&self, bytes: i64);
    fn balance(&self) -> i64;
    fn clean_up(&self) -> i64;
    fn jvm_consumer(&self, bytes_per_spill: i64) -> Box<dyn Consumer>;
}

/// A consumer of a task on the JVM side.
pub(crate) trait Consumer: Send + Sync {
    fn acquire(&self, bytes: i64) -> Granted;
    fn release(&self, bytes: i64);
    fn used(&self) -> i64;
    fn spills(&self) -> u64;
}

impl Executor for ExecutionMemoryModel {
    fn task(&self, attempt_id: i64) -> Arc<dyn Task> {
        Arc::new(self.task(attempt_id))
    }

    fn active_tasks(&self) -> Vec<(i64, i64)> {
        self.active_tasks()
    }

    fn wait_for_parked(&self, acquires: usize) {
        self.wait_for_parked(acquires);
    }

    fn interrupt(&self, attempt_id: i64) {
        self.task(attempt_id).interrupt();
    }
}

impl Task for TaskMemoryModel {
    fn acquire_once(&self, bytes: i64) -> Granted {
        self.acquire_execution_memory(bytes)
    }

    fn release_once(&self, bytes: i64) {
        self.release_execution_memory(bytes);
    }

    fn balance(&self) -> i64 {
        self.balance()
    }

    fn clean_up(&self) -> i64 {
        self.clean_up_all_allocated_memory()
    }

    fn jvm_consumer(&self, bytes_per_spill: i64) -> Box<dyn Consumer> {
        Box::new(self.jvm_consumer(bytes_per_spill))
    }
}

impl Consumer for JvmConsumerModel {
    fn acquire(&self, bytes: i64) -> Granted {
        self.acquire(bytes)
    }

    fn release(&self, bytes: i64) {
        self.release(bytes);
    }

    fn used(&self) -> i64 {
        self.used()
    }

    fn spills(&self) -> u64 {
        self.spills()
    }
}
