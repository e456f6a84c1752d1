//! What several test files need.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

mod caught;
mod counted;
mod ops;
mod pools;

pub(crate) use caught::{Caught, caught, quietly};
pub(crate) use counted::{Asked, Counted, counted};
pub(crate) use ops::{NAMES, Op, Player, any_op};
pub(crate) use pools::{CallLog, ForgivingPool, RegisterHook, SpiedPool};

use datafusion_counting_pool::{Clock, CountingPool, Snapshot};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

/// A counting pool that reads no clock, and the same one as the trait object that consumers
/// register with.
pub(crate) fn counting(inner: impl MemoryPool) -> (Arc<CountingPool>, Arc<dyn MemoryPool>) {
    shared(CountingPool::new(Arc::new(inner)).with_timing(false))
}

pub(crate) fn shared(pool: CountingPool) -> (Arc<CountingPool>, Arc<dyn MemoryPool>) {
    let counting = Arc::new(pool);
    let pool = Arc::clone(&counting) as _;
    (counting, pool)
}

pub(crate) fn register(pool: &Arc<dyn MemoryPool>, name: &str) -> MemoryReservation {
    MemoryConsumer::new(name).register(pool)
}

pub(crate) fn register_spillable(pool: &Arc<dyn MemoryPool>, name: &str) -> MemoryReservation {
    MemoryConsumer::new(name)
        .with_can_spill(true)
        .register(pool)
}

/// What the pool has counted in total.
pub(crate) fn total(pool: &CountingPool) -> Counted {
    counted(&pool.snapshot().total)
}

/// What is counted of the consumer with this id, which must be registered.
#[track_caller]
pub(crate) fn raw(snapshot: &Snapshot, reservation: &MemoryReservation) -> Counted {
    let id = reservation.consumer().id();
    let row = snapshot.consumers.iter().find(|row| row.id == id);
    counted(&row.expect("the consumer is registered").figures)
}

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub(crate) struct ManualClock {
    now: AtomicU64,
    reads: AtomicU64,
}

impl ManualClock {
    pub(crate) fn advance(&self, nanos: u64) {
        self.now.fetch_add(nanos, SeqCst);
    }

    pub(crate) fn step_back(&self, nanos: u64) {
        self.now.fetch_sub(nanos, SeqCst);
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(SeqCst)
    }
}

impl Clock for ManualClock {
    fn now_nanos(&self) -> u64 {
        self.reads.fetch_add(1, SeqCst);
        self.now.load(SeqCst)
    }
}

/// Something that happens once, and that other threads wait for.
#[derive(Debug, Default)]
pub(crate) struct Event {
    happened: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    pub(crate) fn set(&self) {
        *self.happened.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub(crate) fn wait(&self) {
        let happened = self.happened.lock().unwrap();
        let _happened = self
            .changed
            .wait_while(happened, |happened| !*happened)
            .unwrap();
    }
}
