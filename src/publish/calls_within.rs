//! How many calls took at most so long, as cumulative counters.

use crate::figures::Histogram;
use std::time::Duration;

/// Bounds are one nanosecond less than 2^7, 2^8 and so on to 2^33 ns, 127 ns to 8.6 s: at these,
/// and only at these, the crate's histograms count exactly.
const LOWEST_POWER: u32 = 7;
const HIGHEST_POWER: u32 = 33;
const BOUNDS: usize = (HIGHEST_POWER - LOWEST_POWER + 1) as usize;

/// Calls within each bound, then all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallsWithin([u64; BOUNDS + 1]);

impl CallsWithin {
    pub(super) fn of(histogram: &Histogram) -> Self {
        let mut calls = [histogram.count(); BOUNDS + 1];
        for (calls, bound) in calls.iter_mut().zip(bounds()) {
            *calls = histogram.count_within(bound);
        }
        Self(calls)
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, calls) in self.0.iter_mut().zip(other.0) {
            *sum += calls;
        }
    }

    /// With the value of the label `bound_seconds`.
    pub(super) fn iter(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let labels = bounds().map(seconds).chain(["+Inf".into()]);
        labels.zip(self.0)
    }
}

fn bounds() -> impl Iterator<Item = Duration> {
    (LOWEST_POWER..=HIGHEST_POWER).map(|power| Duration::from_nanos((1 << power) - 1))
}

fn seconds(bound: Duration) -> String {
    // An odd number of nanoseconds: no zeros at the end.
    format!("{}.{:09}", bound.as_secs(), bound.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_in_seconds() {
        let calls = CallsWithin::default();
        let bounds: Vec<_> = calls.iter().map(|(bound, _)| bound).collect();
        assert_eq!(bounds.len(), 28);
        assert_eq!(bounds[0], "0.000000127");
        assert_eq!(bounds[20], "0.134217727");
        assert_eq!(bounds[26], "8.589934591");
        assert_eq!(bounds[27], "+Inf");
    }
}
