//! A call and what becomes of it.

use datafusion_common::DataFusionError;
use datafusion_execution::memory_pool::MemoryReservation;
use std::fmt::{self, Display, Formatter};

/// What becomes of a call that goes wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// A `try_grow` ends in `ResourcesExhausted`, with a text that says which call was denied.
    /// `grow` and `shrink` have no error to give: they go on to the wrapped pool.
    Deny,
    /// A `try_grow` ends in this error. `grow` and `shrink` have no error to give: they go on to
    /// the wrapped pool.
    Fail(DataFusionError),
    /// The call panics, with a message that says which call it was.
    Panic,
}

/// A method of [`MemoryPool`](datafusion_execution::memory_pool::MemoryPool) that acquires or
/// releases memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolMethod {
    /// `try_grow`, an acquire.
    TryGrow,
    /// `grow`, an acquire.
    Grow,
    /// `shrink`, a release.
    Shrink,
}

/// A call that [`FaultPool`](super::FaultPool) is about to hand on. It is of more than zero
/// bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PoolCall<'a> {
    /// The method that was called.
    pub method: PoolMethod,
    /// 1 for the pool's first acquire, and for its first release.
    pub number: u64,
    /// The reservation that the call is for. In `try_grow` and `grow` its size is what it was
    /// before, in `shrink` what it is after.
    pub reservation: &'a MemoryReservation,
    /// Bytes asked for or given back.
    pub bytes: usize,
}

impl PoolCall<'_> {
    pub(super) fn is_acquire(&self, number: u64) -> bool {
        self.method != PoolMethod::Shrink && self.number == number
    }

    pub(super) fn is_release(&self, number: u64) -> bool {
        self.method == PoolMethod::Shrink && self.number == number
    }

    pub(super) fn told(&self, verb: &str) -> String {
        format!("FaultPool {verb} {self}")
    }
}

/// For instance `acquire 3, a try_grow of 64 bytes for ExternalSorter[0]#17`.
impl Display for PoolCall<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (kind, method) = match self.method {
            PoolMethod::TryGrow => ("acquire", "try_grow"),
            PoolMethod::Grow => ("acquire", "grow"),
            PoolMethod::Shrink => ("release", "shrink"),
        };
        let consumer = self.reservation.consumer();
        write!(
            f,
            "{kind} {}, a {method} of {} bytes for {}#{}",
            self.number,
            self.bytes,
            consumer.name(),
            consumer.id()
        )
    }
}
