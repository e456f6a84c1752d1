use std::fmt::{Debug, Formatter};
use std::sync::Mutex;

use datafusion_common::Result;
use datafusion_counting_pool::spark::TaskMemory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Acquire(usize),
    Release(usize),
}

pub(crate) use Call::{Acquire, Release};

/// A task memory that answers as the test says and writes down what it was called for.
pub(crate) struct Scripted {
    acquire: Box<dyn Fn(usize) -> Result<usize> + Send + Sync>,
    release: Box<dyn Fn(usize) -> Result<()> + Send + Sync>,
    calls: Mutex<Vec<Call>>,
}

impl Scripted {
    pub(crate) fn new(acquire: impl Fn(usize) -> Result<usize> + Send + Sync + 'static) -> Self {
        Self {
            acquire: Box::new(acquire),
            release: Box::new(|_| Ok(())),
            calls: Mutex::default(),
        }
    }

    /// Grants everything.
    pub(crate) fn generous() -> Self {
        Self::new(Ok)
    }

    /// Grants at most `most` at a time.
    pub(crate) fn stingy(most: usize) -> Self {
        Self::new(move |bytes| Ok(bytes.min(most)))
    }

    pub(crate) fn with_release(
        self,
        release: impl Fn(usize) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            release: Box::new(release),
            ..self
        }
    }

    /// The calls since the last time it was asked.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl TaskMemory for Scripted {
    fn acquire(&self, bytes: usize) -> Result<usize> {
        self.calls.lock().unwrap().push(Acquire(bytes));
        (self.acquire)(bytes)
    }

    fn release(&self, bytes: usize) -> Result<()> {
        self.calls.lock().unwrap().push(Release(bytes));
        (self.release)(bytes)
    }
}

impl Debug for Scripted {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Scripted").field(&self.calls).finish()
    }
}
