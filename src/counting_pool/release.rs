//! Waiting until everything is released.

use super::CountingPool;
use crate::counters::Level;
use crate::snapshot::Snapshot;
use event_listener::{Event, Listener};
use futures_timer::Delay;
use std::fmt::{self, Debug, Display, Formatter};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Tells those who wait when the pool may have run empty.
#[derive(Debug, Default)]
pub(super) struct Releases {
    /// Whether anybody waits: a release reads this and is done.
    waiting: AtomicUsize,
    event: Event,
}

impl Releases {
    /// A release is done, all its figures written.
    #[inline]
    pub(super) fn one_done(&self, level: &Level) {
        // SeqCst here and where `waiting` is raised: either the waiter sees this release, or
        // this release sees the waiter.
        if self.waiting.load(SeqCst) > 0 && level.reserved() == 0 {
            self.event.notify(usize::MAX);
        }
    }

    fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, SeqCst);
        Waiting(self)
    }
}

struct Waiting<'a>(&'a Releases);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

/// Memory was still held when the deadline passed. Its text says by whom.
#[derive(Clone)]
pub struct NotReleased {
    deadline: Duration,
    snapshot: Box<Snapshot>,
}

impl NotReleased {
    /// The figures at the deadline.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl Display for NotReleased {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let expected = format!(
            "expected everything to be released within {:?}",
            self.deadline
        );
        f.write_str(&self.snapshot.holders(&expected))
    }
}

/// As `Display`: this is what an `unwrap` and a test that returns the error print.
impl Debug for NotReleased {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl std::error::Error for NotReleased {}

impl CountingPool {
    /// Waits until everything acquired through this pool has been released, woken by the
    /// release itself. It needs no particular runtime and blocks no thread. The deadline runs
    /// from the first poll on.
    ///
    /// # Errors
    /// Where something is still held when `deadline` has passed; the error says by whom.
    pub async fn released_within(&self, deadline: Duration) -> Result<(), NotReleased> {
        let _waiting = self.releases.wait();
        let mut timeout = pin!(Delay::new(deadline));
        loop {
            let mut release = pin!(self.releases.event.listen());
            if self.snapshot().everything_released() {
                return Ok(());
            }
            let timed_out = poll_fn(|cx| {
                if release.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(false);
                }
                timeout.as_mut().poll(cx).map(|()| true)
            });
            if timed_out.await {
                return self.released_or(deadline);
            }
        }
    }

    /// Like [`released_within`](Self::released_within), for plain tests: it blocks the thread, so
    /// in an async test nothing else of a current-thread runtime would go on meanwhile.
    ///
    /// # Errors
    /// Where something is still held when `deadline` has passed; the error says by whom.
    pub fn released_within_blocking(&self, deadline: Duration) -> Result<(), NotReleased> {
        let _waiting = self.releases.wait();
        // Beyond what the clock can say, there is no deadline.
        let until = Instant::now().checked_add(deadline);
        loop {
            let release = self.releases.event.listen();
            if self.snapshot().everything_released() {
                return Ok(());
            }
            let timed_out = match until {
                Some(until) => release.wait_deadline(until).is_none(),
                None => {
                    release.wait();
                    false
                }
            };
            if timed_out {
                return self.released_or(deadline);
            }
        }
    }

    fn released_or(&self, deadline: Duration) -> Result<(), NotReleased> {
        let snapshot = self.snapshot();
        if snapshot.everything_released() {
            return Ok(());
        }
        Err(NotReleased {
            deadline,
            snapshot: Box::new(snapshot),
        })
    }
}
