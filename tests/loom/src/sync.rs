//! loom's primitives, under the names that the crate uses.

pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use loom::sync::atomic::AtomicBool;
use std::fmt::{self, Debug, Formatter};

/// With `parking_lot`'s signatures.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0
            .lock()
            .expect("a model that panics has failed already")
    }
}

/// The value is seen where the flag is: as with `once_cell`, whose own atomics loom cannot see.
pub(crate) struct OnceCell<T> {
    set: AtomicBool,
    cell: once_cell::sync::OnceCell<T>,
}

impl<T> OnceCell<T> {
    pub(crate) fn new() -> Self {
        Self {
            set: AtomicBool::new(false),
            cell: once_cell::sync::OnceCell::new(),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.set
            .load(Ordering::Acquire)
            .then(|| self.cell.get())
            .flatten()
    }

    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let value = self.cell.get_or_init(init);
        self.set.store(true, Ordering::Release);
        value
    }
}

impl<T> Debug for OnceCell<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("OnceCell")
    }
}
