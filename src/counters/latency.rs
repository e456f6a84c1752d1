//! A histogram that any number of threads record into.

use crate::figures::{BUCKETS, bucket_of};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Copies that consumers are spread over, so that two of them seldom share a cache line.
const SHARDS: usize = 4;

#[derive(Debug)]
pub(crate) struct Latency {
    shards: [Box<[AtomicU64]>; SHARDS],
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| (0..BUCKETS).map(|_| AtomicU64::new(0)).collect()),
        }
    }
}

impl Latency {
    #[inline]
    pub(crate) fn record(&self, shard: usize, nanos: u64) {
        self.shards[shard % SHARDS][bucket_of(nanos)].fetch_add(1, Relaxed);
    }

    /// Calls in each bucket.
    pub(crate) fn read(&self) -> Vec<u64> {
        let mut counts = vec![0; BUCKETS];
        for shard in &self.shards {
            for (count, calls) in counts.iter_mut().zip(shard) {
                *count += calls.load(Relaxed);
            }
        }
        counts
    }
}
