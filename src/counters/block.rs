//! Everything counted of one consumer.

use super::level::Level;
use super::sizes::SizeCounts;
use crate::figures::{Acquires, CallTime, Calls, Figures, Requests};
use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

/// Which of the two ways to ask for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireBy {
    TryGrow,
    Grow,
}

/// The counters of one consumer.
///
/// No counter is the difference of two others: sums of counters that only rise only rise
/// themselves, whenever they are read. What is hot stands first, together.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Block {
    level: Level,
    granted: [Tally; 2],
    releases: Tally,
    acquire_time: Time,
    release_time: Time,
    sizes: SizeCounts,
    denied: Tally,
    failed: AtomicU64,
    /// Bytes asked for in calls that failed or panicked, by the way of asking.
    lost_bytes: [AtomicU64; 2],
    /// A program that survives four billion panics may see this one wrap.
    panicked: [AtomicU32; 2],
    releases_panicked: AtomicU32,
    anomalies: Tally,
    zero_byte_calls: AtomicU64,
}

#[derive(Debug, Default)]
struct Tally {
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    #[inline]
    fn count(&self, bytes: u64) {
        self.calls.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn read(&self) -> Calls {
        Calls {
            calls: self.calls.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    fn reset(&self) {
        self.calls.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
    }
}

#[derive(Debug, Default)]
struct Time {
    total: AtomicU64,
    max: AtomicU64,
}

impl Time {
    #[inline]
    fn record(&self, nanos: u64) {
        self.total.fetch_add(nanos, Relaxed);
        if nanos > self.max.load(Relaxed) {
            self.max.fetch_max(nanos, Relaxed);
        }
    }

    fn read(&self) -> CallTime {
        CallTime {
            total: Duration::from_nanos(self.total.load(Relaxed)),
            max: Duration::from_nanos(self.max.load(Relaxed)),
        }
    }

    fn reset(&self) {
        self.total.store(0, Relaxed);
        self.max.store(0, Relaxed);
    }
}

impl Block {
    #[inline]
    pub(crate) fn granted(&self, how: AcquireBy, bytes: u64) {
        self.sizes.count(bytes);
        self.granted[how as usize].count(bytes);
        self.level.raise(bytes);
    }

    pub(crate) fn denied(&self, bytes: u64) {
        self.sizes.count(bytes);
        self.denied.count(bytes);
    }

    pub(crate) fn failed(&self, bytes: u64) {
        self.sizes.count(bytes);
        self.failed.fetch_add(1, Relaxed);
        self.lost_bytes[AcquireBy::TryGrow as usize].fetch_add(bytes, Relaxed);
    }

    pub(crate) fn panicked(&self, how: AcquireBy, bytes: u64) {
        self.sizes.count(bytes);
        self.panicked[how as usize].fetch_add(1, Relaxed);
        self.lost_bytes[how as usize].fetch_add(bytes, Relaxed);
    }

    #[inline]
    pub(crate) fn acquire_took(&self, nanos: u64) {
        self.acquire_time.record(nanos);
    }

    /// To be called before the memory goes back. Gives the bytes that were not held.
    #[inline]
    pub(crate) fn releasing(&self, bytes: u64) -> u64 {
        self.level.lower(bytes)
    }

    /// To be called when the memory has gone back.
    #[inline]
    pub(crate) fn released(&self, bytes: u64, not_held: u64) {
        self.releases.calls.fetch_add(1, Relaxed);
        // Who reads this figure sees the acquires that came before, and so never more
        // released than acquired.
        self.releases.bytes.fetch_add(bytes - not_held, Release);
        if not_held > 0 {
            self.anomalies.count(not_held);
        }
    }

    #[inline]
    pub(crate) fn release_took(&self, nanos: u64) {
        self.release_time.record(nanos);
    }

    pub(crate) fn release_panicked(&self, bytes: u64, not_held: u64) {
        // It never went. Others may have taken more meanwhile, so this may be a peak.
        self.level.raise(bytes - not_held);
        self.releases_panicked.fetch_add(1, Relaxed);
    }

    pub(crate) fn zero_byte_call(&self) {
        self.zero_byte_calls.fetch_add(1, Relaxed);
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.level.reserved()
    }

    pub(crate) fn read(&self) -> Figures {
        let released_bytes = self.releases.bytes.load(Acquire);
        let releases = Calls {
            calls: self.releases.calls.load(Relaxed),
            bytes: released_bytes,
        };
        let level = self.level.read();
        let (denied, failed) = (self.denied.read(), self.failed.load(Relaxed));
        let requests = |how: AcquireBy| {
            let granted = self.granted[how as usize].read();
            let panicked = u64::from(self.panicked[how as usize].load(Relaxed));
            let lost_bytes = self.lost_bytes[how as usize].load(Relaxed);
            let requests = Requests {
                calls: granted.calls + panicked,
                asked_bytes: granted.bytes + lost_bytes,
                acquired_bytes: granted.bytes,
            };
            (requests, panicked)
        };
        let (mut try_grow, try_grow_panicked) = requests(AcquireBy::TryGrow);
        let (grow, grow_panicked) = requests(AcquireBy::Grow);
        try_grow.calls += denied.calls + failed;
        try_grow.asked_bytes += denied.bytes;
        Figures {
            acquires: Acquires {
                calls: try_grow.calls + grow.calls,
                asked_bytes: try_grow.asked_bytes + grow.asked_bytes,
                acquired_bytes: try_grow.acquired_bytes + grow.acquired_bytes,
                try_grow,
                grow,
            },
            denied,
            failed,
            panicked: try_grow_panicked + grow_panicked,
            releases,
            releases_panicked: u64::from(self.releases_panicked.load(Relaxed)),
            acquire_time: self.acquire_time.read(),
            release_time: self.release_time.read(),
            reserved_bytes: level.reserved,
            peak_bytes: level.peak,
            sizes: self.sizes.read(),
            anomalies: self.anomalies.read(),
            zero_byte_calls: self.zero_byte_calls.load(Relaxed),
            ..Figures::default()
        }
    }

    /// Makes the block fit for another consumer.
    pub(crate) fn reset(&self) {
        let Self {
            level,
            granted: [try_grow, grow],
            releases,
            acquire_time,
            release_time,
            sizes,
            denied,
            failed,
            lost_bytes: [try_grow_lost, grow_lost],
            panicked,
            releases_panicked,
            anomalies,
            zero_byte_calls,
        } = self;
        level.reset();
        sizes.reset();
        for tally in [try_grow, grow, releases, denied, anomalies] {
            tally.reset();
        }
        for time in [acquire_time, release_time] {
            time.reset();
        }
        for counter in [failed, try_grow_lost, grow_lost, zero_byte_calls] {
            counter.store(0, Relaxed);
        }
        for counter in panicked.iter().chain([releases_panicked]) {
            counter.store(0, Relaxed);
        }
    }
}
