//! Holding a call up until a test lets it go.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// The handle of calls that are parked, or are to be.
///
/// ```
/// use datafusion_counting_pool::FaultPool;
/// use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
/// use std::sync::Arc;
/// use std::thread;
///
/// let (pool, parked) = FaultPool::new(Arc::new(UnboundedMemoryPool::default())).park_nth(1);
/// let pool: Arc<dyn MemoryPool> = Arc::new(pool);
/// let slow = MemoryConsumer::new("slow").register(&pool);
/// thread::scope(|scope| {
///     scope.spawn(|| slow.grow(64));
///     parked.wait();
///     // The call is under way, and stays so.
///     assert_eq!(pool.reserved(), 0);
///     parked.let_go();
/// });
/// assert_eq!(pool.reserved(), 64);
/// ```
///
/// Dropped, it lets the calls go as well, so that a test that fails does not hang.
#[derive(Debug)]
#[must_use = "once it is dropped, no call is parked any more"]
pub struct Parked {
    gate: Arc<Gate>,
}

impl Parked {
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        Self { gate }
    }

    /// Blocks until a call has parked: for ever, if none ever does. It returns at once where one
    /// has already.
    pub fn wait(&self) {
        let mut state = self.gate.state.lock();
        self.gate
            .changed
            .wait_while(&mut state, |state| !state.reached);
    }

    /// Lets the parked calls go on. No other is parked any more.
    pub fn let_go(self) {
        drop(self);
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.gate.state.lock().open = true;
        self.gate.changed.notify_all();
    }
}

#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// A call has been here.
    reached: bool,
    open: bool,
}

impl Gate {
    pub(super) fn park(&self) {
        let mut state = self.state.lock();
        if state.open {
            return;
        }
        state.reached = true;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| !state.open);
    }
}
