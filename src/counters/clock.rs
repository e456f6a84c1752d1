//! What time it is, for durations only.

use std::fmt::Debug;
use std::sync::Arc;

/// A clock of one's own for [`CountingPool::with_clock`](crate::CountingPool::with_clock), so
/// that a test of times needs no time.
///
/// It is read twice for each timed call, just before the wrapped pool is called and just after.
pub trait Clock: Debug + Send + Sync {
    /// Nanoseconds since any fixed moment. A reading below the one before counts as no time.
    fn now_nanos(&self) -> u64;
}

/// Where the pool has its time from.
#[derive(Debug, Clone)]
pub(crate) enum Timer {
    /// The processor's time stamp counter where it can be trusted, else the system's monotonic
    /// clock: `Instant::now` takes more than twice as long.
    System(quanta::Clock),
    Injected(Arc<dyn Clock>),
    Off,
}

impl Timer {
    /// The first in a process calibrates the time stamp counter, for up to 200 ms.
    pub(crate) fn system() -> Self {
        Self::System(quanta::Clock::new())
    }

    pub(crate) fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    /// A reading that only [`nanos_since`](Self::nanos_since) can make sense of.
    #[inline]
    pub(crate) fn read(&self) -> u64 {
        match self {
            Self::System(clock) => clock.raw(),
            Self::Injected(clock) => clock.now_nanos(),
            Self::Off => 0,
        }
    }

    /// Nanoseconds from `start` until now, 0 where the clock went back.
    #[inline]
    pub(crate) fn nanos_since(&self, start: u64) -> u64 {
        match self {
            Self::System(clock) => clock.delta_as_nanos(start, clock.raw()),
            Self::Injected(clock) => clock.now_nanos().saturating_sub(start),
            Self::Off => 0,
        }
    }
}
