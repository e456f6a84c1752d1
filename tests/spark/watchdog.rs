use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Far more than any body takes, on the slowest machine.
const LIMIT: Duration = Duration::from_secs(100);

/// Runs `body`, and fails with `state` where it does not come to an end.
pub(crate) fn watched(state: impl Fn() -> String, body: impl FnOnce() + Send + 'static) {
    let (running, ended) = mpsc::channel::<()>();
    let body = thread::spawn(move || {
        let _running = running;
        body();
    });
    if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
        panic!("no end after {LIMIT:?}:\n{}", state());
    }
    if let Err(panicked) = body.join() {
        panic::resume_unwind(panicked);
    }
}
