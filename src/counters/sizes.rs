//! The most frequent request sizes, counted without a lock.

use crate::figures::{RequestSizes, TRACKED_SIZES};
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Space-Saving over 16 slots: a size that has no slot takes over the least frequent one, with
/// its count, which is then by how much the new size's count may be too high.
///
/// Taking over is not atomic, so a call for the old size that is under way at that moment may
/// land on the new one. It notices, and adds itself to `strayed`, which widens every bound. As
/// long as no size is replaced, which is so for up to 16 distinct sizes, every count is exact.
#[derive(Debug, Default)]
pub(crate) struct SizeCounts {
    /// 0 is a free slot: calls of zero bytes are counted elsewhere. Slots fill in their order.
    bytes: [AtomicU64; TRACKED_SIZES],
    calls: [AtomicU64; TRACKED_SIZES],
    errors: [AtomicU64; TRACKED_SIZES],
    strayed: AtomicU64,
}

impl SizeCounts {
    #[inline]
    pub(crate) fn count(&self, bytes: u64) {
        // Frequent sizes come early, and their slots are the first.
        for (slot, tracked) in self.bytes.iter().enumerate() {
            let mut tracked = tracked.load(Relaxed);
            if tracked == 0 {
                tracked = match self.bytes[slot].compare_exchange(0, bytes, Relaxed, Relaxed) {
                    Ok(_) => bytes,
                    Err(other) => other,
                };
            }
            if tracked == bytes {
                return self.count_at(slot, bytes);
            }
        }
        self.replace(bytes);
    }

    /// The order of the two accesses is what makes [`replace`](Self::replace) sound: the count
    /// is taken over by a read-modify-write after the size was written. So either this call's
    /// comes before that one, and is in the new size's error; or after, and then this call
    /// synchronizes with it and sees the new size.
    #[inline]
    fn count_at(&self, slot: usize, bytes: u64) {
        self.calls[slot].fetch_add(1, AcqRel);
        if self.bytes[slot].load(Acquire) != bytes {
            self.strayed.fetch_add(1, Relaxed);
        }
    }

    #[cold]
    fn replace(&self, bytes: u64) {
        loop {
            let least = (0..TRACKED_SIZES)
                .min_by_key(|&slot| self.calls[slot].load(Relaxed))
                .unwrap_or(0);
            let old = self.bytes[least].load(Relaxed);
            if old == bytes {
                return self.count_at(least, bytes);
            }
            if self.bytes[least]
                .compare_exchange(old, bytes, AcqRel, Relaxed)
                .is_ok()
            {
                let taken_over = self.calls[least].fetch_add(1, AcqRel);
                // Counts only rise, so of two replacements the later one has the larger error,
                // whichever of them gets here first.
                self.errors[least].fetch_max(taken_over, AcqRel);
                if self.bytes[least].load(Acquire) != bytes {
                    self.strayed.fetch_add(1, Relaxed);
                }
                return;
            }
        }
    }

    pub(crate) fn read(&self) -> RequestSizes {
        let strayed = self.strayed.load(Relaxed);
        let mut least = u64::MAX;
        let mut estimated = strayed > 0;
        let mut sizes: Vec<(u64, u64, u64)> = Vec::with_capacity(TRACKED_SIZES);
        for slot in 0..TRACKED_SIZES {
            let error = self.errors[slot].load(Acquire);
            let bytes = self.bytes[slot].load(Acquire);
            let calls = self.calls[slot].load(Acquire);
            estimated |= error > 0;
            least = least.min(calls);
            // Two threads may each have made room for the same size.
            match sizes.iter_mut().find(|size| size.0 == bytes) {
                Some(size) => (size.1, size.2) = (size.1 + calls, size.2 + error),
                // A slot that was just taken has no calls yet.
                None if bytes > 0 && calls > 0 => sizes.push((bytes, calls, error)),
                None => {}
            }
        }
        let sizes = sizes.into_iter().map(|(bytes, calls, error)| {
            let calls = calls + strayed;
            (bytes, calls, (error + 2 * strayed).min(calls))
        });
        RequestSizes::new(sizes, if estimated { least + strayed } else { 0 })
    }

    pub(crate) fn reset(&self) {
        for atomic in [&self.bytes, &self.calls, &self.errors]
            .into_iter()
            .flatten()
        {
            atomic.store(0, Relaxed);
        }
        self.strayed.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// A repeatable sequence that needs no crate: Knuth's linear congruential generator.
    fn random(seed: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(seed), |x| {
            Some(
                x.wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407),
            )
        })
        .map(|x| x >> 33)
    }

    fn counted(calls: impl IntoIterator<Item = u64>) -> (SizeCounts, HashMap<u64, u64>) {
        let (counts, mut truth) = (SizeCounts::default(), HashMap::new());
        for bytes in calls {
            counts.count(bytes);
            *truth.entry(bytes).or_insert(0) += 1;
        }
        (counts, truth)
    }

    #[test]
    fn up_to_16_sizes_are_counted_exactly() {
        let (counts, truth) = counted(random(1).take(10_000).map(|x| 1 + x % 16));
        let read = counts.read();
        assert!(read.is_exact());
        assert_eq!(read.iter().count(), 16);
        for size in read.iter() {
            assert_eq!(size.calls, truth[&size.bytes], "{size:?}");
        }
    }

    #[test]
    fn beyond_that_the_true_count_is_within_the_error() {
        for seed in 0..20 {
            // One size has a ninth of the calls, and comes late at that.
            let calls = random(seed).take(9_000).enumerate().map(|(i, x)| {
                if i > 1_000 && x % 8 == 0 {
                    77
                } else {
                    1_000 + x % 500
                }
            });
            let (counts, truth) = counted(calls);
            let read = counts.read();
            assert!(!read.is_exact());
            assert!(read.calls_of(77) > 0, "{read:?}");
            for size in read.iter() {
                let true_calls = truth[&size.bytes];
                assert!(size.calls - size.error <= true_calls && true_calls <= size.calls);
            }
            for (bytes, calls) in truth {
                if read.calls_of(bytes as usize) == 0 {
                    assert!(calls <= read.unlisted_at_most(), "{bytes}");
                }
            }
        }
    }

    #[test]
    fn threads_that_share_16_sizes_lose_no_call() {
        let counts = SizeCounts::default();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let counts = &counts;
                scope.spawn(move || {
                    for x in random(thread).take(20_000) {
                        counts.count(1 + x % 16);
                    }
                });
            }
        });
        let read = counts.read();
        assert!(read.is_exact());
        assert_eq!(read.iter().map(|size| size.calls).sum::<u64>(), 160_000);
    }
}
