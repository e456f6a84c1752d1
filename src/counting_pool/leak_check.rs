//! A guard against reservations that are forgotten.

use super::CountingPool;
use std::sync::Arc;

/// Says what is still held when it is dropped; see [`CountingPool::leak_check`].
#[derive(Debug)]
#[must_use = "it checks when it is dropped, so bind it to a name"]
pub struct LeakCheck {
    pool: Arc<CountingPool>,
}

impl CountingPool {
    /// A guard that, dropped at the end of a scope, says who still holds how much, and nothing
    /// where everything was released. It warns through `log`, or on standard error where no
    /// logger takes warnings.
    ///
    /// A reservation that was forgotten keeps its pool alive, so that the pool's own drop never
    /// comes: this one does.
    pub fn leak_check(self: &Arc<Self>) -> LeakCheck {
        LeakCheck {
            pool: Arc::clone(self),
        }
    }
}

impl LeakCheck {
    /// What the guard would say if it were dropped now, `None` where nothing is held.
    pub fn message(&self) -> Option<String> {
        let snapshot = self.pool.snapshot();
        (!snapshot.everything_released()).then(|| snapshot.holders("memory was not released"))
    }
}

impl Drop for LeakCheck {
    fn drop(&mut self) {
        if let Some(message) = self.message() {
            if log::log_enabled!(log::Level::Warn) {
                log::warn!("{message}");
            } else {
                eprintln!("{message}");
            }
        }
    }
}
