//! Real Spark as the subject of the rules and the cases.

use std::io::{Write, stderr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jni::JavaVM;
use spark_memory::{CallError, OffHeapExecutor, SparkTaskMemory, SpillingConsumer};

use crate::subject::{Consumer, Executor, Granted, Stage, Task};

/// The JVM of this process. Where there is none the tests that need one are skipped, which is
/// said past the harness's capture of output, and under CI they fail.
pub(crate) fn jvm() -> Option<JavaVM> {
    match spark_memory::jvm() {
        Ok(jvm) => Some(jvm),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            let test = thread::current();
            let test = test.name().unwrap_or("a test");
            let mut past_capture = stderr();
            writeln!(past_capture, "SKIPPED {test}: {error}").unwrap();
            None
        }
    }
}

/// Runs `case` over real Spark, if it is there.
pub(crate) fn run(case: fn(&Stage)) {
    if let Some(jvm) = jvm() {
        Stage::run(
            move |bytes| Arc::new(OffHeapExecutor::new(&jvm, bytes).unwrap()),
            case,
        );
    }
}

/// Whatever else goes wrong is a failure of the test.
#[track_caller]
fn thrown(answer: Result<i64, CallError>) -> Granted {
    match answer {
        Ok(granted) => Ok(granted),
        Err(CallError::Thrown(thrown)) => Err(thrown),
        Err(other) => panic!("{other}"),
    }
}

impl Executor for OffHeapExecutor {
    fn task(&self, attempt_id: i64) -> Arc<dyn Task> {
        Arc::new(self.task(attempt_id).unwrap())
    }

    fn active_tasks(&self) -> Vec<(i64, i64)> {
        self.active_tasks().unwrap()
    }

    fn wait_for_parked(&self, acquires: usize) {
        // The JVM tells nobody when a thread begins to wait.
        while self.parked().unwrap() < acquires {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn interrupt(&self, _attempt_id: i64) {
        self.interrupt_parked().unwrap();
    }
}

impl Task for SparkTaskMemory {
    fn acquire_once(&self, bytes: i64) -> Granted {
        thrown(self.acquire_once(bytes))
    }

    fn release_once(&self, bytes: i64) {
        self.release_once(bytes).unwrap();
    }

    fn balance(&self) -> i64 {
        self.balance().unwrap()
    }

    fn clean_up(&self) -> i64 {
        self.clean_up_all_allocated_memory().unwrap()
    }

    fn jvm_consumer(&self, bytes_per_spill: i64) -> Box<dyn Consumer> {
        Box::new(SpillingConsumer::new(self, bytes_per_spill).unwrap())
    }
}

impl Consumer for SpillingConsumer {
    fn acquire(&self, bytes: i64) -> Granted {
        thrown(self.acquire(bytes))
    }

    fn release(&self, bytes: i64) {
        self.release(bytes).unwrap();
    }

    fn used(&self) -> i64 {
        self.used().unwrap()
    }

    fn spills(&self) -> u64 {
        self.spills().unwrap()
    }
}
