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

/// How long a call takes.
#[derive(Debug, Clone)]
pub(crate) struct Timer {
    clock: Source,
    on: bool,
}

#[derive(Debug, Clone)]
enum Source {
    /// The processor's time stamp counter where it can be trusted, else the system's monotonic
    /// clock: `Instant::now` takes more than twice as long.
    System(quanta::Clock),
    Injected(Arc<dyn Clock>),
}

impl Timer {
    /// The first in a process calibrates the time stamp counter.
    pub(crate) fn system() -> Self {
        Self {
            clock: Source::System(quanta::Clock::new()),
            on: true,
        }
    }

    pub(crate) fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        self.clock = Source::Injected(clock);
    }

    pub(crate) fn turn(&mut self, on: bool) {
        self.on = on;
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// A reading that only [`nanos_since`](Self::nanos_since) can make sense of.
    #[inline]
    pub(crate) fn read(&self) -> u64 {
        match &self.clock {
            _ if !self.on => 0,
            Source::System(clock) => clock.raw(),
            Source::Injected(clock) => clock.now_nanos(),
        }
    }

    /// Nanoseconds from `start` until now, 0 where the clock went back.
    #[inline]
    pub(crate) fn nanos_since(&self, start: u64) -> u64 {
        match &self.clock {
            _ if !self.on => 0,
            Source::System(clock) => clock.delta_as_nanos(start, clock.raw()),
            Source::Injected(clock) => clock.now_nanos().saturating_sub(start),
        }
    }
}
