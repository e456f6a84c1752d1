//! Panics of the readers, taken for what they say of the file.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What `read` gives, or the message of its panic, of which standard error hears nothing.
///
/// Arrow's readers find much of what is wrong with a corrupt file by their assertions, not by
/// their errors.
pub(super) fn guarded<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                hook(panic);
            }
        }));
    });
    GUARDED.set(true);
    // What a reader was left as does not matter: it is not used again.
    let result = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(false);
    result.map_err(|panic| message(&*panic).to_owned())
}

fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (_, Some(message)) => message,
        _ => "it is corrupt",
    }
}
