//! Bytes held now, and the most that were held at once.

use crate::sync::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(crate) struct Level {
    reserved: AtomicU64,
    peak: AtomicU64,
}

impl Level {
    #[inline]
    pub(crate) fn raise(&self, bytes: u64) {
        let reserved = self.reserved.fetch_add(bytes, Relaxed).wrapping_add(bytes);
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
                .compare_exchange_weak(reserved, rest, Relaxed, Relaxed)
            {
                Ok(_) => return bytes.saturating_sub(reserved),
                Err(now) => reserved = now,
            }
        }
    }

    /// Undoes a [`lower`](Self::lower): the bytes never went, so that no peak is set.
    pub(crate) fn put_back(&self, bytes: u64) {
        self.reserved.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.reserved.store(0, Relaxed);
        self.peak.store(0, Relaxed);
    }
}
