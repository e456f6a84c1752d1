//! Pools to wrap.

use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use std::fmt::{self, Debug, Display, Formatter};
use std::sync::{Arc, Mutex};

/// First come, first served up to a limit, and not troubled by a release of more than it holds.
/// (DataFusion's own pools wrap there, or panic.)
#[derive(Debug)]
pub(crate) struct ForgivingPool {
    limit: usize,
    used: Mutex<usize>,
}

impl ForgivingPool {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: Mutex::new(0),
        }
    }
}

impl MemoryPool for ForgivingPool {
    fn name(&self) -> &str {
        "forgiving"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        *self.used.lock().unwrap() += additional;
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        let mut used = self.used.lock().unwrap();
        *used = used.saturating_sub(shrink);
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<()> {
        let mut used = self.used.lock().unwrap();
        if *used + additional > self.limit {
            return Err(DataFusionError::ResourcesExhausted("no room".into()));
        }
        *used += additional;
        Ok(())
    }

    fn reserved(&self) -> usize {
        *self.used.lock().unwrap()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl Display for ForgivingPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "forgiving(limit: {})", self.limit)
    }
}

/// Grants everything and writes down every call, with the consumer's name and the bytes.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    calls: Arc<Mutex<Vec<String>>>,
}

impl CallLog {
    /// What is written down; it stays readable when the pool has been given away.
    pub(crate) fn calls(&self) -> Arc<Mutex<Vec<String>>> {
        Arc::clone(&self.calls)
    }

    fn write_down(&self, method: &str, consumer: &MemoryConsumer, bytes: usize) {
        let call = format!("{method} {} {bytes}", consumer.name());
        self.calls.lock().unwrap().push(call);
    }
}

impl MemoryPool for CallLog {
    fn name(&self) -> &str {
        "log"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.write_down("register", consumer, 0);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.write_down("unregister", consumer, 0);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.write_down("grow", reservation.consumer(), additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.write_down("shrink", reservation.consumer(), shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.write_down("try_grow", reservation.consumer(), additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        17
    }

    // `memory_limit` is left to the trait, which says `Unknown`.
}

impl Display for CallLog {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("log(everything)")
    }
}

/// Grants everything, and calls a closure in `register` and `unregister`.
pub(crate) struct RegisterHook(Box<dyn Fn(&str) + Send + Sync>);

impl RegisterHook {
    /// The closure is given the name of the method.
    pub(crate) fn new(hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Box::new(hook))
    }
}

impl Debug for RegisterHook {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("RegisterHook")
    }
}

impl Display for RegisterHook {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("register_hook")
    }
}

impl MemoryPool for RegisterHook {
    fn name(&self) -> &str {
        "register_hook"
    }

    fn register(&self, _: &MemoryConsumer) {
        (self.0)("register");
    }

    fn unregister(&self, _: &MemoryConsumer) {
        (self.0)("unregister");
    }

    fn grow(&self, _: &MemoryReservation, _: usize) {}

    fn shrink(&self, _: &MemoryReservation, _: usize) {}

    fn try_grow(&self, _: &MemoryReservation, _: usize) -> Result<()> {
        Ok(())
    }

    fn reserved(&self) -> usize {
        0
    }
}

/// First come, first served, and calls a closure with what it holds, before and after it does
/// its part of a `try_grow`, `grow` or `shrink`.
pub(crate) struct SpiedPool {
    pool: ForgivingPool,
    spy: Box<dyn Fn(usize) + Send + Sync>,
}

impl SpiedPool {
    pub(crate) fn new(limit: usize, spy: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self {
            pool: ForgivingPool::new(limit),
            spy: Box::new(spy),
        }
    }

    fn spied<R>(&self, call: impl FnOnce() -> R) -> R {
        (self.spy)(self.pool.reserved());
        let result = call();
        (self.spy)(self.pool.reserved());
        result
    }
}

impl Debug for SpiedPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.pool, f)
    }
}

impl Display for SpiedPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.pool, f)
    }
}

impl MemoryPool for SpiedPool {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.spied(|| self.pool.grow(reservation, additional));
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.spied(|| self.pool.shrink(reservation, shrink));
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.spied(|| self.pool.try_grow(reservation, additional))
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}
