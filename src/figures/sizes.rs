//! The most frequent request sizes.

use std::cmp::Reverse;

/// Distinct sizes that are told apart before counts become estimates. A size that makes up
/// more than one in this many calls is always listed.
pub(crate) const TRACKED_SIZES: usize = 16;

/// The most frequent sizes of requests, up to 16 of them.
///
/// The sizes are exact. Their counts are exact as long as no more than 16 distinct sizes were
/// seen; beyond that a count may be too high by at most its [`error`](RequestSize::error), and
/// is never too low. A size that makes up more than a tenth of the calls is always listed; in a
/// difference of two snapshots, more than a tenth of all calls up to the later one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RequestSizes {
    /// Most frequent first, of equally frequent ones the larger first.
    sizes: Vec<RequestSize>,
    /// No size that is not listed was asked for more often than this.
    unlisted_at_most: u64,
}

/// One size and how often it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RequestSize {
    /// The size, in bytes.
    pub bytes: u64,
    /// Calls that asked for it: at least `calls - error`, at most `calls`.
    pub calls: u64,
    /// By how much `calls` may be too high.
    pub error: u64,
}

impl RequestSizes {
    /// What a table of counts shows: `(bytes, calls, error)`.
    pub(crate) fn new(
        sizes: impl IntoIterator<Item = (u64, u64, u64)>,
        unlisted_at_most: u64,
    ) -> Self {
        let mut new = Self {
            sizes: sizes
                .into_iter()
                .map(|(bytes, calls, error)| RequestSize {
                    bytes,
                    calls,
                    error,
                })
                .collect(),
            unlisted_at_most,
        };
        new.sort_and_cut();
        new
    }

    /// The sizes, most frequent first, of equally frequent ones the larger first.
    pub fn iter(&self) -> impl Iterator<Item = RequestSize> + '_ {
        self.sizes.iter().copied()
    }

    /// The size asked for most often, `None` where nothing was asked for.
    pub fn most_frequent(&self) -> Option<RequestSize> {
        self.sizes.first().copied()
    }

    /// Calls that asked for exactly this many bytes; 0 where the size is not listed, which where
    /// [`is_exact`](Self::is_exact) means that nobody asked for it.
    pub fn calls_of(&self, bytes: usize) -> u64 {
        self.find(bytes as u64).map_or(0, |size| size.calls)
    }

    /// True where every size is listed and every count is exact.
    pub fn is_exact(&self) -> bool {
        self.unlisted_at_most == 0 && self.sizes.iter().all(|size| size.error == 0)
    }

    /// No size that is not listed was asked for more often than this.
    pub fn unlisted_at_most(&self) -> u64 {
        self.unlisted_at_most
    }

    fn find(&self, bytes: u64) -> Option<RequestSize> {
        self.iter().find(|size| size.bytes == bytes)
    }

    /// At least and at most this many calls asked for `bytes`.
    fn bounds(&self, bytes: u64) -> (u64, u64) {
        self.find(bytes).map_or((0, self.unlisted_at_most), |size| {
            (size.calls - size.error, size.calls)
        })
    }

    /// Every listed size of either, once.
    fn union(&self, other: &Self) -> Vec<u64> {
        let mut union: Vec<u64> = self
            .iter()
            .chain(other.iter())
            .map(|size| size.bytes)
            .collect();
        union.sort_unstable();
        union.dedup();
        union
    }

    /// Adds the counts of others, bounds to bounds.
    ///
    /// This is the merge of two Misra-Gries summaries, written with upper bounds: what is kept
    /// are the largest upper bounds, and the largest dropped one bounds what is not listed. So
    /// the bound stays at no more than a sixteenth of all calls, however many are merged.
    pub(crate) fn merge(&mut self, other: &Self) {
        let known = self.sizes.len();
        for size in &mut self.sizes {
            let (least, most) = other.bounds(size.bytes);
            size.calls += most;
            size.error += most - least;
        }
        for new in other.iter() {
            if !self.sizes[..known]
                .iter()
                .any(|size| size.bytes == new.bytes)
            {
                self.sizes.push(RequestSize {
                    bytes: new.bytes,
                    calls: new.calls + self.unlisted_at_most,
                    error: new.error + self.unlisted_at_most,
                });
            }
        }
        self.unlisted_at_most += other.unlisted_at_most;
        self.sort_and_cut();
    }

    /// Takes off what had been counted at an earlier time.
    pub(crate) fn subtract(&mut self, earlier: &Self) {
        let rest = self.union(earlier).into_iter().filter_map(|bytes| {
            let (now, then) = (self.bounds(bytes), earlier.bounds(bytes));
            let calls = now.1.saturating_sub(then.0);
            let least = now.0.saturating_sub(then.1);
            (calls > 0).then_some((bytes, calls, calls - least))
        });
        *self = Self::new(rest.collect::<Vec<_>>(), self.unlisted_at_most);
    }

    fn sort_and_cut(&mut self) {
        self.sizes
            .sort_unstable_by_key(|size| (Reverse(size.calls), Reverse(size.bytes)));
        if let Some(largest_dropped) = self.sizes.get(TRACKED_SIZES) {
            self.unlisted_at_most = self.unlisted_at_most.max(largest_dropped.calls);
            self.sizes.truncate(TRACKED_SIZES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(sizes: &[(u64, u64)]) -> RequestSizes {
        RequestSizes::new(sizes.iter().map(|&(bytes, calls)| (bytes, calls, 0)), 0)
    }

    #[test]
    fn few_sizes_merge_exactly() {
        let mut sizes = exact(&[(64, 3), (128, 5)]);
        sizes.merge(&exact(&[(64, 4), (1, 1)]));
        assert!(sizes.is_exact());
        let listed: Vec<_> = sizes.iter().map(|s| (s.bytes, s.calls)).collect();
        assert_eq!(listed, [(64, 7), (128, 5), (1, 1)]);
    }

    #[test]
    fn merging_keeps_what_is_frequent_and_bounds_the_rest() {
        // 40 summaries of 16 sizes that nobody shares, 1 call each, and one size in all of
        // them, 2 calls each: 80 of 680 calls, more than a tenth.
        let mut merged = RequestSizes::default();
        for part in 0..40 {
            let rare = (0..15).map(|i| (1_000 + part * 100 + i, 1));
            let part: Vec<_> = rare.chain([(7, 2)]).collect();
            merged.merge(&exact(&part));
        }
        let seven = merged.most_frequent().unwrap();
        assert_eq!(seven.bytes, 7);
        assert!(seven.calls - seven.error <= 80 && 80 <= seven.calls);
        assert!(merged.unlisted_at_most() <= 680 / 16);
    }

    #[test]
    fn a_difference_is_exact_where_both_are() {
        let mut later = exact(&[(64, 7), (128, 5), (1, 1)]);
        later.subtract(&exact(&[(64, 4), (128, 5)]));
        let listed: Vec<_> = later.iter().map(|s| (s.bytes, s.calls, s.error)).collect();
        assert_eq!(listed, [(64, 3, 0), (1, 1, 0)]);
    }

    #[test]
    fn a_difference_of_estimates_carries_both_errors() {
        let mut later = RequestSizes::new([(64, 10, 3)], 3);
        later.subtract(&RequestSizes::new([(64, 4, 1)], 1));
        // 64: between 7 and 10 by now, between 3 and 4 before.
        let listed: Vec<_> = later.iter().map(|s| (s.bytes, s.calls, s.error)).collect();
        assert_eq!(listed, [(64, 7, 4)]);
    }
}
