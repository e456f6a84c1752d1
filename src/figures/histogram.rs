//! How long calls took.

use std::time::Duration;

/// Buckets an octave. A value is at most half a bucket from its middle: 6.25 %.
const PER_OCTAVE: u64 = 8;
const PER_OCTAVE_LOG2: u32 = PER_OCTAVE.ilog2();
/// The longest call that is told apart from longer ones: 2^43 ns, 2.4 hours.
const HIGHEST_OCTAVE: u32 = 42;
pub(crate) const BUCKETS: usize =
    (HIGHEST_OCTAVE - PER_OCTAVE_LOG2 + 2) as usize * PER_OCTAVE as usize;

/// The bucket of a duration. The first 8 are one nanosecond wide, and then there are 8 to each
/// doubling, so that every power of two begins a bucket.
pub(crate) const fn bucket_of(nanos: u64) -> usize {
    if nanos < PER_OCTAVE {
        return nanos as usize;
    }
    let octave = nanos.ilog2();
    if octave > HIGHEST_OCTAVE {
        return BUCKETS - 1;
    }
    let within = (nanos >> (octave - PER_OCTAVE_LOG2)) & (PER_OCTAVE - 1);
    ((octave - PER_OCTAVE_LOG2 + 1) as u64 * PER_OCTAVE + within) as usize
}

/// The first duration, in nanoseconds, that falls into the bucket.
const fn lowest_of(bucket: usize) -> u64 {
    let (octave, within) = (bucket as u64 / PER_OCTAVE, bucket as u64 % PER_OCTAVE);
    if octave == 0 {
        within
    } else {
        (PER_OCTAVE + within) << (octave - 1)
    }
}

/// The distribution of the time that calls of a pool took.
///
/// Quantiles are within 6.25 % of the recorded values, from 1 ns to 2.4 hours.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: Duration,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            total: Duration::ZERO,
            max: Duration::ZERO,
        }
    }
}

impl Histogram {
    pub(crate) fn new(counts: Vec<u64>, total: Duration, max: Duration) -> Self {
        debug_assert_eq!(counts.len(), BUCKETS);
        Self { counts, total, max }
    }

    /// Calls recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The duration that a share `q` of the calls did not exceed, `None` where nothing was
    /// recorded. `q` is clamped to 0.0..=1.0; at 1.0 it is the longest call, exactly.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let count = self.count();
        // 0.07 of 100 is 7, although 0.07 * 100.0 is a little more.
        let rank = (q.clamp(0.0, 1.0) * count as f64 * (1.0 - 2.0 * f64::EPSILON)).ceil() as u64;
        if rank == count {
            return self.max();
        }
        let mut seen = 0;
        let bucket = self.counts.iter().position(|&calls| {
            seen += calls;
            seen >= rank.max(1)
        })?;
        let middle = (lowest_of(bucket) + lowest_of(bucket + 1) - 1).div_ceil(2);
        Some(Duration::from_nanos(middle).min(self.max))
    }

    /// The longest call, exactly; `None` where nothing was recorded. In a difference of two
    /// snapshots it may be up to 12.5 % too high.
    pub fn max(&self) -> Option<Duration> {
        (self.count() > 0).then_some(self.max)
    }

    /// The mean, exactly; `None` where nothing was recorded.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        (count > 0)
            .then(|| Duration::from_nanos((self.total.as_nanos() / u128::from(count)) as u64))
    }

    /// Calls that took less than `bound`, or as long. Exact where the bound is one nanosecond
    /// less than a power of two nanoseconds; elsewhere the bucket that holds the bound counts
    /// whole, so that calls up to 12.5 % longer may be included.
    pub fn count_within(&self, bound: Duration) -> u64 {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        self.counts[..=bucket_of(nanos)].iter().sum()
    }

    pub(crate) fn subtract(&mut self, earlier: &Self) {
        for (now, then) in self.counts.iter_mut().zip(&earlier.counts) {
            *now = now.saturating_sub(*then);
        }
        self.total = self.total.saturating_sub(earlier.total);
        let longest = self.counts.iter().rposition(|&calls| calls > 0);
        let below = longest.map_or(0, |bucket| lowest_of(bucket + 1) - 1);
        self.max = self.max.min(Duration::from_nanos(below));
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("mean", &self.mean())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Histogram {
    /// Count, mean, quantiles and maximum, in nanoseconds; `null` where nothing was recorded.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let nanos = |d: Option<Duration>| d.map(|d| d.as_nanos() as u64);
        let mut s = serializer.serialize_struct("Histogram", 7)?;
        s.serialize_field("count", &self.count())?;
        s.serialize_field("mean_ns", &nanos(self.mean()))?;
        s.serialize_field("p50_ns", &nanos(self.quantile(0.5)))?;
        s.serialize_field("p90_ns", &nanos(self.quantile(0.9)))?;
        s.serialize_field("p99_ns", &nanos(self.quantile(0.99)))?;
        s.serialize_field("p999_ns", &nanos(self.quantile(0.999)))?;
        s.serialize_field("max_ns", &nanos(self.max()))?;
        s.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanos: &[u64]) -> Histogram {
        let mut counts = vec![0; BUCKETS];
        for &n in nanos {
            counts[bucket_of(n)] += 1;
        }
        let max = nanos.iter().max().copied().unwrap_or(0);
        Histogram::new(
            counts,
            Duration::from_nanos(nanos.iter().sum()),
            Duration::from_nanos(max),
        )
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for bucket in 0..BUCKETS {
            let lowest = lowest_of(bucket);
            assert_eq!(bucket_of(lowest), bucket);
            if bucket > 0 {
                assert_eq!(bucket_of(lowest - 1), bucket - 1);
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_a_tenth_of_the_recorded_values() {
        // Eleven decades, 1 to 9 in each.
        let values: Vec<u64> = (0..11)
            .flat_map(|decade| (1..10).map(move |digit| digit * 10_u64.pow(decade)))
            .collect();
        let histogram = of(&values);
        for (i, &value) in values.iter().enumerate() {
            let q = (i + 1) as f64 / values.len() as f64;
            let got = histogram.quantile(q).unwrap().as_nanos() as f64;
            assert!(
                (got / value as f64 - 1.0).abs() <= 0.0625,
                "{q}: {got} for {value}"
            );
        }
        assert_eq!(
            histogram.quantile(1.0),
            Some(Duration::from_nanos(90_000_000_000))
        );
        assert_eq!(histogram.count(), 99);
    }

    #[test]
    fn calls_within_a_power_of_two_are_counted_exactly() {
        let histogram = of(&[0, 1, 1023, 1024, 1025, 5000]);
        assert_eq!(histogram.count_within(Duration::from_nanos(1023)), 3);
        assert_eq!(histogram.count_within(Duration::from_nanos(4095)), 5);
        assert_eq!(histogram.count_within(Duration::MAX), 6);
    }

    #[test]
    fn of_nothing_there_is_nothing_to_say() {
        let empty = Histogram::default();
        assert_eq!(
            (empty.quantile(0.5), empty.max(), empty.mean()),
            (None, None, None)
        );
    }
}
