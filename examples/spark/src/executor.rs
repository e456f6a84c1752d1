//! Spark's memory management without the executor around it.

use std::fmt::{Debug, Formatter};

use jni::objects::JLongArray;
use jni::refs::Global;
use jni::{JavaVM, bind_java_type};

use crate::task_memory::{CallError, SparkTaskMemory, attached};

bind_java_type! {
    JOffHeapExecutor => "org.apache.spark.memory.counting.OffHeapExecutor",
    constructors {
        fn new(bytes: jlong),
    },
    methods {
        fn task(attempt_id: jlong) -> org.apache.spark.memory.TaskMemoryManager,
        fn active_tasks() -> jlong[],
        fn parked() -> jint,
        fn interrupt_parked(),
    },
}

bind_java_type! {
    JSpillingConsumer => "org.apache.spark.memory.counting.SpillingConsumer",
    constructors {
        fn new(manager: org.apache.spark.memory.TaskMemoryManager, bytes_per_spill: jlong),
    },
    methods {
        fn acquire_memory(bytes: jlong) -> jlong,
        fn free_memory(bytes: jlong),
        fn get_used() -> jlong,
        fn spills() -> jlong,
    },
}

type Result<T> = std::result::Result<T, CallError>;

/// A `UnifiedMemoryManager` of Spark's with an off-heap pool that is for execution as a whole.
///
/// All of its methods fail where Java throws, and with nothing else but a JVM out of order.
pub struct OffHeapExecutor {
    vm: JavaVM,
    executor: Global<JOffHeapExecutor<'static>>,
}

/// A memory consumer of a task on the JVM side. Its methods fail as those of
/// [`OffHeapExecutor`] do.
pub struct SpillingConsumer {
    vm: JavaVM,
    consumer: Global<JSpillingConsumer<'static>>,
}

impl OffHeapExecutor {
    /// With an off-heap pool of `bytes`.
    pub fn new(vm: &JavaVM, bytes: i64) -> Result<Self> {
        let executor = attached(vm, |env| {
            env.with_local_frame(LOCALS, |env| {
                let executor = JOffHeapExecutor::new(env, bytes)?;
                env.new_global_ref(executor)
            })
        })?;
        Ok(Self {
            vm: vm.clone(),
            executor,
        })
    }

    /// The memory of one attempt, over a `TaskMemoryManager` of its own.
    pub fn task(&self, attempt_id: i64) -> Result<SparkTaskMemory> {
        attached(&self.vm, |env| {
            env.with_local_frame(LOCALS, |env| {
                let manager = self.executor.task(env, attempt_id)?;
                Ok::<_, jni::errors::Error>(SparkTaskMemory::new(env, &manager))
            })
        })?
    }

    /// The active tasks' attempt ids and balances in bytes, by id.
    pub fn active_tasks(&self) -> Result<Vec<(i64, i64)>> {
        let figures = attached(&self.vm, |env| {
            env.with_local_frame(LOCALS, |env| {
                let array: JLongArray<'_> = self.executor.active_tasks(env)?;
                let mut figures = vec![0; array.len(env)?];
                array.get_region(env, 0, &mut figures)?;
                Ok::<_, jni::errors::Error>(figures)
            })
        })?;
        let (pairs, _) = figures.as_chunks::<2>();
        let mut tasks: Vec<_> = pairs.iter().map(|[id, bytes]| (*id, *bytes)).collect();
        tasks.sort_unstable();
        Ok(tasks)
    }

    /// How many acquires are parked.
    pub fn parked(&self) -> Result<usize> {
        attached(&self.vm, |env| Ok(self.executor.parked(env)? as usize))
    }

    /// Interrupts every thread whose acquire is parked.
    pub fn interrupt_parked(&self) -> Result<()> {
        attached(&self.vm, |env| self.executor.interrupt_parked(env))
    }
}

impl SpillingConsumer {
    /// For `bytes_per_spill`: spilling throws an `IOException`.
    pub const FAILS: i64 = -1;
    /// For `bytes_per_spill`: the task is killed while spilling.
    pub const IS_KILLED: i64 = -2;

    /// One that gives back at most `bytes_per_spill` each time it is told to spill.
    pub fn new(task: &SparkTaskMemory, bytes_per_spill: i64) -> Result<Self> {
        let vm = task.vm().clone();
        let consumer = attached(&vm, |env| {
            env.with_local_frame(LOCALS, |env| {
                let consumer = JSpillingConsumer::new(env, task.manager(), bytes_per_spill)?;
                env.new_global_ref(consumer)
            })
        })?;
        Ok(Self { vm, consumer })
    }

    /// Asks for `bytes` and returns how many were granted.
    pub fn acquire(&self, bytes: i64) -> Result<i64> {
        attached(&self.vm, |env| self.consumer.acquire_memory(env, bytes))
    }

    /// Gives `bytes` back.
    pub fn release(&self, bytes: i64) -> Result<()> {
        attached(&self.vm, |env| self.consumer.free_memory(env, bytes))
    }

    /// Bytes that this consumer has.
    pub fn used(&self) -> Result<i64> {
        attached(&self.vm, |env| self.consumer.get_used(env))
    }

    /// How often it was told to spill.
    pub fn spills(&self) -> Result<u64> {
        attached(&self.vm, |env| Ok(self.consumer.spills(env)? as u64))
    }
}

/// More references than any of the calls here makes.
const LOCALS: usize = 8;

impl Debug for OffHeapExecutor {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OffHeapExecutor")
            .field("active_tasks", &self.active_tasks())
            .field("parked", &self.parked())
            .finish_non_exhaustive()
    }
}

impl Debug for SpillingConsumer {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpillingConsumer").finish_non_exhaustive()
    }
}
