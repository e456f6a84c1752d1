//! Panics as values: what they said, and where.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// A panic that was caught.
#[derive(Clone, Debug)]
pub(crate) struct Caught {
    pub(crate) message: String,
    /// The file and line that it points at.
    pub(crate) at: (String, u32),
}

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<Caught>> = const { RefCell::new(None) };
}

/// Runs `f`, and gives the panic that it ended in instead of printing it.
pub(crate) fn quietly<R>(f: impl FnOnce() -> R) -> Result<R, Caught> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !CATCHING.get() {
                return others(info);
            }
            let message = info.payload_as_str().unwrap_or_default().to_owned();
            let at = info.location().map(|at| (at.file().to_owned(), at.line()));
            LAST.set(at.map(|at| Caught { message, at }));
        }));
    });
    let outer = CATCHING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(outer);
    result.map_err(|_| LAST.take().expect("the hook has seen the panic"))
}

/// The panic that `f` ends in.
#[track_caller]
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Caught {
    match quietly(f) {
        Ok(_) => panic!("it did not panic"),
        Err(caught) => caught,
    }
}
