//! Bytes held now, and the most that were held at once.

use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Who lowers it synchronizes with who raised it before: what the one wrote first is seen by
/// whoever sees what the other writes after.
#[derive(Debug, Default)]
pub(crate) struct Level {
    reserved: AtomicU64,
    peak: AtomicU64,
}

/// A level at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelReading {
    pub(crate) reserved: u64,
    pub(crate) peak: u64,
}

impl Level {
    #[inline]
    pub(crate) fn raise(&self, bytes: u64) {
        let reserved = self.reserved.fetch_add(bytes, Release).wrapping_add(bytes);
        // Most calls set no peak, and a load is cheaper than a read-modify-write.
        if reserved > self.peak.load(Relaxed) {
            self.peak.fetch_max(reserved, Relaxed);
        }
    }

    /// Lowers by as much as is held, and gives the bytes that were not.
    #[inline]
    pub(crate) fn lower(&self, bytes: u64) -> u64 {
        let mut reserved = self.reserved.load(Relaxed);
        loop {
            let rest = reserved.saturating_sub(bytes);
            match self
                .reserved
                .compare_exchange_weak(reserved, rest, Acquire, Relaxed)
            {
                Ok(_) => return bytes.saturating_sub(reserved),
                Err(now) => reserved = now,
            }
        }
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Relaxed)
    }

    pub(crate) fn read(&self) -> LevelReading {
        let reserved = self.reserved();
        // A `raise` may be between its two steps. What was shown once has to stay shown.
        let peak = self.peak.fetch_max(reserved, Relaxed).max(reserved);
        LevelReading { reserved, peak }
    }

    pub(crate) fn reset(&self) {
        self.reserved.store(0, Relaxed);
        self.peak.store(0, Relaxed);
    }
}
