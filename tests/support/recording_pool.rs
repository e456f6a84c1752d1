//! A memory pool that writes down its calls, and answers those one chooses.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};

/// One call of more than 0 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A `try_grow` that was granted.
    Granted(usize),
    /// A `try_grow` that ended in an error.
    Refused(usize),
    /// A `grow`.
    Forced(usize),
    /// A `shrink`.
    Released(usize),
}

type Answer = Box<dyn FnMut(usize, usize) -> Option<DataFusionError> + Send>;

pub(crate) struct RecordingPool {
    inner: Arc<dyn MemoryPool>,
    calls: Mutex<Vec<Call>>,
    answer: Mutex<Answer>,
}

impl RecordingPool {
    pub(crate) fn new(inner: impl MemoryPool + 'static) -> Arc<Self> {
        Self::with_answer(inner, |_, _| None)
    }

    pub(crate) fn unbounded() -> Arc<Self> {
        Self::new(UnboundedMemoryPool::default())
    }

    /// `answer` is given the number of the call that acquires, from 0, and its bytes. Where it
    /// gives an error, a `try_grow` ends in that; a `grow` cannot.
    pub(crate) fn with_answer(
        inner: impl MemoryPool + 'static,
        answer: impl FnMut(usize, usize) -> Option<DataFusionError> + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::new(inner),
            calls: Mutex::default(),
            answer: Mutex::new(Box::new(answer)),
        })
    }

    pub(crate) fn as_pool(self: &Arc<Self>) -> Arc<dyn MemoryPool> {
        Arc::clone(self) as _
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// The bytes of each call that was granted, forced ones included.
    pub(crate) fn acquired(&self) -> Vec<usize> {
        let bytes = |call| match call {
            Call::Granted(bytes) | Call::Forced(bytes) => Some(bytes),
            Call::Refused(_) | Call::Released(_) => None,
        };
        self.calls().into_iter().filter_map(bytes).collect()
    }

    /// The calls that asked for memory, refused ones included.
    pub(crate) fn acquisitions(&self) -> usize {
        self.calls().len() - self.released().len()
    }

    pub(crate) fn refused(&self) -> usize {
        let refused = |call: &Call| matches!(call, Call::Refused(_));
        self.calls().iter().filter(|call| refused(call)).count()
    }

    /// The bytes of each release.
    pub(crate) fn released(&self) -> Vec<usize> {
        let bytes = |call| match call {
            Call::Released(bytes) => Some(bytes),
            _ => None,
        };
        self.calls().into_iter().filter_map(bytes).collect()
    }

    fn answer(&self, bytes: usize) -> Option<DataFusionError> {
        let number = self.acquisitions();
        (self.answer.lock().unwrap())(number, bytes)
    }

    fn record(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
    }
}

impl fmt::Debug for RecordingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}

impl fmt::Display for RecordingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl MemoryPool for RecordingPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if additional > 0 {
            self.answer(additional);
            self.record(Call::Forced(additional));
        }
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if shrink > 0 {
            self.record(Call::Released(shrink));
        }
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if additional == 0 {
            return self.inner.try_grow(reservation, 0);
        }
        let answer = match self.answer(additional) {
            Some(error) => Err(error),
            None => self.inner.try_grow(reservation, additional),
        };
        self.record(match &answer {
            Ok(()) => Call::Granted(additional),
            Err(_) => Call::Refused(additional),
        });
        answer
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}
