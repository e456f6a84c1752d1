//! The real [`TaskMemory`].

use std::error::Error;
use std::fmt::{Debug, Display, Formatter};

use datafusion_common::{DataFusionError, Result};
use datafusion_counting_pool::spark::{JavaThrowable, TaskMemory, retry_missing_task_entry};
use jni::objects::JObject;
use jni::refs::{Global, Reference};
use jni::sys::jlong;
use jni::{AttachConfig, Env, JavaVM, bind_java_type};

use crate::throwable::caught;

bind_java_type! {
    /// Spark's own manager of one attempt's memory.
    TaskMemoryManager => "org.apache.spark.memory.TaskMemoryManager",
    methods {
        fn clean_up_all_allocated_memory() -> jlong,
    },
}

bind_java_type! {
    NativeTaskMemory => "org.apache.spark.memory.counting.NativeTaskMemory",
    type_map = {
        TaskMemoryManager => "org.apache.spark.memory.TaskMemoryManager",
    },
    constructors {
        fn new(manager: TaskMemoryManager),
    },
    methods {
        fn acquire(bytes: jlong) -> jlong,
        fn release(bytes: jlong),
        fn balance() -> jlong,
    },
}

/// The off-heap execution memory of one attempt of a Spark task.
///
/// Its acquires park where Spark parks them, with no time limit, and are asked again where
/// Spark's own race made one fail. Any thread may call; a thread that the JVM does not know yet
/// is attached to it, until the thread ends.
pub struct SparkTaskMemory {
    vm: JavaVM,
    memory: Global<NativeTaskMemory<'static>>,
    manager: Global<TaskMemoryManager<'static>>,
}

/// Why a call into the JVM failed.
#[derive(Debug)]
pub enum CallError {
    /// Java threw something.
    Thrown(JavaThrowable),
    /// The call could not be made, or what was thrown could not be read.
    Jni(jni::errors::Error),
}

impl SparkTaskMemory {
    /// Over the `TaskMemoryManager` of the attempt, which is kept from being collected for as
    /// long as this lives.
    ///
    /// # Errors
    ///
    /// Where `manager` is of another class, and where the classes of this package are not found
    /// by the thread's class loader.
    pub fn new(env: &mut Env<'_>, manager: &JObject<'_>) -> std::result::Result<Self, CallError> {
        let vm = env.get_java_vm()?;
        let new = caught(env, |env| {
            let manager = env.new_local_ref(manager)?;
            let manager = TaskMemoryManager::cast_local(env, manager)?;
            let memory = NativeTaskMemory::new(env, &manager)?;
            Ok(Self {
                vm,
                memory: env.new_global_ref(&memory)?,
                manager: env.new_global_ref(&manager)?,
            })
        })?;
        Ok(new?)
    }

    /// Asks Spark once, and passes on whatever it answers. The pools want
    /// [`TaskMemory::acquire`].
    ///
    /// # Errors
    ///
    /// What Java throws, Spark's race between a release and a parked acquire included.
    pub fn acquire_once(&self, bytes: i64) -> std::result::Result<i64, CallError> {
        self.call(|env, memory| memory.acquire(env, bytes))
    }

    /// Gives `bytes` back to Spark, whatever their sign. The pools want [`TaskMemory::release`].
    ///
    /// # Errors
    ///
    /// What Java throws.
    pub fn release_once(&self, bytes: i64) -> std::result::Result<(), CallError> {
        self.call(|env, memory| memory.release(env, bytes))
    }

    /// Bytes that Spark has granted to the attempt, to its native code and on its JVM side.
    ///
    /// # Errors
    ///
    /// What Java throws.
    pub fn balance(&self) -> std::result::Result<i64, CallError> {
        self.call(|env, memory| memory.balance(env))
    }

    /// Releases all that the attempt has, as Spark does when it ends. Returns the bytes.
    ///
    /// # Errors
    ///
    /// What Java throws.
    pub fn clean_up_all_allocated_memory(&self) -> std::result::Result<i64, CallError> {
        self.call(|env, _| self.manager.clean_up_all_allocated_memory(env))
    }

    pub(crate) fn vm(&self) -> &JavaVM {
        &self.vm
    }

    /// The `TaskMemoryManager` behind it.
    pub fn manager(&self) -> &JObject<'static> {
        self.manager.as_obj()
    }

    fn call<T>(
        &self,
        call: impl FnOnce(&mut Env<'_>, &NativeTaskMemory<'static>) -> jni::errors::Result<T>,
    ) -> std::result::Result<T, CallError> {
        attached(&self.vm, |env| call(env, &self.memory))
    }
}

/// Calls Java from this thread. Without a frame for local references, which costs more than the
/// call itself, so that `call` must leave none behind.
pub(crate) fn attached<T>(
    vm: &JavaVM,
    call: impl FnOnce(&mut Env<'_>) -> jni::errors::Result<T>,
) -> std::result::Result<T, CallError> {
    vm.attach_current_thread_with_config(AttachConfig::default, None, |env| caught(env, call))
        .map_err(CallError::Jni)?
        .map_err(CallError::Thrown)
}

impl TaskMemory for SparkTaskMemory {
    fn acquire(&self, bytes: usize) -> Result<usize> {
        // The pools ask for no more than `isize::MAX`, and take no more than they asked for.
        let bytes = bytes as jlong;
        let granted = retry_missing_task_entry(|| match self.acquire_once(bytes) {
            Err(CallError::Thrown(thrown)) => Err(thrown),
            Err(CallError::Jni(error)) => Ok(Err(CallError::Jni(error))),
            Ok(granted) => Ok(Ok(granted)),
        })??;
        Ok(granted.max(0) as usize)
    }

    fn release(&self, bytes: usize) -> Result<()> {
        Ok(self.release_once(bytes as jlong)?)
    }
}

impl Debug for SparkTaskMemory {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SparkTaskMemory").finish_non_exhaustive()
    }
}

impl Display for CallError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Thrown(thrown) => Display::fmt(thrown, f),
            Self::Jni(error) => write!(f, "calling Java failed: {error}"),
        }
    }
}

impl Error for CallError {}

impl From<JavaThrowable> for CallError {
    fn from(thrown: JavaThrowable) -> Self {
        Self::Thrown(thrown)
    }
}

impl From<jni::errors::Error> for CallError {
    fn from(error: jni::errors::Error) -> Self {
        Self::Jni(error)
    }
}

impl From<CallError> for DataFusionError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Thrown(thrown) => thrown.into(),
            CallError::Jni(_) => DataFusionError::External(Box::new(error)),
        }
    }
}
